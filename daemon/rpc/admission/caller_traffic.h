// What callers may send, counted before gRPC sees it. gRPC 1.51 spends memory on a call even if the
// caller resets it at once, and on every frame that it answers (CVE-2023-44487 "rapid reset",
// settings and ping floods); no limit of its own bounds that.
//
// Each caller has one budget for all its connections: a bucket per kind that fills all the time. A
// connection that takes more than there is ends. profctl never comes near.
//
// | Kind | Per second | At once |
// | --- | --- | --- |
// | new connections (control.sock; TcpListener has a rate of its own) | 200 | 400 |
// | calls begun (HEADERS); more than the limit of calls (Admission) | 2,500 | 12,000 |
// | resets of calls (RST_STREAM) | 500 | 1,000 |
// | SETTINGS, PING, CONTINUATION, ... | 500 | 1,000 |
// | DATA of less than 256 bytes | 5,000 | 24,000 |
//
// Messages that have begun and not ended stay in gRPC's memory: a caller may have
// kMaxUnfinishedBytes of them. All callers together may have kManyUnfinishedBytes; above that, the
// connections of callers that have more than kFewUnfinishedBytes end as they send more. At gRPC's
// own limit of memory, 64 MiB of each server, it ends connections that it chooses.
//
// A connection may begin kMaxCallsBeforeSettings calls before it acknowledges gRPC's SETTINGS:
// until then gRPC does not hold it to the limit of streams per connection.
//
// | Callers by | Are | Bytes come from |
// | --- | --- | --- |
// | control.sock | uids | receive_hook.h |
// | mutual TLS | the names in a certificate | tls_receive_hook.h |
// | plaintext-listen | one, all together | receive_hook.h |
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_
#define PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/passed_files.h"
#include "daemon/rpc/admission/http2_frames.h"
#include "daemon/rpc/admission/receive_hook.h"

namespace profd::rpc {

class CallerTraffic {
 public:
  static constexpr int64_t kMaxCallsBeforeSettings = 64;
  static constexpr size_t kMaxBudgets = 4096;
  static constexpr size_t kMaxUnfinishedMessages = 256;  // Of one connection.
  static constexpr int64_t kMaxUnfinishedBytes = 16 << 20;
  static constexpr int64_t kManyUnfinishedBytes = 40 << 20;
  static constexpr int64_t kFewUnfinishedBytes = 2 << 20;

  explicit CallerTraffic(Clock& clock = Clock::Real()) : clock_(clock) {}

  // Takes `counts` from the budget of `caller`, any text that tells it from others. Returns the
  // limit that is exceeded, for people, or nullopt.
  std::optional<std::string> Take(const std::string& caller, const FrameCounts& counts);
  std::optional<std::string> TakeConnection(const std::string& caller);

  // `caller` has so many more bytes of unfinished messages, or fewer. Returns as Take() does.
  std::optional<std::string> AddUnfinished(const std::string& caller, int64_t bytes);

  // A connection ends. `connection`: which, and whose, for people.
  void NoteEnd(std::string_view connection, std::string_view why);
  size_t budget_count() const;
  int64_t unfinished_bytes() const;
  int64_t ended_count() const { return ended_count_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kKinds = 5;
  struct Budget {
    std::array<double, kKinds> tokens;
    absl::Duration filled;
  };

  std::optional<std::string> TakeAmounts(const std::string& caller,
                                         const std::array<int64_t, kKinds>& amounts);
  // Whether there is room then. Looks once in a second.
  bool ForgetTheQuiet(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  RateLimiter log_limiter_{absl::Seconds(1)};
  std::atomic<int64_t> ended_count_{0};
  mutable absl::Mutex mu_;
  absl::Duration next_look_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Budget> budgets_ ABSL_GUARDED_BY(mu_);
  // Bytes of the callers that have some.
  std::map<std::string, int64_t> unfinished_ ABSL_GUARDED_BY(mu_);
  int64_t all_unfinished_ ABSL_GUARDED_BY(mu_) = 0;
};

// CallerMeter holds one connection to the budget of its caller. gRPC's threads may use it after its
// listener is gone, so it shares what it needs.
class CallerMeter final : public ReceiveObserver {
 public:
  // `connection` as in CallerTraffic::NoteEnd(). `closer`: for what a local caller may pass;
  // nullptr: nothing can be passed.
  CallerMeter(std::shared_ptr<CallerTraffic> traffic, std::string caller, std::string connection,
              std::shared_ptr<ForeignCloser> closer = nullptr)
      : traffic_(std::move(traffic)),
        caller_(std::move(caller)),
        connection_(std::move(connection)),
        closer_(std::move(closer)) {}
  ~CallerMeter() override;
  CallerMeter(const CallerMeter&) = delete;
  CallerMeter& operator=(const CallerMeter&) = delete;

  // The connection has ended: what it had of the budget of unfinished messages is given back, and
  // later bytes are not counted. The observer may stay for longer than the connection.
  void End();

  bool OnReceived(std::span<const std::byte> bytes) override;
  void OnFiles(std::vector<UniqueFd> files) override;

 private:
  // What of this connection exceeds a limit, with `counts`, which came now; nullopt: nothing.
  std::optional<std::string> Judge(const FrameCounts& counts, int64_t& more_unfinished)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::shared_ptr<CallerTraffic> traffic_;
  const std::string caller_;
  const std::string connection_;
  const std::shared_ptr<ForeignCloser> closer_;

  absl::Mutex mu_;  // Reads of one connection follow each other, on changing threads.
  FrameScanner scanner_ ABSL_GUARDED_BY(mu_);
  int64_t calls_before_settings_ ABSL_GUARDED_BY(mu_) = 0;
  bool settings_acknowledged_ ABSL_GUARDED_BY(mu_) = false;
  int64_t unfinished_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // As reported to traffic_.
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_
