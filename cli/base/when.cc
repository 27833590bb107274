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
  const absl::StatusOr<absl::Duration> age = ParseDuration(text);
  if (age.ok()) return now - *age;
  return UsageError(StrCat("--", flag, " '", ForDisplay(text, 80),
                           "' is neither an age such as 90s, 2h, 3d nor a time such as "
                           "2026-11-20T10:00:00Z"));
}

}  // namespace profd::cli
