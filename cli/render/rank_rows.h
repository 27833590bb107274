// The rank of a comparison as a row: of `stragglers`, and of every window of `history
// --stragglers`.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_RANK_ROWS_H_
#define PROFD_CLI_RENDER_RANK_ROWS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/table/description.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::cli {

struct RankRow {
  int64_t member = 0;  // Its position in the list of members.
  std::string capture;
  std::string node;
  int64_t pid = 0;
  int64_t rank = -1;
  report::RankScore of;  // Figures of collectives are -1 where none were matched.
  // NaN: too few ranks.
  double score = std::numeric_limits<double>::quiet_NaN();
  bool is_slow = false;
  // Of history only: the window.
  std::string group;
  std::string job;
  int64_t time_unix_ns = 0;
  report::StragglerVerdict verdict = report::StragglerVerdict::kWithheld;
  report::StragglerReason reason = report::StragglerReason::kNone;
};

// `of`: one of steps.ranking. The rest of the row is for the caller to fill in.
RankRow RankRowOf(const report::GroupSteps& steps, const report::RankScore& of);

// Fields that all rows have, from the rank's number to whether it is a straggler.
std::vector<table::Field<RankRow>> ComparedRankFields();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_RANK_ROWS_H_
