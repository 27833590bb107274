#include <cstdlib>

#include "cli/client/contexts.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/help_text.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

absl::StatusOr<int> RunCompletion(Invocation& invocation) {
  if (invocation.json()) return UsageError("a completion script is not JSON; leave --json out");
  const std::string& shell = invocation.arguments().front();
  if (shell == "bash") {
    invocation.Print(BashCompletion());
  } else if (shell == "zsh") {
    invocation.Print(ZshCompletion());
  } else if (shell == "fish") {
    invocation.Print(FishCompletion());
  } else {
    return UsageError(
        StrCat("no completion for '", ForDisplay(shell, 40), "'; there is bash, zsh and fish"));
  }
  return 0;
}

absl::StatusOr<int> PrintContexts(Invocation& invocation) {
  const absl::StatusOr<ContextFile> file = ReadContexts(ContextsPath(&std::getenv));
  if (!file.ok()) return 0;
  for (const Context& context : file->contexts) invocation.Print(StrCat(context.name, "\n"));
  return 0;
}

// What a completion script asks at the press of a key: it prints candidates or, if there is
// no daemon, nothing, and never complains into the user's prompt.
absl::StatusOr<int> RunCandidates(Invocation& invocation) {
  constexpr int64_t kMostIds = 100;
  if (invocation.arguments().front() == "contexts") return PrintContexts(invocation);
  const absl::StatusOr<DaemonClient*> daemon = invocation.Daemon();
  if (!daemon.ok()) return 0;
  if (invocation.arguments().front() == "ids") {
    const auto views = (*daemon)->ListCaptures({}, kMostIds);
    if (!views.ok()) return 0;
    for (const CaptureView& view : *views) invocation.Print(StrCat(view.record.id, "\n"));
  } else if (invocation.arguments().front() == "pids") {
    const auto targets = (*daemon)->ListTargets();
    if (!targets.ok()) return 0;
    for (const TargetInfo& target : *targets) {
      if (target.pid > 0) invocation.Print(StrCat(target.pid, "\n"));
    }
  } else if (invocation.arguments().front() == "schedules") {
    const auto schedules = (*daemon)->ListSchedules(/*include_deleted=*/false);
    if (!schedules.ok()) return 0;
    for (const ScheduleView& view : *schedules) {
      invocation.Print(StrCat(view.id, "\n"));
    }
  }
  return 0;
}

}  // namespace

Command CompletionCommand() {
  return {.name = "completion",
          .summary = "Print the completion script of a shell",
          .arguments = "bash|zsh|fish",
          .description =
              "Prints what makes the shell complete commands, flags, IDs of captures and "
              "schedules, PIDs, and contexts. Installed "
              "packages bring it along; without one:\n\n"
              "bash: . <(profctl completion bash)\n\n"
              "zsh: profctl completion zsh > \"${fpath[1]}/_profctl\"\n\n"
              "fish: profctl completion fish | source",
          .examples = {{"profctl completion bash", "The script for bash"}},
          .min_arguments = 1,
          .max_arguments = 1,
          .completes = Completes::kChoice,
          .choices = {"bash", "zsh", "fish"},
          .uses_daemon = false,
          .run = &RunCompletion};
}

Command CandidatesCommand() {
  return {.name = "__candidates",
          .summary = "What the completion scripts call",
          .arguments = "ids|pids|schedules|contexts",
          .description = "Prints candidates for completion, one a line.",
          .min_arguments = 1,
          .max_arguments = 1,
          .run = &RunCandidates,
          .hidden = true};
}

}  // namespace profd::cli
