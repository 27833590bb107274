// The vocabulary of scheduled sampling: what a schedule asks for (ScheduleSpec), what it is
// (ScheduleRecord), and what became of its windows (ScheduleWindow). Values only.
//
// How do I add something one can ask of a schedule?  A field in ScheduleSpec with its range and
// default, a line in ValidateScheduleSpec() (schedule_spec.cc), the field in
// proto/profd/v1/schedules.proto, a line in schedule_fields.h, and a flag in
// cli/commands/schedule_flags.cc.
#ifndef PROFD_DAEMON_SCHEDULE_SCHEDULE_TYPES_H_
#define PROFD_DAEMON_SCHEDULE_SCHEDULE_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/access.h"
#include "daemon/capture/capture_types.h"

namespace profd {

// The units of which a share or a number is chosen. Kept in files.
enum class SampleUnit { kNodes = 0, kTargets = 1, kJobs = 2 };
std::string_view ToString(SampleUnit unit);  // "nodes"
std::optional<SampleUnit> SampleUnitFromString(std::string_view text);

// All that are set must match.
struct TargetSelector {
  std::string job;                              // As JobOf(), exactly.
  std::vector<int64_t> ranks;                   // Any of these; at most 1024.
  std::string command;                          // Part of the command.
  std::map<std::string, std::string> metadata;  // All of these; at most 32.
  std::string pod_namespace;
  std::optional<int64_t> uid;

  friend bool operator==(const TargetSelector&, const TargetSelector&) = default;
};
bool Matches(const TargetSelector& selector, const TargetInfo& target);

// How much of what the selector finds a window samples; neither: all.
struct SampleSpec {
  SampleUnit unit = SampleUnit::kNodes;
  double fraction = 0;  // (0, 1]
  int64_t count = 0;    // Of targets and jobs: per node. Of nodes: of ScheduleSpec.nodes.

  friend bool operator==(const SampleSpec&, const SampleSpec&) = default;
};

// On one node, for one schedule. 0: no limit.
struct ScheduleBudget {
  int64_t captures_per_hour = 0;
  int64_t bytes_per_day = 0;  // Of capture files, 1 MiB at least.
  double time_share = 0;      // [0, 1]: of wall time that any one target is being captured.

  friend bool operator==(const ScheduleBudget&, const ScheduleBudget&) = default;
};

inline constexpr int64_t kMaxStepGrid = int64_t{1} << 20;
inline constexpr int64_t kMaxStepLead = 1'000'000;

// Exactly one of `every` and `cron` is set.
struct ScheduleSpec {
  absl::Duration every = absl::ZeroDuration();  // [10s, 30d]; 0: by `cron`.
  bool align = false;                           // At multiples of `every`, without a phase.
  std::string cron;                             // In UTC; see cron.h.
  absl::Duration jitter =
      absl::ZeroDuration();  // [0, 1h], below half of what lies between windows.
  CaptureSpec capture;
  TargetSelector selector;
  SampleSpec sample;
  ScheduleBudget budget;
  // Where ranks of a job begin a window of steps (capture/common_start.h): one in `step_grid` steps
  // is a start, a power of two, 1..kMaxStepGrid; 0: every rank begins as soon as it can.
  int64_t step_grid = 256;
  int64_t step_lead = 64;                        // Steps from the decision on, 0..kMaxStepLead.
  double max_slowdown = 0.05;                    // Of the governor (governor.h); 0: off.
  absl::Time end_time = absl::InfiniteFuture();  // No window later than this.
  std::vector<std::string> nodes;  // It was placed on these; at most 16,384 names, 256 KiB.
  bool pin = false;                // Pin the captures: their events are never removed to make room.
  std::string display_name;        // At most 128 bytes, printable UTF-8.

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

enum class ScheduleState { kActive = 1, kPaused = 2, kEnded = 3, kDeleted = 4 };
std::string_view ToString(ScheduleState state);  // "ACTIVE"

struct ScheduleRecord {
  std::string id;  // ULID; the same on all nodes that it was placed on.
  ScheduleSpec spec;
  Principal creator;  // As whom it captures.
  absl::Time create_time;
  bool paused = false;
  absl::Time delete_time = absl::InfiniteFuture();  // InfiniteFuture: it was not.
  // When the last window was due that is in the history, before its jitter. The next is later.
  absl::Time last_window = absl::InfinitePast();
  // Hex; equal if SameSchedule(). The store fills it in.
  std::string spec_hash;
  int64_t version = 1;  // Of the declaration; a higher one replaces it, also a deletion.
};
// Whether `nodes` decides which nodes are sampled: a number of nodes is chosen from that list.
inline bool NodesDecide(const ScheduleSpec& spec) {
  return spec.sample.unit == SampleUnit::kNodes && spec.sample.count > 0;
}
// Whether two specs differ at most in the nodes that they were placed on.
bool SameButNodes(const ScheduleSpec& a, const ScheduleSpec& b);
// Whether two specs ask for the same. The node list counts only if it decides.
bool SameSchedule(const ScheduleSpec& a, const ScheduleSpec& b);

// Of a spec; a deletion may have one more, so that every schedule can be deleted.
inline constexpr int64_t kMaxScheduleVersion = int64_t{1} << 53;

// What a schedule is to be on a node. The same declaration may be given to every node, in any order
// and again: the highest version wins.
struct ScheduleDeclaration {
  std::string id;       // ULID
  int64_t version = 1;  // 1..kMaxScheduleVersion
  bool deleted = false;
  ScheduleSpec spec;  // Unless it is deleted.
};
// What a declaration changes.
enum class DeclaredChange { kNone = 1, kCreated = 2, kUpdated = 3, kDeleted = 4 };
std::string_view ToString(DeclaredChange change);  // "created"
ScheduleState StateOf(const ScheduleRecord& record, absl::Time now);
// Whose it is, for AccessRules.
Ownership OwnerOf(const ScheduleRecord& record);

// What became of a window for a target, or for none. Kept in files: never change or reuse one.
enum class WindowOutcome {
  kCaptured = 1,
  kNotChosen = 2,    // Neither this node nor what the selector finds here.
  kNoTarget = 3,     // The selector finds nothing here.
  kBusy = 4,         // Somebody captures the target, or the node runs as many as it may.
  kOverBudget = 5,   // `detail` says which.
  kBackedOff = 6,    // The governor's doing.
  kPaused = 7,       // The schedule was.
  kMissed = 8,       // profd was not running, or the clock jumped.
  kSwitchedOff = 9,  // Captures of the node were.
  kNotAllowed = 10,  // Its creator may not capture the target.
  kFailed = 11,      // There was a capture, or nearly, and nothing came of it.
};
std::string_view ToString(WindowOutcome outcome);  // "not_chosen"
std::optional<WindowOutcome> WindowOutcomeFromString(std::string_view text);

struct ScheduleWindow {
  std::string schedule_id;
  absl::Time time;  // When it was due, with its jitter.
  WindowOutcome outcome = WindowOutcome::kMissed;
  std::string detail;               // For people.
  std::string capture_id;           // Empty: there was none.
  int64_t pid = 0;                  // 0: of no target.
  int64_t process_start_ticks = 0;  // Of the target.
  double sampling_weight = 0;       // 0: of no target
  bool ended = true;                // False: the capture runs.
  int64_t bytes = 0;                // Of its file; while it runs, the most that it may become.
  int64_t busy_ns = 0;              // How long the target was being captured.
  // The governor's state of the target after this window.
  int64_t backoff_level = 0;
  int64_t skips_left = 0;
  // From the capture's record, filled in where windows are listed; 0: not known.
  int64_t step_before_ns = 0;
  int64_t step_during_ns = 0;
  int64_t step_after_ns = 0;
  std::string group_id;     // Of the ranks that began at the same step; empty: none, or not yet.
  int64_t first_step = -1;  // That was recorded; -1: not known.

  friend bool operator==(const ScheduleWindow&, const ScheduleWindow&) = default;
};

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SCHEDULE_TYPES_H_
