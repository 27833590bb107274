// A group by its id, from one daemon or from all of a fleet: any member answers for all of them,
// and each knows best how its own captures are.
#ifndef PROFD_CLI_CAPTURES_FIND_GROUP_H_
#define PROFD_CLI_CAPTURES_FIND_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"

namespace profd::cli {

struct FoundCaptureOf {
  CaptureView view;
  size_t node = 0;  // Of the fleet's members; 0 where there is one daemon.
};

struct FoundGroup {
  // Members of nodes that were not asked, or did not answer, are as somebody has told of them.
  GroupRecord record;
  std::vector<FoundCaptureOf> captures;  // Of the nodes that answered.
  std::vector<int64_t> ranks_without_trace;
  std::vector<NodeOutcome> outcomes;  // As the fleet's members; empty: it was one daemon.
};

// The ranks of a job of which no trace was imported, in order; empty where `captures` are not all
// imported: who captures a job knows whom it missed, and says so; who imports traces knows only
// those that there are.
std::vector<int64_t> RanksWithoutTrace(std::span<const CaptureRecord* const> captures);
inline constexpr std::string_view kNoTraceMessage = "no trace of it was imported";

// Finds the captures of the scheduled window, of the group's job, that `group` is of; nullopt: no
// schedule made the group.
std::optional<CaptureFilter> WindowOfGroup(std::span<const CaptureRecord* const> group);
// The ranks whose captures of that window are not in the group: they began at another step, or were
// not captured. Their members have no capture of the group, and `error` says why.
std::vector<GroupMember> RanksBesideGroup(std::span<const CaptureRecord* const> group,
                                          std::span<const CaptureView> of_window);
// The ranks of the group's job on that daemon's node that had no capture in that window, as the
// schedule's history has it: another capture was live, or the window was skipped to limit what
// sampling costs. Only processes that still run tell their job and rank, so others are left out;
// all are if the daemon does not show the caller that history.
std::vector<GroupMember> RanksWithoutCapture(DaemonClient& daemon, std::string_view node,
                                             std::span<const CaptureRecord* const> group);

// "groups/ID" or the whole id of a group or a capture, in upper case; nullopt: none of these.
std::optional<std::string> WholeGroupId(std::string_view text);

// `fleet` nullptr: the daemon of `invocation`, or its store (LocalStore::Find). NOT_FOUND: nobody
// that answered has such a group.
absl::StatusOr<FoundGroup> FindGroup(Invocation& invocation, Fleet* fleet, const std::string& id);

// The daemon that has one of its captures.
DaemonClient& OwnerOf(const FoundCaptureOf& capture, Invocation& invocation, Fleet* fleet);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_FIND_GROUP_H_
