// What an operator asks a daemon: its audit log, its quotas, and whether captures are allowed.
#include <algorithm>

#include "cli/client/daemon_client_impl.h"
#include "daemon/base/status_macros.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::cli {
namespace {

AuditLine AuditLineOf(const v1::AuditEntry& message) {
  return {.time = rpc::TimeOf(message.time()),
          .principal = message.principal(),
          .peer = message.peer(),
          .method = message.method(),
          .resource = message.resource(),
          .outcome = message.outcome(),
          .reason = message.reason(),
          .duration_ns = message.duration_ns(),
          .bytes = message.bytes(),
          .repeat_count = message.repeat_count(),
          .last_time = rpc::TimeOf(message.last_time())};
}

QuotaView::Unit QuotaUnitOf(v1::Quotas::Unit unit) {
  switch (unit) {
    case v1::Quotas::BYTES:
      return QuotaView::Unit::kBytes;
    case v1::Quotas::MILLISECONDS:
      return QuotaView::Unit::kMilliseconds;
    default:
      return QuotaView::Unit::kCount;
  }
}

QuotaView QuotaViewOf(const v1::Quotas::Resource& message) {
  QuotaView view{.name = message.name(),
                 .unit = QuotaUnitOf(message.unit()),
                 .used = message.used(),
                 .capacity = message.capacity(),
                 .reserve = message.reserve(),
                 .per_principal = message.per_principal(),
                 .refused_count = message.refused_count(),
                 .holdings = {}};
  for (const v1::Quotas::Holding& holding : message.holdings()) {
    view.holdings.push_back({.principal = holding.principal(),
                             .used = holding.used(),
                             .share = holding.share(),
                             .active = holding.active()});
  }
  return view;
}

}  // namespace

absl::StatusOr<std::vector<QuotaView>> DaemonClient::GetQuotas() {
  ASSIGN_OR_RETURN(const v1::Quotas quotas,
                   impl_->Unary(*impl_->nodes_, &v1::NodeService::Stub::GetQuotas,
                                v1::GetQuotasRequest(), kCallDeadline));
  std::vector<QuotaView> views;
  for (const v1::Quotas::Resource& resource : quotas.resources()) {
    views.push_back(QuotaViewOf(resource));
  }
  return views;
}

absl::StatusOr<std::vector<AuditLine>> DaemonClient::ListAudit(const AuditQuery& query,
                                                               int64_t limit) {
  v1::ListAuditRequest request;
  request.set_principal(query.principal);
  request.set_verb(query.method);
  request.set_refused_only(query.refused_only);
  if (query.since > absl::InfinitePast()) rpc::TimeToProto(query.since, *request.mutable_since());
  std::vector<AuditLine> lines;
  request.set_page_size(Impl::PageSizeFor(limit));
  RETURN_IF_ERROR(impl_->ForEachRow(
      *impl_->nodes_, &v1::NodeService::Stub::ListAudit, std::move(request), kCallDeadline, limit,
      [](const auto& response) -> const auto& { return response.entries(); },
      [&](const v1::AuditEntry& entry) -> absl::StatusOr<bool> {
        lines.push_back(AuditLineOf(entry));
        return true;
      }));
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
