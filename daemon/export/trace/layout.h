// TraceLayout is what all trace formats decide alike: what a process, a thread and a name
// are called, which row each thread gets, and where time starts.
#ifndef PROFD_DAEMON_EXPORT_TRACE_LAYOUT_H_
#define PROFD_DAEMON_EXPORT_TRACE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

inline constexpr size_t kMostTraceNameBytes = 4096;

// A recorded name as viewers get it: valid UTF-8, never empty, control characters as their
// pictures (U+2400...), at most kMostTraceNameBytes, the cut marked by "...".
// "ProfilerStep#x", which readers would take for a step without number, becomes "ProfilerStep #x".
std::string TraceName(std::string_view untrusted);

// Whether a row is of the functions of Python that an imported trace had on the row of a thread:
// imports call it so.
bool IsPythonRow(std::string_view thread_name);

// What a counter's sample is called that no viewer can draw: "loss = nan".
std::string NonFiniteLabel(std::string_view trace_name, double value);

// What there is to say of torch is there if it was in the target, or may have been.
bool HasTorch(const TorchRecord& torch);

// "cuda:0 allocated bytes", and " (since start)" where levels are relative.
std::string MemoryCurveName(const report::DeviceMemory& device);

// Gives every row of a process an id of its own: a thread id may have been used again by a
// later thread, and a stranger's file may hold anything.
class TidAllocator {
 public:
  // `wanted` if it is in [0, 2^31) and free; otherwise one that no thread of Linux has.
  int64_t Take(int64_t wanted);

 private:
  std::set<int64_t> used_;
  int64_t next_ = 10'000'000;  // Linux's end at 2^22.
};

// Where a capture stands in a trace: alone, or as one of several, whose processes, arrows and
// sequences of packets have to be told apart.
struct TracePlace {
  // Of a process of Linux's, an id is below 2^22: these are above, and say that they are ours.
  static constexpr int64_t kFirstPid = 10'000'000;
  // The process, and its GPUs after it.
  static constexpr int64_t kPidsPerCapture = 1000;
  static constexpr size_t kMostCaptures = 16384;

  bool is_merged = false;
  size_t number = 0;            // Among the captures of the trace.
  uint64_t first_sequence = 1;  // Of packets.
  int64_t start_unix_ns = 0;    // The capture's start, by the trace's clock.
  double drift = 0;             // As TraceClock's.
  int64_t base_unix_ns = 0;     // What a Chrome trace's times count from; merged only.

  int64_t Pid() const { return kFirstPid + static_cast<int64_t>(number) * kPidsPerCapture; }
  // Below 2^53, so that a double keeps it.
  uint64_t FlowId(uint32_t id) const { return static_cast<uint64_t>(number) << 32 | id; }
};

struct TraceRow {
  int64_t tid = 0;    // In [0, 2^31); no other row of the trace has it.
  std::string label;  // "thread 4711 (loader)"
};

struct TraceLayout {
  TracePlace place;
  int64_t pid = 0;  // In [0, 2^31); merged, one of ours.
  std::string process_name;
  std::optional<int64_t> rank;  // From the target's metadata.
  std::optional<int64_t> world_size;
  std::vector<TraceRow> threads;  // By the reader's threads().
  // The thread that steps are shown on; -1: none is known.
  int64_t step_thread = -1;
  TraceRow steps;     // A row of their own, where they cannot be on a thread's.
  TidAllocator tids;  // For further rows of the process.
};
// A capture that is alone in its trace.
TracePlace PlaceAlone(const CaptureRecord& record);
TraceLayout MakeLayout(store::CaptureReader& reader, const TracePlace& place);

// What the names of profd's steps begin with, before their number: "ProfilerStep#", which HTA and
// TensorBoard take for steps. If the recorded program's own torch.profiler has marked steps by that
// name, they are in the capture as ranges, and profd's get another one: readers would find each
// step twice.
absl::StatusOr<std::string_view> StepPrefix(store::CaptureReader& reader);

// The earliest start of a range, a CUDA call, GPU work, a wait, or overhead, relative to the
// capture's; 0 if none is below 0.
absl::StatusOr<int64_t> EarliestTime(store::CaptureReader& reader);

// The latest end of a window or step.
int64_t EndOfRecording(const store::CaptureReader& reader);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_LAYOUT_H_
