// FakeClock: time stands still until the test moves it. Threads: any.
#ifndef PROFD_TESTS_FAKES_FAKE_CLOCK_H_
#define PROFD_TESTS_FAKES_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"

namespace profd {

class FakeClock final : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  absl::Duration Monotonic() override {
    absl::MutexLock lock(&mu_);
    return monotonic_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
    monotonic_ += by;
  }
  // As when the time of day is set.
  void Step(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::FromUnixSeconds(1'800'000'000);
  absl::Duration monotonic_ ABSL_GUARDED_BY(mu_) = absl::Seconds(1000);
};

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_FAKE_CLOCK_H_
