// How torch.profiler nests the events of one thread, and what it counts for each.
//
// Events are sorted by start; if equal, the longest first. An event lies inside the last earlier
// event that has room for all of it. Earlier events without room are passed over for good. An event
// that is the only child of an event of the same name is folded into it: it is not counted, and its
// children and launches belong to the outer event.
//
// Times are torch's: microseconds since the profiler started, in floating point, subtracted and
// summed in torch's order. So figures that lie between two printed values round as torch rounds
// them.
//
// Threads: one.
// Memory:  112 bytes per event in addition to the events, while Measure() runs.
#ifndef PROFD_DAEMON_REPORT_OPS_TORCH_TREE_H_
#define PROFD_DAEMON_REPORT_OPS_TORCH_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace profd::report {

struct TorchEvent {
  static constexpr uint16_t kInnermost = UINT16_MAX;

  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t self_device_ns = 0;  // Work that it launched itself.
  double self_device_us = 0;   // The same, summed as torch does.
  uint32_t row = 0;
  uint32_t name = 0;   // Equal for equal texts.
  uint16_t depth = 0;  // Of events with the same times, the outer one has the lower depth.
  bool is_operator = false;
  bool is_annotation = false;
};

// Allocated minus freed during an event. Sums wrap, so that no number in a hostile file overflows.
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

// When torch's profiler started, on the capture's clock.
class TorchClock {
 public:
  explicit TorchClock(int64_t origin_ns) : origin_ns_(origin_ns) {}

  double Us(int64_t time_ns) const {
    const uint64_t since_ns = static_cast<uint64_t>(time_ns) - static_cast<uint64_t>(origin_ns_);
    return static_cast<double>(static_cast<int64_t>(since_ns)) / 1e3;
  }
  double DurationUs(int64_t start_ns, int64_t end_ns) const { return Us(end_ns) - Us(start_ns); }

 private:
  int64_t origin_ns_;
};

// Each time, exact and as torch computes it.
struct TorchMeasures {
  uint64_t total_cpu_ns = 0;
  int64_t self_cpu_ns = 0;
  uint64_t total_device_ns = 0;
  uint64_t self_device_ns = 0;
  double self_cpu_us = 0;
  double total_device_us = 0;
  double self_device_us = 0;
  TorchMemory total_memory;
  TorchMemory self_memory;
  bool has_parent = false;
};

// Sorts events into the order in which they nest.
void SortForTorch(std::vector<TorchEvent>& events);

// Calls `fn` for every counted event; `events` must be sorted by SortForTorch(). `memory_of`
// returns the memory allocated and freed during an event; nullptr: none was recorded.
void MeasureAsTorch(const std::vector<TorchEvent>& events, const TorchClock& clock,
                    const absl::FunctionRef<TorchMemory(const TorchEvent&)>* memory_of,
                    absl::FunctionRef<void(const TorchEvent&, const TorchMeasures&)> fn);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_TREE_H_
