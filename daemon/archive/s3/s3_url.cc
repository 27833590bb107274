#include "daemon/archive/s3/s3_url.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::archive {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kMaxUrlKeyBytes = 512;  // S3 allows 1,024 bytes of key; names follow the prefix.

bool IsBucketName(std::string_view name) {
  const auto fits = [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
  };
  return name.size() >= 3 && name.size() <= 63 && std::ranges::all_of(name, fits) &&
         absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
         name.find("..") == std::string_view::npos;
}

bool IsUsableKey(std::string_view key) {
  if (key.size() > kMaxUrlKeyBytes || !IsPrintableUtf8(key)) return false;
  while (!key.empty()) {
    const size_t slash = key.find('/');
    const std::string_view part = key.substr(0, slash);
    // libcurl resolves "." and ".." in a URL, so that the request would be for another key.
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    key.remove_prefix(slash + 1);
  }
  return true;
}

void AppendEscaped(char c, std::string& out) {
  static constexpr char kHexDigits[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out.push_back('%');
  out.push_back(kHexDigits[byte >> 4]);
  out.push_back(kHexDigits[byte & 15]);
}

}  // namespace

bool IsS3Url(std::string_view text) { return text.starts_with(kScheme); }

absl::StatusOr<S3Url> ParseS3Url(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(StrCat("invalid archive '", ForDisplay(text, 200), "': ", why,
                                             "; expected s3://BUCKET/PREFIX"));
  };
  if (!IsS3Url(text)) return refuse("it does not start with s3://");
  std::string_view rest = text.substr(kScheme.size());
  const size_t slash = rest.find('/');
  S3Url url;
  url.bucket = std::string(rest.substr(0, slash));
  if (!IsBucketName(url.bucket)) {
    return refuse("a bucket's name has 3 to 63 lower-case letters, digits, '-', '.', and '_'");
  }
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (!IsUsableKey(rest)) return refuse("the part after the bucket is not a usable key");
  url.key = std::string(rest);
  return url;
}

std::string PercentEncode(std::string_view text, std::string_view also) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
                       c == '_' || c == '~' || also.find(c) != std::string_view::npos;
    if (plain) {
      out.push_back(c);
    } else {
      AppendEscaped(c, out);
    }
  }
  return out;
}

std::string KeyPart(std::string_view text) {
  if (text.empty()) return "none";
  const bool only_dots = text.find_first_not_of('.') == std::string_view::npos;
  std::string out;
  for (const char c : text) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                       (c == '.' && !only_dots);
    if (plain) {
      out.push_back(c);
    } else {
      AppendEscaped(c, out);
    }
  }
  return out;
}

}  // namespace profd::archive
