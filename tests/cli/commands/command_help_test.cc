// What is made from the command table: help, completion scripts, the man page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "cli/commands/command.h"
#include "cli/commands/help_text.h"
#include "daemon/base/str_cat.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<Command> ListedCommands() {
  std::vector<Command> listed;
  for (const Command& command : Commands()) {
    if (!command.hidden) listed.push_back(command);
  }
  return listed;
}

TEST(CommandTableTest, EveryRowIsWhole) {
  std::set<std::string_view> names;
  for (const Command& command : Commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name;
    EXPECT_NE(command.run, nullptr) << command.name;
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_FALSE(command.summary.ends_with('.')) << command.name;
    EXPECT_EQ(command.arguments.empty(), command.max_arguments == 0) << command.name;
    std::set<std::string_view> flags;
    std::set<char> letters;
    for (const Flag& flag : AllFlags(command)) {
      EXPECT_TRUE(flags.insert(flag.name).second) << command.name << " --" << flag.name;
      EXPECT_TRUE(flag.letter == 0 || letters.insert(flag.letter).second) << flag.letter;
      EXPECT_FALSE(flag.help.empty() || flag.help.ends_with('.')) << flag.name;
    }
  }
}

TEST(CommandTableTest, TheCommandsOfTheContractAreThere) {
  for (const std::string_view name :
       {"ps",      "trace",  "captures", "show",   "ops",    "steps",   "memory",
        "kernels", "copies", "syncs",    "idle",   "time",   "compile", "report",
        "modules", "export", "fetch",    "cancel", "delete", "node",    "version"}) {
    const Command* command = FindCommand(name);
    ASSERT_NE(command, nullptr) << name;
    bool json = false;
    for (const Flag& flag : AllFlags(*command)) json = json || flag.name == "json";
    EXPECT_TRUE(json) << name;
  }
}

TEST(HelpTest, EveryFlagIsExplainedWithinEightyColumns) {
  for (const Command& command : ListedCommands()) {
    EXPECT_THAT(OverviewHelp(), HasSubstr(std::string(command.summary)));
    const std::string help = CommandHelp(command, HelpDetail::kAllFlags);
    for (const Flag& flag : AllFlags(command)) {
      EXPECT_THAT(help, HasSubstr(StrCat("--", flag.name))) << command.name;
    }
    size_t start = 0;
    for (size_t end = 0; (end = help.find('\n', start)) != std::string::npos; start = end + 1) {
      EXPECT_LE(end - start, 82U) << help.substr(start, end - start);
    }
  }
}

TEST(HelpTest, ConnectionFlagsAreOneLineUntilAllAreAskedFor) {
  const Command& ops = *FindCommand("ops");
  const std::string own = CommandHelp(ops, HelpDetail::kOwnFlags);
  EXPECT_THAT(own, HasSubstr("--group-by"));
  EXPECT_THAT(
      own, HasSubstr("Connection flags: --address, --context, --nodes, --job, --node-timeout.\n"));
  EXPECT_THAT(own, Not(HasSubstr("PROFD_ADDRESS")));
  EXPECT_THAT(own, HasSubstr("GROUP  the captures of one job"));
  EXPECT_THAT(CommandHelp(ops, HelpDetail::kAllFlags), HasSubstr("PROFD_ADDRESS"));
  // Of a command that asks no daemon there is nothing to add.
  EXPECT_THAT(CommandHelp(*FindCommand("explain"), HelpDetail::kOwnFlags),
              Not(HasSubstr("Connection flags")));
}

TEST(HelpTest, RareFlagsAreNamedUntilAllAreAskedFor) {
  const Command& trace = *FindCommand("trace");
  const std::string own = CommandHelp(trace, HelpDetail::kOwnFlags);
  EXPECT_LE(std::ranges::count(own, '\n'), 80);
  EXPECT_THAT(own, HasSubstr("More flags: --quorum, --lead, "));
  EXPECT_THAT(own, Not(HasSubstr("must be ready")));
  EXPECT_THAT(CommandHelp(trace, HelpDetail::kAllFlags), HasSubstr("must be ready"));
}

TEST(HelpTest, AnActionHasItsOwnFlags) {
  const Command& schedule = *FindCommand("schedule");
  const std::string all = CommandHelp(schedule, HelpDetail::kOwnFlags);
  EXPECT_THAT(all, HasSubstr("Flags of create: --every, --cron, "));
  EXPECT_THAT(all, HasSubstr("Flags of apply, diff: --file."));
  EXPECT_THAT(all, Not(HasSubstr("A window every so often")));
  const std::string create = CommandHelp(schedule, HelpDetail::kOwnFlags, "create");
  EXPECT_THAT(create, HasSubstr("A window every so often"));
  EXPECT_THAT(create, Not(HasSubstr("--file")));
  const std::string apply = CommandHelp(schedule, HelpDetail::kOwnFlags, "apply");
  EXPECT_THAT(apply, HasSubstr("JSON file that declares"));
  EXPECT_THAT(apply, Not(HasSubstr("--jitter")));
  EXPECT_FALSE(HasAction(schedule, "gpu[001-128]"));
}

TEST(GeneratedTextTest, NamesEveryCommandAndFlag) {
  const std::string page = ManPage();
  const std::string bash = BashCompletion();
  const std::string zsh = ZshCompletion();
  const std::string fish = FishCompletion();
  for (const Command& command : ListedCommands()) {
    EXPECT_THAT(page, HasSubstr(StrCat(".SS profctl ", command.name)));
    for (const Flag& flag : command.flags) {
      std::string escaped = StrCat("\\-\\-", flag.name);
      for (size_t at = 4; (at = escaped.find('-', at)) != std::string::npos; at += 2) {
        escaped.insert(at, "\\");
      }
      EXPECT_THAT(page, HasSubstr(escaped));
      EXPECT_THAT(bash, HasSubstr(StrCat("--", flag.name)));
      EXPECT_THAT(zsh, HasSubstr(StrCat("--", flag.name)));
      EXPECT_THAT(fish, HasSubstr(StrCat("-l ", flag.name)));
    }
  }
}

// Whether the shell `name` can read `script`.
void ExpectReadable(const std::string& name, const std::string& script) {
  if (std::system((name + " -c true >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << name << " is not installed";
  }
  const store::TemporaryFolder folder;
  const std::string path = (folder / "script").string();
  std::ofstream(path) << script;
  EXPECT_EQ(std::system((name + " -n '" + path + "'").c_str()), 0);
}

TEST(CompletionTest, BashReadsItsScript) { ExpectReadable("bash", BashCompletion()); }
TEST(CompletionTest, ZshReadsItsScript) { ExpectReadable("zsh", ZshCompletion()); }
TEST(CompletionTest, FishReadsItsScript) { ExpectReadable("fish", FishCompletion()); }

// What bash prints of `calls`, after its completion script and `offer WORD...`, which prints what
// is offered for the last word. It runs in `folder`.
std::string AskBash(const store::TemporaryFolder& folder, const std::string& calls) {
  std::ofstream((folder / "script").string()) << BashCompletion() << R"SH(
offer() {
  local words=("$@")
  COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMPREPLY=()
  _profctl profctl
  printf '%s ' "${COMPREPLY[@]}"
  echo
}
)SH" << calls;
  const std::string command = StrCat("cd '", folder.path().string(), "' && bash -u script > out");
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream out((folder / "out").string());
  return {(std::istreambuf_iterator<char>(out)), {}};
}

TEST(CompletionTest, BashOffersCommandsFlagsAndChoices) {
  const store::TemporaryFolder folder;
  const std::string text = AskBash(folder, R"SH(
offer profctl tra
offer profctl --address unix:x tra
offer profctl trace --ste
offer profctl ops 01J --sort flops_
offer profctl ops 01J --sort = flops_
offer profctl help ver
offer profctl trace --gpu li
offer profctl run --socket
offer profctl run /bin/fals
profctl() { [[ $1 == __candidates ]] && echo "$2-1"; }
offer profctl trace --pid pid
offer profctl ps --context c
offer profctl history --schedule s
offer profctl schedule pause sch
offer profctl schedule pa
)SH");
  EXPECT_EQ(text,
            "trace \ntrace \n--steps --step-marker --step-source \nflops_per_s \nflops_per_s "
            "\nversion \nlight \n"
            "--socket-dir \n/bin/false \n"
            "pids-1 \ncontexts-1 \nschedules-1 \nschedules-1 \npause \n");
}

TEST(CompletionTest, BashNeverExpandsWhatADaemonSends) {
  const store::TemporaryFolder folder;
  const std::string text = AskBash(folder, R"SH(
profctl() {
  printf '%s\n' '$(touch made)' '`touch made`' '<(touch made)' 'a;touch made' "'a'" '"a"' 'a b' \
    '--output' '~' '*' '{a,b}' $'a\tb' $'a\e[2J' $'a\u202eb' '$HOME' '' "$2-1"
}
offer profctl trace --pid ''
offer profctl ps --context ''
offer profctl history --schedule ''
offer profctl show ''
offer profctl show '$(touch made)'
)SH");
  // Files come first.
  EXPECT_EQ(text, "pids-1 \ncontexts-1 \nschedules-1 \nids-1 \n \n");
  EXPECT_FALSE(std::filesystem::exists(folder / "made"));
}

}  // namespace
}  // namespace profd::cli
