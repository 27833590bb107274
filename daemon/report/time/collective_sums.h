// What a capture's collectives took, summed by kind, number of ranks and size.
//
// Threads: any. Memory: by rows.
#ifndef PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_
#define PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_

#include <vector>

#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

// Most exposed first.
std::vector<CollectiveSumRow> SumCollectives(const CollectiveTable& table);

// How often the input of a collective of `ranks` has to cross a rank's links, at least, as
// NCCL's tests count it ("busbw"); -1: not defined for this kind, or ranks are not told.
double BusFactor(CollectiveKind kind, int64_t ranks);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_COLLECTIVE_SUMS_H_
