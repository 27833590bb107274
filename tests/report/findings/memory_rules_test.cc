// What fills a device, as a finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

class MemoryRulesTest : public FindingsFixture {
 protected:
  void AllocateMemory(int64_t bytes, int64_t reserved) {
    reader_.Allocate(
        main_, 1, 0x1000, bytes,
        {.total_allocated_bytes = bytes, .total_reserved_bytes = reserved, .device_type = 1});
  }
};

TEST_F(MemoryRulesTest, APeakNearTheDevicesMemoryNamesAlsoWhatIsOlderThanTheWindow) {
  Healthy();
  reader_.Block(0x9000, int64_t{50} << 30, {.category = 1, .device_type = 1});
  reader_.Allocate(main_, 1, 0x1000, int64_t{5} << 30,
                   {.total_allocated_bytes = int64_t{65} << 30,
                    .total_reserved_bytes = int64_t{76} << 30,
                    .device_type = 1});
  const Finding finding = Find("MEM_NEAR_LIMIT");
  EXPECT_THAT(finding.measured, HasSubstr("The largest part: parameter, 50 GiB."));
  std::vector<std::pair<std::string, int64_t>> parts;
  for (const Evidence& part : finding.evidence) parts.emplace_back(part.name, part.bytes >> 30);
  EXPECT_THAT(parts, ElementsAre(Pair("parameter", 50), Pair("reserved without use", 11),
                                 Pair("allocated before the window", 10), Pair("aten::mm", 5)));
}

TEST_F(MemoryRulesTest, APeakNearTheDevicesMemoryIsFound) {
  Healthy();
  AllocateMemory(int64_t{75} << 30, int64_t{76} << 30);
  const Finding finding = Find("MEM_NEAR_LIMIT");
  EXPECT_NEAR(finding.value, 0.95, 0.001);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.saving_ns_per_step, 0);
}

TEST_F(MemoryRulesTest, APeakWithRoomToSpareIsNoFinding) {
  Healthy();
  AllocateMemory(int64_t{60} << 30, int64_t{61} << 30);
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(MemoryRulesTest, ReservedMemoryThatIsNotInUseIsFoundOnAFullDevice) {
  Healthy();
  AllocateMemory(int64_t{40} << 30, int64_t{60} << 30);
  EXPECT_NEAR(Find("MEM_FRAG").value, 1.0 / 3, 0.01);
}

TEST_F(MemoryRulesTest, ReservedMemoryOfAnEmptyDeviceMattersToNobody) {
  Healthy();
  AllocateMemory(int64_t{4} << 30, int64_t{8} << 30);
  EXPECT_THAT(Fired(), IsEmpty());
}

TEST_F(MemoryRulesTest, MemoryThatGrowsWithEveryStepIsFound) {
  Healthy(8);
  int64_t total = int64_t{1} << 30;
  for (int step = 0; step < 8; ++step) {
    total += 16 << 20;
    reader_.Allocate(main_, step * kStepNs + kMs, 0x1000 + static_cast<uint64_t>(step) * 0x100,
                     16 << 20,
                     {.total_allocated_bytes = total,
                      .total_reserved_bytes = int64_t{2} << 30,
                      .device_type = 1});
  }
  const Finding finding = Find("MEM_LEAK");
  EXPECT_EQ(finding.unit, FindingUnit::kBytes);
  EXPECT_DOUBLE_EQ(finding.value, 16 << 20);
  EXPECT_FALSE(finding.evidence.empty());
}

// Blocks of a trace without totals; what the device held before them is not known.
TEST_F(MemoryRulesTest, OfALeakWithoutTotalsTheLatestTimeIsKnown) {
  Healthy(8);
  for (int step = 0; step < 8; ++step) {
    reader_.Allocate(main_, step * kStepNs + kMs, 0x1000 + static_cast<uint64_t>(step) * 0x100,
                     16 << 20, {.device_type = 1});
  }
  EXPECT_THAT(Find("MEM_LEAK").measured, HasSubstr("memory is full after at most "));
}

TEST_F(MemoryRulesTest, MemoryThatIsFreedInEveryStepIsNoLeak) {
  Healthy(8);
  const int64_t total = int64_t{1} << 30;
  for (int step = 0; step < 8; ++step) {
    reader_
        .Allocate(main_, step * kStepNs + kMs, 0x1000, 16 << 20,
                  {.total_allocated_bytes = total + (16 << 20), .device_type = 1})
        .Free(main_, step * kStepNs + 2 * kMs, 0x1000, 16 << 20,
              {.is_free = true, .total_allocated_bytes = total, .device_type = 1});
  }
  EXPECT_THAT(Fired(), IsEmpty());
}

// A block of 8 MiB in each step, which torch does not see freed.
class CpuGrowthTest : public FindingsFixture {
 protected:
  static constexpr int64_t kBlock = 8 << 20;

  // `before_bytes`: what the allocator's total has before the first block.
  void Grow(int64_t resident_begin_bytes, int64_t resident_end_bytes, int64_t before_bytes = 0) {
    Healthy(12);
    CaptureRecord& record = reader_.mutable_record();
    record.torch.memory = true;
    record.cpu.resident_begin_bytes = resident_begin_bytes;
    record.cpu.resident_end_bytes = resident_end_bytes;
    for (int step = 0; step < 12; ++step) {
      reader_.Allocate(
          main_, step * kStepNs + kMs, 0x100000 + static_cast<uint64_t>(step) * 0x1000000, kBlock,
          {.total_allocated_bytes = before_bytes + (step + 1) * kBlock, .device_type = 0});
    }
  }
};

TEST_F(CpuGrowthTest, IsNoLeakIfTheProcessDoesNotGrow) {
  Grow(1258 << 20, (1258 << 20) + 4096);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
  EXPECT_THAT(NeedsOf("MEM_LEAK"), HasSubstr("anonymous memory of the process did not grow"));
}

TEST_F(CpuGrowthTest, IsNoLeakIfNothingIsKnownOfTheProcess) {
  Grow(-1, -1);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
  EXPECT_THAT(NeedsOf("MEM_LEAK"), HasSubstr("is not known"));
}

// A schedule's warm-up has counted before the first event of the trace.
TEST_F(CpuGrowthTest, IsNoLeakInATraceOfTorchWhoseTotalBeginsAbove0) {
  Grow(-1, -1, 3 * kBlock);
  reader_.mutable_record().torch.memory = false;
  reader_.mutable_record().imported.source = "trace.json";
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
  EXPECT_THAT(NeedsOf("MEM_LEAK"), HasSubstr("is not known"));
}

// Each step keeps a block; after every `period` steps, all of them are freed.
class SawtoothTest : public FindingsFixture {
 protected:
  static constexpr int64_t kBlock = 8 << 20;
  static constexpr int64_t kBase = int64_t{1} << 30;

  void Collect(int count, int first_fall, int period) {
    Healthy(count);
    int kept = 0;
    const auto address = [](int i) { return 0x100000 + static_cast<uint64_t>(i) * 0x1000000; };
    for (int step = 0; step < count; ++step) {
      const int64_t at = step * kStepNs + kMs;
      reader_.Allocate(main_, at, address(kept), kBlock,
                       {.total_allocated_bytes = kBase + (kept + 1) * kBlock, .device_type = 1});
      ++kept;
      if (step < first_fall || (step - first_fall) % period != 0) continue;
      for (int i = 0; i < 4 * period && kept > 0; ++i) {
        --kept;
        reader_.Free(main_, at + kUs * (i + 1), address(kept), kBlock,
                     {.total_allocated_bytes = kBase + kept * kBlock, .device_type = 1});
      }
    }
  }
};

TEST_F(SawtoothTest, WhatFallsBackToItsStartIsNoLeak) {
  Collect(20, 9, 10);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
}

TEST_F(SawtoothTest, WhatFellOnceMayFallAgain) {
  Collect(12, 3, 100);
  const Finding finding = Find("MEM_LEAK");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("memory fell by 24 MiB in the capture"));
  EXPECT_NE(finding.severity, Severity::kCritical);
}

// Each step allocates a block that is larger than that of the step before, which it frees.
class LargerBlocksTest : public FindingsFixture {
 protected:
  static constexpr int64_t kMore = 8 << 20;
  static constexpr uint64_t kFirstAddress = 0x100000;

  void Grow(int count) {
    Healthy(count);
    int64_t total_bytes = 0;
    const auto at = [](int step) { return kFirstAddress + (static_cast<uint64_t>(step) << 32); };
    for (int step = 0; step < count; ++step) {
      const int64_t begin = step * kStepNs;
      const int64_t bytes = (step + 10) * kMore;
      total_bytes += bytes;
      reader_.Allocate(main_, begin + kMs, at(step), bytes,
                       {.total_allocated_bytes = total_bytes, .device_type = 1});
      if (step == 0) continue;
      total_bytes -= bytes - kMore;
      reader_.Free(main_, begin + 2 * kMs, at(step - 1), bytes - kMore,
                   {.total_allocated_bytes = total_bytes, .device_type = 1});
    }
  }
};

TEST_F(LargerBlocksTest, AreHardlyALeak) {
  Grow(12);
  const Finding finding = Find("MEM_LEAK");
  EXPECT_EQ(finding.value, kMore);
  EXPECT_EQ(finding.title, "Memory grows: each step allocates more than the one before");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding.advice, HasSubstr("run the largest one first"));
}

TEST_F(LargerBlocksTest, DoNotHideALeak) {
  Grow(12);
  for (int step = 0; step < 12; ++step) {
    reader_.Allocate(
        main_, step * kStepNs + 3 * kMs, 0x200 + static_cast<uint64_t>(step), 2 * kMore,
        {.total_allocated_bytes = (step + 10) * kMore + (step + 1) * 2 * kMore, .device_type = 1});
  }
  const Finding finding = Find("MEM_LEAK");
  EXPECT_EQ(finding.value, 3 * kMore);
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
}

// ---- where it is allocated ----

class LeakPlaceTest : public FindingsFixture {
 protected:
  // A block in each of six steps, by an operator with that stack. 0: none.
  void Leak(uint32_t stack) {
    Healthy(6);
    for (int step = 0; step < 6; ++step) {
      const int64_t at = step * kStepNs + kMs;
      reader_.Operator(main_, "aten::exp", at, at + 100 * kUs, {.stack = stack});
      reader_.Allocate(main_, at + kUs, 0x100000 + static_cast<uint64_t>(step) * 0x10000000,
                       64 << 20, {.total_allocated_bytes = (step + 1) << 26, .device_type = 1});
    }
  }
};

TEST_F(LeakPlaceTest, IsTheLineIfThereAreStacks) {
  reader_.mutable_record().spec.torch.stacks = true;
  Leak(reader_.Stack(0, "/home/me/leak.py", 11, "keep"));
  const Finding finding = Find("MEM_LEAK");
  EXPECT_THAT(finding.measured, HasSubstr("is allocated at leak.py:11 keep."));
  ASSERT_EQ(finding.evidence.size(), 1u);
  EXPECT_EQ(finding.evidence[0].name, "leak.py:11 keep");
  EXPECT_EQ(finding.evidence[0].bytes, int64_t{5} << 26);
  EXPECT_THAT(finding.advice, Not(HasSubstr("--with")));
}

TEST_F(LeakPlaceTest, IsTheOperatorWithoutThemAndHowToGetThemIsSaid) {
  reader_.mutable_record().torch.version = "2.5";
  Leak(0);
  Finding finding = Find("MEM_LEAK");
  EXPECT_EQ(finding.evidence.at(0).name, "aten::exp");
  EXPECT_THAT(finding.advice, HasSubstr("`profctl trace --with memory,stacks` names the lines"));
  // Recorded, but none is known: another capture would not help.
  reader_.mutable_record().spec.torch.stacks = true;
  EXPECT_THAT(Find("MEM_LEAK").advice, Not(HasSubstr("--with")));
  reader_.mutable_record().spec.torch.stacks = false;
  reader_.mutable_record().imported.source = "trace.json";
  EXPECT_THAT(Find("MEM_LEAK").advice, HasSubstr("with_stack=True"));
}

// What a program keeps in every fifth step is lost as what it keeps in each. With `freed`, one of
// the blocks is freed again.
class RareGrowthTest : public FindingsFixture {
 protected:
  void Grow(bool freed, int steps = 30, int every = 5) {
    constexpr int64_t kBlock = 64 << 20;
    Healthy(steps);
    int64_t total_bytes = 0;
    for (int step = 0; step < steps; ++step) {
      if (step % every != every - 1) continue;
      total_bytes += kBlock;
      reader_.Allocate(main_, step * kStepNs + kMs, 0x100000 + total_bytes, kBlock,
                       {.total_allocated_bytes = total_bytes, .device_type = 1});
      if (!freed || step != 14) continue;
      reader_.Free(main_, (step + 2) * kStepNs, 0x100000 + total_bytes, kBlock,
                   {.total_allocated_bytes = total_bytes - kBlock, .device_type = 1});
      total_bytes -= kBlock;
    }
  }
};

TEST_F(RareGrowthTest, IsALeakWhereNothingFalls) {
  Grow(/*freed=*/false);
  const Finding finding = Find("MEM_LEAK");
  EXPECT_THAT(finding.measured, HasSubstr("6 of 29 steps ended with more than the step before, and "
                                          "none with less."));
  EXPECT_NEAR(finding.value, (64 << 20) / 5.0, 2 << 20);
}

TEST_F(RareGrowthTest, FewRisesHaveMediumConfidence) {
  Grow(/*freed=*/false, /*steps=*/10, /*every=*/3);
  const Finding finding = Find("MEM_LEAK");
  EXPECT_THAT(finding.measured, HasSubstr("3 of 9 steps ended with more"));
  EXPECT_EQ(finding.confidence, Confidence::kMedium);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("memory rises in only 3 of them"));
}

TEST_F(RareGrowthTest, SevenRisesHaveMediumConfidence) {
  Grow(/*freed=*/false, /*steps=*/36);
  EXPECT_THAT(Find("MEM_LEAK").measured, HasSubstr("7 of 35 steps ended with more"));
  EXPECT_EQ(Find("MEM_LEAK").confidence, Confidence::kMedium);
}

TEST_F(RareGrowthTest, AsManyRisesAsALeakInMostOfTenStepsHasHaveHighConfidence) {
  Grow(/*freed=*/false, /*steps=*/41);
  EXPECT_THAT(Find("MEM_LEAK").measured, HasSubstr("8 of 40 steps ended with more"));
  EXPECT_EQ(Find("MEM_LEAK").confidence, Confidence::kHigh);
}

TEST_F(RareGrowthTest, IsNoneWhereMemoryIsFreedNowAndThen) {
  Grow(/*freed=*/true);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
}

// A block in each step, which is freed `size` steps later.
class RingTest : public FindingsFixture {
 protected:
  void Fill(int size, int steps) {
    constexpr int64_t kBlock = 64 << 20;
    Healthy(steps);
    for (int step = 0; step < steps; ++step) {
      const int64_t at = step * kStepNs + kMs;
      reader_.Allocate(
          main_, at, 0x100000 + step * kBlock, kBlock,
          {.total_allocated_bytes = std::min(step + 1, size + 1) * kBlock, .device_type = 1});
      if (step < size) continue;
      reader_.Free(main_, at + kUs, 0x100000 + (step - size) * kBlock, kBlock,
                   {.total_allocated_bytes = size * kBlock, .device_type = 1});
    }
  }
};

TEST_F(RingTest, IsNoLeakOnceItIsFull) {
  Fill(/*size=*/10, /*steps=*/20);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
}

TEST_F(RingTest, IsNoLeakWhereTheCaptureShowsItFullForAQuarterOfItsSteps) {
  Fill(/*size=*/15, /*steps=*/20);
  EXPECT_THAT(Fired(), Not(Contains("MEM_LEAK")));
}

TEST_F(RingTest, ThatIsFullInTheLastStepsIsALeakOfLowConfidence) {
  Fill(/*size=*/8, /*steps=*/10);
  const Finding leak = Find("MEM_LEAK");
  EXPECT_EQ(leak.confidence, Confidence::kLow);
  EXPECT_THAT(leak.confidence_reason, HasSubstr("did not grow in the last 2 steps"));
}

TEST_F(RingTest, ThatStillFillsInTheLastStepIsALeakOfHighConfidence) {
  Fill(/*size=*/20, /*steps=*/20);
  EXPECT_EQ(Find("MEM_LEAK").confidence, Confidence::kHigh);
}

TEST_F(RingTest, MayBeOneWhileItFills) {
  Fill(/*size=*/40, /*steps=*/20);
  EXPECT_THAT(Find("MEM_LEAK").advice, HasSubstr("A buffer that fills up to a limit grows so"));
}

TEST_F(CpuGrowthTest, IsALeakIfTheProcessGrowsAsMuch) {
  Grow(1258 << 20, (1258 << 20) + 11 * kBlock);
  EXPECT_EQ(Find("MEM_LEAK").value, kBlock);
  EXPECT_EQ(Find("MEM_LEAK").confidence, Confidence::kHigh);
}

}  // namespace
}  // namespace profd::report
