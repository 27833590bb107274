// GPU work whose times cannot be right is counted and named, and no figure is made of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "daemon/report/gpu/idle_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/report/time/time_report.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecond = 1'000'000'000;

class ImpossibleTimesTest : public FindingsFixture {
 protected:
  // A kernel of 150 us each 200 us, in two steps. The one numbered `odd` lasts `odd_ns`.
  void Kernels(int count, int odd, int64_t odd_ns, const FakeGpu& gpu = {}) {
    Steps(2);
    for (int i = 0; i < count; ++i) {
      const int64_t at = i * 200 * kUs + 100 * kUs;
      Launch({.start_ns = at,
              .kernel_ns = i == odd ? odd_ns : 150 * kUs,
              .lead_ns = 20 * kUs,
              .kernel = i == odd ? "odd_kernel" : "kernel",
              .op = "aten::add",
              .gpu = gpu});
    }
  }
  QualityCheck Check() {
    for (const QualityCheck& check : Report().quality.checks) {
      if (check.name == "impossible_times") return check;
    }
    ADD_FAILURE();
    return {};
  }
  int64_t KernelTime() {
    const auto table = SummarizeKernels(reader_, {});
    EXPECT_THAT(table, IsOk());
    return table->total_ns;
  }
};

TEST_F(ImpossibleTimesTest, AKernelEndsAtTheLatestWhenItsStreamDoesTheNextWork) {
  Kernels(40, 7, 3 * kSecond);
  EXPECT_EQ(KernelTime(), 39 * 150 * kUs + 200 * kUs);
  const auto time = SummarizeTime(reader_, {});
  ASSERT_THAT(time, IsOk());
  EXPECT_EQ(time->whole.kernel_time_ns, 39 * 200 * kUs + 150 * kUs);
  EXPECT_EQ(time->whole.busy_ns, 39 * 150 * kUs + 200 * kUs);
  EXPECT_EQ(time->launches.device_ns, 39 * 150 * kUs + 200 * kUs);
  const auto idle = SummarizeIdle(reader_);
  ASSERT_THAT(idle, IsOk());
  EXPECT_EQ(idle->rows.front().busy_ns, 39 * 150 * kUs + 200 * kUs);
  const auto ops = SummarizeOps(reader_, {});
  ASSERT_THAT(ops, IsOk());
  const auto add = std::ranges::find(ops->rows, "aten::add", &OpRow::name);
  ASSERT_NE(add, ops->rows.end());
  EXPECT_EQ(add->self_device_ns, 39 * 150 * kUs + 200 * kUs);
}

TEST_F(ImpossibleTimesTest, TheyAreNamedAndLowerTheGrade) {
  Kernels(40, 7, 3 * kSecond);
  const FindingsReport report = Report();
  EXPECT_EQ(report.quality.grade, "C");
  EXPECT_THAT(report.verdict, HasSubstr("1 of 40 (2.5%) GPU activities have impossible times"));
  EXPECT_THAT(report.verdict, HasSubstr("odd_kernel: 3 s recorded, at most 200 us possible"));
  EXPECT_THAT(report.verdict, Not(HasSubstr("compute-bound")));
  EXPECT_EQ(Find("QUALITY_TIMES").value, 1);
  EXPECT_EQ(Find("GPU_UNDERUSED").confidence, Confidence::kMedium);
}

TEST_F(ImpossibleTimesTest, NothingIsConcludedFromMany) {
  Steps(2);
  for (int i = 0; i < 40; ++i) {
    Launch({.start_ns = i * 200 * kUs, .kernel_ns = i % 4 == 0 ? kSecond : 100 * kUs});
  }
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_EQ(report.quality.grade, "D");
  EXPECT_THAT(report.verdict, HasSubstr("10 of 40 GPU activities have impossible times"));
  EXPECT_THAT(NeedsOf("GPU_GAP"), HasSubstr("at its right time"));
}

TEST_F(ImpossibleTimesTest, EachOfARunOfOverlongKernelsEndsAtTheNext) {
  Steps(2);
  for (int i = 0; i < 40; ++i) Launch({.start_ns = i * 200 * kUs, .kernel_ns = kSecond});
  EXPECT_EQ(Check().value, 39);  // What came after the last one is not known.
}

TEST_F(ImpossibleTimesTest, OtherStreamsAndGraphNodesRunAtTheSameTime) {
  Steps(2);
  Launch({.start_ns = 0, .kernel_ns = 9 * kMs, .gpu = {.stream = 20}});
  Launch({.start_ns = kMs, .kernel_ns = kMs, .gpu = {.stream = 21}});
  reader_.ApiCall(main_, "cudaGraphLaunch", 9'500 * kUs, 9'510 * kUs, 900);
  reader_.Kernel(kTensorKernel, 9'600 * kUs, 15 * kMs, 900, {.graph_id = 1, .graph_node_id = 1});
  reader_.Kernel(kTensorKernel, 9'700 * kUs, 11 * kMs, 900, {.graph_id = 1, .graph_node_id = 2});
  EXPECT_FALSE(Check().failed());
}

// Forty kernels of 150 us in two steps; the seventh begins 30 ms late.
class OutOfOrderTest : public ImpossibleTimesTest {
 protected:
  void Kernels(uint32_t thread_of_odd, const FakeGpu& gpu_of_odd = {}) {
    Steps(2);
    for (int i = 0; i < 40; ++i) {
      ++correlation_;
      const int64_t call_ns = i * 20 * kUs;
      const int64_t start_ns = i * 200 * kUs + 100 * kUs + (i == 7 ? 30 * kMs : 0);
      reader_
          .ApiCall(i == 7 ? thread_of_odd : main_, "cudaLaunchKernel", call_ns, call_ns + 5 * kUs,
                   correlation_)
          .Kernel("kernel", start_ns, start_ns + 150 * kUs, correlation_,
                  i == 7 ? gpu_of_odd : FakeGpu());
    }
  }
};

TEST_F(OutOfOrderTest, WorkThatBeginsAfterWhatWasLaunchedLaterIsLeftOut) {
  Kernels(main_);
  EXPECT_EQ(Check().value, 1);
  EXPECT_EQ(KernelTime(), 39 * 150 * kUs);
}

TEST_F(OutOfOrderTest, OtherStreamsAndThreadsHaveAnOrderOfTheirOwn) {
  Kernels(main_, {.stream = 9});
  EXPECT_FALSE(Check().failed());
}

TEST_F(OutOfOrderTest, WhatAnotherThreadLaunchedMayComeLater) {
  Kernels(reader_.AddThread(2, "other"));
  EXPECT_FALSE(Check().failed());
}

// Whose launches, or clocks, are wrong is not known.
TEST_F(OutOfOrderTest, AStreamThatIsOutOfOrderThroughoutIsBelieved) {
  Steps(2);
  for (int i = 0; i < 40; ++i) {
    ++correlation_;
    const int64_t start_ns = (40 - i) * 2 * kMs;
    reader_.ApiCall(main_, "cudaLaunchKernel", i * kUs, i * kUs + 500, correlation_)
        .Kernel("kernel", start_ns, start_ns + 150 * kUs, correlation_);
  }
  EXPECT_FALSE(Check().failed());
}

TEST_F(ImpossibleTimesTest, AKernelMayBeginALittleBeforeItsPredecessorEnds) {
  Steps(2);
  for (int i = 0; i < 40; ++i) Launch({.start_ns = i * 200 * kUs, .kernel_ns = 210 * kUs});
  EXPECT_FALSE(Check().failed());
}

TEST_F(ImpossibleTimesTest, WorkThatBeginsDaysFromItsLaunchIsLeftOut) {
  for (const int64_t days : {3, -3}) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    Kernels(40, -1, 0);
    const int64_t at = days * 86'400 * kSecond;
    reader_.ApiCall(main_, "cudaLaunchKernel", 5 * kMs, 5'005 * kUs, 900)
        .Kernel("odd_kernel", at, at + 150 * kUs, 900);
    EXPECT_EQ(Check().grade, 'C');
    EXPECT_THAT(Check().sentence, HasSubstr("1 is 3 days away from the launch"));
    EXPECT_EQ(KernelTime(), 40 * 150 * kUs);
    const auto time = SummarizeTime(reader_, {});
    ASSERT_THAT(time, IsOk());
    EXPECT_LT(time->whole.kernel_time_ns, 20 * kMs);
  }
}

TEST_F(ImpossibleTimesTest, WorkWithoutDurationsIsNotAnAbsenceOfWork) {
  Steps(2);
  for (int i = 0; i < 40; ++i) Launch({.start_ns = i * 200 * kUs, .kernel_ns = 0});
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("0 of 40 GPU activities have a duration: what the GPU "
                                        "did is unknown"));
  EXPECT_THAT(NeedsOf("GPU_GAP"), HasSubstr("have a duration"));
}

TEST_F(ImpossibleTimesTest, WorkThatBeginsSecondsAfterAllThatTheHostDidIsLeftOut) {
  const auto late_kernels = [&](std::string_view host) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    Steps(2);
    for (int i = 0; i < 40; ++i) {
      const int64_t at = i * 200 * kUs + (i < 20 ? 100 * kUs : 20 * kSecond);
      Launch({.start_ns = at, .kernel_ns = 150 * kUs, .lead_ns = i < 20 ? 20 * kUs : 20 * kSecond});
    }
    if (!host.empty()) reader_.Range(main_, host, 19 * kMs, 21 * kSecond);
  };
  late_kernels("");
  EXPECT_EQ(Check().value, 20);
  EXPECT_THAT(Check().sentence, HasSubstr("20 are up to 20 s away from the launch"));
  EXPECT_EQ(KernelTime(), 20 * 150 * kUs);
  late_kernels("a host that waits");
  EXPECT_FALSE(Check().failed());
}

// Kernels of 150 us, then a call that returns when the GPU has done them all.
class AwaitedWorkTest : public ImpossibleTimesTest {
 protected:
  void KernelsAndWait() {
    Kernels(40, -1, 0);
    reader_.ApiCall(main_, "cudaDeviceSynchronize", 8'200 * kUs, 8'260 * kUs, 800);
  }
  void SetUpAgain() {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
  }
  void Odd(int64_t start_ns, int64_t duration_ns, const FakeGpu& gpu = {}) {
    reader_.ApiCall(main_, "cudaLaunchKernel", 8'100 * kUs, 8'105 * kUs, 900)
        .Kernel("odd_kernel", start_ns, start_ns + duration_ns, 900, gpu);
  }
};

TEST_F(AwaitedWorkTest, WorkThatBeginsSecondsAfterTheHostWaitedForItIsLeftOut) {
  KernelsAndWait();
  Odd(3 * kSecond, 150 * kUs);
  EXPECT_EQ(Check().grade, 'C');
  EXPECT_THAT(Check().sentence,
              HasSubstr("1 of 41 (2.44%) GPU activities have impossible times: 1 is 2.992 s "
                        "away from the launch on a GPU without other work, or after the host's "
                        "wait for it or later launches of its stream, and left out"));
  EXPECT_EQ(KernelTime(), 40 * 150 * kUs);
}

TEST_F(AwaitedWorkTest, WorkEndsWhenTheHostHasWaitedForIt) {
  KernelsAndWait();
  Odd(8'110 * kUs, 4 * kSecond);
  EXPECT_EQ(Check().grade, 'C');
  EXPECT_THAT(Check().sentence,
              HasSubstr("or beyond the host's wait for it, where it is taken to end ("
                        "odd_kernel: 4 s recorded, at most 150 us possible)"));
  EXPECT_EQ(KernelTime(), 41 * 150 * kUs);
}

TEST_F(AwaitedWorkTest, NothingIsConcludedFromAClockThatIsSecondsOff) {
  Steps(2);
  for (int i = 0; i < 40; ++i) {
    Launch(
        {.start_ns = 3 * kSecond + i * 200 * kUs, .kernel_ns = 150 * kUs, .lead_ns = 3 * kSecond});
  }
  reader_.ApiCall(main_, "hipDeviceSynchronize", 8'200 * kUs, 8'260 * kUs, 800);
  const FindingsReport report = Report();
  EXPECT_EQ(report.quality.grade, "D");
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("40 of 40 GPU activities have impossible times"));
}

TEST_F(AwaitedWorkTest, AClockThatIsALittleLateIsCountedAndBelieved) {
  KernelsAndWait();
  Odd(8'110 * kUs, 1'650 * kUs);
  EXPECT_FALSE(Check().failed());
  EXPECT_EQ(KernelTime(), 40 * 150 * kUs + 1'650 * kUs);
  EXPECT_THAT(Find("QUALITY_INVERSIONS").measured,
              HasSubstr("1 of 41 (2.44%) GPU activities start before their launch, or end "
                        "after the host waited for them, by up to 1.5 ms"));
}

TEST_F(AwaitedWorkTest, OtherGpusLaterLaunchesAndFailedCallsSayNothing) {
  KernelsAndWait();
  Odd(3 * kSecond, 150 * kUs, {.device = 1});
  EXPECT_FALSE(Check().failed());
  SetUpAgain();
  Kernels(40, -1, 0);
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 8'050 * kUs, 8'260 * kUs, 800);
  Odd(3 * kSecond, 150 * kUs);
  EXPECT_FALSE(Check().failed());
  SetUpAgain();
  Kernels(40, -1, 0);
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 8'200 * kUs, 8'201 * kUs, 800, {.result = 900});
  Odd(3 * kSecond, 150 * kUs);
  EXPECT_FALSE(Check().failed());
}

TEST_F(AwaitedWorkTest, AWaitOfUnknownLengthSaysNothing) {
  Kernels(40, -1, 0);
  reader_.ApiCall(main_, "cudaDeviceSynchronize", 8'200 * kUs, 8'200 * kUs, 800);
  Odd(8'110 * kUs, 1 * kSecond);
  EXPECT_FALSE(Check().failed());
  EXPECT_EQ(KernelTime(), 40 * 150 * kUs + 1 * kSecond);
}

TEST_F(AwaitedWorkTest, ALiveProcessWithTwoGpusMayHaveWaitedForTheOtherOne) {
  KernelsAndWait();
  reader_.mutable_record().gpu.devices.resize(2);
  Odd(3 * kSecond, 150 * kUs);
  EXPECT_FALSE(Check().failed());
}

TEST_F(AwaitedWorkTest, WorkThatBeginsALittleAfterTheWaitAndLastsLongIsLeftOut) {
  KernelsAndWait();
  Odd(8'265 * kUs, 3 * kSecond);
  EXPECT_EQ(Check().grade, 'C');
  EXPECT_EQ(KernelTime(), 40 * 150 * kUs);
}

TEST_F(AwaitedWorkTest, TheErrorOfTheGpusClockIsAllowedFor) {
  KernelsAndWait();
  Odd(8'110 * kUs, 15'000 * kUs);
  EXPECT_EQ(Check().grade, 'C');
  reader_.mutable_record().gpu.clock_error_ns = 20'000 * kUs;
  EXPECT_FALSE(Check().failed());
  EXPECT_EQ(KernelTime(), 40 * 150 * kUs + 15'000 * kUs);
}

TEST_F(ImpossibleTimesTest, AFullQueueMayHoldWorkForLong) {
  Steps(2);
  for (int i = 0; i < 40; ++i) {
    ++correlation_;
    reader_.ApiCall(main_, "cudaLaunchKernel", i * 10 * kUs, i * 10 * kUs + kUs, correlation_)
        .Kernel(kTensorKernel, i * 3 * kSecond, (i + 1) * 3 * kSecond, correlation_);
  }
  EXPECT_FALSE(Check().failed());
}

// A wait for a stream may be one for another stream, so more has to speak against the last kernel.
class LastKernelTest : public ImpossibleTimesTest {
 protected:
  void KernelsAndALast(int64_t last_ns, std::string_view last_name) {
    Steps(2);
    for (int i = 0; i < 20; ++i) {
      Launch({.start_ns = i * 200 * kUs + 100 * kUs,
              .kernel_ns = i == 19 ? last_ns : 150 * kUs,
              .lead_ns = 20 * kUs,
              .kernel = i == 19 ? last_name : "kernel",
              .op = "aten::add"});
    }
    reader_.ApiCall(main_, "cudaStreamSynchronize", 3'950 * kUs, 4'060 * kUs, 800);
  }
};

TEST_F(LastKernelTest, EndsWithTheWaitForItsStream) {
  KernelsAndALast(3 * kSecond, "kernel");
  EXPECT_EQ(KernelTime(), 19 * 150 * kUs + 160 * kUs);
  EXPECT_TRUE(Check().failed());
}

TEST_F(LastKernelTest, IsBelievedIfNothingLikeItIsKnown) {
  KernelsAndALast(3 * kSecond, "another_kernel");
  EXPECT_EQ(KernelTime(), 19 * 150 * kUs + 3 * kSecond);
}

TEST_F(LastKernelTest, IsBelievedIfItIsNotFarLonger) {
  KernelsAndALast(14 * kMs, "kernel");
  EXPECT_EQ(KernelTime(), 19 * 150 * kUs + 14 * kMs);
}

// All work begins a second after its launch, on an idle GPU.
TEST_F(ImpossibleTimesTest, AClockThatIsOffByTheSameEachTimeIsNotBelieved) {
  Steps(4);
  for (int i = 0; i < 40; ++i) {
    const int64_t at = i * kMs;
    reader_.ApiCall(main_, "cudaLaunchKernel", at + 10 * kUs, at + 18 * kUs, 900 + i)
        .Kernel("kernel", at + kSecond + 30 * kUs, at + kSecond + 630 * kUs, 900 + i, {});
  }
  EXPECT_TRUE(Check().failed());
  EXPECT_EQ(Report().bound, BoundBy::kUnknown);
  EXPECT_THAT(Report().verdict, Not(HasSubstr("SYNC_API")));
}

// As ROCm writes graphs: one launch, and nodes without numbers.
TEST_F(ImpossibleTimesTest, NodesOfAGraphRunSideBySideAlsoWithoutNumbers) {
  Steps(2);
  for (int step = 0; step < 2; ++step) {
    const int64_t at = step * kStepNs;
    reader_.ApiCall(main_, "hipGraphLaunch", at + 10 * kUs, at + 18 * kUs, 900 + step);
    reader_.Kernel("long", at + 30 * kUs, at + 3'030 * kUs, 900 + step, {});
    for (int node = 0; node < 9; ++node) {
      const int64_t start_ns = at + (130 + 200 * node) * kUs;
      reader_.Kernel("short", start_ns, start_ns + 150 * kUs, 900 + step, {});
    }
  }
  EXPECT_FALSE(Check().failed());
}

}  // namespace
}  // namespace profd::report
