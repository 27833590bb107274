// How do I add a command?
//
//   1. Write <name>.cc next to this file: a function NameCommand() that returns the
//      row (summary, arguments, flags, examples) and a function RunName() that runs it.
//   2. Declare NameCommand() in commands.h, add it to Commands() below and the file to
//      CMakeLists.txt.
//   3. Describe what it prints with --json (cli/render/lists.h).
//   4. --help, the completion scripts and the man page follow from the row.
//   5. Test it in tests/cli/commands/commands_test.cc, and add an example of its --json to
//      schema_test.cc.
#include <algorithm>

#include "cli/commands/commands.h"

namespace profd::cli {

const std::vector<Command>& Commands() {
  static const std::vector<Command> commands = {
      PsCommand(),          TopCommand(),        RunCommand(),      TraceCommand(),
      CapturesCommand(),    ShowCommand(),       OpsCommand(),      ModulesCommand(),
      StepsCommand(),       StragglersCommand(), MemoryCommand(),   KernelsCommand(),
      CopiesCommand(),      SyncsCommand(),      IdleCommand(),     TimeCommand(),
      CollectivesCommand(), CompileCommand(),    ReportCommand(),   DiffCommand(),
      HistoryCommand(),     ExportCommand(),     FetchCommand(),    CancelCommand(),
      DeleteCommand(),      PinCommand(),        UnpinCommand(),    PurgeCommand(),
      NodeCommand(),        CheckCommand(),      OpenCommand(),     ImportCommand(),
      AuditCommand(),       ContextCommand(),    ScheduleCommand(), VersionCommand(),
      ExplainCommand(),     SchemaCommand(),     HelpCommand(),     CompletionCommand(),
      CandidatesCommand(),
  };
  return commands;
}

const Command* FindCommand(std::string_view name) {
  const std::vector<Command>& commands = Commands();
  const auto found = std::find_if(commands.begin(), commands.end(),
                                  [&](const Command& command) { return command.name == name; });
  return found == commands.end() ? nullptr : &*found;
}

std::vector<Flag> ConnectionFlags(const Command& command) {
  std::vector<Flag> flags;
  if (command.uses_daemon) {
    flags.push_back({.name = "address",
                     .value_name = "ADDRESS",
                     .help = "The daemon to talk to: unix:PATH or HOST:PORT (default: "
                             "PROFD_ADDRESS, PROFD_SOCKET_DIR, the current context, then the "
                             "first of /run/profd and $XDG_RUNTIME_DIR/profd that answers)"});
    flags.push_back({.name = "context",
                     .value_name = "NAME",
                     .help = "The daemon of this name in `profctl context` (default: "
                             "PROFD_CONTEXT, then the current one)",
                     .completes = Completes::kContext});
  }
  if (command.takes_nodes) {
    flags.push_back({.name = "nodes",
                     .value_name = "LIST",
                     .help = "The nodes to ask, all at once: gpu[001-128], gpu[001-128]:7000, "
                             "@FILE, dns:NAME, NAME=ADDRESS, comma-separated",
                     .repeated = true});
    flags.push_back({.name = "job",
                     .value_name = "JOB",
                     .help = "Only this job. Without --nodes, asks the job's Slurm nodes"});
    flags.push_back({.name = "node-timeout",
                     .value_name = "TIME",
                     .help = "How long to wait for each node (default: 10s)"});
  }
  return flags;
}

std::vector<Flag> OwnFlags(const Command& command) {
  std::vector<Flag> flags = command.flags;
  if (!command.hidden && !command.is_launcher) {
    flags.push_back({.name = "json", .help = "Print JSON on stdout, for scripts"});
  }
  flags.push_back({.name = "help", .letter = 'h', .help = "Show this help"});
  flags.push_back({.name = "help-all", .help = "Show this help with all flags"});
  return flags;
}

std::vector<Flag> AllFlags(const Command& command) {
  std::vector<Flag> flags = OwnFlags(command);
  const auto is_own = [&](const Flag& flag) {
    // What a command says of a flag itself is closer to the point.
    return std::ranges::any_of(command.flags,
                               [&](const Flag& own) { return own.name == flag.name; });
  };
  for (Flag& flag : ConnectionFlags(command)) {
    if (!is_own(flag)) flags.push_back(std::move(flag));
  }
  return flags;
}

}  // namespace profd::cli
