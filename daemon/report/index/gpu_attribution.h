// GpuAttribution finds the API call that launched a piece of GPU work, and the ranges of the
// program around that call, by thread and time. It runs on the stored capture, so the program pays
// nothing.
//
//   thread 7   ├─ step ────────────────────────────┤      Find(12): cudaLaunchKernel on thread 7,
//              ├─ forward ────────┤                       path step > forward > matmul
//                ├─ matmul ──┤
//                   [12]                                  the API call with correlation 12
//   stream 3               ████                           the kernel with correlation 12
//
// A call lies in a range if it begins in it. Of ranges of an imported trace that overlap without
// nesting, as those of coroutines, it lies in the one that began last, as torch.profiler has it.
// All nodes of a graph carry the correlation of the graph's launch. If several calls share a
// correlation, the first one counts.
//
// Threads: one builds it; then any may read.
// Memory:  64 bytes per API call, up to twice that as vectors grow, and up to 64 for correlations.
//          While it is built, 24 more per range with a call in it, until its outermost range ends.
// Errors:  the reader's. Any rows are safe: impossible nesting is read as another nesting.
#ifndef PROFD_DAEMON_REPORT_INDEX_GPU_ATTRIBUTION_H_
#define PROFD_DAEMON_REPORT_INDEX_GPU_ATTRIBUTION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Paths from outermost ranges inward, as a tree that shares common prefixes. Path 0 means "in no
// range".
class RangePaths {
 public:
  static constexpr uint32_t kNone = 0;
  static constexpr uint32_t kMaxDepth =
      128;  // Deeper ones, which only a damaged file has, end here.

  struct Node {
    uint32_t name = 0;     // Index into names() of the reader; with kinds, a kind.
    uint32_t parent = 0;   // kNone: it is an outermost range.
    uint32_t depth = 0;    // 1: outermost
    bool repeats = false;  // Its name also occurs on the path above it.
  };

  // Returns the path of `name` inside `parent`, which must be a path of this tree.
  uint32_t Child(uint32_t parent, uint32_t name);

  // Returns the innermost range of `path`; follow `parent` until kNone.
  const Node& operator[](uint32_t path) const { return nodes_[path]; }
  size_t size() const { return nodes_.size(); }  // All paths are smaller.

 private:
  std::vector<Node> nodes_ = std::vector<Node>(1);
  absl::flat_hash_map<uint64_t, uint32_t> children_;             // (parent, name) -> path
  std::vector<uint32_t> last_child_ = std::vector<uint32_t>(1);  // By parent; 0: none yet.
};

class GpuAttribution {
 public:
  struct Call {
    int64_t start_ns = 0;
    int64_t end_ns = 0;
    int64_t range_start_ns = 0;  // Of the innermost range around it; with `path` only.
    uint32_t thread = 0;         // Index into threads().
    uint32_t name = 0;           // Index into names(): "cudaLaunchKernel".
    uint32_t correlation = 0;
    uint32_t path = RangePaths::kNone;
    int32_t step = -1;  // Position in steps() of the step it began in; -1: in none.
    bool is_driver = false;
  };

  // With `kinds`, paths consist of kinds instead of names.
  static absl::StatusOr<GpuAttribution> Build(store::CaptureReader& reader,
                                              OpKinds* kinds = nullptr);
  // Builds without the ranges around the calls: every path is kNone, and no range is read.
  static absl::StatusOr<GpuAttribution> BuildCalls(store::CaptureReader& reader);

  // Returns the call that launched work with this correlation; nullptr: not in the capture.
  // Valid while this object lives.
  const Call* Find(uint32_t correlation) const {
    const uint64_t slot = uint64_t{correlation} - first_correlation_;
    if (slot < by_slot_.size()) {
      return by_slot_[slot] == kNoCall ? nullptr : &calls_[by_slot_[slot]];
    }
    return by_slot_.empty() ? FindSparse(correlation) : nullptr;
  }

  // All calls: by thread, then by start.
  std::span<const Call> calls() const { return calls_; }
  std::span<const Call> CallsOf(uint32_t thread) const;
  const RangePaths& paths() const { return paths_; }
  // Whether a call began before the first window. Its work ran in the window, because the host was
  // ahead of the GPU: timelines and busy time have that work, counts and totals of what the window
  // launched do not. Imported traces have no such calls.
  bool IsBeforeWindow(const Call& call) const { return call.start_ns < window_start_ns_; }
  // By start; what Call::step counts in.
  std::span<const StepRecord> steps() const { return steps_; }
  // The number of the step, as users count; -1: in none.
  int64_t StepIndexOf(const Call& call) const {
    return call.step < 0 ? -1 : steps_[static_cast<size_t>(call.step)].index;
  }

 private:
  static constexpr uint32_t kNoCall = std::numeric_limits<uint32_t>::max();

  absl::Status ReadCalls(store::CaptureReader& reader);
  void IndexCorrelations();
  void FindSteps(store::CaptureReader& reader);
  absl::Status FindPaths(store::CaptureReader& reader, OpKinds* kinds);
  const Call* FindSparse(uint32_t correlation) const;

  std::vector<Call> calls_;
  std::vector<size_t> thread_begin_;  // Of thread i: calls_[thread_begin_[i], thread_begin_[i + 1])
  RangePaths paths_;
  std::vector<StepRecord> steps_;
  int64_t window_start_ns_ = std::numeric_limits<int64_t>::min();
  // Correlation to call position. Dense correlations, as CUPTI assigns them, use
  // by_slot_[correlation - first_correlation_]; others use sparse_, sorted.
  uint64_t first_correlation_ = 0;
  std::vector<uint32_t> by_slot_;
  std::vector<std::pair<uint32_t, uint32_t>> sparse_;
};

// CallSweep assigns the calls of one thread to the ranges around them. Ranges come in order of
// their end: each call goes to the first range that contains its start.
//
// Ownership: borrows `calls`, which must be sorted by start.
class CallSweep {
 public:
  explicit CallSweep(std::span<const GpuAttribution::Call> calls) : calls_(calls) {}

  // Ends the range [start_ns, end_ns): calls fn(position in calls) for each call directly in it.
  template <typename Fn>
  void EndRange(int64_t start_ns, int64_t end_ns, Fn fn) {
    // Calls between this range and the one before it may lie in a range around both.
    size_t taken = next_;
    while (next_ < calls_.size() && calls_[next_].start_ns < start_ns) ++next_;
    if (next_ > taken) waiting_.push_back({taken, next_});
    taken = next_;
    while (next_ < calls_.size() && calls_[next_].start_ns < end_ns) fn(next_++);
    while (!waiting_.empty() && calls_[waiting_.back().end - 1].start_ns >= start_ns) {
      Run& run = waiting_.back();
      while (run.end > run.begin && calls_[run.end - 1].start_ns >= start_ns) fn(--run.end);
      if (run.end > run.begin) break;
      waiting_.pop_back();
    }
  }
  // The same of a range that ends where another one begins which ended before: calls that began
  // at `end_ns` or later still wait.
  template <typename Fn>
  void EndCutRange(int64_t start_ns, int64_t end_ns, Fn fn) {
    std::vector<Run> later;
    while (!waiting_.empty() && calls_[waiting_.back().end - 1].start_ns >= end_ns) {
      Run& run = waiting_.back();
      const auto of_run = calls_.subspan(run.begin, run.end - run.begin);
      const auto first_later =
          std::ranges::lower_bound(of_run, end_ns, {}, &GpuAttribution::Call::start_ns);
      const size_t begin = run.begin + static_cast<size_t>(first_later - of_run.begin());
      later.push_back({begin, run.end});
      run.end = begin;
      if (run.begin < run.end) break;
      waiting_.pop_back();
    }
    EndRange(start_ns, end_ns, fn);
    waiting_.insert(waiting_.end(), later.rbegin(), later.rend());
  }
  // Drops waiting calls after an outermost range: no later range can contain them.
  void EndOutermost() { waiting_.clear(); }

  // All calls before this one are assigned, or waiting.
  size_t next() const { return next_; }

 private:
  struct Run {  // Calls in no range that has ended.
    size_t begin;
    size_t end;
  };

  const std::span<const GpuAttribution::Call> calls_;
  size_t next_ = 0;
  std::vector<Run> waiting_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_GPU_ATTRIBUTION_H_
