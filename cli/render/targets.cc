#include "cli/render/targets.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/object.h"
#include "cli/base/short_names.h"
#include "cli/base/units.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

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

// Whether an observer of torch stays between captures: the library says so in the metadata
// (client_lib/torch/steps.cc).
bool ObserverStays(const TargetInfo& target) {
  const auto observer = target.metadata.find("torch_observer");
  return observer != target.metadata.end() && observer->second == "stays";
}

// "optimizer"; "optimizer (observer stays)".
std::string SourceCell(const TargetInfo& target) {
  const bool is_known = target.step_source != StepSource::kNone;
  std::string cell = is_known ? std::string(ToString(target.step_source)) : std::string();
  if (!ObserverStays(target)) return cell;
  return StrCat(cell, cell.empty() ? "" : " ", "(observer stays)");
}

const ObjectDescription<TargetRow>& TargetObject() {
  using Row = TargetRow;
  static const ObjectDescription<Row> object(
      {{[](const Row& row) { return row.node == nullptr ? std::string() : *row.node; },
        {.title = "NODE", .doc = "Node of the daemon", .only_if_set = true}},
       {[](const Row& row) { return row.target->pid; },
        {.key = "pid", .title = "PID", .doc = "Process ID on the daemon's node"}},
       {[](const Row& row) {
          const bool has_other = row.target->foreign_namespace && row.target->namespace_pid > 0;
          return has_other ? StrCat(row.target->namespace_pid) : std::string();
        },
        {.title = "NSPID",
         .doc = "Process ID in the process's own PID namespace",
         .only_if_set = true,
         .right = true}},
       {[](const Row& row) { return row.target->uid; },
        {.key = "uid", .title = "UID", .doc = "User ID of the process", .priority = 2}},
       {[](const Row& row) {
          return row.target->opted_out ? std::string("opted out")
                                       : std::string(ToString(row.target->state));
        },
        {.title = "STATE", .doc = "State of the target. STOPPED: by a signal (SIGSTOP)"}},
       {[](const Row& row) { return StepCell(*row.target); },
        {.title = "STEP",
         .doc = "The number of the step that it is in. From the second missed step on, also the "
                "time since its last step: it may hang",
         .formula = "missed: no step for twice the median step time, and for 1 s",
         .right = true}},
       {[](const Row& row) {
          const double rate = row.target->steps_per_second;
          return rate > 0 ? std::string(absl::StrFormat("%.2f", rate)) : std::string();
        },
        {.title = "STEPS/S",
         .doc = "Steps per second, over the last marks",
         .formula = "marks / time between them",
         .priority = 3,
         .right = true}},
       {[](const Row& row) { return SourceCell(*row.target); },
        {.title = "STEPS FROM",
         .doc = "Step source: marks, an optimizer, torch.profiler, or a data loader. \"observer "
                "stays\": torch is observed between captures, too (torch before 2.1); `profctl run "
                "--help` has the cost",
         .priority = 4}},
       {[](const Row& row) { return JobOf(*row.target); },
        {.key = "job",
         .title = "JOB",
         .doc = "Job of the process, from its cgroup or environment",
         .priority = 1,
         .only_if_set = true}},
       {[](const Row& row) {
          const int64_t rank = RankOf(*row.target);
          return rank < 0 ? std::string() : StrCat(rank);
        },
        {.title = "RANK",
         .doc = "Rank, from the program's metadata",
         .priority = 1,
         .right = true}},
       {[](const Row& row) {
          return StrCat(std::string(2 * row.depth, ' '), ShortCommand(row.target->command));
        },
        {.title = "COMMAND",
         .doc = "Command, without folders and without the Python interpreter",
         .flexible = true}},
       // ---- For programs.
       {[](const Row& row) { return row.target->namespace_pid; },
        {.key = "namespace_pid",
         .doc = "Process ID in the process's own PID namespace",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->foreign_namespace; },
        {.key = "foreign_namespace",
         .doc = "Whether the process is in another PID or user namespace than the daemon",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->gid; },
        {.key = "gid", .doc = "Group ID of the process", .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->parent_pid; },
        {.key = "parent_pid", .doc = "Parent process ID", .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->command; },
        {.key = "command", .doc = "Command line, at most 4 KiB", .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->cgroup; },
        {.key = "cgroup", .doc = "cgroup of the process", .priority = kOnlyInData}},
       {[](const Row& row) { return std::string(ToString(row.target->state)); },
        {.key = "state",
         .doc = "RUNNING, CAPTURING, STOPPED (by a signal), or GONE",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->step_mark_count; },
        {.key = "step_mark_count",
         .doc = "Steps started; 0: the program marks no steps",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->current_step; },
        {.key = "current_step",
         .doc = "Number of the current step; -1: none",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->steps_per_second; },
        {.key = "steps_per_second",
         .doc = "Steps per second, over the last marks; 0: unknown",
         .formula = "marks / time between them",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->library_version; },
        {.key = "library_version",
         .doc = "Version of the client library in the process",
         .priority = kOnlyInData}},
       {[](const Row& row) { return int64_t{row.target->protocol_version}; },
        {.key = "protocol_version",
         .doc = "Version of the protocol between library and daemon",
         .priority = kOnlyInData}},
       {[](const Row& row) { return absl::ToUnixNanos(row.target->registered_time); },
        {.key = "register_unix_ns",
         .doc = "Registration time, since 1970-01-01 UTC",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->dropped_event_count; },
        {.key = "dropped_event_count",
         .doc = "Events lost in its captures",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->foreign_step_mark_count; },
        {.key = "foreign_step_mark_count",
         .doc = "Step marks of other threads or asyncio tasks, not counted as steps",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return std::string(ToString(row.target->step_source)); },
        {.key = "step_source",
         .doc = "Step source: none, marks, optimizer, profiler, dataloader, or periodicity",
         .priority = kOnlyInData}},
       {[](const Row& row) { return ObserverStays(*row.target); },
        {.key = "observer_stays",
         .doc = "Whether torch is observed between captures, because it has no optimizer hooks "
                "(torch before 2.1)",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->batch_count; },
        {.key = "batch_count",
         .doc =
             "Batches seen of torch's DataLoaders: until the first optimizer step, and in captures",
         .unit = table::Unit::kCount,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->since_last_step_ns; },
        {.key = "since_last_step_ns",
         .doc = "Time since the last step started; -1: unknown",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->median_step_ns; },
        {.key = "median_step_ns",
         .doc = "Median time of the last steps; -1: unknown",
         .unit = table::Unit::kNs,
         .priority = kOnlyInData}},
       {[](const Row& row) { return MissesSteps(*row.target); },
        {.key = "misses_steps",
         .doc = "Whether at least two steps are overdue, so that the job may hang",
         .priority = kOnlyInData}},
       {[](const Row& row) { return RankOf(*row.target); },
        {.key = "rank",
         .doc = "Rank, from the program's metadata; -1: none",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->workload.pod_namespace; },
        {.key = "pod_namespace",
         .doc = "Kubernetes namespace of its pod; empty: none",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->workload.pod_name; },
        {.key = "pod_name",
         .doc = "Kubernetes name of its pod; empty: none",
         .priority = kOnlyInData}},
       {[](const Row& row) { return row.target->opted_out; },
        {.key = "opted_out",
         .doc = "Whether the process opted out of captures",
         .priority = kOnlyInData}}},
      {Optional<Row>([](const Row& row) { return row.node != nullptr; },
                     TextOf<Row>("node", "Node name given with --nodes",
                                 [](const Row& row) { return *row.node; })),
       MapOf<Row>("metadata", "Metadata set by the program, such as rank and job", "string",
                  [](const Row& row) { return row.target->metadata; })});
  return object;
}

std::vector<TargetRow> RowsOf(std::span<const NodeTargets> nodes, bool names_nodes) {
  std::vector<TargetRow> rows;
  for (const NodeTargets& node : nodes) {
    const Forest forest(node.targets);
    for (const Placed& placed : forest.placed()) {
      rows.push_back({names_nodes ? &node.node : nullptr, placed.target, placed.depth});
    }
  }
  return rows;
}

constexpr std::string_view kNoTargets =
    "No process of yours has registered. Processes with the client library register within 30 s "
    "after profd starts. Start one that uses PyTorch, CUDA or NVTX as `profctl run -- "
    "CMD`; `import profd; profd.init()` in Python, or libprofd_client linked, make any other show "
    "up here.\n";

Colour ColourOfTarget(const TargetInfo& target) {
  if (MissesSteps(target) || target.state == TargetState::kStopped) return Colour::kYellow;
  return target.state == TargetState::kCapturing ? Colour::kGreen : Colour::kNone;
}

std::string Render(const std::vector<TargetRow>& rows, const Style& style, std::string_view job) {
  if (rows.empty() && !job.empty()) {
    return StrCat("No process of job ", ForDisplay(job, 80),
                  " has registered here; without --job, all processes are listed.\n");
  }
  if (rows.empty()) return std::string(kNoTargets);
  return RenderTable(TargetObject().columns().ToTable("targets", rows), style,
                     [&](size_t row) { return ColourOfTarget(*rows[row].target); });
}

}  // namespace

const ObjectDescription<TargetsAnswer>& TargetsAnswerObject() {
  using Row = TargetsAnswer;
  static const ObjectDescription<Row> object(
      {}, {ListOf<Row>(
               "targets", "The processes that can be captured", &TargetObject,
               [](const Row& row) -> const auto& { return row.targets; }),
           NodeOutcomesMember<Row>()});
  return object;
}

std::string RenderTargets(std::span<const TargetInfo> targets, const Style& style,
                          std::string_view job) {
  const NodeTargets node = {.node = "", .targets = {targets.begin(), targets.end()}};
  return Render(RowsOf(std::span(&node, 1), /*names_nodes=*/false), style, job);
}

std::string RenderNodeTargets(std::span<const NodeTargets> nodes, const Style& style,
                              std::string_view job) {
  return Render(RowsOf(nodes, /*names_nodes=*/true), style, job);
}

TargetsAnswer TargetsAnswerOf(std::span<const NodeTargets> nodes,
                              const std::vector<NodeOutcome>* outcomes) {
  TargetsAnswer answer = {.outcomes = outcomes};
  for (const NodeTargets& node : nodes) {
    const std::string* const name = outcomes == nullptr ? nullptr : &node.node;
    for (const TargetInfo& target : node.targets) answer.targets.push_back({name, &target});
  }
  return answer;
}

std::vector<table::Column> TargetColumns() { return TargetObject().columns().columns(); }

}  // namespace profd::cli
