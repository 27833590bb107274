// CpuFixture makes captures whose steps are partly outside of operators, and whose thread waits for
// a CPU.
#ifndef PROFD_TESTS_REPORT_FINDINGS_CPU_FIXTURE_H_
#define PROFD_TESTS_REPORT_FINDINGS_CPU_FIXTURE_H_

#include <cmath>
#include <cstdint>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {

class CpuFixture : public FindingsFixture {
 protected:
  // `busy_ns` of each of ten steps is in two operators; the rest is outside of operators.
  void StepsWith(int64_t busy_ns) {
    Steps(10);
    for (int step = 0; step < 10; ++step) OperatorsOf(step, busy_ns);
  }
  // The same on average, but all that is outside of operators is in every second step.
  void UnsteadyStepsWith(int64_t busy_ns) {
    Steps(10);
    for (int step = 0; step < 10; ++step) {
      OperatorsOf(step, step % 2 == 0 ? kStepNs : 2 * busy_ns - kStepNs);
    }
  }

  // The thread that marks the steps waited for `share` of a window; another ran all the time.
  void WaitedFor(double share, int64_t window_ns = 200 * kMs) {
    const int64_t waited_ns = std::llround(share * static_cast<double>(window_ns));
    reader_.mutable_record().cpu = {.watched_ns = window_ns,
                                    .thread_count = 2,
                                    .ran_ns = window_ns / 4 * 3,
                                    .waited_ns = waited_ns,
                                    .threads = {{.os_thread = 77, .ran_ns = window_ns / 2},
                                                {.os_thread = reader_.threads()[main_].os_thread,
                                                 .ran_ns = window_ns / 4,
                                                 .waited_ns = waited_ns}}};
  }

  // Two operators, for half of `busy_ns` each, at the start and the end of the step.
  void OperatorsOf(int step, int64_t busy_ns) {
    const int64_t begin = step * kStepNs;
    reader_.Operator(main_, "aten::linear", begin, begin + busy_ns / 2);
    reader_.Operator(main_, "aten::relu", begin + kStepNs - busy_ns / 2, begin + kStepNs);
  }
};

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_FINDINGS_CPU_FIXTURE_H_
