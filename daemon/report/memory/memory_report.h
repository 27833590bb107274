// The memory report: memory of each device over time and by category, blocks alive at the peak,
// growth from step to step, memory that the allocator reserved without use, and failed allocations.
// It uses the same events and rules as SummarizeMemory() (timeline.h).
//
// Units:   bytes, and ns since the window's start.
// Threads: any, one reader each.
// Memory:  that of categories.h; 72 bytes per block alive at once, 96 per sample, 112 per block
//          that was alive at a device's peak or is suspected of growth, 88 per step and device.
// Errors:  those of the reader; INVALID_ARGUMENT for options out of range.
#ifndef PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_
#define PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// The layers of a stacked chart, from the bottom. All but the first are categories of blocks.
enum class MemoryLayer : uint8_t {
  kOlder,  // Allocated before the window, for an unknown purpose.
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
// Returns "before_window", or the category's name as in MemoryCategoryUse.
std::string_view ToString(MemoryLayer layer);

// A device's level from one event until the next.
struct MemorySample {
  int64_t time_ns = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = -1;  // By the allocator; -1: unknown (so far)
  // By MemoryLayer. The sum is allocated_bytes, or more if the capture lost frees. For a relative
  // device, kOlder counts from 0 and may be negative.
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
  int64_t step = -1;               // The step that allocated it; -1: none
  std::string category;            // As MemoryCategoryUse has it.
  std::string op;                  // See DeviceMemoryReport::peak_by_op.
  std::string module;              // Empty: in none, or modules were not recorded.
  std::vector<std::string> stack;  // All ranges around the allocation, outermost first.
};
inline constexpr size_t kMostPeakBlocks = 100;

struct MemoryStepRow {
  int64_t step = 0;
  int64_t start_bytes = 0;  // Allocated bytes when it began, ...
  int64_t end_bytes = 0;    // ... and when it ended.
  int64_t lowest_bytes = 0;
  int64_t peak_bytes = 0;
  int64_t peak_reserved_bytes = -1;  // -1: not known
  int64_t allocation_count = 0;
  int64_t allocated_total_bytes = 0;
  // Allocated in it and alive when the window ended; -1 for the last step, whose blocks the next
  // one may free.
  int64_t kept_bytes = 0;
  int64_t kept_blocks = 0;
};

// Growth of a device's memory from step to step. The slope is the median of the slopes between all
// pairs of steps (Theil-Sen), of the levels at their ends, so a few unusual steps do not change it.
// `suspects` are blocks that a step allocated and that no later step freed, although at least one
// more whole step was recorded. They include blocks that the program needs from then on (an
// optimizer's state in its first step), but no blocks of a size of which the last steps freed as
// many as they made, as a full ring of tensors does (turnover.h).
struct MemoryGrowth {
  static constexpr int64_t kFewestSteps = 3;

  int64_t step_count = 0;          // Below kFewestSteps, the next two are 0.
  int64_t rising_count = 0;        // Steps that ended higher than the step before.
  bool never_falls = false;        // No step ended lower than the step before.
  int64_t bytes_per_step = 0;      // The slope; may be negative.
  int64_t net_bytes = 0;           // From the lower end of the first two to the last.
  int64_t deepest_fall_bytes = 0;  // From an end to the lowest one after it.
  // It rose to its highest end so many steps before the last one, and had never gone without a new
  // highest for so many steps before.
  int64_t steps_since_rise = 0;
  int64_t longest_pause_steps = 0;
  std::vector<MemoryShare> suspects_by_op;  // Largest first; empty if fewer steps were recorded.
  // By the line that allocated them, as PlaceKind::kSource; "(no line)". Empty: no line is known.
  std::vector<MemoryShare> suspects_by_source;
  // Not empty: the level rises, but the memory need not have grown: the numbers above are 0, and
  // the suspects known. "frees of blocks from before the window are not recorded on the CPU, and
  // ..."
  std::string unknown_because;
};

struct DeviceMemoryReport {
  // Its `points` are empty, because `samples` have more detail. Its `peak_by_op` names the
  // outermost operator around an allocation, which the program called ("aten::linear",
  // "AddmmBackward0"), not the one that requested memory ("aten::empty"); without an operator, the
  // innermost range.
  DeviceMemory memory;
  std::vector<MemorySample> samples;  // By time; thinned to MemoryOptions::max_points.
  // Blocks of known size that are older than the window and alive at the peak; part of
  // memory.peak_by_category.
  std::vector<MemoryShare> peak_older_by_category;
  // At the peak of allocated bytes.
  std::vector<MemoryShare> peak_by_module;  // "(no module)"; empty: none were recorded.
  std::vector<MemoryShare>
      peak_by_lifetime;                  // By MemoryLifetime's words; before_window has no blocks.
  std::vector<MemoryBlock> peak_blocks;  // The largest; at most kMostPeakBlocks.
  // Reserved minus allocated bytes are unused memory of the allocator: fragments and cache.
  int64_t reserved_at_peak_bytes = -1;            // At the peak of allocated bytes; -1: unknown
  int64_t peak_reserved_time_ns = -1;             // -1: not known
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
  std::string op;  // The requester, by the rule of peak_by_op; empty: unknown.
};

struct MemoryReport {
  std::vector<DeviceMemoryReport> devices;  // By name.
  std::vector<FailedAllocation> out_of_memory;
};

// Without `options.peak_by_op`, no range is read: peak_by_op, peak_by_module, and suspects_by_op
// are empty, and blocks have no op, module, or stack.
absl::StatusOr<MemoryReport> ReportMemory(store::CaptureReader& reader,
                                          const MemoryOptions& options);

// The report "memory" of reports.h, and back. DATA_LOSS: the parts do not fit together.
table::Report ToReport(const MemoryReport& memory);
absl::StatusOr<MemoryReport> MemoryFrom(const table::Report& report);

// What `profctl memory` prints with --json.
const table::ObjectDescription<MemoryReport>& MemoryObject();
// Some rows of the report's table of samples.
table::Table MemorySampleTable(std::string_view device, std::span<const MemorySample> samples);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_MEMORY_MEMORY_REPORT_H_
