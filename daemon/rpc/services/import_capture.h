// What one ImportCapture call does: a capture file comes in pieces, and is handed to the store once
// it is there. Each takes a place on the disk that no other can have. So few run at once (the
// quota "imports"), and an upload that is too slow or takes too long ends.
#ifndef PROFD_DAEMON_RPC_SERVICES_IMPORT_CAPTURE_H_
#define PROFD_DAEMON_RPC_SERVICES_IMPORT_CAPTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/server/client_stream.h"
#include "daemon/rpc/services/services.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

// On average, after the grace at the start.
inline constexpr int64_t kMinImportBytesPerSecond = 64 << 10;
inline constexpr absl::Duration kImportGrace = absl::Seconds(30);
inline constexpr absl::Duration kMaxImportTime = absl::Hours(1);
inline constexpr size_t kMaxImportPieceBytes = 512 << 10;

class ImportCapture final : public UploadHandler<v1::ImportCaptureRequest, v1::Capture> {
 public:
  ImportCapture(const ServiceParts& parts, CallInfo info) : parts_(parts), info_(std::move(info)) {}

  absl::Status Take(const v1::ImportCaptureRequest& message) override;
  absl::Status End(worker::ReportTurn& turn, v1::Capture& response) override;

 private:
  absl::Status Begin(const v1::ImportCaptureRequest& first);
  // DEADLINE_EXCEEDED (IMPORT_TOO_SLOW).
  absl::Status CheckSpeed() const;
  // The capture that an import with the same request id became.
  absl::StatusOr<std::optional<CaptureRecord>> FindEarlier();
  absl::StatusOr<CaptureRecord> Keep(worker::ReportTurn& turn);
  // Has profd-report read every byte that came; returns the number of events.
  absl::StatusOr<int64_t> Check(worker::ReportTurn& turn);

  const ServiceParts parts_;
  const CallInfo info_;
  quota::Reservation place_;
  absl::Duration begun_;  // Monotonic.
  std::string sha256_;
  std::string request_id_;
  std::unique_ptr<store::IncomingCapture> incoming_;  // nullptr: nothing came yet.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_IMPORT_CAPTURE_H_
