// When the members of a job-wide capture begin, and whether enough of them can: what
// group_capture.h decides, without its calls.
//
// Threads: pure functions.
#ifndef PROFD_CLI_CAPTURES_GROUP_START_H_
#define PROFD_CLI_CAPTURES_GROUP_START_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd::cli {

// One exchange with a node's clock, by our own wall clock.
struct ClockProbe {
  int64_t sent_unix_ns = 0;
  int64_t answered_unix_ns = 0;  // The answer came back.
  int64_t node_unix_ns = 0;      // What the node's clock said in between.
};
// The node's wall clock less ours, and how far that can be off: half the round trip.
struct ClockOffset {
  int64_t offset_ns = 0;
  int64_t bound_ns = -1;  // -1: not measured
};
// From the probe with the shortest round trip: what waited least says most. `probes` empty: not
// measured.
ClockOffset OffsetFrom(std::span<const ClockProbe> probes);

// How far a member was when it was last seen.
struct MemberPace {
  int64_t step = -1;           // -1: not known
  int64_t median_step_ns = 0;  // 0: not known
  absl::Time read;             // When, by our clock.
};
// The first step to record: one that none of `members` has reached `lead` from now, with room
// for the waiting and warming up that `spec` asks for.
int64_t FirstStepFor(std::span<const MemberPace> members, const CaptureSpec& spec,
                     absl::Duration lead, absl::Time now);
// Whether each of `members` is at most 10 s from where the furthest is `lead` from now. Ranks of a
// job are.
bool RunInStep(std::span<const MemberPace> members, absl::Duration lead, absl::Time now);

// How many members must be prepared: all, so many, or so many per cent of them (rounded up).
// Without one those that can be are enough.
struct Quorum {
  int64_t count = 0;    // 0: not by count
  int64_t percent = 0;  // 0: not by percentage; 100: all
};
// Removes the processes of other users from `targets`, which name the same job, and returns them:
// any process may say that it is of a job. The job's user is the one with the most processes of
// those whose job the daemon knows by their cgroup; without any such, of all.
std::vector<TargetInfo> TakeOutOtherUsers(std::vector<TargetInfo>& targets);
// "pid 4711 is left out: it belongs to uid 65534, and job 88123 to another user"
std::string WhyOtherUser(const TargetInfo& target, std::string_view job);

// Returns the number of ranks of the job whose processes `targets` are: the largest one that a
// process reports (metadata "world_size"). nullopt if none reports one, if it is more than a group
// may have, or if a process reports no rank: it may be any.
std::optional<int64_t> WorldSizeOf(std::span<const TargetInfo> targets);
// Returns the ranks below WorldSizeOf() that no process of `targets` has, in order.
std::vector<int64_t> AbsentRanks(std::span<const TargetInfo> targets);

// "all", "7", "90%". INVALID_ARGUMENT (USAGE).
absl::StatusOr<Quorum> QuorumFrom(std::string_view text);
// Returns how many members a job has. The ranks know: a node without an answer adds none if
// `world_size` is known. Otherwise it counts as one member, because it may have some.
int64_t MembersAskedFor(int64_t members, int64_t unanswered_nodes,
                        std::optional<int64_t> world_size);
// `asked`: MembersAskedFor().
bool IsMet(const std::optional<Quorum>& quorum, int64_t prepared, int64_t asked);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_GROUP_START_H_
