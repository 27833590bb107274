#include "cli/client/from_proto_schedules.h"

#include <google/protobuf/util/json_util.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cli/base/flags.h"
#include "cli/client/from_proto.h"
#include "cli/client/resource_names.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/rpc/convert/convert.h"
#include "daemon/rpc/convert/proto_time.h"

namespace profd::cli {
namespace {

constexpr int kMaxDeclarations = 256;
constexpr size_t kMaxShownErrorBytes = 300;

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
      .every = rpc::DurationOf(message.every()),
      .align = message.align(),
      .cron = message.cron(),
      .jitter = rpc::DurationOf(message.jitter()),
      .capture = rpc::SpecOf(message.capture()),
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
  if (message.has_end_time()) spec.end_time = rpc::TimeOf(message.end_time());
  return spec;
}

}  // namespace

ScheduleView FromProto(const v1::Schedule& message) {
  ScheduleView view{.id = std::string(WithoutPrefix(message.name(), kSchedulesPrefix)),
                    .spec = SpecOf(message.spec()),
                    .created_by = message.created_by(),
                    .create_time = rpc::TimeOf(message.create_time()),
                    .spec_hash = message.spec_hash(),
                    .version = message.version(),
                    .node = message.node(),
                    .window_count = message.window_count(),
                    .capture_count = message.capture_count(),
                    .capture_bytes = message.capture_bytes()};
  if (v1::Schedule::State_IsValid(message.state()) &&
      message.state() != v1::Schedule::STATE_UNSPECIFIED) {
    view.state = static_cast<ScheduleState>(message.state());
  }
  if (message.has_next_window_time()) view.next_window = rpc::TimeOf(message.next_window_time());
  return view;
}

WindowView FromProto(const v1::ScheduleWindow& message) {
  WindowView view{.outcome = message.outcome(), .node = message.node()};
  ScheduleWindow& window = view.window;
  window.time = rpc::TimeOf(message.time());
  window.outcome = WindowOutcomeFromString(message.outcome()).value_or(WindowOutcome::kFailed);
  window.detail = message.detail();
  window.capture_id = WithoutPrefix(message.capture(), kCapturesPrefix);
  window.pid = message.pid();
  window.process_start_ticks = message.process_start_ticks();
  window.sampling_weight = message.sampling_weight();
  window.step_before_ns = message.step_before_ns();
  window.step_during_ns = message.step_during_ns();
  window.step_after_ns = message.step_after_ns();
  window.group_id = WithoutPrefix(message.group(), kGroupsPrefix);
  if (message.has_first_step()) window.first_step = message.first_step();
  return view;
}

AppliedView FromProto(const v1::ApplyScheduleResponse& message) {
  AppliedView view{.schedule = FromProto(message.schedule())};
  // A change to come is one.
  view.change = v1::ApplyScheduleResponse::Change_IsValid(message.change()) &&
                        message.change() != v1::ApplyScheduleResponse::CHANGE_UNSPECIFIED
                    ? static_cast<DeclaredChange>(message.change())
                    : DeclaredChange::kUpdated;
  return view;
}

DeclarationView DeletionOf(const std::string& id, int64_t version) {
  v1::ScheduleDeclaration message;
  message.set_name(ScheduleName(id));
  message.set_version(version);
  message.set_deleted(true);
  return {.id = id, .version = version, .deleted = true, .message = message.SerializeAsString()};
}

absl::StatusOr<std::vector<DeclarationView>> ParseScheduleFile(std::string_view json) {
  v1::ScheduleFile file;
  const auto parsed = google::protobuf::util::JsonStringToMessage(std::string(json), &file);
  if (!parsed.ok()) {
    return UsageError(ForDisplay(std::string_view(parsed.message().data(), parsed.message().size()),
                                 kMaxShownErrorBytes));
  }
  if (file.schedules().empty()) return UsageError("there is no \"schedules\" with a schedule");
  if (file.schedules_size() > kMaxDeclarations) {
    return UsageError(
        StrCat("there are ", file.schedules_size(), " schedules (at most ", kMaxDeclarations, ")"));
  }
  std::vector<DeclarationView> declarations;
  std::set<std::string> ids;
  for (const v1::ScheduleDeclaration& message : file.schedules()) {
    DeclarationView declaration{.id = std::string(WithoutPrefix(message.name(), kSchedulesPrefix)),
                                .version = message.version(),
                                .deleted = message.deleted(),
                                .display_name = message.spec().display_name(),
                                .message = message.SerializeAsString()};
    const std::string name =
        StrCat("schedule ", declarations.size() + 1, " '", ForDisplay(message.name(), 80), "'");
    if (!IsUlid(declaration.id)) {
      return UsageError(StrCat(name, ": \"name\" is not schedules/ULID"));
    }
    if (!ids.insert(declaration.id).second) {
      return UsageError(StrCat(name, ": the file has this schedule twice"));
    }
    const int64_t highest = kMaxScheduleVersion + (declaration.deleted ? 1 : 0);
    if (declaration.version < 1 || declaration.version > highest) {
      return UsageError(StrCat(name, ": invalid \"version\" ", declaration.version,
                               " (choose 1 or more; raise it with every change)"));
    }
    if (declaration.deleted == message.has_spec()) {
      return UsageError(StrCat(name, message.has_spec()
                                         ? ": \"deleted\" and \"spec\" are mutually exclusive"
                                         : ": \"spec\" is missing"));
    }
    declarations.push_back(std::move(declaration));
  }
  return declarations;
}

v1::ScheduleSpec ToProto(const ScheduleSpec& spec) {
  v1::ScheduleSpec message;
  if (spec.every != absl::ZeroDuration())
    rpc::DurationToProto(spec.every, *message.mutable_every());
  message.set_align(spec.align);
  message.set_cron(spec.cron);
  if (spec.jitter != absl::ZeroDuration())
    rpc::DurationToProto(spec.jitter, *message.mutable_jitter());
  rpc::SpecToProto(spec.capture, *message.mutable_capture());
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
