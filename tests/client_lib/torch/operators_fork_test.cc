// What a fork() at any moment of a capture does to operators, here and in the child.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/client_lib/torch/operators_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;

TEST(OperatorsForkTest, AForkInTheWindowLeavesTheChildAlone) {
  const CaptureContents contents = Capture({}, [](const Program& program) {
    const Operator outer(program.torch, {.name = "aten::outer"});
    const pid_t pid = fork();
    if (pid == 0) {
      const bool is_off = !program.ObservesOperators();
      program.Run({.name = "aten::of_the_child"});
      _exit(is_off ? 0 : 1);
    }
    CHILD_EXPECT(WaitForExit(pid) == 0);
    program.Run({.name = "aten::relu"});
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::relu", "aten::outer"));
}

// torch's lock would be held for ever in the child.
TEST(OperatorsForkTest, AForkThatMeetsTheBeginOfACaptureLeavesTheChildItsOperators) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    const Program program = StartProgram({});
    std::atomic<bool> is_registering{false};
    program.torch.delay_registration(&is_registering);
    parent.Tell('b');
    WaitUntil("the capture's begin", [&] { return is_registering.load(); });
    const pid_t pid = fork();
    if (pid == 0) {
      program.Run({.name = "aten::of_the_child"});
      _exit(0);
    }
    CHILD_EXPECT(WaitForExit(pid) == 0);
    WaitRecording();
    program.WaitEnabled(true);
    program.Run({.name = "aten::relu"});
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  const CaptureContents contents = CaptureWindow(*target, child);
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("aten::relu"));
  child.Tell('x');
  child.ExpectSuccess();
}

// The window opens while another thread forks, and operators are on as soon as that is over.
TEST(OperatorsForkTest, AForkThatMeetsTheWindowsBeginLosesNoOperatorAfterIt) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    static std::atomic<bool> is_forking{false};
    // The library's handlers come before and after these: it is set up later.
    pthread_atfork(
        [] {
          is_forking.store(true);
          WaitRecording();
        },
        nullptr, nullptr);
    const Program program = StartProgram({});
    std::thread forks([&] {
      parent.Await('f');
      const pid_t pid = fork();
      if (pid == 0) _exit(0);
      CHILD_EXPECT(WaitForExit(pid) == 0);
    });
    WaitUntil("the fork", [&] { return is_forking.load(); });
    parent.Tell('g');
    forks.join();
    program.WaitEnabled(true);
    program.Run({.name = "aten::relu"});
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->ArmTorch(kShapes, wire::kDefaultCaptureMemoryBytes);
  child.Tell('f');
  child.Await('g');
  capture->Fire(ByTime());
  child.Await('d');
  EXPECT_THAT(NamesOf(capture->Finish().ranges), ElementsAre("aten::relu"));
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
