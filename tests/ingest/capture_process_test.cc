// Captures of targets that are processes of their own, and end, stop, or become another program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>

#include "tests/ingest/server_fixture.h"
#include "tests/ingest/target_process.h"

namespace profd {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr FirePlan kWindowOfTwo{.steps = 2};

class CaptureProcessTest : public TargetServerTest {
 protected:
  void StartProcess() {
    options_.several_per_process_for_testing = false;
    Start();
    process_ = std::make_unique<TargetProcess>(dir_.path());
    number_ = OnlyTarget().number;
  }
  void ArmAndFire() {
    ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
    observer_.WaitArmed("A");
    server_->Fire("A", kWindowOfTwo);
    process_->Command("window");
  }

  std::unique_ptr<TargetProcess> process_;
  TargetNumber number_ = 0;
};

TEST_F(CaptureProcessTest, KilledWhileItArmsItCannotBeArmed) {
  StartProcess();
  process_->Kill(SIGSTOP);
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  process_->Kill(SIGKILL);
  EXPECT_THAT(observer_.WaitArmFailed("A"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended")));
}

TEST_F(CaptureProcessTest, KilledWhenArmedItHasNoWindows) {
  StartProcess();
  ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
  observer_.WaitArmed("A");
  process_->Kill(SIGKILL);
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_THAT(result.windows, IsEmpty());
  EXPECT_TRUE(result.target_gone);
  EXPECT_FALSE(result.library_gone);
}

TEST_F(CaptureProcessTest, KilledWhileItRecordsAllItWroteIsKept) {
  StartProcess();
  ArmAndFire();
  process_->Command("ranges 12345");
  process_->Command("open last");
  process_->Kill(SIGKILL);
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_TRUE(result.target_gone);
  EXPECT_EQ(result.event_count, 12346);
  EXPECT_EQ(result.open_range_count, 1);
  EXPECT_EQ(sink_.range_names().back(), "last");
  ASSERT_THAT(result.windows, SizeIs(1));
  EXPECT_FALSE(result.windows[0].complete);
  EXPECT_EQ(TotalDrops(result.drops), 0);
}

TEST_F(CaptureProcessTest, KilledBetweenStopAndDrainedItIsGone) {
  StartProcess();
  ArmAndFire();
  process_->Command("ranges 10");
  process_->Kill(SIGSTOP);
  server_->Stop("A");
  process_->Kill(SIGKILL);
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_TRUE(result.target_gone);
  EXPECT_EQ(result.event_count, 10);
}

TEST_F(CaptureProcessTest, ExecInTheMiddleEndsTheCapture) {
  StartProcess();
  ArmAndFire();
  process_->Command("ranges 10");
  process_->Command("exec");
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_TRUE(result.target_gone);
  EXPECT_TRUE(result.library_gone);
  EXPECT_EQ(result.event_count, 10);
}

TEST_F(CaptureProcessTest, AStoppedTargetDoesNotHoldUpTheCapture) {
  options_.capture.drain_timeout = absl::Milliseconds(100);
  gpu_.mode = GpuMode::kOff;
  StartProcess();
  ArmAndFire();
  process_->Command("ranges 10");
  process_->Kill(SIGSTOP);
  server_->Stop("A");
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_FALSE(result.target_gone);
  EXPECT_EQ(result.event_count, 10);
  EXPECT_THAT(Arm(number_, "B", sink_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("SIGSTOP")));
  process_->Kill(SIGCONT);
  RecordingSink sink;
  EXPECT_TRUE(Eventually([&] { return Arm(number_, "B", sink).ok(); }));
  observer_.WaitArmed("B");
}

// What its GPU or PyTorch would have left to do comes no sooner than the process goes on.
TEST_F(CaptureProcessTest, AStoppedTargetGetsNoTimeForItsGpu) {
  options_.capture.drain_timeout = absl::Milliseconds(100);
  options_.capture.gpu_drain_timeout = absl::Hours(1);
  gpu_.mode = GpuMode::kDefault;
  StartProcess();
  ArmAndFire();
  process_->Command("ranges 10");
  process_->Kill(SIGSTOP);
  server_->Stop("A");
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_TRUE(result.target_is_stopped);
  EXPECT_EQ(result.event_count, 10);
  EXPECT_EQ(result.gpu.outcome, GpuOutcome::kUnknown);
  EXPECT_THAT(result.gpu.problem, HasSubstr("SIGSTOP"));
  process_->Kill(SIGCONT);
}

TEST_F(CaptureProcessTest, AStoppedTargetThatEndsFreesItsMemory) {
  options_.capture.drain_timeout = absl::Milliseconds(100);
  gpu_.mode = GpuMode::kOff;
  ledger_.SetLimit(quota::Resource::kCaptureMemory, {.capacity = 4 << 20});
  StartProcess();
  ArmAndFire();
  process_->Kill(SIGSTOP);
  server_->Stop("A");
  observer_.WaitDrained("A");
  process_->Kill(SIGKILL);
  observer_.WaitGone(number_);
  process_ = std::make_unique<TargetProcess>(dir_.path());
  RecordingSink sink;
  EXPECT_THAT(Arm(OnlyTarget().number, "B", sink), IsOk());
  observer_.WaitArmed("B");
}

}  // namespace
}  // namespace profd
