// The operator table, letter for letter as torch.profiler prints it: columns, widths, units and
// footers of a release.
//
// Control characters in names, which torch prints as they are, become '?'.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_TORCH_H_
#define PROFD_CLI_RENDER_TORCH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/report/ops/torch_table.h"

namespace profd::cli {

struct TorchTextOptions {
  // torch's own name of a column, "self_cpu_time_total"; empty: torch's own order. Else by its
  // values, largest first.
  std::string sort_by;
  int64_t row_limit = 100;  // -1: all
  report::TorchVersion version = report::kNewestTorch;
};

// torch's names of what rows can be sorted by, those with "cuda" too.
const std::vector<std::string_view>& TorchSortKeys();

// `sort_by` must be empty or one of TorchSortKeys(), here and below.
std::vector<const report::TorchRow*> ShownTorchRows(const report::TorchTable& table,
                                                    const TorchTextOptions& options);
std::string RenderTorchTable(const report::TorchTable& table, const TorchTextOptions& options);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TORCH_H_
