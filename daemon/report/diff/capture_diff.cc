#include "daemon/report/diff/capture_diff.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/capture/quality.h"
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

// The captures of a side that are compared.
using Captures = std::vector<const DiffCapture*>;

Captures CapturesOf(const DiffSide& side, bool per_step) {
  Captures captures;
  for (const DiffCapture& capture : side) {
    if (!per_step || !capture.figures.time.steps.empty()) captures.push_back(&capture);
  }
  return captures;
}

bool HaveDevice(const Captures& captures) {
  return std::ranges::all_of(
      captures, [](const DiffCapture* capture) { return capture->figures.time.has_device; });
}

// What the sums over the captures are divided by.
double DivisorOf(const Captures& captures, bool per_step) {
  double steps = 0;
  double seconds = 0;
  for (const DiffCapture* capture : captures) {
    steps += static_cast<double>(capture->figures.time.steps.size());
    seconds += static_cast<double>(capture->record.covered_ns) / 1e9;
  }
  if (per_step) return steps;
  return seconds > 0 ? seconds : 1;
}

// The host runs ahead of its device.
bool IsTimedByDevice(const DiffCapture& capture) {
  return std::ranges::any_of(capture.figures.time.steps,
                             [](const TimeStep& step) { return step.device_step_ns >= 0; });
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

// Over all steps, of which there are some.
int64_t MeanOf(const Captures& captures, int64_t (*time_ns)(const TimeStep&)) {
  double sum = 0;
  for (const DiffCapture* capture : captures) {
    for (const TimeStep& step : capture->figures.time.steps) {
      sum += static_cast<double>(time_ns(step));
    }
  }
  return Rounded(sum / DivisorOf(captures, /*per_step=*/true));
}

std::vector<DiffPart> CompareParts(const Captures& before, const Captures& after) {
  std::vector<DiffPart> parts;
  const auto have_host = [](const Captures& captures) {
    return std::ranges::all_of(captures, [](const DiffCapture* capture) {
      return capture->figures.time.host_needs.empty();
    });
  };
  const bool has_gpu = HaveDevice(before) && HaveDevice(after);
  const bool has_host = have_host(before) && have_host(after);
  for (const PartOfStep& part : kParts) {
    if (!(part.side == kGpuSide ? has_gpu : has_host)) continue;
    DiffPart compared = {.side = std::string(part.side),
                         .name = std::string(part.name),
                         .before_ns = MeanOf(before, part.time_ns),
                         .after_ns = MeanOf(after, part.time_ns)};
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

Uses OperatorsOf(const Captures& captures, bool on_device, double divisor) {
  Uses uses;
  for (const DiffCapture* capture : captures) {
    for (const OpProfileRow& row : capture->figures.ops.rows) {
      if (row.name == kStepRow) continue;
      Use& use = uses[row.name];
      use.ns += static_cast<double>(on_device ? row.self_device_ns : row.self_cpu_ns) / divisor;
      use.calls += static_cast<double>(row.calls) / divisor;
    }
  }
  return uses;
}

Uses KernelsOf(const Captures& captures, double divisor) {
  Uses uses;
  for (const DiffCapture* capture : captures) {
    for (const KernelRow& row : capture->figures.kernels.rows) {
      Use& use = uses[row.display_name];
      use.ns += static_cast<double>(row.total_ns) / divisor;
      use.calls += static_cast<double>(row.count) / divisor;
    }
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

double FlopsOf(const Captures& captures) {
  double flops = 0;
  for (const DiffCapture* capture : captures) {
    for (const OpProfileRow& row : capture->figures.ops.rows) flops += std::max(row.flops, 0.0);
  }
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

// What the captures have, each value once: "2.6.0", or "2.6.0 / 2.7.0".
template <typename Value>
std::string ValuesOf(const Captures& captures, Value value) {
  std::vector<std::string> values;
  for (const DiffCapture* capture : captures) {
    std::string text(value(capture->record));
    if (std::ranges::find(values, text) == values.end()) values.push_back(std::move(text));
  }
  return absl::StrJoin(values, " / ");
}

// The mean over the captures of which `share` is known; NaN: over none.
template <typename Share>
double MeanShare(const Captures& captures, Share share) {
  double sum = 0;
  int64_t count = 0;
  for (const DiffCapture* capture : captures) {
    const std::optional<double> known = share(capture->record);
    if (!known.has_value()) continue;
    sum += *known;
    ++count;
  }
  return sum / static_cast<double>(count);
}

class FactComparison {
 public:
  FactComparison(const Captures& before, const Captures& after) : before_(before), after_(after) {}

  std::vector<DiffFact> Take(bool has_work) {
    using Record = CaptureRecord;
    const auto metadata = [](std::string_view key) {
      return [key](const Record& record) { return MetadataOf(record, key); };
    };
    Compare("program", [](const Record& record) {
      return ForDisplay(record.target.command, kMostCommandBytes);
    });
    Compare("rank", metadata("rank"));
    Compare("ranks", metadata("world_size"));
    Compare("GPU", &GpusOf);
    Compare("PyTorch", [](const Record& record) { return record.torch.version; });
    Compare("CUDA of the driver",
            [](const Record& record) { return StrCat(record.gpu.driver_version); });
    if (has_work) AddWork();
    Compare("what counts as a step",
            [](const Record& record) { return ToString(record.torch.step_source); });
    Compare("operators recorded",
            [](const Record& record) { return ToString(record.torch.operators); });
    Compare("memory recorded", [](const Record& record) { return YesOrNo(record.torch.memory); });
    Compare("Python stacks recorded",
            [](const Record& record) { return YesOrNo(record.spec.torch.stacks); });
    Compare("modules recorded",
            [](const Record& record) { return YesOrNo(record.spec.torch.modules); });
    Compare("GPU recorded", [](const Record& record) { return ToString(record.gpu.mode); });
    CompareShares("waits for a CPU", [](const Record& record) {
      return record.cpu.watched_ns > 0 ? std::optional(DelayShare(record.cpu)) : std::nullopt;
    });
    CompareShares("slow-down by recording", [](const Record& record) {
      return record.slowdown.known ? std::optional(record.slowdown.estimate) : std::nullopt;
    });
    return std::move(facts_);
  }

 private:
  void Add(std::string_view what, std::string before, std::string after) {
    facts_.push_back(
        {.what = std::string(what), .before = std::move(before), .after = std::move(after)});
  }
  template <typename Value>
  void Compare(std::string_view what, Value value) {
    std::string before = ValuesOf(before_, value);
    std::string after = ValuesOf(after_, value);
    if (before != after) Add(what, std::move(before), std::move(after));
  }
  template <typename Share>
  void CompareShares(std::string_view what, Share share) {
    const double before = MeanShare(before_, share);
    const double after = MeanShare(after_, share);
    if (std::abs(after - before) > kSameShare) Add(what, PercentText(before), PercentText(after));
  }
  // The sizes of inputs, and with them a batch size or a model.
  void AddWork() {
    const double before = FlopsOf(before_) / DivisorOf(before_, /*per_step=*/true);
    const double after = FlopsOf(after_) / DivisorOf(after_, /*per_step=*/true);
    if (before <= 0 || after <= 0 || std::abs(after - before) <= kSameFlops * before) return;
    Add("GFLOP per step", absl::StrFormat("%.4g", before / 1e9),
        absl::StrFormat("%.4g", after / 1e9));
  }

  const Captures& before_;
  const Captures& after_;
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

std::string WhyStepsChanged(const CaptureDiff& diff, const Captures& before,
                            const Captures& after) {
  if (diff.by_device) return "";
  const bool slower = diff.steps.verdict == StepVerdict::kSlower;
  if (!slower && diff.steps.verdict != StepVerdict::kFaster) return "";
  const auto duration = [](const TimeStep& step) { return step.duration_ns; };
  const int64_t change_ns = MeanOf(after, duration) - MeanOf(before, duration);
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
             SignedTime(most->change_ns()), " of ", SignedTime(change_ns), " per step on average");
  const std::vector<DiffName>* names = nullptr;
  if (most->side == kGpuSide && most->name == kCompute) names = &diff.kernels;
  if (most->side == kHostSide && most->name == kOperators && !diff.operators_on_device) {
    names = &diff.operators;
  }
  if (names == nullptr) return why;
  const DiffName* name = MostChanged(*names, most->change_ns());
  return name == nullptr ? why : StrCat(why, "; ", NameClause(*name));
}

std::vector<RecordedSteps> StepsOf(const DiffSide& side) {
  std::vector<RecordedSteps> steps_of_side;
  steps_of_side.reserve(side.size());
  for (const DiffCapture& capture : side) {
    RecordedSteps& steps = steps_of_side.emplace_back();
    steps.waited_share = DelayShare(capture.record.cpu);
    const bool by_device = IsTimedByDevice(capture);
    for (const TimeStep& step : capture.figures.time.steps) {
      const int64_t time_ns = by_device ? step.device_step_ns : step.duration_ns;
      if (time_ns >= 0) steps.times_ns.push_back(time_ns);
    }
  }
  return steps_of_side;
}

std::string IdsOf(const DiffSide& side) {
  return absl::StrJoin(side, ",", [](std::string* text, const DiffCapture& capture) {
    text->append(capture.record.id);
  });
}

// Empty: no capture lost too much.
std::string WhyNotCompared(const Captures& before, const Captures& after) {
  for (const Captures* captures : {&before, &after}) {
    for (const DiffCapture* capture : *captures) {
      const double lost_share = LostShare(capture->lost_event_count, capture->record.event_count);
      if (TrustOfShares(lost_share) != ShareTrust::kWithheld) continue;
      return StrCat("Parts of a step, operators, and kernels are not compared: capture ",
                    capture->record.id, " lost ", PercentText(lost_share), " of its events");
    }
  }
  return "";
}

void CompareNamesOf(const Captures& before, const Captures& after, CaptureDiff& diff) {
  const double divisor_before = DivisorOf(before, diff.per_step);
  const double divisor_after = DivisorOf(after, diff.per_step);
  // The fewer steps, the more one call at the edge of a window counts.
  const double cut_share =
      diff.per_step ? std::min(kMostCutShare, 1 / std::min(divisor_before, divisor_after))
                    : kMostCutShare;
  diff.operators =
      CompareNames(OperatorsOf(before, diff.operators_on_device, divisor_before),
                   OperatorsOf(after, diff.operators_on_device, divisor_after), cut_share);
  if (HaveDevice(before) && HaveDevice(after)) {
    diff.kernels =
        CompareNames(KernelsOf(before, divisor_before), KernelsOf(after, divisor_after), cut_share);
  }
}

}  // namespace

CaptureDiff DiffCaptures(const DiffSide& before, const DiffSide& after) {
  CaptureDiff diff = {.before = IdsOf(before), .after = IdsOf(after)};
  diff.per_step = !CapturesOf(before, true).empty() && !CapturesOf(after, true).empty();
  const Captures first = CapturesOf(before, diff.per_step);
  const Captures second = CapturesOf(after, diff.per_step);
  diff.steps = MeasureStepChange(StepsOf(before), StepsOf(after));
  diff.by_device =
      std::ranges::any_of(before, IsTimedByDevice) || std::ranges::any_of(after, IsTimedByDevice);
  diff.sentence = DescribeStepChange(diff.steps);
  diff.not_compared = WhyNotCompared(first, second);
  const bool are_compared = diff.not_compared.empty();
  diff.facts = FactComparison(first, second).Take(diff.per_step && are_compared);
  diff.other_work = OtherWorkOf(diff.facts);
  const auto have_device_ops = [](const Captures& captures) {
    return std::ranges::all_of(
        captures, [](const DiffCapture* capture) { return capture->figures.ops.has_device; });
  };
  diff.operators_on_device = have_device_ops(first) && have_device_ops(second);
  if (!are_compared) return diff;
  if (diff.per_step && !diff.by_device) diff.parts = CompareParts(first, second);
  CompareNamesOf(first, second, diff);
  diff.why = WhyStepsChanged(diff, first, second);
  return diff;
}

}  // namespace profd::report
