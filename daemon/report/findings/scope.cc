#include "daemon/report/findings/scope.h"

#include <algorithm>
#include <utility>

#include "daemon/base/median.h"
#include "daemon/report/index/end_of.h"

namespace profd::report {
namespace {

constexpr size_t kFewestForFirst = 3;
constexpr size_t kFewestInPace = 2;
constexpr size_t kFewestBesideCut = 3;
constexpr int64_t kWarmsUp = 2;  // Times as long as others.
constexpr size_t kFewestAfterEarlierWork = 3;
// Times in a file may be anything; within this, sums of differences cannot overflow.
constexpr int64_t kFarthestNs = int64_t{1} << 60;

void Finish(FindingScope& scope) {
  for (const FindingScope::Stretch& stretch : scope.stretches) {
    scope.total_ns += stretch.end_ns - stretch.start_ns;
  }
  scope.count = std::max<int64_t>(1, static_cast<int64_t>(scope.stretches.size()));
  scope.mean_ns = scope.total_ns / scope.count;
}

// Whether nothing is known of some of the time between two steps.
bool LiesBetween(const IntervalSet& holes, const FindingScope::Stretch& step,
                 const FindingScope::Stretch& next) {
  return holes.MeasureIn(step.end_ns, next.start_ns) > 0;
}

// Of the steps after the first, those that take at least half as long as it, without those that
// follow it directly: a program may warm up for several steps.
int64_t CountAsSlow(int64_t first_ns, std::span<const int64_t> others) {
  const auto is_slow = [first_ns](int64_t ns) { return ns >= first_ns / 2; };
  const auto warm = std::ranges::find_if_not(others, is_slow);
  return std::ranges::count_if(warm, others.end(), is_slow);
}

}  // namespace

int64_t FindingScope::PositionAt(int64_t time_ns) const {
  const auto after =
      std::upper_bound(stretches.begin(), stretches.end(), time_ns,
                       [](int64_t time, const Stretch& at) { return time < at.start_ns; });
  if (after == stretches.begin()) return -1;
  const auto at = after - 1;
  return time_ns < at->end_ns ? at - stretches.begin() : -1;
}

int64_t FindingScope::MeasureIn(int64_t start_ns, int64_t end_ns) const {
  int64_t sum = 0;
  ForEachIn(start_ns, end_ns, [&](int64_t from_ns, int64_t to_ns) { sum += to_ns - from_ns; });
  return sum;
}

FindingScope ScopeOfSteps(std::span<const StepRecord> steps, double first_step_ratio,
                          bool may_warm_up) {
  FindingScope scope;
  scope.has_steps = true;
  for (const StepRecord& step : steps) {
    const int64_t end_ns = EndOf(step.start_ns, step.duration_ns);
    if (step.start_ns < -kFarthestNs || end_ns > kFarthestNs || end_ns <= step.start_ns) continue;
    scope.stretches.push_back({step.start_ns, end_ns, step.index});
  }
  auto& stretches = scope.stretches;
  std::sort(stretches.begin(), stretches.end(),
            [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  for (size_t i = 1; i < stretches.size(); ++i) {
    stretches[i - 1].end_ns = std::min(stretches[i - 1].end_ns, stretches[i].start_ns);
  }
  std::erase_if(stretches, [](const auto& s) { return s.end_ns <= s.start_ns; });
  if (stretches.size() >= kFewestForFirst) {
    scope.first_step = stretches[0].step;
    scope.first_ns = stretches[0].end_ns - stretches[0].start_ns;
    std::vector<int64_t> others;
    for (size_t i = 1; i < stretches.size(); ++i) {
      others.push_back(stretches[i].end_ns - stretches[i].start_ns);
    }
    const int64_t as_slow = CountAsSlow(scope.first_ns, others);
    scope.median_other_ns = Median(others);  // Reorders them.
    scope.first_ratio =
        static_cast<double>(scope.first_ns) / static_cast<double>(scope.median_other_ns);
    const bool is_early = scope.first_step <= kLastWarmUpStep;
    scope.first_left_out = scope.first_ratio > first_step_ratio && (is_early || may_warm_up) &&
                           as_slow < (is_early ? 2 : 1);
    if (scope.first_left_out) stretches.erase(stretches.begin());
  }
  Finish(scope);
  return scope;
}

void LeaveOutEdges(const EdgeStep& first, const EdgeStep& last, const IntervalSet& holes,
                   FindingScope& scope) {
  auto& stretches = scope.stretches;
  if (stretches.size() < 2) return;
  const size_t count = stretches.size();
  std::vector<int64_t> others;
  for (size_t i = 0; i + 1 < count; ++i) {
    others.push_back(stretches[i].end_ns - stretches[i].start_ns);
  }
  const int64_t usual_ns = Median(others);
  const FindingScope::Stretch& end = stretches.back();
  const int64_t length_ns = end.end_ns - end.start_ns;
  const int64_t quiet_ns = end.end_ns - std::clamp(last.last_ns, end.start_ns, end.end_ns);
  const int64_t excess_ns = length_ns - usual_ns;
  const bool is_cut =
      length_ns < usual_ns / 2 && (count > kFewestBesideCut || (count > 2 && last.has_few_events));
  const bool stops =
      count > kFewestBesideCut && excess_ns > usual_ns / 4 && quiet_ns >= excess_ns / 2;
  if (last.is_empty || is_cut || stops) stretches.pop_back();
  // As the first of all, the first step of each window may warm up.
  std::vector<FindingScope::Stretch> kept;
  for (size_t i = 0; i < stretches.size(); ++i) {
    const bool begins_window = i > 0 && LiesBetween(holes, stretches[i - 1], stretches[i]);
    const int64_t ns = stretches[i].end_ns - stretches[i].start_ns;
    if (!begins_window || ns <= kWarmsUp * usual_ns) kept.push_back(stretches[i]);
  }
  stretches = std::move(kept);
  if (first.is_empty && stretches.size() > 1) stretches.erase(stretches.begin());
  scope.edge_count = static_cast<int64_t>(count - stretches.size());
  scope.total_ns = 0;
  Finish(scope);
}

void LeaveOutQueueFilling(std::span<const LaunchedWork> launched, FindingScope& scope) {
  auto& stretches = scope.stretches;
  if (launched.size() != stretches.size()) return;
  const auto runs_ahead = [&](size_t i) {
    return RunsAhead(stretches[i].end_ns - stretches[i].start_ns, launched[i]);
  };
  size_t filling = 0;
  while (filling < stretches.size() && runs_ahead(filling)) ++filling;
  if (filling == 0 || stretches.size() - filling < kFewestInPace) return;
  for (size_t i = filling; i < stretches.size(); ++i) {
    if (runs_ahead(i)) return;
  }
  scope.queue_filling_count = static_cast<int64_t>(filling);
  stretches.erase(stretches.begin(), stretches.begin() + static_cast<ptrdiff_t>(filling));
  scope.total_ns = 0;
  Finish(scope);
}

void TakeDeviceTimes(std::span<const LaunchedWork> launched, int64_t last_end_ns,
                     const IntervalSet& holes, FindingScope& scope) {
  auto& stretches = scope.stretches;
  std::vector<int64_t> lengths_ns;
  lengths_ns.reserve(stretches.size());
  for (const auto& stretch : stretches) lengths_ns.push_back(stretch.end_ns - stretch.start_ns);
  if (!HostRunsAhead(lengths_ns, launched)) return;
  // Between windows of the recording, nothing is known.
  std::vector<bool> is_followed(stretches.size());
  for (size_t i = 0; i + 1 < stretches.size(); ++i) {
    is_followed[i] = !LiesBetween(holes, stretches[i], stretches[i + 1]);
  }
  for (size_t i = 0; i < stretches.size(); ++i) {
    const bool is_last = i + 1 == stretches.size();
    stretches[i].start_ns = launched[i].start_ns;
    stretches[i].end_ns = is_followed[i] ? launched[i + 1].start_ns
                          : is_last      ? std::max(launched[i].end_ns, last_end_ns)
                                         : launched[i].end_ns;
  }
  scope.by_device = true;
  scope.earlier_work_ns = 0;  // They begin with what was launched in them.
  scope.total_ns = 0;
  Finish(scope);
}

void LeaveOutEarlierWork(int64_t first_work_ns, FindingScope& scope) {
  auto& stretches = scope.stretches;
  const auto first = std::find_if(stretches.begin(), stretches.end(), [&](const auto& stretch) {
    return stretch.start_ns >= first_work_ns;
  });
  if (static_cast<size_t>(stretches.end() - first) < kFewestAfterEarlierWork) {
    if (!stretches.empty() && first_work_ns > stretches.front().start_ns) {
      scope.earlier_work_ns = scope.MeasureIn(stretches.front().start_ns, first_work_ns);
    }
    return;
  }
  scope.earlier_work_count = first - stretches.begin();
  stretches.erase(stretches.begin(), first);
  scope.total_ns = 0;
  Finish(scope);
}

void LeaveOutHoles(const IntervalSet& holes, FindingScope& scope) {
  if (holes.empty() || scope.stretches.empty()) return;
  std::vector<FindingScope::Stretch> recorded;
  for (const FindingScope::Stretch& stretch : scope.stretches) {
    int64_t from_ns = stretch.start_ns;
    const auto add = [&](int64_t to_ns) {
      if (to_ns > from_ns) recorded.push_back({from_ns, to_ns, stretch.step});
    };
    for (const IntervalSet::Interval& hole : holes.intervals()) {
      add(std::min(hole.start_ns, stretch.end_ns));
      from_ns = std::max(from_ns, hole.end_ns);
    }
    add(stretch.end_ns);
  }
  const int64_t count = scope.count;
  scope.stretches = std::move(recorded);
  scope.total_ns = 0;
  Finish(scope);
  scope.count = count;
  scope.mean_ns = scope.total_ns / count;
}

FindingScope ScopeOfTime(int64_t start_ns, int64_t end_ns) {
  FindingScope scope;
  start_ns = std::clamp(start_ns, -kFarthestNs, kFarthestNs);
  end_ns = std::clamp(end_ns, -kFarthestNs, kFarthestNs);
  if (end_ns > start_ns) scope.stretches.push_back({start_ns, end_ns, -1});
  Finish(scope);
  return scope;
}

}  // namespace profd::report
