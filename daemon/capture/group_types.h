// Captures of several targets, also on several nodes, that were asked for together: one group.
// Values only.
//
//   CreateGroup ─────────────► all armed ─► the daemon itself chooses the step      one node
//   PrepareGroup ─► held ────► CommitGroup: whoever asked has chosen the step ──┐   many nodes
//                    └─ lease over, AbortGroup ─► nothing is armed              └─► CloseGroup
//
// A commit with a lease, too, holds only until the window begins: repeat it to renew the lease.
#ifndef PROFD_DAEMON_CAPTURE_GROUP_TYPES_H_
#define PROFD_DAEMON_CAPTURE_GROUP_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd {

inline constexpr int64_t kMaxGroupMembers = 16384;
inline constexpr absl::Duration kDefaultGroupLease = absl::Seconds(30);
inline constexpr absl::Duration kMaxGroupLease = absl::Minutes(10);

// One member of a group, wherever it is. What is not on this node is what the group's creator
// has reported: hearsay.
struct GroupMember {
  std::string node;        // As Capture.node.
  std::string address;     // Where the creator reached its daemon; empty: a local socket.
  std::string capture_id;  // ULID; empty: it could not be prepared, `error` says why.
  int64_t pid = 0;
  int64_t rank = -1;                            // -1: not known
  CaptureState state = CaptureState::kPending;  // As last known here.
  std::string error;                            // For people; empty: none.
  // The node's wall clock less that of the creator, and the bound on that figure's error, ns.
  int64_t clock_offset_ns = 0;
  int64_t clock_bound_ns = -1;  // -1: not measured.

  friend bool operator==(const GroupMember&, const GroupMember&) = default;
};

struct GroupRecord {
  std::string id;  // ULID, made by the creator.
  std::vector<GroupMember> members;
  int64_t first_step = -1;  // The same for all; -1: by time, or not committed.
  int64_t steps = 0;        // Asked for, per window; 0: by time.
  absl::Time create_time;
  std::string requested_by;  // As CaptureRecord::requested_by.
  bool closed = false;       // The creator has reported how all members ended.

  friend bool operator==(const GroupRecord&, const GroupRecord&) = default;
};

// What is asked of this node's part of a group.
struct GroupRequest {
  std::string id;  // ULID
  std::vector<TargetNumber> targets;
  CaptureSpec spec;  // Without start_step.
  absl::Duration lease = kDefaultGroupLease;
  // What is left of the lease when the caller stops watching before the commit. Infinite: all.
  absl::Duration lease_without_caller = absl::InfiniteDuration();
};

// What has become of one of its targets.
struct PreparedMember {
  TargetNumber target = 0;
  std::optional<CaptureRecord> capture;  // nullopt: refused before there was one.
  bool prepared = false;                 // Armed, and held until CommitGroup.
  int64_t current_step = -1;             // Of the target; -1: not known.
  int64_t median_step_ns = 0;            // Of its last steps; 0: not known.
  std::string error_reason;              // Stable; empty: none.
  std::string error_message;
};
struct GroupPreparation {
  std::vector<PreparedMember> members;  // In the order in which they were asked for.
  bool settled = false;                 // Each is prepared or has failed.
};

// When the members begin.
struct GroupStart {
  int64_t first_step = -1;  // -1: by time, or of steps that each capture counts itself.
  absl::Time time = absl::InfinitePast();  // Without a step: when; InfinitePast: now.
  std::vector<GroupMember> members;        // All of all nodes, as the creator knows them.
  // How long a member waits for its window to begin. Infinite: until its timeout.
  absl::Duration lease = absl::InfiniteDuration();
};
struct MemberStart {
  std::string capture_id;
  bool started = false;       // Told, and not past the step when last heard of.
  int64_t current_step = -1;  // -1: not known
  std::string error_reason;   // Stable; empty: none.
  std::string error_message;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_GROUP_TYPES_H_
