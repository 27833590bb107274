// HelperReader asks profd-helper what this process may not see itself.
//
// Threads: any; one request at a time.
// Errors:  A helper that has ended or does not answer within kPatience is logged. Then Read() falls
//          back to what this process can see: peers of other users have unknown namespaces, and
//          are treated as outside of ours. That refuses, it never allows.
#ifndef PROFD_DAEMON_PRIVILEGE_HELPER_READER_H_
#define PROFD_DAEMON_PRIVILEGE_HELPER_READER_H_

#include <cstdint>
#include <filesystem>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/privilege/helper_protocol.h"
#include "daemon/privilege/process_reader.h"

namespace profd {

class HelperReader final : public ProcessReader {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(3);

  // `connection` was made together with the helper; it cannot be made again.
  explicit HelperReader(UniqueFd connection, Clock& clock = Clock::Real());
  // Connects to the socket of the helper's unit, at the first request and after each loss. The
  // listener must be root.
  explicit HelperReader(std::filesystem::path socket, Clock& clock = Clock::Real());

  absl::StatusOr<std::unique_ptr<ProcFacts>> Read(int pidfd) override;

 private:
  absl::StatusOr<std::unique_ptr<HelperAnswer>> Ask(int pidfd);
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::unique_ptr<HelperAnswer>> AskOnce(const HelperRequest& request, int pidfd)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<std::unique_ptr<HelperAnswer>> Receive(uint64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::filesystem::path socket_;  // Empty: not to be connected again.
  Clock& clock_;
  RateLimiter log_limiter_;

  absl::Mutex mu_;
  UniqueFd connection_ ABSL_GUARDED_BY(mu_);
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  // After a loss, no caller waits for the helper until then.
  absl::Duration next_try_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
};

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_HELPER_READER_H_
