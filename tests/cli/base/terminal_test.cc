// What profctl does differently on a terminal.
#include "cli/base/style.h"
#include "daemon/report/gpu/kernel_table.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TerminalTest : public CliTest {
 protected:
  TerminalTest() {
    profd_.targets = {ATarget(4711)};
    profd_.targets[0].set_command("python3 " + std::string(500, 'x'));
    profd_.captures[TestId(1)] = ACapture(TestId(1));
    report::KernelTable kernels = {.kernel_count = 5, .total_ns = 40'000'000};
    kernels.rows = {
        {.display_name = "a/very/long/kernel/name/" + std::string(300, 'm') + "層正規化",
         .count = 5,
         .total_ns = 40'000'000}};
    profd_.Set(report::ToReport(kernels));
  }
  static std::string WithoutColours(const std::string& text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\033') {
        while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
      } else if (text[i] != '\r') {
        out.push_back(text[i]);
      }
    }
    return out;
  }
};

TEST_F(TerminalTest, TablesFitWhateverItsWidth) {
  for (const int columns : {60, 80, 133, 250}) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"ps"}, {"kernels", "01J"}, {"show", "01J"}, {"captures"}}) {
      const RunResult result = RunOnTerminal(arguments, environment(), columns);
      EXPECT_EQ(result.exit_code, 0) << result.out;
      std::istringstream lines(WithoutColours(result.out));
      for (std::string line; std::getline(lines, line);) {
        // Sentences wrap; rows of tables do not.
        if (line.starts_with("Capture ") || line.starts_with("Quality ")) continue;
        EXPECT_LE(DisplayWidth(line), static_cast<size_t>(columns)) << line;
      }
    }
  }
}

TEST_F(TerminalTest, NamesAreCutThereAndNowhereElse) {
  EXPECT_THAT(RunOnTerminal({"kernels", "01J"}, environment(), 100).out, HasSubstr("…"));
  EXPECT_THAT(RunOnTerminal({"kernels", "01J", "--json"}, environment(), 100).out,
              HasSubstr("層正規化"));
  EXPECT_THAT(Run({"kernels", "01J"}).out, HasSubstr("層正規化"));
}

TEST_F(TerminalTest, ColoursComeUnlessTheyAreNotWanted) {
  EXPECT_THAT(RunOnTerminal({"kernels", "01J"}, environment(), 100).out, HasSubstr("\033[1m"));
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"NO_COLOR", "1"}, {"TERM", "dumb"}}) {
    Environment plain = environment();
    plain[name] = value;
    EXPECT_THAT(RunOnTerminal({"kernels", "01J"}, plain, 100).out, Not(HasSubstr("\033["))) << name;
  }
}

TEST_F(TerminalTest, ATerminalWithoutAWidthTakesItFromColumns) {
  Environment narrow = environment();
  narrow["COLUMNS"] = "60";
  narrow["NO_COLOR"] = "1";
  std::istringstream lines(WithoutColours(RunOnTerminal({"ps"}, narrow, 0).out));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(DisplayWidth(line), 60);
}

TEST_F(TerminalTest, TopHasTheWholeTerminalAndGivesItBack) {
  const RunResult result =
      RunOnTerminal({"top", "--every=100ms"}, environment(), 100, {.after = "4711", .text = "q"});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  const size_t enter = result.out.find("\033[?1049h");
  const size_t shown = result.out.find("1 target");
  const size_t leave = result.out.find("\033[?1049l");
  ASSERT_NE(enter, std::string::npos);
  ASSERT_NE(shown, std::string::npos);
  ASSERT_NE(leave, std::string::npos);
  EXPECT_LT(enter, shown);
  EXPECT_LT(shown, leave);
}

TEST_F(TerminalTest, TopEndsWithItsDaemonAndGivesTheTerminalBack) {
  profd_.Kill();
  const RunResult result = RunOnTerminal({"top"}, environment(), 100);
  EXPECT_EQ(result.exit_code, 6) << result.out;
  EXPECT_THAT(result.out, HasSubstr("\033[?1049l"));
}

TEST_F(TerminalTest, TopWithoutATerminalSaysWhatToUse) {
  const RunResult result = Run({"top"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--json or `profctl ps`"));
}

TEST_F(TerminalTest, TraceShowsWhereItIsAndLeavesNoTraceOfIt) {
  const RunResult result = RunOnTerminal({"trace", "--steps", "5"}, environment(), 100);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\r\033[Karming"));
  EXPECT_THAT(result.out, HasSubstr("\r\033[Krecording step 1/5"));
  EXPECT_THAT(result.out, HasSubstr("\r\033[K\033[1mCapture "));
}

TEST_F(TerminalTest, BytesThatAreNoTextAreNotWrittenToIt) {
  const RunResult result =
      RunOnTerminal({"export", "01J", "--format", "perfetto", "-o", "-"}, environment(), 80);
  EXPECT_EQ(result.exit_code, 2);
}

}  // namespace
}  // namespace profd::cli
