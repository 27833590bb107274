// The reports that can be asked for by name, of a daemon (GetReport) or of a file: one list.
//
// How do I add a report?  A row type with its columns and ToReport() next to the code that fills it
// (gpu/columns.cc is an example), and a row in kKinds of reports.cc. `profctl`, gRPC, Python, and
// the schema then have it.
//
// Threads: any, one reader each. Errors: the report's own; INVALID_ARGUMENT: no such report, or an
// option that it does not have.
#ifndef PROFD_DAEMON_REPORT_REPORTS_H_
#define PROFD_DAEMON_REPORT_REPORTS_H_

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/base/table/object.h"
#include "daemon/base/table/table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Every report also has the options "sort" (a column of its first table) and "limit" (rows of each
// table; 0: all).
struct ReportRequest {
  std::string report;                                       // "kernels"
  std::map<std::string, std::string, std::less<>> options;  // {"step", "120"}
};

struct ReportOption {
  std::string_view name;   // "step"
  std::string_view value;  // What stands for the value in help: "K"; empty: it takes none.
  std::string_view doc;
};

struct ReportKind {
  std::string_view name;
  std::string_view doc;  // A sentence without its full stop.
  std::span<const ReportOption> options;
  bool limits_itself;  // It counts what is beyond "limit"; else the limit is applied to its rows.
  // The command of profctl that shows it; empty: none does, but others make their reports from it.
  std::string_view command = name;
  std::string_view schema = command;  // What `profctl schema` calls it.
  // What that command prints with --json; nullptr: the fields of the totals, and the tables.
  const table::AnyObject& (*json)() = nullptr;
  // The report of no events: its columns.
  table::Report (*shape)();
  absl::StatusOr<table::Report> (*make)(store::CaptureReader& reader, const ReportRequest& request);
};

std::span<const ReportKind> ReportKinds();
const ReportKind* FindReportKind(std::string_view name);  // nullptr: there is none.

// Sorts the first table and limits all tables as the options "sort" and "limit" say, as
// MakeReport() does at its end. For a report that was put together from several captures.
absl::Status ApplyView(const ReportRequest& request, table::Report& report);

absl::StatusOr<table::Report> MakeReport(store::CaptureReader& reader,
                                         const ReportRequest& request);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_REPORTS_H_
