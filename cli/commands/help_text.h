// Text made from the command table: help, completion scripts, the man page.
#ifndef PROFD_CLI_COMMANDS_HELP_TEXT_H_
#define PROFD_CLI_COMMANDS_HELP_TEXT_H_

#include <string>

#include "cli/commands/command.h"

namespace profd::cli {

std::string OverviewHelp();                       // `profctl help`
std::string CommandHelp(const Command& command);  // `profctl help COMMAND`
std::string UsageLine(const Command& command);    // "profctl ops ID|FILE.profd [FLAGS]"

std::string BashCompletion();
std::string ZshCompletion();
std::string FishCompletion();

// profctl(1), in man's macros.
std::string ManPage();

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_HELP_TEXT_H_
