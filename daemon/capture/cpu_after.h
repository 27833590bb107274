// How long threads of a target wait for a CPU after a capture, when nothing is recorded. Recording
// needs CPU time itself: where CPUs are few, threads wait for it. What they wait afterwards as well
// is the program's, or other processes'.
//
// Threads: one at a time. Errors: none; a thread that cannot be read has no times.
#ifndef PROFD_DAEMON_CAPTURE_CPU_AFTER_H_
#define PROFD_DAEMON_CAPTURE_CPU_AFTER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"

namespace profd {

class CpuAfter {
 public:
  // Threads that share a CPU take turns of some milliseconds, and the kernel moves them now and
  // then. In 200 ms one of three threads on two CPUs waited for 22 to 50 % of its time (12 tries),
  // in 100 ms for 12 to 51.
  static constexpr absl::Duration kEnough = absl::Milliseconds(200);
  // A shorter time says nothing.
  static constexpr absl::Duration kLeast = absl::Milliseconds(50);

  // Begins at `now`, here and below: of any steady clock. `read` is not empty.
  CpuAfter(CpuTimesReader read, absl::Duration now)
      : read_(std::move(read)), begin_(now), times_(read_()) {}

  absl::Duration end_of_enough() const { return begin_ + kEnough; }
  // Sets what `cpu`, of the same threads, has of the time after the windows. Once.
  void AddTo(absl::Duration now, CpuRecord& cpu) const;

 private:
  CpuTimesReader read_;
  absl::Duration begin_;
  std::vector<CpuTimes> times_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CPU_AFTER_H_
