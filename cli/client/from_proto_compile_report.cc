#include <utility>

#include "cli/client/from_proto.h"

namespace profd::cli {

report::CompileReport FromProto(v1::GetCompileResponse message) {
  report::CompileReport report;
  report.has_compiled = message.has_compiled();
  for (v1::CompiledRegionRow& row : *message.mutable_regions()) {
    report.regions.push_back({.id = std::move(*row.mutable_id()),
                              .code = std::move(*row.mutable_code()),
                              .after_graph_break = row.after_graph_break(),
                              .calls = row.calls(),
                              .total_ns = row.total_ns()});
  }
  for (v1::GraphBreakRow& row : *message.mutable_graph_breaks()) {
    report.graph_breaks.push_back({.where = std::move(*row.mutable_where()),
                                   .reason = std::move(*row.mutable_reason()),
                                   .count = row.count()});
  }
  for (v1::RecompileRow& row : *message.mutable_recompiles()) {
    report.recompiles.push_back({.where = std::move(*row.mutable_where()),
                                 .reason = std::move(*row.mutable_reason()),
                                 .count = row.count(),
                                 .compile_ns = row.compile_ns()});
  }
  for (const v1::CompileStepRow& row : message.steps()) {
    report.steps.push_back({.step = row.step(),
                            .regions = row.regions(),
                            .after_breaks = row.after_breaks(),
                            .compilations = row.compilations(),
                            .compile_ns = row.compile_ns(),
                            .cache_lookups = row.cache_lookups(),
                            .cache_lookup_ns = row.cache_lookup_ns()});
  }
  report.folded_event_count = message.folded_event_count();
  return report;
}

}  // namespace profd::cli
