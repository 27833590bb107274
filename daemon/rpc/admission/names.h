// Resource names, request ids and page tokens: the strings callers hand us.
//
// Threads: pure functions. Errors: INVALID_ARGUMENT naming what was expected.
#ifndef PROFD_DAEMON_RPC_ADMISSION_NAMES_H_
#define PROFD_DAEMON_RPC_ADMISSION_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"

namespace profd::rpc {

std::string TargetName(TargetNumber number);  // "targets/7"
absl::StatusOr<TargetNumber> ParseTargetName(std::string_view name);

std::string CaptureName(std::string_view id);  // "captures/01H..."
// The id, or the start of one, in upper case.
absl::StatusOr<std::string> ParseCaptureName(std::string_view name);

std::string GroupName(std::string_view id);                         // "groups/01H..."
absl::StatusOr<std::string> ParseGroupName(std::string_view name);  // A whole id.

std::string ScheduleName(std::string_view id);  // "schedules/01H..."
// The id, or the start of one, in upper case.
absl::StatusOr<std::string> ParseScheduleName(std::string_view name);

// At most 64 printable ASCII characters; empty: none.
absl::Status CheckRequestId(std::string_view request_id);

inline constexpr int32_t kDefaultPageSize = 100;
inline constexpr int32_t kMaxPageSize = 1000;
absl::StatusOr<int32_t> CheckPageSize(int32_t page_size);

// A token says where the next page begins and for which filter it holds. It carries no
// secret and grants nothing; a forged one only pages from elsewhere.
std::string MakePageToken(std::string_view position, std::string_view filter);
// The position; empty for an empty token. INVALID_ARGUMENT for anything we did not make,
// or made for another filter.
absl::StatusOr<std::string> ParsePageToken(std::string_view token, std::string_view filter);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_NAMES_H_
