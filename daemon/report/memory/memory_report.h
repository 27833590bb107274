// The memory report: what each device held over time and by category, what was alive at the peak,
// whether memory grows from step to step, what the allocator held back, and allocations that
// failed. It rests on the same events and rules as SummarizeMemory() (reports.h).
//
// Units:   bytes, and ns since the window's start.
// Threads: any, one reader each.
// Memory:  what categories.h says; 72 bytes per block alive at once, 96 per sample, 112 per
//          block that was alive at a device's peak or is a suspect of growth, 88 per step and
//          device.
// Errors:  those of the reader; INVALID_ARGUMENT for options out of range.
#ifndef PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_
#define PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The layers of a stacked chart, from the bottom. All but the first are categories of blocks.
enum class MemoryLayer : uint8_t {
  kOlder,  // Allocated before the window, and nothing tells what for.
  kParameter,
  kBuffer,
  kOptimizerState,
  kGradient,
  kInput,
  kActivation,
  kTemporary,
  kUnknown,
};
inline constexpr size_t kMemoryLayers = 9;
// "before_window"; else the category's name, as MemoryCategoryUse has it.
std::string_view ToString(MemoryLayer layer);

// A device's level from one event on until the next.
struct MemorySample {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = -1;  // By the allocator; -1: not known (yet)
  // By MemoryLayer. They add up to allocated_bytes, or to more where the capture lost frees. Of a
  // relative device, what was there before the window counts from 0 and may be negative.
  std::array<int64_t, kMemoryLayers> layer_bytes{};
};

// How long a block that was alive at the peak lived.
enum class MemoryLifetime : uint8_t {
  kWithinStep,    // Freed in the step that it was allocated in.
  kAcrossSteps,   // Freed in a later step, or outside of steps.
  kFreed,         // Freed in the window; allocated in no step.
  kNotFreed,      // Alive when the window ended.
  kBeforeWindow,  // Allocated before the window.
};
std::string_view ToString(MemoryLifetime lifetime);  // "within_step"

// A block that was allocated in the window and alive at the peak.
struct MemoryBlock {
  int64_t bytes = 0;
  int64_t allocated_ns = 0;
  int64_t freed_ns = -1;           // -1: not in the window
  int64_t step = -1;               // That allocated it; -1: none
  std::string category;            // As MemoryCategoryUse has it.
  std::string op;                  // See DeviceMemoryReport::peak_by_op.
  std::string module;              // Empty: in none, or modules were not recorded.
  std::vector<std::string> stack;  // All ranges around the allocation, outermost first.
};
inline constexpr size_t kMostPeakBlocks = 100;

struct MemoryStepRow {
  int64_t step = 0;
  int64_t start_bytes = 0;  // Allocated when it began, ...
  int64_t end_bytes = 0;    // ... and when it ended.
  int64_t lowest_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t peak_reserved_bytes = -1;  // -1: not known
  int64_t allocation_count = 0;
  int64_t allocated_total_bytes = 0;
  // Allocated in it and alive when the window ended.
  int64_t kept_bytes = 0;
  int64_t kept_blocks = 0;
};

// What a device has more of after each step. The slope is the median of the slopes between all
// pairs of steps (Theil and Sen's), of the level at their ends: a few steps that differ do not move
// it. `suspects` are blocks that a step allocated and a later one did not free, though a whole
// step more was recorded; those that the program needs from then on (an optimizer's state in its
// first step) are among them.
struct MemoryGrowth {
  static constexpr int64_t kFewestSteps = 3;

  int64_t step_count = 0;                   // Below kFewestSteps, nothing is told.
  int64_t rising_count = 0;                 // Steps that ended with more than the one before them.
  int64_t bytes_per_step = 0;               // The slope; may be negative.
  std::vector<MemoryShare> suspects_by_op;  // Largest first.
};

struct DeviceMemoryReport {
  // Its `points` are empty: `samples` say more. Its `peak_by_op` names the outermost operator
  // around an allocation ("aten::linear", "AddmmBackward0"), which is what a program called, and
  // not what asked for memory in the end ("aten::empty"); where there is no operator, the innermost
  // range.
  DeviceMemory memory;
  std::vector<MemorySample> samples;  // By time; as MemoryOptions::max_points thins them.
  // At the peak of allocated bytes.
  std::vector<MemoryShare> peak_by_module;  // "(no module)"; empty: none were recorded.
  std::vector<MemoryShare>
      peak_by_lifetime;                  // By MemoryLifetime's words; before_window has no blocks.
  std::vector<MemoryBlock> peak_blocks;  // The largest; at most kMostPeakBlocks.
  // Reserved less allocated is what the allocator held and nobody used: fragments and cache.
  int64_t reserved_at_peak_bytes = -1;  // When allocated bytes were at their peak; -1: not known
  int64_t peak_reserved_time_ns = -1;   // -1: not known
  int64_t allocated_at_peak_reserved_bytes = -1;  // -1: not known
  int64_t capacity_bytes = -1;                    // Of the device; -1: not known
  std::vector<MemoryStepRow> steps;               // By time; empty: the capture has none.
  MemoryGrowth growth;
};

struct FailedAllocation {
  OutOfMemory asked;
  int64_t step = -1;             // -1: in none
  int64_t allocated_bytes = -1;  // Of the device then; -1: not known, as the next two
  int64_t reserved_bytes = -1;
  int64_t capacity_bytes = -1;
  std::string op;  // That asked, by the rule of peak_by_op; empty: not known.
};

struct MemoryReport {
  std::vector<DeviceMemoryReport> devices;  // By name.
  std::vector<FailedAllocation> out_of_memory;
};

// Of `options`, peak_by_op says whether ranges are read at all: without, there is no peak_by_op,
// peak_by_module, suspects_by_op, and blocks have no op, module or stack.
absl::StatusOr<MemoryReport> ReportMemory(store::CaptureReader& reader,
                                          const MemoryOptions& options);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_
