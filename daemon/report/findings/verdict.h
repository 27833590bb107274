// The verdict in one paragraph: where the time goes, what to change first, the estimated saving,
// and whether the numbers can be trusted.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
#define PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_

#include <string>
#include <vector>

#include "daemon/report/findings/facts.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/thresholds.h"

namespace profd::report {

BoundBy BoundOf(const Facts& facts);

// Returns what to change first; end() if no finding saves anything. Prefers a finding that names a
// cause, and is sure of it, to one that only measures how much time is lost. What a program that is
// bound by communication or copies should do about them comes first also where it is not known what
// that saves: nothing is left to overlap them with.
std::vector<Finding>::const_iterator FirstChange(const std::vector<Finding>& findings,
                                                 BoundBy bound);

// `report` must be complete except for its verdict.
std::string WriteVerdict(const Facts& facts, const FindingThresholds& thresholds,
                         const FindingsReport& report);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_VERDICT_H_
