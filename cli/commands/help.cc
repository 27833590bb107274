#include "cli/commands/command.h"
#include "cli/commands/help_text.h"
#include "cli/render/answers.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

HelpAnswer AllCommands() {
  HelpAnswer answer;
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    answer.commands.push_back({.name = std::string(command.name),
                               .summary = std::string(command.summary),
                               .usage = UsageLine(command),
                               .flags = AllFlags(command)});
  }
  return answer;
}

absl::StatusOr<int> RunHelp(Invocation& invocation) {
  if (invocation.flags().Has("man")) {
    invocation.Print(ManPage());
    return 0;
  }
  if (invocation.json()) {
    JsonWriter json;
    HelpObject().Write(AllCommands(), json);
    invocation.Print(json.TakeLine());
    return 0;
  }
  if (invocation.arguments().empty()) {
    invocation.Print(OverviewHelp());
    return 0;
  }
  const std::string& name = invocation.arguments().front();
  const Command* command = FindCommand(name);
  if (command == nullptr || command->hidden) {
    return UsageError(
        StrCat("there is no command '", ForDisplay(name, 80), "'; `profctl help` lists them"));
  }
  invocation.Print(CommandHelp(*command, HelpDetail::kOwnFlags));
  return 0;
}

}  // namespace

Command HelpCommand() {
  return {.name = "help",
          .summary = "Show help for profctl or a command",
          .arguments = "[COMMAND]",
          .description = "Lists the commands, or says what one takes.",
          .flags = {{.name = "man", .help = "Print the source of the man page"}},
          .examples = {{"profctl help trace", "All about trace"}},
          .max_arguments = 1,
          .completes = Completes::kCommand,
          .uses_daemon = false,
          .run = &RunHelp};
}

}  // namespace profd::cli
