#include "daemon/rpc/services/import_capture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/names.h"
#include "daemon/rpc/services/capture_report.h"
#include "daemon/rpc/services/capture_watch.h"

namespace profd::rpc {
namespace {

constexpr size_t kSha256HexDigits = 64;

bool IsSha256(std::string_view text) {
  return text.size() == kSha256HexDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The number of events, which profd-report sends as text.
class CountSink final : public worker::ReportSink {
 public:
  bool AwaitReady(absl::Duration /*timeout*/) override { return true; }
  absl::Status Append(std::string_view bytes) override {
    text_.append(bytes.substr(0, kMaxDigits));
    return text_.size() <= kMaxDigits ? absl::OkStatus() : Bad();
  }
  absl::StatusOr<int64_t> Take() const {
    int64_t count = 0;
    if (!absl::SimpleAtoi(text_, &count) || count < 0) return Bad();
    return count;
  }

 private:
  static constexpr size_t kMaxDigits = 20;
  static absl::Status Bad() { return absl::InternalError("the check gave no number of events"); }
  std::string text_;
};

// What the report pool says of a check that did not come to its end.
absl::Status ImportError(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason != worker::kTooLarge && reason != worker::kTooLong && reason != worker::kCrowded) {
    return status;
  }
  return WithReason(
      absl::Status(status.code(),
                   StrCat("the capture cannot be checked: ", FromAbsl(status.message()),
                          "; use the file itself, it works in every command")),
      reason);
}

}  // namespace

absl::Status ImportCapture::Take(const v1::ImportCaptureRequest& message) {
  if (incoming_ == nullptr) RETURN_IF_ERROR(Begin(message));
  RETURN_IF_ERROR(CheckSpeed());
  if (message.data().size() > kMaxImportPieceBytes) {
    return absl::InvalidArgumentError(StrCat("data: at most ", kMaxImportPieceBytes, " bytes"));
  }
  absl::Status status = incoming_->Append(message.data());
  if (absl::IsOutOfRange(status)) return absl::DataLossError(status.message());
  return status;
}

absl::Status ImportCapture::Begin(const v1::ImportCaptureRequest& first) {
  // What is imported is the caller's own, whatever the trace says it is of.
  if (!info_.caller.May(Verb::kCapture, {.uid = info_.caller.uid})) {
    return NotAllowed(info_.caller, Verb::kCapture, "what is its own on this node");
  }
  if (!IsSha256(first.sha256())) {
    return absl::InvalidArgumentError("sha256: 64 lower-case hex digits are needed");
  }
  RETURN_IF_ERROR(CheckRequestId(first.request_id()));
  ASSIGN_OR_RETURN(place_, parts_.ledger.Reserve(info_.holder, quota::Resource::kImports, 1));
  begun_ = parts_.clock.Monotonic();
  sha256_ = first.sha256();
  request_id_ = first.request_id();
  ASSIGN_OR_RETURN(incoming_, parts_.store.BeginImport(first.total_bytes()));
  return absl::OkStatus();
}

absl::Status ImportCapture::CheckSpeed() const {
  const absl::Duration elapsed = parts_.clock.Monotonic() - begun_;
  // A sender that keeps the stream alive with a few bytes now and then would hold a place for an
  // import, and the promised disk space, for as long as it likes.
  const int64_t due = absl::ToInt64Seconds(elapsed - kImportGrace) * kMinImportBytesPerSecond;
  if (elapsed <= kMaxImportTime && incoming_->received_bytes() >= due) return absl::OkStatus();
  return WithReason(
      absl::DeadlineExceededError(
          StrCat("the import is too slow: ", incoming_->received_bytes(), " bytes in ",
                 absl::ToInt64Seconds(elapsed), " s; at least ", kMinImportBytesPerSecond >> 10,
                 " KiB/s are needed, and it must end within ", absl::FormatDuration(kMaxImportTime),
                 "; retry over a faster connection")),
      "IMPORT_TOO_SLOW");
}

absl::StatusOr<std::optional<CaptureRecord>> ImportCapture::FindEarlier() {
  if (request_id_.empty()) return std::optional<CaptureRecord>();
  ASSIGN_OR_RETURN(const std::vector<CaptureRecord> found,
                   parts_.store.FindRequest(request_id_, info_.caller.uid));
  for (const CaptureRecord& record : found) {
    // Remote callers have no uid of their own, so request IDs of several principals may be found
    // together.
    if (record.requested_by != info_.principal) continue;
    if (!record.imported.source.empty()) return std::optional<CaptureRecord>(record);
    return WithReason(
        absl::AlreadyExistsError(StrCat("request_id ", request_id_,
                                        " was used for another request, capture ", record.id)),
        "REQUEST_ID_REUSED");
  }
  return std::optional<CaptureRecord>();
}

absl::StatusOr<int64_t> ImportCapture::Check(worker::ReportTurn& turn) {
  ASSIGN_OR_RETURN(const UniqueFd file, incoming_->OpenReadOnly());
  CountSink count;
  const absl::Status checked = RunCharged(
      parts_, info_, {.table = "CheckImport", .options = "", .capture = file.get()},
      [this] { return StillWanted(parts_.admission, info_); }, turn, count);
  turn.GiveUp();  // profd-report has done its part.
  if (!checked.ok()) return ImportError(checked);
  return count.Take();
}

absl::StatusOr<CaptureRecord> ImportCapture::Keep(worker::ReportTurn& turn) {
  if (incoming_ == nullptr) return absl::InvalidArgumentError("nothing was sent");
  // Before anything is checked: a caller that lost the answer sends the same file again.
  ASSIGN_OR_RETURN(std::optional<CaptureRecord> earlier, FindEarlier());
  if (earlier.has_value()) return *std::move(earlier);
  if (incoming_->received_bytes() == incoming_->total_bytes()) {
    ASSIGN_OR_RETURN(const std::string sha256, incoming_->Sha256Hex());
    if (sha256 != sha256_) {
      return absl::DataLossError(StrCat("what came has the sha256 ", sha256, ", and ", sha256_,
                                        " was announced; import again"));
    }
  }
  const store::Importer importer = {.uid = info_.caller.uid,
                                    .gid = info_.caller.principal.gid,
                                    .principal = info_.principal,
                                    .node = parts_.options.node_name,
                                    .request_id = request_id_};
  RETURN_IF_ERROR(incoming_->CheckComplete());
  ASSIGN_OR_RETURN(const int64_t events, Check(turn));
  return parts_.store.FinishCheckedImport(std::move(incoming_), importer, events);
}

absl::Status ImportCapture::End(worker::ReportTurn& turn, v1::Capture& response) {
  ASSIGN_OR_RETURN(const CaptureRecord record, Keep(turn));
  CompleteCaptureToProto(parts_.store, info_.principal, record, response);
  return absl::OkStatus();
}

}  // namespace profd::rpc
