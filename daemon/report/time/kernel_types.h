// Time in which kinds of GPU work ran at once.
//
// Threads: any. Memory: 16 bytes for each begin and end.
#ifndef PROFD_DAEMON_REPORT_TIME_KERNEL_TYPES_H_
#define PROFD_DAEMON_REPORT_TIME_KERNEL_TYPES_H_

#include <span>
#include <vector>

#include "daemon/report/index/interval_set.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

using Intervals = std::span<const IntervalSet::Interval>;

// The arguments are unions, by time. Most time first; combinations that never ran are left out.
std::vector<KernelTypeTime> TimesByType(Intervals compute, Intervals communication,
                                        Intervals copies);

// Returns the time of the rows with both compute and communication.
int64_t OverlapNs(const std::vector<KernelTypeTime>& types);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_KERNEL_TYPES_H_
