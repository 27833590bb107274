#include "daemon/report/index/step_labels.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

constexpr size_t kMaxNameBytes = 64;

// Of "step 41"; of nothing, which means before the first one.
std::optional<int64_t> StepOf(std::string_view text) {
  constexpr std::string_view kPrefix = "step ";
  if (text.empty()) return kBeforeFirstStep;
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) return std::nullopt;
  return step;
}

// `value` less `ahead`; nullopt: there is no such number of a step.
std::optional<int64_t> Less(int64_t value, int64_t ahead) {
  int64_t result = 0;
  if (__builtin_sub_overflow(value, ahead, &result) || result < 0) return std::nullopt;
  return result;
}

}  // namespace

FrameworkSteps::FrameworkSteps(std::span<const StepLabel> labels, StepSource source)
    : counts_each_step_(source == StepSource::kOptimizer) {
  bool agree_on_step = true;
  bool agree_on_epoch = true;
  for (const StepLabel& label : labels) {
    if (label.step < 0 || label.value < 0) continue;
    if (label.name == "optimizers") {
      counts_each_step_ = counts_each_step_ && label.value <= 1;
    } else if (label.name == "global_step") {
      agree_on_step =
          agree_on_step && (!global_step_.has_value() ||
                            global_step_->value - global_step_->step == label.value - label.step);
      global_step_ = {label.value, label.step};
    } else if (label.name == "epoch") {
      agree_on_epoch = agree_on_epoch && (!epoch_.has_value() || epoch_->value == label.value);
      epoch_ = {label.value, label.step};
    }
  }
  if (!agree_on_step) global_step_.reset();
  if (!agree_on_epoch) epoch_.reset();
}

std::optional<int64_t> FrameworkSteps::GlobalStepOf(int64_t step) const {
  if (!global_step_.has_value() || step < 0) return std::nullopt;
  if (!counts_each_step_ && step != global_step_->step) return std::nullopt;
  const int64_t ahead = global_step_->step - step;  // Neither is negative.
  return Less(global_step_->value, ahead);
}

std::string FrameworkSteps::NumberText(int64_t step) const {
  const std::optional<int64_t> global_step = GlobalStepOf(step);
  return global_step.has_value() ? StrCat(step, " (global step ", *global_step, ")") : StrCat(step);
}

std::string FrameworkSteps::InStepText(int64_t step) const {
  return GlobalStepOf(step).has_value() ? StrCat(", step ", NumberText(step))
                                        : StrCat(" (step ", step, ")");
}

std::string FrameworkSteps::LongText(int64_t step) const {
  if (!epoch_.has_value()) return NumberText(step);
  const std::optional<int64_t> global_step = GlobalStepOf(step);
  return StrCat(
      step, " (",
      global_step.has_value() ? StrCat("global step ", *global_step, ", ") : std::string(),
      "epoch ", epoch_->value,
      epoch_->step == step ? std::string() : StrCat(" at step ", epoch_->step), ")");
}

absl::StatusOr<std::vector<StepLabel>> FindStepLabels(store::CaptureReader& reader) {
  std::vector<StepLabel> labels;
  RETURN_IF_ERROR(reader.ForEach<NoteRow>([&](const NoteBatch& batch) {
    for (size_t i = 0; i < batch.size && labels.size() < kMostStepLabels; ++i) {
      if (batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kStepLabel)) continue;
      const std::string_view name = reader.names()[batch.subject[i]];
      const std::optional<int64_t> step = StepOf(reader.names()[batch.text[i]]);
      if (name.empty() || !step.has_value()) continue;
      labels.push_back({ForDisplay(name, kMaxNameBytes), batch.value[i], *step});
    }
    return absl::OkStatus();
  }));
  std::stable_sort(labels.begin(), labels.end(),
                   [](const StepLabel& a, const StepLabel& b) { return a.step < b.step; });
  return labels;
}

}  // namespace profd::report
