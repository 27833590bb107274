// Text made from the command table: help, completion scripts, the man page.
#ifndef PROFD_CLI_COMMANDS_HELP_TEXT_H_
#define PROFD_CLI_COMMANDS_HELP_TEXT_H_

#include <string>

#include "cli/commands/command.h"

namespace profd::cli {

enum class HelpDetail {
  kOwnFlags,  // Connection flags are one line.
  kAllFlags,
};

std::string OverviewHelp();  // `profctl help`
// `profctl COMMAND --help` and --help-all
std::string CommandHelp(const Command& command, HelpDetail detail);
std::string UsageLine(const Command& command);  // "profctl ops ID|FILE.profd [FLAGS]"

std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

// profctl(1), in man's macros.
std::string ManPage();

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_HELP_TEXT_H_
