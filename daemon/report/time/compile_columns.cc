// The columns of the tables of torch.compile, and what the report says below them.
#include "daemon/base/str_cat.h"
#include "daemon/base/table/description.h"
#include "daemon/base/units.h"
#include "daemon/report/time/compile_report.h"

namespace profd::report {
namespace {

using table::OverRanks;
using table::Unit;

const table::Description<CompileReport>& CompileTotals() {
  static const table::Description<CompileReport> totals = {
      {&CompileReport::has_compiled,
       {.key = "has_compiled",
        .title = "Compiled",
        .doc = "Whether torch.compile activity was recorded"}},
      {&CompileReport::folded_event_count,
       {.key = "folded_event_count",
        .title = "Left out",
        .doc = "Events inside compilations, which are counted but not kept",
        .unit = Unit::kCount}}};
  return totals;
}

const table::Description<CompiledRegionRow>& RegionColumns() {
  static const table::Description<CompiledRegionRow> columns = {
      {&CompiledRegionRow::id,
       {.key = "id",
        .title = "Region",
        .doc = "Compiled region: frame and compilation",
        .over_ranks = OverRanks::kKey}},
      {&CompiledRegionRow::code,
       {.key = "code", .title = "Code", .doc = "Its source code", .flexible = true}},
      {&CompiledRegionRow::calls,
       {.key = "calls",
        .title = "Calls",
        .doc = "Number of calls",
        .unit = Unit::kCount,
        .over_ranks = OverRanks::kSum}},
      {&CompiledRegionRow::total_ns,
       {.key = "total_ns",
        .title = "Total",
        .doc = "Sum of durations",
        .formula = "sum of end - start",
        .unit = Unit::kNs,
        .over_ranks = OverRanks::kSum}},
      {&CompiledRegionRow::after_graph_break,
       {.key = "after_graph_break",
        .title = "After break",
        .doc = "Whether the region continues a function after a graph break",
        .priority = 1,
        .only_if_set = true}}};
  return columns;
}

const table::Description<GraphBreakRow>& GraphBreakColumns() {
  static const table::Description<GraphBreakRow> columns = {
      {&GraphBreakRow::where,
       {.key = "where",
        .title = "Graph break",
        .doc = "Where Dynamo stopped",
        .over_ranks = OverRanks::kKey}},
      {&GraphBreakRow::reason,
       {.key = "reason",
        .title = "Reason",
        .doc = "Why it stopped",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      {&GraphBreakRow::count,
       {.key = "count",
        .title = "Compilations",
        .doc = "Compilations in the window that had this graph break",
        .unit = Unit::kCount,
        .over_ranks = OverRanks::kSum}}};
  return columns;
}

const table::Description<RecompileRow>& RecompileColumns() {
  static const table::Description<RecompileRow> columns = {
      {&RecompileRow::where,
       {.key = "where",
        .title = "Compiled again",
        .doc = "Code that was compiled more than once",
        .over_ranks = OverRanks::kKey}},
      {&RecompileRow::reason,
       {.key = "reason",
        .title = "Reason",
        .doc = "Which guard failed",
        .flexible = true,
        .over_ranks = OverRanks::kKey}},
      {&RecompileRow::count,
       {.key = "count",
        .title = "Times",
        .doc = "Number of compilations in the window",
        .unit = Unit::kCount,
        .over_ranks = OverRanks::kSum}},
      {&RecompileRow::compile_ns,
       {.key = "compile_ns",
        .title = "Compiling",
        .doc = "Time spent in compilations",
        .unit = Unit::kNs,
        .priority = 1,
        .nullable = true,
        .over_ranks = OverRanks::kSum}}};
  return columns;
}

const table::Description<CompileStepRow>& CompileStepColumns() {
  static const table::Description<CompileStepRow> columns = {
      {&CompileStepRow::step,
       {.key = "step",
        .title = "Step",
        .doc = "The step; -: outside all steps",
        .nullable = true,
        .over_ranks = OverRanks::kKey}},
      {&CompileStepRow::regions,
       {.key = "regions", .title = "Regions", .doc = "Compiled regions run", .unit = Unit::kCount}},
      {&CompileStepRow::after_breaks,
       {.key = "after_breaks",
        .title = "After breaks",
        .doc = "Executed regions that continue after a graph break",
        .unit = Unit::kCount,
        .priority = 2}},
      {&CompileStepRow::compilations,
       {.key = "compilations",
        .title = "Compilations",
        .doc = "Number of compilations; only recompilations if torch hides the others",
        .unit = Unit::kCount}},
      {&CompileStepRow::compile_ns,
       {.key = "compile_ns",
        .title = "Compiling",
        .doc = "Time spent in compilations",
        .unit = Unit::kNs}},
      {&CompileStepRow::cache_lookups,
       {.key = "cache_lookups",
        .title = "Cache lookups",
        .doc = "Number of guard checks",
        .unit = Unit::kCount,
        .priority = 3}},
      {&CompileStepRow::cache_lookup_ns,
       {.key = "cache_lookup_ns",
        .title = "Guards",
        .doc = "Time in guard checks",
        .unit = Unit::kNs,
        .priority = 1}}};
  return columns;
}

}  // namespace

table::Report ToReport(const CompileReport& compiled) {
  table::Report report = {
      .name = "compile",
      .totals = CompileTotals().ToTable("totals", std::span(&compiled, 1)),
      .tables = {RegionColumns().ToTable("regions", compiled.regions),
                 GraphBreakColumns().ToTable("graph_breaks", compiled.graph_breaks),
                 RecompileColumns().ToTable("recompiles", compiled.recompiles),
                 CompileStepColumns().ToTable("steps", compiled.steps)}};
  if (!compiled.has_compiled) {
    report.notes.emplace_back(
        "No torch.compile activity was recorded: the program compiled nothing in the window, or "
        "operators were not recorded (--ops off, or no torch).");
  }
  if (compiled.folded_event_count > 0) {
    report.notes.push_back(StrCat(FormatCount(compiled.folded_event_count),
                                  " events inside compilations were left out."));
  }
  return report;
}

}  // namespace profd::report
