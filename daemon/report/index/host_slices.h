// HostSlices is what the threads of a capture did, nested as viewers show it: Python functions, and
// the ranges and operators that they called.
//
//   train()                ▕███████████████████████████████▏
//     nn.Module: Net_0      ▕██████████████▏
//       aten::linear        ▕████▏ ▕██████▏        ▕███████▏ aten::mse_loss
//
// Where Python functions are known from:
//   recorded   traces of torch.profiler with with_stack: when each function began and ended. They
//              have rows of their own (daemon/import), which are put together by OS thread.
//   sampled    captures with stacks: which functions were running when an operator began. A
//              function lasts from the first to the last of consecutive operators that have it on
//              their stack. Functions that called no operator are missing, and consecutive calls
//              of one function are one; those of a module are not (StackTable::Stack::is_again).
//
// Threads: any number, once built.
// Memory:  40 bytes per range and Python function; while it is built, as much again, and 64 per
//          operator.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_INDEX_HOST_SLICES_H_
#define PROFD_DAEMON_REPORT_INDEX_HOST_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/frame_tree.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct HostSlice {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  int64_t start_ns = 0;
  int64_t end_ns = 0;
  uint32_t parent = kNone;  // Position among the slices of its row; kNone: outermost.
  uint32_t name = 0;        // Index into names(); 0: it is a Python function.
  uint32_t thread = 0;      // Index into threads()
  // A node of frames(): of a Python function its own; else that of the innermost function around.
  uint32_t frame = FrameTree::kNone;
  // Of a backward operator, and of what it runs: the frame of its forward operator; kNone: not
  // known, or not backward.
  uint32_t forward = FrameTree::kNone;
  uint16_t depth = 0;  // The range's.
  bool is_python = false;
};

// Whether a range of this category (wire::RangeCategory) is a Python function.
bool IsPythonFunction(uint8_t category);

class HostSlices {
 public:
  struct Options {
    // Steps that are shown on the row of `step_thread`, with which sampled functions have to nest.
    std::span<const StepRecord> steps;
    int64_t step_thread = -1;  // -1: none are.
  };
  HostSlices() = default;
  static absl::StatusOr<HostSlices> Build(store::CaptureReader& reader, const Options& options);

  // Whether any Python function is known.
  bool has_python() const { return frames_.size() > 1; }
  // Whether functions are sampled.
  bool is_sampled() const { return !frame_of_.empty(); }
  const FrameTree& frames() const { return frames_; }
  // The node of a stack of the capture (StackRow), if functions are sampled; else kNone.
  uint32_t FrameOfStack(uint32_t stack) const {
    return stack < frame_of_.size() ? frame_of_[stack] : FrameTree::kNone;
  }
  // A row per OS thread; `thread`: an index into threads().
  size_t row_count() const { return rows_.size(); }
  uint32_t RowOf(uint32_t thread) const { return row_of_[thread]; }
  // By start; of those that begin together the outer one first.
  std::span<const HostSlice> SlicesOf(uint32_t row) const { return rows_[row]; }
  // The innermost slice at that time; HostSlice::kNone: none.
  uint32_t At(uint32_t row, int64_t time_ns) const;

 private:
  class Builder;

  FrameTree frames_;
  std::vector<uint32_t> frame_of_;  // By stack.
  std::vector<uint32_t> row_of_;    // By thread.
  std::vector<std::vector<HostSlice>> rows_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_HOST_SLICES_H_
