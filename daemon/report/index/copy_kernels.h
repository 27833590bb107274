// CopyKernels tells the kernels that copy or fill memory, as ROCm has them do, from the others: by
// their name, or by that of the call that launched them.
//
// Threads: one at a time. The names must outlive it.
#ifndef PROFD_DAEMON_REPORT_INDEX_COPY_KERNELS_H_
#define PROFD_DAEMON_REPORT_INDEX_COPY_KERNELS_H_

#include <cstdint>
#include <span>
#include <string>

#include "daemon/report/index/by_name.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"

namespace profd::report {

class CopyKernels {
 public:
  explicit CopyKernels(std::span<const std::string> names)
      : calls_(names, &IsCopyCall), kernels_(names, &IsCopyKernel) {}

  // `call` launched the kernel; nullptr: it is not known.
  bool Has(uint32_t kernel, const GpuAttribution::Call* call) {
    return (call != nullptr && calls_.Of(call->name)) || kernels_.Of(kernel);
  }

 private:
  ByName<bool> calls_;
  ByName<bool> kernels_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_COPY_KERNELS_H_
