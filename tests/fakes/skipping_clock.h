// SkippingClock: real time, and the test may skip some of it. Threads: any.
#ifndef PROFD_TESTS_FAKES_SKIPPING_CLOCK_H_
#define PROFD_TESTS_FAKES_SKIPPING_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd {

class SkippingClock final : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mu_);
    return Clock::Real().Now() + skipped_ + set_by_;
  }
  absl::Duration Monotonic() override {
    absl::MutexLock lock(&mu_);
    return Clock::Real().Monotonic() + skipped_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    skipped_ += by;
  }
  // As an administrator sets the time of day.
  void Set(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    set_by_ += by;
  }

 private:
  absl::Mutex mu_;
  absl::Duration skipped_ ABSL_GUARDED_BY(mu_) = absl::ZeroDuration();
  absl::Duration set_by_ ABSL_GUARDED_BY(mu_) = absl::ZeroDuration();
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_SKIPPING_CLOCK_H_
