// Whether waiting for a CPU can explain what a finding counts. Then the finding is doubted: a
// program that is slow only because it has no CPU is not to blame.
//
// What is known: how long each thread of the program waited in the windows, and in its children all
// threads together; and the sums at the times of samples (CpuRecord). A sample shows a wait that
// has ended by then.
//
// Threads: any. Errors: the reader's.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_CONTENTION_H_
#define PROFD_DAEMON_REPORT_FINDINGS_CONTENTION_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Lowers the confidence if the wait of the step thread for a CPU can explain `ns_per_step`, which
// the finding counts: nearly all of it, or a third or more and no more than `unreported_ns`
// remains, for which there is no finding. What is in every step is not explained by a wait that may
// be one burst, but what is in few steps is (`burst_can_explain`).
void DoubtIfWithoutCpu(const Facts& facts, const FindingThresholds& thresholds, int64_t ns_per_step,
                       Finding& finding, bool burst_can_explain = false, int64_t unreported_ns = 0);

// Likewise, by waits of all threads together: where the step thread waits for others of them, such
// as those that share an operator, it is late when they are. Also lowers it if so many threads were
// not watched that their waits are unknown.
void DoubtIfThreadsWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                              int64_t ns_per_step, Finding& finding, int64_t unreported_ns = 0);

// Returns how long the threads of the program together wait for a CPU in each step, if that can
// explain `ns_per_step`, as above; 0: it cannot, or is not known.
int64_t ThreadWaitsThatExplain(const Facts& facts, const FindingThresholds& thresholds,
                               int64_t ns_per_step, int64_t unreported_ns);

// Whether it is known how long the program's threads wait for a CPU, but for negligible waits.
bool KnowsThreadWaits(const Facts& facts);

// Likewise, by the waits of the step thread and of a data loader's workers.
void DoubtIfWorkersWithoutCpu(const Facts& facts, const FindingThresholds& thresholds,
                              int64_t ns_per_step, Finding& finding, int64_t unreported_ns = 0);

// Lowers high confidence in the one step that is slower than others by `excess_ns`, for which no
// other work is the reason, if the recording does not exclude that the step thread was preempted or
// the process stopped in it.
void DoubtIfItMayNotHaveRun(const Facts& facts, const FindingThresholds& thresholds,
                            int64_t excess_ns, Finding& finding);

// " (CPU_CONTENTION)" if that finding fires: for the end of a reason.
std::string_view ContentionNote(const Facts& facts, const FindingThresholds& thresholds);

// Finds the outliers that can be explained by waiting for longer than usual (`facts.waiting`).
// Where others remain, the slowest of those is `facts.slowest`. `facts` has all else that is
// gathered of the host.
absl::Status FindWaitingSteps(store::CaptureReader& reader, const FindingThresholds& thresholds,
                              Facts& facts);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_CONTENTION_H_
