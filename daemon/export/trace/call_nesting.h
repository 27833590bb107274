// CallNesting draws API calls on the rows of the threads that made them, among their ranges. Two
// clocks measured these, so a call may seem to reach over the edge of a range by their error:
// what is cut short by no more than that is cut. A call that overlaps more than that stands on a
// row besides its thread's, as do calls that overlap each other.
//
//   range   ├── forward ─────────┤            ├── forward ─────────┤
//   call          ├── launch ──────┤    =>          ├── launch ────┤
//
// Memory: 4 bytes per API call, and 32 per call that is not drawn as recorded.
// Errors: the reader's.
#ifndef PROFD_DAEMON_EXPORT_TRACE_CALL_NESTING_H_
#define PROFD_DAEMON_EXPORT_TRACE_CALL_NESTING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/export/trace/gpu_links.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// How far the time of an API call may be off that of a range.
int64_t ClockErrorOfCalls(const CaptureRecord& record);

class CallNesting {
 public:
  struct Place {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    uint32_t sibling = 0;  // 0: the thread's own row.
  };
  struct Options {
    int64_t clock_error_ns = 0;
    // A thread whose row holds the steps, too; -1: none.
    int64_t step_thread = -1;
  };
  static absl::StatusOr<CallNesting> Make(store::CaptureReader& reader, const GpuLinks& links,
                                          const Options& options);

  // `call`: its position in links.calls().
  Place PlaceOf(const GpuLinks& links, size_t call) const;
  // How many rows besides its own a thread needs. Fewer than there are calls.
  std::span<const uint32_t> sibling_counts() const { return sibling_counts_; }

 private:
  friend class CallNestingBuilder;
  absl::flat_hash_map<uint32_t, Place> moved_;  // By call.
  std::vector<uint32_t> sibling_counts_;        // By thread.
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_CALL_NESTING_H_
