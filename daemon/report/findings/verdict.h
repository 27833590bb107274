// The verdict in one paragraph: where the time goes, what to change first, the estimated saving,
// and whether the numbers can be trusted.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
#define PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_

#include <string>

#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"

namespace profd::report {

BoundBy BoundOf(const Facts& facts);
// `report` must be complete except for its verdict.
std::string WriteVerdict(const Facts& facts, const FindingsReport& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
