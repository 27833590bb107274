#include "daemon/report/ops/memory.h"

#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/budget.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/memory_order.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// CUDA's own allocations are what a framework's allocator lives on: not counted again.
bool IsCounted(uint8_t device_type) {
  return device_type != static_cast<uint8_t>(wire::DeviceType::kCudaDriver) &&
         device_type != static_cast<uint8_t>(wire::DeviceType::kCudaPool);
}

int64_t Negative(int64_t bytes) { return static_cast<int64_t>(0 - static_cast<uint64_t>(bytes)); }

absl::Status TooManyBlocks() {
  return OverBudget("the memory of operators, whose frees carry no size,", kMaxTrackedBlocks + 1,
                    kMaxTrackedBlocks, "or more blocks alive at once");
}

}  // namespace

absl::Status OpMemory::Read(store::CaptureReader& reader) {
  threads_.resize(reader.threads().size());
  ASSIGN_OR_RETURN(const Need need, Count(reader));
  if (need.event_count == 0) return absl::OkStatus();
  absl::Status status = Gather(reader, need);
  if (!status.ok()) threads_.clear();
  return status;
}

absl::StatusOr<OpMemory::Need> OpMemory::Count(store::CaptureReader& reader) {
  Need need;
  std::vector<int64_t> of_thread(threads_.size());
  RETURN_IF_ERROR(reader.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
    empty_ = empty_ && batch.size == 0;
    if (batch.thread >= of_thread.size()) of_thread.resize(batch.thread + size_t{1});
    for (size_t i = 0; i < batch.size; ++i) {
      if (!IsCounted(batch.device_type[i])) continue;
      ++of_thread[batch.thread];
      need.sizes = need.sizes || (batch.is_free[i] != 0 && batch.bytes[i] == 0);
    }
    return absl::OkStatus();
  }));
  for (const int64_t count : of_thread) need.event_count += count;
  if (need.event_count <= kMaxOperatorMemoryEvents) return need;

  // Only events of threads with ranges can be in one. Looked for when it matters.
  need.has_ranges.resize(of_thread.size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeDepth, {}, [&](const RangeBatch& batch) {
    if (batch.thread < need.has_ranges.size()) need.has_ranges[batch.thread] = true;
    return absl::OkStatus();
  }));
  need.event_count = 0;
  for (size_t thread = 0; thread < of_thread.size(); ++thread) {
    if (need.has_ranges[thread]) need.event_count += of_thread[thread];
  }
  if (need.event_count <= kMaxOperatorMemoryEvents) return need;
  return OverBudget("the memory of operators", need.event_count, kMaxOperatorMemoryEvents,
                    "memory events");
}

absl::Status OpMemory::Gather(store::CaptureReader& reader, const Need& need) {
  // What blocks took, for frees that do not say.
  absl::flat_hash_map<std::tuple<uint8_t, int16_t, uint64_t>, int64_t> live;
  return MemoryInOrder(reader).ForEach([&](const MemoryEvent& event) {
    if (!IsCounted(event.device_type)) return absl::OkStatus();
    int64_t bytes = event.bytes;
    if (need.sizes) {
      const auto block = std::tuple(event.device_type, event.device_index, event.address);
      if (!event.is_free) {
        live[block] = bytes;
        if (std::ssize(live) > kMaxTrackedBlocks) return TooManyBlocks();
      } else if (const auto found = live.find(block); found != live.end()) {
        if (bytes == 0) bytes = found->second;
        live.erase(found);
      }
    }
    if (event.thread >= threads_.size()) threads_.resize(event.thread + size_t{1});
    if (!need.has_ranges.empty() && !need.has_ranges[event.thread]) return absl::OkStatus();
    threads_[event.thread].events.push_back(
        {.time_ns = event.time_ns,
         .bytes = event.is_free ? Negative(bytes) : bytes,
         .is_device = event.device_type != static_cast<uint8_t>(wire::DeviceType::kCpu),
         .is_range = false});
    return absl::OkStatus();
  });
}

std::span<const OpMemory::Change> OpMemory::Of(const RangeBatch& batch) {
  changes_.clear();
  if (batch.thread >= threads_.size()) return {};
  OfThread& thread = threads_[batch.thread];
  if (thread.events.empty()) return {};
  for (size_t i = 0; i < batch.size; ++i) {
    EndRange(thread, batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]), i);
    // Nothing later can hold what still waits.
    if (batch.depth[i] == 0) thread.waiting.clear();
  }
  return changes_;
}

// Ranges come in order of their end. So what waits and is not before this range's start is in it:
// events are its own, and entries of ranges are what is inside of it. One entry for the whole range
// replaces them all. Each entry is pushed and popped once.
void OpMemory::EndRange(OfThread& thread, int64_t start_ns, int64_t end_ns, size_t row) {
  while (thread.next < thread.events.size() && thread.events[thread.next].time_ns <= end_ns) {
    thread.waiting.push_back(thread.events[thread.next++]);
  }
  if (thread.waiting.empty() || thread.waiting.back().time_ns < start_ns) return;
  Change change = {.row = row};
  while (!thread.waiting.empty() && thread.waiting.back().time_ns >= start_ns) {
    const Piece& piece = thread.waiting.back();
    const Bytes bytes = {.cpu = piece.is_device ? 0 : piece.bytes,
                         .device = piece.is_device ? piece.bytes : 0};
    if (!piece.is_range) change.self.Add(bytes);
    change.total.Add(bytes);
    thread.waiting.pop_back();
  }
  Wait(thread, start_ns, change.total);
  changes_.push_back(change);
}

// For the range around it, which has what this one has.
void OpMemory::Wait(OfThread& thread, int64_t start_ns, const Bytes& total) {
  for (const auto& [bytes, is_device] :
       {std::pair(total.cpu, false), std::pair(total.device, true)}) {
    if (bytes == 0) continue;
    thread.waiting.push_back(
        {.time_ns = start_ns, .bytes = bytes, .is_device = is_device, .is_range = true});
  }
}

}  // namespace profd::report
