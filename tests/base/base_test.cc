#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/base/config.h"
#include "daemon/base/log.h"
#include "daemon/base/standard_files.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
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

TEST(TextTest, JsonEscapesControlsQuotesAndBackslashes) {
  std::string out;
  AppendJsonEscaped("a\"b\\c\n\x01\x7f", out);
  EXPECT_EQ(out, "a\\\"b\\\\c\\u000a\\u0001\\u007f");
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

TEST(UlidTest, KnowsPrefixes) {
  EXPECT_TRUE(IsUlidPrefix("01hx"));
  EXPECT_FALSE(IsUlidPrefix(""));
  EXPECT_FALSE(IsUlidPrefix("01u")) << "U is not in the alphabet";
  EXPECT_FALSE(IsUlidPrefix(std::string(27, '0')));
  EXPECT_FALSE(IsUlid("8" + std::string(25, 'Z'))) << "over 128 bits";
}

// ---- log ----

TEST(RateLimiterTest, CountsWhatItSuppressed) {
  FakeClock clock;
  RateLimiter limiter(absl::Seconds(1), clock);
  EXPECT_EQ(limiter.Allow(), 0);
  EXPECT_EQ(limiter.Allow(), std::nullopt);
  EXPECT_EQ(limiter.Allow(), std::nullopt);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(limiter.Allow(), 2);
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

TEST_F(ConfigFileTest, AnErrorNamesTheLineAndChangesNothing) {
  const auto path = Write("max-storage = 1GiB\nmin-free-percent = 100\n");
  Config config;
  EXPECT_THAT(ApplyConfigFile(path, config), StatusIs(Code::kInvalidArgument, HasSubstr(":2: ")));
  EXPECT_EQ(config.max_storage_bytes, Config().max_storage_bytes);
  EXPECT_THAT(ApplyConfigFile(directory_ / "none", config), StatusIs(Code::kNotFound));
}

TEST(ConfigTest, TellsWhatNeedsARestart) {
  Config from;
  Config to = from;
  to.max_storage_bytes = 1;
  to.max_targets = 5;
  EXPECT_THAT(ChangedBeyondReload(from, to), ElementsAre("max-targets"));
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
