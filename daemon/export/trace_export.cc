#include "daemon/export/trace_export.h"

#include <array>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/export/event_csv.h"
#include "daemon/export/html/report.h"
#include "daemon/export/sink/output_buffer.h"
#include "daemon/export/stacks/folded_stacks.h"
#include "daemon/export/stacks/speedscope.h"
#include "daemon/export/trace/writers.h"

namespace profd::exporter {
namespace {

constexpr std::array<std::pair<TraceFormat, std::string_view>, 8> kNames = {{
    {TraceFormat::kChrome, "chrome"},
    {TraceFormat::kChromeGz, "chrome-gz"},
    {TraceFormat::kPerfetto, "perfetto"},
    {TraceFormat::kFolded, "folded"},
    {TraceFormat::kFoldedDevice, "folded-device"},
    {TraceFormat::kSpeedscope, "speedscope"},
    {TraceFormat::kCsv, "csv"},
    {TraceFormat::kHtml, "html"},
}};

// The first that ends a path counts, so ".speedscope.json" stands before ".json".
// The first of a format is the one we give.
constexpr std::array<std::pair<TraceFormat, std::string_view>, 9> kSuffixes = {{
    {TraceFormat::kSpeedscope, ".speedscope.json"},
    {TraceFormat::kChromeGz, ".json.gz"},
    {TraceFormat::kChrome, ".json"},
    {TraceFormat::kPerfetto, ".pftrace"},
    {TraceFormat::kPerfetto, ".perfetto-trace"},
    {TraceFormat::kFoldedDevice, ".device.folded"},
    {TraceFormat::kFolded, ".folded"},
    {TraceFormat::kCsv, ".csv"},
    {TraceFormat::kHtml, ".html"},
}};

absl::Status WriteInto(store::CaptureReader& reader, TraceFormat format, OutputBuffer& out) {
  const TracePlace place = PlaceAlone(reader.record());
  switch (format) {
    case TraceFormat::kChrome:
    case TraceFormat::kChromeGz:
      return WriteChromeTrace(reader, place, out);
    case TraceFormat::kPerfetto:
      return WritePerfettoTrace(reader, place, out).status();
    case TraceFormat::kFolded:
      return WriteFoldedCpu(reader, out);
    case TraceFormat::kFoldedDevice:
      return WriteFoldedDevice(reader, out);
    case TraceFormat::kSpeedscope:
      return WriteSpeedscope(reader, out);
    case TraceFormat::kCsv:
      return WriteEventCsv(reader, out);
    case TraceFormat::kHtml:
      break;  // ExportHtmlReport()'s.
  }
  return absl::InvalidArgumentError("not a format of files");
}

absl::Status Write(store::CaptureReader& reader, TraceFormat format, ByteSink& sink) {
  OutputBuffer out(sink);
  RETURN_IF_ERROR(WriteInto(reader, format, out));
  return out.Finish();
}

}  // namespace

bool IsTrace(TraceFormat format) {
  return format == TraceFormat::kChrome || format == TraceFormat::kChromeGz ||
         format == TraceFormat::kPerfetto;
}

std::optional<TraceFormat> TraceFormatFromName(std::string_view name) {
  for (const auto& [format, text] : kNames) {
    if (text == name) return format;
  }
  return std::nullopt;
}

std::string_view TraceFormatName(TraceFormat format) {
  for (const auto& [value, name] : kNames) {
    if (value == format) return name;
  }
  return "";
}

std::optional<TraceFormat> TraceFormatFromPath(std::string_view path) {
  for (const auto& [format, suffix] : kSuffixes) {
    if (path.ends_with(suffix)) return format;
  }
  return std::nullopt;
}

std::string_view SuffixOf(TraceFormat format) {
  for (const auto& [value, suffix] : kSuffixes) {
    if (value == format) return suffix;
  }
  return "";
}

absl::Status ExportTrace(store::CaptureReader& reader, TraceFormat format, ByteSink& sink) {
  if (format == TraceFormat::kHtml) return ExportHtmlReport(reader, sink);
  if (format != TraceFormat::kChromeGz) return Write(reader, format, sink);
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(sink);
  return Write(reader, format, *gzip);
}

}  // namespace profd::exporter
