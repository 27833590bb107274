// What of PyTorch a capture asks its target for, and what comes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/ingest/server_fixture.h"
#include "tests/ingest/torch_events.h"

namespace profd {
namespace {

using testing::SizeIs;

class TorchFlowTest : public TargetServerTest {
 protected:
  void StartWithTarget() {
    Start();
    target_ = std::make_unique<FakeTarget>(dir_.path());
    number_ = static_cast<TargetNumber>(target_->Register());
  }
  // ARM is sent and taken; ARMED is not.
  void ArmTarget() {
    StartWithTarget();
    ASSERT_THAT(Arm(number_, "A", sink_), IsOk());
    target_->TakeArm(target_->Expect(wire::FrameType::kArm));
  }
  void StartRecording() {
    StartWithTarget();
    target_->AnswerInBackground();
    ArmAndFire(*target_, number_, "A", {.steps = 0});
    target_->OpenWindow(0, wire::kNextStep);
  }
  static void WriteOperator(FakeThread& thread, uint64_t start, uint64_t end, uint32_t name) {
    OperatorBuilder builder(start);
    const std::vector<char> record =
        builder.Tensor(OperatorBuilder::kFloat, {64, 64}, {}, 0x1000).Record();
    thread.Write(record.data(), record.size());
    thread.WriteEvent(OperatorRange(start, end, name), wire::EventKind::kRange);
  }

  std::unique_ptr<FakeTarget> target_;
  TargetNumber number_ = 0;
};

TEST_F(TorchFlowTest, ArmTellsWhatToRecord) {
  torch_ = {.operators = OperatorMode::kNames,
            .strides = true,
            .memory = true,
            .step_source = StepSource::kDataLoader};
  ArmTarget();
  ASSERT_TRUE(target_->torch().has_value());
  const wire::ArmTorchField& field = *target_->torch();
  EXPECT_EQ(field.operators, static_cast<uint32_t>(wire::OperatorsMode::kNames));
  EXPECT_EQ(field.flags, wire::kArmTorchStrides | wire::kArmTorchMemory);
  EXPECT_EQ(field.step_source, static_cast<uint32_t>(wire::StepSource::kDataLoader));
}

TEST_F(TorchFlowTest, AutoAsksForShapes) {
  torch_ = {};
  ArmTarget();
  ASSERT_TRUE(target_->torch().has_value());
  EXPECT_EQ(target_->torch()->operators, static_cast<uint32_t>(wire::OperatorsMode::kShapes));
  EXPECT_EQ(target_->torch()->flags, 0u);
  EXPECT_EQ(target_->torch()->step_source, 0u);
}

TEST_F(TorchFlowTest, OffAsksForNothing) {
  torch_ = {.operators = OperatorMode::kOff};
  ArmTarget();
  EXPECT_FALSE(target_->torch().has_value());
}

TEST_F(TorchFlowTest, MemoryAloneIsAskedFor) {
  torch_ = {.operators = OperatorMode::kOff, .memory = true};
  ArmTarget();
  ASSERT_TRUE(target_->torch().has_value());
  EXPECT_EQ(target_->torch()->operators, static_cast<uint32_t>(wire::OperatorsMode::kOff));
  EXPECT_EQ(target_->torch()->flags, wire::kArmTorchMemory);
}

TEST_F(TorchFlowTest, ACaptureFromBeginToStatus) {
  torch_ = {};
  StartWithTarget();
  target_->AnswerInBackground();
  target_->IgnoreStop();
  ArmAndFire(*target_, number_, "A", {.steps = 0});
  const uint64_t opened = target_->OpenWindow(0, wire::kNextStep);
  FakeThread main(*target_, 1, 501);
  WriteOperator(main, opened + 1, target_->Now(), target_->Name("aten::mm"));
  server_->Stop("A");
  target_->CloseWindow(0, 0);
  // Behind the window, as the agent's thread does.
  FakeThread agent(*target_, 2, 900);
  agent.WriteEvent(Note(wire::NoteKind::kGraphBreak, 0, target_->Name("train.py:3 in f"),
                        target_->Name("print"), 0),
                   wire::EventKind::kNote);
  constexpr uint32_t kWanted = wire::kTorchPresent | wire::kTorchOperators | wire::kTorchShapes;
  wire::TorchStatusEvent status{};
  status.version_id = target_->Name("2.6.0");
  status.wanted = kWanted;
  status.recorded = kWanted;
  agent.WriteEvent(status, wire::EventKind::kTorchStatus);
  target_->SendDrained();

  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.event_count, 1);
  EXPECT_EQ(result.torch.outcome, TorchOutcome::kRecorded);
  EXPECT_EQ(result.torch.operators, OperatorMode::kShapes);
  EXPECT_EQ(result.torch.version, "2.6.0");
  EXPECT_EQ(result.torch.operator_count, 1);
  EXPECT_EQ(result.torch.tensor_use_count, 1);
  EXPECT_EQ(result.torch.note_count, 1);
  ASSERT_THAT(sink_.operators(), SizeIs(1));
  EXPECT_EQ(sink_.operators()[0].inputs.dims, "[[64,64]]");
  ASSERT_THAT(sink_.notes(), SizeIs(1));
  EXPECT_EQ(sink_.notes()[0].text, "print");
  EXPECT_EQ(Drops(result, DropReason::kInvalidRecord), 0);
  EXPECT_EQ(Drops(result, DropReason::kUnknownKind), 0);
}

TEST_F(TorchFlowTest, AProcessWithoutTorchSaysNothingOfIt) {
  torch_ = {};
  StartRecording();
  server_->Stop("A");
  EXPECT_EQ(observer_.WaitDrained("A").torch.outcome, TorchOutcome::kNoTorch);
}

TEST_F(TorchFlowTest, ATargetThatDiesKeepsItsOperatorsAndItsSecret) {
  torch_ = {};
  StartRecording();
  FakeThread main(*target_, 1, 501);
  const uint64_t now = target_->Now();
  WriteOperator(main, now, now + 1, target_->Name("aten::mm"));
  target_->CloseSocket();
  const DrainResult result = observer_.WaitDrained("A");
  EXPECT_EQ(result.torch.outcome, TorchOutcome::kUnknown);
  EXPECT_EQ(result.torch.operator_count, 1);
  EXPECT_THAT(sink_.operators(), SizeIs(1));
}

TEST_F(TorchFlowTest, DrainingMayTakeAsLongAsPythonMay) {
  options_.capture.drain_timeout = absl::ZeroDuration();
  options_.capture.torch_drain_timeout = absl::Seconds(60);
  gpu_.mode = GpuMode::kOff;
  torch_ = {.operators = OperatorMode::kNames};
  StartWithTarget();
  target_->AnswerInBackground();
  target_->IgnoreStop();
  ArmAndFire(*target_, number_, "A", {.steps = 0});
  target_->OpenWindow(0, wire::kNextStep);
  server_->Stop("A");
  target_->CloseWindow(0, 0);
  FakeThread agent(*target_, 2, 900);
  wire::TorchStatusEvent status{};
  status.recorded = wire::kTorchPresent;
  agent.WriteEvent(status, wire::EventKind::kTorchStatus);
  target_->SendDrained();
  EXPECT_EQ(observer_.WaitDrained("A").torch.outcome, TorchOutcome::kRecorded);
}

}  // namespace
}  // namespace profd
