// Host time outside operators, in the steps that count: how much of it costs time, and its gaps.
//
// With a GPU only the part counts during which the GPU was idle, and for which nothing else is to
// blame (idle_split.h). Steps that are
// outliers are left out where others remain, since STEP_OUTLIER explains them.
//
// Threads: one. Errors: the reader's.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_HOST_H_
#define PROFD_DAEMON_REPORT_FINDINGS_HOST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/findings/python_lock.h"
#include "daemon/report/findings/scope.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/time/host_split.h"
#include "daemon/report/time/short_gaps.h"
#include "daemon/report/time/time_report.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct HostFacts {
  std::string needs;           // Not empty: unknown for lack of this, and the rest is empty.
  bool of_ranges = false;      // HostSplits::of_ranges
  std::vector<bool> outliers;  // What OutliersOf() returns, also if `needs` is set.
  HostSplit split;             // Sum over the steps of the scope; 0 without steps.
  int64_t usual_count = 0;     // Steps that are not outliers; without steps 1.
  int64_t usual_ns = 0;        // How long they take.
  int64_t outside_ns = 0;      // Of their host time outside operators, what costs time.
  int64_t optimizer_ns = 0;    // Of it, in `optimizers` of GatherHost().
  double median_share = 0;     // Share of a step, as the median of the steps.
  // Of a usual step, in gaps that are in every one of them and nearly always that long. A wait for
  // a CPU comes anywhere, so it is not what makes these. 0 if few steps are known.
  int64_t steady_ns = 0;
  HostGapTable gaps;  // Of outside_ns.
  // Where its short gaps are, if they take more of it than the others; else empty.
  std::vector<ShortGapRow> short_gaps;
  LockGaps lock_gaps;  // Of all steps.
  // Host memory that is freed in the longest gap of the first row, if returning so much to the
  // system can take half of that gap; else 0.
  int64_t freed_bytes = 0;
  int64_t freed_count = 0;
  // Without a GPU: the operator or range that itself takes most of the host's time, if that is much
  // of it; its share of the time in all, 0..1; and the line that most of its calls come from.
  std::string hottest;
  double hottest_share = 0;
  std::string hottest_source;
  double hottest_of_time = 0;  // Its time, of all its threads, as a share of the covered time.

  // What the host is in or outside of: "operators" of a framework, else "ranges" of the program.
  std::string_view Parts() const { return of_ranges ? "ranges" : "operators"; }
  int64_t PerUsualStep(int64_t ns) const { return usual_count <= 0 ? ns : ns / usual_count; }
};
// `explained`: GapFacts::explained, for the time that costs nothing or has another cause; nullptr:
// there is no device. With one, gaps shorter than kShortHostGapNs are part of dispatching work.
// `optimizers`: OptimizerFacts::steps.
absl::StatusOr<HostFacts> GatherHost(store::CaptureReader& reader, const FindingScope& scope,
                                     const TimeReport& time, const IntervalSet* explained,
                                     const IntervalSet& optimizers,
                                     const FindingThresholds& thresholds);

// "between aten::add_ and aten::linear, in Optimizer.step#SGD.step"
std::string PlaceOf(const HostGapRow& row);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_HOST_H_
