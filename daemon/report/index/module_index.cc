#include "daemon/report/index/module_index.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/index/end_of.h"

namespace profd::report {
namespace {

struct ModuleRange {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t module;
};

// By start, of several the longest first.
bool IsBefore(const ModuleRange& a, const ModuleRange& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
}

}  // namespace

absl::StatusOr<ModuleIndex> ModuleIndex::Build(store::CaptureReader& reader) {
  ModuleIndex index;
  std::vector<uint32_t> modules;  // By name; 0: none.
  absl::flat_hash_map<std::string_view, uint32_t> numbers;
  for (const std::string& name : reader.names()) {
    uint32_t module = 0;
    if (std::string_view(name).starts_with(kModulePrefix)) {
      const std::string_view text = std::string_view(name).substr(kModulePrefix.size());
      const auto next = static_cast<uint32_t>(index.names_.size());
      const auto [at, inserted] = numbers.try_emplace(text, next);
      if (inserted) index.names_.emplace_back(text);
      module = at->second;
    }
    modules.push_back(module);
  }
  if (numbers.empty()) return index;

  absl::flat_hash_map<int64_t, uint32_t> first_rows;  // By the system's number.
  for (const store::ReaderThread& thread : reader.threads()) {
    const auto row = static_cast<uint32_t>(index.row_of_.size());
    const bool is_known = thread.os_thread > 0;
    index.row_of_.push_back(is_known ? first_rows.try_emplace(thread.os_thread, row).first->second
                                     : row);
  }
  std::vector<std::vector<ModuleRange>> ranges(reader.threads().size());
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName, {}, [&](const RangeBatch& batch) {
        for (size_t i = 0; i < batch.size; ++i) {
          if (modules[batch.name[i]] == 0) continue;
          ranges[index.row_of_[batch.thread]].push_back(
              {batch.start_ns[i], EndOf(batch.start_ns[i], batch.duration_ns[i]),
               modules[batch.name[i]]});
        }
        return absl::OkStatus();
      }));
  for (std::vector<ModuleRange>& of_thread : ranges) {
    std::sort(of_thread.begin(), of_thread.end(), IsBefore);
    std::vector<Change>& changes = index.threads_.emplace_back().changes;
    std::vector<const ModuleRange*> open;
    const auto close_until = [&](int64_t time_ns) {
      while (!open.empty() && open.back()->end_ns <= time_ns) {
        const int64_t end_ns = open.back()->end_ns;
        open.pop_back();
        changes.push_back({end_ns, open.empty() ? 0 : open.back()->module});
      }
    };
    for (const ModuleRange& range : of_thread) {
      close_until(range.start_ns);
      changes.push_back({range.start_ns, range.module});
      open.push_back(&range);
    }
    close_until(std::numeric_limits<int64_t>::max());
    // Ranges that cannot nest, of a stranger's file.
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Change& a, const Change& b) { return a.time_ns < b.time_ns; });
  }
  return index;
}

uint32_t ModuleIndex::At(uint32_t thread, int64_t time_ns) {
  if (thread >= row_of_.size() || threads_[row_of_[thread]].changes.empty()) return 0;
  OfThread& of = threads_[row_of_[thread]];
  const auto holds = [&](size_t at) {
    return of.changes[at].time_ns <= time_ns &&
           (at + 1 == of.changes.size() || time_ns < of.changes[at + 1].time_ns);
  };
  if (!holds(of.last)) {
    const auto behind =
        std::upper_bound(of.changes.begin(), of.changes.end(), time_ns,
                         [](int64_t time, const Change& change) { return time < change.time_ns; });
    if (behind == of.changes.begin()) return 0;
    of.last = static_cast<size_t>(behind - of.changes.begin()) - 1;
  }
  return of.changes[of.last].module;
}

}  // namespace profd::report
