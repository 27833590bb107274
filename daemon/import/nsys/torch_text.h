// Parses the range names of torch.autograd.profiler.emit_nvtx(): an operator's name and the details
// of the call, such as "aten::mm, seq = 4, op_id = 17, sizes = [[2, 3], [3, 4]]".
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_IMPORT_NSYS_TORCH_TEXT_H_
#define PROFD_DAEMON_IMPORT_NSYS_TORCH_TEXT_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace profd::importer {

struct TorchText {
  std::string_view name;
  int64_t sequence = -1;  // Autograd's; -1: none.
  std::string_view dims;  // A JSON array of arrays of numbers; empty: not recorded.
};
// nullopt: the text is not from torch.
std::optional<TorchText> ParseTorchText(std::string_view text);

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_NSYS_TORCH_TEXT_H_
