// OpMemory finds how much each range changed the memory in use: the memory columns of the operator
// table, as op_table.h defines them.
//
// Threads: one.
// Memory:  24 bytes per allocation and free of threads with ranges, at most
//          kMaxOperatorMemoryEvents of them. If frees carry no size, also a map of the live blocks,
//          at most kMaxTrackedBlocks.
// Errors:  the reader's; RESOURCE_EXHAUSTED (OVER_BUDGET), after which it has no ranges.
#ifndef PROFD_DAEMON_REPORT_OPS_MEMORY_H_
#define PROFD_DAEMON_REPORT_OPS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class OpMemory {
 public:
  // Allocated minus freed. Sums wrap, so that no number in a hostile file overflows.
  struct Bytes {
    int64_t cpu = 0;
    int64_t device = 0;

    void Add(const Bytes& other) {
      cpu = static_cast<int64_t>(static_cast<uint64_t>(cpu) + static_cast<uint64_t>(other.cpu));
      device =
          static_cast<int64_t>(static_cast<uint64_t>(device) + static_cast<uint64_t>(other.device));
    }
  };
  struct Change {
    size_t row = 0;  // In the batch.
    Bytes self;      // Outside the ranges inside this one.
    Bytes total;
  };

  // The columns that Of() reads.
  static constexpr uint32_t kColumns = kRangeStart | kRangeDuration | kRangeDepth;

  absl::Status Read(store::CaptureReader& reader);
  // Whether the capture has no allocator events.
  bool empty() const { return empty_; }

  // Returns the ranges of the batch in which memory was allocated or freed. Pass batches in the
  // reader's order. Valid until the next call.
  std::span<const Change> Of(const RangeBatch& batch);

 private:
  struct Piece {
    int64_t time_ns;  // Of an event, or the begin of a range.
    int64_t bytes;
    bool is_device;
    bool is_range;
  };
  struct OfThread {
    std::vector<Piece> events;   // By time.
    size_t next = 0;             // The first event that no range has passed.
    std::vector<Piece> waiting;  // Events that wait for an enclosing range; by time.
  };

  // What Read() will keep.
  struct Need {
    int64_t event_count = 0;
    bool sizes = false;            // Some frees have no size.
    std::vector<bool> has_ranges;  // By thread; empty: events of all threads are kept.
  };

  absl::StatusOr<Need> Count(store::CaptureReader& reader);
  absl::Status Gather(store::CaptureReader& reader, const Need& need);
  void EndRange(OfThread& thread, int64_t start_ns, int64_t end_ns, size_t row);
  static void Wait(OfThread& thread, int64_t start_ns, const Bytes& total);

  bool empty_ = true;
  std::vector<OfThread> threads_;
  std::vector<Change> changes_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_MEMORY_H_
