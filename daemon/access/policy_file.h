// PolicyFile keeps the rules of the policy file as they stand now. It hears of changes by
// itself, also of a file that was renamed or linked into its place (a ConfigMap), and takes a new
// text only whole and right: until then the last good rules hold, and state() says what is wrong.
// Changes in its folder are heard of at once. Where the folder itself is replaced, or the file is a
// link to one elsewhere, they are seen at the next look.
//
// Threads:  any. One thread of its own ("profd-policy") sleeps until the folder changes or the next
//           look is due.
// Shutdown: the destructor ends the thread.
#ifndef PROFD_DAEMON_ACCESS_POLICY_FILE_H_
#define PROFD_DAEMON_ACCESS_POLICY_FILE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/access/policy.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"

namespace profd::access {

class PolicyFile {
 public:
  struct State {
    std::filesystem::path path;
    int64_t rule_count = 0;
    absl::Time loaded_time;  // When the rules that hold were read.
    std::string error;       // Why the file as it is now was not taken; empty: it was.
  };

  static constexpr absl::Duration kLookInterval = absl::Seconds(5);

  // INVALID_ARGUMENT, NOT_FOUND: there is nothing yet to fall back to. PERMISSION_DENIED: others
  // than root and profd's own user may write it.
  static absl::StatusOr<std::unique_ptr<PolicyFile>> Open(
      std::filesystem::path path, Clock& clock, absl::Duration look_interval = kLookInterval);
  ~PolicyFile();
  PolicyFile(const PolicyFile&) = delete;
  PolicyFile& operator=(const PolicyFile&) = delete;

  std::shared_ptr<const AccessRules> rules() const;
  State state() const;
  // Reads the file now. The result is in the log and in state().
  void Reload() ABSL_LOCKS_EXCLUDED(reload_mu_);

 private:
  PolicyFile(std::filesystem::path path, Clock& clock, absl::Duration look_interval, Policy policy,
             std::string text, UniqueFd watch, UniqueFd stop_event);
  // Reloads if the file is not as it was read last.
  void LookAgain() ABSL_LOCKS_EXCLUDED(reload_mu_);
  void Loop();

  const std::filesystem::path path_;
  Clock& clock_;
  const absl::Duration look_interval_;
  const UniqueFd watch_;  // inotify, of the folder.
  const UniqueFd stop_event_;
  // Held from reading the file until its rules hold: otherwise, of two threads that reload, the one
  // that read the older text could be the last to set the rules. Taken before mu_.
  absl::Mutex reload_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  mutable absl::Mutex mu_;
  Policy policy_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_);
  std::string text_ ABSL_GUARDED_BY(mu_);  // That was read last, good or not.
  std::jthread thread_;
};

}  // namespace profd::access

#endif  // PROFD_DAEMON_ACCESS_POLICY_FILE_H_
