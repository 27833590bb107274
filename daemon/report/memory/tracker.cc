#include "daemon/report/memory/tracker.h"

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {

void MemoryTracker::AddOlder(const OlderBlock& block) {
  older_are_known_ = true;
  categories_.AddOlder(block.category, block.bytes);
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
    freed_since_peak_.clear();
  }
}

DeviceMemory MemoryTracker::Take() {
  device_.relative = !total_known_;
  device_.end_bytes = level_;
  device_.categories = categories_.Take();
  if (total_known_) {
    int64_t known = 0;
    for (const TrackedBlock& block : BlocksAtPeak()) known = Sum(known, block.bytes);
    device_.peak_older_bytes = std::max<int64_t>(0, Difference(device_.peak_bytes, known));
  }
  return std::move(device_);
}

std::vector<TrackedBlock> MemoryTracker::BlocksAtPeak() const {
  std::vector<TrackedBlock> blocks = freed_since_peak_;
  for (const auto& [address, block] : live_) {
    if (block.number <= peak_number_) blocks.push_back(block);
  }
  return blocks;
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
  if (found == live_.end()) {
    ++device_.unknown_free_count;
    device_.unknown_free_bytes = Sum(device_.unknown_free_bytes, event.bytes);
    if (older_are_known_) categories_.Free(event.time_ns, event.category, event.bytes);
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
  if (event.total_allocated_bytes < 0) {
    level_ = counted;
    return 0;
  }
  level_ = event.total_allocated_bytes;
  if (std::exchange(total_known_, true)) return 0;
  // The first total tells how much there was before the window.
  const int64_t before = Difference(level_, counted);
  device_.start_bytes = before;
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
      return StrCat("type", int{type}, number);
  }
}

absl::StatusOr<MemoryTrackers> TrackMemory(store::CaptureReader& reader, MemoryObserver& observer) {
  ASSIGN_OR_RETURN(const MemoryCategories categories, FindMemoryCategories(reader));
  const int64_t end_ns = EndOfWindows(reader.record());
  MemoryTrackers trackers;
  const auto tracker_of = [&](MemoryDeviceKey key) -> MemoryTracker& {
    return trackers.try_emplace(key, end_ns).first->second;
  };
  for (const OlderBlock& block : categories.older) {
    tracker_of({block.device_type, block.device_index}).AddOlder(block);
  }
  size_t position = 0;
  RETURN_IF_ERROR(ForEachMemoryByTime(reader, kMostRowsInOrder, [&](const MemoryEvent& event) {
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
