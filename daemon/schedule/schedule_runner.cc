#include "daemon/schedule/schedule_runner.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/schedule/schedule_actor.h"
#include "daemon/schedule/schedule_spec.h"

namespace profd {
namespace {

absl::Status NoSuchSchedule(std::string_view id) {
  return absl::NotFoundError(StrCat("no schedule ", ForDisplay(id, 40),
                                    "; `profctl schedule list` shows those there are"));
}

// A remote creator owns no uid; what it made is its own all the same.
bool May(const Caller& caller, Verb verb, const ScheduleRecord& record) {
  if (caller.May(verb, OwnerOf(record))) return true;
  return !caller.principal.IsLocal() && caller.MayAny(verb) &&
         PrincipalName(caller.principal) != PrincipalName({}) &&
         PrincipalName(caller.principal) == PrincipalName(record.creator);
}

}  // namespace

// ---- the actor's requests ----

absl::StatusOr<LiveSchedule*> ScheduleRunner::Actor::Find(const Caller& caller,
                                                          std::string_view id) {
  LiveSchedule* found = nullptr;
  for (auto at = schedules_.lower_bound(id); at != schedules_.end(); ++at) {
    if (!at->first.starts_with(id)) break;
    if (!May(caller, Verb::kList, at->second.record)) continue;
    if (at->first.size() == id.size()) return &at->second;
    if (found != nullptr) {
      return WithReason(
          absl::InvalidArgumentError(StrCat("several schedules start with ", ForDisplay(id, 40),
                                            ": ", found->record.id, ", ", at->first)),
          "AMBIGUOUS_ID");
    }
    found = &at->second;
  }
  if (found == nullptr) return NoSuchSchedule(id);
  return found;
}

absl::StatusOr<LiveSchedule*> ScheduleRunner::Actor::FindToChange(const Caller& caller,
                                                                  std::string_view id) {
  ASSIGN_OR_RETURN(LiveSchedule * live, Find(caller, id));
  if (May(caller, Verb::kSchedule, live->record)) return live;
  return WithReason(
      absl::PermissionDeniedError(StrCat("schedule ", live->record.id, " belongs to ",
                                         PrincipalName(live->record.creator),
                                         "; only who may schedule for it can change it")),
      "NOT_ALLOWED");
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::View(const LiveSchedule& live) {
  ScheduleView view{.record = live.record, .state = StateOf(live.record, clock_.Now())};
  if (live.next.has_value() && view.state != ScheduleState::kEnded) {
    view.next_window = live.next->due;
  }
  ASSIGN_OR_RETURN(view.totals, store_.GetTotals(live.record.id));
  return view;
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Create(const Caller& caller,
                                                           const ScheduleSpec& spec,
                                                           std::string_view id) {
  RETURN_IF_ERROR(ValidateScheduleSpec(spec));
  if (!id.empty() && !IsUlid(id)) {
    return absl::InvalidArgumentError(StrCat("'", ForDisplay(id, 64), "' is not a schedule's id"));
  }
  if (!caller.MayAny(Verb::kSchedule)) {
    return WithReason(
        absl::PermissionDeniedError(StrCat(PrincipalName(caller.principal),
                                           " may schedule nothing here; an administrator can "
                                           "allow it in the policy file")),
        "NOT_ALLOWED");
  }
  if (const auto there = schedules_.find(id); there != schedules_.end()) {
    const LiveSchedule& live = there->second;
    const bool same = live.record.spec == spec && May(caller, Verb::kSchedule, live.record) &&
                      PrincipalName(live.record.creator) == PrincipalName(caller.principal) &&
                      live.record.delete_time == absl::InfiniteFuture();
    if (same) return View(live);
    return WithReason(absl::AlreadyExistsError(StrCat("there is, or was, another schedule ", id)),
                      "SCHEDULE_EXISTS");
  }
  const int64_t there = std::ranges::count_if(schedules_, [](const auto& entry) {
    return entry.second.record.delete_time == absl::InfiniteFuture();
  });
  if (there >= options_.max_schedules) {
    return WithReason(
        absl::ResourceExhaustedError(StrCat("this node takes at most ", options_.max_schedules,
                                            " schedules; delete one with `profctl schedule "
                                            "delete ID`")),
        "SCHEDULE_LIMIT");
  }
  const absl::Time now = clock_.Now();
  ASSIGN_OR_RETURN(ScheduleRecord record,
                   store_.InsertSchedule({.id = id.empty() ? NewUlid(now) : std::string(id),
                                          .spec = spec,
                                          .creator = caller.principal,
                                          .create_time = now,
                                          .last_window = now}));
  LogInfo(StrCat("schedule=", record.id, " created by ", PrincipalName(record.creator)));
  const std::string key = record.id;
  LiveSchedule& live = schedules_.try_emplace(key, std::move(record)).first->second;
  SetNext(live);
  Rearm();
  return View(live);
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Get(const Caller& caller, std::string_view id) {
  ASSIGN_OR_RETURN(const LiveSchedule* live, Find(caller, id));
  return View(*live);
}

absl::StatusOr<std::vector<ScheduleView>> ScheduleRunner::Actor::List(const Caller& caller,
                                                                      bool include_deleted,
                                                                      int64_t limit,
                                                                      std::string_view after_id) {
  std::vector<ScheduleView> views;
  for (auto at = schedules_.upper_bound(after_id); at != schedules_.end(); ++at) {
    if (static_cast<int64_t>(views.size()) == limit) break;
    const ScheduleRecord& record = at->second.record;
    if (!include_deleted && record.delete_time != absl::InfiniteFuture()) continue;
    if (!May(caller, Verb::kList, record)) continue;
    ASSIGN_OR_RETURN(views.emplace_back(), View(at->second));
  }
  return views;
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::SetPaused(const Caller& caller,
                                                              std::string_view id, bool paused) {
  ASSIGN_OR_RETURN(LiveSchedule * live, FindToChange(caller, id));
  if (live->record.delete_time != absl::InfiniteFuture()) {
    return WithReason(absl::FailedPreconditionError(
                          StrCat("schedule ", live->record.id, " was deleted; create another")),
                      "SCHEDULE_DELETED");
  }
  if (live->record.paused == paused) return View(*live);
  ScheduleRecord changed = live->record;
  changed.paused = paused;
  RETURN_IF_ERROR(store_.UpdateSchedule(changed));
  live->record = std::move(changed);
  LogInfo(StrCat("schedule=", live->record.id, paused ? " paused by " : " resumed by ",
                 PrincipalName(caller.principal)));
  return View(*live);
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Delete(const Caller& caller,
                                                           std::string_view id) {
  ASSIGN_OR_RETURN(LiveSchedule * live, FindToChange(caller, id));
  if (live->record.delete_time != absl::InfiniteFuture()) return View(*live);
  ScheduleRecord changed = live->record;
  changed.delete_time = clock_.Now();
  RETURN_IF_ERROR(store_.UpdateSchedule(changed));
  live->record = std::move(changed);
  LogInfo(StrCat("schedule=", live->record.id, " deleted by ", PrincipalName(caller.principal)));
  SetNext(*live);
  Rearm();
  return View(*live);
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleRunner::Actor::ListWindows(
    const Caller& caller, std::string_view id, int64_t limit, absl::Time time, int64_t pid) {
  ASSIGN_OR_RETURN(const LiveSchedule* live, Find(caller, id));
  return store_.ListWindows(live->record.id, std::clamp<int64_t>(limit, 1, kMaxWindowPage), time,
                            pid);
}

// ---- the runner ----

ScheduleRunner::ScheduleRunner(Options options, ScheduleStore& store, ScheduledCaptures& captures,
                               TargetPort& targets, Clock& clock)
    : actor_(std::make_unique<Actor>(std::move(options), store, captures, targets, clock)) {}

ScheduleRunner::~ScheduleRunner() { Stop(); }

absl::Status ScheduleRunner::Start() {
  return actor_->Run([&] { return actor_->Start(); });
}

void ScheduleRunner::Stop() { actor_->Stop(); }

absl::StatusOr<ScheduleView> ScheduleRunner::Create(const Caller& caller, const ScheduleSpec& spec,
                                                    std::string_view id) {
  return actor_->Run([&] { return actor_->Create(caller, spec, id); });
}

absl::StatusOr<ScheduleView> ScheduleRunner::Get(const Caller& caller, std::string_view id) {
  return actor_->Run([&] { return actor_->Get(caller, id); });
}

absl::StatusOr<std::vector<ScheduleView>> ScheduleRunner::List(const Caller& caller,
                                                               bool include_deleted, int64_t limit,
                                                               std::string_view after_id) {
  return actor_->Run([&] { return actor_->List(caller, include_deleted, limit, after_id); });
}

absl::StatusOr<ScheduleView> ScheduleRunner::SetPaused(const Caller& caller, std::string_view id,
                                                       bool paused) {
  return actor_->Run([&] { return actor_->SetPaused(caller, id, paused); });
}

absl::StatusOr<ScheduleView> ScheduleRunner::Delete(const Caller& caller, std::string_view id) {
  return actor_->Run([&] { return actor_->Delete(caller, id); });
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleRunner::ListWindows(
    const Caller& caller, std::string_view id, int64_t limit, absl::Time time, int64_t pid) {
  return actor_->Run([&] { return actor_->ListWindows(caller, id, limit, time, pid); });
}

void ScheduleRunner::DrainForTesting() {
  actor_->queue().Call([] {});
}

absl::Duration ScheduleRunner::RunTimersForTesting() {
  absl::Duration next_wake;
  actor_->queue().Call([&] {
    actor_->OnTimer();
    next_wake = actor_->next_wake();
  });
  return next_wake;
}

}  // namespace profd
