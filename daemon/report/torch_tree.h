// How torch.profiler nests the events of one thread, and what it counts of each.
//
// Events are taken by their start, of several the longest first. Each lies in the last one taken
// before it that has room for all of it; those that have not are passed over for good. An event
// that is alone in one of the same name is folded into it: it is not counted, and what it
// holds, and what it launched, is the outer one's.
//
// Threads: one. Memory: 72 bytes per event beside the events, while Measure() runs.
#ifndef PROFD_DAEMON_REPORT_TORCH_TREE_H_
#define PROFD_DAEMON_REPORT_TORCH_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace profd::report {

struct TorchEvent {
  static constexpr uint16_t kInnermost = UINT16_MAX;

  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t self_device_ns = 0;  // Of the work that it launched itself.
  uint32_t row = 0;
  uint32_t name = 0;   // Those that read the same are the same.
  uint16_t depth = 0;  // Of several with the same times, the outer one's is less.
  bool is_operator = false;
  bool is_annotation = false;
};

// Allocated less freed, in an event's time. Sums wrap, so that no number in a stranger's file can
// overflow.
struct TorchMemory {
  int64_t cpu_bytes = 0;
  int64_t device_bytes = 0;

  friend TorchMemory operator+(const TorchMemory& a, const TorchMemory& b) {
    return {Wrapped(static_cast<uint64_t>(a.cpu_bytes) + static_cast<uint64_t>(b.cpu_bytes)),
            Wrapped(static_cast<uint64_t>(a.device_bytes) + static_cast<uint64_t>(b.device_bytes))};
  }
  friend TorchMemory operator-(const TorchMemory& a, const TorchMemory& b) {
    return {Wrapped(static_cast<uint64_t>(a.cpu_bytes) - static_cast<uint64_t>(b.cpu_bytes)),
            Wrapped(static_cast<uint64_t>(a.device_bytes) - static_cast<uint64_t>(b.device_bytes))};
  }

  static int64_t Wrapped(uint64_t value) { return static_cast<int64_t>(value); }
};

struct TorchMeasures {
  uint64_t total_cpu_ns = 0;
  int64_t self_cpu_ns = 0;
  uint64_t total_device_ns = 0;
  uint64_t self_device_ns = 0;
  TorchMemory total_memory;
  TorchMemory self_memory;
  bool has_parent = false;
};

// Puts events into the order in which they are nested.
void SortForTorch(std::vector<TorchEvent>& events);

// Calls `fn` for every event that is counted, of sorted ones. `memory_of`: what was allocated and
// freed in an event's time; nullptr: nothing was recorded.
void MeasureAsTorch(const std::vector<TorchEvent>& events,
                    const absl::FunctionRef<TorchMemory(const TorchEvent&)>* memory_of,
                    absl::FunctionRef<void(const TorchEvent&, const TorchMeasures&)> fn);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TORCH_TREE_H_
