#include "daemon/report/index/operator_index.h"

#include <algorithm>
#include <tuple>

#include "daemon/base/status_macros.h"

namespace profd::report {
namespace {

using Entry = OperatorIndex::Entry;

bool BeginsBefore(const Entry& a, const Entry& b) {
  return std::tie(a.start_ns, a.depth) < std::tie(b.start_ns, b.depth);
}

// The first of `entries` that is not before `wanted`, sought in steps that double, from `from`.
size_t SeekFrom(const std::vector<Entry>& entries, size_t from, const Entry& wanted) {
  size_t begin = from;  // What precedes it is before `wanted`.
  size_t end = from;    // It is not before `wanted`, or the end.
  if (from < entries.size() && BeginsBefore(entries[from], wanted)) {
    for (size_t step = 1; end < entries.size() && BeginsBefore(entries[end], wanted); step *= 2) {
      begin = end + 1;
      end = std::min(entries.size(), end + step);
    }
  } else {
    for (size_t step = 1; begin > 0 && !BeginsBefore(entries[begin - 1], wanted); step *= 2) {
      end = begin - 1;
      begin -= std::min(begin, step);
    }
  }
  const auto at =
      std::lower_bound(entries.begin() + static_cast<ptrdiff_t>(begin),
                       entries.begin() + static_cast<ptrdiff_t>(end), wanted, BeginsBefore);
  return static_cast<size_t>(at - entries.begin());
}

}  // namespace

absl::StatusOr<OperatorIndex> OperatorIndex::Build(store::CaptureReader& reader) {
  OperatorIndex index;
  RETURN_IF_ERROR(reader.ForEach<OperatorRow>([&](const OperatorBatch& batch) {
    if (batch.thread >= index.threads_.size()) index.threads_.resize(batch.thread + 1);
    std::vector<Entry>& entries = index.threads_[batch.thread].entries;
    for (size_t i = 0; i < batch.size; ++i) {
      entries.push_back(
          {batch.start_ns[i], batch.inputs[i], batch.scalars[i], batch.depth[i], batch.scope[i]});
    }
    return absl::OkStatus();
  }));
  for (OfThread& thread : index.threads_) {
    std::sort(thread.entries.begin(), thread.entries.end(), BeginsBefore);
  }
  return index;
}

const Entry* OperatorIndex::Find(uint32_t thread, int64_t start_ns, uint16_t depth) {
  if (thread >= threads_.size()) return nullptr;
  OfThread& of = threads_[thread];
  const size_t at =
      SeekFrom(of.entries, of.last,
               {.start_ns = start_ns, .inputs = 0, .scalars = 0, .depth = depth, .scope = 0});
  if (at == of.entries.size()) return nullptr;
  of.last = at;
  const Entry& found = of.entries[at];
  return found.start_ns == start_ns && found.depth == depth ? &found : nullptr;
}

}  // namespace profd::report
