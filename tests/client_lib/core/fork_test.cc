// fork(), with and without exec, and children that no fork handler saw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

extern char** environ;

namespace profd::testing {
namespace {

profd_name g_in_child = PROFD_NAME_INIT("in the child");

// Forks, runs `body` in the child, and holds it against exit code 0.
void ForkAndRun(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  CHILD_EXPECT(WaitForExit(pid) == 0);
}

TEST(ForkTest, AChildIsSilentUntilItAnnotates) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    profd_step();
    profd_step();
    ForkAndRun([&] {
      CHILD_EXPECT(Status().connected == 0);
      CHILD_EXPECT(profd_step_count() == 0);
      parent.Tell('f');
      parent.Await('a');
      EmptyRange(&g_in_child);
      WaitConnected();
      CHILD_EXPECT(__atomic_load_n(profd_recording_flag(), __ATOMIC_ACQUIRE) == 0);
      parent.Tell('c');
      WaitRecording();
      EmptyRange(&g_in_child);
      profd_step();
      CHILD_EXPECT(profd_step_count() == 1);
      parent.Tell('d');
      parent.Await('x');
    });
    CHILD_EXPECT(profd_step_count() == 2);
    CHILD_EXPECT(Status().connected == 1);
  });
  auto parent_target = daemon.WaitTarget();
  child.Await('f');
  EXPECT_FALSE(daemon.HasCaller());
  child.Tell('a');
  auto target = daemon.WaitTarget();
  EXPECT_NE(target->peer_pid(), child.pid());
  EXPECT_EQ(target->hello().own_pid, static_cast<uint32_t>(target->peer_pid()));
  EXPECT_EQ(target->hello().parent_pid, static_cast<uint32_t>(child.pid()));
  EXPECT_EQ(target->hello().step_mark_count, 0u);
  child.Await('c');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("in the child"), 1u);
  ASSERT_EQ(contents.steps.size(), 1u);
  EXPECT_EQ(contents.steps[0].step, 0u);
  EXPECT_EQ(parent_target->status_page().step_mark_count.load(), 2u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AStepMarkRegistersTheChildToo) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_step();
    WaitConnected();
    ForkAndRun([&] {
      profd_step();
      WaitConnected();
      parent.Tell('d');
      parent.Await('x');
    });
  });
  auto parent_target = daemon.WaitTarget();
  auto target = daemon.WaitTarget();
  child.Await('d');
  EXPECT_EQ(target->hello().parent_pid, static_cast<uint32_t>(child.pid()));
  target->WaitStepMarks(1);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AChildOfAnUnregisteredProcessHasNoParent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    EmptyRange(&g_range);  // Does not register anybody.
    ForkAndRun([&] {
      EmptyRange(&g_range);
      profd_init();
      WaitConnected();
      parent.Await('x');
    });
  });
  auto target = daemon.WaitTarget();
  EXPECT_EQ(target->hello().parent_pid, 0u);
  EXPECT_FALSE(daemon.HasCaller());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AForkWhileRecordingLeavesTheCaptureToTheParent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    WaitRecording();
    std::atomic<bool> stop{false};
    std::thread records([&] {
      while (!stop.load(std::memory_order_relaxed)) EmptyRange(&g_range);
    });
    profd_range_begin(&g_range);
    for (int i = 0; i < 10; ++i) {
      ForkAndRun([] {
        profd_range_end();  // Of the parent's range.
        CHILD_EXPECT(Status().recording == 0);
        for (int j = 0; j < 100; ++j) EmptyRange(&g_in_child);
        profd_instant(&g_in_child);
        profd_step();
      });
    }
    profd_range_end();
    stop.store(true);
    records.join();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("in the child"), 0u);
  EXPECT_GT(contents.CountRanges("range"), 0u);
  EXPECT_EQ(target->status_page().step_mark_count.load(), 0u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AChildKeepsTheNamesItInherits) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const uint32_t before = profd_intern("inherited", 9);
    profd_thread_name("main thread");
    profd_init();
    WaitConnected();
    ForkAndRun([&] {
      CHILD_EXPECT(profd_intern("inherited", 9) == before);
      profd_init();
      WaitConnected();
      WaitRecording();
      profd_range_begin_id(before);
      profd_range_end_id();
      parent.Tell('d');
      parent.Await('x');
    });
  });
  auto parent_target = daemon.WaitTarget();
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("inherited"), 1u);
  ASSERT_EQ(contents.thread_names.size(), 1u);
  EXPECT_EQ(contents.thread_names.begin()->second.front(), "main thread");
  EXPECT_EQ(contents.os_threads.begin()->second, static_cast<uint32_t>(target->peer_pid()));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, ExecInheritsNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const int files_before = CountOpenFiles();
    profd_init();
    WaitConnected();
    WaitRecording();
    CHILD_EXPECT(CountOpenFiles() == files_before);  // Ours are in the agent's table.
    // What a program started here has open: what we had before, and no memory of ours.
    char script[256];
    snprintf(script, sizeof(script),
             "test $(ls /proc/self/fd | wc -l) -le %d && ! grep -q fake-capture /proc/self/maps",
             files_before);
    const char* const arguments[] = {"sh", "-c", script, nullptr};
    pid_t spawned;
    CHILD_EXPECT(posix_spawn(&spawned, "/bin/sh", nullptr, nullptr, const_cast<char**>(arguments),
                             environ) == 0);
    CHILD_EXPECT(WaitForExit(spawned) == 0);
    ForkAndRun([&] {
      execv("/bin/sh", const_cast<char**>(arguments));
      _exit(127);
    });
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  capture->Finish();
  EXPECT_FALSE(daemon.HasCaller());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AChildInheritsNoSocket) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const int files_before = CountOpenFiles();
    profd_init();
    WaitConnected();
    ForkAndRun([&] { CHILD_EXPECT(CountOpenFiles() == files_before); });
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('d');
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForkTest, AGrandchildIsShownBelowTheNearestRegisteredProcess) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    ForkAndRun([&] {
      ForkAndRun([&] {
        profd_step();
        WaitConnected();
        parent.Tell('d');
        parent.Await('x');
      });
    });
  });
  auto parent_target = daemon.WaitTarget();
  auto target = daemon.WaitTarget();
  child.Await('d');
  EXPECT_EQ(target->hello().parent_pid, static_cast<uint32_t>(child.pid()));
  child.Tell('x');
  child.ExpectSuccess();
}

#if !defined(__SANITIZE_THREAD__)  // Its runtime does not survive a bare clone().
TEST(ForkTest, AChildThatNoHandlerSawTouchesNothingOfItsParent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    profd_step();
    WaitRecording();
    EmptyRange(&g_range);
    const long pid = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) {
      for (int i = 0; i < 100; ++i) EmptyRange(&g_in_child);
      profd_instant(&g_in_child);
      for (int i = 0; i < 5; ++i) profd_step();
      _exit(profd_step_count() == 5 ? 0 : 1);
    }
    CHILD_EXPECT(WaitForExit(static_cast<pid_t>(pid)) == 0);
    EmptyRange(&g_range);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  target->WaitStepMarks(1);
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("range"), 2u);
  EXPECT_EQ(contents.CountRanges("in the child"), 0u);
  EXPECT_EQ(target->status_page().step_mark_count.load(), 1u);
  child.Tell('x');
  child.ExpectSuccess();
}
#endif

}  // namespace
}  // namespace profd::testing
