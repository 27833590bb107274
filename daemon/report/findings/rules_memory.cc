#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/index/accelerators.h"
#include "daemon/report/index/stack_table.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

constexpr std::string_view kNeedsMemory =
    "allocator events (profctl trace --with memory; profile_memory=True in torch.profiler)";
constexpr std::string_view kNeedsCapacity = "the GPU's memory size";
constexpr std::string_view kNeedsReserved = "the allocator's reserved bytes";
// Fragmentation does not matter on a device that is half empty.
constexpr double kRoomyShare = 0.5;
// Share of the steps (without the first) that must end with more memory than the step before.
constexpr double kRisingShare = 0.8;
// Of the slope over all steps: what is there at the end.
constexpr double kKeptShare = 0.5;
// A fall by the rise of more steps than these is no noise.
constexpr double kMostStepsFallenBack = 2.5;
constexpr int64_t kFewestForLeak = 5;
// A program may keep something in every N-th step: its memory rises in few steps, and never falls.
constexpr int64_t kFewestRises = 3;
constexpr int64_t kFewestForRareRises = 10;
// For high confidence: ten steps, and as many rises as a leak in most of ten steps has. Fewer can
// be caches that fill up, or the first inputs of a size.
constexpr int64_t kStepsForHigh = 10;
constexpr int64_t kRisesForHigh = 8;
constexpr double kSoonHours = 24;
constexpr double kHourNs = 3600e9;
// Without steps, the time may include a warm-up, which allocates.
constexpr double kAllocationShareWithoutSteps = 0.10;

// Or another accelerator.
bool IsGpu(const DeviceMemoryReport& device) {
  const std::string_view name = std::string_view(device.memory.device);
  const std::string_view type = name.substr(0, name.find(':'));
  return type.size() < name.size() && (type == "cuda" || AcceleratorType(type).has_value());
}

// The GPU with the largest value of `fn`, which is negative if unknown.
template <typename Fn>
const DeviceMemoryReport* Largest(const Facts& facts, Fn fn) {
  const DeviceMemoryReport* largest = nullptr;
  for (const DeviceMemoryReport& device : facts.memory.devices) {
    if (!IsGpu(device) || fn(device) < 0) continue;
    if (largest == nullptr || fn(device) > fn(*largest)) largest = &device;
  }
  return largest;
}

double Share(int64_t part, int64_t whole) {
  return whole <= 0 ? -1 : static_cast<double>(part) / static_cast<double>(whole);
}

// What the device held at its worst: what was reserved, where that is known.
int64_t PeakOf(const DeviceMemoryReport& device) {
  return std::max(device.memory.peak_bytes, device.memory.peak_reserved_bytes);
}

std::vector<Evidence> MemoryRows(const std::vector<MemoryShare>& shares, std::string_view what) {
  std::vector<Evidence> rows;
  for (const MemoryShare& share : shares) {
    if (rows.size() == kMostEvidence) break;
    Evidence evidence;
    evidence.kind = EvidenceKind::kMemory;
    evidence.name = share.name;
    evidence.detail = what;
    evidence.bytes = share.bytes;
    evidence.count = share.blocks;
    rows.push_back(std::move(evidence));
  }
  return rows;
}

Evidence MemoryRow(std::string_view name, int64_t bytes, std::string_view what) {
  Evidence evidence;
  evidence.kind = EvidenceKind::kMemory;
  evidence.name = name;
  evidence.detail = what;
  evidence.bytes = bytes;
  return evidence;
}

// What holds the device's memory at the peak, the largest first: operators of the window, what is
// older, by category if known, and what the allocator reserved without use.
std::vector<Evidence> FillsDevice(const DeviceMemoryReport& device) {
  const DeviceMemory& memory = device.memory;
  std::vector<Evidence> rows = MemoryRows(memory.peak_by_op, "alive at the peak");
  int64_t known_bytes = 0;
  for (const MemoryShare& older : device.peak_older_by_category) {
    rows.push_back(
        MemoryRow(older.name, older.bytes, "alive at the peak, allocated before the window"));
    rows.back().count = older.blocks;
    known_bytes += older.bytes;
  }
  if (memory.peak_older_bytes > known_bytes) {
    rows.push_back(MemoryRow("allocated before the window", memory.peak_older_bytes - known_bytes,
                             "alive at the peak, purpose unknown"));
  }
  if (device.reserved_at_peak_bytes > memory.peak_bytes) {
    rows.push_back(MemoryRow("reserved without use",
                             device.reserved_at_peak_bytes - memory.peak_bytes,
                             "cache and fragments of the allocator at the peak"));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Evidence& a, const Evidence& b) { return a.bytes > b.bytes; });
  if (rows.size() > kMostEvidence) rows.resize(kMostEvidence);
  return rows;
}

// How to get the lines that allocate, if they were not recorded.
std::string_view StacksAdvice(const Facts& facts) {
  const CaptureRecord& record = *facts.record;
  if (!record.imported.source.empty()) {
    return " with_stack=True in torch.profiler records the lines that allocate.";
  }
  if (record.spec.torch.stacks || KindOf(facts) == ProgramKind::kWithoutTorch) return "";
  return " `profctl trace --with memory,stacks` names the lines that allocate.";
}

void SetMemoryConfidence(bool relative, Finding& finding) {
  finding.confidence = relative ? Confidence::kLow : Confidence::kHigh;
  finding.confidence_reason = relative ? "allocations before the window are unknown" : "measured";
}

}  // namespace

RuleResult OutOfMemorySeen(const Facts& facts, const FindingThresholds&) {
  if (!facts.has_memory) return Needs(std::string(kNeedsMemory));
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kCount;
  finding.value = static_cast<double>(facts.memory.out_of_memory.size());
  result.fired = !facts.memory.out_of_memory.empty();
  if (!result.fired) return result;
  const FailedAllocation& first = facts.memory.out_of_memory.front();
  finding.severity = Severity::kCritical;
  finding.measured = StrCat(
      "An allocation of ", SizeText(first.asked.bytes), " on ", first.asked.device, " failed",
      first.step < 0 ? std::string()
                     : StrCat(" in step ", facts.steps.framework.LongText(first.step)),
      first.allocated_bytes >= 0 ? StrCat(" with ", SizeText(first.allocated_bytes), " allocated")
                                 : std::string(),
      ".");
  finding.advice =
      "Reduce the memory at the peak (`profctl memory CAPTURE`): smaller batches with gradient "
      "accumulation, activation checkpointing, lower precision, or sharding.";
  for (const FailedAllocation& failed : facts.memory.out_of_memory) {
    if (finding.evidence.size() == kMostEvidence) break;
    Evidence evidence;
    evidence.kind = EvidenceKind::kMemory;
    evidence.name = failed.op.empty() ? failed.asked.device : failed.op;
    evidence.detail = StrCat("requested on ", failed.asked.device);
    evidence.bytes = failed.asked.bytes;
    evidence.step = failed.step;
    evidence.start_ns = failed.asked.time_ns;
    finding.evidence.push_back(std::move(evidence));
  }
  finding.confidence = Confidence::kHigh;
  finding.confidence_reason = "recorded";
  return result;
}

RuleResult MemNearLimit(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_memory) return Needs(std::string(kNeedsMemory));
  const DeviceMemoryReport* device = Largest(
      facts, [](const DeviceMemoryReport& d) { return Share(PeakOf(d), d.capacity_bytes); });
  if (device == nullptr) return Needs(std::string(kNeedsCapacity));
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = Share(PeakOf(*device), device->capacity_bytes);
  finding.threshold = thresholds.memory_limit_share;
  result.fired = finding.value > finding.threshold;
  finding.severity = Severity::kWarning;
  finding.measured =
      StrCat(PeakOf(*device) > device->memory.peak_bytes ? "The peak of reserved memory on "
                                                         : "The peak on ",
             device->memory.device, " is ", SizeText(PeakOf(*device)), " of ",
             SizeText(device->capacity_bytes), " (", PercentText(finding.value), ").");
  finding.advice =
      "A slightly larger input may run out of memory. Activation checkpointing, lower precision, a "
      "smaller batch, or sharding free some.";
  finding.evidence = FillsDevice(*device);
  if (!finding.evidence.empty()) {
    StrAppend(&finding.measured, " The largest part: ", finding.evidence.front().name, ", ",
              SizeText(finding.evidence.front().bytes), ".");
  }
  SetMemoryConfidence(device->memory.relative, finding);
  return result;
}

RuleResult MemFragmentation(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_memory) return Needs(std::string(kNeedsMemory));
  const auto unused = [](const DeviceMemoryReport& d) -> double {
    if (d.allocated_at_peak_reserved_bytes < 0 || d.memory.relative) return -1;
    return Share(d.memory.peak_reserved_bytes - d.allocated_at_peak_reserved_bytes,
                 d.memory.peak_reserved_bytes);
  };
  const DeviceMemoryReport* device = Largest(facts, unused);
  if (device == nullptr) return Needs(std::string(kNeedsReserved));
  if (device->capacity_bytes <= 0) return Needs(std::string(kNeedsCapacity));
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = unused(*device);
  finding.threshold = thresholds.fragmentation_share;
  result.fired = finding.value > finding.threshold &&
                 Share(device->memory.peak_reserved_bytes, device->capacity_bytes) > kRoomyShare;
  finding.severity = Severity::kWarning;
  finding.measured = StrCat(
      "Of ", SizeText(device->memory.peak_reserved_bytes), " reserved on ", device->memory.device,
      ", ", SizeText(device->memory.peak_reserved_bytes - device->allocated_at_peak_reserved_bytes),
      " (", PercentText(finding.value), ") are unused.");
  finding.advice =
      "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep sizes constant from step to "
      "step, "
      "and avoid torch.cuda.empty_cache() in the step.";
  finding.evidence = MemoryRows(device->memory.peak_by_category, "alive at the peak");
  SetMemoryConfidence(device->memory.relative, finding);
  return result;
}

namespace {

// Of what the device's memory grew by, what steps allocated and no later one freed. The first step
// may make what the program needs from then on; the next one may free what the last one left.
int64_t LeftBySteps(const DeviceMemoryReport& device) {
  int64_t left_bytes = 0;
  for (size_t i = 1; i + 1 < device.steps.size(); ++i) {
    AddTo(left_bytes, std::max<int64_t>(0, device.steps[i].kept_bytes));
  }
  return left_bytes;
}

// A leak leaves all of its blocks. Less than this share of the growth, and others were made anew,
// larger each time.
constexpr double kLeftByLeak = 0.5;

// A buffer that has reached its size keeps it. What rises now and then has paused for as long
// before.
bool HasFilledUp(const MemoryGrowth& growth) {
  return growth.steps_since_rise > std::max<int64_t>(2 * growth.longest_pause_steps, 2) &&
         4 * growth.steps_since_rise >= growth.step_count;
}

void NameWhatStepsLeave(const Facts& facts, const MemoryGrowth& growth, Finding& finding) {
  finding.advice =
      "Look for tensors that outlive their step: losses summed with their graphs (use .item() or "
      ".detach()), lists of outputs, caches, hooks. A buffer that fills up to a limit grows so, "
      "too, until it is full.";
  constexpr std::string_view kLeft = "allocated in a step, still alive steps later";
  if (growth.suspects_by_source.empty()) {
    finding.evidence = MemoryRows(growth.suspects_by_op, kLeft);
    StrAppend(&finding.advice, StacksAdvice(facts));
    return;
  }
  std::vector<MemoryShare> lines = growth.suspects_by_source;
  for (MemoryShare& line : lines) line.name = StackTable::ColonLine(line.name);
  finding.evidence = MemoryRows(lines, kLeft);
  StrAppend(&finding.measured, " Most of what steps leave is allocated at ", lines.front().name,
            ".");
}

}  // namespace

RuleResult MemLeak(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_memory) return Needs(std::string(kNeedsMemory));
  const DeviceMemoryReport* device = nullptr;  // The one that grows most; host memory leaks, too.
  std::string unknown_because;
  for (const DeviceMemoryReport& other : facts.memory.devices) {
    if (!other.growth.unknown_because.empty()) unknown_because = other.growth.unknown_because;
    if (other.growth.step_count < kFewestForLeak) continue;
    if (device == nullptr || other.growth.bytes_per_step > device->growth.bytes_per_step) {
      device = &other;
    }
  }
  if (device == nullptr && !unknown_because.empty()) {
    return Needs(StrCat("memory whose frees are all recorded; ", unknown_because));
  }
  if (device == nullptr) return Needs("at least five steps with memory events");
  const MemoryGrowth& growth = device->growth;
  RuleResult result;
  Finding& finding = result.finding;
  finding.unit = FindingUnit::kBytes;
  finding.value = static_cast<double>(growth.bytes_per_step);
  const int64_t free_bytes = device->capacity_bytes - PeakOf(*device);
  // How much fills the memory soon, or is much in an hour where its size is not known.
  const double per_hour = device->capacity_bytes > 0 ? static_cast<double>(free_bytes) / kSoonHours
                                                     : thresholds.leak_bytes_per_hour;
  const double steps_per_hour = kHourNs / static_cast<double>(facts.StepNs());
  finding.threshold = thresholds.leak_bytes_per_step;
  if (facts.scope.has_steps && facts.StepNs() > 0) {
    finding.threshold = std::min(finding.threshold, std::max(per_hour / steps_per_hour, 0.0));
  }
  const bool rises_in_most = static_cast<double>(growth.rising_count) >=
                             kRisingShare * static_cast<double>(growth.step_count - 1);
  const bool rises_in_some = growth.never_falls && growth.rising_count >= kFewestRises &&
                             growth.step_count >= kFewestForRareRises;
  // What is collected for some steps and then freed rises in most of them, too.
  const double rise = finding.value * static_cast<double>(growth.step_count - 1);
  const bool is_kept = static_cast<double>(growth.net_bytes) >= kKeptShare * rise;
  const bool may_fall_again =
      static_cast<double>(growth.deepest_fall_bytes) > kMostStepsFallenBack * finding.value;
  result.fired = finding.value > finding.threshold && (rises_in_most || rises_in_some) && is_kept &&
                 !HasFilledUp(growth);
  finding.severity = Severity::kWarning;
  const bool is_made_anew = static_cast<double>(LeftBySteps(*device)) < kLeftByLeak * rise;
  if (!rises_in_most) finding.title = "Memory grows in some steps and never falls";
  if (is_made_anew) finding.title = "Memory grows: each step allocates more than the one before";
  finding.measured =
      StrCat("Memory on ", device->memory.device, " grows by ", SizeText(growth.bytes_per_step),
             " a step; ", growth.rising_count, " of ", growth.step_count - 1,
             " steps ended with more than the step before",
             growth.never_falls && !rises_in_most ? ", and none with less." : ".");
  if (result.fired && facts.scope.has_steps && facts.StepNs() > 0) {
    const double bytes_per_hour = finding.value * steps_per_hour;
    StrAppend(&finding.measured, " If it goes on, that is ",
              SizeText(static_cast<int64_t>(std::min(bytes_per_hour, 9e18))), " an hour");
    if (device->capacity_bytes > 0) {
      const int64_t steps = std::max<int64_t>(free_bytes, 0) / growth.bytes_per_step;
      const double hours = static_cast<double>(steps) / steps_per_hour;
      if (hours <= kSoonHours && !may_fall_again && !is_made_anew) {
        finding.severity = Severity::kCritical;
      }
      // What was there before the window takes part of the memory that looks free.
      StrAppend(&finding.measured, "; memory is full after ",
                device->memory.relative ? "at most " : "", steps, " more steps, in ",
                60 * hours < 1 ? TimeText(static_cast<int64_t>(3600e9 * hours))
                : hours < 1    ? absl::StrFormat("%.2g minutes", 60 * hours)
                               : absl::StrFormat("%.3g hours", hours));
    }
    StrAppend(&finding.measured, ".");
  }
  if (is_made_anew) {
    finding.advice =
        "If inputs grow, as sequences sorted by length do, run the largest one first: it needs the "
        "most memory. Otherwise look for tensors that are appended to: torch.cat([kept, new]).";
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "each step frees what the previous one left and allocates more, as with growing inputs";
    return result;
  }
  NameWhatStepsLeave(facts, growth, finding);
  const bool rises_often = growth.rising_count >= kRisesForHigh;
  finding.confidence =
      growth.step_count >= kStepsForHigh && rises_often ? Confidence::kHigh : Confidence::kMedium;
  finding.confidence_reason = CountText(growth.step_count, "step");
  if (growth.step_count >= kStepsForHigh && !rises_often) {
    StrAppend(&finding.confidence_reason, ", and memory rises in only ", growth.rising_count,
              " of them, which a cache that fills up can explain");
  }
  if (growth.steps_since_rise > growth.longest_pause_steps) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("memory did not grow in the last ", CountText(growth.steps_since_rise, "step"),
               ", longer than ever before: a buffer that has become full looks the same");
  }
  if (may_fall_again) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        StrCat("memory fell by ", SizeText(growth.deepest_fall_bytes),
               " in the capture, and may fall again: something is collected for some steps");
  }
  return result;
}

namespace {

// Of the calls that allocate or free, the time in those for page-locked memory of the host.
int64_t HostAllocationNs(std::span<const Evidence> calls) {
  int64_t sum_ns = 0;
  for (const Evidence& call : calls) {
    if (call.name.find("Host") != std::string::npos) sum_ns += call.duration_ns;
  }
  return sum_ns;
}

// Calls that reserve addresses and map memory to them: torch makes them for segments that expand.
int64_t MappingNs(std::span<const Evidence> calls) {
  constexpr std::array<std::string_view, 6> kCalls = {"MemCreate", "MemRelease",   "MemMap",
                                                      "MemUnmap",  "MemSetAccess", "MemAddress"};
  int64_t sum_ns = 0;
  for (const Evidence& call : calls) {
    const bool maps = std::ranges::any_of(
        kCalls, [&](std::string_view part) { return call.name.find(part) != std::string::npos; });
    if (maps) sum_ns += call.duration_ns;
  }
  return sum_ns;
}

}  // namespace

RuleResult StartUp(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.calls.call_count == 0) {
    return Needs("CUDA API calls (profctl trace --gpu default)");
  }
  if (facts.RecordsGraphs()) {
    return Needs("a window in which kernels run; in this one, the program captures CUDA graphs");
  }
  const int64_t idle_ns = facts.gaps.parts.allocator_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = facts.ShareOfSteps(idle_ns);
  finding.threshold = std::max(thresholds.allocation_share, kAllocationShareWithoutSteps);
  result.fired = facts.calls.only_start_up && finding.value > finding.threshold;
  finding.saving_ns_per_step = facts.PerStep(idle_ns);
  finding.measured =
      StrCat("The GPU idles ", TimeText(idle_ns), " of the capture (", PercentText(finding.value),
             ") because of the first calls that allocate or free memory, which load "
             "the driver.");
  finding.advice =
      "Capture later, when the program runs its steps: loading the driver takes time once. Fewer "
      "GPUs in CUDA_VISIBLE_DEVICES and CUDA_MODULE_LOADING=LAZY make it shorter.";
  finding.evidence = facts.calls.allocations;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "no steps: the capture counts as one step";
  return result;
}

RuleResult AllocationChurn(const Facts& facts, const FindingThresholds& thresholds) {
  if (!facts.has_gpu() || facts.calls.call_count == 0) {
    return Needs("CUDA API calls (profctl trace --gpu default)");
  }
  if (facts.RecordsGraphs()) {
    return Needs("a window in which kernels run; in this one, the program captures CUDA graphs");
  }
  RuleResult result;
  Finding& finding = result.finding;
  const int64_t allocation_count = facts.calls.allocation_count + facts.gaps.other_free_count;
  const int64_t allocation_ns = facts.calls.allocation_ns + facts.gaps.other_free_ns;
  std::vector<Evidence> calls = facts.calls.allocations;
  calls.insert(calls.end(), facts.gaps.other_frees.begin(), facts.gaps.other_frees.end());
  std::ranges::stable_sort(calls, std::greater(), &Evidence::duration_ns);
  calls.resize(std::min(calls.size(), kMostEvidence));
  finding.value = facts.ShareOfSteps(allocation_ns);
  finding.threshold = facts.scope.has_steps
                          ? thresholds.allocation_share
                          : std::max(thresholds.allocation_share, kAllocationShareWithoutSteps);
  result.fired = finding.value > finding.threshold && !facts.calls.only_start_up;
  finding.saving_ns_per_step = facts.PerStep(facts.gaps.parts.allocator_ns);
  finding.measured =
      StrCat(CountText(allocation_count, "call"), " to allocate or free memory take ",
             TimeText(facts.PerStep(allocation_ns)), " of ",
             facts.scope.has_steps ? "each step" : "the capture", " (", PercentText(finding.value),
             "), and leave the GPU idle for ",
             TimeText(facts.PerStep(facts.gaps.parts.allocator_ns)), ".");
  if (result.fired && !calls.empty()) {
    const Evidence& most = calls.front();
    StrAppend(&finding.measured, " ", most.name, " alone takes ",
              TimeText(facts.PerStep(most.duration_ns)), " in ", CountText(most.count, "call"),
              ".");
  }
  // A cache asks for memory now and then; it does not give memory back in each step.
  finding.advice =
      2 * HostAllocationNs(calls) >= allocation_ns
          ? "Keep page-locked host memory from step to step: pinning and unpinning it is slow, and "
            "unpinning waits for the GPU. Allocate the buffers once and copy into them, instead of "
            "calling pin_memory() for new tensors in each step."
      : KindOf(facts) == ProgramKind::kWithoutTorch
          ? "Allocate once and keep the memory from step to step, or allocate from a pool: "
            "cudaMallocAsync() with a release threshold (cudaMemPoolSetAttribute). cudaFree() "
            "waits for the GPU."
      : 2 * MappingNs(calls) >= allocation_ns
          ? "Keep mapped memory from step to step: segments that expand are unmapped and mapped "
            "again. Do not call torch.cuda.empty_cache() in the step, leave free memory (near the "
            "limit, the allocator gives back what it caches), keep sizes constant, and do not set "
            "garbage_collection_threshold in PYTORCH_CUDA_ALLOC_CONF."
      : 2 * (facts.calls.free_ns + facts.gaps.other_free_ns) >= allocation_ns
          ? "Use an allocator that caches: memory goes back to the driver and is allocated again. "
            "Unset PYTORCH_NO_CUDA_MEMORY_CACHING and PYTORCH_NO_HIP_MEMORY_CACHING, do not call "
            "torch.cuda.empty_cache() in the step, and give libraries a workspace that they keep."
          : "Let the caching allocator serve all steps: keep sizes constant, leave free memory, "
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and do not call "
            "torch.cuda.empty_cache() in the step.";
  finding.evidence = std::move(calls);
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = facts.scope.has_steps ? CountText(facts.scope.count, "step")
                                                    : "no steps: some of it may be warm-up";
  return result;
}

}  // namespace profd::report
