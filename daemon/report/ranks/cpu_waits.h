// StepCpuWaits tells how long the threads that work on the steps of a capture waited for a CPU in
// each step, from the capture's CpuRecord.
//
// Known are the wait of each thread in all windows, and the sum over all threads at the times of
// samples. The wait of the threads that work on steps is divided among the steps as the sum grew in
// them. Without samples around a step, it is divided evenly over the time.
//
// Not all of the wait in a step made the step longer: a thread may also wait for a CPU when a
// collective that it waited for is done. Waits of other threads, such as those that share an
// operator or load data, are not in it.
//
// Threads: any. Errors: none; any numbers are safe.
#ifndef PROFD_DAEMON_REPORT_RANKS_CPU_WAITS_H_
#define PROFD_DAEMON_REPORT_RANKS_CPU_WAITS_H_

#include <cstdint>
#include <span>

#include "daemon/capture/capture_types.h"

namespace profd::report {

// Shorter times tell too little of how long threads wait for a CPU to blame that.
inline constexpr int64_t kShortestCpuWatchNs = 50'000'000;

// Whether `cpu` tells how long threads of the target waited.
inline bool KnowsCpuWaits(const CpuRecord& cpu) {
  return cpu.watched_ns >= kShortestCpuWatchNs && !cpu.misses_waits_of_target();
}

class StepCpuWaits {
 public:
  // `os_threads`: those that work on the steps, by their number in the target's namespace; first
  // the one that marks the steps, whose waits must be known. They work in turn. Empty: none is
  // known, and the one that ran longest is taken. `cpu` must outlive this.
  StepCpuWaits(const CpuRecord& cpu, std::span<const int64_t> os_threads);

  // 0..duration_ns; -1: not known.
  int64_t In(int64_t start_ns, int64_t duration_ns) const;
  // Likewise, in a step of this time, whenever it was.
  int64_t OnAverage(int64_t duration_ns) const;

 private:
  // `share`: of the wait of the threads, what is in a step of this time.
  int64_t OfStep(double share, int64_t duration_ns) const;
  // The sum of all threads at this time, which is between the first and the last sample.
  double SumAt(double time_ns) const;

  const CpuRecord& cpu_;
  int64_t waited_ns_ = -1;  // By the threads; -1: not known.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_CPU_WAITS_H_
