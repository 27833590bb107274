#include "daemon/rpc/services/export_sink.h"

#include <algorithm>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

// How long Finish() sleeps before it looks whether the reader is still there.
constexpr absl::Duration kLook = absl::Milliseconds(100);

}  // namespace

// Whether one more frame is either kept or sent.
bool ExportSink::IsReady() const {
  return filling_.data().size() + worker::kMaxDataBytes < kExportPieceBytes || stream_.can_write();
}

bool ExportSink::AwaitReady(absl::Duration timeout) {
  if (!IsReady()) {
    // The time since which nothing could be written. It is reset when the reader takes a piece,
    // however small, so only a reader that takes nothing at all times out.
    blocked_since_ = std::min(blocked_since_, Clock::Real().Monotonic());
    absl::MutexLock lock(&mu_);
    if (!changed_) ready_.WaitWithTimeout(&mu_, timeout);
    changed_ = false;
  }
  if (!IsReady()) return false;
  blocked_since_ = absl::InfiniteDuration();
  return true;
}

absl::Status ExportSink::CheckReader() {
  if (stream_.cancelled()) return absl::CancelledError("the reader went away");
  if (stream_.closing()) return absl::UnavailableError("profd is stopping; export again later");
  if (Clock::Real().Monotonic() - blocked_since_ < stalled_timeout_) return absl::OkStatus();
  stream_.Abort();
  return absl::CancelledError(
      StrCat("the reader took nothing for ", absl::FormatDuration(stalled_timeout_)));
}

absl::Status ExportSink::Append(std::string_view bytes) {
  filling_.mutable_data()->append(bytes);
  if (filling_.data().size() < kExportPieceBytes) return absl::OkStatus();
  stream_.Write(filling_);
  filling_.mutable_data()->clear();
  return absl::OkStatus();
}

absl::Status ExportSink::Finish() {
  if (filling_.data().empty()) return absl::OkStatus();
  while (!stream_.can_write()) {
    blocked_since_ = std::min(blocked_since_, Clock::Real().Monotonic());
    RETURN_IF_ERROR(CheckReader());
    absl::MutexLock lock(&mu_);
    if (!changed_) ready_.WaitWithTimeout(&mu_, kLook);
    changed_ = false;
  }
  RETURN_IF_ERROR(CheckReader());
  stream_.Write(filling_);
  return absl::OkStatus();
}

void ExportSink::OnReady() {
  absl::MutexLock lock(&mu_);
  changed_ = true;
  ready_.Signal();
}

}  // namespace profd::rpc
