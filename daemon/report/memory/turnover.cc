#include "daemon/report/memory/turnover.h"

#include <algorithm>

namespace profd::report {
namespace {

constexpr size_t kFewestCompared = 3;
constexpr size_t kComparedPart = 4;  // One in so many.
// Fewer may be chance.
constexpr int64_t kFewestReplaced = 2;

}  // namespace

Turnover::Turnover(std::span<const StepRecord> steps) : steps_(steps) {
  const size_t compared = std::max(kFewestCompared, steps.size() / kComparedPart);
  first_step_ = steps.size() - std::min(steps.size(), compared);
}

void Turnover::Add(const MemoryEvent& event) {
  const size_t step = steps_.PositionAt(event.time_ns);
  if (step == StepLookup::kNone || step < first_step_) return;
  const auto found = live_.find(event.address);
  if (found != live_.end()) {
    // If its address is in use anew, the event of its free was lost.
    Sums& sums = by_size_[found->second.bytes];
    if (found->second.step == step) {
      --sums.left;
    } else {
      ++sums.replaced;
    }
    live_.erase(found);
  } else if (event.is_free && freed_.insert(event.address).second) {
    ++by_size_[event.bytes].replaced;
  }
  if (event.is_free) return;
  live_.try_emplace(event.address, Block{event.bytes, step});
  ++by_size_[event.bytes].left;
}

bool Turnover::IsReplaced(int64_t bytes) const {
  const auto found = by_size_.find(bytes);
  if (found == by_size_.end()) return false;
  const Sums& sums = found->second;
  return sums.left >= kFewestReplaced && sums.replaced >= sums.left;
}

}  // namespace profd::report
