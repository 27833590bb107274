#include "daemon/schedule/sample_choice.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "daemon/base/stable_hash.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

// From the window's time to the decision where its ranks begin: most targets are armed by then.
constexpr absl::Duration kDecisionDelay = absl::Seconds(1);

// `kind` keeps the choices of nodes, jobs and targets apart.
StableHash StableHashOf(std::string_view kind, std::string_view schedule_id, absl::Time window,
                        std::string_view what) {
  return StableHash().Add(kind).Add(schedule_id).Add(absl::ToUnixNanos(window)).Add(what);
}

// What a target is called in the choice. A rank keeps its name when it is started again.
std::string TargetKey(std::string_view node, const TargetInfo& target) {
  if (const std::string job = JobOf(target); !job.empty() && RankOf(target) >= 0) {
    return StrCat("rank\n", job, "\n", RankOf(target));
  }
  return StrCat("process\n", node, "\n", target.pid, "\n", target.process_start_ticks);
}

std::string JobKey(std::string_view node, const TargetInfo& target) {
  const std::string job = JobOf(target);
  return job.empty() ? TargetKey(node, target) : StrCat("job\n", job);
}

// Which of `keys`, that differ, are chosen: each with its weight.
std::map<std::string, double> ChooseKeys(const SampleSpec& sample, std::string_view kind,
                                         std::string_view schedule_id, absl::Time window,
                                         std::vector<std::string> keys) {
  std::map<std::string, double> chosen;
  if (sample.fraction > 0) {
    for (std::string& key : keys) {
      // Chance by a hash: every node decides alike without asking another, and the choice of a
      // window can be checked afterwards.
      if (StableHashOf(kind, schedule_id, window, key).Unit() >= sample.fraction) continue;
      chosen.emplace(std::move(key), 1 / sample.fraction);
    }
    return chosen;
  }
  const auto total = static_cast<int64_t>(keys.size());
  const int64_t count = sample.count == 0 ? total : std::min(sample.count, total);
  std::vector<std::pair<uint64_t, std::string>> places;
  places.reserve(keys.size());
  for (std::string& key : keys) {
    const uint64_t place = StableHashOf(kind, schedule_id, window, key).Value();
    places.emplace_back(place, std::move(key));
  }
  // Each key gets a place by its hash and the first ones are taken, which is a sample without
  // replacement.
  std::ranges::sort(places, std::greater());
  for (int64_t i = 0; i < count; ++i) {
    chosen.emplace(std::move(places[static_cast<size_t>(i)].second),
                   static_cast<double>(total) / static_cast<double>(count));
  }
  return chosen;
}

}  // namespace

Choice ChooseNode(const ScheduleSpec& spec, std::string_view schedule_id, absl::Time window,
                  std::string_view node) {
  const SampleSpec& sample = spec.sample;
  if (sample.unit != SampleUnit::kNodes) return {};
  if (sample.fraction > 0) {
    return {.chosen = StableHashOf("node", schedule_id, window, node).Unit() < sample.fraction,
            .weight = 1 / sample.fraction};
  }
  if (sample.count == 0) return {};
  // This node's place among all: no list of them needs to be sorted.
  const uint64_t own = StableHashOf("node", schedule_id, window, node).Value();
  int64_t before = 0;
  bool is_one = false;
  for (const std::string& other : spec.nodes) {
    if (other == node) {
      is_one = true;
      continue;
    }
    const uint64_t place = StableHashOf("node", schedule_id, window, other).Value();
    if (place > own || (place == own && other > node)) ++before;
  }
  const auto total = static_cast<double>(spec.nodes.size());
  return {.chosen = is_one && before < sample.count,
          .weight = std::max(1.0, total / static_cast<double>(sample.count))};
}

std::vector<ChosenTarget> ChooseTargets(const ScheduleSpec& spec, std::string_view schedule_id,
                                        absl::Time window, std::string_view node,
                                        std::vector<TargetInfo> candidates) {
  const SampleSpec& sample = spec.sample;
  const bool by_job = sample.unit == SampleUnit::kJobs;
  std::vector<ChosenTarget> chosen;
  // In an order by chance, so that a budget that runs out does not always leave out the same.
  std::ranges::sort(candidates, std::less(), [&](const TargetInfo& target) {
    return std::pair(StableHashOf("order", schedule_id, window, TargetKey(node, target)).Value(),
                     target.number);
  });
  if (sample.unit == SampleUnit::kNodes) {
    for (TargetInfo& target : candidates) chosen.push_back({.target = std::move(target)});
    return chosen;
  }
  std::vector<std::string> keys;
  keys.reserve(candidates.size());
  for (const TargetInfo& target : candidates) {
    keys.push_back(by_job ? JobKey(node, target) : TargetKey(node, target));
  }
  std::vector<std::string> different = keys;
  std::ranges::sort(different);
  different.erase(std::unique(different.begin(), different.end()), different.end());
  const std::map<std::string, double> weights =
      ChooseKeys(sample, by_job ? "job" : "target", schedule_id, window, std::move(different));
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto found = weights.find(keys[i]);
    if (found == weights.end()) continue;
    chosen.push_back({.target = std::move(candidates[i]), .weight = found->second});
  }
  return chosen;
}

int64_t NumberOf(const ScheduleSpec& spec, std::string_view schedule_id, absl::Time window) {
  // Counted from the epoch, so that all nodes give a window the same number.
  if (spec.cron.empty()) return absl::ToUnixNanos(window) / absl::ToInt64Nanoseconds(spec.every);
  const uint64_t number = StableHashOf("number", schedule_id, window, "").Below(kMaxStepGrid);
  return static_cast<int64_t>(number);
}

std::optional<CommonStart> CommonStartOf(const ScheduleSpec& spec, std::string_view schedule_id,
                                         const WindowTime& window, const TargetInfo& target) {
  std::string job = JobOf(target);
  if (spec.step_grid == 0 || spec.capture.steps == 0 || CountsOwnSteps(spec.capture) ||
      job.empty() || RankOf(target) < 0) {
    return std::nullopt;
  }
  const uint64_t offset = StableHashOf("step", schedule_id, window.nominal, "").Below(kMaxStepGrid);
  return CommonStart{.job = std::move(job),
                     .grid = spec.step_grid,
                     .offset = static_cast<int64_t>(offset),
                     .lead = spec.step_lead,
                     .decision = window.due + kDecisionDelay};
}

}  // namespace profd
