// StepDetector says where a training loop's steps begin, from what a loop cannot help showing:
// its optimizers and its DataLoaders. Pure rules, fed by steps.cc; each is tested by name in
// tests/client_lib/torch/step_detector_test.cc.
//
//   one optimizer          a step begins where Optimizer.step() ends
//   a wrapped optimizer    the outermost one counts
//   several by name        the last one of the period, once two periods showed which that is; one
//                          that fires more seldom than another does not lead
//   several in a row       (of one name, or several) the last one of the row; a batch ends a row,
//                          and so does work: nodes that autograd made since
//   several of one name    (two Adams) as by name, where torch's hooks tell which is called, see
//                          hooked_optimizers.h. Else with a DataLoader: the last one of each batch;
//                          without: told apart by their work, see optimizer_twins.h
//   gradient accumulation  several batches to one step: batches are counted, not steps
//   GradScaler             a step() that is skipped makes its step longer
//   another optimizer      takes over when the one that led has been silent for long
//   DataLoaders            a step begins where __next__() begins; several in a row with no work in
//                          between are one
//
// Known gap: the __next__() that ends an epoch counts as a batch.
//
// Threads: one. Hot path: no allocation, no clock; some ten ns a call.
#ifndef PROFD_CLIENT_LIB_TORCH_STEP_DETECTOR_H_
#define PROFD_CLIENT_LIB_TORCH_STEP_DETECTOR_H_

#include <cstdint>

#include "client_lib/torch/call_rows.h"
#include "client_lib/torch/hooked_optimizers.h"
#include "client_lib/torch/optimizer_twins.h"

namespace profd::client::torch {

// Of optimizers with several names, the one whose calls are steps.
class LeadingOptimizer {
 public:
  // An optimizer of `name` fires. Whether it leads.
  bool OnStep(uint64_t name);

 private:
  static constexpr uint32_t kMostNames = 8;  // Further ones never lead.
  static constexpr uint32_t kNobody = UINT32_MAX;
  static constexpr uint32_t kPeriods = 2;         // That show who comes last.
  static constexpr uint32_t kLongestSilence = 8;  // Of who leads, in calls of others.

  uint32_t IndexOf(uint64_t name);
  bool OnLeader();
  bool OnOther(uint32_t index);

  uint64_t names_[kMostNames] = {};
  bool has_lost_[kMostNames] = {};  // Had its turn; does not come back while the leader is there.
  uint32_t name_count_ = 0;
  uint32_t leader_ = kNobody;
  uint32_t last_other_ = kNobody;    // Since the leader's last call.
  uint32_t challenger_ = kNobody;    // Came last in the period before.
  uint32_t challenged_periods_ = 0;  // In a row, by it.
  uint32_t silence_ = 0;
};

// An outermost call of an optimizer's step(), as torch's hooks tell of it.
struct OptimizerCall {
  uint64_t type;       // Address of its class.
  uint64_t optimizer;  // Its number: none that came later has or had a lower one.
  uint64_t begin_ticks;
  uint64_t end_ticks;
};

class StepDetector {
 public:
  // An optimizer of `name` (any number that stands for it) enters and leaves its step(). True: a
  // step begins at `ticks`. `nodes`: how many autograd has made on this thread so far; always 0
  // where torch does not tell. `count`: how many optimizers of `name` there are, once that is
  // known.
  void OnOptimizerBegin(uint64_t ticks);
  bool OnOptimizerEnd(uint64_t name, uint64_t ticks, uint64_t nodes,
                      uint32_t count = kUnknownCount);

  // The same for an optimizer whose number is known. Batches do not matter here, because they are
  // not always seen. Do not mix it with OnOptimizerEnd() in one program.
  bool OnOptimizerCall(const OptimizerCall& call, uint64_t nodes);

  // True once for each time that it needs those counts anew: how many of each name there are now.
  bool WantsCounts() { return twins_.TakeQuestion(); }

  // A DataLoader's __next__() begins and ends. True: a new batch, and, where nothing else marks
  // steps, a step.
  bool OnBatchBegin(uint64_t ticks, uint64_t nodes);
  void OnBatchEnd(uint64_t ticks);

 private:
  bool IsLastOfRow(uint64_t nodes, bool is_apart);
  bool Leads(uint64_t name, uint64_t nodes, uint32_t count);
  bool IsLastOfBatch();
  void CountStepsOfBatch();

  LeadingOptimizer leading_;
  OptimizerKeys keys_;
  uint64_t called_last_ = 0;  // The optimizer of the last OnOptimizerCall().
  OptimizerTwins twins_;
  uint64_t twins_nodes_ = 0;  // When it was asked last.
  CallRows optimizer_rows_;
  uint32_t optimizer_depth_ = 0;
  uint64_t optimizer_begin_ticks_ = 0;
  uint64_t optimizer_end_ticks_ = 0;  // 0: none yet.
  uint64_t optimizer_end_nodes_ = 0;
  bool has_batch_since_ = false;  // Since then.

  CallRows batch_rows_;
  uint32_t batch_depth_ = 0;
  uint64_t batch_end_ticks_ = 0;  // 0: none yet.
  uint64_t batch_nodes_ = 0;      // When it began.

  uint32_t steps_in_batch_ = 0;       // The leader's, since the last batch.
  uint32_t steps_in_last_batch_ = 0;  // Of those that had any.
  uint32_t steps_per_batch_ = 1;      // As it is known.
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_STEP_DETECTOR_H_
