#include "daemon/rpc/audit.h"

#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/rpc/names.h"

namespace profd::rpc {
namespace {

constexpr size_t kMaxResourceBytes = 128;

}  // namespace

AuditScope::AuditScope(store::CaptureStore& store, Clock& clock, const Caller& caller,
                       std::string_view verb, std::string_view untrusted_resource)
    : store_(store),
      entry_{.time = clock.Now(),
             .uid = caller.uid,
             .verb = std::string(verb),
             .resource = ForDisplay(untrusted_resource, kMaxResourceBytes),
             .outcome = {}} {}

absl::StatusOr<CaptureRecord> AuditScope::Outcome(absl::StatusOr<CaptureRecord> result) {
  if (result.ok()) entry_.resource = CaptureName(result->id);
  Write(result.status());
  return result;
}

absl::StatusOr<std::vector<CaptureRecord>> AuditScope::Outcome(
    absl::StatusOr<std::vector<CaptureRecord>> result) {
  if (result.ok() && !result->empty()) entry_.resource = GroupName(result->front().group_id);
  Write(result.status());
  return result;
}

void AuditScope::Write(const absl::Status& status) {
  static RateLimiter failures(absl::Minutes(1));
  entry_.outcome = absl::StatusCodeToString(status.code());
  const absl::Status written = store_.AppendAudit(entry_);
  if (written.ok()) return;
  if (const auto n = failures.Allow()) {
    LogError(StrCat("the audit log cannot be written: ", FromAbsl(written.message()), " (", *n,
                    " more)"));
  }
}

}  // namespace profd::rpc
