#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "cli/base/errors.h"
#include "cli/base/interrupts.h"
#include "cli/captures/capture_set.h"
#include "cli/captures/merged_export.h"
#include "cli/captures/one_run.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/captures/scratch_folder.h"
#include "cli/commands/browser.h"
#include "cli/commands/command.h"
#include "cli/commands/trace_server.h"
#include "cli/render/answers.h"
#include "cli/render/group_reports.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using exporter::TraceFormat;

constexpr absl::Duration kDefaultTimeout = absl::Minutes(10);

// A trace that is to be opened, and the folder that goes with it if it was made for this.
struct TraceToOpen {
  std::string path;
  std::string name;
  std::unique_ptr<ScratchFolder> folder;
};

// A file that is a trace already.
bool IsTraceFile(const std::string& argument) {
  std::error_code error;
  return exporter::TraceFormatFromPath(argument).has_value() &&
         std::filesystem::is_regular_file(argument, error);
}

absl::StatusOr<TraceToOpen> ExportForPage(Invocation& invocation, Interrupts& interrupts) {
  ASSIGN_OR_RETURN(CaptureSet set, CaptureSet::Open(invocation));
  TraceToOpen trace;
  ASSIGN_OR_RETURN(trace.folder, ScratchFolder::MakeTemporary());
  std::string id = set.is_group() ? set.group_id() : set.Only().view().record.id;
  if (id.empty()) id = "merged";
  trace.name = StrCat(id, exporter::SuffixOf(TraceFormat::kPerfetto));
  trace.path = (trace.folder->path() / "trace.pftrace").string();
  std::atomic<bool> aborted = false;
  interrupts.OnInterrupt([&] {
    aborted.store(true, std::memory_order_relaxed);
    set.Abort();
  });
  ProgressLine progress(invocation.error_style());
  absl::Status status;
  if (set.is_group()) {
    status = ExportMerged(set, TraceFormat::kPerfetto, trace.path, aborted, progress).status();
  } else {
    status = ExportToFile(set.Only(), TraceFormat::kPerfetto, trace.path,
                          [&](int64_t done, int64_t total) {
                            progress.Show(TransferProgress("writing", done, total));
                          })
                 .status();
  }
  progress.Clear();
  interrupts.OnInterrupt(nullptr);
  if (set.is_group()) invocation.Note(RenderMissing(set));
  RETURN_IF_ERROR(status);
  return trace;
}

absl::StatusOr<TraceToOpen> FindTrace(Invocation& invocation, Interrupts& interrupts) {
  const std::vector<std::string>& arguments = invocation.arguments();
  if (arguments.size() != 1 || !IsTraceFile(arguments.front())) {
    return ExportForPage(invocation, interrupts);
  }
  TraceToOpen trace;
  trace.path = arguments.front();
  trace.name = std::filesystem::path(trace.path).filename().string();
  return trace;
}

absl::StatusOr<std::unique_ptr<TraceServer>> Serve(const TraceToOpen& trace, int port) {
  auto server = TraceServer::Start(trace.path, trace.name, port);
  if (!absl::IsResourceExhausted(server.status())) return server;
  return absl::ResourceExhaustedError(
      StrCat(FromAbsl(server.status().message()),
             "; another `profctl open` or Perfetto's trace_processor may hold it: end that, or "
             "forward your port 9001 to another one here with --port N"));
}

// On stderr: what a person has to do, besides following the link.
std::string ForwardingAdvice(const TraceServer& server, bool is_ssh) {
  if (is_ssh) {
    return StrCat("In an ssh session, forward the port first, on your own machine:\n  ssh -L ",
                  kPerfettoPort, ":127.0.0.1:", server.port(), " HOST\n");
  }
  if (server.port() != kPerfettoPort) {
    return StrCat("The page fetches from port ", kPerfettoPort, " only: forward it to ",
                  server.port(), ", as with\n  ssh -L ", kPerfettoPort,
                  ":127.0.0.1:", server.port(), " HOST\n");
  }
  return "";
}

void ShowLink(Invocation& invocation, const TraceServer& server, const std::string& link,
              bool opened) {
  const bool is_ssh = IsSshSession(&std::getenv);
  if (invocation.json()) {
    JsonWriter json;
    OpenObject().Write({.url = link,
                        .port = server.port(),
                        .path = server.url_path(),
                        .ssh_session = is_ssh,
                        .browser_started = opened},
                       json);
    invocation.Print(json.TakeLine());
  } else {
    invocation.Print(StrCat(link, "\n"));
  }
  invocation.Note(ForwardingAdvice(server, is_ssh));
  if (!opened && !is_ssh) invocation.Note("Open the link in a browser on this machine.\n");
  invocation.Note("Waiting until the page has fetched the trace, once; Ctrl-C gives up.\n");
}

absl::StatusOr<int> WaitFor(Interrupts& interrupts, TraceServer& server, absl::Duration timeout) {
  interrupts.OnInterrupt([&] { server.Stop(); });
  const bool ended = server.WaitUntilServed(timeout);
  interrupts.OnInterrupt(nullptr);
  if (server.served()) return kExitDone;
  if (ended) return absl::CancelledError("interrupted before the trace was fetched");
  return LocalFailure(absl::DeadlineExceededError(
      StrCat("the trace was not fetched within ", absl::FormatDuration(timeout),
             "; run it again, with a longer --timeout if need be")));
}

// Returns false where there is no browser to start. `redirect` is made only if there is one.
absl::StatusOr<bool> OpenInBrowser(const std::string& link,
                                   std::unique_ptr<ScratchFolder>& redirect) {
  if (!BrowserCommand(link, &std::getenv).has_value()) return false;
  ASSIGN_OR_RETURN(redirect, ScratchFolder::MakeTemporary());
  ASSIGN_OR_RETURN(const std::string page, WriteRedirectPage(redirect->path(), link));
  return StartBrowser(*BrowserCommand(page, &std::getenv));
}

absl::StatusOr<int> RunOpen(Invocation& invocation) {
  Interrupts interrupts;
  ASSIGN_OR_RETURN(const std::optional<int64_t> port, invocation.flags().Int("port", 0, 65535));
  ASSIGN_OR_RETURN(const std::optional<absl::Duration> timeout,
                   invocation.flags().Duration("timeout"));
  ASSIGN_OR_RETURN(const TraceToOpen trace, FindTrace(invocation, interrupts));
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceServer> server,
                   Serve(trace, static_cast<int>(port.value_or(kPerfettoPort))));
  const std::string link = StrCat(kPerfettoOrigin, "/#!/?url=http://127.0.0.1:", kPerfettoPort,
                                  server->url_path(), "&referrer=profctl");
  std::unique_ptr<ScratchFolder> redirect;  // Until the browser has followed the page in it.
  bool opened = false;
  if (server->port() == kPerfettoPort && !invocation.flags().Has("no-browser")) {
    ASSIGN_OR_RETURN(opened, OpenInBrowser(link, redirect));
  }
  ShowLink(invocation, *server, link, opened);
  RETURN_IF_ERROR(invocation.WriteStatus());  // Whoever reads it is to follow the link now.
  return WaitFor(interrupts, *server, timeout.value_or(kDefaultTimeout));
}

}  // namespace

Command OpenCommand() {
  return {
      .name = "open",
      .summary = "Open a trace in the Perfetto page of a browser",
      .arguments = "ID|GROUP|FILES",
      .description =
          "Writes the capture as a Perfetto trace, serves it once on 127.0.0.1:9001, prints the "
          "link and ends when the page has fetched it. A trace file (.json, .json.gz, .pftrace) is "
          "served as it is. The page, https://ui.perfetto.dev, keeps what it fetched in the "
          "browser and sends it nowhere.\n\n"
          "Starts $BROWSER or the desktop's browser if there is one. In an ssh session it prints "
          "how to forward the port instead. Only someone who has the link can fetch the trace; the "
          "browser gets the link from a private file, because other users can read its arguments.",
      .flags = {{.name = "port",
                 .value_name = "N",
                 .help = "Serve on this port, to which 9001 on your machine is forwarded; 0 for "
                         "any (default: 9001, the only port that the page fetches from)"},
                {.name = "timeout",
                 .value_name = "TIME",
                 .help = "How long to wait for the browser to fetch the trace (default: 10m)"},
                {.name = "no-browser", .help = "Print the link only"},
                ForceGroupFlag()},
      .examples = {{"profctl open 01J9ZK", "The capture, in a browser"},
                   {"profctl open trace.json.gz --no-browser", "A file, of anyone"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kCapture,
      .takes_nodes = true,
      .run = &RunOpen};
}

}  // namespace profd::cli
