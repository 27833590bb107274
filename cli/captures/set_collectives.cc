#include "cli/captures/set_collectives.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "cli/captures/framework_steps.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// Of all members together: some hundred bytes each while they are matched.
constexpr int64_t kMostCollectivesInAll = 4'000'000;
constexpr int64_t kFewestOfOne = 1'000;

// By member.
std::vector<ComparedRank> RanksOf(const CaptureSet& set,
                                  const std::vector<report::CollectiveTable>& tables) {
  std::vector<ComparedRank> ranks;
  ranks.reserve(tables.size());
  for (size_t i = 0; i < set.members().size(); ++i) {
    const CaptureSet::Member& member = set.members()[i];
    ranks.push_back({.collectives = member.missing.empty() ? &tables[i] : nullptr,
                     .start_unix_ns = member.view.record.start_unix_ns,
                     .probe = member.probe,
                     .host = report::ClockHostOf(member.view.record)});
  }
  return ranks;
}

std::vector<const report::CollectiveTable*> TablesOf(std::span<const ComparedRank> ranks) {
  std::vector<const report::CollectiveTable*> tables;
  tables.reserve(ranks.size());
  for (const ComparedRank& rank : ranks) tables.push_back(rank.collectives);
  return tables;
}

}  // namespace

MatchedRanks MatchRanks(std::span<const ComparedRank> ranks) {
  const std::vector<report::MatchedCollective> matches = report::MatchCollectives(TablesOf(ranks));
  std::vector<report::ClockMember> members;
  members.reserve(ranks.size());
  for (const ComparedRank& rank : ranks) {
    members.push_back({.start_unix_ns = rank.start_unix_ns,
                       .probe = rank.probe,
                       .collectives = rank.collectives,
                       .host = rank.host});
  }
  MatchedRanks matched = {.clocks = report::AlignClocks(members, matches)};
  matched.matches = report::AcceptedMatches(matches, matched.clocks);
  return matched;
}

report::GroupSteps CompareRanks(std::span<const ComparedRank> ranks, const MatchedRanks& matched) {
  return report::CompareSteps(TablesOf(ranks), matched.matches);
}

absl::StatusOr<SetCollectives> ReadCollectives(CaptureSet& set) {
  const auto count = static_cast<int64_t>(set.members().size());
  const int64_t limit = std::clamp(kMostCollectivesInAll / std::max<int64_t>(count, 1),
                                   kFewestOfOne, report::kMostCollectives);
  SetCollectives collectives;
  collectives.tables.resize(set.members().size());
  absl::Mutex mutex;  // Nodes answer at the same time.
  RETURN_IF_ERROR(set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
    ASSIGN_OR_RETURN(
        const table::Report report,
        source.Report({.report = "collectives", .options = {{"limit", StrCat(limit)}}}));
    ASSIGN_OR_RETURN(collectives.tables[member], report::CollectivesFrom(report));
    const auto is_known = [&] {
      const absl::MutexLock lock(&mutex);
      return collectives.framework.known();
    };
    if (is_known()) return absl::OkStatus();
    const report::FrameworkSteps framework = FrameworkStepsOf(source);
    const absl::MutexLock lock(&mutex);
    if (!collectives.framework.known()) collectives.framework = framework;
    return absl::OkStatus();
  }));
  collectives.matched = MatchRanks(RanksOf(set, collectives.tables));
  return collectives;
}

report::GroupSteps CompareStepsOf(const CaptureSet& set, const SetCollectives& collectives) {
  return CompareRanks(RanksOf(set, collectives.tables), collectives.matched);
}

}  // namespace profd::cli
