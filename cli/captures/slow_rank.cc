#include "cli/captures/slow_rank.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cli/captures/capture_source.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/findings/rank_excess.h"

namespace profd::cli {
namespace {

// Their medians are what is usual; more would only take time.
constexpr size_t kMostOthers = 8;

int64_t MedianOwnWork(const std::vector<const report::RankScore*>& ranks) {
  std::vector<int64_t> own;
  own.reserve(ranks.size());
  for (const report::RankScore* rank : ranks) own.push_back(rank->own_ns);
  return Median(own);
}

std::string NameOf(const CaptureSet::Member& member) {
  return member.rank >= 0 ? StrCat("rank ", member.rank) : StrCat("process ", member.pid);
}

// The ranks that are no stragglers, those with the most usual own work first.
std::vector<const report::RankScore*> UsualRanks(const report::GroupSteps& steps) {
  std::vector<const report::RankScore*> usual;
  for (size_t i = 1; i < steps.ranking.size(); ++i) {
    if (!steps.ranking[i].straggler) usual.push_back(&steps.ranking[i]);
  }
  const int64_t median_ns = MedianOwnWork(usual);
  std::ranges::stable_sort(usual, {}, [median_ns](const report::RankScore* rank) {
    return std::abs(rank->own_ns - median_ns);
  });
  return usual;
}

absl::StatusOr<report::RankFigures> FiguresOf(CaptureSource& source) {
  report::RankFigures figures;
  ASSIGN_OR_RETURN(const table::Report time, source.Report({.report = "time"}));
  ASSIGN_OR_RETURN(figures.time, report::TimeFrom(time));
  ASSIGN_OR_RETURN(const table::Report ops,
                   source.Report({.report = "ops", .options = {{"sums_only", "1"}}}));
  ASSIGN_OR_RETURN(figures.ops, report::OpProfileOf(ops));
  if (!figures.time.has_device) return figures;
  ASSIGN_OR_RETURN(const table::Report kernels, source.Report({.report = "kernels"}));
  ASSIGN_OR_RETURN(figures.kernels, report::KernelsFrom(kernels));
  return figures;
}

}  // namespace

report::RankExcess ExplainSlowRank(CaptureSet& set, const report::GroupSteps& steps) {
  const bool is_pair = steps.verdict == report::StragglerVerdict::kPair;
  if (!is_pair && steps.verdict != report::StragglerVerdict::kStraggler) return {};
  const report::RankScore& slow = steps.ranking.front();
  std::vector<const report::RankScore*> usual = UsualRanks(steps);
  if (usual.empty()) return {};
  const int64_t more_ns = slow.own_ns - MedianOwnWork(usual);
  usual.resize(std::min(usual.size(), kMostOthers));

  absl::Mutex mutex;  // Nodes answer at the same time.
  std::optional<report::RankFigures> of_slow;
  std::map<size_t, report::RankFigures>
      of_others;  // In an order that does not depend on who is fast.
  absl::Status failed;
  const auto read = [&](size_t member, CaptureSource& source) {
    const bool is_usual = std::ranges::any_of(
        usual, [member](const report::RankScore* rank) { return rank->member == member; });
    if (member != slow.member && !is_usual) return absl::OkStatus();
    absl::StatusOr<report::RankFigures> figures = FiguresOf(source);
    const absl::MutexLock lock(&mutex);
    if (!figures.ok()) {
      failed = figures.status();
    } else if (member == slow.member) {
      of_slow = *std::move(figures);
    } else {
      of_others.emplace(member, *std::move(figures));
    }
    return absl::OkStatus();  // The member is as good as before for all that does not need this.
  };
  if (const absl::Status status = set.ForEach(read); !status.ok()) failed = status;
  if (!of_slow.has_value() || of_others.empty()) {
    if (failed.ok()) return {};
    return {.text = StrCat("What it does more of is unknown: ",
                           ForDisplay(std::string(failed.message()), 200), ".")};
  }
  std::vector<report::RankFigures> others;
  others.reserve(of_others.size());
  for (auto& [member, figures] : of_others) others.push_back(std::move(figures));
  return report::ExplainRank(NameOf(set.members()[slow.member]), *of_slow, others, more_ns);
}

}  // namespace profd::cli
