// IdleSplit divides the idle time of a device among its causes, so that no time has two. A gap is
// cut at the call that launched the work after it:
//
//   host     … hipFree ┤   Python    ├─ operator ─┌ launch call ┐
//   device   ██▏allocator │ outside  │  dispatch  │ launch call │ late start ▕██
//               └────────── before the launch ───┘      in it        after it
//
// Before the launch, the host decides: each instant has the first cause of HostCause that applies.
// A call that waited for the GPU, or for memory, until the gap had begun kept the host from
// launching ahead: it has as much of the gap as it took itself. In the launch call, the driver
// decides; short calls are part of dispatch. Afterwards it is the GPU: a short wait between
// kernels, or work that is not recorded. In both, a call that frees memory, of any thread, holds
// the work up if it began before the launch ended.
//
// Threads: one. Memory: 24 bytes per interval of a cause.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_IDLE_SPLIT_H_
#define PROFD_DAEMON_REPORT_FINDINGS_IDLE_SPLIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/report/findings/scope.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/interval_set.h"

namespace profd::report {

// The sum is the idle time.
struct IdleParts {
  int64_t profiler_ns = 0;  // Its own time, which cannot be saved.
  // While another GPU of the process works, where they take turns: not saved by launching earlier.
  int64_t other_gpus_ns = 0;
  int64_t data_loader_ns = 0;
  // In calls that allocate or free memory, or because of them. After the launch: while a thread
  // frees.
  int64_t allocator_ns = 0;
  int64_t waiting_calls_ns = 0;  // Likewise of calls that wait for a GPU.
  int64_t compile_ns = 0;
  int64_t collectives_ns = 0;  // Of the host.
  int64_t long_call_ns = 0;    // In other API calls of kLongCallNs or longer, which launch nothing.
  int64_t outside_ns = 0;      // Host outside operators for kShortHostGapNs or longer.
  // In operators and ranges of kLongHostWorkNs or longer in which nothing is launched.
  int64_t host_work_ns = 0;
  int64_t dispatch_ns = 0;     // In operators, between them, and in launch calls of usual length.
  int64_t launch_call_ns = 0;  // In launch calls of kLongCallNs or longer.
  int64_t kernel_wait_ns = 0;  // Below kKernelWaitLimitNs, launched before.
  int64_t late_start_ns = 0;   // Of kLateStartNs or longer, launched before.
  int64_t other_ns = 0;        // Launched before, of a length between these; or no launch is known.

  int64_t host_ns() const { return outside_ns + dispatch_ns + launch_call_ns; }
  // While the next work was not launched.
  int64_t before_launch_ns() const {
    return data_loader_ns + allocator_ns + waiting_calls_ns + compile_ns + collectives_ns +
           long_call_ns + host_work_ns + host_ns();
  }
  int64_t total_ns() const;
  void Add(const IdleParts& parts);
  // Returns the parts without the time that a recording added: it is the profiler's own, then
  // dispatch, which recording slows most, and then a share of all parts.
  IdleParts Without(int64_t added_ns) const;
  // Returns the parts, each lowered as from `before` to `after`.
  IdleParts LoweredAs(const IdleParts& before, const IdleParts& after) const;
};

// API calls take a hundredth of this, as a rule.
inline constexpr int64_t kLongCallNs = 100'000;
inline constexpr int64_t kLongHostWorkNs = 1'000'000;
// An idle GPU begins with what is launched much sooner than this.
inline constexpr int64_t kLateStartNs = 1'000'000;

// By precedence. The first two apply after the launch, too.
enum class HostCause : uint8_t {
  kProfiler,
  kOtherGpu,
  kDataLoader,
  kAllocator,
  kWaitingCall,
  kCompile,
  kCollective,
  kLongCall,
  kOutside,
  kHostWork,
};
inline constexpr size_t kHostCauses = 10;

class IdleSplit {
 public:
  explicit IdleSplit(const FindingScope& scope) : scope_(scope) {}

  // When the host did what; in any order, before the first Split().
  void AddHostTime(HostCause cause, int64_t start_ns, int64_t end_ns);
  // When a thread was in a call that stops the GPU; likewise.
  void AddFree(int64_t start_ns, int64_t end_ns);
  void FinishHostTimes();

  struct Gap {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    const GpuAttribution::Call* launch = nullptr;  // nullptr: not known.
    // The call because of which the host was not ahead; nullptr: there is none.
    const GpuAttribution::Call* blocker = nullptr;
    bool blocker_allocates = false;
  };
  // Returns the parts of the gap that lie in the scope. Adds to `explained` what has another cause
  // than what the host did before the launch. Gaps come by start.
  IdleParts Split(const Gap& gap, IntervalSet& explained) const;
  // Returns the parts of idle time that no work followed.
  IdleParts SplitEdge(int64_t start_ns, int64_t end_ns) const;

 private:
  struct HostTime {
    int64_t start_ns;
    int64_t end_ns;
    HostCause cause;
  };
  // Whether the host waits for a GPU. What begins meanwhile was launched before, since it launches
  // nothing.
  bool Waits(int64_t time_ns) const;
  // Of [start_ns, end_ns) in the scope: the first `causes` of the host, and the rest.
  IdleParts PartsOf(int64_t start_ns, int64_t end_ns, size_t causes,
                    int64_t IdleParts::*rest) const;

  // Of [start_ns, end_ns) in the scope, all after the launch: calls that stopped the GPU, and the
  // rest.
  IdleParts PartsAfterLaunch(const GpuAttribution::Call& launch, int64_t start_ns, int64_t end_ns,
                             int64_t IdleParts::*rest) const;

  const FindingScope& scope_;
  std::vector<HostTime> times_;
  std::vector<HostTime> free_times_;
  IntervalSet frees_;
  std::array<IntervalSet, kHostCauses> upto_;  // Of this cause and those before it.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_IDLE_SPLIT_H_
