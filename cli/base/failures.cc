#include "cli/base/failures.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cli/base/errors.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {

namespace {

table::Field<Failure> NameField(std::string key, std::string doc) {
  return {&Failure::name, {.key = std::move(key), .doc = std::move(doc)}};
}

table::Field<Failure> NodeField() {
  return {&Failure::node, {.key = "node", .doc = "Node; empty: the only one that was asked"}};
}

table::Field<Failure> MessageField() {
  return {[](const Failure& row) { return std::string(FromAbsl(row.status.message())); },
          {.key = "message", .doc = "Error message"}};
}

}  // namespace

const ObjectDescription<Failure>& FailedCaptureObject() {
  static const ObjectDescription<Failure> object(
      {NameField("id", "Capture ID; empty: there is no capture"), NodeField(), MessageField()});
  return object;
}

const ObjectDescription<Failure>& FailedTraceObject() {
  static const ObjectDescription<Failure> object(
      {NameField("source", "Trace file, as named on the command line"), NodeField(),
       MessageField()});
  return object;
}

const ObjectDescription<Failure>& FailedIdObject() {
  static const ObjectDescription<Failure> object(
      {NameField("id", "Capture ID, as it was given"), MessageField()});
  return object;
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
