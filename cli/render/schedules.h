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

// A node whose copy of a schedule is missing or different.
struct ScheduleDrift {
  std::string id;
  std::string node;
  std::string problem;  // "is missing", "differs in its spec"
};
// `asked` has the schedules of each node that answered, by the node's own name. A node that did not
// answer has not drifted.
std::vector<ScheduleDrift> FindDrift(const std::map<std::string, std::vector<ScheduleView>>& asked);

// The answer of a subcommand; each fills some of these.
struct ScheduleAnswer {
  std::string id;
  std::span<const ScheduleView> schedules;
  std::span<const ScheduleDrift> drift;
  std::span<const WindowView> windows;
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
