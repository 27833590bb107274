// What each step of the host launched on a device, and when the device did it.
//
//   host     ├ step 0 ┤├ step 1 ┤├ step 2 ┤
//   device     ├────── step 0 ──────┤├────── step 1 ──────┤├────── step 2 ──────┤
//
// A host that never waits, or only now and then, runs ahead of its device. Its marks then say how
// fast it launches, and the device how long a step takes: from the first work of a step to that of
// the next.
//
// Threads: any. Errors: none; any times are safe.
#ifndef PROFD_DAEMON_REPORT_GPU_LAUNCHED_WORK_H_
#define PROFD_DAEMON_REPORT_GPU_LAUNCHED_WORK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/gpu_attribution.h"

namespace profd::report {

struct LaunchedWork {
  int64_t start_ns = 0;  // Of the first.
  int64_t end_ns = 0;    // Of the last; not after the start: the step launched nothing.
  int64_t busy_ns = 0;   // How long the device was busy with it.
};

// By step. `device`: a position in work.devices(). `step_of` gives a call's step; negative: none.
// Of all streams, or of one.
std::vector<LaunchedWork> LaunchedWorkOfSteps(
    const DeviceWork& work, uint32_t device, size_t step_count,
    absl::FunctionRef<int64_t(const GpuAttribution::Call&)> step_of,
    std::optional<uint32_t> only_stream = std::nullopt);

// The stream that works for longest, of the device or, nullopt, of all; nullopt: none does.
std::optional<uint32_t> BusiestStream(const DeviceWork& work,
                                      std::optional<uint32_t> device = std::nullopt);

// Whether a step of the host takes much less than the device takes for what it launched.
bool RunsAhead(int64_t step_ns, const LaunchedWork& launched);

// Whether the device sets the pace: it does the steps in order, and the host runs ahead in all of
// them; or in at least half of them, while the device is busy nearly all the time, so that the
// others only wait for it, as one does that reads the loss. `launched`: by step, of one stream.
bool HostRunsAhead(std::span<const int64_t> steps_ns, std::span<const LaunchedWork> launched);

// Whether the step after the one at `position` begins when that one ends, or soon after: no hole in
// the recording lies between.
bool FollowEachOther(std::span<const StepRecord> steps, size_t position);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_LAUNCHED_WORK_H_
