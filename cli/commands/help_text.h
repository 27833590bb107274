// Text made from the command table: help, completion scripts, the man page.
#ifndef PROFD_CLI_COMMANDS_HELP_TEXT_H_
#define PROFD_CLI_COMMANDS_HELP_TEXT_H_

#include <string>
#include <string_view>

#include "cli/commands/command.h"

namespace profd::cli {

enum class HelpDetail {
  kOwnFlags,  // Connection flags are one line, and so are rare ones.
  kAllFlags,
};

std::string OverviewHelp();  // `profctl help`
// `profctl COMMAND --help` and --help-all. With `action`, `profctl COMMAND ACTION --help`: its
// flags. Without, --help only names those of actions.
std::string CommandHelp(const Command& command, HelpDetail detail, std::string_view action = "");
// Whether a flag of the command is of that action.
bool HasAction(const Command& command, std::string_view word);
std::string UsageLine(const Command& command);  // "profctl ops ID|FILE.profd [FLAGS]"

std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

// profctl(1), in man's macros.
std::string ManPage();

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_HELP_TEXT_H_
