#include "daemon/rpc/services/capture_lookup.h"

#include <string>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"
#include "daemon/rpc/admission/names.h"

namespace profd::rpc {
namespace {

absl::Status NoEvents(const CaptureRecord& record) {
  if (!record.deleted && record.error_reason == store::kFileMissingReason) {
    return WithReason(
        absl::DataLossError(StrCat("capture ", record.id, ": ", record.error_message)),
        store::kFileMissingReason);
  }
  const std::string why =
      record.deleted ? StrCat(WhyEventsAreGone(record), "; what `profctl show` prints is kept")
                     : "nothing was recorded; `profctl show` says why";
  return WithReason(absl::NotFoundError(StrCat("capture ", record.id, " holds no events: ", why)),
                    "NO_EVENTS");
}

}  // namespace

std::optional<int64_t> VisibleOwner(const Caller& caller) {
  if (caller.rules != nullptr || caller.MayAll(Verb::kList)) return std::nullopt;
  return caller.uid;
}

absl::StatusOr<std::string> FindCaptureId(store::CaptureStore& store, const Caller& caller,
                                          std::string_view name) {
  ASSIGN_OR_RETURN(std::string id, ParseCaptureName(name));
  if (IsUlid(id)) return id;
  const auto may_list = [&caller](const CaptureRecord& record) {
    return caller.May(Verb::kList, OwnerOf(record));
  };
  ASSIGN_OR_RETURN(CaptureRecord resolved, store.ResolvePrefix(id, may_list));
  return std::move(resolved.id);
}

absl::StatusOr<CaptureRecord> FindCapture(CaptureManager& manager, store::CaptureStore& store,
                                          const Caller& caller, std::string_view name) {
  ASSIGN_OR_RETURN(const std::string id, FindCaptureId(store, caller, name));
  return manager.Get(caller, id);
}

absl::StatusOr<CaptureRecord> FindStoredCapture(CaptureManager& manager, store::CaptureStore& store,
                                                const Caller& caller, std::string_view name) {
  ASSIGN_OR_RETURN(CaptureRecord record, FindCapture(manager, store, caller, name));
  if (!caller.May(Verb::kRead, OwnerOf(record))) {
    return NotAllowed(caller, Verb::kRead, StrCat("capture ", record.id));
  }
  if (!IsTerminal(record.state)) {
    return WithReason(absl::FailedPreconditionError(StrCat("capture ", record.id, " is still ",
                                                           ToString(record.state),
                                                           "; wait for its end, or cancel it")),
                      "CAPTURE_LIVE");
  }
  if (record.deleted || record.file_bytes == 0) return NoEvents(record);
  return record;
}

}  // namespace profd::rpc
