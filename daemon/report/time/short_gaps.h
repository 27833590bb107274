// Short gaps of the host (host_split.h) by the line of the program that they are in, or by the
// operators around them. Each is too short to name, but a loop over the elements of a tensor has
// thousands.
//
// Threads: one. Errors: the reader's.
// Memory:  that of a PlaceIndex, and 80 bytes per line or pair of operators, of which there are at
//          most kMostShortGapPlaces.
#ifndef PROFD_DAEMON_REPORT_TIME_SHORT_GAPS_H_
#define PROFD_DAEMON_REPORT_TIME_SHORT_GAPS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "daemon/report/time/host_split.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

inline constexpr size_t kMostShortGapPlaces = 1 << 16;
inline constexpr size_t kMostShortGapRows = 10;

struct ShortGapRow {
  // Of captures with Python stacks or functions, the line of the operators that follow:
  // "metrics.py:9 confusion", "backward of train.py:14 step". Of others, and where no line is
  // known: "between aten::select and aten::item".
  std::string place;
  bool is_line = false;
  int64_t count = 0;
  int64_t total_ns = 0;
  int64_t longest_start_ns = 0;
  int64_t longest_step = -1;  // The number of its step; -1: in none.
};

// By total_ns, at most kMostShortGapRows. `counted_ns`: as for SumHostGaps(); gaps of which
// kShortHostGapNs or more counts are left out.
absl::StatusOr<std::vector<ShortGapRow>> SumShortGaps(
    store::CaptureReader& reader, const std::vector<HostGap>& gaps,
    absl::FunctionRef<int64_t(int64_t start_ns, int64_t end_ns)> counted_ns);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_SHORT_GAPS_H_
