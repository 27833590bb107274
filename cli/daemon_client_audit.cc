// What an operator asks a daemon: its audit log, and whether captures are allowed.
#include <algorithm>

#include "cli/daemon_client_impl.h"
#include "cli/from_proto.h"
#include "daemon/base/status_macros.h"

namespace profd::cli {
namespace {

AuditLine FromProto(const v1::AuditEntry& message) {
  return {.time = absl::FromUnixNanos(message.time().seconds() * 1'000'000'000 +
                                      message.time().nanos()),
          .principal = message.principal(),
          .peer = message.peer(),
          .method = message.method(),
          .resource = message.resource(),
          .outcome = message.outcome(),
          .reason = message.reason(),
          .duration_ns = message.duration_ns(),
          .bytes = message.bytes()};
}

}  // namespace

absl::StatusOr<std::vector<AuditLine>> DaemonClient::ListAudit(const AuditQuery& query,
                                                               int64_t limit) {
  v1::ListAuditRequest request;
  request.set_principal(query.principal);
  request.set_verb(query.method);
  request.set_refused_only(query.refused_only);
  if (query.since > absl::InfinitePast()) {
    const int64_t unix_ns = absl::ToUnixNanos(query.since);
    request.mutable_since()->set_seconds(unix_ns / 1'000'000'000);
    request.mutable_since()->set_nanos(static_cast<int32_t>(unix_ns % 1'000'000'000));
  }
  std::vector<AuditLine> lines;
  do {
    const int64_t wanted = limit == 0 ? kListPageSize : limit - std::ssize(lines);
    request.set_page_size(static_cast<int32_t>(std::min<int64_t>(wanted, kListPageSize)));
    ASSIGN_OR_RETURN(
        const v1::ListAuditResponse response,
        impl_->Unary(*impl_->nodes_, &v1::NodeService::Stub::ListAudit, request, kCallDeadline));
    for (const v1::AuditEntry& entry : response.entries()) lines.push_back(FromProto(entry));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() && (limit == 0 || std::ssize(lines) < limit));
  return lines;
}

absl::Status DaemonClient::SetCapturesAllowed(bool allowed, const std::string& reason) {
  v1::SetCapturesAllowedRequest request;
  request.set_allowed(allowed);
  request.set_reason(reason);
  return impl_
      ->Unary(*impl_->nodes_, &v1::NodeService::Stub::SetCapturesAllowed, request, kCallDeadline,
              /*abortable=*/false)
      .status();
}

}  // namespace profd::cli
