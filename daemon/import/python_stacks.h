// PythonStacks makes stacks of a capture of the "Call stack" of operators, and says where modules
// are in the model:
//
//   "torch/nn/modules/linear.py(125): forward;nn.Module: Linear_0;train.py(8): step;"
//
// The innermost frame comes first. torch.profiler writes it with with_stack and verbose=True, and
// profd of captures with stacks. Of a deeper stack than kMostFrames the innermost frames are kept.
//
// Threads: one.
// Memory:  kMaxBytes of distinct stacks and of their frames and rows; operators with further ones
//          have none, and are counted.
// Errors:  the sink's.
#ifndef PROFD_DAEMON_IMPORT_PYTHON_STACKS_H_
#define PROFD_DAEMON_IMPORT_PYTHON_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/ports.h"
#include "daemon/import/names.h"

namespace profd::importer {

class PythonStacks {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kMostFrames = 256;

  // Must outlive it.
  explicit PythonStacks(NameTable& names) : names_(names) {}

  struct Stack {
    uint32_t id = 0;  // 0: nothing is there, or no room.
    // An export makes the same text of its frames.
    bool is_restored = true;
  };
  // A JSON string as it stands in the trace; empty: not there.
  absl::StatusOr<Stack> Add(std::string_view json);
  // A module's name as `python_function` rows have it ("nn.Module: Linear_0", as JSON), and its
  // place.
  absl::Status AddModule(std::string_view name_json, std::string_view place_json);

  int64_t left_out_count() const { return left_out_count_; }
  int64_t cut_count() const { return cut_count_; }  // Distinct stacks.
  int64_t stack_count() const { return static_cast<int64_t>(rows_.size()); }
  // Gives the sink all of them. Call once, last.
  absl::Status Finish(CaptureSink& sink);

 private:
  absl::StatusOr<uint32_t> FrameOf(std::string_view text);
  absl::StatusOr<Stack> Parse(std::string_view text);

  NameTable& names_;
  absl::flat_hash_map<std::string, Stack> by_json_;
  absl::flat_hash_map<std::string, uint32_t> by_text_;  // Frames: positions in frames_.
  std::vector<StackRow> frames_;                        // Without callers.
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> by_frame_;  // (caller, frame)
  std::vector<StackRow> rows_;
  absl::flat_hash_map<uint32_t, uint32_t> places_;  // Names of modules' places, by their own.
  size_t bytes_ = 0;
  int64_t left_out_count_ = 0;
  int64_t cut_count_ = 0;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_PYTHON_STACKS_H_
