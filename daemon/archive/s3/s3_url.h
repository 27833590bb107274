// Names in object storage: "s3://bucket/some/prefix", and keys in URLs.
#ifndef PROFD_DAEMON_ARCHIVE_S3_S3_URL_H_
#define PROFD_DAEMON_ARCHIVE_S3_S3_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace profd::archive {

struct S3Url {
  std::string bucket;
  std::string key;  // Without a slash at either end; may be empty.
};

// INVALID_ARGUMENT with an example: another scheme, not a bucket's name, or a key with control
// characters, empty parts, "." or "..".
absl::StatusOr<S3Url> ParseS3Url(std::string_view text);

// Whether `text` is meant as such a URL.
bool IsS3Url(std::string_view text);

// `text` with every byte escaped that is not a letter, a digit, or one of "-._~" and `also`.
std::string PercentEncode(std::string_view text, std::string_view also = "");

// `text` as one part of a key: bytes other than letters, digits, and "-._" become "%XX", so that
// different texts stay different. A text of dots only is escaped, an empty one is "none".
std::string KeyPart(std::string_view text);

}  // namespace profd::archive

#endif  // PROFD_DAEMON_ARCHIVE_S3_S3_URL_H_
