// DaemonClient: sending captures that were made here.
#include <fstream>
#include <string>
#include <utility>

#include "cli/base/errors.h"
#include "cli/client/daemon_client_impl.h"
#include "cli/client/from_proto.h"
#include "daemon/base/status_macros.h"
#include "daemon/store/file/files.h"

namespace profd::cli {
namespace {

constexpr size_t kUploadPieceBytes = 512 << 10;  // The most that a daemon takes at once.

}  // namespace

absl::StatusOr<CaptureView> DaemonClient::ImportCapture(
    const std::string& path, const std::string& request_id,
    absl::FunctionRef<void(int64_t, int64_t)> on_bytes) {
  v1::ImportCaptureRequest message;
  const absl::StatusOr<int64_t> total = store::FileBytes(path);
  if (!total.ok()) return LocalFailure(total.status());
  absl::StatusOr<std::string> sha256 = store::Sha256OfFile(path);
  if (!sha256.ok()) return LocalFailure(sha256.status());
  message.set_total_bytes(*total);
  message.set_sha256(*std::move(sha256));
  message.set_request_id(request_id);

  Impl::Call call(*impl_, std::nullopt);
  v1::Capture capture;
  const auto writer = impl_->captures_->ImportCapture(call.context(), &capture);
  std::ifstream file(path, std::ios::binary);
  int64_t sent = 0;
  std::string& data = *message.mutable_data();
  do {
    data.resize(kUploadPieceBytes);
    file.read(data.data(), static_cast<std::streamsize>(data.size()));
    data.resize(static_cast<size_t>(file.gcount()));
    // The daemon has answered already; Finish() tells what.
    if (!writer->Write(message)) break;
    sent += static_cast<int64_t>(data.size());
    on_bytes(sent, *total);
    message.Clear();
  } while (file.good());
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return call.Result(status);
  RETURN_IF_ERROR(impl_->Check(capture));
  return FromProto(capture);
}

}  // namespace profd::cli
