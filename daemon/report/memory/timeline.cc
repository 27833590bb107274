#include "daemon/report/memory/timeline.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/report/memory/allocation_origins.h"
#include "daemon/report/memory/levels.h"
#include "daemon/report/memory/out_of_memory.h"
#include "daemon/report/memory/shares.h"
#include "daemon/report/memory/tracker.h"

namespace profd::report {
namespace {

class Curves final : public MemoryObserver {
 public:
  explicit Curves(int64_t max_points) : max_points_(max_points) {}

  void Begin(MemoryDeviceKey key, const MemoryTracker& tracker, int64_t time_ns) override {
    levels_.try_emplace(key, max_points_)
        .first->second.Add({std::min<int64_t>(0, time_ns), tracker.allocated_bytes()});
  }
  void Applied(MemoryDeviceKey key, const MemoryTracker& tracker, const MemoryEvent& event,
               int64_t told_before) override {
    MemoryLevels& levels = levels_.at(key);
    if (told_before != 0) levels.Shift(told_before);
    levels.Add({event.time_ns, tracker.allocated_bytes()});
  }
  // None of a device without events.
  std::vector<MemoryPoint> Take(MemoryDeviceKey key) {
    const auto found = levels_.find(key);
    return found == levels_.end() ? std::vector<MemoryPoint>() : found->second.Take();
  }

 private:
  const int64_t max_points_;
  std::map<MemoryDeviceKey, MemoryLevels> levels_;
};

// `origins`: of the blocks, by handle from `first` on; nullptr: not wanted.
void AddPeak(const std::vector<TrackedBlock>& blocks, const std::vector<MemoryShare>& older,
             const AllocationOrigins* origins, size_t first, DeviceMemory& memory) {
  MemoryShares by_category;
  for (const MemoryShare& share : older) by_category.Add(share.name, share.bytes, share.blocks);
  MemoryShares by_op;
  for (size_t i = 0; i < blocks.size(); ++i) {
    by_category.Add(CategoryName(blocks[i].category), blocks[i].bytes);
    if (origins != nullptr) by_op.Add(origins->InnermostOf(first + i), blocks[i].bytes);
  }
  memory.peak_by_category = by_category.LargestFirst();
  memory.peak_by_op = by_op.LargestFirst();
}

}  // namespace

absl::StatusOr<MemoryTimeline> SummarizeMemory(store::CaptureReader& reader,
                                               const MemoryOptions& options) {
  RETURN_IF_ERROR(ValidateMaxPoints(options.max_points));
  Curves curves(options.max_points);
  ASSIGN_OR_RETURN(MemoryTrackers trackers, TrackMemory(reader, curves));

  MemoryTimeline timeline;
  AllocationOrigins origins;
  std::vector<std::vector<TrackedBlock>> at_peak;
  std::vector<std::vector<MemoryShare>> older_at_peak;
  for (auto& [key, tracker] : trackers) {
    DeviceMemory& memory = timeline.devices.emplace_back(tracker.Take());
    memory.device = MemoryDeviceName(key);
    memory.points = curves.Take(key);
    at_peak.push_back(tracker.BlocksAtPeak());
    older_at_peak.push_back(tracker.OlderAtPeak());
    if (!options.peak_by_op) continue;
    for (const TrackedBlock& block : at_peak.back()) origins.Add(block.thread, block.time_ns);
  }
  RETURN_IF_ERROR(origins.Resolve(reader));
  size_t first = 0;
  for (size_t device = 0; device < at_peak.size(); ++device) {
    AddPeak(at_peak[device], older_at_peak[device], options.peak_by_op ? &origins : nullptr, first,
            timeline.devices[device]);
    first += at_peak[device].size();
  }
  ASSIGN_OR_RETURN(const std::vector<OutOfMemoryNote> notes, FindOutOfMemory(reader));
  for (const OutOfMemoryNote& note : notes) timeline.out_of_memory.push_back(note.event);
  return timeline;
}

}  // namespace profd::report
