#include "daemon/import/thinning.h"

#include <algorithm>
#include <functional>

namespace profd::importer {
namespace {

constexpr size_t kFewestIds = 100;
// Complete traces have 97 % of the numbers and more; thinned ones that were seen, 1 %.
constexpr double kCompleteShare = 0.9;
// Counters jump, as between the windows of a schedule; what thins a trace leaves gaps all over it.
// So many of the widest gaps say nothing.
constexpr size_t kMostJumps = 3;
// A damaged number may lie anywhere, so one in this many on each side is left out.
constexpr size_t kOutlierShare = 100;
constexpr uint64_t kMostMissing = 1'000'000'000'000;

}  // namespace

std::optional<int64_t> MissingIds(std::vector<int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() < kFewestIds) return std::nullopt;
  const size_t first = ids.size() / kOutlierShare;
  const size_t last = ids.size() - 1 - first;
  // The numbers are sorted and distinct, so the distance of their places is how many there are
  // between the two.
  const uint64_t present = last - first;
  const uint64_t numbers = static_cast<uint64_t>(ids[last]) - static_cast<uint64_t>(ids[first]);
  std::vector<uint64_t> steps;
  steps.reserve(present);
  for (size_t i = first + 1; i <= last; ++i) {
    steps.push_back(static_cast<uint64_t>(ids[i]) - static_cast<uint64_t>(ids[i - 1]));
  }
  std::ranges::sort(steps, std::greater<>());
  uint64_t elsewhere = numbers;
  for (size_t i = 0; i < std::min(kMostJumps, steps.size()); ++i) elsewhere -= steps[i] - 1;
  if (static_cast<double>(present) >= kCompleteShare * static_cast<double>(elsewhere)) return 0;
  return static_cast<int64_t>(std::min(numbers - present, kMostMissing));
}

}  // namespace profd::importer
