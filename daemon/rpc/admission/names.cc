#include "daemon/rpc/admission/names.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/escaping.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::rpc {
namespace {

constexpr std::string_view kTargets = "targets/";
constexpr std::string_view kCaptures = "captures/";
constexpr std::string_view kGroups = "groups/";
constexpr std::string_view kSchedules = "schedules/";
constexpr size_t kMaxRequestIdBytes = 64;
constexpr size_t kMaxShownBytes = 64;

absl::Status NotA(std::string_view what, std::string_view expected, std::string_view given) {
  return absl::InvalidArgumentError(
      StrCat("\"", ForDisplay(given, kMaxShownBytes), "\" is no ", what, "; expected ", expected));
}

std::string ToUpper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

// FNV-1a: the same in every process, unlike absl::Hash, so that a token survives a restart.
uint64_t Fingerprint(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) {
    hash ^= static_cast<uint8_t>(c);
    hash *= 1099511628211u;
  }
  return hash;
}

}  // namespace

std::string TargetName(TargetNumber number) { return StrCat(kTargets, number); }
std::string CaptureName(std::string_view id) { return StrCat(kCaptures, id); }
std::string GroupName(std::string_view id) { return StrCat(kGroups, id); }
std::string ScheduleName(std::string_view id) { return StrCat(kSchedules, id); }

absl::StatusOr<TargetNumber> ParseTargetName(std::string_view name) {
  constexpr std::string_view kExpected = "targets/{number}";
  if (!name.starts_with(kTargets)) return NotA("target", kExpected, name);
  const std::string_view digits = name.substr(kTargets.size());
  TargetNumber number = 0;
  const char* const end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || rest != end || number < 1) return NotA("target", kExpected, name);
  return number;
}

absl::StatusOr<std::string> ParseCaptureName(std::string_view name) {
  if (!name.starts_with(kCaptures) || !IsUlidPrefix(name.substr(kCaptures.size()))) {
    return NotA("capture", "captures/{id, or the start of one}", name);
  }
  return ToUpper(name.substr(kCaptures.size()));
}

absl::StatusOr<std::string> ParseGroupName(std::string_view name) {
  if (!name.starts_with(kGroups)) return NotA("group", "groups/{id}", name);
  std::string id = ToUpper(name.substr(kGroups.size()));
  if (!IsUlid(id)) return NotA("group", "groups/{id}", name);
  return id;
}

absl::StatusOr<std::string> ParseScheduleName(std::string_view name) {
  if (!name.starts_with(kSchedules) || !IsUlidPrefix(name.substr(kSchedules.size()))) {
    return NotA("schedule", "schedules/{id, or the start of one}", name);
  }
  return ToUpper(name.substr(kSchedules.size()));
}

absl::Status CheckRequestId(std::string_view request_id) {
  const bool printable = std::all_of(request_id.begin(), request_id.end(),
                                     [](char c) { return c >= ' ' && c <= '~'; });
  if (request_id.size() <= kMaxRequestIdBytes && printable) return absl::OkStatus();
  return absl::InvalidArgumentError(
      StrCat("request_id: at most ", kMaxRequestIdBytes, " printable ASCII characters"));
}

absl::StatusOr<int32_t> CheckPageSize(int32_t page_size) {
  if (page_size < 0 || page_size > kMaxPageSize) {
    return absl::InvalidArgumentError(
        StrCat("page_size: ", page_size, " is not in 0..", kMaxPageSize));
  }
  return page_size == 0 ? kDefaultPageSize : page_size;
}

std::string MakePageToken(std::string_view position, std::string_view filter) {
  const std::string plain = StrCat(absl::Hex(Fingerprint(filter), absl::kZeroPad16), position);
  return absl::WebSafeBase64Escape(plain);
}

absl::StatusOr<std::string> ParsePageToken(std::string_view token, std::string_view filter) {
  if (token.empty()) return std::string();
  // The fingerprint catches a token that is used with another filter. It is not a secret: a forged
  // token shows nothing that the caller may not list.
  const std::string mark = StrCat(absl::Hex(Fingerprint(filter), absl::kZeroPad16));
  std::string plain;
  if (!absl::WebSafeBase64Unescape(ToAbsl(token), &plain) || !plain.starts_with(mark)) {
    return absl::InvalidArgumentError(
        "page_token: not one that this listing returned; start again without it");
  }
  return plain.substr(mark.size());
}

}  // namespace profd::rpc
