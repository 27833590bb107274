// Published peak operations per second of GPUs: without sparsity, at boost clocks. Real programs
// stay below them, because power and memory limit the GPU.
#ifndef PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_
#define PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_

#include <optional>
#include <string_view>

#include "daemon/report/ops/flops.h"

namespace profd::report {

struct GpuPeaks {
  // In 1e12 per second; 0: not supported, or unknown.
  double fp64 = 0;  // With tensor cores, if they support it.
  double fp32 = 0;  // Without tensor cores.
  double tf32 = 0;
  double half = 0;   // bf16 and fp16, accumulated in fp32.
  double eight = 0;  // fp8 and int8.

  double Of(NumberType type) const;
};

// Looks up a device by CUDA's name: "NVIDIA H100 80GB HBM3". nullopt: unknown.
std::optional<GpuPeaks> PeaksOf(std::string_view device_name);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_GPU_PEAKS_H_
