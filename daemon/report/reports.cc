#include "daemon/report/reports.h"

#include <algorithm>
#include <optional>

#include "absl/strings/numbers.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/findings/findings.h"
#include "daemon/report/findings/thresholds.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/gpu/sync_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/memory/memory_report.h"
#include "daemon/report/ops/module_tree.h"
#include "daemon/report/ops/profile.h"
#include "daemon/report/ops/torch_table.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/report/time/compile_report.h"
#include "daemon/report/time/time_report.h"

namespace profd::report {
namespace {

constexpr ReportOption kStepOption = {"step", "K", "Only kernels that were launched in step K"};
constexpr ReportOption kKernelOptions[] = {kStepOption};

constexpr ReportOption kModuleOptions[] = {
    {"step", "K", "Only step K, and GPU work that was launched in it"}};

constexpr ReportOption kMemoryOptions[] = {
    {"max_points", "N",
     "At most N samples per device, at least 4; each time bucket keeps its lowest and highest; 0: "
     "all"}};

constexpr ReportOption kTimeOptions[] = {
    {"device", "N", "The GPU to report on (default: the one with the most work)"},
    {"launched_only", "0|1", "Only work whose launch is in the capture"},
};

constexpr ReportOption kThresholdsOption = {
    "thresholds", "TEXT", "Lines `key = value`: when a measurement becomes a finding"};
constexpr ReportOption kFindingOptions[] = {kThresholdsOption};

constexpr ReportOption kOpOptions[] = {
    {"group_by", "WHAT",
     "One row for each name, or by input_shape, module, source, stack, stack:N (of N lines), "
     "arguments, arguments:KEY (only of that key), step, or thread, too"},
    {"by_step", "0|1", "One row for each step, too"},
    {"step", "K", "Only ranges that begin inside step K"},
    {"sums_only", "0|1", "Only sums: no percentiles, FLOPs, or figures by step; faster"},
};

constexpr ReportOption kVersionOption = {
    "version", "RELEASE",
    "As that release of PyTorch has it: 2.6; else the program's own, or the newest that is known"};
constexpr ReportOption kTorchOptions[] = {
    {"group_by", "WHAT", "One row for each name, or by input_shape, too"}, kVersionOption};

std::string_view OptionOf(const ReportRequest& request, std::string_view name) {
  const auto found = request.options.find(name);
  return found == request.options.end() ? std::string_view() : std::string_view(found->second);
}

// nullopt: not given.
absl::StatusOr<std::optional<int64_t>> NumberOf(const ReportRequest& request,
                                                std::string_view name) {
  const std::string_view text = OptionOf(request, name);
  if (text.empty()) return std::nullopt;
  int64_t number = 0;
  if (absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &number) && number >= 0) {
    return number;
  }
  return absl::InvalidArgumentError(
      StrCat(name, " must be a number, 0 or more, and is '", ForDisplay(text, 80), "'"));
}

absl::StatusOr<bool> FlagOf(const ReportRequest& request, std::string_view name) {
  const std::string_view text = OptionOf(request, name);
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  return absl::InvalidArgumentError(
      StrCat(name, " must be 0 or 1, and is '", ForDisplay(text, 80), "'"));
}

template <auto kSummarize>
absl::StatusOr<table::Report> MakePlain(store::CaptureReader& reader,
                                        const ReportRequest& /*request*/) {
  ASSIGN_OR_RETURN(const auto rows, kSummarize(reader));
  return ToReport(rows);
}

template <typename Table>
table::Report ShapeOf() {
  return ToReport(Table());
}

template <auto kObject>
const table::AnyObject& JsonOf() {
  return kObject();
}

absl::StatusOr<OpProfileOptions> OpOptionsOf(const ReportRequest& request) {
  OpProfileOptions options;
  if (const std::string_view by = OptionOf(request, "group_by"); !by.empty()) {
    const size_t colon = by.find(':');
    const std::optional<OpGroup> group = OpGroupFromString(by.substr(0, colon));
    const bool has_detail = colon != by.npos;
    const bool takes_detail = group == OpGroup::kStack || group == OpGroup::kArguments;
    if (!group.has_value() || (has_detail && !takes_detail)) {
      return absl::InvalidArgumentError(
          StrCat("group_by must be name, input_shape, module, source, stack, stack:N, arguments, "
                 "arguments:KEY, step, or thread, and is '",
                 ForDisplay(by, 80), "'"));
    }
    options.group = *group;
    if (has_detail && *group == OpGroup::kArguments) {
      options.detail.argument = by.substr(colon + 1);
      if (options.detail.argument.empty()) {
        return absl::InvalidArgumentError("group_by arguments:KEY: KEY is empty");
      }
    }
    uint32_t frames = options.detail.frames;
    if (has_detail && *group == OpGroup::kStack &&
        (!absl::SimpleAtoi(ToAbsl(by.substr(colon + 1)), &frames) || frames == 0 ||
         frames > PlaceIndex::kMaxFrames)) {
      return absl::InvalidArgumentError(StrCat("group_by stack:N: N must be in 1..",
                                               PlaceIndex::kMaxFrames, ", and is '",
                                               ForDisplay(by.substr(colon + 1), 40), "'"));
    }
    options.detail.frames = frames;
  }
  ASSIGN_OR_RETURN(options.by_step, FlagOf(request, "by_step"));
  ASSIGN_OR_RETURN(options.step, NumberOf(request, "step"));
  ASSIGN_OR_RETURN(options.sums_only, FlagOf(request, "sums_only"));
  return options;
}

absl::StatusOr<table::Report> MakeOps(store::CaptureReader& reader, const ReportRequest& request) {
  ASSIGN_OR_RETURN(const OpProfileOptions options, OpOptionsOf(request));
  ASSIGN_OR_RETURN(const OpProfile profile, SummarizeOpProfile(reader, options));
  return ToReport(profile);
}

// Of the option, or the one that the program had.
absl::StatusOr<TorchVersion> TorchVersionOf(const ReportRequest& request,
                                            const CaptureRecord& record) {
  const std::string_view text = OptionOf(request, kVersionOption.name);
  if (text.empty()) return TorchVersionFromString(record.torch.version).value_or(kNewestTorch);
  const std::optional<TorchVersion> version = TorchVersionFromString(text);
  const bool is_known =
      version.has_value() && !version->IsAtLeast(kNewestTorch.major, kNewestTorch.minor + 1);
  if (is_known) return *version;
  return absl::InvalidArgumentError(
      StrCat("'", ForDisplay(text, 80), "' is not a known release of PyTorch (1.13 to ",
             kNewestTorch.major, ".", kNewestTorch.minor, ", such as 2.6)"));
}

absl::StatusOr<table::Report> MakeTorchOps(store::CaptureReader& reader,
                                           const ReportRequest& request) {
  TorchTableOptions options;
  const std::string_view by = OptionOf(request, "group_by");
  options.by_inputs = by == ToString(OpGroup::kInputs);
  if (!by.empty() && !options.by_inputs && by != ToString(OpGroup::kName)) {
    return absl::InvalidArgumentError(StrCat(
        "torch's table is grouped by name or input_shape, not by '", ForDisplay(by, 80), "'"));
  }
  ASSIGN_OR_RETURN(options.version, TorchVersionOf(request, reader.record()));
  ASSIGN_OR_RETURN(const TorchTable torch, SummarizeAsTorch(reader, options));
  return ToReport(torch);
}

absl::StatusOr<table::Report> MakeModules(store::CaptureReader& reader,
                                          const ReportRequest& request) {
  ModuleTreeOptions options;
  ASSIGN_OR_RETURN(options.step, NumberOf(request, kStepOption.name));
  ASSIGN_OR_RETURN(const ModuleTree modules, SummarizeModules(reader, options));
  return ToReport(modules);
}

absl::StatusOr<table::Report> MakeKernels(store::CaptureReader& reader,
                                          const ReportRequest& request) {
  KernelOptions options;
  ASSIGN_OR_RETURN(options.step, NumberOf(request, kStepOption.name));
  ASSIGN_OR_RETURN(const KernelTable kernels, SummarizeKernels(reader, options));
  return ToReport(kernels);
}

absl::StatusOr<table::Report> MakeCollectives(store::CaptureReader& reader,
                                              const ReportRequest& request) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, NumberOf(request, "limit"));
  ASSIGN_OR_RETURN(const CollectiveTable rows, SummarizeCollectives(reader, limit.value_or(0)));
  return ToReport(rows);
}

absl::StatusOr<table::Report> MakeFindings(store::CaptureReader& reader,
                                           const ReportRequest& request) {
  FindingThresholds thresholds;
  if (const std::string_view text = OptionOf(request, kThresholdsOption.name); !text.empty()) {
    ASSIGN_OR_RETURN(thresholds, ParseFindingThresholds(text));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, NumberOf(request, "limit"));
  ASSIGN_OR_RETURN(FindingsReport findings, SummarizeFindings(reader, thresholds));
  if (const auto most = static_cast<size_t>(limit.value_or(0));
      most > 0 && findings.findings.size() > most) {
    findings.findings.resize(most);
  }
  return ToReport(findings);
}

absl::StatusOr<table::Report> MakeMemory(store::CaptureReader& reader,
                                         const ReportRequest& request) {
  MemoryOptions options;
  ASSIGN_OR_RETURN(const std::optional<int64_t> max_points, NumberOf(request, "max_points"));
  options.max_points = max_points.value_or(0);
  ASSIGN_OR_RETURN(const MemoryReport memory, ReportMemory(reader, options));
  return ToReport(memory);
}

absl::StatusOr<table::Report> MakeTime(store::CaptureReader& reader, const ReportRequest& request) {
  TimeOptions options;
  ASSIGN_OR_RETURN(options.device, NumberOf(request, "device"));
  ASSIGN_OR_RETURN(options.launched_only, FlagOf(request, "launched_only"));
  ASSIGN_OR_RETURN(const TimeReport time, SummarizeTime(reader, options));
  return ToReport(time);
}

constexpr ReportKind kKinds[] = {
    {.name = "findings",
     .doc = "What to change first, with estimated savings and evidence, and how far to trust it",
     .options = kFindingOptions,
     .limits_itself = true,
     .command = "report",
     .json = &JsonOf<&FindingsObject>,
     .shape = &ShapeOf<FindingsReport>,
     .make = &MakeFindings},
    {.name = "ops",
     .doc = "Operators, ranges, and CUDA calls: calls, self and total time on CPU and GPU",
     .options = kOpOptions,
     .shape = &ShapeOf<OpProfile>,
     .make = &MakeOps},
    {.name = kTorchReport,
     .doc = "The operator table as torch.profiler counts it, for one of its releases",
     .options = kTorchOptions,
     .command = "ops",
     .schema = kTorchReport,
     .shape = &ShapeOf<TorchTable>,
     .make = &MakeTorchOps},
    {.name = "modules",
     .doc = "Modules as a tree: host time, GPU work, memory, and FLOPs, forward and backward",
     .options = kModuleOptions,
     .shape = &ShapeOf<ModuleTree>,
     .make = &MakeModules},
    {.name = "steps",
     .doc = "Step durations and outliers",
     .shape = &ShapeOf<StepTable>,
     .make = &MakePlain<&SummarizeSteps>},
    {.name = "kernels",
     .doc = "GPU kernels by name",
     .options = kKernelOptions,
     .shape = &ShapeOf<KernelTable>,
     .make = &MakeKernels},
    {.name = "copies",
     .doc = "Copies and memsets by kind",
     .shape = &ShapeOf<CopyTable>,
     .make = &MakePlain<&SummarizeCopies>},
    {.name = "syncs",
     .doc = "Host waits for the GPU, by caller",
     .shape = &ShapeOf<SyncTable>,
     .make = &MakePlain<&SummarizeSyncs>},
    {.name = "idle",
     .doc = "Busy and idle time of each GPU per step, with idle causes",
     .shape = &ShapeOf<IdleTable>,
     .make = &MakePlain<&SummarizeIdle>},
    {.name = "memory",
     .doc = "Memory over time by category, the peak and what was alive at it, growth",
     .options = kMemoryOptions,
     .json = &JsonOf<&MemoryObject>,
     .shape = &ShapeOf<MemoryReport>,
     .make = &MakeMemory},
    {.name = "time",
     .doc = "Where the time went: the GPU, the host, launches, collectives, waits",
     .options = kTimeOptions,
     .shape = &ShapeOf<TimeReport>,
     .make = &MakeTime},
    {.name = "compile",
     .doc = "torch.compile activity: regions, graph breaks, recompilations, per step",
     .shape = &ShapeOf<CompileReport>,
     .make = &MakePlain<&SummarizeCompile>},
    {.name = "collectives",
     .doc = "Collective operations, and their share of each step",
     .limits_itself = true,
     .shape = &ShapeOf<CollectiveTable>,
     .make = &MakeCollectives},
};

bool HasOption(const ReportKind& kind, std::string_view name) {
  return name == "sort" || name == "limit" ||
         std::ranges::find(kind.options, name, &ReportOption::name) != kind.options.end();
}

absl::Status CheckOptions(const ReportKind& kind, const ReportRequest& request) {
  for (const auto& [name, value] : request.options) {
    if (!HasOption(kind, name)) {
      return absl::InvalidArgumentError(
          StrCat("the report '", kind.name, "' has no option '", ForDisplay(name, 80), "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const ReportKind> ReportKinds() { return kKinds; }

const ReportKind* FindReportKind(std::string_view name) {
  const auto* const found = std::ranges::find(kKinds, name, &ReportKind::name);
  return found == std::end(kKinds) ? nullptr : found;
}

absl::Status ApplyView(const ReportRequest& request, table::Report& report) {
  const ReportKind* const kind = FindReportKind(request.report);
  table::ViewOptions view = {.sort = std::string(OptionOf(request, "sort"))};
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, NumberOf(request, "limit"));
  if (kind == nullptr || !kind->limits_itself) view.limit = limit.value_or(0);
  for (table::Table& rows : report.tables) {
    RETURN_IF_ERROR(table::Apply(view, rows));
    view.sort.clear();  // The others have columns of their own.
  }
  return absl::OkStatus();
}

absl::StatusOr<table::Report> MakeReport(store::CaptureReader& reader,
                                         const ReportRequest& request) {
  const ReportKind* const kind = FindReportKind(request.report);
  if (kind == nullptr) {
    return absl::InvalidArgumentError(StrCat("no report '", ForDisplay(request.report, 80), "'"));
  }
  RETURN_IF_ERROR(CheckOptions(*kind, request));
  // Before the work: a sort key that does not exist costs nothing.
  table::Report shape = kind->shape();
  RETURN_IF_ERROR(ApplyView(request, shape));
  ASSIGN_OR_RETURN(table::Report report, kind->make(reader, request));
  RETURN_IF_ERROR(ApplyView(request, report));
  return report;
}

}  // namespace profd::report
