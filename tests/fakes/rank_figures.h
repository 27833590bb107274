// The figures of a rank or of a capture, made by hand: ten steps with the same kernels and
// operators.
#ifndef PROFD_TESTS_FAKES_RANK_FIGURES_H_
#define PROFD_TESTS_FAKES_RANK_FIGURES_H_

#include <cstdint>
#include <string>

#include "daemon/report/findings/rank_excess.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {

inline constexpr int64_t kFigureSteps = 10;

// A kernel with `calls_of_step` launches of `ns_of_call` in each step.
inline KernelRow KernelOf(const std::string& name, int64_t calls_of_step, int64_t ns_of_call) {
  KernelRow row;
  row.name = row.display_name = name;
  row.count = calls_of_step * kFigureSteps;
  row.total_ns = row.count * ns_of_call;
  return row;
}

// An operator with `calls_of_step` calls in each step; the times are those of a call.
inline OpProfileRow OperatorOf(const std::string& name, int64_t calls_of_step, int64_t self_cpu_ns,
                               int64_t self_device_ns = 0) {
  OpProfileRow row;
  row.name = name;
  row.calls = calls_of_step * kFigureSteps;
  row.self_cpu_ns = row.calls * self_cpu_ns;
  row.self_device_ns = row.calls * self_device_ns;
  return row;
}

// Adds kFigureSteps steps; `make` returns the one with this index.
template <typename Make>
void AddSteps(RankFigures& figures, Make make) {
  for (int64_t i = 0; i < kFigureSteps; ++i) {
    figures.time.steps.push_back(make(i));
    figures.time.steps.back().index = i;
  }
}

template <typename Change>
void ChangeSteps(RankFigures& figures, Change change) {
  for (TimeStep& step : figures.time.steps) change(step);
}

}  // namespace profd::report

#endif  // PROFD_TESTS_FAKES_RANK_FIGURES_H_
