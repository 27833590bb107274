#include "daemon/report/occupancy.h"

#include <algorithm>
#include <limits>

namespace profd::report {
namespace {

constexpr int64_t kRegisterUnit = 256;  // Registers of a warp are handed out in these.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// A multiprocessor is cut into parts of its own registers, which a warp cannot cross.
int64_t PartsOf(const GpuDevice& device) {
  return device.compute_major == 6 && device.compute_minor == 0 ? 2 : 4;
}

int64_t SharedUnit(const GpuDevice& device) { return device.compute_major >= 8 ? 128 : 256; }

// What the driver takes of each block's shared memory for itself.
int64_t ReservedShared(const GpuDevice& device) { return device.compute_major >= 8 ? 1024 : 0; }

int64_t BlocksByRegisters(const LaunchShape& launch, int64_t warps, const GpuDevice& device) {
  const int64_t per_warp =
      RoundUp(int64_t{launch.registers_per_thread} * device.warp_threads, kRegisterUnit);
  if (per_warp == 0) return kNoLimit;
  const int64_t parts = PartsOf(device);
  return device.registers_per_sm / parts / per_warp * parts / warps;
}

int64_t BlocksByShared(const LaunchShape& launch, const GpuDevice& device) {
  const int64_t bytes = RoundUp(
      int64_t{launch.static_shared_bytes} + launch.dynamic_shared_bytes + ReservedShared(device),
      SharedUnit(device));
  return bytes == 0 ? kNoLimit : device.shared_bytes_per_sm / bytes;
}

bool IsPlausible(int64_t value) {
  return value > 0 && value <= std::numeric_limits<int32_t>::max();
}

}  // namespace

std::optional<Occupancy> EstimateOccupancy(const LaunchShape& launch, const GpuDevice& device) {
  if (!IsPlausible(device.warp_threads) || !IsPlausible(device.max_threads_per_sm) ||
      !IsPlausible(device.max_blocks_per_sm) || !IsPlausible(device.registers_per_sm) ||
      !IsPlausible(device.shared_bytes_per_sm) || !IsPlausible(device.sm_count)) {
    return std::nullopt;
  }
  const int64_t most_warps = device.max_threads_per_sm / device.warp_threads;
  double threads = 1;
  for (const uint32_t side : launch.block) threads *= side;
  if (threads < 1 || threads > static_cast<double>(device.max_threads_per_sm) || most_warps == 0) {
    return std::nullopt;
  }
  const int64_t warps =
      RoundUp(static_cast<int64_t>(threads), device.warp_threads) / device.warp_threads;

  struct Limit {
    int64_t blocks;
    std::string_view name;
  };
  const std::array<Limit, 4> limits = {{
      {most_warps / warps, "threads"},
      {device.max_blocks_per_sm, "blocks"},
      {BlocksByRegisters(launch, warps, device), "registers"},
      {BlocksByShared(launch, device), "shared memory"},
  }};
  const Limit& least =
      *std::min_element(limits.begin(), limits.end(),
                        [](const Limit& a, const Limit& b) { return a.blocks < b.blocks; });

  // It ran, so one fits, whatever the properties say.
  const int64_t fitting = std::max<int64_t>(least.blocks, 1);
  double blocks = static_cast<double>(fitting);
  std::string_view name = least.name;
  double grid = 1;
  for (const uint32_t side : launch.grid) grid *= side;
  // Blocks are dealt out evenly: fewer than fit, if there are not enough for all.
  if (const double dealt = grid / static_cast<double>(device.sm_count); dealt < blocks) {
    blocks = dealt;
    name = "grid";
  }
  return Occupancy{.fraction = std::min(
                       1.0, blocks * static_cast<double>(warps) / static_cast<double>(most_warps)),
                   .limit = name,
                   .blocks_per_sm = fitting};
}

}  // namespace profd::report
