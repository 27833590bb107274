#include <algorithm>
#include <optional>
#include <vector>

#include "cli/client/from_proto.h"

namespace profd::cli {
namespace {

// Of one length, and what is an index points at something.
bool IsSound(const v1::GetCollectivesResponse& message) {
  const int count = message.start_delta_ns_size();
  for (const int size :
       {message.duration_ns_size(), message.exposed_ns_size(), message.sequence_size(),
        message.elements_size(), message.step_size(), message.communicator_size(),
        message.kind_size(), message.on_device_size()}) {
    if (size != count) return false;
  }
  const int completions = message.has_completion_size();
  if (completions != 0 && completions != count) return false;
  const auto all_below = [](const auto& numbers, int end) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [end](int32_t number) { return number >= 0 && number < end; });
  };
  const auto no_negative = [](const auto& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](int64_t number) { return number >= 0; });
  };
  return all_below(message.communicator(), message.communicators_size()) &&
         all_below(message.kind(), message.kind_names_size()) &&
         no_negative(message.duration_ns()) && no_negative(message.exposed_ns());
}

}  // namespace

absl::StatusOr<report::CollectiveTable> FromProto(const v1::GetCollectivesResponse& message) {
  if (!IsSound(message)) {
    return absl::DataLossError("the daemon's list of collectives does not fit together");
  }
  report::CollectiveTable table;
  for (const v1::Communicator& communicator : message.communicators()) {
    table.communicators.push_back({.size = communicator.size(),
                                   .first_rank = communicator.first_rank(),
                                   .rank_stride = communicator.rank_stride()});
  }
  std::vector<report::CollectiveKind> kinds;
  for (const std::string& name : message.kind_names()) {
    // A newer daemon may know more.
    kinds.push_back(
        report::CollectiveKindFromString(name).value_or(report::CollectiveKind::kOther));
  }
  uint64_t start_ns = 0;
  for (int i = 0; i < message.start_delta_ns_size(); ++i) {
    start_ns += static_cast<uint64_t>(message.start_delta_ns(i));
    table.rows.push_back(
        {.start_ns = static_cast<int64_t>(start_ns),
         .duration_ns = message.duration_ns(i),
         .exposed_ns = message.exposed_ns(i),
         .sequence = message.sequence(i),
         .elements = message.elements(i),
         .step = message.step(i),
         .communicator = static_cast<uint32_t>(message.communicator(i)),
         .kind = kinds[static_cast<size_t>(message.kind(i))],
         .on_device = message.on_device(i),
         // Older daemons do not say.
         .has_completion = message.has_completion_size() == 0 || message.has_completion(i)});
  }
  for (const v1::StepWork& step : message.steps()) {
    table.steps.push_back(
        {.step = step.step(), .duration_ns = step.duration_ns(), .exposed_ns = step.exposed_ns()});
  }
  table.left_out_count = message.left_out_count();
  return table;
}

}  // namespace profd::cli
