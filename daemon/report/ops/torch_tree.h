// How torch.profiler nests the events of one thread, and what it counts of each.
//
// Events are taken by their start, of several the longest first. Each lies in the last one taken
// before it that has room for all of it; those that have not are passed over for good. An event
// that is alone in one of the same name is folded into it: it is not counted, and what it
// holds, and what it launched, is the outer one's.
//
// Its times are torch's, too: microseconds since the profiler started, in floating point, taken
// from each other and summed up in torch's order. What lies between two figures of a printed table
// is thus rounded to the one that torch rounds it to.
//
// Threads: one. Memory: 112 bytes per event beside the events, while Measure() runs.
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
  int64_t self_device_ns = 0;  // Of the work that it launched itself.
  double self_device_us = 0;   // The same, summed up as torch does.
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

// Each time as it is and as torch has it.
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

// Puts events into the order in which they are nested.
void SortForTorch(std::vector<TorchEvent>& events);

// Calls `fn` for every event that is counted, of sorted ones. `memory_of`: what was allocated and
// freed in an event's time; nullptr: nothing was recorded.
void MeasureAsTorch(const std::vector<TorchEvent>& events, const TorchClock& clock,
                    const absl::FunctionRef<TorchMemory(const TorchEvent&)>* memory_of,
                    absl::FunctionRef<void(const TorchEvent&, const TorchMeasures&)> fn);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_TREE_H_
