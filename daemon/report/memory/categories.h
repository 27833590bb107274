// FindMemoryCategories finds what the blocks of a framework's allocators were for. The first
// matching rule applies:
//
//   as recorded  by the event itself or, for a block that is alive when the window ends, by the
//                inspection of the program's objects at that time (a BlockRow)
//   gradient     AccumulateGrad kept it or added to it; or an optimizer used it or its zero_grad
//                freed it, and the backward pass made it or it is older than the window
//   temporary    made and freed inside one operator
//   unknown      made in the backward pass, by an optimizer, or from results of these
//   activation   computed from a parameter, or from another activation
//   input        not computed from the model, but used together with data of the model
//   unknown      all else
//
// "Computed from" follows storage. An operator's results are the blocks that were made in it and
// outlive it, and what it changes in place, if its name says so ("aten::add_"). If no parameters
// are known (no Python to inspect), an activation is a block that the forward pass made and the
// backward pass uses or frees, and nothing is an input.
//
// An address belongs to one block from its allocation to its free. A block that is seen after the
// window as a gradient may have been made after the window. So it counts only if the backward pass
// made it in the window, or something used it. A BlockRow of category unknown only gives the size
// of an older block that something used.
//
// Threads: any, one reader each.
// Memory:  24 bytes per tensor use (of at most kMostTensorUses), 56 per allocation, 13 per address,
//          and that of FlowNodes.
// Errors:  those of the reader, and of MemoryInOrder.
#ifndef PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_
#define PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/index/memory_order.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Further tensor uses are ignored; categories that depend on them stay unknown.
inline constexpr size_t kMostTensorUses = size_t{8} << 20;

// A block that was alive when the window began.
struct OlderBlock {
  uint8_t device_type;
  int16_t device_index;
  uint8_t category;
  int64_t bytes;  // >= 0
};

struct MemoryCategories {
  // By event position in MemoryInOrder: an allocation's block, or, for a free, a block older
  // than the window. wire::MemoryCategory. Empty: the capture has nothing beyond its events.
  std::vector<uint8_t> of_event;
  // Older blocks of known size: they were freed in the window, or have a BlockRow.
  std::vector<OlderBlock> older;
};

// `events`: of the reader.
absl::StatusOr<MemoryCategories> FindMemoryCategories(store::CaptureReader& reader,
                                                      MemoryInOrder& events);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_CATEGORIES_H_
