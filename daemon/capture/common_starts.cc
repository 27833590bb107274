// Captures of schedules that begin at a step which all ranks of a job have in common: what
// CaptureManager does with the decisions of common_start.h.
//
//   created ─► armed ──────► decision ─► in its group ─► fired          steps are short
//   created ───────────────► decision ─► in its group ─► armed ─► fired the step is far ahead
//   created ─ waits ───────► decision ─► in its group ─► target free ─► armed ─► fired
//                                             └──► TARGET_BUSY          the previous window runs
//
// All ranks that record the previous window know its last step and that of their own start. So they
// decide alike whether to wait or to leave the window out: they wait if at least the lead lies
// between the two.
#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/capture_actor.h"
#include "daemon/capture/capture_outcome.h"

namespace profd {
namespace {

// A target is armed at most so long before its window: what a target holds, it holds meanwhile.
constexpr absl::Duration kArmAhead = absl::Seconds(5);
// The shortest time after which a rank's distance from its step is looked at again.
constexpr absl::Duration kShortestLook = absl::Milliseconds(100);

// The step whose mark ends the last window of a capture; -1: not known.
int64_t EndStepOf(const LiveCapture& live) {
  const FirePlan& plan = live.plan;
  const int64_t base_step = live.base_step >= 0 ? live.base_step : plan.base_step;
  if (plan.steps == 0 || base_step < 0) return -1;
  return base_step + plan.repeat * (plan.wait_steps + plan.warmup_steps + plan.steps);
}

}  // namespace

void CaptureManager::Actor::HoldForCommonStart(LiveCapture& live, const CommonStart& start) {
  const absl::Duration until = std::max(absl::ZeroDuration(), start.decision - clock_.Now());
  live.common = {.start = start, .decide_at = clock_.Monotonic() + until};
  live.held = true;
  const absl::Duration lead =
      absl::Nanoseconds(MedianStepNs(targets_.GetRecentSteps(live.target))) * start.lead;
  if (lead <= kArmAhead) return;
  live.common->arm_at = live.common->decide_at;
  live.arm_deadline = absl::InfiniteDuration();
}

void CaptureManager::Actor::DecideCommonStart(LiveCapture& live) {
  LiveCapture::Common& common = *live.common;
  common.decide_at = absl::InfiniteDuration();
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  const absl::Duration ago = std::max(absl::ZeroDuration(), clock_.Now() - common.start.decision);
  CaptureSpec spec = live.record.spec;
  const int64_t median_ns = MedianStepNs(recent);
  spec.start_step = FirstCommonStep(common.start, spec, StepAt(recent, ago), median_ns);
  common.first_step = spec.start_step;
  common.lead = CommonLead(common.start, spec, median_ns);
  absl::StatusOr<FirePlan> plan = PlanFor(spec);
  absl::Status status = plan.status();
  if (plan.ok()) {
    live.plan = *std::move(plan);
    status = JoinCommonGroup(live);
  }
  if (!status.ok()) {
    live.record.error_reason = ReasonOf(status);
    live.record.error_message = std::string(status.message());
    return End(live, EndedBy::kStorage);
  }
  ApproachCommonStart(live);
}

absl::Status CaptureManager::Actor::JoinCommonGroup(LiveCapture& live) {
  CaptureRecord& record = live.record;
  const std::string id = CommonGroupId(record.schedule_id, record.schedule_window_unix_ns,
                                       live.common->start.job, live.common->first_step);
  absl::StatusOr<GroupRecord> group = store_.GetGroup(id);
  if (absl::IsNotFound(group.status())) {
    group = GroupRecord{.id = id,
                        .first_step = live.common->first_step,
                        .steps = record.spec.steps,
                        .create_time = clock_.Now(),
                        .requested_by = record.requested_by,
                        .closed = true};
  }
  RETURN_IF_ERROR(group.status());
  if (group->requested_by != record.requested_by) {
    return absl::FailedPreconditionError(
        StrCat("group ", id, " was asked for by ", group->requested_by));
  }
  record.group_id = id;
  index_.Put(record);
  group->members.push_back({.node = record.node,
                            .capture_id = record.id,
                            .pid = record.target.pid,
                            .rank = RankOf(record.target),
                            .state = record.state});
  RETURN_IF_ERROR(store_.PutGroup(*group));
  return store_.UpdateCapture(record);
}

void CaptureManager::Actor::ApproachCommonStart(LiveCapture& live) {
  LiveCapture::Common& common = *live.common;
  if (live.cause != EndedBy::kNone || live.fired || common.first_step < 0) return;
  const RecentSteps recent = targets_.GetRecentSteps(live.target);
  if (live.waits_for_target) return AwaitHolder(live, recent);
  if (recent.current_step >= common.first_step) return End(live, EndedBy::kMissedStart);
  if (live.armed) {
    SetState(live, CaptureState::kWaitingStep);
    return Fire(live, live.plan.base_step);
  }
  if (common.arm_at == absl::InfiniteDuration()) return;  // Being armed.
  const int64_t steps = std::max<int64_t>(0, live.plan.base_step - recent.current_step);
  const absl::Duration left = absl::Nanoseconds(MedianStepNs(recent)) * steps;
  if (left > kArmAhead) {
    // At least halfway, in case steps become shorter.
    common.arm_at = clock_.Monotonic() + std::max(kShortestLook, (left - kArmAhead) / 2);
    return;
  }
  common.arm_at = absl::InfiniteDuration();
  live.begun = clock_.Monotonic();
  live.arm_deadline = live.begun + options_.arm_timeout;
  // Why it could not be armed is on its record.
  (void)Arm(live);
}

void CaptureManager::Actor::AwaitHolder(LiveCapture& live, const RecentSteps& recent) {
  LiveCapture::Common& common = *live.common;
  const LiveCapture* const holder = HolderOf(live.target);
  if (holder == nullptr) return;  // Freed() goes on with it.
  const int64_t end_step = EndStepOf(*holder);
  const bool is_near = end_step >= 0 && live.plan.base_step < end_step + common.lead;
  if (is_near || recent.current_step >= common.first_step) {
    live.record.error_reason = "TARGET_BUSY";
    live.record.error_message =
        StrCat("target ", live.record.target.pid, " has a live capture, ", holder->record.id,
               end_step < 0 ? std::string() : StrCat(", up to step ", end_step),
               "; this one begins at step ", common.first_step,
               is_near ? StrCat(", less than ", common.lead, " steps later") : "");
    return End(live, EndedBy::kArmFailed);
  }
  const absl::Duration left =
      absl::Nanoseconds(MedianStepNs(recent)) * (common.first_step - recent.current_step);
  common.arm_at = clock_.Monotonic() + std::max(kShortestLook, left / 2);
}

}  // namespace profd
