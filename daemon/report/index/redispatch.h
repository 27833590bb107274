// Redispatches recognizes operators that call themselves once more for another backend:
//
//   thread 7   ├─ aten::sum ───────────┤      one call of aten::sum, as in torch.profiler's table
//               ├─ aten::sum ────────┤
//                  ├─ aten::fill_ ─┤
//
// torch's rule: a range that is the only child of a range of the same name is folded into it. Its
// children are the outer one's. CUDA API calls are children, too.
//
// Ranges come in order of their end, children before their parents, so an inner range is known to
// be folded when the next range of its thread ends.
//
// Threads: one at a time.
// Memory:  8 bytes per API call, up to twice that as vectors grow; 24 per depth of each thread; 1
//          per range of a batch.
// Errors:  the reader's, in Build().
#ifndef PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_
#define PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class Redispatches {
 public:
  static absl::StatusOr<Redispatches> Build(store::CaptureReader& reader);

  // The columns that FindFolds() reads. With the start of ranges it is also right where ranges or
  // the calls between them were recorded in part; Build() tells whether they can be.
  uint32_t columns() const;

  // For each range of the batch, whether the one before it on its thread is folded into it. `kinds`
  // are the batch's in `of`. Pass every batch, in the reader's order. Valid until the next call.
  std::span<const uint8_t> FindFolds(const RangeBatch& batch, std::span<const uint32_t> kinds,
                                     const OpKinds& of);

 private:
  struct OfThread {
    std::vector<uint32_t> children;   // By depth: since the last range one level further out.
    std::vector<int64_t> api_starts;  // Sorted.
    bool has_previous = false;
    uint16_t depth = 0;  // Of the previous range, as what follows.
    uint32_t kind = 0;
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
  };

  static bool CallsItself(const OfThread& thread, int64_t start_ns, int64_t duration_ns);

  bool needs_starts_ = false;
  std::vector<OfThread> threads_;
  std::vector<uint8_t> folds_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_
