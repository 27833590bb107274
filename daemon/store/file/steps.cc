#include "daemon/store/file/steps.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "daemon/base/median.h"

namespace profd::store {
namespace {

void AddStep(int64_t step, int64_t window, int64_t begin_ns, int64_t end_ns, int64_t start_ns,
             std::vector<StepRecord>& steps) {
  if (end_ns < begin_ns) return;
  steps.push_back({.index = step,
                   .window = window,
                   .start_ns = begin_ns - start_ns,
                   .duration_ns = end_ns - begin_ns});
}

using Mark = std::span<const StepRow>::iterator;

void AddStepsOfStepWindow(std::span<const StepRow> marks, const WindowRecord& window,
                          int64_t number, int64_t start_ns, std::vector<StepRecord>& steps) {
  // A step lasts from its mark to the mark of the next step. The window replaces two
  // marks: its start is that of the first step, if that is missing, and its end is the one after
  // the last step. A step without the next mark has an unknown end and is left out.
  const auto by_step = [](const StepRow& mark, int64_t step) { return mark.step < step; };
  const int64_t window_begin_ns = window.start_ns + start_ns;
  const int64_t window_end_ns = window.end_ns + start_ns;
  const auto end_of = [&](int64_t step, Mark next) -> const int64_t* {
    if (next != marks.end() && next->step == step + 1) return &next->time_ns;
    return step + 1 == window.end_step ? &window_end_ns : nullptr;
  };
  if (window.end_step <= window.first_step) return;
  Mark mark = std::lower_bound(marks.begin(), marks.end(), window.first_step, by_step);
  if (mark == marks.end() || mark->step != window.first_step) {
    if (const int64_t* end_ns = end_of(window.first_step, mark)) {
      AddStep(window.first_step, number, window_begin_ns, *end_ns, start_ns, steps);
    }
  }
  for (; mark != marks.end() && mark->step < window.end_step; ++mark) {
    if (const int64_t* end_ns = end_of(mark->step, mark + 1)) {
      AddStep(mark->step, number, mark->time_ns, *end_ns, start_ns, steps);
    }
  }
}

void AddStepsOfTimeWindow(std::span<const StepRow> marks, const WindowRecord& window,
                          int64_t number, int64_t start_ns, std::vector<StepRecord>& steps) {
  for (size_t i = 0; i + 1 < marks.size(); ++i) {
    const StepRow& mark = marks[i];
    const StepRow& next = marks[i + 1];
    const bool whole = next.step == mark.step + 1 && mark.time_ns >= window.start_ns + start_ns &&
                       next.time_ns <= window.end_ns + start_ns;
    if (whole) AddStep(mark.step, number, mark.time_ns, next.time_ns, start_ns, steps);
  }
}

StepSummaryRow SummarizeWindow(int64_t window, std::vector<int64_t> durations) {
  std::sort(durations.begin(), durations.end());
  const size_t middle = durations.size() / 2;
  const auto count = static_cast<int64_t>(durations.size());
  const int64_t median = durations.size() % 2 == 1
                             ? durations[middle]
                             : std::midpoint(durations[middle - 1], durations[middle]);
  int64_t total = 0;
  for (const int64_t duration : durations) total += duration;
  return {.window = window,
          .steps = count,
          .min_ns = durations.front(),
          .median_ns = median,
          .mean_ns = total / count,
          .max_ns = durations.back()};
}

}  // namespace

std::vector<StepRow> SortMarks(std::vector<StepRow> marks) {
  std::stable_sort(marks.begin(), marks.end(),
                   [](const StepRow& a, const StepRow& b) { return a.step < b.step; });
  // The sort is stable, so the earliest mark of a step is the one that stays.
  marks.erase(std::unique(marks.begin(), marks.end(),
                          [](const StepRow& a, const StepRow& b) { return a.step == b.step; }),
              marks.end());
  return marks;
}

std::vector<StepRecord> DeriveSteps(std::span<const StepRow> sorted_marks,
                                    std::span<const WindowRecord> windows, int64_t start_ns) {
  std::vector<StepRecord> steps;
  for (size_t number = 0; number < windows.size(); ++number) {
    const WindowRecord& window = windows[number];
    if (window.first_step >= 0) {
      AddStepsOfStepWindow(sorted_marks, window, static_cast<int64_t>(number), start_ns, steps);
    } else {
      AddStepsOfTimeWindow(sorted_marks, window, static_cast<int64_t>(number), start_ns, steps);
    }
  }
  return steps;
}

// Each run of marks with consecutive numbers becomes a window, from its first mark to its last one,
// so that it covers complete steps only.
RecoveredWindows RecoverWindows(std::span<const StepRow> sorted_marks, const TimeSpan& events) {
  RecoveredWindows recovered;
  std::vector<std::pair<size_t, size_t>> runs;  // First and last mark.
  for (size_t begin = 0; begin < sorted_marks.size();) {
    size_t last = begin;
    while (last + 1 < sorted_marks.size() &&
           sorted_marks[last + 1].step == sorted_marks[last].step + 1) {
      ++last;
    }
    // A single mark begins a step whose end is unknown, so it makes no window.
    if (last > begin) runs.emplace_back(begin, last);
    begin = last + 1;
  }
  if (runs.empty()) {
    if (events.empty()) return recovered;
    recovered.start_ns = events.begin_ns;
    recovered.windows.push_back({.start_ns = 0, .end_ns = events.end_ns - events.begin_ns});
    return recovered;
  }
  recovered.start_ns = sorted_marks[runs.front().first].time_ns;
  for (const auto& [first, last] : runs) {
    recovered.windows.push_back({.start_ns = sorted_marks[first].time_ns - recovered.start_ns,
                                 .end_ns = sorted_marks[last].time_ns - recovered.start_ns,
                                 .first_step = sorted_marks[first].step,
                                 .end_step = sorted_marks[last].step});
  }
  return recovered;
}

std::vector<StepSummaryRow> SummarizeStepTimes(std::span<const StepRecord> steps) {
  std::map<int64_t, std::vector<int64_t>> durations;
  for (const StepRecord& step : steps) durations[step.window].push_back(step.duration_ns);
  std::vector<StepSummaryRow> rows;
  rows.reserve(durations.size());
  for (auto& [window, values] : durations) {
    rows.push_back(SummarizeWindow(window, std::move(values)));
  }
  return rows;
}

int64_t MedianStepTime(std::span<const StepRecord> steps) {
  std::vector<int64_t> durations_ns;
  durations_ns.reserve(steps.size());
  for (const StepRecord& step : steps) durations_ns.push_back(step.duration_ns);
  return Median(durations_ns);
}

}  // namespace profd::store
