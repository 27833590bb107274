// Calls that the kernel refuses to a process with several threads.
#include <errno.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

// Unlike the count of a thread that is about to end, this one is the kernel's.
int CountThreads() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

// What a process with one thread gets where this machine allows it no namespaces.
bool IsDoneOrForbidden(int result) { return result == 0 || errno == EPERM || errno == ENOSPC; }

class SingleThreadTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
#endif
  }
};

TEST_F(SingleThreadTest, AUserNamespaceIsToBeHadOnceThreadsAreStopped) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    profd_step();
    CHILD_EXPECT(unshare(CLONE_NEWUSER) != 0 && errno == EINVAL);
    CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
    CHILD_EXPECT(CountThreads() == 1);
    CHILD_EXPECT(Status().connected == 0);
    CHILD_EXPECT(IsDoneOrForbidden(unshare(CLONE_NEWUSER)));
    profd_restart_threads();
    CHILD_EXPECT(Status().disabled == 0);
    CHILD_EXPECT(CountThreads() == 3);
    profd_step();
    CHILD_EXPECT(profd_step_count() == 2);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Tell('x');
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, AProcessRegistersAnewAndIsCapturedAgain) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    for (int i = 0; i < 5; ++i) {
      profd_init();
      WaitConnected();
      parent.Tell('c');
      WaitRecording();
      EmptyRange(&g_range);
      parent.Tell('d');
      parent.Await('n');
      CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
      CHILD_EXPECT(CountThreads() == 1);
      profd_restart_threads();
    }
  });
  for (int i = 0; i < 5; ++i) {
    auto target = daemon.WaitTarget();
    child.Await('c');
    auto capture = target->Arm();
    capture->Fire(ByTime());
    child.Await('d');
    EXPECT_EQ(capture->Finish().CountRanges("range"), 1u);
    child.Tell('n');
  }
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, ACaptureThatRecordsEndsWithTheThreads) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitRecording();
    parent.Tell('r');
    // Another thread of the program is inside writes meanwhile.
    std::atomic<bool> is_over{false};
    std::thread writer([&] {
      while (!is_over) EmptyRange(&g_range);
    });
    CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
    CHILD_EXPECT(Status().recording == 0);
    CHILD_EXPECT(ThreadDirectory("profd").empty());
    CHILD_EXPECT(ThreadDirectory("profd-helper").empty());
    is_over = true;
    writer.join();
    profd_restart_threads();
    WaitConnected();
  });
  {
    auto target = daemon.WaitTarget();
    auto capture = target->Arm();
    capture->Fire(ByTime());
    child.Await('r');
    target->ExpectClosed();
  }
  auto again = daemon.WaitTarget();
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, WithoutThreadsThereIsNothingToStop) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    CHILD_EXPECT(profd_stop_threads() == PROFD_DISABLED);
    profd_restart_threads();
    CHILD_EXPECT(CountThreads() == 1);
  });
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, StoppedThreadsAreNotRestartedByUse) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    WaitConnected();
    CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
    CHILD_EXPECT(profd_stop_threads() == PROFD_DISABLED);
    profd_init();
    profd_step();
    EmptyRange(&g_range);
    CHILD_EXPECT(CountThreads() == 1);
    profd_restart_threads();
    CHILD_EXPECT(CountThreads() == 3);
  });
  auto target = daemon.WaitTarget();
  child.ExpectSuccess();
}

// On one CPU another thread never runs between its restart and its next stop.
TEST_F(SingleThreadTest, AThreadThatStopsAgainAndAgainLetsOthersStop) {
  FakeDaemon daemon;
  Child child(daemon.directory() + "/absent", [](Parent&) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    CHILD_EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
    profd_init();
    std::atomic<bool> is_over{false};
    // A sanitizer's threads end so slowly that next to these they might take the allowed 3 s.
#ifdef PROFD_SANITIZED
    constexpr int kBusy = 0;
#else
    constexpr int kBusy = 2;
#endif
    std::vector<std::thread> busy;
    for (int i = 0; i < kBusy; ++i) {
      busy.emplace_back([&] {
        while (!is_over) {
        }
      });
    }
    std::thread other([&] {
      while (!is_over) {
        if (profd_stop_threads() == PROFD_OK) profd_restart_threads();
      }
    });
    for (int i = 0; i < 10; ++i) {
      CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
      CHILD_EXPECT(ThreadDirectory("profd").empty());
      profd_restart_threads();
    }
    is_over = true;
    other.join();
    for (std::thread& thread : busy) thread.join();
    CHILD_EXPECT(Status().disabled == 0);
  });
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, AProcessWhoseThreadsStayStoppedIsOff) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    WaitConnected();
    profd_stay_stopped();  // Not stopped: nothing happens.
    CHILD_EXPECT(Status().disabled == 0);
    CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
    profd_stay_stopped();
    CHILD_EXPECT(Status().disabled == 1);
    profd_restart_threads();
    CHILD_EXPECT(profd_init() == PROFD_DISABLED);
    CHILD_EXPECT(profd_stop_threads() == PROFD_DISABLED);
    profd_step();
    EmptyRange(&g_range);
    CHILD_EXPECT(CountThreads() == 1);
    const pid_t pid = fork();
    if (pid == 0) {
      profd_step();
      WaitConnected();
      _exit(0);
    }
    CHILD_EXPECT(WaitForExit(pid) == 0);
  });
  auto target = daemon.WaitTarget();
  target->ExpectClosed();
  auto grandchild = daemon.WaitTarget();
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, StopsOfSeveralThreadsTakeTurns) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    std::atomic<int> stopped{0};
    const auto stop_and_restart = [&] {
      for (int i = 0; i < 20; ++i) {
        CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
        CHILD_EXPECT(++stopped == 1);
        CHILD_EXPECT(ThreadDirectory("profd").empty());
        --stopped;
        profd_restart_threads();
      }
    };
    std::thread other(stop_and_restart);
    stop_and_restart();
    other.join();
    CHILD_EXPECT(Status().disabled == 0);
  });
  child.ExpectSuccess();
}

TEST_F(SingleThreadTest, AForkedChildHasNoThreadsUntilItUsesTheLibrary) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    WaitConnected();
    const pid_t pid = fork();
    if (pid == 0) _exit(IsDoneOrForbidden(unshare(CLONE_NEWUSER)) ? 0 : 1);
    CHILD_EXPECT(WaitForExit(pid) == 0);
    // Also where the parent has stopped its threads.
    CHILD_EXPECT(profd_stop_threads() == PROFD_OK);
    const pid_t later = fork();
    if (later == 0) {
      profd_step();
      WaitConnected();
      _exit(0);
    }
    CHILD_EXPECT(WaitForExit(later) == 0);
  });
  auto target = daemon.WaitTarget();
  target->ExpectClosed();
  auto grandchild = daemon.WaitTarget();
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
