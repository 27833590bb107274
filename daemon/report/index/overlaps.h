// Ranges that overlap others of their thread without nesting: blocks of asyncio tasks, NVTX ranges
// with a start and an end. Captures have them on lanes, which are rows of their own.
//
//   thread 7                      ├─ step ──────────────────────────┤
//                                          ├─ decode ─┤
//   "overlapping ranges of 7"        ├─ request 1 ──────┤
//   "overlapping ranges of 7"            ├─ request 2 ───────┤
//   self time                     step  1   2  decode     2     step
//
// An instant of a thread is self time of the range (or CUDA call) that began last of those that are
// open. For ranges that nest, that is the innermost one.
//
// Threads: one at a time.
// Memory:  32 bytes per range and call of the threads that have lanes, of kMostOverlapRanges at
//          most. Beyond, rows are taken for themselves, as where there are no lanes.
// Errors:  the reader's. A lane whose name does not give its thread is left to itself.
#ifndef PROFD_DAEMON_REPORT_INDEX_OVERLAPS_H_
#define PROFD_DAEMON_REPORT_INDEX_OVERLAPS_H_

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/store/file/capture_reader.h"
#include "proto/wire/event.h"

namespace profd::report {

inline constexpr int64_t kMostOverlapRanges = 4'000'000;

inline bool IsLane(const store::ReaderThread& thread) {
  return thread.os_thread >= int64_t{wire::kFirstLane};
}

// By thread of the capture: the number of its group, which a thread and its lanes have in common;
// kNoOverlaps: there is no lane.
inline constexpr uint32_t kNoOverlaps = std::numeric_limits<uint32_t>::max();
std::vector<uint32_t> OverlapGroups(std::span<const store::ReaderThread> threads);

class OverlapSelfTimes {
 public:
  // Reads nothing if there are no lanes.
  static absl::StatusOr<OverlapSelfTimes> Build(store::CaptureReader& reader,
                                                std::span<const GpuAttribution::Call> calls,
                                                int64_t most_ranges = kMostOverlapRanges);

  // No thread has lanes, or there is too much to share out.
  bool empty() const { return group_count_ == 0; }
  bool is_too_much() const { return is_too_much_; }
  bool Has(uint32_t thread) const { return !empty() && groups_[thread] != kNoOverlaps; }
  // Self times of a batch of a thread that has lanes. Pass all batches, in the reader's order.
  void Next(const RangeBatch& batch, std::span<uint64_t> self);
  // Of a call on such a thread, by its position.
  uint64_t OfCall(size_t call) const { return of_calls_[call]; }

 private:
  struct Piece {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t thread;  // kCall: it is a call.
    uint32_t index;   // Among the rows of the thread, or the calls.
  };
  static constexpr uint32_t kCall = std::numeric_limits<uint32_t>::max();

  void Sweep(std::vector<Piece>& pieces);

  bool is_too_much_ = false;
  uint32_t group_count_ = 0;
  std::vector<uint32_t> groups_;
  std::vector<std::vector<uint64_t>> of_ranges_;  // By thread.
  std::vector<size_t> next_;                      // Likewise.
  std::vector<uint64_t> of_calls_;
};

// The depths of ranges among those of their own row. The recorded ones count ranges that were open
// and are on lanes.
class RowDepths {
 public:
  static absl::StatusOr<RowDepths> Build(store::CaptureReader& reader,
                                         int64_t most_ranges = kMostOverlapRanges);

  // The depth of each range of the batch. Pass all batches, in the reader's order.
  std::span<const uint16_t> Next(const RangeBatch& batch);

 private:
  std::vector<uint32_t> groups_;               // Empty: the recorded depths are taken.
  std::vector<std::vector<uint16_t>> depths_;  // By thread.
  std::vector<size_t> next_;                   // Likewise.
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_OVERLAPS_H_
