// What all trace formats call the GPU's slices, and the figures of a kernel that traces show:
// Kineto's words and numbers.
#ifndef PROFD_DAEMON_EXPORT_TRACE_GPU_TEXT_H_
#define PROFD_DAEMON_EXPORT_TRACE_GPU_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/capture/capture_types.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/trace/gpu_links.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// "Memcpy HtoD (Pageable -> Device)"; kernels demangled. Not yet fit for viewers: TraceName().
std::string WorkName(const GpuRow& row, std::span<const std::string> names,
                     report::Demangler& demangler);

// Of a range or step. `step_prefix`: as StepPrefix() has it. Not yet fit for viewers, as above.
std::string AnnotationName(const GpuAnnotation& annotation, const GpuLinks& links,
                           std::span<const std::string> names, std::string_view step_prefix);

inline uint64_t SharedBytes(const GpuRow& kernel) {
  return uint64_t{kernel.static_shared_bytes} + kernel.dynamic_shared_bytes;
}

// Of memory work that took time, GB/s.
inline double BandwidthOf(const GpuRow& transfer) {
  return static_cast<double>(transfer.bytes) / static_cast<double>(transfer.duration_ns);
}

struct KernelFigures {
  double blocks_per_sm = 0;  // Of the grid, spread over all of the device.
  double warps_per_sm = 0;
  // Threads at work at once over those that the SMs can hold, as far as the launch allows; 0
  // where that is not known.
  int64_t occupancy_percent = 0;
};
// Zeros where the device's numbers are not known.
// False for a kernel whose grid or block is not known: it has no figures.
bool KnowsShape(const GpuRow& kernel);
KernelFigures FiguresOf(const GpuRow& kernel, const GpuDevice& device);
// nullptr: not described.
const GpuDevice* FindDevice(const CaptureRecord& record, uint16_t number);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_GPU_TEXT_H_
