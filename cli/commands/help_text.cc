#include "cli/commands/help_text.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/base/style.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

constexpr size_t kTextWidth = 80;

std::string WrappedParagraphs(std::string_view text) {
  std::string out;
  while (true) {
    const size_t end = text.find("\n\n");
    StrAppend(&out, WrapText(text.substr(0, end), kTextWidth, 0), "\n");
    if (end == std::string_view::npos) return out;
    out.push_back('\n');
    text.remove_prefix(end + 2);
  }
}

std::string FlagSpelling(const Flag& flag) {
  std::string text = flag.letter == 0 ? "    " : StrCat("-", std::string(1, flag.letter), ", ");
  StrAppend(&text, "--", flag.name);
  if (flag.value_is_optional) {
    StrAppend(&text, "[=", flag.value_name, "]");
  } else if (!flag.value_name.empty()) {
    StrAppend(&text, " ", flag.value_name);
  }
  return text;
}

std::string FlagHelp(const std::vector<Flag>& flags, bool with_actions) {
  constexpr size_t kHelpColumn = 28;
  std::string out;
  for (const Flag& flag : flags) {
    std::string line = StrCat("  ", FlagSpelling(flag));
    if (line.size() + 2 > kHelpColumn) {
      StrAppend(&line, "\n", std::string(kHelpColumn, ' '));
    } else {
      line.append(kHelpColumn - line.size(), ' ');
    }
    StrAppend(&out, line,
              WrapText(with_actions ? HelpWithActions(flag) : flag.help, kTextWidth, kHelpColumn),
              "\n");
  }
  return out;
}

// What stands for a capture in the usage line.
std::string ArgumentHelp(const Command& command) {
  if (command.completes != Completes::kCapture) return "";
  std::string text;
  if (command.arguments.find("ID") != std::string_view::npos) {
    StrAppend(&text, "  ID     a capture: its ID, or a start of it that no other has\n");
  }
  if (command.arguments.find("GROUP") != std::string_view::npos) {
    StrAppend(&text, "  GROUP  the captures of one job: groups/ID, as `captures` lists it\n");
  }
  if (command.arguments.find("FILE") != std::string_view::npos) {
    StrAppend(&text, "  FILE   a fetched or imported capture, *.profd",
              command.arguments.find("FILES") != std::string_view::npos
                  ? "; several are the ranks of one job\n"
                  : "\n");
  }
  return text;
}

// "Connection flags: --address, --context."; empty if there are none.
std::string LineOfNames(std::string_view title, std::span<const Flag> flags) {
  if (flags.empty()) return "";
  std::string line = StrCat(title, ":");
  for (size_t i = 0; i < flags.size(); ++i) {
    StrAppend(&line, i == 0 ? " --" : ", --", flags[i].name);
  }
  return StrCat(WrapText(StrCat(line, "."), kTextWidth, 0), "\n");
}

bool IsOf(const Flag& flag, std::string_view action) {
  return flag.actions.empty() || std::ranges::find(flag.actions, action) != flag.actions.end();
}

// The flags of an action, or of none, those that are rare by name; then those of other actions.
std::string FlagsHelp(const Command& command, HelpDetail detail, std::string_view action) {
  const std::vector<Flag> all = AllFlags(command);
  const size_t own_count = OwnFlags(command).size();
  std::vector<Flag> shown;
  std::vector<Flag> rare;
  std::vector<Flag> connection;
  std::map<std::string, std::vector<Flag>> of_actions;
  for (size_t i = 0; i < all.size(); ++i) {
    if (detail == HelpDetail::kAllFlags && action.empty()) {
      shown.push_back(all[i]);
    } else if (!IsOf(all[i], action)) {
      of_actions[StrCat("Flags of ", JoinedActions(all[i]))].push_back(all[i]);
    } else if (detail == HelpDetail::kOwnFlags && all[i].is_rare) {
      rare.push_back(all[i]);
    } else if (detail == HelpDetail::kOwnFlags && i >= own_count) {
      connection.push_back(all[i]);
    } else {
      shown.push_back(all[i]);
    }
  }
  std::string text = StrCat("\nFlags:\n", FlagHelp(shown, action.empty()));
  if (!rare.empty() || !connection.empty()) {
    StrAppend(&text, "\n", LineOfNames("More flags", rare),
              LineOfNames("Connection flags", connection), "`--help-all` explains them.\n");
  }
  if (action.empty() && !of_actions.empty()) {
    StrAppend(&text, "\n");
    for (const auto& [title, flags] : of_actions) StrAppend(&text, LineOfNames(title, flags));
    StrAppend(&text, "`profctl ", command.name, " ACTION --help` explains those of an action.\n");
  }
  return text;
}

}  // namespace

std::string UsageLine(const Command& command) {
  std::string line = StrCat("profctl ", command.name);
  if (command.is_launcher) return StrCat(line, " [FLAGS] ", command.arguments);
  if (!command.arguments.empty()) StrAppend(&line, " ", command.arguments);
  return StrCat(line, " [FLAGS]");
}

std::string OverviewHelp() {
  std::string text =
      "profctl captures training steps of running processes and shows where the time and the\n"
      "memory went.\n\n"
      "Usage: profctl COMMAND [ARGUMENTS] [FLAGS]\n\nCommands:\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    StrAppend(&text,
              absl::StrFormat("  %-11s %s\n", ToAbsl(command.name), ToAbsl(command.summary)));
  }
  StrAppend(&text,
            "\nA first capture:\n"
            "  profctl ps                          which processes can be captured\n"
            "  profctl trace --pid PID --steps 5   five whole steps, and the operator table\n"
            "\n`profctl COMMAND --help` says what a command takes; profctl(1) says the rest.\n"
            "Exit codes: 0 done, 1 failed, 2 wrong usage, 4 partial, 5 refused, 6 no daemon,\n"
            "130 interrupted, 141 stdout was closed by its reader.\n");
  return text;
}

bool HasAction(const Command& command, std::string_view word) {
  return std::ranges::any_of(command.flags, [word](const Flag& flag) {
    return std::ranges::find(flag.actions, word) != flag.actions.end();
  });
}

std::string CommandHelp(const Command& command, HelpDetail detail, std::string_view action) {
  std::string text =
      StrCat(command.summary, ".\n\nUsage: ", UsageLine(command), "\n", ArgumentHelp(command), "\n",
             WrappedParagraphs(command.description), FlagsHelp(command, detail, action));
  if (!command.examples.empty()) {
    StrAppend(&text, "\nExamples:\n");
    for (const Example& example : command.examples) {
      StrAppend(&text, "  ", example.command, "\n      ", example.what, "\n");
    }
  }
  return text;
}

}  // namespace profd::cli
