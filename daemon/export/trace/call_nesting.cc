#include "daemon/export/trace/call_nesting.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "daemon/base/status_macros.h"
#include "daemon/export/trace/slice_lanes.h"

namespace profd::exporter {
namespace {

int64_t EndOf(int64_t start_ns, int64_t duration_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(start_ns) + static_cast<uint64_t>(duration_ns));
}
// `later_ns` is not below `ns`.
uint64_t Between(int64_t ns, int64_t later_ns) {
  return static_cast<uint64_t>(later_ns) - static_cast<uint64_t>(ns);
}

}  // namespace

class CallNestingBuilder {
 public:
  CallNestingBuilder(store::CaptureReader& reader, const GpuLinks& links,
                     const CallNesting::Options& options, CallNesting& nesting)
      : reader_(reader),
        links_(links),
        clock_error_ns_(static_cast<uint64_t>(std::max<int64_t>(options.clock_error_ns, 0))),
        step_thread_(options.step_thread),
        nesting_(nesting) {}

  absl::Status Build() {
    for (uint32_t thread = 0; thread < reader_.threads().size(); ++thread) AddThread(thread);
    AddSteps();
    RETURN_IF_ERROR(
        reader_.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
          Thread& thread = threads_[batch.thread];
          if (thread.calls.empty()) return absl::OkStatus();
          for (size_t i = 0; i < batch.size; ++i) {
            const int64_t end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]);
            CheckStepsUntil(end_ns, thread);
            Check(batch.start_ns[i], end_ns, thread);
          }
          return absl::OkStatus();
        }));
    for (Thread& thread : threads_) CheckStepsUntil(std::numeric_limits<int64_t>::max(), thread);
    PlaceSiblings();
    return absl::OkStatus();
  }

 private:
  struct Step {
    int64_t start_ns;
    int64_t end_ns;
  };
  struct Thread {
    uint32_t index = 0;
    std::vector<uint32_t> calls;  // On its own row, by start: they do not overlap.
    size_t next = 0;              // The first that begins where the last range ended, or later.
    std::vector<Step> steps;      // By end.
    size_t next_step = 0;
  };

  void AddThread(uint32_t index) {
    Thread& thread = threads_.emplace_back();
    thread.index = index;
    const std::span<const GpuLinks::Call> calls = links_.CallsOf(index);
    if (calls.empty()) return;
    const size_t first = links_.PositionOf(calls.front());
    int64_t until_ns = std::numeric_limits<int64_t>::min();
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto position = static_cast<uint32_t>(first + i);
      if (calls[i].start_ns < until_ns) {
        MoveAside(position, thread);
      } else {
        thread.calls.push_back(position);
        until_ns = calls[i].end_ns;
      }
    }
  }

  void AddSteps() {
    if (step_thread_ < 0 || step_thread_ >= static_cast<int64_t>(threads_.size())) return;
    std::vector<Step>& steps = threads_[static_cast<size_t>(step_thread_)].steps;
    for (const StepRecord& step : reader_.steps()) {
      steps.push_back({step.start_ns, EndOf(step.start_ns, step.duration_ns)});
    }
    std::sort(steps.begin(), steps.end(),
              [](const Step& a, const Step& b) { return a.end_ns < b.end_ns; });
  }

  void CheckStepsUntil(int64_t end_ns, Thread& thread) {
    for (; thread.next_step < thread.steps.size(); ++thread.next_step) {
      const Step& step = thread.steps[thread.next_step];
      if (step.end_ns > end_ns) return;
      Check(step.start_ns, step.end_ns, thread);
    }
  }

  const GpuLinks::Call& CallAt(const Thread& thread, size_t i) const {
    return links_.calls()[thread.calls[i]];
  }

  // Nothing is to overlap [start_ns, end_ns) that does not nest with it. Called by end.
  void Check(int64_t start_ns, int64_t end_ns, Thread& thread) {
    while (thread.next < thread.calls.size() && CallAt(thread, thread.next).start_ns < end_ns) {
      ++thread.next;
    }
    if (thread.next == 0) return;
    // Calls do not overlap: only the last to begin before an edge can reach over it.
    ClipAtEnd(start_ns, end_ns, thread.calls[thread.next - 1], thread);
    const size_t before = FirstNotBefore(start_ns, thread);
    if (before > 0) ClipAtStart(start_ns, end_ns, thread.calls[before - 1], thread);
  }

  // The first call that begins at `start_ns` or later; near thread.next as a rule.
  size_t FirstNotBefore(int64_t start_ns, const Thread& thread) const {
    size_t low = thread.next;
    size_t high = thread.next;
    // Steps of doubling length, then a binary search between the last two: O(log d) for a call d
    // places back. Most ranges are short and d is small.
    for (size_t step = 1; low > 0 && CallAt(thread, low - 1).start_ns >= start_ns; step *= 2) {
      high = low - 1;
      low = low > step ? low - step : 0;
    }
    const auto begin = thread.calls.begin();
    return static_cast<size_t>(
        std::lower_bound(
            begin + static_cast<ptrdiff_t>(low), begin + static_cast<ptrdiff_t>(high), start_ns,
            [&](uint32_t call, int64_t ns) { return links_.calls()[call].start_ns < ns; }) -
        begin);
  }

  // A call that begins in the range and ends after it.
  void ClipAtEnd(int64_t start_ns, int64_t end_ns, uint32_t call, Thread& thread) {
    CallNesting::Place place = nesting_.PlaceOf(links_, call);
    if (place.sibling > 0 || place.start_ns < start_ns || place.end_ns <= end_ns) return;
    if (Between(end_ns, place.end_ns) > clock_error_ns_) {
      MoveAside(call, thread);
      return;
    }
    place.end_ns = end_ns;
    nesting_.moved_[call] = place;
  }

  // A call that begins before the range and ends in it.
  void ClipAtStart(int64_t start_ns, int64_t end_ns, uint32_t call, Thread& thread) {
    CallNesting::Place place = nesting_.PlaceOf(links_, call);
    if (place.sibling > 0 || place.start_ns >= start_ns || place.end_ns <= start_ns ||
        place.end_ns >= end_ns) {
      return;
    }
    if (Between(start_ns, place.end_ns) <= clock_error_ns_) {
      place.end_ns = start_ns;
    } else if (Between(place.start_ns, start_ns) <= clock_error_ns_) {
      place.start_ns = start_ns;
    } else {
      MoveAside(call, thread);
      return;
    }
    nesting_.moved_[call] = place;
  }

  void MoveAside(uint32_t call, const Thread& thread) {
    const GpuLinks::Call& recorded = links_.calls()[call];
    nesting_.moved_[call] = {recorded.start_ns, recorded.end_ns, 1};
    aside_.push_back({recorded.start_ns, recorded.end_ns, call, thread.index});
  }

  void PlaceSiblings() {
    nesting_.sibling_counts_.resize(threads_.size());
    for (const LaneSlice& slice : aside_) nesting_.sibling_counts_[slice.group] = 1;
    AssignLanes(aside_, [&](const LaneSlice& slice, uint32_t lane) {
      nesting_.moved_[slice.ordinal].sibling = lane + 1;
      uint32_t& count = nesting_.sibling_counts_[slice.group];
      count = std::max(count, lane + 1);
    });
  }

  store::CaptureReader& reader_;
  const GpuLinks& links_;
  const uint64_t clock_error_ns_;
  const int64_t step_thread_;
  CallNesting& nesting_;
  std::vector<Thread> threads_;
  std::vector<LaneSlice> aside_;
};

int64_t ClockErrorOfCalls(const CaptureRecord& record) {
  int64_t error_ns = 0;
  return __builtin_add_overflow(record.clock_error_ns, record.gpu.clock_error_ns, &error_ns)
             ? 0
             : error_ns;
}

absl::StatusOr<CallNesting> CallNesting::Make(store::CaptureReader& reader, const GpuLinks& links,
                                              const Options& options) {
  CallNesting nesting;
  if (links.calls().empty()) return nesting;
  RETURN_IF_ERROR(CallNestingBuilder(reader, links, options, nesting).Build());
  return nesting;
}

CallNesting::Place CallNesting::PlaceOf(const GpuLinks& links, size_t call) const {
  if (!moved_.empty()) {
    const auto found = moved_.find(static_cast<uint32_t>(call));
    if (found != moved_.end()) return found->second;
  }
  const GpuLinks::Call& recorded = links.calls()[call];
  return {recorded.start_ns, recorded.end_ns, 0};
}

}  // namespace profd::exporter
