// AssignLanes puts slices that came in no order side by side: those that overlap get lanes of
// their own, since viewers cannot show two slices of one row that overlap.
//
//   group 3, lane 0   ███████   ██████ ████        lane 0 holds most of them, if not all
//            lane 1       ███████
//
// Memory: that of the slices, and of the lanes in use.
#ifndef PROFD_DAEMON_EXPORT_TRACE_SLICE_LANES_H_
#define PROFD_DAEMON_EXPORT_TRACE_SLICE_LANES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace profd::exporter {

struct LaneSlice {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t ordinal;  // Whatever names the slice to the caller.
  uint32_t group;    // Whose lanes it may be on.
};
static_assert(sizeof(LaneSlice) == 24);

// Sorts `slices` by group, start, end and ordinal, and gives each the first lane of its group
// that is free at its start. Calls on_sibling(slice, lane) for those on another lane than 0.
// n log n, whatever overlaps.
void AssignLanes(std::vector<LaneSlice>& slices,
                 absl::FunctionRef<void(const LaneSlice& slice, uint32_t lane)> on_sibling);

// The slices of one group, the first of `sorted`.
std::span<const LaneSlice> FirstGroup(std::span<const LaneSlice> sorted);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_SLICE_LANES_H_
