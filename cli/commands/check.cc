#include "cli/render/check.h"

#include <string>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/interrupts.h"
#include "cli/captures/progress.h"
#include "cli/commands/command.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

constexpr size_t kMaxShownPath = 4096;

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

absl::StatusOr<int> RunCheck(Invocation& invocation) {
  Interrupts interrupts;
  interrupts.OnInterrupt([] {});
  Outcome outcome;
  CheckAnswer answer;
  for (const std::string& path : invocation.arguments()) {
    absl::StatusOr<check::CheckReport> report = CheckOne(invocation, interrupts, path);
    if (absl::IsCancelled(report.status())) return report.status();
    if (!report.ok()) {
      ++outcome.unreadable;
      const std::string message(FromAbsl(report.status().message()));
      const std::string shown = ForDisplay(path, kMaxShownPath);
      // Errors of the system name the file already.
      const bool is_named = message.find(shown) != std::string::npos;
      invocation.Note(DescribeError(
          LocalFailure(absl::InternalError(is_named ? message : StrCat(shown, ": ", message)))));
      answer.files.push_back({.path = path, .error = message});
      continue;
    }
    if (!report->clean()) ++outcome.with_findings;
    if (invocation.json()) {
      answer.files.push_back({.path = path, .report = *std::move(report)});
    } else {
      invocation.Print(RenderCheck(path, *report, invocation.style()));
    }
  }
  answer.clean = outcome.ExitCode() == kExitDone;
  if (invocation.json()) {
    JsonWriter json;
    CheckAnswerObject().Write(answer, json);
    invocation.Print(json.TakeLine());
  }
  return outcome.ExitCode();
}

}  // namespace

Command CheckCommand() {
  return {.name = "check",
          .summary = "Check a trace file for problems in other viewers",
          .arguments = "FILES",
          .description =
              "Checks trace files against the rules of the tools that read them: Holistic Trace "
              "Analysis, Perfetto, chrome://tracing, and the TensorBoard plugin. Takes Chrome JSON "
              "and Perfetto protobuf, plain or gzip, in a regular file; needs no daemon.\n\nAn "
              "error is what a reader refuses or loses, a warning is what it shows wrongly; both "
              "are findings. Notes are informational. Each names the effect, the remedy, and the "
              "first places: event number and byte offset in the uncompressed text.\n\nExit code: "
              "0 without findings, "
              "3 with findings, 1 if a file could not be read or is not a trace. A truncated or "
              "damaged file counts as a finding.",
          .examples = {{"profctl check trace.json.gz", "Before it is sent to someone"},
                       {"profctl check *.pt.trace.json --json", "All ranks, for a script"}},
          .min_arguments = 1,
          .max_arguments = 4096,
          .completes = Completes::kFile,
          .uses_daemon = false,
          .run = &RunCheck};
}

}  // namespace profd::cli
