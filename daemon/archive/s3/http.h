// HttpSession sends HTTP requests with libcurl, one after the other, over kept connections. It
// signs them with AWS Signature Version 4 if asked to, follows no redirect, and takes bounded
// answers.
//
// libcurl 7.88 signs what it is given as it is, so callers obey rules that newer releases do not
// need (each violation gives 403 SignatureDoesNotMatch):
//   - the query is sorted by name and percent-encoded, and each parameter has a '=';
//   - no header is removed by an empty one ("Expect:");
//   - x-amz-content-sha256 is always among the headers.
//
// Threads: one at a time. Calls wait for the network.
// Errors:  UNAVAILABLE: no answer, or not a whole one. CANCELLED: `stop` returned true.
//          FAILED_PRECONDITION: the URL or the TLS settings cannot work. DATA_LOSS: the answer is
//          larger than allowed. Answers with any HTTP status are no errors.
#ifndef PROFD_DAEMON_ARCHIVE_S3_HTTP_H_
#define PROFD_DAEMON_ARCHIVE_S3_HTTP_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/archive/s3/credentials.h"

namespace profd::archive {

enum class HttpMethod { kGet, kHead, kPut, kPost, kDelete };

// Part of an open file, read with pread(); the descriptor is borrowed.
struct FilePart {
  int descriptor = -1;
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct HttpRequest {
  HttpMethod method = HttpMethod::kGet;
  std::string url;
  std::vector<std::string> headers;  // "name: value"
  // The body of PUT and POST: a part of a file, or bytes, which are borrowed.
  std::optional<FilePart> file;
  std::string_view bytes;
  std::string range;  // "0-4095"; empty: all.
  size_t max_answer_bytes = 4 << 20;
  // Signs the request for this region.
  const Credentials* credentials = nullptr;
  std::string_view region;
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;

  std::string_view header(const std::string& name) const;  // Empty: it has none.
};

class HttpSession {
 public:
  struct Options {
    std::filesystem::path authorities;  // PEM; empty: the system's.
    int64_t max_bytes_per_second = 0;   // Each way; 0: no limit.
    absl::Duration connect_timeout = absl::Seconds(10);
    // A transfer that moves nothing for this long ends.
    absl::Duration stall_timeout = absl::Seconds(30);
    bool use_proxy = true;  // What https_proxy and the like name.
    // Asked about once per second, and while bytes move; must not block. Empty: never stops.
    std::function<bool()> stop;
  };
  explicit HttpSession(Options options);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  absl::StatusOr<HttpAnswer> Send(const HttpRequest& request);

 private:
  struct Handle;  // libcurl's.
  const Options options_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_HTTP_H_
