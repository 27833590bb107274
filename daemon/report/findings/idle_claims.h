// Idle time of the GPU is promised once: a finding that names a cause keeps its saving, and those
// that only measure idle time, or would save the same time in another way, are left with the rest.
//
// Each finding claims parts of the idle time (IdleParts), in this order:
//
//   1. causes of medium or high confidence, in the order of the report
//   2. CPU_CONTENTION, which does not say what the GPU did in its time
//   3. causes of low confidence
//   4. symptoms: GPU_GAP, IDLE_OTHER, and GPU_UNDERUSED, which counts all idle time
//
// Where the idle time without the recording is known, the parts are lowered to it first.
//
// Savings of time in which the GPU works (kernels, copies, communication) are not looked at, nor is
// STEP_OUTLIER's, which may be either.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_IDLE_CLAIMS_H_
#define PROFD_DAEMON_REPORT_FINDINGS_IDLE_CLAIMS_H_

#include <vector>

#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {

// Lowers savings of `findings`, which are in the report's order, and says so in their text. Does
// nothing for captures without GPU work.
void PromiseIdleTimeOnce(const Facts& facts, std::vector<Finding>& findings);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_IDLE_CLAIMS_H_
