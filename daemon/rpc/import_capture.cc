#include "daemon/rpc/import_capture.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/capture_watch.h"
#include "daemon/rpc/names.h"

namespace profd::rpc {
namespace {

constexpr size_t kSha256HexDigits = 64;

bool IsSha256(std::string_view text) {
  return text.size() == kSha256HexDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

absl::Status ImportPlaces::Enter(std::string_view principal) {
  const absl::MutexLock lock(&mu_);
  const auto mine = by_principal_.find(principal);
  const int64_t count = mine == by_principal_.end() ? 0 : mine->second;
  if (taken_ >= kMaxImports || count >= kMaxImportsPerPrincipal) {
    return absl::ResourceExhaustedError(
        StrCat(taken_, " imports are on their way, ", count, " of them ", principal,
               "'s; wait for one of them to end, and import again"));
  }
  ++taken_;
  ++by_principal_[std::string(principal)];
  return absl::OkStatus();
}

void ImportPlaces::Leave(std::string_view principal) {
  const absl::MutexLock lock(&mu_);
  --taken_;
  const auto mine = by_principal_.find(principal);
  if (--mine->second == 0) by_principal_.erase(mine);
}

ImportCapture::ImportCapture(const ServiceParts& parts, CallInfo info, ImportPlaces& places)
    : parts_(parts), info_(std::move(info)), places_(places) {}

ImportCapture::~ImportCapture() {
  if (has_place_) places_.Leave(info_.principal);
}

absl::Status ImportCapture::Take(const v1::ImportCaptureRequest& message) {
  if (incoming_ == nullptr) RETURN_IF_ERROR(Begin(message));
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
  RETURN_IF_ERROR(places_.Enter(info_.principal));
  has_place_ = true;
  sha256_ = first.sha256();
  request_id_ = first.request_id();
  ASSIGN_OR_RETURN(incoming_, parts_.store.BeginImport(first.total_bytes()));
  return absl::OkStatus();
}

absl::Status ImportCapture::StillWanted() const {
  if (info_.cancelled->load(std::memory_order_acquire)) {
    return absl::CancelledError("the caller went away");
  }
  return parts_.door.closed() ? parts_.door.TurnedAway() : absl::OkStatus();
}

absl::StatusOr<std::optional<CaptureRecord>> ImportCapture::FindEarlier() {
  if (request_id_.empty()) return std::optional<CaptureRecord>();
  ASSIGN_OR_RETURN(const std::vector<CaptureRecord> found,
                   parts_.store.FindRequest(request_id_, info_.caller.uid));
  for (const CaptureRecord& record : found) {
    if (record.requested_by != info_.principal) continue;
    if (!record.imported.source.empty()) return std::optional<CaptureRecord>(record);
    return WithReason(
        absl::AlreadyExistsError(StrCat("request_id ", request_id_,
                                        " was used for another request, capture ", record.id)),
        "REQUEST_ID_REUSED");
  }
  return std::optional<CaptureRecord>();
}

absl::StatusOr<CaptureRecord> ImportCapture::Keep() {
  if (incoming_ == nullptr) return absl::InvalidArgumentError("nothing was sent");
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
  return parts_.store.FinishImport(std::move(incoming_), importer,
                                   [this] { return StillWanted(); });
}

absl::Status ImportCapture::End(v1::Capture& response) {
  ASSIGN_OR_RETURN(const CaptureRecord record, Keep());
  CompleteCaptureToProto(parts_.store, record, response);
  return absl::OkStatus();
}

}  // namespace profd::rpc
