#include "daemon/rpc/export_sink.h"

#include <algorithm>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {

absl::Status ExportSink::Append(std::string_view bytes) {
  std::string& data = *filling_.mutable_data();
  while (failed_.ok() && !bytes.empty()) {
    const size_t taken = std::min(bytes.size(), kExportPieceBytes - data.size());
    data.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (data.size() == kExportPieceBytes) failed_ = SendFilling();
  }
  return failed_;
}

absl::Status ExportSink::Finish() {
  if (failed_.ok() && !filling_.data().empty()) failed_ = SendFilling();
  return failed_;
}

absl::Status ExportSink::SendFilling() {
  RETURN_IF_ERROR(AwaitReady());
  stream_.Write(filling_);
  filling_.mutable_data()->clear();
  return absl::OkStatus();
}

absl::Status ExportSink::AwaitReady() {
  while (!stream_.can_write()) {
    absl::MutexLock lock(&mu_);
    if (!mu_.AwaitWithTimeout(absl::Condition(&changed_), stalled_timeout_)) {
      stream_.Abort();
      return absl::CancelledError(
          StrCat("the reader took nothing for ", absl::FormatDuration(stalled_timeout_)));
    }
    changed_ = false;
  }
  if (stream_.cancelled()) return absl::CancelledError("the reader went away");
  if (stream_.closing()) return absl::UnavailableError("profd is stopping; export again later");
  return absl::OkStatus();
}

void ExportSink::OnReady() {
  absl::MutexLock lock(&mu_);
  changed_ = true;
}

}  // namespace profd::rpc
