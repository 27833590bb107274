#include "daemon/export/trace_export.h"

#include <array>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/export/output_buffer.h"
#include "daemon/export/trace_writers.h"

namespace profd::exporter {
namespace {

constexpr std::array<std::pair<TraceFormat, std::string_view>, 3> kNames = {{
    {TraceFormat::kChrome, "chrome"},
    {TraceFormat::kChromeGz, "chrome-gz"},
    {TraceFormat::kPerfetto, "perfetto"},
}};

// The first of a format is the one we give.
constexpr std::array<std::pair<TraceFormat, std::string_view>, 4> kSuffixes = {{
    {TraceFormat::kChromeGz, ".json.gz"},
    {TraceFormat::kChrome, ".json"},
    {TraceFormat::kPerfetto, ".pftrace"},
    {TraceFormat::kPerfetto, ".perfetto-trace"},
}};

absl::Status Write(store::CaptureReader& reader, TraceFormat format, ByteSink& sink) {
  OutputBuffer out(sink);
  const TracePlace place = PlaceAlone(reader.record());
  RETURN_IF_ERROR(format == TraceFormat::kPerfetto ? WritePerfettoTrace(reader, place, out).status()
                                                   : WriteChromeTrace(reader, place, out));
  return out.Finish();
}

}  // namespace

std::optional<TraceFormat> TraceFormatFromName(std::string_view name) {
  for (const auto& [format, text] : kNames) {
    if (text == name) return format;
  }
  return std::nullopt;
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
  if (format != TraceFormat::kChromeGz) return Write(reader, format, sink);
  const std::unique_ptr<ByteSink> gzip = NewGzipSink(sink);
  return Write(reader, format, *gzip);
}

}  // namespace profd::exporter
