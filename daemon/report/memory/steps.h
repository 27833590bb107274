// MemorySteps measures one device's memory in each step, event by event.
//
// Threads: one. Memory: 88 bytes per step.
#ifndef PROFD_DAEMON_REPORT_MEMORY_STEPS_H_
#define PROFD_DAEMON_REPORT_MEMORY_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/report/index/memory_order.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/memory/tracker.h"

namespace profd::report {

class MemorySteps {
 public:
  // `steps` must be sorted by start and outlive this.
  explicit MemorySteps(std::span<const StepRecord> steps) : steps_(steps) {}

  // Sets the level before the first event. Call first.
  void StartAt(int64_t level_bytes) { level_ = level_bytes; }
  // Times must not decrease from call to call. `tracker` has the state after the event.
  void Add(const MemoryEvent& event, const MemoryTracker& tracker);
  // Adds `bytes` to every level so far.
  void Shift(int64_t bytes);
  // Ends all steps. `live` are the blocks that were never freed. Call once, last.
  std::vector<MemoryStepRow> Take(const std::vector<TrackedBlock>& live);

 private:
  void AdvanceTo(int64_t time_ns);
  void Begin();

  const std::span<const StepRecord> steps_;
  std::vector<MemoryStepRow> rows_;  // One for each step that has begun.
  bool in_step_ = false;             // The last row's.
  int64_t level_ = 0;
  int64_t reserved_ = -1;
};

// Returns the growth from a device's rows, without suspects.
MemoryGrowth GrowthOf(std::span<const MemoryStepRow> steps);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_STEPS_H_
