#include "cli/render/outcomes.h"

#include "cli/render/group_objects.h"
#include "cli/render/group_reports.h"

namespace profd::cli {
namespace {

const ObjectDescription<TraceFile>& TraceFileObject() {
  static const ObjectDescription<TraceFile> object(
      {{&TraceFile::path, {.key = "path", .doc = "Trace file"}},
       {&TraceFile::format, {.key = "format", .doc = "Format of the trace, as --format has it"}},
       {&TraceFile::bytes,
        {.key = "bytes", .doc = "Size of the trace file", .unit = table::Unit::kBytes}}});
  return object;
}

const ObjectDescription<ImportedTrace>& ImportedTraceObject() {
  using Row = ImportedTrace;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.record.id; }, {.key = "id", .doc = "Capture ID, a ULID"}},
       {[](const Row& row) { return row.record.imported.source; },
        {.key = "source", .doc = "The trace file's name without its folder"}}},
      {Optional<Row>([](const Row& row) { return !row.path.empty(); },
                     TextOf<Row>("path", "Capture file; absent: the capture is in the daemon",
                                 [](const Row& row) { return row.path; })),
       ColumnsOf<Row>(
           {{[](const Row& row) { return row.record.event_count; },
             {.key = "event_count", .doc = "Events kept", .unit = table::Unit::kCount}}}),
       MapOf<Row>(
           "not_understood", "Events that were not imported, by kind", "integer",
           [](const Row& row) -> const auto& { return row.record.imported.not_understood; }),
       ColumnsOf<Row>({{[](const Row& row) { return row.stored.evicted_count; },
                        {.key = "evicted_count",
                         .doc = "Captures whose events were removed to make room for this one",
                         .unit = table::Unit::kCount}}}),
       TextsOf<Row>(
           "evicted_ids", "IDs of those that were yours, oldest first, at most 16",
           [](const Row& row) -> const auto& { return row.stored.evicted_ids; })});
  return object;
}

}  // namespace

const ObjectDescription<ActedOnAnswer>& ActedOnObject() {
  using Row = ActedOnAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "captures", "Captures for which it was done, as they are now", &CaptureObject,
               [](const Row& row) -> const auto& { return row.captures; }),
           ListOf<Row>(
               "errors", "Captures for which it failed", &FailedIdObject,
               [](const Row& row) -> const auto& { return row.failures; }),
           NodeOutcomesMember<Row>()});
  return object;
}

const ObjectDescription<PurgeAnswer>& PurgeObject() {
  using Row = PurgeAnswer;
  static const ObjectDescription<Row> object(
      {{&Row::dry_run, {.key = "dry_run", .doc = "Whether captures were only counted"}},
       {&Row::capture_count,
        {.key = "capture_count", .doc = "Captures removed", .unit = table::Unit::kCount}},
       {&Row::file_bytes,
        {.key = "file_bytes", .doc = "Total size of their files", .unit = table::Unit::kBytes}}},
      {NodeOutcomesMember<Row>()});
  return object;
}

const ObjectDescription<ExportAnswer>& ExportObject() {
  using Row = ExportAnswer;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.view.record.id; },
        {.key = "id", .doc = "Capture ID, a ULID"}}},
      {FieldsOf<Row>(
           &TraceFileObject, [](const Row& row) -> const auto& { return row.file; }),
       ColumnsOf<Row>(
           {{[](const Row& row) { return row.view.quality; },
             {.key = "quality", .doc = "Quality grade of the capture, A to D"}},
            {[](const Row& row) { return row.view.dropped_event_count; },
             {.key = "dropped_event_count", .doc = "Lost events", .unit = table::Unit::kCount}}})});
  return object;
}

const ObjectDescription<GroupExportAnswer>& GroupExportObject() {
  using Row = GroupExportAnswer;
  static const ObjectDescription<Row> object(
      {}, {FieldsOf<Row>(
               &MembersObject, [](const Row& row) -> const auto& { return row.set; }),
           FieldsOf<Row>(
               &TraceFileObject, [](const Row& row) -> const auto& { return row.file; }),
           ObjectOf<Row>(
               "clock", "Clocks of the members, and what aligned them", &ClockObject,
               [](const Row& row) -> const auto& { return row.clocks; })});
  return object;
}

const ObjectDescription<FetchedCapture>& FetchedObject() {
  using Row = FetchedCapture;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.record->id; }, {.key = "id", .doc = "Capture ID, a ULID"}},
       {[](const Row& row) { return row.record->node; },
        {.key = "node", .doc = "Node of the capture"}},
       {&Row::path, {.key = "path", .doc = "File to which the capture was fetched"}},
       {[](const Row& row) { return row.record->file_bytes; },
        {.key = "bytes", .doc = "Size of the file", .unit = table::Unit::kBytes}},
       {[](const Row& row) { return row.record->file_sha256; },
        {.key = "sha256", .doc = "SHA-256 of the file"}}});
  return object;
}

const ObjectDescription<GroupFetchAnswer>& GroupFetchObject() {
  using Row = GroupFetchAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "captures", "Captures that were fetched", &FetchedObject,
               [](const Row& row) -> const auto& { return row.captures; }),
           ListOf<Row>(
               "errors", "Members that were not fetched", &FailedCaptureObject,
               [](const Row& row) -> const auto& { return row.failures; }),
           NodeOutcomesMember<Row>()});
  return object;
}

const ObjectDescription<ImportAnswer>& ImportAnswerObject() {
  using Row = ImportAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "captures", "Captures that were made of the traces", &ImportedTraceObject,
               [](const Row& row) -> const auto& { return row.captures; }),
           TextOrNull<Row>(
               "group", "Group of the captures; null: none",
               [](const Row& row) -> const auto& { return row.group; }),
           IntsOf<Row>("missing_ranks", "Ranks of the job without a trace, at most 16",
                       [](const Row& row) { return row.missing_ranks; }),
           ColumnsOf<Row>({{&Row::missing_rank_count,
                            {.key = "missing_rank_count",
                             .doc = "Number of ranks of the job without a trace",
                             .unit = table::Unit::kCount}}}),
           ListOf<Row>(
               "errors", "Traces that were not imported", &FailedTraceObject,
               [](const Row& row) -> const auto& { return row.failures; })});
  return object;
}

}  // namespace profd::cli
