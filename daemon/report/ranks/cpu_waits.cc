#include "daemon/report/ranks/cpu_waits.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace profd::report {
namespace {

// 0..most. Not std::clamp(): a large integer may be larger as a double, and then fits no more.
int64_t Limited(double value, int64_t most) {
  if (!(value > 0)) return 0;
  return value >= static_cast<double>(most) ? most : std::llround(value);
}

}  // namespace

StepCpuWaits::StepCpuWaits(const CpuRecord& cpu, std::span<const int64_t> os_threads) : cpu_(cpu) {
  if (!KnowsCpuWaits(cpu) || cpu.threads.empty()) return;
  const std::vector<ThreadCpuRecord>& threads = cpu.threads;
  double waited_ns = 0;
  if (os_threads.empty()) {
    const auto most = std::ranges::max_element(threads, {}, &ThreadCpuRecord::ran_ns);
    waited_ns = static_cast<double>(most->waited_ns);
  } else {
    if (std::ranges::count(threads, os_threads.front(), &ThreadCpuRecord::os_thread) == 0) return;
    // Others that are not there hardly ran or waited.
    for (const ThreadCpuRecord& thread : threads) {
      if (std::ranges::count(os_threads, thread.os_thread) > 0) {
        waited_ns += static_cast<double>(thread.waited_ns);
      }
    }
  }
  waited_ns_ = Limited(waited_ns, cpu.watched_ns);
}

double StepCpuWaits::SumAt(double time_ns) const {
  const std::vector<CpuSample>& samples = cpu_.samples;
  const auto after = std::ranges::lower_bound(samples, time_ns, {}, [](const CpuSample& sample) {
    return static_cast<double>(sample.time_ns);
  });
  if (after == samples.end()) return static_cast<double>(samples.back().waited_ns);
  const auto end_sum = static_cast<double>(after->waited_ns);
  if (after == samples.begin()) return end_sum;
  const auto begin_ns = static_cast<double>((after - 1)->time_ns);
  const auto begin_sum = static_cast<double>((after - 1)->waited_ns);
  const double apart_ns = static_cast<double>(after->time_ns) - begin_ns;
  if (apart_ns <= 0) return end_sum;
  return begin_sum + (end_sum - begin_sum) * (time_ns - begin_ns) / apart_ns;
}

int64_t StepCpuWaits::OfStep(double share, int64_t duration_ns) const {
  return Limited(share * static_cast<double>(waited_ns_), std::min(duration_ns, waited_ns_));
}

int64_t StepCpuWaits::OnAverage(int64_t duration_ns) const {
  if (waited_ns_ < 0 || duration_ns < 0) return -1;
  return OfStep(static_cast<double>(duration_ns) / static_cast<double>(cpu_.watched_ns),
                duration_ns);
}

int64_t StepCpuWaits::In(int64_t start_ns, int64_t duration_ns) const {
  if (waited_ns_ < 0 || duration_ns < 0) return -1;
  const auto begin_ns = static_cast<double>(start_ns);
  const double end_ns = begin_ns + static_cast<double>(duration_ns);
  const std::vector<CpuSample>& samples = cpu_.samples;
  if (!samples.empty() && static_cast<double>(samples.front().time_ns) <= begin_ns &&
      static_cast<double>(samples.back().time_ns) >= end_ns) {
    const double all = static_cast<double>(samples.back().waited_ns) -
                       static_cast<double>(samples.front().waited_ns);
    if (all > 0) return OfStep((SumAt(end_ns) - SumAt(begin_ns)) / all, duration_ns);
  }
  return OnAverage(duration_ns);
}

}  // namespace profd::report
