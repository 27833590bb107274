// Credentials of object storage, and where they come from: a file of the AWS command line's format,
// else AWS_ACCESS_KEY_ID and its companions, else the role of the cloud instance (IMDSv2).
//
// Threads: one at a time. Get() waits for the disk, and for the network where there is a role.
// Errors:  NOT_FOUND: none are configured, with the remedy. INVALID_ARGUMENT: a file that cannot be
//          used. UNAVAILABLE: the instance's metadata service does not answer. CANCELLED.
#ifndef PROFD_DAEMON_ARCHIVE_S3_CREDENTIALS_H_
#define PROFD_DAEMON_ARCHIVE_S3_CREDENTIALS_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd::archive {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // Empty: permanent credentials.
};

// Returns the credentials of `profile` in the text of a file like ~/.aws/credentials.
// INVALID_ARGUMENT: no such profile, or a key is missing or has impossible characters.
absl::StatusOr<Credentials> ParseCredentialsFile(std::string_view text, std::string_view profile);

class CredentialSource {
 public:
  struct Options {
    std::filesystem::path file;  // Empty: the environment, then the role.
    std::string profile = "default";
    std::function<std::optional<std::string>(const char* name)> getenv;
    std::function<bool()> stop;  // As HttpSession's.
  };
  CredentialSource(Options options, Clock& clock);

  // Reads the file each time, so that new credentials need no restart. Those of a role are kept
  // until shortly before they expire.
  absl::StatusOr<Credentials> Get();
  // Drops what is kept, which the server has refused. Returns whether Get() may return others now.
  bool Forget() { return std::exchange(role_, std::nullopt).has_value(); }

 private:
  absl::StatusOr<Credentials> FromFile() const;
  std::optional<Credentials> FromEnvironment() const;
  absl::StatusOr<Credentials> FromRole();

  struct Temporary {
    Credentials credentials;
    absl::Time renew;
  };
  const Options options_;
  Clock& clock_;
  std::optional<Temporary> role_;
};

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_CREDENTIALS_H_
