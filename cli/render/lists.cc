#include "cli/render/lists.h"

#include <array>

#include "cli/render/answers.h"
#include "cli/render/audit.h"
#include "cli/render/capture.h"
#include "cli/render/check.h"
#include "cli/render/diff.h"
#include "cli/render/group_objects.h"
#include "cli/render/group_reports.h"
#include "cli/render/group_view.h"
#include "cli/render/history.h"
#include "cli/render/nodes.h"
#include "cli/render/outcomes.h"
#include "cli/render/over_ranks.h"
#include "cli/render/quotas.h"
#include "cli/render/rank_history.h"
#include "cli/render/schedules.h"
#include "cli/render/targets.h"
#include "cli/render/top.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/ops/profile.h"

namespace profd::cli {
namespace {

template <auto kDescribe>
void SchemaOf(JsonWriter& json) {
  kDescribe().WriteSchema(json);
}

// Operators of a group are compared by a description of their own (group_objects.h).
void WriteOpsByRankSchema(JsonWriter& json) {
  WriteSetReportSchema(report::ToReport(report::OpProfile()), json);
}

constexpr char kKernels[] = "kernels";
constexpr char kCopies[] = "copies";
constexpr char kSyncs[] = "syncs";
constexpr char kIdle[] = "idle";
constexpr char kCompile[] = "compile";
constexpr char kModules[] = "modules";
constexpr char kTime[] = "time";
constexpr char kMemory[] = "memory";

template <const char* kReport>
void OverRanksSchemaOf(JsonWriter& json) {
  WriteOverRanksSchema(kReport, json);
}

template <const char* kReport>
void OfEachRankSchemaOf(JsonWriter& json) {
  WriteOfEachRankSchema(kReport, json);
}

}  // namespace

std::span<const ListKind> ListKinds() {
  static constexpr auto kKinds = std::to_array<ListKind>({
      {"ps", "ps", "ps", &TargetColumns, &SchemaOf<&TargetsAnswerObject>},
      {"top", "top", "top", nullptr, &SchemaOf<&TopAnswerObject>},
      {"trace", "trace", "trace", nullptr, &SchemaOf<&CaptureObject>},
      {"group_trace", "trace", "trace --all", nullptr, &SchemaOf<&GroupAnswerObject>},
      {"trace_nodes", "trace", "trace --nodes NODES", nullptr, &SchemaOf<&JobCaptureAnswerObject>},
      {"captures", "captures", "captures", &CaptureColumns, &WriteCaptureListSchema},
      {"show", "show", "show", &GroupColumns, &SchemaOf<&CaptureObject>},
      {"group_show", "show", "show GROUP", nullptr, &SchemaOf<&FoundGroupObject>},
      {"cancel", "cancel", "cancel", nullptr, &SchemaOf<&ActedOnObject>},
      {"group_cancel", "cancel", "cancel GROUP", nullptr, &SchemaOf<&GroupAnswerObject>},
      {"delete", "delete", "delete", nullptr, &SchemaOf<&ActedOnObject>},
      {"pin", "pin", "pin", nullptr, &SchemaOf<&ActedOnObject>},
      {"unpin", "unpin", "unpin", nullptr, &SchemaOf<&ActedOnObject>},
      {"purge", "purge", "purge", nullptr, &SchemaOf<&PurgeObject>},
      {"export", "export", "export", nullptr, &SchemaOf<&ExportObject>},
      {"group_export", "export", "export GROUP", nullptr, &SchemaOf<&GroupExportObject>},
      {"fetch", "fetch", "fetch", nullptr, &SchemaOf<&FetchedObject>},
      {"group_fetch", "fetch", "fetch GROUP", nullptr, &SchemaOf<&GroupFetchObject>},
      {"import", "import", "import", nullptr, &SchemaOf<&ImportAnswerObject>},
      {"check", "check", "check", nullptr, &SchemaOf<&CheckAnswerObject>},
      {"open", "open", "open", nullptr, &SchemaOf<&OpenObject>},
      {"node", "node", "node", nullptr, &WriteNodeSchema},
      {"nodes", "node", "node --nodes NODES", &NodeColumns, &WriteNodesSchema},
      {"quotas", "node", "node --quotas", &QuotaColumns, &WriteQuotasSchema},
      {"schedule_list", "schedule", "schedule list", nullptr, &WriteScheduleListSchema},
      {"schedule_show", "schedule", "schedule show", nullptr, &WriteOneScheduleSchema},
      {"schedule_apply", "schedule", "schedule apply", nullptr, &WriteDeclarationsSchema},
      {"schedule_status", "schedule", "schedule status", &ScheduleStatusColumns,
       &WriteScheduleStatusSchema},
      {"schedule_history", "schedule", "schedule history", &WindowColumns, &WriteWindowListSchema},
      {"audit", "audit", "audit", &AuditColumns, &WriteAuditSchema},
      {"history", "history", "history", &HistorySeriesColumns, &WriteHistorySchema},
      {"history_stragglers", "history", "history --stragglers", &RankHistoryColumns,
       &WriteRankHistorySchema},
      {"diff", "diff", "diff", &DiffTextColumns, &WriteDiffSchema},
      {"stragglers", "stragglers", "stragglers", &StragglerTextColumns,
       &SchemaOf<&StragglersObject>},
      {"group_ops", "ops", "ops GROUP", &GroupOpTextColumns, &SchemaOf<&GroupOpsObject>},
      {"group_ops_by_rank", "ops", "ops GROUP --group-by rank", nullptr, &WriteOpsByRankSchema},
      {"group_steps", "steps", "steps GROUP", &GroupStepTextColumns, &SchemaOf<&GroupStepsObject>},
      {"group_kernels", "kernels", "kernels GROUP", &OverRanksColumns,
       &OverRanksSchemaOf<kKernels>},
      {"group_kernels_by_rank", "kernels", "kernels GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kKernels>},
      {"group_copies", "copies", "copies GROUP", nullptr, &OverRanksSchemaOf<kCopies>},
      {"group_copies_by_rank", "copies", "copies GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kCopies>},
      {"group_syncs", "syncs", "syncs GROUP", nullptr, &OverRanksSchemaOf<kSyncs>},
      {"group_syncs_by_rank", "syncs", "syncs GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kSyncs>},
      {"group_idle", "idle", "idle GROUP", nullptr, &OverRanksSchemaOf<kIdle>},
      {"group_idle_by_rank", "idle", "idle GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kIdle>},
      {"group_compile", "compile", "compile GROUP", nullptr, &OverRanksSchemaOf<kCompile>},
      {"group_compile_by_rank", "compile", "compile GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kCompile>},
      {"group_modules", "modules", "modules GROUP", nullptr, &OverRanksSchemaOf<kModules>},
      {"group_modules_by_rank", "modules", "modules GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kModules>},
      {"group_time", "time", "time GROUP", nullptr, &OverRanksSchemaOf<kTime>},
      {"group_time_by_rank", "time", "time GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kTime>},
      {"group_memory", "memory", "memory GROUP", nullptr, &OverRanksSchemaOf<kMemory>},
      {"group_memory_by_rank", "memory", "memory GROUP --group-by rank", nullptr,
       &OfEachRankSchemaOf<kMemory>},
      {"context_list", "context", "context list", nullptr, &SchemaOf<&ContextListObject>},
      {"context_show", "context", "context show", nullptr, &SchemaOf<&ContextObject>},
      {"version", "version", "version", nullptr, &SchemaOf<&VersionObject>},
      {"help", "help", "help", nullptr, &SchemaOf<&HelpObject>},
      {"explain", "explain", "explain", nullptr, &SchemaOf<&ExplainObject>},
  });
  return kKinds;
}

void WriteListSchema(const ListKind& kind, JsonWriter& json) {
  json.BeginObject();
  json.Field("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.Field("title", StrCat("profctl ", kind.usage, " --json"));
  kind.write_schema(json);
  json.EndObject();
}

}  // namespace profd::cli
