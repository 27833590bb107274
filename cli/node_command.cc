#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/json_writer.h"
#include "cli/units.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

void WriteNodeJson(const NodeInfo& node, const std::string& address, JsonWriter& json) {
  json.BeginObject();
  json.Field("name", node.name);
  json.Field("version", node.version);
  json.Field("api_version", node.api_version);
  json.Field("address", address);
  json.Field("pid", node.pid);
  json.Field("uid", node.uid);
  json.Field("start_unix_ns", node.start_unix_ns);
  json.Field("uptime_ns", node.uptime_ns);
  json.Field("resident_bytes", node.resident_bytes);
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
  json.EndObject();
  json.EndObject();
}

std::string Line(std::string_view name, std::string_view value) {
  return absl::StrFormat("  %-10s%s\n", ToAbsl(name), ForDisplay(value, 1000));
}

std::string RenderNode(const NodeInfo& node, const std::string& address, const Style& style) {
  std::string text =
      StrCat(style.Paint(Colour::kBold, StrCat("Node ", ForDisplay(node.name, 255))), "\n");
  text +=
      Line("profd", StrCat(node.version, " (pid ", node.pid, ", uid ", node.uid, ") at ", address));
  text += Line("up", StrCat(FormatAge(absl::Nanoseconds(node.uptime_ns)), ", since ",
                            FormatLocalTime(absl::FromUnixNanos(node.start_unix_ns))));
  text += Line("targets", StrCat(FormatCount(node.target_count),
                                 ", captures running: ", FormatCount(node.live_capture_count)));
  text += Line("memory", StrCat(FormatBytes(node.resident_bytes), " resident; capture memory ",
                                FormatBytes(node.capture_memory_bytes), " of at most ",
                                FormatBytes(node.max_capture_memory_bytes)));
  text += Line("storage",
               StrCat(FormatCount(node.capture_count), " captures, ",
                      FormatBytes(node.capture_bytes), " of at most ", FormatBytes(node.max_bytes),
                      "; catalog ", FormatBytes(node.catalog_bytes), "; ",
                      FormatBytes(node.free_bytes), " free on the disk"));
  if (!node.data_dir.empty()) text += Line("data", node.data_dir);
  std::string clock = node.event_clock;
  if (node.ticks_per_second > 0) {
    StrAppend(&clock, absl::StrFormat(" at %.6g MHz", node.ticks_per_second / 1e6));
  }
  text += Line("clock", clock);
  if (node.evicted_count > 0) {
    text += Line("removed", StrCat(FormatCount(node.evicted_count),
                                   " captures lost their events to make room"));
  }
  if (node.refused_target_count > 0 || node.unknown_frame_count > 0) {
    text += Line("refused", StrCat(FormatCount(node.refused_target_count), " targets; ",
                                   FormatCount(node.unknown_frame_count),
                                   " unknown frames were skipped (a library newer than profd?)"));
  }
  return text;
}

absl::StatusOr<int> Run(Invocation& invocation) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  if (invocation.json()) {
    JsonWriter json;
    WriteNodeJson(daemon->node(), daemon->address(), json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderNode(daemon->node(), daemon->address(), invocation.style()));
  }
  return 0;
}

}  // namespace

Command NodeCommand() {
  return {.name = "node",
          .summary = "Show the daemon: version, uptime, clock, storage in use",
          .description = "Shows the daemon that profctl talks to and the machine it runs on.",
          .examples = {{"profctl node", "Is it there, and is there room"}},
          .run = &Run};
}

}  // namespace profd::cli
