// Why the slow rank of a group is slow: what it does more of than others, from reports on its
// capture and on those of a few others, made where the captures are.
#ifndef PROFD_CLI_CAPTURES_SLOW_RANK_H_
#define PROFD_CLI_CAPTURES_SLOW_RANK_H_

#include "absl/status/statusor.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/capture_source.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/rank_excess.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// The reports on one capture by which it is compared with others. `with_flops`: operators have what
// they computed, too, which takes longer.
absl::StatusOr<report::RankFigures> FiguresOf(CaptureSource& source, bool with_flops);

// Of the rank that comes first in steps.ranking, if it is a straggler or slower than its only
// partner; else, and where nothing is found, the text is empty. At most 9 captures are asked,
// whatever the group's size; others that cannot be asked are left out. An error says why the slow
// rank, or all others, cannot be asked; CANCELLED: the user interrupted. No member is missing for
// that.
absl::StatusOr<report::RankExcess> ExplainSlowRank(CaptureSet& set,
                                                   const report::GroupSteps& steps);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_SLOW_RANK_H_
