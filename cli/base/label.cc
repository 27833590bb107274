#include "cli/base/label.h"

#include "cli/base/flags.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

absl::StatusOr<std::map<std::string, std::string>> ParseLabels(std::span<const std::string> words) {
  std::map<std::string, std::string> labels;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      return UsageError(StrCat("--label '", ForDisplay(word, 80), "' is not KEY=VALUE"));
    }
    const std::string key = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    if (const absl::Status status = ValidateLabel(key, value); !status.ok()) {
      return UsageError(StrCat("--label: ", FromAbsl(status.message())));
    }
    if (!labels.emplace(key, value).second) {
      return UsageError(StrCat("--label: '", key, "' is given twice"));
    }
  }
  return labels;
}

}  // namespace profd::cli
