// Names of the daemon's resources: "captures/ID", "groups/ID", "schedules/ID", "targets/NUMBER".
// Users may write them where a command takes an ID.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_CLIENT_RESOURCE_NAMES_H_
#define PROFD_CLI_CLIENT_RESOURCE_NAMES_H_

#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

inline constexpr std::string_view kCapturesPrefix = "captures/";
inline constexpr std::string_view kGroupsPrefix = "groups/";
inline constexpr std::string_view kSchedulesPrefix = "schedules/";
inline constexpr std::string_view kTargetsPrefix = "targets/";

inline std::string CaptureName(std::string_view id) { return StrCat(kCapturesPrefix, id); }
inline std::string GroupName(std::string_view id) { return StrCat(kGroupsPrefix, id); }
inline std::string ScheduleName(std::string_view id) { return StrCat(kSchedulesPrefix, id); }
inline std::string TargetName(TargetNumber number) { return StrCat(kTargetsPrefix, number); }

// Returns `name` unchanged if it does not start with `prefix`.
inline std::string_view WithoutPrefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_RESOURCE_NAMES_H_
