#include "daemon/rpc/services/capture_report.h"

#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/quota/ledger.h"

namespace profd::rpc {
namespace {

// What a caller can do about a report that this node does not make.
absl::Status WithRemedy(const absl::Status& status, std::string_view id) {
  const std::string reason = ReasonOf(status);
  if (reason != worker::kTooLarge && reason != worker::kTooLong && reason != worker::kCrowded) {
    return status;
  }
  return WithReason(
      absl::Status(status.code(), StrCat(FromAbsl(status.message()),
                                         "; fetch the capture and run the report on the file: "
                                         "profctl fetch ",
                                         id)),
      reason);
}

}  // namespace

absl::Status StillWanted(const Admission& admission, const CallInfo& info) {
  if (info.cancelled->load(std::memory_order_acquire)) {
    return absl::CancelledError("the caller went away");
  }
  return admission.closed() ? admission.TurnedAway() : absl::OkStatus();
}

absl::Status RunCharged(const ServiceParts& parts, const CallInfo& info,
                        const worker::ReportRequest& request,
                        absl::FunctionRef<absl::Status()> still_wanted, worker::ReportTurn& turn,
                        worker::ReportSink& sink) {
  constexpr auto kResource = quota::Resource::kReportMilliseconds;
  RETURN_IF_ERROR(parts.ledger.Check(info.holder, kResource, 1));
  const absl::Duration before = turn.used();
  absl::Status status = turn.Run(request, still_wanted, sink);
  // Rounded up, so that many small reports are not free.
  const absl::Duration used = absl::Ceil(turn.used() - before, absl::Milliseconds(1));
  parts.ledger.Charge(info.holder, kResource, absl::ToInt64Milliseconds(used));
  return status;
}

absl::Status ReportOnCapture(const ServiceParts& parts, const CallInfo& info,
                             const CaptureRecord& capture, std::string_view table,
                             std::string options, absl::FunctionRef<absl::Status()> still_wanted,
                             worker::ReportTurn& turn, worker::ReportSink& sink) {
  ASSIGN_OR_RETURN(const store::CaptureDownload file, parts.store.OpenForDownload(capture.id));
  const worker::ReportRequest request = {
      .table = std::string(table), .options = std::move(options), .capture = file.file.get()};
  return WithRemedy(RunCharged(parts, info, request, still_wanted, turn, sink), capture.id);
}

}  // namespace profd::rpc
