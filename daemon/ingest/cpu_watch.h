// CpuWatch measures how long the threads of a process run, and how long they are ready to run but
// wait for a CPU, while a capture records; and by how much its resident memory grows.
//
// Source:  /proc/PID/task/TID/schedstat: time on a CPU and in its queue, ns. See
//          Documentation/scheduler/sched-stats.rst of Linux. Anybody may read it; kernels without
//          CONFIG_SCHED_INFO, and /proc mounted with hidepid, have none. /proc/PID/statm: pages.
// Cost:    two reads of all threads per window, at most kMostThreads; nothing in the target.
// Threads: one.
// Errors:  what cannot be read is left out; Take() is empty then.
#ifndef PROFD_DAEMON_INGEST_CPU_WATCH_H_
#define PROFD_DAEMON_INGEST_CPU_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd {

class CpuWatch {
 public:
  // Further threads are not looked at.
  static constexpr size_t kMostThreads = 1024;

  // `pid`: in our namespace; 0: not known, so that nothing is measured.
  explicit CpuWatch(int64_t pid) : pid_(pid) {}

  // A window has begun or ended at `now`, of any steady clock. Each does nothing if it is so
  // already.
  void Begin(absl::Duration now);
  void End(absl::Duration now);

  // The sums over all windows that have ended; of threads that were there from a window's begin to
  // its end.
  CpuRecord Take() const;

 private:
  struct Times {
    int64_t ran_ns = 0;
    int64_t waited_ns = 0;
  };
  std::map<int64_t, Times> Read() const;
  int64_t ReadResidentBytes() const;  // -1: not known.

  const int64_t pid_;
  bool is_open_ = false;
  absl::Duration begin_time_;
  std::map<int64_t, Times> begin_;  // By thread, in our namespace.
  std::map<int64_t, Times> sums_;
  int64_t watched_ns_ = 0;
  int64_t resident_begin_bytes_ = -1;
  int64_t resident_end_bytes_ = -1;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CPU_WATCH_H_
