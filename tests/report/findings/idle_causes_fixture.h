// Programs whose GPU idles, as findings see them: operators, calls, and kernels at chosen times.
#ifndef PROFD_TESTS_REPORT_FINDINGS_IDLE_CAUSES_FIXTURE_H_
#define PROFD_TESTS_REPORT_FINDINGS_IDLE_CAUSES_FIXTURE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {

inline constexpr auto kOperatorRange = static_cast<uint8_t>(wire::RangeCategory::kOperator);

class IdleCausesTest : public FindingsFixture {
 protected:
  struct Work {
    int64_t call_ns = 0;
    int64_t call_end_ns = 0;
    int64_t start_ns = 0;
    int64_t end_ns = 0;
  };
  void Kernel(const Work& work, std::string_view kernel = kTensorKernel) {
    ++correlation_;
    reader_.ApiCall(main_, "hipLaunchKernel", work.call_ns, work.call_end_ns, correlation_)
        .Kernel(kernel, work.start_ns, work.end_ns, correlation_);
  }
  void Operator(std::string_view name, int64_t start_ns, int64_t end_ns) {
    reader_.Range(main_, name, start_ns, end_ns, {.category = kOperatorRange});
  }
  // Twenty operators of 10 ms: a kernel of 1 ms, then `call` until the operator ends.
  void CallAfterEachKernel(std::string_view call, int64_t call_start_ns) {
    for (int64_t at = 0; at < 200 * kMs; at += 10 * kMs) {
      Operator("aten::convolution", at, at + 9'900 * kUs);
      Kernel({at + 10 * kUs, at + 15 * kUs, at + 20 * kUs, at + 1'020 * kUs});
      reader_.ApiCall(main_, call, at + call_start_ns, at + 9'800 * kUs, 0);
    }
  }
  void KernelsOfAMillisecond(int64_t start_ns, int64_t end_ns) {
    for (int64_t at = start_ns; at < end_ns; at += kMs) {
      Operator("aten::mm", at, at + 900 * kUs);
      Kernel({at, at + 5 * kUs, at + 10 * kUs, at + 910 * kUs});
    }
  }
  std::string First() {
    const FindingsReport report = Report();
    return report.findings.empty() ? "" : std::string(report.findings.front().rule);
  }
};

}  // namespace profd::report

#endif  // PROFD_TESTS_REPORT_FINDINGS_IDLE_CAUSES_FIXTURE_H_
