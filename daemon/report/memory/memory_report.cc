#include "daemon/report/memory/memory_report.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/place_index.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/memory/allocation_origins.h"
#include "daemon/report/memory/levels.h"
#include "daemon/report/memory/out_of_memory.h"
#include "daemon/report/memory/shares.h"
#include "daemon/report/memory/steps.h"
#include "daemon/report/memory/tracker.h"
#include "daemon/report/memory/turnover.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

using wire::MemoryCategory;

constexpr std::string_view kNoModule = "(no module)";
constexpr std::string_view kNoLine = "(no line)";

// By MemoryLayer, but for the first.
constexpr std::array<MemoryCategory, kMemoryLayers> kCategoryOf = {
    MemoryCategory::kUnknown,        MemoryCategory::kParameter, MemoryCategory::kBuffer,
    MemoryCategory::kOptimizerState, MemoryCategory::kGradient,  MemoryCategory::kInput,
    MemoryCategory::kActivation,     MemoryCategory::kTemporary, MemoryCategory::kUnknown};

MemorySample SampleOf(const MemoryTracker& tracker, int64_t time_ns) {
  MemorySample sample = {.time_ns = time_ns,
                         .allocated_bytes = tracker.allocated_bytes(),
                         .reserved_bytes = tracker.reserved_bytes()};
  int64_t known = 0;
  for (size_t layer = 1; layer < kMemoryLayers; ++layer) {
    sample.layer_bytes[layer] =
        tracker.categories().BytesOf(static_cast<uint8_t>(kCategoryOf[layer]));
    known = Sum(known, sample.layer_bytes[layer]);
  }
  sample.layer_bytes[0] = Difference(sample.allocated_bytes, known);
  return sample;
}

int64_t CapacityOf(const CaptureRecord& record, MemoryDeviceKey key) {
  if (key.first == static_cast<uint8_t>(wire::DeviceType::kCpu)) return -1;
  for (const GpuDevice& device : record.gpu.devices) {
    if (device.number == key.second && device.memory_bytes > 0) return device.memory_bytes;
  }
  return -1;
}

// What the events say of a device, and of allocations that failed.
class Recorder final : public MemoryObserver {
 public:
  Recorder(int64_t max_points, std::span<const StepRecord> steps,
           std::vector<FailedAllocation>& failed)
      : max_points_(max_points), steps_(steps), failed_(failed) {}

  void Begin(MemoryDeviceKey key, const MemoryTracker& tracker, int64_t time_ns) override {
    Device& device = devices_.try_emplace(MemoryDeviceName(key), max_points_, steps_).first->second;
    device.now = SampleOf(tracker, std::min<int64_t>(0, time_ns));
    device.levels.Add(device.now);
    device.steps.StartAt(tracker.allocated_bytes());
  }
  void Applied(MemoryDeviceKey key, const MemoryTracker& tracker, const MemoryEvent& event,
               int64_t told_before) override {
    FailUntil(event.time_ns);
    const std::string name = MemoryDeviceName(key);
    Device& device = devices_.at(name);
    if (told_before != 0) Shift(name, device, told_before);
    device.now = SampleOf(tracker, event.time_ns);
    device.levels.Add(device.now);
    device.steps.Add(event, tracker);
    device.turnover.Add(event);
  }

  void Finish() { FailUntil(std::numeric_limits<int64_t>::max()); }

  // Whether the last steps freed as many blocks of that size as they made.
  bool IsReplaced(const std::string& device, int64_t bytes) const {
    const auto found = devices_.find(device);
    return found != devices_.end() && found->second.turnover.IsReplaced(bytes);
  }

  // Once for each device, after Finish().
  void TakeInto(const MemoryTracker& tracker, DeviceMemoryReport& report) {
    const auto found = devices_.find(report.memory.device);
    if (found == devices_.end()) return;
    report.samples = found->second.levels.Take();
    report.steps = found->second.steps.Take(tracker.LiveBlocks());
    if (report.memory.relative) return;
    for (MemorySample& sample : report.samples) {
      sample.layer_bytes[0] = std::max<int64_t>(0, sample.layer_bytes[0]);
    }
  }

 private:
  struct Device {
    Device(int64_t max_points, std::span<const StepRecord> of)
        : levels(max_points), steps(of), turnover(of) {}
    SampleLevels levels;
    MemorySteps steps;
    Turnover turnover;
    MemorySample now;
  };

  void FailUntil(int64_t time_ns) {
    for (; next_failed_ < failed_.size() && failed_[next_failed_].asked.time_ns < time_ns;
         ++next_failed_) {
      FailedAllocation& failed = failed_[next_failed_];
      const auto found = devices_.find(failed.asked.device);
      if (found == devices_.end()) continue;
      failed.allocated_bytes = found->second.now.allocated_bytes;
      failed.reserved_bytes = found->second.now.reserved_bytes;
    }
  }

  void Shift(const std::string& name, Device& device, int64_t bytes) {
    device.levels.Shift(bytes);
    device.steps.Shift(bytes);
    // Later ones will take the level as it is by then.
    for (size_t i = 0; i < next_failed_; ++i) {
      if (failed_[i].asked.device != name) continue;
      failed_[i].allocated_bytes = Sum(failed_[i].allocated_bytes, bytes);
    }
  }

  const int64_t max_points_;
  const std::span<const StepRecord> steps_;
  std::vector<FailedAllocation>& failed_;
  size_t next_failed_ = 0;
  std::map<std::string, Device> devices_;
};

// One device's blocks on their way into the report.
struct BlocksOfDevice {
  std::vector<TrackedBlock> at_peak;   // Largest first.
  std::vector<TrackedBlock> suspects;  // Of growth.
  size_t first_origin = 0;             // Of at_peak; those of suspects follow.
};

// Blocks that replace older ones raise a level that counts from the recording. Whether the memory
// grows as well is seen in the process. Empty: it does.
std::string WhyGrowthIsUnknown(const CpuRecord& process, const MemoryGrowth& growth) {
  const std::string unseen =
      "frees of blocks from before the window are not recorded on the CPU, and the anonymous "
      "memory of the process ";
  if (process.resident_begin_bytes <= 0 || process.resident_end_bytes <= 0) {
    return unseen + "is not known";
  }
  const double grown = static_cast<double>(process.resident_end_bytes) -
                       static_cast<double>(process.resident_begin_bytes);
  const double expected =
      static_cast<double>(growth.bytes_per_step) * static_cast<double>(growth.step_count - 1);
  return 2 * grown >= expected ? std::string() : unseen + "did not grow as much";
}

class Reporter {
 public:
  Reporter(store::CaptureReader& reader, const MemoryOptions& options)
      : reader_(reader), options_(options), steps_(reader.steps()) {}

  absl::StatusOr<MemoryReport> Make() {
    ASSIGN_OR_RETURN(const std::vector<OutOfMemoryNote> notes, FindOutOfMemory(reader_));
    for (const OutOfMemoryNote& note : notes) report_.out_of_memory.push_back({note.event});
    Recorder recorder(options_.max_points, steps_.steps(), report_.out_of_memory);
    ASSIGN_OR_RETURN(MemoryTrackers trackers, TrackMemory(reader_, recorder));
    recorder.Finish();
    for (auto& [key, tracker] : trackers) AddDevice(key, tracker, recorder);
    const size_t first_note = origin_count_;
    if (options_.peak_by_op) {
      for (const OutOfMemoryNote& note : notes) {
        origins_.Add(note.thread, note.event.time_ns);
      }
      RETURN_IF_ERROR(origins_.Resolve(reader_));
    }
    for (size_t i = 0; i < report_.devices.size(); ++i) DescribeBlocks(i);
    RETURN_IF_ERROR(FindLinesOfSuspects());
    for (size_t i = 0; i < notes.size(); ++i) DescribeFailed(i, first_note + i);
    return std::move(report_);
  }

 private:
  // In a trace of torch the CPU's total may begin above 0, because torch counts on from what an
  // earlier recording or the warm-up of this one saw.
  bool MayMissFrees(MemoryDeviceKey key, const MemoryTracker& tracker) const {
    const bool is_cpu = key.first == static_cast<uint8_t>(wire::DeviceType::kCpu);
    const bool is_import = !reader_.record().imported.source.empty();
    return tracker.counts_from_recording() || (is_cpu && is_import);
  }

  void AddDevice(MemoryDeviceKey key, MemoryTracker& tracker, Recorder& recorder) {
    DeviceMemoryReport& device = report_.devices.emplace_back();
    device.memory = tracker.Take();
    device.memory.device = MemoryDeviceName(key);
    device.peak_older_by_category = tracker.OlderAtPeak();
    device.capacity_bytes = CapacityOf(reader_.record(), key);
    device.reserved_at_peak_bytes = tracker.reserved_at_peak_bytes();
    device.peak_reserved_time_ns = tracker.peak_reserved_time_ns();
    device.allocated_at_peak_reserved_bytes = tracker.allocated_at_peak_reserved_bytes();
    recorder.TakeInto(tracker, device);
    device.growth = GrowthOf(device.steps);
    const bool has_steps = device.growth.step_count >= MemoryGrowth::kFewestSteps;
    if (MayMissFrees(key, tracker) && device.growth.bytes_per_step > 0) {
      std::string unknown_because = WhyGrowthIsUnknown(reader_.record().cpu, device.growth);
      if (!unknown_because.empty()) {
        device.growth = {.suspects_by_op = {},
                         .suspects_by_source = {},
                         .unknown_because = std::move(unknown_because)};
      }
    }

    BlocksOfDevice& blocks = blocks_.emplace_back();
    blocks.at_peak = tracker.BlocksAtPeak();
    std::sort(blocks.at_peak.begin(), blocks.at_peak.end(),
              [](const TrackedBlock& a, const TrackedBlock& b) {
                return a.bytes != b.bytes ? a.bytes > b.bytes : a.number < b.number;
              });
    if (has_steps) {
      blocks.suspects = Suspects(tracker.LiveBlocks());
      std::erase_if(blocks.suspects, [&](const TrackedBlock& block) {
        return recorder.IsReplaced(device.memory.device, block.bytes);
      });
    }
    blocks.first_origin = origin_count_;
    origin_count_ += blocks.at_peak.size() + blocks.suspects.size();
    if (!options_.peak_by_op) return;
    for (size_t i = 0; i < blocks.at_peak.size(); ++i) {
      origins_.Add(blocks.at_peak[i].thread, blocks.at_peak[i].time_ns, i < kMostPeakBlocks);
    }
    for (const TrackedBlock& block : blocks.suspects) origins_.Add(block.thread, block.time_ns);
  }

  // Allocated in any step but the last.
  std::vector<TrackedBlock> Suspects(const std::vector<TrackedBlock>& live) {
    std::vector<TrackedBlock> suspects;
    for (const TrackedBlock& block : live) {
      const size_t position = steps_.PositionAt(block.time_ns);
      if (position != StepLookup::kNone && position + 1 < steps_.steps().size()) {
        suspects.push_back(block);
      }
    }
    return suspects;
  }

  void DescribeBlocks(size_t number) {
    const BlocksOfDevice& blocks = blocks_[number];
    DeviceMemoryReport& device = report_.devices[number];
    MemoryShares by_category;
    for (const MemoryShare& older : device.peak_older_by_category) {
      by_category.Add(older.name, older.bytes, older.blocks);
    }
    MemoryShares by_op;
    MemoryShares by_module;
    MemoryShares by_lifetime;
    for (size_t i = 0; i < blocks.at_peak.size(); ++i) {
      const TrackedBlock& block = blocks.at_peak[i];
      by_category.Add(CategoryName(block.category), block.bytes);
      by_lifetime.Add(ToString(LifetimeOf(block)), block.bytes);
      const bool is_shown = i < kMostPeakBlocks;
      if (is_shown) device.peak_blocks.push_back(Describe(block));
      if (!options_.peak_by_op) continue;
      const size_t origin = blocks.first_origin + i;
      const std::string module = origins_.ModuleOf(origin);
      by_op.Add(origins_.OpOf(origin), block.bytes);
      if (origins_.any_module()) by_module.Add(module.empty() ? kNoModule : module, block.bytes);
      if (!is_shown) continue;
      device.peak_blocks.back().op = origins_.OpOf(origin);
      device.peak_blocks.back().module = module;
      device.peak_blocks.back().stack = origins_.StackOf(origin);
    }
    if (device.memory.peak_older_bytes > 0) {
      by_lifetime.Add(ToString(MemoryLifetime::kBeforeWindow), device.memory.peak_older_bytes,
                      /*blocks=*/0);
    }
    device.memory.peak_by_category = by_category.LargestFirst();
    device.memory.peak_by_op = by_op.LargestFirst();
    device.peak_by_module = by_module.LargestFirst();
    device.peak_by_lifetime = by_lifetime.LargestFirst();
    DescribeSuspects(blocks, device.growth);
  }

  void DescribeSuspects(const BlocksOfDevice& blocks, MemoryGrowth& growth) const {
    if (!options_.peak_by_op) return;
    MemoryShares by_op;
    for (size_t i = 0; i < blocks.suspects.size(); ++i) {
      by_op.Add(origins_.OpOf(blocks.first_origin + blocks.at_peak.size() + i),
                blocks.suspects[i].bytes);
    }
    growth.suspects_by_op = by_op.LargestFirst();
  }

  absl::Status FindLinesOfSuspects() {
    const bool any = std::ranges::any_of(
        blocks_, [](const BlocksOfDevice& blocks) { return !blocks.suspects.empty(); });
    // Python functions as ranges are in imported traces only.
    const bool may_have_lines =
        reader_.RowsOf(RowKind::kStack) > 0 || !reader_.record().imported.source.empty();
    if (!options_.peak_by_op || !any || !may_have_lines) return absl::OkStatus();
    ASSIGN_OR_RETURN(PlaceIndex lines, PlaceIndex::Build(reader_, PlaceKind::kSource));
    if (lines.empty()) return absl::OkStatus();
    for (size_t i = 0; i < report_.devices.size(); ++i) {
      std::vector<TrackedBlock>& suspects = blocks_[i].suspects;
      std::ranges::sort(suspects, {}, &TrackedBlock::time_ns);
      MemoryShares by_source;
      bool any_line = false;
      for (const TrackedBlock& block : suspects) {
        const uint32_t line = lines.At(block.thread, block.time_ns);
        any_line |= line != 0;
        by_source.Add(line == 0 ? kNoLine : std::string_view(lines.NameOf(line)), block.bytes);
      }
      if (any_line) report_.devices[i].growth.suspects_by_source = by_source.LargestFirst();
    }
    return absl::OkStatus();
  }

  MemoryBlock Describe(const TrackedBlock& block) {
    return {.bytes = block.bytes,
            .allocated_ns = block.time_ns,
            .freed_ns = block.freed_ns == TrackedBlock::kNever ? -1 : block.freed_ns,
            .step = StepAt(block.time_ns),
            .category = std::string(CategoryName(block.category))};
  }

  MemoryLifetime LifetimeOf(const TrackedBlock& block) {
    if (block.freed_ns == TrackedBlock::kNever) return MemoryLifetime::kNotFreed;
    const size_t made_in = steps_.PositionAt(block.time_ns);
    if (made_in == StepLookup::kNone) return MemoryLifetime::kFreed;
    return steps_.PositionAt(block.freed_ns) == made_in ? MemoryLifetime::kWithinStep
                                                        : MemoryLifetime::kAcrossSteps;
  }

  void DescribeFailed(size_t number, size_t origin) {
    FailedAllocation& failed = report_.out_of_memory[number];
    failed.step = StepAt(failed.asked.time_ns);
    if (options_.peak_by_op) failed.op = origins_.OpOf(origin);
    const auto device = std::find_if(report_.devices.begin(), report_.devices.end(),
                                     [&](const DeviceMemoryReport& report) {
                                       return report.memory.device == failed.asked.device;
                                     });
    if (device == report_.devices.end()) return;
    failed.capacity_bytes = device->capacity_bytes;
    if (device->memory.relative) failed.allocated_bytes = -1;
  }

  int64_t StepAt(int64_t time_ns) {
    const size_t position = steps_.PositionAt(time_ns);
    return position == StepLookup::kNone ? -1 : steps_.steps()[position].index;
  }

  store::CaptureReader& reader_;
  const MemoryOptions& options_;
  StepLookup steps_;
  MemoryReport report_;
  std::vector<BlocksOfDevice> blocks_;  // As report_.devices.
  AllocationOrigins origins_;           // Of all blocks, then of all allocations that failed.
  size_t origin_count_ = 0;
};

}  // namespace

std::string_view ToString(MemoryLayer layer) {
  if (layer == MemoryLayer::kOlder) return "before_window";
  return CategoryName(static_cast<uint8_t>(kCategoryOf[static_cast<size_t>(layer)]));
}

std::string_view ToString(MemoryLifetime lifetime) {
  switch (lifetime) {
    case MemoryLifetime::kWithinStep:
      return "within_step";
    case MemoryLifetime::kAcrossSteps:
      return "across_steps";
    case MemoryLifetime::kFreed:
      return "freed";
    case MemoryLifetime::kNotFreed:
      return "not_freed";
    case MemoryLifetime::kBeforeWindow:
      return "before_window";
  }
  return "";
}

absl::StatusOr<MemoryReport> ReportMemory(store::CaptureReader& reader,
                                          const MemoryOptions& options) {
  RETURN_IF_ERROR(ValidateMaxPoints(options.max_points));
  return Reporter(reader, options).Make();
}

}  // namespace profd::report
