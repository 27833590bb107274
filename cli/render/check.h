// What `profctl check` says of a trace file.
#ifndef PROFD_CLI_RENDER_CHECK_H_
#define PROFD_CLI_RENDER_CHECK_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/base/object.h"
#include "cli/base/style.h"
#include "daemon/check/trace_check.h"

namespace profd::cli {

// A line about the file, then a paragraph per finding and a line per note.
std::string RenderCheck(std::string_view path, const check::CheckReport& report,
                        const Style& style);

// One file of the answer: its report, or why it was not checked.
struct CheckedFile {
  std::string path;
  std::string error;  // Empty: it was checked.
  check::CheckReport report;
};
struct CheckAnswer {
  std::vector<CheckedFile> files;
  bool clean = false;  // All were checked, and without findings.
};
const ObjectDescription<CheckAnswer>& CheckAnswerObject();

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_CHECK_H_
