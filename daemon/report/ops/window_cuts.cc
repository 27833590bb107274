#include "daemon/report/ops/window_cuts.h"

#include <limits>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"

namespace profd::report {

absl::StatusOr<WindowCuts> WindowCuts::Build(store::CaptureReader& reader) {
  WindowCuts cuts;
  if (reader.record().truncated_range_count == 0) return cuts;
  size_t count = 0;
  int64_t earlier_end_ns = std::numeric_limits<int64_t>::min();
  for (const WindowRecord& window : reader.record().windows) {
    const store::TimeFilter before = {.begin_ns = earlier_end_ns, .end_ns = window.start_ns};
    earlier_end_ns = window.end_ns;
    constexpr uint32_t kColumns = kRangeStart | kRangeDuration | kRangeName | kRangeDepth;
    RETURN_IF_ERROR(reader.ForEach<RangeRow>(kColumns, before, [&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const int64_t end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]);
        if (batch.start_ns[i] >= window.start_ns || end_ns < window.start_ns ||
            end_ns > window.end_ns) {
          continue;
        }
        if (++count > kMostRanges) return absl::OkStatus();
        cuts.by_thread_[batch.thread].ranges.push_back(
            {batch.duration_ns[i], batch.name[i], batch.depth[i],
             batch.duration_ns[i] - (end_ns - window.start_ns)});
      }
      return absl::OkStatus();
    }));
  }
  return cuts;
}

RangeBatch WindowCuts::Cut(const RangeBatch& batch) {
  const auto thread = by_thread_.find(batch.thread);
  if (thread == by_thread_.end()) return batch;
  OfThread& of_thread = thread->second;
  RangeBatch cut = batch;
  for (size_t i = 0; i < batch.size && of_thread.next < of_thread.ranges.size(); ++i) {
    // It is known by what is always read. Ranges with the same are interchangeable here.
    const BeganBefore& range = of_thread.ranges[of_thread.next];
    if (range.duration_ns != batch.duration_ns[i] || range.depth != batch.depth[i] ||
        range.name != batch.name[i]) {
      continue;
    }
    ++of_thread.next;
    if (cut.duration_ns.data() != duration_ns_.data()) {
      duration_ns_.assign(batch.duration_ns.begin(), batch.duration_ns.end());
      start_ns_.assign(batch.start_ns.begin(), batch.start_ns.end());
      cut.duration_ns = duration_ns_;
      cut.start_ns = start_ns_;
    }
    duration_ns_[i] -= range.cut_ns;
    if (!start_ns_.empty()) start_ns_[i] += range.cut_ns;
  }
  return cut;
}

}  // namespace profd::report
