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

#include "daemon/report/ops/torch_table.h"

namespace profd::cli {

// The table's rows in their order, at most `row_limit` (-1: all); widths and totals are of all.
std::string RenderTorchTable(const report::TorchTable& table, int64_t row_limit);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_TORCH_H_
