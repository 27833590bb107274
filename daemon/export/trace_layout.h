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
#include "daemon/report/reports.h"
#include "daemon/store/capture_reader.h"

namespace profd::exporter {

inline constexpr size_t kMostTraceNameBytes = 4096;

// A recorded name as viewers get it: valid UTF-8, never empty, control characters as their
// pictures (U+2400...), at most kMostTraceNameBytes, the cut marked by "...".
std::string TraceName(std::string_view untrusted);

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

struct TraceRow {
  int64_t tid = 0;    // In [0, 2^31); no other row of the trace has it.
  std::string label;  // "thread 4711 (loader)"
};

struct TraceLayout {
  int64_t pid = 0;  // In [0, 2^31)
  std::string process_name;
  std::optional<int64_t> rank;  // From the target's metadata.
  std::optional<int64_t> world_size;
  std::vector<TraceRow> threads;  // By the reader's threads().
  // The thread that steps are shown on; -1: none is known.
  int64_t step_thread = -1;
  TraceRow steps;     // A row of their own, where they cannot be on a thread's.
  TidAllocator tids;  // For further rows of the process.
};
TraceLayout MakeLayout(store::CaptureReader& reader);

// The earliest time in the capture, relative to its start; 0 if none is below 0.
absl::StatusOr<int64_t> EarliestTime(store::CaptureReader& reader);

// The latest end of a window or step.
int64_t EndOfRecording(const store::CaptureReader& reader);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_LAYOUT_H_
