// Which nodes, jobs and targets sample a window, and at which steps: hash(schedule, window, what is
// chosen) and nothing else, so that nodes agree without asking each other, and all can tell
// afterwards why.
//
// A share takes each by its own hash; a number takes those with the highest (rendezvous hashing:
// when one goes or comes, the others' places stay). Every window chooses anew.
//
// Threads: pure functions.
#ifndef PROFD_DAEMON_SCHEDULE_SAMPLE_CHOICE_H_
#define PROFD_DAEMON_SCHEDULE_SAMPLE_CHOICE_H_

#include <optional>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/common_start.h"
#include "daemon/schedule/schedule_types.h"
#include "daemon/schedule/window_times.h"

namespace profd {

struct Choice {
  bool chosen = true;
  double weight = 1;  // 1 / the chance of being chosen.
};

// With SampleUnit::kNodes: whether `node` samples the window. With other units every node does.
Choice ChooseNode(const ScheduleSpec& spec, std::string_view schedule_id, absl::Time window,
                  std::string_view node);

struct ChosenTarget {
  TargetInfo target;
  double weight = 1;  // Without the node's.
};

// Of `candidates` on `node`, those that the window samples, in an order by chance. With
// SampleUnit::kJobs a target without a job is a job of its own.
std::vector<ChosenTarget> ChooseTargets(const ScheduleSpec& spec, std::string_view schedule_id,
                                        absl::Time window, std::string_view node,
                                        std::vector<TargetInfo> candidates);

// Returns the number of a window, by its nominal time: consecutive for `every`; for cron a hash,
// which is as often a multiple of 2, 4, 8, ... as a number is.
int64_t NumberOf(const ScheduleSpec& spec, std::string_view schedule_id, absl::Time window);

// Where `target`, a rank of a job, begins the window; nullopt: as soon as it can, because it is not
// such a rank, or the windows have no steps that ranks have in common.
std::optional<CommonStart> CommonStartOf(const ScheduleSpec& spec, std::string_view schedule_id,
                                         const WindowTime& window, const TargetInfo& target);

}  // namespace profd

#endif  // PROFD_DAEMON_SCHEDULE_SAMPLE_CHOICE_H_
