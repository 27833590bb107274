#include "daemon/report/findings/json.h"

#include <cstdint>

namespace profd::report {
namespace {

using Shown = absl::FunctionRef<std::string(std::string_view)>;

void WriteIfKnown(std::string_view key, int64_t value, JsonWriter& json) {
  if (value >= 0) json.Field(key, value);
}

void WriteEvidence(const Evidence& row, JsonWriter& json, Shown shown) {
  json.BeginObject();
  json.Field("kind", ToString(row.kind));
  json.Field("name", shown(row.name));
  if (!row.detail.empty()) json.Field("detail", shown(row.detail));
  WriteIfKnown("count", row.count, json);
  WriteIfKnown("duration_ns", row.duration_ns, json);
  WriteIfKnown("bytes", row.bytes, json);
  WriteIfKnown("step", row.step, json);
  WriteIfKnown("device", row.device, json);
  if (row.start_ns != Evidence::kNoTime) json.Field("start_ns", row.start_ns);
  json.EndObject();
}

void WriteFinding(const Finding& finding, JsonWriter& json, Shown shown) {
  json.BeginObject();
  json.Field("rule", finding.rule);
  json.Field("title", finding.title);
  json.Field("severity", ToString(finding.severity));
  json.Field("unit", ToString(finding.unit));
  json.Field("value", finding.value);
  json.Field("threshold", finding.threshold);
  json.Field("saving_ns_per_step", finding.saving_ns_per_step);
  json.Field("confidence", ToString(finding.confidence));
  json.Field("confidence_reason", finding.confidence_reason);
  json.Field("measured", finding.measured);
  json.Field("advice", finding.advice);
  json.Key("evidence").BeginArray();
  for (const Evidence& row : finding.evidence) WriteEvidence(row, json, shown);
  json.EndArray().EndObject();
}

}  // namespace

void WriteFindingsFields(const FindingsReport& report, JsonWriter& json, Shown shown) {
  json.Field("verdict", report.verdict);
  json.Field("step_count", report.step_count);
  json.Field("mean_step_ns", report.mean_step_ns);
  WriteIfKnown("unrecorded_step_ns", report.unrecorded_step_ns, json);
  WriteIfKnown("unrecorded_idle_ns", report.unrecorded_idle_ns, json);
  json.Key("findings").BeginArray();
  for (const Finding& finding : report.findings) WriteFinding(finding, json, shown);
  json.EndArray();
  json.Key("skipped").BeginArray();
  for (const SkippedRule& rule : report.skipped) {
    json.BeginObject().Field("rule", rule.rule);
    json.Field("title", rule.title);
    json.Field("needs", rule.needs);
    json.EndObject();
  }
  json.EndArray();
  json.Key("passed").BeginArray();
  for (const PassedRule& rule : report.passed) {
    json.BeginObject().Field("rule", rule.rule);
    json.Field("title", rule.title);
    json.Field("unit", ToString(rule.unit));
    json.Field("value", rule.value);
    json.Field("threshold", rule.threshold);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace profd::report
