// The ranks of jobs compared over many windows, from the summaries that daemons keep after the
// events are removed. Each daemon knows its own ranks only; profctl joins them by group, and
// compares each group as `profctl stragglers` does (set_collectives.h).
//
// Threads: pure functions.
#ifndef PROFD_CLI_CAPTURES_RANK_HISTORY_H_
#define PROFD_CLI_CAPTURES_RANK_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/captures/set_collectives.h"
#include "cli/client/history.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

// One capture of a window.
struct RankOfWindow {
  std::string capture;  // ID
  std::string node;
  int64_t pid = 0;
  int64_t rank = -1;    // -1: not known
  std::string missing;  // Why it is not compared; empty: it is.
};

// One group.
struct RankWindow {
  std::string group;  // ID
  std::string job;
  std::string schedule;               // ID; empty: not a scheduled window.
  int64_t time_unix_ns = 0;           // When the first rank began to record, or was asked to.
  std::vector<RankOfWindow> members;  // By rank, node, pid.
  std::vector<int64_t> absent_ranks;  // Of the job, without a capture in the answers.
  int64_t left_out_step_count = 0;    // Of the member with the most; beyond a summary's limit.
  report::GroupSteps steps;           // Members as above.
  int64_t rejected_count = 0;         // Matched collectives, as report::ClockAlignment.

  bool has_verdict() const { return steps.verdict != report::StragglerVerdict::kWithheld; }
  // Whether the others wait for it: a straggler, or the one of two ranks that the other waits for.
  bool IsSlow(const report::RankScore& rank) const;
};

struct RankHistory {
  std::vector<RankWindow> windows;  // Oldest first.
  int64_t left_out_count = 0;       // Older windows, beyond the limit.
  bool has_more = false;            // A daemon has older captures than it was asked for.
};

// Joins what all daemons answered; `limit`: the newest windows, 0: all. Where a daemon has older
// captures than it sent, windows that those may be part of are left out and counted.
RankHistory JoinRankHistory(std::vector<RankSummaries> of_daemons, int64_t limit);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_RANK_HISTORY_H_
