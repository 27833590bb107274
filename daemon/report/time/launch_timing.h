// How long launches took to begin, and how many of them waited in their streams.
//
// Threads: any. Memory: 40 bytes per launch, and 16 for each change of a queue.
#ifndef PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_
#define PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_

#include <cstdint>
#include <vector>

#include "daemon/report/time/time_report.h"

namespace profd::report {

// A piece of GPU work and the call that launched it.
struct TimedLaunch {
  int64_t call_start_ns;
  int64_t call_end_ns;
  int64_t start_ns;
  int64_t device_ns;  // May be below zero, as HTA rounds.
  uint32_t call;      // Which: pieces with the same were launched by one.
  uint32_t stream;    // Position of its stream, in whatever order streams have.
};

// One for each call: it begins with its first piece, and takes as long as all of them.
std::vector<TimedLaunch> MergeByCall(std::vector<TimedLaunch> launches);

// Adds to `count` ... `late_count` what each of `launches` says.
void AddLaunches(const std::vector<TimedLaunch>& launches, LaunchStatistics& statistics);

// One row for each of `streams` (position -> number) that has any launches, by number.
std::vector<QueueRow> QueueLengths(const std::vector<TimedLaunch>& launches,
                                   const std::vector<int64_t>& streams);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_
