#include "cli/client/from_proto_schedules.h"

#include <string>
#include <string_view>

#include "cli/client/from_proto.h"
#include "cli/client/proto_time.h"
#include "cli/client/resource_names.h"

namespace profd::cli {
namespace {

TargetSelector SelectorOf(const v1::TargetSelector& message) {
  TargetSelector selector{.job = message.job(),
                          .ranks = {message.ranks().begin(), message.ranks().end()},
                          .command = message.command(),
                          .metadata = {message.metadata().begin(), message.metadata().end()},
                          .pod_namespace = message.pod_namespace()};
  if (message.has_uid()) selector.uid = message.uid();
  return selector;
}

ScheduleSpec SpecOf(const v1::ScheduleSpec& message) {
  ScheduleSpec spec{
      .every = DurationOf(message.every()),
      .align = message.align(),
      .cron = message.cron(),
      .jitter = DurationOf(message.jitter()),
      .capture = FromProto(message.capture()),
      .selector = SelectorOf(message.selector()),
      .sample = {.fraction = message.sample().fraction(), .count = message.sample().count()},
      .budget = {.captures_per_hour = message.budget().captures_per_hour(),
                 .bytes_per_day = message.budget().bytes_per_day(),
                 .time_share = message.budget().time_share()},
      .step_grid = message.step_grid(),
      .step_lead = message.step_lead(),
      .max_slowdown = message.governor().max_slowdown(),
      .nodes = {message.nodes().begin(), message.nodes().end()},
      .pin = message.pin(),
      .display_name = message.display_name()};
  // A unit to come is shown as the default.
  if (v1::Sample::Unit_IsValid(message.sample().unit())) {
    spec.sample.unit = static_cast<SampleUnit>(message.sample().unit());
  }
  if (message.has_end_time()) spec.end_time = TimeOf(message.end_time());
  return spec;
}

}  // namespace

ScheduleView FromProto(const v1::Schedule& message) {
  ScheduleView view{.id = std::string(WithoutPrefix(message.name(), kSchedulesPrefix)),
                    .spec = SpecOf(message.spec()),
                    .created_by = message.created_by(),
                    .create_time = TimeOf(message.create_time()),
                    .spec_hash = message.spec_hash(),
                    .node = message.node(),
                    .window_count = message.window_count(),
                    .capture_count = message.capture_count(),
                    .capture_bytes = message.capture_bytes()};
  if (v1::Schedule::State_IsValid(message.state()) &&
      message.state() != v1::Schedule::STATE_UNSPECIFIED) {
    view.state = static_cast<ScheduleState>(message.state());
  }
  if (message.has_next_window_time()) view.next_window = TimeOf(message.next_window_time());
  return view;
}

WindowView FromProto(const v1::ScheduleWindow& message) {
  WindowView view{.outcome = message.outcome(), .node = message.node()};
  ScheduleWindow& window = view.window;
  window.time = TimeOf(message.time());
  window.outcome = WindowOutcomeFromString(message.outcome()).value_or(WindowOutcome::kFailed);
  window.detail = message.detail();
  window.capture_id = WithoutPrefix(message.capture(), kCapturesPrefix);
  window.pid = message.pid();
  window.sampling_weight = message.sampling_weight();
  window.step_before_ns = message.step_before_ns();
  window.step_during_ns = message.step_during_ns();
  window.step_after_ns = message.step_after_ns();
  window.group_id = WithoutPrefix(message.group(), kGroupsPrefix);
  if (message.has_first_step()) window.first_step = message.first_step();
  return view;
}

v1::ScheduleSpec ToProto(const ScheduleSpec& spec) {
  v1::ScheduleSpec message;
  if (spec.every != absl::ZeroDuration()) SetDuration(spec.every, *message.mutable_every());
  message.set_align(spec.align);
  message.set_cron(spec.cron);
  if (spec.jitter != absl::ZeroDuration()) SetDuration(spec.jitter, *message.mutable_jitter());
  *message.mutable_capture() = ToProto(spec.capture);
  v1::TargetSelector& selector = *message.mutable_selector();
  selector.set_job(spec.selector.job);
  selector.mutable_ranks()->Add(spec.selector.ranks.begin(), spec.selector.ranks.end());
  selector.set_command(spec.selector.command);
  selector.mutable_metadata()->insert(spec.selector.metadata.begin(), spec.selector.metadata.end());
  selector.set_pod_namespace(spec.selector.pod_namespace);
  if (spec.selector.uid.has_value()) selector.set_uid(*spec.selector.uid);
  if (spec.sample.fraction > 0 || spec.sample.count > 0) {
    v1::Sample& sample = *message.mutable_sample();
    sample.set_unit(static_cast<v1::Sample::Unit>(spec.sample.unit));
    sample.set_fraction(spec.sample.fraction);
    sample.set_count(spec.sample.count);
  }
  message.mutable_budget()->set_captures_per_hour(spec.budget.captures_per_hour);
  message.mutable_budget()->set_bytes_per_day(spec.budget.bytes_per_day);
  message.mutable_budget()->set_time_share(spec.budget.time_share);
  message.set_step_grid(spec.step_grid);
  message.set_step_lead(spec.step_lead);
  message.mutable_governor()->set_max_slowdown(spec.max_slowdown);
  if (spec.end_time != absl::InfiniteFuture()) {
    const int64_t unix_ns = absl::ToUnixNanos(spec.end_time);
    message.mutable_end_time()->set_seconds(unix_ns / 1'000'000'000);
    message.mutable_end_time()->set_nanos(static_cast<int32_t>(unix_ns % 1'000'000'000));
  }
  for (const std::string& node : spec.nodes) message.add_nodes(node);
  message.set_display_name(spec.display_name);
  message.set_pin(spec.pin);
  return message;
}

}  // namespace profd::cli
