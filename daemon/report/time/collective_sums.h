// Time of a capture's collectives, summed by kind, number of ranks, and size.
//
// Threads: any. Memory: per row.
#ifndef PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_
#define PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_

#include <vector>

#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

// Most exposed first.
std::vector<CollectiveSumRow> SumCollectives(const CollectiveTable& table);

// Returns how often, at least, the input of a collective of `ranks` has to cross a rank's links, as
// NCCL's tests define it ("busbw"); -1: not defined for this kind, or unknown ranks.
double BusFactor(CollectiveKind kind, int64_t ranks);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_
