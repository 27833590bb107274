#include "cli/render/lists.h"

#include <algorithm>
#include <array>
#include <string>

#include "cli/render/audit.h"
#include "cli/render/capture.h"
#include "cli/render/diff.h"
#include "cli/render/group_objects.h"
#include "cli/render/history.h"
#include "cli/render/nodes.h"
#include "cli/render/quotas.h"
#include "cli/render/rank_history.h"
#include "cli/render/schedules.h"
#include "cli/render/targets.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {

std::span<const ListKind> ListKinds() {
  static constexpr std::array<ListKind, 18> kKinds = {{
      {"ps", "ps", &TargetColumns, &WriteTargetsSchema},
      {"captures", "captures", &CaptureColumns, &WriteCaptureListSchema},
      {"show", "show", &GroupColumns, &WriteCaptureSchema},
      {"node", "node", nullptr, &WriteNodeSchema},
      {"nodes", "node", &NodeColumns, &WriteNodesSchema},
      {"quotas", "node", &QuotaColumns, &WriteQuotasSchema},
      {"schedule_list", "schedule", nullptr, &WriteScheduleListSchema},
      {"schedule_show", "schedule", nullptr, &WriteOneScheduleSchema},
      {"schedule_apply", "schedule", nullptr, &WriteDeclarationsSchema},
      {"schedule_status", "schedule", &ScheduleStatusColumns, &WriteScheduleStatusSchema},
      {"schedule_history", "schedule", &WindowColumns, &WriteWindowListSchema},
      {"audit", "audit", &AuditColumns, &WriteAuditSchema},
      {"history", "history", &HistorySeriesColumns, &WriteHistorySchema},
      {"history_stragglers", "history", &RankHistoryColumns, &WriteRankHistorySchema},
      {"diff", "diff", &DiffTextColumns, &WriteDiffSchema},
      {"stragglers", "stragglers", &StragglerTextColumns, &WriteStragglersSchema},
      {"group_ops", "ops", &GroupOpTextColumns, &WriteGroupOpsSchema},
      {"group_steps", "steps", &GroupStepTextColumns, &WriteGroupStepsSchema},
  }};
  return kKinds;
}

void WriteListSchema(const ListKind& kind, JsonWriter& json) {
  std::string words(kind.name);
  std::ranges::replace(words, '_', ' ');
  if (kind.name == "nodes") words = "--nodes NODES node";
  if (kind.name == "quotas") words = "node --quotas";
  if (kind.name == "history_stragglers") words = "history --stragglers";
  if (kind.name == "group_ops") words = "ops GROUP";
  if (kind.name == "group_steps") words = "steps GROUP";
  json.BeginObject();
  json.Field("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.Field("title", StrCat("profctl ", words, " --json"));
  kind.write_schema(json);
  json.EndObject();
}

}  // namespace profd::cli
