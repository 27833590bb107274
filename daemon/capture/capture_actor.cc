#include "daemon/capture/capture_actor.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/capture_outcome.h"

namespace profd {
namespace {

// How long the seal waits for the steps after the window, and how often it looks.
constexpr absl::Duration kAwaitSteps = absl::Seconds(1);
constexpr absl::Duration kShortestAwaitInterval = absl::Milliseconds(5);
constexpr absl::Duration kLongestAwaitInterval = absl::Milliseconds(100);
// Fewer steps than this are not worth waiting for.
constexpr int64_t kFewestAwaitedSteps = 5;
// Nothing is concluded from threads that waited for a CPU for a smaller part of the windows.
constexpr double kWaitsThatMatter = 0.02;
constexpr absl::Duration kSaveInterval = absl::Seconds(1);
// For the end of everything at shutdown; storing a large capture to a slow disk takes long.
constexpr absl::Duration kShutdownTimeout = absl::Seconds(60);

}  // namespace

// ---- the life of a capture ----

void CaptureManager::Actor::SetState(LiveCapture& live, CaptureState to) {
  CaptureRecord& record = live.record;
  if (record.state == to) return;
  if (!CanAdvance(record.state, to)) {
    LogError(
        StrCat("capture=", record.id, " refused ", ToString(record.state), " -> ", ToString(to)));
    return;
  }
  record.state = to;
  LogInfo(StrCat("capture=", record.id, " pid=", record.target.pid, " state=", ToString(to)));
  Notify(record);
}

void CaptureManager::Actor::Notify(const CaptureRecord& record) {
  for (const auto& [watch, watcher] : watches_) {
    if (watcher.capture_id == record.id) watcher.on_change(record);
  }
  if (const auto group = held_.find(record.group_id); group != held_.end()) {
    TellPreparation(group->second);
  }
}

void CaptureManager::Actor::End(LiveCapture& live, EndedBy cause) {
  if (live.cause != EndedBy::kNone) return;
  live.cause = cause;
  if (live.record.state == CaptureState::kPending) {  // Not armed: nothing is to be drained.
    const std::string group_id = live.record.group_id;
    live.sink->Discard();
    Conclude(cause, live.record);
    Terminate(std::string(live.record.id));
    if (!group_id.empty()) FireGroup(group_id);
    return;
  }
  if (live.record.state < CaptureState::kDraining) SetState(live, CaptureState::kDraining);
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  live.steps.Observe(recent);
  live.steps.SetRecording(false, recent);
  targets_.Stop(live.record.id);
  // A group waiting for this member must not wait any longer.
  if (!live.record.group_id.empty() && !live.fired) FireGroup(live.record.group_id);
}

void CaptureManager::Actor::Armed(const std::string& id) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr || live->cause != EndedBy::kNone) return;
  live->armed = true;
  live->record.armed_time = clock_.Now();
  live->record.activity.clear();
  // A member of a group waits for the others from here on. One that is alone waits for a step
  // when it has the plan, which its progress tells: a mark before that would move nothing.
  if (live->record.spec.steps > 0 && !live->record.group_id.empty()) {
    SetState(*live, CaptureState::kWaitingStep);
  }
  FireWhenReady(*live);
  Rearm();
}

// Who says what keeps it is neither stopped nor starved, and gets the time that CUPTI may take.
void CaptureManager::Actor::Arming(const std::string& id, const std::string& activity) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr || live->armed || live->cause != EndedBy::kNone) return;
  if (live->record.spec.gpu.mode != GpuMode::kOff) {
    live->arm_deadline = std::max(live->arm_deadline, live->begun + options_.gpu_arm_timeout);
    Rearm();
  }
  live->record.activity = activity;
  Notify(live->record);
}

void CaptureManager::Actor::ArmFailed(const std::string& id, const absl::Status& why) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr) return;
  if (live->cause == EndedBy::kNone) {
    live->cause = EndedBy::kArmFailed;
    live->record.error_reason = ReasonOf(why);
    live->record.error_message = std::string(why.message());
  }
  const std::string group_id = live->record.group_id;
  KeepDisturbed(*live);
  live->sink->Discard();
  Conclude(live->cause, live->record);
  Terminate(id);
  if (!group_id.empty()) FireGroup(group_id);
}

void CaptureManager::Actor::FireWhenReady(LiveCapture& live) {
  if (live.common.has_value()) {
    ApproachCommonStart(live);
    return;
  }
  if (live.held) return Notify(live.record);  // It waits for CommitGroup.
  if (live.record.group_id.empty()) return Fire(live, live.plan.base_step);
  FireGroup(live.record.group_id);
}

// Ranks of a job do. Other processes have no step in common, and one that has just begun would wait
// for hours for the step of another that has run for days.
bool CaptureManager::Actor::RunInStep(const std::vector<LiveCapture*>& members,
                                      int64_t common_step) const {
  constexpr absl::Duration kLongestCatchUp = absl::Seconds(10);
  std::set<std::string> jobs;
  bool can_catch_up = true;
  bool all_are_ranks = true;
  for (const LiveCapture* live : members) {
    jobs.insert(JobOf(live->record.target));
    all_are_ranks &= RankOf(live->record.target) >= 0;
    const auto target = targets_.Find(live->target);
    if (!target.has_value() || target->steps_per_second <= 0) continue;
    const double steps_left = static_cast<double>(common_step - target->current_step);
    const absl::Duration left = absl::Seconds(steps_left / target->steps_per_second);
    can_catch_up &= left <= options_.group_lead + kLongestCatchUp;
  }
  const bool is_one_job = all_are_ranks && jobs.size() == 1 && !jobs.begin()->empty();
  return is_one_job || can_catch_up;
}

// The second phase: once every member that still can has armed, all start at one step that
// none of them has reached.
void CaptureManager::Actor::FireGroup(const std::string& group_id) {
  std::vector<LiveCapture*> members;
  int64_t furthest_step = 0;
  double fastest = 0;
  for (const auto& [id, live] : live_) {
    if (live->record.group_id != group_id || live->held) continue;
    if (live->cause != EndedBy::kNone || live->fired) continue;
    if (!live->armed) return;
    members.push_back(live.get());
    if (const auto target = targets_.Find(live->target)) {
      furthest_step = std::max(furthest_step, target->current_step);
      fastest = std::max(fastest, target->steps_per_second);
    }
  }
  // As many steps as the fastest member makes in that time, so that all of them hear of the start
  // before it.
  const double lead = std::ceil(absl::ToDoubleSeconds(options_.group_lead) * fastest);
  const int64_t common_step = furthest_step + 1 + std::max<int64_t>(1, static_cast<int64_t>(lead));
  const bool in_step = RunInStep(members, common_step);
  if (!in_step)
    LogInfo(
        StrCat("group=", group_id, " its members do not run in step: each begins at its next one"));
  for (LiveCapture* live : members) {
    const bool by_time = live->record.spec.steps == 0;
    const bool asked = live->plan.base_step >= 0;
    // They count from each member's own first one: there is no step in common.
    const bool own_steps = CountsOwnSteps(live->record.spec) || (!in_step && !asked);
    Fire(*live, by_time || asked || own_steps ? live->plan.base_step : common_step);
    if (live != members.back() || by_time || own_steps) continue;
    KeepFirstStep(group_id, live->base_step + live->plan.wait_steps + live->plan.warmup_steps);
  }
}

void CaptureManager::Actor::Fire(LiveCapture& live, int64_t base_step) {
  live.fired = true;
  live.base_step = base_step;
  FirePlan plan = live.plan;
  plan.base_step = base_step;
  targets_.Fire(live.record.id, plan);
  MakeRoomSoon(live.record);
}

// Only now: neither a request that is refused nor a target that cannot be armed must cost others
// their events. And as a task of its own, so that no target waits to be armed or fired meanwhile.
void CaptureManager::Actor::MakeRoomSoon(const CaptureRecord& record) {
  const std::string& principal = record.requested_by;
  const bool is_first = room_seekers_.emplace(principal, record.id).second;
  if (!is_first) return;  // The captures of a group are fired in one go.
  queue_.Post([this, principal] {
    auto seeker = room_seekers_.extract(principal);
    store_.MakeRoom(principal, seeker.mapped());
  });
}

void CaptureManager::Actor::Progressed(const std::string& id, const Progress& progress) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr || live->cause != EndedBy::kNone) return;
  CaptureRecord& record = live->record;
  record.current_step = std::max(record.current_step, progress.current_step);
  record.current_window = std::max<int64_t>(0, progress.window);
  if (!progress.sink_status.ok()) {
    LogWarning(StrCat("capture=", id, " ", FromAbsl(progress.sink_status.message())));
    return End(*live, CauseOfSinkError(progress.sink_status));
  }
  const RecentSteps recent = targets_.GetRecentSteps(live->target);
  live->steps.Observe(recent);
  live->steps.SetRecording(progress.phase == RecordingPhase::kRecording, recent);
  const CaptureState before = record.state;
  if (progress.phase != RecordingPhase::kArmed && record.spec.steps > 0 &&
      record.state == CaptureState::kArming) {
    SetState(*live, CaptureState::kWaitingStep);
  }
  switch (progress.phase) {
    case RecordingPhase::kArmed:
      break;
    case RecordingPhase::kWaiting:
      SetState(*live, CaptureState::kWaitingStep);
      break;
    case RecordingPhase::kWarmup:
      SetState(*live, CaptureState::kWarmup);
      break;
    case RecordingPhase::kRecording:
      if (record.spec.steps == 0 && live->window_deadline == absl::InfiniteDuration()) {
        live->window_deadline = clock_.Monotonic() + record.spec.duration;
        Rearm();
      }
      // The caller is needed no longer: a window that has begun has an end of its own.
      live->lease_end = absl::InfiniteDuration();
      SetState(*live, CaptureState::kRecording);
      break;
    case RecordingPhase::kEnded:
      return End(*live, EndedBy::kSteps);
    case RecordingPhase::kMissed:
      return End(*live, EndedBy::kMissedStart);
  }
  if (record.state == before) Notify(record);  // The step moved.
}

void CaptureManager::Actor::KeepDisturbed(const LiveCapture& live) {
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  if (recent.steps.empty()) return;
  std::vector<DisturbedSteps>& disturbed = disturbed_[live.target];
  // Others are shown no longer.
  std::erase_if(disturbed, [&recent](const DisturbedSteps& steps) {
    return steps.end_step <= recent.steps.front().step;
  });
  disturbed.push_back(live.steps.Disturbed(recent));
}

void CaptureManager::Actor::TargetGone(TargetNumber target) {
  disturbed_.erase(target);
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) {
    if (live->target == target) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    LiveCapture* live = FindLive(id);
    if (live == nullptr) continue;
    if (live->awaited.has_value()) {
      StoreAwaited(*live);
    } else {
      End(*live, EndedBy::kTargetExit);
    }
  }
}

void CaptureManager::Actor::TargetOptedOut(TargetNumber target) {
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) {
    if (live->target == target) ids.push_back(id);
  }
  for (const std::string& id : ids) {
    if (LiveCapture* live = FindLive(id)) End(*live, EndedBy::kOptOut);
  }
  Rearm();
}

void CaptureManager::Actor::Freed(TargetNumber target) {
  const auto waiting = std::ranges::find_if(live_, [target](const auto& entry) {
    return entry.second->target == target && entry.second->waits_for_target;
  });
  if (waiting == live_.end() || HolderOf(target) != nullptr) return;
  LiveCapture& live = *waiting->second;
  live.waits_for_target = false;
  if (live.common.has_value() && live.common->first_step >= 0) {
    live.common->arm_at = clock_.Monotonic();
    ApproachCommonStart(live);
    return Rearm();
  }
  // One that is armed only after its decision.
  if (live.common.has_value() && live.common->arm_at != absl::InfiniteDuration()) return;
  live.begun = clock_.Monotonic();
  live.arm_deadline = live.begun + options_.arm_timeout;
  const std::string group_id = live.record.group_id;
  // Why it could not be armed is on its record.
  if (!Arm(live).ok() && !group_id.empty()) FireGroup(group_id);
  Rearm();
}

void CaptureManager::Actor::Drained(const std::string& id, const DrainResult& result) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr) return;
  live->drained = true;
  KeepDisturbed(*live);
  // Before its timer here, which may wait for the disk.
  if (live->cause == EndedBy::kNone) live->cause = result.ended_by;
  // That the target went may be heard before or after; only this tells what went.
  const bool by_target = live->cause == EndedBy::kNone || live->cause == EndedBy::kTargetExit;
  if (by_target && result.target_gone) {
    live->cause = result.library_gone ? EndedBy::kTargetLost : EndedBy::kTargetExit;
  }
  if (live->cause == EndedBy::kNone) live->cause = EndedBy::kTargetLost;
  // An error that came with the last events ends it as much as an earlier one.
  if (!result.sink_status.ok()) {
    LogWarning(StrCat("capture=", id, " ", FromAbsl(result.sink_status.message())));
    live->cause = CauseOfSinkError(result.sink_status);
  }
  if (live->record.state < CaptureState::kDraining) SetState(*live, CaptureState::kDraining);
  const int64_t start_ns = ApplyDrainResult(result, live->record);
  if (live->record.start_unix_ns == 0) {
    live->sink->Discard();
    Conclude(live->cause, live->record);
    return Terminate(id);
  }
  CaptureRecord& record = live->record;
  if (record.covered_steps > 0) record.step_during_ns = record.covered_ns / record.covered_steps;
  if (record.covered_steps > 0 && !CountsOwnSteps(record.spec)) {
    live->steps.SetWindows(record.windows, record.spec.warmup_steps);
  }
  SetState(*live, CaptureState::kStoring);
  Freed(live->target);  // First: one that is armed now disturbs the steps that are to come.
  if (result.target_gone || !AwaitAfter(*live, result.read_cpu_times, start_ns)) {
    Store(*live, start_ns);
  }
}

bool CaptureManager::Actor::AwaitAfter(LiveCapture& live, const CpuTimesReader& read_cpu_times,
                                       int64_t start_ns) {
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  live.steps.SetDrained(recent);
  const absl::Duration step = absl::Nanoseconds(live.steps.during_ns());
  const bool awaits_steps =
      step > absl::ZeroDuration() && step * kFewestAwaitedSteps <= kAwaitSteps;
  const bool watches_cpu =
      read_cpu_times != nullptr && DelayShare(live.record.cpu) > kWaitsThatMatter;
  if (stopping_ || (!awaits_steps && !watches_cpu)) return false;
  const absl::Duration now = clock_.Monotonic();
  live.awaited = {.next = now,
                  .deadline = now + (awaits_steps ? kAwaitSteps : CpuAfter::kEnough),
                  .steps = awaits_steps,
                  .cpu = std::nullopt,
                  .start_ns = start_ns};
  if (watches_cpu) live.awaited->cpu.emplace(read_cpu_times, now);
  CheckAwaited(live);
  Rearm();
  return true;
}

void CaptureManager::Actor::CheckAwaited(LiveCapture& live) {
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  if (recent.current_step >= 0) live.steps.Observe(recent);
  // Another capture of the target disturbs the steps that are to come, from when it is being armed
  // until it has drained.
  const bool disturbed = std::ranges::any_of(live_, [&live](const auto& entry) {
    return entry.second->target == live.target && entry.second.get() != &live &&
           !entry.second->drained && entry.second->record.state != CaptureState::kPending;
  });
  LiveCapture::Awaited& awaited = *live.awaited;
  const absl::Duration now = clock_.Monotonic();
  const bool steps_go_on = awaited.steps && recent.current_step >= 0;
  const int64_t missing = steps_go_on ? static_cast<int64_t>(live.steps.missing_steps()) : 0;
  const absl::Duration expected =
      std::max(missing * absl::Nanoseconds(live.steps.during_ns()),
               awaited.cpu.has_value() ? awaited.cpu->end_of_enough() - now : absl::ZeroDuration());
  if (disturbed) awaited.cpu.reset();
  if (expected <= absl::ZeroDuration() || disturbed || now >= awaited.deadline) {
    return StoreAwaited(live);
  }
  awaited.next = std::min(
      awaited.deadline, now + std::clamp(expected, kShortestAwaitInterval, kLongestAwaitInterval));
}

void CaptureManager::Actor::StoreAwaited(LiveCapture& live) {
  const int64_t start_ns = live.awaited->start_ns;
  if (live.awaited->cpu.has_value()) {
    live.awaited->cpu->AddTo(clock_.Monotonic(), live.record.cpu);
  }
  live.awaited.reset();
  Store(live, start_ns);
}

void CaptureManager::Actor::Store(LiveCapture& live, int64_t start_ns) {
  // The file carries the record as it will be, so that a fetched file tells its own state.
  live.steps.Describe(live.record);
  CaptureRecord record = live.record;
  Conclude(live.cause, record);
  record.end_time = clock_.Now();
  // `live_` keeps the sink until Stored().
  store_queue_.Post([this, sink = live.sink.get(), record = std::move(record), start_ns]() mutable {
    const absl::Status status = sink->Finish(record, start_ns);
    const std::string id = record.id;
    queue_.Post([this, id, record = std::move(record), status]() mutable {
      Stored(id, std::move(record), status);
    });
  });
}

void CaptureManager::Actor::Stored(const std::string& id, CaptureRecord record,
                                   const absl::Status& status) {
  LiveCapture* live = FindLive(id);
  if (live == nullptr) return;
  if (!status.ok()) {
    LogError(StrCat("capture=", id, " could not be stored: ", FromAbsl(status.message())));
    live->cause = CauseOfSinkError(status);
    record.start_unix_ns = 0;  // Nothing that can be read was kept.
    record.error_reason = live->cause == EndedBy::kDiskFull ? "DISK_FULL" : "STORAGE";
    record.error_message = std::string(status.message());
    Conclude(live->cause, record);
  }
  live->record = std::move(record);
  Terminate(id);
}

void CaptureManager::Actor::Terminate(const std::string& id) {
  const auto it = live_.find(id);
  CaptureRecord& record = it->second->record;
  if (record.end_time == absl::InfiniteFuture()) record.end_time = clock_.Now();
  record.activity.clear();
  UnsavedCapture unsaved{.record = record};
  if (absl::Status status = Save(unsaved); !status.ok()) {
    // Without a row there is nothing to update, at any later time.
    const bool is_final = absl::IsNotFound(status);
    LogError(StrCat("capture=", id, " catalog: ", FromAbsl(status.message()),
                    is_final ? "" : "; trying again"));
    if (!is_final) unsaved_.insert_or_assign(id, std::move(unsaved));
  }
  LogInfo(StrCat("capture=", id, " pid=", record.target.pid, " state=", ToString(record.state),
                 " ended_by=", ToString(record.ended_by), " events=", record.event_count,
                 " dropped=", TotalDrops(record.drops),
                 record.error_message.empty() ? "" : " error=", record.error_message));
  LeaveGroup(record);
  if (options_.on_end) options_.on_end(record);
  Notify(record);
  std::erase_if(watches_, [&](const auto& entry) { return entry.second.capture_id == id; });
  const TargetNumber target = it->second->target;
  index_.Remove(id);
  live_.erase(it);
  Rearm();
  Freed(target);
  FinishShutdownIfIdle();
}

absl::Status CaptureManager::Actor::Save(UnsavedCapture& capture) {
  capture.next = clock_.Monotonic() + kSaveInterval;
  return store_.UpdateCapture(capture.record);
}

// ---- time ----

void CaptureManager::Actor::Rearm() {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [id, live] : live_) {
    if (live->awaited.has_value()) next = std::min(next, live->awaited->next);
    if (live->cause != EndedBy::kNone) continue;
    if (!live->armed) next = std::min(next, live->arm_deadline);
    if (!live->fired) next = std::min(next, live->fire_at);
    if (live->common.has_value()) {
      next = std::min({next, live->common->decide_at, live->common->arm_at});
    }
    next = std::min({next, live->lease_end, live->deadline, live->window_deadline});
  }
  for (const auto& [id, unsaved] : unsaved_) next = std::min(next, unsaved.next);
  queue_.SetTimer(next);
}

void CaptureManager::Actor::OnTimer() {
  const absl::Duration now = clock_.Monotonic();
  // By ID, because what is done for one capture may end others, and changes live_.
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const std::string& id : ids) {
    LiveCapture* live = FindLive(id);
    if (live == nullptr) continue;
    if (live->awaited.has_value() && now >= live->awaited->next) CheckAwaited(*live);
    if (live->cause != EndedBy::kNone) continue;
    if (now >= live->window_deadline) {
      End(*live, EndedBy::kDuration);
    } else if (now >= live->deadline) {
      End(*live, EndedBy::kDeadline);
    } else if (!live->armed && now >= live->arm_deadline) {
      End(*live, EndedBy::kArmTimeout);
    } else if (!live->fired && now >= live->fire_at) {
      Fire(*live, live->plan.base_step);
    } else if (live->common.has_value() && now >= live->common->decide_at) {
      DecideCommonStart(*live);
    } else if (live->common.has_value() && now >= live->common->arm_at) {
      ApproachCommonStart(*live);
    } else if (now >= live->lease_end) {
      End(*live, EndedBy::kLeaseExpired);
    }
  }
  for (auto unsaved = unsaved_.begin(); unsaved != unsaved_.end();) {
    const bool is_due = now >= unsaved->second.next;
    const absl::Status status = is_due ? Save(unsaved->second) : absl::OkStatus();
    const bool is_settled = is_due && (status.ok() || absl::IsNotFound(status));
    unsaved = is_settled ? unsaved_.erase(unsaved) : std::next(unsaved);
  }
  Rearm();
}

// ---- the end ----

void CaptureManager::Actor::Stop() {
  queue_.Post([this] {
    stopping_ = true;
    for (auto& [id, unsaved] : unsaved_) {
      if (absl::Status status = Save(unsaved); !status.ok()) {
        LogError(StrCat("capture=", id, " catalog: ", FromAbsl(status.message())));
      }
    }
    std::vector<std::string> ids;
    for (const auto& [id, live] : live_) ids.push_back(id);
    for (const std::string& id : ids) {
      LiveCapture* live = FindLive(id);
      if (live == nullptr) continue;
      if (live->awaited.has_value()) {
        StoreAwaited(*live);
      } else {
        End(*live, EndedBy::kDaemonStop);
      }
    }
    FinishShutdownIfIdle();
  });
  {
    absl::MutexLock lock(&idle_mu_);
    const auto is_idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(idle_mu_) { return idle_; };
    if (!idle_changed_.AwaitWithTimeout(&idle_mu_, kShutdownTimeout, is_idle)) {
      LogWarning("captures were still being stored at shutdown; they are finished at next start");
    }
  }
  queue_.Stop();
  store_queue_.Stop();
}

void CaptureManager::Actor::FinishShutdownIfIdle() {
  if (!stopping_ || !live_.empty()) return;
  absl::MutexLock lock(&idle_mu_);
  idle_ = true;
  idle_changed_.Signal();
}

}  // namespace profd
