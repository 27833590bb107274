#include "cli/captures/find_group.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <tuple>
#include <utility>

#include "cli/captures/group_start.h"
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
  // -1 on a node that the commit did not reach.
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

// The newest rows of a schedule's history; a group's window that is older has none of them.
constexpr int64_t kMostRowsOfHistory = 10'000;
// Captures of a window are created at its time, or a little later (ScheduleRunner::kMaxLateness).
constexpr absl::Duration kWindowSlack = absl::Seconds(10);

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

CaptureFilter WindowOf(const CaptureRecord& of) {
  const absl::Time window = absl::FromUnixNanos(of.schedule_window_unix_ns);
  return {.since = window - kWindowSlack,
          .until = window + kWindowSlack,
          .schedule = of.schedule_id,
          .job = JobOf(of.target),
          .include_deleted = true};
}

std::vector<GroupMember> WithCapture(const CaptureRecord& of, std::span<const CaptureView> views,
                                     std::string_view node) {
  std::vector<GroupMember> members;
  for (const CaptureView& view : views) {
    const CaptureRecord& record = view.record;
    // Captures of the group are listed already.
    if (record.group_id == of.group_id ||
        record.schedule_window_unix_ns != of.schedule_window_unix_ns) {
      continue;
    }
    members.push_back({.node = node.empty() ? record.node : std::string(node),
                       .pid = record.target.pid,
                       .rank = RankOf(record.target),
                       .state = record.state,
                       .error = WhyBeside(view)});
  }
  return members;
}

absl::StatusOr<std::vector<GroupMember>> WithoutCapture(DaemonClient& daemon, std::string_view node,
                                                        const CaptureRecord& of) {
  const absl::Time window = absl::FromUnixNanos(of.schedule_window_unix_ns);
  ASSIGN_OR_RETURN(std::vector<WindowView> rows,
                   daemon.ListScheduleWindows(of.schedule_id, kMostRowsOfHistory, window));
  std::erase_if(rows, [&](const WindowView& row) {
    return row.window.time != window || row.window.pid == 0 || !row.window.capture_id.empty();
  });
  std::vector<GroupMember> members;
  if (rows.empty()) return members;
  ASSIGN_OR_RETURN(const std::vector<TargetInfo> targets, daemon.ListTargets());
  for (const WindowView& row : rows) {
    // The PID may belong to another process by now.
    const auto target = std::ranges::find_if(targets, [&](const TargetInfo& candidate) {
      return candidate.pid == row.window.pid &&
             candidate.process_start_ticks == row.window.process_start_ticks;
    });
    if (target == targets.end() || JobOf(*target) != JobOf(of.target)) continue;
    members.push_back({.node = node.empty() ? row.node : std::string(node),
                       .pid = row.window.pid,
                       .rank = RankOf(*target),
                       .state = CaptureState::kFailed,
                       .error = StrCat("no capture (", row.outcome, "): ", row.window.detail)});
  }
  return members;
}

// Of the daemon that is asked.
absl::StatusOr<std::vector<GroupMember>> OthersHere(Invocation& invocation,
                                                    const CaptureRecord& of) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  return OthersOfWindow(*daemon, "", of);
}

// A node that fails is in `group.outcomes`.
std::vector<GroupMember> OthersOnFleet(Invocation& invocation, Fleet& fleet, absl::Duration timeout,
                                       const CaptureRecord& of, FoundGroup& group) {
  std::vector<std::vector<GroupMember>> by_node(fleet.members().size());
  const std::vector<NodeOutcome> outcomes =
      RunOnAll(invocation, fleet, timeout, [&](size_t node, DaemonClient& daemon) -> absl::Status {
        ASSIGN_OR_RETURN(by_node[node], OthersOfWindow(daemon, fleet.members()[node].node, of));
        daemon.LimitCalls(absl::InfiniteDuration());
        return absl::OkStatus();
      });
  std::vector<GroupMember> others;
  for (size_t node = 0; node < by_node.size(); ++node) {
    if (group.outcomes[node].status.ok()) group.outcomes[node].status = outcomes[node].status;
    std::ranges::move(by_node[node], std::back_inserter(others));
  }
  return others;
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

constexpr size_t kMostListed = 16;

// NOT_FOUND, with a row for each capture of the group.
absl::Status ThisIsAGroup(GroupView group) {
  // Members on nodes that were not asked are known by the group's record only.
  std::vector<GroupMember>& members = group.record.members;
  for (const CaptureView& view : group.captures) {
    const CaptureRecord& record = view.record;
    const auto known = std::ranges::find(members, record.id, &GroupMember::capture_id);
    if (known != members.end()) continue;
    members.push_back({.node = record.node,
                       .capture_id = record.id,
                       .pid = record.target.pid,
                       .rank = RankOf(record.target)});
  }
  std::erase_if(members, [](const GroupMember& member) { return member.capture_id.empty(); });
  std::ranges::stable_sort(members, {}, [](const GroupMember& member) {
    return std::tuple(member.rank, member.node, member.pid);
  });
  std::string rows;
  for (const GroupMember& member :
       std::span(members).first(std::min(members.size(), kMostListed))) {
    StrAppend(&rows, "\n  ", member.capture_id, "  ",
              member.rank < 0 ? "" : StrCat("rank ", member.rank, ", "), "pid ", member.pid,
              member.node.empty() ? "" : StrCat(" on ", member.node));
  }
  if (members.size() > kMostListed) {
    StrAppend(&rows, "\n  and ", members.size() - kMostListed, " more: `profctl show ",
              group.record.id, "`");
  }
  return absl::NotFoundError(StrCat(
      group.record.id, " is the ID of a group, and this command takes captures. Choose one:", rows,
      "\n`profctl ops`, `steps`, `report`, `stragglers`, `show`, `export`, and `fetch` take the "
      "group."));
}

}  // namespace

std::vector<Failure> CapturesElsewhere(const FoundGroup& group) {
  const bool is_fleet = !group.outcomes.empty();
  std::vector<Failure> failures;
  for (const GroupMember& member : group.record.members) {
    const bool is_here = std::ranges::any_of(group.captures, [&](const FoundCaptureOf& capture) {
      return capture.view.record.id == member.capture_id;
    });
    if (is_here || member.capture_id.empty()) continue;
    failures.push_back(
        {member.capture_id, member.node,
         absl::NotFoundError(is_fleet ? "its node did not answer, or is not in --nodes"
                                      : "its node was not asked; name it with --nodes, too")});
  }
  return failures;
}

std::vector<int64_t> RanksWithoutTrace(std::span<const CaptureRecord* const> captures) {
  std::vector<TargetInfo> targets;
  for (const CaptureRecord* const capture : captures) {
    if (capture->imported.source.empty()) return {};
    targets.push_back(capture->target);
  }
  return AbsentRanks(targets);
}

absl::StatusOr<std::vector<GroupMember>> OthersOfWindow(DaemonClient& daemon, std::string_view node,
                                                        const CaptureRecord& of) {
  if (of.schedule_id.empty()) return std::vector<GroupMember>();
  ASSIGN_OR_RETURN(const std::vector<CaptureView> views,
                   daemon.ListCaptures(WindowOf(of), kMaxGroupMembers));
  std::vector<GroupMember> others = WithCapture(of, views, node);
  absl::StatusOr<std::vector<GroupMember>> without = WithoutCapture(daemon, node, of);
  // Schedules need rights of their own. Without them, what the captures show is enough.
  const bool is_hidden =
      absl::IsNotFound(without.status()) || absl::IsPermissionDenied(without.status());
  if (is_hidden) return others;
  RETURN_IF_ERROR(without.status());
  std::ranges::move(*without, std::back_inserter(others));
  return others;
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
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    ASSIGN_OR_RETURN(GroupView view, daemon->GetCaptureGroup(id));
    Merge(std::move(view), 0, group);
  } else {
    ASSIGN_OR_RETURN(timeout, NodeTimeoutOf(invocation));
    std::vector<std::optional<GroupView>> views(fleet->members().size());
    group.outcomes = RunOnAll(invocation, *fleet, timeout,
                              [&](size_t node, DaemonClient& daemon) -> absl::Status {
                                absl::StatusOr<GroupView> view = daemon.GetCaptureGroup(id);
                                daemon.LimitCalls(absl::InfiniteDuration());
                                // A node of the list need not have a member of this group.
                                if (absl::IsNotFound(view.status())) return absl::OkStatus();
                                RETURN_IF_ERROR(view.status());
                                for (CaptureView& capture : view->captures) {
                                  // By the name in the list, under which it can be asked again.
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
  const CaptureRecord of = group.captures.front().view.record;
  if (!of.schedule_id.empty()) {
    std::vector<GroupMember> others;
    if (fleet == nullptr) {
      ASSIGN_OR_RETURN(others, OthersHere(invocation, of));
    } else {
      others = OthersOnFleet(invocation, *fleet, timeout, of, group);
    }
    std::ranges::move(others, std::back_inserter(group.record.members));
  }
  Overlay(group);
  std::vector<const CaptureRecord*> records;
  for (const FoundCaptureOf& capture : group.captures) records.push_back(&capture.view.record);
  group.ranks_without_trace = RanksWithoutTrace(records);
  return group;
}

absl::Status WhyNoCapture(DaemonClient& daemon, const std::string& id, absl::Status not_found) {
  if (!absl::IsNotFound(not_found)) return not_found;
  absl::StatusOr<GroupView> group = daemon.GetCaptureGroup(id);
  return group.ok() ? ThisIsAGroup(*std::move(group)) : not_found;
}

absl::Status WhyNoCapture(Invocation& invocation, Fleet& fleet, const std::string& id,
                          absl::Status not_found) {
  if (!absl::IsNotFound(not_found)) return not_found;
  absl::StatusOr<FoundGroup> found = FindGroup(invocation, &fleet, id);
  if (!found.ok()) return not_found;
  GroupView group = {.record = std::move(found->record)};
  for (FoundCaptureOf& capture : found->captures) group.captures.push_back(std::move(capture.view));
  return ThisIsAGroup(std::move(group));
}

absl::StatusOr<DaemonClient*> OwnerOf(const FoundCaptureOf& capture, Invocation& invocation,
                                      Fleet* fleet) {
  if (fleet == nullptr) return invocation.Daemon();
  if (DaemonClient* const daemon = fleet->connection(capture.node)) return daemon;
  return absl::UnavailableError(
      StrCat("node ", fleet->members()[capture.node].node, " cannot be reached any more"));
}

}  // namespace profd::cli
