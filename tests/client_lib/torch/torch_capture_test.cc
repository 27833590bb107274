// PyTorch's part in a capture, and the collector: what Python is asked, and what becomes of its
// answers.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/session.h"
#include "client_lib/core/torch_hooks.h"
#include "client_lib/torch/periodicity.h"
#include "client_lib/torch/torch_api.h"
#include "client_lib/torch/torch_part.h"
#include "tests/client_lib/torch/torch_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using wire::OperatorsMode;
using wire::Phase;

constexpr auto kUnknown = static_cast<uint16_t>(wire::MemoryCategory::kUnknown);
constexpr auto kParameter = static_cast<uint16_t>(wire::MemoryCategory::kParameter);
constexpr auto kGraphBreak = static_cast<uint16_t>(wire::NoteKind::kGraphBreak);
constexpr auto kRegion = static_cast<uint16_t>(wire::NoteKind::kCompiledRegion);

// The child's collector. Says each answer of profd_torch_wait() to the test, as a letter (A, C, I),
// in what order they come; `collect` is what it does when asked.
void StartCollector(const std::function<void()>& collect) {
  static std::function<void()> body;
  static std::atomic<int> stage;
  body = collect;
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        for (;;) {
          uint32_t wanted = 0;
          switch (profd_torch_wait(&wanted)) {
            case PROFD_TORCH_ARMED:
              CHILD_EXPECT(stage == 0 && (wanted & wire::kTorchBlocks) != 0);
              stage = 1;
              break;
            case PROFD_TORCH_COLLECT:
              CHILD_EXPECT(stage <= 1);
              stage = 2;
              body();
              break;
            case PROFD_TORCH_IDLE:
              CHILD_EXPECT(stage != 0);
              stage = 0;
              break;
            default:
              return nullptr;
          }
        }
      },
      nullptr);
  while ((profd_torch_features() & wire::kTorchBlocks) == 0) PauseForPoll();
}

class TorchCaptureTest : public TorchTest {
 protected:
  std::unique_ptr<FakeCapture> ArmForMemory() {
    return target_->ArmTorch(Wants(OperatorsMode::kOff, wire::kArmTorchMemory));
  }
};

TEST_F(TorchCaptureTest, WithoutTheFieldTorchHasNoPart) {
  StartChild();
  auto capture = target_->Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Do("w");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("work"), 1u);
  EXPECT_THAT(contents.torch_statuses, IsEmpty());
  EXPECT_THAT(contents.notes, IsEmpty());
}

TEST_F(TorchCaptureTest, WithoutTorchTheFieldChangesNothing) {
  StartChild([] {});
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kShapes, wire::kArmTorchMemory));
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Do("w");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("work"), 1u);
  EXPECT_THAT(contents.torch_statuses, IsEmpty());
}

TEST_F(TorchCaptureTest, TheStatusSaysWhatWasWantedAndANoteWhyItIsNotThere) {
  StartChild([] { AttachFakeTorch("1.13.1+cpu"); });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kNames));
  const CaptureContents contents = capture->Finish();
  const wire::TorchStatusEvent& status = contents.torch_status();
  EXPECT_EQ(status.recorded, uint32_t{wire::kTorchPresent | wire::kTorchSteps});
  // torch.compile came with 2.0.
  EXPECT_EQ(status.wanted,
            uint32_t{wire::kTorchPresent | wire::kTorchSteps | wire::kTorchOperators |
                     wire::kTorchScopes | wire::kTorchSequences | wire::kTorchThreads |
                     wire::kTorchForwardThreads});
  EXPECT_THAT(
      MissingOf(contents),
      UnorderedElementsAre(Key("operators"), Key("scopes of operators"), Key("sequence numbers"),
                           Key("torch's thread numbers"), Key("forward threads")));
}

TEST_F(TorchCaptureTest, ATorchOfWhichNothingWorksIsNone) {
  StartChild([] { client::torch::JoinCore("9.9"); },
             [](char, Parent&) { CHILD_EXPECT(profd_torch_features() == 0); });
  Do("f");
  const CaptureContents contents = target_->ArmTorch(Wants(OperatorsMode::kOff))->Finish();
  EXPECT_EQ(contents.torch_status().recorded, 0u);
  EXPECT_THAT(MissingOf(contents), UnorderedElementsAre(Key("torch"), Key("steps")));
}

TEST_F(TorchCaptureTest, ATorchThatComesWhileACaptureIsArmedHasItsPart) {
  StartChild([] {}, [](char, Parent&) { AttachFakeTorch(); });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  Do("t");
  capture->Fire(Steps(1));
  capture->WaitPhase(Phase::kWaiting);
  Do("AA");
  const CaptureContents contents = capture->Finish();
  ASSERT_THAT(contents.torch_statuses, SizeIs(1));
  EXPECT_TRUE(contents.torch_status().recorded & wire::kTorchSteps);
}

// The wake-up goes through the library's helper thread. On a loaded machine FIRE and STOP may come
// first; here it never comes.
TEST_F(TorchCaptureTest, ATorchThatCameBeforeTheWindowHasItsPartWhateverBecomesOfTheWakeUp) {
  StartChild(
      [] {
        AttachFakeTorch();
        client::g_torch_hooks.store(nullptr);
      },
      [](char, Parent&) { client::g_torch_hooks.store(&client::torch::Hooks()); });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  Do("t");
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  const CaptureContents contents = capture->Finish();
  ASSERT_THAT(contents.torch_statuses, SizeIs(1));
  EXPECT_TRUE(contents.torch_status().recorded & wire::kTorchSteps);
}

// Loses an event between the flag and the phase that the daemon sees.
void LoseAnEventAsTheFlagGoesOn() {
  client::Session* const session = client::g_hot.session.load();
  const bool on = client::g_hot.flag.load() != client::kFlagOff;
  if (session != nullptr && on) session->CountDrop(wire::kDropTooDeep);
}

TEST_F(TorchCaptureTest, AnEventThatIsLostAsTheWindowOpensIsLostInIt) {
  static constexpr client::TorchHooks kHooks = {.on_arm = [](const wire::ArmTorchField&) {},
                                                .on_flag = LoseAnEventAsTheFlagGoesOn,
                                                .on_stop = [] {},
                                                .is_ready = [] { return true; },
                                                .write_behind = [](client::Session*) {},
                                                .on_leave = [] {},
                                                .reset_in_child = [] {}};
  StartChild([] { client::g_torch_hooks.store(&kHooks); });
  auto capture = target_->Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.drops[wire::kDropTooDeep], 1u);
  EXPECT_EQ(contents.warmup_drops[wire::kDropTooDeep], 0u);
}

TEST_F(TorchCaptureTest, TheCollectorSaysWhoOwnsWhat) {
  StartChild([] {
    AttachFakeTorch();
    StartCollector([] {
      profd_torch_block(0x1000, 256, 0, -1, kParameter, "layers.0.weight");
      profd_torch_block(0x2000, 512, 1, 3, kParameter, nullptr);
      profd_torch_block(0x3000, 64, 0, 0, kUnknown, nullptr);
      profd_torch_note(kRegion, "0/1", "train.py:19 in f", 7);
      profd_torch_done();
    });
  });
  for (int capture_count = 0; capture_count < 3; ++capture_count) {
    const CaptureContents contents = ArmForMemory()->Finish();
    ASSERT_EQ(contents.blocks.size(), 3u);
    EXPECT_EQ(contents.blocks[0].name, "layers.0.weight");
    EXPECT_EQ(contents.blocks[0].event.address, 0x1000u);
    EXPECT_EQ(contents.blocks[0].event.bytes, 256);
    EXPECT_EQ(contents.blocks[0].event.category, kParameter);
    EXPECT_EQ(contents.blocks[0].event.device_index, 0);
    EXPECT_EQ(contents.blocks[1].name, "");
    EXPECT_EQ(contents.blocks[1].event.device_type, 1);
    EXPECT_EQ(contents.blocks[1].event.device_index, 3);
    EXPECT_EQ(contents.blocks[2].event.category, kUnknown);
    EXPECT_EQ(contents.blocks[2].event.bytes, 64);
    const auto region = std::find_if(contents.notes.begin(), contents.notes.end(),
                                     [](const auto& note) { return note.event.kind == kRegion; });
    ASSERT_NE(region, contents.notes.end());
    EXPECT_EQ(region->subject, "0/1");
    EXPECT_EQ(region->text, "train.py:19 in f");
    EXPECT_EQ(region->event.value, 7);
    EXPECT_EQ(region->event.time_ticks, 0u);
    EXPECT_TRUE(contents.torch_status().recorded & wire::kTorchBlocks);
    EXPECT_EQ(contents.torch_status().counts[wire::kTorchLostNotes], 0u);
  }
}

TEST_F(TorchCaptureTest, BlocksThatAreNoneAreNotKept) {
  StartChild([] {
    AttachFakeTorch();
    StartCollector([] {
      constexpr auto kActivation = static_cast<uint16_t>(wire::MemoryCategory::kActivation);
      profd_torch_block(0x1000, -1, 0, 0, kParameter, "negative");
      profd_torch_block(0x1000, 1, 2, 0, kParameter, "of no device");
      profd_torch_block(0x1000, 1, 1, -1, kParameter, "of no GPU");
      profd_torch_block(0x1000, 1, 0, 0, kActivation, "of no owner");
      profd_torch_note(0, "no kind", nullptr, 0);
      profd_torch_note(wire::kMaxNoteKind + 1, "no kind", nullptr, 0);
      profd_torch_done();
      profd_torch_block(0x1000, 1, 0, 0, kParameter, "too late, perhaps");
    });
  });
  const CaptureContents contents = ArmForMemory()->Finish();
  for (const auto& block : contents.blocks) EXPECT_EQ(block.name, "too late, perhaps");
  for (const auto& note : contents.notes) EXPECT_NE(note.subject, "no kind");
}

TEST_F(TorchCaptureTest, BlocksBeyondTheRoomAreCounted) {
  constexpr uint32_t kRoom = 65536;
  StartChild([] {
    AttachFakeTorch();
    StartCollector([] {
      for (uint32_t i = 0; i < kRoom + 10; ++i) {
        profd_torch_block(i, 8, 0, 0, kParameter, nullptr);
      }
      profd_torch_done();
    });
  });
  const CaptureContents contents = ArmForMemory()->Finish();
  EXPECT_EQ(contents.blocks.size(), kRoom);
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchLostNotes], 10u);
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(TorchCaptureTest, ACollectorThatDoesNotAnswerIsNotWaitedFor) {
  StartChild([] {
    AttachFakeTorch();
    StartCollector([] { profd_torch_block(0x1000, 8, 0, 0, kParameter, "said in time"); });
  });
  const CaptureContents contents = ArmForMemory()->Finish();
  ASSERT_EQ(contents.blocks.size(), 1u);
  EXPECT_FALSE(contents.torch_status().recorded & wire::kTorchBlocks);
  EXPECT_EQ(MissingOf(contents)["owners of memory"], "Python did not answer in time");
}

TEST_F(TorchCaptureTest, WithoutACollectorOwnersAreMissingByName) {
  StartChild();
  const CaptureContents contents = ArmForMemory()->Finish();
  EXPECT_THAT(MissingOf(contents)["owners of memory"], HasSubstr("no Python package"));
}

TEST_F(TorchCaptureTest, ACollectorThatComesBehindArmIsAskedAllTheSame) {
  StartChild([] { AttachFakeTorch(); },
             [](char, Parent&) { StartCollector([] { profd_torch_done(); }); });
  auto capture = ArmForMemory();
  Do("t");
  EXPECT_TRUE(capture->Finish().torch_status().recorded & wire::kTorchBlocks);
}

TEST_F(TorchCaptureTest, WhereNobodyAsksForOwnersTheCollectorSleeps) {
  StartChild([] {
    AttachFakeTorch();
    StartCollector([] { CHILD_EXPECT(false); });
  });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff));
  EXPECT_FALSE(capture->Finish().torch_status().wanted & wire::kTorchBlocks);
}

TEST_F(TorchCaptureTest, ADaemonThatGoesAwayLeavesTheCollectorIdle) {
  StartChild(
      [] {
        AttachFakeTorch();
        StartCollector([] { profd_torch_done(); });
      },
      [](char, Parent&) { WaitConnected(); });
  auto capture = ArmForMemory();
  capture.reset();
  target_.reset();
  target_ = daemon_.WaitTarget();
  child_->Tell('r');
  child_->Await('r');
  // The next capture is a new one for it: StartCollector() holds it against the order.
  EXPECT_TRUE(ArmForMemory()->Finish().torch_status().recorded & wire::kTorchBlocks);
}

TEST_F(TorchCaptureTest, AReleaseBeforeTheCollectorHasAnsweredEndsTheWait) {
  static std::atomic<bool> may_answer;
  StartChild(
      [] {
        AttachFakeTorch();
        StartCollector([] {
          while (!may_answer) PauseForPoll();
          profd_torch_block(0x1000, 8, 0, 0, kParameter, "weight");
          profd_torch_done();
        });
      },
      [](char, Parent&) { may_answer = true; });
  {
    auto capture = ArmForMemory();
    target_->Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
    target_->Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
    target_->Send(wire::FrameType::kRelease, wire::ReleaseBody{capture->number()});
    target_->Expect(wire::FrameType::kDrained);
  }
  Do("t");
  const CaptureContents contents = ArmForMemory()->Finish();
  // Of this capture alone.
  EXPECT_EQ(contents.blocks.size(), 1u);
  EXPECT_TRUE(contents.torch_status().recorded & wire::kTorchBlocks);
}

TEST_F(TorchCaptureTest, AFieldThatIsTooShortIsNone) {
  StartChild();
  for (const size_t bytes : {sizeof(wire::ArmTorchField) - 1, sizeof(wire::ArmTorchField) + 8}) {
    FakeCapture capture(*target_, 77, wire::kDefaultCaptureMemoryBytes);
    const wire::ArmBody arm{.capture_number = 77,
                            .memory_bytes = wire::kDefaultCaptureMemoryBytes,
                            .prefault_bytes = 0};
    const wire::FieldHeader field{static_cast<uint16_t>(wire::FieldTag::kTorch),
                                  static_cast<uint16_t>(bytes)};
    std::string body(reinterpret_cast<const char*>(&arm), sizeof(arm));
    body.append(reinterpret_cast<const char*>(&field), sizeof(field)).append(bytes, '\0');
    target_->SendBytes(wire::FrameType::kArm, body.data(), body.size(), capture.fd());
    target_->ExpectArmed(capture);
    // A longer one is that of a newer daemon.
    const size_t statuses = bytes < sizeof(wire::ArmTorchField) ? 0 : 1;
    EXPECT_EQ(capture.Finish().torch_statuses.size(), statuses);
  }
}

TEST_F(TorchCaptureTest, ANoteInTheWindowIsOfItsMoment) {
  StartChild(
      [] { AttachFakeTorch(); },
      [](char, Parent&) { profd_torch_note(kGraphBreak, "train.py:19 in f", "print()", -1); });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kNames));
  Do("n");  // Armed, but nothing records: not kept.
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Do("n");
  const CaptureContents contents = capture->Finish();
  std::vector<std::string> breaks;
  for (const auto& note : contents.notes) {
    if (note.event.kind != kGraphBreak) continue;
    breaks.push_back(note.subject + ": " + note.text);
    EXPECT_GE(note.event.time_ticks, contents.windows[0].start_ticks);
    EXPECT_LE(note.event.time_ticks, contents.windows[0].end_ticks);
    EXPECT_EQ(note.event.value, -1);
  }
  EXPECT_THAT(breaks, ElementsAre("train.py:19 in f: print()"));
}

TEST_F(TorchCaptureTest, NotesWithoutACaptureOfTorchsAreNotKept) {
  StartChild([] { AttachFakeTorch(); },
             [](char, Parent&) { profd_torch_note(kGraphBreak, "f", nullptr, 0); });
  Do("n");
  auto capture = target_->Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Do("n");
  EXPECT_THAT(capture->Finish().notes, IsEmpty());
}

std::atomic<int> g_file_of_torch = -1;  // Set by the library's helper thread.

TEST_F(TorchTest, WhatTorchOpensWhenItIsCalledIsInTheProgramsTable) {
  StartChild(
      [] {
        AttachFakeTorch();
        static client::torch::TorchLibrary torch = FakeTorch();
        torch.add_callback = [](client::torch::RecordFunctionCallback) -> uint64_t {
          g_file_of_torch = memfd_create("torch", MFD_CLOEXEC);
          return 77;
        };
        client::torch::AttachPeriodicity(torch);
      },
      [](char, Parent&) { CHILD_EXPECT(fcntl(g_file_of_torch, F_GETFD) == FD_CLOEXEC); });
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kNames, 0, wire::StepSource::kPeriodicity));
  Do("f");
  capture->Finish();
}

}  // namespace
}  // namespace profd::testing
