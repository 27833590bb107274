// What the callers of the control socket may send, by uid, counted before gRPC sees it. gRPC 1.51
// spends memory on a call even if the caller resets it at once, and on every frame that it answers
// (CVE-2023-44487 "rapid reset", settings and ping floods); no limit of its own bounds that.
//
// Each uid has one budget for all its connections: a bucket per kind that fills all the time. A
// connection that takes more than there is ends. profctl never comes near.
//
//   kind                               per second    at once
//   new connections                           200        400
//   calls begun (HEADERS)                   2,500     12,000   more than the limit of calls
//   (Admission) resets (RST_STREAM)                       500      1,000 SETTINGS, PING,
//   CONTINUATION, ...         500      1,000 DATA of less than 256 bytes             5,000 24,000
//
// A connection may begin kMaxCallsBeforeSettings calls before it acknowledges gRPC's SETTINGS:
// until then gRPC does not hold it to the limit of streams per connection.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_
#define PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

  explicit CallerTraffic(Clock& clock = Clock::Real()) : clock_(clock) {}

  // Takes `counts` from the budget of `uid`. Returns the limit that is exceeded, for people, or
  // nullopt.
  std::optional<std::string> Take(int64_t uid, const FrameCounts& counts);
  std::optional<std::string> TakeConnection(int64_t uid);

  void LogEnd(int64_t uid, int64_t pid, std::string_view why);

 private:
  static constexpr size_t kKinds = 5;
  struct Budget {
    std::array<double, kKinds> tokens;
    absl::Duration filled;
  };

  std::optional<std::string> TakeAmounts(int64_t uid, const std::array<int64_t, kKinds>& amounts);
  void ForgetTheQuiet(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Clock& clock_;
  RateLimiter log_limiter_{absl::Seconds(1)};
  absl::Mutex mu_;
  std::map<int64_t, Budget> budgets_ ABSL_GUARDED_BY(mu_);
};

// CallerMeter holds one connection of the control socket to the budget of its uid. gRPC's threads
// may use it after its listener is gone, so it shares what it needs.
class CallerMeter final : public ReceiveObserver {
 public:
  CallerMeter(std::shared_ptr<CallerTraffic> traffic, std::shared_ptr<ForeignCloser> closer,
              int64_t uid, int64_t pid)
      : traffic_(std::move(traffic)), closer_(std::move(closer)), uid_(uid), pid_(pid) {}

  bool OnReceived(std::span<const std::byte> bytes) override;
  void OnFiles(std::vector<UniqueFd> files) override;

 private:
  const std::shared_ptr<CallerTraffic> traffic_;
  const std::shared_ptr<ForeignCloser> closer_;
  const int64_t uid_;
  const int64_t pid_;

  absl::Mutex mu_;  // Reads of one connection follow each other, on changing threads.
  FrameScanner scanner_ ABSL_GUARDED_BY(mu_);
  int64_t calls_before_settings_ ABSL_GUARDED_BY(mu_) = 0;
  bool settings_acknowledged_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_CALLER_TRAFFIC_H_
