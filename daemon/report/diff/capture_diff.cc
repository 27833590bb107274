#include "daemon/report/diff/capture_diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/slowdown.h"
#include "daemon/report/findings/rules.h"
#include "daemon/report/index/op_kinds.h"

namespace profd::report {
namespace {

constexpr size_t kMostCommandBytes = 200;
constexpr size_t kMostNameBytes = 80;  // In a sentence.
// Of the step's change: a part or name that explains less is not named.
constexpr double kLeastShare = 0.25;
constexpr double kMostly = 0.5;
// Shares and ratios that differ by no more are the same.
constexpr double kSameShare = 0.03;
constexpr double kSameFlops = 0.01;
// Calls of a name per step: a window is cut at the marks of steps, so that one call more or less of
// its asynchronous work may be in it.
constexpr double kMostCutShare = 0.1;
// How much longer or shorter a call is that is called so.
constexpr double kSameLength = 0.1;

constexpr std::string_view kGpuSide = "gpu";
constexpr std::string_view kHostSide = "host";

// Of a hostile file, sums may be larger than any time; two of these can be subtracted.
int64_t Rounded(double ns) { return std::llround(std::clamp(ns, -4e18, 4e18)); }

// What the sums over a capture are divided by.
double DivisorOf(const DiffSide& side, bool per_step) {
  if (per_step) return static_cast<double>(side.figures.time.steps.size());
  const double seconds = static_cast<double>(side.record.covered_ns) / 1e9;
  return seconds > 0 ? seconds : 1;
}

// ---- parts of a step ----

struct PartOfStep {
  std::string_view side;
  std::string_view name;
  int64_t (*time_ns)(const TimeStep&);
};

constexpr std::array<PartOfStep, 13> kParts = {{
    {kGpuSide, "compute", [](const TimeStep& step) { return step.device.compute_ns; }},
    {kGpuSide, "exposed communication",
     [](const TimeStep& step) { return step.device.exposed_communication_ns; }},
    {kGpuSide, "exposed copies", [](const TimeStep& step) { return step.device.exposed_copy_ns; }},
    {kGpuSide, "idle: host wait",
     [](const TimeStep& step) { return step.device.idle_by_cause.host_wait_ns; }},
    {kGpuSide, "idle: kernel wait",
     [](const TimeStep& step) { return step.device.idle_by_cause.kernel_wait_ns; }},
    {kGpuSide, "idle: other",
     [](const TimeStep& step) { return step.device.idle_by_cause.other_ns; }},
    {kHostSide, "operators", [](const TimeStep& step) { return step.host.operators_ns; }},
    {kHostSide, "collectives", [](const TimeStep& step) { return step.host.collectives_ns; }},
    {kHostSide, "data loading", [](const TimeStep& step) { return step.host.data_loader_ns; }},
    {kHostSide, "compilation", [](const TimeStep& step) { return step.host.compile_ns; }},
    {kHostSide, "waits for the GPU", [](const TimeStep& step) { return step.host.gpu_wait_ns; }},
    {kHostSide, "outside operators", [](const TimeStep& step) { return step.host.outside_ns; }},
    {kHostSide, "the profiler itself", [](const TimeStep& step) { return step.host.other_ns; }},
}};
constexpr std::string_view kCompute = "compute";
constexpr std::string_view kOperators = "operators";

int64_t MeanOf(const std::vector<TimeStep>& steps, int64_t (*time_ns)(const TimeStep&)) {
  double sum = 0;
  for (const TimeStep& step : steps) sum += static_cast<double>(time_ns(step));
  return Rounded(sum / static_cast<double>(steps.size()));
}

std::vector<DiffPart> CompareParts(const TimeReport& before, const TimeReport& after) {
  std::vector<DiffPart> parts;
  const bool has_gpu = before.has_device && after.has_device;
  const bool has_host = before.host_needs.empty() && after.host_needs.empty();
  for (const PartOfStep& part : kParts) {
    if (!(part.side == kGpuSide ? has_gpu : has_host)) continue;
    DiffPart compared = {.side = std::string(part.side),
                         .name = std::string(part.name),
                         .before_ns = MeanOf(before.steps, part.time_ns),
                         .after_ns = MeanOf(after.steps, part.time_ns)};
    if (compared.before_ns != 0 || compared.after_ns != 0) parts.push_back(std::move(compared));
  }
  return parts;
}

// ---- operators and kernels ----

struct Use {
  double ns = 0;
  double calls = 0;
};
using Uses = std::map<std::string, Use, std::less<>>;

Uses OperatorsOf(const DiffSide& side, bool on_device, double divisor) {
  Uses uses;
  for (const OpProfileRow& row : side.figures.ops.rows) {
    if (row.name == kStepRow) continue;
    Use& use = uses[row.name];
    use.ns += static_cast<double>(on_device ? row.self_device_ns : row.self_cpu_ns) / divisor;
    use.calls += static_cast<double>(row.calls) / divisor;
  }
  return uses;
}

Uses KernelsOf(const DiffSide& side, double divisor) {
  Uses uses;
  for (const KernelRow& row : side.figures.kernels.rows) {
    Use& use = uses[row.display_name];
    use.ns += static_cast<double>(row.total_ns) / divisor;
    use.calls += static_cast<double>(row.count) / divisor;
  }
  return uses;
}

std::string WhyOf(const Use& before, const Use& after, double cut_share) {
  if (before.calls == 0) return "new";
  if (after.calls == 0) return "gone";
  const bool as_many = std::abs(after.calls - before.calls) <= cut_share * before.calls;
  const double length_before = before.ns / before.calls;
  const double length_after = after.ns / after.calls;
  const bool as_long = std::abs(length_after - length_before) <= kSameLength * length_before;
  const std::string_view length = length_after > length_before ? "longer" : "shorter";
  const std::string_view count = after.calls > before.calls ? "more" : "fewer";
  if (as_many) return as_long ? "" : StrCat(length, " calls");
  return as_long ? StrCat(count, " calls") : StrCat(count, " and ", length, " calls");
}

std::vector<DiffName> CompareNames(const Uses& before, const Uses& after, double cut_share) {
  std::set<std::string_view> names;
  for (const auto& [name, use] : before) names.insert(name);
  for (const auto& [name, use] : after) names.insert(name);
  const auto use_in = [](const Uses& uses, std::string_view name) {
    const auto found = uses.find(name);
    return found == uses.end() ? Use() : found->second;
  };
  std::vector<DiffName> rows;
  rows.reserve(names.size());
  for (const std::string_view name : names) {
    const Use first = use_in(before, name);
    const Use second = use_in(after, name);
    rows.push_back({.name = std::string(name),
                    .before_calls = first.calls,
                    .after_calls = second.calls,
                    .before_ns = Rounded(first.ns),
                    .after_ns = Rounded(second.ns),
                    .why = WhyOf(first, second, cut_share)});
  }
  std::ranges::stable_sort(rows, [](const DiffName& a, const DiffName& b) {
    return std::abs(a.change_ns()) > std::abs(b.change_ns());
  });
  return rows;
}

// ---- what else differs ----

double FlopsOf(const OpProfile& ops) {
  double flops = 0;
  for (const OpProfileRow& row : ops.rows) flops += std::max(row.flops, 0.0);
  return flops;
}

// "8 x NVIDIA H100, NVIDIA A100"
std::string GpusOf(const CaptureRecord& record) {
  std::map<std::string, int> counts;
  for (const GpuDevice& device : record.gpu.devices) ++counts[device.name];
  std::string text;
  for (const auto& [name, count] : counts) {
    StrAppend(&text, text.empty() ? "" : ", ", count > 1 ? StrCat(count, " x ") : std::string(),
              name);
  }
  return text;
}

std::string MetadataOf(const CaptureRecord& record, std::string_view key) {
  const auto found = record.target.metadata.find(std::string(key));
  return found == record.target.metadata.end() ? std::string() : found->second;
}

std::string_view YesOrNo(bool is) { return is ? "yes" : "no"; }

constexpr std::array<std::string_view, 4> kOtherWork = {"rank", "ranks", "GPU", "GFLOP per step"};

std::string OtherWorkOf(const std::vector<DiffFact>& facts) {
  std::string names;
  for (const DiffFact& fact : facts) {
    if (std::ranges::find(kOtherWork, fact.what) == kOtherWork.end()) continue;
    StrAppend(&names, names.empty() ? "" : ", ", fact.what);
  }
  return names;
}

class FactComparison {
 public:
  FactComparison(const DiffSide& before, const DiffSide& after) : before_(before), after_(after) {}

  std::vector<DiffFact> Take(bool per_step) {
    const CaptureRecord& before = before_.record;
    const CaptureRecord& after = after_.record;
    const auto command = [](const CaptureRecord& record) {
      return ForDisplay(record.target.command, kMostCommandBytes);
    };
    Add("program", command(before), command(after));
    for (const std::string_view key : {"rank", "world_size"}) {
      Add(key == "rank" ? "rank" : "ranks", MetadataOf(before, key), MetadataOf(after, key));
    }
    Add("GPU", GpusOf(before), GpusOf(after));
    Add("PyTorch", before.torch.version, after.torch.version);
    Add("CUDA of the driver", StrCat(before.gpu.driver_version), StrCat(after.gpu.driver_version));
    AddWork(per_step);
    Add("what counts as a step", ToString(before.torch.step_source),
        ToString(after.torch.step_source));
    Add("operators recorded", ToString(before.torch.operators), ToString(after.torch.operators));
    Add("memory recorded", YesOrNo(before.torch.memory), YesOrNo(after.torch.memory));
    Add("Python stacks recorded", YesOrNo(before.spec.torch.stacks),
        YesOrNo(after.spec.torch.stacks));
    Add("modules recorded", YesOrNo(before.spec.torch.modules), YesOrNo(after.spec.torch.modules));
    Add("GPU recorded", ToString(before.gpu.mode), ToString(after.gpu.mode));
    if (before.cpu.watched_ns > 0 && after.cpu.watched_ns > 0) {
      AddShare("waits for a CPU", DelayShare(before.cpu), DelayShare(after.cpu));
    }
    if (before.slowdown.known && after.slowdown.known) {
      AddShare("slow-down by recording", before.slowdown.estimate, after.slowdown.estimate);
    }
    return std::move(facts_);
  }

 private:
  void Add(std::string_view what, std::string_view before, std::string_view after) {
    if (before == after) return;
    facts_.push_back(
        {.what = std::string(what), .before = std::string(before), .after = std::string(after)});
  }
  void AddShare(std::string_view what, double before, double after) {
    if (std::abs(after - before) > kSameShare) Add(what, PercentText(before), PercentText(after));
  }
  // The sizes of inputs, and with them a batch size or a model.
  void AddWork(bool per_step) {
    const double before = FlopsOf(before_.figures.ops) / DivisorOf(before_, per_step);
    const double after = FlopsOf(after_.figures.ops) / DivisorOf(after_, per_step);
    if (!per_step || before <= 0 || after <= 0) return;
    if (std::abs(after - before) <= kSameFlops * before) return;
    Add("GFLOP per step", absl::StrFormat("%.4g", before / 1e9),
        absl::StrFormat("%.4g", after / 1e9));
  }

  const DiffSide& before_;
  const DiffSide& after_;
  std::vector<DiffFact> facts_;
};

// ---- why ----

// The name that changed most in the direction of `change_ns`, and by enough of it; nullptr: none.
const DiffName* MostChanged(const std::vector<DiffName>& names, int64_t change_ns) {
  const DiffName* most = nullptr;
  for (const DiffName& name : names) {
    if ((name.change_ns() > 0) != (change_ns > 0)) continue;
    if (most == nullptr || std::abs(name.change_ns()) > std::abs(most->change_ns())) most = &name;
  }
  if (most == nullptr) return nullptr;
  const double share = static_cast<double>(most->change_ns()) / static_cast<double>(change_ns);
  return share < kLeastShare ? nullptr : most;
}

std::string SignedTime(int64_t ns) { return StrCat(ns > 0 ? "+" : "", TimeText(ns)); }

std::string NameClause(const DiffName& name) {
  const std::string shown = ForDisplay(name.name, kMostNameBytes);
  if (name.why == "new") return StrCat(shown, " is new (", TimeText(name.after_ns), ")");
  if (name.why == "gone") return StrCat(shown, " is gone (", TimeText(name.before_ns), ")");
  return StrCat(shown, " takes ", TimeText(name.after_ns), " instead of ", TimeText(name.before_ns),
                name.why.empty() ? std::string() : StrCat(", in ", name.why));
}

std::string WhyStepsChanged(const CaptureDiff& diff, const DiffSide& before,
                            const DiffSide& after) {
  const bool slower = diff.steps.verdict == StepVerdict::kSlower;
  if (!slower && diff.steps.verdict != StepVerdict::kFaster) return "";
  const auto duration = [](const TimeStep& step) { return step.duration_ns; };
  const int64_t change_ns =
      MeanOf(after.figures.time.steps, duration) - MeanOf(before.figures.time.steps, duration);
  // Single steps decide what the mean is; then the parts, which are means, do not explain it.
  if (change_ns == 0 || (change_ns > 0) != slower) return "";
  // The GPU's parts first, except where the GPU waited for the host: the host says why.
  const DiffPart* most = nullptr;
  double share_of_most = 0;
  for (const std::string_view side : {kGpuSide, kHostSide}) {
    const DiffPart* largest = nullptr;
    for (const DiffPart& part : diff.parts) {
      if (part.side != side || (part.change_ns() > 0) != slower) continue;
      if (largest == nullptr || std::abs(part.change_ns()) > std::abs(largest->change_ns())) {
        largest = &part;
      }
    }
    if (largest == nullptr) continue;
    const double share = static_cast<double>(largest->change_ns()) / static_cast<double>(change_ns);
    if (share < kLeastShare) continue;
    most = largest;
    share_of_most = share;
    if (!most->name.starts_with("idle")) break;
  }
  if (most == nullptr) return "";
  std::string why =
      StrCat(share_of_most >= kMostly ? "Mostly " : "The largest part of it is ",
             most->side == kGpuSide ? "on the GPU, " : "on the host, ", most->name, ": ",
             SignedTime(most->change_ns()), " of ", SignedTime(change_ns), " per step");
  const std::vector<DiffName>* names = nullptr;
  if (most->side == kGpuSide && most->name == kCompute) names = &diff.kernels;
  if (most->side == kHostSide && most->name == kOperators && !diff.operators_on_device) {
    names = &diff.operators;
  }
  if (names == nullptr) return why;
  const DiffName* name = MostChanged(*names, most->change_ns());
  return name == nullptr ? why : StrCat(why, "; ", NameClause(*name));
}

}  // namespace

CaptureDiff DiffCaptures(const DiffSide& before, const DiffSide& after) {
  CaptureDiff diff = {.before = before.record.id, .after = after.record.id};
  const TimeReport& first = before.figures.time;
  const TimeReport& second = after.figures.time;
  diff.per_step = !first.steps.empty() && !second.steps.empty();
  const auto steps_of = [](const DiffSide& side) {
    RecordedSteps steps = {.waited_share = DelayShare(side.record.cpu)};
    for (const TimeStep& step : side.figures.time.steps) steps.times_ns.push_back(step.duration_ns);
    return steps;
  };
  diff.steps = MeasureStepChange(steps_of(before), steps_of(after));
  diff.sentence = DescribeStepChange(diff.steps);
  diff.facts = FactComparison(before, after).Take(diff.per_step);
  diff.other_work = OtherWorkOf(diff.facts);
  if (diff.per_step) diff.parts = CompareParts(first, second);
  const double divisor_before = DivisorOf(before, diff.per_step);
  const double divisor_after = DivisorOf(after, diff.per_step);
  // The fewer steps, the more one call at the edge of a window counts.
  const double cut_share =
      diff.per_step ? std::min(kMostCutShare, 1 / std::min(divisor_before, divisor_after))
                    : kMostCutShare;
  diff.operators_on_device = before.figures.ops.has_device && after.figures.ops.has_device;
  diff.operators =
      CompareNames(OperatorsOf(before, diff.operators_on_device, divisor_before),
                   OperatorsOf(after, diff.operators_on_device, divisor_after), cut_share);
  if (first.has_device && second.has_device) {
    diff.kernels =
        CompareNames(KernelsOf(before, divisor_before), KernelsOf(after, divisor_after), cut_share);
  }
  diff.why = WhyStepsChanged(diff, before, after);
  return diff;
}

}  // namespace profd::report
