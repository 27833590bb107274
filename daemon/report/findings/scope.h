// FindingScope is the time that findings are about: the steps that count.
//
// Threads: one at a time.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_SCOPE_H_
#define PROFD_DAEMON_REPORT_FINDINGS_SCOPE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/capture/capture_types.h"
#include "daemon/report/gpu/launched_work.h"
#include "daemon/report/index/interval_set.h"

namespace profd::report {

struct FindingScope {
  struct Stretch {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    int64_t step = -1;  // -1: none
  };

  bool has_steps = false;
  bool first_left_out = false;
  double first_ratio = 0;  // Of the first step to the median of the others; 0: too few to tell.
  int64_t first_step = -1;
  int64_t first_ns = 0;
  int64_t median_other_ns = 0;
  int64_t edge_count = 0;           // Steps that LeaveOutEdges() left out.
  int64_t queue_filling_count = 0;  // Steps that LeaveOutQueueFilling() left out.
  bool by_device = false;           // Stretches are those of TakeDeviceTimes().
  int64_t earlier_work_count = 0;   // Steps that LeaveOutEarlierWork() left out.
  int64_t earlier_work_ns = 0;     // Or for how long of the steps that are left there is such work.
  std::vector<Stretch> stretches;  // By start, apart from each other.
  int64_t count = 0;               // Steps, or 1.
  int64_t total_ns = 0;
  int64_t mean_ns = 0;

  // Of the stretch that holds it; -1: none does.
  int64_t PositionAt(int64_t time_ns) const;
  // The part of [start_ns, end_ns) that lies in the scope.
  int64_t MeasureIn(int64_t start_ns, int64_t end_ns) const;
  // Calls fn(from_ns, to_ns) for each part of [start_ns, end_ns) that lies in a stretch.
  template <typename Fn>
  void ForEachIn(int64_t start_ns, int64_t end_ns, Fn fn) const {
    auto at = std::upper_bound(stretches.begin(), stretches.end(), start_ns,
                               [](int64_t time, const Stretch& s) { return time < s.end_ns; });
    for (; at != stretches.end() && at->start_ns < end_ns; ++at) {
      const int64_t from_ns = std::max(start_ns, at->start_ns);
      const int64_t to_ns = std::min(end_ns, at->end_ns);
      if (to_ns > from_ns) fn(from_ns, to_ns);
    }
  }
};

// Programs warm up (caches, autotuning, compilation) in their first steps, counted from 0.
inline constexpr int64_t kLastWarmUpStep = 10;

// Of steps; `steps` may be in any order, overlap or be nonsense. The first one is left out if it
// took more than `first_step_ratio` times the median of the others, unless later ones take as long,
// as every second one does where data comes in pairs: then it is one of those. `may_warm_up`:
// whether a first step beyond kLastWarmUpStep can be slow because recording had just begun.
FindingScope ScopeOfSteps(std::span<const StepRecord> steps, double first_step_ratio,
                          bool may_warm_up);
// What an edge of the recording shows of its step.
struct EdgeStep {
  bool is_empty = true;  // No operator, call, or GPU work is in it.
  int64_t last_ns = 0;   // When the last of these ended.
  // Of a last step: it has less than half of the host's events that any other step has.
  bool has_few_events = false;
};
// Leaves out a first or last step that is empty, a last one that is cut (less than half as long as
// the others, and of up to three steps with less than half of their events), or of which most of
// what it takes longer than the others is empty, at its end, since another profiler stopped there,
// and the first step of a later window that takes more than twice as long as others. Sets
// edge_count. `holes`: in the recording.
void LeaveOutEdges(const EdgeStep& first, const EdgeStep& last, const IntervalSet& holes,
                   FindingScope& scope);
// Leaves out the steps at the start in which the host only filled the launch queue, as it does
// after a synchronization: they end long before the GPU has done what they launched. They are
// shorter than any later step can be. Does nothing unless the steps after them keep pace with the
// GPU. `launched`: by stretch.
void LeaveOutQueueFilling(std::span<const LaunchedWork> launched, FindingScope& scope);
// If the program never waits, or only now and then, its steps end long before the GPU has done
// them, and the host's marks tell how fast it launches, not how long a step takes. Then a stretch
// is the time from the first work of its step to that of the next one, of the last step to the end
// of its work. Does nothing unless HostRunsAhead(). `launched`: of the busiest stream.
// `last_end_ns`: when the last step's work ends on any stream.
// `holes`: in the recording; a step before one ends with its own work.
void TakeDeviceTimes(std::span<const LaunchedWork> launched, int64_t last_end_ns,
                     const IntervalSet& holes, FindingScope& scope);
// Leaves out the steps at the start that begin before `first_work_ns`: until then, the GPU did what
// was launched before the capture, of which nothing is known. Unless three remain, it leaves out
// none, and sets earlier_work_ns.
void LeaveOutEarlierWork(int64_t first_work_ns, FindingScope& scope);
// Of a capture without steps.
FindingScope ScopeOfTime(int64_t start_ns, int64_t end_ns);
// Leaves out what was not recorded. The rest counts as one step.
void LeaveOutHoles(const IntervalSet& holes, FindingScope& scope);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_SCOPE_H_
