#include "daemon/report/gpu/occupancy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace profd::report {
namespace {

constexpr int64_t kRegisterUnit = 256;  // Registers of a warp are handed out in these.
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

using Capability = std::pair<int64_t, int64_t>;  // Major, minor.
constexpr std::array<std::pair<Capability, int64_t>, 19> kBlocksPerSm = {{
    {{5, 0}, 32},  {{5, 2}, 32},  {{5, 3}, 32},  {{6, 0}, 32},  {{6, 1}, 32},
    {{6, 2}, 32},  {{7, 0}, 32},  {{7, 2}, 32},  {{7, 5}, 16},  {{8, 0}, 32},
    {{8, 6}, 16},  {{8, 7}, 16},  {{8, 9}, 24},  {{9, 0}, 32},  {{10, 0}, 32},
    {{10, 1}, 32}, {{10, 3}, 32}, {{12, 0}, 24}, {{12, 1}, 24},
}};

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

// Traces of torch.profiler have all limits of a device but this one, which its compute capability
// decides (CUDA C++ Programming Guide, technical specifications); 0: not known.
int64_t BlocksPerSm(const GpuDevice& device) {
  if (device.max_blocks_per_sm != 0) return device.max_blocks_per_sm;
  constexpr int64_t kNvidiaWarp = 32;
  if (device.warp_threads != kNvidiaWarp) return 0;
  const std::pair capability(device.compute_major, device.compute_minor);
  for (const auto& [known, blocks] : kBlocksPerSm) {
    if (known == capability) return blocks;
  }
  return 0;
}

bool IsPlausible(int64_t value) {
  return value > 0 && value <= std::numeric_limits<int32_t>::max();
}

}  // namespace

std::optional<Occupancy> EstimateOccupancy(const LaunchShape& launch, const GpuDevice& device) {
  const int64_t most_blocks = BlocksPerSm(device);
  if (!IsPlausible(device.warp_threads) || !IsPlausible(device.max_threads_per_sm) ||
      !IsPlausible(most_blocks) || !IsPlausible(device.registers_per_sm) ||
      !IsPlausible(device.shared_bytes_per_sm) || !IsPlausible(device.sm_count)) {
    return std::nullopt;
  }
  const int64_t most_warps = device.max_threads_per_sm / device.warp_threads;
  // A product of three 32-bit numbers does not fit into 64 bits.
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
      {most_blocks, "blocks"},
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
  if (grid < 1) return std::nullopt;
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
