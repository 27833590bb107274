#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/category_levels.h"
#include "daemon/report/memory_categories.h"
#include "daemon/report/memory_levels.h"
#include "daemon/report/memory_order.h"
#include "daemon/report/reports.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr std::string_view kNoRange = "(no range)";

// Byte counts are a stranger's: they wrap rather than overflow.
int64_t Sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

struct Block {
  int64_t bytes = 0;
  int64_t time_ns = 0;  // When it was allocated.
  uint64_t number = 0;  // Of the event that allocated it.
  uint32_t thread = 0;
  uint8_t category = 0;
};

// One device's level, blocks and peak, event by event.
class DeviceTracker {
 public:
  // The window is [0, `end_ns`).
  DeviceTracker(int64_t max_points, int64_t end_ns) : levels_(max_points), categories_(end_ns) {}

  // Before all events, if at all: for each block that is freed, though nobody saw it allocated,
  // and for others that were there when the window began.
  void AddOlder(const OlderBlock& block) {
    older_are_known_ = true;
    categories_.AddOlder(block.category, block.bytes);
  }

  void Apply(const MemoryEvent& event) {
    if (++event_number_ == 1) Start(std::min<int64_t>(0, event.time_ns));
    const int64_t change = event.is_free ? Free(event) : Allocate(event);
    SetLevel(event, Sum(level_, change));
    if (event.total_reserved_bytes >= 0) {
      device_.peak_reserved_bytes =
          std::max(device_.peak_reserved_bytes, event.total_reserved_bytes);
    }
    levels_.Add({event.time_ns, level_});
    if (level_ > device_.peak_bytes) {
      device_.peak_bytes = level_;
      device_.peak_time_ns = event.time_ns;
      peak_number_ = event_number_;
      freed_since_peak_.clear();
    }
  }

  // Everything but the shares. Call once, after the last event; then BlocksAtPeak().
  DeviceMemory Take() {
    device_.relative = !total_known_;
    device_.end_bytes = level_;
    device_.points = levels_.Take();
    device_.categories = categories_.Take();
    return std::move(device_);
  }

  // Allocated in the capture and alive at the peak.
  std::vector<Block> TakeBlocksAtPeak() {
    std::vector<Block> blocks = std::move(freed_since_peak_);
    for (const auto& [address, block] : live_) {
      if (block.number <= peak_number_) blocks.push_back(block);
    }
    return blocks;
  }

 private:
  void Start(int64_t time_ns) {
    device_.peak_time_ns = time_ns;
    levels_.Add({time_ns, 0});
  }

  // Each returns the change of the level that the event itself tells of.
  int64_t Allocate(const MemoryEvent& event) {
    ++device_.allocation_count;
    device_.allocated_total_bytes = Sum(device_.allocated_total_bytes, event.bytes);
    const Block block = {event.bytes, event.time_ns, event_number_, event.thread, event.category};
    categories_.Allocate(event.time_ns, event.category, event.bytes);
    const auto [at, inserted] = live_.try_emplace(event.address, block);
    if (inserted) return event.bytes;
    // Its free was lost, but freed it was: the address is in use anew.
    const Block old = std::exchange(at->second, block);
    Retire(old, event.time_ns);
    return Difference(event.bytes, old.bytes);
  }

  int64_t Free(const MemoryEvent& event) {
    ++device_.free_count;
    const auto found = live_.find(event.address);
    if (found == live_.end()) {
      ++device_.unknown_free_count;
      device_.unknown_free_bytes = Sum(device_.unknown_free_bytes, event.bytes);
      if (older_are_known_) categories_.Free(event.time_ns, event.category, event.bytes);
      return Difference(0, event.bytes);
    }
    const Block block = found->second;
    live_.erase(found);
    Retire(block, event.time_ns);
    return Difference(0, block.bytes);
  }

  void Retire(const Block& block, int64_t time_ns) {
    categories_.Free(time_ns, block.category, block.bytes);
    if (block.number <= peak_number_) freed_since_peak_.push_back(block);
  }

  void SetLevel(const MemoryEvent& event, int64_t counted) {
    if (event.total_allocated_bytes < 0) {
      level_ = counted;
      return;
    }
    level_ = event.total_allocated_bytes;
    if (std::exchange(total_known_, true)) return;
    // The first total tells how much there was before the window.
    const int64_t before = Difference(level_, counted);
    device_.start_bytes = before;
    device_.peak_bytes = Sum(device_.peak_bytes, before);
    levels_.Shift(before);
  }

  DeviceMemory device_;
  MemoryLevels levels_;
  CategoryLevels categories_;
  bool older_are_known_ = false;
  int64_t level_ = 0;
  bool total_known_ = false;
  uint64_t event_number_ = 0;
  uint64_t peak_number_ = 0;  // 0: the peak is the level before the first event.
  absl::flat_hash_map<uint64_t, Block> live_;
  // Alive at the peak so far, not any more: never more than were alive at once.
  std::vector<Block> freed_since_peak_;
};

// A block alive at some device's peak, on its way to the range it was allocated in.
struct PeakBlock {
  int64_t time_ns;
  int64_t bytes;
  size_t device;
  uint32_t name;  // 0: in no range
};

// Finds the innermost range around each block's allocation, thread by thread. Ranges come
// in order of their end, so it is the first that ends at or after the allocation and began
// at or before it. Blocks that a range has passed without enclosing wait on a stack for an
// outer one.
class BlockRanges {
 public:
  void Add(uint32_t thread, const PeakBlock& block) {
    blocks_of_[thread].blocks.push_back(block);
    first_ns_ = std::min(first_ns_, block.time_ns);
    last_ns_ = std::max(last_ns_, block.time_ns);
  }

  absl::Status Resolve(store::CaptureReader& reader) {
    if (blocks_of_.empty()) return absl::OkStatus();
    for (auto& [thread, of_thread] : blocks_of_) {
      std::sort(of_thread.blocks.begin(), of_thread.blocks.end(),
                [](const PeakBlock& a, const PeakBlock& b) { return a.time_ns < b.time_ns; });
    }
    const store::TimeFilter filter = {
        first_ns_, last_ns_ + (last_ns_ < std::numeric_limits<int64_t>::max() ? 1 : 0)};
    return reader.ForEachRange(store::kRangeStart | store::kRangeDuration | store::kRangeName,
                               filter, [&](const store::RangeBatch& batch) {
                                 const auto found = blocks_of_.find(batch.thread);
                                 if (found != blocks_of_.end()) Match(batch, found->second);
                                 return absl::OkStatus();
                               });
  }

  template <typename Fn>
  void ForEach(Fn fn) const {
    for (const auto& [thread, of_thread] : blocks_of_) {
      for (const PeakBlock& block : of_thread.blocks) fn(block);
    }
  }

 private:
  struct OfThread {
    std::vector<PeakBlock> blocks;  // By time.
    size_t next = 0;                // The first that no range has passed.
    std::vector<size_t> waiting;    // By time.
  };

  static void Match(const store::RangeBatch& batch, OfThread& of) {
    for (size_t i = 0; i < batch.size; ++i) {
      const int64_t start_ns = batch.start_ns[i];
      const int64_t end_ns = Sum(start_ns, batch.duration_ns[i]);
      while (of.next < of.blocks.size() && of.blocks[of.next].time_ns <= end_ns) {
        of.waiting.push_back(of.next++);
      }
      while (!of.waiting.empty() && of.blocks[of.waiting.back()].time_ns >= start_ns) {
        of.blocks[of.waiting.back()].name = batch.name[i];
        of.waiting.pop_back();
      }
    }
  }

  absl::flat_hash_map<uint32_t, OfThread> blocks_of_;
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
};

using Shares = absl::flat_hash_map<std::string_view, MemoryShare>;

void AddShare(Shares& shares, std::string_view name, int64_t bytes) {
  MemoryShare& share = shares[name];
  share.bytes = Sum(share.bytes, bytes);
  ++share.blocks;
}

std::vector<MemoryShare> LargestFirst(const Shares& shares) {
  std::vector<MemoryShare> sorted;
  sorted.reserve(shares.size());
  for (const auto& [name, share] : shares) {
    sorted.push_back({std::string(name), share.bytes, share.blocks});
  }
  std::sort(sorted.begin(), sorted.end(), [](const MemoryShare& a, const MemoryShare& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  return sorted;
}

// By the numbers of wire::DeviceType, which files keep.
std::string DeviceName(uint8_t type, int16_t index) {
  switch (type) {
    case 0:
      return StrCat("cpu:", int{index});
    case 1:
      return StrCat("cuda:", int{index});
    case 64:
      return StrCat("cuda-driver:", int{index});
    case 65:
      return StrCat("cuda-pool:", int{index});
    default:
      return StrCat("type", int{type}, ":", int{index});
  }
}

using Trackers = std::map<std::pair<uint8_t, int16_t>, DeviceTracker>;

int64_t EndOfWindow(const CaptureRecord& record) {
  return record.windows.empty() ? record.covered_ns : record.windows.back().end_ns;
}

absl::Status Track(store::CaptureReader& reader, int64_t max_points, Trackers& trackers) {
  ASSIGN_OR_RETURN(const MemoryCategories categories, FindMemoryCategories(reader));
  const int64_t end_ns = EndOfWindow(reader.record());
  const auto tracker_of = [&](uint8_t type, int16_t index) -> DeviceTracker& {
    return trackers.try_emplace({type, index}, max_points, end_ns).first->second;
  };
  for (const OlderBlock& block : categories.older) {
    tracker_of(block.device_type, block.device_index).AddOlder(block);
  }
  size_t position = 0;
  return ForEachMemoryByTime(reader, kMostRowsInOrder, [&](const MemoryEvent& event) {
    MemoryEvent told = event;
    if (position < categories.of_event.size()) told.category = categories.of_event[position];
    ++position;
    tracker_of(event.device_type, event.device_index).Apply(told);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<OutOfMemory>> FindOutOfMemory(store::CaptureReader& reader) {
  std::vector<OutOfMemory> found;
  RETURN_IF_ERROR(reader.ForEachNote([&](const store::NoteBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kOutOfMemory)) continue;
      found.push_back({.time_ns = std::max<int64_t>(0, batch.time_ns[i]),
                       .device = reader.names()[batch.subject[i]],
                       .bytes = batch.value[i]});
    }
    return absl::OkStatus();
  }));
  std::stable_sort(found.begin(), found.end(), [](const OutOfMemory& a, const OutOfMemory& b) {
    return a.time_ns < b.time_ns;
  });
  return found;
}

}  // namespace

absl::StatusOr<MemoryTimeline> SummarizeMemory(store::CaptureReader& reader,
                                               const MemoryOptions& options) {
  if (options.max_points != 0 && options.max_points < 4) {
    return absl::InvalidArgumentError("max_points must be 0 (all points) or at least 4");
  }
  Trackers trackers;
  RETURN_IF_ERROR(Track(reader, options.max_points, trackers));

  MemoryTimeline timeline;
  std::vector<Shares> by_category(trackers.size());
  std::vector<Shares> by_op(trackers.size());
  BlockRanges ranges;
  for (auto& [key, tracker] : trackers) {
    const size_t device = timeline.devices.size();
    DeviceMemory& memory = timeline.devices.emplace_back(tracker.Take());
    memory.device = DeviceName(key.first, key.second);
    int64_t known_bytes = 0;
    for (const Block& block : tracker.TakeBlocksAtPeak()) {
      AddShare(by_category[device], CategoryName(block.category), block.bytes);
      known_bytes = Sum(known_bytes, block.bytes);
      ranges.Add(block.thread, {block.time_ns, block.bytes, device, 0});
    }
    if (!memory.relative) {
      memory.peak_older_bytes = std::max<int64_t>(0, Difference(memory.peak_bytes, known_bytes));
    }
  }
  if (options.peak_by_op) RETURN_IF_ERROR(ranges.Resolve(reader));
  const auto names = reader.names();
  ranges.ForEach([&](const PeakBlock& block) {
    AddShare(by_op[block.device], block.name == 0 ? kNoRange : std::string_view(names[block.name]),
             block.bytes);
  });
  for (size_t device = 0; device < timeline.devices.size(); ++device) {
    timeline.devices[device].peak_by_category = LargestFirst(by_category[device]);
    if (options.peak_by_op) timeline.devices[device].peak_by_op = LargestFirst(by_op[device]);
  }
  ASSIGN_OR_RETURN(timeline.out_of_memory, FindOutOfMemory(reader));
  return timeline;
}

}  // namespace profd::report
