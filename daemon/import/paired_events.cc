#include "daemon/import/paired_events.h"

#include <algorithm>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::importer {

void PairedEvents::Add(const TraceEvent& event, int64_t time_ns, uint32_t thread, uint32_t name,
                       NotUnderstood& not_understood) {
  const bool is_async = event.phase == 'b' || event.phase == 'e';
  uint32_t of = thread;
  if (is_async) {
    if (event.flow.empty()) {
      not_understood.Count(StrCat("ph:", std::string(1, event.phase), " without id"));
      return;
    }
    // Ids are of a process, and of a category.
    key_.assign(event.pid).append(1, '\n').append(event.category).append(1, '\n');
    key_.append(event.flow);
    of = ids_.try_emplace(key_, static_cast<uint32_t>(ids_.size())).first->second;
  }
  marks_.push_back({.time_ns = time_ns,
                    .of = of,
                    .thread = thread,
                    .name = name,
                    .is_async = is_async,
                    .is_begin = event.phase == 'B' || event.phase == 'b'});
}

absl::Status PairedEvents::Finish(std::optional<int64_t> open_end_ns, NotUnderstood& not_understood,
                                  absl::FunctionRef<absl::Status(const Range&)> on_range) {
  // Stable: of equal times the file's order holds.
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
    return std::tie(a.is_async, a.of, a.time_ns) < std::tie(b.is_async, b.of, b.time_ns);
  });
  std::vector<const Mark*> open;
  int64_t lost_begins = 0;
  int64_t lost_async_begins = 0;
  const auto give = [&](const Mark& begin, int64_t end_ns, bool is_open) {
    return on_range({.thread = begin.thread,
                     .start_ns = begin.time_ns,
                     .duration_ns = end_ns - begin.time_ns,
                     .name = begin.name,
                     .overlaps = begin.is_async,
                     .is_open = is_open});
  };
  for (size_t i = 0; i < marks_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (mark.is_begin) {
      open.push_back(&mark);
    } else if (open.empty()) {
      not_understood.Count(mark.is_async ? "ph:e without ph:b" : "ph:E without ph:B");
    } else {
      RETURN_IF_ERROR(give(*open.back(), mark.time_ns, /*is_open=*/false));
      open.pop_back();
    }
    const bool is_last = i + 1 == marks_.size() || marks_[i + 1].of != mark.of ||
                         marks_[i + 1].is_async != mark.is_async;
    if (!is_last) continue;
    for (; !open.empty(); open.pop_back()) {
      if (open_end_ns.has_value() && *open_end_ns >= open.back()->time_ns) {
        RETURN_IF_ERROR(give(*open.back(), *open_end_ns, /*is_open=*/true));
      } else {
        ++(mark.is_async ? lost_async_begins : lost_begins);
      }
    }
  }
  if (lost_begins > 0) not_understood.Count("ph:B without ph:E", lost_begins);
  if (lost_async_begins > 0) not_understood.Count("ph:b without ph:e", lost_async_begins);
  marks_.clear();
  return absl::OkStatus();
}

}  // namespace profd::importer
