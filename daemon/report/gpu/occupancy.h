// How many warps of a launch fit a multiprocessor at once, by the rules that NVIDIA publishes
// for compute capability 5.0 to 12.x: an estimate, since what really ran at once depends on how
// blocks began and ended, and on how the driver split the memory between shared and cache (here:
// as much shared memory as there can be).
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
  double fraction = 0;  // Warps over those that a multiprocessor can hold, 0..1.
  // What kept more from fitting: "registers", "shared memory", "threads", "blocks" (the most a
  // multiprocessor holds of any size) or "grid" (there were no more blocks). Of several the
  // first in this order: grid, threads, blocks, registers, shared memory.
  std::string_view limit;
  int64_t blocks_per_sm = 0;  // That fit, however many there are.
};

// nullopt: the device's properties are not known, or no block has these threads.
std::optional<Occupancy> EstimateOccupancy(const LaunchShape& launch, const GpuDevice& device);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_GPU_OCCUPANCY_H_
