#include "daemon/report/index/step_labels.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "daemon/base/status_macros.h"
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

}  // namespace

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
