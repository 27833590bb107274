// Schedules and their windows as tables and as JSON, of one node or of many.
#ifndef PROFD_CLI_RENDER_SCHEDULES_H_
#define PROFD_CLI_RENDER_SCHEDULES_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/base/style.h"
#include "cli/captures/fleet.h"
#include "cli/client/schedule_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/table/column.h"

namespace profd::cli {

// The schedules of each node that answered, deleted ones included, by the node's own name.
using SchedulesByNode = std::map<std::string, std::vector<ScheduleView>>;

// A node whose copy of a schedule is missing, old, or different.
struct ScheduleDrift {
  std::string id;
  std::string node;
  std::string problem;  // "is missing", "has version 2 of 3", "differs in its spec"
};
// The highest version is right; of two specs of that version, the one that most nodes have. A
// schedule is missing on a node that it was placed on. A node that did not answer has not drifted.
std::vector<ScheduleDrift> FindDrift(const SchedulesByNode& asked);

// What a declaration came to on a node: of `schedule apply` and `diff`.
struct DeclarationOutcome {
  std::string id;
  std::string display_name;
  int64_t version = 0;
  std::string node;    // As it calls itself.
  std::string change;  // "created", "updated", "deleted", "unchanged", "refused"
  std::string reason;  // Stable; empty: it was not refused.
  std::string error;   // For people.
};

// How many nodes have which version of a schedule.
struct ScheduleStatus {
  std::string id;
  std::string display_name;
  int64_t version = 0;                           // The highest.
  ScheduleState state = ScheduleState::kActive;  // Of that version.
  int64_t expected_count = 0;                    // Nodes that should have it.
  int64_t current_count = 0;                     // Those of them that have this version.
  std::string behind;  // "version 2: gpu7; missing: gpu8, gpu9"; empty: none.
};
// Of every schedule, also deleted ones. Expected are the nodes that it was placed on, or all if it
// was declared without nodes; of a deleted one, those that know it.
std::vector<ScheduleStatus> StatusOf(const SchedulesByNode& asked);

// The answer of a subcommand; each fills some of these.
struct ScheduleAnswer {
  std::string id;
  std::span<const ScheduleView> schedules;
  std::span<const ScheduleDrift> drift;
  std::span<const WindowView> windows;
  std::span<const DeclarationOutcome> declarations;
  std::span<const ScheduleStatus> statuses;
  const std::vector<NodeOutcome>* outcomes = nullptr;  // nullptr: one daemon was asked.
};
// {"schedules", "drift", "nodes"}: `schedule list`.
void WriteScheduleListJson(const ScheduleAnswer& answer, JsonWriter& json);
void WriteScheduleListSchema(JsonWriter& json);
// {"id", "schedules", "nodes"}: `schedule create`, `show`, and those that change one.
void WriteOneScheduleJson(const ScheduleAnswer& answer, JsonWriter& json);
void WriteOneScheduleSchema(JsonWriter& json);
// {"id", "windows", "nodes"}: `schedule history`.
void WriteWindowListJson(const ScheduleAnswer& answer, JsonWriter& json);
void WriteWindowListSchema(JsonWriter& json);
std::vector<table::Column> WindowColumns();
// {"declarations", "nodes"}: `schedule apply`, `diff`.
void WriteDeclarationsJson(const ScheduleAnswer& answer, JsonWriter& json);
void WriteDeclarationsSchema(JsonWriter& json);
// {"statuses", "nodes"}: `schedule status`.
void WriteScheduleStatusJson(const ScheduleAnswer& answer, JsonWriter& json);
void WriteScheduleStatusSchema(JsonWriter& json);
std::vector<table::Column> ScheduleStatusColumns();

// One line per schedule, with the number of nodes by outcome, then one per refusal.
std::string RenderDeclarations(std::span<const DeclarationOutcome> outcomes, bool dry_run);
std::string RenderScheduleStatus(std::span<const ScheduleStatus> statuses, const Style& style);

// "every 30m", "cron 0 3 * * *"
std::string WhenOf(const ScheduleSpec& spec);
// "5% of nodes"
std::string SampleOf(const ScheduleSpec& spec);

// One row for each schedule, even if several nodes have it.
std::string RenderScheduleTable(std::span<const ScheduleView> views, const Style& style);
// One row for each node that has it.
std::string RenderScheduleNodes(std::span<const ScheduleView> views, const Style& style);
std::string RenderSchedule(const ScheduleView& view, const Style& style);
// In the order given.
std::string RenderWindows(std::span<const WindowView> views, const Style& style);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_SCHEDULES_H_
