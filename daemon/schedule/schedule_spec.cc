#include "daemon/schedule/schedule_spec.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/schedule/cron.h"

namespace profd {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxDisplayNameBytes = 128;

template <typename... Parts>
absl::Status Wrong(std::string_view field, const Parts&... parts) {
  return absl::InvalidArgumentError(StrCat("schedule: ", field, " ", parts...));
}

absl::Status CheckText(std::string_view field, std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes && IsPrintableUtf8(text)) return absl::OkStatus();
  return Wrong(field, "must be at most ", max_bytes, " bytes of printable UTF-8");
}

absl::Status CheckTimes(const ScheduleSpec& spec) {
  if ((spec.every == absl::ZeroDuration()) == spec.cron.empty()) {
    return Wrong("every", "or cron must be set, and not both");
  }
  absl::Duration gap = spec.every;
  if (spec.cron.empty()) {
    if (spec.every < kShortestEvery || spec.every > kLongestEvery) {
      return Wrong("every", "is ", absl::FormatDuration(spec.every), "; it must be in 10s..720h");
    }
    if (spec.every != absl::Trunc(spec.every, absl::Milliseconds(1))) {
      return Wrong("every", "must be whole milliseconds");
    }
  } else {
    if (spec.align) return Wrong("align", "goes with every; cron is aligned already");
    ASSIGN_OR_RETURN(const CronExpression cron, CronExpression::Parse(spec.cron));
    gap = cron.ShortestGap();
  }
  if (spec.jitter < absl::ZeroDuration() || spec.jitter > kLongestJitter) {
    return Wrong("jitter", "is ", absl::FormatDuration(spec.jitter), "; it must be in 0s..1h");
  }
  // Windows are late by up to the jitter. So consecutive ones stay half a gap apart at least.
  if (spec.jitter * 2 >= gap) {
    return Wrong("jitter", "is ", absl::FormatDuration(spec.jitter),
                 "; it must be less than half of what lies between windows, ",
                 absl::FormatDuration(gap));
  }
  if (spec.end_time < absl::UnixEpoch()) return Wrong("end_time", "lies before 1970");
  return absl::OkStatus();
}

absl::Status CheckSelector(const TargetSelector& selector) {
  RETURN_IF_ERROR(CheckText("selector.job", selector.job, kMaxNameBytes));
  RETURN_IF_ERROR(CheckText("selector.command", selector.command, kMaxNameBytes));
  RETURN_IF_ERROR(CheckText("selector.pod_namespace", selector.pod_namespace, kMaxNameBytes));
  if (std::ssize(selector.ranks) > kMaxSelectorRanks) {
    return Wrong("selector.ranks", "has ", selector.ranks.size(), "; at most ", kMaxSelectorRanks);
  }
  if (std::ranges::any_of(selector.ranks, [](int64_t rank) { return rank < 0; })) {
    return Wrong("selector.ranks", "must not be negative");
  }
  if (std::ssize(selector.metadata) > kMaxSelectorMetadata) {
    return Wrong("selector.metadata", "has ", selector.metadata.size(), "; at most ",
                 kMaxSelectorMetadata);
  }
  for (const auto& [key, value] : selector.metadata) {
    RETURN_IF_ERROR(CheckText("selector.metadata", key, kMaxNameBytes));
    RETURN_IF_ERROR(CheckText("selector.metadata", value, kMaxNameBytes));
  }
  if (selector.uid.value_or(0) < 0) return Wrong("selector.uid", "must not be negative");
  return absl::OkStatus();
}

absl::Status CheckSample(const ScheduleSpec& spec) {
  const SampleSpec& sample = spec.sample;
  // Also refuses what is no number.
  if (!(sample.fraction >= 0 && sample.fraction <= 1)) {
    return Wrong("sample.fraction", "is ", sample.fraction, "; it must be in (0, 1]");
  }
  if (sample.count < 0) return Wrong("sample.count", "must be at least 1");
  if (sample.fraction > 0 && sample.count > 0) {
    return Wrong("sample", "takes a fraction or a count, not both");
  }
  if (sample.count > 0 && sample.unit == SampleUnit::kNodes && spec.nodes.empty()) {
    return Wrong("sample.count",
                 "of nodes needs the names of all nodes; place the schedule with "
                 "`profctl schedule create --nodes ...`");
  }
  return absl::OkStatus();
}

absl::Status CheckCommonStart(const ScheduleSpec& spec) {
  const bool is_power_of_two = (spec.step_grid & (spec.step_grid - 1)) == 0;
  if (spec.step_grid < 0 || spec.step_grid > kMaxStepGrid || !is_power_of_two) {
    return Wrong("step_grid", "is ", spec.step_grid, "; it must be 0 or a power of two up to ",
                 kMaxStepGrid);
  }
  if (spec.step_lead < 0 || spec.step_lead > kMaxStepLead) {
    return Wrong("step_lead", "is ", spec.step_lead, "; it must be in [0, ", kMaxStepLead, "]");
  }
  return absl::OkStatus();
}

absl::Status CheckBudget(const ScheduleBudget& budget) {
  if (budget.captures_per_hour < 0) {
    return Wrong("budget.captures_per_hour", "must not be negative");
  }
  if (budget.bytes_per_day != 0 && budget.bytes_per_day < kSmallestCaptureBytes) {
    return Wrong("budget.bytes_per_day", "is ", budget.bytes_per_day,
                 "; no capture fits into less than ", kSmallestCaptureBytes);
  }
  // As in CheckSample(): a comparison with NaN is false.
  if (!(budget.time_share >= 0 && budget.time_share <= 1)) {
    return Wrong("budget.time_share", "is ", budget.time_share, "; it must be in [0, 1]");
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const std::vector<std::string>& nodes) {
  if (std::ssize(nodes) > kMaxScheduleNodes) {
    return Wrong("nodes", "has ", nodes.size(), "; at most ", kMaxScheduleNodes);
  }
  int64_t bytes = 0;
  for (const std::string& node : nodes) bytes += std::ssize(node);
  if (bytes > kMaxScheduleNodeBytes) {
    return Wrong("nodes", "has ", bytes, " bytes of names; at most ", kMaxScheduleNodeBytes,
                 ": place it on fewer nodes at once");
  }
  for (const std::string& node : nodes) RETURN_IF_ERROR(CheckText("nodes", node, kMaxNameBytes));
  const std::set<std::string_view> different(nodes.begin(), nodes.end());
  if (different.size() != nodes.size()) return Wrong("nodes", "names a node twice");
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateScheduleSpec(const ScheduleSpec& spec) {
  RETURN_IF_ERROR(CheckTimes(spec));
  RETURN_IF_ERROR(ValidateSpec(spec.capture));
  if (spec.capture.start_step >= 0 || spec.capture.repeat != 1 || spec.capture.wait_steps != 0) {
    return Wrong("capture", "takes no start_step, repeat or wait_steps: windows repeat it");
  }
  RETURN_IF_ERROR(CheckSelector(spec.selector));
  RETURN_IF_ERROR(CheckSample(spec));
  RETURN_IF_ERROR(CheckCommonStart(spec));
  RETURN_IF_ERROR(CheckBudget(spec.budget));
  if (!(spec.max_slowdown >= 0 && std::isfinite(spec.max_slowdown))) {
    return Wrong("governor.max_slowdown", "is ", spec.max_slowdown, "; it must not be negative");
  }
  RETURN_IF_ERROR(CheckNodes(spec.nodes));
  return CheckText("display_name", spec.display_name, kMaxDisplayNameBytes);
}

}  // namespace profd
