#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/config.h"
#include "daemon/base/csv.h"
#include "daemon/base/host_port.h"
#include "daemon/base/log.h"
#include "daemon/base/passed_files.h"
#include "daemon/base/standard_files.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/text_file.h"
#include "daemon/base/ulid.h"
#include "daemon/base/unique_fd.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

// ---- text ----

TEST(TextTest, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(ToValidUtf8("a\xff"
                        "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(ToValidUtf8("\xC3\xA9"), "\xC3\xA9");
  EXPECT_FALSE(IsValidUtf8("\xC0\x80")) << "overlong";
  EXPECT_FALSE(IsValidUtf8("\xED\xA0\x80")) << "surrogate";
  EXPECT_FALSE(IsValidUtf8("\xF4\x90\x80\x80")) << "beyond U+10FFFF";
  EXPECT_FALSE(IsValidUtf8("\xE2\x82")) << "cut short";
}

TEST(TextTest, EverythingComesOutValid) {
  std::string bytes;
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; b += 7) {
      bytes = {static_cast<char>(a), static_cast<char>(b), 'x'};
      EXPECT_TRUE(IsValidUtf8(ToValidUtf8(bytes)));
      EXPECT_TRUE(IsPrintableUtf8(ForDisplay(bytes, 100)));
    }
  }
}

TEST(TextTest, DisplayCutsAtACharacterAndSaysSo) {
  EXPECT_EQ(ForDisplay("abcdef", 6), "abcdef");
  EXPECT_EQ(ForDisplay("abcdefg", 6), "abc...");
  EXPECT_EQ(ForDisplay("ab\xC3\xA9"
                       "cdefgh",
                       6),
            "ab...");
  EXPECT_EQ(ForDisplay("a\x1b[31m\n", 100), "a?[31m?");
  EXPECT_EQ(ForDisplay("abc", 2), "");
}

TEST(TextTest, DisplayReplacesWhatReordersOrHidesText) {
  for (const char* const hidden :
       {"\u061C", "\u200B", "\u200E", "\u200F", "\u2028", "\u202A", "\u202E", "\u2060", "\u2066",
        "\u2069", "\uFEFF", "\U000E0001", "\U000E007F", "\u0085"}) {
    EXPECT_EQ(ForDisplay(std::string("a") + hidden + "b", 100), "a?b");
    EXPECT_FALSE(IsPrintableUtf8(hidden));
  }
  for (const char* const visible :
       {"\u00E9", "\u200C", "\u200D", "\u2027", "\u2030", "\U0001F600"}) {
    EXPECT_EQ(ForDisplay(visible, 100), visible);
  }
}

TEST(TextTest, JsonEscapesControlsQuotesAndBackslashes) {
  std::string out;
  AppendJsonEscaped("a\"b\\c\n\x01\x7f\u0080\u009F\u00A0", out);
  EXPECT_EQ(out, "a\\\"b\\\\c\\u000a\\u0001\\u007f\\u0080\\u009f\u00A0");
}

TEST(TextTest, JsonEscapesWhatReordersOrHidesText) {
  std::string out;
  AppendJsonEscaped("\u202Ea\u2066\u061C\u200B\u2028\uFEFF\U000E0041\u200D\U0001F600", out);
  EXPECT_EQ(out, "\\u202ea\\u2066\\u061c\\u200b\\u2028\\ufeff\\udb40\\udc41\u200D\U0001F600");
}

// ---- csv ----

TEST(CsvTest, CellsAreQuotedWhereNecessary) {
  EXPECT_EQ(CsvCell("aten::mm"), "aten::mm");
  EXPECT_EQ(CsvCell("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
}

TEST(CsvTest, NumbersAreTheShortestThatAreTheSame) {
  EXPECT_EQ(CsvNumber(36.4), "36.4");
  EXPECT_EQ(CsvNumber(3), "3");
  EXPECT_EQ(std::strtod(CsvNumber(1.0 / 3).c_str(), nullptr), 1.0 / 3);
}

TEST(CsvTest, CellsHaveNoTerminalControlsAndNoFormulas) {
  EXPECT_EQ(CsvCell("\x1b]0;OWNED\x07 \r\u009B\x7f\u00E9"),
            "\\u001b]0;OWNED\\u0007 \\u000d\\u009b\\u007f\u00E9");
  EXPECT_EQ(CsvCell("a\tb\u202Ec\u2066d"), "a\\u0009b\\u202ec\\u2066d");
  for (const char* const formula : {"=HYPERLINK(1)", "+1", "-1", "@SUM"}) {
    EXPECT_EQ(CsvCell(formula), std::string("'") + formula);
  }
  EXPECT_EQ(CsvCell("\rx"), "'\\u000dx");
  EXPECT_EQ(CsvCell("\tx"), "'\\u0009x");
  EXPECT_EQ(CsvCell("a=b"), "a=b");
}

// ---- ulid ----

TEST(UlidTest, SortsByTimeAndIsUnique) {
  const std::string early = NewUlid(absl::FromUnixMillis(1'700'000'000'000));
  const std::string late = NewUlid(absl::FromUnixMillis(1'700'000'000'001));
  EXPECT_LT(early, late);
  EXPECT_TRUE(IsUlid(early));
  std::set<std::string> ulids;
  for (int i = 0; i < 1000; ++i) ulids.insert(NewUlid(absl::UnixEpoch()));
  EXPECT_EQ(ulids.size(), 1000u);
}

TEST(UlidTest, TheSameValuesGiveTheSameId) {
  const absl::Time time = absl::FromUnixMillis(1'700'000'000'000);
  EXPECT_EQ(UlidOf(time, 0, 0), "01HF7YAT000000000000000000");
  EXPECT_EQ(UlidOf(time, 0xffff, ~uint64_t{0}), "01HF7YAT00ZZZZZZZZZZZZZZZZ");
  EXPECT_EQ(UlidOf(time, 0x10000, 1), "01HF7YAT000000000000000001");  // 16 bits of `high`.
}

TEST(UlidTest, KnowsPrefixes) {
  EXPECT_TRUE(IsUlidPrefix("01hx"));
  EXPECT_FALSE(IsUlidPrefix(""));
  EXPECT_FALSE(IsUlidPrefix("01u")) << "U is not in the alphabet";
  EXPECT_FALSE(IsUlidPrefix(std::string(27, '0')));
  EXPECT_FALSE(IsUlid("8" + std::string(25, 'Z'))) << "over 128 bits";
}

// ---- log ----

class LogThreadTest : public testing::Test {
 protected:
  LogThreadTest() {
    signal(SIGPIPE, SIG_IGN);
    EXPECT_EQ(pipe2(fds_, O_CLOEXEC), 0);
    // The smallest that the kernel gives: one page.
    EXPECT_GT(fcntl(fds_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~LogThreadTest() override {
    CloseReader();
    // SIGPIPE stays ignored and the writer's end open: a thread may still use it.
  }

  void CloseReader() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  // Reads until `text` has come.
  std::string ReadUntil(std::string_view text) {
    std::string all;
    char part[8192];
    while (all.find(text) == std::string::npos) {
      const ssize_t got = read(fds_[0], part, sizeof part);
      if (got <= 0) break;
      all.append(part, static_cast<size_t>(got));
    }
    return all;
  }

  int fds_[2] = {-1, -1};
};

TEST_F(LogThreadTest, WritesLinesInOrder) {
  const LogThread thread(fds_[1]);
  LogWarning("first");
  LogWarning("second");
  const std::string all = ReadUntil("second\n");
  EXPECT_THAT(all, HasSubstr("WARNING first\n"));
  EXPECT_LT(all.find("first"), all.find("second"));
}

TEST_F(LogThreadTest, JsonLinesAreObjectsWhateverTheTextHolds) {
  const LogThread thread(fds_[1]);
  SetLogFormat(*LogFormatFromString("json"));
  LogWarning("capture=7 \"quoted\"\n{\"level\":\"error\"} \xff");
  SetLogFormat(*LogFormatFromString("text"));
  LogWarning("plain");
  const std::string all = ReadUntil("plain\n");
  EXPECT_THAT(all, testing::StartsWith("{\"time\":\"20"));
  EXPECT_THAT(all,
              HasSubstr("Z\",\"level\":\"warning\",\"message\":\"capture=7 \\\"quoted\\\"\\u000a"
                        "{\\\"level\\\":\\\"error\\\"} \uFFFD\"}\n"));
  EXPECT_THAT(all, HasSubstr(" WARNING plain\n"));
  EXPECT_EQ(LogFormatFromString("JSON"), std::nullopt);
}

TEST_F(LogThreadTest, AnUnreadPipeBlocksNobodyAndLostLinesAreReported) {
  const LogThread thread(fds_[1]);
  const std::string kilobyte(1024, 'x');
  // Far more than the pipe and the queue hold. Without the queue this never returns.
  for (int i = 0; i < 1000; ++i) LogWarning(kilobyte);
  EXPECT_GT(thread.lost_lines(), 500);
  ReadUntil("log lines were lost because stderr was not read\n");
  // From now on the log is complete again.
  LogWarning("the end");
  EXPECT_THAT(ReadUntil("the end\n"), HasSubstr("WARNING the end\n"));
}

TEST_F(LogThreadTest, EndsWhileNobodyReads) {
  {
    const LogThread thread(fds_[1]);
    LogWarning(std::string(100'000, 'x'));
  }
  LogWarning("goes to stderr");  // There is no LogThread any more.
  CloseReader();                 // Frees the thread that was left behind.
}

TEST_F(LogThreadTest, ItsEndWritesWhatIsQueued) {
  {
    const LogThread thread(fds_[1]);
    LogWarning("last words");
  }
  EXPECT_THAT(ReadUntil("last words\n"), HasSubstr("last words"));
}

// ---- descriptors that peers pass ----

// A TCP connection whose last close() waits ten minutes: unsent data, and SO_LINGER.
class LingeringSocket {
 public:
  LingeringSocket() {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), name, size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), name, &size), 0);
    fd_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd_.get(), name, size), 0);
    reader_ = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string block(1 << 16, 'x');
    while (send(fd_.get(), block.data(), block.size(), MSG_DONTWAIT) > 0) {
    }
    const linger ten_minutes{.l_onoff = 1, .l_linger = 600};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &ten_minutes, sizeof ten_minutes);
  }
  UniqueFd Take() { return std::move(fd_); }

 private:
  UniqueFd fd_;
  UniqueFd reader_;  // Never reads.
};

void SendWithFile(int socket, int fd) {
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  ASSERT_EQ(sendmsg(socket, &message, MSG_NOSIGNAL), 1) << std::strerror(errno);
}

struct SocketPair {
  SocketPair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ours = UniqueFd(fds[0]);
    peers = UniqueFd(fds[1]);
  }
  UniqueFd ours;
  UniqueFd peers;
};

bool AwaitNoneWaiting(const ForeignCloser& closer) {
  const absl::Time give_up = absl::Now() + absl::Seconds(60);
  while (closer.waiting() > 0 && absl::Now() < give_up) absl::SleepFor(absl::Milliseconds(1));
  return closer.waiting() == 0;
}

TEST(PassedFilesTest, TheKernelRefusesThemWhereItCan) {
  SocketPair pair;
  if (!RefusePassedFiles(pair.ours.get())) {
    GTEST_SKIP() << "SKIP: this kernel has no SO_PASSRIGHTS (Linux 6.16 and later)";
  }
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  const int fd = STDERR_FILENO;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  EXPECT_EQ(sendmsg(pair.peers.get(), &message, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(PassedFilesTest, AnUnreadLingeringSocketBlocksNobody) {
  ForeignCloser closer;
  SocketPair pair;
  LingeringSocket lingering;
  SendWithFile(pair.peers.get(), lingering.Take().get());
  // Closing it here would wait for what is in its queue.
  closer.CloseConnection(std::move(pair.ours));
  char byte;
  EXPECT_EQ(recv(pair.peers.get(), &byte, 1, 0), 0) << "the peer sees the end";
  EXPECT_TRUE(AwaitNoneWaiting(closer));
}

TEST(PassedFilesTest, BlockedClosesHoldUpNeitherCallersNorConnections) {
  absl::Notification release;
  {
    absl::BlockingCounter blocked(ForeignCloser::kMaxThreads);
    ForeignCloser closer([&](int) {
      if (release.HasBeenNotified()) return;
      blocked.DecrementCount();
      release.WaitForNotification();
    });
    std::vector<UniqueFd> files;
    for (int64_t i = 0; i < ForeignCloser::kMaxWaiting; ++i) {
      files.emplace_back(eventfd(0, EFD_CLOEXEC));
    }
    closer.ClosePassed(std::move(files));
    blocked.Wait();
    EXPECT_EQ(closer.waiting(), ForeignCloser::kMaxWaiting);
    EXPECT_TRUE(closer.is_full());
    SocketPair pair;
    closer.CloseConnection(std::move(pair.ours));
    pollfd closed{.fd = pair.peers.get(), .events = 0, .revents = 0};
    EXPECT_EQ(poll(&closed, 1, 60'000), 1);
    release.Notify();
    EXPECT_TRUE(AwaitNoneWaiting(closer));
  }
}

TEST(RateLimiterTest, CountsWhatItSuppressed) {
  FakeClock clock;
  RateLimiter limiter(absl::Seconds(1), clock);
  EXPECT_EQ(limiter.Allow(), 0);
  EXPECT_EQ(limiter.Allow(), std::nullopt);
  EXPECT_EQ(limiter.Allow(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(limiter.Allow(), 2);
}

// ---- text files ----

std::vector<std::string> LinesOf(std::string_view text, Comments comments) {
  std::vector<std::string> lines;
  const auto take = [&lines](std::string_view line, int number) {
    lines.push_back(StrCat(number, " ", line));
    return absl::OkStatus();
  };
  EXPECT_THAT(ForEachLine(text, "", comments, take), IsOk());
  return lines;
}

TEST(TextFileTest, BlankLinesCountAndAreNotSeen) {
  EXPECT_THAT(LinesOf("a\n\n \t\v\f\r\n  b c\t\r\nd", Comments::kKept),
              ElementsAre("1 a", "4 b c", "5 d"));
  EXPECT_THAT(LinesOf("", Comments::kKept), ElementsAre());
}

TEST(TextFileTest, CommentsAreAnywhereOrWholeLinesOrKept) {
  constexpr std::string_view kText = " # one\na#b # two\n";
  EXPECT_THAT(LinesOf(kText, Comments::kAnywhere), ElementsAre("2 a"));
  EXPECT_THAT(LinesOf(kText, Comments::kWholeLines), ElementsAre("2 a#b # two"));
  EXPECT_THAT(LinesOf(kText, Comments::kKept), ElementsAre("1 # one", "2 a#b # two"));
}

TEST(TextFileTest, TheFirstErrorEndsTheReadingAndNamesItsLine) {
  const auto take = [](std::string_view line, int /*number*/) {
    return line == "a" ? absl::OkStatus() : absl::OutOfRangeError(StrCat("not ", line));
  };
  EXPECT_THAT(ForEachLine("a\n\nb\nc\n", "f:", Comments::kKept, take),
              StatusIs(Code::kOutOfRange, "f:3: not b"));
}

TEST(TextFileTest, ASettingIsWhatIsLeftAndRightOfTheFirstEqualsSign) {
  using Sides = std::pair<std::string_view, std::string_view>;
  EXPECT_EQ(SplitSetting(" a b =\tc = d "), Sides("a b", "c = d"));
  EXPECT_EQ(SplitSetting("="), Sides());
  EXPECT_EQ(SplitSetting("a b"), std::nullopt);
}

// ---- host and port ----

TEST(HostPortTest, AHostAndAPortAreSplit) {
  const auto split = [](std::string_view text) {
    const auto parts = SplitHostPort(text);
    return parts.has_value() ? StrCat(parts->host, " ", parts->port) : "none";
  };
  EXPECT_EQ(split("10.0.0.7:7411"), "10.0.0.7 7411");
  EXPECT_EQ(split("node-7.cluster:0"), "node-7.cluster 0");
  EXPECT_EQ(split("*:65535"), "* 65535");
  EXPECT_EQ(split("[::1]:9464"), "::1 9464");
  EXPECT_EQ(split("[fe80::1%eth0]:1"), "fe80::1%eth0 1");
  EXPECT_EQ(split(StrCat(std::string(253, 'a'), ":1")), StrCat(std::string(253, 'a'), " 1"));
}

TEST(HostPortTest, WhatIsNotOneIsRefused) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view text : {""sv,
                                      ":"sv,
                                      "host"sv,
                                      "9464"sv,
                                      "host:"sv,
                                      ":9464"sv,
                                      "[]:1"sv,
                                      "[:1"sv,
                                      "]:1"sv,
                                      "::1"sv,
                                      "::1:9464"sv,
                                      "[::1]"sv,
                                      "[::1]9464"sv,
                                      "[::1:9464"sv,
                                      "::1]:9464"sv,
                                      "[[::1]]:1"sv,
                                      "[localhost]:1"sv,
                                      "[*]:1"sv,
                                      "host:65536"sv,
                                      "host:4294967297"sv,
                                      "host:-1"sv,
                                      "host:+1"sv,
                                      "host: 1"sv,
                                      "host:1 "sv,
                                      "host:0x1"sv,
                                      "host:1.5"sv,
                                      "host:http"sv,
                                      " host:1"sv,
                                      "ho st:1"sv,
                                      "host :1"sv,
                                      "a:b:1"sv,
                                      "ho\nst:1"sv,
                                      "ho\0st:1"sv,
                                      "host:1\0"sv,
                                      "\xff:1"sv}) {
    EXPECT_FALSE(SplitHostPort(text).has_value()) << text;
  }
  EXPECT_FALSE(SplitHostPort(StrCat(std::string(254, 'a'), ":1")).has_value());
}

// ---- config ----

std::optional<std::string> NoEnvironment(const char*) { return std::nullopt; }

class ConfigFileTest : public testing::Test {
 protected:
  ConfigFileTest() {
    std::string pattern = testing::TempDir() + "/profd_config_XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }
  ~ConfigFileTest() override { std::filesystem::remove_all(directory_); }
  std::filesystem::path Write(std::string_view text) {
    const auto path = directory_ / "profd.conf";
    std::ofstream(path) << text;
    return path;
  }
  std::filesystem::path directory_;
};

TEST(ParseBytesTest, KnowsUnits) {
  EXPECT_EQ(ParseBytes("64MiB"), int64_t{64} << 20);
  EXPECT_EQ(ParseBytes("20 GiB"), int64_t{20} << 30);
  EXPECT_EQ(ParseBytes("1048576"), 1048576);
  EXPECT_EQ(ParseBytes("-1"), std::nullopt);
  EXPECT_EQ(ParseBytes("99999999999TiB"), std::nullopt) << "overflow";
  EXPECT_EQ(ParseBytes("5MB"), std::nullopt);
}

TEST(CommandLineTest, UnknownFlagsAndMissingValuesAreRefused) {
  EXPECT_THAT(ParseCommandLine({"--nope"}), StatusIs(Code::kInvalidArgument, HasSubstr("--nope")));
  EXPECT_THAT(ParseCommandLine({"--data-dir"}),
              StatusIs(Code::kInvalidArgument, HasSubstr("needs a value")));
  EXPECT_THAT(ParseCommandLine({"stray"}), StatusIs(Code::kInvalidArgument));
}

TEST(CommandLineTest, FlagsTakeBothSpellings) {
  const auto line = ParseCommandLine({"--data-dir", "/a", "--socket-dir=/b", "--reflection"});
  ASSERT_THAT(line, IsOk());
  const auto config = LoadConfig(*line, 1000, NoEnvironment);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->data_dir, "/a");
  EXPECT_EQ(config->socket_dir, "/b");
  EXPECT_TRUE(config->reflection);
}

TEST(ConfigTest, AUserWithoutARuntimeDirectoryIsToldToNameOne) {
  EXPECT_THAT(LoadConfig(CommandLine(), 1000, NoEnvironment),
              StatusIs(Code::kInvalidArgument, HasSubstr("--socket-dir")));
}

TEST(ConfigTest, DefaultsFollowTheUserAndSystemd) {
  EXPECT_EQ(DefaultConfig(0, NoEnvironment).socket_dir, "/run/profd");
  const auto environment = [](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "XDG_RUNTIME_DIR") return "/run/user/1000";
    if (std::string_view(name) == "HOME") return "/home/u";
    return std::nullopt;
  };
  EXPECT_EQ(DefaultConfig(1000, environment).socket_dir, "/run/user/1000/profd");
  EXPECT_EQ(DefaultConfig(1000, environment).data_dir, "/home/u/.local/state/profd");
  const auto systemd = [](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "RUNTIME_DIRECTORY") return "/run/x:/run/y";
    return std::nullopt;
  };
  EXPECT_EQ(DefaultConfig(0, systemd).socket_dir, "/run/x");
}

TEST(ConfigTest, TheUnitsUserFindsTheConfigurationOfTheMachine) {
  const auto systemd = [](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "CONFIGURATION_DIRECTORY") return "/etc/x";
    if (std::string_view(name) == "HOME") return "/home/u";
    return std::nullopt;
  };
  EXPECT_EQ(DefaultConfigFile(988, systemd), "/etc/x/profd.conf");
  EXPECT_EQ(DefaultConfigFile(0, NoEnvironment), "/etc/profd/profd.conf");
}

TEST(ConfigTest, UserTakesANameAndPrepareIsAnAction) {
  const auto line = ParseCommandLine({"--user", "daemon", "--prepare"});
  ASSERT_THAT(line, IsOk());
  EXPECT_EQ(line->action, CommandLineAction::kPrepare);
  const auto check = ParseCommandLine({"--check-config", "--user", "daemon"});
  ASSERT_THAT(check, IsOk());
  EXPECT_EQ(check->action, CommandLineAction::kCheckConfig);
  Config config;
  EXPECT_THAT(ApplySetting("user", "daemon", config), IsOk());
  EXPECT_EQ(config.user, "daemon");
  EXPECT_FALSE(ApplySetting("user", "", config).ok());
  EXPECT_FALSE(ApplySetting("helper-socket", "relative", config).ok());
}

TEST_F(ConfigFileTest, FlagsWinOverTheFile) {
  const auto path = Write("# comment\nmax-storage = 1GiB  # trailing\n\narm-timeout = 5s\n");
  CommandLine line;
  line.config_file = path;
  line.settings = {{"max-storage", "2GiB"}, {"data-dir", "/a"}, {"socket-dir", "/b"}};
  const auto config = LoadConfig(line, 0, NoEnvironment);
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->max_storage_bytes, int64_t{2} << 30);
  EXPECT_EQ(config->arm_timeout, absl::Seconds(5));
}

// An administrator's settings may be in it.
TEST_F(ConfigFileTest, ADefaultFileThatCannotBeLookedForIsAnError) {
  std::filesystem::create_symlink("loop", directory_ / "loop");
  std::filesystem::create_directory(directory_ / "closed");
  std::ofstream(directory_ / "closed/profd.conf") << "max-storage = 1GiB\n";
  std::string folder;
  const auto load = [&] {
    CommandLine line;
    line.settings = {{"data-dir", "/a"}, {"socket-dir", "/b"}};
    return LoadConfig(line, 988, [&](const std::string_view name) {
      return name == "CONFIGURATION_DIRECTORY" ? std::optional<std::string>(folder) : std::nullopt;
    });
  };
  folder = directory_ / "loop";
  EXPECT_THAT(load().status().message(), HasSubstr("cannot look for "));
  folder = directory_ / "none";
  EXPECT_THAT(load(), IsOk());
  folder = directory_ / "closed/profd.conf";  // Not a folder: what is in it is not there.
  EXPECT_THAT(load(), IsOk());
  folder = directory_ / "closed";
  EXPECT_EQ(load()->max_storage_bytes, int64_t{1} << 30);
  if (geteuid() == 0) return;  // No folder is closed to root.
  ASSERT_EQ(chmod(folder.c_str(), 0), 0);
  EXPECT_THAT(load().status().message(), HasSubstr("Permission denied"));
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
}

TEST_F(ConfigFileTest, AnErrorNamesTheLineAndChangesNothing) {
  const auto path = Write("max-storage = 1GiB\nmin-free-percent = 100\n");
  Config config;
  EXPECT_THAT(ApplyConfigFile(path, config), StatusIs(Code::kInvalidArgument, HasSubstr(":2: ")));
  EXPECT_EQ(config.max_storage_bytes, Config().max_storage_bytes);
  EXPECT_THAT(ApplyConfigFile(directory_ / "none", config),
              StatusIs(Code::kNotFound, HasSubstr("none: No such file")));
}

TEST_F(ConfigFileTest, AFolderIsNoEmptyFileAndAFileWithoutEndIsNotRead) {
  Config config;
  EXPECT_THAT(ApplyConfigFile(directory_, config),
              StatusIs(Code::kFailedPrecondition, HasSubstr("Is a directory")));
  EXPECT_THAT(ApplyConfigFile("/dev/zero", config),
              StatusIs(Code::kInvalidArgument, HasSubstr("larger than 1 MiB")));
}

TEST_F(ConfigFileTest, AFileThatMayNotBeReadIsNotAbsent) {
  const auto path = Write("max-storage = 1GiB\n");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  if (geteuid() == 0 && seteuid(65534) != 0) GTEST_SKIP() << "no other user to be";
  Config config;
  const absl::Status status = ApplyConfigFile(path, config);
  ASSERT_EQ(seteuid(getuid()), 0);
  EXPECT_THAT(status, StatusIs(Code::kPermissionDenied, HasSubstr("Permission denied")));
}

TEST_F(ConfigFileTest, APathWithANulByteIsRefused) {
  const auto path = Write(std::string_view("data-dir = /a\0b\n", 16));
  Config config;
  EXPECT_THAT(ApplyConfigFile(path, config), StatusIs(Code::kInvalidArgument, HasSubstr(":1: ")));
  EXPECT_EQ(config.data_dir, Config().data_dir);
}

TEST(ConfigTest, TellsWhatNeedsARestart) {
  Config from;
  Config to = from;
  to.max_storage_bytes = 1;
  to.max_targets = 5;
  EXPECT_THAT(ChangedBeyondReload(from, to), ElementsAre("max-targets"));
}

// ---- waits ----

TEST(CondVarTest, ItAwaitsACondition) {
  absl::Mutex mu;
  CondVar changed;
  bool is_set = false;
  const auto await = [&](absl::Duration timeout) {
    const absl::MutexLock lock(&mu);
    return changed.AwaitWithTimeout(&mu, timeout, [&] { return is_set; });
  };
  EXPECT_FALSE(await(absl::Milliseconds(1)));
  EXPECT_FALSE(await(-absl::InfiniteDuration()));
  std::thread setter([&] {
    const absl::MutexLock lock(&mu);
    is_set = true;
    changed.Signal();
  });
  EXPECT_TRUE(await(absl::InfiniteDuration()));
  EXPECT_TRUE(await(absl::ZeroDuration()));
  setter.join();
}

// ---- standard files ----

TEST(StandardFilesTest, NothingElseGetsTheirNumbers) {
  const pid_t child = fork();
  if (child == 0) {
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    KeepStandardFilesApart();
    const bool apart = open("/dev/null", O_WRONLY) > STDERR_FILENO;
    const bool fails = write(STDOUT_FILENO, "x", 1) < 0 && errno == EBADF;
    const bool ends_with_exec = fcntl(STDERR_FILENO, F_GETFD) == FD_CLOEXEC;
    _exit(apart && fails && ends_with_exec ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace profd
