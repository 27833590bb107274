// Schedules as they are declared: by version, on every node alike, in whatever order the
// declarations come. What ScheduleRunner does with them.
//
//   here      declared lower   declared the same        declared higher
//   nothing   -                -                        created, or deleted
//   active    STALE_VERSION    unchanged, or CONFLICT   updated, or deleted
//   deleted   STALE_VERSION    unchanged, or CONFLICT   created, or deleted
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
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

absl::Status CheckDeclaration(const ScheduleDeclaration& declaration) {
  if (!IsUlid(declaration.id)) {
    return absl::InvalidArgumentError(
        StrCat("'", ForDisplay(declaration.id, 64), "' is not a schedule ID"));
  }
  const int64_t highest = kMaxScheduleVersion + (declaration.deleted ? 1 : 0);
  if (declaration.version < 1 || declaration.version > highest) {
    return absl::InvalidArgumentError(StrCat("schedule ", declaration.id, ": version is ",
                                             declaration.version, "; it must be in [1, ", highest,
                                             "]"));
  }
  return declaration.deleted ? absl::OkStatus() : ValidateScheduleSpec(declaration.spec);
}

bool IsDeleted(const ScheduleRecord& record) {
  return record.delete_time != absl::InfiniteFuture();
}

absl::Status Stale(const ScheduleRecord& there, const ScheduleDeclaration& declaration) {
  return WithReason(absl::FailedPreconditionError(StrCat(
                        "schedule ", there.id, ": version ", declaration.version,
                        " is lower than version ", there.version, " on this node",
                        IsDeleted(there) ? ", a deletion" : "", "; declare a higher version")),
                    "STALE_VERSION");
}

absl::Status Conflict(const ScheduleRecord& there) {
  return WithReason(
      absl::AlreadyExistsError(StrCat(
          "schedule ", there.id, ": version ", there.version, " on this node ",
          IsDeleted(there) ? "is a deletion" : "has another spec", "; declare a higher version")),
      "VERSION_CONFLICT");
}

// The inverse of PrincipalName(), as far as access checks need it.
Principal PrincipalNamed(std::string_view name) {
  const auto after = [&name](std::string_view prefix) {
    return name.starts_with(prefix) ? std::optional(name.substr(prefix.size())) : std::nullopt;
  };
  Principal principal;
  if (const auto uid = after("uid:")) {
    std::from_chars(uid->data(), uid->data() + uid->size(), principal.uid);
  } else if (const auto common_name = after("cn:")) {
    principal.common_name = *common_name;
  } else if (const auto dns_name = after("dns:")) {
    principal.dns_names.emplace_back(*dns_name);
  } else if (name.starts_with("spiffe://")) {
    principal.spiffe_id = name;
  }
  return principal;
}

// Of a record that FindDeclared() made from a tombstone.
bool IsTombstone(const ScheduleRecord& record) {
  return record.delete_time == absl::InfinitePast();
}

}  // namespace

absl::StatusOr<std::optional<ScheduleRecord>> ScheduleRunner::Actor::FindDeclared(
    std::string_view id) {
  if (const auto live = schedules_.find(id); live != schedules_.end()) return live->second.record;
  ASSIGN_OR_RETURN(std::vector<ScheduleRecord> deleted, store_.ListDeletedSchedules(id, "", 1));
  if (!deleted.empty()) return std::move(deleted.front());
  const absl::StatusOr<ScheduleTombstone> tombstone = store_.GetTombstone(id);
  if (absl::IsNotFound(tombstone.status())) return std::nullopt;
  RETURN_IF_ERROR(tombstone.status());
  return ScheduleRecord{.id = std::string(id),
                        .creator = PrincipalNamed(tombstone->principal),
                        .delete_time = absl::InfinitePast(),
                        .version = tombstone->version};
}

absl::StatusOr<AppliedDeclaration> ScheduleRunner::Actor::Apply(
    const Caller& caller, const ScheduleDeclaration& declaration, bool dry_run) {
  RETURN_IF_ERROR(CheckDeclaration(declaration));
  RETURN_IF_ERROR(CheckMaySchedule(caller));
  ASSIGN_OR_RETURN(const std::optional<ScheduleRecord> there, FindDeclared(declaration.id));
  if (there.has_value()) {
    // First, because the errors below name the version that is here.
    RETURN_IF_ERROR(CheckMayReplace(caller, *there));
    if (there->version > declaration.version) return Stale(*there, declaration);
    if (there->version == declaration.version) {
      const bool same = IsDeleted(*there) == declaration.deleted &&
                        (declaration.deleted || SameSchedule(there->spec, declaration.spec));
      if (!same) return Conflict(*there);
      AppliedDeclaration unchanged;
      ASSIGN_OR_RETURN(unchanged.view, View(*there));
      return unchanged;
    }
  }
  const absl::Time now = clock_.Now();
  const bool has_record = there.has_value() && !IsTombstone(*there);
  const bool is_active = has_record && !IsDeleted(*there);
  ScheduleRecord record =
      has_record
          ? *there
          : ScheduleRecord{.id = declaration.id, .creator = caller.principal, .create_time = now};
  record.version = declaration.version;
  if (declaration.deleted) {
    if (!IsDeleted(record)) record.delete_time = now;
  } else {
    // From now on as the caller: none changes what is captured with the rights of another.
    record.creator = caller.principal;
    record.spec = declaration.spec;
    if (!is_active) {
      record.create_time = now;
      record.paused = false;
      record.delete_time = absl::InfiniteFuture();
    }
    // Windows of the old spec are over, and those of the new one begin now.
    record.last_window = now;
  }
  AppliedDeclaration applied{.change = declaration.deleted ? DeclaredChange::kDeleted
                                       : is_active         ? DeclaredChange::kUpdated
                                                           : DeclaredChange::kCreated};
  if (dry_run) {
    const ScheduleState state = StateOf(record, now);
    applied.view = {.record = std::move(record), .state = state};
    return applied;
  }
  RETURN_IF_ERROR(CheckRoomFor(record, has_record ? &*there : nullptr));
  ASSIGN_OR_RETURN(applied.view, Install(std::move(record), !has_record));
  LogInfo(StrCat("schedule=", declaration.id, " version ", declaration.version, " ",
                 ToString(applied.change), " by ", PrincipalName(caller.principal)));
  if (declaration.deleted) TrimDeleted();
  return applied;
}

absl::StatusOr<ScheduleView> ScheduleRunner::Actor::Install(ScheduleRecord record, bool is_new) {
  ASSIGN_OR_RETURN(record, is_new ? store_.InsertSchedule(record) : store_.ReplaceSchedule(record));
  std::optional<LiveSchedule> before;
  if (const auto old = schedules_.find(record.id); old != schedules_.end()) {
    before.emplace(std::move(old->second));
    schedules_.erase(old);
  }
  if (!IsDeleted(record)) {
    LiveSchedule& live = schedules_.try_emplace(record.id, record).first->second;
    if (before.has_value()) {
      // The governor's state outlives a change of the spec: a target that captures slow down is not
      // sampled at full rate again because of an edit.
      live.targets = std::move(before->targets);
      // Windows of another spec are over.
      if (SameButNodes(before->record.spec, record.spec)) {
        live.counted_until = before->counted_until;
        live.held = std::move(before->held);
        live.is_set_back = before->is_set_back;
      }
    }
    SetNext(live);
  }
  Rearm();
  return View(record);
}

}  // namespace profd
