#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/findings/idle_split.h"
#include "daemon/report/findings/launchers.h"
#include "daemon/report/index/by_name.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/index/wrapping_math.h"
#include "daemon/report/time/data_loader_time.h"

namespace profd::report {
namespace {

constexpr int kParts = 30;
// A gap that CUDA graphs close is one between launches that follow each other.
constexpr int64_t kLongestClosableNs = 1'000'000;
// How far a host gets ahead of its GPU: the driver's queue holds about a thousand launches.
constexpr int64_t kLongestLeadNs = 100'000'000;
// GPUs that work at the same time for no more than this, of the time of the one that works less,
// take turns: as parts of one model do (device_map="auto"). GPUs that do not depend on each other
// overlap for longer by chance.
constexpr double kMostOverlapInTurn = 0.25;
// Of programs with more launching threads, the others' gaps get the calls of all of them.
constexpr size_t kMostSplits = 8;
constexpr int64_t kLongestWaitNs = int64_t{1} << 60;

bool BeginsWork(std::string_view call) {
  return LaunchesWork(call) || IsCopyCall(call) || IsDecompressionCall(call);
}

struct Gap {
  int64_t start_ns;
  int64_t counted_ns;  // In the scope, without the profiler's own time.
  const Activity* next;
};

class GapSweep {
 public:
  explicit GapSweep(FactSources& sources) : sources_(sources), split_(sources.scope) {}

  absl::StatusOr<GapFacts> Sweep(const TimeReport& time, int64_t mean_step_ns) {
    longest_lead_ns_ = std::min(mean_step_ns, kLongestLeadNs);
    long_gap_ns_ = std::min(sources_.thresholds.gap_shortest_ns,
                            sources_.thresholds.gap_p95_share * static_cast<double>(mean_step_ns));
    RETURN_IF_ERROR(ReadHostTimes(time));
    int64_t until_ns = std::numeric_limits<int64_t>::min();
    for (const Activity& activity : sources_.work.activities()) {
      if (sources_.work.DeviceOf(activity) != sources_.device_position) continue;
      if (busy_.empty()) {
        // The scope may begin before the first work, and end after the last.
        AddEdge(std::numeric_limits<int64_t>::min(), activity.start_ns);
      } else if (activity.start_ns > until_ns) {
        AddGap(until_ns, activity);
      }
      busy_.Add(activity.start_ns, activity.end_ns);
      facts_.explained.Add(activity.start_ns, activity.end_ns);
      if (activity.kind == GpuRowKind::kKernel) kernels_.insert(activity.name);
      until_ns = std::max(until_ns, activity.end_ns);
    }
    if (!busy_.empty()) AddEdge(until_ns, std::numeric_limits<int64_t>::max());
    for (const uint32_t thread : sources_.launchers.threads()) {
      facts_.waiting_call_count += waits_[thread].count;
    }
    for (const auto& [path, ns] : dispatch_by_path_) {
      const RangePaths& paths = sources_.attribution.paths();
      facts_.dispatch_by_op[path == RangePaths::kNone
                                ? std::string()
                                : std::string(sources_.Name(paths[path].name))] += ns;
    }
    facts_.late_starts = Longest(late_starts_);
    TakeLongest();
    const auto describe = [&](uint32_t call, uint32_t op, Evidence& evidence) {
      evidence.name = sources_.Name(call);
      if (op != 0) evidence.detail = StrCat("in ", sources_.Name(op));
    };
    facts_.after_sync = after_sync_.Take(EvidenceKind::kCall, describe);
    facts_.other_frees =
        other_free_sums_.Take(EvidenceKind::kCall, [&](uint32_t call, uint32_t, Evidence& row) {
          row.name = sources_.Name(call);
          row.detail = "on a thread that launches nothing";
        });
    facts_.long_launches = long_launches_.Take(EvidenceKind::kCall, describe);
    facts_.host_work = host_work_sums_.Take(
        EvidenceKind::kOp,
        [&](uint32_t name, uint32_t, Evidence& evidence) { evidence.name = sources_.Name(name); });
    facts_.long_calls =
        other_calls_.Take(EvidenceKind::kCall, [&](uint32_t call, uint32_t op, Evidence& evidence) {
          if ((call & kOverheadName) == 0) return describe(call, op, evidence);
          evidence.name = OverheadName(call & ~kOverheadName);
        });
    ExplainOverhead();
    FindIdlestParts();
    AddLoaderWaits(sources_, busy_, facts_);
    return std::move(facts_);
  }

 private:
  absl::Status ReadHostTimes(const TimeReport& time) {
    const auto launchers = sources_.launchers.threads();
    for (const uint32_t thread : launchers.first(std::min(launchers.size(), kMostSplits))) {
      splits_.try_emplace(thread, sources_.scope);
    }
    FindOtherGpus();
    RETURN_IF_ERROR(ReadOverhead());
    ListLoading();
    RETURN_IF_ERROR(FindBlockers());
    for (const HostTime& wait : sources_.loader_waits) {
      AddHostTime(HostCause::kDataLoader, wait.start_ns, wait.end_ns);
    }
    for (const IntervalSet::Interval& at : time.compile.compiling.intervals()) {
      AddHostTime(HostCause::kCompile, at.start_ns, at.end_ns);
    }
    for (const IntervalSet::Interval& at : time.host_collectives.intervals()) {
      AddHostTime(HostCause::kCollective, at.start_ns, at.end_ns);
    }
    for (const HostGap& gap : time.host_gaps) {
      if (gap.end_ns - gap.start_ns < kShortHostGapNs) continue;
      AddHostTime(HostCause::kOutside, gap.start_ns, gap.end_ns);
    }
    RETURN_IF_ERROR(FindHostWork());
    split_.FinishHostTimes();
    for (auto& [thread, split] : splits_) split.FinishHostTimes();
    return absl::OkStatus();
  }

  // What the other GPUs of the process do while this one is idle, if they take turns.
  void FindOtherGpus() {
    IntervalSet own;
    IntervalSet others;
    for (const Activity& activity : sources_.work.activities()) {
      const bool is_own = sources_.work.DeviceOf(activity) == sources_.device_position;
      (is_own ? own : others).Add(activity.start_ns, activity.end_ns);
    }
    if (own.empty() || others.empty()) return;
    uint64_t together_ns = 0;
    for (const IntervalSet::Interval& at : others.intervals()) {
      together_ns += own.MeasureIn(at.start_ns, at.end_ns);
    }
    const uint64_t smaller_ns = std::min(own.total_ns(), others.total_ns());
    if (static_cast<double>(together_ns) > kMostOverlapInTurn * static_cast<double>(smaller_ns)) {
      return;
    }
    for (const IntervalSet::Interval& at : others.intervals()) {
      AddHostTime(HostCause::kOtherGpu, at.start_ns, at.end_ns);
    }
    other_gpus_ = std::move(others);
  }

  // Whatever thread launches.
  void AddHostTime(HostCause cause, int64_t start_ns, int64_t end_ns) {
    split_.AddHostTime(cause, start_ns, end_ns);
    for (auto& [thread, split] : splits_) split.AddHostTime(cause, start_ns, end_ns);
  }

  // With the calls that hold the launching thread up.
  const IdleSplit& SplitBefore(const Activity& next) const {
    if (next.call == nullptr) return split_;
    const auto found = splits_.find(next.call->thread);
    return found == splits_.end() ? split_ : found->second;
  }

  // Loading and compiling code on first use is the program's time, not the profiler's.
  absl::Status ReadOverhead() {
    return sources_.reader.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const Overhead overhead = {batch.start_ns[i], Sum(batch.start_ns[i], batch.duration_ns[i]),
                                   batch.kind[i]};
        const bool is_programs = IsOfProgram(overhead.kind);
        AddHostTime(is_programs ? HostCause::kLongCall : HostCause::kProfiler, overhead.start_ns,
                    overhead.end_ns);
        overhead_.push_back(overhead);
      }
      return absl::OkStatus();
    });
  }

  void ListLoading() {
    std::ranges::sort(overhead_, {}, &Overhead::start_ns);
    for (const Overhead& each : overhead_) {
      const bool is_inside = !loading_.empty() && each.end_ns <= loading_.back().end_ns;
      if (!IsOfProgram(each.kind) || is_inside) continue;
      loading_.push_back({each.start_ns, each.end_ns, kOverheadName | each.kind, 0});
    }
  }

  static bool IsOfProgram(uint32_t kind) {
    const std::string name = OverheadName(kind);
    return name.ends_with("Loading") || name.ends_with("Compiler");
  }

  // Overhead and other GPUs: they have causes of their own, whether the host is in an operator
  // meanwhile or not.
  void ExplainOverhead() {
    std::vector<IntervalSet::Interval> all(facts_.explained.intervals().begin(),
                                           facts_.explained.intervals().end());
    for (const Overhead& each : overhead_) {
      all.push_back({.start_ns = each.start_ns, .end_ns = each.end_ns});
    }
    std::ranges::copy(other_gpus_.intervals(), std::back_inserter(all));
    std::ranges::sort(all, {}, &IntervalSet::Interval::start_ns);
    facts_.explained = IntervalSet();
    for (const IntervalSet::Interval& each : all) facts_.explained.Add(each.start_ns, each.end_ns);
  }

  absl::Status FindBlockers() {
    ASSIGN_OR_RETURN(const std::vector<bool> blocking_copies,
                     FindBlockingCopies(sources_.reader, sources_.attribution));
    std::vector<bool> waits;
    for (const std::string& name : sources_.reader.names()) {
      waits.push_back(WaitsForGpu(name));
      allocates_.push_back(IsAllocationCall(name));
    }
    ByName<bool> launches(sources_.reader.names(), &BeginsWork);
    ByName<bool> stops_gpu(sources_.reader.names(), &StopsGpu);
    const bool has_one_device = sources_.work.devices().size() == 1;
    for (const GpuAttribution::Call& call : sources_.attribution.calls()) {
      const auto position = static_cast<size_t>(&call - sources_.attribution.calls().data());
      // Of several devices, it is not known which one a call frees memory of.
      if (has_one_device && stops_gpu.Of(call.name)) AddFree(call);
      const bool blocks = allocates_[call.name] || waits[call.name] || blocking_copies[position];
      const bool is_long = Difference(call.end_ns, call.start_ns) >= kLongCallNs;
      if (!blocks && (!is_long || launches.Of(call.name))) continue;
      if (!sources_.launchers.MayHoldUp(call)) continue;
      AddCall(!blocks                 ? HostCause::kLongCall
              : allocates_[call.name] ? HostCause::kAllocator
                                      : HostCause::kWaitingCall,
              call);
      if (!blocks) {
        Spans& calls = long_calls_[call.thread];
        // Calls come by thread, by start. One inside of another is part of it.
        if (!calls.empty() && call.end_ns <= calls.back().end_ns) continue;
        calls.push_back(
            {call.start_ns, call.end_ns, sources_.first_ids[call.name], OutermostOp(call.path)});
        continue;
      }
      blockers_.push_back(&call);
      if (!allocates_[call.name]) CountWait(call);
    }
    std::ranges::sort(other_frees_, {}, &Span::start_ns);
    // One inside of another, as the driver's in the runtime's, is part of it.
    Spans apart;
    for (const Span& call : other_frees_) {
      if (apart.empty() || call.end_ns > apart.back().end_ns) apart.push_back(call);
    }
    other_frees_ = std::move(apart);
    std::sort(blockers_.begin(), blockers_.end(),
              [](const auto* a, const auto* b) { return a->end_ns < b->end_ns; });
    return absl::OkStatus();
  }

  void AddFree(const GpuAttribution::Call& call) {
    split_.AddFree(call.start_ns, call.end_ns);
    for (auto& [thread, split] : splits_) split.AddFree(call.start_ns, call.end_ns);
    if (sources_.launchers.MayHoldUp(call)) return;
    other_frees_.push_back(
        {call.start_ns, call.end_ns, sources_.first_ids[call.name], OutermostOp(call.path)});
  }

  void AddCall(HostCause cause, const GpuAttribution::Call& call) {
    split_.AddHostTime(cause, call.start_ns, call.end_ns);
    for (auto& [thread, split] : splits_) {
      if (sources_.launchers.IsHeldUpBy(thread, call)) {
        split.AddHostTime(cause, call.start_ns, call.end_ns);
      }
    }
  }

  // Ranges of launching threads that are long and launch nothing: the GPU waits for the host's
  // work.
  absl::Status FindHostWork() {
    ByName<bool> launches(sources_.reader.names(), &BeginsWork);
    absl::flat_hash_map<uint32_t, std::vector<int64_t>> launches_of;  // Their starts, by thread.
    for (const auto& [thread, split] : splits_) {
      std::vector<int64_t>& starts = launches_of[thread];
      for (const GpuAttribution::Call& call : sources_.attribution.CallsOf(thread)) {
        if (launches.Of(call.name)) starts.push_back(call.start_ns);
      }
    }
    const auto add = [&](const RangeBatch& batch) {
      const auto of_thread = launches_of.find(batch.thread);
      if (of_thread == launches_of.end()) return absl::OkStatus();
      IdleSplit& split = splits_.at(batch.thread);
      Spans& work = host_work_[batch.thread];
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.duration_ns[i] < kLongHostWorkNs) continue;
        const int64_t start_ns = batch.start_ns[i];
        const int64_t end_ns = Sum(start_ns, batch.duration_ns[i]);
        const auto launch = std::ranges::lower_bound(of_thread->second, start_ns);
        if (launch != of_thread->second.end() && *launch < end_ns) continue;
        split.AddHostTime(HostCause::kHostWork, start_ns, end_ns);
        // They come by their end: those within it came before.
        while (!work.empty() && work.back().start_ns >= start_ns) work.pop_back();
        work.push_back({start_ns, end_ns, sources_.first_ids[batch.name[i]], 0});
      }
      return absl::OkStatus();
    };
    return sources_.reader.ForEach<RangeRow>(kRangeStart | kRangeDuration | kRangeName, {}, add);
  }

  // Something of the host that may be why a gap lasts.
  struct Span {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t name;
    uint32_t detail;
  };
  using Spans = std::vector<Span>;  // By time, apart from each other.

  // The one of `spans` that has most of the time of a gap before its launch, which begins at
  // `until_ns`; nullptr: none has any.
  static const Span* LargestIn(const Spans& spans, int64_t gap_start_ns, int64_t until_ns) {
    const Span* most = nullptr;
    int64_t most_ns = 0;
    auto at = std::ranges::upper_bound(spans, gap_start_ns, {}, &Span::end_ns);
    for (; at != spans.end() && at->start_ns < until_ns; ++at) {
      const int64_t inside_ns =
          Difference(std::min(at->end_ns, until_ns), std::max(at->start_ns, gap_start_ns));
      if (inside_ns <= most_ns) continue;
      most = &*at;
      most_ns = inside_ns;
    }
    return most;
  }

  // Adds `ns` of a gap to the largest of the spans in it.
  void AddSpan(std::initializer_list<const Spans*> all, int64_t gap_start_ns, const Activity& next,
               int64_t ns, EvidenceSums& sums) const {
    const int64_t until_ns = std::min(next.call->start_ns, next.start_ns);
    const auto inside_ns = [&](const Span* span) {
      return span == nullptr ? 0
                             : Difference(std::min(span->end_ns, until_ns),
                                          std::max(span->start_ns, gap_start_ns));
    };
    const Span* most = nullptr;
    for (const Spans* spans : all) {
      const Span* const largest = LargestIn(*spans, gap_start_ns, until_ns);
      if (inside_ns(largest) > inside_ns(most)) most = largest;
    }
    if (most == nullptr) return;
    sums.Add({.name = most->name,
              .detail = most->detail,
              .duration_ns = ns,
              .start_ns = gap_start_ns,
              .step = StepAt(gap_start_ns)});
  }

  // Calls come by thread, by start. One inside of another, as the driver's in the runtime's, is the
  // same wait.
  void CountWait(const GpuAttribution::Call& call) {
    Waits& waits = waits_[call.thread];
    if (call.start_ns < waits.end_ns || sources_.scope.PositionAt(call.start_ns) < 0) return;
    waits.end_ns = call.end_ns;
    ++waits.count;
  }

  // The call that kept the host from launching `next` before the device had nothing left to do: it
  // waited until the gap had begun, and held up the thread that launched after it.
  const GpuAttribution::Call* BlockerOf(int64_t gap_start_ns, const Activity& next) const {
    if (next.call == nullptr) return nullptr;
    auto at = std::upper_bound(blockers_.begin(), blockers_.end(), next.call->start_ns,
                               [](int64_t time, const auto* call) { return time < call->end_ns; });
    while (at != blockers_.begin()) {
      const GpuAttribution::Call* call = *--at;
      if (call->end_ns < gap_start_ns) return nullptr;
      if (call->start_ns <= gap_start_ns &&
          sources_.launchers.IsHeldUpBy(next.call->thread, *call)) {
        return call;
      }
    }
    return nullptr;
  }

  void AddGap(int64_t start_ns, const Activity& next) {
    const GpuAttribution::Call* const blocker = BlockerOf(start_ns, next);
    IdleParts parts = SplitBefore(next).Split(
        {.start_ns = start_ns,
         .end_ns = next.start_ns,
         .launch = next.call,
         .blocker = blocker,
         .blocker_allocates = blocker != nullptr && allocates_[blocker->name]},
        facts_.explained);
    if (blocker != nullptr && parts.waiting_calls_ns > 0) {
      // One call may be why several gaps begin.
      AddWait(*blocker, parts.waiting_calls_ns, start_ns, blocker == lost_by_ ? 0 : 1);
    }
    ChargeLostLead(blocker, parts);
    facts_.parts.Add(parts);
    const int64_t counted_ns = parts.total_ns() - parts.profiler_ns - parts.other_gpus_ns;
    if (counted_ns <= 0) return;
    gaps_.push_back({start_ns, counted_ns, &next});
    if (static_cast<double>(counted_ns) > long_gap_ns_) {
      facts_.long_ns += counted_ns;
      facts_.long_parts.Add(parts);
    }
    if (parts.late_start_ns > 0) late_starts_.push_back({start_ns, parts.late_start_ns, &next});
    if (static_cast<double>(parts.dispatch_ns) < sources_.thresholds.gap_shortest_ns) {
      facts_.dispatch_ns += parts.dispatch_ns;
      if (parts.dispatch_ns > 0) dispatch_by_path_[next.call->path] += parts.dispatch_ns;
    }
    if (parts.allocator_ns > 0 && next.call != nullptr) {
      CountOtherFree(std::max(start_ns, next.call->start_ns), next.start_ns);
    }
    if (parts.launch_call_ns > 0) AddLongLaunch(next, parts.launch_call_ns);
    if (parts.host_work_ns > 0 && next.call != nullptr) {
      AddSpan({&host_work_[next.call->thread]}, start_ns, next, parts.host_work_ns,
              host_work_sums_);
    }
    if (parts.long_call_ns > 0 && next.call != nullptr) {
      AddSpan({&long_calls_[next.call->thread], &loading_}, start_ns, next, parts.long_call_ns,
              other_calls_);
    }
    const int64_t launching_ns = parts.dispatch_ns + parts.kernel_wait_ns;
    if (next.call != nullptr) {
      sources_.launches[next.call->path].idle_ns += static_cast<uint64_t>(launching_ns);
    }
    if (blocker == nullptr && parts.data_loader_ns == 0 && counted_ns <= kLongestClosableNs) {
      facts_.closable_ns += launching_ns;
    }
  }

  // Without the call that waited for the GPU, the host would be ahead by as long as the call took.
  // What the gap after the call did not use up, later gaps lack: while operators dispatch into an
  // empty queue, it is because of that call. Other host time before a launch uses the lead up, too,
  // and has causes of its own.
  void ChargeLostLead(const GpuAttribution::Call* blocker, IdleParts& parts) {
    if (blocker != nullptr && !allocates_[blocker->name]) {
      // Times of an imported file may be anything.
      const int64_t waited_ns =
          blocker == lost_by_ ? 0
                              : std::clamp<int64_t>(Difference(blocker->end_ns, blocker->start_ns),
                                                    0, kLongestWaitNs);
      if (waited_ns >= lost_lead_ns_) lost_most_ = blocker;
      lost_lead_ns_ =
          std::min(std::max<int64_t>(lost_lead_ns_ + waited_ns - parts.waiting_calls_ns, 0),
                   longest_lead_ns_);
      lost_by_ = blocker;
    }
    const int64_t charged_ns = std::min(lost_lead_ns_, parts.dispatch_ns);
    const int64_t used_ns = parts.before_launch_ns() - parts.waiting_calls_ns;
    lost_lead_ns_ = std::max<int64_t>(lost_lead_ns_ - used_ns, 0);
    if (charged_ns <= 0) return;
    AddWait(*lost_most_, charged_ns, lost_most_->start_ns, 0);
    parts.dispatch_ns -= charged_ns;
    parts.waiting_calls_ns += charged_ns;
  }

  void AddWait(const GpuAttribution::Call& call, int64_t ns, int64_t start_ns, int64_t count) {
    after_sync_.Add({.name = sources_.first_ids[call.name],
                     .detail = OutermostOp(call.path),
                     .duration_ns = ns,
                     .start_ns = start_ns,
                     .step = StepAt(start_ns),
                     .count = count});
  }

  // The call of a thread that launches nothing which stopped the GPU most in that time, if any did.
  void CountOtherFree(int64_t start_ns, int64_t end_ns) {
    const Span* const call = LargestIn(other_frees_, start_ns, end_ns);
    if (call == nullptr) return;
    const int64_t call_ns =
        Difference(std::min(call->end_ns, end_ns), std::max(call->start_ns, start_ns));
    if (call_ns <= 0) return;
    const int64_t more = call == last_free_ ? 0 : 1;
    last_free_ = call;
    facts_.other_free_count += more;
    facts_.other_free_ns = Sum(facts_.other_free_ns, call_ns);
    other_free_sums_.Add({.name = call->name,
                          .detail = call->detail,
                          .duration_ns = call_ns,
                          .start_ns = call->start_ns,
                          .step = StepAt(call->start_ns),
                          .count = more});
  }

  void AddEdge(int64_t start_ns, int64_t end_ns) {
    facts_.parts.Add(split_.SplitEdge(start_ns, end_ns));
  }

  void AddLongLaunch(const Activity& next, int64_t ns) {
    const bool is_first = next.kind == GpuRowKind::kKernel && !kernels_.contains(next.name);
    if (is_first) facts_.first_launch_ns += ns;
    long_launches_.Add({.name = sources_.first_ids[next.call->name],
                        .detail = OutermostOp(next.call->path),
                        .duration_ns = ns,
                        .start_ns = next.call->start_ns,
                        .step = StepAt(next.call->start_ns)});
  }

  int64_t StepAt(int64_t time_ns) const {
    const int64_t position = sources_.scope.PositionAt(time_ns);
    return position < 0 ? -1 : sources_.scope.stretches[static_cast<size_t>(position)].step;
  }

  // What a program called: the outermost operator around, else the innermost range; 0: none.
  uint32_t OutermostOp(uint32_t path) const {
    const RangePaths& paths = sources_.attribution.paths();
    uint32_t op = path == RangePaths::kNone ? 0 : paths[path].name;
    for (; path != RangePaths::kNone; path = paths[path].parent) {
      if (sources_.Name(paths[path].name).starts_with("aten::")) op = paths[path].name;
    }
    return sources_.first_ids[op];
  }

  void TakeLongest() {
    std::vector<int64_t> durations;
    for (const Gap& gap : gaps_) durations.push_back(gap.counted_ns);
    facts_.p95_ns = Percentile(durations, 95);
    for (const Gap& gap : gaps_) facts_.longest_ns = std::max(facts_.longest_ns, gap.counted_ns);
    facts_.longest = Longest(gaps_);
  }

  std::vector<Evidence> Longest(std::vector<Gap>& gaps) const {
    const size_t shown = std::min(gaps.size(), kMostEvidence);
    std::partial_sort(gaps.begin(), gaps.begin() + static_cast<ptrdiff_t>(shown), gaps.end(),
                      [](const Gap& a, const Gap& b) { return a.counted_ns > b.counted_ns; });
    gaps.resize(shown);
    std::vector<Evidence> rows;
    rows.reserve(shown);
    for (const Gap& gap : gaps) rows.push_back(Describe(gap));
    return rows;
  }

  Evidence Describe(const Gap& gap) const {
    Evidence evidence;
    evidence.kind = EvidenceKind::kGap;
    evidence.duration_ns = gap.counted_ns;
    evidence.start_ns = gap.start_ns;
    evidence.device = sources_.device_number;
    evidence.step = StepAt(gap.start_ns);
    evidence.name = gap.next->kind == GpuRowKind::kKernel
                        ? sources_.demangler.Demangle(sources_.Name(gap.next->name))
                    : IsDecompression(gap.next->kind) ? WorkName(gap.next->kind, 0, 0, 0)
                    : gap.next->work == Work::kCopy   ? "a copy or memset"
                                                      : "a CUDA graph";
    evidence.name = StrCat("before ", evidence.name);
    if (gap.next->call != nullptr) {
      evidence.detail = StrCat("launched by ", sources_.Name(gap.next->call->name));
      if (const std::string op = sources_.OpOf(gap.next->call); !op.empty()) {
        StrAppend(&evidence.detail, " in ", op);
      }
    }
    return evidence;
  }

  void FindIdlestParts() {
    const auto& stretches = sources_.scope.stretches;
    if (stretches.empty()) return;
    const int64_t begin_ns = stretches.front().start_ns;
    const int64_t part_ns = (stretches.back().end_ns - begin_ns) / kParts;
    if (part_ns <= 0) return;
    std::vector<std::pair<double, Evidence>> parts;
    for (int i = 0; i < kParts; ++i) {
      const int64_t start_ns = begin_ns + i * part_ns;
      if (sources_.scope.MeasureIn(start_ns, start_ns + part_ns) < part_ns / 2) continue;
      const double busy = static_cast<double>(busy_.MeasureIn(start_ns, start_ns + part_ns)) /
                          static_cast<double>(part_ns);
      Evidence evidence = {.kind = EvidenceKind::kGap,
                           .name = StrCat("part ", i + 1, " of ", kParts),
                           .detail = StrCat("busy ", static_cast<int>(100 * busy), "%")};
      evidence.duration_ns = part_ns;
      evidence.start_ns = start_ns;
      evidence.device = sources_.device_number;
      evidence.step = StepAt(start_ns);
      parts.emplace_back(busy, std::move(evidence));
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    if (parts.size() > kMostEvidence) parts.resize(kMostEvidence);
    for (auto& [busy, evidence] : parts) facts_.idlest_parts.push_back(std::move(evidence));
  }

  FactSources& sources_;
  GapFacts facts_;
  IdleSplit split_;  // Of gaps before work whose launch, or launcher, has none of its own.
  absl::flat_hash_map<uint32_t, IdleSplit> splits_;  // By launching thread.
  IntervalSet busy_;
  std::vector<bool> allocates_;                        // By name.
  std::vector<const GpuAttribution::Call*> blockers_;  // By end.
  absl::flat_hash_map<uint32_t, Spans> long_calls_;    // By thread.
  Spans other_frees_;                                  // Of threads that launch nothing.
  const Span* last_free_ = nullptr;                    // The last one that was counted.
  Spans loading_;                                      // Overhead that is the program's.
  struct Waits {
    int64_t end_ns = std::numeric_limits<int64_t>::min();  // Of the last one that counts.
    int64_t count = 0;
  };
  absl::flat_hash_map<uint32_t, Waits> waits_;  // By thread.
  absl::flat_hash_set<uint32_t> kernels_;       // Names of those that ran so far.
  std::vector<Gap> gaps_;
  std::vector<Gap> late_starts_;
  absl::flat_hash_map<uint32_t, int64_t> dispatch_by_path_;
  int64_t lost_lead_ns_ = 0;  // See ChargeLostLead().
  int64_t longest_lead_ns_ = 0;
  double long_gap_ns_ = 0;
  const GpuAttribution::Call* lost_by_ = nullptr;    // The last call that added to it.
  const GpuAttribution::Call* lost_most_ = nullptr;  // The one that most of it is due to.
  EvidenceSums after_sync_;
  EvidenceSums long_launches_;
  EvidenceSums other_calls_;
  struct Overhead {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t kind;
  };
  static constexpr uint32_t kOverheadName = uint32_t{1} << 31;  // In place of a name: a kind.
  std::vector<Overhead> overhead_;
  IntervalSet other_gpus_;                          // When they worked, if the GPUs take turns.
  absl::flat_hash_map<uint32_t, Spans> host_work_;  // By thread.
  EvidenceSums host_work_sums_;
  EvidenceSums other_free_sums_;
};

}  // namespace

absl::StatusOr<GapFacts> GatherGaps(FactSources& sources, const TimeReport& time,
                                    int64_t mean_step_ns) {
  return GapSweep(sources).Sweep(time, mean_step_ns);
}

namespace {

// Workers that persist are not started anew, and a loader's iterator takes less.
constexpr int64_t kLeastWorkerStartNs = 5'000'000;

// By stretch: whether its step started a loader's workers, or asked loaders with workers for more
// batches than steps usually do.
std::vector<bool> EpochStarts(const FactSources& sources) {
  std::vector<int64_t> asked(sources.scope.stretches.size());
  for (const HostTime& wait : sources.loader_waits) {
    if (!HasLoaderWorkers(sources.Name(wait.name))) continue;
    const int64_t position = sources.scope.PositionAt(wait.start_ns);
    if (position >= 0) ++asked[static_cast<size_t>(position)];
  }
  std::vector<int64_t> counts = asked;
  const auto usual = static_cast<int64_t>(counts.empty() ? 0 : Median(counts));
  std::vector<bool> starts(asked.size());
  if (!sources.scope.has_steps) return starts;
  for (size_t i = 0; i < asked.size(); ++i) starts[i] = usual > 0 && asked[i] > usual;
  for (const HostTime& wait : sources.loader_waits) {
    const int64_t position = sources.scope.PositionAt(wait.start_ns);
    if (wait.starts_workers && position >= 0) starts[static_cast<size_t>(position)] = true;
  }
  return starts;
}

}  // namespace

void AddLoaderWaits(const FactSources& sources, const IntervalSet& busy, GapFacts& gaps) {
  EvidenceSums sums;
  std::vector<bool> epoch_starts = EpochStarts(sources);
  gaps.epoch_start_count = std::count(epoch_starts.begin(), epoch_starts.end(), true);
  for (const HostTime& wait : sources.loader_waits) {
    const int64_t exposed_ns = (wait.end_ns - wait.start_ns) -
                               static_cast<int64_t>(busy.MeasureIn(wait.start_ns, wait.end_ns));
    if (exposed_ns <= 0) continue;
    gaps.loader_wait_ns += exposed_ns;
    if (sources.Name(wait.name).find("_SingleProcess") != std::string_view::npos) {
      gaps.loader_in_process_ns += exposed_ns;
    }
    const int64_t position = sources.scope.PositionAt(wait.start_ns);
    const bool in_epoch_start = position >= 0 && epoch_starts[static_cast<size_t>(position)];
    if (in_epoch_start || wait.starts_workers) gaps.epoch_start_wait_ns += exposed_ns;
    if (!sources.scope.has_steps && wait.starts_workers) ++gaps.epoch_start_count;
    const int64_t step =
        position < 0 ? -1 : sources.scope.stretches[static_cast<size_t>(position)].step;
    sums.Add({.name = sources.first_ids[wait.name],
              .detail = static_cast<uint32_t>(position + 1),
              .duration_ns = exposed_ns,
              .start_ns = wait.start_ns,
              .step = step});
  }
  gaps.loader_waits = sums.Take(EvidenceKind::kOp, [&](uint32_t name, uint32_t, Evidence& row) {
    row.name = sources.Name(name);
  });
  gaps.epoch_starts = std::move(epoch_starts);
}

void AddLoaderStarts(std::span<const LoaderStart> starts, FactSources& sources) {
  for (const LoaderStart& start : starts) {
    const auto wait =
        std::ranges::lower_bound(sources.loader_waits, start.end_ns, {}, &HostTime::start_ns);
    if (wait == sources.loader_waits.end() || wait->start_ns != start.end_ns) continue;
    if (sources.scope.PositionAt(start.start_ns) != sources.scope.PositionAt(start.end_ns))
      continue;
    wait->start_ns = start.start_ns;
    wait->starts_workers = start.end_ns - start.start_ns >= kLeastWorkerStartNs &&
                           HasLoaderWorkers(sources.Name(wait->name));
  }
}

}  // namespace profd::report
