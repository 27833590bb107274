// The operator table of `profctl ops`, as text, JSON and CSV.
//
// Threads: any. Errors: none.
#ifndef PROFD_CLI_RENDER_OP_PROFILE_H_
#define PROFD_CLI_RENDER_OP_PROFILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/base/style.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/ops/profile.h"

namespace profd::cli {

struct OpProfileView {
  const report::OpProfile& profile;
  // What OpProfileRow::group is: "module", "thread", "rank"; empty: rows are not grouped so.
  std::string_view group;
  bool by_step = false;
  bool by_inputs = false;
  bool is_simulated = false;
};

// A cell for an operator's inputs, cut on a terminal; "-": none.
std::string InputsCell(const std::string& inputs, const Style& style);

// Columns of what was not recorded are left out: of the GPU, of memory, of steps, of FLOPs.
std::string RenderOpProfile(const OpProfileView& view, const Style& style);
// As fields of an open object: totals, and "rows".
void WriteOpProfileJson(const OpProfileView& view, JsonWriter& json);
// A line of names, those of the JSON, and one for each row; what is not known is empty.
std::string OpProfileCsv(const OpProfileView& view);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_OP_PROFILE_H_
