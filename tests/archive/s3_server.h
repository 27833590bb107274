// S3Server: tests/archive/s3_server.py in a process of its own, for the life of this object.
#ifndef PROFD_TESTS_ARCHIVE_S3_SERVER_H_
#define PROFD_TESTS_ARCHIVE_S3_SERVER_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/archive/s3/credentials.h"
#include "daemon/archive/s3/s3_client.h"
#include "daemon/base/unique_fd.h"

namespace profd::archive {

class S3Server {
 public:
  explicit S3Server(const std::filesystem::path& folder, std::vector<std::string> arguments = {});
  ~S3Server();
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Posts to /_faults (see s3_server.py).
  void Fail(std::string_view json) const;
  // The requests so far, as JSON.
  std::string Log() const;

 private:
  pid_t pid_ = -1;
  UniqueFd input_;  // The server ends when it is closed.
  std::string endpoint_;
};

// Credentials that the server accepts, or some with another secret.
CredentialSource::Options ServerCredentials(std::string secret = "profd-secret");
S3Client::Options OptionsFor(const S3Server& server);

}  // namespace profd::archive

#endif  // PROFD_TESTS_ARCHIVE_S3_SERVER_H_
