#include "daemon/export/gpu_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "daemon/base/str_cat.h"
#include "daemon/report/gpu_names.h"

namespace profd::exporter {
namespace {

double Product(const std::array<uint32_t, 3>& size) {
  return static_cast<double>(size[0]) * static_cast<double>(size[1]) * static_cast<double>(size[2]);
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// How many blocks of this kernel an SM can hold at once.
double ResidentBlocks(const GpuRow& kernel, const GpuDevice& device, double block_warps) {
  // Registers are given out to warps by 256, shared memory by 128 bytes after the system's own
  // 1 KiB per block, which devices from 8.0 on keep.
  constexpr uint64_t kRegisterUnit = 256;
  constexpr uint64_t kSharedUnit = 128;
  constexpr uint64_t kSystemSharedBytes = 1024;
  double blocks = static_cast<double>(device.max_threads_per_sm) /
                  static_cast<double>(device.warp_threads) / block_warps;
  if (device.max_blocks_per_sm > 0) {
    blocks = std::min(blocks, static_cast<double>(device.max_blocks_per_sm));
  }
  const uint64_t warp_registers =
      RoundUp(uint64_t{kernel.registers_per_thread} * static_cast<uint64_t>(device.warp_threads),
              kRegisterUnit);
  if (warp_registers > 0 && device.registers_per_sm > 0) {
    const double warps = std::floor(static_cast<double>(device.registers_per_sm) /
                                    static_cast<double>(warp_registers));
    blocks = std::min(blocks, warps / block_warps);
  }
  const uint64_t system_bytes = device.compute_major >= 8 ? kSystemSharedBytes : 0;
  const uint64_t shared_bytes = RoundUp(SharedBytes(kernel) + system_bytes, kSharedUnit);
  if (shared_bytes > 0 && device.shared_bytes_per_sm > 0) {
    blocks = std::min(blocks, static_cast<double>(device.shared_bytes_per_sm) /
                                  static_cast<double>(shared_bytes));
  }
  return std::floor(blocks);
}

}  // namespace

std::string_view WorkCategory(GpuRowKind kind) {
  switch (kind) {
    case GpuRowKind::kMemcpy:
      return "gpu_memcpy";
    case GpuRowKind::kMemset:
      return "gpu_memset";
    case GpuRowKind::kKernel:
    case GpuRowKind::kGraphLaunch:
      break;
  }
  return "kernel";
}

std::string WorkName(const GpuRow& row, std::span<const std::string> names) {
  switch (row.kind) {
    case GpuRowKind::kKernel:
      break;
    case GpuRowKind::kMemcpy:
      return report::CopyName(row.copy_kind, row.source_kind, row.destination_kind);
    case GpuRowKind::kMemset:
      return report::MemsetName(row.destination_kind);
    case GpuRowKind::kGraphLaunch:
      return "CUDA graph";
  }
  return report::DemangledName(names[row.name]);
}

std::string AnnotationName(const GpuAnnotation& annotation, const GpuLinks& links,
                           std::span<const std::string> names) {
  if (!annotation.is_step) return names[annotation.name];
  return StrCat("ProfilerStep#", links.steps()[annotation.name].index);
}

GpuRow RowAt(const store::GpuBatch& batch, size_t i) {
  return {.start_ns = batch.start_ns[i],
          .duration_ns = batch.duration_ns[i],
          .kind = static_cast<GpuRowKind>(batch.kind[i]),
          .flags = batch.flags[i],
          .device = batch.device[i],
          .context = batch.context[i],
          .stream = batch.stream[i],
          .correlation = batch.correlation[i],
          .name = batch.name[i],
          .graph_id = batch.graph_id[i],
          .graph_node_id = batch.graph_node_id[i],
          .bytes = batch.bytes[i],
          .copy_kind = batch.copy_kind[i],
          .source_kind = batch.source_kind[i],
          .destination_kind = batch.destination_kind[i],
          .source_device = batch.source_device[i],
          .destination_device = batch.destination_device[i],
          .queued_ns = batch.queued_ns[i],
          .submitted_ns = batch.submitted_ns[i],
          .grid = {batch.grid_x[i], batch.grid_y[i], batch.grid_z[i]},
          .block = {batch.block_x[i], batch.block_y[i], batch.block_z[i]},
          .cluster = {batch.cluster_x[i], batch.cluster_y[i], batch.cluster_z[i]},
          .registers_per_thread = batch.registers_per_thread[i],
          .static_shared_bytes = batch.static_shared_bytes[i],
          .dynamic_shared_bytes = batch.dynamic_shared_bytes[i],
          .local_bytes_per_thread = batch.local_bytes_per_thread[i]};
}

const GpuDevice* FindDevice(const CaptureRecord& record, uint16_t number) {
  for (const GpuDevice& device : record.gpu.devices) {
    if (device.number == number) return &device;
  }
  return nullptr;
}

KernelFigures FiguresOf(const GpuRow& kernel, const GpuDevice& device) {
  KernelFigures figures;
  const double blocks = Product(kernel.grid);
  const double threads = Product(kernel.block);
  if (device.sm_count <= 0 || device.warp_threads <= 0 || threads == 0) return figures;
  figures.blocks_per_sm = blocks / static_cast<double>(device.sm_count);
  const double warp_threads = static_cast<double>(device.warp_threads);
  figures.warps_per_sm = figures.blocks_per_sm * threads / warp_threads;
  if (device.max_threads_per_sm <= 0) return figures;
  const double block_warps = std::ceil(threads / warp_threads);
  const double resident =
      std::min(figures.blocks_per_sm, ResidentBlocks(kernel, device, block_warps));
  const double occupancy = resident * threads / static_cast<double>(device.max_threads_per_sm);
  figures.occupancy_percent =
      static_cast<int64_t>(std::lround(std::clamp(occupancy, 0.0, 1.0) * 100));
  return figures;
}

}  // namespace profd::exporter
