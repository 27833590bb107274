// How many operations a GPU can do in a second, as its maker publishes: without sparsity, at boost
// clocks. What is reached is below that even at best: power and memory limit it.
#ifndef PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_
#define PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_

#include <optional>
#include <string_view>

#include "daemon/report/ops/flops.h"

namespace profd::report {

struct GpuPeaks {
  // In 1e12 per second; 0: it has none, or it is not known.
  double fp64 = 0;  // Tensor cores, where they do it.
  double fp32 = 0;  // Without tensor cores.
  double tf32 = 0;
  double half = 0;   // bf16 and fp16, summing in fp32.
  double eight = 0;  // fp8 and int8.

  double Of(NumberType type) const;
};

// By the device's name as CUDA gives it: "NVIDIA H100 80GB HBM3". nullopt: not known.
std::optional<GpuPeaks> PeaksOf(std::string_view device_name);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_
