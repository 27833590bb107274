// Finds ranks that delay the others in some steps only, or by another time in each step: extra
// work in every third step (logging, checkpoints, evaluation), inputs of varying length.
//
//   rank 0   ── own work ──┤ wait ──────┤    ── own work ──┤
//   rank 1   ── own work ───────────────┤    ── own work ──┤
//                          └─── delay ──┘    (no delay)
//
// The delay that a rank causes in a step is seen from both sides: it is the lesser of its own work
// above the other ranks' median, and of the longest wait of another rank for it. Work at the end of
// a step, after its last collective, delays the next step's collectives; it counts for the step in
// which the rank worked.
//
// A delay is considerable from 10 % of a step. Of the ranks that cause one in a step, the one with
// the longest counts. Among equal ranks, chance decides which one that is. Ranks are slow if:
//
//   - they are the ones in so many of those steps that chance is unlikely (kMostChance): a binomial
//     test, corrected for the number of ranks that it may have been;
//   - that is at least two thirds of those steps, and of all considerable delay;
//   - the delay is at least 3 % of the time of all steps.
//
// Few steps are not enough for that, unless they have a pattern: in every third step, a rank works
// more while the others work as usual. The chance of such a pattern is a factor then.
//
// On a busy machine every step has small delays. So longer delays are also tested alone: those of
// at least half of the third longest.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_SLOW_STEPS_H_
#define PROFD_DAEMON_REPORT_RANKS_SLOW_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/report/ranks/group_reports.h"

namespace profd::report {

// By member, then by step: the delay that it causes. `members` have their common steps only; a
// member without any is no rank.
std::vector<std::vector<int64_t>> DelaysOf(const std::vector<std::vector<RankStep>>& members);

struct SlowSteps {
  size_t member = 0;
  std::vector<size_t> steps;    // Indexes of common steps, in order: it causes the longest delay.
  std::vector<int64_t> delays;  // By step of `steps`.
  int64_t period = 0;           // It is each `period`th step, 2 or more; 0: no such pattern.
  bool is_chance = true;        // It may be any rank: chance is not ruled out, or it is too little.
};

// Returns the ranks that cause considerable delays, most delay first. `step_ns`: the usual duration
// of a step.
std::vector<SlowSteps> FindSlowSteps(const std::vector<std::vector<RankStep>>& members,
                                     int64_t step_ns);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_SLOW_STEPS_H_
