// Kernels that do not compute: those that copy or fill memory, as ROCm has them do, and those that
// exchange data with other GPUs. By their names, and by what launched them.
//
// Threads: one at a time. What the constructors get must outlive these.
#ifndef PROFD_DAEMON_REPORT_INDEX_KERNEL_PURPOSE_H_
#define PROFD_DAEMON_REPORT_INDEX_KERNEL_PURPOSE_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/report/index/by_name.h"
#include "daemon/report/index/collective_names.h"
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

class CommunicationKernels {
 public:
  // Whether the ranges around calls can decide what kernels are, in a capture that has these names.
  // If not, ranges need not be read.
  static bool DependOnRanges(std::span<const std::string> names) {
    return std::ranges::any_of(names, [](std::string_view name) {
      return KindOf(name) == Range::kCollective ||
             CommunicationSignOf(name) == CommunicationSign::kWords;
    });
  }
  // `attribution`: with the ranges around calls, by name, if DependOnRanges().
  CommunicationKernels(std::span<const std::string> names, const GpuAttribution& attribution)
      : attribution_(attribution),
        kernels_(names, &CommunicationSignOf),
        products_(names, &IsProductKernel),
        ranges_(names, &KindOf) {}

  // `call` launched the kernel; nullptr: it is not known.
  bool Has(uint32_t kernel, const GpuAttribution::Call* call) {
    const CommunicationSign sign = kernels_.Of(kernel);
    if (sign == CommunicationSign::kLibrary) return true;
    const bool has_range = call != nullptr && call->path != RangePaths::kNone;
    switch (has_range ? ranges_.Of(attribution_.paths()[call->path].name) : Range::kOther) {
      case Range::kCollective:
        return sign == CommunicationSign::kWords || !products_.Of(kernel);
      case Range::kAten:
        return false;
      case Range::kOther:
        break;
    }
    return sign == CommunicationSign::kWords;
  }

 private:
  enum class Range : uint8_t { kOther, kAten, kCollective };
  static Range KindOf(std::string_view name) {
    if (name.starts_with("aten::")) return Range::kAten;
    // A range of the program's own may be around anything.
    const bool is_operator = name == kCollectiveOperator || name.starts_with("nccl:") ||
                             name.find("::") != std::string_view::npos;
    return is_operator && CollectiveOfRange(name).has_value() ? Range::kCollective : Range::kOther;
  }

  const GpuAttribution& attribution_;
  ByName<CommunicationSign> kernels_;
  ByName<bool> products_;
  ByName<Range> ranges_;
};

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_INDEX_KERNEL_PURPOSE_H_
