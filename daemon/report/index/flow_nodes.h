// FlowNodes are a capture's operators as steps of a computation. Of nested operators, a node is the
// outermost one that does work: what it allocates and frees inside does not concern other nodes.
//
//   autograd::engine::evaluate_function: AddmmBackward0    (no work of its own: its children are
//     AddmmBackward0  ◄── a node, backward                  backward)
//       aten::mm          (inside the node)
//   Optimizer.step#SGD.step                                (a range of the program)
//     aten::add_      ◄── a node of the optimizer
//
// Threads: one builds it; then any may read.
// Memory:  32 bytes per node; while it is built, also that of OperatorIndex.
// Errors:  the reader's. Any rows are safe: impossible nesting is read as another nesting.
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
  bool is_optimizer = false;  // Inside an optimizer's step.
  bool writes_first = false;  // Changes its first input: "aten::add_".
};

class FlowNodes {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  static absl::StatusOr<FlowNodes> Build(store::CaptureReader& reader);

  // By thread, then by start. A node's number is its position here.
  std::span<const FlowNode> nodes() const { return nodes_; }

  // Returns whether the first input of the operator with this start and depth becomes a gradient:
  // AccumulateGrad first keeps it or adds to it.
  bool KeepsGradient(uint32_t thread, int64_t start_ns, uint16_t depth) const;

  // Returns whether an optimizer's zero_grad ran on `thread` at that time: it frees gradients.
  bool ForgetsGradients(uint32_t thread, int64_t time_ns) const;

  // Returns whether, at that time, the backward engine ran a function on `thread`, or released what
  // the function had kept from the forward pass, which happens between nodes.
  bool InBackward(uint32_t thread, int64_t time_ns) const;

  // Finds nodes by time; times must not decrease from call to call.
  class Cursor {
   public:
    explicit Cursor(const FlowNodes& nodes) : nodes_(nodes), next_(nodes.thread_begin_) {}
    // Returns the node that ran on `thread` at `time_ns`; kNone: none.
    uint32_t NodeAt(uint32_t thread, int64_t time_ns);

   private:
    const FlowNodes& nodes_;
    std::vector<size_t> next_;  // By thread: the first node that has not ended yet.
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
