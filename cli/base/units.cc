#include "cli/base/units.h"

#include <string_view>

#include "daemon/base/str_cat.h"

namespace profd::cli {

std::string FormatLocalTime(absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::InfiniteFuture() || time == absl::UnixEpoch()) {
    return "-";
  }
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone());
}

std::string FormatAge(absl::Duration age) {
  const int64_t seconds = absl::ToInt64Seconds(age);
  if (seconds < 0) return "0s";
  if (seconds < 60) return StrCat(seconds, "s");
  const auto two = [](int64_t value, int64_t unit, std::string_view big, int64_t part,
                      std::string_view small) {
    const int64_t rest = value % unit / part;
    std::string text = StrCat(value / unit, big);
    if (rest > 0) StrAppend(&text, " ", rest, small);
    return text;
  };
  if (seconds < 3600) return two(seconds, 60, "m", 1, "s");
  if (seconds < 86400) return two(seconds, 3600, "h", 60, "m");
  return two(seconds, 86400, "d", 3600, "h");
}

}  // namespace profd::cli
