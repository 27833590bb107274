// AuditScope writes one line of the audit log: who did what to which resource, and how it
// went. Failing to write it is logged, and does not undo what was done.
//
// Threads: one each; waits for the disk.
#ifndef PROFD_DAEMON_RPC_AUDIT_H_
#define PROFD_DAEMON_RPC_AUDIT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/base/clock.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/store/capture_store.h"

namespace profd::rpc {

class AuditScope {
 public:
  // `verb` is the RPC's name; `untrusted_resource` what the caller named.
  AuditScope(store::CaptureStore& store, Clock& clock, const Caller& caller, std::string_view verb,
             std::string_view untrusted_resource);

  // Writes the line; gives back what it was given. If that is a capture, the line names it.
  absl::StatusOr<CaptureRecord> Outcome(absl::StatusOr<CaptureRecord> result);
  absl::StatusOr<std::vector<CaptureRecord>> Outcome(
      absl::StatusOr<std::vector<CaptureRecord>> result);

 private:
  void Write(const absl::Status& status);

  store::CaptureStore& store_;
  store::AuditEntry entry_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_AUDIT_H_
