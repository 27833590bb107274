// SliceOrder turns one capture's ranges, which come by their end, into the begins and ends
// of slices in the order of time that viewers want, within bounded memory. The reader is
// read twice:
//
//   Learn(batch)   for every batch: notes the few ranges that begin before their batch,
//                  since their begin has to be given with an earlier one
//   Order(batch)   for the same batches again: the edges that lie in the batch's time
//
//   batch 1              │ batch 2                 given with batch 1:  [A ]B [C
//   [A ]B   [C  . . . .  │ . . . ]C   [D ]E        given with batch 2:  ]C [D ]E ...
//
// Of equal times: ends before begins, the enclosing begin first. Edges of a thread never
// go back in time, and each begin has its end. (One thing is lost: a range without length at
// the very instant where two batches meet may stand next to the range it is in.)
//
// Memory: one batch's edges and the ranges that are open where batches meet, of which a
//         thread's nesting allows kMostOpenRanges each.
// Errors: DATA_LOSS if more are open: the file's ranges do not nest.
#ifndef PROFD_DAEMON_EXPORT_TRACE_SLICE_ORDER_H_
#define PROFD_DAEMON_EXPORT_TRACE_SLICE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

struct SliceEdge {
  int64_t time_ns;
  uint32_t range;  // Begins only, as the next three. Ranges are counted as they are given.
  uint32_t name;
  uint8_t category;
  uint8_t flags;
  bool is_begin;
};

class SliceOrder {
 public:
  static constexpr size_t kMostOpenRanges = 128;
  static constexpr uint32_t kColumns = kRangeAllColumns;

  absl::Status Learn(const RangeBatch& batch);
  // Valid until the next call.
  std::span<const SliceEdge> Order(const RangeBatch& batch);

 private:
  struct Range {
    int64_t start_ns;
    uint32_t range;
    uint32_t name;
    uint16_t depth;
    uint8_t category;
    uint8_t flags;
  };
  struct EarlyRange {
    Range range;
    size_t batch;  // Where it ends; its thread's batches count from 0.
  };
  struct Thread {
    std::vector<EarlyRange> early;  // By their end.
    size_t learnt = 0;              // Batches.
    int64_t learnt_until_ns = std::numeric_limits<int64_t>::min();
    size_t ordered = 0;
    int64_t ordered_until_ns = std::numeric_limits<int64_t>::min();  // Ends of ranges.
    int64_t last_edge_ns = std::numeric_limits<int64_t>::min();
  };

  Thread& ThreadAt(uint32_t thread);
  // The begin of the innermost range on the stack, if no earlier batch has given it.
  void PopBegin(const Thread& thread, int64_t not_before_ns);

  std::vector<Thread> threads_;
  uint32_t learnt_ranges_ = 0;
  uint32_t ordered_ranges_ = 0;
  std::vector<SliceEdge> edges_;
  std::vector<Range> stack_;
};

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_SLICE_ORDER_H_
