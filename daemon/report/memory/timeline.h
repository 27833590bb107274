// Memory of devices over time, and the blocks alive at the peak.
//
// Threads: any, one reader each.
// Memory:  per live block and name; categories.h has the cost of categories.
// Errors:  those of the reader; INVALID_ARGUMENT for options out of range.
#ifndef PROFD_DAEMON_REPORT_MEMORY_TIMELINE_H_
#define PROFD_DAEMON_REPORT_MEMORY_TIMELINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct MemoryOptions {
  // Maximum of points per device, >= 4; 0: all. Each time bucket keeps its lowest and highest
  // point, so no peak is lost.
  int64_t max_points = 0;
  // False: peak_by_op stays empty, and no range is read.
  bool peak_by_op = true;
};

struct MemoryPoint {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;

  friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

struct MemoryShare {
  std::string name;  // A category, or the innermost range the blocks were allocated in.
  int64_t bytes = 0;
  int64_t blocks = 0;

  friend bool operator==(const MemoryShare&, const MemoryShare&) = default;
};

// All blocks of one category over the window: "parameter", "gradient", "optimizer_state",
// "buffer", "input", "activation", "temporary", "unknown". The category comes from the capture's
// BlockRows or, without one, from the operators that used the block (rules: categories.h).
struct MemoryCategoryUse {
  std::string name;
  int64_t peak_bytes = 0;   // The most at once.
  double byte_seconds = 0;  // The integral over the window.
  int64_t block_count = 0;
};

struct OutOfMemory {
  int64_t time_ns = 0;
  std::string device;  // "cuda:0"
  int64_t bytes = 0;   // Requested.
};

struct DeviceMemory {
  // "cpu:0", "cuda:1"; "cuda-driver:1" are allocations of CUDA itself, "cuda-pool:1" its pools.
  std::string device;
  // Relative to the window's start: no event had a total, or the totals count from when recording
  // began. Of what is older than the window, only blocks of known size are included: those that
  // were freed in the window, and those whose owner told their size. The rest is not included.
  bool relative = false;
  int64_t peak_bytes = 0;
  int64_t peak_time_ns = 0;
  int64_t start_bytes = 0;  // Before the first event; if relative, the known part.
  int64_t end_bytes = 0;
  int64_t peak_reserved_bytes = -1;  // -1: not known
  int64_t allocation_count = 0;
  int64_t free_count = 0;
  int64_t allocated_total_bytes = 0;  // Sum over allocations.
  // Frees of blocks that were allocated before the window (or whose allocation was lost).
  int64_t unknown_free_count = 0;
  int64_t unknown_free_bytes = 0;
  // A free of an address that was freed before in the window: freed twice, or the allocation in
  // between was lost. It changes no level.
  int64_t repeated_free_count = 0;
  // Blocks alive at the peak, also older ones of known size; largest first. With
  // `peak_unknown_bytes` they add up to the peak.
  std::vector<MemoryShare> peak_by_category;
  int64_t peak_unknown_bytes = 0;  // Alive at the peak, in no block of known size; >= 0.
  // Those allocated in the window. With `peak_older_bytes` they add up to the peak.
  std::vector<MemoryShare> peak_by_op;  // "(no range)" for blocks allocated outside any.
  // Alive at the peak but allocated before the window, of known purpose or not; >= 0.
  int64_t peak_older_bytes = 0;
  // By time. The first is `start_bytes` at the window's start; one after each event follows.
  std::vector<MemoryPoint> points;
  std::vector<MemoryCategoryUse> categories;  // Most byte-seconds first.
};

struct MemoryTimeline {
  std::vector<DeviceMemory> devices;  // By name.
  std::vector<OutOfMemory> out_of_memory;
};
absl::StatusOr<MemoryTimeline> SummarizeMemory(store::CaptureReader& reader,
                                               const MemoryOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_TIMELINE_H_
