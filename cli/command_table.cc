// How do I add a command?
//
//   1. Write <name>_command.cc beside this file: a function NameCommand() that returns the
//      row (summary, arguments, flags, examples) and a function that runs it.
//   2. Declare NameCommand() in command.h, add it to Commands() below and the file to
//      CMakeLists.txt.
//   3. --help, the completion scripts and the man page follow from the row.
//   4. Test it in tests/cli/commands_test.cc.
#include <algorithm>

#include "cli/command.h"

namespace profd::cli {

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {
      PsCommand(),         RunCommand(),        TraceCommand(),   CapturesCommand(),
      ShowCommand(),       OpsCommand(),        StepsCommand(),   MemoryCommand(),
      KernelsCommand(),    CopiesCommand(),     SyncsCommand(),   IdleCommand(),
      CompileCommand(),    ExportCommand(),     FetchCommand(),   CancelCommand(),
      DeleteCommand(),     NodeCommand(),       VersionCommand(), HelpCommand(),
      CompletionCommand(), CandidatesCommand(),
  };
  return commands;
}

const Command* FindCommand(std::string_view name) {
  const std::vector<Command>& commands = Commands();
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

std::vector<Flag> CommonFlags(const Command& command) {
  std::vector<Flag> flags;
  if (!command.hidden && !command.is_launcher) {
    flags.push_back({.name = "json", .help = "Print JSON on stdout, for scripts"});
  }
  if (command.uses_daemon) {
    flags.push_back({.name = "address",
                     .value_name = "ADDRESS",
                     .help = "The daemon to talk to: unix:PATH or HOST:PORT (default: "
                             "PROFD_ADDRESS, then PROFD_SOCKET_DIR, then the first of /run/profd "
                             "and $XDG_RUNTIME_DIR/profd that answers)"});
  }
  flags.push_back({.name = "help", .letter = 'h', .help = "Say what this command takes"});
  return flags;
}

std::vector<Flag> AllFlags(const Command& command) {
  std::vector<Flag> flags = command.flags;
  for (Flag& flag : CommonFlags(command)) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace profd::cli
