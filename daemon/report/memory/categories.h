// FindMemoryCategories tells what the blocks of a framework's allocators were for. The first
// rule that fits:
//
//   as told      by the event itself or, for a block that is alive when the window ends, by one
//                who looked at the program's objects then (a BlockRow)
//   gradient     AccumulateGrad kept it or added to it; or an optimizer used it or its zero_grad
//                freed it, and the backward pass made it or it is older than the window
//   temporary    made and freed inside one operator
//   unknown      made in the backward pass, by an optimizer, or from what these made
//   activation   computed from a parameter, or from another activation
//   input        not computed from the model, but used with what was
//   unknown      all else
//
// "Computed from" is told by storage: an operator's results are the blocks that were made in it
// and outlive it, and what it changes in place, if its name says so ("aten::add_"). Where no
// parameters are known (no Python to look into), an activation is what was made in forward and
// is used or freed by the backward pass, and nothing is an input.
//
// An address is one block's from its allocation to its free. A block that is seen after the
// window as somebody's gradient may have been made after it: it counts only if the backward pass
// made it in the window, or something used it. A BlockRow of category unknown tells how large an
// older block is that something used, no more.
//
// Threads: any, one reader each.
// Memory:  24 bytes per tensor use (of at most kMostTensorUses), 56 per allocation, 13 per
//          address, and what FlowNodes takes.
// Errors:  those of the reader, and of ForEachMemoryByTime.
#ifndef PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_
#define PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/index/memory_order.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Further ones are not looked at: what only they tell stays unknown.
inline constexpr size_t kMostTensorUses = size_t{8} << 20;

// Alive when the window began.
struct OlderBlock {
  uint8_t device_type;
  int16_t device_index;
  uint8_t category;
  int64_t bytes;  // >= 0
};

struct MemoryCategories {
  // By the position of the event as ForEachMemoryByTime gives them: of an allocation, its block's;
  // of a free, that of a block older than the window. wire::MemoryCategory. Empty: the capture
  // tells nothing beyond its events.
  std::vector<uint8_t> of_event;
  // Those whose size is known: they were freed in the window, or a BlockRow tells of them.
  std::vector<OlderBlock> older;
};

absl::StatusOr<MemoryCategories> FindMemoryCategories(store::CaptureReader& reader);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_
