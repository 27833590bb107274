#include "daemon/schedule/schedule_runner.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
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

// Deleted schedules that are looked at for one prefix of an id, and for one page of a listing.
constexpr int64_t kDeletedPage = 100;

absl::Status NoSuchSchedule(std::string_view id) {
  return absl::NotFoundError(StrCat("no schedule ", ForDisplay(id, 40),
                                    "; `profctl schedule list` shows those there are"));
}

absl::Status ExistsAlready(std::string_view id) {
  return WithReason(absl::AlreadyExistsError(StrCat("there is, or was, another schedule ", id)),
                    "SCHEDULE_EXISTS");
}

// What a spec can be large by.
int64_t NodeBytes(const ScheduleSpec& spec) {
  int64_t bytes = 0;
  for (const std::string& node : spec.nodes) bytes += std::ssize(node);
  return bytes;
}

// A remote creator owns no uid; what it made is its own all the same.
bool May(const Caller& caller, Verb verb, const ScheduleRecord& record) {
  if (caller.May(verb, OwnerOf(record))) return true;
  // Callers without a name would all own what one of them made.
  return !caller.principal.IsLocal() && caller.MayAny(verb) &&
         PrincipalName(caller.principal) != PrincipalName({}) &&
         PrincipalName(caller.principal) == PrincipalName(record.creator);
}

}  // namespace

// ---- the actor's requests ----

absl::StatusOr<ScheduleRecord> ScheduleRunner::Actor::Find(const Caller& caller,
                                                           std::string_view id) {
  std::vector<ScheduleRecord> candidates;
  for (auto at = schedules_.lower_bound(id); at != schedules_.end(); ++at) {
    if (!at->first.starts_with(id)) break;
    candidates.push_back(at->second.record);
  }
  const auto drop_hidden = [&] {
    std::erase_if(candidates,
                  [&](const ScheduleRecord& record) { return !May(caller, Verb::kList, record); });
  };
  drop_hidden();
  // Two make it ambiguous, unless one is the whole ID, which comes first. In pages, because any
  // number may belong to others.
  std::string after;
  do {
    ASSIGN_OR_RETURN(std::vector<ScheduleRecord> deleted,
                     store_.ListDeletedSchedules(id, after, kDeletedPage));
    if (deleted.empty()) break;
    after = deleted.back().id;
    std::ranges::move(deleted, std::back_inserter(candidates));
    drop_hidden();
  } while (candidates.size() < 2);
  for (const ScheduleRecord& record : candidates) {
    if (record.id.size() == id.size()) return record;
  }
  if (candidates.empty()) return NoSuchSchedule(id);
  if (candidates.size() == 1) return std::move(candidates.front());
  return WithReason(
      absl::InvalidArgumentError(StrCat("several schedules start with ", ForDisplay(id, 40), ": ",
                                        candidates[0].id, ", ", candidates[1].id)),
      "AMBIGUOUS_ID");
}

absl::StatusOr<ScheduleRecord> ScheduleRunner::Actor::FindToChange(const Caller& caller,
                                                                   std::string_view id) {
  ASSIGN_OR_RETURN(ScheduleRecord record, Find(caller, id));
  RETURN_IF_ERROR(CheckMayReplace(caller, record));
  return record;
}

absl::Status ScheduleRunner::Actor::CheckMaySchedule(const Caller& caller) {
  if (caller.MayAny(Verb::kSchedule)) return absl::OkStatus();
  return WithReason(
      absl::PermissionDeniedError(StrCat(PrincipalName(caller.principal),
                                         " may schedule nothing here; an administrator can "
                                         "allow it in the policy file")),
      "NOT_ALLOWED");
}

absl::Status ScheduleRunner::Actor::CheckMayReplace(const Caller& caller,
                                                    const ScheduleRecord& record) {
  if (May(caller, Verb::kSchedule, record)) return absl::OkStatus();
  // What the caller may not list it is not told of, either.
  if (!May(caller, Verb::kList, record)) return ExistsAlready(record.id);
  return WithReason(absl::PermissionDeniedError(StrCat(
                        "schedule ", record.id, " belongs to ", PrincipalName(record.creator),
                        "; only who may schedule for it can change it")),
                    "NOT_ALLOWED");
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::View(const ScheduleRecord& record) {
  ScheduleView view{.record = record, .state = StateOf(record, clock_.Now())};
  const auto live = schedules_.find(record.id);
  if (live != schedules_.end() && live->second.next.has_value() &&
      view.state != ScheduleState::kEnded) {
    view.next_window = live->second.next->due;
  }
  ASSIGN_OR_RETURN(view.totals, store_.GetTotals(record.id));
  return view;
}

// Deleted schedules count as well, but make room: the history of the oldest goes first.
absl::Status ScheduleRunner::Actor::CheckNumber(const std::string& principal) {
  if (options_.ledger == nullptr) return absl::OkStatus();
  const quota::Principal holder = quota::PrincipalFromName(principal, geteuid());
  for (;;) {
    const absl::Status status = options_.ledger->Check(holder, quota::Resource::kSchedules, 1);
    if (status.ok()) return status;
    ASSIGN_OR_RETURN(const bool removed, store_.RemoveOldestDeletedSchedule(principal));
    if (!removed) return status;
  }
}

absl::Status ScheduleRunner::Actor::CheckRoomFor(const ScheduleRecord& record,
                                                 const ScheduleRecord* replaced) {
  const std::string principal = PrincipalName(record.creator);
  const bool has_place = replaced != nullptr && PrincipalName(replaced->creator) == principal;
  if (!has_place) RETURN_IF_ERROR(CheckNumber(principal));
  // Of deleted ones TrimDeletedSchedules() keeps only so much.
  if (record.delete_time != absl::InfiniteFuture()) return absl::OkStatus();
  // A schedule that does not grow may be changed even above the limit, or its owner could not
  // repair or shrink it.
  if (has_place && NodeBytes(record.spec) <= NodeBytes(replaced->spec)) return absl::OkStatus();
  if (record.creator.uid == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ScheduleHolding holding, store_.GetHolding(principal));
  if (holding.bytes < options_.max_record_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(StrCat(
          "the schedules of ", principal, " take ", holding.bytes, " bytes of at most ",
          options_.max_record_bytes,
          " (deleted ones count, too); delete one with `profctl schedule delete ID`, or name fewer "
          "nodes")),
      "SCHEDULE_LIMIT");
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Create(const Caller& caller,
                                                           const ScheduleSpec& spec,
                                                           std::string_view id) {
  RETURN_IF_ERROR(ValidateScheduleSpec(spec));
  if (!id.empty() && !IsUlid(id)) {
    return absl::InvalidArgumentError(StrCat("'", ForDisplay(id, 64), "' is not a schedule ID"));
  }
  RETURN_IF_ERROR(CheckMaySchedule(caller));
  if (!id.empty()) {
    ASSIGN_OR_RETURN(const std::optional<ScheduleRecord> there, FindDeclared(id));
    if (there.has_value()) return CreateAgain(caller, spec, *there);
  }
  const absl::Time now = clock_.Now();
  const ScheduleRecord record{.id = id.empty() ? NewUlid(now) : std::string(id),
                              .spec = spec,
                              .creator = caller.principal,
                              .create_time = now,
                              .last_window = now};
  RETURN_IF_ERROR(CheckRoomFor(record, /*replaced=*/nullptr));
  absl::StatusOr<ScheduleView> view = Install(record, /*is_new=*/true);
  if (view.ok()) {
    LogInfo(
        StrCat("schedule=", view->record.id, " created by ", PrincipalName(view->record.creator)));
  }
  return view;
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::CreateAgain(const Caller& caller,
                                                                const ScheduleSpec& spec,
                                                                const ScheduleRecord& there) {
  const bool same = there.delete_time == absl::InfiniteFuture() && SameButNodes(there.spec, spec) &&
                    May(caller, Verb::kSchedule, there) &&
                    PrincipalName(there.creator) == PrincipalName(caller.principal);
  if (!same) return ExistsAlready(there.id);
  if (there.spec.nodes == spec.nodes) return View(there);
  ScheduleRecord placed = there;
  placed.spec.nodes = spec.nodes;
  RETURN_IF_ERROR(CheckRoomFor(placed, &there));
  return Install(std::move(placed), /*is_new=*/false);
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Get(const Caller& caller, std::string_view id) {
  ASSIGN_OR_RETURN(const ScheduleRecord record, Find(caller, id));
  return View(record);
}

absl::StatusOr<std::vector<ScheduleView>> ScheduleRunner::Actor::List(const Caller& caller,
                                                                      bool include_deleted,
                                                                      int64_t limit,
                                                                      std::string_view after_id) {
  std::vector<ScheduleRecord> records;
  for (auto at = schedules_.upper_bound(after_id); at != schedules_.end(); ++at) {
    if (std::ssize(records) == limit) break;
    if (May(caller, Verb::kList, at->second.record)) records.push_back(at->second.record);
  }
  std::string after(after_id);
  for (int64_t found = 0; include_deleted && found < limit;) {
    ASSIGN_OR_RETURN(std::vector<ScheduleRecord> page,
                     store_.ListDeletedSchedules("", after, kDeletedPage));
    if (page.empty()) break;
    after = page.back().id;
    for (ScheduleRecord& record : page) {
      if (!May(caller, Verb::kList, record)) continue;
      records.push_back(std::move(record));
      ++found;
    }
  }
  // Two lists, each sorted and cut at the limit, are merged: together they hold at least the first
  // `limit` of both.
  std::ranges::sort(records, {}, &ScheduleRecord::id);
  if (std::ssize(records) > limit) records.resize(static_cast<size_t>(limit));
  std::vector<ScheduleView> views;
  for (const ScheduleRecord& record : records) {
    ASSIGN_OR_RETURN(views.emplace_back(), View(record));
  }
  return views;
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::SetPaused(const Caller& caller,
                                                              std::string_view id, bool paused) {
  ASSIGN_OR_RETURN(ScheduleRecord changed, FindToChange(caller, id));
  if (changed.delete_time != absl::InfiniteFuture()) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("schedule ", changed.id, " was deleted")),
        "SCHEDULE_DELETED");
  }
  if (changed.paused == paused) return View(changed);
  changed.paused = paused;
  RETURN_IF_ERROR(store_.UpdateSchedule(changed));
  LogInfo(StrCat("schedule=", changed.id, paused ? " paused by " : " resumed by ",
                 PrincipalName(caller.principal)));
  if (const auto live = schedules_.find(changed.id); live != schedules_.end()) {
    live->second.record = changed;
  }
  return View(changed);
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Delete(const Caller& caller,
                                                           std::string_view id) {
  ASSIGN_OR_RETURN(ScheduleRecord changed, FindToChange(caller, id));
  if (changed.delete_time != absl::InfiniteFuture()) return View(changed);
  changed.delete_time = clock_.Now();
  ++changed.version;
  ASSIGN_OR_RETURN(changed, store_.ReplaceSchedule(changed));
  LogInfo(StrCat("schedule=", changed.id, " deleted by ", PrincipalName(caller.principal)));
  schedules_.erase(changed.id);
  Rearm();
  absl::StatusOr<ScheduleView> view = View(changed);
  TrimDeleted();
  return view;
}

void ScheduleRunner::Actor::TrimDeleted() {
  const absl::Status status = store_.TrimDeletedSchedules(AgeTime() - kScheduleHistory);
  if (!status.ok()) LogError(StrCat("deleted schedules: ", status.ToString()));
}

absl::StatusOr<std::vector<ScheduleWindow>> ScheduleRunner::Actor::ListWindows(
    const Caller& caller, std::string_view id, int64_t limit, absl::Time time, int64_t pid) {
  ASSIGN_OR_RETURN(const ScheduleRecord record, Find(caller, id));
  return store_.ListWindows(record.id, std::clamp<int64_t>(limit, 1, kMaxWindowPage), time, pid);
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

absl::StatusOr<AppliedDeclaration> ScheduleRunner::Apply(const Caller& caller,
                                                         const ScheduleDeclaration& declaration,
                                                         bool dry_run) {
  return actor_->Run([&] { return actor_->Apply(caller, declaration, dry_run); });
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
