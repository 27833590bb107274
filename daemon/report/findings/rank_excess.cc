#include "daemon/report/findings/rank_excess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/findings/host.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

// Of the slow rank's additional work. What explains less is left out.
constexpr double kLeastShare = 0.1;
// A second part with at least this share is named after the largest.
constexpr double kLeastShareOfSecond = 0.25;
constexpr double kMostly = 0.5;
// Names with fewer calls are of few steps: they do not make the median step longer.
constexpr double kFewestCalls = 0.5;
// Nor does a name whose difference is more than this many times the part to be explained.
constexpr double kTooMuch = 1.5;
// Nearly all of the time, in names that changed about as much as all of them together.
constexpr double kNearlyAll = 0.8;
constexpr size_t kFewestNamesForAll = 3;
constexpr size_t kMostNames = 3;
constexpr size_t kMostNameBytes = 80;  // In a sentence.

// ---- names: operators or kernels ----

// Of one name, in a step.
struct Use {
  double ns = 0;
  double calls = 0;

  double NsOfCall() const { return calls > 0 ? ns / calls : 0; }
};
using Uses = std::map<std::string, Use, std::less<>>;

double PerStep(int64_t value, const RankFigures& of) {
  return static_cast<double>(value) / static_cast<double>(of.time.steps.size());
}

Uses KernelsOf(const RankFigures& of) {
  Uses uses;
  for (const KernelRow& row : of.kernels.rows) {
    if (row.is_communication) continue;
    Use& use = uses[row.display_name];
    use.ns += PerStep(row.total_ns, of);
    use.calls += PerStep(row.count, of);
  }
  return uses;
}

bool IsFrameworkOperator(std::string_view name) {
  return name.find("::") != std::string_view::npos || MayBeAutogradNode(name);
}

// Without those that wait for other ranks or for data: these are parts of their own. Ranges of the
// program's own count only where nothing else does, as in HostSplit.
Uses OperatorsOf(const RankFigures& of) {
  const bool has_operators = std::ranges::any_of(
      of.ops.rows, [](const OpProfileRow& row) { return IsFrameworkOperator(row.name); });
  Uses uses;
  for (const OpProfileRow& row : of.ops.rows) {
    if (row.name == kStepRow || row.name.starts_with("enumerate(DataLoader)#") ||
        CollectiveOfRange(row.name).has_value() ||
        (has_operators && !IsFrameworkOperator(row.name))) {
      continue;
    }
    Use& use = uses[row.name];
    use.ns += PerStep(row.self_cpu_ns, of);
    use.calls += PerStep(row.calls, of);
  }
  return uses;
}

struct NameDifference {
  std::string name;
  Use use;                 // Of the slow rank.
  Use usual;               // Median of the others; with `instead_of`, of that name.
  size_t users = 0;        // Of the others, that have it.
  std::string instead_of;  // What the others run, and this rank does not; empty: nothing.

  double more_ns() const { return use.ns - usual.ns; }
};

struct NameDifferences {
  std::vector<NameDifference> rows;
  double usual_ns = 0;      // Of all names.
  double cut_share = 0;     // Call counts that differ by no more are the same: a step was cut.
  size_t others_count = 0;  // Ranks.

  bool HasSameCalls(double calls, double usual) const {
    return std::abs(calls - usual) <= cut_share * usual;
  }
  bool HasSameCalls(const NameDifference& row) const {
    return HasSameCalls(row.use.calls, row.usual.calls);
  }
  // What more calls add, and what longer calls add: together more_ns().
  double MoreByCalls(const NameDifference& row) const {
    if (HasSameCalls(row)) return 0;
    return row.usual.calls > 0 ? (row.use.calls - row.usual.calls) * row.usual.NsOfCall()
                               : row.more_ns();
  }
  double MoreByLength(const NameDifference& row) const { return row.more_ns() - MoreByCalls(row); }
};

// Takes out of `missing` the name that has as many calls as `row` and a time closest to its own.
void PairWith(std::vector<NameDifference>& missing, const NameDifferences& in,
              NameDifference& row) {
  auto closest = missing.end();
  for (auto it = missing.begin(); it != missing.end(); ++it) {
    if (!in.HasSameCalls(row.use.calls, it->usual.calls)) continue;
    if (closest == missing.end() ||
        std::abs(it->usual.ns - row.use.ns) < std::abs(closest->usual.ns - row.use.ns)) {
      closest = it;
    }
  }
  if (closest == missing.end()) return;
  row.instead_of = std::move(closest->name);
  row.usual = closest->usual;
  missing.erase(closest);
}

// `steps_of_slow`: how many steps there are for each slow one, among which the differences are
// spread.
NameDifferences Compare(const Uses& slow, const std::vector<Uses>& others, double steps,
                        double steps_of_slow) {
  NameDifferences differences = {.cut_share = std::min(0.1, 1 / steps) * steps_of_slow,
                                 .others_count = others.size()};
  std::map<std::string, std::vector<Use>, std::less<>> by_name;
  for (const auto& [name, use] : slow) by_name[name];
  for (const Uses& uses : others) {
    for (const auto& [name, use] : uses) by_name[name].push_back(use);
  }
  std::vector<NameDifference> missing;
  for (auto& [name, uses] : by_name) {
    NameDifference difference = {.name = name, .users = uses.size()};
    if (const auto found = slow.find(name); found != slow.end()) difference.use = found->second;
    uses.resize(others.size());  // Ranks that do not run it.
    std::vector<double> ns;
    std::vector<double> calls;
    ns.reserve(uses.size());
    calls.reserve(uses.size());
    for (const Use& use : uses) {
      ns.push_back(use.ns);
      calls.push_back(use.calls);
    }
    difference.usual = {.ns = ExactMedian(ns), .calls = ExactMedian(calls)};
    differences.usual_ns += difference.usual.ns;
    Use& use = difference.use;
    use.ns = std::max(0.0, std::lerp(difference.usual.ns, use.ns, steps_of_slow));
    use.calls = std::max(0.0, std::lerp(difference.usual.calls, use.calls, steps_of_slow));
    if (std::max(difference.use.calls, difference.usual.calls) < kFewestCalls) continue;
    (difference.use.calls == 0 ? missing : differences.rows).push_back(std::move(difference));
  }
  for (NameDifference& row : differences.rows) {
    if (row.users == 0) PairWith(missing, differences, row);
  }
  // What only the others run makes this rank's work less.
  std::ranges::move(missing, std::back_inserter(differences.rows));
  return differences;
}

std::string Time(double ns) { return TimeText(std::llround(ns)); }

// "20 calls", "0.5 calls"
std::string Calls(double calls) {
  const double whole = std::round(calls);
  if (std::abs(calls - whole) > 0.05 || whole == 0) return absl::StrFormat("%.2g calls", calls);
  return absl::StrFormat("%.0f %s", whole, whole == 1 ? "call" : "calls");
}

// "takes 6 ms in 1 call; none of 3 others call it"
std::string TextOf(const NameDifference& row, const NameDifferences& in) {
  const std::string takes = StrCat("takes ", Time(row.use.ns));
  if (!row.instead_of.empty()) {
    return StrCat(takes, " in ", Calls(row.use.calls), "; the others run ",
                  ForDisplay(row.instead_of, kMostNameBytes), " instead, for ", Time(row.usual.ns));
  }
  if (row.usual.calls == 0) {
    return StrCat(takes, " in ", Calls(row.use.calls), "; ",
                  row.users == 0 ? "none" : StrCat(row.users), " of ", in.others_count,
                  in.others_count == 1 ? " other calls it" : " others call it");
  }
  if (in.HasSameCalls(row)) {
    return StrCat(takes, " instead of ", Time(row.usual.ns), ", in as many calls");
  }
  return StrCat(takes, " in ", Calls(row.use.calls), " instead of ", Time(row.usual.ns), " in ",
                Calls(row.usual.calls));
}

// What names have in common, the answer to "why does this part take longer?"
struct NamesExplained {
  std::string text;  // Empty: names do not explain it.
  std::string advice;
  std::vector<const NameDifference*> named;
};

// The words that differ between operators and kernels.
struct Words {
  std::string_view names;  // "kernels"
  std::string_view more;   // Advice where there are more calls, likewise below.
  std::string_view other;
  std::string_view longer;
  std::string_view all_longer;
};

constexpr std::string_view kDivision =
    "Check how the model and the data are divided among the ranks: this rank has more to do.";
constexpr Words kKernelWords = {
    .names = "kernels",
    .more = kDivision,
    .other =
        "Let all ranks use the same kernels: libraries that choose by trial "
        "(torch.backends.cudnn.benchmark, autotuning) may choose differently on each rank.",
    .longer =
        "Compare the inputs of the ranks (`profctl ops CAPTURE --group-by input_shape`): longer "
        "sequences or larger batches make the same kernels longer. If they are alike, "
        "compare the GPUs (`nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE`).",
    .all_longer =
        "Compare this GPU's clocks, temperature, and power limit with those of another "
        "rank (`nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE`), and see whether another "
        "process uses it. If those are alike, compare the inputs of the ranks."};
constexpr Words kOperatorWords = {
    .names = "operators",
    .more = kDivision,
    .other = kDivision,
    .longer =
        "Compare the inputs of the ranks (`profctl ops CAPTURE --group-by input_shape`), and what "
        "else runs on this rank's host.",
    .all_longer =
        "Look at this rank's host: other processes, the CPUs that the rank may use "
        "(`taskset -p PID`), and their clock. If those are alike, compare the inputs of "
        "the ranks."};

// Whether names with nearly all of the time changed by about as much as all of them together, or
// more: `ratio_of` is 1 for one that did not change.
template <typename RatioOf>
bool IsOfNearlyAll(const NameDifferences& differences, double ratio, RatioOf ratio_of) {
  double alike_ns = 0;
  size_t alike = 0;
  for (const NameDifference& row : differences.rows) {
    if (row.usual.ns <= 0 || ratio_of(row) < 1 + (ratio - 1) / 2) continue;
    alike_ns += row.usual.ns;
    ++alike;
  }
  return ratio > 1 && alike >= kFewestNamesForAll && alike_ns >= kNearlyAll * differences.usual_ns;
}

NamesExplained ExplainNames(const NameDifferences& differences, double part_ns,
                            const Words& words) {
  // Why a name takes longer: it is called more often, its calls are longer, or it is another one.
  enum Cause { kCalls, kLength, kOther };
  std::array<double, 3> sums{};
  std::array<std::vector<const NameDifference*>, 3> rows;
  for (const NameDifference& row : differences.rows) {
    if (row.more_ns() > kTooMuch * part_ns) continue;
    const double by_calls = differences.MoreByCalls(row);
    const double by_length = differences.MoreByLength(row);
    if (row.instead_of.empty()) {
      sums[kCalls] += by_calls;
      sums[kLength] += by_length;
    } else {
      sums[kOther] += row.more_ns();
    }
    if (row.more_ns() < kLeastShare * part_ns) continue;
    rows.at(row.instead_of.empty() ? (by_calls > by_length ? kCalls : kLength) : kOther)
        .push_back(&row);
  }
  const auto largest = static_cast<size_t>(std::ranges::max_element(sums) - sums.begin());
  NamesExplained explained;
  if (sums.at(largest) < kMostly * part_ns) return explained;
  explained.named = std::move(rows.at(largest));
  std::ranges::stable_sort(explained.named, [](const NameDifference* a, const NameDifference* b) {
    return a->more_ns() > b->more_ns();
  });
  if (explained.named.size() > kMostNames) explained.named.resize(kMostNames);
  const double ratio = differences.usual_ns > 0 ? 1 + sums.at(largest) / differences.usual_ns : 0;
  const auto calls_ratio = [&](const NameDifference& row) {
    return differences.HasSameCalls(row) ? 1 : row.use.calls / row.usual.calls;
  };
  const auto length_ratio = [](const NameDifference& row) {
    return row.use.NsOfCall() / row.usual.NsOfCall();
  };
  if (largest == kLength && IsOfNearlyAll(differences, ratio, length_ratio)) {
    explained.text = StrCat("calls of nearly all ", words.names, " take longer, by ",
                            PercentText(ratio - 1), " together");
    explained.advice = words.all_longer;
    return explained;
  }
  if (explained.named.empty()) {
    if (largest != kCalls || !IsOfNearlyAll(differences, ratio, calls_ratio)) return explained;
    explained.text = StrCat("nearly all ", words.names, " are called more often, by ",
                            PercentText(ratio - 1), " together");
    explained.advice = words.more;
    return explained;
  }
  const NameDifference& first = *explained.named.front();
  explained.text = StrCat(ForDisplay(first.name, kMostNameBytes), " ", TextOf(first, differences));
  explained.advice = largest == kCalls    ? words.more
                     : largest == kLength ? words.longer
                                          : words.other;
  if (largest == kCalls && IsOfNearlyAll(differences, ratio, calls_ratio)) {
    explained.text = StrCat("nearly all ", words.names, " are called more often; ", explained.text);
  }
  return explained;
}

// ---- parts of a step ----

enum class RankPartKind { kCompute, kCopies, kDataLoader, kCompilation, kOperators, kOutside };

struct RankPart {
  RankPartKind kind;
  std::string_view name;    // Of the evidence.
  std::string_view before;  // The sentence is: name of the rank, this, the time, and
  std::string_view after;   // this.
  std::string_view advice;
  int64_t (*time_ns)(const TimeStep&);
};

constexpr std::array<RankPart, 2> kGpuParts = {{
    {RankPartKind::kCompute, "computing on the GPU", "spends ", " more per step in GPU compute", "",
     [](const TimeStep& step) { return step.device.compute_ns; }},
    {RankPartKind::kCopies, "exposed copies", "spends ", " more per step in exposed copies",
     "Look at what this rank copies that the others do not (`profctl copies CAPTURE`), and at how "
     "its GPU is connected (`nvidia-smi topo -m`).",
     [](const TimeStep& step) { return step.device.exposed_copy_ns; }},
}};
constexpr std::array<RankPart, 4> kHostParts = {{
    {RankPartKind::kDataLoader, "waiting for the data loader", "waits ",
     " longer per step for its data loader",
     "Look at how this rank gets its data: the disk or the network of its node, its loader's "
     "workers and their CPUs, and the size of its samples.",
     [](const TimeStep& step) { return step.host.data_loader_ns; }},
    {RankPartKind::kCompilation, "compilation by torch.compile", "compiles for ", " more per step",
     "Look at what this rank compiles in its steps (`profctl compile CAPTURE`): inputs whose "
     "shapes differ from those of the other ranks are compiled again.",
     [](const TimeStep& step) { return step.host.compile_ns; }},
    {RankPartKind::kOperators, "operators on the host", "spends ",
     " more per step in operators on its host", "",
     [](const TimeStep& step) { return step.host.operators_ns; }},
    {RankPartKind::kOutside, "host time outside operators", "spends ",
     " more per step outside operators on its host",
     "Look at what this rank alone does between operators, such as logging, evaluation, or "
     "checkpoints, and at what else runs on its host.",
     [](const TimeStep& step) { return step.host.outside_ns; }},
}};

// `numbers`: of these steps, in order; empty: of all.
double MedianOfSteps(const RankFigures& of, std::span<const int64_t> numbers,
                     int64_t (*time_ns)(const TimeStep&)) {
  std::vector<int64_t> values;
  values.reserve(of.time.steps.size());
  for (const TimeStep& step : of.time.steps) {
    if (numbers.empty() || std::ranges::binary_search(numbers, step.index)) {
      values.push_back(time_ns(step));
    }
  }
  return ExactMedian(values);
}

class Comparison {
 public:
  Comparison(std::string_view name, const RankFigures& slow, std::span<const RankFigures> others,
             int64_t more_ns, std::span<const int64_t> slow_steps)
      : name_(name),
        slow_(slow),
        others_(others),
        more_ns_(static_cast<double>(more_ns)),
        slow_steps_(slow_steps),
        steps_of_slow_(slow_steps.empty() ? 1
                                          : static_cast<double>(slow.time.steps.size()) /
                                                static_cast<double>(slow_steps.size())) {}

  RankExcess Explain(RankExcess excess) {
    const auto has_device = [](const RankFigures& of) { return of.time.has_device; };
    const auto has_host = [](const RankFigures& of) { return of.time.host_needs.empty(); };
    const bool of_gpu = has_device(slow_) && std::ranges::all_of(others_, has_device);
    if (of_gpu) {
      for (const RankPart& part : kGpuParts) Add(part, Difference(part.time_ns));
    }
    if (has_host(slow_) && std::ranges::all_of(others_, has_host)) AddHostParts(of_gpu);
    std::ranges::stable_sort(
        found_, [](const Found& a, const Found& b) { return a.counted_ns > b.counted_ns; });
    if (found_.empty()) return excess;
    if (excess.text.empty()) {
      excess.text = StrCat("Compared with ", CountText(std::ssize(others_), "other rank"),
                           slow_steps_.empty() ? "" : " in these steps", ", ", name_, " ");
    } else {
      excess.text += " It also ";
    }
    std::string advice;  // On the largest part.
    for (size_t i = 0; i < found_.size(); ++i) {
      if (i > 1 || (i == 1 && found_[i].counted_ns < kLeastShareOfSecond * more_ns_)) break;
      excess.text += i == 0 ? "" : ", and ";
      std::string of_part = Tell(found_[i], excess);
      if (advice.empty()) advice = std::move(of_part);
    }
    excess.text += ".";
    if (!advice.empty()) StrAppend(&excess.advice, excess.advice.empty() ? "" : " ", advice);
    return excess;
  }

 private:
  struct Found {
    const RankPart* part;
    double ns;          // More than the others.
    double counted_ns;  // Of that, what makes the rank slow.
  };

  double Difference(int64_t (*time_ns)(const TimeStep&)) const {
    std::vector<double> usual;
    usual.reserve(others_.size());
    for (const RankFigures& other : others_) {
      usual.push_back(MedianOfSteps(other, slow_steps_, time_ns));
    }
    return MedianOfSteps(slow_, slow_steps_, time_ns) - ExactMedian(usual);
  }

  void Add(const RankPart& part, double ns) { Add(part, ns, ns); }
  void Add(const RankPart& part, double ns, double counted_ns) {
    if (counted_ns <= 0 || counted_ns < kLeastShare * more_ns_) return;
    found_.push_back({.part = &part, .ns = ns, .counted_ns = counted_ns});
  }

  // The host makes a rank with a GPU slow by as much as it leaves that idle: the longest part
  // counts first, and no idle time counts twice.
  void AddHostParts(bool of_gpu) {
    std::vector<std::pair<double, const RankPart*>> parts;
    parts.reserve(kHostParts.size());
    for (const RankPart& part : kHostParts) parts.emplace_back(Difference(part.time_ns), &part);
    std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
    double left_ns =
        of_gpu ? Difference([](const TimeStep& step) { return step.device.idle_ns; }) : more_ns_;
    for (const auto& [ns, part] : parts) {
      const double counted_ns = of_gpu ? std::min(ns, left_ns) : ns;
      Add(*part, ns, counted_ns);
      left_ns -= std::max(0.0, counted_ns);
    }
  }

  // Returns its advice.
  std::string Tell(const Found& found, RankExcess& excess) const {
    const RankPart& part = *found.part;
    StrAppend(&excess.text, part.before, Time(found.ns), part.after);
    std::string detail;
    if (found.counted_ns < found.ns) {
      detail = StrCat("its GPU is idle for ", Time(found.counted_ns), " of it");
      StrAppend(&excess.text, " (", detail, ")");
    }
    AddEvidence(EvidenceKind::kStep, std::string(part.name), found.ns, detail, excess);
    std::string advice(part.advice);
    if (part.kind == RankPartKind::kCompute) {
      TellNames(EvidenceKind::kKernel, &KernelsOf, found.ns, kKernelWords, advice, excess);
    } else if (part.kind == RankPartKind::kOperators) {
      TellNames(EvidenceKind::kOp, &OperatorsOf, found.ns, kOperatorWords, advice, excess);
    } else if (part.kind == RankPartKind::kOutside) {
      TellPlace(found.ns, excess);
    }
    return advice;
  }

  void TellNames(EvidenceKind kind, Uses (*uses_of)(const RankFigures&), double part_ns,
                 const Words& words, std::string& advice, RankExcess& excess) const {
    std::vector<Uses> others;
    others.reserve(others_.size());
    for (const RankFigures& other : others_) others.push_back(uses_of(other));
    const NameDifferences differences = Compare(
        uses_of(slow_), others, static_cast<double>(slow_.time.steps.size()), steps_of_slow_);
    const NamesExplained explained = ExplainNames(differences, part_ns, words);
    if (!explained.text.empty()) StrAppend(&excess.text, ": ", explained.text);
    advice = explained.advice;
    for (const NameDifference* difference : explained.named) {
      AddEvidence(kind, difference->name, difference->more_ns(),
                  StrCat("it ", TextOf(*difference, differences)), excess);
    }
  }

  // Where most of the time outside operators is that the others do not spend there.
  void TellPlace(double part_ns, RankExcess& excess) const {
    const auto total_ns = [](const RankFigures& of, const HostGapRow& place) {
      const std::vector<HostGapRow>& rows = of.time.host_gap_table.rows;
      int64_t sum_ns = 0;
      for (const HostGapRow& row : rows) {
        if (row.after == place.after && row.before == place.before) AddTo(sum_ns, row.total_ns);
      }
      // It may be one of those without a row, which have less time than the last one.
      if (sum_ns == 0 && rows.size() >= kMostHostGapRows) sum_ns = rows.back().total_ns;
      return PerStep(sum_ns, of);
    };
    for (const HostGapRow& row : slow_.time.host_gap_table.rows) {
      std::vector<double> usual;
      usual.reserve(others_.size());
      for (const RankFigures& other : others_) usual.push_back(total_ns(other, row));
      const double ns = (total_ns(slow_, row) - ExactMedian(usual)) * steps_of_slow_;
      if (ns < kMostly * part_ns) continue;
      StrAppend(&excess.text, ": ", Time(ns), " ", PlaceOf(row));
      AddEvidence(EvidenceKind::kCode, PlaceOf(row), ns, "", excess);
      return;
    }
  }

  static void AddEvidence(EvidenceKind kind, std::string name, double ns, const std::string& detail,
                          RankExcess& excess) {
    Evidence& evidence = excess.evidence.emplace_back();
    evidence.kind = kind;
    evidence.name = std::move(name);
    evidence.duration_ns = std::llround(ns);
    evidence.detail =
        StrCat("above the others' median, per step", detail.empty() ? "" : "; ", detail);
  }

  const std::string_view name_;
  const RankFigures& slow_;
  const std::span<const RankFigures> others_;
  const double more_ns_;
  const std::span<const int64_t> slow_steps_;  // Empty: it is slow in all.
  const double steps_of_slow_;                 // Steps for each slow one.
  std::vector<Found> found_;
};

}  // namespace

RankExcess ExplainRankByCpuWaits(std::string_view name, const RankScore& slow,
                                 std::span<const RankScore> ranking) {
  if (slow.slow_by_cpu_waits != CpuWaitCause::kPossible) return {};
  std::vector<int64_t> others_ns;
  int64_t unknown_count = 0;
  for (const RankScore& rank : ranking) {
    if (rank.member == slow.member) continue;
    if (rank.cpu_wait_ns < 0) {
      ++unknown_count;
    } else {
      others_ns.push_back(rank.cpu_wait_ns);
    }
  }
  const int64_t other_count = std::ssize(others_ns) + unknown_count;
  RankExcess excess;
  excess.text = StrCat("Compared with ", CountText(other_count, "other rank"), ", ", name,
                       others_ns.empty() ? " waits for a CPU: " : " waits longer for a CPU: ",
                       TimeText(slow.cpu_wait_ns), " per step");
  std::string detail = "per step";
  if (!others_ns.empty()) {
    const std::string usual = TimeText(Median(others_ns));
    StrAppend(&excess.text, " instead of ", usual);
    StrAppend(&detail, "; the others' median is ", usual);
  }
  StrAppend(&excess.text,
            ", which can be at least half of its additional work. All that runs on its host then "
            "takes longer.");
  if (unknown_count > 0) {
    const std::string unknown =
        unknown_count == other_count
            ? std::string("the waits of the other ranks are not known")
            : StrCat("the waits of ", CountText(unknown_count, "other rank"), " are not known");
    StrAppend(&excess.text, " But ", unknown, ".");
    StrAppend(&detail, "; ", unknown);
  }
  excess.advice =
      "Look at what else runs on this rank's node, such as another job or more ranks than CPUs. "
      "Give the rank CPUs of its own (`taskset -p PID` shows them; cpusets, --cpus-per-task of "
      "Slurm), or run fewer threads (OMP_NUM_THREADS).";
  Evidence& evidence = excess.evidence.emplace_back();
  evidence.kind = EvidenceKind::kStep;
  evidence.name = "waiting for a CPU";
  evidence.duration_ns = slow.cpu_wait_ns;
  evidence.detail = std::move(detail);
  return excess;
}

RankExcess ExplainRank(std::string_view name, const RankFigures& slow,
                       std::span<const RankFigures> others, int64_t more_ns,
                       RankExcess by_cpu_waits, std::span<const int64_t> slow_steps) {
  const auto has_steps = [&](const RankFigures& of) {
    return std::ranges::any_of(of.time.steps, [&](const TimeStep& step) {
      return slow_steps.empty() || std::ranges::binary_search(slow_steps, step.index);
    });
  };
  if (others.empty() || more_ns <= 0 || !has_steps(slow) ||
      !std::ranges::all_of(others, has_steps)) {
    return by_cpu_waits;
  }
  return Comparison(name, slow, others, more_ns, slow_steps).Explain(std::move(by_cpu_waits));
}

}  // namespace profd::report
