// The thresholds of the rules, and the file that changes them.
//
//   # profd thresholds
//   communication.exposed_share = 15%
//   gap.shortest = 200ms
//   small_kernels.duration = 8us
//   copies.link_bandwidth = 50        # GB/s
//   disable = STEP_OUTLIER, MEMCPY_SYNC
//
// One `key = value` per line (base/text_file.h). Shares are numbers of 0..1 or percentages,
// times have a unit (ns, us, ms, s), sizes may have one (KiB, MiB, GiB). An unknown key, a key
// given twice, and a value out of range are errors that name the line.
//
// Threads: any.
//
// How do I add a threshold?  A member here, and a row in kKeys in thresholds.cc.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_THRESHOLDS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_THRESHOLDS_H_

#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/report/index/step_outliers.h"

namespace profd::report {

struct FindingThresholds {
  // Shares are of the step unless said otherwise.
  double input_wait_share = 0.05;
  double exposed_communication_share = 0.10;
  double gpu_busy_share = 0.50;  // Below it the GPU is underused.
  double gap_p95_share = 0.05;
  double gap_shortest_ns = 500e6;  // A single gap of this length is enough.
  double host_wait_share = 0.10;
  double launch_call_share = 0.05;  // Idle in launch calls that take long.
  double host_work_share = 0.05;    // Idle in host work that launches nothing.
  double api_call_share = 0.05;     // Idle in other calls that take long.
  double late_start_share = 0.05;   // Idle long after the next work was launched.
  double kernel_wait_share = 0.10;
  double other_idle_share = 0.20;
  double host_outside_share = 0.10;  // Host time outside operators, while the GPU is idle.
  double cpu_wait_share = 0.05;      // Ready to run, but without a CPU.
  double sync_share = 0.03;          // Idle time of the GPU after a call that waited for it.
  double exposed_copy_share = 0.05;
  double pageable_share = 0.01;
  double blocking_copy_share = 0.01;
  double copy_smallest_bytes = 64 << 10;  // Smaller copies are ignored.
  double link_share = 0.50;               // Of the link's bandwidth.
  double link_smallest_bytes = 1 << 20;   // Smaller copies cannot reach it.
  double link_gb_per_s = 0;               // 0: by the GPU's generation.
  double tensor_core_share = 0.05;        // Work fit for tensor cores, of all kernel time.
  double small_kernel_ns = 10e3;
  double launch_bound_share = 0.50;  // Kernels shorter than their launch, of all.
  double launch_idle_share = 0.10;   // Idle time between such kernels.
  double kernels_per_call = 50;      // Tiny kernels per call of one operator.
  double cuda_graph_share = 0.10;    // Idle time that a graph would close.
  double fusible_share = 0.15;       // Of kernel time.
  double attention_share = 0.05;     // Likewise, what a fused attention does not have.
  // Of kernel time (without a GPU, of a step). Autocast converts each weight once a step, which is
  // little next to the products that it enters; above this, something is converted again and again.
  double cast_share = 0.10;
  double wave_efficiency = 0.50;      // Below it; weighted by time.
  double wave_share = 0.20;           // Such kernels, of kernel time.
  double memory_limit_share = 0.90;   // Of the device's memory.
  double fragmentation_share = 0.20;  // Of reserved memory, at its peak.
  // Growth of memory: enough in a step, or in an hour where the memory's size is not known.
  double leak_bytes_per_step = 1 << 20;
  double leak_bytes_per_hour = 1000 << 20;
  double allocation_share = 0.01;
  double step_outlier_deviations = kOutlierDeviations;
  double first_step_ratio = 2;   // Over the median of the others.
  double around_ratio = 1.25;    // Mean step around the windows over that in them.
  double straggler_score = 3.5;  // As kStragglerScore of group_reports.h.
  double compile_share = 0.01;
  // Of lookups of compiled code, those after which none runs. A function that is rarely called with
  // something new has a few; one that reached the limit has most.
  double unused_lookup_share = 0.25;
  double lost_share = 0.001;   // Of all events.
  double orphan_share = 0.01;  // Of GPU work.
  double perturbation_share = 0.05;

  std::set<std::string, std::less<>> disabled;  // Rules.

  friend bool operator==(const FindingThresholds&, const FindingThresholds&) = default;
};

// Returns the defaults with the changes of a file. INVALID_ARGUMENT names the line and, for an
// unknown key or rule, the nearest existing one.
absl::StatusOr<FindingThresholds> ParseFindingThresholds(std::string_view untrusted_text);

// Returns a file with all of `thresholds` and their meanings, as a starting point for users.
std::string FormatFindingThresholds(const FindingThresholds& thresholds);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_THRESHOLDS_H_
