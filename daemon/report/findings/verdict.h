// The verdict: where the time goes, what to change first, what that would save, and whether the
// numbers can be trusted, in one paragraph.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
#define PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_

#include <string>

#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {

BoundBy BoundOf(const Facts& facts);
// `report` is complete but for its verdict.
std::string WriteVerdict(const Facts& facts, const FindingsReport& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
