#include "cli/render/nodes.h"

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/units.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

const NodeInfo& Info(const NodeAnswer& row) { return *row.info; }

const ObjectDescription<NodeInfo>& DaemonClockObject() {
  static const ObjectDescription<NodeInfo> object(
      {{&NodeInfo::clock_unix_ns,
        {.key = "unix_ns", .doc = "Time of day, since 1970-01-01 UTC", .unit = table::Unit::kNs}},
       {&NodeInfo::clock_monotonic_ns,
        {.key = "monotonic_ns", .doc = "CLOCK_MONOTONIC at that time", .unit = table::Unit::kNs}},
       {&NodeInfo::event_clock, {.key = "event_clock", .doc = "Clock used for event times"}},
       {&NodeInfo::ticks_per_second, {.key = "ticks_per_second", .doc = "Clock rate; 0: unknown"}},
       {&NodeInfo::clock_error_ns,
        {.key = "error_ns",
         .doc = "Maximum error of the time of day, as the kernel has it; null: unknown",
         .unit = table::Unit::kNs,
         .nullable = true}}});
  return object;
}

const ObjectDescription<NodeInfo>& StorageObject() {
  static const ObjectDescription<NodeInfo> object(
      {{&NodeInfo::data_dir,
        {.key = "data_dir", .doc = "Data directory; empty: hidden from this caller"}},
       {&NodeInfo::capture_count,
        {.key = "capture_count", .doc = "Stored captures", .unit = table::Unit::kCount}},
       {&NodeInfo::capture_bytes,
        {.key = "capture_bytes", .doc = "Size of the capture files", .unit = table::Unit::kBytes}},
       {&NodeInfo::catalog_bytes,
        {.key = "catalog_bytes", .doc = "Size of the catalog", .unit = table::Unit::kBytes}},
       {&NodeInfo::max_bytes,
        {.key = "max_bytes",
         .doc = "Limit for captures and catalog together",
         .unit = table::Unit::kBytes}},
       {&NodeInfo::free_bytes,
        {.key = "free_bytes", .doc = "Free space on the file system", .unit = table::Unit::kBytes}},
       {&NodeInfo::evicted_count,
        {.key = "evicted_count",
         .doc = "Captures whose events were removed to make room",
         .unit = table::Unit::kCount}},
       {&NodeInfo::pinned_bytes,
        {.key = "pinned_bytes",
         .doc = "Size of the pinned captures, which are never removed",
         .unit = table::Unit::kBytes}},
       {&NodeInfo::storage_is_outdated,
        {.key = "is_outdated",
         .doc = "The catalog is busy, or the disk does not answer: as it was before"}}});
  return object;
}

// Of a node that answered.
const ObjectDescription<NodeAnswer>& NodeObject() {
  using Row = NodeAnswer;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.node; }, {.title = "NODE", .doc = "Node of the daemon"}},
       {[](const Row& row) { return Info(row).version; },
        {.title = "PROFD", .doc = "The daemon's version"}},
       {[](const Row& row) { return FormatAge(absl::Nanoseconds(Info(row).uptime_ns)); },
        {.title = "UP", .doc = "Uptime of the daemon", .right = true}},
       {[](const Row& row) { return FormatCount(Info(row).target_count); },
        {.title = "TARGETS", .doc = "Processes that can be captured", .right = true}},
       {[](const Row& row) { return FormatCount(Info(row).live_capture_count); },
        {.title = "CAPTURING", .doc = "Running captures", .right = true}},
       {[](const Row& row) { return FormatCount(Info(row).capture_count); },
        {.title = "STORED", .doc = "Stored captures", .priority = 1, .right = true}},
       {[](const Row& row) { return FormatBytes(Info(row).capture_bytes); },
        {.title = "BYTES", .doc = "Size of the capture files", .priority = 2, .right = true}},
       {[](const Row& row) { return FormatBytes(Info(row).free_bytes); },
        {.title = "DISK FREE",
         .doc = "Free space on the file system of the captures",
         .priority = 3,
         .right = true}},
       {[](const Row& row) { return FormatBytes(Info(row).resident_bytes); },
        {.title = "MEMORY", .doc = "Resident memory of the daemon", .priority = 4, .right = true}},
       {[](const Row& row) { return Info(row).name; },
        {.title = "NAMES ITSELF",
         .doc = "Node name configured in the daemon",
         .priority = 5,
         .flexible = true}},
       // ---- For programs.
       {[](const Row& row) { return Info(row).name; },
        {.key = "name", .doc = "Node name configured in the daemon", .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).version; },
        {.key = "version", .doc = "The daemon's version", .priority = kOnlyInData}},
       {[](const Row& row) { return int64_t{Info(row).api_version}; },
        {.key = "api_version", .doc = "Version of the gRPC interface", .priority = kOnlyInData}},
       {[](const Row& row) { return row.address; },
        {.key = "address", .doc = "Address of the daemon", .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).pid; },
        {.key = "pid", .doc = "Process ID of the daemon", .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).uid; },
        {.key = "uid", .doc = "User ID of the daemon", .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).start_unix_ns; },
        {.key = "start_unix_ns",
         .doc = "Start time, since 1970-01-01 UTC",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).uptime_ns; },
        {.key = "uptime_ns",
         .doc = "Uptime of the daemon",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).resident_bytes; },
        {.key = "resident_bytes",
         .doc = "Resident memory of the daemon",
         .unit = table::Unit::kBytes,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).captures_allowed; },
        {.key = "captures_allowed",
         .doc = "Whether captures may be made on the node",
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).captures_forbidden_reason; },
        {.key = "captures_forbidden_reason",
         .doc = "Reason why captures are forbidden; empty: allowed",
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).policy_stale; },
        {.key = "policy_stale",
         .doc = "Whether the policy file is invalid now, and earlier rules apply",
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).policy_error; },
        {.key = "policy_error",
         .doc = "Why the policy file is invalid; empty: it is valid, or this caller may not see it",
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).caller; },
        {.key = "caller",
         .doc = "Identity of the caller, such as uid:1000 or cn:alice",
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).target_count; },
        {.key = "target_count",
         .doc = "Processes that can be captured",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).live_capture_count; },
        {.key = "live_capture_count",
         .doc = "Running captures",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).capture_memory_bytes; },
        {.key = "capture_memory_bytes",
         .doc = "Capture memory in use",
         .unit = table::Unit::kBytes,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).max_capture_memory_bytes; },
        {.key = "max_capture_memory_bytes",
         .doc = "Limit of capture memory",
         .unit = table::Unit::kBytes,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).unknown_frame_count; },
        {.key = "unknown_frame_count",
         .doc = "Unknown messages of targets, skipped",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return Info(row).refused_target_count; },
        {.key = "refused_target_count",
         .doc = "Refused targets",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}}},
      {Optional<Row>([](const Row& row) { return !row.node.empty(); },
                     TextOf<Row>("node", "Node name given with --nodes",
                                 [](const Row& row) { return row.node; })),
       ObjectOf<Row>("clock", "Clocks of the node, read at the same time", &DaemonClockObject,
                     &Info),
       ObjectOf<Row>("storage", "Data directory and its use", &StorageObject, &Info)});
  return object;
}

struct NodesAnswer {
  std::vector<NodeAnswer> daemons;  // Those that answered.
  const std::vector<NodeOutcome>* outcomes = nullptr;
};

const ObjectDescription<NodesAnswer>& NodesAnswerObject() {
  using Row = NodesAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "daemons", "The daemons that answered", &NodeObject,
               [](const Row& row) -> const auto& { return row.daemons; }),
           NodeOutcomesMember<Row>()});
  return object;
}

std::vector<NodeAnswer> Answered(std::span<const NodeAnswer> answers) {
  std::vector<NodeAnswer> answered;
  for (const NodeAnswer& answer : answers) {
    if (answer.info.has_value()) answered.push_back(answer);
  }
  return answered;
}

std::string FieldLine(std::string_view name, std::string_view value) {
  return absl::StrFormat("  %-10s%s\n", ToAbsl(name), ForDisplay(value, 1000));
}

}  // namespace

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
  if (node.policy_stale) {
    text += FieldLine("policy", StrCat("the file is invalid, and earlier rules apply",
                                       node.policy_error.empty() ? "" : ": ", node.policy_error));
  }
  text += FieldLine("memory", StrCat(FormatBytes(node.resident_bytes), " resident; capture memory ",
                                     FormatBytes(node.capture_memory_bytes), " of at most ",
                                     FormatBytes(node.max_capture_memory_bytes)));
  text += FieldLine(
      "storage",
      StrCat(FormatCount(node.capture_count), " captures, ", FormatBytes(node.capture_bytes),
             "; catalog ", FormatBytes(node.catalog_bytes), "; together at most ",
             FormatBytes(node.max_bytes), "; ", FormatBytes(node.free_bytes), " free on the disk",
             node.storage_is_outdated
                 ? " (as it was before: the catalog is busy, or the disk does not answer)"
                 : ""));
  if (node.pinned_bytes > 0) text += FieldLine("pinned", FormatBytes(node.pinned_bytes));
  if (!node.data_dir.empty()) text += FieldLine("data", node.data_dir);
  std::string clock = node.event_clock;
  if (node.ticks_per_second > 0) {
    StrAppend(&clock, absl::StrFormat(" at %.6g MHz", node.ticks_per_second / 1e6));
  }
  StrAppend(&clock, "; time of day ",
            node.clock_error_ns < 0 ? std::string("not known to be synchronized")
                                    : StrCat("within ", FormatNs(node.clock_error_ns)));
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

void WriteNodeJson(const NodeAnswer& answer, JsonWriter& json) { NodeObject().Write(answer, json); }
void WriteNodeSchema(JsonWriter& json) { NodeObject().WriteSchema(json); }

std::string RenderNodes(std::span<const NodeAnswer> answers, const Style& style) {
  const std::vector<NodeAnswer> rows = Answered(answers);
  return rows.empty() ? "" : RenderTable(NodeObject().columns().ToTable("daemons", rows), style);
}

void WriteNodesJson(std::span<const NodeAnswer> answers, const std::vector<NodeOutcome>& outcomes,
                    JsonWriter& json) {
  NodesAnswerObject().Write({Answered(answers), &outcomes}, json);
}
void WriteNodesSchema(JsonWriter& json) { NodesAnswerObject().WriteSchema(json); }

std::vector<table::Column> NodeColumns() { return NodeObject().columns().columns(); }

}  // namespace profd::cli
