#include "daemon/import/loop_steps.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace profd::importer {
namespace {

// Times of whole microseconds overlap by less.
constexpr int64_t kRoundingNs = 2'000;

struct NumberedStep : LoopStep {
  int64_t index;
};

uint32_t ThreadWithMostSteps(const std::vector<NumberedStep>& steps) {
  std::map<uint32_t, std::pair<size_t, int64_t>> by_thread;  // Count, and minus the first start.
  for (const NumberedStep& step : steps) {
    const auto [at, is_new] = by_thread.try_emplace(step.thread, 0, -step.start_ns);
    ++at->second.first;
  }
  return std::ranges::max_element(by_thread, {}, [](const auto& each) { return each.second; })
      ->first;
}

// Sorted by start.
void LeaveOutOtherThreads(std::vector<NumberedStep>& steps, NotUnderstood& not_understood) {
  const uint32_t thread = ThreadWithMostSteps(steps);
  std::vector<NumberedStep> of_loop;
  of_loop.reserve(steps.size());
  int64_t over_ns = steps.front().start_ns;  // The latest end so far of the loop's.
  std::vector<int64_t> ends_ns;
  ends_ns.reserve(steps.size());
  for (const NumberedStep& step : steps) {
    if (step.thread != thread) continue;
    of_loop.push_back(step);
    over_ns = std::max(over_ns, step.end_ns);
    ends_ns.push_back(over_ns);
  }
  std::erase_if(steps, [&](const NumberedStep& step) {
    if (step.thread == thread) return false;
    // Those of the loop that begin before it ends.
    const auto after =
        std::ranges::lower_bound(of_loop, step.end_ns - kRoundingNs, {},
                                 [](const NumberedStep& each) { return each.start_ns; });
    const auto count = static_cast<size_t>(after - of_loop.begin());
    if (count == 0 || ends_ns[count - 1] <= step.start_ns + kRoundingNs) return false;
    not_understood.Count("ProfilerStep of another thread than most");
    return true;
  });
}

// Sorted by start, and those that begin together with the longest first.
void LeaveOutNested(std::vector<NumberedStep>& steps, NotUnderstood& not_understood) {
  std::vector<size_t> around;  // Positions of steps that are around the one at hand.
  std::vector<bool> is_inside(steps.size());
  std::vector<bool> is_around(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto is_around_it = [&](const LoopStep& other) {
      return other.end_ns >= steps[i].end_ns && other.end_ns > steps[i].start_ns;
    };
    while (!around.empty() && !is_around_it(steps[around.back()])) around.pop_back();
    if (!around.empty()) {
      is_inside[i] = true;
      is_around[around.back()] = true;
    }
    around.push_back(i);
  }
  const auto inside = std::ranges::count(is_inside, true);
  const auto outside = std::ranges::count(is_around, true);
  if (inside == 0) return;
  const bool keeps_inner = inside > outside;
  size_t at = 0;
  std::erase_if(steps, [&](const NumberedStep&) {
    const bool leaves = keeps_inner ? is_around[at] : is_inside[at];
    ++at;
    if (leaves) {
      not_understood.Count(keeps_inner ? "ProfilerStep around others"
                                       : "ProfilerStep inside another");
    }
    return leaves;
  });
}

}  // namespace

void KeepStepsOfOneLoop(absl::flat_hash_map<int64_t, LoopStep>& steps,
                        NotUnderstood& not_understood) {
  if (steps.empty()) return;
  std::vector<NumberedStep> in_order;
  in_order.reserve(steps.size());
  for (const auto& [index, step] : steps) in_order.push_back({step, index});
  std::ranges::sort(in_order, [](const NumberedStep& a, const NumberedStep& b) {
    return std::tuple(a.start_ns, -a.end_ns, a.index) < std::tuple(b.start_ns, -b.end_ns, b.index);
  });
  LeaveOutOtherThreads(in_order, not_understood);
  LeaveOutNested(in_order, not_understood);
  steps.clear();
  for (size_t i = 0; i < in_order.size(); ++i) {
    NumberedStep& step = in_order[i];
    if (i + 1 < in_order.size()) {
      const int64_t next_ns = in_order[i + 1].start_ns;
      if (step.end_ns - next_ns > kRoundingNs) {
        not_understood.Count("ProfilerStep that overlaps the next, where it is taken to end");
      }
      step.end_ns = std::min(step.end_ns, next_ns);
    }
    steps.emplace(step.index, step);
  }
}

}  // namespace profd::importer
