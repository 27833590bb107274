// A capture as one HTML page: verdict, findings, quality, time by step, operators, kernels, memory.
//
// The page is self-contained: styles, scripts, the chart library and the data are in it, and its
// content security policy lets nothing else be loaded or run. All that comes from a capture is data
// to the page, never markup: names may hold anything.
//
// Size:    bounded: 250 KB, and 1 or 2 MB of data of a large capture (20 MB if all names are as
//          long and as hostile as can be). Tables, steps and curves are cut or thinned to the
//          limits in data.h, and the page says where they were.
// Threads: any, one reader and sink each.
// Errors:  those of the reader and the sink.
// Memory:  that of the reports, one after the other (op_table.h, time_report.h, memory_report.h),
//          and twice the page's data.
#ifndef PROFD_DAEMON_EXPORT_HTML_REPORT_H_
#define PROFD_DAEMON_EXPORT_HTML_REPORT_H_

#include "absl/status/status.h"
#include "daemon/export/sink/byte_sink.h"
#include "daemon/report/findings/findings.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::exporter {

// Writes the whole page and calls sink.Finish(). `findings` are those of the same capture.
absl::Status ExportHtmlReport(store::CaptureReader& reader, const report::FindingsReport& findings,
                              ByteSink& sink);
// The same with the findings that default thresholds give.
absl::Status ExportHtmlReport(store::CaptureReader& reader, ByteSink& sink);

}  // namespace profd::exporter

#endif  // PROFD_DAEMON_EXPORT_HTML_REPORT_H_
