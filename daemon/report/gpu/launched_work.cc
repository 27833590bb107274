#include "daemon/report/gpu/launched_work.h"

#include <algorithm>

#include "daemon/report/index/end_of.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// A step that takes less than this share of the device's time for it runs ahead.
constexpr double kKeepsPace = 0.9;
// Of the time from its first work to its last: a device that is busy for so much of it sets the
// pace.
constexpr double kAlwaysBusy = 0.9;

}  // namespace

std::vector<LaunchedWork> LaunchedWorkOfSteps(
    const DeviceWork& work, uint32_t device, size_t step_count,
    absl::FunctionRef<int64_t(const GpuAttribution::Call&)> step_of,
    std::optional<uint32_t> only_stream) {
  std::vector<LaunchedWork> launched(step_count);
  for (const Activity& activity : work.activities()) {  // By start.
    if (activity.call == nullptr || work.DeviceOf(activity) != device) continue;
    if (activity.stream != only_stream.value_or(activity.stream)) continue;
    const int64_t position = step_of(*activity.call);
    if (position < 0 || static_cast<size_t>(position) >= step_count) continue;
    LaunchedWork& of_step = launched[static_cast<size_t>(position)];
    if (of_step.end_ns <= of_step.start_ns) {
      of_step = {.start_ns = activity.start_ns, .end_ns = activity.start_ns};
    }
    const int64_t start_ns = std::max(activity.start_ns, of_step.end_ns);
    if (activity.end_ns <= start_ns) continue;
    of_step.busy_ns = Sum(of_step.busy_ns, Difference(activity.end_ns, start_ns));
    of_step.end_ns = activity.end_ns;
  }
  return launched;
}

std::optional<uint32_t> BusiestStream(const DeviceWork& work, std::optional<uint32_t> device) {
  std::vector<int64_t> ns(work.streams().size());
  for (const Activity& activity : work.activities()) {
    if (work.DeviceOf(activity) != device.value_or(work.DeviceOf(activity))) continue;
    ns[activity.stream] = Sum(ns[activity.stream], Difference(activity.end_ns, activity.start_ns));
  }
  const auto most = std::max_element(ns.begin(), ns.end());
  if (most == ns.end() || *most <= 0) return std::nullopt;
  return static_cast<uint32_t>(most - ns.begin());
}

bool RunsAhead(int64_t step_ns, const LaunchedWork& launched) {
  return static_cast<double>(step_ns) < kKeepsPace * static_cast<double>(launched.busy_ns);
}

bool HostRunsAhead(std::span<const int64_t> steps_ns, std::span<const LaunchedWork> launched) {
  if (launched.size() != steps_ns.size() || steps_ns.empty()) return false;
  size_t ahead = 0;
  int64_t busy_ns = 0;
  for (size_t i = 0; i < steps_ns.size(); ++i) {
    if (launched[i].end_ns <= launched[i].start_ns) return false;
    if (i > 0 && launched[i].start_ns <= launched[i - 1].start_ns) return false;
    if (RunsAhead(steps_ns[i], launched[i])) ++ahead;
    busy_ns = Sum(busy_ns, launched[i].busy_ns);
  }
  if (ahead == steps_ns.size()) return true;
  const int64_t all_ns = Difference(launched.back().end_ns, launched.front().start_ns);
  return 2 * ahead >= steps_ns.size() &&
         static_cast<double>(busy_ns) >= kAlwaysBusy * static_cast<double>(all_ns);
}

bool FollowEachOther(std::span<const StepRecord> steps, size_t position) {
  if (position + 1 >= steps.size()) return false;
  const StepRecord& step = steps[position];
  const int64_t end_ns = EndOf(step.start_ns, step.duration_ns);
  return steps[position + 1].start_ns <= EndOf(end_ns, step.duration_ns / 2);
}

}  // namespace profd::report
