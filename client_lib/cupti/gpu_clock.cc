#include "client_lib/cupti/gpu_clock.h"

#include <time.h>

#include <algorithm>

#include "client_lib/core/hot_state.h"

namespace profd::client {
namespace {

constexpr int kTries = 5;
// CLOCK_REALTIME runs exactly as CLOCK_MONOTONIC does until it is set; where CUPTI has
// another clock the two drift apart by some millionths.
constexpr uint64_t kStepNs = 100'000;
constexpr uint64_t kDriftPerMillion = 50;

int64_t Difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b); }
uint64_t Magnitude(int64_t n) {
  return n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
}

uint64_t ReadRealtimeNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

// Nanoseconds that CUPTI's clock was set by between `a` and `b`; 0: it was not.
int64_t JumpBetween(const ClockSample& a, const ClockSample& b, uint64_t width_ns) {
  const uint64_t elapsed_ns = b.monotonic_ns - a.monotonic_ns;
  const int64_t jump = Difference(b.cupti_ns, a.cupti_ns) - static_cast<int64_t>(elapsed_ns);
  const uint64_t drift_ns = elapsed_ns / 1'000'000 * kDriftPerMillion;
  return Magnitude(jump) > kStepNs + drift_ns + width_ns ? jump : 0;
}

// Whether CUPTI's time is one of the target's ticks, read when the sample was.
bool IsInTicks(const ClockSample& sample) {
  constexpr uint64_t kReorderedTicks = 1000;
  return Magnitude(Difference(sample.cupti_ns, sample.ticks)) <=
         sample.width_ticks + kReorderedTicks;
}

}  // namespace

ClockSample ReadClocks(int (*get_timestamp)(uint64_t* ns)) {
  ClockSample best{0, 0, 0, UINT64_MAX};
  for (int i = 0; i < kTries; ++i) {
    ClockSample sample{};
    const uint64_t before = ReadTicks();
    if (get_timestamp == nullptr || get_timestamp(&sample.cupti_ns) != 0) {
      sample.cupti_ns = ReadRealtimeNs();
    }
    sample.monotonic_ns = wire::ReadMonotonicNs();
    const uint64_t after = ReadTicks();
    sample.width_ticks = after - before;
    sample.ticks = before + sample.width_ticks / 2;
    if (sample.width_ticks < best.width_ticks) best = sample;
  }
  return best;
}

void GpuClock::Add(const ClockSample& sample) {
  if (sample_count_ == 0) reads_ticks_ = IsInTicks(sample);
  if (sample_count_ == kMaxSamples) Thin();
  samples_[sample_count_++] = sample;
  if (sample.width_ticks > widest_ticks_) widest_ticks_ = sample.width_ticks;
  if (sample_count_ < 2) return;
  const ClockSample& first = samples_[0];
  const uint64_t span_ns = sample.monotonic_ns - first.monotonic_ns;
  if (span_ns != 0) {
    ticks_per_ns_ = static_cast<double>(sample.ticks - first.ticks) / static_cast<double>(span_ns);
  }
  const auto width_ns =
      static_cast<uint64_t>(static_cast<double>(sample.width_ticks) / ticks_per_ns_);
  if (reads_ticks_) return;
  const int64_t jump = JumpBetween(samples_[sample_count_ - 2], sample, width_ns);
  if (jump != 0) {
    ++step_count_;
    if (Magnitude(jump) > largest_step_ns_) largest_step_ns_ = Magnitude(jump);
  }
  BuildSegment(sample_count_ - 2);
  last_ = sample_count_ - 2;
}

void GpuClock::BuildSegment(uint32_t index) {
  const ClockSample& a = samples_[index];
  const ClockSample& b = samples_[index + 1];
  Segment& segment = segments_[index];
  segment = {};
  if (reads_ticks_) return;
  segment = {a.cupti_ns, 0, a.ticks, ticks_per_ns_};
  const auto width_ns = static_cast<uint64_t>(static_cast<double>(b.width_ticks) / ticks_per_ns_);
  if (JumpBetween(a, b, width_ns) != 0 || b.cupti_ns <= a.cupti_ns) return;
  segment.length_ns = b.cupti_ns - a.cupti_ns;
  segment.ticks_per_ns =
      static_cast<double>(b.ticks - a.ticks) / static_cast<double>(segment.length_ns);
}

uint64_t GpuClock::From(const ClockSample& sample, uint64_t cupti_ns) const {
  // A record may carry any time: what a conversion to int64 leaves undefined is cut off.
  constexpr double kMost = 9.2e18;
  const double ticks = std::clamp(
      static_cast<double>(Difference(cupti_ns, sample.cupti_ns)) * ticks_per_ns_, -kMost, kMost);
  return sample.ticks + static_cast<uint64_t>(static_cast<int64_t>(ticks));
}

bool GpuClock::FindAcrossJump(uint32_t index, uint64_t cupti_ns, uint64_t* ticks) const {
  const ClockSample& a = samples_[index];
  const ClockSample& b = samples_[index + 1];
  const auto is_between = [&](uint64_t t) {
    return Difference(t, a.ticks) >= 0 && Difference(b.ticks, t) >= 0;
  };
  *ticks = From(a, cupti_ns);
  if (is_between(*ticks)) return true;
  *ticks = From(b, cupti_ns);
  return is_between(*ticks);
}

uint64_t GpuClock::ToTicksAnywhere(uint64_t cupti_ns) {
  if (reads_ticks_) return cupti_ns;
  for (uint32_t i = sample_count_ - 1; i-- > 0;) {
    const Segment& segment = segments_[i];
    if (segment.length_ns == 0) {
      uint64_t ticks;
      if (FindAcrossJump(i, cupti_ns, &ticks)) return ticks;
    } else if (cupti_ns - segment.from_ns < segment.length_ns) {
      last_ = i;
      return ToTicks(cupti_ns);
    }
  }
  const ClockSample& newest = samples_[sample_count_ - 1];
  return From(Difference(cupti_ns, newest.cupti_ns) >= 0 ? newest : samples_[0], cupti_ns);
}

// Drops every second sample of those that no jump lies next to.
void GpuClock::Thin() {
  uint32_t kept = 1;
  for (uint32_t i = 1; i < sample_count_; ++i) {
    const bool beside_jump =
        segments_[i - 1].length_ns == 0 || (i + 1 < sample_count_ && segments_[i].length_ns == 0);
    if (i % 2 == 0 || beside_jump || i + 1 == sample_count_) samples_[kept++] = samples_[i];
  }
  // Jumps beyond number: the oldest go.
  if (kept == sample_count_) {
    kept = sample_count_ / 2;
    for (uint32_t i = 0; i < kept; ++i) samples_[i] = samples_[sample_count_ - kept + i];
  }
  sample_count_ = kept;
  for (uint32_t i = 0; i + 1 < sample_count_; ++i) BuildSegment(i);
  last_ = 0;
}

uint64_t GpuClock::error_ns() const {
  return static_cast<uint64_t>(static_cast<double>(widest_ticks_) / ticks_per_ns_ / 2) + 1 +
         largest_step_ns_;
}

}  // namespace profd::client
