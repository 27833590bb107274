// WindowBook reads the edges of a capture's windows from the header that the target
// writes, and keeps each from the moment it was first seen and could be true. What it has
// once said never changes, whatever the target writes later.
//
// Threads: one at a time.
#ifndef PROFD_DAEMON_INGEST_WINDOW_BOOK_H_
#define PROFD_DAEMON_INGEST_WINDOW_BOOK_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "proto/wire/capture_memory.h"

namespace profd {

class WindowBook {
 public:
  // `header` must outlive the book. No edge lies before `epoch_ticks`.
  WindowBook(const wire::CaptureMemoryHeader& header, const FirePlan& plan, uint64_t epoch_ticks);

  // Looks for new edges. `latest_ticks`: what no edge lies after.
  void Refresh(uint64_t latest_ticks);

  // The target will write no more edges: windows still open end at `cut_ticks`.
  void Cut(uint64_t cut_ticks);

  std::span<const WindowTicks> ticks() const { return {ticks_.data(), window_count_}; }

  // The windows that began, after Cut().
  std::vector<RecordedWindow> Recorded(const TickLine& line, const EventDecoder& decoder) const;

 private:
  bool FindStart(size_t window, uint64_t latest_ticks);
  bool FindEnd(size_t window, uint64_t latest_ticks);

  const wire::CaptureMemoryHeader& header_;
  const int64_t steps_;  // Per window; 0: by time.
  const size_t window_count_;
  const uint64_t epoch_ticks_;

  std::array<WindowTicks, wire::kMaxWindows> ticks_{};
  std::array<int64_t, wire::kMaxWindows> first_steps_{};
  std::array<int64_t, wire::kMaxWindows> end_steps_{};
  std::array<bool, wire::kMaxWindows> closed_by_target_{};
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_WINDOW_BOOK_H_
