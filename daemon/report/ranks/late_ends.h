// LateEnds finds how late ranks recorded the end of a collective: a thread that has no CPU when the
// collective is done records its end when it runs again.
//
//   rank 0   ├──── waits ────────┬ transfer ┤
//   rank 1             ├─ waits ─┬ transfer ┤
//   rank 2                       ├ transfer ┼─ late ─┤     arrived last
//                                           done
//
// The last rank's duration is then no transfer time. The collective is done where the first rank
// ends it, of those whose clocks are known to be one, or were measured: no rank can end it before
// all have begun, and so ends at about the same time (Synchronises()).
//
// Clocks that are aligned on the ends themselves say nothing of them. So a rank that is alone on
// its host, without a measured clock, is never late. Nor is GPU work: no thread records its end.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_LATE_ENDS_H_
#define PROFD_DAEMON_REPORT_RANKS_LATE_ENDS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/report/ranks/clock_alignment.h"
#include "daemon/report/ranks/collective_match.h"

namespace profd::report {

// Ends that differ by less are those of ranks that run, and of clocks.
inline constexpr int64_t kShortestLateEndNs = 100'000;

class LateEnds {
 public:
  // `members` are those that the matches index; empty: nothing is known of their clocks. They must
  // outlive this.
  explicit LateEnds(std::span<const ClockMember> members);

  // By part of `match`: after the collective was done, 0..duration.
  std::vector<int64_t> Of(const MatchedCollective& match) const;

 private:
  // Since an origin that all share.
  double OwnTime(size_t member, int64_t time_ns) const;

  const std::span<const ClockMember> members_;
  std::vector<size_t> host_of_;  // By member: the first one of its host.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_LATE_ENDS_H_
