#include "cli/captures/set_collectives.h"

#include <algorithm>
#include <span>
#include <utility>

#include "cli/captures/framework_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// Of all members together: some hundred bytes each while they are matched.
constexpr int64_t kMostCollectivesInAll = 4'000'000;
constexpr int64_t kFewestOfOne = 1'000;

// By member; nullptr: it is missing.
std::vector<const report::CollectiveTable*> TablesOf(const CaptureSet& set,
                                                     const SetCollectives& collectives) {
  std::vector<const report::CollectiveTable*> tables;
  for (size_t i = 0; i < set.members().size(); ++i) {
    tables.push_back(set.members()[i].missing.empty() ? &collectives.tables[i] : nullptr);
  }
  return tables;
}

report::ClockAlignment AlignClocksOf(const CaptureSet& set,
                                     const std::vector<report::CollectiveTable>& tables,
                                     std::span<const report::MatchedCollective> matches) {
  std::vector<report::ClockMember> members;
  for (size_t i = 0; i < set.members().size(); ++i) {
    const CaptureSet::Member& member = set.members()[i];
    members.push_back({.start_unix_ns = member.view.record.start_unix_ns,
                       .probe = member.probe,
                       .collectives = &tables[i],
                       .host = report::ClockHostOf(member.view.record)});
  }
  return report::AlignClocks(members, matches);
}

}  // namespace

absl::StatusOr<SetCollectives> ReadCollectives(CaptureSet& set) {
  const auto count = static_cast<int64_t>(set.members().size());
  const int64_t limit = std::clamp(kMostCollectivesInAll / std::max<int64_t>(count, 1),
                                   kFewestOfOne, report::kMostCollectives);
  SetCollectives collectives;
  collectives.tables.resize(set.members().size());
  RETURN_IF_ERROR(set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
    ASSIGN_OR_RETURN(
        const table::Report report,
        source.Report({.report = "collectives", .options = {{"limit", StrCat(limit)}}}));
    ASSIGN_OR_RETURN(collectives.tables[member], report::CollectivesFrom(report));
    if (!collectives.framework.known()) collectives.framework = FrameworkStepsOf(source);
    return absl::OkStatus();
  }));
  const std::vector<report::MatchedCollective> matches =
      report::MatchCollectives(TablesOf(set, collectives));
  collectives.clocks = AlignClocksOf(set, collectives.tables, matches);
  collectives.matches = report::AcceptedMatches(matches, collectives.clocks);
  return collectives;
}

report::GroupSteps CompareStepsOf(const CaptureSet& set, const SetCollectives& collectives) {
  return report::CompareSteps(TablesOf(set, collectives), collectives.matches);
}

}  // namespace profd::cli
