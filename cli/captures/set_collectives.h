// The collectives of a set of captures, matched, and what follows from them.
#ifndef PROFD_CLI_CAPTURES_SET_COLLECTIVES_H_
#define PROFD_CLI_CAPTURES_SET_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/captures/capture_set.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/ranks/clock_alignment.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// One rank, for comparing it with others.
struct ComparedRank {
  const report::CollectiveTable* collectives = nullptr;  // nullptr: it is missing.
  int64_t start_unix_ns = 0;                             // The origin of their times.
  std::optional<report::ClockProbe> probe;
  std::string host;  // As report::ClockHostOf().
};
struct MatchedRanks {
  // Of those whose times fit one collective on the aligned clocks.
  std::vector<report::MatchedCollective> matches;
  report::ClockAlignment clocks;
};
// All comparisons of ranks use these two, so that they agree.
MatchedRanks MatchRanks(std::span<const ComparedRank> ranks);
report::GroupSteps CompareRanks(std::span<const ComparedRank> ranks, const MatchedRanks& matched);

struct SetCollectives {
  std::vector<report::CollectiveTable> tables;  // By member.
  MatchedRanks matched;
  // Of a member that has them: all ranks count the same steps.
  report::FrameworkSteps framework;
};
// Of members that are not missing; the others' tables are empty.
absl::StatusOr<SetCollectives> ReadCollectives(CaptureSet& set);

report::GroupSteps CompareStepsOf(const CaptureSet& set, const SetCollectives& collectives);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_SET_COLLECTIVES_H_
