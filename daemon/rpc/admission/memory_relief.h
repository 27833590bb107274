// MemoryRelief closes connections of remote callers while profd uses more memory than it should.
// How many frames they send is bounded elsewhere (caller_traffic.h), but not how many bytes of
// messages that never end: gRPC's own quota of memory is exceeded many times by them. So above the
// mark, the connection that received most in the last 10 to 20 s ends, then the next one, until
// memory is below the mark. gRPC gives the memory of closed connections back late. Meanwhile the
// largest may be a new caller that has hardly sent anything: connections of less than kSmallBytes
// stay, unless many of them add up.
//
//   gRPC reads ─► ReceivedMeter (bytes per connection) ─► is memory above the mark?
//                                                           └─ wakes the accept thread, which
//                                                              closes the largest (TcpListener)
//
// Where that is not enough, and memory is a quarter above the mark, each connection that is not
// small ends as soon as gRPC reads from it, before gRPC has the bytes; half above the mark, small
// ones do, too, if many of them add up.
//
// Threads:   any. A meter's reads follow each other.
// Ownership: shared by the meters, which live as long as gRPC may read.
#ifndef PROFD_DAEMON_RPC_ADMISSION_MEMORY_RELIEF_H_
#define PROFD_DAEMON_RPC_ADMISSION_MEMORY_RELIEF_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/rpc/admission/receive_hook.h"

namespace profd::rpc {

// Memory of this process that is backed by no file and shared with nobody.
int64_t PrivateMemoryBytes();

// The bytes of the current window and of the one before. Threads: any; what several add at the edge
// of a window may be counted in either.
class RecentBytes {
 public:
  void Add(int64_t bytes, int64_t window);
  int64_t Get(int64_t window) const;

 private:
  std::atomic<int64_t> window_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> earlier_bytes_{0};
};

class MemoryRelief {
 public:
  // How often memory is measured, at most; above the mark, more often.
  static constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
  static constexpr absl::Duration kUrgentLookInterval = absl::Milliseconds(1);
  static constexpr absl::Duration kCloseInterval = absl::Milliseconds(20);
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // A handshake with certificates and a call need 3 to 6 KB.
  static constexpr int64_t kSmallBytes = 16 << 10;
  static constexpr int64_t kManySmallBytes = 1 << 20;  // Of all connections together.

  struct Options {
    int64_t mark_bytes = 0;  // 0: nothing is ever closed.
    std::function<int64_t()> used_bytes = PrivateMemoryBytes;
  };

  explicit MemoryRelief(Options options, Clock& clock = Clock::Real())
      : options_(std::move(options)), clock_(clock) {}

  // What to call, on any thread, when a connection should be closed; nullptr: nothing any more.
  void SetWake(std::function<void()> wake);

  // Bytes were received: looks at memory now and then, and wakes.
  void OnReceived(int64_t bytes);

  // Whether nothing is to be taken from a connection that received so much recently. As of the last
  // look.
  bool IsTooMuch(int64_t recent_bytes) const;

  // Whether a connection is to be closed now. Gives free memory back to the system first: freed
  // and used memory look the same otherwise.
  bool IsNeeded();
  // One was.
  void NoteClosed();

  int64_t mark_bytes() const { return options_.mark_bytes; }
  int64_t closed_count() const { return closed_count_.load(std::memory_order_relaxed); }
  int64_t window() const;  // The number of the current kWindow.

 private:
  int64_t NowNs() const { return absl::ToInt64Nanoseconds(clock_.Monotonic()); }
  bool IsAboveMark() const { return options_.used_bytes() > options_.mark_bytes; }

  const Options options_;
  Clock& clock_;
  RecentBytes received_;
  std::atomic<int64_t> next_look_ns_{0};
  std::atomic<int64_t> next_close_ns_{0};
  std::atomic<int64_t> last_used_bytes_{0};
  std::atomic<int64_t> closed_count_{0};
  absl::Mutex mu_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mu_);
};

// Counts what one connection receives, and shows it to `next`, unless that is nullptr.
class ReceivedMeter final : public ReceiveObserver {
 public:
  explicit ReceivedMeter(std::shared_ptr<MemoryRelief> relief,
                         std::shared_ptr<ReceiveObserver> next = nullptr)
      : relief_(std::move(relief)), next_(std::move(next)) {}

  bool OnReceived(std::span<const std::byte> bytes) override;
  void OnFiles(std::vector<UniqueFd> /*files*/) override {}  // There are none over TCP.

  // In the current window and the one before.
  int64_t recent_bytes() const { return received_.Get(relief_->window()); }
  // Whether OnReceived() ended it for want of memory.
  bool has_ended() const { return has_ended_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<MemoryRelief> relief_;
  const std::shared_ptr<ReceiveObserver> next_;
  RecentBytes received_;
  std::atomic<bool> has_ended_{false};
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_MEMORY_RELIEF_H_
