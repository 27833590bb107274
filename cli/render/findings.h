// Findings as text and as JSON.
#ifndef PROFD_CLI_RENDER_FINDINGS_H_
#define PROFD_CLI_RENDER_FINDINGS_H_

#include <cstdint>
#include <string>

#include "cli/base/style.h"
#include "cli/captures/capture_set.h"
#include "cli/client/capture_view.h"
#include "daemon/base/json_writer.h"
#include "daemon/report/findings/findings.h"

namespace profd::cli {

struct FindingsView {
  int64_t evidence_rows = 0;  // Of each finding; 0: all.
  bool all = false;           // All findings and checks, not the first three findings alone.
};
// Without `all`, a last line counts what is left out.
std::string RenderFindings(const report::FindingsReport& report, const FindingsView& view,
                           const Style& style);
// The member of a group that a report is on.
struct ReportedMember {
  const CaptureSet* set = nullptr;
  int64_t member = 0;
  report::RankExcess excess = {};
};
// All of it. `view` has the grade of the report. `of`: nullptr: the capture was asked for by
// itself.
void WriteFindingsJson(const CaptureView& view, const report::FindingsReport& report,
                       const ReportedMember* of, JsonWriter& json);
void WriteFindingsSchema(JsonWriter& json);

}  // namespace profd::cli

#endif  // PROFD_CLI_RENDER_FINDINGS_H_
