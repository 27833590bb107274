#include "daemon/import/complete_range.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace profd::importer {
namespace {

using Call = CompleteRangeInput::Call;
using CallKind = CompleteRangeInput::CallKind;
using Step = CompleteRangeInput::Step;
using Work = CompleteRangeInput::Work;

// Real traces have at most 137 numbers that no recorded call has between two that have one; a
// buffer that is missing leaves thousands. While a program loads modules, there are 1,200: the
// range ends there, too.
constexpr int64_t kMostNumbersBetween = 256;
// How much of a step may be missing at its begin.
constexpr double kMostOfStep = 0.01;

constexpr int64_t kEarliestNs = std::numeric_limits<int64_t>::min();

// Times of a file may be anything.
double LengthOf(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns) - static_cast<double>(begin_ns);
}

struct Range {
  CompleteRange times;
  int64_t step_count = 0;
  bool is_first = false;  // No call is before it.
};

class RangeSearch {
 public:
  explicit RangeSearch(CompleteRangeInput& events) : events_(events) {
    std::ranges::sort(events_.calls, {},
                      [](const Call& call) { return std::tuple(call.start_ns, call.correlation); });
    std::ranges::sort(events_.work, {}, [](const Work& work) {
      return std::tuple(work.correlation, work.start_ns, work.stream);
    });
    std::ranges::sort(events_.steps, {}, &Step::start_ns);
    FindWorkWithoutCall();
    // In a damaged file, many calls may have one number: the first one is the call.
    absl::flat_hash_set<uint32_t> seen;
    for (const Call& call : events_.calls) {
      if (!seen.insert(call.correlation).second) continue;
      for (const Work& work : WorkOf(call.correlation)) {
        int64_t took_ns = 0;
        if (__builtin_sub_overflow(work.start_ns, call.start_ns, &took_ns) ||
            __builtin_add_overflow(took_ns, int64_t{work.duration_ns}, &took_ns)) {
          continue;
        }
        longest_ns_ = std::max(longest_ns_, took_ns);
      }
    }
    for (const CallKind kind : {CallKind::kCopy, CallKind::kMemset}) {
      const bool any_has_work = std::ranges::any_of(events_.calls, [&](const Call& call) {
        return call.kind == kind && !WorkOf(call.correlation).empty();
      });
      if (any_has_work) kinds_with_work_.push_back(kind);
    }
    for (size_t i = 0; i < events_.work.size();) {
      const std::span<const Work> of_launch = WorkOf(events_.work[i].correlation);
      uint32_t& most = most_of_graph_[of_launch.front().graph];
      most = std::max(most, static_cast<uint32_t>(of_launch.size()));
      i += of_launch.size();
    }
  }

  std::optional<CompleteRange> Run() {
    if (IsWorkUnknown()) return std::nullopt;
    const std::span<const Call> calls = events_.calls;
    size_t begin = 0;
    for (size_t i = 0; i <= calls.size(); ++i) {
      const bool is_hole = i > begin && i < calls.size() && AreCallsMissing(calls[i - 1], calls[i]);
      const bool lacks_work = i < calls.size() && LacksWork(calls[i]);
      if (!is_hole && !lacks_work && i < calls.size()) continue;
      if (i > begin) {
        const int64_t last_ns = calls[i - 1].start_ns;
        TryRange(calls.subspan(begin, i - begin), begin == 0,
                 lacks_work && !is_hole && calls[i].start_ns > last_ns ? calls[i].start_ns - 1
                                                                       : last_ns);
      }
      begin = lacks_work ? i + 1 : i;
    }
    if (!best_.has_value()) return std::nullopt;
    if (best_->step_count == 0 && !events_.steps.empty()) return std::nullopt;
    best_->times.has_step = best_->step_count > 0;
    return best_->times;
  }

 private:
  // Of a file in which most launches have no work, as of graphs that are captured, the work of
  // others may be missing as well.
  bool IsWorkUnknown() const {
    int64_t launch_count = 0;
    int64_t without_work = 0;
    for (const Call& call : events_.calls) {
      if (call.kind != CallKind::kLaunch) continue;
      ++launch_count;
      without_work += WorkOf(call.correlation).empty();
    }
    return events_.work.empty() || 2 * without_work > launch_count;
  }

  std::span<const Work> WorkOf(uint32_t correlation) const {
    const auto begin = std::ranges::lower_bound(events_.work, correlation, {}, &Work::correlation);
    const auto end = std::ranges::upper_bound(events_.work, correlation, {}, &Work::correlation);
    return {begin, end};
  }

  void FindWorkWithoutCall() {
    std::vector<uint32_t> calls;
    calls.reserve(events_.calls.size());
    for (const Call& call : events_.calls) calls.push_back(call.correlation);
    std::ranges::sort(calls);
    for (const Work& work : events_.work) {
      const bool is_new = without_call_.empty() || without_call_.back() != work.correlation;
      if (is_new && !std::ranges::binary_search(calls, work.correlation)) {
        without_call_.push_back(work.correlation);
      }
    }
  }

  // Between two calls that follow each other.
  bool AreCallsMissing(const Call& before, const Call& after) const {
    if (std::abs(int64_t{after.correlation} - int64_t{before.correlation}) > kMostNumbersBetween) {
      return true;
    }
    const auto [low, high] = std::minmax(before.correlation, after.correlation);
    const auto orphan = std::ranges::upper_bound(without_call_, low);
    return orphan != without_call_.end() && *orphan < high;
  }

  bool LacksWork(const Call& call) const {
    if (call.kind != CallKind::kLaunch) return false;
    const std::span<const Work> work = WorkOf(call.correlation);
    if (work.empty()) return true;
    const uint32_t graph = work.front().graph;
    return graph != 0 && work.size() < most_of_graph_.at(graph);
  }

  // `calls` follow each other, and no launch in it lacks its work. What follows `end_ns` is
  // missing.
  void TryRange(std::span<const Call> calls, bool is_first, int64_t end_ns) {
    const std::optional<int64_t> begin_ns = WhenEarlierWorkIsOver(calls);
    if (!begin_ns.has_value()) return;
    end_ns = std::min(end_ns, EndOfKnownTransfers(calls, end_ns));
    Range range = {.times = {.begin_ns = *begin_ns, .end_ns = end_ns}, .is_first = is_first};
    if (is_first) TakeFirstStep(range.times);
    if (range.times.begin_ns >= range.times.end_ns) return;
    // Ranges lie apart, so that each step is looked at once.
    auto step = std::ranges::lower_bound(events_.steps, range.times.begin_ns, {}, &Step::start_ns);
    for (; step != events_.steps.end() && step->start_ns <= end_ns; ++step) {
      range.step_count += step->end_ns <= end_ns;
    }
    const auto length = [](const Range& of) {
      return std::tuple(of.step_count, LengthOf(of.times.begin_ns, of.times.end_ns));
    };
    if (!best_.has_value() || length(range) > length(*best_)) best_ = range;
  }

  // When no stream does anything anymore that was launched before `calls`: after the longest time
  // that any work took from its launch to its end, and once all streams that `calls` use by then do
  // what those launched. nullopt: they launched nothing.
  std::optional<int64_t> WhenEarlierWorkIsOver(std::span<const Call> calls) const {
    int64_t over_ns = 0;
    if (__builtin_add_overflow(calls.front().start_ns, longest_ns_, &over_ns)) return std::nullopt;
    bool any_has_work = false;
    absl::flat_hash_set<uint32_t> seen;  // Correlations.
    absl::flat_hash_set<uint32_t> streams;
    for (const Call& call : calls) {
      if (any_has_work && call.start_ns > over_ns) break;
      if (!seen.insert(call.correlation).second) continue;
      for (const Work& work : WorkOf(call.correlation)) {
        any_has_work = true;
        if (streams.insert(work.stream).second) over_ns = std::max(over_ns, work.start_ns);
      }
    }
    return any_has_work ? std::optional(over_ns) : std::nullopt;
  }

  // Copies and memsets may have no work. But if none of a kind has any from some time on, that of
  // the last ones is missing, unless none in the file has any.
  int64_t EndOfKnownTransfers(std::span<const Call> calls, int64_t end_ns) const {
    for (const CallKind kind : kinds_with_work_) {
      int64_t first_without_ns = std::numeric_limits<int64_t>::max();
      for (const Call& call : calls) {
        if (call.kind != kind) continue;
        const bool has_work = !WorkOf(call.correlation).empty();
        first_without_ns = has_work ? std::numeric_limits<int64_t>::max()
                                    : std::min(first_without_ns, call.start_ns);
      }
      if (first_without_ns <= end_ns) end_ns = std::max(first_without_ns, kEarliestNs + 1) - 1;
    }
    return end_ns;
  }

  // Moves the begin to that of the step in which it lies, if no more is missing there than at the
  // begin of others.
  void TakeFirstStep(CompleteRange& range) const {
    const std::vector<Step>& steps = events_.steps;
    const auto after = std::ranges::upper_bound(steps, range.begin_ns, {}, &Step::start_ns);
    if (after == steps.begin()) return;
    const Step& first = *std::prev(after);
    double shortest_ns = std::numeric_limits<double>::infinity();
    for (auto step = after; step != steps.end() && step->start_ns <= range.end_ns; ++step) {
      const auto call =
          std::ranges::lower_bound(events_.calls, step->start_ns, {}, &Call::start_ns);
      if (call == events_.calls.end()) break;
      shortest_ns = std::min(shortest_ns, LengthOf(step->start_ns, call->start_ns));
    }
    if (std::isinf(shortest_ns)) return;
    const double unknown_ns = LengthOf(first.start_ns, range.begin_ns) - shortest_ns;
    if (unknown_ns > kMostOfStep * LengthOf(first.start_ns, first.end_ns)) return;
    range.begin_ns = first.start_ns;
  }

  CompleteRangeInput& events_;
  std::vector<CallKind> kinds_with_work_;                  // Of copies and memsets.
  std::vector<uint32_t> without_call_;                     // Correlations of work, sorted.
  absl::flat_hash_map<uint32_t, uint32_t> most_of_graph_;  // Activities of one launch, by graph.
  int64_t longest_ns_ = 0;                                 // From a launch to the end of its work.
  std::optional<Range> best_;
};

}  // namespace

std::optional<CompleteRange> FindCompleteRange(CompleteRangeInput& events) {
  return RangeSearch(events).Run();
}

}  // namespace profd::importer
