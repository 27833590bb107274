// open: the server of one file, the browser, and the command.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/time/clock.h"
#include "cli/captures/scratch_folder.h"
#include "cli/commands/browser.h"
#include "cli/commands/trace_server.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/unique_fd.h"
#include "tests/cli/cli_fixture.h"
#include "tests/fakes/http_client.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The whole answer, headers and all.
std::string AskFor(int port, std::string_view method, std::string_view path,
                   std::string_view host = "127.0.0.1:9001") {
  return Ask(static_cast<uint16_t>(port), StrCat(method, " ", path, " HTTP/1.1\r\nHost: ", host,
                                                 "\r\nConnection: close\r\n\r\n"));
}

class TraceServerTest : public ::testing::Test {
 protected:
  TraceServerTest() {
    std::ofstream(folder_ / "t.pftrace") << text_;
    auto server = TraceServer::Start(folder_ / "t.pftrace", "a b/<c>.pftrace", 0);
    EXPECT_THAT(server, IsOk());
    if (server.ok()) server_ = *std::move(server);
  }
  std::string Get(const std::string& path) { return AskFor(server_->port(), "GET", path); }
  bool WasServed() { return server_->WaitUntilServed(absl::ZeroDuration()) && server_->served(); }

  const std::string text_ = std::string(300'000, 'x') + "end";
  store::TemporaryFolder folder_;
  std::unique_ptr<TraceServer> server_;
};

TEST_F(TraceServerTest, GivesTheFileOnceToThePerfettoPage) {
  const std::string answer = Get(server_->url_path());
  EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 200"),
                            HasSubstr("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"),
                            HasSubstr("Cache-Control: no-store\r\n"), EndsWith(text_)));
  EXPECT_TRUE(server_->WaitUntilServed(absl::Seconds(60)));
  EXPECT_TRUE(server_->served());
}

TEST_F(TraceServerTest, ItsPathCannotBeGuessedAndHasNothingToQuote) {
  EXPECT_THAT(server_->url_path(), testing::MatchesRegex("/[0-9a-f]{32}/a_b__c_.pftrace"));
  const auto other = TraceServer::Start(folder_ / "t.pftrace", "x", 0);
  ASSERT_THAT(other, IsOk());
  EXPECT_NE((*other)->url_path().substr(0, 33), server_->url_path().substr(0, 33));
}

TEST_F(TraceServerTest, WhatElseIsAskedForGetsNothingAndEndsNothing) {
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/t.pftrace"), StartsWith("HTTP/1.1 404"));
  const int port = server_->port();
  EXPECT_THAT(AskFor(port, "POST", server_->url_path()), StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(AskFor(port, "HEAD", server_->url_path()),
              AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("end"))));
  // What a browser asks before a public page may fetch from here.
  EXPECT_THAT(AskFor(port, "OPTIONS", server_->url_path()),
              AllOf(StartsWith("HTTP/1.1 204"),
                    HasSubstr("Access-Control-Allow-Private-Network: true\r\n")));
  EXPECT_FALSE(WasServed());
}

TEST_F(TraceServerTest, RequestsThatNameAnotherHostAreRefused) {
  const int port = server_->port();
  EXPECT_THAT(AskFor(port, "GET", server_->url_path(), "evil.example:9001"),
              AllOf(StartsWith("HTTP/1.1 403"), Not(HasSubstr("xxx"))));
  EXPECT_FALSE(WasServed());
  EXPECT_THAT(AskFor(port, "GET", server_->url_path(), "localhost:12345"),
              StartsWith("HTTP/1.1 200"));
}

TEST_F(TraceServerTest, APortInUseIsAnErrorOfItsOwn) {
  EXPECT_THAT(TraceServer::Start(folder_ / "t.pftrace", "x", server_->port()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("in use")));
  EXPECT_THAT(TraceServer::Start(folder_ / "none", "x", 0),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
}

TEST_F(TraceServerTest, ConnectionsOfOthersDoNotKeepThePageOut) {
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(ConnectTo(static_cast<uint16_t>(server_->port())));
    ASSERT_TRUE(idle.back().valid());
    // Half of them have begun a request.
    if (i % 2 == 0) {
      ASSERT_EQ(write(idle.back().get(), "GET / HTTP", 10), 10);
    }
  }
  EXPECT_THAT(Get(server_->url_path()), AllOf(StartsWith("HTTP/1.1 200"), EndsWith(text_)));
  EXPECT_TRUE(server_->WaitUntilServed(absl::Seconds(60)));
}

TEST_F(TraceServerTest, TheOldestOfMoreThanSixteenIsClosedBeforeItsTimeIsOver) {
  const absl::Time start = absl::Now();
  std::vector<UniqueFd> idle(17);
  for (UniqueFd& each : idle) each = ConnectTo(static_cast<uint16_t>(server_->port()));
  char byte = 0;
  EXPECT_EQ(read(idle.front().get(), &byte, 1), 0);
  EXPECT_LT(absl::Now() - start, HttpServer::kRequestTime);
}

TEST_F(TraceServerTest, ASilentConnectionIsClosed) {
  const UniqueFd idle = ConnectTo(static_cast<uint16_t>(server_->port()));
  char byte = 0;
  EXPECT_EQ(read(idle.get(), &byte, 1), 0);  // Waits for the end.
  EXPECT_FALSE(WasServed());
}

// As over a slow link. The file is larger than all buffers between the server and its reader.
TEST_F(TraceServerTest, AReaderOfTheFileMayPauseAndOneThatGoesAwayEndsNothing) {
  constexpr size_t kBytes = size_t{64} << 20;
  std::filesystem::resize_file(folder_ / "t.pftrace", kBytes);
  auto server = TraceServer::Start(folder_ / "t.pftrace", "x", 0);
  ASSERT_THAT(server, IsOk());
  const auto ask = [&server] {
    UniqueFd reader = ConnectTo(static_cast<uint16_t>((*server)->port()));
    Send(reader.get(),
         StrCat("GET ", (*server)->url_path(), " HTTP/1.1\r\nHost: 127.0.0.1:9001\r\n\r\n"));
    char byte = 0;
    EXPECT_EQ(read(reader.get(), &byte, 1), 1);
    return reader;
  };
  ask();
  const UniqueFd slow = ask();
  absl::SleepFor(HttpServer::kRequestTime + absl::Milliseconds(500));
  EXPECT_FALSE((*server)->WaitUntilServed(absl::ZeroDuration()));
  const std::string rest = ReadAll(slow.get());
  EXPECT_EQ(rest.size() - rest.find("\r\n\r\n") - 4, kBytes);
  EXPECT_TRUE((*server)->WaitUntilServed(absl::Seconds(60)));
  EXPECT_TRUE((*server)->served());
}

TEST_F(TraceServerTest, StopEndsTheWait) {
  server_->Stop();
  EXPECT_TRUE(server_->WaitUntilServed(absl::InfiniteDuration()));
  EXPECT_FALSE(server_->served());
}

GetEnvironment Variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(BrowserTest, IsTheUsersOrTheDesktopsAndNoneInAnSshSession) {
  const auto words = [](const std::map<std::string, std::string>& values) {
    return BrowserCommand("URL", Variables(values)).value_or(std::vector<std::string>());
  };
  EXPECT_THAT(words({}), ElementsAre());
  EXPECT_THAT(words({{"DISPLAY", ":0"}}), ElementsAre("xdg-open", "URL"));
  EXPECT_THAT(words({{"WAYLAND_DISPLAY", "w"}}), ElementsAre("xdg-open", "URL"));
  EXPECT_THAT(words({{"BROWSER", "firefox:lynx"}}), ElementsAre("firefox", "URL"));
  EXPECT_THAT(words({{"BROWSER", "open  -u=%s -x"}}), ElementsAre("open", "-u=URL", "-x"));
  EXPECT_THAT(words({{"BROWSER", ""}, {"DISPLAY", ""}}), ElementsAre());
  for (const std::string name : {"SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"}) {
    EXPECT_THAT(words({{"BROWSER", "firefox"}, {"DISPLAY", ":0"}, {name, "x"}}), ElementsAre());
  }
}

TEST(BrowserTest, GetsASecretLinkFromAPrivatePageAndNotAsAnArgument) {
  const auto folder = ScratchFolder::MakeTemporary();
  ASSERT_THAT(folder, IsOk());
  const auto page =
      WriteRedirectPage((*folder)->path(), "https://x/#!/?url=http://y/secret&a=\"b\"");
  ASSERT_THAT(page, IsOk());
  EXPECT_THAT(*page, AllOf(StartsWith("file:///"), Not(HasSubstr("secret"))));
  const std::filesystem::path path = (*folder)->path() / "open.html";
  EXPECT_THAT(ReadFile(path),
              HasSubstr("0;url=https://x/#!/?url=http://y/secret&amp;a=&quot;b&quot;\""));
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(WriteRedirectPage((*folder)->path(), "again").ok());  // Never over a file.
}

// profctl, whose output is read while it runs.
class OpenTest : public CliTest {
 protected:
  OpenTest() { std::ofstream(Path("t.json")) << R"({"traceEvents":[]})"; }
  // Runs `before` and then `profctl open ARGUMENTS`, by the shell.
  void Start(const std::string& arguments, const std::string& before = "") {
    const char* const build = getenv("PROFD_BUILD_DIR");
    ASSERT_NE(build, nullptr);
    const std::string command =
        StrCat("unset SSH_CONNECTION SSH_CLIENT SSH_TTY BROWSER DISPLAY WAYLAND_DISPLAY; ", before,
               " exec ", build, "/bin/profctl open ", arguments, " 2>", Path("err"));
    out_ = popen(command.c_str(), "re");
    ASSERT_NE(out_, nullptr);
  }
  nlohmann::json ReadLine() {
    char line[4096] = "";
    EXPECT_NE(fgets(line, sizeof line, out_), nullptr) << ReadFile(Path("err"));
    return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  }
  int ExitCode() {
    const int status = pclose(out_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  FILE* out_ = nullptr;
};

TEST_F(OpenTest, ServesATraceFileOnceAndEnds) {
  Start(StrCat(Path("t.json"), " --port 0 --json"));
  const nlohmann::json shown = ReadLine();
  EXPECT_EQ(shown["url"], StrCat("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001",
                                 shown["path"].get<std::string>(), "&referrer=profctl"));
  EXPECT_EQ(shown["ssh_session"], false);
  EXPECT_THAT(AskFor(shown["port"], "GET", shown["path"].get<std::string>()),
              EndsWith(R"({"traceEvents":[]})"));
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(ReadFile(Path("err")), HasSubstr("The page fetches from port 9001 only"));
}

TEST_F(OpenTest, InAnSshSessionItSaysHowToForwardThePortAndStartsNoBrowser) {
  Start(StrCat(Path("t.json"), " --port 0 --json"),
        StrCat("export SSH_CONNECTION=x BROWSER='touch ", Path("started"), "';"));
  const nlohmann::json shown = ReadLine();
  EXPECT_EQ(shown["ssh_session"], true);
  EXPECT_EQ(shown["browser_started"], false);
  AskFor(shown["port"], "GET", shown["path"].get<std::string>());
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_THAT(ReadFile(Path("err")),
              HasSubstr(StrCat("ssh -L 9001:127.0.0.1:", shown["port"].get<int>(), " HOST")));
  EXPECT_FALSE(std::filesystem::exists(Path("started")));
}

TEST_F(OpenTest, APortInUseSaysWhatToDo) {
  const auto other = TraceServer::Start(Path("t.json"), "x", 0);
  ASSERT_THAT(other, IsOk());
  const RunResult result =
      Run({"open", Path("t.json"), "--no-browser", "--port", StrCat((*other)->port())});
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, AllOf(HasSubstr("in use"), HasSubstr("--port")));
  EXPECT_EQ(result.out, "");
}

TEST_F(OpenTest, GivesUpAfterItsTimeoutAndOnCtrlC) {
  const RunResult late = Run({"open", Path("t.json"), "--port", "0", "--timeout", "1ms"});
  EXPECT_EQ(late.exit_code, 1);
  EXPECT_THAT(late.err, HasSubstr("the trace was not fetched within 1ms"));
  // The shell starts it behind the test's back: it says itself who it is.
  Start(StrCat(Path("t.json"), " --port 0 --json"), StrCat("echo $$ >", Path("pid"), ";"));
  ReadLine();
  ASSERT_EQ(kill(std::stoi(ReadFile(Path("pid"))), SIGINT), 0);
  EXPECT_EQ(ExitCode(), 130);
}

TEST_F(OpenTest, WrongUseIsTold) {
  EXPECT_EQ(Run({"open"}).exit_code, 2);
  EXPECT_EQ(Run({"open", Path("t.json"), "--port", "70000"}).exit_code, 2);
  EXPECT_EQ(Run({"open", Path("t.json"), "--timeout", "soon"}).exit_code, 2);
  EXPECT_NE(Run({"open", Path("none.json")}).exit_code, 0);
}

}  // namespace
}  // namespace profd::cli
