// TorchMemoryRecords counts allocator events as torch.profiler does: for every event whose time
// contains them, on any thread.
//
// Threads: one.
// Memory:  24 bytes per allocator event, up to twice that as vectors grow.
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

// Returns `time_ns` (from `start_unix_ns`) after a round trip through a double of microseconds
// since 1970, which loses precision.
int64_t CoarseTime(int64_t time_ns, int64_t start_unix_ns);

class TorchMemoryRecords {
 public:
  absl::Status Read(store::CaptureReader& reader);
  bool empty() const { return times_.empty(); }

  // Returns bytes allocated minus bytes freed from `start_ns` to `end_ns`, both included.
  TorchMemory In(int64_t start_ns, int64_t end_ns) const;
  // Marks the records from `start_ns` to `end_ns` as covered by an event.
  void Cover(int64_t start_ns, int64_t end_ns);
  // Calls `fn` for the records that no event covers, by time.
  void ForEachUncovered(absl::FunctionRef<void(int64_t time_ns, const TorchMemory&)> fn) const;

 private:
  size_t FirstFrom(int64_t time_ns) const;   // Position of the first not before it.
  size_t FirstAfter(int64_t time_ns) const;  // Position of the first after it.

  std::vector<int64_t> times_;
  // Sums of the records before each, then of all records.
  std::vector<TorchMemory> sums_ = std::vector<TorchMemory>(1);
  std::vector<int32_t> covers_;  // Covers that begin at each record, minus those that ended.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_TORCH_MEMORY_H_
