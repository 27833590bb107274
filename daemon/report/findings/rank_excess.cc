#include "daemon/report/findings/rank_excess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/substitute.h"
#include "daemon/base/median.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/findings/host.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/index/collective_names.h"

namespace profd::report {
namespace {

// Of the slow rank's additional work. What explains less is left out.
constexpr double kLeastShare = 0.1;
// A second part is told, too, from this on.
constexpr double kLeastShareOfSecond = 0.25;
constexpr double kMostly = 0.5;
constexpr size_t kMostNames = 3;
constexpr size_t kMostNameBytes = 80;  // In a sentence.
// Numbers of calls in a step that differ by less are the same: a window may cut a step.
constexpr double kSameCalls = 0.1;
// Nearly all of the time, in names that take about as much longer as all of them together.
constexpr double kNearlyAll = 0.8;
constexpr size_t kFewestNamesForAll = 3;

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

// Without those that wait for other ranks or for data: these are parts of their own.
Uses OperatorsOf(const RankFigures& of) {
  Uses uses;
  for (const OpProfileRow& row : of.ops.rows) {
    if (row.name.starts_with("ProfilerStep#") || row.name.starts_with("enumerate(DataLoader)#") ||
        CollectiveOfRange(row.name).has_value()) {
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
  Use use;    // Of the slow rank.
  Use usual;  // Of the others.

  double more_ns() const { return use.ns - usual.ns; }
  bool HasSameCalls() const {
    return std::abs(use.calls - usual.calls) <= kSameCalls * usual.calls;
  }
};

std::vector<NameDifference> Differences(const Uses& slow, const std::vector<Uses>& others) {
  std::map<std::string, std::vector<Use>, std::less<>> by_name;
  for (const auto& [name, use] : slow) by_name[name];
  for (const Uses& uses : others) {
    for (const auto& [name, use] : uses) by_name[name].push_back(use);
  }
  std::vector<NameDifference> differences;
  for (auto& [name, uses] : by_name) {
    NameDifference& difference = differences.emplace_back();
    difference.name = name;
    if (const auto found = slow.find(name); found != slow.end()) difference.use = found->second;
    uses.resize(others.size());  // Ranks that do not run it.
    std::vector<double> ns;
    std::vector<double> calls;
    for (const Use& use : uses) {
      ns.push_back(use.ns);
      calls.push_back(use.calls);
    }
    difference.usual = {.ns = ExactMedian(ns), .calls = ExactMedian(calls)};
  }
  return differences;
}

std::string Time(double ns) { return TimeText(std::llround(ns)); }

// "20", "0.5"
std::string Calls(double calls) {
  const double whole = std::round(calls);
  if (std::abs(calls - whole) <= kSameCalls) return absl::StrFormat("%.0f", whole);
  return absl::StrFormat("%.1f", calls);
}

// "takes 6 ms in 1 call, and is not called elsewhere"
std::string TextOf(const NameDifference& difference) {
  const Use& use = difference.use;
  const Use& usual = difference.usual;
  if (usual.calls == 0) {
    return StrCat("takes ", Time(use.ns), " in ", Calls(use.calls),
                  Calls(use.calls) == "1" ? " call" : " calls", ", and is not called elsewhere");
  }
  if (difference.HasSameCalls()) {
    return StrCat("takes ", Time(use.ns), " instead of ", Time(usual.ns), " in as many calls");
  }
  return StrCat("takes ", Time(use.ns), " instead of ", Time(usual.ns), " in ", Calls(use.calls),
                " calls instead of ", Calls(usual.calls));
}

// What names have in common, the answer to "why does this part take longer?"
struct NamesExplained {
  std::string text;  // Empty: no name explains it.
  std::string advice;
  std::vector<const NameDifference*> named;
};

// The words that differ between operators and kernels.
struct Words {
  std::string_view names;  // "kernels"
  std::string_view more;   // Advice where there are more calls, likewise below.
  std::string_view longer;
  std::string_view all_longer;
};

constexpr Words kKernelWords = {
    .names = "kernels",
    .more =
        "Check how the model and the data are divided among the ranks: this rank launches work "
        "that the others do not.",
    .longer =
        "Compare the inputs of the ranks (`profctl ops CAPTURE --by-inputs`): longer "
        "sequences or larger batches make the same kernels longer. If they are alike, "
        "compare the GPUs (`nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE`).",
    .all_longer =
        "Compare this GPU's clocks, temperature, and power limit with those of another "
        "rank (`nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE`), and see whether another "
        "process uses it. If those are alike, its inputs are larger."};
constexpr Words kOperatorWords = {
    .names = "operators",
    .more =
        "Check how the model and the data are divided among the ranks: this rank runs operators "
        "that the others do not.",
    .longer =
        "Compare the inputs of the ranks (`profctl ops CAPTURE --by-inputs`), and what else "
        "runs on this rank's host.",
    .all_longer =
        "Look at this rank's host: other processes, the CPUs that the rank may use "
        "(`taskset -p PID`), and their clock. If that is alike, its inputs are larger."};
constexpr std::string_view kOtherKernels =
    "Let all ranks use the same kernels: libraries that choose by trial "
    "(torch.backends.cudnn.benchmark, autotuning) may choose differently on each rank.";

NamesExplained ExplainNames(const std::vector<NameDifference>& differences, double part_ns,
                            const Words& words) {
  std::vector<const NameDifference*> more;
  std::vector<const NameDifference*> longer;
  const NameDifference* missing = nullptr;  // What the others run most of that this rank does not.
  double more_ns = 0;
  double longer_ns = 0;
  Use same;   // All names with as many calls.
  Use usual;  // The same of the others.
  for (const NameDifference& difference : differences) {
    if (difference.HasSameCalls()) {
      same.ns += difference.use.ns;
      usual.ns += difference.usual.ns;
    } else if (difference.use.calls == 0 &&
               (missing == nullptr || difference.usual.ns > missing->usual.ns)) {
      missing = &difference;
    }
    if (difference.more_ns() <= 0) continue;
    (difference.HasSameCalls() ? longer : more).push_back(&difference);
    (difference.HasSameCalls() ? longer_ns : more_ns) += difference.more_ns();
  }
  const auto by_time = [](const NameDifference* a, const NameDifference* b) {
    return a->more_ns() > b->more_ns();
  };
  std::ranges::stable_sort(more, by_time);
  std::ranges::stable_sort(longer, by_time);
  NamesExplained explained;
  const auto name_those = [&](const std::vector<const NameDifference*>& those) {
    for (const NameDifference* difference : those) {
      if (explained.named.size() == kMostNames || difference->more_ns() < kLeastShare * part_ns)
        break;
      explained.named.push_back(difference);
    }
  };
  if (std::max(more_ns, longer_ns) < kLeastShare * part_ns) return explained;
  if (more_ns >= longer_ns) {
    name_those(more);
    if (explained.named.empty()) return explained;
    const NameDifference& first = *explained.named.front();
    explained.text = StrCat(ForDisplay(first.name, kMostNameBytes), " ", TextOf(first));
    explained.advice = words.more;
    if (first.usual.calls == 0 && missing != nullptr &&
        missing->usual.ns >= kLeastShare * first.use.ns) {
      explained.text = StrCat(ForDisplay(first.name, kMostNameBytes), " takes ", Time(first.use.ns),
                              " where other ranks run ", ForDisplay(missing->name, kMostNameBytes),
                              " for ", Time(missing->usual.ns));
      if (&words == &kKernelWords) explained.advice = kOtherKernels;
    }
    return explained;
  }
  name_those(longer);
  // As much longer as all together, or nearly.
  const double ratio = usual.ns > 0 ? same.ns / usual.ns : 0;
  double alike_ns = 0;
  size_t alike = 0;
  for (const NameDifference* difference : longer) {
    if (difference->use.ns < difference->usual.ns * (1 + (ratio - 1) / 2)) continue;
    alike_ns += difference->usual.ns;
    ++alike;
  }
  if (alike >= kFewestNamesForAll && alike_ns >= kNearlyAll * usual.ns) {
    explained.text = StrCat("nearly all ", words.names, " take longer, by ", PercentText(ratio - 1),
                            " together, in as many calls");
    explained.advice = words.all_longer;
  } else if (!explained.named.empty()) {
    const NameDifference& first = *explained.named.front();
    explained.text = StrCat(ForDisplay(first.name, kMostNameBytes), " ", TextOf(first));
    explained.advice = words.longer;
  }
  return explained;
}

// ---- parts of a step ----

enum class RankPartKind { kCompute, kCopies, kDataLoader, kCompilation, kOperators, kOutside };

struct RankPart {
  RankPartKind kind;
  std::string_view name;  // Of the evidence.
  std::string_view text;  // $0: the rank's name, $1: the time.
  std::string_view advice;
  int64_t (*time_ns)(const TimeStep&);
};

constexpr std::array<RankPart, 2> kGpuParts = {{
    {RankPartKind::kCompute, "computing on the GPU", "the GPU of $0 computes for $1 a step more",
     "", [](const TimeStep& step) { return step.device.compute_ns; }},
    {RankPartKind::kCopies, "copies that nothing hides",
     "copies of $0 that nothing hides take $1 a step more",
     "Look at what this rank copies that the others do not (`profctl copies CAPTURE`), and at how "
     "its GPU is connected (`nvidia-smi topo -m`).",
     [](const TimeStep& step) { return step.device.exposed_copy_ns; }},
}};
constexpr std::array<RankPart, 4> kHostParts = {{
    {RankPartKind::kDataLoader, "waiting for the data loader",
     "$0 waits for its data loader for $1 a step more",
     "Look at how this rank gets its data: the disk or the network of its node, its loader's "
     "workers and their CPUs, and the size of its samples.",
     [](const TimeStep& step) { return step.host.data_loader_ns; }},
    {RankPartKind::kCompilation, "compilation by torch.compile", "$0 compiles for $1 a step more",
     "Look at what this rank compiles in its steps (`profctl compile CAPTURE`): inputs whose "
     "shapes differ from those of the other ranks are compiled anew.",
     [](const TimeStep& step) { return step.host.compile_ns; }},
    {RankPartKind::kOperators, "operators on the host",
     "operators of $0 take $1 a step more on the host", "",
     [](const TimeStep& step) { return step.host.operators_ns; }},
    {RankPartKind::kOutside, "host time outside operators",
     "the host of $0 spends $1 a step more outside operators",
     "Look at what this rank alone does between operators, such as logging, evaluation, or "
     "checkpoints, and at what else runs on its host.",
     [](const TimeStep& step) { return step.host.outside_ns; }},
}};

double MedianOfSteps(const RankFigures& of, int64_t (*time_ns)(const TimeStep&)) {
  std::vector<int64_t> values;
  values.reserve(of.time.steps.size());
  for (const TimeStep& step : of.time.steps) values.push_back(time_ns(step));
  return ExactMedian(values);
}

class Comparison {
 public:
  Comparison(std::string_view name, const RankFigures& slow, std::span<const RankFigures> others,
             int64_t more_ns)
      : name_(name), slow_(slow), others_(others), more_ns_(static_cast<double>(more_ns)) {}

  RankExcess Explain() {
    const auto has_device = [](const RankFigures& of) { return of.time.has_device; };
    const auto has_host = [](const RankFigures& of) { return of.time.host_needs.empty(); };
    double host_ns = more_ns_;
    if (has_device(slow_) && std::ranges::all_of(others_, has_device)) {
      for (const RankPart& part : kGpuParts) Add(part, Difference(part.time_ns));
      // The host's parts make a rank with a GPU slow by as much as they leave it idle.
      host_ns = Difference([](const TimeStep& step) { return step.device.idle_ns; });
    }
    if (has_host(slow_) && std::ranges::all_of(others_, has_host)) {
      for (const RankPart& part : kHostParts)
        Add(part, std::min(host_ns, Difference(part.time_ns)));
    }
    std::ranges::stable_sort(found_, [](const Found& a, const Found& b) { return a.ns > b.ns; });
    if (found_.empty()) return {};
    RankExcess excess;
    excess.text = StrCat("Compared with ", CountText(std::ssize(others_), "other rank"), ", ");
    for (size_t i = 0; i < found_.size(); ++i) {
      if (i > 1 || (i == 1 && found_[i].ns < kLeastShareOfSecond * more_ns_)) break;
      excess.text += i == 0 ? "" : ", and ";
      Tell(found_[i], excess);
    }
    excess.text += ".";
    return excess;
  }

 private:
  struct Found {
    const RankPart* part;
    double ns;  // More than the others.
  };

  double Difference(int64_t (*time_ns)(const TimeStep&)) const {
    std::vector<double> usual;
    usual.reserve(others_.size());
    for (const RankFigures& other : others_) usual.push_back(MedianOfSteps(other, time_ns));
    return MedianOfSteps(slow_, time_ns) - ExactMedian(usual);
  }

  void Add(const RankPart& part, double ns) {
    if (ns > 0 && ns >= kLeastShare * more_ns_) found_.push_back({.part = &part, .ns = ns});
  }

  void Tell(const Found& found, RankExcess& excess) const {
    absl::SubstituteAndAppend(&excess.text, ToAbsl(found.part->text), ToAbsl(name_),
                              Time(found.ns));
    AddEvidence(EvidenceKind::kStep, std::string(found.part->name), found.ns, "", excess);
    std::string advice(found.part->advice);
    if (found.part->kind == RankPartKind::kCompute) {
      TellNames(EvidenceKind::kKernel, &KernelsOf, found.ns, kKernelWords, advice, excess);
    } else if (found.part->kind == RankPartKind::kOperators) {
      TellNames(EvidenceKind::kOp, &OperatorsOf, found.ns, kOperatorWords, advice, excess);
    } else if (found.part->kind == RankPartKind::kOutside) {
      TellPlace(found.ns, excess);
    }
    if (excess.advice.empty()) excess.advice = std::move(advice);  // Of the largest part.
  }

  void TellNames(EvidenceKind kind, Uses (*uses_of)(const RankFigures&), double part_ns,
                 const Words& words, std::string& advice, RankExcess& excess) const {
    std::vector<Uses> others;
    others.reserve(others_.size());
    for (const RankFigures& other : others_) others.push_back(uses_of(other));
    const std::vector<NameDifference> differences = Differences(uses_of(slow_), others);
    const NamesExplained explained = ExplainNames(differences, part_ns, words);
    if (!explained.text.empty()) StrAppend(&excess.text, ": ", explained.text);
    advice = explained.advice;
    for (const NameDifference* difference : explained.named) {
      AddEvidence(kind, difference->name, difference->more_ns(), TextOf(*difference), excess);
    }
  }

  // Where most of the time outside operators is that the others do not spend there.
  void TellPlace(double part_ns, RankExcess& excess) const {
    const auto total_ns = [](const RankFigures& of, const HostGapRow& place) {
      int64_t sum_ns = 0;
      for (const HostGapRow& row : of.time.host_gap_table.rows) {
        if (row.after == place.after && row.before == place.before) sum_ns += row.total_ns;
      }
      return PerStep(sum_ns, of);
    };
    for (const HostGapRow& row : slow_.time.host_gap_table.rows) {
      std::vector<double> usual;
      for (const RankFigures& other : others_) usual.push_back(total_ns(other, row));
      const double ns = total_ns(slow_, row) - ExactMedian(usual);
      if (ns < kMostly * part_ns) continue;
      StrAppend(&excess.text, ": ", Time(ns), " ", PlaceOf(row));
      AddEvidence(EvidenceKind::kCode, PlaceOf(row), ns, "", excess);
      return;
    }
  }

  static void AddEvidence(EvidenceKind kind, std::string name, double ns, std::string detail,
                          RankExcess& excess) {
    Evidence& evidence = excess.evidence.emplace_back();
    evidence.kind = kind;
    evidence.name = std::move(name);
    evidence.duration_ns = std::llround(ns);
    evidence.detail = StrCat("more a step than elsewhere", detail.empty() ? "" : "; it ", detail);
  }

  const std::string_view name_;
  const RankFigures& slow_;
  const std::span<const RankFigures> others_;
  const double more_ns_;
  std::vector<Found> found_;
};

}  // namespace

RankExcess ExplainRank(std::string_view name, const RankFigures& slow,
                       std::span<const RankFigures> others, int64_t more_ns) {
  const auto has_steps = [](const RankFigures& of) { return !of.time.steps.empty(); };
  if (others.empty() || more_ns <= 0 || !has_steps(slow) ||
      !std::ranges::all_of(others, has_steps)) {
    return {};
  }
  return Comparison(name, slow, others, more_ns).Explain();
}

}  // namespace profd::report
