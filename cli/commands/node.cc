#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "cli/captures/fleet.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/quotas.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

// As fields of an open object.
void WriteNodeJson(const NodeInfo& node, const std::string& address, JsonWriter& json) {
  json.Field("name", node.name);
  json.Field("version", node.version);
  json.Field("api_version", node.api_version);
  json.Field("address", address);
  json.Field("pid", node.pid);
  json.Field("uid", node.uid);
  json.Field("start_unix_ns", node.start_unix_ns);
  json.Field("uptime_ns", node.uptime_ns);
  json.Field("resident_bytes", node.resident_bytes);
  json.Field("captures_allowed", node.captures_allowed);
  json.Field("captures_forbidden_reason", node.captures_forbidden_reason);
  json.Field("caller", node.caller);
  json.Field("target_count", node.target_count);
  json.Field("live_capture_count", node.live_capture_count);
  json.Field("capture_memory_bytes", node.capture_memory_bytes);
  json.Field("max_capture_memory_bytes", node.max_capture_memory_bytes);
  json.Field("unknown_frame_count", node.unknown_frame_count);
  json.Field("refused_target_count", node.refused_target_count);
  json.Key("clock").BeginObject();
  json.Field("unix_ns", node.clock_unix_ns);
  json.Field("monotonic_ns", node.clock_monotonic_ns);
  json.Field("event_clock", node.event_clock);
  json.Field("ticks_per_second", node.ticks_per_second);
  json.EndObject();
  json.Key("storage").BeginObject();
  json.Field("data_dir", node.data_dir);
  json.Field("capture_count", node.capture_count);
  json.Field("capture_bytes", node.capture_bytes);
  json.Field("catalog_bytes", node.catalog_bytes);
  json.Field("max_bytes", node.max_bytes);
  json.Field("free_bytes", node.free_bytes);
  json.Field("evicted_count", node.evicted_count);
  json.Field("pinned_bytes", node.pinned_bytes);
  json.EndObject();
}

std::string FieldLine(std::string_view name, std::string_view value) {
  return absl::StrFormat("  %-10s%s\n", ToAbsl(name), ForDisplay(value, 1000));
}

std::string RenderNode(const NodeInfo& node, const std::string& address, const Style& style) {
  std::string text =
      StrCat(style.Paint(Colour::kBold, StrCat("Node ", ForDisplay(node.name, 255))), "\n");
  text += FieldLine("profd",
                    StrCat(node.version, " (pid ", node.pid, ", uid ", node.uid, ") at ", address));
  text += FieldLine("up", StrCat(FormatAge(absl::Nanoseconds(node.uptime_ns)), ", since ",
                                 FormatLocalTime(absl::FromUnixNanos(node.start_unix_ns))));
  text +=
      FieldLine("targets", StrCat(FormatCount(node.target_count),
                                  ", captures running: ", FormatCount(node.live_capture_count)));
  if (!node.captures_allowed) {
    text += FieldLine("captures", StrCat("switched off: ", node.captures_forbidden_reason));
  }
  text += FieldLine("memory", StrCat(FormatBytes(node.resident_bytes), " resident; capture memory ",
                                     FormatBytes(node.capture_memory_bytes), " of at most ",
                                     FormatBytes(node.max_capture_memory_bytes)));
  text += FieldLine(
      "storage",
      StrCat(FormatCount(node.capture_count), " captures, ", FormatBytes(node.capture_bytes),
             "; catalog ", FormatBytes(node.catalog_bytes), "; together at most ",
             FormatBytes(node.max_bytes), "; ", FormatBytes(node.free_bytes), " free on the disk"));
  if (node.pinned_bytes > 0) text += FieldLine("pinned", FormatBytes(node.pinned_bytes));
  if (!node.data_dir.empty()) text += FieldLine("data", node.data_dir);
  std::string clock = node.event_clock;
  if (node.ticks_per_second > 0) {
    StrAppend(&clock, absl::StrFormat(" at %.6g MHz", node.ticks_per_second / 1e6));
  }
  text += FieldLine("clock", clock);
  if (node.evicted_count > 0) {
    text += FieldLine("removed", StrCat(FormatCount(node.evicted_count),
                                        " captures lost their events to make room"));
  }
  if (node.refused_target_count > 0 || node.unknown_frame_count > 0) {
    text +=
        FieldLine("refused", StrCat(FormatCount(node.refused_target_count), " targets; ",
                                    FormatCount(node.unknown_frame_count),
                                    " unknown frames were skipped (a library newer than profd?)"));
  }
  return text;
}

// A node of a fleet: what it is called there, and what it says.
struct NodeAnswer {
  std::string node;
  std::string address;
  std::optional<NodeInfo> info;  // nullopt: it did not answer.
};

std::string RenderNodes(std::span<const NodeAnswer> answers, const Style& style) {
  Table table({{.title = "NODE", .right = false},
               {.title = "PROFD", .right = false},
               {.title = "UP"},
               {.title = "TARGETS"},
               {.title = "CAPTURING"},
               {.title = "STORED", .drop_order = 1},
               {.title = "BYTES", .drop_order = 2},
               {.title = "DISK FREE", .drop_order = 3},
               {.title = "MEMORY", .drop_order = 4},
               {.title = "NAMES ITSELF", .right = false, .flexible = true, .drop_order = 5}});
  for (const NodeAnswer& answer : answers) {
    if (!answer.info.has_value()) continue;
    const NodeInfo& info = *answer.info;
    table.AddRow({answer.node, info.version, FormatAge(absl::Nanoseconds(info.uptime_ns)),
                  FormatCount(info.target_count), FormatCount(info.live_capture_count),
                  FormatCount(info.capture_count), FormatBytes(info.capture_bytes),
                  FormatBytes(info.free_bytes), FormatBytes(info.resident_bytes), info.name});
  }
  return table.empty() ? "" : table.Render(style);
}

absl::StatusOr<int> ShowNodesOfFleet(Invocation& invocation, Fleet& fleet) {
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  std::vector<NodeAnswer> answers;
  for (const Fleet::Member& member : fleet.members()) {
    answers.push_back({member.node, member.endpoint.address, std::nullopt});
  }
  const std::vector<NodeOutcome> outcomes =
      RunOnAll(invocation, fleet, timeout, [&](size_t member, DaemonClient& daemon) {
        answers[member].info = daemon.node();
        return absl::OkStatus();
      });
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject().Key("daemons").BeginArray();
    for (const NodeAnswer& answer : answers) {
      if (!answer.info.has_value()) continue;
      json.BeginObject();
      json.Field("node", answer.node);
      WriteNodeJson(*answer.info, answer.address, json);
      json.EndObject();
    }
    json.EndArray();
    WriteNodeOutcomesJson(outcomes, json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNodes(answers, invocation.style()));
  }
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

// Switches captures of one daemon or of all named.
absl::StatusOr<int> Switch(Invocation& invocation, bool allow, const std::string& reason) {
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  const std::string done = allow ? "Captures are allowed.\n" : "Captures are switched off.\n";
  if (!fleet.has_value()) {
    ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
    RETURN_IF_ERROR(daemon->SetCapturesAllowed(allow, reason));
    invocation.Note(done);
    return 0;
  }
  ASSIGN_OR_RETURN(const absl::Duration timeout, NodeTimeoutOf(invocation));
  const std::vector<NodeOutcome> outcomes = RunOnAll(
      invocation, *fleet, timeout,
      [&](size_t, DaemonClient& daemon) { return daemon.SetCapturesAllowed(allow, reason); });
  invocation.Note(RenderNodeFailures(outcomes));
  return ExitCodeOf(outcomes);
}

absl::StatusOr<int> ShowQuotas(Invocation& invocation) {
  ASSIGN_OR_RETURN(const std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) return UsageError("--quotas asks one daemon; leave out --nodes");
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(const std::vector<QuotaView> quotas, daemon->GetQuotas());
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    json.Field("name", daemon->node().name);
    WriteQuotasJson(quotas, json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderQuotas(quotas, invocation.style()));
  }
  return 0;
}

absl::StatusOr<int> RunNode(Invocation& invocation) {
  const std::optional<std::string> forbid = invocation.flags().Get("forbid-captures");
  const bool allow = invocation.flags().Has("allow-captures");
  if (forbid.has_value() && allow) {
    return UsageError("give --forbid-captures or --allow-captures, not both");
  }
  if (invocation.flags().Has("quotas")) {
    if (forbid.has_value() || allow) {
      return UsageError("--quotas and switching captures are mutually exclusive");
    }
    return ShowQuotas(invocation);
  }
  if (forbid.has_value() || allow) return Switch(invocation, allow, forbid.value_or(""));
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) return ShowNodesOfFleet(invocation, *fleet);
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    WriteNodeJson(daemon->node(), daemon->address(), json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNode(daemon->node(), daemon->address(), invocation.style()));
  }
  return 0;
}

}  // namespace

Command NodeCommand() {
  return {
      .name = "node",
      .summary = "Show the daemon: version, uptime, clock, storage in use",
      .description =
          "Shows the daemon that profctl talks to and its machine. With --nodes, one row per node; "
          "a node that does not answer is named on stderr, and the exit code is 4.",
      .flags =
          {{.name = "forbid-captures",
            .value_name = "REASON",
            .help =
                "Forbid captures on the node permanently and end live ones; callers see REASON"},
           {.name = "allow-captures", .help = "Allow captures again"},
           {.name = "quotas",
            .help = "Show use and limits per user, job, or pod. Without the right `admin`: the "
                    "totals and your own"}},
      .examples = {{"profctl node", "Is it there, and is there room"},
                   {"profctl node --quotas", "Who uses how much, after QUOTA_EXCEEDED"},
                   {"profctl --nodes gpu[001-128] node", "Which of them are"}},
      .takes_nodes = true,
      .run = &RunNode};
}

}  // namespace profd::cli
