// Signs that a thread waits for Python's lock (GIL), which another thread of the process holds.
//
// A thread that wants the lock waits for the switch interval, 5 ms unless the program changes it,
// before it asks the holder to give it up. One that loses the lock in each operator, as PyTorch
// gives it up there, waits so at many places: its gaps are of 5 ms or a little more, or very short.
//
// Threads: one.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_PYTHON_LOCK_H_
#define PROFD_DAEMON_REPORT_FINDINGS_PYTHON_LOCK_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "daemon/report/time/host_split.h"

namespace profd::report {

// Gaps of 1 ms or more, by whether they are as long as such a wait.
class LockGaps {
 public:
  void Add(const HostGap& gap);

  // Whether most of their time is in gaps of the switch interval or more, many of these are about
  // as long as it is, and they are at different places: one sleep of 5 ms is not such a wait.
  bool LookLikeWaits() const;
  int64_t interval_count() const { return interval_count_; }  // About as long as it.

 private:
  int64_t count_ = 0;
  int64_t total_ns_ = 0;
  int64_t waiting_ns_ = 0;  // Of it, in gaps of the interval or more.
  int64_t interval_count_ = 0;
  std::optional<std::pair<uint32_t, uint32_t>> place_;  // Of the first of these.
  bool at_two_places_ = false;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_PYTHON_LOCK_H_
