#include "daemon/report/memory/tracker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/accelerators.h"
#include "daemon/report/index/wrapping_math.h"
#include "proto/wire/event.h"

namespace profd::report {

void MemoryTracker::AddOlder(const OlderBlock& block) {
  categories_.AddOlder(block.category, block.bytes);
  Older& older = older_[block.category < kCategories ? block.category : 0];
  older.bytes = Sum(older.bytes, block.bytes);
  ++older.blocks;
  older_at_peak_ = older_;
  level_ = Sum(level_, block.bytes);
  device_.start_bytes = level_;
  device_.peak_bytes = level_;
}

int64_t MemoryTracker::Apply(const MemoryEvent& event) {
  if (++event_number_ == 1) device_.peak_time_ns = std::min<int64_t>(0, event.time_ns);
  const int64_t change = event.is_free ? Free(event) : Allocate(event);
  const int64_t told_before = SetLevel(event, Sum(level_, change));
  if (event.total_reserved_bytes >= 0) reserved_ = event.total_reserved_bytes;
  NoticePeaks(event);
  return told_before;
}

void MemoryTracker::NoticePeaks(const MemoryEvent& event) {
  if (reserved_ > device_.peak_reserved_bytes) {
    device_.peak_reserved_bytes = reserved_;
    peak_reserved_time_ns_ = event.time_ns;
    allocated_at_peak_reserved_ = level_;
  }
  if (level_ > device_.peak_bytes) {
    device_.peak_bytes = level_;
    device_.peak_time_ns = event.time_ns;
    reserved_at_peak_ = reserved_;
    peak_number_ = event_number_;
    older_at_peak_ = older_;
    freed_since_peak_.clear();
  }
}

DeviceMemory MemoryTracker::Take() {
  device_.relative = !total_known_;
  device_.end_bytes = level_;
  device_.categories = categories_.Take();
  int64_t known = 0;
  for (const TrackedBlock& block : BlocksAtPeak()) known = Sum(known, block.bytes);
  device_.peak_older_bytes = std::max<int64_t>(0, Difference(device_.peak_bytes, known));
  for (const Older& older : older_at_peak_) known = Sum(known, older.bytes);
  device_.peak_unknown_bytes = std::max<int64_t>(0, Difference(device_.peak_bytes, known));
  return std::move(device_);
}

std::vector<TrackedBlock> MemoryTracker::BlocksAtPeak() const {
  std::vector<TrackedBlock> blocks = freed_since_peak_;
  for (const auto& [address, block] : live_) {
    if (block.number <= peak_number_) blocks.push_back(block);
  }
  return blocks;
}

std::vector<MemoryShare> MemoryTracker::OlderAtPeak() const {
  std::vector<MemoryShare> shares;
  for (uint8_t category = 0; category < kCategories; ++category) {
    const Older& older = older_at_peak_[category];
    if (older.blocks <= 0) continue;
    shares.push_back({std::string(CategoryName(category)), older.bytes, older.blocks});
  }
  return shares;
}

std::vector<TrackedBlock> MemoryTracker::LiveBlocks() const {
  std::vector<TrackedBlock> blocks;
  blocks.reserve(live_.size());
  for (const auto& [address, block] : live_) blocks.push_back(block);
  return blocks;
}

int64_t MemoryTracker::Allocate(const MemoryEvent& event) {
  ++device_.allocation_count;
  device_.allocated_total_bytes = Sum(device_.allocated_total_bytes, event.bytes);
  const TrackedBlock block = {.bytes = event.bytes,
                              .time_ns = event.time_ns,
                              .number = event_number_,
                              .thread = event.thread,
                              .category = event.category};
  categories_.Allocate(event.time_ns, event.category, event.bytes);
  const auto [at, inserted] = live_.try_emplace(event.address, block);
  if (inserted) return event.bytes;
  // Its free was lost, but freed it was: the address is in use anew.
  const TrackedBlock old = std::exchange(at->second, block);
  Retire(old, event.time_ns);
  return Difference(event.bytes, old.bytes);
}

int64_t MemoryTracker::Free(const MemoryEvent& event) {
  ++device_.free_count;
  const auto found = live_.find(event.address);
  const bool is_first = freed_.insert(event.address).second;
  if (found == live_.end()) {
    if (!is_first) {
      ++device_.repeated_free_count;
      return 0;
    }
    ++device_.unknown_free_count;
    device_.unknown_free_bytes = Sum(device_.unknown_free_bytes, event.bytes);
    Older& older = older_[event.category < kCategories ? event.category : 0];
    if (older.blocks > 0) {
      --older.blocks;
      older.bytes = Difference(older.bytes, event.bytes);
      categories_.Free(event.time_ns, event.category, event.bytes);
    }
    return Difference(0, event.bytes);
  }
  const TrackedBlock block = found->second;
  live_.erase(found);
  Retire(block, event.time_ns);
  return Difference(0, block.bytes);
}

void MemoryTracker::Retire(TrackedBlock block, int64_t time_ns) {
  categories_.Free(time_ns, block.category, block.bytes);
  if (block.number > peak_number_) return;
  block.freed_ns = time_ns;
  freed_since_peak_.push_back(block);
}

int64_t MemoryTracker::SetLevel(const MemoryEvent& event, int64_t counted) {
  if (ignores_totals_ || event.total_allocated_bytes < 0) {
    level_ = counted;
    return 0;
  }
  level_ = event.total_allocated_bytes;
  if (std::exchange(total_known_, true)) return 0;
  // The first total tells how much there was before the window.
  // On a GPU, threads that allocate at once may report their totals in another order.
  const int64_t before = std::max(Difference(level_, counted), Difference(0, device_.start_bytes));
  device_.start_bytes = Sum(device_.start_bytes, before);
  device_.peak_bytes = Sum(device_.peak_bytes, before);
  return before;
}

std::string MemoryDeviceName(MemoryDeviceKey key) {
  const auto [type, index] = key;
  const std::string number = index < 0 ? "" : StrCat(":", int{index});
  switch (type) {  // wire::DeviceType and, in traces of torch.profiler, c10::DeviceType.
    case 0:
      return StrCat("cpu", number);
    case 1:
      return StrCat("cuda", number);
    case 6:
      return StrCat("hip", number);
    case 64:
      return StrCat("cuda-driver", number);
    case 65:
      return StrCat("cuda-pool", number);
    default:
      break;
  }
  const std::string_view accelerator = AcceleratorName(type);
  return accelerator.empty() ? StrCat("type", int{type}, number) : StrCat(accelerator, number);
}

namespace {

// What is to be known of a device before its events are applied.
struct MemoryBase {
  bool knows_total = false;
  int64_t before = 0;   // By the first total, before the first event.
  int64_t counted = 0;  // Until the first total.
  absl::flat_hash_map<uint64_t, int64_t> live;
  absl::flat_hash_set<uint64_t> freed;
  std::vector<int64_t> older;  // Freed in the window without a recorded allocation.

  void Add(const MemoryEvent& event) {
    if (!event.is_free) {
      const auto [at, inserted] = live.try_emplace(event.address, event.bytes);
      const int64_t lost_bytes = inserted ? 0 : std::exchange(at->second, event.bytes);
      if (!knows_total) counted = Sum(counted, Difference(event.bytes, lost_bytes));
    } else {
      const auto found = live.find(event.address);
      const bool was_live = found != live.end();
      const bool is_first = freed.insert(event.address).second;
      const int64_t bytes = was_live ? found->second : event.bytes;
      if (was_live) {
        live.erase(found);
      } else if (is_first) {
        older.push_back(std::max<int64_t>(0, bytes));
      }
      if (!knows_total && (was_live || is_first)) counted = Difference(counted, bytes);
    }
    if (knows_total || event.total_allocated_bytes < 0) return;
    knows_total = true;
    before = Difference(event.total_allocated_bytes, counted);
  }
};

absl::StatusOr<std::map<MemoryDeviceKey, MemoryBase>> FindBases(MemoryInOrder& events) {
  std::map<MemoryDeviceKey, MemoryBase> bases;
  RETURN_IF_ERROR(events.ForEach([&](const MemoryEvent& event) {
    bases[{event.device_type, event.device_index}].Add(event);
    return absl::OkStatus();
  }));
  return bases;
}

// torch counts the CPU's total only while something records it: it says nothing of the process.
bool CountsFromRecording(const CaptureRecord& record, MemoryDeviceKey key, int64_t before,
                         int64_t known_older) {
  if (key.first != static_cast<uint8_t>(wire::DeviceType::kCpu)) return false;
  const bool is_import = !record.imported.source.empty();
  return record.torch.memory || before < known_older || (is_import && before <= 0);
}

}  // namespace

absl::StatusOr<MemoryTrackers> TrackMemory(store::CaptureReader& reader, MemoryObserver& observer) {
  MemoryInOrder events(reader);
  ASSIGN_OR_RETURN(const MemoryCategories categories, FindMemoryCategories(reader, events));
  const int64_t end_ns = EndOfWindows(reader.record());
  MemoryTrackers trackers;
  const auto tracker_of = [&](MemoryDeviceKey key) -> MemoryTracker& {
    return trackers.try_emplace(key, end_ns).first->second;
  };
  std::map<MemoryDeviceKey, int64_t> older_bytes;
  for (const OlderBlock& block : categories.older) {
    const MemoryDeviceKey key = {block.device_type, block.device_index};
    AddTo(older_bytes[key], block.bytes);
    tracker_of(key).AddOlder(block);
  }
  // A pass before that of the events. The level at the start is only known from the first total, or
  // from frees of blocks that were never allocated.
  ASSIGN_OR_RETURN(const auto bases, FindBases(events));
  for (const auto& [key, base] : bases) {
    const auto older = older_bytes.find(key);
    const bool counts_from_recording = CountsFromRecording(
        reader.record(), key, base.before, older == older_bytes.end() ? 0 : older->second);
    if (counts_from_recording) tracker_of(key).IgnoreTotals();
    if ((base.knows_total && !counts_from_recording) || older != older_bytes.end()) continue;
    for (const int64_t bytes : base.older) {
      tracker_of(key).AddOlder({key.first, key.second, /*category=*/0, bytes});
    }
  }
  size_t position = 0;
  RETURN_IF_ERROR(events.ForEach([&](const MemoryEvent& event) {
    MemoryEvent told = event;
    if (position < categories.of_event.size()) told.category = categories.of_event[position];
    ++position;
    const MemoryDeviceKey key = {event.device_type, event.device_index};
    MemoryTracker& tracker = tracker_of(key);
    if (!tracker.has_events()) observer.Begin(key, tracker, event.time_ns);
    const int64_t told_before = tracker.Apply(told);
    observer.Applied(key, tracker, told, told_before);
    return absl::OkStatus();
  }));
  return trackers;
}

int64_t EndOfWindows(const CaptureRecord& record) {
  return record.windows.empty() ? record.covered_ns : record.windows.back().end_ns;
}

}  // namespace profd::report
