// GpuClock turns CUPTI's nanoseconds into ticks of the target's clock, by pairs of both that
// were read while records flowed.
//
// CUPTI's clock is CLOCK_REALTIME as a rule, which may be set: then it jumps against the
// ticks, and a time between two pairs is taken to be of the side that it fits.
//
//   CUPTI ns │            ┌── pair i+1          a time v between them: as many ticks after
//            │        ┌───┘                     pair i as v is ns after it, unless that falls
//            │   step │                         after pair i+1; then as many before pair i+1
//            │  ──────┘
//            └──┴─────────┴── ticks
//             pair i
//
// Kineto, PyTorch's profiler, makes CUPTI's clock the TSC, for the life of the process. Then
// CUPTI's times are the ticks of the target's clock already, and nothing is converted.
//
// Threads:   the GPU thread's.
// Hot path:  ToTicks() of times in the segment that was last used: a multiplication.
// Errors:    error_ns() bounds what the pairs' own spread and the jumps between them may do.
#ifndef PROFD_CLIENT_LIB_CUPTI_GPU_CLOCK_H_
#define PROFD_CLIENT_LIB_CUPTI_GPU_CLOCK_H_

#include <cstdint>

namespace profd::client {

// The two clocks, and CLOCK_MONOTONIC, at one time.
struct ClockSample {
  uint64_t cupti_ns;
  uint64_t monotonic_ns;
  uint64_t ticks;
  uint64_t width_ticks;  // Between the reads before and after: the most it may be wrong.
};

// Reads all clocks, some times, and takes the closest. `get_timestamp` reads CUPTI's clock.
ClockSample ReadClocks(int (*get_timestamp)(uint64_t* ns));

class GpuClock {
 public:
  // Samples come in the order of time.
  void Add(const ClockSample& sample);

  // One sample at least must have been added.
  uint64_t ToTicks(uint64_t cupti_ns) {
    const Segment& at = segments_[last_];
    if (cupti_ns - at.from_ns < at.length_ns) {
      // By way of signed numbers: there are instructions for those.
      const auto since_ns = static_cast<double>(static_cast<int64_t>(cupti_ns - at.from_ns));
      return at.from_ticks +
             static_cast<uint64_t>(static_cast<int64_t>(since_ns * at.ticks_per_ns));
    }
    return ToTicksAnywhere(cupti_ns);
  }

  uint64_t error_ns() const;
  // Times the clock was set between two samples.
  uint32_t step_count() const { return step_count_; }
  uint64_t last_sample_ns() const {
    return sample_count_ != 0 ? samples_[sample_count_ - 1].monotonic_ns : 0;
  }
  uint32_t sample_count() const { return sample_count_; }
  // CUPTI's clock is the target's.
  bool reads_ticks() const { return reads_ticks_; }
  double ticks_per_ns() const { return ticks_per_ns_; }

 private:
  static constexpr uint32_t kMaxSamples = 512;

  // Between two samples without a jump. `length_ns` 0: there is a jump; look at both sides.
  struct Segment {
    uint64_t from_ns;
    uint64_t length_ns;
    uint64_t from_ticks;
    double ticks_per_ns;
  };

  uint64_t ToTicksAnywhere(uint64_t cupti_ns);
  uint64_t From(const ClockSample& sample, uint64_t cupti_ns) const;
  bool FindAcrossJump(uint32_t index, uint64_t cupti_ns, uint64_t* ticks) const;
  void BuildSegment(uint32_t index);
  void Thin();

  ClockSample samples_[kMaxSamples] = {};
  Segment segments_[kMaxSamples] = {};  // [i]: from sample i to i + 1.
  uint32_t sample_count_ = 0;
  uint32_t last_ = 0;
  uint32_t step_count_ = 0;
  uint64_t largest_step_ns_ = 0;
  uint64_t widest_ticks_ = 0;
  bool reads_ticks_ = false;
  double ticks_per_ns_ = 1;
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_GPU_CLOCK_H_
