// Reports over the captures of several ranks that were taken together. They compare tables of
// single captures (op_table.h, collectives.h); no event is read twice.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_
#define PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_

#include <cstdint>
#include <span>
#include <string>
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
  // has 0.
  int64_t min = 0;
  int64_t median = 0;
  int64_t max = 0;
  size_t slowest = 0;            // The member with the most.
  std::vector<int64_t> figures;  // By member; 0 also of one that is missing.
  int64_t median_calls = 0;
};
struct GroupOps {
  std::vector<GroupOpRow> rows;  // By median, descending; ties by name.
  int64_t row_count = 0;         // Before `limit`.
};
// What `sort` sorts by, of one row. kName: self CPU time.
int64_t FigureOf(const OpRow& row, OpSort sort);
// `tables` are the members', whole, all made with these options; nullptr: a member without.
// Rows are those of OpOptions.by_step and by_inputs; `limit` 0: all.
GroupOps CompareOps(std::span<const OpTable* const> tables, OpSort sort, int64_t limit);

// ---- steps and stragglers ----

// What a rank did in a step: duration = own + transfer + wait.
//
//   own       its own work: all time that no collective was waited for
//   transfer  in collectives, what also the rank that waited least had to spend
//   wait      in collectives, for ranks that came later
//
// Of one matched collective, the transfer is its shortest duration over the ranks. Where ranks
// are missing, what they would have shown counts as transfer.
struct RankStep {
  int64_t step = -1;  // -1: a window of a capture without steps.
  int64_t duration_ns = 0;
  int64_t own_ns = 0;
  int64_t transfer_ns = 0;
  int64_t wait_ns = 0;
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

// Ranks compared by the modified z-score of their own work:
//
//   0.6745 x (median over its steps - median over ranks) / max(MAD over ranks, 1 % of a step)
//
// MAD is the median absolute deviation. Above 3.5 a rank is a straggler; fewer than three ranks
// tell nothing. The 1 % keeps ranks that are all but equal from being outliers of each other.
inline constexpr double kStragglerScore = 3.5;
inline constexpr int64_t kFewestForStragglers = 3;
struct RankScore {
  size_t member = 0;
  int64_t step_count = 0;
  // Medians over its steps.
  int64_t duration_ns = 0;
  int64_t own_ns = 0;
  int64_t transfer_ns = 0;
  int64_t wait_ns = 0;
  double score = 0;     // 0: too few ranks
  double relative = 0;  // The least own work of any rank over its own, 0..1.
  bool straggler = false;
};

struct GroupSteps {
  std::vector<GroupStepRow> rows;              // By step.
  std::vector<std::vector<RankStep>> members;  // By member, then by step.
  std::vector<RankScore> ranking;              // By score, highest first, then by own work.
  int64_t matched_count = 0;                   // Collectives that were matched.
  bool has_collectives = false;                // If not, ranks that wait look like ranks that work.
  bool enough_ranks = false;                   // For scores.
};
// `tables`: of each member; nullptr: a member without. `matches` are theirs.
GroupSteps CompareSteps(std::span<const CollectiveTable* const> tables,
                        std::span<const MatchedCollective> matches);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_GROUP_REPORTS_H_
