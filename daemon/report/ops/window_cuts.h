// WindowCuts shortens ranges that began before their window to the part inside it. Captures keep
// them with their true start, but nothing else of the time before the window: without the cut, all
// of that time would be their own.
//
// Threads: one at a time.
// Memory:  24 bytes per such range, of kMostRanges at most. Of a window that are no more than its
//          threads have open at its begin; a file with more of them is hostile, and the rest of
//          them keep their lengths.
// Errors:  the reader's, in Build().
#ifndef PROFD_DAEMON_REPORT_OPS_WINDOW_CUTS_H_
#define PROFD_DAEMON_REPORT_OPS_WINDOW_CUTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class WindowCuts {
 public:
  // Reads only the chunks that reach before a window.
  static absl::StatusOr<WindowCuts> Build(store::CaptureReader& reader);

  // Returns `batch` with shorter durations and, where it has them, later starts. Needs the columns
  // kRangeDuration, kRangeName, and kRangeDepth. The batches of a thread come in order. Valid until
  // the next call.
  RangeBatch Cut(const RangeBatch& batch);

 private:
  static constexpr size_t kMostRanges = 1 << 16;

  struct BeganBefore {
    int64_t duration_ns;
    uint32_t name;
    uint16_t depth;
    int64_t cut_ns;
  };
  struct OfThread {
    std::vector<BeganBefore> ranges;  // In the order of its batches.
    size_t next = 0;                  // Which Cut() looks for.
  };

  absl::flat_hash_map<uint32_t, OfThread> by_thread_;
  std::vector<int64_t> start_ns_;
  std::vector<int64_t> duration_ns_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_WINDOW_CUTS_H_
