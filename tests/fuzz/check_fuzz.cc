// Bytes as a trace that is linted. A first byte that is odd puts the rest where a Chrome trace's
// events are. What is reported can be counted and shown.
#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/check/trace_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace profd::check {
namespace {

void CheckFindings(const std::vector<Finding>& findings, bool are_notes) {
  for (const Finding& finding : findings) {
    Require(finding.rule != nullptr && finding.count > 0);
    Require((finding.rule->severity == Severity::kNote) == are_notes);
    Require(static_cast<int64_t>(finding.examples.size()) <= finding.count);
    for (const std::string& example : finding.examples) Require(IsPrintableUtf8(example));
  }
}

}  // namespace
}  // namespace profd::check

PROFD_FUZZ_TARGET(FuzzCheck)(std::span<const uint8_t> data) {
  if (data.empty()) return;
  const std::string_view text(reinterpret_cast<const char*>(data.data()) + 1, data.size() - 1);
  std::string trace(text);
  if (data[0] % 2 == 1) {
    trace.insert(0, R"({"schemaVersion":1,"traceEvents":[)");
    trace += "]}";
  }
  const auto report = profd::check::CheckTraceBytes(trace, {.name = "a.pt.trace.json"});
  if (!report.ok()) {
    profd::Require(profd::IsPrintableUtf8(profd::FromAbsl(report.status().message())));
    return;
  }
  profd::Require(report->event_count >= 0);
  profd::Require(report->file_bytes <= trace.size());
  profd::check::CheckFindings(report->findings, /*are_notes=*/false);
  profd::check::CheckFindings(report->notes, /*are_notes=*/true);
}
