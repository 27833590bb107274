// What ScheduleRunner does by itself: windows, as they come due, and the ends of their captures.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/schedule/schedule_actor.h"
#include "daemon/schedule/schedule_spec.h"

namespace profd {
namespace {

// A wall clock that was set moves windows; a sleep is not longer, so that it is noticed.
constexpr absl::Duration kLongestSleep = absl::Hours(1);
// A last window further ahead than this is of a clock that was set back since.
constexpr absl::Duration kMaxAhead = absl::Hours(1);
// How far back the governor's state and a target's last capture are looked up at the start: longer
// than the longest back-off of a schedule by the half hour.
constexpr absl::Duration kTargetMemory = absl::Hours(24 * 7);
constexpr size_t kMaxSampledTargets = 4096;
// How often deleted schedules that are old enough are removed.
constexpr absl::Duration kTrimPeriod = absl::Hours(24);
constexpr size_t kMaxDetailBytes = 400;

const Caller kSelf{.uid = 0};  // Reads what became of all captures.

ProcessKey KeyOf(const TargetInfo& target) {
  return {.pid = target.pid, .start_ticks = target.process_start_ticks};
}

void SetDetail(ScheduleWindow& row, WindowOutcome outcome, std::string_view detail) {
  row.outcome = outcome;
  row.detail = ForDisplay(detail, kMaxDetailBytes);
}

WindowOutcome OutcomeOf(const absl::Status& refusal) {
  const std::string reason = ReasonOf(refusal);
  if (reason == "TARGET_BUSY" || reason == "CAPTURE_LIMIT") return WindowOutcome::kBusy;
  if (reason == "CAPTURES_OFF") return WindowOutcome::kSwitchedOff;
  if (reason == "NO_SUCH_TARGET") return WindowOutcome::kNoTarget;
  if (reason == "OPTED_OUT" || absl::IsPermissionDenied(refusal)) return WindowOutcome::kNotAllowed;
  return WindowOutcome::kFailed;
}

}  // namespace

// ---- the start ----

absl::Status ScheduleRunner::Actor::Start() {
  const absl::Time now = clock_.Now();
  ASSIGN_OR_RETURN(std::vector<ScheduleRecord> records, store_.ListSchedules());
  TrimDeleted();
  for (ScheduleRecord& record : records) {
    const std::string id = record.id;
    schedules_.try_emplace(id, std::move(record));
  }
  // The store has ended what an earlier daemon left running.
  ASSIGN_OR_RETURN(const std::vector<ScheduleWindow> running, store_.ListRunningWindows());
  for (const ScheduleWindow& row : running) {
    const absl::StatusOr<CaptureRecord> record = captures_.Get(kSelf, row.capture_id);
    CloseRow(row, record.ok() ? *record
                              : CaptureRecord{.state = CaptureState::kFailed,
                                              .ended_by = EndedBy::kDaemonStop});
  }
  for (auto& [id, live] : schedules_) {
    RETURN_IF_ERROR(TakeUp(live, now));
    RunDue(live, now, /*starting=*/true);
  }
  Rearm();
  return absl::OkStatus();
}

absl::Status ScheduleRunner::Actor::TakeUp(LiveSchedule& live, absl::Time now) {
  ASSIGN_OR_RETURN(const std::vector<ScheduleWindow> rows,
                   store_.ListLastWindows(live.record.id, now - kTargetMemory, now));
  for (const ScheduleWindow& row : rows) {
    SampledTarget& target = live.targets[{.pid = row.pid, .start_ticks = row.process_start_ticks}];
    if (!row.capture_id.empty() && row.time > target.last_start) {
      target.last_start = row.time;
      target.last_busy = absl::Nanoseconds(row.busy_ns);
    }
  }
  // Rows come in order of time: the last of each target has the governor's last word.
  for (const ScheduleWindow& row : rows) {
    SampledTarget& target = live.targets[{.pid = row.pid, .start_ticks = row.process_start_ticks}];
    target.governor = Governor(row.backoff_level, row.skips_left);
    if (!row.capture_id.empty()) target.governor.Captured(row.capture_id);
  }
  SetNext(live);
  return absl::OkStatus();
}

// ---- time ----

void ScheduleRunner::Actor::SetNext(LiveSchedule& live) {
  live.next.reset();
  const absl::Time now = clock_.Now();
  if (live.record.last_window > now + kMaxAhead) {
    LogWarning(StrCat("schedule=", live.record.id, " had windows until ",
                      absl::FormatTime(live.record.last_window, absl::UTCTimeZone()),
                      ": the clock was set back; going on from now"));
    live.record.last_window = now;
    live.is_set_back = true;
    // What is held of the time from now on is still to come, if this is the right time.
    for (LiveSchedule::Passed& passed : live.held) passed.until = std::min(passed.until, now);
    std::erase_if(live.held, [](const auto& passed) { return passed.until <= passed.from; });
    live.counted_until = std::max(live.recorded_until, now);
  }
  live.next = live.times.After(std::max(live.record.last_window, now - kScheduleHistory));
}

void ScheduleRunner::Actor::Rearm() {
  absl::Time next = absl::InfiniteFuture();
  bool waits_for_clock = false;
  for (const auto& [id, live] : schedules_) {
    if (live.next.has_value()) next = std::min(next, live.next->due);
    waits_for_clock = waits_for_clock || live.is_set_back || !live.held.empty();
  }
  static_assert(kLongestSleep <= SettledClock::kSettling);
  const bool sleeps_for_good = next == absl::InfiniteFuture() && !waits_for_clock;
  next_wake_ = sleeps_for_good ? absl::InfiniteDuration()
                               : clock_.Monotonic() + std::min(next - clock_.Now(), kLongestSleep);
  queue_.SetTimer(next_wake_);
}

void ScheduleRunner::Actor::OnTimer() {
  const absl::Time now = clock_.Now();
  const bool is_certain = settled_.Now().has_value();
  for (auto& [id, live] : schedules_) {
    // A clock that was set shows here. If it was set forward by years, windows before the history
    // are left out.
    const bool is_forgotten = live.next.has_value() && live.next->due < now - kScheduleHistory;
    if (is_forgotten || live.record.last_window > now + kMaxAhead) SetNext(live);
    if (is_certain) RecordHeld(live, now);
    RunDue(live, now, /*starting=*/false);
  }
  if (now >= next_trim_) {
    TrimDeleted();
    next_trim_ = now + kTrimPeriod;
  }
  Rearm();
}

void ScheduleRunner::Actor::RunDue(LiveSchedule& live, absl::Time now, bool starting) {
  std::vector<WindowTime> missed;
  while (live.next.has_value() && live.next->due <= now) {
    const WindowTime window = *live.next;
    // By the nominal time and not by the jittered one: the next window follows from it on every
    // node alike.
    live.record.last_window = window.nominal;
    live.next = live.times.After(window.nominal);
    // A window that came due while no daemon ran, or long ago, is not captured late: its time is
    // what the sample stands for.
    if (starting || now - window.due > kMaxLateness) {
      missed.push_back(window);
      continue;
    }
    RecordMissed(live, std::exchange(missed, {}), now);
    Record(live, Sample(live, window, now));
  }
  RecordMissed(live, std::move(missed), now);
}

void ScheduleRunner::Actor::RecordMissed(LiveSchedule& live, std::vector<WindowTime> missed,
                                         absl::Time now) {
  if (missed.empty()) return;
  LogWarning(StrCat("schedule=", live.record.id, " missed ", missed.size(),
                    " windows: profd was not running, "
                    "or the clock was set"));
  // A clock that is months ahead, as after a start without a battery, passes windows by the
  // thousand.
  if (now - missed.front().due <= kMaxAhead || settled_.Now().has_value()) {
    return PutMissed(live, std::move(missed));
  }
  // Not the windows themselves: SetNext() may have left out those that really passed, and most of
  // these may be still to come.
  live.held.push_back({.from = live.counted_until, .until = missed.back().nominal});
  live.counted_until = std::max(live.counted_until, missed.back().nominal);
}

void ScheduleRunner::Actor::PutMissed(LiveSchedule& live, std::vector<WindowTime> windows) {
  const int64_t left_out = std::max<int64_t>(0, std::ssize(windows) - kMaxMissedRows);
  windows.erase(windows.begin(), windows.begin() + left_out);
  std::vector<ScheduleWindow> rows;
  rows.reserve(windows.size());
  for (const WindowTime& window : windows) {
    rows.push_back(
        {.schedule_id = live.record.id, .time = window.due, .outcome = WindowOutcome::kMissed});
  }
  if (left_out > 0) rows.front().detail = StrCat("and ", left_out, " windows before it");
  Record(live, rows);
}

void ScheduleRunner::Actor::RecordHeld(LiveSchedule& live, absl::Time now) {
  std::vector<WindowTime> windows;
  for (const LiveSchedule::Passed& passed : std::exchange(live.held, {})) {
    std::optional<WindowTime> window =
        live.times.After(std::max(passed.from, now - kScheduleHistory));
    while (window.has_value() && window->nominal <= passed.until && window->due <= now) {
      windows.push_back(*window);
      window = live.times.After(window->nominal);
    }
  }
  if (!windows.empty()) {
    PutMissed(live, std::move(windows));
  } else if (live.is_set_back) {
    Record(live, {});  // For its last window: the next start does not find it in the future.
  }
}

void ScheduleRunner::Actor::Record(LiveSchedule& live, const std::vector<ScheduleWindow>& rows) {
  if (options_.on_window) std::ranges::for_each(rows, options_.on_window);
  const std::optional<absl::Time> certain = settled_.Now();
  ScheduleRecord record = live.record;
  live.counted_until = std::max(live.counted_until, record.last_window);
  if (certain.has_value()) {
    live.is_set_back = false;
    live.recorded_until = record.last_window;
  } else {
    // What the store has is later if the clock is behind, as one that begins in 1970. By an earlier
    // one, the next daemon would count all windows since then as missed.
    record.last_window = std::max(record.last_window, live.recorded_until);
  }
  absl::Status status = store_.AppendWindows(record, rows, certain.value_or(absl::InfinitePast()));
  if (status.ok()) return;
  // What was captured is kept all the same; the history and the budget do not know of it.
  LogError(StrCat("schedule=", live.record.id, " history: ", FromAbsl(status.message())));
}

// ---- one window ----

Caller ScheduleRunner::Actor::CreatorOf(const ScheduleRecord& record) const {
  Caller creator{.uid = record.creator.uid, .principal = record.creator};
  if (options_.rules) creator.rules = options_.rules();
  return creator;
}

std::vector<ScheduleWindow> ScheduleRunner::Actor::Sample(LiveSchedule& live,
                                                          const WindowTime& window,
                                                          absl::Time now) {
  const ScheduleSpec& spec = live.record.spec;
  const std::string& id = live.record.id;
  const auto only = [&](WindowOutcome outcome, std::string_view detail = "") {
    ScheduleWindow row{.schedule_id = id, .time = window.due};
    SetDetail(row, outcome, detail);
    return std::vector<ScheduleWindow>{std::move(row)};
  };
  if (live.record.paused) return only(WindowOutcome::kPaused);
  const Choice node = ChooseNode(spec, id, window.nominal, options_.node_name);
  if (!node.chosen) return only(WindowOutcome::kNotChosen);

  const Caller creator = CreatorOf(live.record);
  std::vector<TargetInfo> candidates = targets_.List();
  // What its creator may not list it must not learn of by what it selects, either.
  std::erase_if(candidates, [&](const TargetInfo& target) {
    return target.state == TargetState::kGone || target.opted_out ||
           !Matches(spec.selector, target) || !creator.May(Verb::kList, OwnerOf(target));
  });
  if (candidates.empty()) return only(WindowOutcome::kNoTarget);
  // In two steps, so that the history can distinguish "no target" from "not allowed".
  std::erase_if(candidates, [&](const TargetInfo& target) {
    const Ownership owner = OwnerOf(target);
    return !creator.May(Verb::kCapture, owner) || !creator.May(Verb::kSchedule, owner) ||
           (spec.capture.torch.stacks && !creator.May(Verb::kCaptureStacks, owner));
  });
  if (candidates.empty()) {
    return only(WindowOutcome::kNotAllowed,
                StrCat(PrincipalName(live.record.creator), " may not capture what it selects"));
  }
  std::vector<ChosenTarget> chosen =
      ChooseTargets(spec, id, window.nominal, options_.node_name, std::move(candidates));
  if (chosen.empty()) return only(WindowOutcome::kNotChosen);

  const absl::StatusOr<ScheduleUse> use = store_.GetUse(id, now);
  if (!use.ok()) return only(WindowOutcome::kFailed, FromAbsl(use.status().message()));
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  const ScheduleBudget& budget = spec.budget;
  BudgetLeft left{
      .captures = budget.captures_per_hour == 0
                      ? kNoLimit
                      : budget.captures_per_hour - use->captures_last_hour,
      .bytes = budget.bytes_per_day == 0 ? kNoLimit : budget.bytes_per_day - use->bytes_last_day};
  ForgetGoneTargets(live);
  std::vector<ScheduleWindow> rows;
  auto chosen_left = static_cast<int64_t>(chosen.size());
  for (ChosenTarget& target : chosen) {
    target.weight *= node.weight;
    rows.push_back(SampleTarget(live, window, target, chosen_left--, left, now));
  }
  return rows;
}

ScheduleWindow ScheduleRunner::Actor::SampleTarget(LiveSchedule& live, const WindowTime& window,
                                                   const ChosenTarget& chosen, int64_t chosen_left,
                                                   BudgetLeft& left, absl::Time now) {
  const ScheduleSpec& spec = live.record.spec;
  SampledTarget& sampled = live.targets[KeyOf(chosen.target)];
  ScheduleWindow row{.schedule_id = live.record.id,
                     .time = window.due,
                     .pid = chosen.target.pid,
                     .process_start_ticks = chosen.target.process_start_ticks,
                     .sampling_weight = chosen.weight};
  const std::optional<CommonStart> common_start =
      CommonStartOf(spec, live.record.id, window, chosen.target);
  const bool together = common_start.has_value();
  JudgeCaptures(live, sampled, together);
  Governor& governor = sampled.governor;
  const bool skipped = together
                           ? governor.SkipsTogether(NumberOf(spec, live.record.id, window.nominal))
                           : governor.Skip();
  row.backoff_level = governor.level();
  row.skips_left = governor.skips_left();
  if (skipped) {
    const std::string rest =
        together ? StrCat("it takes part in one window in ", governor.one_window_in())
                 : StrCat(row.skips_left, " more windows are skipped");
    SetDetail(row, WindowOutcome::kBackedOff,
              StrCat("captures slowed it by more than ", spec.max_slowdown * 100, " %; ", rest));
    return row;
  }
  // A capture that took d is followed by the next one d / share after its begin. So captures take
  // at most that share of the time.
  if (spec.budget.time_share > 0 &&
      now < sampled.last_start + sampled.last_busy / spec.budget.time_share) {
    const bool runs = sampled.last_busy == absl::InfiniteDuration();
    SetDetail(
        row, WindowOutcome::kOverBudget,
        runs ? std::string("time: the last capture still runs")
             : StrCat("time: the last capture took ", absl::FormatDuration(sampled.last_busy)));
    return row;
  }
  if (left.captures <= 0) {
    SetDetail(row, WindowOutcome::kOverBudget,
              StrCat("captures: ", spec.budget.captures_per_hour, " in an hour"));
    return row;
  }
  // All that are still to come get as much, so that the first does not take it from them.
  const int64_t max_bytes = std::min(spec.capture.max_bytes, left.bytes / chosen_left);
  if (max_bytes < kSmallestCaptureBytes) {
    SetDetail(row, WindowOutcome::kOverBudget,
              StrCat("bytes: ", spec.budget.bytes_per_day, " in a day"));
    return row;
  }
  row = Capture(live, window, chosen, common_start, max_bytes, std::move(row));
  if (!row.capture_id.empty()) {
    --left.captures;
    left.bytes -= max_bytes;
    governor.Captured(row.capture_id);
    sampled.last_start = now;
    sampled.last_busy = absl::InfiniteDuration();  // Until it ended.
  }
  return row;
}

ScheduleWindow ScheduleRunner::Actor::Capture(LiveSchedule& live, const WindowTime& window,
                                              const ChosenTarget& chosen,
                                              const std::optional<CommonStart>& common_start,
                                              int64_t max_bytes, ScheduleWindow row) {
  CaptureSpec spec = live.record.spec.capture;
  spec.max_bytes = max_bytes;
  const ScheduledBy schedule{.schedule_id = live.record.id,
                             .window_unix_ns = absl::ToUnixNanos(window.due),
                             .sampling_weight = chosen.weight,
                             .common_start = common_start};
  absl::StatusOr<CaptureRecord> record =
      captures_.CreateScheduled(CreatorOf(live.record), chosen.target.number, spec, schedule,
                                [this](const CaptureRecord& changed) {
                                  if (!IsTerminal(changed.state)) return;
                                  queue_.Post([this, changed] { Ended(changed); });
                                });
  if (record.ok()) {
    row.capture_id = record->id;
    row.ended = false;
    // The most that it may take, until its true size is known. The budget must hold while captures
    // run.
    row.bytes = max_bytes;
    SetDetail(row, WindowOutcome::kCaptured, "");
    // In time, however fast it ends: Ended() is posted to this thread.
    running_.insert_or_assign(record->id, row);
    if (live.record.spec.pin) {
      const absl::Status pinned = store_.PinCapture(record->id);
      if (!pinned.ok()) SetDetail(row, WindowOutcome::kCaptured, FromAbsl(pinned.message()));
    }
  } else {
    SetDetail(row, OutcomeOf(record.status()), FromAbsl(record.status().message()));
  }
  if (options_.on_attempt) {
    options_.on_attempt({.schedule_id = live.record.id,
                         .creator = live.record.creator,
                         .target = chosen.target,
                         .result = std::move(record)});
  }
  return row;
}

void ScheduleRunner::Actor::JudgeCaptures(const LiveSchedule& live, SampledTarget& target,
                                          bool together) {
  while (!target.governor.unjudged().empty()) {
    const std::string id = target.governor.unjudged().front();
    const absl::StatusOr<CaptureRecord> record = captures_.Get(kSelf, id);
    if (record.ok() && !IsTerminal(record->state)) return;  // The target is busy with it.
    std::optional<double> slowdown;
    if (record.ok()) {
      // What noise may explain is not held against the target.
      if (record->slowdown.known) slowdown = record->slowdown.low;
    }
    target.governor.Judge(slowdown, live.record.spec.max_slowdown, together);
  }
}

void ScheduleRunner::Actor::ForgetGoneTargets(LiveSchedule& live) {
  if (live.targets.size() < kMaxSampledTargets) return;
  std::set<ProcessKey> there;
  for (const TargetInfo& target : targets_.List()) there.insert(KeyOf(target));
  std::erase_if(live.targets, [&](const auto& entry) { return !there.contains(entry.first); });
}

// ---- the end of a capture ----

void ScheduleRunner::Actor::Ended(const CaptureRecord& record) {
  const auto running = running_.find(record.id);
  if (running == running_.end()) return;
  const ScheduleWindow row = std::move(running->second);
  running_.erase(running);
  CloseRow(row, record);
}

void ScheduleRunner::Actor::CloseRow(ScheduleWindow row, const CaptureRecord& record) {
  row.ended = true;
  row.bytes = record.file_bytes;
  const bool has_end = record.end_time != absl::InfiniteFuture() && record.end_time > row.time;
  row.busy_ns = has_end ? absl::ToInt64Nanoseconds(record.end_time - row.time) : 0;
  if (record.start_unix_ns == 0) {
    const bool is_busy = record.error_reason == "TARGET_BUSY";
    if (is_busy) {  // The target was not touched, so nothing is charged.
      row.capture_id.clear();
      row.busy_ns = 0;
    }
    SetDetail(row, is_busy ? WindowOutcome::kBusy : WindowOutcome::kFailed,
              record.error_message.empty() ? ToString(record.ended_by)
                                           : std::string_view(record.error_message));
  } else if (record.state != CaptureState::kComplete) {
    SetDetail(row, WindowOutcome::kCaptured,
              StrCat(ToString(record.state), " by ", ToString(record.ended_by)));
  }
  if (const auto live = schedules_.find(row.schedule_id); live != schedules_.end()) {
    SampledTarget& target =
        live->second.targets[{.pid = row.pid, .start_ticks = row.process_start_ticks}];
    target.last_busy = absl::Nanoseconds(row.busy_ns);
  }
  if (absl::Status status = store_.EndWindow(row); !status.ok()) {
    LogError(StrCat("schedule=", row.schedule_id, " history: ", FromAbsl(status.message())));
  }
}

}  // namespace profd
