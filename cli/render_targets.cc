#include "cli/render_targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/table.h"
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

std::string MetadataOf(const TargetInfo& target, const std::string& key) {
  const auto found = target.metadata.find(key);
  return found == target.metadata.end() ? "-" : found->second;
}

}  // namespace

std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style) {
  if (targets.empty()) {
    return "No process of yours has loaded the client library. `import profd; profd.init()` in "
           "Python, or link libprofd_client, makes it show up here.\n";
  }
  const bool has_containers = std::any_of(targets.begin(), targets.end(),
                                          [](const TargetInfo& t) { return t.foreign_namespace; });
  std::vector<Column> columns = {{.title = "PID"},
                                 {.title = "UID", .drop_order = 2},
                                 {.title = "STATE", .right = false},
                                 {.title = "STEP"},
                                 {.title = "STEPS/S", .drop_order = 3},
                                 {.title = "STEPS FROM", .right = false, .drop_order = 4},
                                 {.title = "RANK", .drop_order = 1},
                                 {.title = "COMMAND", .right = false, .flexible = true}};
  if (has_containers) columns.insert(columns.begin() + 1, {.title = "NSPID"});
  Table table(std::move(columns));
  const Forest forest(targets);
  for (const Placed& placed : forest.placed()) {
    const TargetInfo& target = *placed.target;
    std::vector<std::string> cells = {
        StrCat(target.pid),
        StrCat(target.uid),
        std::string(ToString(target.state)),
        target.step_mark_count == 0 ? "-" : StrCat(target.current_step),
        target.steps_per_second > 0 ? absl::StrFormat("%.2f", target.steps_per_second) : "-",
        target.step_source == StepSource::kNone ? "-" : std::string(ToString(target.step_source)),
        MetadataOf(target, "rank"),
        StrCat(std::string(2 * placed.depth, ' '), target.command)};
    if (has_containers) {
      cells.insert(cells.begin() + 1, target.foreign_namespace && target.namespace_pid > 0
                                          ? StrCat(target.namespace_pid)
                                          : std::string("-"));
    }
    table.AddRow(std::move(cells),
                 target.state == TargetState::kCapturing ? Colour::kGreen : Colour::kNone);
  }
  return table.Render(style);
}

void WriteTargetsJson(std::span<const TargetInfo> targets, JsonWriter& json) {
  json.BeginObject();
  json.Key("targets").BeginArray();
  for (const TargetInfo& target : targets) {
    json.BeginObject();
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
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace profd::cli
