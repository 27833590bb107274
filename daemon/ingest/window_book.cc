#include "daemon/ingest/window_book.h"

#include <algorithm>

#include "daemon/ingest/decode/untrusted_values.h"

namespace profd {
WindowBook::WindowBook(const wire::CaptureMemoryHeader& header, const FirePlan& plan,
                       uint64_t epoch_ticks)
    : header_(header),
      steps_(plan.steps),
      window_count_(static_cast<size_t>(std::clamp<int64_t>(plan.repeat, 0, wire::kMaxWindows))),
      epoch_ticks_(epoch_ticks) {}

void WindowBook::Refresh(uint64_t latest_ticks) {
  for (size_t i = 0; i < window_count_; ++i) {
    if (ticks_[i].start == 0 && !FindStart(i, latest_ticks)) return;
    if (ticks_[i].end == 0 && !FindEnd(i, latest_ticks)) return;
  }
}

bool WindowBook::FindStart(size_t window, uint64_t latest_ticks) {
  const wire::Window& untrusted = header_.windows[window];
  // The ticks are read first: the target stores them last, with release, so the step is there when
  // they are.
  const uint64_t start = untrusted.start_ticks.load(std::memory_order_acquire);
  const uint64_t first_step = untrusted.first_step.load(std::memory_order_relaxed);
  // Windows follow each other. An edge that is out of order is not believed now, and is looked at
  // again later.
  const uint64_t earliest = window == 0 ? epoch_ticks_ : ticks_[window - 1].end;
  if (start == 0 || start < earliest || start > latest_ticks) return false;
  if (steps_ > 0 && first_step > kMaxUntrustedCount) return false;
  first_steps_[window] = steps_ > 0 ? static_cast<int64_t>(first_step) : -1;
  ticks_[window].start = start;
  return true;
}

bool WindowBook::FindEnd(size_t window, uint64_t latest_ticks) {
  const wire::Window& untrusted = header_.windows[window];
  const uint64_t end = untrusted.end_ticks.load(std::memory_order_acquire);
  const uint64_t end_step = untrusted.end_step.load(std::memory_order_relaxed);
  if (end == 0 || end < ticks_[window].start || end > latest_ticks) return false;
  const int64_t first_step = first_steps_[window];
  end_steps_[window] = first_step;
  if (steps_ > 0 && end_step <= kMaxUntrustedCount) {
    end_steps_[window] =
        std::clamp(static_cast<int64_t>(end_step), first_step, first_step + steps_);
  }
  closed_by_target_[window] = true;
  ticks_[window].end = end;
  return true;
}

void WindowBook::Cut(uint64_t cut_ticks) {
  for (WindowTicks& window : ticks_) {
    if (window.start != 0 && window.end == 0) window.end = std::max(window.start, cut_ticks);
  }
}

std::vector<RecordedWindow> WindowBook::Recorded(const TickLine& line,
                                                 const EventDecoder& decoder) const {
  std::vector<RecordedWindow> windows;
  for (size_t i = 0; i < window_count_ && ticks_[i].start != 0; ++i) {
    const int64_t first_step = first_steps_[i];
    int64_t end_step = end_steps_[i];
    if (!closed_by_target_[i]) {
      const int64_t marked = decoder.end_step(static_cast<uint32_t>(i));
      end_step = steps_ > 0 ? std::clamp(marked, first_step, first_step + steps_) : -1;
    }
    windows.push_back(
        {.start_ns = line.ToNs(ticks_[i].start),
         .end_ns = line.ToNs(ticks_[i].end),
         .first_step = first_step,
         .end_step = end_step,
         .complete = closed_by_target_[i] && (steps_ == 0 || end_step - first_step == steps_)});
  }
  return windows;
}

}  // namespace profd
