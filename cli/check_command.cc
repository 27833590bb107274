#include <string>

#include "cli/command.h"
#include "cli/errors.h"
#include "cli/interrupts.h"
#include "cli/json_writer.h"
#include "cli/progress.h"
#include "cli/render_check.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

struct Outcome {
  int unreadable = 0;
  int with_findings = 0;

  int ExitCode() const {
    return unreadable > 0 ? kExitFailed : with_findings > 0 ? kExitCondition : kExitDone;
  }
};

absl::StatusOr<check::CheckReport> CheckOne(Invocation& invocation, const Interrupts& interrupts,
                                            const std::string& path) {
  ProgressLine progress(invocation.error_style());
  check::CheckOptions options;
  options.name = path;
  options.on_progress = [&](uint64_t bytes) {
    progress.Show(TransferProgress("reading", static_cast<int64_t>(bytes), 0));
    return !interrupts.interrupted();
  };
  return check::CheckTraceFile(path, options);
}

absl::StatusOr<int> Run(Invocation& invocation) {
  Interrupts interrupts;
  interrupts.OnInterrupt([] {});
  Outcome outcome;
  JsonWriter json;
  json.BeginObject();
  json.Key("files").BeginArray();
  for (const std::string& path : invocation.arguments()) {
    const absl::StatusOr<check::CheckReport> report = CheckOne(invocation, interrupts, path);
    if (absl::IsCancelled(report.status())) return report.status();
    if (!report.ok()) {
      ++outcome.unreadable;
      const std::string message(FromAbsl(report.status().message()));
      invocation.Note(DescribeError(LocalFailure(absl::InternalError(message))));
      json.BeginObject().Field("path", path).Field("error", message).EndObject();
      continue;
    }
    if (!report->clean()) ++outcome.with_findings;
    WriteCheckJson(path, *report, json);
    if (!invocation.json()) invocation.Print(RenderCheck(path, *report, invocation.style()));
  }
  json.EndArray();
  json.Field("clean", outcome.ExitCode() == kExitDone);
  json.EndObject();
  if (invocation.json()) invocation.Print(json.TakeLine());
  return outcome.ExitCode();
}

}  // namespace

Command CheckCommand() {
  return {
      .name = "check",
      .summary = "Say what others would refuse or misread of a trace file",
      .arguments = "FILES",
      .description =
          "Holds trace files, of profctl or of anyone, against the rules of those who load them: "
          "Holistic Trace Analysis, Perfetto, chrome://tracing and TensorBoard's plugin. It "
          "takes Chrome JSON and Perfetto's protobuf, plain or gzip, and no daemon.\n\n"
          "An error is what a reader refuses or loses, a warning what it shows wrongly; both are "
          "findings. Notes are worth knowing, and no findings. Each says what the reader makes of "
          "it, what to do, and the first places where it stands: the event's number and the byte "
          "of the uncompressed text.\n\n"
          "Exits with 0 if there are no findings, 3 if there are, 1 if a file could not be read "
          "or is no trace. A file that breaks off, or is damaged further in, has a finding.",
      .examples = {{"profctl check trace.json.gz", "Before it is sent to someone"},
                   {"profctl check *.pt.trace.json --json", "All ranks, for a script"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kFile,
      .uses_daemon = false,
      .run = &Run};
}

}  // namespace profd::cli
