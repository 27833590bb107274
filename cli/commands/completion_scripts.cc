// Completion scripts, made from the command table. They ask `profctl __candidates` for IDs, PIDs,
// and contexts, so that what they offer is what is there.
//
// Candidates are a daemon's data, and a shell at a prompt can do everything. The scripts never
// pass them to anything that expands its arguments (`compgen -W`, `eval`), and offer only plain
// words: letters, digits, '.', '_', and '-', not first.
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/help_text.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

std::vector<const Command*> ListedCommands() {
  std::vector<const Command*> listed;
  for (const Command& command : Commands()) {
    if (!command.hidden) listed.push_back(&command);
  }
  return listed;
}

std::string CommandNames() {
  std::string names;
  for (const Command* command : ListedCommands()) {
    StrAppend(&names, names.empty() ? "" : " ", command->name);
  }
  return names;
}

std::string Joined(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) StrAppend(&text, text.empty() ? "" : " ", word);
  return text;
}

std::string Replaced(std::string_view text, char from, std::string_view to) {
  std::string out;
  for (const char c : text) {
    if (c == from) {
      out += to;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

// What `profctl __candidates` is asked for; empty: nothing.
std::string_view CandidatesOf(Completes completes) {
  switch (completes) {
    case Completes::kPid:
      return "pids";
    case Completes::kSchedule:
      return "schedules";
    case Completes::kContext:
      return "contexts";
    default:
      return "";
  }
}

// ---- bash ----

// A call of one of the functions of kBashFunctions.
std::string BashOffer(Completes completes, const std::vector<std::string_view>& choices) {
  switch (completes) {
    case Completes::kNothing:
      return ":";
    case Completes::kFile:
      return "_profctl_files";
    case Completes::kCaptureFile:
      return "_profctl_capture_files";
    case Completes::kCapture:
      return "_profctl_captures \"$1\"";
    case Completes::kPid:
    case Completes::kSchedule:
    case Completes::kContext:
      return StrCat(choices.empty() ? "" : StrCat("_profctl_offer ", Joined(choices), "; "),
                    "_profctl_live \"$1\" ", CandidatesOf(completes));
    case Completes::kChoice:
      return StrCat("_profctl_offer ", Joined(choices));
    case Completes::kCommand:
      return StrCat("_profctl_offer ", CommandNames());
    case Completes::kProgram:
      return "_profctl_program";
  }
  return ":";
}

constexpr std::string_view kBashFunctions = R"SH(_profctl_offer() {
  local word
  for word in "$@"; do
    if [[ $word == "$current"* ]]; then COMPREPLY+=("$word"); fi
  done
}

# What a daemon lists, as far as these are plain words: nothing of it may be expanded.
_profctl_live() {
  local -a found
  local word
  mapfile -t found < <("$1" __candidates "$2" 2>/dev/null)
  for word in "${found[@]}"; do
    case $word in
      '' | -* | *[!A-Za-z0-9._-]*) ;;
      *) _profctl_offer "$word" ;;
    esac
  done
}

_profctl_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$current")
}

_profctl_program() {
  _profctl_files
  [[ $current == */* ]] && return
  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$current")
}

_profctl_capture_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -X '!*.profd' -- "$current"; compgen -d -- "$current")
}

_profctl_captures() {
  _profctl_capture_files
  _profctl_live "$1" ids
}

)SH";

constexpr std::string_view kBashStart = R"SH(_profctl() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' i
  local -a flags=()
  # "--flag=value" comes as three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = && $COMP_CWORD -ge 2 ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --address) ((++i)) ;;
      -*) ;;
      *)
        command=${COMP_WORDS[i]}
        break
        ;;
    esac
  done
  if [[ -z $command ]]; then
)SH";

std::string BashFlagCases(const Command& command) {
  std::string text;
  for (const Flag& flag : AllFlags(command)) {
    if (flag.value_name.empty() || flag.value_is_optional) continue;
    std::string pattern = StrCat("'", command.name, " --", flag.name, "'");
    if (flag.letter != 0) {
      StrAppend(&pattern, " | '", command.name, " -", std::string(1, flag.letter), "'");
    }
    StrAppend(&text, "    ", pattern, ")\n      ", BashOffer(flag.completes, flag.choices),
              "\n      return\n      ;;\n");
  }
  return Replaced(text, '\t', "  ");
}

// ---- zsh ----

std::string ZshEscaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out.push_back('\\');
    if (c == '\'') {
      out += "'\\''";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string ZshAction(Completes completes, const std::vector<std::string_view>& choices) {
  switch (completes) {
    case Completes::kNothing:
      return " ";
    case Completes::kFile:
      return "_files";
    case Completes::kCaptureFile:
      return "_files -g \"*.profd\"";
    case Completes::kCapture:
      return "_profctl_captures";
    case Completes::kPid:
    case Completes::kSchedule:
    case Completes::kContext:
      return StrCat("_profctl_live ", CandidatesOf(completes), choices.empty() ? "" : " ",
                    Joined(choices));
    case Completes::kChoice:
      return StrCat("(", Joined(choices), ")");
    case Completes::kCommand:
      return StrCat("(", CommandNames(), ")");
    case Completes::kProgram:
      return "_normal";
  }
  return " ";
}

std::string ZshFlag(const Flag& flag) {
  const std::string description = StrCat("[", ZshEscaped(HelpWithActions(flag)), "]");
  std::string value;
  if (!flag.value_name.empty() && !flag.value_is_optional) {
    value = StrCat(":", ZshEscaped(flag.value_name), ":", ZshAction(flag.completes, flag.choices));
  }
  const std::string star = flag.repeated ? "*" : "";
  const std::string equals = flag.value_name.empty() || flag.value_is_optional ? "" : "=";
  std::string text = StrCat("'", star, "--", flag.name, equals, description, value, "'");
  if (flag.letter != 0) {
    StrAppend(&text, " \\\n        '", star, "-", std::string(1, flag.letter), description, value,
              "'");
  }
  return text;
}

std::string ZshCommand(const Command& command) {
  std::string text = StrCat("    ", command.name, ")\n      _arguments");
  for (const Flag& flag : AllFlags(command)) StrAppend(&text, " \\\n        ", ZshFlag(flag));
  if (command.max_arguments > 0) {
    StrAppend(&text, " \\\n        '", command.max_arguments > 1 ? "*" : "1",
              ": :", ZshAction(command.completes, command.choices), "'");
  }
  return StrCat(text, "\n      ;;\n");
}

constexpr std::string_view kZshFunctions =
    R"SH(# Sets `found` to what a daemon lists, as far as these are plain words.
_profctl_find() {
  found=(${(f)"$(_call_program $1 profctl __candidates $1 2>/dev/null)"})
  found=(${${found:#-*}:#*[^A-Za-z0-9._-]*})
}

_profctl_captures() {
  local -a found
  _profctl_find ids
  _alternative 'captures:capture:compadd -a found' 'files:capture file:_files -g "*.profd"'
}

_profctl_live() {
  local -a found
  _profctl_find $1
  found+=(${@:2})
  compadd -a found
}

_profctl() {
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \
    '--address=[The daemon to talk to]:ADDRESS: ' \
    '1: :->command' \
    '*:: :->arguments'
  if [[ $state == command ]]; then
    local -a commands
    commands=(
)SH";

// ---- fish ----

std::string FishQuoted(std::string_view text) {
  return StrCat("'", Replaced(Replaced(text, '\\', "\\\\"), '\'', "\\'"), "'");
}

std::string FishOffer(Completes completes, const std::vector<std::string_view>& choices) {
  constexpr std::string_view kCaptureFiles = "(__fish_complete_suffix .profd)";
  switch (completes) {
    case Completes::kNothing:
      return "";
    case Completes::kFile:
      return " -F";
    case Completes::kCaptureFile:
      return StrCat(" -k -a '", kCaptureFiles, "'");
    case Completes::kCapture:
      return " -k -a '(__profctl_live ids; __fish_complete_suffix .profd)'";
    case Completes::kPid:
    case Completes::kSchedule:
    case Completes::kContext:
      return StrCat(" -a '", Joined(choices), " (__profctl_live ", CandidatesOf(completes), ")'");
    case Completes::kChoice:
      return StrCat(" -a '", Joined(choices), "'");
    case Completes::kCommand:
      return StrCat(" -a '", CommandNames(), "'");
    case Completes::kProgram:
      return " -F -a '(__fish_complete_command)'";
  }
  return "";
}

constexpr std::string_view kFishFunctions =
    R"SH(# What a daemon lists, as far as these are plain words.
function __profctl_live
    profctl __candidates $argv[1] 2>/dev/null | string match -r '^[A-Za-z0-9._][A-Za-z0-9._-]*$'
end

)SH";

std::string FishCommand(const Command& command) {
  const std::string when = StrCat("-n '__fish_seen_subcommand_from ", command.name, "'");
  std::string text;
  for (const Flag& flag : AllFlags(command)) {
    StrAppend(&text, "complete -c profctl ", when, " -l ", flag.name);
    if (flag.letter != 0) StrAppend(&text, " -s ", std::string(1, flag.letter));
    if (!flag.value_name.empty() && !flag.value_is_optional) {
      StrAppend(&text, " -r", FishOffer(flag.completes, flag.choices));
    }
    StrAppend(&text, " -d ", FishQuoted(HelpWithActions(flag)), "\n");
  }
  if (command.max_arguments > 0) {
    StrAppend(&text, "complete -c profctl ", when, FishOffer(command.completes, command.choices),
              "\n");
  }
  return text;
}

}  // namespace

std::string BashCompletion() {
  std::string text =
      StrCat("# Completion of profctl for bash, made by `profctl completion bash`.\n\n",
             kBashFunctions, kBashStart, "    _profctl_offer ", CommandNames(),
             " --address --help --version\n    return\n  fi\n  case \"$command $previous\" in\n");
  for (const Command* command : ListedCommands()) StrAppend(&text, BashFlagCases(*command));
  StrAppend(&text, "  esac\n  case $command in\n");
  for (const Command* command : ListedCommands()) {
    std::string flags;
    for (const Flag& flag : AllFlags(*command)) {
      StrAppend(&flags, flags.empty() ? "--" : " --", flag.name);
      if (flag.letter != 0) StrAppend(&flags, " -", std::string(1, flag.letter));
    }
    StrAppend(&text, "    ", command->name, ") flags=(", flags, ") ;;\n");
  }
  StrAppend(&text, "  esac\n  if [[ $current == -* ]]; then\n    _profctl_offer \"${flags[@]}\"\n",
            "    return\n  fi\n  case $command in\n");
  for (const Command* command : ListedCommands()) {
    if (command->max_arguments == 0) continue;
    StrAppend(&text, "    ", command->name, ") ", BashOffer(command->completes, command->choices),
              " ;;\n");
  }
  StrAppend(&text, "  esac\n}\n\ncomplete -F _profctl profctl\n");
  return text;
}

std::string ZshCompletion() {
  std::string text =
      StrCat("#compdef profctl\n# Completion of profctl for zsh, made by `profctl completion zsh`.",
             "\n\n", kZshFunctions);
  for (const Command* command : ListedCommands()) {
    StrAppend(&text, "      '", command->name, ":", ZshEscaped(command->summary), "'\n");
  }
  StrAppend(&text, "    )\n    _describe -t commands 'command' commands\n    return\n  fi\n",
            "  case $line[1] in\n");
  for (const Command* command : ListedCommands()) StrAppend(&text, ZshCommand(*command));
  StrAppend(&text, "  esac\n}\n\n",
            "# Sourced it registers itself; found on fpath it is called as the function.\n",
            "if [[ $funcstack[1] == _profctl ]]; then\n  _profctl \"$@\"\nelse\n",
            "  compdef _profctl profctl\nfi\n");
  return text;
}

std::string FishCompletion() {
  std::string text =
      StrCat("# Completion of profctl for fish, made by `profctl completion fish`.\n\n",
             kFishFunctions, "complete -c profctl -f\n",
             "complete -c profctl -n __fish_use_subcommand -l address -r -d 'The daemon to talk "
             "to'\n",
             "complete -c profctl -n __fish_use_subcommand -l help -s h -d 'List the commands'\n",
             "complete -c profctl -n __fish_use_subcommand -l version -d 'Show the versions'\n");
  for (const Command* command : ListedCommands()) {
    StrAppend(&text, "complete -c profctl -n __fish_use_subcommand -a ", command->name, " -d ",
              FishQuoted(command->summary), "\n");
  }
  for (const Command* command : ListedCommands()) {
    StrAppend(&text, "\n", FishCommand(*command));
  }
  return text;
}

}  // namespace profd::cli
