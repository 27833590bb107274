#include "cli/base/interrupts.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <system_error>
#include <thread>

#include "tests/cli/cli_fixture.h"

namespace profd::cli {
namespace {

#if defined(__has_feature)  // Of clang, whose sanitizers define nothing.
#define PROFD_HAS_SANITIZER __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#elif defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define PROFD_HAS_SANITIZER 1
#else
#define PROFD_HAS_SANITIZER 0
#endif

// No other test uses it: limits on processes are those of a user.
constexpr uid_t kUserWithoutThreads = 65529;

bool IsBlocked(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

// From now on no thread starts.
void EndThreads() {
  const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_NPROC, &none);
  // Root has no such limit.
  if (geteuid() == 0) {
    const uid_t uid = kUserWithoutThreads;
    if (setresuid(uid, uid, uid) != 0) _exit(2);
  }
}

TEST(InterruptsTest, SignalsEndTheProcessAgainOnceItIsGone) {
  {
    const Interrupts interrupts;
    EXPECT_TRUE(IsBlocked(SIGINT));
    EXPECT_TRUE(IsBlocked(SIGTERM));
  }
  EXPECT_FALSE(IsBlocked(SIGINT));
  EXPECT_FALSE(IsBlocked(SIGTERM));
}

[[noreturn]] void InterruptWithoutThreads() {
  Interrupts interrupts;
  interrupts.OnInterrupt([] { _exit(7); });
  EndThreads();
  kill(getpid(), SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(60));
  _exit(3);
}

TEST(InterruptsTest, TheHandlerNeedsNoFurtherThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(InterruptWithoutThreads(), ::testing::ExitedWithCode(7), "");
}

[[noreturn]] void MakeWithoutThreads() {
  EndThreads();
  try {
    const Interrupts interrupts;
  } catch (const std::system_error&) {
    _exit(IsBlocked(SIGINT) || IsBlocked(SIGTERM) ? 1 : 0);
  }
  _exit(2);
}

TEST(InterruptsTest, WithoutAThreadOfItsOwnItBlocksNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(MakeWithoutThreads(), ::testing::ExitedWithCode(0), "");
}

class FewThreadsTest : public CliTest {
 protected:
  void SetUp() override {
#if PROFD_HAS_SANITIZER
    GTEST_SKIP() << "sanitizers start threads of their own";
#endif
    if (geteuid() != 0) GTEST_SKIP() << "only root can become a user that has no other threads";
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
    std::filesystem::permissions(profd_.socket_dir() + "/control.sock",
                                 std::filesystem::perms(0666));
  }
  // 137: it did not end.
  RunResult RunWithThreads(int count, const std::vector<std::string>& arguments) const {
    const std::string uid = std::to_string(kUserWithoutThreads);
    return RunProfctl(
        arguments, environment(),
        {"/usr/bin/timeout", "-s", "KILL", "30", "/usr/bin/setpriv", "--reuid", uid, "--regid", uid,
         "--clear-groups", "/usr/bin/prlimit", "--nproc=" + std::to_string(count)});
  }
};

TEST_F(FewThreadsTest, CommandsEnd) {
  for (int count = 1; count < 14; ++count) {
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"ps"}, {"trace"}, {"node"}}) {
      const RunResult result = RunWithThreads(count, arguments);
      EXPECT_LT(result.exit_code, 128) << count << arguments[0] << result.err;
    }
  }
}

TEST_F(FewThreadsTest, AThreadThatCannotStartIsAnError) {
  const RunResult result = RunWithThreads(1, {"trace"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, ::testing::StartsWith("profctl: cannot start a thread; raise the limit"));
}

}  // namespace
}  // namespace profd::cli
