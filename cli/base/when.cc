#include "cli/base/when.h"

#include "cli/base/flags.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {

absl::StatusOr<absl::Time> ParseWhen(std::string_view flag, const std::string& text,
                                     absl::Time now) {
  absl::Time time;
  std::string why;
  if (absl::ParseTime(absl::RFC3339_full, text, &time, &why)) return time;
  // Without a zone, times are those of this machine.
  for (const std::string_view format :
       {"%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"}) {
    if (absl::ParseTime(absl::string_view(format.data(), format.size()), text,
                        absl::LocalTimeZone(), &time, &why)) {
      return time;
    }
  }
  const absl::StatusOr<absl::Duration> age = ParseDuration(text);
  if (age.ok()) return now - *age;
  return UsageError(StrCat("--", flag, " '", ForDisplay(text, 80),
                           "' is neither an age such as 90s, 2h, 3d nor a time such as "
                           "2026-11-20 or 2026-11-20T10:00:00Z"));
}

}  // namespace profd::cli
