#include "cli/captures/slow_rank.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

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

}  // namespace

absl::StatusOr<report::RankFigures> FiguresOf(CaptureSource& source, bool with_flops) {
  report::RankFigures figures;
  ASSIGN_OR_RETURN(const table::Report time, source.Report({.report = "time"}));
  ASSIGN_OR_RETURN(figures.time, report::TimeFrom(time));
  report::ReportRequest request = {.report = "ops"};
  if (!with_flops) request.options["sums_only"] = "1";
  ASSIGN_OR_RETURN(const table::Report ops, source.Report(request));
  ASSIGN_OR_RETURN(figures.ops, report::OpProfileOf(ops));
  if (!figures.time.has_device) return figures;
  ASSIGN_OR_RETURN(const table::Report kernels, source.Report({.report = "kernels"}));
  ASSIGN_OR_RETURN(figures.kernels, report::KernelsFrom(kernels));
  return figures;
}

absl::StatusOr<report::RankExcess> ExplainSlowRank(CaptureSet& set,
                                                   const report::GroupSteps& steps) {
  const bool is_pair = steps.verdict == report::StragglerVerdict::kPair;
  if (!is_pair && steps.verdict != report::StragglerVerdict::kStraggler) {
    return report::RankExcess();
  }
  const report::RankScore& slow = steps.ranking.front();
  std::vector<const report::RankScore*> usual = UsualRanks(steps);
  if (usual.empty()) return report::RankExcess();
  const std::string name = NameOf(set.members()[slow.member]);
  report::RankExcess by_cpu_waits = report::ExplainRankByCpuWaits(name, slow, steps.ranking);
  const std::vector<int64_t> slow_steps =
      slow.is_slow_in_steps ? slow.slow_steps : std::vector<int64_t>();
  const int64_t more_ns =
      slow.is_slow_in_steps ? slow.slow_step_delay_ns : slow.own_ns - MedianOwnWork(usual);
  usual.resize(std::min(usual.size(), kMostOthers));

  std::vector<size_t> chosen = {slow.member};
  for (const report::RankScore* rank : usual) chosen.push_back(rank->member);
  absl::Mutex mutex;  // Nodes answer at the same time.
  std::map<size_t, report::RankFigures> of_members;
  const absl::Status status =
      set.ForSome(chosen, [&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(report::RankFigures figures, FiguresOf(source, /*with_flops=*/false));
        const absl::MutexLock lock(&mutex);
        of_members.emplace(member, std::move(figures));
        return absl::OkStatus();
      });
  if (absl::IsCancelled(status)) return status;
  auto of_slow = of_members.extract(slow.member);
  if (of_slow.empty() || of_members.empty()) {
    if (!by_cpu_waits.text.empty()) return by_cpu_waits;
    return status;
  }
  std::vector<report::RankFigures> others;
  others.reserve(of_members.size());
  for (auto& [member, figures] : of_members) others.push_back(std::move(figures));
  return report::ExplainRank(name, of_slow.mapped(), others, more_ns, std::move(by_cpu_waits),
                             slow_steps);
}

}  // namespace profd::cli
