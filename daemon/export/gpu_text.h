// What all trace formats call the GPU's slices, and the figures of a kernel that traces show:
// Kineto's words and numbers.
#ifndef PROFD_DAEMON_EXPORT_GPU_TEXT_H_
#define PROFD_DAEMON_EXPORT_GPU_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/capture/capture_types.h"
#include "daemon/capture/ports.h"
#include "daemon/export/gpu_links.h"
#include "daemon/store/capture_reader.h"

namespace profd::exporter {

// "kernel", "gpu_memcpy", "gpu_memset". A whole graph counts as a kernel: it is what keeps the
// GPU busy, and loaders know no better word.
std::string_view WorkCategory(GpuRowKind kind);

// "Memcpy HtoD (Pageable -> Device)"; kernels demangled. Not yet fit for viewers: TraceName().
std::string WorkName(const store::GpuBatch& batch, size_t i, std::span<const std::string> names);

// Of a range or step. Not yet fit for viewers, as above.
std::string AnnotationName(const GpuAnnotation& annotation, const GpuLinks& links,
                           std::span<const std::string> names);

uint64_t KernelSharedBytes(const store::GpuBatch& batch, size_t i);

struct KernelFigures {
  double blocks_per_sm = 0;  // Of the grid, spread over all of the device.
  double warps_per_sm = 0;
  // Warps at work at once over those that an SM can hold, as far as the launch allows.
  int64_t occupancy_percent = 0;
};
// Zeros where the device's numbers are not known.
KernelFigures FiguresOf(const store::GpuBatch& batch, size_t i, const GpuDevice& device);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_GPU_TEXT_H_
