// What `profctl check` says of a trace file.
#ifndef PROFD_CLI_RENDER_CHECK_H_
#define PROFD_CLI_RENDER_CHECK_H_

#include <string>
#include <string_view>

#include "cli/base/style.h"
#include "daemon/base/json_writer.h"
#include "daemon/check/trace_check.h"

namespace profd::cli {

// A line about the file, then a paragraph per finding and a line per note.
std::string RenderCheck(std::string_view path, const check::CheckReport& report,
                        const Style& style);
// One object.
void WriteCheckJson(std::string_view path, const check::CheckReport& report, JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_CHECK_H_
