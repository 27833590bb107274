// What one ImportCapture call does: a capture file comes in pieces, and is handed to the store once
// it is there. Few at once, as each takes a place on the disk that nobody else can have.
#ifndef PROFD_DAEMON_RPC_IMPORT_CAPTURE_H_
#define PROFD_DAEMON_RPC_IMPORT_CAPTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/rpc/client_stream.h"
#include "daemon/rpc/services.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/captures.pb.h"

namespace profd::rpc {

inline constexpr int64_t kMaxImports = 8;
inline constexpr int64_t kMaxImportsPerPrincipal = 4;
inline constexpr size_t kMaxImportPieceBytes = 512 << 10;

// How many imports are on their way. Threads: any.
class ImportPlaces {
 public:
  // RESOURCE_EXHAUSTED: all are taken. After OK, Leave() follows.
  absl::Status Enter(std::string_view principal);
  void Leave(std::string_view principal);

 private:
  absl::Mutex mu_;
  int64_t taken_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, int64_t, std::less<>> by_principal_ ABSL_GUARDED_BY(mu_);
};

class ImportCapture final : public UploadHandler<v1::ImportCaptureRequest, v1::Capture> {
 public:
  // `places` must outlive it.
  ImportCapture(const ServiceParts& parts, CallInfo info, ImportPlaces& places);
  ~ImportCapture() override;

  absl::Status Take(const v1::ImportCaptureRequest& message) override;
  absl::Status End(v1::Capture& response) override;

 private:
  absl::Status Begin(const v1::ImportCaptureRequest& first);
  absl::Status StillWanted() const;
  // The capture that an import with the same request id became.
  absl::StatusOr<std::optional<CaptureRecord>> FindEarlier();
  absl::StatusOr<CaptureRecord> Keep();

  const ServiceParts parts_;
  const CallInfo info_;
  ImportPlaces& places_;
  bool has_place_ = false;
  std::string sha256_;
  std::string request_id_;
  std::unique_ptr<store::IncomingCapture> incoming_;  // nullptr: nothing came yet.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_IMPORT_CAPTURE_H_
