// Reports over the captures of several ranks that were taken together. They compare tables of
// single captures (op_table.h, collectives.h); no event is read twice.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_
#define PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/ops/op_table.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/collectives.h"

namespace profd::report {

// ---- operators ----

struct GroupOpRow {
  std::string name;
  int64_t step = -1;         // With OpOptions.by_step.
  std::string dims, types;   // With OpOptions.by_inputs.
  int64_t member_count = 0;  // Members that ran it.
  // Of the figure that rows are sorted by, over all members that are there: one that did not run it
  // has 0. Per step with GroupOps.per_step.
  int64_t min = 0;
  int64_t median = 0;
  int64_t max = 0;
  size_t slowest = 0;            // The member with the most.
  std::vector<int64_t> figures;  // By member; 0 also of one that is missing.
  int64_t median_calls = 0;
  double calls_per_step = -1;  // Median over the ranks that ran it; -1: not GroupOps.per_step.
};
struct GroupOps {
  std::vector<GroupOpRow> rows;      // By median, descending; ties by name.
  int64_t row_count = 0;             // Before `limit`.
  std::vector<int64_t> step_counts;  // By member: the steps that it was recorded in.
  // Figures are per step: they are sums of times, rows are not by step already, and all members
  // have steps.
  bool per_step = false;
  // Figures are totals of members with different numbers of steps, and not to be compared.
  bool differ_in_steps = false;
};
// What `sort` sorts by, of one row. kName: self CPU time.
int64_t FigureOf(const OpRow& row, OpSort sort);
// `tables` are the members', whole, all made with these options; nullptr: a member without.
// Rows are those of OpOptions.by_step and by_inputs (`by_step`: the former); `limit` 0: all.
GroupOps CompareOps(std::span<const OpTable* const> tables, OpSort sort, int64_t limit,
                    bool by_step = false);

// ---- steps and stragglers ----

// What a rank did in a step: duration = own + transfer + wait.
//
//   own       its own work: all time that no collective was waited for
//   transfer  in collectives, what also the rank that waited least had to spend
//   wait      in collectives, for ranks that came later; in sends and receives, for the peer
//
// Of one matched collective, the transfer is its shortest duration over the ranks. Where ranks
// are missing, what they would have shown counts as transfer. Of sends and receives, see
// peer_waits.h: of more than two ranks, it is not known for which one a rank waits.
struct RankStep {
  int64_t step = -1;  // -1: a window of a capture without steps.
  int64_t duration_ns = 0;
  int64_t own_ns = 0;
  int64_t transfer_ns = 0;
  int64_t wait_ns = 0;
  int64_t peer_wait_ns = 0;                   // Of wait_ns, in sends and receives.
  std::map<size_t, int64_t> wait_ns_by_last;  // Of wait_ns, by the member that was waited for.
  // Of its own work, how long the threads that work on the step waited for a CPU, at most; -1: not
  // known.
  int64_t cpu_wait_ns = -1;
};

struct GroupStepRow {
  int64_t step = -1;
  int64_t member_count = 0;  // That have it.
  int64_t min_ns = 0;        // Durations
  int64_t median_ns = 0;
  int64_t max_ns = 0;
  size_t slowest = 0;  // The member with the most own work.
  int64_t slowest_own_ns = 0;
  int64_t median_own_ns = 0;
  size_t waited_most = 0;  // The member that waited longest.
  int64_t longest_wait_ns = 0;
};

// Ranks are compared over the steps that all of them have.
//
// Of one matched collective, the rank with the shortest duration arrived last, since all end it
// together; the others waited for it. Ranks are ordered by the wait that they caused. That is the
// sum of what the others waited for them in each step: of two ranks, the wait of one is what the
// other caused.
//
// The score is the modified z-score of own work:
//
//   0.6745 x (median over its steps - median over ranks) / max(MAD over ranks, 1 % of a step)
//
// MAD is the median absolute deviation. Where the middle two of an even number of ranks are 10 % of
// a step apart, both medians are the lower one: half of the ranks may be slow. The 1 % keeps ranks
// that are all but equal from being outliers of each other. A rank is a straggler if all of these
// hold:
//
//   - there are at least three ranks and three common steps, and its score is above 3.5;
//   - it has more own work than the other ranks step by step: the lower end of the 95 % interval
//     of the median difference is 10 % of a step (20 % with fewer than five steps), and the median
//     is twice its standard deviation;
//   - the stragglers together caused at least half of the wait. In a pipeline, where most of the
//     wait is in sends and receives, each of them waits less than the other ranks instead, by at
//     least half of its additional own work: a wait passes from stage to stage, and ends at the
//     slow one.
//
// Medians do not show a rank that is slow in every third step, or by another time in each. Where
// they name no straggler, ranks that delay the others in some steps are stragglers if chance does
// not explain it (slow_steps.h), and neither do waits for a CPU in those steps.
//
// What does not hold up is withheld, with a reason.
//
// Own work contains waits for a CPU (cpu_waits.h), which another program may cause. How much longer
// they make a step is not known, only that it is no more than the wait. So they are a possible
// cause of a rank's additional own work if they make up at least half of it: the median over the
// steps of its wait less the median of the others'. Waits of other ranks that are not known count
// as none. What else takes longer is shown with it: on a busy machine, a rank that works more also
// waits more. Where a difference between ranks is withheld as noise, and waits for a CPU differ by
// at least half of it, they are the reason.
inline constexpr double kStragglerScore = 3.5;
inline constexpr int64_t kFewestForStragglers = 3;
inline constexpr int64_t kFewestStepsForStragglers = 3;
// Whether waits for a CPU can be at least half of a rank's additional own work.
enum class CpuWaitCause {
  kUnknown,   // Its waits are not known.
  kNo,        // They are too short, or it has no additional own work.
  kPossible,  // They can.
};
std::string_view ToString(CpuWaitCause cause);  // "possible"

struct RankScore {
  size_t member = 0;
  int64_t step_count = 0;
  // Medians over its steps.
  int64_t duration_ns = 0;
  int64_t own_ns = 0;
  int64_t transfer_ns = 0;
  int64_t wait_ns = 0;
  int64_t peer_wait_ns = 0;  // Of wait_ns, in sends and receives.
  // How long the other ranks waited for it, all together: median over its steps, as wait_ns is.
  int64_t caused_wait_ns = 0;
  int64_t mean_caused_wait_ns = 0;  // Likewise, the mean: waits in few steps show.
  int64_t last_count = 0;           // Matched collectives at which it arrived last.
  int64_t late_ns = 0;              // By how much, after the rank before it: mean per step.
  int64_t usual_late_ns = 0;        // Likewise, the median over the steps.
  std::string group;         // In which others waited most for it: Communicator::shown_name().
  int64_t more_own_ns = 0;   // Median over its steps: own work less the other ranks' median.
  int64_t cpu_wait_ns = -1;  // Of its own work: median over its steps. -1: not known.
  // Over its steps, its wait for a CPU less the other ranks' median: the median, and the mean, for
  // waits in few steps. 0: not known.
  int64_t more_cpu_wait_ns = 0;
  int64_t mean_more_cpu_wait_ns = 0;
  CpuWaitCause slow_by_cpu_waits = CpuWaitCause::kUnknown;
  bool is_consistent = false;  // It has more own work step by step, beyond noise.
  // Steps in which it delays the others, by longer than any other rank does (slow_steps.h), and the
  // delays: the mean, the least, and the most.
  std::vector<int64_t> slow_steps;
  int64_t slow_step_delay_ns = 0;
  int64_t least_slow_step_delay_ns = 0;
  int64_t most_slow_step_delay_ns = 0;
  int64_t slow_step_period = 0;  // They are each third step: 3; 0: no such pattern.
  // Likewise slow_by_cpu_waits, of these steps; kUnknown also where chance explains them.
  CpuWaitCause slow_steps_by_cpu_waits = CpuWaitCause::kUnknown;
  bool is_beyond_chance = false;  // Chance does not explain its slow_steps.
  bool is_slow_in_steps = false;  // It is named for its slow_steps, not for its median step.
  double score = 0;               // 0: too few ranks
  double relative = 0;            // The least own work of any rank over its own, 0..1.
  bool straggler = false;
};

enum class StragglerVerdict {
  kWithheld,   // The data does not tell; see StragglerReason.
  kNone,       // No rank is one.
  kStraggler,  // At least one is.
  kPair,       // Two ranks: the other one waits for the first of the ranking.
};
std::string_view ToString(StragglerVerdict verdict);  // "withheld"
enum class StragglerReason {
  kNone,
  kTooFewRanks,    // One.
  kTooFewSteps,    // In common.
  kNoCollectives,  // None were recorded.
  kNoMatches,      // None of one rank was found in another, or their ends are not recorded.
  kWithinNoise,    // A rank has more own work, but not step by step.
  kContradiction,  // The rank with more own work is not the one that the others waited for.
  kHiddenWait,     // A rank arrives late, but the others show no wait.
  kSpread,         // With kNone: ranks differ step by step, but none is an outlier.
  kUnsteady,       // With kNone: the others wait, for another rank each time.
  kFewSteps,       // With kNone: the others wait for one rank, but not in most steps.
  kCpuWaits,       // Ranks waited for a CPU, which can explain how they differ.
};
std::string_view ToString(StragglerReason reason);  // "within_noise"
// For people: a clause without a period; empty for kNone.
std::string_view TextOf(StragglerReason reason);

// "in 4 of 12 steps, by 58 ms each (every 3rd step: 3, 6, 9, 12)". Empty: it has no slow_steps.
std::string SlowStepsText(const RankScore& rank);

// One matched collective: who kept the others waiting.
struct CollectiveBlame {
  size_t match = 0;  // Index into the matches.
  int64_t step = -1;
  CollectiveKind kind = CollectiveKind::kOther;
  std::string group;          // Communicator::shown_name()
  size_t last = 0;            // The member that arrived last.
  int64_t late_by_ns = 0;     // After the one before it.
  int64_t total_wait_ns = 0;  // Of all others.
  struct Wait {
    size_t member = 0;
    int64_t wait_ns = 0;
  };
  std::vector<Wait> waits;  // By member, without the last one.
};
inline constexpr size_t kMostBlames = 100;

struct GroupSteps {
  std::vector<GroupStepRow> rows;              // By step, of all members that have it.
  std::vector<std::vector<RankStep>> members;  // By member, then by step.
  std::vector<int64_t> common_steps;           // That all members have; the ranking is over these.
  std::vector<RankScore> ranking;              // Stragglers, then by caused wait, then by own work.
  std::vector<CollectiveBlame> blames;         // The kMostBlames with the most wait, most first.
  int64_t matched_count = 0;                   // Collectives that were matched.
  bool is_pipeline = false;                    // Most of the wait is in sends and receives.
  bool has_collectives = false;                // If not, ranks that wait look like ranks that work.
  bool enough_ranks = false;                   // For scores.
  StragglerVerdict verdict = StragglerVerdict::kWithheld;
  StragglerReason reason = StragglerReason::kNone;
  // Waits for a CPU can be at least half of a straggler's additional own work or, where no rank is
  // one, of the differences that were found.
  bool cpu_waits_can_explain = false;
};
// `tables`: of each member; nullptr: a member without. `matches` are theirs.
GroupSteps CompareSteps(std::span<const CollectiveTable* const> tables,
                        std::span<const MatchedCollective> matches);

// The wait in sends and receives of the ranks that are not stragglers: median over the ranks.
int64_t UsualPeerWait(const GroupSteps& steps);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_
