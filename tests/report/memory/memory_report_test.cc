#include "daemon/report/memory/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "daemon/report/memory/steps.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"
#include "tests/report/memory/category_numbers.h"
#include "tests/report/memory/print_memory.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint8_t kCuda = 1;

FakeMemory OnGpu(int64_t allocated, int64_t reserved, uint8_t category = 0) {
  return {.total_allocated_bytes = allocated,
          .total_reserved_bytes = reserved,
          .device_type = kCuda,
          .category = category};
}

class MemoryReportTest : public testing::Test {
 protected:
  MemoryReportTest() : main_(reader_.AddThread(1, "main")) {}

  MemoryReport Report(const MemoryOptions& options = {}) {
    absl::StatusOr<MemoryReport> report = ReportMemory(reader_, options);
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : MemoryReport();
  }
  DeviceMemoryReport OnlyDevice(const MemoryOptions& options = {}) {
    MemoryReport report = Report(options);
    EXPECT_THAT(report.devices, SizeIs(1));
    return report.devices.empty() ? DeviceMemoryReport() : std::move(report.devices.front());
  }
  // `count` steps of 100 ns, each of which leaves `kept` bytes behind.
  void LeakySteps(int count, int64_t kept) {
    int64_t total = 1000;
    for (int step = 0; step < count; ++step) {
      const int64_t start_ns = int64_t{100} * step;
      const auto address = static_cast<uint64_t>(0x1000 + step);
      reader_.Step(step, start_ns, 100)
          .Operator(main_, "aten::cat", start_ns + 10, start_ns + 30)
          .Allocate(main_, start_ns + 20, address, kept, OnGpu(total + kept, 5000))
          .Allocate(main_, start_ns + 40, 0x1, 300, OnGpu(total + kept + 300, 5000))
          .Free(main_, start_ns + 60, 0x1, 300, OnGpu(total + kept, 5000));
      total += kept;
    }
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(MemoryReportTest, ACaptureWithoutMemoryHasNoDevices) {
  reader_.Range(main_, "forward", 0, 100).Step(0, 0, 100);
  const MemoryReport report = Report();
  EXPECT_THAT(report.devices, IsEmpty());
  EXPECT_THAT(report.out_of_memory, IsEmpty());
}

TEST_F(MemoryReportTest, LayersAddUpToWhatIsAllocated) {
  reader_.Allocate(main_, 10, 0xA, 100, OnGpu(1100, 2000, kParameter))
      .Allocate(main_, 20, 0xB, 50, OnGpu(1150, 2000, kActivation))
      .Free(main_, 30, 0xF, 400, OnGpu(750, 2000))
      .Free(main_, 40, 0xB, 50, OnGpu(700, 1500));
  const DeviceMemoryReport device = OnlyDevice();
  ASSERT_THAT(device.samples, SizeIs(5));
  for (const MemorySample& sample : device.samples) {
    EXPECT_EQ(std::accumulate(sample.layer_bytes.begin(), sample.layer_bytes.end(), int64_t{0}),
              sample.allocated_bytes);
  }
  EXPECT_EQ(device.samples[0].allocated_bytes, 1000);
  EXPECT_EQ(device.samples[0].reserved_bytes, -1);
  EXPECT_THAT(device.samples[2].layer_bytes, ElementsAre(1000, 100, 0, 0, 0, 0, 50, 0, 0));
  EXPECT_THAT(device.samples[3].layer_bytes, ElementsAre(600, 100, 0, 0, 0, 0, 50, 0, 0));
  EXPECT_THAT(device.samples[4].layer_bytes, ElementsAre(600, 100, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(device.samples[4].reserved_bytes, 1500);
}

TEST_F(MemoryReportTest, ATotalThatIsTooLowNeverMakesALayerNegative) {
  reader_.Allocate(main_, 10, 0xA, 100, OnGpu(100, 200))
      .Allocate(main_, 20, 0xB, 100, OnGpu(100, 200));  // The free of 0xA was lost.
  for (const MemorySample& sample : OnlyDevice().samples) {
    EXPECT_GE(sample.layer_bytes[0], 0);
  }
}

TEST_F(MemoryReportTest, SaysWhatTheAllocatorHeldBackAtBothPeaks) {
  reader_.Allocate(main_, 10, 0xA, 700, OnGpu(700, 1000))
      .Free(main_, 20, 0xA, 700, OnGpu(0, 1000))
      .Allocate(main_, 30, 0xB, 200, OnGpu(200, 4000))
      .Allocate(main_, 40, 0xC, 10, OnGpu(210, 4000));
  reader_.mutable_record().gpu.devices = {{.number = 0, .memory_bytes = 8000}};
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.memory.device, "cuda:0");
  EXPECT_EQ(device.memory.peak_bytes, 700);
  EXPECT_EQ(device.reserved_at_peak_bytes, 1000);
  EXPECT_EQ(device.memory.peak_reserved_bytes, 4000);
  EXPECT_EQ(device.peak_reserved_time_ns, 30);
  EXPECT_EQ(device.allocated_at_peak_reserved_bytes, 200);
  EXPECT_EQ(device.capacity_bytes, 8000);
}

TEST_F(MemoryReportTest, WithoutTotalsNothingIsSaidOfWhatIsReserved) {
  reader_.Allocate(main_, 10, 0xA, 700);
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.reserved_at_peak_bytes, -1);
  EXPECT_EQ(device.peak_reserved_time_ns, -1);
  EXPECT_EQ(device.allocated_at_peak_reserved_bytes, -1);
  EXPECT_EQ(device.capacity_bytes, -1);
}

TEST_F(MemoryReportTest, ABlocksOperatorIsTheOutermostAndItsModuleTheWholePath) {
  reader_.Range(main_, "nn.Module: Net_0", 0, 100)
      .Range(main_, "nn.Module: Linear_3", 5, 95)
      .Operator(main_, "aten::linear", 10, 90)
      .Operator(main_, "aten::addmm", 15, 80)
      .Operator(main_, "aten::empty", 20, 30)
      .Allocate(main_, 25, 0xA, 64)
      .Operator(main_, "autograd::engine::evaluate_function: AddmmBackward0", 110, 150)
      .Operator(main_, "AddmmBackward0", 115, 145)
      .Allocate(main_, 120, 0xB, 32)
      .Range(main_, "train", 160, 200)
      .Allocate(main_, 170, 0xC, 16)
      .Allocate(main_, 300, 0xD, 8);
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_THAT(device.memory.peak_by_op,
              ElementsAre(MemoryShare{"aten::linear", 64, 1}, MemoryShare{"AddmmBackward0", 32, 1},
                          MemoryShare{"train", 16, 1}, MemoryShare{"(no range)", 8, 1}));
  EXPECT_THAT(device.peak_by_module, ElementsAre(MemoryShare{"Net_0 > Linear_3", 64, 1},
                                                 MemoryShare{"(no module)", 56, 3}));
  ASSERT_THAT(device.peak_blocks, SizeIs(4));
  const MemoryBlock& largest = device.peak_blocks[0];
  EXPECT_EQ(largest.bytes, 64);
  EXPECT_EQ(largest.op, "aten::linear");
  EXPECT_EQ(largest.module, "Net_0 > Linear_3");
  EXPECT_EQ(largest.allocated_ns, 25);
  EXPECT_EQ(largest.freed_ns, -1);
  EXPECT_THAT(largest.stack, ElementsAre("nn.Module: Net_0", "nn.Module: Linear_3", "aten::linear",
                                         "aten::addmm", "aten::empty"));
  EXPECT_THAT(device.peak_blocks[3].stack, IsEmpty());
}

TEST_F(MemoryReportTest, ModulesMayStandOnARowOfTheirOwnBesideTheThread) {
  const uint32_t python = reader_.AddThread(reader_.threads()[main_].os_thread, "Python functions");
  const uint32_t stranger = reader_.AddThread(777, "other");
  reader_.Range(python, "nn.Module: Net_0", 0, 100)
      .Range(python, "nn.Module: Linear_3", 5, 95)
      .Range(stranger, "nn.Module: Other_0", 0, 100)
      .Operator(main_, "aten::linear", 10, 90)
      .Allocate(main_, 25, 0xA, 64)
      .Allocate(main_, 99, 0xB, 32);
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_THAT(device.peak_by_module,
              ElementsAre(MemoryShare{"Net_0 > Linear_3", 64, 1}, MemoryShare{"Net_0", 32, 1}));
  EXPECT_THAT(device.memory.peak_by_op,
              ElementsAre(MemoryShare{"aten::linear", 64, 1}, MemoryShare{"(no range)", 32, 1}));
}

TEST_F(MemoryReportTest, WithoutModulesThereIsNoTableOfThem) {
  reader_.Operator(main_, "aten::empty", 0, 10).Allocate(main_, 5, 0xA, 64);
  EXPECT_THAT(OnlyDevice().peak_by_module, IsEmpty());
}

TEST_F(MemoryReportTest, OnlyTheLargestBlocksAreListed) {
  for (uint64_t i = 0; i < kMostPeakBlocks + 20; ++i) {
    reader_.Allocate(main_, static_cast<int64_t>(i), 0x100 + i, static_cast<int64_t>(i + 1));
  }
  const DeviceMemoryReport device = OnlyDevice();
  ASSERT_THAT(device.peak_blocks, SizeIs(kMostPeakBlocks));
  EXPECT_EQ(device.peak_blocks.front().bytes, static_cast<int64_t>(kMostPeakBlocks + 20));
  EXPECT_EQ(device.peak_blocks.back().bytes, 21);
}

TEST_F(MemoryReportTest, LifetimesAreToldByStepAndByWhatWasNeverFreed) {
  reader_.Step(7, 0, 100)
      .Step(8, 100, 100)
      .Allocate(main_, 10, 0xA, 1, OnGpu(1001, 2000))
      .Allocate(main_, 20, 0xB, 2, OnGpu(1003, 2000))
      .Allocate(main_, 30, 0xC, 4, OnGpu(1007, 2000))
      .Free(main_, 40, 0xA, 1, OnGpu(1006, 2000))
      .Free(main_, 140, 0xB, 2, OnGpu(1004, 2000));
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_THAT(device.peak_by_lifetime,
              ElementsAre(MemoryShare{"before_window", 1000, 0}, MemoryShare{"not_freed", 4, 1},
                          MemoryShare{"across_steps", 2, 1}, MemoryShare{"within_step", 1, 1}));
  EXPECT_EQ(device.peak_blocks[0].step, 7);
  EXPECT_EQ(device.peak_blocks[1].freed_ns, 140);
}

TEST_F(MemoryReportTest, WithoutStepsABlockWasFreedOrNot) {
  reader_.Allocate(main_, 10, 0xA, 1).Allocate(main_, 20, 0xB, 2).Free(main_, 30, 0xA, 1);
  EXPECT_THAT(OnlyDevice().peak_by_lifetime,
              ElementsAre(MemoryShare{"not_freed", 2, 1}, MemoryShare{"freed", 1, 1}));
}

TEST_F(MemoryReportTest, EachStepHasItsLevelsAndWhatItLeftBehind) {
  LeakySteps(4, 50);
  const DeviceMemoryReport device = OnlyDevice();
  ASSERT_THAT(device.steps, SizeIs(4));
  const MemoryStepRow& second = device.steps[1];
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(second.start_bytes, 1050);
  EXPECT_EQ(second.lowest_bytes, 1050);
  EXPECT_EQ(second.peak_bytes, 1400);
  EXPECT_EQ(second.end_bytes, 1100);
  EXPECT_EQ(second.peak_reserved_bytes, 5000);
  EXPECT_EQ(second.allocation_count, 2);
  EXPECT_EQ(second.allocated_total_bytes, 350);
  EXPECT_EQ(second.kept_bytes, 50);
  EXPECT_EQ(second.kept_blocks, 1);
  EXPECT_EQ(device.steps[0].start_bytes, 1000);
  // The next step may free what the last one has: it is no leak.
  EXPECT_EQ(device.steps[3].kept_bytes, -1);
  EXPECT_EQ(device.steps[3].kept_blocks, -1);
}

TEST_F(MemoryReportTest, StepsBeforeTheFirstEventStandAtItsLevel) {
  reader_.Step(0, 0, 100)
      .Step(1, 100, 100)
      .Step(2, 200, 100)
      .Allocate(main_, 150, 0xA, 5, OnGpu(505, 900));
  const DeviceMemoryReport device = OnlyDevice();
  ASSERT_THAT(device.steps, SizeIs(3));
  EXPECT_EQ(device.steps[0].start_bytes, 500);
  EXPECT_EQ(device.steps[0].end_bytes, 500);
  EXPECT_EQ(device.steps[1].end_bytes, 505);
  EXPECT_EQ(device.steps[2].peak_bytes, 505);
}

TEST_F(MemoryReportTest, AnEventAtAStepsEndIsTheNextSteps) {
  reader_.Step(0, 0, 100).Step(1, 100, 100).Allocate(main_, 100, 0xA, 5, OnGpu(505, 900));
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.steps[0].allocation_count, 0);
  EXPECT_EQ(device.steps[1].allocation_count, 1);
}

TEST_F(MemoryReportTest, EventsBetweenStepsAreInNone) {
  reader_.Step(0, 0, 100)
      .Step(1, 200, 100)
      .Allocate(main_, 50, 0xA, 5, OnGpu(505, 900))
      .Allocate(main_, 150, 0xB, 400, OnGpu(905, 900));
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.steps[0].peak_bytes, 505);
  EXPECT_EQ(device.steps[0].end_bytes, 505);
  EXPECT_EQ(device.steps[1].start_bytes, 905);
}

TEST_F(MemoryReportTest, AStepThatLeavesMemoryBehindGrowsAndIsNamed) {
  LeakySteps(6, 64);
  const MemoryGrowth growth = OnlyDevice().growth;
  EXPECT_EQ(growth.step_count, 6);
  EXPECT_EQ(growth.rising_count, 5);
  EXPECT_EQ(growth.bytes_per_step, 64);
  // Of the last step nobody can tell.
  EXPECT_THAT(growth.suspects_by_op, ElementsAre(MemoryShare{"aten::cat", 320, 5}));
}

// Next to a leak, each step replaces the oldest of four blocks, the first of which are older than
// the window or made in it.
TEST_F(MemoryReportTest, AFullRingDoesNotGrowNextToALeak) {
  LeakySteps(12, 64);
  for (int step = 0; step < 12; ++step) {
    const int64_t at = int64_t{100} * step + 70;
    const auto address = [](int i) { return 0x900000 + static_cast<uint64_t>(i) * 0x1000; };
    reader_.Allocate(main_, at, address(step), 512, OnGpu(-1, -1));
    if (step >= 4) reader_.Free(main_, at + 1, address(step - 4), 512, OnGpu(-1, -1));
  }
  const MemoryGrowth growth = OnlyDevice().growth;
  EXPECT_THAT(growth.suspects_by_op, ElementsAre(MemoryShare{"aten::cat", 704, 11}));
}

TEST_F(MemoryReportTest, ARingThatFillsUpAndALeakOfTheSizeOfARingGrow) {
  LeakySteps(12, 64);
  for (int step = 0; step < 12; ++step) {
    const int64_t at = int64_t{100} * step + 70;
    const auto address = [](int i) { return 0x900000 + static_cast<uint64_t>(i) * 0x1000; };
    reader_.Allocate(main_, at, address(step), 512, OnGpu(-1, -1));
    reader_.Allocate(main_, at, address(step) + 0x1000000, 64, OnGpu(-1, -1));
    if (step >= 4) reader_.Free(main_, at + 1, address(step - 4) + 0x1000000, 64, OnGpu(-1, -1));
  }
  const MemoryGrowth growth = OnlyDevice().growth;
  int64_t blocks = 0;
  for (const MemoryShare& share : growth.suspects_by_op) blocks += share.blocks;
  EXPECT_EQ(blocks, 11 + 11 + 3);
}

TEST_F(MemoryReportTest, MemoryThatComesBackDoesNotGrow) {
  for (int step = 0; step < 6; ++step) {
    const int64_t start_ns = int64_t{100} * step;
    reader_.Step(step, start_ns, 100)
        .Allocate(main_, start_ns + 20, 0x1, 300, OnGpu(1300, 5000))
        .Free(main_, start_ns + 60, 0x1, 300, OnGpu(1000, 5000));
  }
  const MemoryGrowth growth = OnlyDevice().growth;
  EXPECT_EQ(growth.bytes_per_step, 0);
  EXPECT_EQ(growth.rising_count, 0);
  EXPECT_THAT(growth.suspects_by_op, IsEmpty());
}

TEST_F(MemoryReportTest, AnOptimizersStateAfterTheFirstStepIsNoSlope) {
  std::vector<MemoryStepRow> steps(9);
  for (size_t i = 1; i < steps.size(); ++i) steps[i].end_bytes = 1 << 20;
  const MemoryGrowth growth = GrowthOf(steps);
  EXPECT_EQ(growth.bytes_per_step, 0);
  EXPECT_EQ(growth.rising_count, 1);
}

TEST_F(MemoryReportTest, OneStepThatDiffersIsNoSlope) {
  std::vector<MemoryStepRow> steps(9);
  steps[4].end_bytes = 1 << 20;
  EXPECT_EQ(GrowthOf(steps).bytes_per_step, 0);
}

TEST_F(MemoryReportTest, TwoStepsTellNoGrowth) {
  LeakySteps(2, 64);
  const MemoryGrowth growth = OnlyDevice().growth;
  EXPECT_EQ(growth.step_count, 2);
  EXPECT_EQ(growth.bytes_per_step, 0);
  EXPECT_THAT(growth.suspects_by_op, IsEmpty());
}

TEST_F(MemoryReportTest, ManyStepsAreComparedInBoundedTime) {
  std::vector<MemoryStepRow> steps(1'000'000);
  for (size_t i = 0; i < steps.size(); ++i) steps[i].end_bytes = static_cast<int64_t>(3 * i);
  EXPECT_EQ(GrowthOf(steps).bytes_per_step, 3);
}

TEST_F(MemoryReportTest, AFailedAllocationSaysWhatTheDeviceHeldThen) {
  reader_.mutable_record().gpu.devices = {{.number = 0, .memory_bytes = 8000}};
  reader_.Step(4, 0, 100)
      .Operator(main_, "aten::conv2d", 15, 25)
      .Allocate(main_, 10, 0xA, 700, OnGpu(700, 7900))
      .Note(main_, 20, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory), "cuda:0", "", 5000)
      .Free(main_, 30, 0xA, 700, OnGpu(0, 7900));
  const MemoryReport report = Report();
  ASSERT_THAT(report.out_of_memory, SizeIs(1));
  const FailedAllocation& failed = report.out_of_memory[0];
  EXPECT_EQ(failed.asked.bytes, 5000);
  EXPECT_EQ(failed.step, 4);
  EXPECT_EQ(failed.allocated_bytes, 700);
  EXPECT_EQ(failed.reserved_bytes, 7900);
  EXPECT_EQ(failed.capacity_bytes, 8000);
  EXPECT_EQ(failed.op, "aten::conv2d");
}

TEST_F(MemoryReportTest, AFailedAllocationOnAnUnknownDeviceSaysNoMore) {
  reader_.Note(main_, 20, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory), "xpu:3", "", 5000);
  const MemoryReport report = Report();
  ASSERT_THAT(report.out_of_memory, SizeIs(1));
  EXPECT_EQ(report.out_of_memory[0].allocated_bytes, -1);
  EXPECT_EQ(report.out_of_memory[0].reserved_bytes, -1);
  EXPECT_EQ(report.out_of_memory[0].capacity_bytes, -1);
  EXPECT_EQ(report.out_of_memory[0].step, -1);
}

TEST_F(MemoryReportTest, ALaterTotalCorrectsWhatAnEarlierFailureSaw) {
  reader_.Allocate(main_, 10, 0xA, 700, {.device_type = kCuda})
      .Note(main_, 20, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory), "cuda:0", "", 5000)
      .Free(main_, 30, 0xA, 700, OnGpu(1000, 2000));
  EXPECT_EQ(Report().out_of_memory[0].allocated_bytes, 1700);
}

TEST_F(MemoryReportTest, WithoutOperatorsAskedForNoRangeIsRead) {
  LeakySteps(4, 50);
  reader_.Note(main_, 20, static_cast<uint16_t>(wire::NoteKind::kOutOfMemory), "cuda:0", "", 1);
  FakeCaptureReader without;
  const uint32_t thread = without.AddThread(1, "main");
  without.Range(thread, "forward", 0, 100).Allocate(thread, 10, 0xA, 5);
  ASSERT_THAT(ReportMemory(without, {.peak_by_op = false}), IsOk());
  EXPECT_THAT(without.range_readings(), IsEmpty());
  const DeviceMemoryReport device = OnlyDevice({.peak_by_op = false});
  EXPECT_THAT(device.memory.peak_by_op, IsEmpty());
  EXPECT_THAT(device.growth.suspects_by_op, IsEmpty());
  EXPECT_FALSE(device.peak_blocks.empty());
  EXPECT_EQ(device.peak_blocks[0].op, "");
}

TEST_F(MemoryReportTest, SamplesAreThinnedWithoutLosingThePeak) {
  for (int i = 0; i < 5000; ++i) {
    const int64_t high = i == 3333 ? 9999 : i % 7;
    reader_.Allocate(main_, i, static_cast<uint64_t>(i + 1), 1, OnGpu(high, 20'000));
  }
  const DeviceMemoryReport device = OnlyDevice({.max_points = 64});
  EXPECT_LE(device.samples.size(), 64U);
  EXPECT_EQ(std::max_element(device.samples.begin(), device.samples.end(),
                             [](const MemorySample& a, const MemorySample& b) {
                               return a.allocated_bytes < b.allocated_bytes;
                             })
                ->allocated_bytes,
            9999);
}

TEST_F(MemoryReportTest, RefusesFewerPointsThanACurveNeeds) {
  EXPECT_THAT(ReportMemory(reader_, {.max_points = 3}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(MemoryReportTest, RangesThatDoNotNestAreRefusedBeforeTheyTakeForEver) {
  for (uint64_t i = 0; i < 2000; ++i) {
    reader_.Allocate(main_, 5, i + 1, 1).Range(main_, "r", 0, 10, {.depth = 1});
  }
  EXPECT_THAT(ReportMemory(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(MemoryReportTest, AReaderThatFailsIsNotHidden) {
  LeakySteps(4, 50);
  reader_.FailAfter(0, absl::DataLossError("chunk 1 is damaged"));
  EXPECT_THAT(ReportMemory(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

// ---- blocks without an address, as in traces of 2021 ----

TEST_F(MemoryReportTest, BlocksWithoutAnAddressAreCountedByTheirSizes) {
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 4; ++i) {
      reader_.Allocate(main_, 1000 * step + i, 0, 100 + i, {.device_type = kCuda});
    }
    for (int i = 0; i < 4; ++i) {
      reader_.Free(main_, 1000 * step + 500 + i, 0, 100 + i, {.device_type = kCuda});
    }
  }
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.memory.peak_bytes, 406);
  EXPECT_EQ(device.memory.end_bytes, 0);
  EXPECT_EQ(device.memory.repeated_free_count, 0);
  EXPECT_EQ(device.memory.unknown_free_count, 0);
  ASSERT_THAT(device.memory.peak_by_category, SizeIs(1));
  EXPECT_EQ(device.memory.peak_by_category[0].blocks, 4);
}

TEST_F(MemoryReportTest, AFreeOfAnUnknownSizeIsOfABlockThatIsOlder) {
  reader_.Free(main_, 10, 0, 500, {.device_type = kCuda})
      .Free(main_, 20, 0, 500, {.device_type = kCuda})
      .Allocate(main_, 30, 0, 300, {.device_type = kCuda})
      .Allocate(main_, 40, 0, 300, {.device_type = kCuda})
      .Free(main_, 50, 0, 300, {.device_type = kCuda});
  const DeviceMemoryReport device = OnlyDevice();
  EXPECT_EQ(device.memory.start_bytes, 1000);
  EXPECT_EQ(device.memory.unknown_free_count, 2);
  EXPECT_EQ(device.memory.repeated_free_count, 0);
  EXPECT_EQ(device.memory.end_bytes, 300);
}

}  // namespace
}  // namespace profd::report
