// Which node of a fleet has a capture: all are asked at once for an id, or the start of one.
#ifndef PROFD_CLI_CAPTURES_FIND_CAPTURE_H_
#define PROFD_CLI_CAPTURES_FIND_CAPTURE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/captures/fleet.h"
#include "cli/client/capture_view.h"
#include "cli/client/invocation.h"

namespace profd::cli {

struct FoundCapture {
  size_t member = 0;
  CaptureView view;
};

struct CaptureSearch {
  // Of each id, in their order. NOT_FOUND: no node has it, naming those that could not be asked;
  // INVALID_ARGUMENT (USAGE): several nodes have one that begins so; else what a node that was
  // asked said.
  std::vector<absl::StatusOr<FoundCapture>> found;
  std::vector<NodeOutcome> outcomes;  // A node that has none of them is OK.
};

// `ids` as ParseCaptureId() gives them. The connections stay; their calls are no longer limited.
absl::StatusOr<CaptureSearch> FindCaptures(Invocation& invocation, Fleet& fleet,
                                           const std::vector<std::string>& ids);
// One of them.
absl::StatusOr<FoundCapture> FindCapture(Invocation& invocation, Fleet& fleet,
                                         const std::string& id);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_FIND_CAPTURE_H_
