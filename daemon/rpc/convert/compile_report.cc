// The report on torch.compile as a message.
#include "daemon/base/text.h"
#include "daemon/rpc/convert/convert.h"

namespace profd::rpc {

void CompileReportToProto(const report::CompileReport& report, v1::GetCompileResponse& out) {
  out.set_has_compiled(report.has_compiled);
  for (const report::CompiledRegionRow& region : report.regions) {
    v1::CompiledRegionRow& row = *out.add_regions();
    row.set_id(ToValidUtf8(region.id));
    row.set_code(ToValidUtf8(region.code));
    row.set_after_graph_break(region.after_graph_break);
    row.set_calls(region.calls);
    row.set_total_ns(region.total_ns);
  }
  for (const report::GraphBreakRow& graph_break : report.graph_breaks) {
    v1::GraphBreakRow& row = *out.add_graph_breaks();
    row.set_where(ToValidUtf8(graph_break.where));
    row.set_reason(ToValidUtf8(graph_break.reason));
    row.set_count(graph_break.count);
  }
  for (const report::RecompileRow& recompile : report.recompiles) {
    v1::RecompileRow& row = *out.add_recompiles();
    row.set_where(ToValidUtf8(recompile.where));
    row.set_reason(ToValidUtf8(recompile.reason));
    row.set_count(recompile.count);
    row.set_compile_ns(recompile.compile_ns);
  }
  for (const report::CompileStepRow& step : report.steps) {
    v1::CompileStepRow& row = *out.add_steps();
    row.set_step(step.step);
    row.set_regions(step.regions);
    row.set_after_breaks(step.after_breaks);
    row.set_compilations(step.compilations);
    row.set_compile_ns(step.compile_ns);
    row.set_cache_lookups(step.cache_lookups);
    row.set_cache_lookup_ns(step.cache_lookup_ns);
  }
  out.set_folded_event_count(report.folded_event_count);
}

}  // namespace profd::rpc
