// Hostlists: many host names in one word, as Slurm writes them.
//
//   gpu[001-128]            gpu001 ... gpu128: as wide as the first number is written
//   gpu[1-3,7]n[1-2]-ib     several ranges, several brackets, text after them
//   login,gpu[01-04]        separated by commas or spaces; empty items are skipped
//
// Errors: INVALID_ARGUMENT (USAGE), naming the item: a descending, empty or unclosed range,
//         a character that no host name has, or more than kMaxHosts names.
#ifndef PROFD_CLI_BASE_HOSTLIST_H_
#define PROFD_CLI_BASE_HOSTLIST_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace profd::cli {

inline constexpr size_t kMaxHosts = 65'536;

// The items of a list, separated by commas and spaces outside brackets; none is empty.
std::vector<std::string_view> SplitHostlist(std::string_view text);

// In the order written, the last bracket turning fastest; what is named twice is there twice.
absl::StatusOr<std::vector<std::string>> ExpandHostlist(std::string_view text);

// A short list of the same names, each once; numbers ascend. Names that are no host names stand
// as they are.
std::string CompressHostlist(std::span<const std::string> hosts);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_HOSTLIST_H_
