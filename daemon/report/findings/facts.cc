#include "daemon/report/findings/facts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/slowdown.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/findings/contention.h"
#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/findings/quality.h"
#include "daemon/report/gpu/launched_work.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/first_ids.h"
#include "daemon/report/index/host_slices.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/report/index/overlaps.h"
#include "daemon/report/index/recorded_time.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/time/data_loader_time.h"

namespace profd::report {
namespace {

// Points of the memory's curve that findings need: only its extremes.
constexpr int64_t kMemoryPoints = 64;

constexpr double kFewLaunchesWithoutWork = 0.01;
constexpr double kFewPoints = 0.03;
constexpr double kClearlyLonger = 0.1;  // Of a recorded step.
constexpr double kVaryingMean = 1.2;    // Of the median.

// The first calls of a program also load the driver's code, which takes seconds. They come before
// most launches.
constexpr size_t kStartUpCalls = 3;
constexpr double kStartUpShare = 0.25;

TimeBreakdown SumOver(const FindingScope& scope, const TimeReport& time, const DeviceWork& work,
                      uint32_t device) {
  if (!scope.has_steps) return time.whole;
  DeviceIdle idle(work.holes(), work.UnknownStartOf(device));
  for (const Activity& activity : work.activities()) {
    if (work.DeviceOf(activity) == device) idle.Add(activity);
  }
  IdleRow row;
  for (const FindingScope::Stretch& stretch : scope.stretches) {
    idle.AddTo(row, stretch.start_ns, stretch.end_ns);
  }
  return BreakdownOf(row);
}

std::vector<LaunchedWork> LaunchedWorkOf(const FindingScope& scope, const DeviceWork& work,
                                         uint32_t device,
                                         std::optional<uint32_t> only_stream = std::nullopt) {
  return LaunchedWorkOfSteps(
      work, device, scope.stretches.size(),
      [&](const GpuAttribution::Call& call) { return scope.PositionAt(call.start_ns); },
      only_stream);
}

// A GPU that has nothing to do begins with what is launched much sooner than this.
constexpr int64_t kQueuedNs = 1'000'000;

// The end of the last part of [start_ns, end_ns) that is not in `set`; start_ns: all of it is.
int64_t LastTimeOutside(const IntervalSet& set, int64_t start_ns, int64_t end_ns) {
  const auto& intervals = set.intervals();
  auto after = std::ranges::lower_bound(intervals, end_ns, {}, &IntervalSet::Interval::start_ns);
  while (after != intervals.begin() && end_ns > start_ns) {
    const IntervalSet::Interval& last = *--after;
    if (last.end_ns < end_ns) break;
    end_ns = last.start_ns;
  }
  return std::max(start_ns, end_ns);
}

// Calls that stop the device, of threads that launch nothing: others may wait for what they
// launched themselves. By start. Of several devices, it is not known which one.
std::vector<GpuAttribution::Call> FreesOf(store::CaptureReader& reader,
                                          const GpuAttribution& attribution,
                                          const DeviceWork& work) {
  std::vector<GpuAttribution::Call> frees;
  if (work.devices().size() != 1) return frees;
  absl::flat_hash_set<uint32_t> launching;
  for (const Activity& activity : work.activities()) {
    if (activity.call != nullptr) launching.insert(activity.call->thread);
  }
  ByName<bool> stops_gpu(reader.names(), &StopsGpu);
  for (const GpuAttribution::Call& call : attribution.calls()) {
    if (stops_gpu.Of(call.name) && !launching.contains(call.thread)) frees.push_back(call);
  }
  std::ranges::sort(frees, {}, &GpuAttribution::Call::start_ns);
  return frees;
}

// When the device had done what was launched before the capture, which has no launch and perhaps no
// record: the first work of a stream that was launched in the first step had to wait for it. The
// start of time if none waited.
int64_t EndOfEarlierWork(const FindingScope& scope, const DeviceWork& work, uint32_t device,
                         std::span<const GpuAttribution::Call> frees) {
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  const DeviceWork::Unknown unknown = work.UnknownStartOf(device);
  if (unknown.end_ns > unknown.begin_ns) end_ns = unknown.end_ns;
  if (scope.stretches.empty()) return end_ns;
  // What the device did of the capture's own launches, and calls that stopped it.
  IntervalSet launched;
  auto next_free = frees.begin();
  const auto add_frees_until = [&](int64_t time_ns) {
    for (; next_free != frees.end() && next_free->start_ns <= time_ns; ++next_free) {
      launched.Add(next_free->start_ns, next_free->end_ns);
    }
  };
  for (const Activity& activity : work.activities()) {
    if (activity.call == nullptr || work.DeviceOf(activity) != device) continue;
    add_frees_until(activity.start_ns);
    launched.Add(activity.start_ns, activity.end_ns);
  }
  absl::flat_hash_set<uint32_t> seen;
  for (const Activity& activity : work.activities()) {  // By start.
    if (activity.call == nullptr || work.DeviceOf(activity) != device) continue;
    if (!seen.insert(activity.stream).second) continue;
    if (activity.call->start_ns >= scope.stretches.front().end_ns) continue;
    // A stream may also wait for another one, which does what the capture launched.
    const int64_t from_ns = activity.call->end_ns;
    const int64_t waited_ns = Difference(activity.start_ns, from_ns);
    if (waited_ns <= kQueuedNs) continue;
    const auto explained_ns = static_cast<int64_t>(launched.MeasureIn(from_ns, activity.start_ns));
    if (waited_ns - explained_ns <= kQueuedNs) continue;
    end_ns = std::max(end_ns, LastTimeOutside(launched, from_ns, activity.start_ns));
  }
  return end_ns;
}

// Other profilers begin and end in a step; ours discards what is not whole.
absl::Status LeaveOutEdgesOfOthers(store::CaptureReader& reader, FindingScope& scope) {
  if (reader.record().imported.source.empty() || scope.stretches.size() < 2)
    return absl::OkStatus();
  EdgeStep first;
  EdgeStep last;
  const auto note = [](const FindingScope::Stretch& stretch, int64_t start_ns, int64_t end_ns,
                       EdgeStep& step) {
    if (end_ns <= stretch.start_ns || start_ns >= stretch.end_ns) return;
    step.last_ns = step.is_empty ? end_ns : std::max(step.last_ns, end_ns);
    step.is_empty = false;
  };
  std::vector<int64_t> event_counts(scope.stretches.size());  // Of the host, by step.
  const auto count = [&](int64_t start_ns) {
    const int64_t position = scope.PositionAt(start_ns);
    if (position >= 0) ++event_counts[static_cast<size_t>(position)];
  };
  const auto note_both = [&](int64_t start_ns, int64_t duration_ns) {
    const int64_t end_ns = Sum(start_ns, duration_ns);
    note(scope.stretches.front(), start_ns, end_ns, first);
    note(scope.stretches.back(), start_ns, end_ns, last);
  };
  const auto note_all = [&](const auto& batch) {
    for (size_t i = 0; i < batch.size; ++i) note_both(batch.start_ns[i], batch.duration_ns[i]);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(reader.ForEach<RangeRow>(kRangeStart | kRangeDuration | kRangeCategory, {},
                                           [&](const RangeBatch& batch) {
                                             for (size_t i = 0; i < batch.size; ++i) {
                                               if (IsPythonFunction(batch.category[i])) continue;
                                               note_both(batch.start_ns[i], batch.duration_ns[i]);
                                               count(batch.start_ns[i]);
                                             }
                                             return absl::OkStatus();
                                           }));
  RETURN_IF_ERROR(reader.ForEach<ApiRow>([&](const ApiBatch& batch) {
    std::ranges::for_each(batch.start_ns, count);
    return note_all(batch);
  }));
  RETURN_IF_ERROR(reader.ForEach<GpuRow>(kGpuTime, {}, note_all));
  if (event_counts.size() > 1) {
    const int64_t fewest = *std::min_element(event_counts.begin(), event_counts.end() - 1);
    last.has_few_events = event_counts.back() < fewest / 2;
  }
  LeaveOutEdges(first, last, HolesOf(reader.record()), scope);
  return absl::OkStatus();
}

// From the start of the first to the end of the last work of the device; without one, the windows.
FindingScope ScopeWithoutSteps(const CaptureRecord& record, const DeviceWork& work, uint32_t device,
                               bool has_device) {
  int64_t start_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = std::numeric_limits<int64_t>::min();
  if (has_device) {
    for (const Activity& activity : work.activities()) {
      if (work.DeviceOf(activity) != device) continue;
      start_ns = std::min(start_ns, activity.start_ns);
      end_ns = std::max(end_ns, activity.end_ns);
    }
  } else {
    for (const WindowRecord& window : record.windows) {
      start_ns = std::min(start_ns, window.start_ns);
      end_ns = std::max(end_ns, window.end_ns);
    }
  }
  FindingScope scope = ScopeOfTime(start_ns, end_ns);
  LeaveOutHoles(work.holes(), scope);
  return scope;
}

// What the GPU did is not all recorded, or not when it was done.
void DoubtGpuWork(Facts& facts) {
  const EventChecks& events = facts.events;
  const auto doubt = [&](double share, std::string why) {
    if (share >= kWithholdSharesFrom) facts.gpu_withheld = true;
    if (facts.gpu_doubt.empty()) facts.gpu_doubt = std::move(why);
  };
  const int64_t impossible = events.overlong_count + events.detached_count;
  if (impossible > 0) {
    doubt(
        static_cast<double>(impossible) / static_cast<double>(events.gpu_row_count),
        StrCat(impossible, " of ", events.gpu_row_count, " GPU activities have impossible times"));
  }
  if (events.gpu_row_count > 0 && facts.time.whole.busy_ns == 0) {
    doubt(1, StrCat("0 of ", events.gpu_row_count, " GPU activities have a duration"));
  }
  const CaptureRecord& record = *facts.record;
  // Where GPU work was read, they are further rows, or another kind of device.
  if (std::string devices = UnreadDevicesClause(record);
      !devices.empty() && events.gpu_row_count == 0) {
    doubt(1, std::move(devices));
  }
  if (events.gpu_row_count == 0 && record.state == CaptureState::kPartial &&
      !CutOffPlace(record).empty()) {
    doubt(1, "The file is cut off, and no time in it has all its GPU work");
  }
  const SilentLaunches silent = SilentLaunchesOf(events);
  if (silent.share <= kFewLaunchesWithoutWork && silent.short_count == 0) return;
  doubt(silent.share, StrCat(silent.count, " of ", silent.of, silent.Clause()));
}

UnrecordedStep UnrecordedStepOf(const Facts& facts) {
  const SlowdownRecord& slowdown = facts.record->slowdown;
  // Where the host runs ahead the steps are the GPU's, which recording does not slow.
  if (!facts.has_gpu() || !facts.scope.has_steps || facts.scope.by_device || !slowdown.known ||
      slowdown.low <= 0) {
    return {};
  }
  const int64_t busy_ns = facts.PerStep(facts.sum.busy_ns);
  const auto step_ns =
      static_cast<int64_t>(static_cast<double>(facts.scope.mean_ns) / (1 + slowdown.estimate));
  return {.known = true,
          .slowdown = slowdown.estimate,
          .step_ns = std::max(step_ns, busy_ns),
          .idle_ns = std::max<int64_t>(step_ns - busy_ns, 0)};
}

// By all names of the file, not by what ran in the steps that count: such a step may be one of
// gradient accumulation, or of evaluation.
void RecognizeTorch(const store::CaptureReader& reader, ProgramFacts& program) {
  program.uses_torch = !reader.record().torch.version.empty();
  for (const std::string& name : reader.names()) {
    const bool backward = IsAutogradNode(name);
    const bool updates = IsOptimizerStep(name);
    if (MayBeAutogradNode(name) || updates) program.trains = true;
    if (name.starts_with("aten::_fused_") && name.ends_with('_')) program.fused_optimizer = true;
    if (backward || updates || name.starts_with("aten::") ||
        name.find("at::native::") != std::string::npos || name.starts_with("_ZN2at6native")) {
      program.uses_torch = true;
    }
  }
}

}  // namespace

int64_t Facts::ComparableStepNs() const {
  if (record->around_slow_step_count > 0) return scope.mean_ns;
  int64_t total_ns = 0;
  int64_t count = 0;
  for (size_t i = 0; i < scope.stretches.size(); ++i) {
    if (i < host.outliers.size() && host.outliers[i]) continue;
    total_ns = Sum(total_ns, Difference(scope.stretches[i].end_ns, scope.stretches[i].start_ns));
    ++count;
  }
  return count == 0 ? scope.mean_ns : total_ns / count;
}

bool Facts::AroundStepsVary() const {
  const int64_t median_ns = std::max(record->step_before_ns, record->step_after_ns);
  return median_ns > 0 && static_cast<double>(record->around_step_mean_ns) >
                              kVaryingMean * static_cast<double>(median_ns);
}

int64_t Facts::LongerThanAroundNs() const {
  if (!scope.has_steps || scope.by_device) return 0;
  const SlowdownRecord& slowdown = record->slowdown;
  const int64_t step_ns = ComparableStepNs();
  if (slowdown.known && slowdown.low > 0) {
    return static_cast<int64_t>(slowdown.estimate / (1 + slowdown.estimate) *
                                static_cast<double>(step_ns));
  }
  // Means, because waits are in few steps where others use the CPU, but then are long.
  const int64_t around_ns = record->around_step_mean_ns;
  return around_ns <= 0 ? 0 : std::max<int64_t>(step_ns - around_ns, 0);
}

double Facts::UnrecordedPart() const {
  const bool is_noise = record->slowdown.known && record->slowdown.low <= 0;
  const int64_t longer_ns = has_gpu() || is_noise ? 0 : LongerThanAroundNs();
  if (longer_ns <= 0) return 1;
  const double longer = static_cast<double>(longer_ns) / static_cast<double>(ComparableStepNs());
  return longer > kClearlyLonger ? 1 - longer : 1;
}

int64_t Facts::StepNs() const {
  if (unrecorded.known) return unrecorded.step_ns;
  return static_cast<int64_t>(UnrecordedPart() * static_cast<double>(scope.mean_ns));
}

int64_t Facts::StepOfSavings(std::string_view rule) const {
  const bool as_recorded = !unrecorded.known && !cpu.waits_as_after_ns.has_value();
  return rule == "CPU_CONTENTION" && as_recorded ? scope.mean_ns : StepNs();
}

bool Facts::LooksIdlerThanItIs() const {
  return unrecorded.known && ShareOfSteps(sum.idle_ns) - unrecorded.IdleShare() > kFewPoints;
}

const GpuDevice* Facts::device() const {
  for (const GpuDevice& device : record->gpu.devices) {
    if (device.number == time.device) return &device;
  }
  return nullptr;
}

std::string FactSources::OpOf(const GpuAttribution::Call* call) const {
  if (call == nullptr || call->path == RangePaths::kNone) return {};
  return std::string(Name(attribution.paths()[call->path].name));
}

namespace {

struct MarkedRange {
  uint32_t thread;
  int64_t start_ns;
  int64_t end_ns;
};

// How many of them there are at one time, at most. One inside another of its row, as in a
// recursion, is part of that.
int64_t MostAtOnce(std::vector<MarkedRange> intervals) {
  std::ranges::sort(intervals, {}, [](const MarkedRange& range) {
    return std::tuple(range.thread, range.start_ns, -range.end_ns);
  });
  uint32_t thread = 0;
  int64_t until_ns = std::numeric_limits<int64_t>::min();
  std::erase_if(intervals, [&](const MarkedRange& range) {
    const bool is_inside = range.thread == thread && range.start_ns < until_ns;
    if (!is_inside) until_ns = range.end_ns;
    thread = range.thread;
    return is_inside;
  });
  std::ranges::sort(intervals, {}, &MarkedRange::start_ns);
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ends;
  size_t most = 0;
  for (const MarkedRange& interval : intervals) {
    while (!ends.empty() && ends.top() <= interval.start_ns) ends.pop();
    ends.push(interval.end_ns);
    most = std::max(most, ends.size());
  }
  return static_cast<int64_t>(most);
}

}  // namespace

absl::Status ReadRanges(FactSources& sources, ProgramFacts& program) {
  const std::span<const std::string> names = sources.reader.names();
  std::vector<bool> is_wait;
  std::vector<bool> is_gloo;
  std::vector<bool> is_data_parallel;
  std::vector<bool> is_operator;
  std::vector<bool> is_update;
  std::vector<bool> is_node;
  std::vector<bool> is_nan_check;
  for (const std::string& name : names) {
    is_wait.push_back(IsDataLoaderWait(name));
    is_gloo.push_back(name.starts_with("gloo:"));
    is_data_parallel.push_back(name == "DataParallel.forward");
    is_operator.push_back(name.starts_with("aten::"));
    is_update.push_back(IsOptimizerStep(name));
    is_node.push_back(name.starts_with("autograd::engine::evaluate_function: "));
    is_nan_check.push_back(name == "aten::_is_any_true");
  }
  RecognizeTorch(sources.reader, program);
  const int64_t step_thread = sources.reader.step_thread();
  EvidenceSums gloo;
  OptimizerSteps updates;
  const std::string& marker = sources.reader.record().spec.step_marker;
  std::vector<MarkedRange> marked;
  const std::vector<uint32_t> groups = OverlapGroups(sources.reader.threads());
  RETURN_IF_ERROR(sources.reader.ForEach<RangeRow>(
      kRangeStart | kRangeDuration | kRangeName, {}, [&](const RangeBatch& batch) {
        const bool steps_here = step_thread < 0 || step_thread == int64_t{batch.thread};
        // Of the thread whose ranges are steps, and of its lanes.
        const uint32_t group = groups[batch.thread];
        const bool marks_here =
            !marker.empty() && (steps_here || (group != kNoOverlaps &&
                                               group == groups[static_cast<size_t>(step_thread)]));
        for (size_t i = 0; i < batch.size; ++i) {
          const uint32_t name = batch.name[i];
          const int64_t start_ns = batch.start_ns[i];
          const int64_t position = sources.scope.PositionAt(start_ns);
          if (position < 0) continue;
          ++sources.calls_of_name[sources.first_ids[name]];
          if (marks_here && names[name] == marker) {
            marked.push_back({batch.thread, start_ns, EndOf(start_ns, batch.duration_ns[i])});
          }
          if (is_data_parallel[name]) program.data_parallel = true;
          if (is_operator[name]) program.has_operators = true;
          program.node_count += is_node[name];
          program.nan_check_count += is_nan_check[name];
          if (is_nan_check[name]) program.nan_check_ns += batch.duration_ns[i];
          if (!is_gloo[name] && !is_wait[name] && !is_update[name]) continue;
          const int64_t end_ns =
              std::min(EndOf(start_ns, batch.duration_ns[i]),
                       sources.scope.stretches[static_cast<size_t>(position)].end_ns);
          if (is_update[name]) updates.Add(OptimizerVariantsOf(names[name]), start_ns, end_ns);
          if (is_gloo[name]) {
            program.gloo = true;
            program.gloo_ns += end_ns - start_ns;
            gloo.Add({.name = sources.first_ids[name],
                      .duration_ns = end_ns - start_ns,
                      .start_ns = start_ns});
          }
          if (is_wait[name] && steps_here) sources.loader_waits.push_back({start_ns, end_ns, name});
        }
        return absl::OkStatus();
      }));
  program.optimizers = updates.Take();
  program.marked_at_once = MostAtOnce(std::move(marked));
  auto& waits = sources.loader_waits;
  std::sort(waits.begin(), waits.end(),
            [](const HostTime& a, const HostTime& b) { return a.start_ns < b.start_ns; });
  // One within another is part of it.
  int64_t until_ns = std::numeric_limits<int64_t>::min();
  std::erase_if(waits, [&](const HostTime& wait) {
    const bool inside = wait.end_ns <= until_ns;
    until_ns = std::max(until_ns, wait.end_ns);
    return inside;
  });
  program.gloo_ops =
      gloo.Take(EvidenceKind::kCollective,
                [&](uint32_t name, uint32_t, Evidence& row) { row.name = sources.Name(name); });
  return absl::OkStatus();
}

CallFacts GatherCalls(const FactSources& sources) {
  CallFacts facts;
  EvidenceSums sums;
  facts.call_count = static_cast<int64_t>(sources.attribution.calls().size());
  std::vector<bool> is_allocation;
  std::vector<bool> is_decompression;
  for (const std::string& name : sources.reader.names()) {
    is_allocation.push_back(IsAllocationCall(name));
    is_decompression.push_back(IsDecompressionCall(name));
  }
  struct Allocation {
    int64_t length_ns;
    int64_t start_ns;
  };
  std::vector<Allocation> allocations;
  uint32_t thread = 0;
  int64_t until_ns = std::numeric_limits<int64_t>::min();
  for (const GpuAttribution::Call& call : sources.attribution.calls()) {  // By thread, by start.
    if (!is_decompression[call.name] && !is_allocation[call.name]) continue;
    if (sources.scope.PositionAt(call.start_ns) < 0) continue;
    // Other threads allocate without the program waiting for it: page-locked memory for batches.
    if (!sources.launchers.MayHoldUp(call)) continue;
    if (is_decompression[call.name]) {
      ++facts.decompression_count;
      continue;
    }
    // A call of the driver within one of the runtime is part of it.
    if (call.thread == thread && call.end_ns <= until_ns) continue;
    thread = call.thread;
    until_ns = call.end_ns;
    ++facts.allocation_count;
    facts.allocation_ns += call.end_ns - call.start_ns;
    if (sources.Name(call.name).find("Free") != std::string_view::npos) {
      facts.free_ns += call.end_ns - call.start_ns;
    }
    allocations.push_back({call.end_ns - call.start_ns, call.start_ns});
    const uint32_t op = call.path == RangePaths::kNone
                            ? 0
                            : sources.first_ids[sources.attribution.paths()[call.path].name];
    sums.Add({.name = sources.first_ids[call.name],
              .detail = op,
              .duration_ns = call.end_ns - call.start_ns,
              .start_ns = call.start_ns});
  }
  if (!sources.scope.has_steps) {
    std::ranges::stable_sort(allocations, std::greater<>(), &Allocation::length_ns);
    int64_t early_ns = 0;
    for (const Allocation& call :
         std::span(allocations).first(std::min(allocations.size(), kStartUpCalls))) {
      if (sources.launchers.ShareBefore(call.start_ns) < kStartUpShare) early_ns += call.length_ns;
    }
    facts.only_start_up = 2 * early_ns > facts.allocation_ns;
  }
  facts.allocations =
      sums.Take(EvidenceKind::kCall, [&](uint32_t name, uint32_t op, Evidence& row) {
        row.name = sources.Name(name);
        if (op != 0) row.detail = StrCat("in ", sources.Name(op));
      });
  return facts;
}

namespace {

// Less waiting in a window may be one burst of another process, or the start of the recording.
constexpr int64_t kLeastCpuWaitNs = 50'000'000;
constexpr size_t kStepsThatShowABurst = 3;
// Of a burst. The rest may be in a step that is next to it, or hidden by another thread.
constexpr double kPartInOneStep = 0.5;
// Workers that run, or wait for a CPU, for a larger part of the time always have something to do.
constexpr double kBusyWorkers = 0.5;

// `stretches`: the steps that count. One that is left out may be long for another reason.
bool MayBeOneBurst(int64_t waited_ns, std::span<const FindingScope::Stretch> stretches) {
  if (waited_ns >= kLeastCpuWaitNs) return false;
  if (stretches.size() < kStepsThatShowABurst) return true;
  std::vector<int64_t> lengths_ns;
  lengths_ns.reserve(stretches.size());
  for (const FindingScope::Stretch& step : stretches) {
    lengths_ns.push_back(step.end_ns - step.start_ns);
  }
  const int64_t longer_ns = std::ranges::max(lengths_ns) - Median(lengths_ns);
  return kPartInOneStep * static_cast<double>(waited_ns) <= static_cast<double>(longer_ns);
}

}  // namespace

CpuFacts CpuFactsOf(store::CaptureReader& reader, const FindingScope& scope) {
  const CpuRecord& cpu = reader.record().cpu;
  const std::vector<ThreadCpuRecord>& threads = cpu.threads;
  if (cpu.watched_ns <= 0 || threads.empty()) return {};
  CpuFacts facts = {.thread_count = cpu.thread_count,
                    .all_ran_ns = cpu.ran_ns,
                    .all_waited_ns = cpu.waited_ns,
                    .child_count = cpu.child_count,
                    .children_ran_ns = cpu.children_ran_ns,
                    .children_waited_ns = cpu.children_waited_ns,
                    .samples = cpu.samples};
  const int64_t step_thread = reader.step_thread();
  auto found = threads.end();
  if (step_thread >= 0 && step_thread < std::ssize(reader.threads())) {
    found = std::ranges::find(threads, reader.threads()[static_cast<size_t>(step_thread)].os_thread,
                              &ThreadCpuRecord::os_thread);
    facts.of_step_thread = true;
    if (found == threads.end()) return facts;
  } else {
    found = std::ranges::max_element(threads, {}, &ThreadCpuRecord::ran_ns);
  }
  facts.watched_ns = cpu.watched_ns;
  facts.ran_ns = found->ran_ns;
  // The kernel counts a wait when it ends, also what of it was before the window. In the window, a
  // thread cannot have waited while it ran.
  facts.waited_ns = std::clamp<int64_t>(found->waited_ns, 0,
                                        std::max<int64_t>(0, cpu.watched_ns - found->ran_ns));
  const std::optional<int64_t> as_after_ns = WaitsAsAfter(cpu, *found);
  if (as_after_ns.has_value()) {
    facts.waits_as_after_ns = std::clamp<int64_t>(*as_after_ns, 0, facts.waited_ns);
  }
  facts.may_be_one_burst = MayBeOneBurst(facts.waited_ns, scope.stretches);
  return facts;
}

std::optional<CpuFacts::Waits> CpuFacts::MostWaited(int64_t start_ns, int64_t end_ns,
                                                    bool children) const {
  const auto after = std::ranges::lower_bound(samples, end_ns, {}, &CpuSample::time_ns);
  auto before = std::ranges::upper_bound(samples, start_ns, {}, &CpuSample::time_ns);
  if (before == samples.begin() || after == samples.end()) return std::nullopt;
  --before;
  const int64_t of_children = after->children_waited_ns - before->children_waited_ns;
  return Waits{.waited_ns = after->waited_ns - before->waited_ns + (children ? of_children : 0),
               .time_ns = after->time_ns - before->time_ns};
}

int64_t Facts::WorkerWaitPerStep() const {
  if (cpu.child_count <= 0 || cpu.watched_ns <= 0) return 0;
  const double share = cpu.ShareOfWatched(cpu.children_waited_ns);
  const double busy = cpu.ShareOfWatched(cpu.children_ran_ns) + share;
  const auto count = static_cast<double>(cpu.child_count);
  // Each batch is made by one of them. Those that always have something to do make theirs while the
  // others make theirs; those that have little to do wait at different times.
  const double overlapping = busy > kBusyWorkers * count ? count : 1;
  return PerStep(static_cast<int64_t>(share * static_cast<double>(scope.total_ns) / overlapping));
}

absl::StatusOr<Facts> GatherFacts(store::CaptureReader& recorded,
                                  const FindingThresholds& thresholds) {
  BelievedReader reader(recorded);
  Facts facts;
  facts.record = &reader.record();
  ASSIGN_OR_RETURN(facts.time, SummarizeTime(reader, {}));
  ASSIGN_OR_RETURN(facts.steps, SummarizeSteps(reader));
  ASSIGN_OR_RETURN(facts.memory, ReportMemory(reader, {.max_points = kMemoryPoints}));
  facts.has_memory = !facts.memory.devices.empty() || !facts.memory.out_of_memory.empty();

  ASSIGN_OR_RETURN(const GpuAttribution attribution, GpuAttribution::Build(reader));
  ASSIGN_OR_RETURN(facts.events, CheckEvents(recorded, attribution));
  facts.quality = QualityOf(reader.record(), &facts.events);
  DoubtGpuWork(facts);
  ASSIGN_OR_RETURN(const DeviceWork work, DeviceWork::Read(reader, attribution));
  const std::span<const uint16_t> devices = work.devices();
  const auto device = std::find(devices.begin(), devices.end(), facts.time.device);
  const auto position = static_cast<uint32_t>(device - devices.begin());
  // Our captures discard steps before the window. Another profiler may have begun with its first.
  const CaptureRecord& record = reader.record();
  const bool may_warm_up = !record.imported.source.empty() || record.spec.warmup_steps == 0;
  facts.scope = ScopeOfSteps(reader.steps(), thresholds.first_step_ratio, may_warm_up);
  RETURN_IF_ERROR(LeaveOutEdgesOfOthers(reader, facts.scope));
  if (device != devices.end() && !facts.gpu_withheld) {
    const std::vector<GpuAttribution::Call> frees = FreesOf(reader, attribution, work);
    LeaveOutEarlierWork(EndOfEarlierWork(facts.scope, work, position, frees), facts.scope);
    LeaveOutQueueFilling(LaunchedWorkOf(facts.scope, work, position), facts.scope);
    // Other streams may be ahead of the one that computes, by as many steps as the host is.
    const std::vector<LaunchedWork> on_all = LaunchedWorkOf(facts.scope, work, position);
    TakeDeviceTimes(LaunchedWorkOf(facts.scope, work, position, BusiestStream(work, position)),
                    on_all.empty() ? 0 : on_all.back().end_ns, HolesOf(record), facts.scope);
  }
  if (facts.scope.stretches.empty()) {
    facts.scope = ScopeWithoutSteps(reader.record(), work, position, device != devices.end());
  }
  facts.sum = SumOver(facts.scope, facts.time, work, position);
  facts.unrecorded = UnrecordedStepOf(facts);

  const Launchers launchers(work, position);
  Demangler demangler;
  FactSources sources = {.reader = reader,
                         .thresholds = thresholds,
                         .attribution = attribution,
                         .work = work,
                         .scope = facts.scope,
                         .device_number = static_cast<uint32_t>(facts.time.device),
                         .device_position = position,
                         .launchers = launchers,
                         .demangler = demangler,
                         .calls_of_name = std::vector<int64_t>(reader.names().size()),
                         .first_ids = FirstIds(reader.names()),
                         .loader_waits = {},
                         .launches = std::vector<PathLaunches>(attribution.paths().size())};
  facts.cpu = CpuFactsOf(reader, facts.scope);
  RETURN_IF_ERROR(ReadRanges(sources, facts.program));
  AddLoaderStarts(facts.time.loader_starts, sources);
  facts.calls = GatherCalls(sources);
  if (facts.has_gpu()) {
    ASSIGN_OR_RETURN(facts.gaps, GatherGaps(sources, facts.time, facts.scope.mean_ns));
  }
  ASSIGN_OR_RETURN(facts.host, GatherHost(reader, facts.scope, facts.time,
                                          facts.has_gpu() ? &facts.gaps.explained : nullptr,
                                          facts.program.optimizers.steps, thresholds));
  ASSIGN_OR_RETURN(facts.slowest, ExplainSlowestStep(reader, facts.scope, facts.time,
                                                     facts.host.outliers, facts.host.outliers));
  // Without a GPU nothing hides a wait for data.
  if (!facts.has_gpu()) AddLoaderWaits(sources, IntervalSet(), facts.gaps);
  RETURN_IF_ERROR(FindWaitingSteps(reader, thresholds, facts));
  if (!facts.has_gpu()) {
    RETURN_IF_ERROR(GatherCasts(sources, false, facts.casts));
    return facts;
  }
  RETURN_IF_ERROR(GatherKernelsAndCopies(sources, facts.device(), facts.kernels, facts.copies));
  FindFusible(sources, facts.kernels);
  FindWrittenOutAttention(sources, facts.kernels);
  RETURN_IF_ERROR(FindTinyKernels(sources, facts.kernels));
  RETURN_IF_ERROR(GatherCasts(sources, true, facts.casts));
  FindHottestOperator(sources, facts.kernels);
  return facts;
}

}  // namespace profd::report
