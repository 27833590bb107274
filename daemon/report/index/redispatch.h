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
// Memory:  8 bytes per API call, up to twice that as vectors grow; 24 per depth of each thread.
// Errors:  the reader's, in Build().
#ifndef PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_
#define PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

class Redispatches {
 public:
  static absl::StatusOr<Redispatches> Build(store::CaptureReader& reader);

  // The columns that FoldsPrevious() reads. With the start of ranges it is also right where ranges
  // or the calls between them were recorded in part; Build() tells whether they can be.
  uint32_t columns() const;

  // Whether the range before this one on its thread is folded into it. `name` is equal for equal
  // texts. Pass every range, in the reader's order.
  bool FoldsPrevious(const RangeBatch& batch, size_t i, uint32_t name) {
    if (batch.thread >= threads_.size()) threads_.resize(batch.thread + size_t{1});
    OfThread& thread = threads_[batch.thread];
    const uint16_t depth = batch.depth[i];
    if (depth + size_t{1} >= thread.children.size()) thread.children.resize(depth + size_t{2});
    const uint32_t child_count = std::exchange(thread.children[depth + size_t{1}], 0);
    ++thread.children[depth];
    const int64_t start_ns = needs_starts_ ? batch.start_ns[i] : 0;
    const int64_t duration_ns = batch.duration_ns[i];
    const bool folds = child_count == 1 && thread.has_previous && thread.name == name &&
                       thread.depth == depth + 1 &&
                       (!needs_starts_ || CallsItself(thread, start_ns, duration_ns));
    thread.has_previous = true;
    thread.depth = depth;
    thread.name = name;
    thread.start_ns = start_ns;
    thread.duration_ns = duration_ns;
    return folds;
  }

 private:
  struct OfThread {
    std::vector<uint32_t> children;   // By depth: since the last range one level further out.
    std::vector<int64_t> api_starts;  // Sorted.
    bool has_previous = false;
    uint16_t depth = 0;  // Of the previous range, as what follows.
    uint32_t name = 0;
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
  };

  static bool CallsItself(const OfThread& thread, int64_t start_ns, int64_t duration_ns);

  bool needs_starts_ = false;
  std::vector<OfThread> threads_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_REDISPATCH_H_
