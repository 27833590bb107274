#include "cli/captures/rank_history.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/time/time.h"
#include "cli/captures/group_start.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr std::string_view kNoSummary =
    "no summary for comparing ranks is kept: the capture is older than these summaries, or making "
    "it failed, or it is damaged";

std::string WhyNotCompared(const CaptureView& view) {
  const CaptureRecord& record = view.record;
  if (record.windows.empty() || record.start_unix_ns == 0) {
    return record.error_message.empty() ? StrCat("nothing was recorded (", view.ended_by, ")")
                                        : record.error_message;
  }
  return record.error_message.empty() ? std::string(kNoSummary)
                                      : StrCat(kNoSummary, " (", record.error_message, ")");
}

RankOfWindow MemberOf(const CaptureView& view) {
  return {.capture = view.record.id,
          .node = view.record.node,
          .pid = view.record.target.pid,
          .rank = RankOf(view.record.target)};
}

// As CaptureSet orders members.
auto OrderOf(const RankSummaryView& summary) {
  const CaptureRecord& record = summary.view.record;
  const int64_t rank = RankOf(record.target);
  return std::tuple(rank < 0, rank, std::string_view(record.node), record.target.pid);
}

RankWindow WindowOf(std::vector<RankSummaryView> summaries) {
  std::ranges::stable_sort(summaries,
                           [](const auto& a, const auto& b) { return OrderOf(a) < OrderOf(b); });
  const CaptureRecord& first = summaries.front().view.record;
  RankWindow window = {
      .group = first.group_id, .job = JobOf(first.target), .schedule = first.schedule_id};
  std::vector<report::CollectiveTable> tables(summaries.size());
  std::vector<ComparedRank> ranks(summaries.size());
  std::vector<TargetInfo> targets;
  targets.reserve(summaries.size());
  window.members.reserve(summaries.size());
  for (size_t i = 0; i < summaries.size(); ++i) {
    RankSummaryView& summary = summaries[i];
    const CaptureRecord& record = summary.view.record;
    RankOfWindow& member = window.members.emplace_back(MemberOf(summary.view));
    targets.push_back(record.target);
    const int64_t time_unix_ns =
        record.start_unix_ns != 0 ? record.start_unix_ns : absl::ToUnixNanos(record.create_time);
    window.time_unix_ns =
        i == 0 ? time_unix_ns : std::min<int64_t>(window.time_unix_ns, time_unix_ns);
    ranks[i] = {.start_unix_ns = record.start_unix_ns, .host = report::ClockHostOf(record)};
    if (summary.clock_bound_ns >= 0) {
      ranks[i].probe = report::ClockProbe{.offset_ns = summary.clock_offset_ns,
                                          .bound_ns = summary.clock_bound_ns};
    }
    if (!summary.collectives.has_value()) {
      member.missing = WhyNotCompared(summary.view);
      continue;
    }
    absl::StatusOr<report::CollectiveTable> table = report::CollectivesFrom(*summary.collectives);
    summary.collectives.reset();
    if (!table.ok()) {
      member.missing = StrCat("its summary cannot be read: ", table.status().message());
      continue;
    }
    tables[i] = *std::move(table);
    ranks[i].collectives = &tables[i];
    window.left_out_step_count = std::max(window.left_out_step_count, summary.left_out_step_count);
  }
  window.absent_ranks = AbsentRanks(targets);
  const MatchedRanks matched = MatchRanks(ranks);
  window.rejected_count = matched.clocks.rejected_count;
  window.steps = CompareRanks(ranks, matched);
  const auto with_steps = std::ranges::count_if(
      window.steps.members, [](const auto& steps_of_rank) { return !steps_of_rank.empty(); });
  if (window.steps.ranking.empty() && with_steps > 1) {
    window.steps.reason = report::StragglerReason::kTooFewSteps;  // None in common.
  }
  window.steps.blames.clear();
  window.steps.members.clear();
  window.steps.rows.clear();
  return window;
}

// Where captures of a daemon may be missing: of this time and earlier.
absl::Time CutOf(const RankSummaries& of_daemon) {
  if (!of_daemon.is_cut || of_daemon.captures.empty()) return absl::InfinitePast();
  return of_daemon.captures.back().view.record.create_time + kGroupSlack;
}

}  // namespace

bool RankWindow::IsSlow(const report::RankScore& rank) const {
  if (steps.verdict == report::StragglerVerdict::kPair) {
    return rank.member == steps.ranking.front().member;
  }
  return rank.straggler;
}

RankHistory JoinRankHistory(std::vector<RankSummaries> of_daemons, int64_t limit) {
  RankHistory history;
  std::map<std::string, std::vector<RankSummaryView>> groups;
  std::set<std::string> seen;
  absl::Time cut = absl::InfinitePast();
  for (RankSummaries& of_daemon : of_daemons) {
    history.has_more |= of_daemon.is_cut;
    cut = std::max(cut, CutOf(of_daemon));
    for (RankSummaryView& summary : of_daemon.captures) {
      // A daemon that has two names in the list of nodes answers twice.
      if (!seen.insert(summary.view.record.id).second) continue;
      groups[summary.view.record.group_id].push_back(std::move(summary));
    }
  }
  // A group's ID begins with its time only if a command made it; so they are ordered by captures.
  std::vector<std::pair<absl::Time, std::vector<RankSummaryView>>> by_time;
  by_time.reserve(groups.size());
  for (auto& [group, summaries] : groups) {
    absl::Time created = absl::InfiniteFuture();
    for (const RankSummaryView& summary : summaries) {
      created = std::min(created, summary.view.record.create_time);
    }
    if (created <= cut) {
      ++history.left_out_count;
    } else {
      by_time.emplace_back(created, std::move(summaries));
    }
  }
  std::ranges::stable_sort(by_time, {}, [](const auto& group) { return group.first; });
  size_t begin = 0;
  if (limit > 0 && static_cast<size_t>(limit) < by_time.size()) {
    begin = by_time.size() - static_cast<size_t>(limit);
    history.left_out_count += static_cast<int64_t>(begin);
  }
  history.windows.reserve(by_time.size() - begin);
  for (size_t i = begin; i < by_time.size(); ++i) {
    history.windows.push_back(WindowOf(std::move(by_time[i].second)));
  }
  return history;
}

}  // namespace profd::cli
