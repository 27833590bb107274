#include "daemon/report/findings/host.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/outliers.h"
#include "daemon/report/memory/host_frees.h"

namespace profd::report {
namespace {

void AddSplit(const HostSplit& step, HostSplit& sum) {
  sum.operators_ns += step.operators_ns;
  sum.collectives_ns += step.collectives_ns;
  sum.data_loader_ns += step.data_loader_ns;
  sum.compile_ns += step.compile_ns;
  sum.gpu_wait_ns += step.gpu_wait_ns;
  sum.outside_ns += step.outside_ns;
  sum.other_ns += step.other_ns;
}

// The parts of gaps that cost time, in some stretches of the scope.
class CountedTime {
 public:
  CountedTime(const FindingScope& scope, const IntervalSet* explained)
      : scope_(scope), explained_(explained) {}

  // By stretch.
  std::vector<int64_t> OfStretches(const std::vector<HostGap>& gaps) const {
    std::vector<int64_t> sums(scope_.stretches.size());
    for (const HostGap& gap : gaps) {
      ForEach(gap.start_ns, gap.end_ns, [&](size_t i, int64_t ns) { sums[i] += ns; });
    }
    return sums;
  }
  int64_t In(int64_t start_ns, int64_t end_ns, const std::vector<bool>& left_out) const {
    int64_t sum = 0;
    ForEach(start_ns, end_ns, [&](size_t i, int64_t ns) { sum += left_out[i] ? 0 : ns; });
    return sum;
  }

 private:
  template <typename Fn>
  void ForEach(int64_t start_ns, int64_t end_ns, Fn fn) const {
    scope_.ForEachIn(start_ns, end_ns, [&](int64_t from_ns, int64_t to_ns) {
      int64_t ns = to_ns - from_ns;
      if (explained_ != nullptr) ns -= static_cast<int64_t>(explained_->MeasureIn(from_ns, to_ns));
      fn(static_cast<size_t>(scope_.PositionAt(from_ns)), ns);
    });
  }

  const FindingScope& scope_;
  const IntervalSet* explained_;
};

// How fast Linux takes back the pages of large blocks, which malloc returns to it (munmap), at
// most. In the one gap that was looked at, two blocks of 60 MiB and 8.9 ms, it was 14.
constexpr double kFreedBytesPerNs = 16;
constexpr double kExplainsGap = 0.5;

// Sets what the thread of the steps frees in the longest of the largest gaps. Others free
// meanwhile, such as those that load data.
absl::Status FindFrees(store::CaptureReader& reader, HostFacts& facts) {
  if (facts.gaps.rows.empty() || !reader.record().torch.memory) return absl::OkStatus();
  const HostGapRow& largest = facts.gaps.rows.front();
  ASSIGN_OR_RETURN(
      const HostFrees frees,
      HostFreesIn(reader, reader.step_thread(), largest.longest_start_ns, largest.longest_end_ns));
  const double takes_ns = static_cast<double>(frees.bytes) / kFreedBytesPerNs;
  const auto gap_ns = static_cast<double>(largest.longest_end_ns - largest.longest_start_ns);
  if (takes_ns < kExplainsGap * gap_ns) return absl::OkStatus();
  facts.freed_bytes = frees.bytes;
  facts.freed_count = frees.count;
  return absl::OkStatus();
}

// With fewer, chance may put a wait into all of them.
constexpr int64_t kFewestForSteady = 5;
constexpr double kInMostSteps = 0.9;

// Returns HostFacts::steady_ns. Of the gaps between the same two operators, short ones included,
// each counts for the lower quartile of their lengths at most. `gaps`: all, by start.
int64_t SteadyGapsNs(const CountedTime& counted, const FindingScope& scope,
                     const std::vector<HostGap>& gaps, const HostFacts& facts) {
  if (!scope.has_steps || facts.usual_count < kFewestForSteady) return 0;
  struct Place {
    std::vector<int64_t> lengths;
    int64_t last_step = -1;
    int64_t step_count = 0;
  };
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, Place> places;
  for (const HostGap& gap : gaps) {  // By start.
    const int64_t ns = counted.In(gap.start_ns, gap.end_ns, facts.outliers);
    if (ns <= 0) continue;
    Place& place = places[{gap.after, gap.before}];
    place.lengths.push_back(ns);
    if (const int64_t step = scope.PositionAt(gap.start_ns); step != place.last_step) {
      place.last_step = step;
      ++place.step_count;
    }
  }
  int64_t steady_ns = 0;
  for (auto& [key, place] : places) {
    if (static_cast<double>(place.step_count) <
        kInMostSteps * static_cast<double>(facts.usual_count)) {
      continue;
    }
    const int64_t usual_ns = Percentile(place.lengths, 25);
    if (usual_ns < kShortHostGapNs) continue;
    for (const int64_t length_ns : place.lengths) steady_ns += std::min(length_ns, usual_ns);
  }
  return facts.PerUsualStep(steady_ns);
}

std::string_view OrEdge(const std::string& name, std::string_view edge) {
  return name.empty() ? edge : std::string_view(name);
}

}  // namespace

absl::StatusOr<HostFacts> GatherHost(store::CaptureReader& reader, const FindingScope& scope,
                                     const TimeReport& time, const IntervalSet* explained,
                                     const IntervalSet& optimizers,
                                     const FindingThresholds& thresholds) {
  HostFacts facts;
  facts.needs = time.host_needs;
  facts.of_ranges = time.host_of_ranges;
  if (!facts.needs.empty()) {
    facts.outliers = OutliersOf(scope, thresholds, {});
    return facts;
  }
  const CountedTime counted(scope, explained);
  std::vector<HostGap> gaps = time.host_gaps;
  if (explained != nullptr) {
    std::erase_if(gaps,
                  [](const HostGap& gap) { return gap.end_ns - gap.start_ns < kShortHostGapNs; });
  }
  const std::vector<int64_t> outside_ns = counted.OfStretches(gaps);
  facts.outliers = OutliersOf(scope, thresholds, outside_ns);
  std::vector<double> shares;
  absl::flat_hash_map<int64_t, const HostSplit*> splits;
  for (const TimeStep& step : time.steps) splits[step.index] = &step.host;
  for (size_t i = 0; i < scope.stretches.size(); ++i) {
    const FindingScope::Stretch& stretch = scope.stretches[i];
    const auto split = splits.find(stretch.step);
    if (scope.has_steps && split != splits.end()) AddSplit(*split->second, facts.split);
    if (facts.outliers[i]) continue;
    ++facts.usual_count;
    facts.outside_ns += outside_ns[i];
    const int64_t stretch_ns = std::max<int64_t>(stretch.end_ns - stretch.start_ns, 1);
    facts.usual_ns += stretch_ns;
    shares.push_back(static_cast<double>(outside_ns[i]) / static_cast<double>(stretch_ns));
  }
  if (!shares.empty()) facts.median_share = Median(shares);
  facts.steady_ns = SteadyGapsNs(counted, scope, time.host_gaps, facts);
  ASSIGN_OR_RETURN(facts.gaps, SumHostGaps(reader, gaps, [&](int64_t start_ns, int64_t end_ns) {
                     const int64_t ns = counted.In(start_ns, end_ns, facts.outliers);
                     if (ns > 0) {
                       facts.optimizer_ns += std::min(
                           ns, static_cast<int64_t>(optimizers.MeasureIn(start_ns, end_ns)));
                     }
                     return ns;
                   }));
  for (const HostGap& gap : gaps) {
    if (scope.PositionAt(gap.start_ns) >= 0) facts.lock_gaps.Add(gap);
  }
  if (facts.gaps.short_ns > facts.gaps.long_ns) {
    ASSIGN_OR_RETURN(facts.short_gaps,
                     SumShortGaps(reader, gaps, [&](int64_t start_ns, int64_t end_ns) {
                       return counted.In(start_ns, end_ns, facts.outliers);
                     }));
  }
  RETURN_IF_ERROR(FindFrees(reader, facts));
  return facts;
}

std::string PlaceOf(const HostGapRow& row) {
  return StrCat("between ", OrEdge(row.after, "the start of the window"), " and ",
                OrEdge(row.before, "its end"), row.where.empty() ? "" : StrCat(", in ", row.where),
                row.lines.empty() ? "" : StrCat(": ", row.lines));
}

}  // namespace profd::report
