#include "daemon/export/gpu_text.h"

#include <algorithm>
#include <cmath>

#include "daemon/base/str_cat.h"
#include "daemon/report/gpu_names.h"

namespace profd::exporter {
namespace {

double Product(uint32_t x, uint32_t y, uint32_t z) {
  return static_cast<double>(x) * static_cast<double>(y) * static_cast<double>(z);
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// How many blocks of this kernel an SM can hold at once.
double ResidentBlocks(const store::GpuBatch& batch, size_t i, const GpuDevice& device,
                      double block_warps) {
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
      RoundUp(uint64_t{batch.registers_per_thread[i]} * static_cast<uint64_t>(device.warp_threads),
              kRegisterUnit);
  if (warp_registers > 0 && device.registers_per_sm > 0) {
    const double warps = std::floor(static_cast<double>(device.registers_per_sm) /
                                    static_cast<double>(warp_registers));
    blocks = std::min(blocks, warps / block_warps);
  }
  const uint64_t system_bytes = device.compute_major >= 8 ? kSystemSharedBytes : 0;
  const uint64_t shared_bytes = RoundUp(KernelSharedBytes(batch, i) + system_bytes, kSharedUnit);
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

std::string WorkName(const store::GpuBatch& batch, size_t i, std::span<const std::string> names) {
  switch (static_cast<GpuRowKind>(batch.kind[i])) {
    case GpuRowKind::kKernel:
      break;
    case GpuRowKind::kMemcpy:
      return report::CopyName(batch.copy_kind[i], batch.source_kind[i], batch.destination_kind[i]);
    case GpuRowKind::kMemset:
      return report::MemsetName(batch.destination_kind[i]);
    case GpuRowKind::kGraphLaunch:
      return "CUDA graph";
  }
  return report::DemangledName(names[batch.name[i]]);
}

std::string AnnotationName(const GpuAnnotation& annotation, const GpuLinks& links,
                           std::span<const std::string> names) {
  if (!annotation.is_step) return names[annotation.name];
  return StrCat("ProfilerStep#", links.steps()[annotation.name].index);
}

uint64_t KernelSharedBytes(const store::GpuBatch& batch, size_t i) {
  return uint64_t{batch.static_shared_bytes[i]} + batch.dynamic_shared_bytes[i];
}

KernelFigures FiguresOf(const store::GpuBatch& batch, size_t i, const GpuDevice& device) {
  KernelFigures figures;
  const double blocks = Product(batch.grid_x[i], batch.grid_y[i], batch.grid_z[i]);
  const double threads = Product(batch.block_x[i], batch.block_y[i], batch.block_z[i]);
  if (device.sm_count <= 0 || device.warp_threads <= 0 || threads == 0) return figures;
  figures.blocks_per_sm = blocks / static_cast<double>(device.sm_count);
  const double warp_threads = static_cast<double>(device.warp_threads);
  figures.warps_per_sm = figures.blocks_per_sm * threads / warp_threads;
  if (device.max_threads_per_sm <= 0) return figures;
  const double block_warps = std::ceil(threads / warp_threads);
  const double resident =
      std::min(figures.blocks_per_sm, ResidentBlocks(batch, i, device, block_warps));
  const double occupancy = resident * threads / static_cast<double>(device.max_threads_per_sm);
  figures.occupancy_percent =
      static_cast<int64_t>(std::lround(std::clamp(occupancy, 0.0, 1.0) * 100));
  return figures;
}

}  // namespace profd::exporter
