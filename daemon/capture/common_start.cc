#include "daemon/capture/common_start.h"

#include <algorithm>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/base/stable_hash.h"
#include "daemon/base/ulid.h"

namespace profd {

int64_t MedianStepNs(const RecentSteps& recent) {
  std::vector<int64_t> durations;
  durations.reserve(recent.steps.size());
  for (const StepTime& step : recent.steps) durations.push_back(step.duration_ns);
  return Median(durations);
}

int64_t StepAt(const RecentSteps& recent, absl::Duration ago) {
  const int64_t ago_ns = absl::ToInt64Nanoseconds(ago);
  int64_t step = recent.current_step;
  int64_t began_ns = recent.since_current_ns;  // Before now.
  if (began_ns < 0 || ago_ns <= began_ns) return step;
  for (auto earlier = recent.steps.rbegin(); earlier != recent.steps.rend(); ++earlier) {
    step = earlier->step;
    began_ns += std::max<int64_t>(0, earlier->duration_ns);
    if (ago_ns <= began_ns) return step;
  }
  // Before the oldest step that is known, each is taken to last the median.
  const int64_t median_ns = MedianStepNs(recent);
  if (median_ns <= 0) return step;
  return std::max<int64_t>(0, step - (ago_ns - began_ns + median_ns - 1) / median_ns);
}

namespace {

struct GridAndLead {
  int64_t grid = 1;
  int64_t lead = 0;
};

GridAndLead Fitted(const CommonStart& start, const CaptureSpec& spec, int64_t median_step_ns) {
  int64_t grid = std::max<int64_t>(1, start.grid);
  int64_t lead = start.lead;
  const double budget_ns = absl::ToDoubleNanoseconds(spec.timeout / 2);
  // Ranks of a job take the same time for a step, so all halve as often.
  while ((grid > 1 || lead > 1) &&
         static_cast<double>(grid + lead) * static_cast<double>(median_step_ns) > budget_ns) {
    grid = std::max<int64_t>(1, grid / 2);
    lead = std::max<int64_t>(1, lead / 2);
  }
  return {.grid = grid, .lead = lead};
}

}  // namespace

int64_t CommonLead(const CommonStart& start, const CaptureSpec& spec, int64_t median_step_ns) {
  return Fitted(start, spec, median_step_ns).lead;
}

int64_t FirstCommonStep(const CommonStart& start, const CaptureSpec& spec, int64_t step,
                        int64_t median_step_ns) {
  const auto [grid, lead] = Fitted(start, spec, median_step_ns);
  const int64_t earliest = std::max<int64_t>(0, step) + 1 + lead + spec.warmup_steps;
  // The offset may be the larger one; `%` has the sign of the difference.
  const int64_t behind = ((earliest - start.offset) % grid + grid) % grid;
  return behind == 0 ? earliest : earliest + grid - behind;
}

std::string CommonGroupId(std::string_view schedule_id, int64_t window_unix_ns,
                          std::string_view job, int64_t first_step) {
  const auto hash = [&](std::string_view part) {
    return StableHash()
        .Add(part)
        .Add(schedule_id)
        .Add(window_unix_ns)
        .Add(job)
        .Add(first_step)
        .Value();
  };
  return UlidOf(absl::FromUnixNanos(window_unix_ns), hash("group high"), hash("group low"));
}

}  // namespace profd
