#include <algorithm>
#include <limits>
#include <optional>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/index/waiting_calls.h"

namespace profd::report {
namespace {

constexpr int kParts = 30;
// A gap that CUDA graphs close is one between launches that follow each other.
constexpr int64_t kLongestClosableNs = 1'000'000;

struct Gap {
  int64_t start_ns;
  int64_t counted_ns;  // In the scope, without the profiler's own time.
  const Activity* next;
};

// Allocations wait as well, but have rules of their own.
bool Waits(std::string_view call) { return IsSyncCall(call) && !IsAllocationCall(call); }

class GapSweep {
 public:
  explicit GapSweep(FactSources& sources) : sources_(sources) {}

  absl::StatusOr<GapFacts> Sweep(int64_t mean_step_ns) {
    RETURN_IF_ERROR(ReadOverhead());
    RETURN_IF_ERROR(FindSyncs());
    for (const HostTime& wait : sources_.loader_waits) loader_.Add(wait.start_ns, wait.end_ns);
    int64_t until_ns = std::numeric_limits<int64_t>::min();
    for (const Activity& activity : sources_.work.activities()) {
      if (sources_.work.DeviceOf(activity) != sources_.device_position) continue;
      if (!busy_.empty() && activity.start_ns > until_ns) AddGap(until_ns, activity);
      busy_.Add(activity.start_ns, activity.end_ns);
      until_ns = std::max(until_ns, activity.end_ns);
    }
    facts_.count = static_cast<int64_t>(gaps_.size());
    TakeLongest(mean_step_ns);
    facts_.after_sync =
        after_sync_.Take(EvidenceKind::kCall, [&](uint32_t call, uint32_t op, Evidence& evidence) {
          evidence.name = sources_.Name(call);
          if (op != 0) evidence.detail = StrCat("in ", sources_.Name(op));
        });
    FindIdlestParts();
    AddLoaderWaits(sources_, busy_, facts_);
    return std::move(facts_);
  }

 private:
  // The profiler's own time cannot be saved. Loading code on first use is the program's time.
  absl::Status ReadOverhead() {
    std::vector<std::pair<int64_t, int64_t>> times;
    RETURN_IF_ERROR(sources_.reader.ForEachOverhead({}, [&](const store::OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (OverheadName(batch.kind[i]).ends_with("Loading")) continue;
        times.emplace_back(batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i]);
      }
      return absl::OkStatus();
    }));
    std::sort(times.begin(), times.end());
    for (const auto& [start_ns, end_ns] : times) overhead_.Add(start_ns, end_ns);
    return absl::OkStatus();
  }

  absl::Status FindSyncs() {
    ASSIGN_OR_RETURN(const std::vector<bool> blocking_copies,
                     FindBlockingCopies(sources_.reader, sources_.attribution));
    std::vector<std::optional<bool>> known(sources_.reader.names().size());
    for (const GpuAttribution::Call& call : sources_.attribution.calls()) {
      std::optional<bool>& is_sync = known[call.name];
      if (!is_sync.has_value()) is_sync = Waits(sources_.Name(call.name));
      const auto position = static_cast<size_t>(&call - sources_.attribution.calls().data());
      if (*is_sync || blocking_copies[position]) syncs_.push_back(&call);
    }
    std::sort(syncs_.begin(), syncs_.end(),
              [](const auto* a, const auto* b) { return a->end_ns < b->end_ns; });
    return absl::OkStatus();
  }

  // The call that kept the host from launching `next` before the device had nothing left to do: it
  // waited until the gap had begun, and the launch came after it on the same thread.
  const GpuAttribution::Call* SyncBefore(int64_t gap_start_ns, const Activity& next) const {
    if (next.call == nullptr) return nullptr;
    auto at = std::upper_bound(syncs_.begin(), syncs_.end(), next.call->start_ns,
                               [](int64_t time, const auto* call) { return time < call->end_ns; });
    while (at != syncs_.begin()) {
      const GpuAttribution::Call* sync = *--at;
      if (sync->end_ns < gap_start_ns) return nullptr;
      if (sync->thread == next.call->thread && sync->start_ns <= gap_start_ns) return sync;
    }
    return nullptr;
  }

  void AddGap(int64_t start_ns, const Activity& next) {
    const FindingScope& scope = sources_.scope;
    int64_t counted_ns = scope.MeasureIn(start_ns, next.start_ns);
    if (counted_ns <= 0) return;
    counted_ns -=
        std::min(counted_ns, static_cast<int64_t>(overhead_.MeasureIn(start_ns, next.start_ns)));
    if (counted_ns <= 0) return;
    gaps_.push_back({start_ns, counted_ns, &next});
    if (next.call != nullptr) {
      sources_.launches[next.call->path].idle_ns += static_cast<uint64_t>(counted_ns);
    }
    const auto loader_ns = static_cast<int64_t>(loader_.MeasureIn(start_ns, next.start_ns));
    const GapCause cause = CauseOf(start_ns, next);
    if (const GpuAttribution::Call* sync = SyncBefore(start_ns, next)) {
      // Without the call, the host would have been ahead by the time that it waited, so that is the
      // most it can have cost. The rest of the gap is the host's work after the call.
      const int64_t blamed_ns = std::min(counted_ns, sync->end_ns - sync->start_ns);
      facts_.after_sync_ns += blamed_ns;
      after_sync_.Add({.name = sources_.first_ids[sync->name],
                       .detail = OutermostOp(sync->path),
                       .duration_ns = blamed_ns,
                       .start_ns = start_ns,
                       .step = StepAt(start_ns)});
      AddDispatch(cause, counted_ns - blamed_ns, loader_ns);
      return;
    }
    AddDispatch(cause, counted_ns, loader_ns);
    if (loader_ns == 0 && cause != GapCause::kOther && counted_ns <= kLongestClosableNs) {
      facts_.closable_ns += counted_ns;
    }
  }

  // Counts the part of a gap in which the program had yet to launch. A longer one is GPU_GAP's.
  void AddDispatch(GapCause cause, int64_t gap_ns, int64_t loader_ns) {
    if (cause != GapCause::kHostWait) return;
    if (static_cast<double>(gap_ns) >= sources_.thresholds.gap_shortest_ns) return;
    facts_.dispatch_ns += std::max<int64_t>(gap_ns - loader_ns, 0);
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

  void TakeLongest(int64_t mean_step_ns) {
    std::vector<int64_t> durations;
    for (const Gap& gap : gaps_) durations.push_back(gap.counted_ns);
    facts_.p95_ns = Percentile(durations, 95);
    const double long_ns =
        std::min(sources_.thresholds.gap_shortest_ns,
                 sources_.thresholds.gap_p95_share * static_cast<double>(mean_step_ns));
    for (const Gap& gap : gaps_) {
      facts_.longest_ns = std::max(facts_.longest_ns, gap.counted_ns);
      if (static_cast<double>(gap.counted_ns) > long_ns) facts_.long_ns += gap.counted_ns;
    }
    const size_t shown = std::min(gaps_.size(), kMostEvidence);
    std::partial_sort(gaps_.begin(), gaps_.begin() + static_cast<ptrdiff_t>(shown), gaps_.end(),
                      [](const Gap& a, const Gap& b) { return a.counted_ns > b.counted_ns; });
    gaps_.resize(shown);
    for (const Gap& gap : gaps_) facts_.longest.push_back(Describe(gap));
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
                    : gap.next->work == Work::kCopy ? "a copy or memset"
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
  IntervalSet busy_;
  IntervalSet overhead_;
  IntervalSet loader_;
  std::vector<const GpuAttribution::Call*> syncs_;  // By end.
  std::vector<Gap> gaps_;
  EvidenceSums after_sync_;
};

}  // namespace

absl::StatusOr<GapFacts> GatherGaps(FactSources& sources, int64_t mean_step_ns) {
  return GapSweep(sources).Sweep(mean_step_ns);
}

void AddLoaderWaits(const FactSources& sources, const IntervalSet& busy, GapFacts& gaps) {
  EvidenceSums sums;
  for (const HostTime& wait : sources.loader_waits) {
    const int64_t exposed_ns = (wait.end_ns - wait.start_ns) -
                               static_cast<int64_t>(busy.MeasureIn(wait.start_ns, wait.end_ns));
    if (exposed_ns <= 0) continue;
    gaps.loader_wait_ns += exposed_ns;
    const int64_t position = sources.scope.PositionAt(wait.start_ns);
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
}

}  // namespace profd::report
