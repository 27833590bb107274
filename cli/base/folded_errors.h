// Errors of many as one line each, however many have it:
//
//   gpu001: connection to gpu001:7411 refused ─┐
//   gpu002: connection to gpu002:7411 refused ─┼─► {gpu001, gpu002, gpu003}, "connection to gpu001
//   ..." gpu003: connection to gpu003:7411 refused ─┘
#ifndef PROFD_CLI_BASE_FOLDED_ERRORS_H_
#define PROFD_CLI_BASE_FOLDED_ERRORS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace profd::cli {

struct NodeError {
  std::string node;  // As the command line names it.
  std::string text;
};
struct FoldedError {
  std::vector<size_t> of;  // Positions in `errors`, ascending.
  std::string text;        // Of the first one.
};

// Returns them in the order in which they first occur. Texts count as equal if they differ only in
// their node's name and the port that follows it.
std::vector<FoldedError> FoldErrors(std::span<const NodeError> errors);

// "rank 0 on a, rank 1 on b, rank 2 on c, and 5 more"
std::string FirstOf(std::span<const std::string> names);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_FOLDED_ERRORS_H_
