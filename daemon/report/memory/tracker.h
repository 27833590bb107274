// MemoryTracker follows one device's memory, event by event: its level, its blocks, its peak.
// TrackMemory() makes one for each device of a capture and passes it the events.
//
// Threads: one.
// Memory:  9 bytes per address, 72 per block alive at once and, at most twice, per block alive at
// the peak. Errors:  none of its own: any events are safe, and sums of hostile numbers wrap.
#ifndef PROFD_DAEMON_REPORT_MEMORY_TRACKER_H_
#define PROFD_DAEMON_REPORT_MEMORY_TRACKER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/memory_order.h"
#include "daemon/report/memory/categories.h"
#include "daemon/report/memory/category_levels.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct TrackedBlock {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  int64_t bytes = 0;
  int64_t time_ns = 0;  // When it was allocated.
  int64_t freed_ns = kNever;
  uint64_t number = 0;  // The number of the event that allocated it.
  uint32_t thread = 0;
  uint8_t category = 0;
};

class MemoryTracker {
 public:
  static constexpr size_t kCategories = 8;  // Of wire::MemoryCategory.

  // The window is [0, `end_ns`).
  explicit MemoryTracker(int64_t end_ns) : categories_(end_ns) {}

  // Adds a block that existed when the window began, such as one that is freed without a recorded
  // allocation. Call before all events.
  void AddOlder(const OlderBlock& block);
  // The totals of events count from some other time than the process's start. Likewise.
  void IgnoreTotals() { ignores_totals_ = true; }
  // Returns the bytes that existed before the window and are not known from blocks, by which all
  // levels so far are too low. Only the first event with a total reveals them; for other events,
  // returns 0.
  int64_t Apply(const MemoryEvent& event);

  // The current levels.
  int64_t allocated_bytes() const { return level_; }
  int64_t reserved_bytes() const { return reserved_; }  // -1: not known
  bool has_events() const { return event_number_ > 0; }
  // torch reports no free of a block that it did not see allocated, so a level that counts from the
  // recording may rise while the program's memory does not.
  bool counts_from_recording() const { return ignores_totals_; }
  const CategoryLevels& categories() const { return categories_; }

  // Levels at the peak of allocated bytes, and at the peak of reserved bytes.
  int64_t reserved_at_peak_bytes() const { return reserved_at_peak_; }
  int64_t peak_reserved_time_ns() const { return peak_reserved_time_ns_; }
  int64_t allocated_at_peak_reserved_bytes() const { return allocated_at_peak_reserved_; }

  // Returns everything except the name, the points, and the blocks alive at the peak. Call once,
  // after the last event.
  DeviceMemory Take();
  // After Take(): the blocks allocated in the capture and alive at the peak, or alive now.
  std::vector<TrackedBlock> BlocksAtPeak() const;
  std::vector<TrackedBlock> LiveBlocks() const;
  // After Take(): the older blocks of known size that were alive at the peak, by category.
  std::vector<MemoryShare> OlderAtPeak() const;

 private:
  // Each returns the change of the level by the event itself.
  int64_t Allocate(const MemoryEvent& event);
  int64_t Free(const MemoryEvent& event);
  void Retire(TrackedBlock block, int64_t time_ns);
  int64_t SetLevel(const MemoryEvent& event, int64_t counted);
  void NoticePeaks(const MemoryEvent& event);

  DeviceMemory device_;
  CategoryLevels categories_;
  struct Older {
    int64_t bytes = 0;
    int64_t blocks = 0;
  };
  using OlderByCategory = std::array<Older, kCategories>;

  bool ignores_totals_ = false;
  OlderByCategory older_{};  // Alive now.
  OlderByCategory older_at_peak_{};
  int64_t level_ = 0;
  int64_t reserved_ = -1;
  int64_t reserved_at_peak_ = -1;
  int64_t peak_reserved_time_ns_ = -1;
  int64_t allocated_at_peak_reserved_ = -1;
  bool total_known_ = false;
  uint64_t event_number_ = 0;
  uint64_t peak_number_ = 0;  // 0: the peak is the level before the first event.
  absl::flat_hash_map<uint64_t, TrackedBlock> live_;
  absl::flat_hash_set<uint64_t> freed_;  // Addresses of which a free was seen.
  // Blocks that were alive at the peak so far and were freed since.
  std::vector<TrackedBlock> freed_since_peak_;
};

// By device type and number; as MemoryDeviceName() has them.
using MemoryDeviceKey = std::pair<uint8_t, int16_t>;
// Returns "cpu:0", "cuda:1", "hip:0"; without a number if it is negative: "cpu".
std::string MemoryDeviceName(MemoryDeviceKey key);

using MemoryTrackers = std::map<MemoryDeviceKey, MemoryTracker>;

// Observes TrackMemory().
class MemoryObserver {
 public:
  virtual ~MemoryObserver() = default;
  // Called before a device's first event, which is at `time_ns`.
  virtual void Begin(MemoryDeviceKey key, const MemoryTracker& tracker, int64_t time_ns) = 0;
  // Called after each event was applied; `told_before` is the result of Apply().
  virtual void Applied(MemoryDeviceKey key, const MemoryTracker& tracker, const MemoryEvent& event,
                       int64_t told_before) = 0;
};

// Errors: the reader's.
absl::StatusOr<MemoryTrackers> TrackMemory(store::CaptureReader& reader, MemoryObserver& observer);

// Returns the end of the last window.
int64_t EndOfWindows(const CaptureRecord& record);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_TRACKER_H_
