// Delays between launches and the begin of their work, and the launch queues of streams.
//
// Threads: any. Memory: 40 bytes per launch, and 16 for each change of a queue.
#ifndef PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_
#define PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_

#include <cstdint>
#include <vector>

#include "daemon/report/index/interval_set.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

// A piece of GPU work and the call that launched it.
struct TimedLaunch {
  int64_t call_start_ns;
  int64_t call_end_ns;
  int64_t start_ns;
  int64_t device_ns;  // May be below zero, as HTA rounds.
  uint32_t call;      // The number of the call; one call may launch several pieces.
  uint32_t stream;    // The position of its stream, in the caller's order.
  // Of the call, waiting: for room in a full launch queue, or for a copy.
  int64_t wait_ns = 0;

  int64_t work_ns() const;  // Of the call, without that.
};

// Returns one launch per call: it begins with its first piece, and its time is the sum of all.
std::vector<TimedLaunch> MergeByCall(std::vector<TimedLaunch> launches);

// Adds each launch to the fields `count` to `late_count`.
void AddLaunches(const std::vector<TimedLaunch>& launches, LaunchStatistics& statistics);

// Returns one row for each of `streams` (position -> number) with launches, by number. `full`: when
// the queue of each was full, by position; nullptr: not asked for.
std::vector<QueueRow> QueueLengths(const std::vector<TimedLaunch>& launches,
                                   const std::vector<int64_t>& streams,
                                   std::vector<IntervalSet>* full = nullptr);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_LAUNCH_TIMING_H_
