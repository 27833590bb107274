// CaptureSource: one stored capture, in a daemon or in a file, with the reports over it.
// Commands that show or export a capture see only this.
//
// Threads: one caller; Abort() any thread.
// Errors:  of a file DATA_LOSS (damaged, or no capture at all), FAILED_PRECONDITION (written
//          by a newer profd), NOT_FOUND; else those of DaemonClient.
#ifndef PROFD_CLI_CAPTURES_CAPTURE_SOURCE_H_
#define PROFD_CLI_CAPTURES_CAPTURE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/client/capture_view.h"
#include "cli/client/invocation.h"
#include "daemon/base/table/table.h"
#include "daemon/export/sink/byte_sink.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/reports.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::cli {

class CaptureSource {
 public:
  virtual ~CaptureSource() = default;
  virtual const CaptureView& view() const = 0;
  // What a user would type to name it: its id, or its file.
  virtual const std::string& shown_name() const = 0;
  // Stderr's, for what takes its time; nullptr: nothing is shown.
  virtual const Style* progress() const = 0;

  virtual absl::StatusOr<table::Report> Report(const report::ReportRequest& request) = 0;
  // Writes the trace, or what else the format is, and calls sink.Finish().
  virtual absl::Status Export(exporter::TraceFormat format, exporter::ByteSink& sink) = 0;
  // Where the capture file is: its own path, or `path`, to which it was copied from its daemon.
  virtual absl::StatusOr<std::string> ToFile(const std::string& path) = 0;
  // The capture itself, for reports that are made here and not on the training node. Of a daemon:
  // copied once and checked, into the cache (capture_cache.h) or a private temporary file that is
  // gone when the source is. Valid as long as the source; one caller.
  virtual absl::StatusOr<store::CaptureReader*> Reader() = 0;
  // Export() and ToFile() in progress, and later ones, end CANCELLED.
  virtual void Abort() = 0;
};

// The report of reports.h, for one that reads the events several times: made by the daemon, which
// answers in kilobytes, from captures of at most kMostBytesForDaemon. Larger ones are copied here,
// as are those for which the daemon has not enough memory or time.
inline constexpr int64_t kMostBytesForDaemon = int64_t{64} << 20;
absl::StatusOr<table::Report> DemandingReport(CaptureSource& source,
                                              const report::ReportRequest& request);

// True for what means a file and not an id: it has a slash, or ends in ".profd".
bool NamesFile(std::string_view text);

// The id in `text`: a ULID or the start of one, also as captures/ID. INVALID_ARGUMENT (USAGE).
absl::StatusOr<std::string> ParseCaptureId(std::string_view text);

// `text` is a file or an id. With --nodes an id is looked for on all of them, as FindCapture()
// says. NOT_FOUND for the id of a group lists its captures (WhyNoCapture in find_group.h).
absl::StatusOr<std::unique_ptr<CaptureSource>> OpenCaptureSource(Invocation& invocation,
                                                                 const std::string& text);
absl::StatusOr<std::unique_ptr<CaptureSource>> OpenCaptureFile(const std::string& path,
                                                               const Style* progress = nullptr);
// A capture of `daemon`, which must outlive the source. `view` is as it was got. `progress`: how
// far Reader() is with copying, and how long a report takes, is shown on a terminal of this style
// (stderr's); nullptr: nowhere.
std::unique_ptr<CaptureSource> NewDaemonSource(DaemonClient& daemon, CaptureView view,
                                               const Style* progress = nullptr);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_CAPTURE_SOURCE_H_
