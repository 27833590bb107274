#include "daemon/schedule/window_times.h"

#include <cstdint>

#include "daemon/base/stable_hash.h"

namespace profd {
namespace {

absl::Duration PhaseOf(std::string_view id, const ScheduleSpec& spec) {
  if (spec.align || spec.every == absl::ZeroDuration()) return absl::ZeroDuration();
  // Whole milliseconds: enough to tell schedules apart, and short to read.
  const auto every_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(spec.every));
  // A phase by the schedule's ID spreads schedules of the same interval over time, so that they do
  // not all capture at the full minute.
  const uint64_t phase_ms = StableHash().Add("phase").Add(id).Below(every_ms);
  return absl::Milliseconds(static_cast<int64_t>(phase_ms));
}

}  // namespace

WindowTimes::WindowTimes(std::string_view id, const ScheduleSpec& spec)
    : id_(id),
      every_(spec.every),
      phase_(PhaseOf(id, spec)),
      jitter_(spec.jitter),
      end_(spec.end_time) {
  if (spec.cron.empty()) return;
  if (auto cron = CronExpression::Parse(spec.cron); cron.ok()) cron_ = *cron;
}

WindowTime WindowTimes::At(absl::Time nominal) const {
  // A hash of the window and not of the node: all nodes are late by the same time.
  const auto jitter_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(jitter_));
  const uint64_t later_ms =
      StableHash().Add("jitter").Add(id_).Add(absl::ToUnixNanos(nominal)).Below(jitter_ms + 1);
  return {.nominal = nominal, .due = nominal + absl::Milliseconds(static_cast<int64_t>(later_ms))};
}

std::optional<WindowTime> WindowTimes::After(absl::Time nominal) const {
  absl::Time next = absl::InfiniteFuture();
  if (cron_.has_value()) {
    next = cron_->Next(nominal);
  } else if (every_ > absl::ZeroDuration()) {
    // From the epoch and not from the creation, so that nodes that got the schedule at different
    // times agree.
    const absl::Time first = absl::UnixEpoch() + phase_;
    next = nominal < first ? first : first + (absl::Floor(nominal - first, every_) + every_);
  }
  if (next > end_ || next == absl::InfiniteFuture()) return std::nullopt;
  return At(next);
}

}  // namespace profd
