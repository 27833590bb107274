// KEY=VALUE labels on the command line.
#ifndef PROFD_CLI_BASE_LABEL_H_
#define PROFD_CLI_BASE_LABEL_H_

#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace profd::cli {

// INVALID_ARGUMENT (USAGE): not KEY=VALUE, not a key or value that labels may have, or a key
// twice.
absl::StatusOr<std::map<std::string, std::string>> ParseLabels(std::span<const std::string> words);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_LABEL_H_
