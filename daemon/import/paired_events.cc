#include "daemon/import/paired_events.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

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
    auto id = ids_.find(key_);
    if (id == ids_.end()) {
      if (id_bytes_ + key_.size() > kMaxIdBytes) {
        not_understood.Count(
            StrCat("ph:", std::string(1, event.phase), " with an id beyond the limit of memory"));
        return;
      }
      id_bytes_ += key_.size();
      id = ids_.emplace(key_, static_cast<uint32_t>(ids_.size())).first;
    }
    of = id->second;
  }
  marks_.push_back({.time_ns = time_ns,
                    .of = of,
                    .thread = thread,
                    .name = name,
                    .is_async = is_async,
                    .has_name = !event.name.empty(),
                    .is_begin = event.phase == 'B' || event.phase == 'b'});
}

// Begins that have no end yet.
class PairedEvents::OpenMarks {
 public:
  void Push(const Mark& begin) {
    by_name_[begin.name].push_back(marks_.size());
    marks_.push_back(&begin);
  }
  // The begin of an end: the last one of its name; of an end without a name, the last one. nullptr:
  // there is none.
  const Mark* Pop(const Mark& end) {
    if (!end.has_name) return PopLast();
    const auto named = by_name_.find(end.name);
    if (named == by_name_.end() || named->second.empty()) return nullptr;
    // A begin in the middle leaves a hole, which is dropped when it comes to the end. Taking it out
    // would move all after it.
    const Mark* const begin = std::exchange(marks_[named->second.back()], nullptr);
    named->second.pop_back();
    DropEnded();
    return begin;
  }
  const Mark* PopLast() {
    if (marks_.empty()) {
      by_name_.clear();
      return nullptr;
    }
    const Mark* const begin = marks_.back();
    by_name_[begin->name].pop_back();
    marks_.pop_back();
    DropEnded();
    return begin;
  }

 private:
  void DropEnded() {
    while (!marks_.empty() && marks_.back() == nullptr) marks_.pop_back();
  }

  std::vector<const Mark*> marks_;  // nullptr: it has ended. The last one has not.
  absl::flat_hash_map<uint32_t, std::vector<size_t>> by_name_;
};

// At one time, what ends began before, unless the file has a begin of its name first. An end
// without a name stays where it is.
void PairedEvents::PutEndsFirst() {
  absl::flat_hash_map<uint32_t, int64_t> begun;  // At this time.
  std::vector<Mark> begins;
  for (size_t first = 0; first < marks_.size();) {
    size_t end = first;
    size_t ends = first;
    begun.clear();
    begins.clear();
    for (; end < marks_.size() && marks_[end].is_async == marks_[first].is_async &&
           marks_[end].of == marks_[first].of && marks_[end].time_ns == marks_[first].time_ns;
         ++end) {
      const Mark mark = marks_[end];
      int64_t* const count = mark.has_name ? &begun[mark.name] : nullptr;
      if (!mark.is_begin && count != nullptr && *count == 0) {
        marks_[ends++] = mark;
        continue;
      }
      if (count != nullptr) *count += mark.is_begin ? 1 : -1;
      begins.push_back(mark);
    }
    std::ranges::copy(begins, marks_.begin() + static_cast<std::ptrdiff_t>(ends));
    first = end;
  }
}

absl::Status PairedEvents::Finish(std::optional<int64_t> open_end_ns, NotUnderstood& not_understood,
                                  absl::FunctionRef<absl::Status(const Range&)> on_range) {
  // Stable: of equal times the file's order holds, but for the ends that come first.
  std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) {
    return std::tie(a.is_async, a.of, a.time_ns) < std::tie(b.is_async, b.of, b.time_ns);
  });
  PutEndsFirst();
  OpenMarks open;
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
      open.Push(mark);
    } else if (const Mark* const begin = open.Pop(mark); begin == nullptr) {
      not_understood.Count(mark.is_async ? "ph:e without ph:b" : "ph:E without ph:B");
    } else {
      RETURN_IF_ERROR(give(*begin, mark.time_ns, /*is_open=*/false));
    }
    const bool is_last = i + 1 == marks_.size() || marks_[i + 1].of != mark.of ||
                         marks_[i + 1].is_async != mark.is_async;
    if (!is_last) continue;
    while (const Mark* const begin = open.PopLast()) {
      if (open_end_ns.has_value() && *open_end_ns >= begin->time_ns) {
        RETURN_IF_ERROR(give(*begin, *open_end_ns, /*is_open=*/true));
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
