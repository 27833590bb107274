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
#include "cli/base/failures.h"
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

// Captures of the group on nodes that were not asked, or did not answer.
std::vector<Failure> CapturesElsewhere(const FoundGroup& group);

// The ranks of a job of which no trace was imported, in order; empty where `captures` are not all
// imported: who captures a job knows whom it missed, and says so; who imports traces knows only
// those that there are.
std::vector<int64_t> RanksWithoutTrace(std::span<const CaptureRecord* const> captures);
inline constexpr std::string_view kNoTraceMessage = "no trace of it was imported";

// The ranks of the scheduled window of `of`, a capture of a group, that are not in the group: they
// began at another step, their captures failed, or they had none, because another was live or the
// window was skipped to limit what sampling costs. The members have no capture, and `error` says
// why. Ranks without a capture are in the schedule's history: they are left out if the caller may
// not read it, or if their process has ended, which alone tells its job and rank. Empty: no
// schedule made the group. `node`: what the daemon's node is called; empty: as it calls itself.
absl::StatusOr<std::vector<GroupMember>> OthersOfWindow(DaemonClient& daemon, std::string_view node,
                                                        const CaptureRecord& of);

// "groups/ID" or the whole id of a group or a capture, in upper case; nullopt: none of these.
std::optional<std::string> WholeGroupId(std::string_view text);

// `fleet` nullptr: the daemon of `invocation`. NOT_FOUND: no daemon that answered has such a group.
absl::StatusOr<FoundGroup> FindGroup(Invocation& invocation, Fleet* fleet, const std::string& id);

// The error of a command that takes captures, for `id`, of which `not_found` says that no capture
// has it. If a group has it, the message says so and lists the group's captures, so that the user
// can paste one; else it is `not_found`. The code stays.
absl::Status WhyNoCapture(DaemonClient& daemon, const std::string& id, absl::Status not_found);
absl::Status WhyNoCapture(Invocation& invocation, Fleet& fleet, const std::string& id,
                          absl::Status not_found);

// The daemon that has one of its captures.
absl::StatusOr<DaemonClient*> OwnerOf(const FoundCaptureOf& capture, Invocation& invocation,
                                      Fleet* fleet);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_FIND_GROUP_H_
