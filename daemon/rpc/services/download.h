// Download: what one DownloadCapture stream does: a capture file in pieces, as fast as the
// caller reads.
#ifndef PROFD_DAEMON_RPC_SERVICES_DOWNLOAD_H_
#define PROFD_DAEMON_RPC_SERVICES_DOWNLOAD_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "daemon/rpc/server/server_stream.h"
#include "daemon/rpc/services/services.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

// gRPC keeps one while the next one is read.
inline constexpr int64_t kDownloadPieceBytes = 512 << 10;

class Download final : public StreamHandler {
 public:
  Download(const ServiceParts& parts, const CallInfo& info, v1::DownloadCaptureRequest request,
           ServerStream<v1::DownloadCaptureResponse>& stream);

  void Pump() override;

 private:
  absl::Status Begin();
  absl::Status ReadPiece();

  const ServiceParts parts_;
  const CallInfo info_;
  const v1::DownloadCaptureRequest request_;
  ServerStream<v1::DownloadCaptureResponse>& stream_;
  bool begun_ = false;
  store::CaptureDownload download_;
  int64_t offset_ = 0;
  v1::DownloadCaptureResponse piece_;
  quota::Reservation piece_memory_;
  std::optional<absl::Status> ahead_;  // How reading `piece_` went; nullopt: it is not read yet.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_DOWNLOAD_H_
