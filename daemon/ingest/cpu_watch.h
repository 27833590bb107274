// CpuWatch measures how long the threads of a process and its children run, and how long they are
// ready to run but wait for a CPU, while a capture records; and by how much its resident memory
// grows.
//
// Source:  /proc/PID/task/TID/schedstat: time on a CPU and in its queue, ns. See
//          Documentation/scheduler/sched-stats.rst of Linux. All may read it; kernels without
//          CONFIG_SCHED_INFO, and /proc mounted with hidepid, have none. /proc/PID/statm: pages.
//          /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN), up to 4 KiB of each. /proc/PID/stat:
//          how many threads there are, and how long they and those that ended ran.
//          The kernel counts a wait when it ends.
// Counts:  no threads of the client library: they are not the program's, and wait because they are
//          nice. Threads and processes that start in a window from their start, and those that end
//          in it up to the last sample before their end. Threads that are left out are counted.
// Cost:    a sample reads the threads of the target, its children, theirs, and theirs, within the
//          limits below; nothing in the target. Samples take about 2 % of the time of the calling
//          thread at most, not counting those with which a window begins and ends.
// Memory:  at most kMostSums sums of the target, and as many of its children.
// Threads: one.
// Errors:  what cannot be read is left out; Take() is empty then.
#ifndef PROFD_DAEMON_INGEST_CPU_WATCH_H_
#define PROFD_DAEMON_INGEST_CPU_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"

namespace profd {

class CpuWatch {
 public:
  // Of a sample. Further ones are not watched. Each thread takes about 10 us.
  static constexpr size_t kMostThreads = 768;       // Of the target.
  static constexpr size_t kMostReadThreads = 1024;  // With those of children.
  static constexpr size_t kMostChildren = 256;
  // Of a capture. Further threads, of programs that start many, have one sum together.
  static constexpr size_t kMostSums = 8192;

  // `pid`: in our namespace; 0: not known, so that nothing is measured. `proc`: where procfs is.
  explicit CpuWatch(int64_t pid, std::string proc = "/proc") : pid_(pid), proc_(std::move(proc)) {}

  // A window may begin soon. If Begin() comes later, the window is watched from the latest of these
  // calls on: it may have begun before the daemon sees that. May do nothing if there was another
  // call shortly before. `now`, here and below: of any steady clock.
  void Expect(absl::Duration now);
  // A window has begun or ended. Each does nothing if it is so already.
  void Begin(absl::Duration now);
  void End(absl::Duration now);
  // Takes a sample if a window has begun and it is time.
  void Sample(absl::Duration now);

  // The sums over all windows; one that has not ended counts up to its last sample. Times of
  // samples are of the caller's clock.
  CpuRecord Take() const;
  // Reads the threads of what Take() returns, also once this object is gone. Empty: there are none.
  CpuTimesReader TimesReader() const;

 private:
  struct Times {
    int64_t process = 0;
    int64_t ran_ns = 0;
    int64_t waited_ns = 0;
  };
  using ByThread = std::map<int64_t, Times>;
  using ThreadTimes = std::pair<int64_t, Times>;
  struct Reading {
    absl::Duration begin;  // By the clock of the kernel, as are the times of threads.
    absl::Duration end;
    ByThread threads;
    ByThread children;  // Their threads.
    int64_t unread_threads = 0;
    int64_t unread_children = 0;
    int64_t process_ran_ns = -1;  // All threads of the target, and those that ended. -1: not known.
    int64_t library_ran_ns = 0;   // Of that: threads of the client library.
  };
  Reading Read();
  // Takes the threads of the client library out of it.
  void LeaveOutLibrary(Reading& reading);
  struct ReadThreads {
    size_t count = 0;
    bool is_all = true;
  };
  // Adds at most `most` threads of a process to `times`, and its children to `children`, or to
  // `unread_children` those for which there is no room.
  ReadThreads ReadProcess(int64_t pid, size_t most, ByThread& times, std::vector<int64_t>& children,
                          int64_t& unread_children) const;
  struct ProcessStat {
    int64_t ran_ns = 0;  // In ticks of the kernel, 10 ms as a rule; of threads that ended, too.
    int64_t thread_count = 0;
  };
  std::optional<ProcessStat> ReadStat() const;
  int64_t UnwatchedRan(int64_t ran_ns) const;  // -1: not known.
  static std::optional<Times> ReadTimes(const std::string& folder);
  // Adds what was run and waited between the two, which are `apart`, to `sums`; returns the waits.
  static int64_t AddDifferences(const ByThread& before, const ByThread& after, absl::Duration apart,
                                ByThread& sums);
  // At most kMostCpuThreads, by how long they ran or waited, longest first.
  std::vector<ThreadTimes> LongestThreads() const;
  void Advance(absl::Duration now);
  void CountUnwatched(const Reading& reading);
  void AddSample(absl::Duration now);
  // Anonymous memory: that of a capture is shared, and grows with its events. -1: not known.
  int64_t ReadResidentBytes() const;

  const int64_t pid_;
  const std::string proc_;
  // Of the target; not known before the first reading. Names are the program's choice: one that
  // names a thread as the library does hides its waits, and no others.
  std::optional<std::vector<int64_t>> library_threads_;
  bool is_open_ = false;
  bool is_expected_ = false;
  absl::Duration begin_time_;
  absl::Duration reading_time_;
  Reading reading_;  // The latest one.
  // By thread, in our namespace.
  ByThread threads_;
  ByThread children_;
  std::vector<CpuSample> samples_;
  absl::Duration shortest_interval_;  // Of samples; grows with the capture.
  int64_t waited_ns_ = 0;
  int64_t children_waited_ns_ = 0;
  int64_t watched_ns_ = 0;
  int64_t unread_threads_ = 0;
  int64_t unread_children_ = 0;
  int64_t ended_threads_ = 0;
  int64_t process_ran_ns_ = 0;
  bool knows_process_ran_ = false;
  absl::Duration longest_reading_;
  int64_t window_count_ = 0;
  int64_t resident_begin_bytes_ = -1;
  int64_t resident_end_bytes_ = -1;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CPU_WATCH_H_
