#include "daemon/report/index/memory_order.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/merge_runs.h"

namespace profd::report {
namespace {

using store::TimeFilter;

MemoryEvent EventAt(const MemoryBatch& batch, size_t i) {
  return {.time_ns = batch.time_ns[i],
          .address = batch.address[i],
          .bytes = batch.bytes[i],
          .total_allocated_bytes = batch.total_allocated_bytes[i],
          .total_reserved_bytes = batch.total_reserved_bytes[i],
          .thread = batch.thread,
          .device_index = batch.device_index[i],
          .device_type = batch.device_type[i],
          .category = batch.category[i],
          .is_free = batch.is_free[i] != 0};
}

bool Within(const TimeFilter& slice, int64_t time_ns) {
  return time_ns >= slice.begin_ns &&
         (time_ns < slice.end_ns || slice.end_ns == TimeFilter().end_ns);
}

// False: there are more than `most_rows` in the slice; `events` has that many of them.
absl::StatusOr<bool> Gather(store::CaptureReader& reader, const TimeFilter& slice, size_t most_rows,
                            std::vector<MemoryEvent>& events) {
  events.clear();
  bool fits = true;
  const absl::Status status = reader.ForEach<MemoryRow>(slice, [&](const MemoryBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      if (!Within(slice, batch.time_ns[i])) continue;
      if (events.size() == most_rows) {
        fits = false;
        return absl::CancelledError();  // Ends the reading; goes no further than here.
      }
      events.push_back(EventAt(batch, i));
    }
    return absl::OkStatus();
  });
  if (!fits) return false;
  RETURN_IF_ERROR(status);
  return true;
}

// A time inside the slice that has about half of `events` before it.
absl::StatusOr<int64_t> Split(const TimeFilter& slice, std::vector<MemoryEvent>& events) {
  const auto middle = events.begin() + static_cast<ptrdiff_t>(events.size() / 2);
  std::nth_element(
      events.begin(), middle, events.end(),
      [](const MemoryEvent& a, const MemoryEvent& b) { return a.time_ns < b.time_ns; });
  if (middle->time_ns > slice.begin_ns) return middle->time_ns;
  if (slice.begin_ns + 1 < slice.end_ns) return slice.begin_ns + 1;
  return absl::ResourceExhaustedError("too many memory events carry the same time");
}

// Tells blocks without an address apart: a free is of the newest block of its size on its device,
// or of one that is older than the window. So levels are right, as all blocks of a size are alike.
class AnonymousBlocks {
 public:
  uint64_t AddressOf(const MemoryEvent& event) {
    std::vector<uint64_t>& live = live_[{event.device_type, event.device_index, event.bytes}];
    if (event.is_free && !live.empty()) {
      const uint64_t address = live.back();
      live.pop_back();
      return address;
    }
    // Where no allocator has any.
    const uint64_t address = std::numeric_limits<uint64_t>::max() - next_++;
    if (!event.is_free) live.push_back(address);
    return address;
  }

 private:
  absl::flat_hash_map<std::tuple<uint8_t, int16_t, int64_t>, std::vector<uint64_t>> live_;
  uint64_t next_ = 0;
};

}  // namespace

absl::Status MemoryInOrder::ForEach(absl::FunctionRef<absl::Status(const MemoryEvent&)> fn) {
  if (holds_all_) {
    for (const MemoryEvent& event : events_) RETURN_IF_ERROR(fn(event));
    return absl::OkStatus();
  }
  std::vector<TimeFilter> slices = {TimeFilter()};  // The earliest is the last.
  AnonymousBlocks anonymous;
  while (!slices.empty()) {
    const TimeFilter slice = slices.back();
    slices.pop_back();
    ASSIGN_OR_RETURN(const bool fits, Gather(reader_, slice, most_rows_, events_));
    if (!fits) {
      ASSIGN_OR_RETURN(const int64_t middle_ns, Split(slice, events_));
      slices.push_back({middle_ns, slice.end_ns});
      slices.push_back({slice.begin_ns, middle_ns});
      continue;
    }
    MergeRuns(events_, [](const MemoryEvent& a, const MemoryEvent& b) {
      return std::tie(a.time_ns, a.thread) < std::tie(b.time_ns, b.thread);
    });
    for (MemoryEvent& event : events_) {
      if (event.address == 0) event.address = anonymous.AddressOf(event);
    }
    holds_all_ = slice.begin_ns == TimeFilter().begin_ns && slice.end_ns == TimeFilter().end_ns;
    for (const MemoryEvent& event : events_) RETURN_IF_ERROR(fn(event));
  }
  return absl::OkStatus();
}

}  // namespace profd::report
