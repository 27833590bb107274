#include "daemon/export/html/data.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/text.h"

namespace profd::exporter {
namespace {

// What a chart or a table of the page counts from; the scripts refuse another.
constexpr int kDataVersion = 2;

void WriteTarget(const CaptureRecord& record, JsonWriter& json) {
  const TargetInfo& target = record.target;
  json.Field("pid", target.pid);
  json.Field("command", ForDisplay(target.command, kMostNameBytes));
  json.Field("node", ForDisplay(record.node, kMostNameBytes));
  json.Field("job", ForDisplay(JobOf(target), kMostNameBytes));
  json.Field("rank", RankOf(target));
}

void WriteDrops(const DropCounts& drops, JsonWriter& json) {
  json.Key("drops").BeginObject();
  for (size_t i = 0; i < drops.size(); ++i) {
    if (drops[i] != 0) json.Field(ToString(static_cast<DropReason>(i)), drops[i]);
  }
  json.EndObject();
}

void WriteGpu(const GpuRecord& gpu, JsonWriter& json) {
  json.Key("gpu").BeginObject();
  json.Field("outcome", ToString(gpu.outcome));
  json.Field("problem", ForDisplay(gpu.problem, kMostNameBytes));
  json.Field("simulated", gpu.simulated);
  json.Key("devices").BeginArray();
  for (const GpuDevice& device : gpu.devices) {
    json.BeginObject();
    json.Field("number", device.number);
    json.Field("name", ForDisplay(device.name, kMostNameBytes));
    json.Field("memory_bytes", device.memory_bytes);
    json.EndObject();
  }
  json.EndArray().EndObject();
}

void WriteImported(const ImportRecord& imported, JsonWriter& json) {
  json.Key("imported").BeginObject();
  json.Field("source", ForDisplay(imported.source, kMostNameBytes));
  json.Field("producer", ForDisplay(imported.producer, kMostNameBytes));
  json.Field("time_unit_ns", imported.time_unit_ns);
  json.Key("not_understood").BeginObject();
  for (const auto& [kind, count] : imported.not_understood) json.Field(ShownName(kind), count);
  json.EndObject().EndObject();
}

}  // namespace

std::string ShownName(std::string_view untrusted) { return ForDisplay(untrusted, kMostNameBytes); }

void WriteCaptureData(const CaptureRecord& record, JsonWriter& json) {
  json.Key("capture").BeginObject();
  json.Field("id", record.id);
  json.Field("name", ForDisplay(record.spec.display_name, kMostNameBytes));
  json.Field("state", ToString(record.state));
  json.Field("ended_by", ToString(record.ended_by));
  WriteTarget(record, json);
  // As a browser counts time; it has no room for ns.
  json.Field("start_unix_ms", record.start_unix_ns / 1'000'000);
  json.Field("covered_ns", record.covered_ns);
  json.Field("covered_steps", record.covered_steps);
  json.Field("asked_steps", record.spec.steps * record.spec.repeat);
  json.Field("event_count", record.event_count);
  json.Field("clock_error_ns", record.clock_error_ns);
  json.Field("torch_version", ForDisplay(record.torch.version, kMostNameBytes));
  WriteDrops(record.drops, json);
  WriteGpu(record.gpu, json);
  WriteImported(record.imported, json);
  json.EndObject();
}

void WriteFindingsData(const report::FindingsReport& findings, JsonWriter& json) {
  report::FindingsReport shown = findings;
  for (report::Finding& finding : shown.findings) {
    for (report::Evidence& row : finding.evidence) row.name = ShownName(row.name);
  }
  json.Field("shares", ToString(findings.quality.shares));
  report::FindingsObject().WriteFields(shown, json);
}

absl::StatusOr<std::string> HtmlData(store::CaptureReader& reader,
                                     const report::FindingsReport& findings) {
  JsonWriter json;
  json.BeginObject();
  json.Field("version", kDataVersion);
  json.Field("profd_version", PROFD_VERSION);
  WriteCaptureData(reader.record(), json);
  WriteFindingsData(findings, json);
  RETURN_IF_ERROR(WriteTimeData(reader, json));
  RETURN_IF_ERROR(WriteTableData(reader, json));
  RETURN_IF_ERROR(WriteMemoryData(reader, json));
  RETURN_IF_ERROR(WriteFlameData(reader, json));
  json.EndObject();
  return json.TakeLine();
}

std::string ForScriptElement(std::string_view json) {
  // In JSON these stand inside strings only. The last two are U+2028 and U+2029.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kEscapes = {{
      {"<", "\\u003c"},
      {">", "\\u003e"},
      {"&", "\\u0026"},
      {"\xe2\x80\xa8", "\\u2028"},
      {"\xe2\x80\xa9", "\\u2029"},
  }};
  std::string out;
  out.reserve(json.size() + json.size() / 16);
  while (!json.empty()) {
    const size_t plain = std::min(json.find_first_of("<>&\xe2"), json.size());
    out.append(json.substr(0, plain));
    json.remove_prefix(plain);
    if (json.empty()) break;
    const auto escape = std::find_if(kEscapes.begin(), kEscapes.end(), [&](const auto& candidate) {
      return json.starts_with(candidate.first);
    });
    const bool found = escape != kEscapes.end();
    const size_t length = found ? escape->first.size() : 1;
    out.append(found ? escape->second : json.substr(0, length));
    json.remove_prefix(length);
  }
  return out;
}

}  // namespace profd::exporter
