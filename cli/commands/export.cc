#include <unistd.h>

#include <atomic>
#include <string>

#include "cli/base/interrupts.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/merged_export.h"
#include "cli/captures/one_run.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/group_reports.h"
#include "cli/render/outcomes.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using exporter::TraceFormat;

absl::StatusOr<TraceFormat> ParseFormat(const ParsedFlags& flags, const std::string& path) {
  const std::optional<std::string> name = flags.Get("format");
  if (!name.has_value()) {
    if (path == "-") {
      return UsageError(
          "-o - needs a format: --format chrome, chrome-gz, perfetto, folded, folded-device, "
          "speedscope, csv, or html");
    }
    ASSIGN_OR_RETURN(const OutputKind kind, OutputKindOf(path));
    if (!kind.trace.has_value()) {
      return UsageError("a .profd file is the capture itself: use `profctl fetch ID -o FILE`");
    }
    return *kind.trace;
  }
  const TraceFormat format = exporter::TraceFormatFromName(*name).value_or(TraceFormat::kChrome);
  // Readers go by the suffix, so a file named .gz must be one.
  const bool gz = path.ends_with(".gz");
  if (format == TraceFormat::kChrome && gz) return TraceFormat::kChromeGz;
  return format;
}

absl::StatusOr<int> ExportOne(Invocation& invocation, Interrupts& interrupts, TraceFormat format,
                              const std::string& path, CaptureSource& source) {
  interrupts.OnInterrupt([&] { source.Abort(); });
  ProgressLine progress(invocation.error_style());
  const absl::StatusOr<int64_t> bytes =
      ExportToFile(source, format, path, [&](int64_t done, int64_t total) {
        progress.Show(TransferProgress("writing", done, total));
      });
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  RETURN_IF_ERROR(bytes.status());
  if (path == "-") return 0;
  if (invocation.json()) {
    JsonWriter json;
    ExportObject().Write({source.view(), {path, std::string(TraceFormatName(format)), *bytes}},
                         json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(StrCat(path, "\n"));
  }
  return 0;
}

absl::StatusOr<int> ExportGroup(Invocation& invocation, Interrupts& interrupts, TraceFormat format,
                                const std::string& path, CaptureSet& set) {
  std::atomic<bool> aborted = false;
  interrupts.OnInterrupt([&] {
    aborted.store(true, std::memory_order_relaxed);
    set.Abort();
  });
  ProgressLine progress(invocation.error_style());
  const absl::StatusOr<MergedExport> merged = ExportMerged(set, format, path, aborted, progress);
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(merged.status());
  if (invocation.json()) {
    JsonWriter json;
    GroupExportObject().Write(
        {set, {path, std::string(TraceFormatName(format)), merged->bytes}, merged->clocks}, json);
    invocation.Print(json.TakeLine());
  } else {
    if (path != "-") invocation.Print(StrCat(path, "\n"));
    invocation.Note(RenderClock(merged->clocks));
  }
  return ExitCodeOf(set);
}

absl::StatusOr<int> RunExport(Invocation& invocation) {
  Interrupts interrupts;
  const std::optional<std::string> path = invocation.flags().Get("output");
  if (!path.has_value() || path->empty()) {
    return UsageError("say where to write: -o FILE (- is stdout)");
  }
  ASSIGN_OR_RETURN(const TraceFormat format, ParseFormat(invocation.flags(), *path));
  const bool to_stdout = *path == "-";
  if (to_stdout && invocation.json()) {
    return UsageError("--json and -o - both want stdout; leave one out");
  }
  const bool is_binary = format == TraceFormat::kChromeGz || format == TraceFormat::kPerfetto;
  if (to_stdout && is_binary && isatty(STDOUT_FILENO) == 1) {
    return UsageError("this format is not for a terminal: redirect stdout, or use -o FILE");
  }
  if (!to_stdout) RETURN_IF_ERROR(CheckWritable(*path));
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  if (set.is_group() && !exporter::IsTrace(format)) {
    return UsageError(StrCat(TraceFormatName(format),
                             " is of one capture, and these are several: name one of them"));
  }
  return set.is_group() ? ExportGroup(invocation, interrupts, format, *path, set)
                        : ExportOne(invocation, interrupts, format, *path, set.Only());
}

}  // namespace

Command ExportCommand() {
  return {
      .name = "export",
      .summary = "Write a trace for Perfetto, chrome://tracing and others",
      .arguments = "ID|GROUP|FILES.profd",
      .description =
          "Writes the capture as a trace that others can open, on the machine where profctl "
          "runs: Chrome JSON (Perfetto, chrome://tracing, TensorBoard, HTA) or Perfetto's own "
          "format; as folded stacks for flame graphs (flamegraph.pl), of self time on the CPU "
          "(folded) or of what ran on GPUs below the ranges that launched it (folded-device), in "
          "ns; for speedscope, with a profile per thread and per GPU (speedscope); as plain rows "
          "of "
          "events (csv); or as a report for a browser (html): one page with verdict, findings, "
          "charts and tables, which loads nothing from a network. With Python stacks in the "
          "capture, Chrome JSON and stacks have the functions around operators. Prints the path on "
          "stdout. Follows a link only if it is yours, or in a folder "
          "that nobody else may write to.\n\n"
          "Of a group, or of several files, it writes one trace with a process for each rank. "
          "Clocks "
          "are put on common time by the offsets that were measured when the group was captured, "
          "refined on collective operations that ranks ended together, and how far they may still "
          "be "
          "off is said on stderr, in --json and in the trace. A member that is out of reach is "
          "named on stderr, and the exit code is then 4.",
      .flags = {{.name = "output",
                 .letter = 'o',
                 .value_name = "FILE",
                 .help = "Output file; - is stdout",
                 .completes = Completes::kFile},
                {.name = "format",
                 .value_name = "FORMAT",
                 .help =
                     "chrome, chrome-gz, perfetto, folded, folded-device, speedscope, csv or html "
                     "(default: by the suffix of FILE: .json, .json.gz, .pftrace, .folded, "
                     ".device.folded, .speedscope.json, .csv, .html)",
                 .completes = Completes::kChoice,
                 .choices = {"chrome", "chrome-gz", "perfetto", "folded", "folded-device",
                             "speedscope", "csv", "html"}},
                ForceGroupFlag()},
      .examples = {{"profctl export 01J9ZK -o five.json.gz", "For any viewer"},
                   {"profctl export run.profd --format perfetto -o run.pftrace",
                    "A fetched capture; no daemon is needed"},
                   {"profctl export 01J9ZK -o run.device.folded", "GPU time as a flame graph"},
                   {"profctl export 01J9ZK -o report.html", "A report for a browser"},
                   {"profctl export 01J9ZM -o job.json.gz", "All ranks of a group in one trace"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunExport};
}

}  // namespace profd::cli
