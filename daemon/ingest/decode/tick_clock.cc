#include "daemon/ingest/decode/tick_clock.h"

#include <algorithm>
#include <cstdlib>

#include "proto/wire/clock.h"

namespace profd {
namespace {

constexpr int kTries = 64;
constexpr size_t kMaxPairs = 64;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// Over this long the brackets' error makes a slope wrong by 2 in 10^9 at most.
constexpr int64_t kBaselineNs = 30 * kNsPerSecond;
constexpr int64_t kPairSpacingNs = kNsPerSecond;

ClockPair TryPair(wire::ClockKind kind) {
  const uint64_t before = wire::ReadMonotonicNs();
  const uint64_t ticks = wire::ReadTicks(kind);
  const uint64_t after = wire::ReadMonotonicNs();
  const auto bracket = static_cast<int64_t>(after - before);
  return {ticks, static_cast<int64_t>(before) + bracket / 2, (bracket + 1) / 2};
}

ClockPair NarrowestPair(wire::ClockKind kind) {
  if (kind == wire::ClockKind::kMonotonicNs) {
    const uint64_t now = wire::ReadMonotonicNs();
    return {now, static_cast<int64_t>(now), 0};
  }
  ClockPair best = TryPair(kind);
  for (int i = 1; i < kTries; ++i) {
    const ClockPair pair = TryPair(kind);
    if (pair.error_ns < best.error_ns) best = pair;
  }
  return best;
}

}  // namespace

uint64_t TickLine::TicksOf(int64_t span_ns) const {
  return std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(span_ns) / ns_per_tick_));
}

int64_t TickLine::ErrorAt(const ClockPair& later) const {
  const int64_t true_ns = later.mono_ns - epoch_.mono_ns;
  return std::abs(ToNs(later.ticks) - true_ns) + later.error_ns + epoch_.error_ns;
}

TickClock::TickClock(wire::ClockKind kind) : kind_(kind) { Sample(); }

uint64_t TickClock::Now() const { return wire::ReadTicks(kind_); }

ClockPair TickClock::Sample() {
  const ClockPair pair = NarrowestPair(kind_);
  absl::MutexLock lock(&mu_);
  if (pairs_.empty() || pair.mono_ns - pairs_.back().mono_ns >= kPairSpacingNs) {
    pairs_.push_back(pair);
    if (pairs_.size() > kMaxPairs) pairs_.pop_front();
  }
  return pair;
}

double TickClock::NsPerTick() {
  if (kind_ == wire::ClockKind::kMonotonicNs) return 1.0;
  const ClockPair now = Sample();
  absl::MutexLock lock(&mu_);
  ClockPair base = pairs_.front();
  for (const ClockPair& pair : pairs_) {
    if (now.mono_ns - pair.mono_ns < kBaselineNs) break;
    base = pair;
  }
  // Right after the start there is no second pair yet. A slope of 1 is wrong, but it is not
  // infinite or negative.
  if (now.ticks <= base.ticks || now.mono_ns <= base.mono_ns) return 1.0;
  return static_cast<double>(now.mono_ns - base.mono_ns) /
         static_cast<double>(now.ticks - base.ticks);
}

}  // namespace profd
