// S3Client: objects of one bucket in any storage that speaks S3. Requests are signed, what is sent
// carries its SHA-256, which the server verifies, and what fails for a moment is tried again.
//
// Threads:   one at a time. Calls wait for the network; never on a thread of RPCs or of ingest.
// Ownership: the credential source and the clock must outlive the client.
// Errors:    a code, and a reason that callers may branch on:
//   UNAVAILABLE         kUnreachable: no answer. kBusy: the server says so, or it failed (5xx).
//   PERMISSION_DENIED   kCredentials: it does not accept them. kDenied: they may not do this.
//   FAILED_PRECONDITION kClockSkew: this machine's clock is wrong. kRefused: any other 4xx.
//   NOT_FOUND           kNoBucket; no reason: no such object or upload.
//   DATA_LOSS           an answer that cannot be right.
//   CANCELLED           `stop` returned true.
//   Those of CredentialSource.
#ifndef PROFD_DAEMON_ARCHIVE_S3_S3_CLIENT_H_
#define PROFD_DAEMON_ARCHIVE_S3_S3_CLIENT_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/archive/s3/credentials.h"
#include "daemon/archive/s3/http.h"
#include "daemon/base/clock.h"

namespace profd::archive {

inline constexpr std::string_view kUnreachable = "ARCHIVE_UNREACHABLE";
inline constexpr std::string_view kBusy = "ARCHIVE_BUSY";
inline constexpr std::string_view kBadCredentials = "ARCHIVE_CREDENTIALS";
inline constexpr std::string_view kDenied = "ARCHIVE_DENIED";
inline constexpr std::string_view kClockSkew = "ARCHIVE_CLOCK_SKEW";
inline constexpr std::string_view kRefused = "ARCHIVE_REFUSED";
inline constexpr std::string_view kNoBucket = "ARCHIVE_NO_BUCKET";

struct ObjectInfo {
  std::string key;
  int64_t bytes = 0;
  std::string sha256;  // As it was put; only of Head(); empty: not known.
};
struct ObjectPage {
  std::vector<ObjectInfo> objects;  // By key.
  std::string next;                 // Empty: there are no more.
};

// What an object's headers tell.
struct ObjectProperties {
  std::string_view content_type = "application/octet-stream";
  std::string sha256;  // Lower-case hex, of the whole.
};

struct UploadedPart {
  int number = 0;  // From 1.
  int64_t bytes = 0;
  std::string etag;
};
struct UnfinishedUpload {
  std::string key;
  std::string upload_id;
};

class S3Client {
 public:
  static constexpr int64_t kMaxGetBytes = 64 << 20;  // In one call.
  static constexpr int kMaxParts = 10'000;

  struct Options {
    std::string bucket;
    std::string endpoint;  // "https://host:port"; empty: Amazon's, of the region.
    std::string region = "us-east-1";
    // Names the bucket in the path, not in the host. nullopt: if an endpoint is set.
    std::optional<bool> path_style;
    std::string encryption;  // x-amz-server-side-encryption; empty: none.
    std::filesystem::path authorities;
    int64_t max_bytes_per_second = 0;
    absl::Duration stall_timeout = absl::Seconds(30);
    int attempts = 4;
    absl::Duration first_pause = absl::Milliseconds(200);  // Doubles with each attempt.
    std::function<bool()> stop;
  };
  S3Client(Options options, CredentialSource& credentials, Clock& clock);

  absl::StatusOr<ObjectInfo> Head(std::string_view key);
  // Returns bytes [offset, offset + bytes), or fewer at the end of the object.
  absl::StatusOr<std::string> Get(std::string_view key, int64_t offset, int64_t bytes);
  // By key, after the page with this `next`.
  absl::StatusOr<ObjectPage> List(std::string_view prefix, std::string_view next = "");
  // Replaces an object of the key.
  absl::Status Put(std::string_view key, std::string_view bytes,
                   const ObjectProperties& properties);
  absl::Status Put(std::string_view key, const FilePart& file, const ObjectProperties& properties);
  // OK also if there is none.
  absl::Status Delete(std::string_view key);

  // ---- objects in parts ----
  absl::StatusOr<std::string> BeginUpload(std::string_view key, const ObjectProperties& properties);
  absl::StatusOr<UploadedPart> PutPart(std::string_view key, std::string_view upload_id, int number,
                                       const FilePart& file);
  absl::StatusOr<std::vector<UploadedPart>> ListParts(std::string_view key,
                                                      std::string_view upload_id);
  absl::Status FinishUpload(std::string_view key, std::string_view upload_id,
                            const std::vector<UploadedPart>& parts);
  // OK also if there is none.
  absl::Status AbortUpload(std::string_view key, std::string_view upload_id);
  absl::StatusOr<std::vector<UnfinishedUpload>> ListUploads(std::string_view prefix);

 private:
  using Query = std::map<std::string, std::string>;  // Sorted, as the signature needs it.
  struct Call {
    HttpMethod method = HttpMethod::kGet;
    std::string_view key;
    Query query;
    std::vector<std::string> headers;
    std::string range;
    std::optional<FilePart> file;
    std::string_view bytes;
    std::string sha256;  // Of the body.
    size_t max_answer_bytes = 4 << 20;
  };
  std::string UrlOf(std::string_view key, const Query& query) const;
  // Sends until it succeeds, fails for good, or was tried often enough. Every status below 300 is a
  // success.
  absl::StatusOr<HttpAnswer> Send(const Call& call);
  absl::StatusOr<HttpAnswer> SendOnce(const Call& call);
  absl::Status StatusOf(const HttpAnswer& answer, const Call& call);
  absl::Status Pause(absl::Duration duration);
  std::vector<std::string> HeadersOf(const ObjectProperties& properties) const;

  const Options options_;
  CredentialSource& credentials_;
  Clock& clock_;
  HttpSession session_;
};

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_S3_CLIENT_H_
