#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "daemon/report/index/median.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::report {
namespace {

// Of a step: below it, differences between ranks mean nothing.
constexpr double kLeastDeviation = 0.01;

// By member, then by the number of the step: what its collectives waited for other ranks.
using Waits = std::vector<std::map<int64_t, int64_t>>;

void AddCapped(int64_t& sum, int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<int64_t>::max();
}

Waits WaitsOf(std::span<const CollectiveTable* const> tables,
              std::span<const MatchedCollective> matches) {
  Waits waits(tables.size());
  for (const MatchedCollective& match : matches) {
    int64_t transfer_ns = std::numeric_limits<int64_t>::max();
    for (const MatchedCollective::Part& part : match.parts) {
      transfer_ns = std::min(transfer_ns, tables[part.member]->rows[part.row].duration_ns);
    }
    for (const MatchedCollective::Part& part : match.parts) {
      const CollectiveRow& row = tables[part.member]->rows[part.row];
      // What is hidden comes first: behind it the transfer, which ends on all ranks at once.
      const int64_t wait_ns = row.exposed_ns - std::min(row.exposed_ns, transfer_ns);
      AddCapped(waits[part.member][row.step], wait_ns);
    }
  }
  return waits;
}

std::vector<RankStep> StepsOf(const CollectiveTable& table,
                              const std::map<int64_t, int64_t>& waits) {
  std::vector<RankStep> steps;
  for (const StepWorkRow& work : table.steps) {
    RankStep step = {.step = work.step, .duration_ns = std::max<int64_t>(work.duration_ns, 0)};
    const int64_t exposed_ns = std::clamp<int64_t>(work.exposed_ns, 0, step.duration_ns);
    const auto wait = waits.find(work.step);
    step.wait_ns = wait == waits.end() ? 0 : std::clamp<int64_t>(wait->second, 0, exposed_ns);
    step.transfer_ns = exposed_ns - step.wait_ns;
    step.own_ns = step.duration_ns - exposed_ns;
    steps.push_back(step);
  }
  return steps;
}

std::vector<GroupStepRow> RowsOf(const std::vector<std::vector<RankStep>>& members) {
  std::map<int64_t, std::vector<std::pair<size_t, const RankStep*>>> by_step;
  for (size_t member = 0; member < members.size(); ++member) {
    for (const RankStep& step : members[member]) by_step[step.step].push_back({member, &step});
  }
  std::vector<GroupStepRow> rows;
  for (const auto& [number, parts] : by_step) {
    GroupStepRow row = {.step = number, .member_count = static_cast<int64_t>(parts.size())};
    std::vector<int64_t> durations;
    std::vector<int64_t> own;
    row.slowest = row.waited_most = parts.front().first;
    for (const auto& [member, step] : parts) {
      durations.push_back(step->duration_ns);
      own.push_back(step->own_ns);
      if (step->own_ns > row.slowest_own_ns) {
        row.slowest = member;
        row.slowest_own_ns = step->own_ns;
      }
      if (step->wait_ns > row.longest_wait_ns) {
        row.waited_most = member;
        row.longest_wait_ns = step->wait_ns;
      }
    }
    const auto [min, max] = std::minmax_element(durations.begin(), durations.end());
    row.min_ns = *min;
    row.max_ns = *max;
    row.median_ns = Median(durations);
    row.median_own_ns = Median(own);
    rows.push_back(row);
  }
  return rows;
}

int64_t MedianOf(const std::vector<RankStep>& steps, int64_t RankStep::*field) {
  std::vector<int64_t> values;
  values.reserve(steps.size());
  for (const RankStep& step : steps) values.push_back(step.*field);
  return Median(values);
}

void Score(std::vector<RankScore>& ranking) {
  std::vector<int64_t> own;
  std::vector<int64_t> durations;
  for (const RankScore& rank : ranking) {
    own.push_back(rank.own_ns);
    durations.push_back(rank.duration_ns);
  }
  const int64_t least = own.empty() ? 0 : *std::min_element(own.begin(), own.end());
  for (RankScore& rank : ranking) {
    rank.relative =
        rank.own_ns == 0 ? 1 : static_cast<double>(least) / static_cast<double>(rank.own_ns);
  }
  if (static_cast<int64_t>(ranking.size()) < kFewestForStragglers) return;
  const int64_t median = Median(own);
  for (int64_t& value : own) value = std::abs(value - median);
  const double deviation =
      std::max({static_cast<double>(Median(own)),
                kLeastDeviation * static_cast<double>(Median(durations)), 1.0});
  for (RankScore& rank : ranking) {
    rank.score = 0.6745 * static_cast<double>(rank.own_ns - median) / deviation;
    rank.straggler = rank.score > kStragglerScore;
  }
}

}  // namespace

GroupSteps CompareSteps(std::span<const CollectiveTable* const> tables,
                        std::span<const MatchedCollective> matches) {
  GroupSteps steps;
  steps.members.resize(tables.size());
  steps.matched_count = static_cast<int64_t>(matches.size());
  const Waits waits = WaitsOf(tables, matches);
  for (size_t member = 0; member < tables.size(); ++member) {
    if (tables[member] == nullptr) continue;
    steps.has_collectives |= !tables[member]->rows.empty();
    steps.members[member] = StepsOf(*tables[member], waits[member]);
    const std::vector<RankStep>& of_member = steps.members[member];
    if (of_member.empty()) continue;
    steps.ranking.push_back({.member = member,
                             .step_count = static_cast<int64_t>(of_member.size()),
                             .duration_ns = MedianOf(of_member, &RankStep::duration_ns),
                             .own_ns = MedianOf(of_member, &RankStep::own_ns),
                             .transfer_ns = MedianOf(of_member, &RankStep::transfer_ns),
                             .wait_ns = MedianOf(of_member, &RankStep::wait_ns)});
  }
  steps.rows = RowsOf(steps.members);
  steps.enough_ranks = static_cast<int64_t>(steps.ranking.size()) >= kFewestForStragglers;
  Score(steps.ranking);
  std::stable_sort(steps.ranking.begin(), steps.ranking.end(),
                   [](const RankScore& a, const RankScore& b) {
                     return std::tie(a.score, a.own_ns) > std::tie(b.score, b.own_ns);
                   });
  return steps;
}

}  // namespace profd::report
