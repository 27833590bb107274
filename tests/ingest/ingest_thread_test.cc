#include "daemon/ingest/ingest_thread.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace profd {
namespace {

bool BlocksNothing() {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, SIGTERM) == 0;
}

TEST(IngestThreadTest, ItHandlesNoSignals) {
  bool blocks = false;
  StartIngestThread("test", [&blocks] { blocks = !BlocksNothing(); }).join();
  EXPECT_TRUE(blocks);
  EXPECT_TRUE(BlocksNothing());
}

// 0: it was not joinable, and nothing is blocked.
[[noreturn]] void StartWithoutRoom() {
  const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  setrlimit(RLIMIT_NPROC, &none);
  // Root has no such limit.
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);
  const bool joinable = StartIngestThread("test", [] {}).joinable();
  // Sanitizers start threads of their own at a usual end.
  _exit(joinable || !BlocksNothing() ? 1 : 0);
}

TEST(IngestThreadTest, WithoutRoomForAThreadItIsNotJoinable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(StartWithoutRoom(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace profd
