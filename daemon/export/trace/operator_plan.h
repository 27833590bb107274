// OperatorPlan is what trace formats show of operators besides their ranges: which range is which
// operator, and the arrows from a forward operator to the backward one that it caused.
//
// Arrows follow torch.profiler's rule. Autograd's sequence number and the thread of the forward
// name a pair. Taken in the order of their end, of the forward operators with equal names the one
// that began last is meant, and the first backward one takes it.
//
//   aten::linear  [------------------]  9        The number that the next node of autograd will
//   aten::t         [---]               9        get: three have it, and the last to begin
//   aten::addmm            [--------]   9 ──┐    made the node.
//   AddmmBackward0                      9 ◄─┘
//
// Memory: 40 bytes per operator; while it is made, 72 more, and as many again for those with a
//         sequence number.
// Errors: the reader's; RESOURCE_EXHAUSTED for more operators than any capture has.
#ifndef PROFD_DAEMON_EXPORT_TRACE_OPERATOR_PLAN_H_
#define PROFD_DAEMON_EXPORT_TRACE_OPERATOR_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

struct PlannedOperator {
  // Of autograd's own frame around a backward operator, both are that operator's.
  int64_t sequence = -1;        // -1: none
  uint64_t forward_thread = 0;  // torch's number; 0: none
  uint32_t range = 0;           // Ranges are counted as readers give them.
  uint32_t inputs = 0;          // Index into inputs(); 0: none
  uint32_t scalars = 0;         // Index into scalars(); 0: none
  uint32_t stack = 0;           // Of StackRow; 0: none
  uint32_t flow = 0;            // The arrow that begins or ends here, from 1; 0: none
  uint8_t scope = 0;            // wire::OperatorScope, or any other.
  bool ends_flow = false;
  bool is_collective = false;  // `record_param_comms`
};

// Whether a range of a wire::RangeCategory is torch's own, rather than a user's. `op` may be null.
bool IsOperator(uint8_t category, const PlannedOperator* op);

class OperatorPlan {
 public:
  // More than a capture may be asked for. RESOURCE_EXHAUSTED beyond.
  static constexpr size_t kMostOperators = 100'000'000;

  static absl::StatusOr<OperatorPlan> Make(store::CaptureReader& reader);

  bool empty() const { return operators_.empty(); }
  std::span<const PlannedOperator> operators() const { return operators_; }  // By range.
  // nullptr: the range is no operator, or nothing is known of it.
  const PlannedOperator* Find(uint32_t range) const;

  // The collective that a thread was in at a time; nullptr: none.
  const PlannedOperator* CollectiveAt(uint32_t thread, int64_t time_ns) const;

  // Finds the operators of one reading of all ranges, in order.
  class Cursor {
   public:
    explicit Cursor(const OperatorPlan& plan) : operators_(plan.operators()) {}
    // `range`: one more than the last time, or 0.
    const PlannedOperator* Next(uint32_t range) {
      if (next_ == operators_.size() || operators_[next_].range != range) return nullptr;
      return &operators_[next_++];
    }

   private:
    std::span<const PlannedOperator> operators_;
    size_t next_ = 0;
  };

 private:
  friend class OperatorPlanBuilder;
  OperatorPlan() = default;

  struct Collective {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t position;  // In operators_.
  };

  std::vector<PlannedOperator> operators_;
  std::vector<std::vector<Collective>> collectives_;  // By thread, then by end.
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_OPERATOR_PLAN_H_
