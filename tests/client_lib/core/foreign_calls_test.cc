// fork() and the library's calls of code that holds locks of others.
#include "client_lib/core/foreign_calls.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using client::EndForeignCall;
using client::ForeignCall;
using client::TryBeginForeignCall;

// A lock of others.
pthread_mutex_t g_foreign_lock = PTHREAD_MUTEX_INITIALIZER;

// Forks, and holds it against the child that it can take the lock, and call others itself.
void ForkIntoWorkingChild() {
  const pid_t pid = fork();
  if (pid == 0) {
    const ForeignCall call;
    _exit(pthread_mutex_trylock(&g_foreign_lock) == 0 ? 0 : 1);
  }
  CHILD_EXPECT(WaitForExit(pid) == 0);
}

void WaitForFork() {
  WaitUntil("a fork", [] {
    if (!TryBeginForeignCall()) return true;
    EndForeignCall();
    return false;
  });
}

TEST(ForeignCallsTest, AForkWaitsForACallThatHoldsALock) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    std::atomic<bool> is_inside{false};
    std::thread calls([&] {
      const ForeignCall call;
      pthread_mutex_lock(&g_foreign_lock);
      is_inside.store(true);
      WaitForFork();
      pthread_mutex_unlock(&g_foreign_lock);
    });
    WaitUntil("the call", [&] { return is_inside.load(); });
    ForkIntoWorkingChild();
    calls.join();
    // Afterwards all goes on.
    const ForeignCall call;
  });
  child.ExpectSuccess();
}

TEST(ForeignCallsTest, ACallWaitsUntilTheForkIsOver) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    static std::atomic<bool> is_forking{false};
    static std::atomic<bool> has_called{false};
    // The library's come first: it is set up after this, and handlers run backwards.
    pthread_atfork(
        [] {
          is_forking.store(true);
          for (int i = 0; i < 1000; ++i) {
            if (has_called.load()) _exit(3);
            usleep(20);
          }
        },
        [] { is_forking.store(false); }, nullptr);
    profd_init();
    std::thread calls([&] {
      WaitUntil("the fork", [] { return is_forking.load(); });
      const ForeignCall call;
      has_called.store(true);
    });
    ForkIntoWorkingChild();
    calls.join();
  });
  child.ExpectSuccess();
}

// A loader that waits for a slow disk, say. What such a call holds is then lost to the child.
TEST(ForeignCallsTest, AForkDoesNotWaitForEver) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    std::atomic<bool> is_inside{false};
    std::atomic<bool> is_over{false};
    std::thread calls([&] {
      const ForeignCall call;
      is_inside.store(true);
      WaitUntil("the forks", [&] { return is_over.load(); });
    });
    WaitUntil("the call", [&] { return is_inside.load(); });
    ForkIntoWorkingChild();
    ForkIntoWorkingChild();  // Does not wait again.
    is_over.store(true);
    calls.join();
    ForkIntoWorkingChild();
  });
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
