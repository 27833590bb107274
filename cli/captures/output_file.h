// Files that profctl writes on the caller's machine: traces and capture files.
#ifndef PROFD_CLI_CAPTURES_OUTPUT_FILE_H_
#define PROFD_CLI_CAPTURES_OUTPUT_FILE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/captures/capture_source.h"
#include "cli/client/daemon_client.h"
#include "daemon/export/trace_export.h"

namespace profd::cli {

// What a file's suffix asks for.
struct OutputKind {
  std::optional<exporter::TraceFormat> trace = {};  // nullopt: the capture file itself (.profd)
};
// INVALID_ARGUMENT (USAGE) names the suffixes there are.
absl::StatusOr<OutputKind> OutputKindOf(std::string_view path);

// Whether a file could be made at `path`, as far as can be told before: its folder is there
// and can be written to. INVALID_ARGUMENT (USAGE). LOCAL: it is another user's link
// (exporter::ResolveOutputPath).
absl::Status CheckWritable(const std::string& path);

// Where a file named `path` is to be made: where it leads to if it is a link, so that the link
// stays. Else `path` as it is. LOCAL: it is another user's link (exporter::ResolveOutputPath).
absl::StatusOr<std::string> PathToWrite(const std::string& path);

// Moves a file to `to`, which PathToWrite() gave; also to another file system. A file that was
// there stays until the new one is whole.
absl::Status MoveToFile(const std::filesystem::path& from, const std::string& to);

// "run.json.gz" and "-41213" give "run-41213.json.gz".
std::string WithTag(std::string_view path, std::string_view tag);
// One tag per view: "-rank3" where every target says a different number of rank, else
// "-<pid>". A rank is hearsay: what is no number is not used.
std::vector<std::string> TagsFor(std::span<const CaptureView> views);

// Called with bytes done so far, and in all (0: not known).
using OnBytes = absl::FunctionRef<void(int64_t, int64_t)>;

// Makes a file of what `write` gives; `path` "-" is stdout. Returns the bytes written. A file that
// was there stays until the new one is whole.
absl::StatusOr<int64_t> WriteToFile(
    const std::string& path, OnBytes on_bytes,
    absl::FunctionRef<absl::Status(exporter::ByteSink& sink)> write);
// The same of one capture.
absl::StatusOr<int64_t> ExportToFile(CaptureSource& source, exporter::TraceFormat format,
                                     const std::string& path, OnBytes on_bytes);

// Copies the capture file to `path`, or where it leads to if it is a link (PathToWrite()). Until it
// is whole, what has arrived is in "PATH.<id>.part". That file is left when the copy is cut off,
// and the next call goes on from there. The whole is checked against the sha256 that the daemon
// states before it takes its name; DATA_LOSS if it is another. FAILED_PRECONDITION: another process
// writes the part, or there is no file.
absl::Status FetchToFile(DaemonClient& daemon, const CaptureView& view, const std::string& path,
                         OnBytes on_bytes);

}  // namespace profd::cli

#endif  // PROFD_CLI_CAPTURES_OUTPUT_FILE_H_
