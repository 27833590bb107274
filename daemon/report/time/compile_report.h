// What torch.compile did: compiled regions, graph breaks, recompilations.
//
// Threads: any, one reader each. Memory: per region and step. Errors: those of the reader.
#ifndef PROFD_DAEMON_REPORT_TIME_COMPILE_REPORT_H_
#define PROFD_DAEMON_REPORT_TIME_COMPILE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/base/table/table.h"
#include "daemon/report/index/interval_set.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// One region of torch.compile. `id` is "frame/compilation" as in `Torch-Compiled Region: 0/1`. In
// captures without those, it is the range around compiled code: "CompiledFunctionBackward".
struct CompiledRegionRow {
  std::string id;
  std::string code;                // "train.py:19 in forward"; empty: not known.
  bool after_graph_break = false;  // Its code is the rest of a function after a graph break.
  int64_t calls = 0;
  int64_t total_ns = 0;
};
// Graph breaks of Dynamo, by location and reason.
struct GraphBreakRow {
  std::string where;  // "train.py:19 in forward"
  std::string reason;
  int64_t count = 0;  // Compilations in the window that met it.
};
struct RecompileRow {
  std::string where;
  std::string reason;
  int64_t count = 0;
  int64_t compile_ns = 0;  // Sum; -1: not known.
};
struct CompileStepRow {
  int64_t step = -1;         // -1: in none
  int64_t regions = 0;       // Compiled regions run.
  int64_t after_breaks = 0;  // Regions that continue after a graph break.
  int64_t compilations = 0;  // If torch hides them, only recompilations, from notes.
  int64_t compile_ns = 0;
  int64_t cache_lookups = 0;
  int64_t cache_lookup_ns = 0;  // Guards.
};
struct CompileReport {
  bool has_compiled = false;                // Anything of torch.compile was seen.
  std::vector<CompiledRegionRow> regions;   // By total time.
  std::vector<GraphBreakRow> graph_breaks;  // By count.
  std::vector<RecompileRow> recompiles;     // By count.
  std::vector<CompileStepRow> steps;        // By step.
  IntervalSet compiling;                    // When something was compiled.
  int64_t folded_event_count = 0;           // Events inside compilations, left out on purpose.
};
absl::StatusOr<CompileReport> SummarizeCompile(store::CaptureReader& reader);

table::Report ToReport(const CompileReport& compiled);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_TIME_COMPILE_REPORT_H_
