// Conversions of tensors to another type: torch makes all of them in aten::_to_copy, also those of
// .to(), .float(), and autocast. Copies between host and device are made there as well; they are no
// kernels, so with a GPU only kernels count, and without its records only a program that has none.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/findings/advice.h"
#include "daemon/report/findings/evidence_sums.h"
#include "daemon/report/findings/gather.h"
#include "daemon/report/findings/rule_list.h"
#include "daemon/report/index/autograd_names.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/ops/input_shapes.h"
#include "daemon/report/ops/profile.h"

namespace profd::report {
namespace {

constexpr std::string_view kCast = "aten::_to_copy";
// What a program calls to convert; who needs the other type is around it.
bool IsAskedFor(std::string_view name) { return name == "aten::to" || name == "aten::type_as"; }
// Of a step. A batch that is converted when it arrives is a few.
constexpr int64_t kFewestCasts = 4;

// On the host, of a conversion: far longer than any takes that does not wait.
constexpr double kLongCastNs = 80'000;
constexpr double kLongElementNs = 320;

class CastSums {
 public:
  CastSums(const FactSources& sources, CastFacts& facts) : sources_(sources), facts_(facts) {
    for (const std::string& name : sources.reader.names()) {
      is_cast_.push_back(name == kCast);
      asks_.push_back(IsAskedFor(name));
      any_ = any_ || is_cast_.back();
    }
  }

  // Kernels inside of casts.
  void AddKernels() {
    facts_.of_gpu = true;
    if (!any_) return;
    const RangePaths& paths = sources_.attribution.paths();
    for (uint32_t path = 1; path < sources_.launches.size(); ++path) {
      const PathLaunches& launches = sources_.launches[path];
      if (launches.kernels == 0) continue;
      uint32_t cast = RangePaths::kNone;
      for (uint32_t at = path; at != RangePaths::kNone; at = paths[at].parent) {
        if (is_cast_[paths[at].name]) cast = at;
      }
      if (cast == RangePaths::kNone) continue;
      uint32_t around = paths[cast].parent;
      while (around != RangePaths::kNone && asks_[paths[around].name]) {
        around = paths[around].parent;
      }
      Add(around == RangePaths::kNone ? kNobody : paths[around].name, launches.kernels,
          static_cast<int64_t>(launches.kernel_ns), Evidence::kNoTime);
    }
  }

  // Casts of a program without a GPU: how long they run.
  absl::Status AddRanges() {
    if (!any_) return absl::OkStatus();
    struct Open {
      int64_t start_ns;
      int64_t ns;
    };
    std::vector<std::vector<Open>> open(sources_.reader.threads().size());
    RETURN_IF_ERROR(sources_.reader.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName, {}, [&](const RangeBatch& batch) {
          if (batch.thread >= open.size()) open.resize(batch.thread + size_t{1});
          std::vector<Open>& casts = open[batch.thread];
          for (size_t i = 0; i < batch.size; ++i) {
            // Ranges come in order of their end, so casts wait for the range around them.
            const uint32_t name = batch.name[i];
            const int64_t start_ns = batch.start_ns[i];
            if (asks_[name]) continue;
            while (!casts.empty() && casts.back().start_ns >= start_ns) {
              // One within another is part of it.
              if (!is_cast_[name]) Add(name, 1, casts.back().ns, casts.back().start_ns);
              casts.pop_back();
            }
            if (!is_cast_[name]) continue;
            const int64_t ns =
                sources_.scope.MeasureIn(start_ns, EndOf(start_ns, batch.duration_ns[i]));
            if (ns > 0) casts.push_back({start_ns, ns});
          }
          return absl::OkStatus();
        }));
    for (const std::vector<Open>& casts : open) {
      for (const Open& cast : casts) Add(kNobody, 1, cast.ns, cast.start_ns);
    }
    return absl::OkStatus();
  }

  void Finish() {
    facts_.around = sums_.Take(EvidenceKind::kOp, [&](uint32_t id, uint32_t, Evidence& row) {
      row.name = id == kNobody ? "(no range)" : sources_.Name(id);
      row.detail = "needs, or asks for, another type";
      row.count = counts_[id];
    });
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  void Add(uint32_t around, int64_t count, int64_t ns, int64_t start_ns) {
    const uint32_t id = around == kNobody ? kNobody : sources_.first_ids[around];
    facts_.count += count;
    facts_.total_ns += ns;
    const std::string_view name = id == kNobody ? std::string_view() : sources_.Name(id);
    if (name.starts_with("aten::")) facts_.in_operators_ns += ns;
    if (MayBeAutogradNode(name)) facts_.backward_ns += ns;
    counts_[id] += count;
    sums_.Add({.name = id, .duration_ns = ns, .start_ns = start_ns});
  }

  const FactSources& sources_;
  CastFacts& facts_;
  std::vector<bool> is_cast_;  // By name, as `asks_`.
  std::vector<bool> asks_;
  bool any_ = false;
  absl::flat_hash_map<uint32_t, int64_t> counts_;  // By what is around.
  EvidenceSums sums_;
};

// The input of a layer comes first, then its weight and its bias.
bool IsLayer(std::string_view name) {
  return name == "aten::linear" || name == "aten::conv1d" || name == "aten::conv2d" ||
         name == "aten::conv3d" || name == "aten::_convolution" || name == "aten::convolution";
}
constexpr size_t kLayerTensors = 3;

std::string SizeText(const InputShape& shape) {
  std::string text;
  for (const int64_t size : shape.sizes) StrAppend(&text, size, ",");
  return text;
}

double ElementsOf(const InputShape& shape) {
  double elements = 1;
  for (const int64_t size : shape.sizes) elements *= static_cast<double>(size);
  return elements;
}

// Whose sizes the converted tensors have; a gradient has the size of its tensor. An operator's name
// and position say nothing of a tensor that a conversion gets, but the layer around it has the same
// tensor among its own.
absl::Status FindConverted(store::CaptureReader& reader, CastFacts& facts) {
  ASSIGN_OR_RETURN(const OpProfile profile,
                   SummarizeOpProfile(reader, {.group = OpGroup::kInputs}));
  std::set<std::string> inputs;
  std::set<std::string> weights;
  int64_t total_ns = 0;
  int64_t total_count = 0;
  int64_t scalars_ns = 0;
  int64_t scalar_count = 0;
  double longest_ns = 0;  // That those with sizes can take.
  std::map<std::string, int64_t> ns_by_size;
  for (const OpProfileRow& row : profile.rows) {
    const bool is_layer = IsLayer(row.name);
    const int64_t ns = facts.of_gpu ? row.device_total_ns : row.cpu_total_ns;
    if (row.name == kCast) {
      total_ns += ns;
      total_count += row.calls;
    }
    if (!is_layer && row.name != kCast) continue;
    const std::optional<std::vector<InputShape>> shapes = ParseInputShapes(row.dims);
    if (!shapes.has_value() || shapes->empty()) continue;
    if (shapes->front().sizes.empty()) {
      if (!is_layer) {
        scalars_ns += ns;
        scalar_count += row.calls;
      }
      continue;
    }
    if (!is_layer) {
      longest_ns += static_cast<double>(row.calls) *
                    (kLongCastNs + kLongElementNs * ElementsOf(shapes->front()));
      ns_by_size[SizeText(shapes->front())] += ns;
      continue;
    }
    inputs.insert(SizeText(shapes->front()));
    for (size_t i = 1; i < std::min(shapes->size(), kLayerTensors); ++i) {
      if (!(*shapes)[i].sizes.empty()) weights.insert(SizeText((*shapes)[i]));
    }
  }
  if (total_ns <= 0) return absl::OkStatus();
  facts.scalar_share = static_cast<double>(scalars_ns) / static_cast<double>(total_ns);
  facts.scalar_count_share = static_cast<double>(scalar_count) / static_cast<double>(total_count);
  if (ns_by_size.empty()) return absl::OkStatus();
  int64_t sized_ns = 0;
  for (const auto& [size, ns] : ns_by_size) sized_ns += ns;
  facts.must_wait = !facts.of_gpu && static_cast<double>(sized_ns) > longest_ns;
  facts.knows_sizes = true;
  facts.knows_layers = !inputs.empty();
  for (const auto& [size, ns] : ns_by_size) {
    const bool is_input = inputs.contains(size);
    const bool is_weight = weights.contains(size);
    const double share = static_cast<double>(ns) / static_cast<double>(total_ns);
    if (is_input && is_weight) {
      facts.either_share += share;
    } else if (is_input || is_weight) {
      (is_input ? facts.input_share : facts.weight_share) += share;
    }
  }
  return absl::OkStatus();
}

constexpr std::string_view kHoldWeights =
    "Weights held in bfloat16 need no conversion (FSDP's MixedPrecision, or an optimizer that "
    "keeps float32 copies), which changes the numerics. ";
constexpr std::string_view kAvoidFloat32 =
    "Between products, avoid .float() and operators that autocast runs in float32 (norms, softmax, "
    "losses). ";

std::string TrainingAdvice(const CastFacts& casts) {
  std::string advice =
      "Under autocast, each forward pass converts the float32 weights once and the inputs of each "
      "product. The cache of autocast is on by default and is not the remedy. torch.compile fuses "
      "conversions with their neighbors. ";
  // The remedy for the larger part first.
  if (casts.weight_share > casts.input_share) {
    StrAppend(&advice, kHoldWeights, kAvoidFloat32);
  } else {
    StrAppend(&advice, kAvoidFloat32, kHoldWeights);
  }
  return StrCat(advice, "Conversions of weights cost the same for a larger batch.");
}

std::string CastAdvice(const Facts& facts) {
  const CastFacts& casts = facts.casts;
  if (2 * (casts.in_operators_ns + casts.backward_ns) < casts.total_ns) {
    return "Convert once, and keep the result: look at the .to(), .float(), .half(), and "
           ".type_as() "
           "in the places below, and create tensors in the type that is needed. torch.compile "
           "fuses conversions with their neighbors.";
  }
  const bool of_inputs = casts.knows_sizes && casts.input_share > casts.weight_share;
  if (KindOf(facts) == ProgramKind::kInference && of_inputs) {
    return StrCat(
        kAvoidFloat32,
        "The products convert their inputs: let the operators before them return the type "
        "that the products need. torch.compile fuses conversions with their neighbors.");
  }
  if (KindOf(facts) == ProgramKind::kInference) {
    return "Hold the weights in the type that the products need: model.to(torch.bfloat16) or "
           "model.half(), instead of float32 weights under autocast, which converts them again in "
           "each forward pass.";
  }
  return TrainingAdvice(casts);
}

// " By the recorded sizes, 60% of all conversions are of weights, ..."
std::string WhatIsConverted(const CastFacts& casts) {
  if (casts.in_operators_ns <= 0) return {};
  if (!casts.knows_sizes) {
    return " Whether weights or inputs are converted is unknown: no sizes of inputs were recorded "
           "(--ops shapes records them).";
  }
  if (!casts.knows_layers) {
    return " Whether weights or inputs are converted is unknown: there is no layer (linear, "
           "convolution) with recorded sizes.";
  }
  const double others =
      std::max(0.0, 1 - casts.weight_share - casts.input_share - casts.either_share);
  return StrCat(" By the recorded sizes, ", PercentText(casts.weight_share),
                " of the time of all conversions is of weights of layers or their gradients, ",
                PercentText(casts.input_share), " of inputs of layers or their gradients, ",
                PercentText(casts.either_share), " may be of either, and ", PercentText(others),
                " is of other tensors or unknown.");
}

// " Of that time, 62% is in operators (autocast does this), and 30% is in the backward pass."
std::string WhereCastsAre(const CastFacts& casts) {
  const auto share = [&](int64_t ns) {
    return PercentText(static_cast<double>(ns) / static_cast<double>(casts.total_ns));
  };
  std::string text;
  if (casts.in_operators_ns > 0) {
    StrAppend(&text, share(casts.in_operators_ns), " is in operators (autocast does this)");
  }
  if (casts.backward_ns > 0) {
    StrAppend(&text, text.empty() ? "" : ", and ", share(casts.backward_ns),
              " is in the backward pass");
  }
  if (text.empty()) return text;
  return StrCat(casts.scalar_share > 0 ? " Of the time of all, " : " Of that time, ", text, ".",
                WhatIsConverted(casts));
}

}  // namespace

absl::Status GatherCasts(const FactSources& sources, bool has_gpu, CastFacts& facts) {
  CastSums sums(sources, facts);
  const CaptureRecord& record = sources.reader.record();
  facts.is_known = has_gpu || record.gpu.outcome == GpuOutcome::kNoCuda;
  if (has_gpu) {
    sums.AddKernels();
  } else if (facts.is_known) {
    RETURN_IF_ERROR(sums.AddRanges());
  }
  sums.Finish();
  // This reads all ranges again.
  if (facts.count >= kFewestCasts && sources.reader.RowsOf(RowKind::kOperator) > 0) {
    RETURN_IF_ERROR(FindConverted(sources.reader, facts));
  }
  return absl::OkStatus();
}

RuleResult Casts(const Facts& facts, const FindingThresholds& thresholds) {
  const CastFacts& casts = facts.casts;
  if (!casts.is_known) return Needs("kernels, or a program without a GPU");
  const auto counted_ns =
      static_cast<int64_t>((1 - casts.scalar_share) * static_cast<double>(casts.total_ns));
  const int64_t ns = casts.of_gpu ? facts.kernels.OfAll(counted_ns) : counted_ns;
  const int64_t counted =
      std::llround((1 - casts.scalar_count_share) * static_cast<double>(casts.count));
  const int64_t count = casts.of_gpu ? facts.kernels.OfAll(counted) : counted;
  const int64_t of_ns = casts.of_gpu ? facts.kernels.total_ns : facts.scope.total_ns;
  RuleResult result;
  Finding& finding = result.finding;
  finding.value = of_ns <= 0 ? 0 : static_cast<double>(ns) / static_cast<double>(of_ns);
  finding.threshold = thresholds.cast_share;
  result.fired = finding.value > finding.threshold && facts.PerStep(count) >= kFewestCasts;
  finding.measured = StrCat(
      facts.scope.has_steps ? "A step converts tensors " : "The program converts tensors ",
      CountText(facts.PerStep(count), "time"), " to another type or memory format, which takes ",
      TimeText(facts.PerStep(ns)), " (", PercentText(finding.value),
      casts.of_gpu ? " of kernel time)." : " of the step).",
      casts.scalar_share > 0 ? StrCat(" Those of single numbers (", PercentText(casts.scalar_share),
                                      " of the time of all) are left out.")
                             : "",
      casts.total_ns > 0 ? WhereCastsAre(casts) : std::string());
  finding.advice = CastAdvice(facts);
  finding.evidence = casts.around;
  finding.confidence = Confidence::kMedium;
  finding.confidence_reason = "the saving is all of them; some conversions may be needed";
  if (casts.must_wait) {
    finding.confidence = Confidence::kLow;
    finding.confidence_reason =
        "tensors of these sizes are converted in a small part of that time: something is waited "
        "for, such as pages of a memory-mapped file";
  }
  if (casts.of_gpu) {
    SetDeviceSaving(facts, facts.PerStep(std::min(ns, facts.sum.compute_ns)), finding);
  } else {
    finding.saving_ns_per_step = facts.PerStep(ns);
  }
  return result;
}

}  // namespace profd::report
