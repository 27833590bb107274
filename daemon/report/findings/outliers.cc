#include "daemon/report/findings/outliers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/base/median.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/host.h"
#include "daemon/report/findings/inference_time.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/step_outliers.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// On either side of the slow step.
constexpr size_t kNeighborsOfSide = 2;
// Of the difference. What explains less is left out.
constexpr double kLeastCauseShare = 0.1;
constexpr double kMostlyShare = 0.5;

// PyTorch's range around each step of an optimizer; its class follows.
constexpr std::string_view kOptimizerStep = "Optimizer.step#";

int64_t LengthOf(const FindingScope::Stretch& stretch) { return stretch.end_ns - stretch.start_ns; }

// A step with more host time outside operators than this many times the usual has a cause of its
// own, such as a checkpoint.
constexpr int64_t kUsualVariation = 2;

// Positions of the nearest steps that are no outliers themselves.
std::vector<size_t> NeighborsOf(const FindingScope& scope, size_t slow,
                                const std::vector<bool>& outliers) {
  const auto is_usual = [&](size_t i) { return !outliers[i]; };
  std::vector<size_t> neighbors;
  for (size_t i = slow; i-- > 0 && neighbors.size() < kNeighborsOfSide;) {
    if (is_usual(i)) neighbors.push_back(i);
  }
  const size_t before = neighbors.size();
  for (size_t i = slow + 1;
       i < scope.stretches.size() && neighbors.size() < before + kNeighborsOfSide; ++i) {
    if (is_usual(i)) neighbors.push_back(i);
  }
  return neighbors;
}

// Operators and CUDA calls: their inputs determine how much they do. A range of the program's own
// may do more each time.
bool DoesFixedWork(std::string_view name) {
  return name.find("::") != std::string_view::npos || name.starts_with("cuda") ||
         name.starts_with(kOptimizerStep) || MayBeAutogradNode(name);
}

struct OpTime {
  int64_t self_ns = 0;
  int64_t total_ns = 0;
  int64_t calls = 0;
};
using OpTimes = std::map<std::string, OpTime, std::less<>>;

absl::StatusOr<OpTimes> OpsOfStep(store::CaptureReader& reader, int64_t step) {
  OpOptions options;
  options.step = step;
  ASSIGN_OR_RETURN(OpTable table, SummarizeOps(reader, options));
  OpTimes times;
  for (OpRow& row : table.rows) {
    if (row.name == kStepRow) continue;  // The step itself.
    OpTime& time = times[std::move(row.name)];
    AddTo(time.self_ns, row.self_cpu_ns);
    AddTo(time.total_ns, row.cpu_total_ns);
    time.calls += row.calls;
  }
  return times;
}

int64_t SumOfSelf(const OpTimes& times) {
  int64_t sum = 0;
  for (const auto& [name, time] : times) AddTo(sum, time.self_ns);
  return sum;
}

constexpr std::string_view kOutsideOperators = "host time outside operators";
constexpr std::string_view kOutsideRanges = "host time outside ranges";

// A part of a step's time that the time report knows.
struct Part {
  std::string_view name;
  int64_t (*time_ns)(const TimeStep&);
};
constexpr std::array<Part, 6> kComparedParts = {{
    {kOutsideOperators, [](const TimeStep& s) { return s.host.outside_ns; }},
    {"waiting for the data loader", [](const TimeStep& s) { return s.data_loader_ns; }},
    {"calls that wait for the GPU", [](const TimeStep& s) { return s.sync_ns; }},
    {"compilation by torch.compile", [](const TimeStep& s) { return s.compile_ns; }},
    {"collectives on the GPU", [](const TimeStep& s) { return s.device.communication_ns; }},
    {"computing on the GPU", [](const TimeStep& s) { return s.device.compute_ns; }},
}};

const TimeStep* Find(const TimeReport& time, int64_t index) {
  const auto found = std::ranges::find(time.steps, index, &TimeStep::index);
  return found == time.steps.end() ? nullptr : &*found;
}

class Explanation {
 public:
  Explanation(const FindingScope& scope, size_t slow, std::vector<size_t> neighbors)
      : scope_(scope), slow_(scope.stretches[slow]), neighbors_(std::move(neighbors)) {
    std::vector<int64_t> lengths;
    for (const size_t i : neighbors_) lengths.push_back(LengthOf(scope.stretches[i]));
    result_.step = slow_.step;
    result_.duration_ns = LengthOf(slow_);
    result_.usual_ns = Median(lengths);
  }

  absl::Status AddParts(store::CaptureReader& reader, const TimeReport& time) {
    const TimeStep* slow = Find(time, slow_.step);
    if (slow == nullptr) return absl::OkStatus();
    split_is_known_ = time.host_needs.empty();
    // Where the step spent most of its host time outside operators.
    ASSIGN_OR_RETURN(const HostGapTable gaps,
                     SumHostGaps(reader, time.host_gaps, [&](int64_t start_ns, int64_t end_ns) {
                       start_ns = std::max(start_ns, slow_.start_ns);
                       end_ns = std::min(end_ns, slow_.end_ns);
                       return end_ns > start_ns ? end_ns - start_ns : 0;
                     }));
    const std::string longest =
        gaps.rows.empty() ? ""
                          : StrCat(TimeText(gaps.rows[0].total_ns), " ", PlaceOf(gaps.rows[0]));
    for (const Part& part : kComparedParts) {
      std::vector<int64_t> usual;
      for (const size_t i : neighbors_) {
        const TimeStep* other = Find(time, scope_.stretches[i].step);
        if (other != nullptr) usual.push_back(part.time_ns(*other));
      }
      const bool outside = part.name == kOutsideOperators;
      const bool is_cause =
          Add(EvidenceKind::kStep,
              std::string(outside && time.host_of_ranges ? kOutsideRanges : part.name),
              Difference(part.time_ns(*slow), Median(usual)), outside ? longest : "");
      if (outside && is_cause) result_.longest_gap = longest;
      if (!outside && is_cause) AddTo(known_parts_ns_, result_.causes.back().duration_ns);
    }
    return absl::OkStatus();
  }

  absl::Status AddOps(store::CaptureReader& reader) {
    ASSIGN_OR_RETURN(const OpTimes slow, OpsOfStep(reader, slow_.step));
    std::vector<OpTimes> others;
    std::vector<int64_t> outside;
    for (const size_t i : neighbors_) {
      ASSIGN_OR_RETURN(others.emplace_back(), OpsOfStep(reader, scope_.stretches[i].step));
      outside.push_back(Difference(LengthOf(scope_.stretches[i]), SumOfSelf(others.back())));
    }
    int64_t more_update_ns = 0;  // Of optimizers that run more often.
    bool has_more_updates = false;
    bool has_more_backward = false;
    for (const auto& [name, time] : slow) {
      std::vector<int64_t> usual_ns;
      std::vector<int64_t> usual_total_ns;
      std::vector<int64_t> usual_calls;
      for (const OpTimes& other : others) {
        const auto found = other.find(name);
        usual_ns.push_back(found == other.end() ? 0 : found->second.self_ns);
        usual_total_ns.push_back(found == other.end() ? 0 : found->second.total_ns);
        usual_calls.push_back(found == other.end() ? 0 : found->second.calls);
      }
      const int64_t calls = Median(usual_calls);
      if (calls < time.calls && name.starts_with(kOptimizerStep)) {
        has_more_updates = true;
        AddTo(more_update_ns, Difference(time.total_ns, Median(usual_total_ns)));
      }
      has_more_backward |= calls < time.calls && MayBeAutogradNode(name);
      const bool is_cause =
          Add(EvidenceKind::kOp, name, Difference(time.self_ns, Median(usual_ns)),
              calls == time.calls ? "" : StrCat(time.calls, " calls instead of ", calls));
      if (!is_cause) continue;
      const int64_t more_ns = result_.causes.back().duration_ns;
      if (calls == time.calls && DoesFixedWork(name)) AddTo(slower_calls_ns_, more_ns);
      if (calls < time.calls) AddTo(more_calls_ns_, more_ns);
    }
    // Gradients of the same backward passes, in an update that takes little, say nothing of the
    // rest: an evaluation, for one, has more calls, too.
    result_.updates_more =
        has_more_updates && (has_more_backward || IsPartOfExcess(more_update_ns));
    ASSIGN_OR_RETURN(const int64_t inference_ns, MoreInference(reader));
    if (IsPartOfExcess(inference_ns, kMostlyShare)) {
      result_.updates_more = false;
      result_.more_inference_ns = inference_ns;
    }
    // Ranges of several threads overlap: then this claims too little, never too much. Where the
    // split of the host's time is known, that says it.
    if (!slow.empty() && !split_is_known_) {
      Add(EvidenceKind::kStep, "host time in no recorded range",
          Difference(Difference(result_.duration_ns, SumOfSelf(slow)), Median(outside)), "");
    }
    return absl::OkStatus();
  }

  absl::Status AddSilence(store::CaptureReader& reader) {
    std::vector<int64_t> times_ns = {slow_.start_ns, slow_.end_ns};
    const auto add = [&](int64_t time_ns) {
      if (time_ns > slow_.start_ns && time_ns < slow_.end_ns) times_ns.push_back(time_ns);
    };
    RETURN_IF_ERROR(
        reader.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            add(batch.start_ns[i]);
            add(EndOf(batch.start_ns[i], batch.duration_ns[i]));
          }
          return absl::OkStatus();
        }));
    std::ranges::sort(times_ns);
    for (size_t i = 1; i < times_ns.size(); ++i) {
      result_.silent_ns = std::max(result_.silent_ns, times_ns[i] - times_ns[i - 1]);
    }
    return absl::OkStatus();
  }

  SlowStep Take() {
    std::ranges::stable_sort(result_.causes, [](const Evidence& a, const Evidence& b) {
      return a.duration_ns > b.duration_ns;
    });
    const double most_ns =
        kMostlyShare * static_cast<double>(result_.duration_ns - result_.usual_ns);
    result_.mostly_slower_calls = static_cast<double>(slower_calls_ns_) >= most_ns;
    result_.mostly_more_calls = static_cast<double>(more_calls_ns_) >= most_ns;
    result_.mostly_known_parts = static_cast<double>(known_parts_ns_) >= most_ns;
    if (result_.causes.size() > kMostEvidence) result_.causes.resize(kMostEvidence);
    return std::move(result_);
  }

 private:
  bool IsPartOfExcess(int64_t more_ns, double share = kLeastCauseShare) const {
    const auto excess_ns = static_cast<double>(result_.duration_ns - result_.usual_ns);
    return static_cast<double>(more_ns) >= share * excess_ns;
  }

  // How much longer the step ran operators without gradients than its neighbors.
  absl::StatusOr<int64_t> MoreInference(store::CaptureReader& reader) const {
    std::vector<FindingScope::Stretch> stretches = {slow_};
    for (const size_t i : neighbors_) stretches.push_back(scope_.stretches[i]);
    ASSIGN_OR_RETURN(const std::vector<int64_t> times, InferenceTimes(reader, stretches));
    std::vector<int64_t> usual(times.begin() + 1, times.end());
    return Difference(times.front(), Median(usual));
  }

  // Returns whether it is a cause.
  bool Add(EvidenceKind kind, std::string name, int64_t more_ns, const std::string& detail) {
    if (!IsPartOfExcess(more_ns)) return false;
    Evidence evidence;
    evidence.kind = kind;
    evidence.name = std::move(name);
    evidence.step = slow_.step;
    evidence.duration_ns = more_ns;
    evidence.detail = StrCat("more than in neighboring steps", detail.empty() ? "" : "; ", detail);
    result_.causes.push_back(std::move(evidence));
    return true;
  }

  const FindingScope& scope_;
  const FindingScope::Stretch slow_;
  const std::vector<size_t> neighbors_;
  bool split_is_known_ = false;
  int64_t slower_calls_ns_ = 0;  // Of causes that neighbors called as often.
  int64_t more_calls_ns_ = 0;    // Of those that neighbors called less often.
  int64_t known_parts_ns_ = 0;   // Of kComparedParts but for time outside operators.
  SlowStep result_;
};

// How much shorter than the median the steps next to step `slow` are, in one direction.
int64_t MadeUpBy(std::span<const int64_t> lengths, size_t slow, int direction, int64_t median_ns) {
  const auto far_shorter =
      static_cast<int64_t>(kLeastOutlierExcess * static_cast<double>(median_ns));
  int64_t made_up_ns = 0;
  const auto count = static_cast<int64_t>(lengths.size());
  for (int64_t i = static_cast<int64_t>(slow) + direction; i >= 0 && i < count; i += direction) {
    const int64_t shorter_ns = median_ns - lengths[static_cast<size_t>(i)];
    if (shorter_ns > 0) made_up_ns += shorter_ns;
    if (shorter_ns < far_shorter) break;
  }
  return made_up_ns;
}

}  // namespace

std::optional<StepCharges> ChargesOf(const FindingScope& scope,
                                     const FindingThresholds& thresholds) {
  if (!scope.has_steps) return std::nullopt;
  std::vector<int64_t> lengths;
  lengths.reserve(scope.stretches.size());
  for (const FindingScope::Stretch& stretch : scope.stretches) lengths.push_back(LengthOf(stretch));
  const std::optional<OutlierBound> bound =
      BoundOfOutliers(lengths, thresholds.step_outlier_deviations);
  if (!bound.has_value()) return std::nullopt;
  StepCharges charges;
  charges.median_ns = bound->median_ns;
  charges.bound_ns = bound->bound_ns;
  charges.charged_ns.reserve(lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    charges.charged_ns.push_back(lengths[i] - MadeUpBy(lengths, i, -1, charges.median_ns) -
                                 MadeUpBy(lengths, i, 1, charges.median_ns));
  }
  return charges;
}

std::vector<bool> OutliersOf(const FindingScope& scope, const FindingThresholds& thresholds,
                             std::span<const int64_t> outside_ns) {
  std::vector<bool> outliers(scope.stretches.size());
  const std::optional<StepCharges> charges = ChargesOf(scope, thresholds);
  if (!charges.has_value()) return outliers;
  int64_t usual_outside_ns = 0;
  bool is_host_bound = false;
  if (outside_ns.size() == outliers.size()) {
    std::vector<int64_t> values(outside_ns.begin(), outside_ns.end());
    usual_outside_ns = Median(values);
    is_host_bound = static_cast<double>(usual_outside_ns) >
                    thresholds.host_outside_share * static_cast<double>(charges->median_ns);
  }
  for (size_t i = 0; i < outliers.size(); ++i) {
    const int64_t charged_ns = charges->charged_ns[i];
    outliers[i] = static_cast<double>(charged_ns) > charges->bound_ns;
    if (!outliers[i] || !is_host_bound) continue;
    const int64_t excess_ns = std::max<int64_t>(0, outside_ns[i] - usual_outside_ns);
    outliers[i] = outside_ns[i] > kUsualVariation * usual_outside_ns ||
                  static_cast<double>(charged_ns - excess_ns) > charges->bound_ns;
  }
  return outliers;
}

absl::StatusOr<SlowStep> ExplainSlowestStep(store::CaptureReader& reader, const FindingScope& scope,
                                            const TimeReport& time,
                                            const std::vector<bool>& outliers,
                                            const std::vector<bool>& of_these) {
  std::optional<size_t> slowest;
  for (size_t i = 0; i < of_these.size(); ++i) {
    if (!of_these[i]) continue;
    if (slowest.has_value() &&
        LengthOf(scope.stretches[i]) <= LengthOf(scope.stretches[*slowest])) {
      continue;
    }
    slowest = i;
  }
  if (!slowest.has_value()) return SlowStep();
  return ExplainStep(reader, scope, time, outliers, *slowest);
}

absl::StatusOr<SlowStep> ExplainStep(store::CaptureReader& reader, const FindingScope& scope,
                                     const TimeReport& time, const std::vector<bool>& outliers,
                                     size_t slow) {
  Explanation explanation(scope, slow, NeighborsOf(scope, slow, outliers));
  RETURN_IF_ERROR(explanation.AddParts(reader, time));
  RETURN_IF_ERROR(explanation.AddOps(reader));
  RETURN_IF_ERROR(explanation.AddSilence(reader));
  return explanation.Take();
}

}  // namespace profd::report
