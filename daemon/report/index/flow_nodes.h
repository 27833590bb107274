// FlowNodes are the operators of a capture as steps of a computation: of operators inside each
// other the outermost that does work, so that what it made and freed inside was of no concern to
// anyone else.
//
//   autograd::engine::evaluate_function: AddmmBackward0    (no work itself: what is inside is
//     AddmmBackward0  ◄── a node, backward                  backward)
//       aten::mm          (inside of it)
//   Optimizer.step#SGD.step                                (a range of the program's)
//     aten::add_      ◄── a node of the optimizer
//
// Threads: built by one; then any, reading only.
// Memory:  32 bytes per node; while it is built, what OperatorIndex takes.
// Errors:  the reader's. Any rows are safe: nesting that cannot be is read as some other.
#ifndef PROFD_DAEMON_REPORT_INDEX_FLOW_NODES_H_
#define PROFD_DAEMON_REPORT_INDEX_FLOW_NODES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct FlowNode {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool is_backward = false;   // Of the backward pass.
  bool is_optimizer = false;  // Inside of an optimizer's step.
  bool writes_first = false;  // Changes its first input: "aten::add_".
};

class FlowNodes {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  static absl::StatusOr<FlowNodes> Build(store::CaptureReader& reader);

  // By thread, then by start. Their positions are their numbers.
  std::span<const FlowNode> nodes() const { return nodes_; }

  // What an operator that began then, at that depth, had as its first input becomes a
  // parameter's gradient: the first thing that AccumulateGrad does is to keep it, or to add to it.
  bool KeepsGradient(uint32_t thread, int64_t start_ns, uint16_t depth) const;

  // Whether an optimizer's zero_grad ran on `thread` then: what it lets go of are gradients.
  bool ForgetsGradients(uint32_t thread, int64_t time_ns) const;

  // Whether the engine of the backward pass ran a function on `thread` then, or let go of what that
  // function had kept from the forward pass, which it does between nodes.
  bool InBackward(uint32_t thread, int64_t time_ns) const;

  // Finds nodes by time, for questions whose times never go back.
  class Cursor {
   public:
    explicit Cursor(const FlowNodes& nodes) : nodes_(nodes), next_(nodes.thread_begin_) {}
    // The node that ran on `thread` at `time_ns`; kNone: none did.
    uint32_t NodeAt(uint32_t thread, int64_t time_ns);

   private:
    const FlowNodes& nodes_;
    std::vector<size_t> next_;  // Of each thread the first node that has not ended before.
  };

 private:
  class Builder;
  struct Kept {
    int64_t start_ns;
    uint16_t depth;
  };
  struct Span {
    int64_t start_ns;
    int64_t end_ns;
  };

  static bool IsInside(const std::vector<std::vector<Span>>& spans, uint32_t thread,
                       int64_t time_ns);

  std::vector<FlowNode> nodes_;
  // Of thread i: nodes_[thread_begin_[i], thread_begin_[i + 1])
  std::vector<size_t> thread_begin_ = std::vector<size_t>(1);
  std::vector<std::vector<Kept>> kept_;  // By thread; by start.
  // By thread; by start, none inside another.
  std::vector<std::vector<Span>> zero_grad_;
  std::vector<std::vector<Span>> backward_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_FLOW_NODES_H_
