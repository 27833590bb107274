#include "cli/render/schemas.h"

#include "cli/render/findings.h"
#include "cli/render/report_tables.h"

namespace profd::cli {

void WriteSchemaOf(const report::ReportKind& kind, JsonWriter& json) {
  if (kind.name == "findings") {
    WriteFindingsSchema(json);
  } else if (kind.json != nullptr) {
    WriteReportSchema(kind.command, kind.json(), {}, json);
  } else {
    WriteReportSchema(kind.shape(), json);
  }
}

}  // namespace profd::cli
