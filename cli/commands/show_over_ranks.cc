#include "cli/commands/show_over_ranks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/capture_source.h"
#include "cli/captures/one_run.h"
#include "cli/render/group_reports.h"
#include "cli/render/over_ranks.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/table/over_ranks.h"

namespace profd::cli {
namespace {

constexpr std::array<std::string_view, 5> kComparedColumns = {
    table::kMinOverRanks, table::kMedianOverRanks, table::kMaxOverRanks, table::kMaxRank,
    table::kRankCount};

// Whether rows are sorted by what only the comparison has.
bool IsOfComparison(std::string_view sort) {
  return std::ranges::find(kComparedColumns, sort) != kComparedColumns.end();
}

// Of one rank of several: what is a small row of one may be a large one of all.
report::ReportRequest WholeOf(const report::ReportRequest& request, std::string_view sort) {
  report::ReportRequest whole = request;
  whole.options.erase("limit");
  if (IsOfComparison(sort)) whole.options.erase("sort");
  return whole;
}

// Those of members that cannot be had stay empty.
absl::StatusOr<std::vector<std::optional<table::Report>>> ReportsOf(
    Invocation& invocation, CaptureSet& set, const OverRanksCommand& command,
    const report::ReportRequest& request) {
  std::vector<std::optional<table::Report>> reports(set.members().size());
  const absl::Status status =
      set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
        ASSIGN_OR_RETURN(reports[member], command.is_demanding ? DemandingReport(source, request)
                                                               : source.Report(request));
        return absl::OkStatus();
      });
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  return reports;
}

// The rows are by the figure already, if `sort` names it.
bool IsByFigure(std::string_view sort, const table::Report& report) {
  const std::string& figure =
      std::get<std::vector<std::string>>(report.totals.cells.front()).front();
  return sort == figure || StrCat(sort, "_ns") == figure || StrCat(sort, "_bytes") == figure;
}

absl::Status SortAndLimit(std::string_view sort, int64_t limit, table::Report& report) {
  table::ViewOptions view = {.limit = limit};
  if (!IsByFigure(sort, report)) view.sort = std::string(sort);
  for (table::Table& rows : report.tables) {
    RETURN_IF_ERROR(table::Apply(view, rows));
    view.sort.clear();  // The others have columns of their own.
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> OverRanksFlags() {
  return {{.name = "group-by",
           .value_name = "WHAT",
           .help = "Of a group: the rows of each rank, instead of the ranks compared: rank",
           .completes = Completes::kChoice,
           .choices = {"rank"}},
          ForceGroupFlag()};
}

void AddComparedColumns(Flag& sort) {
  sort.unoffered.insert(sort.unoffered.end(), kComparedColumns.begin(), kComparedColumns.end());
}

absl::StatusOr<int> ShowOverRanks(Invocation& invocation, CaptureSet& set,
                                  const OverRanksCommand& command,
                                  absl::FunctionRef<void(table::Report&)> adjust) {
  const ParsedFlags& flags = invocation.flags();
  const OverRanksKind& kind = *FindOverRanksKind(command.request.report);
  const bool is_by_rank = flags.Has("group-by");
  const std::string sort = flags.Get("sort").value_or("");
  if (is_by_rank && IsOfComparison(sort)) {
    return UsageError(StrCat("--sort ", sort, " does not go with --group-by rank"));
  }
  const report::ReportRequest whole = WholeOf(command.request, sort);
  ASSIGN_OR_RETURN(const std::vector<std::optional<table::Report>> reports,
                   ReportsOf(invocation, set, command, whole));
  std::vector<const table::Report*> present(reports.size(), nullptr);
  for (size_t i = 0; i < reports.size(); ++i) {
    if (set.members()[i].missing.empty() && reports[i].has_value()) present[i] = &*reports[i];
  }
  table::Report report =
      is_by_rank ? ReportOfEachRank(set, kind, present) : ReportOverRanks(set, kind, present, sort);
  RETURN_IF_ERROR(SortAndLimit(sort, command.limit, report));
  if (invocation.json()) {
    JsonWriter json;
    WriteSetReportJson(set, report, json);
    invocation.Print(json.TakeLine());
  } else if (flags.Has("csv")) {
    invocation.Note(RenderSetHeader(set, invocation.error_style()));
    if (!report.tables.empty()) invocation.Print(table::ToCsv(report.tables.front()));
  } else {
    adjust(report);
    invocation.Print(RenderSetHeader(set, invocation.style()));
    invocation.Print(RenderOverRanks(report, StyleFor(set, invocation.style())));
  }
  return ExitCodeOf(set);
}

}  // namespace profd::cli
