// TickClock turns the ticks in events into time: it pairs the counter with
// CLOCK_MONOTONIC now and then over the daemon's life, so that a capture's first event
// can be placed already.
//
//   mono_ns                     x  pairs, narrowest of 64 tries each
//      │              . ´ x
//      │       . ´ x                 TickLine: through the capture's epoch, with the slope
//      │ . ´ x                       between two pairs some 30 s apart where there are such
//      └────────────────── ticks
//
// One capture has one line, made once: it never bends, so nested ranges stay nested. How
// far it strayed is measured when the capture ends (ErrorOf).
//
// Threads: any.
#ifndef PROFD_DAEMON_INGEST_DECODE_TICK_CLOCK_H_
#define PROFD_DAEMON_INGEST_DECODE_TICK_CLOCK_H_

#include <cmath>
#include <cstdint>
#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/wire/frame.h"

namespace profd {

struct ClockPair {
  uint64_t ticks = 0;
  int64_t mono_ns = 0;
  int64_t error_ns = 0;  // Half the bracket: mono_ns is right within it.
};

// From ticks to ns since the capture's epoch. Never decreases as ticks grow.
class TickLine {
 public:
  TickLine() = default;
  TickLine(const ClockPair& epoch, double ns_per_tick) : epoch_(epoch), ns_per_tick_(ns_per_tick) {}

  int64_t ToNs(uint64_t ticks) const {
    return llrint(static_cast<double>(static_cast<int64_t>(ticks - epoch_.ticks)) * ns_per_tick_);
  }
  // The ticks of a span; at least 1.
  uint64_t TicksOf(int64_t span_ns) const;
  const ClockPair& epoch() const { return epoch_; }
  double ns_per_tick() const { return ns_per_tick_; }

  // A bound on the line's error anywhere between its epoch and `later`.
  int64_t ErrorAt(const ClockPair& later) const;

 private:
  ClockPair epoch_;
  double ns_per_tick_ = 1.0;
};

class TickClock {
 public:
  explicit TickClock(wire::ClockKind kind);

  wire::ClockKind kind() const { return kind_; }
  uint64_t Now() const;

  // Reads counter and clock together (4 us) and remembers the pair as a base of slopes.
  ClockPair Sample();

  // The best slope known now. Samples.
  double NsPerTick();

  // The line through `epoch`, with that slope.
  TickLine LineThrough(const ClockPair& epoch) { return {epoch, NsPerTick()}; }

 private:
  const wire::ClockKind kind_;
  absl::Mutex mu_;
  std::deque<ClockPair> pairs_ ABSL_GUARDED_BY(mu_);  // Oldest first.
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_TICK_CLOCK_H_
