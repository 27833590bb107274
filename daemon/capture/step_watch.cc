#include "daemon/capture/step_watch.h"

#include <algorithm>

#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

// Steps are 16 bytes of a map each. MeasureSlowdown() looks at no more than a few hundred.
constexpr size_t kMostWatchedSteps = 4096;
// A program's first steps compile, allocate, and fill caches.
constexpr int64_t kStartUpSteps = 10;
constexpr double kSlowStep = 1.5;     // Of the median.
constexpr double kMostMeanNs = 1e18;  // 31 years; converted back, it is a number still.

}  // namespace

void StepWatch::Observe(const RecentSteps& recent) {
  if (!observed_) {
    observed_ = true;
    source_ = recent.source;
    armed_step_ = recent.current_step;
  }
  // A process that has ended shows no steps any more.
  if (recent.source == StepSource::kNone) return;
  if (recent.source != source_) {
    // A process may get its first steps while a capture waits for them.
    source_changed_ = source_changed_ || source_ != StepSource::kNone;
    source_ = recent.source;
    times_ns_.clear();
  }
  for (const StepTime& step : recent.steps) {
    const bool is_disturbed = std::ranges::any_of(disturbed_, [&](const DisturbedSteps& steps) {
      return step.step >= steps.first_step && step.step < steps.end_step;
    });
    if (is_disturbed) continue;
    // Steps after the recording are kept in any case, or there would be none to compare with.
    if (times_ns_.size() < kMostWatchedSteps || step.step >= drained_step_) {
      times_ns_[step.step] = step.duration_ns;
    }
  }
}

void StepWatch::SetRecording(bool recording, const RecentSteps& recent) {
  if (recording == (recording_from_ >= 0)) return;
  if (recording) {
    recording_from_ = recent.current_step + 1;
    return;
  }
  windows_.push_back({.first_step = recording_from_, .end_step = recent.current_step});
  recording_from_ = -1;
}

void StepWatch::SetWindows(std::span<const WindowRecord> windows, int64_t warmup_steps) {
  windows_.clear();
  for (const WindowRecord& window : windows) {
    windows_.push_back({.first_step = window.first_step, .end_step = window.end_step});
  }
  warmup_steps_ = warmup_steps;
}

void StepWatch::SetDrained(const RecentSteps& recent) {
  // Of a process that has ended there are no steps after it.
  if (recent.current_step >= 0) drained_step_ = recent.current_step + 1;
  Observe(recent);
}

int64_t StepWatch::BeforeEnd() const {
  const int64_t armed = std::min(armed_step_, windows_.front().first_step);
  const auto undisturbed =
      std::ranges::count_if(times_ns_, [armed](const auto& entry) { return entry.first < armed; });
  return undisturbed >= static_cast<int64_t>(kEnoughSteps)
             ? armed
             : windows_.front().first_step - warmup_steps_;
}

StepTimes StepWatch::Times() const {
  StepTimes times;
  if (windows_.empty()) return times;
  const int64_t before_end = BeforeEnd();
  for (const auto& [step, time_ns] : times_ns_) {
    if (step < before_end) times.before.push_back(time_ns);
    if (step >= drained_step_) times.after.push_back(time_ns);
    const bool in_window = std::ranges::any_of(windows_, [step = step](const Window& window) {
      return step >= window.first_step && step < window.end_step;
    });
    if (in_window) times.during.push_back(time_ns);
  }
  return times;
}

void StepWatch::DescribeStepsAround(CaptureRecord& record) const {
  // Steps that the capture counts itself, such as those of a range, are not the program's: they
  // have another length.
  if (windows_.empty() || CountsOwnSteps(record.spec)) return;
  // Arming stops a program now and then, which is not its own slow step: a median, as Times() is
  // for, bears that, and a mean does not.
  const int64_t before_end = std::min(armed_step_, windows_.front().first_step);
  std::vector<int64_t> times_ns;
  for (const auto& [step, time_ns] : times_ns_) {
    const bool is_around = step < before_end || step >= drained_step_;
    if (is_around && step >= kStartUpSteps && time_ns > 0) times_ns.push_back(time_ns);
  }
  if (times_ns.empty()) return;
  // As floating point: a hostile target's times may not fit in a sum.
  double sum_ns = 0;
  for (const int64_t time_ns : times_ns) sum_ns += static_cast<double>(time_ns);
  const auto slow_ns = kSlowStep * static_cast<double>(Median(times_ns));
  record.around_step_count = std::ssize(times_ns);
  const double mean_ns = sum_ns / static_cast<double>(times_ns.size());
  record.around_step_mean_ns = static_cast<int64_t>(std::min(mean_ns, kMostMeanNs));
  record.around_slow_step_count = std::ranges::count_if(
      times_ns, [&](int64_t time_ns) { return static_cast<double>(time_ns) > slow_ns; });
}

int64_t StepWatch::during_ns() const { return source_changed_ ? 0 : Median(Times().during); }

size_t StepWatch::missing_steps() const {
  return kEnoughSteps - std::min(kEnoughSteps, Times().after.size());
}

void StepWatch::Describe(CaptureRecord& record) const {
  record.slowdown.cupti_stays = record.gpu.cupti_stays;
  if (source_ == StepSource::kNone) {
    record.slowdown.unknown_reason =
        CountsOwnSteps(record.spec)
            ? "the steps of this capture are counted only while it records, so there are none to "
              "compare (mark steps with profd.step())"
            : "the process has no steps to compare (mark them with profd.step())";
    return;
  }
  if (source_changed_) {
    record.slowdown.unknown_reason = StrCat(
        "the steps of the process were of another kind before (now: ", ToString(source_), ")");
    return;
  }
  StepTimes times = Times();
  record.slowdown = MeasureSlowdown(times, record.gpu.cupti_stays);
  DiscountWaits(DelayShareBeyondAfter(record.cpu), record.slowdown);
  DescribeStepsAround(record);
  record.step_before_ns = Median(times.before);
  record.step_after_ns = Median(times.after);
  if (!times.during.empty()) record.step_during_ns = Median(times.during);
}

}  // namespace profd
