#include "cli/render/schemas.h"

#include <string>

#include "cli/render/findings.h"
#include "cli/render/report_tables.h"

namespace profd::cli {

void WriteSchemaOf(const report::ReportKind& kind, JsonWriter& json) {
  if (kind.name == "findings") {
    WriteFindingsSchema(json);
  } else if (kind.json != nullptr) {
    WriteReportSchema(kind.command, kind.json(), {}, json);
  } else {
    // "ops_torch" is of `ops --torch`.
    std::string usage(kind.name);
    if (const size_t at = usage.find('_'); at != std::string::npos) usage.replace(at, 1, " --");
    WriteReportSchema(usage, ReportFields(kind.shape()), {}, json);
  }
}

}  // namespace profd::cli
