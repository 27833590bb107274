#include "cli/base/errors.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/render/answers.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

VersionAnswer AnswerOf(const absl::StatusOr<DaemonClient*>& daemon) {
  VersionAnswer answer = {.profctl = {.version = PROFD_VERSION, .api_version = kApiVersion}};
  if (daemon.ok()) {
    const NodeInfo& node = (*daemon)->node();
    answer.profd = ProgramVersion{
        .version = node.version, .api_version = node.api_version, .address = (*daemon)->address()};
  } else {
    answer.profd_error = FromAbsl(daemon.status().message());
  }
  return answer;
}

// Works without a daemon: then it says so, and that is no failure.
absl::StatusOr<int> RunVersion(Invocation& invocation) {
  const absl::StatusOr<DaemonClient*> daemon = invocation.Daemon();
  // What was given now is to be right; the current context may mean several nodes.
  const bool is_given = invocation.flags().Has("address") || invocation.flags().Has("context");
  if (is_given && ReasonOf(daemon.status()) == kUsageReason) return daemon.status();
  if (invocation.json()) {
    JsonWriter json;
    VersionObject().Write(AnswerOf(daemon), json);
    invocation.Print(json.TakeLine());
    return 0;
  }
  invocation.Print(StrCat("profctl ", PROFD_VERSION, " (API ", kApiVersion, ")\n"));
  if (daemon.ok()) {
    const NodeInfo& node = (*daemon)->node();
    invocation.Print(StrCat("profd ", ForDisplay(node.version, 80), " (API ", node.api_version,
                            ") at ", (*daemon)->address(), "\n"));
  } else {
    invocation.Print(StrCat("profd: ", FromAbsl(daemon.status().message()), "\n"));
  }
  return 0;
}

}  // namespace

Command VersionCommand() {
  return {.name = "version",
          .summary = "Show the versions of profctl and of the daemon",
          .description = "Shows the version of profctl and, if a daemon answers, of profd.",
          .examples = {{"profctl version", "Check that profctl and profd have the same version"}},
          .run = &RunVersion};
}

}  // namespace profd::cli
