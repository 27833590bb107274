#include "cli/commands/torch_ops.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/render/capture.h"
#include "cli/render/torch.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/report/ops/torch_table.h"

namespace profd::cli {
namespace {

// Ours and torch's of the same column.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kOwnAndTorchSortKeys = {{
    {"self_cpu", "self_cpu_time_total"},
    {"cpu_total", "cpu_time_total"},
    {"average", "cpu_time"},
    {"calls", "count"},
    {"self_device", "self_device_time_total"},
    {"self_device", "self_cuda_time_total"},
    {"device_total", "device_time_total"},
    {"device_total", "cuda_time_total"},
    {"device_average", "device_time"},
    {"device_average", "cuda_time"},
    {"cpu_memory", "cpu_memory_usage"},
    {"self_cpu_memory", "self_cpu_memory_usage"},
    {"device_memory", "device_memory_usage"},
    {"device_memory", "cuda_memory_usage"},
    {"self_device_memory", "self_device_memory_usage"},
    {"self_device_memory", "self_cuda_memory_usage"},
}};

absl::StatusOr<std::string> TorchSortKey(std::string_view key) {
  for (const auto& [own, torch] : kOwnAndTorchSortKeys) {
    if (key == own || key == torch) return std::string(torch);
  }
  return UsageError(StrCat("torch's table has no column to sort by ", ForDisplay(key, 80)));
}

absl::StatusOr<report::TorchVersion> VersionOf(const std::string& asked,
                                               const CaptureRecord& record) {
  if (asked.empty()) {
    return report::TorchVersionFromString(record.torch.version).value_or(report::kNewestTorch);
  }
  const std::optional<report::TorchVersion> version = report::TorchVersionFromString(asked);
  constexpr report::TorchVersion kNewest = report::kNewestTorch;
  const bool is_newer = version.has_value() && version->IsAtLeast(kNewest.major, kNewest.minor + 1);
  if (version.has_value() && !is_newer) return *version;
  return UsageError(StrCat("--torch=", ForDisplay(asked, 80),
                           ": not a known release of PyTorch (1.13 to ", kNewest.major, ".",
                           kNewest.minor, ", such as 2.6)"));
}

struct TorchRequest {
  report::TorchTableOptions table;
  TorchTextOptions text;
};

absl::StatusOr<TorchRequest> ParseTorchRequest(const Invocation& invocation,
                                               const CaptureRecord& record) {
  const ParsedFlags& flags = invocation.flags();
  for (const std::string_view flag : {"step", "by-step", "csv"}) {
    if (flags.Has(flag)) return UsageError(StrCat("--torch does not go with --", flag));
  }
  TorchRequest wanted;
  const std::string by = flags.Get("group-by").value_or("name");
  if (by != "name" && by != "input_shape") {
    return UsageError(
        "--torch groups by name or by input_shape; leave it out to group by stack, source, module, "
        "or thread");
  }
  wanted.table.by_inputs = by == "input_shape";
  ASSIGN_OR_RETURN(wanted.table.version, VersionOf(*flags.Get("torch"), record));
  wanted.text.version = wanted.table.version;
  if (const auto sort = flags.Get("sort")) {
    ASSIGN_OR_RETURN(wanted.text.sort_by, TorchSortKey(*sort));
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, flags.Int("limit", 0));
  if (limit.has_value() || invocation.json()) {
    wanted.text.row_limit = limit.value_or(0) == 0 ? -1 : *limit;
  }
  return wanted;
}

void WriteTorchTableJson(const CaptureView& view, const report::TorchTable& table,
                         const TorchRequest& wanted, JsonWriter& json) {
  json.BeginObject();
  WriteReportHeaderJson(view, json);
  json.Field("torch", StrCat(wanted.table.version.major, ".", wanted.table.version.minor));
  json.Field("self_cpu_total_ns", table.self_cpu_total_ns);
  json.Field("self_device_total_ns", table.self_device_total_ns);
  json.Field("has_memory", table.has_memory);
  json.Key("rows").BeginArray();
  for (const report::TorchRow* const each : ShownTorchRows(table, wanted.text)) {
    const report::TorchRow& row = *each;
    json.BeginObject();
    json.Field("name", row.name);
    if (wanted.table.by_inputs) json.Field("shapes", row.shapes);
    json.Field("is_device", row.is_device);
    json.Field("is_annotation", row.is_annotation);
    json.Field("calls", row.calls);
    json.Field("self_cpu_ns", row.self_cpu_ns);
    json.Field("cpu_total_ns", row.cpu_total_ns);
    json.Field("self_device_ns", row.self_device_ns);
    json.Field("device_total_ns", row.device_total_ns);
    json.Field("cpu_memory_bytes", row.cpu_memory_bytes);
    json.Field("self_cpu_memory_bytes", row.self_cpu_memory_bytes);
    json.Field("device_memory_bytes", row.device_memory_bytes);
    json.Field("self_device_memory_bytes", row.self_device_memory_bytes);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string_view OwnSortKey(std::string_view torch_key) {
  for (const auto& [own, torch] : kOwnAndTorchSortKeys) {
    if (torch_key == torch) return own;
  }
  return "";
}

absl::Status CheckTorchFlags(const Invocation& invocation) {
  return ParseTorchRequest(invocation, CaptureRecord()).status();
}

absl::StatusOr<int> ShowTorchOps(Invocation& invocation, CaptureSource& source) {
  ASSIGN_OR_RETURN(const TorchRequest wanted, ParseTorchRequest(invocation, source.view().record));
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  ASSIGN_OR_RETURN(const report::TorchTable table, report::SummarizeAsTorch(*reader, wanted.table));
  if (invocation.json()) {
    JsonWriter json;
    WriteTorchTableJson(source.view(), table, wanted, json);
    invocation.Print(json.TakeLine());
    return 0;
  }
  // On stderr: stdout is torch's table and nothing else.
  invocation.Note(RenderReportHeader(source.view(), invocation.error_style()));
  invocation.Print(RenderTorchTable(table, wanted.text));
  return 0;
}

}  // namespace profd::cli
