// OpMemory tells what each range changed of the memory in use: the memory columns of the
// operator table, to the definitions in reports.h.
//
// Threads: one.
// Memory:  24 bytes per allocation and free of threads that have ranges, at most
//          kMaxOperatorMemoryEvents of them; where frees carry no size, also a map of the blocks
//          that are alive, at most kMaxTrackedBlocks.
// Errors:  the reader's; RESOURCE_EXHAUSTED (OVER_BUDGET), after which it tells of no range.
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
  // Allocated less freed. Sums wrap, so that no number in a stranger's file can overflow.
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
    Bytes self;      // Not in a range inside of this one.
    Bytes total;
  };

  // The columns that Of() reads.
  static constexpr uint32_t kColumns =
      store::kRangeStart | store::kRangeDuration | store::kRangeDepth;

  absl::Status Read(store::CaptureReader& reader);
  // The capture holds no events of allocators.
  bool empty() const { return empty_; }

  // Those of the batch's ranges in which anything was allocated or freed. Batches must come as
  // the reader gives them. Valid until the next call.
  std::span<const Change> Of(const store::RangeBatch& batch);

 private:
  struct Piece {
    int64_t time_ns;  // Of an event, or where a range began.
    int64_t bytes;
    bool is_device;
    bool is_range;
  };
  struct OfThread {
    std::vector<Piece> events;   // By time.
    size_t next = 0;             // The first that no range has passed.
    std::vector<Piece> waiting;  // For a range around them; by time.
  };

  // What Read() is going to keep.
  struct Need {
    int64_t event_count = 0;
    bool sizes = false;            // Some frees do not say what they free.
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
