#include <algorithm>
#include <utility>
#include <vector>

#include "cli/base/row_limit.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/one_run.h"
#include "cli/commands/command.h"
#include "cli/commands/torch_ops.h"
#include "cli/render/capture.h"
#include "cli/render/group_reports.h"
#include "cli/render/op_profile.h"
#include "cli/render/torch.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/ops/profile.h"

namespace profd::cli {
namespace {

constexpr std::string_view kByRank = "rank";

struct OpsRequest {
  report::OpProfileOptions options;
  bool by_rank = false;
};

absl::StatusOr<OpsRequest> ParseOpsRequest(const Invocation& invocation) {
  const ParsedFlags& flags = invocation.flags();
  if (invocation.json() && flags.Has("csv")) return UsageError("--csv does not go with --json");
  OpsRequest wanted;
  report::OpProfileOptions& options = wanted.options;
  if (const auto sort = flags.Get("sort")) {
    const std::string_view own = OwnSortKey(*sort);
    options.sort = own.empty() ? *sort : std::string(own);
  }
  if (const auto by = flags.Get("group-by")) {
    wanted.by_rank = *by == kByRank;
    options.group = report::OpGroupFromString(*by).value_or(report::OpGroup::kName);
  }
  options.by_step = flags.Has("by-step") || options.group == report::OpGroup::kStep;
  ASSIGN_OR_RETURN(options.step, flags.Int("step", 0));
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  const bool is_for_people = !invocation.json() && !flags.Has("csv");
  options.limit = limit.value_or(is_for_people ? kRowsForPeople : 0);
  return wanted;
}

OpProfileView OpProfileViewOf(const report::OpProfile& profile, const OpsRequest& wanted,
                              bool is_simulated) {
  const report::OpGroup group = wanted.options.group;
  const bool is_grouped = group == report::OpGroup::kModule || group == report::OpGroup::kThread;
  return {.profile = profile,
          .group = wanted.by_rank ? kByRank
                   : is_grouped   ? report::ToString(group)
                                  : "",
          .by_step = wanted.options.by_step,
          .by_inputs = group == report::OpGroup::kInputs,
          .is_simulated = is_simulated};
}

// Says on stderr why a column of groups is empty.
void NoteMissingModules(Invocation& invocation, const report::OpProfile& profile,
                        const OpsRequest& wanted) {
  if (wanted.options.group != report::OpGroup::kModule) return;
  for (const report::OpProfileRow& row : profile.rows) {
    if (!row.group.empty()) return;
  }
  invocation.Note(
      "No modules are in this capture: torch.profiler records them with with_stack=True.\n");
}

absl::StatusOr<report::OpProfile> ProfileOf(CaptureSource& source, const OpsRequest& wanted) {
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  return report::SummarizeOpProfile(*reader, wanted.options);
}

absl::StatusOr<int> ShowOpsOfOne(Invocation& invocation, const OpsRequest& wanted,
                                 CaptureSource& source) {
  ASSIGN_OR_RETURN(const report::OpProfile profile, ProfileOf(source, wanted));
  const OpProfileView view = OpProfileViewOf(profile, wanted, source.view().record.gpu.simulated);
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    WriteReportHeaderJson(source.view(), json);
    WriteOpProfileJson(view, json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else if (invocation.flags().Has("csv")) {
    invocation.Note(RenderReportHeader(source.view(), invocation.error_style()));
    invocation.Print(OpProfileCsv(view));
  } else {
    invocation.Print(RenderReportHeader(source.view(), invocation.style()));
    invocation.Print(RenderOpProfile(view, StyleFor(source.view(), invocation.style())));
  }
  NoteMissingModules(invocation, profile, wanted);
  return 0;
}

// The rows of `part`, as those of `label`, go behind those of `all`.
void AppendProfile(report::OpProfile part, const std::string& label, report::OpProfile& all) {
  for (report::OpProfileRow& row : part.rows) {
    row.group = label;
    all.rows.push_back(std::move(row));
  }
  report::OpTable& totals = all.totals;
  totals.has_memory |= part.totals.has_memory;
  totals.has_device |= part.totals.has_device;
  totals.self_cpu_total_ns += part.totals.self_cpu_total_ns;
  totals.self_device_total_ns += part.totals.self_device_total_ns;
  totals.unattributed_device_ns += part.totals.unattributed_device_ns;
  totals.row_count += part.totals.row_count;
  all.busy_device_ns += part.busy_device_ns;
  all.step_count = std::max(all.step_count, part.step_count);
  all.frame_row_count += part.frame_row_count;
  all.has_flops |= part.has_flops;
  all.has_peak |= part.has_peak;
}

// One row for each name and rank.
absl::StatusOr<int> ShowOpsByRank(Invocation& invocation, const OpsRequest& wanted,
                                  CaptureSet& set) {
  OpsRequest whole = wanted;
  whole.options.limit = 0;
  std::vector<report::OpProfile> profiles(set.members().size());
  const absl::Status status =
      set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(profiles[member], ProfileOf(source, whole));
        return absl::OkStatus();
      });
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  report::OpProfile all;
  bool is_simulated = false;
  for (size_t i = 0; i < profiles.size(); ++i) {
    const CaptureSet::Member& member = set.members()[i];
    if (!member.missing.empty()) continue;
    is_simulated |= member.view.record.gpu.simulated;
    AppendProfile(std::move(profiles[i]), LabelOf(member), all);
  }
  report::SortAndCut(wanted.options, all);
  const OpProfileView view = OpProfileViewOf(all, wanted, is_simulated);
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    WriteMembersJson(set, json);
    WriteOpProfileJson(view, json);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else if (invocation.flags().Has("csv")) {
    invocation.Print(OpProfileCsv(view));
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderOpProfile(view, StyleFor(set, invocation.style())));
  }
  return ExitCodeOf(set);
}

// The options of the report that compares ranks: it knows fewer columns and groups.
absl::StatusOr<report::OpOptions> GroupOptions(const Invocation& invocation,
                                               const OpsRequest& wanted) {
  if (invocation.flags().Has("csv")) return UsageError("--csv of a group needs --group-by rank");
  report::OpOptions options = {.limit = wanted.options.limit, .step = wanted.options.step};
  options.by_step = wanted.options.by_step;
  switch (wanted.options.group) {
    case report::OpGroup::kName:
    case report::OpGroup::kStep:
      break;
    case report::OpGroup::kInputs:
      options.by_inputs = true;
      break;
    case report::OpGroup::kModule:
    case report::OpGroup::kThread:
      return UsageError(
          "a group is compared by name, inputs or step, or shown by rank; name one "
          "of its captures for the rest");
  }
  if (wanted.options.sort.empty()) return options;
  const std::optional<report::OpSort> sort = report::OpSortFromString(wanted.options.sort);
  if (!sort.has_value()) {
    return UsageError(StrCat("ranks are not compared by ", wanted.options.sort,
                             "; --group-by rank shows it for each"));
  }
  options.sort = *sort;
  return options;
}

absl::StatusOr<int> ShowOpsOfGroup(Invocation& invocation, const OpsRequest& wanted,
                                   CaptureSet& set) {
  ASSIGN_OR_RETURN(const report::OpOptions options, GroupOptions(invocation, wanted));
  // What is a small row of one rank may be a large one of all.
  report::OpOptions whole = options;
  whole.limit = 0;
  std::vector<report::OpTable> tables(set.members().size());
  const absl::Status status =
      set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(tables[member], source.Ops(whole));
        return absl::OkStatus();
      });
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  std::vector<const report::OpTable*> present;
  for (size_t i = 0; i < tables.size(); ++i) {
    present.push_back(set.members()[i].missing.empty() ? &tables[i] : nullptr);
  }
  const report::GroupOps ops = report::CompareOps(present, options.sort, options.limit);
  if (invocation.json()) {
    JsonWriter json;
    WriteGroupOpsJson(set, ops, options, json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderGroupOps(set, ops, options, invocation.style()));
  }
  return ExitCodeOf(set);
}

absl::StatusOr<int> RunOps(Invocation& invocation) {
  if (invocation.flags().Has("torch")) {
    RETURN_IF_ERROR(CheckTorchFlags(invocation));
    ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
    if (set.is_group()) return UsageError("--torch is for one capture, not for a group");
    return ShowTorchOps(invocation, set.Only());
  }
  ASSIGN_OR_RETURN(const OpsRequest wanted, ParseOpsRequest(invocation));
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (wanted.by_rank) return ShowOpsByRank(invocation, wanted, set);
  return set.is_group() ? ShowOpsOfGroup(invocation, wanted, set)
                        : ShowOpsOfOne(invocation, wanted, set.Only());
}

std::vector<std::string_view> SortChoices() {
  const std::span<const std::string_view> own = report::OpProfileSortKeys();
  std::vector<std::string_view> choices(own.begin(), own.end());
  const std::vector<std::string_view>& torch = TorchSortKeys();
  choices.insert(choices.end(), torch.begin(), torch.end());
  return choices;
}

}  // namespace

Command OpsCommand() {
  return {
      .name = "ops",
      .summary = "Show the operator table: calls, self and total time on CPU and GPU",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Shows what ran, by name. CPU total is the time from begin to end, summed over calls; "
          "self CPU is that less the time of the ranges and CUDA calls directly inside, on the "
          "same thread. Self CUDA is what ran on GPUs for the row itself, whenever it ran, CUDA "
          "total that and what its children launched; work of several streams counts as often as "
          "it ran. CUDA busy counts every moment once. Where allocators were recorded, memory is "
          "what the row allocated less what it freed; self, less that of the ranges directly "
          "inside. TFLOP/s is what matrix products, convolutions and attention computed, by the "
          "sizes of their inputs, over the time that the GPU was busy with them. `profctl explain` "
          "has every column's definition and formula.\n\n"
          "--torch prints torch.profiler's own table of the same events instead, letter for "
          "letter.\n\n"
          "Of a group, or of several files, it shows the figure that --sort names over the ranks: "
          "minimum, median, maximum and the slowest one; with --group-by rank, each rank's rows. A "
          "rank that did not run an operator has 0. A member that is out of reach is named on "
          "stderr, and the exit code is then 4.",
      .flags =
          {{.name = "sort",
            .value_name = "KEY",
            .help = "Order rows by a column (default: self_device where there is a GPU, else "
                    "self_cpu): name, share, self_cpu, cpu_total, average, min, p50, p95, max, "
                    "calls, calls_per_step, self_device, device_total, device_average, "
                    "busy_device, flops, flops_per_s, peak_share, cpu_memory, self_cpu_memory, "
                    "device_memory or self_device_memory; torch.profiler's names do, too",
            .completes = Completes::kChoice,
            .choices = SortChoices()},
           {.name = "limit",
            .value_name = "N",
            .help = "At most N rows; 0 is all (default: 50; 100 with --torch; all with --json and "
                    "--csv)"},
           {.name = "group-by",
            .value_name = "WHAT",
            .help = "One row for each name (default), or for each name and the shapes and types "
                    "of its inputs, the module that it ran in, the step, thread or rank: name, "
                    "inputs, module, step, thread or rank",
            .completes = Completes::kChoice,
            .choices = {"name", "input_shape", "module", "step", "thread", "rank"}},
           {.name = "by-step",
            .help = "One row for each step, too, whatever else rows are grouped by"},
           {.name = "step", .value_name = "K", .help = "Only ranges that begin inside step K"},
           {.name = "csv", .help = "Print all columns as comma-separated values, times in ns"},
           {.name = "torch",
            .value_name = "VERSION",
            .help = "Print the table that torch.profiler prints, as that release of PyTorch does "
                    "(default: the program's own, or the newest that is known)",
            .value_is_optional = true},
           ForceGroupFlag()},
      .examples = {{"profctl ops 01J9ZK", "Where the time went"},
                   {"profctl ops 01J9ZK --group-by input_shape",
                    "Which sizes of an operator took it"},
                   {"profctl ops run.profd --sort cpu_total --step 120",
                    "One step of a fetched capture"},
                   {"profctl ops run.profd --torch=2.6 --sort cuda_time_total",
                    "As torch 2.6 prints prof.key_averages().table()"},
                   {"profctl ops 01J9ZM --sort busy_device", "A group: operators by rank"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunOps};
}

}  // namespace profd::cli
