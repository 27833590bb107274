// What the other ranks of a group have of a figure in one step.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_REPORT_RANKS_OTHER_RANKS_H_
#define PROFD_DAEMON_REPORT_RANKS_OTHER_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/median.h"
#include "daemon/report/ranks/group_reports.h"

namespace profd::report {

inline int64_t OwnWork(const RankStep& step) { return step.own_ns; }

// Returns the median of `figure_of(step)` over the other members in the step at index `step`; 0:
// there are none. `members` have their common steps only; a member without any is no rank. Takes
// time for each member.
template <typename FigureOf>
int64_t MedianOfOthers(const std::vector<std::vector<RankStep>>& members, size_t member,
                       size_t step, FigureOf figure_of) {
  std::vector<int64_t> others;
  others.reserve(members.size());
  for (size_t other = 0; other < members.size(); ++other) {
    if (other != member && !members[other].empty()) {
      others.push_back(figure_of(members[other][step]));
    }
  }
  return Median(others);
}

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_OTHER_RANKS_H_
