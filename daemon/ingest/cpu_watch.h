// CpuWatch measures how long the threads of a process and its children run, and how long they are
// ready to run but wait for a CPU, while a capture records; and by how much its resident memory
// grows.
//
// Source:  /proc/PID/task/TID/schedstat: time on a CPU and in its queue, ns. See
//          Documentation/scheduler/sched-stats.rst of Linux. Anybody may read it; kernels without
//          CONFIG_SCHED_INFO, and /proc mounted with hidepid, have none. /proc/PID/statm: pages.
//          /proc/PID/task/PID/children (CONFIG_PROC_CHILDREN): children that the main thread
//          started, and no grandchildren.
// Cost:    two reads per window of all threads, at most kMostThreads, and of at most kMostChildren
//          children; nothing in the target.
// Threads: one.
// Errors:  what cannot be read is left out; Take() is empty then.
#ifndef PROFD_DAEMON_INGEST_CPU_WATCH_H_
#define PROFD_DAEMON_INGEST_CPU_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"

namespace profd {

class CpuWatch {
 public:
  // Further threads are not looked at.
  static constexpr size_t kMostThreads = 1024;
  static constexpr size_t kMostChildren = 256;  // Likewise.

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
  using ByNumber = std::map<int64_t, Times>;
  ByNumber ReadThreads() const;
  ByNumber ReadChildren() const;  // Their main threads, by PID.
  static std::optional<Times> ReadTimes(const std::string& folder);
  // Adds what those ran and waited that are in both.
  static void AddDifferences(const ByNumber& begin, const ByNumber& end, ByNumber& sums);
  int64_t ReadResidentBytes() const;  // -1: not known.

  const int64_t pid_;
  bool is_open_ = false;
  absl::Duration begin_time_;
  // By thread and by child, in our namespace.
  ByNumber threads_begin_;
  ByNumber threads_;
  ByNumber children_begin_;
  ByNumber children_;
  int64_t watched_ns_ = 0;
  int64_t resident_begin_bytes_ = -1;
  int64_t resident_end_bytes_ = -1;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CPU_WATCH_H_
