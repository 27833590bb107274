#include "daemon/report_worker/answer.h"

#include "daemon/base/status_macros.h"
#include "daemon/worker/frames.h"

namespace profd::report_worker {

absl::Status Answer::StillWanted() const {
  if (!worker::CancelIsNext(socket_)) return absl::OkStatus();
  return absl::CancelledError("the caller went away");
}

absl::Status Answer::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    RETURN_IF_ERROR(StillWanted());
    const std::string_view piece = bytes.substr(0, worker::kMaxDataBytes);
    RETURN_IF_ERROR(worker::SendFrame(socket_, worker::FrameKind::kData, piece));
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

}  // namespace profd::report_worker
