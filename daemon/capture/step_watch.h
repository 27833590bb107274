// StepWatch gathers how long a target's own steps took before, in, and after the windows of one
// capture. It keeps what the target's status page shows of them, which is only the last few.
//
//        arm          warm-up   window          drained
//   ──────┼──────────────┼────────┼────────────────┼──────────────►
//    before│  left out (disturbed)│ during │ left out│ after
//
// Steps in progress at a boundary belong to neither side. If few steps ran before the capture was
// armed, those until the warm-up count as well.
//
// Threads: none of its own. Errors: none; the target may tell anything.
#ifndef PROFD_DAEMON_CAPTURE_STEP_WATCH_H_
#define PROFD_DAEMON_CAPTURE_STEP_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/capture/slowdown.h"

namespace profd {

// Steps of a target that one of its captures disturbed, from its arming until it had drained.
struct DisturbedSteps {
  int64_t first_step = 0;
  int64_t end_step = 0;
};

class StepWatch {
 public:
  // As many steps on either side of the window are enough.
  static constexpr size_t kEnoughSteps = 20;

  // What earlier captures of the target disturbed: those steps are none of its own length. First of
  // all.
  void SetDisturbed(std::vector<DisturbedSteps> disturbed) { disturbed_ = std::move(disturbed); }
  // What the target shows now; first when the capture is armed, and then often enough that no step
  // is missed.
  void Observe(const RecentSteps& recent);
  // Whether the capture records at this moment.
  void SetRecording(bool recording, const RecentSteps& recent);
  // The windows by the target's own steps, where they are known; instead of SetRecording(). The
  // capture's first `warmup_steps` are no steps before it.
  void SetWindows(std::span<const WindowRecord> windows, int64_t warmup_steps);
  // The target has nothing left to do for the capture.
  void SetDrained(const RecentSteps& recent);

  // The median time of the steps in the window; 0: there were none that can be compared.
  int64_t during_ns() const;
  // What this one disturbs, if it has drained when `recent` is shown.
  DisturbedSteps Disturbed(const RecentSteps& recent) const {
    return {.first_step = armed_step_, .end_step = recent.current_step + 1};
  }
  // How many steps after the window are still to come until there are enough.
  size_t missing_steps() const;

  // Sets `slowdown`, the median step times, and the steps around the windows of `record`, as far as
  // they are known. Waits for a CPU that `record` has are not blamed on recording.
  void Describe(CaptureRecord& record) const;

 private:
  struct Window {
    int64_t first_step = 0;
    int64_t end_step = 0;
  };

  // Steps below this one ran before the capture.
  int64_t BeforeEnd() const;
  StepTimes Times() const;
  void DescribeStepsAround(CaptureRecord& record) const;

  std::vector<DisturbedSteps> disturbed_;
  StepSource source_ = StepSource::kNone;
  bool source_changed_ = false;
  bool observed_ = false;
  int64_t armed_step_ = -1;
  int64_t drained_step_ = INT64_MAX;
  int64_t recording_from_ = -1;  // The first whole step; -1: it does not record.
  int64_t warmup_steps_ = 0;
  std::vector<Window> windows_;
  std::map<int64_t, int64_t> times_ns_;  // By step.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_STEP_WATCH_H_
