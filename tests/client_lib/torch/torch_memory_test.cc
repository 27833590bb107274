// Events of torch's allocators, with stand-ins for libc10 and libc10_cuda.
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "client_lib/core/thread_state.h"
#include "client_lib/torch/got_slots.h"
#include "tests/client_lib/torch/torch_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using wire::OperatorsMode;
using wire::Phase;

void* At(uint64_t address) { return reinterpret_cast<void*>(address); }

void OthersNew(void*, void*, size_t) {}

// The child's libc10. What the letters do:
//   m  64 bytes of the CPU's at 0x1000 are allocated, and freed
//   M  the same on a thread of its own
//   k  64 bytes at 0x1000 are allocated
//   l  what is at 0x1000 is freed
//   z  nothing is allocated at 0x1000: no bytes
//   o  an allocation of 55 bytes of the CPU's fails
//   g  1,024 bytes of GPU 2's at 0x2000 are allocated, 5,000 in all, of 9,000
//   O  an allocation of 77 bytes fails on GPU 2
//   p  torch.profiler goes on         q  expects 2 reports to it since, and turns it off
//   n  expects that it was told nothing
//   f  forks; the child's calls go to the profiler alone
//   W  as m, within a write of the thread's
class TorchMemoryTest : public TorchTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void StartWithC10(
      bool with_cuda, const std::function<void()>& before_arm = [] {}) {
    static FakeC10 c10;
    const std::string how = GetParam();
    StartChild(
        [=] {
          c10 = LoadC10(how, with_cuda);
          AttachFakeTorch();
          before_arm();
        },
        [](char letter, Parent&) {
          const auto use_cpu = [] {
            c10.cpu_allocate(At(0x1000), 64);
            c10.cpu_free(At(0x1000));
          };
          switch (letter) {
            case 'm':
              return use_cpu();
            case 'M':
              return std::thread(use_cpu).join();
            case 'k':
              return c10.cpu_allocate(At(0x1000), 64);
            case 'l':
              return c10.cpu_free(At(0x1000));
            case 'z':
              return c10.cpu_allocate(At(0x1000), 0);
            case 'o':
              return c10.cpu_oom(55);
            case 'g':
              return c10.cuda_report(At(0x2000), 1024, 5000, 9000, 2);
            case 'O':
              return c10.cuda_oom(77, 2);
            case 'p':
              return c10.profiler_turn(true);
            case 'q':
              CHILD_EXPECT(c10.profiler_reports() == 2);
              return c10.profiler_turn(false);
            case 'n':
              CHILD_EXPECT(c10.profiler_reports() == 0);
              return;
            case 'W': {
              // Where the library itself were to allocate.
              client::WriteGuard guard(client::CurrentThreadOrNew());
              return use_cpu();
            }
            default:
              const pid_t pid = fork();
              if (pid == 0) {
                c10.profiler_turn(true);
                const uint64_t before = c10.profiler_reports();
                use_cpu();
                _exit(c10.profiler_reports() - before == 2 ? 0 : 1);
              }
              CHILD_EXPECT(WaitForExit(pid) == 0);
          }
        });
  }

  std::unique_ptr<FakeCapture> Record(uint32_t flags = wire::kArmTorchMemory) {
    auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, flags));
    capture->Fire(ByTime());
    capture->WaitPhase(Phase::kRecording);
    return capture;
  }
};

TEST_P(TorchMemoryTest, AllocationsAndFreesOfTheCpuAreRecorded) {
  StartWithC10(false);
  Do("m");
  auto capture = Record();
  Do("mn");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.memory.size(), 2u);
  const wire::MemoryEvent& allocation = contents.memory[0];
  EXPECT_EQ(allocation.address, 0x1000u);
  EXPECT_EQ(allocation.bytes, 64);
  EXPECT_EQ(allocation.header.flags, 0);
  EXPECT_EQ(allocation.total_allocated_bytes, 64);
  EXPECT_EQ(allocation.total_reserved_bytes, 0);
  EXPECT_EQ(allocation.device_type, static_cast<uint16_t>(wire::DeviceType::kCpu));
  EXPECT_EQ(allocation.device_index, 0);
  const wire::MemoryEvent& free = contents.memory[1];
  EXPECT_EQ(free.bytes, 64);
  EXPECT_EQ(free.header.flags, wire::kEventFlagFree);
  EXPECT_EQ(free.total_allocated_bytes, 0);
  const wire::TorchStatusEvent& status = contents.torch_status();
  EXPECT_TRUE(status.recorded & wire::kTorchCpuMemory);
  EXPECT_FALSE(status.wanted & wire::kTorchCudaMemory);  // There is none.
  EXPECT_EQ(status.counts[wire::kTorchMissedMemory], 0u);
}

TEST_P(TorchMemoryTest, FreesOfWhatWasAllocatedBeforeAreNot) {
  StartWithC10(false);
  Do("k");
  auto capture = Record();
  Do("lz");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(contents.memory, IsEmpty());
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchMissedMemory], 0u);
}

TEST_P(TorchMemoryTest, FreesOfWhatWasAllocatedWhileArmedAreRecorded) {
  StartWithC10(false);
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, wire::kArmTorchMemory));
  Do("k");
  capture->Fire(ByTime());
  capture->WaitPhase(Phase::kRecording);
  Do("l");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.memory.size(), 1u);
  EXPECT_EQ(contents.memory[0].header.flags, wire::kEventFlagFree);
  EXPECT_EQ(contents.memory[0].bytes, 64);
  EXPECT_EQ(contents.memory[0].total_allocated_bytes, 0);
}

TEST_P(TorchMemoryTest, EachCaptureBeginsWithNothing) {
  StartWithC10(false);
  {
    auto capture = Record();
    Do("k");
    ASSERT_EQ(capture->Finish().memory.size(), 1u);
  }
  auto capture = Record();
  Do("lm");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.memory.size(), 2u);
  EXPECT_EQ(contents.memory[0].total_allocated_bytes, 64);
}

TEST_P(TorchMemoryTest, AThreadThatHasJustBegunIsSeen) {
  StartWithC10(false);
  auto capture = Record();
  Do("M");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.memory.size(), 2u);
}

TEST_P(TorchMemoryTest, TheProgramsOwnProfilerIsToldAsBefore) {
  StartWithC10(false);
  Do("p");
  auto capture = Record();
  Do("mq");
  EXPECT_EQ(capture->Finish().memory.size(), 2u);
}

TEST_P(TorchMemoryTest, BehindTheCaptureTheCallsGoAsBefore) {
  StartWithC10(false);
  EXPECT_THAT(Record()->Finish().memory, IsEmpty());
  Do("mnpmq");
}

TEST_P(TorchMemoryTest, NothingIsRecordedThatWasNotAskedFor) {
  StartWithC10(true);
  auto capture = Record(0);
  Do("mg");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(contents.memory, IsEmpty());
  EXPECT_FALSE(contents.torch_status().wanted & wire::kTorchCpuMemory);
}

TEST_P(TorchMemoryTest, WhileArmedNothingIsRecorded) {
  StartWithC10(true);
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, wire::kArmTorchMemory));
  Do("mg");
  EXPECT_THAT(capture->Finish().memory, IsEmpty());
}

TEST_P(TorchMemoryTest, EventsOfGpusHaveTheirTotals) {
  StartWithC10(true);
  auto capture = Record();
  Do("g");
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.memory.size(), 1u);
  const wire::MemoryEvent& event = contents.memory[0];
  EXPECT_EQ(event.address, 0x2000u);
  EXPECT_EQ(event.bytes, 1024);
  EXPECT_EQ(event.total_allocated_bytes, 5000);
  EXPECT_EQ(event.total_reserved_bytes, 9000);
  EXPECT_EQ(event.device_type, static_cast<uint16_t>(wire::DeviceType::kCuda));
  EXPECT_EQ(event.device_index, 2);
  EXPECT_TRUE(contents.torch_status().recorded & wire::kTorchCudaMemory);
}

TEST_P(TorchMemoryTest, AllocationsThatFailAreNotes) {
  StartWithC10(true);
  auto capture = Record();
  Do("oO");
  const CaptureContents contents = capture->Finish();
  std::vector<std::pair<std::string, int64_t>> failed;
  for (const auto& note : contents.notes) {
    if (note.event.kind != static_cast<uint16_t>(wire::NoteKind::kOutOfMemory)) continue;
    failed.emplace_back(note.subject, note.event.value);
    EXPECT_NE(note.event.time_ticks, 0u);
  }
  EXPECT_THAT(failed, ElementsAre(Pair("cpu:0", 55), Pair("cuda:2", 77)));
}

TEST_P(TorchMemoryTest, EventsWithinAWriteAreCountedNotRecorded) {
  StartWithC10(false);
  auto capture = Record();
  Do("mWW");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.memory.size(), 2u);
  EXPECT_EQ(contents.torch_status().counts[wire::kTorchMissedMemory], 4u);
}

TEST_P(TorchMemoryTest, AForkedChildsCallsGoAsBefore) {
  StartWithC10(false);
  auto capture = Record();
  Do("fm");
  EXPECT_EQ(capture->Finish().memory.size(), 2u);
}

TEST_P(TorchMemoryTest, WhatAnotherToolHasTakenIsMissingByName) {
  StartWithC10(false, [] {
    static client::torch::GotSlots theirs;
    theirs.Find("libc10.", "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm");
    CHILD_EXPECT(theirs.Replace(reinterpret_cast<void*>(OthersNew)) == 1);
  });
  auto capture = Record();
  Do("m");
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(contents.memory, IsEmpty());
  EXPECT_FALSE(contents.torch_status().recorded & wire::kTorchCpuMemory);
  EXPECT_EQ(MissingOf(contents)["CPU memory"],
            "another tool has taken the allocator's reports; stop it and retry");
}

INSTANTIATE_TEST_SUITE_P(Linked, TorchMemoryTest, ::testing::Values("bound", "lazy"),
                         [](const auto& how) { return how.param; });

class TorchWithoutC10Test : public TorchTest {};

TEST_F(TorchWithoutC10Test, MemoryIsMissingByName) {
  StartChild();
  auto capture = target_->ArmTorch(Wants(OperatorsMode::kOff, wire::kArmTorchMemory));
  const CaptureContents contents = capture->Finish();
  EXPECT_FALSE(contents.torch_status().recorded & wire::kTorchCpuMemory);
  EXPECT_EQ(MissingOf(contents)["CPU memory"],
            "this torch's allocator makes no calls that can be taken");
}

}  // namespace
}  // namespace profd::testing
