#include "cli/render/audit.h"

#include "cli/base/object.h"
#include "cli/base/units.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

std::string ResultOf(const AuditLine& line) {
  const std::string& result = line.reason.empty() ? line.outcome : line.reason;
  return line.repeat_count > 0 ? StrCat(result, " (", line.repeat_count, " more)") : result;
}

const ObjectDescription<AuditRow>& AuditObject() {
  using Row = AuditRow;
  static const ObjectDescription<Row> object(
      {{&Row::node, {.key = "node", .title = "NODE", .doc = "Node of the daemon"}},
       {[](const Row& row) { return FormatLocalTime(row.line.time); },
        {.title = "TIME", .doc = "Time of the call"}},
       {[](const Row& row) { return row.line.principal; },
        {.key = "principal", .title = "WHO", .doc = "Caller, such as uid:1000 or cn:alice"}},
       {[](const Row& row) { return row.line.method; },
        {.key = "method", .title = "CALL", .doc = "Called method"}},
       {[](const Row& row) { return ResultOf(row.line); },
        {.title = "RESULT", .doc = "Status of the answer, or the reason for the refusal"}},
       {[](const Row& row) { return row.line.duration_ns; },
        {.key = "duration_ns",
         .title = "TOOK",
         .doc = "Duration of the call",
         .unit = table::Unit::kNs,
         .priority = 2}},
       {[](const Row& row) {
          return row.line.bytes > 0 ? FormatBytes(row.line.bytes) : std::string();
        },
        {.title = "SENT", .doc = "Size of the answer", .priority = 3, .right = true}},
       {[](const Row& row) { return row.line.peer; },
        {.key = "peer", .title = "FROM", .doc = "Address of the caller", .priority = 1}},
       {[](const Row& row) { return row.line.resource; },
        {.key = "resource",
         .title = "WHAT",
         .doc = "Capture, target, or schedule concerned",
         .flexible = true}},
       // ---- For programs.
       {[](const Row& row) { return absl::ToUnixNanos(row.line.time); },
        {.key = "time_unix_ns",
         .doc = "Time of the call, since 1970-01-01 UTC",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.line.outcome; },
        {.key = "outcome", .doc = "The gRPC status of the answer", .priority = kOnlyInData}},
       {[](const Row& row) { return row.line.reason; },
        {.key = "reason",
         .doc = "Reason for the refusal; empty: not refused",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.line.repeat_count; },
        {.key = "repeat_count",
         .doc = "Identical calls that followed",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return absl::ToUnixNanos(row.line.last_time); },
        {.key = "last_unix_ns",
         .doc = "Time of the last of them, since 1970-01-01 UTC",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.line.bytes; },
        {.key = "bytes",
         .doc = "Size of the answer",
         .unit = table::Unit::kBytes,
         .priority = kOnlyInData}}});
  return object;
}

struct AuditAnswer {
  std::span<const AuditRow> entries;
  const std::vector<NodeOutcome>* outcomes = nullptr;
};

const ObjectDescription<AuditAnswer>& AuditAnswerObject() {
  using Row = AuditAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>("entries", "Calls, newest first", &AuditObject,
                       [](const Row& row) { return row.entries; }),
           NodeOutcomesMember<Row>()});
  return object;
}

}  // namespace

std::string RenderAudit(std::span<const AuditRow> rows, bool shows_node, const Style& style) {
  table::Table table = AuditObject().columns().ToTable("entries", rows);
  if (!shows_node) table.columns[table.Find("node")].priority = kOnlyInData;
  return RenderTable(table, style);
}

void WriteAuditJson(std::span<const AuditRow> rows, const std::vector<NodeOutcome>* outcomes,
                    JsonWriter& json) {
  AuditAnswerObject().Write({rows, outcomes}, json);
}

std::vector<table::Column> AuditColumns() { return AuditObject().columns().columns(); }
void WriteAuditSchema(JsonWriter& json) { AuditAnswerObject().WriteSchema(json); }

}  // namespace profd::cli
