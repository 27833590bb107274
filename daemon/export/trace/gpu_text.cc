#include "daemon/export/trace/gpu_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "daemon/base/str_cat.h"
#include "daemon/report/gpu/occupancy.h"

namespace profd::exporter {
namespace {

double Product(const std::array<uint32_t, 3>& size) {
  return static_cast<double>(size[0]) * static_cast<double>(size[1]) * static_cast<double>(size[2]);
}

}  // namespace

std::string WorkName(const GpuRow& row, std::span<const std::string> names,
                     report::Demangler& demangler) {
  return row.kind == GpuRowKind::kKernel
             ? demangler.Demangle(names[row.name])
             : report::WorkName(row.kind, row.copy_kind, row.source_kind, row.destination_kind);
}

std::string AnnotationName(const GpuAnnotation& annotation, const GpuLinks& links,
                           std::span<const std::string> names, std::string_view step_prefix) {
  if (!annotation.is_step) return names[annotation.name];
  return StrCat(step_prefix, links.steps()[annotation.name].index);
}

const GpuDevice* FindDevice(const CaptureRecord& record, uint16_t number) {
  for (const GpuDevice& device : record.gpu.devices) {
    if (device.number == number) return &device;
  }
  return nullptr;
}

bool KnowsShape(const GpuRow& kernel) { return kernel.grid[0] != 0 && kernel.block[0] != 0; }

KernelFigures FiguresOf(const GpuRow& kernel, const GpuDevice& device) {
  KernelFigures figures;
  const double threads = Product(kernel.block);
  if (device.sm_count <= 0 || device.warp_threads <= 0) return figures;
  figures.blocks_per_sm = Product(kernel.grid) / static_cast<double>(device.sm_count);
  figures.warps_per_sm = figures.blocks_per_sm * threads / static_cast<double>(device.warp_threads);
  const std::optional<report::Occupancy> occupancy =
      report::EstimateOccupancy({.grid = kernel.grid,
                                 .block = kernel.block,
                                 .registers_per_thread = kernel.registers_per_thread,
                                 .static_shared_bytes = kernel.static_shared_bytes,
                                 .dynamic_shared_bytes = kernel.dynamic_shared_bytes},
                                device);
  if (!occupancy.has_value() || device.max_threads_per_sm <= 0) return figures;
  // Kineto's: on average over the multiprocessors, so a small grid fills none of them.
  const double resident =
      std::min(figures.blocks_per_sm, static_cast<double>(occupancy->blocks_per_sm));
  const double filled = resident * threads / static_cast<double>(device.max_threads_per_sm);
  figures.occupancy_percent = static_cast<int64_t>(std::lround(std::clamp(filled, 0.0, 1.0) * 100));
  return figures;
}

}  // namespace profd::exporter
