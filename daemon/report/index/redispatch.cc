#include "daemon/report/index/redispatch.h"

#include <algorithm>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/lost_parents.h"

namespace profd::report {
namespace {

bool HasOneIn(const std::vector<int64_t>& sorted, int64_t begin_ns, int64_t end_ns) {
  const auto at = std::ranges::lower_bound(sorted, begin_ns);
  return at != sorted.end() && *at < end_ns;
}

}  // namespace

absl::StatusOr<Redispatches> Redispatches::Build(store::CaptureReader& reader) {
  Redispatches result;
  result.threads_.resize(reader.threads().size());
  RETURN_IF_ERROR(reader.ForEach<ApiRow>([&](const ApiBatch& batch) {
    if (batch.thread >= result.threads_.size()) result.threads_.resize(batch.thread + size_t{1});
    std::vector<int64_t>& starts = result.threads_[batch.thread].api_starts;
    starts.insert(starts.end(), batch.start_ns.begin(), batch.start_ns.end());
    result.needs_starts_ |= batch.size > 0;
    return absl::OkStatus();
  }));
  for (OfThread& thread : result.threads_) {
    if (!std::ranges::is_sorted(thread.api_starts)) std::ranges::sort(thread.api_starts);
  }
  result.needs_starts_ |= MayLackParents(reader);
  return result;
}

uint32_t Redispatches::columns() const {
  const uint32_t columns = kRangeDuration | kRangeDepth;
  return needs_starts_ ? columns | kRangeStart : columns;
}

std::span<const uint8_t> Redispatches::FindFolds(const RangeBatch& batch,
                                                 std::span<const uint32_t> kinds,
                                                 const OpKinds& of) {
  folds_.assign(batch.size, 0);
  if (batch.size == 0) return folds_;
  if (batch.thread >= threads_.size()) threads_.resize(batch.thread + size_t{1});
  OfThread& thread = threads_[batch.thread];
  const size_t deepest = *std::ranges::max_element(batch.depth);
  if (deepest + 1 >= thread.children.size()) thread.children.resize(deepest + 2);
  const std::span<uint32_t> children = thread.children;
  for (size_t i = 0; i < batch.size; ++i) {
    const uint16_t depth = batch.depth[i];
    const uint32_t child_count = std::exchange(children[depth + size_t{1}], 0);
    ++children[depth];
    const int64_t start_ns = needs_starts_ ? batch.start_ns[i] : 0;
    const int64_t duration_ns = batch.duration_ns[i];
    folds_[i] = child_count == 1 && thread.has_previous && thread.depth == depth + 1 &&
                of.HaveSameName(thread.kind, kinds[i]) &&
                (!needs_starts_ || CallsItself(thread, start_ns, duration_ns));
    thread.has_previous = true;
    thread.depth = depth;
    thread.kind = kinds[i];
    thread.start_ns = start_ns;
    thread.duration_ns = duration_ns;
  }
  return folds_;
}

// Whether the previous range lies in [start_ns, start_ns + duration_ns), with no API call except in
// it.
bool Redispatches::CallsItself(const OfThread& thread, int64_t start_ns, int64_t duration_ns) {
  if (thread.start_ns < start_ns) return false;
  const int64_t inner_end_ns = EndOf(thread.start_ns, thread.duration_ns);
  return !HasOneIn(thread.api_starts, start_ns, thread.start_ns) &&
         !HasOneIn(thread.api_starts, inner_end_ns, EndOf(start_ns, duration_ns));
}

}  // namespace profd::report
