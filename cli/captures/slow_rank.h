// What the slow rank of a group does more of than the others: from reports of the slow rank's
// capture and of those of a few others, made where the captures are.
#ifndef PROFD_CLI_CAPTURES_SLOW_RANK_H_
#define PROFD_CLI_CAPTURES_SLOW_RANK_H_

#include "cli/captures/capture_set.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// Of the rank that comes first in steps.ranking, if it is a straggler or slower than its only
// partner; else, and where nothing is found, the text is empty. Where reports cannot be had, the
// text says so: this is never an error. At most 9 captures are asked, whatever the group's size.
report::RankExcess ExplainSlowRank(CaptureSet& set, const report::GroupSteps& steps);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_SLOW_RANK_H_
