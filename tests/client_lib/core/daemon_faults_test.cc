// Daemons that die, stop, lie, or are not ours: the target goes on, and serves the next.
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using wire::FrameType;
using wire::Phase;

void StepAndAnnotate(Parent& parent) {
  for (;;) {
    parent.Await('s');
    profd_init();  // Ends the wait between two tries, which grows with each.
    profd_step();
    EmptyRange(&g_range);
    parent.Tell('s');
  }
}

// A child that marks a step and a range at each 's', and daemons to come and go before it.
class DaemonFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = std::make_unique<Child>(daemon_.directory(), [](Parent& parent) {
      profd_init();
      StepAndAnnotate(parent);
    });
  }

  void Step(int count = 1) {
    for (int i = 0; i < count; ++i) {
      child_->Tell('s');
      child_->Await('s');
    }
  }

  // The target's next connection; each step has it look again.
  std::unique_ptr<FakeTarget> AcceptNext() {
    WaitUntil("the target", [&] {
      Step();
      return daemon_.HasCaller();
    });
    return daemon_.Accept();
  }

  // The target works: it registers and a whole capture of it is right.
  void ExpectServesNextCapture() {
    auto target = AcceptNext();
    target->ReadHello();
    target->SendWelcome();
    ExpectCaptureWorks(*target);
  }
  void ExpectCaptureWorks(FakeTarget& target) {
    auto capture = target.Arm();
    capture->Fire(Steps(2));
    capture->WaitPhase(Phase::kWaiting);
    Step(3);
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(contents.phase, Phase::kEnded);
    EXPECT_EQ(contents.ranges.size(), 2u);
    EXPECT_EQ(contents.steps.size(), 3u);
    EXPECT_EQ(contents.dropped(), 0u);
  }

  FakeDaemon daemon_;
  std::unique_ptr<Child> child_;
};

TEST_F(DaemonFaultsTest, TheDaemonDiesBeforeWelcome) {
  AcceptNext().reset();
  Step(3);
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, TheDaemonDiesWhileNothingGoesOn) {
  daemon_.WaitTarget().reset();
  Step(3);
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, TheDaemonDiesInEachStateOfACapture) {
  for (const Phase phase :
       {Phase::kArmed, Phase::kWaiting, Phase::kWarmup, Phase::kRecording, Phase::kEnded}) {
    auto target = AcceptNext();
    target->ReadHello();
    target->SendWelcome();
    auto capture = target->Arm();
    if (phase != Phase::kArmed) {
      capture->Fire(Steps(/*active=*/2, /*warmup=*/1, /*wait=*/1));
      capture->WaitPhase(Phase::kWaiting);
    }
    for (int i = 0; capture->phase() != phase && i < 10; ++i) Step();
    EXPECT_EQ(capture->phase(), phase);
    capture.reset();
    target.reset();
    Step(3);
  }
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, TheDaemonDiesAfterStop) {
  auto target = daemon_.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  Step(2);
  capture->Stop();
  capture.reset();
  target.reset();
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, TheDaemonIsRestartedElsewhereInTheSameDirectory) {
  auto first = daemon_.WaitTarget();
  FakeDaemon second(daemon_.directory());  // Takes the path over.
  first.reset();
  Step();
  auto target = second.WaitTarget();
  ExpectCaptureWorks(*target);
}

TEST_F(DaemonFaultsTest, ManyConnectionsThatDieAtOnce) {
  for (int i = 0; i < 10; ++i) AcceptNext().reset();
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, FramesOfUnknownTypeAreSkipped) {
  auto target = daemon_.WaitTarget();
  const char body[100] = {};
  for (const uint16_t type : {uint16_t{0}, uint16_t{12}, uint16_t{999}, uint16_t{65535}}) {
    target->SendBytes(static_cast<FrameType>(type), body, sizeof(body));
    target->SendBytes(static_cast<FrameType>(type), nullptr, 0);
  }
  // A target's own frames mean nothing to it either.
  target->SendBytes(FrameType::kHello, body, sizeof(body));
  target->SendBytes(FrameType::kDrained, body, sizeof(body));
  ExpectCaptureWorks(*target);
}

TEST_F(DaemonFaultsTest, LongerBodiesAreRead) {
  auto target = daemon_.Accept();
  target->ReadHello();
  target->SendWelcome();
  auto capture = std::make_unique<FakeCapture>(*target, 9, wire::kDefaultCaptureMemoryBytes);
  struct {
    wire::ArmBody arm;
    char later[32];
  } longer{{9, wire::kDefaultCaptureMemoryBytes, 0, 0, 0}, {}};
  target->Send(FrameType::kArm, longer, capture->fd());
  EXPECT_EQ(target->Expect(FrameType::kArmed).As<wire::ArmedBody>().capture_number, 9u);
}

// Each entry makes one mistake that ends the connection.
TEST_F(DaemonFaultsTest, WrongFramesEndTheConnection) {
  const wire::FireBody plan = Steps(1);
  const std::vector<std::function<void(FakeTarget&)>> mistakes = {
      [](FakeTarget& target) { target.SendRaw("x", 1); },
      [](FakeTarget& target) { target.SendRaw("short header", 12); },
      [](FakeTarget& target) {
        wire::FrameHeader header{0x12345678, 8, 0, sizeof(header), 0};
        target.SendRaw(&header, sizeof(header));
      },
      [](FakeTarget& target) {
        wire::FrameHeader header{wire::kFrameMagic, 8, 0, sizeof(header) + 1, 0};
        target.SendRaw(&header, sizeof(header));
      },
      [](FakeTarget& target) {
        wire::FrameHeader header{wire::kFrameMagic, 8, 0, 0xffffffff, 0};
        target.SendRaw(&header, sizeof(header));
      },
      [](FakeTarget& target) {
        std::vector<char> huge(wire::kMaxFrameBytes + 8);
        wire::FrameHeader header{wire::kFrameMagic, 99, 0, static_cast<uint32_t>(huge.size()), 0};
        memcpy(huge.data(), &header, sizeof(header));
        target.SendRaw(huge.data(), huge.size());
      },
      [](FakeTarget& target) { target.SendWelcome(); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kArm, "short", 5); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kFire, "short", 5); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kStop, "short", 5); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kRelease, "short", 5); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kRefuse, "short", 5); },
      [](FakeTarget& target) { target.Send(FrameType::kArm, wire::ArmBody{}); },  // Capture 0.
      [&](FakeTarget& target) {
        auto capture = target.Arm();
        wire::FireBody wrong = plan;
        wrong.repeat = 0;
        capture->Fire(wrong);
        target.ExpectClosed();
      },
      [&](FakeTarget& target) {
        auto capture = target.Arm();
        wire::FireBody wrong = plan;
        wrong.repeat = wire::kMaxWindows + 1;
        capture->Fire(wrong);
        target.ExpectClosed();
      },
      [&](FakeTarget& target) {
        auto capture = target.Arm();
        wire::FireBody wrong = plan;
        wrong.active_steps = UINT64_MAX;
        capture->Fire(wrong);
        target.ExpectClosed();
      },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    SCOPED_TRACE("mistake " + std::to_string(i));
    auto target = AcceptNext();
    target->ReadHello();
    target->SendWelcome();
    mistakes[i](*target);
    target->ExpectClosed();
  }
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, WelcomesThatAreNotWelcome) {
  const std::vector<std::function<void(FakeTarget&)>> mistakes = {
      [](FakeTarget& target) { target.SendWelcome(/*version=*/2); },
      [](FakeTarget& target) { target.SendWelcome(/*version=*/0); },
      [](FakeTarget& target) { target.SendBytes(FrameType::kWelcome, "short", 5); },
      [](FakeTarget& target) {  // No page.
        target.Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1});
      },
      [](FakeTarget& target) {  // Not a page.
        const int fd = MakeSealedMemfd("wrong", wire::kStatusPageBytes);
        target.Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1}, fd);
        close(fd);
      },
      [](FakeTarget& target) {  // Half a page.
        const int fd = MakeSealedMemfd("wrong", 2048);
        target.Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1}, fd);
        close(fd);
      },
      [](FakeTarget& target) {  // A page that may shrink under us.
        const int fd = memfd_create("wrong", MFD_CLOEXEC);
        ASSERT_EQ(ftruncate(fd, wire::kStatusPageBytes), 0);
        target.Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1}, fd);
        close(fd);
      },
      [](FakeTarget& target) {  // Not memory at all.
        target.Send(FrameType::kWelcome, wire::WelcomeBody{1, 0, 0, 1}, STDERR_FILENO);
      },
      [](FakeTarget& target) {
        target.Send(FrameType::kArm,
                    wire::ArmBody{.capture_number = 1, .memory_bytes = 1, .prefault_bytes = 1});
      },
      [](FakeTarget& target) { target.Send(FrameType::kStop, wire::StopBody{1}); },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    SCOPED_TRACE("mistake " + std::to_string(i));
    auto target = AcceptNext();
    target->ReadHello();
    mistakes[i](*target);
    target->ExpectClosed();
  }
  ExpectServesNextCapture();
}

TEST_F(DaemonFaultsTest, MemoryThatIsNotAsItMustBeIsRefused) {
  auto target = daemon_.WaitTarget();
  const auto expect_failed = [&](const wire::ArmBody& arm, int fd) {
    target->Send(FrameType::kArm, arm, fd);
    const auto failed = target->Expect(FrameType::kArmFailed).As<wire::ArmFailedBody>();
    EXPECT_EQ(failed.capture_number, arm.capture_number);
    EXPECT_EQ(failed.reason, static_cast<uint32_t>(wire::ArmFailedReason::kMemory));
  };
  constexpr uint64_t kBytes = wire::kMinCaptureMemoryBytes;
  FakeCapture good(*target, 5, kBytes);
  expect_failed({5, kBytes, 0, 0, 0}, -1);
  expect_failed({5, kBytes, 0, 0, 0}, STDERR_FILENO);
  expect_failed({5, kBytes * 2, 0, 0, 0}, good.fd());
  expect_failed({5, kBytes - wire::kChunkBytes, 0, 0, 0}, good.fd());
  expect_failed({5, 0, 0, 0, 0}, good.fd());
  expect_failed({5, UINT64_MAX, 0, 0, 0}, good.fd());
  expect_failed({6, kBytes, 0, 0, 0}, good.fd());  // Another capture's.
  const auto expect_refused_with = [&](const std::function<void(FakeCapture&)>& spoil) {
    FakeCapture spoilt(*target, 5, kBytes);
    spoil(spoilt);
    expect_failed({5, kBytes, 0, 0, 0}, spoilt.fd());
  };
  expect_refused_with([](FakeCapture& capture) { capture.header().magic = 0; });
  expect_refused_with([](FakeCapture& capture) { capture.header().version = 2; });
  expect_refused_with([](FakeCapture& capture) { capture.header().chunk_count += 1; });
  expect_refused_with([](FakeCapture& capture) { capture.header().chunk_bytes = 1; });
  expect_refused_with([](FakeCapture& capture) { capture.header().chunks_offset -= 4096; });
  expect_refused_with([](FakeCapture& capture) { capture.header().name_capacity = 1u << 31; });
  expect_refused_with([](FakeCapture& capture) { capture.header().name_index_offset = 0; });
  const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(unsealed, kBytes), 0);
  expect_failed({5, kBytes, 0, 0, 0}, unsealed);
  close(unsealed);
  ExpectCaptureWorks(*target);
}

TEST_F(DaemonFaultsTest, ASecondCaptureIsBusyAndTheFirstGoesOn) {
  auto target = daemon_.WaitTarget();
  auto first = target->Arm();
  FakeCapture second(*target, 77, wire::kMinCaptureMemoryBytes);
  target->Send(FrameType::kArm,
               wire::ArmBody{.capture_number = 77, .memory_bytes = wire::kMinCaptureMemoryBytes},
               second.fd());
  const auto failed = target->Expect(FrameType::kArmFailed).As<wire::ArmFailedBody>();
  EXPECT_EQ(failed.capture_number, 77u);
  EXPECT_EQ(failed.reason, static_cast<uint32_t>(wire::ArmFailedReason::kBusy));
  // Frames about captures that are not live are ignored.
  second.Fire(ByTime());
  target->Send(FrameType::kStop, wire::StopBody{77});
  target->Send(FrameType::kRelease, wire::ReleaseBody{77});
  first->Fire(Steps(1));
  first->WaitPhase(Phase::kWaiting);
  Step(2);
  EXPECT_EQ(first->Finish().ranges.size(), 1u);
  EXPECT_EQ(second.phase(), Phase::kIdle);
  ExpectCaptureWorks(*target);
}

TEST_F(DaemonFaultsTest, StopTwiceAndReleaseWithoutStop) {
  auto target = daemon_.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
  EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
  capture->Release();
  capture = target->Arm();
  capture->Fire(ByTime());
  Step();
  capture->Release();
  ExpectCaptureWorks(*target);
}

TEST_F(DaemonFaultsTest, ADisjointVersionRangeIsTakenCalmly) {
  auto target = daemon_.Accept();
  target->ReadHello();
  target->Send(FrameType::kRefuse,
               wire::RefuseBody{static_cast<uint32_t>(wire::RefuseReason::kVersion), 7, 9});
  target->ExpectClosed();
  Step(3);
  target.reset();
  ExpectServesNextCapture();  // The daemon may have been replaced by one that knows us.
}

TEST(DaemonFilesTest, FilesThatComeWithFramesAreClosed) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    parent.Tell('c');
    parent.Await('b');
    const std::string agent = ThreadDirectory("profd");
    const int before = CountOpenFilesOf(agent);
    parent.Tell('b');
    parent.Await('e');
    CHILD_EXPECT(CountOpenFilesOf(agent) <= before);
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  target->Arm()->Finish();
  child.Tell('b');
  child.Await('b');
  for (int i = 0; i < 20; ++i) {
    target->SendBytes(static_cast<FrameType>(500), "body", 4, STDERR_FILENO);
    target->Send(FrameType::kStop, wire::StopBody{99}, STDERR_FILENO);
  }
  target->Arm()->Finish();
  target->Arm()->Finish();
  child.Tell('e');
  child.ExpectSuccess();
}

// ---- A daemon that is there but does not answer.

TEST(StoppedDaemonTest, NothingWaitsForADaemonThatReadsNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    parent.Tell('c');
    // More than the socket holds: the agent must not let this through to the callers.
    const std::string value(255, 'v');
    for (int i = 0; i < 20'000; ++i) {
      profd_set_metadata("big", (std::to_string(i) + value.substr(10)).c_str());
      profd_step();
      EmptyRange(&g_range);
    }
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Await('d');  // Came although nothing was read.
  EXPECT_GE(target->status_page().step_mark_count.load(), 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StoppedDaemonTest, ACaptureOfAStoppedDaemonFillsUpAndDrops) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    WaitRecording();
    for (int i = 0; i < 100'000; ++i) EmptyRange(&g_range);
    profd_step();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm(wire::kMinCaptureMemoryBytes);
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();  // It was continued.
  EXPECT_EQ(contents.ranges.size() + contents.drops[wire::kDropNoChunk], 100'000u + 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StoppedDaemonTest, ASocketThatNobodyAcceptsFromHoldsNobodyUp) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent&) {
    profd_init();
    for (int i = 0; i < 1'000; ++i) {
      profd_step();
      EmptyRange(&g_range);
    }
    CHILD_EXPECT(profd_step_count() == 1'000);
  });
  child.ExpectSuccess();
}

TEST(StoppedDaemonTest, AProcessThatIsStoppedItselfIsServedAfterwards) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    StepAndAnnotate(parent);
  });
  auto target = daemon.WaitTarget();
  child.Signal(SIGSTOP);
  auto capture = std::make_unique<FakeCapture>(*target, 3, wire::kMinCaptureMemoryBytes);
  target->Send(FrameType::kArm,
               wire::ArmBody{.capture_number = 3, .memory_bytes = wire::kMinCaptureMemoryBytes},
               capture->fd());
  child.Signal(SIGCONT);
  EXPECT_EQ(target->Expect(FrameType::kArmed).As<wire::ArmedBody>().capture_number, 3u);
}

// ARM, STOP and RELEASE lie in the socket when the process runs again: STOP is answered, though
// the GPU's part had no time to end by itself.
TEST(StoppedDaemonTest, AStopIsAnsweredAlsoIfReleaseCameWithIt) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    StepAndAnnotate(parent);
  });
  auto target = daemon.WaitTarget();
  child.Signal(SIGSTOP);
  auto capture = std::make_unique<FakeCapture>(*target, 3, wire::kMinCaptureMemoryBytes);
  target->Send(FrameType::kArm,
               wire::ArmBody{.capture_number = 3,
                             .memory_bytes = wire::kMinCaptureMemoryBytes,
                             .gpu_mode = static_cast<uint32_t>(wire::GpuMode::kDefault)},
               capture->fd());
  target->Send(FrameType::kStop, wire::StopBody{3});
  target->Send(FrameType::kRelease, wire::ReleaseBody{3});
  child.Signal(SIGCONT);
  // It may have been armed before it stopped, or before it came to STOP.
  const auto drained = target->ExpectAfter(FrameType::kArmed, FrameType::kDrained);
  EXPECT_EQ(drained.As<wire::DrainedBody>().capture_number, 3u);
}

// ---- Sockets of somebody else.

TEST(ForeignDaemonTest, ASocketOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to listen as another user";
  constexpr uid_t kOther = 65534;
  FakeDaemon foreign;
  const std::string socket = foreign.directory() + "/agent/agent.sock";
  ASSERT_EQ(chown(socket.c_str(), kOther, kOther), 0);
  FakeDaemon own;
  Child child(foreign.directory(), [&](Parent& parent) {
    profd_init();
    profd_step();
    parent.Await('x');
    WaitConnected();
    parent.Await('x');
  });
  // Its turn comes only once the socket is root's again.
  EXPECT_FALSE(foreign.HasCaller());
  ASSERT_EQ(chown(socket.c_str(), 0, 0), 0);
  child.Tell('x');
  auto target = foreign.WaitTarget();
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(ForeignDaemonTest, AListenerOfAnotherUserIsNotUsed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to listen as another user";
  constexpr uid_t kOther = 65534;
  FakeDaemon place;  // For its directory; the listener is replaced.
  const std::string agent = place.directory() + "/agent";
  ASSERT_EQ(chmod(place.directory().c_str(), 0777), 0);
  ASSERT_EQ(chmod(agent.c_str(), 0777), 0);
  ASSERT_EQ(unlink((agent + "/agent.sock").c_str()), 0);
  Child listener("/nonexistent", [&](Parent& parent) {
    if (setgroups(0, nullptr) != 0 || setgid(kOther) != 0 || setuid(kOther) != 0) _exit(3);
    FakeDaemon daemon(place.directory());
    parent.Tell('l');
    // Whoever connects hangs up without a word.
    auto target = daemon.Accept();
    target->ExpectClosed();
    parent.Tell('h');
    parent.Await('x');
  });
  listener.Await('l');
  // The path is made to look like root's; the kernel still knows who listens.
  ASSERT_EQ(chown((agent + "/agent.sock").c_str(), 0, 0), 0);
  Child child(place.directory(), [&](Parent& parent) {
    profd_init();
    parent.Await('x');
    CHILD_EXPECT(Status().connected == 0);
  });
  listener.Await('h');
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
