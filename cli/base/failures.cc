#include "cli/base/failures.h"

#include <algorithm>
#include <set>

#include "cli/base/errors.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {

void WriteFailuresJson(std::span<const Failure> failures, std::string_view key, JsonWriter& json) {
  json.Key("errors").BeginArray();
  for (const Failure& failure : failures) {
    json.BeginObject();
    json.Field(key, failure.name);
    json.Field("node", failure.node);
    json.Field("message", FromAbsl(failure.status.message()));
    json.EndObject();
  }
  json.EndArray();
}

std::string DescribeFailures(std::span<const Failure> failures, std::string_view noun) {
  constexpr size_t kMostNameBytes = 400;
  constexpr size_t kMostMessageBytes = 4096;
  std::string text;
  std::set<std::string_view> advices;
  std::string advice_lines;
  for (const Failure& failure : failures) {
    StrAppend(&text, "profctl: ");
    if (failure.name.empty()) {
      StrAppend(&text, "no ", noun);
    } else {
      StrAppend(&text, noun, " ", ForDisplay(failure.name, kMostNameBytes));
    }
    if (!failure.node.empty()) StrAppend(&text, " on ", ForDisplay(failure.node, 255));
    StrAppend(&text, ": ", ForDisplay(FromAbsl(failure.status.message()), kMostMessageBytes), "\n");
    const std::string_view advice = AdviceFor(ReasonOf(failure.status));
    if (!advice.empty() && advices.insert(advice).second) StrAppend(&advice_lines, advice, "\n");
  }
  return text + advice_lines;
}

int ExitCodeOf(std::span<const Failure> failures, bool any_done) {
  if (failures.empty()) return kExitDone;
  const bool is_interrupted = std::ranges::any_of(
      failures, [](const Failure& failure) { return absl::IsCancelled(failure.status); });
  if (is_interrupted) return kExitInterrupted;
  return any_done ? kExitPartial : ExitCodeOf(failures.front().status);
}

}  // namespace profd::cli
