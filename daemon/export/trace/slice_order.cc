#include "daemon/export/trace/slice_order.h"

#include <algorithm>

#include "daemon/base/str_cat.h"

namespace profd::exporter {
namespace {

int64_t EndAt(const RangeBatch& batch, size_t i) {
  return static_cast<int64_t>(static_cast<uint64_t>(batch.start_ns[i]) +
                              static_cast<uint64_t>(batch.duration_ns[i]));
}

int64_t LastEnd(const RangeBatch& batch, int64_t before) {
  for (size_t i = 0; i < batch.size; ++i) before = std::max(before, EndAt(batch, i));
  return before;
}

}  // namespace

SliceOrder::Thread& SliceOrder::ThreadAt(uint32_t thread) {
  if (thread >= threads_.size()) threads_.resize(thread + 1);
  return threads_[thread];
}

absl::Status SliceOrder::Learn(const RangeBatch& batch) {
  Thread& thread = ThreadAt(batch.thread);
  for (size_t i = 0; i < batch.size; ++i) {
    if (batch.start_ns[i] >= thread.learnt_until_ns) continue;
    thread.early.push_back({{batch.start_ns[i], learnt_ranges_ + static_cast<uint32_t>(i),
                             batch.name[i], batch.depth[i], batch.category[i], batch.flags[i]},
                            thread.learnt});
  }
  if (thread.early.size() > kMostOpenRanges * (thread.learnt + 1)) {
    return absl::DataLossError(StrCat("the ranges of thread ", batch.thread, " do not nest"));
  }
  learnt_ranges_ += static_cast<uint32_t>(batch.size);
  ++thread.learnt;
  thread.learnt_until_ns = LastEnd(batch, thread.learnt_until_ns);
  return absl::OkStatus();
}

// Works from the batch's end to its start: reversed, enclosing ranges come first, and a
// stack has the ranges whose end is given and whose begin is not yet.
std::span<const SliceEdge> SliceOrder::Order(const RangeBatch& batch) {
  Thread& thread = ThreadAt(batch.thread);
  const int64_t until_ns = LastEnd(batch, thread.ordered_until_ns);
  edges_.clear();
  stack_.clear();
  for (auto early = thread.early.rbegin();
       early != thread.early.rend() && early->batch > thread.ordered; ++early) {
    if (early->range.start_ns < until_ns) stack_.push_back(early->range);
  }
  for (size_t i = batch.size; i-- > 0;) {
    const int64_t start_ns = batch.start_ns[i];
    const int64_t end_ns = EndAt(batch, i);
    while (!stack_.empty()) {
      const Range& top = stack_.back();
      const bool may_precede = end_ns <= top.start_ns;
      const bool may_nest = top.start_ns <= start_ns;
      // Both: a range without length where `top` begins.
      if (may_nest && (!may_precede || batch.depth[i] > top.depth)) break;
      PopBegin(thread, end_ns);
    }
    edges_.push_back({end_ns, 0, 0, 0, 0, /*is_begin=*/false});
    stack_.push_back({start_ns, ordered_ranges_ + static_cast<uint32_t>(i), batch.name[i],
                      batch.depth[i], batch.category[i], batch.flags[i]});
  }
  while (!stack_.empty()) PopBegin(thread, std::numeric_limits<int64_t>::min());
  std::reverse(edges_.begin(), edges_.end());
  // Changes nothing where ranges nest.
  for (SliceEdge& edge : edges_) {
    edge.time_ns = thread.last_edge_ns = std::max(edge.time_ns, thread.last_edge_ns);
  }
  ordered_ranges_ += static_cast<uint32_t>(batch.size);
  ++thread.ordered;
  thread.ordered_until_ns = until_ns;
  return edges_;
}

void SliceOrder::PopBegin(const Thread& thread, int64_t not_before_ns) {
  const Range& range = stack_.back();
  if (range.start_ns >= thread.ordered_until_ns) {
    edges_.push_back({std::max(range.start_ns, not_before_ns), range.range, range.name,
                      range.category, range.flags, /*is_begin=*/true});
  }
  stack_.pop_back();
}

}  // namespace profd::exporter
