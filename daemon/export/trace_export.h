// Files from a stored capture, streamed with bounded memory into a ByteSink: traces (Chrome JSON
// and Perfetto protobuf), folded stacks, speedscope, rows of events and reports for a browser.
//
// Threads: any, one reader and sink each.
// Errors:  those of the reader and the sink; RESOURCE_EXHAUSTED for a file with more GPU rows or
//          streams than a capture can have.
// Memory:  README.md says what GPU rows cost.
//
// How do I add a format?  A writer in a file of its own, a value in TraceFormat, its rows and its
// case in trace_export.cc, and the choice in cli/commands/export.cc. If it is a trace, also the
// enum in proto/profd/v1/export.proto and its conversions (rpc/convert/convert.cc,
// cli/client/from_proto.cc).
#ifndef PROFD_DAEMON_EXPORT_TRACE_EXPORT_H_
#define PROFD_DAEMON_EXPORT_TRACE_EXPORT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"
#include "daemon/report/ranks/clock_alignment.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

enum class TraceFormat {
  kChrome,        // .json: loads in Perfetto, chrome://tracing, HTA, TensorBoard's plugin
  kChromeGz,      // .json.gz: the same as one gzip stream
  kPerfetto,      // .pftrace
  kFolded,        // .folded: stacks of the CPU; stacks/folded_stacks.h
  kFoldedDevice,  // .device.folded: of GPUs
  kSpeedscope,    // .speedscope.json: stacks/speedscope.h
  kCsv,           // .csv: event_csv.h
  kHtml,          // .html: html/report.h
};
// Returns whether the format is a trace: daemons stream traces, and several captures can make one.
// Other formats are made on the caller's machine, from one capture.
bool IsTrace(TraceFormat format);
// "chrome", "chrome-gz", "perfetto", "folded", "folded-device", "speedscope", "csv",
// "html".
std::optional<TraceFormat> TraceFormatFromName(std::string_view name);
std::string_view TraceFormatName(TraceFormat format);
// By suffix: .json, .json.gz, .pftrace (also .perfetto-trace), .folded, .device.folded,
// .speedscope.json, .csv, .html.
std::optional<TraceFormat> TraceFormatFromPath(std::string_view path);
std::string_view SuffixOf(TraceFormat format);  // ".json.gz"

// Writes the whole file and calls sink.Finish(). The sink's Append gets pieces of up to
// 1 MiB. CANCELLED if the sink says so.
absl::Status ExportTrace(store::CaptureReader& reader, TraceFormat format, ByteSink& sink);

// Several captures as one trace: a process per capture, called by its rank, on the common time that
// `clocks` gives them (one for each reader, in their order). Their arrows are kept apart. The whole
// says which captures it is of and how far their clocks may be off. `group`: what to name it
// by, may be empty. INVALID_ARGUMENT: no capture, more than TracePlace::kMostCaptures, or a format
// that is no trace.
absl::Status ExportMergedTrace(std::span<store::CaptureReader* const> readers,
                               const report::ClockAlignment& clocks, std::string_view group,
                               TraceFormat format, ByteSink& sink);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_TRACE_EXPORT_H_
