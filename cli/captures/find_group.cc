#include "cli/captures/find_group.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>

#include "cli/captures/group_start.h"
#include "cli/captures/local_store.h"
#include "cli/client/invocation.h"
#include "cli/client/resource_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/ulid.h"

namespace profd::cli {
namespace {

// What one daemon says comes to what the others have said.
void Merge(GroupView view, size_t node, FoundGroup& group) {
  GroupRecord& record = group.record;
  record.id = view.record.id;
  record.steps = std::max(record.steps, view.record.steps);
  record.first_step = std::max(record.first_step, view.record.first_step);
  record.requested_by = view.record.requested_by;
  for (GroupMember& member : view.record.members) {
    const auto known = std::ranges::find_if(record.members, [&](const GroupMember& other) {
      return std::tie(other.capture_id, other.node, other.pid) ==
             std::tie(member.capture_id, member.node, member.pid);
    });
    if (known == record.members.end()) {
      record.members.push_back(std::move(member));
    } else if (view.record.closed && !record.closed) {
      *known = std::move(member);  // Told at the end.
    }
  }
  record.closed = record.closed || view.record.closed;
  for (CaptureView& capture : view.captures) group.captures.push_back({std::move(capture), node});
}

// Of one window there are as many captures as ranks.
constexpr int64_t kMostOfWindow = kMaxGroupMembers;
// The newest rows of a schedule's history; a group's window that is older has none of them.
constexpr int64_t kMostRowsOfHistory = 10'000;
// Captures of a window are created at its time, or a little later (ScheduleRunner::kMaxLateness).
constexpr absl::Duration kWindowSlack = absl::Seconds(10);

absl::StatusOr<std::vector<CaptureView>> ListOne(Invocation& invocation,
                                                 const CaptureFilter& filter) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalStore> store, LocalStore::Find(invocation));
  if (store != nullptr) return store->ListCaptures(filter, kMostOfWindow);
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  return daemon->ListCaptures(filter, kMostOfWindow);
}

std::vector<GroupMember> RanksWithoutCaptureAnywhere(Invocation& invocation, Fleet& fleet,
                                                     absl::Duration timeout,
                                                     std::span<const CaptureRecord* const> group) {
  std::vector<std::vector<GroupMember>> by_node(fleet.members().size());
  RunOnAll(invocation, fleet, timeout, [&](size_t node, DaemonClient& daemon) -> absl::Status {
    by_node[node] = RanksWithoutCapture(daemon, fleet.members()[node].node, group);
    daemon.LimitCalls(absl::InfiniteFuture());
    return absl::OkStatus();
  });
  std::vector<GroupMember> all;
  for (std::vector<GroupMember>& ranks : by_node) std::ranges::move(ranks, std::back_inserter(all));
  return all;
}

// The same, of the daemon that is asked; a store alone has no history that it could ask.
std::vector<GroupMember> RanksWithoutCaptureHere(Invocation& invocation,
                                                 std::span<const CaptureRecord* const> group) {
  const absl::StatusOr<std::unique_ptr<LocalStore>> store = LocalStore::Find(invocation);
  if (!store.ok() || *store != nullptr) return {};
  const absl::StatusOr<DaemonClient*> daemon = invocation.Daemon();
  if (!daemon.ok()) return {};
  return RanksWithoutCapture(**daemon, group.front()->node, group);
}

// A node that fails here has answered before, or is named already.
std::vector<CaptureView> ListAll(Invocation& invocation, Fleet& fleet, absl::Duration timeout,
                                 const CaptureFilter& filter) {
  std::vector<std::vector<CaptureView>> by_node(fleet.members().size());
  RunOnAll(invocation, fleet, timeout, [&](size_t node, DaemonClient& daemon) -> absl::Status {
    ASSIGN_OR_RETURN(by_node[node], daemon.ListCaptures(filter, kMostOfWindow));
    daemon.LimitCalls(absl::InfiniteFuture());
    for (CaptureView& view : by_node[node]) view.record.node = fleet.members()[node].node;
    return absl::OkStatus();
  });
  std::vector<CaptureView> all;
  for (std::vector<CaptureView>& views : by_node) {
    std::ranges::move(views, std::back_inserter(all));
  }
  return all;
}

std::string WhyBeside(const CaptureView& view) {
  const CaptureRecord& record = view.record;
  if (!record.error_message.empty()) return record.error_message;
  const std::string where =
      record.group_id.empty() ? std::string() : StrCat(", in group ", record.group_id);
  if (record.windows.empty()) {
    return StrCat("its capture ", record.id, " is ", view.state, where);
  }
  return StrCat("it began at another step, ", record.windows.front().first_step, where);
}

absl::StatusOr<GroupView> GetOne(Invocation& invocation, const std::string& id) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LocalStore> store, LocalStore::Find(invocation));
  if (store != nullptr) return store->GetCaptureGroup(id);
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  return daemon->GetCaptureGroup(id);
}

void Overlay(FoundGroup& group) {
  for (const FoundCaptureOf& capture : group.captures) {
    const CaptureRecord& record = capture.view.record;
    const auto member =
        std::ranges::find(group.record.members, record.id, &GroupMember::capture_id);
    if (member == group.record.members.end()) continue;
    member->state = record.state;
    if (!record.error_message.empty()) member->error = record.error_message;
  }
  std::ranges::stable_sort(group.record.members, {}, [](const GroupMember& member) {
    return std::tuple(member.rank, member.node, member.pid);
  });
  std::ranges::stable_sort(group.captures, {}, [](const FoundCaptureOf& capture) {
    const CaptureRecord& record = capture.view.record;
    return std::tuple(RankOf(record.target), capture.node, record.target.pid);
  });
}

}  // namespace

std::vector<int64_t> RanksWithoutTrace(std::span<const CaptureRecord* const> captures) {
  std::vector<TargetInfo> targets;
  for (const CaptureRecord* const capture : captures) {
    if (capture->imported.source.empty()) return {};
    targets.push_back(capture->target);
  }
  return AbsentRanks(targets);
}

std::optional<CaptureFilter> WindowOfGroup(std::span<const CaptureRecord* const> group) {
  if (group.empty() || group.front()->schedule_id.empty()) return std::nullopt;
  const absl::Time window = absl::FromUnixNanos(group.front()->schedule_window_unix_ns);
  return CaptureFilter{.since = window - kWindowSlack,
                       .until = window + kWindowSlack,
                       .schedule = group.front()->schedule_id,
                       .job = JobOf(group.front()->target),
                       .include_deleted = true};
}

std::vector<GroupMember> RanksBesideGroup(std::span<const CaptureRecord* const> group,
                                          std::span<const CaptureView> of_window) {
  std::vector<GroupMember> beside;
  for (const CaptureView& view : of_window) {
    const CaptureRecord& record = view.record;
    if (group.empty() || record.group_id == group.front()->group_id ||
        record.schedule_window_unix_ns != group.front()->schedule_window_unix_ns) {
      continue;
    }
    beside.push_back({.node = record.node,
                      .pid = record.target.pid,
                      .rank = RankOf(record.target),
                      .state = record.state,
                      .error = WhyBeside(view)});
  }
  return beside;
}

std::vector<GroupMember> RanksWithoutCapture(DaemonClient& daemon, std::string_view node,
                                             std::span<const CaptureRecord* const> group) {
  if (!WindowOfGroup(group).has_value()) return {};
  const CaptureRecord& of = *group.front();
  std::vector<WindowView> rows = daemon.ListScheduleWindows(of.schedule_id, kMostRowsOfHistory)
                                     .value_or(std::vector<WindowView>());
  std::erase_if(rows, [&](const WindowView& row) {
    return absl::ToUnixNanos(row.window.time) != of.schedule_window_unix_ns ||
           row.window.pid == 0 || !row.window.capture_id.empty();
  });
  if (rows.empty()) return {};
  const std::vector<TargetInfo> targets = daemon.ListTargets().value_or(std::vector<TargetInfo>());
  std::vector<GroupMember> ranks;
  for (const WindowView& row : rows) {
    const auto target = std::ranges::find(targets, row.window.pid, &TargetInfo::pid);
    if (target == targets.end() || JobOf(*target) != JobOf(of.target)) continue;
    ranks.push_back({.node = std::string(node),
                     .pid = row.window.pid,
                     .rank = RankOf(*target),
                     .state = CaptureState::kFailed,
                     .error = StrCat("no capture (", row.outcome, "): ", row.window.detail)});
  }
  return ranks;
}

std::optional<std::string> WholeGroupId(std::string_view text) {
  std::string id(WithoutPrefix(text, kGroupsPrefix));
  for (char& c : id) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  if (!IsUlid(id)) return std::nullopt;
  return id;
}

absl::StatusOr<FoundGroup> FindGroup(Invocation& invocation, Fleet* fleet, const std::string& id) {
  FoundGroup group;
  absl::Duration timeout;
  if (fleet == nullptr) {
    ASSIGN_OR_RETURN(GroupView view, GetOne(invocation, id));
    Merge(std::move(view), 0, group);
  } else {
    ASSIGN_OR_RETURN(timeout, NodeTimeoutOf(invocation));
    std::vector<std::optional<GroupView>> views(fleet->members().size());
    group.outcomes = RunOnAll(invocation, *fleet, timeout,
                              [&](size_t node, DaemonClient& daemon) -> absl::Status {
                                absl::StatusOr<GroupView> view = daemon.GetCaptureGroup(id);
                                daemon.LimitCalls(absl::InfiniteFuture());
                                if (absl::IsNotFound(view.status())) return absl::OkStatus();
                                RETURN_IF_ERROR(view.status());
                                for (CaptureView& capture : view->captures) {
                                  capture.record.node = fleet->members()[node].node;
                                }
                                views[node] = *std::move(view);
                                return absl::OkStatus();
                              });
    for (size_t node = 0; node < views.size(); ++node) {
      if (views[node].has_value()) Merge(*std::move(views[node]), node, group);
    }
  }
  if (group.captures.empty()) {
    return absl::NotFoundError(StrCat("no group ", id, " on any node that answered"));
  }
  std::vector<const CaptureRecord*> records;
  for (const FoundCaptureOf& capture : group.captures) records.push_back(&capture.view.record);
  if (const std::optional<CaptureFilter> window = WindowOfGroup(records)) {
    std::vector<CaptureView> views;
    if (fleet == nullptr) {
      ASSIGN_OR_RETURN(views, ListOne(invocation, *window));
    } else {
      views = ListAll(invocation, *fleet, timeout, *window);
    }
    std::ranges::move(RanksBesideGroup(records, views), std::back_inserter(group.record.members));
    std::ranges::move(fleet == nullptr
                          ? RanksWithoutCaptureHere(invocation, records)
                          : RanksWithoutCaptureAnywhere(invocation, *fleet, timeout, records),
                      std::back_inserter(group.record.members));
  }
  Overlay(group);
  records.clear();  // In the order of Overlay().
  for (const FoundCaptureOf& capture : group.captures) records.push_back(&capture.view.record);
  group.ranks_without_trace = RanksWithoutTrace(records);
  return group;
}

DaemonClient& OwnerOf(const FoundCaptureOf& capture, Invocation& invocation, Fleet* fleet) {
  return fleet != nullptr ? *fleet->connection(capture.node) : **invocation.Daemon();
}

}  // namespace profd::cli
