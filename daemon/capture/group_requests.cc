// Groups: those that the daemon starts itself go on record here (KeepGroup); the others are
// prepared, held under a lease, and committed, aborted or left to lapse by whoever asked.
#include <algorithm>
#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/capture/capture_actor.h"
#include "daemon/capture/capture_outcome.h"

namespace profd {
namespace {

// Steps looked at to tell how long one takes.
constexpr int64_t kRecentSteps = 16;
// How far ahead a start by time may lie.
constexpr absl::Duration kMaxStartAhead = absl::Minutes(10);

constexpr std::string_view kCancelled = "CANCELLED";

std::string CancelledMessage(std::string_view capture_id) {
  return StrCat("capture ", capture_id, " was cancelled before the group began");
}

absl::Status NoSuchGroup(std::string_view id) {
  return absl::NotFoundError(StrCat("no group ", ForDisplay(id, 40),
                                    " waits here to be started; its lease may be over, or all of "
                                    "its members have ended"));
}

GroupMember MemberOf(const CaptureRecord& record) {
  return {.node = record.node,
          .capture_id = record.id,
          .pid = record.target.pid,
          .rank = RankOf(record.target),
          .state = record.state,
          .error = record.error_message};
}

// What is known here of our own members comes before what others say of them.
std::vector<GroupMember> Merge(std::vector<GroupMember> told, const std::vector<GroupMember>& own) {
  for (const GroupMember& member : own) {
    const bool is_told = std::ranges::any_of(
        told, [&](const GroupMember& other) { return other.capture_id == member.capture_id; });
    if (!is_told) told.push_back(member);
  }
  return told;
}

absl::Status BadLease(absl::Duration lease) {
  return absl::InvalidArgumentError(StrCat("lease: ", absl::FormatDuration(lease),
                                           " is out of range; it must be above 0 and at most ",
                                           absl::FormatDuration(kMaxGroupLease)));
}

absl::Status CheckRequest(const GroupRequest& request) {
  if (!IsUlid(request.id)) {
    return absl::InvalidArgumentError(
        StrCat("group: '", ForDisplay(request.id, 40), "' is not a ULID"));
  }
  RETURN_IF_ERROR(ValidateSpec(request.spec));
  if (request.spec.start_step >= 0) {
    return absl::InvalidArgumentError(
        "spec.start_step: must not be set; CommitGroup gives the first step");
  }
  if (request.lease <= absl::ZeroDuration() || request.lease > kMaxGroupLease) {
    return BadLease(request.lease);
  }
  if (request.lease_without_caller <= absl::ZeroDuration() ||
      (request.lease_without_caller > kMaxGroupLease &&
       request.lease_without_caller != absl::InfiniteDuration())) {
    return BadLease(request.lease_without_caller);
  }
  if (request.targets.empty() ||
      std::set(request.targets.begin(), request.targets.end()).size() != request.targets.size()) {
    return absl::InvalidArgumentError("targets must be named, each once");
  }
  return absl::OkStatus();
}

std::string DescribeStart(const GroupStart& start) {
  if (start.first_step >= 0) return StrCat("at step ", start.first_step);
  if (start.time == absl::InfinitePast()) return "at once";
  return StrCat("at ", absl::FormatTime(start.time));
}

// Steps that the target counts are the only ones that several captures can have in common.
bool StartsAtAStep(const CaptureSpec& spec) { return spec.steps > 0 && !CountsOwnSteps(spec); }

}  // namespace

// ---- on record ----

// A group of one node: the daemon knows all of it.
void CaptureManager::Actor::KeepGroup(const Caller& caller,
                                      const std::vector<CaptureRecord>& records) {
  GroupRecord group{.id = records.front().group_id,
                    .steps = records.front().spec.steps,
                    .create_time = clock_.Now(),
                    .requested_by = PrincipalName(caller.principal),
                    .closed = true};
  for (const CaptureRecord& record : records) group.members.push_back(MemberOf(record));
  if (absl::Status status = store_.PutGroup(group); !status.ok()) {
    LogWarning(StrCat("group=", group.id, " catalog: ", FromAbsl(status.message())));
  }
}

void CaptureManager::Actor::KeepFirstStep(const std::string& group_id, int64_t first_step) {
  absl::StatusOr<GroupRecord> group = store_.GetGroup(group_id);
  absl::Status status = group.status();
  if (group.ok()) {
    group->first_step = first_step;
    status = store_.PutGroup(*group);
  }
  if (!status.ok()) {
    LogWarning(StrCat("group=", group_id, " catalog: ", FromAbsl(status.message())));
  }
}

// ---- preparing ----

absl::StatusOr<CaptureManager::WatchId> CaptureManager::Actor::PrepareGroup(
    const Caller& caller, const GroupRequest& request, OnPreparation on_change) {
  if (stopping_) return absl::UnavailableError("profd is stopping; retry once it is back");
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(const FirePlan plan, PlanFor(request.spec));
  if (held_.contains(request.id) || store_.GetGroup(request.id).ok()) {
    return WithReason(
        absl::AlreadyExistsError(StrCat("group ", request.id, " exists; make a new id")),
        "GROUP_EXISTS");
  }
  const quota::Principal holder = QuotaPrincipalOf(caller.principal);
  const int64_t count = std::ssize(request.targets);
  RETURN_IF_ERROR(CountRequest(holder, count));
  const int64_t each_bytes = MemoryOfEach(holder, request.spec, count);
  const int64_t fitting = FittingInMemory(holder, each_bytes, count);

  HeldGroup group{.spec = request.spec,
                  .record = {.id = request.id,
                             .steps = request.spec.steps,
                             .create_time = clock_.Now(),
                             .requested_by = PrincipalName(caller.principal)}};
  std::vector<std::unique_ptr<LiveCapture>> admitted;
  for (const TargetNumber number : request.targets) {
    HeldGroup::Member& member = group.members.emplace_back(HeldGroup::Member{.target = number});
    absl::StatusOr<TargetInfo> target = Admit(caller, number, request.spec, nullptr);
    if (target.ok() && std::ssize(admitted) >= fitting) {
      target = MemoryShortage(holder, each_bytes, count);
    }
    absl::StatusOr<quota::Reservation> place;
    if (target.ok()) place = ReservePlaces(holder, 1);
    if (target.ok() && !place.ok()) target = place.status();
    if (!target.ok()) {
      member.refused = target.status();
      continue;
    }
    std::unique_ptr<LiveCapture>& live =
        admitted.emplace_back(NewLive(caller, *std::move(target), request.spec, plan));
    live->place = *std::move(place);
    live->memory_bytes = each_bytes;
    live->record.group_id = request.id;
    live->held = true;
    live->lease_end = live->begun + request.lease;
    member.capture_id = live->record.id;
    group.record.members.push_back(MemberOf(live->record));
  }
  if (admitted.empty()) {  // Nothing was begun: there is no such group here.
    on_change(PreparationOf(group));
    return 0;
  }
  const std::string first_id = admitted.front()->record.id;
  absl::Status room = store_.CheckRoom(group.record.requested_by, first_id);
  if (room.ok()) room = store_.PutGroup(group.record);
  if (!room.ok()) return NameEvicted(std::move(room), first_id, group.record.requested_by);
  for (std::unique_ptr<LiveCapture>& live : admitted) {
    const std::string id = live->record.id;
    absl::Status started = Begin(std::move(live));
    HeldGroup::Member& member =
        *std::ranges::find(group.members, id, &HeldGroup::Member::capture_id);
    if (!started.ok()) {
      if (id == first_id) {
        started = NameEvicted(std::move(started), id, group.record.requested_by);
      }
      member.refused = std::move(started);
    } else if (FindLive(id) == nullptr) {
      // It got its target from a schedule's capture, and could not be armed. LeaveGroup() does not
      // know the group yet.
      ASSIGN_OR_RETURN(member.ended, FindRecord(id));
    }
  }
  Rearm();
  const GroupPreparation preparation = PreparationOf(group);
  on_change(preparation);
  if (preparation.settled) return 0;  // None could arm.
  group.watch = next_watch_++;
  group.lease_without_caller = request.lease_without_caller;
  group.on_change = std::move(on_change);
  return held_.emplace(request.id, std::move(group)).first->second.watch;
}

PreparedMember CaptureManager::Actor::PreparedOf(const HeldGroup::Member& member) const {
  PreparedMember prepared{.target = member.target};
  if (!member.refused.ok()) {
    prepared.error_reason = ReasonOf(member.refused);
    prepared.error_message = std::string(member.refused.message());
    return prepared;
  }
  if (const auto target = targets_.Find(member.target)) {
    prepared.current_step = target->current_step;
    const int64_t end = std::max<int64_t>(0, target->current_step);
    prepared.median_step_ns =
        targets_.MedianStepNs(member.target, std::max<int64_t>(0, end - kRecentSteps), end);
  }
  if (member.ended.has_value()) {
    prepared.capture = member.ended;
    prepared.error_reason = member.ended->error_reason;
    prepared.error_message = member.ended->error_message;
    if (prepared.error_reason.empty()) {
      prepared.error_reason = kCancelled;
      prepared.error_message = CancelledMessage(member.capture_id);
    }
    return prepared;
  }
  const LiveCapture* live = FindLive(member.capture_id);
  if (live == nullptr) return prepared;
  prepared.capture = live->record;
  prepared.prepared = live->armed && live->cause == EndedBy::kNone;
  return prepared;
}

GroupPreparation CaptureManager::Actor::PreparationOf(const HeldGroup& group) const {
  GroupPreparation preparation{.settled = true};
  for (const HeldGroup::Member& member : group.members) {
    const PreparedMember& prepared = preparation.members.emplace_back(PreparedOf(member));
    preparation.settled =
        preparation.settled && (prepared.prepared || !prepared.error_reason.empty());
  }
  return preparation;
}

void CaptureManager::Actor::TellPreparation(HeldGroup& group) {
  if (group.on_change == nullptr) return;
  const GroupPreparation preparation = PreparationOf(group);
  group.on_change(preparation);
  if (preparation.settled) group.on_change = nullptr;
}

// Of a capture that has ended, while it still counts as live.
void CaptureManager::Actor::LeaveGroup(const CaptureRecord& record) {
  const auto held = held_.find(record.group_id);
  if (held == held_.end()) return;
  HeldGroup& group = held->second;
  const auto member = std::ranges::find(group.members, record.id, &HeldGroup::Member::capture_id);
  if (member != group.members.end()) member->ended = record;
  TellPreparation(group);
  const bool others = std::ranges::any_of(group.members, [](const HeldGroup::Member& other) {
    return other.refused.ok() && !other.ended.has_value();
  });
  if (!others) held_.erase(held);
}

// ---- starting ----

absl::StatusOr<std::vector<MemberStart>> CaptureManager::Actor::CommitGroup(
    const Caller& caller, std::string_view group_id, const GroupStart& start) {
  const auto held = held_.find(group_id);
  if (held == held_.end() || held->second.record.requested_by != PrincipalName(caller.principal)) {
    return NoSuchGroup(group_id);
  }
  HeldGroup& group = held->second;
  if (group.start.has_value()) {
    if (group.start->first_step == start.first_step && group.start->time == start.time) {
      RenewLease(group, start.lease);
      return group.started;
    }
    return WithReason(absl::FailedPreconditionError(StrCat(
                          "group ", group_id, " was told to begin ", DescribeStart(*group.start))),
                      "COMMITTED");
  }
  CaptureSpec spec = group.spec;
  if (StartsAtAStep(spec) != (start.first_step >= 0)) {
    return absl::InvalidArgumentError(
        StartsAtAStep(spec)
            ? "first_step: must be set for a group that records steps"
            : "first_step: must not be set for a group by time, or of steps of its own");
  }
  if (start.time != absl::InfinitePast() && start.time > clock_.Now() + kMaxStartAhead) {
    return absl::InvalidArgumentError(StrCat("start_unix_ns: more than ",
                                             absl::FormatDuration(kMaxStartAhead),
                                             " ahead by this node's clock"));
  }
  if (start.lease <= absl::ZeroDuration() ||
      (start.lease > kMaxGroupLease && start.lease != absl::InfiniteDuration())) {
    return BadLease(start.lease);
  }
  spec.start_step = start.first_step;
  RETURN_IF_ERROR(ValidateSpec(spec));
  ASSIGN_OR_RETURN(const FirePlan plan, PlanFor(spec));

  group.start = GroupStart{.first_step = start.first_step, .time = start.time};
  group.record.first_step = start.first_step;
  group.record.members = Merge(start.members, group.record.members);
  // With its last member that ends here the group goes, too.
  const GroupRecord record = group.record;
  const std::vector<HeldGroup::Member> members = group.members;
  std::vector<MemberStart> started;
  for (const HeldGroup::Member& member : members) {
    if (member.refused.ok()) started.push_back(StartMember(member, plan, start));
  }
  if (const auto now = held_.find(group_id); now != held_.end()) now->second.started = started;
  // They are on their way: a disk that is full does not call them back.
  if (absl::Status status = store_.PutGroup(record); !status.ok()) {
    LogWarning(StrCat("group=", group_id, " catalog: ", FromAbsl(status.message())));
  }
  Rearm();
  return started;
}

void CaptureManager::Actor::ShortenLease(const HeldGroup& group) {
  if (group.start.has_value() || group.lease_without_caller == absl::InfiniteDuration()) return;
  const absl::Duration end = clock_.Monotonic() + group.lease_without_caller;
  for (const HeldGroup::Member& member : group.members) {
    LiveCapture* live = FindLive(member.capture_id);
    if (live != nullptr) live->lease_end = std::min(live->lease_end, end);
  }
  Rearm();
}

// Nothing that has begun or ended has a lease any more.
void CaptureManager::Actor::RenewLease(const HeldGroup& group, absl::Duration lease) {
  if (lease <= absl::ZeroDuration()) return;
  for (const HeldGroup::Member& member : group.members) {
    LiveCapture* const live = FindLive(member.capture_id);
    if (live == nullptr || live->lease_end == absl::InfiniteDuration()) continue;
    live->lease_end = clock_.Monotonic() + std::min(lease, kMaxGroupLease);
  }
  Rearm();
}

MemberStart CaptureManager::Actor::StartMember(const HeldGroup::Member& member,
                                               const FirePlan& plan, const GroupStart& start) {
  const PreparedMember prepared = PreparedOf(member);
  MemberStart outcome{.capture_id = member.capture_id,
                      .current_step = prepared.current_step,
                      .error_reason = prepared.error_reason,
                      .error_message = prepared.error_message};
  LiveCapture* live = FindLive(member.capture_id);
  if (live == nullptr) return outcome;
  const auto refuse = [&](EndedBy cause) {
    CaptureRecord record = live->record;
    ExplainFailure(cause, record);
    outcome.error_reason = record.error_reason;
    outcome.error_message = record.error_message;
    End(*live, cause);
  };
  if (live->cause == EndedBy::kCancel || live->cause == EndedBy::kPreempted) {
    outcome.error_reason = kCancelled;
    outcome.error_message = CancelledMessage(member.capture_id);
  } else if (live->cause != EndedBy::kNone) {
    refuse(live->cause);
  } else if (!live->armed) {
    refuse(EndedBy::kArmTimeout);
  } else if (start.first_step >= 0 && start.first_step <= prepared.current_step) {
    refuse(EndedBy::kMissedStart);
  } else if (start.time != absl::InfinitePast() && start.time < clock_.Now()) {
    refuse(EndedBy::kMissedStart);
  } else {
    outcome.started = true;
    live->plan = plan;
    live->lease_end = clock_.Monotonic() + start.lease;
    if (start.time == absl::InfinitePast()) {
      Fire(*live, plan.base_step);
    } else {
      live->fire_at = clock_.Monotonic() + (start.time - clock_.Now());
    }
  }
  return outcome;
}

// ---- ending ----

absl::Status CaptureManager::Actor::AbortGroup(const Caller& caller, std::string_view group_id) {
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) {
    if (live->record.group_id != group_id) continue;
    const bool own = live->record.requested_by == PrincipalName(caller.principal);
    if (!own && !caller.May(Verb::kCapture, OwnerOf(live->record))) {
      return WithReason(
          absl::PermissionDeniedError(StrCat("capture ", id, " of group ", group_id,
                                             " is of a process of another user; cancel your own "
                                             "captures by their ids")),
          "OTHER_OWNER");
    }
    ids.push_back(id);
  }
  for (const std::string& id : ids) {
    if (LiveCapture* live = FindLive(id)) End(*live, EndedBy::kCancel);
  }
  return absl::OkStatus();
}

absl::Status CaptureManager::Actor::CloseGroup(const Caller& caller, std::string_view group_id,
                                               std::vector<GroupMember> members) {
  absl::StatusOr<GroupRecord> group = store_.GetGroup(group_id);
  if (absl::IsNotFound(group.status())) {
    return absl::NotFoundError(StrCat("no group ", ForDisplay(group_id, 40), " here"));
  }
  RETURN_IF_ERROR(group.status());
  if (group->requested_by != PrincipalName(caller.principal)) {
    return WithReason(
        absl::PermissionDeniedError(StrCat("group ", group_id, " was asked for by ",
                                           group->requested_by, "; no other caller can close it")),
        "OTHER_OWNER");
  }
  group->members = Merge(std::move(members), group->members);
  group->closed = true;
  return store_.PutGroup(*group);
}

}  // namespace profd
