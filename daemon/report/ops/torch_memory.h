// TorchMemoryRecords are the events of allocators as torch.profiler counts them: for every event
// whose time they fall into, whatever thread that ran on.
//
// Threads: one. Memory: 24 bytes per event of an allocator, or twice that, as vectors grow.
// Errors:  the reader's.
#ifndef PROFD_DAEMON_REPORT_OPS_TORCH_MEMORY_H_
#define PROFD_DAEMON_REPORT_OPS_TORCH_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/report/ops/torch_tree.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// What is left of `time_ns`, which counts from `start_unix_ns`, where a double has held it as
// microseconds since 1970 and then as nanoseconds.
int64_t CoarseTime(int64_t time_ns, int64_t start_unix_ns);

class TorchMemoryRecords {
 public:
  absl::Status Read(store::CaptureReader& reader);
  bool empty() const { return times_.empty(); }

  // What was allocated less what was freed from `start_ns` to `end_ns`, both included.
  TorchMemory In(int64_t start_ns, int64_t end_ns) const;
  // Those from `start_ns` to `end_ns` fell into something.
  void Cover(int64_t start_ns, int64_t end_ns);
  // Those that fell into nothing, by time.
  void ForEachUncovered(absl::FunctionRef<void(int64_t time_ns, const TorchMemory&)> fn) const;

 private:
  size_t FirstFrom(int64_t time_ns) const;   // Position of the first not before it.
  size_t FirstAfter(int64_t time_ns) const;  // Position of the first behind it.

  std::vector<int64_t> times_;
  // Sums of those before each, and one of all.
  std::vector<TorchMemory> sums_ = std::vector<TorchMemory>(1);
  std::vector<int32_t> covers_;  // How many begin at each, less how many have ended.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_MEMORY_H_
