// Command: one verb of profctl. The table of them is in command_table.cc.
#ifndef PROFD_CLI_COMMANDS_COMMAND_H_
#define PROFD_CLI_COMMANDS_COMMAND_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/base/flags.h"
#include "cli/client/invocation.h"

namespace profd::cli {

struct Example {
  std::string_view command;
  std::string_view what;
};

struct Command {
  std::string_view name = {};
  std::string_view summary = {};      // For the list of commands, without a full stop.
  std::string_view arguments = {};    // "ID|FILE", "[COMMAND]"; empty: none
  std::string_view description = {};  // Paragraphs, separated by an empty line.
  std::vector<Flag> flags = {};       // Its own; OwnFlags() and ConnectionFlags() add more.
  std::vector<Example> examples = {};
  size_t min_arguments = 0;
  size_t max_arguments = 0;
  Completes completes = Completes::kNothing;  // its arguments
  std::vector<std::string_view> choices = {};
  bool uses_daemon = true;  // Takes --address.
  // Takes --nodes, --job and --node-timeout: it asks many daemons at once (fleet.h), or finds the
  // one that has what is asked for.
  bool takes_nodes = false;
  // An exit code, or an error that main() reports.
  absl::StatusOr<int> (*run)(Invocation&) = nullptr;
  bool hidden = false;  // Not listed; for scripts that we generate.
  // Its arguments are another command, whose flags and stdout are its own: no --json, and
  // flags of ours end where it begins.
  bool is_launcher = false;
};

// Those of its row, --json, --help, and --help-all.
std::vector<Flag> OwnFlags(const Command& command);
// Which daemon or nodes it asks: --address, --context, --nodes, --job, --node-timeout; those that
// it has.
std::vector<Flag> ConnectionFlags(const Command& command);
// Both. A flag of its row replaces the connection flag of that name.
std::vector<Flag> AllFlags(const Command& command);

// All commands, in the order in which they are listed.
const std::vector<Command>& Commands();
const Command* FindCommand(std::string_view name);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_COMMAND_H_
