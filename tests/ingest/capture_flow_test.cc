// Captures from ARM to RELEASE, and every way in which a target can spoil one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "tests/ingest/server_fixture.h"
#include "tests/ingest/target_process.h"

namespace profd {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using wire::FrameType;

constexpr FirePlan kByTime{};
constexpr FirePlan kTwoSteps{.steps = 2};

class CaptureFlowTest : public TargetServerTest {
 protected:
  // One target that answers in the background.
  void StartWithTarget(const FakeHello& hello = {}) {
    Start();
    target_ = std::make_unique<FakeTarget>(dir_.path());
    number_ = static_cast<TargetNumber>(target_->Register(hello));
    target_->AnswerInBackground();
  }
  void TearDown() override {
    TargetServerTest::TearDown();
    target_.reset();
  }
  DrainResult Stop(const std::string& id) {
    server_->Stop(id);
    return observer_.WaitDrained(id);
  }

  std::unique_ptr<FakeTarget> target_;
  TargetNumber number_ = 0;
};

TEST_F(CaptureFlowTest, AWindowOfStepsFromArmToRelease) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", {.base_step = 40, .steps = 2, .warmup_steps = 1});
  EXPECT_EQ(target_->plan().base_step, 40u);
  EXPECT_EQ(target_->plan().active_steps, 2u);
  EXPECT_EQ(target_->plan().warmup_steps, 1u);
  EXPECT_EQ(server_->Find(number_)->state, TargetState::kCapturing);

  FakeThread steps(*target_, 1, 501);
  steps.ThreadName("main");
  target_->SetPhase(wire::Phase::kWarmup);
  steps.Step(40, target_->Now());
  steps.Begin("warm");
  steps.End();
  const uint64_t start = target_->OpenWindow(0, 41);
  steps.Step(41, start);
  observer_.WaitPhase("A", RecordingPhase::kRecording);
  steps.Begin("forward");
  steps.Begin("matmul");
  steps.End();
  steps.End();
  steps.Instant("here");
  steps.Counter("loss", 0.5);
  steps.Memory(0x1000, 64, false, 64);
  steps.Step(42, target_->Now());
  steps.Begin("forward");
  steps.End();
  steps.Step(43, target_->CloseWindow(0, 43));
  target_->SetPhase(wire::Phase::kEnded);
  observer_.WaitPhase("A", RecordingPhase::kEnded);
  const DrainResult result = Stop("A");
  target_->WaitReleased();

  EXPECT_THAT(sink_.range_names(), ElementsAre("matmul", "forward", "forward"));
  EXPECT_EQ(sink_.threads().at(0).name, "main");
  EXPECT_EQ(sink_.threads().at(0).os_thread, 501);
  EXPECT_THAT(sink_.steps(), SizeIs(4));
  ASSERT_THAT(result.windows, SizeIs(1));
  EXPECT_TRUE(result.windows[0].complete);
  EXPECT_EQ(result.windows[0].first_step, 41);
  EXPECT_EQ(result.windows[0].end_step, 43);
  EXPECT_EQ(sink_.steps()[1].time_ns, result.windows[0].start_ns);
  EXPECT_EQ(sink_.steps()[3].time_ns, result.windows[0].end_ns);
  EXPECT_EQ(result.event_count, 6);
  EXPECT_EQ(result.warmup_event_count, 1);
  EXPECT_EQ(TotalDrops(result.drops), 0);
  EXPECT_FALSE(result.target_gone);
  EXPECT_NEAR(static_cast<double>(result.epoch_unix_ns),
              static_cast<double>(absl::GetCurrentTimeNanos()), 60e9);
  EXPECT_LT(result.clock_error_ns, 1'000'000);
  EXPECT_EQ(server_->Find(number_)->state, TargetState::kRunning);
  const auto progress = observer_.progress("A");
  EXPECT_EQ(progress.back().window, 0);
  EXPECT_EQ(progress.back().current_step, 43);
}

// It is watched from before its start until after its end.
TEST_F(CaptureFlowTest, AWindowThatBeginsAndEndsBetweenTwoLooksIsWatched) {
  if (access("/proc/thread-self/schedstat", R_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  }
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", {.base_step = 1, .steps = 1});
  FakeThread steps(*target_, 1, 501);
  steps.Step(1, target_->OpenWindow(0, 1));
  steps.Step(2, target_->CloseWindow(0, 2));
  target_->SetPhase(wire::Phase::kEnded);
  observer_.WaitPhase("A", RecordingPhase::kEnded);
  const DrainResult result = Stop("A");
  ASSERT_THAT(result.windows, SizeIs(1));
  EXPECT_GT(result.cpu.watched_ns, result.windows[0].end_ns - result.windows[0].start_ns);
  ASSERT_GE(result.cpu.samples.size(), 2u);
  EXPECT_LE(result.cpu.samples.front().time_ns, result.windows[0].start_ns);
  EXPECT_GE(result.cpu.samples.back().time_ns, result.windows[0].end_ns);
}

TEST_F(CaptureFlowTest, ATargetCanBeCapturedAgainAndAgain) {
  StartWithTarget();
  for (int i = 0; i < 20; ++i) {
    const std::string id = StrCat("C", i);
    RecordingSink sink;
    ASSERT_THAT(Arm(number_, id, sink), IsOk());
    observer_.WaitArmed(id);
    server_->Fire(id, kByTime);
    target_->WaitFired();
    target_->OpenWindow(0, wire::kNextStep);
    FakeThread thread(*target_, 1);
    thread.Instant("x");
    const DrainResult result = Stop(id);
    target_->WaitReleased();
    EXPECT_EQ(result.event_count, 1) << i;
    EXPECT_TRUE(result.windows.at(0).complete);
  }
}

// The manager, which waits for the disk now and then, does not say so.
TEST_F(CaptureFlowTest, AWindowThatHasLastedLongEnoughEndsByItself) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", {.longest_window = absl::Milliseconds(20)});
  target_->OpenWindow(0, wire::kNextStep);
  FakeThread thread(*target_, 1);
  thread.Instant("x");
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.ended_by, EndedBy::kDuration);
  EXPECT_EQ(result.event_count, 1);
  ASSERT_THAT(result.windows, SizeIs(1));
  EXPECT_GE(result.windows[0].end_ns - result.windows[0].start_ns, 20'000'000);
}

TEST_F(CaptureFlowTest, ACaptureEndsByItselfWhenItsTimeIsOver) {
  StartWithTarget();
  time_left_ = absl::Milliseconds(50);
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  observer_.WaitArmed("A");
  // It is never fired.
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.ended_by, EndedBy::kDeadline);
  EXPECT_THAT(result.windows, IsEmpty());
}

TEST_F(CaptureFlowTest, ManyChunksOfManyThreadsArriveInOrder) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  constexpr int kThreads = 4;
  constexpr int kRanges = 20'000;
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t <= kThreads; ++t) {
    threads.emplace_back([this, t] {
      FakeThread thread(*target_, t);
      for (int i = 0; i < kRanges; ++i) {
        thread.Begin("outer");
        thread.Begin("inner");
        thread.End();
        thread.End();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const DrainResult result = Stop("A");
  EXPECT_EQ(result.event_count + Drops(result, DropReason::kNoChunk), 2 * kThreads * kRanges);
  EXPECT_EQ(Drops(result, DropReason::kInvalidRecord), 0);
  EXPECT_EQ(static_cast<int64_t>(sink_.ranges().size()), result.event_count);
}

TEST_F(CaptureFlowTest, ThousandsOfThreadsComeAndGo) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  int64_t written = 0;
  for (uint32_t t = 1; t <= 3000; ++t) {
    FakeThread thread(*target_, t, t);
    thread.Begin("once");
    thread.End();
    ++written;
    thread.FinishChunk();
  }
  const DrainResult result = Stop("A");
  EXPECT_EQ(result.event_count + Drops(result, DropReason::kNoChunk), written);
  EXPECT_EQ(static_cast<int64_t>(sink_.threads().size()), result.event_count);
}

TEST_F(CaptureFlowTest, AFullMemoryIsCountedExactly) {
  options_.capture.queue_bytes = 0;  // The least there is: back-pressure at once.
  StartWithTarget();
  ASSERT_THAT(Arm(number_, "A", sink_, wire::kMinCaptureMemoryBytes), IsOk());
  observer_.WaitArmed("A");
  // Not fired: nothing is drained meanwhile, so the memory fills.
  FakeThread thread(*target_, 1);
  const int64_t room = int64_t{target_->layout().chunk_count} * (wire::kChunkDataBytes / 24);
  for (int64_t i = 0; i < room + 1234; ++i) thread.Instant("x");
  server_->Fire("A", kByTime);
  target_->WaitFired();
  const uint64_t now = target_->Now();
  target_->header().windows[0].start_ticks.store(now - 1);
  const DrainResult result = Stop("A");
  EXPECT_EQ(Drops(result, DropReason::kNoChunk), 1234);
  EXPECT_EQ(result.event_count + result.warmup_event_count + result.drops[5], room);
}

TEST_F(CaptureFlowTest, SixtyFourWindows) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", {.steps = 1, .repeat = 64}, 16 << 20);
  FakeThread thread(*target_, 1);
  for (uint32_t w = 0; w < 64; ++w) {
    thread.set_window(w);
    const uint64_t start = target_->OpenWindow(w, 2 * w);
    thread.Step(2 * w, start);
    thread.Begin("r");
    thread.End();
    thread.Step(2 * w + 1, target_->CloseWindow(w, 2 * w + 1));
    thread.FinishChunk();
  }
  target_->SetPhase(wire::Phase::kEnded);
  const DrainResult result = Stop("A");
  ASSERT_THAT(result.windows, SizeIs(64));
  for (const RecordedWindow& window : result.windows) EXPECT_TRUE(window.complete);
  EXPECT_EQ(result.event_count, 64);
  EXPECT_EQ(Drops(result, DropReason::kInvalidRecord), 0);
}

TEST_F(CaptureFlowTest, RangesOpenAtStopAreKept) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  FakeThread thread(*target_, 1);
  thread.Begin("outer");
  thread.Begin("inner");
  const DrainResult result = Stop("A");
  EXPECT_THAT(sink_.range_names(), ElementsAre("inner", "outer"));
  EXPECT_EQ(result.open_range_count, 2);
}

TEST_F(CaptureFlowTest, StoppedBeforeItFiredItHasNoWindows) {
  StartWithTarget();
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  observer_.WaitArmed("A");
  EXPECT_THAT(Stop("A").windows, IsEmpty());
  server_->Stop("A");  // Again: nothing.
  server_->Stop("no such capture");
  server_->Fire("no such capture", kByTime);
}

TEST_F(CaptureFlowTest, StoppedBeforeItArmedItHasNoWindows) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  ASSERT_THAT(Arm(number, "A", sink_), IsOk());
  server_->Stop("A");
  target.TakeArm(target.Expect(FrameType::kArm));
  target.Expect(FrameType::kStop);
  target.SendArmed();
  target.SendDrained();
  EXPECT_THAT(observer_.WaitDrained("A").windows, IsEmpty());
  target.Expect(FrameType::kRelease);
}

TEST_F(CaptureFlowTest, ATargetThatCannotArmSaysWhy) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  ASSERT_THAT(Arm(number, "A", sink_), IsOk());
  target.TakeArm(target.Expect(FrameType::kArm));
  target.Send(FrameType::kArmFailed, wire::ArmFailedBody{target.capture_number(), 1, 0});
  EXPECT_THAT(observer_.WaitArmFailed("A"), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(server_->Find(number)->state, TargetState::kRunning);
  EXPECT_THAT(Arm(number, "B", sink_), IsOk());
}

TEST_F(CaptureFlowTest, OneCaptureAtATime) {
  StartWithTarget();
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  const absl::Status second = Arm(number_, "B", sink_);
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("A")));
  EXPECT_EQ(ReasonOf(second), "TARGET_BUSY");
  EXPECT_THAT(Arm(number_ + 77, "C", sink_), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CaptureFlowTest, TheNodesCaptureMemoryIsCapped) {
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = 6 << 20});
  StartWithTarget();
  FakeTarget second(dir_.path());
  const auto other = static_cast<TargetNumber>(second.Register());
  second.AnswerInBackground();
  ASSERT_THAT(Arm(number_, "A", sink_, 4 << 20), IsOk());
  const absl::Status refused = Arm(other, "B", sink_, 4 << 20);
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("4 MiB of 6 MiB")));
  EXPECT_EQ(ReasonOf(refused), "MEMORY_CAP");
  RecordingSink sink;
  ASSERT_THAT(server_->Arm(other,
                           {.capture_id = "B",
                            .holder = holder_,
                            .memory_bytes = 4 << 20,
                            .allow_less_memory = true},
                           sink),
              IsOk());
  observer_.WaitArmed("B");
  EXPECT_EQ(second.layout().total_bytes, 2u << 20);
  EXPECT_THAT(Arm(other, "C", sink_, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Arm(other, "C", sink_, int64_t{5} << 30),
              StatusIs(absl::StatusCode::kInvalidArgument));
  observer_.WaitArmed("A");
  Stop("A");
  Stop("B");
  ASSERT_THAT(Arm(other, "D", sink_, 6 << 20), IsOk()) << "all of it is free again";
  server_->Shutdown();
}

TEST_F(CaptureFlowTest, AFailingSinkIsToldAndTheRestIsCounted) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  FakeThread thread(*target_, 1);
  sink_.FailWith(absl::ResourceExhaustedError("no space"));
  for (int i = 0; i < 5000; ++i) thread.Instant("x");
  observer_.WaitSinkFailure("A");
  const DrainResult result = Stop("A");
  EXPECT_THAT(result.sink_status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(Drops(result, DropReason::kDisk), 5000);
  EXPECT_EQ(result.event_count, 0);
}

TEST_F(CaptureFlowTest, StuckWritersAreCounted) {
  Start();
  FakeTarget target(dir_.path());
  const auto number = static_cast<TargetNumber>(target.Register());
  ASSERT_THAT(Arm(number, "A", sink_), IsOk());
  target.TakeArm(target.Expect(FrameType::kArm));
  target.SendArmed();
  observer_.WaitArmed("A");
  server_->Stop("A");
  target.Expect(FrameType::kStop);
  target.SendDrained(3);
  EXPECT_EQ(Drops(observer_.WaitDrained("A"), DropReason::kStuckWriter), 3);
}

TEST_F(CaptureFlowTest, TheServersEndEndsItsCaptures) {
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  FakeThread thread(*target_, 1);
  thread.Begin("open");
  thread.Instant("x");
  FakeTarget second(dir_.path());
  const auto arming = static_cast<TargetNumber>(second.Register());
  RecordingSink sink;
  ASSERT_THAT(Arm(arming, "B", sink), IsOk());
  server_->Shutdown();
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.event_count, 2);
  EXPECT_EQ(result.windows.size(), 1u);
  EXPECT_THAT(observer_.WaitArmFailed("B"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Arm(number_, "C", sink_), StatusIs(absl::StatusCode::kUnavailable));
}

// ---- with a GPU ----

class GpuFlowTest : public CaptureFlowTest {
 protected:
  // A target that has taken ARM and not answered.
  void ArmTarget(const ArmRequest& request) {
    Start();
    target_ = std::make_unique<FakeTarget>(dir_.path());
    number_ = static_cast<TargetNumber>(target_->Register());
    ASSERT_THAT(server_->Arm(number_, request, sink_), IsOk());
    target_->TakeArm(target_->Expect(FrameType::kArm));
  }
  static ArmRequest Request(GpuMode mode) {
    return {.capture_id = "A", .memory_bytes = 4 << 20, .gpu = {.mode = mode}};
  }
};

TEST_F(GpuFlowTest, ArmTellsWhatToRecord) {
  ArmRequest request = Request(GpuMode::kFull);
  request.gpu.buffer_bytes = 8 << 20;
  request.gpu.max_records = 12'345;
  request.gpu.detach = true;
  request.gpu.latency = true;
  request.step_marker = "train_step";
  ArmTarget(request);
  const wire::ArmBody& arm = target_->arm();
  EXPECT_EQ(arm.gpu_mode, static_cast<uint32_t>(wire::GpuMode::kFull));
  EXPECT_EQ(arm.flags, wire::kArmGpuRequired | wire::kArmGpuDetach | wire::kArmGpuLatency);
  EXPECT_EQ(arm.gpu_buffer_bytes, 8u << 20);
  EXPECT_EQ(arm.gpu_max_records, 12'345u);
  EXPECT_EQ(arm.gpu_arm_timeout_ms, 60'000u);
  EXPECT_EQ(target_->step_marker(), "train_step");
}

TEST_F(GpuFlowTest, AutoTakesWhatThereIs) {
  ArmTarget(Request(GpuMode::kAuto));
  EXPECT_EQ(target_->arm().gpu_mode, static_cast<uint32_t>(wire::GpuMode::kDefault));
  EXPECT_EQ(target_->arm().flags, 0u);
  EXPECT_EQ(target_->step_marker(), "");
}

TEST_F(GpuFlowTest, OffAsksForNothing) {
  ArmTarget(Request(GpuMode::kOff));
  EXPECT_EQ(target_->arm().gpu_mode, static_cast<uint32_t>(wire::GpuMode::kOff));
  EXPECT_EQ(target_->arm().flags, 0u);
}

TEST_F(GpuFlowTest, WhatArmingIsBusyWithIsPassedOnCleanAndNotTooOften) {
  options_.capture.arming_interval = absl::Hours(1);
  ArmTarget(Request(GpuMode::kAuto));
  target_->SendArming("attaching\x1b[2J to CUPTI, 3 s");
  for (int i = 0; i < 50; ++i) target_->SendArming("again");
  target_->SendArmed();
  observer_.WaitArmed("A");
  EXPECT_THAT(observer_.WaitActivities("A"), ElementsAre("attaching?[2J to CUPTI, 3 s"));
  EXPECT_EQ(server_->counters().stray_frames, 0);
  // Nobody waits for it any more.
  target_->SendArming("too late");
  EXPECT_TRUE(Eventually([&] { return server_->counters().stray_frames == 1; }));
}

TEST_F(GpuFlowTest, AnArmingOfAnotherCaptureOrTooShortIsStray) {
  ArmTarget(Request(GpuMode::kAuto));
  target_->Send(FrameType::kArming, wire::ArmingBody{target_->capture_number() + 1});
  target_->SendBody(static_cast<uint16_t>(FrameType::kArming), "abc", 3);
  EXPECT_TRUE(Eventually([&] { return server_->counters().stray_frames == 2; }));
}

struct GpuFailureCase {
  wire::ArmFailedReason reason;
  const char* stable;
};
class GpuFailureTest : public GpuFlowTest, public testing::WithParamInterface<GpuFailureCase> {};
TEST_P(GpuFailureTest, IsToldWithTheTargetsTextAndAStableReason) {
  ArmTarget(Request(GpuMode::kDefault));
  target_->SendArmFailed(GetParam().reason, "held by \x07nsys (pid 99); stop it.");
  const absl::Status why = observer_.WaitArmFailed("A");
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kFailedPrecondition,
                            HasSubstr("held by ?nsys (pid 99); stop it; or trace without the GPU: "
                                      "--gpu off")));
  EXPECT_EQ(ReasonOf(why), GetParam().stable);
  EXPECT_EQ(server_->Find(number_)->state, TargetState::kRunning);
}
TEST_P(GpuFailureTest, HasAnAccountAndARemedyOfItsOwn) {
  ArmTarget(Request(GpuMode::kDefault));
  target_->SendArmFailed(GetParam().reason, "");
  const absl::Status why = observer_.WaitArmFailed("A");
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--gpu off")));
  EXPECT_GT(why.message().size(), 60u);
}
INSTANTIATE_TEST_SUITE_P(
    Reasons, GpuFailureTest,
    testing::Values(GpuFailureCase{wire::ArmFailedReason::kNoCuda, "NO_CUDA"},
                    GpuFailureCase{wire::ArmFailedReason::kNoCupti, "NO_CUPTI"},
                    GpuFailureCase{wire::ArmFailedReason::kNoDriver, "NO_DRIVER"},
                    GpuFailureCase{wire::ArmFailedReason::kCuptiBusy, "CUPTI_BUSY"},
                    GpuFailureCase{wire::ArmFailedReason::kGpuTimeout, "GPU_TIMEOUT"},
                    GpuFailureCase{wire::ArmFailedReason::kGpuRefused, "GPU_REFUSED"}),
    [](const auto& each) { return std::string(each.param.stable); });

TEST_F(GpuFlowTest, StuckThreadsHaveAReasonOfTheirOwn) {
  ArmTarget(Request(GpuMode::kAuto));
  target_->SendArmFailed(wire::ArmFailedReason::kStuckWriters, "");
  const absl::Status why = observer_.WaitArmFailed("A");
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("restart the")));
  EXPECT_EQ(ReasonOf(why), "STUCK_THREADS");
}

TEST_F(GpuFlowTest, AGpuCaptureFromArmToRelease) {
  gpu_.mode = GpuMode::kDefault;
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kTwoSteps);
  FakeThread steps(*target_, 1, 501);
  FakeThread gpu(*target_, 2, 900);
  const uint64_t start = target_->OpenWindow(0, 7);
  steps.Step(7, start);
  steps.Begin("forward");
  const uint64_t launched = target_->Now();
  steps.End();
  const uint64_t end = target_->CloseWindow(0, 9);
  steps.Step(9, end);
  target_->SetPhase(wire::Phase::kEnded);
  // What CUPTI gives comes after all that; the kernel ran behind the window.
  gpu.Kernel("_Z4gemm", end + 1, end + 2, /*correlation=*/5);
  gpu.ApiCall("cudaLaunchKernel", 501, launched, launched + 1, /*correlation=*/5);
  wire::GpuStatusEvent status{};
  status.cupti_version = 130'001;
  status.flags = wire::kGpuStatusSimulated;
  status.counts[wire::kGpuNoBuffer] = 3;
  status.counts[wire::kGpuNoChunk] = 4;
  gpu.GpuStatus(status);
  target_->CountDrop(wire::kDropNoChunk, 10);
  const DrainResult result = Stop("A");

  ASSERT_THAT(sink_.api_calls(), SizeIs(1));
  EXPECT_EQ(sink_.api_calls()[0].name, "cudaLaunchKernel");
  EXPECT_EQ(sink_.api_calls()[0].thread, sink_.ranges().at(0).thread);
  ASSERT_THAT(sink_.gpu(), SizeIs(1));
  EXPECT_EQ(sink_.gpu()[0].flags, kGpuStraddlesEnd);
  EXPECT_EQ(result.gpu.outcome, GpuOutcome::kRecorded);
  EXPECT_EQ(result.gpu.mode, GpuMode::kDefault);
  EXPECT_TRUE(result.gpu.simulated);
  EXPECT_EQ(result.gpu.cupti_version, 130'001);
  EXPECT_EQ(result.event_count, 3);  // The range, the call, the kernel.
  EXPECT_EQ(Drops(result, DropReason::kGpuNoBuffer), 3);
  EXPECT_EQ(Drops(result, DropReason::kNoChunk), 10);  // Not counted twice.
}

TEST_F(GpuFlowTest, ATargetThatDiesLeavesItsGpuUnknown) {
  gpu_.mode = GpuMode::kLight;
  StartWithTarget();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  FakeThread gpu(*target_, 2, 900);
  const uint64_t now = target_->Now();
  gpu.GpuStatus({});  // As it does when it is armed.
  gpu.Kernel("_Z4gemm", now, now + 1, /*correlation=*/5);
  target_->CloseSocket();
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.gpu.outcome, GpuOutcome::kUnknown);
  EXPECT_EQ(result.gpu.mode, GpuMode::kLight);
  EXPECT_NE(result.gpu.problem, "");
  EXPECT_THAT(sink_.gpu(), SizeIs(1));
}

TEST_F(GpuFlowTest, DrainingTheGpuMayTakeLonger) {
  options_.capture.drain_timeout = absl::ZeroDuration();
  options_.capture.gpu_drain_timeout = absl::Seconds(60);
  gpu_.mode = GpuMode::kLight;
  StartWithTarget();
  target_->IgnoreStop();
  ArmAndFire(*target_, number_, "A", kByTime);
  target_->OpenWindow(0, wire::kNextStep);
  server_->Stop("A");
  // Written after STOP, before DRAINED.
  FakeThread gpu(*target_, 2, 900);
  const uint64_t now = target_->CloseWindow(0, 0);
  gpu.Kernel("_Z4gemm", now - 1, now, /*correlation=*/5);
  gpu.GpuStatus({});
  target_->SendDrained();
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.gpu.outcome, GpuOutcome::kRecorded);
  EXPECT_THAT(sink_.gpu(), SizeIs(1));
}

class CaptureHostileTest : public CaptureFlowTest {
 protected:
  void StartRecording() {
    StartWithTarget();
    ArmAndFire(*target_, number_, "A", kByTime);
    target_->OpenWindow(0, wire::kNextStep);
  }
  // After whatever was done to it, the daemon captures this and other targets as before.
  void ExpectServes() {
    FakeTarget other(dir_.path());
    const auto number = static_cast<TargetNumber>(other.Register());
    other.AnswerInBackground();
    RecordingSink sink;
    ASSERT_THAT(Arm(number, "after", sink), IsOk());
    observer_.WaitArmed("after");
    server_->Fire("after", kByTime);
    other.WaitFired();
    other.OpenWindow(0, wire::kNextStep);
    FakeThread thread(other, 1);
    thread.Instant("x");
    EXPECT_EQ(Stop("after").event_count, 1);
  }
};

TEST_F(CaptureHostileTest, AFreeListThatPointsNowhereOrInCircles) {
  StartRecording();
  for (uint32_t i = 0; i < target_->layout().chunk_count; ++i) {
    target_->control(i).next_free.store(i % 3 == 0 ? UINT32_MAX : 1);
    target_->control(i).state.store(static_cast<uint32_t>(wire::ChunkState::kFull));
  }
  target_->header().free_head.store(UINT64_MAX);
  const DrainResult result = Stop("A");
  EXPECT_GT(Drops(result, DropReason::kInvalidRecord), 0);
  EXPECT_EQ(result.event_count, 0);
  ExpectServes();
}

TEST_F(CaptureHostileTest, AHeaderThatLiesIsNotReadAgain) {
  StartRecording();
  FakeThread thread(*target_, 1);
  thread.Instant("x");
  wire::CaptureMemoryHeader& header = target_->header();
  header.total_bytes = UINT64_MAX;
  header.chunk_count = UINT32_MAX;
  header.chunks_offset = UINT64_MAX;
  header.name_area_offset = UINT64_MAX;
  header.name_capacity = UINT32_MAX;
  header.phase.store(UINT32_MAX);
  header.window_count.store(UINT32_MAX);
  header.current_step.store(UINT64_MAX);
  for (auto& drop : header.drops) drop.store(UINT64_MAX);
  header.other_name_event_count.store(UINT64_MAX);
  header.foreign_step_mark_count.store(UINT64_MAX);
  const DrainResult result = Stop("A");
  EXPECT_EQ(result.event_count, 1);
  EXPECT_GT(Drops(result, DropReason::kNoChunk), 0);
  EXPECT_GT(TotalDrops(result.drops), 0) << "no overflow";
  // What the memory holds, and one a nanosecond in the time that a test takes at most.
  const int64_t most = wire::kMaxCaptureMemoryBytes / 8 + 600'000'000'000;
  for (const int64_t count : result.drops) EXPECT_LE(count, most);
  EXPECT_LE(result.other_name_event_count, most);
  EXPECT_LE(result.foreign_step_mark_count, most);
  ExpectServes();
}

TEST_F(CaptureHostileTest, PublishedBytesAndDepthsThatLie) {
  StartRecording();
  FakeThread thread(*target_, 1);
  thread.Instant("x");
  wire::ChunkHeader& chunk = target_->chunk(*thread.chunk_index());
  chunk.published_bytes.store(UINT32_MAX);
  chunk.open_depth.store(UINT32_MAX);
  const DrainResult result = Stop("A");
  EXPECT_EQ(result.event_count, 1);
  EXPECT_EQ(Drops(result, DropReason::kInvalidRecord), 2) << "the zeros after it, and the stack";
  ExpectServes();
}

TEST_F(CaptureHostileTest, SequencesThatLie) {
  StartRecording();
  FakeThread thread(*target_, 1);
  for (const uint32_t sequence : {5u, 1000u, 4'000'000'000u, 1000u}) {
    thread.set_next_sequence(sequence);
    thread.Instant("x");
    thread.FinishChunk();
  }
  const DrainResult result = Stop("A");
  EXPECT_EQ(result.event_count, 3);
  EXPECT_EQ(Drops(result, DropReason::kInvalidRecord), 4) << "three gaps and a place taken";
  ExpectServes();
}

TEST_F(CaptureHostileTest, MemoryThatChangesWhileItIsRead) {
  StartRecording();
  std::atomic<bool> stop{false};
  std::thread liar([&] {
    // Past the header: everything a target may write, at any moment.
    auto* words = reinterpret_cast<std::atomic<uint64_t>*>(target_->memory());
    const size_t count = target_->layout().total_bytes / 8;
    uint64_t state = 88172645463325252ull;
    while (!stop) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      const size_t at = 16 + state % (count - 16);
      words[at].store(state % 5 == 0 ? (state >> 20) & 3 : state, std::memory_order_relaxed);
      auto& control =
          target_->control(static_cast<uint32_t>(state >> 33) % target_->layout().chunk_count);
      control.state.store(static_cast<uint32_t>(state >> 60) % 3, std::memory_order_relaxed);
    }
  });
  // Each time that the ingest thread wakes up, it reads all chunks that seem to be full.
  const int64_t before = server_->counters().wakeups;
  EXPECT_TRUE(Eventually([&] { return server_->counters().wakeups >= before + 300; }));
  const DrainResult result = Stop("A");
  stop = true;
  liar.join();
  EXPECT_GT(Drops(result, DropReason::kInvalidRecord), 0);
  target_.reset();
  ExpectServes();
}

TEST_F(CaptureHostileTest, AProtocolErrorInTheMiddleKeepsWhatThereIs) {
  StartRecording();
  FakeThread thread(*target_, 1);
  thread.Instant("x");
  target_->SendPacket(std::vector<std::byte>(7));
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_TRUE(result.target_gone);
  EXPECT_TRUE(result.library_gone);
  EXPECT_EQ(result.event_count, 1);
  ExpectServes();
}

// It keeps its place until its grace is over, and the ingest thread sleeps meanwhile.
TEST_F(CaptureHostileTest, ATargetThatCannotBeWrittenToKeepsNobodyBusy) {
  options_.hang_up_grace = absl::Hours(1);
  StartWithTarget();
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  observer_.WaitArmed("A");
  target_->StopReading();
  server_->Fire("A", kByTime);
  ExpectServes();  // After FIRE was handled.
  const int64_t before = server_->counters().wakeups;
  absl::SleepFor(absl::Milliseconds(300));
  // A capture that has fired is looked at every few milliseconds.
  EXPECT_LT(server_->counters().wakeups - before, 300);
}

// Each change costs the daemon more than the target.
TEST_F(CaptureHostileTest, APhaseThatChangesMoreOftenThanThePlanHasWindowsIsNotFollowed) {
  StartRecording();
  for (int i = 0; i < 50; ++i) {
    target_->SetPhase(i % 2 == 0 ? wire::Phase::kWaiting : wire::Phase::kRecording);
    // The session looks at each wake-up; the next one may have begun before the phase changed.
    const int64_t before = server_->counters().wakeups;
    ASSERT_TRUE(Eventually([&] { return server_->counters().wakeups > before + 1; }));
  }
  target_->SetPhase(wire::Phase::kEnded);
  observer_.WaitPhase("A", RecordingPhase::kEnded);
  int changes = 0;
  RecordingPhase last = RecordingPhase::kArmed;
  for (const Progress& progress : observer_.progress("A")) {
    changes += progress.phase != std::exchange(last, progress.phase);
  }
  EXPECT_LE(changes, 4);
}

}  // namespace
}  // namespace profd
