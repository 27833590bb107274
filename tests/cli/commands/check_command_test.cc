// check: exit codes, output, and that nothing of a file reaches the terminal raw.
#include "daemon/base/str_cat.h"
#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class CheckCommandTest : public CliTest {
 protected:
  CheckCommandTest() {
    Write("good.json", Slice(0, 5));
    Write("bad.json", Slice(0, -5));
  }
  static std::string Slice(int ts, int dur) {
    return StrCat(R"({"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\u001b","pid":1,"tid":2,)",
                  R"("ts":)", ts, ",\"dur\":", dur, "}]}");
  }
  void Write(const std::string& name, const std::string& text) {
    std::string clean = text;
    if (name == "good.json") clean.erase(clean.find("\\u001b"), 6);
    std::ofstream(Path(name)) << clean;
  }
};

TEST_F(CheckCommandTest, ExitsByWhatItFound) {
  const RunResult good = Run({"check", Path("good.json")});
  EXPECT_EQ(good.exit_code, 0) << good.out;
  EXPECT_THAT(good.out, HasSubstr("1 event, 85 B: clean"));
  const RunResult bad = Run({"check", Path("good.json"), Path("bad.json")});
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("error event-duration, once"), HasSubstr("Remedy:"),
                             HasSubstr("1 error, 1 warning")));
  EXPECT_EQ(bad.err, "");
}

TEST_F(CheckCommandTest, AFileThatIsNoTraceIsAnErrorAndTheOthersAreChecked) {
  Write("none.json", "hello");
  const RunResult result =
      Run({"check", Path("none.json"), Path("missing.json"), folder_.path(), Path("bad.json")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("neither a Chrome trace"), HasSubstr("No such file"),
                                HasSubstr("Is a directory")));
  EXPECT_THAT(result.err, HasSubstr(StrCat("profctl: ", Path("none.json"), ": this is neither")));
  EXPECT_THAT(result.out, HasSubstr("event-duration"));
}

TEST_F(CheckCommandTest, JsonHasEveryFile) {
  Write("none.json", "hello");
  const auto all = RunJson({"check", Path("good.json"), Path("bad.json"), Path("none.json")}, 1);
  ASSERT_THAT(all["files"], SizeIs(3));
  EXPECT_EQ(all["clean"], false);
  EXPECT_EQ(all["files"][0]["clean"], true);
  EXPECT_EQ(all["files"][0]["kind"], "chrome");
  EXPECT_EQ(all["files"][1]["findings"][0]["rule"], "event-duration");
  EXPECT_EQ(all["files"][1]["findings"][0]["severity"], "error");
  EXPECT_EQ(all["files"][1]["findings"][0]["count"], 1);
  EXPECT_THAT(all["files"][2]["error"].get<std::string>(), HasSubstr("neither"));
  EXPECT_EQ(RunJson({"check", Path("good.json")})["clean"], true);
}

TEST_F(CheckCommandTest, NothingOfAFileReachesTheTerminalRaw) {
  const RunResult result = RunOnTerminal({"check", Path("bad.json")}, {{"TERM", "dumb"}}, 80);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, Not(HasSubstr("a\x1b")));
}

TEST_F(CheckCommandTest, WrongUseIsTold) {
  EXPECT_EQ(Run({"check"}).exit_code, 2);
  EXPECT_EQ(Run({"check", "--nonsense", Path("good.json")}).exit_code, 2);
}

}  // namespace
}  // namespace profd::cli
