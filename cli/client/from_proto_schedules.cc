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
#include "daemon/rpc/convert/proto_time.h"
#include "daemon/rpc/convert/schedule_spec.h"

namespace profd::cli {
namespace {

constexpr int kMaxDeclarations = 256;
constexpr size_t kMaxShownErrorBytes = 300;

}  // namespace

ScheduleView FromProto(const v1::Schedule& message) {
  ScheduleView view{.id = std::string(WithoutPrefix(message.name(), kSchedulesPrefix)),
                    .spec = rpc::ScheduleSpecOf(message.spec()),
                    .created_by = message.created_by(),
                    .create_time = rpc::TimeOf(message.create_time()),
                    .spec_hash = message.spec_hash(),
                    .version = message.version(),
                    .node = message.node(),
                    .window_count = message.window_count(),
                    .capture_count = message.capture_count(),
                    .capture_bytes = message.capture_bytes()};
  // A daemon that does not say these does not have them.
  if (!message.spec().has_step_grid()) view.spec.step_grid = 0;
  if (!message.spec().has_step_lead()) view.spec.step_lead = 0;
  if (!message.spec().governor().has_max_slowdown()) view.spec.max_slowdown = 0;
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
  if (file.schedules().empty())
    return UsageError("\"schedules\" must be a list with a schedule or more");
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

}  // namespace profd::cli
