// Warps of a launch that fit a multiprocessor at once, by NVIDIA's published rules for compute
// capability 5.0 to 12.x. This is an estimate: the real number depends on when blocks begin and
// end, and on how the driver divides memory between shared memory and cache (assumed: as much
// shared memory as possible).
#ifndef PROFD_DAEMON_REPORT_GPU_OCCUPANCY_H_
#define PROFD_DAEMON_REPORT_GPU_OCCUPANCY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "daemon/capture/capture_types.h"

namespace profd::report {

struct LaunchShape {
  std::array<uint32_t, 3> grid{};
  std::array<uint32_t, 3> block{};
  uint32_t registers_per_thread = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
};

struct Occupancy {
  double fraction = 0;  // Warps over the warps that a multiprocessor can hold, 0..1.
  // The limiting resource: "registers", "shared memory", "threads", "blocks" (the maximum per
  // multiprocessor), or "grid" (the launch has no more blocks). If several apply, the first of:
  // grid, threads, blocks, registers, shared memory.
  std::string_view limit;
  int64_t blocks_per_sm = 0;  // Blocks that fit, even if the launch has fewer.
};

// Returns nullopt if the device's properties are unknown, or a block cannot have these threads.
std::optional<Occupancy> EstimateOccupancy(const LaunchShape& launch, const GpuDevice& device);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_OCCUPANCY_H_
