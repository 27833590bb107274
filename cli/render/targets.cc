#include "cli/render/targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/short_names.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

struct Placed {
  const TargetInfo* target;
  size_t depth;
};

// Depth first from those whose parent is no target. Parents are hearsay of a moment: a pid
// that came back may close a circle, so what no root reaches is added at the end.
class Forest {
 public:
  explicit Forest(std::span<const TargetInfo> targets) {
    std::set<int64_t> pids;
    for (const TargetInfo& target : targets) pids.insert(target.pid);
    for (const TargetInfo& target : targets) children_[target.parent_pid].push_back(&target);
    for (const TargetInfo& target : targets) {
      if (!pids.contains(target.parent_pid)) Place(target, 0);
    }
    for (const TargetInfo& target : targets) Place(target, 0);
  }
  const std::vector<Placed>& placed() const { return placed_; }

 private:
  void Place(const TargetInfo& root, size_t root_depth) {
    std::vector<Placed> stack = {{&root, root_depth}};
    while (!stack.empty()) {
      const Placed next = stack.back();
      stack.pop_back();
      if (!seen_.insert(next.target).second) continue;
      placed_.push_back(next);
      const auto children = children_.find(next.target->pid);
      if (children == children_.end()) continue;
      for (auto child = children->second.rbegin(); child != children->second.rend(); ++child) {
        stack.push_back({*child, next.depth + 1});
      }
    }
  }

  std::map<int64_t, std::vector<const TargetInfo*>> children_;
  std::set<const TargetInfo*> seen_;
  std::vector<Placed> placed_;
};

// "120"; "120, last step 41 s ago" of a process that may hang.
std::string StepCell(const TargetInfo& target) {
  if (target.step_mark_count == 0) return "-";
  if (!MissesSteps(target)) return StrCat(target.current_step);
  const int64_t seconds = target.since_last_step_ns / 1'000'000'000;
  return StrCat(target.current_step, ", last step ",
                seconds < 120 ? StrCat(seconds, " s") : FormatAge(absl::Seconds(seconds)), " ago");
}

// One table for the targets of one node or many. Which columns it has depends on what there is
// to show, over all nodes.
class TargetTable {
 public:
  TargetTable(bool has_nodes, bool has_jobs, bool has_containers)
      : has_nodes_(has_nodes),
        has_jobs_(has_jobs),
        has_containers_(has_containers),
        table_(Columns()) {}

  void Add(const std::string& node, std::span<const TargetInfo> targets) {
    const Forest forest(targets);
    for (const Placed& placed : forest.placed()) AddRow(node, placed);
  }
  std::string Render(const Style& style) const { return table_.Render(style); }

 private:
  std::vector<Column> Columns() const {
    std::vector<Column> columns;
    if (has_nodes_) columns.push_back({.title = "NODE", .right = false});
    columns.push_back({.title = "PID"});
    if (has_containers_) columns.push_back({.title = "NSPID"});
    columns.insert(columns.end(), {{.title = "UID", .drop_order = 2},
                                   {.title = "STATE", .right = false},
                                   {.title = "STEP"},
                                   {.title = "STEPS/S", .drop_order = 3},
                                   {.title = "STEPS FROM", .right = false, .drop_order = 4}});
    if (has_jobs_) columns.push_back({.title = "JOB", .right = false, .drop_order = 1});
    columns.push_back({.title = "RANK", .drop_order = 1});
    columns.push_back({.title = "COMMAND", .right = false, .flexible = true});
    return columns;
  }

  void AddRow(const std::string& node, const Placed& placed) {
    const TargetInfo& target = *placed.target;
    std::vector<std::string> cells;
    if (has_nodes_) cells.push_back(node);
    cells.push_back(StrCat(target.pid));
    if (has_containers_) {
      const bool has_other_pid = target.foreign_namespace && target.namespace_pid > 0;
      cells.push_back(has_other_pid ? StrCat(target.namespace_pid) : "-");
    }
    cells.push_back(StrCat(target.uid));
    cells.emplace_back(target.opted_out ? "opted out" : ToString(target.state));
    cells.push_back(StepCell(target));
    cells.push_back(target.steps_per_second > 0 ? absl::StrFormat("%.2f", target.steps_per_second)
                                                : "-");
    cells.emplace_back(target.step_source == StepSource::kNone ? "-"
                                                               : ToString(target.step_source));
    if (has_jobs_) cells.push_back(JobOf(target).empty() ? "-" : JobOf(target));
    cells.push_back(RankOf(target) < 0 ? "-" : StrCat(RankOf(target)));
    cells.push_back(StrCat(std::string(2 * placed.depth, ' '), ShortCommand(target.command)));
    table_.AddRow(std::move(cells), MissesSteps(target)                       ? Colour::kYellow
                                    : target.state == TargetState::kCapturing ? Colour::kGreen
                                                                              : Colour::kNone);
  }

  const bool has_nodes_;
  const bool has_jobs_;
  const bool has_containers_;
  Table table_;
};

bool HasJobs(std::span<const TargetInfo> targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const TargetInfo& target) { return !JobOf(target).empty(); });
}

bool HasContainers(std::span<const TargetInfo> targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [](const TargetInfo& target) { return target.foreign_namespace; });
}

constexpr std::string_view kNoTargets =
    "No process of yours has loaded the client library. Start one that uses PyTorch, CUDA or NVTX "
    "as `profctl run -- CMD`; `import profd; profd.init()` in Python, or libprofd_client linked, "
    "make any other show up here.\n";

void WriteTargetJson(const std::string* node, const TargetInfo& target, JsonWriter& json) {
  json.BeginObject();
  if (node != nullptr) json.Field("node", *node);
  json.Field("pid", target.pid);
  json.Field("namespace_pid", target.namespace_pid);
  json.Field("foreign_namespace", target.foreign_namespace);
  json.Field("uid", target.uid);
  json.Field("gid", target.gid);
  json.Field("parent_pid", target.parent_pid);
  json.Field("command", target.command);
  json.Field("cgroup", target.cgroup);
  json.Field("metadata", target.metadata);
  json.Field("state", ToString(target.state));
  json.Field("step_mark_count", target.step_mark_count);
  json.Field("current_step", target.current_step);
  json.Field("steps_per_second", target.steps_per_second);
  json.Field("library_version", target.library_version);
  json.Field("protocol_version", target.protocol_version);
  json.Field("register_unix_ns", absl::ToUnixNanos(target.registered_time));
  json.Field("dropped_event_count", target.dropped_event_count);
  json.Field("foreign_step_mark_count", target.foreign_step_mark_count);
  json.Field("step_source", ToString(target.step_source));
  json.Field("batch_count", target.batch_count);
  json.Field("since_last_step_ns", target.since_last_step_ns);
  json.Field("median_step_ns", target.median_step_ns);
  json.Field("misses_steps", MissesSteps(target));
  json.Field("job", JobOf(target));
  json.Field("rank", RankOf(target));
  json.Field("pod_namespace", target.workload.pod_namespace);
  json.Field("pod_name", target.workload.pod_name);
  json.Field("opted_out", target.opted_out);
  json.EndObject();
}

}  // namespace

std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style) {
  if (targets.empty()) return std::string(kNoTargets);
  TargetTable table(/*has_nodes=*/false, HasJobs(targets), HasContainers(targets));
  table.Add("", targets);
  return table.Render(style);
}

std::string RenderNodeTargets(std::span<const NodeTargets> nodes, const Style& style) {
  bool has_any = false;
  bool has_jobs = false;
  bool has_containers = false;
  for (const NodeTargets& node : nodes) {
    has_any |= !node.targets.empty();
    has_jobs |= HasJobs(node.targets);
    has_containers |= HasContainers(node.targets);
  }
  if (!has_any) return std::string(kNoTargets);
  TargetTable table(/*has_nodes=*/true, has_jobs, has_containers);
  for (const NodeTargets& node : nodes) table.Add(node.node, node.targets);
  return table.Render(style);
}

void WriteTargetsJson(std::span<const TargetInfo> targets, JsonWriter& json) {
  json.Key("targets").BeginArray();
  for (const TargetInfo& target : targets) WriteTargetJson(nullptr, target, json);
  json.EndArray();
}

void WriteNodeTargetsJson(std::span<const NodeTargets> nodes, JsonWriter& json) {
  json.Key("targets").BeginArray();
  for (const NodeTargets& node : nodes) {
    for (const TargetInfo& target : node.targets) WriteTargetJson(&node.node, target, json);
  }
  json.EndArray();
}

}  // namespace profd::cli
