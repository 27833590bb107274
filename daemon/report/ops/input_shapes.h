// The sizes of an operator's inputs, from OperatorInputs.dims (daemon/capture/event_kinds.h).
//
// Threads: any. Errors: none; text of any other form (the file may be hostile) gives nullopt.
#ifndef PROFD_DAEMON_REPORT_OPS_INPUT_SHAPES_H_
#define PROFD_DAEMON_REPORT_OPS_INPUT_SHAPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace profd::report {

struct InputShape {
  std::vector<int64_t> sizes;               // Of a tensor; empty: no tensor, or one without sizes.
  std::vector<std::vector<int64_t>> items;  // Of a list of tensors.
};

// Parses "[[16,64],[],[[3,4],[3,4]]]", with any white space; sizes are not negative.
std::optional<std::vector<InputShape>> ParseInputShapes(std::string_view dims);

// Formats shapes as torch.profiler's table does, without the items of lists: "[[16, 64], [], []]".
std::string InputShapesText(const std::vector<InputShape>& shapes);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_INPUT_SHAPES_H_
