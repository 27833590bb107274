#include "cli/render/time.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/add_table.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"

namespace profd::cli {
namespace {

using report::TimeBreakdown;
using report::TimeReport;

// "-" for none, or for unknown.
std::string NsOrBlank(int64_t ns) { return ns == 0 ? "-" : FormatNs(ns); }
std::string CountOrBlank(int64_t count) { return count == 0 ? "-" : FormatCount(count); }
std::string SpeedOrUnknown(double gb_per_s) {
  return gb_per_s < 0 ? "-" : absl::StrFormat("%.2f", gb_per_s);
}

void AddHeading(std::string_view heading, const Style& style, std::string* text) {
  StrAppend(text, "\n", style.Paint(Colour::kBold, heading), "\n");
}

std::string RenderWhole(const TimeReport& report, const Style& style) {
  const TimeBreakdown& whole = report.whole;
  Table table({{.title = "What", .right = false}, {.title = "Time"}, {.title = "%"}});
  const auto add = [&](std::string_view what, int64_t ns) {
    table.AddRow(
        {std::string(what), FormatNs(ns), style.Share(FormatPercent(ns, whole.kernel_time_ns))});
  };
  add("Compute", whole.compute_ns);
  add("Communication, exposed", whole.exposed_communication_ns);
  add("Copies, exposed", whole.exposed_copy_ns);
  add("Idle: host wait", whole.idle_by_cause.host_wait_ns);
  add("Idle: kernel wait", whole.idle_by_cause.kernel_wait_ns);
  add("Idle: other", whole.idle_by_cause.other_ns);
  return table.Render(style);
}

std::string RenderSummary(const TimeReport& report, const Style& style) {
  const TimeBreakdown& whole = report.whole;
  std::string text = StrCat("GPU ", report.device);
  if (report.devices.size() > 1) {
    StrAppend(&text, " (of ", report.devices.size(), " with work; --device N shows another)");
  }
  StrAppend(&text, ": ", FormatNs(whole.kernel_time_ns), " from its first work to its last",
            report.unrecorded_ns > 0 ? StrCat(" (without ", FormatNs(report.unrecorded_ns),
                                              " between windows, of which nothing is known)")
                                     : std::string(),
            ", busy ", style.Share(FormatPercent(whole.busy_ns, whole.kernel_time_ns)), "\n\n",
            RenderWhole(report, style));
  if (report.overlap >= 0) {
    StrAppend(&text, "Of ", FormatNs(whole.communication_ns), " of communication, ",
              style.Share(absl::StrFormat("%.2f%%", 100 * report.overlap)),
              " overlapped with compute\n");
  }
  if (whole.gap_count > 0) {
    StrAppend(&text, "Idle in ", FormatCountOf(whole.gap_count, "gap", "gaps"),
              " between activities, ", FormatNs(whole.idle_ns), " in all\n");
  }
  if (whole.host_only_ns > 0) {
    StrAppend(&text, "While idle, the GPU had nothing launched for ", FormatNs(whole.host_only_ns),
              ": only the host was at work\n");
  }
  return text;
}

template <typename Number>
bool Any(const std::vector<report::TimeStep>& steps, Number number) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const report::TimeStep& step) { return number(step) != 0; });
}

// Steps, with columns only for what there is.
struct StepColumn {
  Column column;
  std::function<std::string(const report::TimeStep&)> cell;
  bool is_shown;
};
std::vector<StepColumn> StepColumns(const TimeReport& report, const Style& style) {
  using Step = report::TimeStep;
  const std::vector<Step>& steps = report.steps;
  const bool gpu = report.has_device;
  const bool communication =
      gpu && Any(steps, [](const Step& s) { return s.device.communication_ns; });
  const bool copies = gpu && Any(steps, [](const Step& s) { return s.device.copy_ns; });
  const bool compiled = Any(steps, [](const Step& s) { return s.compiled_regions; });
  return {
      {{.title = "Step"}, [](const Step& s) { return StrCat(s.index); }, true},
      {{.title = "Duration"}, [](const Step& s) { return FormatNs(s.duration_ns); }, true},
      {{.title = "Busy"},
       [&style](const Step& s) {
         return style.Share(FormatPercent(s.device.busy_ns, s.duration_ns));
       },
       gpu},
      {{.title = "Compute", .drop_order = 6},
       [](const Step& s) { return FormatNs(s.device.compute_ns); },
       gpu},
      {{.title = "Comm exposed", .drop_order = 5},
       [](const Step& s) { return FormatNs(s.device.exposed_communication_ns); },
       communication},
      {{.title = "overlapped", .drop_order = 8},
       [](const Step& s) { return FormatNs(s.device.overlapped_communication_ns); },
       communication},
      {{.title = "Copies", .drop_order = 10},
       [](const Step& s) { return FormatNs(s.device.copy_ns); },
       copies},
      {{.title = "Host wait"},
       [](const Step& s) { return FormatNs(s.device.idle_by_cause.host_wait_ns); },
       gpu},
      {{.title = "Kernel wait", .drop_order = 4},
       [](const Step& s) { return FormatNs(s.device.idle_by_cause.kernel_wait_ns); },
       gpu},
      {{.title = "Other", .drop_order = 7},
       [](const Step& s) { return FormatNs(s.device.idle_by_cause.other_ns); },
       gpu},
      {{.title = "Host only", .drop_order = 3},
       [](const Step& s) { return FormatNs(s.device.host_only_ns); },
       gpu},
      {{.title = "Launches", .drop_order = 9},
       [](const Step& s) { return CountOrBlank(s.launch_count); },
       Any(steps, [](const Step& s) { return s.launch_count; })},
      {{.title = "Sync", .drop_order = 2},
       [](const Step& s) { return NsOrBlank(s.sync_ns); },
       Any(steps, [](const Step& s) { return s.sync_ns; })},
      {{.title = "Data loader", .drop_order = 1},
       [](const Step& s) { return NsOrBlank(s.data_loader_ns); },
       Any(steps, [](const Step& s) { return s.data_loader_ns; })},
      {{.title = "Regions", .drop_order = 11},
       [](const Step& s) { return CountOrBlank(s.compiled_regions); },
       compiled},
      {{.title = "after breaks", .drop_order = 12},
       [](const Step& s) { return CountOrBlank(s.after_graph_breaks); },
       compiled},
  };
}

void AddSteps(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  if (report.steps.empty()) return;
  std::vector<StepColumn> columns = StepColumns(report, style);
  std::erase_if(columns, [](const StepColumn& column) { return !column.is_shown; });
  std::vector<Column> titles;
  titles.reserve(columns.size());
  for (const StepColumn& column : columns) titles.push_back(column.column);
  const auto cells = [&](const report::TimeStep& step) {
    std::vector<std::string> row;
    row.reserve(columns.size());
    for (const StepColumn& column : columns) row.push_back(column.cell(step));
    return row;
  };
  AddTable(report.steps, std::move(titles), cells, limit, style, text);
}

void AddHostSplit(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  if (report.steps.empty()) return;
  if (!report.host_needs.empty()) {
    StrAppend(text, "\nHow the host spent the steps is unknown without ", report.host_needs, "\n");
    return;
  }
  AddHeading("Host time of each step", style, text);
  const auto share = [&style](int64_t ns, const report::TimeStep& step) {
    return style.Share(FormatPercent(ns, step.duration_ns));
  };
  AddTable(
      report.steps,
      {{.title = "Step"},
       {.title = "Duration"},
       {.title = "Operators"},
       {.title = "Collectives", .drop_order = 3},
       {.title = "Data loading", .drop_order = 2},
       {.title = "Compiling", .drop_order = 5},
       {.title = "GPU wait", .drop_order = 1},
       {.title = "Outside operators"},
       {.title = "Other", .drop_order = 4}},
      [&share](const report::TimeStep& step) {
        return std::vector<std::string>{StrCat(step.index),
                                        FormatNs(step.duration_ns),
                                        share(step.host.operators_ns, step),
                                        share(step.host.collectives_ns, step),
                                        share(step.host.data_loader_ns, step),
                                        share(step.host.compile_ns, step),
                                        share(step.host.gpu_wait_ns, step),
                                        share(step.host.outside_ns, step),
                                        share(step.host.other_ns, step)};
      },
      limit, style, text);
}

void AddHostGaps(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  const report::HostGapTable& gaps = report.host_gap_table;
  if (gaps.rows.empty()) return;
  AddHeading("Gaps on the host, outside operators", style, text);
  AddTable(
      gaps.rows,
      {{.title = "After", .right = false, .flexible = true},
       {.title = "Before", .right = false, .flexible = true},
       {.title = "In", .right = false, .drop_order = 1},
       {.title = "Total"},
       {.title = "Count"},
       {.title = "Median"},
       {.title = "Max", .drop_order = 2}},
      [](const report::HostGapRow& row) {
        return std::vector<std::string>{row.after.empty() ? "-" : row.after,
                                        row.before.empty() ? "-" : row.before,
                                        !row.lines.empty()  ? row.lines
                                        : row.where.empty() ? "-"
                                                            : row.where,
                                        FormatNs(row.total_ns),
                                        FormatCount(row.count),
                                        FormatNs(row.median_ns),
                                        FormatNs(row.max_ns)};
      },
      limit, style, text);
  StrAppend(text, FormatCountOf(gaps.short_count, "gap", "gaps"), " below ",
            FormatNs(report::kShortHostGapNs), " add up to ", FormatNs(gaps.short_ns), "\n");
}

void AddStreams(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  if (report.streams.empty()) return;
  AddHeading("Gaps of each stream by itself", style, text);
  AddTable(
      report.streams,
      {{.title = "Stream"},
       {.title = "Ran", .drop_order = 2},
       {.title = "Busy"},
       {.title = "Gaps", .drop_order = 1},
       {.title = "Idle"},
       {.title = "Host wait"},
       {.title = "Kernel wait"},
       {.title = "Other"}},
      [](const report::StreamIdleRow& row) {
        return std::vector<std::string>{
            StrCat(row.stream),           FormatCount(row.activity_count),
            FormatNs(row.busy_ns),        FormatCount(row.gap_count),
            FormatNs(row.idle_ns),        FormatNs(row.host_wait_ns),
            FormatNs(row.kernel_wait_ns), FormatNs(row.other_ns)};
      },
      limit, style, text);
}

void AddKernelTypes(const TimeReport& report, const Style& style, std::string* text) {
  if (report.overlap < 0) return;
  AddHeading("What ran at once", style, text);
  AddTable(
      report.kernel_types, {{.title = "Type", .right = false}, {.title = "Time"}, {.title = "%"}},
      [&style](const report::KernelTypeTime& row) {
        return std::vector<std::string>{ToString(row), FormatNs(row.total_ns),
                                        style.Share(absl::StrFormat("%.1f%%", 100 * row.share))};
      },
      0, style, text);
}

void AddLaunches(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  const report::LaunchStatistics& launches = report.launches;
  if (launches.count == 0 && launches.kernel_count == 0) return;
  AddHeading("Launches", style, text);
  if (launches.count > 0) {
    StrAppend(text, FormatCountOf(launches.count, "launch", "launches"), " took the host ",
              FormatNs(launches.call_ns), " and the GPU ", FormatNs(launches.device_ns),
              "; half began within ", FormatNs(std::llround(launches.median_delay_ns)), "\n",
              FormatCount(launches.shorter_than_call_count),
              " were shorter than their launch call; ",
              FormatCountOf(launches.slow_call_count, "call", "calls"), " took more than ",
              FormatNs(report::kSlowLaunchCallNs), "; ", FormatCount(launches.late_count),
              " began more than ", FormatNs(report::kLateLaunchNs), " after their launch\n");
  }
  StrAppend(text, FormatCount(launches.short_kernel_count), " of ",
            FormatCount(launches.kernel_count), " kernels were below ",
            FormatNs(report::kShortKernelNs), ", ",
            style.Share(FormatPercent(launches.short_kernel_ns, launches.kernel_ns)),
            " of the time of all\n");
  AddTable(
      report.launching_ops,
      {{.title = "Launched in", .right = false, .flexible = true},
       {.title = "GPU waited"},
       {.title = "Launches"},
       {.title = "Host"},
       {.title = "GPU"},
       {.title = "Short", .drop_order = 2},
       {.title = "Bound by", .right = false, .drop_order = 1}},
      [](const report::LaunchingOpRow& row) {
        return std::vector<std::string>{row.name.empty() ? "(no range)" : row.name,
                                        FormatNs(row.host_wait_ns),
                                        FormatCount(row.launch_count),
                                        FormatNs(row.call_ns),
                                        FormatNs(row.device_ns),
                                        FormatCount(row.short_kernel_count),
                                        row.launch_bound ? "launches" : "GPU"};
      },
      limit, style, text);
}

void AddQueues(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  if (report.queues.empty()) return;
  AddHeading("Launched but not begun, by stream", style, text);
  const auto number = [](double value) { return absl::StrFormat("%.1f", value); };
  AddTable(
      report.queues,
      {{.title = "Stream"},
       {.title = "Changes", .drop_order = 2},
       {.title = "Mean"},
       {.title = "Std dev", .drop_order = 3},
       {.title = "Min", .drop_order = 4},
       {.title = "25%", .drop_order = 6},
       {.title = "50%"},
       {.title = "75%", .drop_order = 5},
       {.title = "Max"},
       {.title = "Full for", .drop_order = 1}},
      [&](const report::QueueRow& row) {
        return std::vector<std::string>{StrCat(row.stream), FormatCount(row.change_count),
                                        number(row.mean),   number(row.standard_deviation),
                                        number(row.min),    number(row.p25),
                                        number(row.p50),    number(row.p75),
                                        number(row.max),    NsOrBlank(row.full_ns)};
      },
      limit, style, text);
}

void AddCollectives(const TimeReport& report, int64_t limit, const Style& style,
                    std::string* text) {
  if (report.collectives.empty()) return;
  AddHeading("Collectives", style, text);
  AddTable(
      report.collectives,
      {{.title = "Collective", .right = false},
       {.title = "Ranks", .drop_order = 4},
       {.title = "Where", .right = false, .drop_order = 7},
       {.title = "Size"},
       {.title = "Count"},
       {.title = "Total"},
       {.title = "Exposed"},
       {.title = "Min", .drop_order = 5},
       {.title = "Max", .drop_order = 3},
       {.title = "GB/s", .drop_order = 6},
       {.title = "Bus GB/s", .drop_order = 2}},
      [](const report::CollectiveSumRow& row) {
        return std::vector<std::string>{std::string(ToString(row.kind)),
                                        row.group_size == 0 ? "-" : StrCat(row.group_size),
                                        row.on_device ? "GPU" : "host",
                                        row.bytes < 0 ? "-" : FormatBytes(row.bytes),
                                        FormatCount(row.count),
                                        FormatNs(row.total_ns),
                                        FormatNs(row.exposed_ns),
                                        FormatNs(row.min_ns),
                                        FormatNs(row.max_ns),
                                        SpeedOrUnknown(row.algorithm_gb_per_s),
                                        SpeedOrUnknown(row.bus_gb_per_s)};
      },
      limit, style, text);
}

void AddSyncs(const TimeReport& report, int64_t limit, const Style& style, std::string* text) {
  if (report.syncs.empty()) return;
  AddHeading("Calls that made the host wait", style, text);
  AddTable(
      report.syncs,
      {{.title = "Call", .right = false},
       {.title = "Cause", .right = false, .drop_order = 1},
       {.title = "Op", .right = false, .flexible = true},
       {.title = "In", .right = false, .drop_order = 3},
       {.title = "Total"},
       {.title = "Count"},
       {.title = "Per step", .drop_order = 2},
       {.title = "Max", .drop_order = 4}},
      [](const report::SyncCallRow& row) {
        return std::vector<std::string>{
            row.call,
            std::string(ToString(row.cause)),
            row.op.empty() ? "-" : row.op,
            row.where.empty() ? "-" : row.where,
            FormatNs(row.total_ns),
            FormatCount(row.count),
            row.per_step == 0 ? "-" : absl::StrFormat("%.1f", row.per_step),
            FormatNs(row.max_ns)};
      },
      limit, style, text);
}

void AddHostLines(const TimeReport& report, const Style& style, std::string* text) {
  std::string lines;
  const report::DataLoaderTime& loader = report.data_loader;
  if (loader.count > 0) {
    int64_t steps_ns = 0;
    for (const report::TimeStep& step : report.steps) steps_ns += step.duration_ns;
    StrAppend(&lines, "Data loader: ", FormatCountOf(loader.count, "wait", "waits"), " took ",
              FormatNs(loader.total_ns), ", the longest ", FormatNs(loader.max_ns));
    if (steps_ns > 0) {
      StrAppend(&lines, "; ", style.Share(FormatPercent(loader.in_steps_ns, steps_ns)),
                " of the steps");
    }
    StrAppend(&lines, "\n");
  }
  if (report.compiled_region_count > 0 || report.graph_break_count > 0) {
    StrAppend(&lines,
              "torch.compile: ", FormatCountOf(report.compiled_region_count, "region", "regions"),
              ", ", FormatCountOf(report.graph_break_count, "graph break", "graph breaks"),
              "; `profctl compile` has more\n");
  }
  if (!lines.empty()) StrAppend(text, "\n", lines);
}

}  // namespace

std::string RenderTime(const TimeReport& report, int64_t limit, const Style& style) {
  std::string text;
  if (report.has_device) {
    text = RenderSummary(report, style);
  } else if (report.unread_devices.empty()) {
    text = "No GPU work was recorded: what follows is the host's.\n";
  } else {
    text = StrCat("What follows is the host's: ", ForDisplay(report.unread_devices, 255), ".\n");
  }
  AddSteps(report, limit, style, &text);
  AddHostSplit(report, limit, style, &text);
  AddHostGaps(report, limit, style, &text);
  AddStreams(report, limit, style, &text);
  AddKernelTypes(report, style, &text);
  AddLaunches(report, limit, style, &text);
  AddQueues(report, limit, style, &text);
  AddCollectives(report, limit, style, &text);
  AddSyncs(report, limit, style, &text);
  AddHostLines(report, style, &text);
  return text;
}

}  // namespace profd::cli
