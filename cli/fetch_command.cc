#include "cli/capture_source.h"
#include "cli/command.h"
#include "cli/daemon_client.h"
#include "cli/interrupts.h"
#include "cli/json_writer.h"
#include "cli/output_file.h"
#include "cli/progress.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> Run(Invocation& invocation) {
  Interrupts interrupts;
  ASSIGN_OR_RETURN(const std::string id, ParseCaptureId(invocation.arguments().front()));
  const std::string asked = invocation.flags().Get("output").value_or("");
  if (!asked.empty()) {
    if (!asked.ends_with(".profd")) {
      return UsageError(
          "a fetched capture must be named FILE.profd; for a trace use "
          "`profctl export`");
    }
    RETURN_IF_ERROR(CheckWritable(asked));
  }
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  ASSIGN_OR_RETURN(const CaptureView view, daemon->GetCapture(id));
  const std::string path = asked.empty() ? StrCat(view.record.id, ".profd") : asked;

  interrupts.OnInterrupt([&] { daemon->Abort(); });
  ProgressLine progress(invocation.error_style());
  const absl::Status status = FetchToFile(*daemon, view, path, [&](int64_t done, int64_t total) {
    progress.Show(TransferProgress("fetching", done, total));
  });
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  if (!status.ok()) {
    if (status.code() == absl::StatusCode::kCancelled ||
        status.code() == absl::StatusCode::kUnavailable) {
      invocation.Note("What has arrived is kept; run the same again to go on from there.\n");
    }
    return status;
  }
  if (invocation.json()) {
    JsonWriter json;
    json.BeginObject();
    json.Field("id", view.record.id);
    json.Field("path", path);
    json.Field("bytes", view.record.file_bytes);
    json.Field("sha256", view.record.file_sha256);
    json.EndObject();
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(StrCat(path, "\n"));
  }
  return 0;
}

}  // namespace

Command FetchCommand() {
  return {.name = "fetch",
          .summary = "Copy a capture here, as a file that stands for its ID",
          .arguments = "ID",
          .description =
              "Copies the capture file to the machine where profctl runs, checks it against its "
              "sha256, and prints its path. Every report and `export` then take FILE.profd in "
              "place of an id, with no daemon.\n\n"
              "A copy that was cut off leaves FILE.profd.ID.part; the same command goes on from "
              "there.",
          .flags = {{.name = "output",
                     .letter = 'o',
                     .value_name = "FILE",
                     .help = "Where to write, ending in .profd (default: ID.profd)",
                     .completes = Completes::kCaptureFile}},
          .examples = {{"profctl fetch 01J9ZK -o run.profd", "Take a capture along"},
                       {"profctl ops run.profd", "Read it anywhere"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kCapture,
          .run = &Run};
}

}  // namespace profd::cli
