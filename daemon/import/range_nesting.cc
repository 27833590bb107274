#include "daemon/import/range_nesting.h"

#include <algorithm>
#include <tuple>

#include "proto/wire/event.h"

namespace profd::importer {
namespace {

constexpr uint16_t kMostDepth = 127;

constexpr uint8_t kPython = static_cast<uint8_t>(wire::RangeCategory::kPython);

// Of two that last equally long, the frame of Python is around the user's range, and that around
// the operator; else the trace's order says.
int Outwardness(const ImportedRange& range) {
  if (range.category == kPython) return 0;
  return range.category == static_cast<uint8_t>(wire::RangeCategory::kUser) ? 1 : 2;
}

bool BeginsBefore(const ImportedRange& a, const ImportedRange& b) {
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
  return std::tuple(Outwardness(a), a.order) < std::tuple(Outwardness(b), b.order);
}

}  // namespace

LostRanges Nest(std::vector<ImportedRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), BeginsBefore);
  LostRanges lost;
  std::vector<int64_t> open_ends;  // Of the ranges that this one may be in.
  size_t kept = 0;
  for (const ImportedRange& range : ranges) {
    while (!open_ends.empty() &&
           (range.start_ns >= open_ends.back() || range.end_ns() > open_ends.back())) {
      open_ends.pop_back();
    }
    const bool is_python = range.category == kPython;
    const auto depth = static_cast<uint16_t>(open_ends.size());
    if (depth > kMostDepth) {
      ++(is_python ? lost.python_count : lost.other_count);
      continue;
    }
    ImportedRange& to = ranges[kept++];
    to = range;
    to.depth = depth;
    to.order = static_cast<uint32_t>(kept);
    open_ends.push_back(range.end_ns());
  }
  ranges.resize(kept);
  // Capture files have the ranges of a thread by their ends, the inner ones first, as a target
  // records them.
  std::sort(ranges.begin(), ranges.end(), [](const ImportedRange& a, const ImportedRange& b) {
    if (a.end_ns() != b.end_ns()) return a.end_ns() < b.end_ns();
    // What takes no time is in none of those that end where it begins.
    const bool a_is_moment = a.duration_ns == 0;
    if (a_is_moment != (b.duration_ns == 0)) return !a_is_moment;
    if (a.depth != b.depth) return a.depth > b.depth;
    return a.order < b.order;
  });
  return lost;
}

}  // namespace profd::importer
