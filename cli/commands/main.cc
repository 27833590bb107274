// profctl: the command line of profd. What its commands are is in command_table.cc.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failed_writes.h"
#include "cli/client/daemon_client.h"
#include "cli/commands/command.h"
#include "cli/commands/help_text.h"
#include "daemon/base/lock_checks.h"
#include "daemon/base/reason.h"
#include "daemon/base/standard_files.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::cli {
namespace {

// Flags that may stand before the command.
std::vector<Flag> GlobalFlags() {
  return {
      {.name = "address", .value_name = "ADDRESS", .help = "The daemon to talk to"},
      {.name = "context", .value_name = "NAME", .help = "A context of `profctl context`"},
      {.name = "nodes",
       .value_name = "LIST",
       .help = "The nodes to ask, as gpu[001-128]",
       .repeated = true},
      {.name = "job", .value_name = "JOB", .help = "Only the processes and captures of this job"},
      {.name = "node-timeout",
       .value_name = "TIME",
       .help = "How long to wait for each node (default: 10s)"},
      {.name = "help", .letter = 'h', .help = "List the commands"},
      {.name = "version", .help = "Show the versions"}};
}

struct CommandLine {
  const Command* command;
  std::vector<std::string> words;  // After the command.
};

absl::Status NoSuchCommand(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Command& command : Commands()) {
    if (!command.hidden) names.push_back(command.name);
  }
  const std::string_view nearest = NearestMatch(name, names);
  std::string message = StrCat("there is no command '", ForDisplay(name, 80), "'");
  if (!nearest.empty()) StrAppend(&message, "; did you mean ", nearest, "?");
  return UsageError(message);
}

// What of `global` the command is to have, as flags of its own. An --address that it has no use
// for does no harm; a list of nodes that it would not ask does.
absl::Status PassOn(const ParsedFlags& global, CommandLine& line) {
  const Command& command = *line.command;
  if (!command.takes_nodes && global.Has("nodes")) {
    return UsageError(StrCat("`profctl ", command.name, "` asks one daemon: it takes no --nodes"));
  }
  const auto pass = [&](std::string_view flag, bool takes) {
    for (const std::string& value : global.All(flag)) {
      if (takes) line.words.push_back(StrCat("--", flag, "=", value));
    }
  };
  pass("address", command.uses_daemon);
  pass("context", command.uses_daemon);
  pass("nodes", command.takes_nodes);
  pass("job", command.takes_nodes);
  pass("node-timeout", command.takes_nodes);
  return absl::OkStatus();
}

absl::StatusOr<CommandLine> SplitCommandLine(const std::vector<std::string>& words) {
  ASSIGN_OR_RETURN(const ParsedFlags global,
                   ParseFlags(GlobalFlags(), words, /*stop_at_argument=*/true));
  if (global.Has("version")) return CommandLine{FindCommand("version"), {}};
  if (global.Has("help")) return CommandLine{FindCommand("help"), {}};
  if (global.arguments().empty()) {
    return UsageError("which command? `profctl help` lists them");
  }
  CommandLine line;
  const std::string& name = global.arguments().front();
  line.command = FindCommand(name);
  if (line.command == nullptr) return NoSuchCommand(name);
  RETURN_IF_ERROR(PassOn(global, line));
  line.words.insert(line.words.end(), global.arguments().begin() + 1, global.arguments().end());
  return line;
}

// Also where something else is wrong with the line. nullopt: it does not.
std::optional<HelpDetail> AsksForHelp(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return std::nullopt;
    if (word == "--help" || word == "-h") return HelpDetail::kOwnFlags;
    if (word == "--help-all") return HelpDetail::kAllFlags;
  }
  return std::nullopt;
}

absl::Status CheckArgumentCount(const Command& command, size_t count) {
  if (count >= command.min_arguments && count <= command.max_arguments) return absl::OkStatus();
  if (command.max_arguments == 0) {
    return UsageError(StrCat(command.name, " takes no arguments, only flags"));
  }
  return UsageError(
      StrCat(count < command.min_arguments ? "missing argument" : "too many arguments",
             "; usage: ", UsageLine(command)));
}

// A flag of another action would be ignored.
absl::Status CheckActions(const Command& command, const ParsedFlags& flags) {
  if (flags.arguments().empty()) return absl::OkStatus();
  const std::string& action = flags.arguments().front();
  if (std::ranges::find(command.choices, action) == command.choices.end()) return absl::OkStatus();
  for (const Flag& flag : command.flags) {
    if (flag.actions.empty() || !flags.Has(flag.name)) continue;
    if (std::ranges::find(flag.actions, action) != flag.actions.end()) continue;
    return UsageError(StrCat("--", flag.name, " is a flag of `profctl ", command.name, " ",
                             JoinedActions(flag), "`, not of `", action, "`"));
  }
  return absl::OkStatus();
}

// The action of the command line, if it has flags of its own; else empty. Something else may be
// wrong with the line.
std::string ActionOf(const Command& command, std::span<const std::string> words) {
  if (words.empty()) return "";
  const absl::StatusOr<ParsedFlags> flags = ParseFlags(AllFlags(command), words);
  const bool is_parsed = flags.ok() && !flags->arguments().empty();
  const std::string& action = is_parsed ? flags->arguments().front() : words.front();
  return HasAction(command, action) ? action : std::string();
}

int PrintHelp(const CommandLine& line, HelpDetail detail) {
  const std::string help = CommandHelp(*line.command, detail, ActionOf(*line.command, line.words));
  const bool written = std::fputs(help.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? kExitDone : ExitCodeOf(StdoutError(errno));
}

absl::StatusOr<int> Execute(const CommandLine& line) {
  const Command& command = *line.command;
  ASSIGN_OR_RETURN(ParsedFlags flags,
                   ParseFlags(AllFlags(command), line.words, command.is_launcher));
  if (flags.Has("help-all")) return PrintHelp(line, HelpDetail::kAllFlags);
  if (flags.Has("help")) return PrintHelp(line, HelpDetail::kOwnFlags);
  RETURN_IF_ERROR(CheckArgumentCount(command, flags.arguments().size()));
  RETURN_IF_ERROR(CheckActions(command, flags));
  Invocation invocation(std::move(flags));
  const absl::StatusOr<int> result = command.run(invocation);
  const absl::Status written = invocation.WriteStatus();
  if (result.ok() && !written.ok()) return written;
  return result;
}

// The standard library throws where the system has no thread for us.
absl::StatusOr<int> ExecuteOrSayWhy(const CommandLine& line) {
  try {
    return Execute(line);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) return NoThreadError();
    return LocalFailure(absl::InternalError(error.what()));
  }
}

int Fail(const absl::Status& status, const Command* command) {
  std::fputs(DescribeError(status).c_str(), stderr);
  if (ReasonOf(status) == kUsageReason && command != nullptr) {
    std::fputs(StrCat("`profctl ", command->name, " --help` says what it takes.\n").c_str(),
               stderr);
  }
  return ExitCodeOf(status);
}

int Main(const std::vector<std::string>& words) {
  const absl::StatusOr<CommandLine> line = SplitCommandLine(words);
  if (!line.ok()) return Fail(line.status(), nullptr);
  if (!line->command->is_launcher) {
    const std::optional<HelpDetail> detail = AsksForHelp(line->words);
    if (detail.has_value()) return PrintHelp(*line, *detail);
  }
  const absl::StatusOr<int> result = ExecuteOrSayWhy(*line);
  return result.ok() ? *result : Fail(result.status(), line->command);
}

}  // namespace
}  // namespace profd::cli

int main(int argc, char** argv) {
  profd::KeepStandardFilesApart();
  profd::SkipLockChecks();
  profd::cli::IgnoreSignalsOfWrites();
  profd::cli::SilenceGrpc();
  return profd::cli::Main(std::vector<std::string>(argv + 1, argv + argc));
}
