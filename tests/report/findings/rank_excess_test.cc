// Ranks made by hand, each of ten steps. Of the slow one a single thing is changed.
#include "daemon/report/findings/rank_excess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSteps = 10;

KernelRow Kernel(const std::string& name, int64_t calls_of_step, int64_t ns_of_call) {
  KernelRow row;
  row.name = row.display_name = name;
  row.count = calls_of_step * kSteps;
  row.total_ns = row.count * ns_of_call;
  return row;
}

OpProfileRow Op(const std::string& name, int64_t calls_of_step, int64_t self_ns_of_call) {
  OpProfileRow row;
  row.name = name;
  row.calls = calls_of_step * kSteps;
  row.self_cpu_ns = row.calls * self_ns_of_call;
  return row;
}

// A step of 10 ms: 8 ms of kernels, 2 ms in which the GPU waits for the host.
RankFigures GpuRank() {
  RankFigures rank;
  rank.time.has_device = true;
  for (int64_t i = 0; i < kSteps; ++i) {
    TimeStep step;
    step.index = i;
    step.device = {.kernel_time_ns = 10 * kMs, .idle_ns = 2 * kMs, .compute_ns = 8 * kMs};
    step.host = {.operators_ns = 7 * kMs, .data_loader_ns = 100 * kUs, .outside_ns = 2 * kMs};
    rank.time.steps.push_back(step);
  }
  rank.kernels.rows = {Kernel("gemm", 4, 1 * kMs), Kernel("softmax", 2, 1 * kMs),
                       Kernel("norm", 2, 1 * kMs), Kernel("ncclDevKernel_AllReduce", 1, kMs)};
  rank.kernels.rows.back().is_communication = true;
  return rank;
}

RankFigures CpuRank() {
  RankFigures rank;
  for (int64_t i = 0; i < kSteps; ++i) {
    TimeStep step;
    step.index = i;
    step.host = {.operators_ns = 8 * kMs, .collectives_ns = 5 * kMs, .outside_ns = 1 * kMs};
    rank.time.steps.push_back(step);
  }
  rank.ops.rows = {Op("aten::addmm", 4, kMs), Op("aten::relu", 2, kMs), Op("aten::sum", 2, kMs),
                   Op("gloo:all_reduce", 1, 5 * kMs)};
  return rank;
}

void ForSteps(RankFigures& rank, void (*change)(TimeStep&)) {
  for (TimeStep& step : rank.time.steps) change(step);
}

void ComputeMore(RankFigures& rank) {
  ForSteps(rank, [](TimeStep& step) { step.device.compute_ns += 4 * kMs; });
}

RankExcess Explain(const RankFigures& slow, const RankFigures& usual, int64_t more_ns = 4 * kMs) {
  return ExplainRank("rank 2", slow, std::vector<RankFigures>(3, usual), more_ns);
}

TEST(RankExcessTest, AKernelThatTheOthersDoNotRunIsNamed) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows.push_back(Kernel("extra", 2, 2 * kMs));
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_EQ(excess.text,
            "Compared with 3 other ranks, the GPU of rank 2 computes for 4 ms a step more: extra "
            "takes 4 ms in 2 calls, and is not called elsewhere.");
  EXPECT_THAT(excess.advice, HasSubstr("divided among the ranks"));
  ASSERT_EQ(excess.evidence.size(), 2u);
  EXPECT_EQ(excess.evidence[0].name, "computing on the GPU");
  EXPECT_EQ(excess.evidence[0].duration_ns, 4 * kMs);
  EXPECT_EQ(excess.evidence[1].kind, EvidenceKind::kKernel);
  EXPECT_EQ(excess.evidence[1].name, "extra");
  EXPECT_EQ(excess.evidence[1].duration_ns, 4 * kMs);
}

TEST(RankExcessTest, AKernelThatRunsMoreOftenIsNamedWithBothNumbers) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[1] = Kernel("softmax", 6, kMs);
  EXPECT_THAT(Explain(slow, GpuRank()).text,
              HasSubstr("softmax takes 6 ms instead of 2 ms in 6 calls instead of 2."));
}

TEST(RankExcessTest, WhereAllKernelsTakeLongerTheGpuIsSuspected) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  for (KernelRow& row : slow.kernels.rows) row.total_ns = row.total_ns * 3 / 2;
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("nearly all kernels take longer, by 50% together"));
  EXPECT_THAT(excess.advice, HasSubstr("clocks"));
}

TEST(RankExcessTest, WhereOneKernelTakesLongerItsInputsAreSuspected) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[0] = Kernel("gemm", 4, 2 * kMs);
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("gemm takes 8 ms instead of 4 ms in as many calls"));
  EXPECT_THAT(excess.advice, HasSubstr("inputs"));
}

TEST(RankExcessTest, AnotherKernelForTheSameWorkIsShownWithTheOneItStandsFor) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[0] = Kernel("gemm_by_trial", 4, 2 * kMs);
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text,
              HasSubstr("gemm_by_trial takes 8 ms where other ranks run gemm for 4 ms"));
  EXPECT_THAT(excess.advice, HasSubstr("cudnn.benchmark"));
}

TEST(RankExcessTest, WaitingForDataCountsAsFarAsItLeavesTheGpuIdle) {
  RankFigures slow = GpuRank();
  ForSteps(slow, [](TimeStep& step) {
    step.device.idle_ns += 4 * kMs;
    step.host.data_loader_ns += 9 * kMs;  // 5 ms of it while the GPU had work.
  });
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("rank 2 waits for its data loader for 4 ms a step more."));
  EXPECT_THAT(excess.advice, HasSubstr("data"));
}

TEST(RankExcessTest, AHostThatTheGpuDoesNotWaitForIsNoCause) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  ForSteps(slow, [](TimeStep& step) { step.host.outside_ns += 9 * kMs; });
  EXPECT_THAT(Explain(slow, GpuRank()).text,
              AllOf(HasSubstr("the GPU of rank 2 computes"), Not(HasSubstr("host"))));
}

TEST(RankExcessTest, WithoutAGpuTheOperatorsAreCompared) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) { step.host.operators_ns += 4 * kMs; });
  slow.ops.rows.push_back(Op("extra work", 1, 4 * kMs));
  EXPECT_EQ(Explain(slow, CpuRank()).text,
            "Compared with 3 other ranks, operators of rank 2 take 4 ms a step more on the host: "
            "extra work takes 4 ms in 1 call, and is not called elsewhere.");
}

TEST(RankExcessTest, OfTimeOutsideOperatorsThePlaceIsNamedThatTheOthersSpendItNotIn) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
  const auto gap = [](const std::string& after, int64_t ns_of_step) {
    HostGapRow row;
    row.after = after;
    row.before = "aten::addmm";
    row.where = "log_metrics";
    row.total_ns = kSteps * ns_of_step;
    return row;
  };
  RankFigures usual = CpuRank();
  slow.time.host_gap_table.rows = {gap("aten::sum", 5 * kMs), gap("aten::relu", 4 * kMs)};
  usual.time.host_gap_table.rows = {gap("aten::sum", 5 * kMs)};
  const RankExcess excess = Explain(slow, usual);
  EXPECT_THAT(excess.text,
              HasSubstr("4 ms a step more outside operators: 4 ms between aten::relu and "
                        "aten::addmm, in log_metrics."));
  ASSERT_EQ(excess.evidence.size(), 2u);
  EXPECT_EQ(excess.evidence[1].kind, EvidenceKind::kCode);
}

TEST(RankExcessTest, TimeInCollectivesIsNotItsOwn) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) {
    step.host.collectives_ns -= 4 * kMs;
    step.host.outside_ns += 4 * kMs;
  });
  slow.ops.rows.back() = Op("gloo:all_reduce", 1, kMs);
  EXPECT_THAT(Explain(slow, CpuRank()).text,
              HasSubstr("the host of rank 2 spends 4 ms a step more outside operators."));
}

TEST(RankExcessTest, TwoCausesAreBothTold) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) {
    step.host.outside_ns += 3 * kMs;
    step.host.data_loader_ns += 2 * kMs;
  });
  EXPECT_THAT(Explain(slow, CpuRank(), 5 * kMs).text,
              AllOf(HasSubstr("3 ms a step more outside operators"),
                    HasSubstr(", and rank 2 waits for its data loader for 2 ms a step more.")));
}

TEST(RankExcessTest, WhatIsSmallAgainstTheDifferenceIsNotTold) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) { step.host.outside_ns += 300 * kUs; });
  EXPECT_THAT(Explain(slow, CpuRank()).text, IsEmpty());
}

TEST(RankExcessTest, TheSplitOfTheHostIsNotUsedWhereARankLacksIt) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
  RankFigures usual = CpuRank();
  usual.time.host_needs = "operators";
  EXPECT_THAT(Explain(slow, usual).text, IsEmpty());
}

TEST(RankExcessTest, NothingIsToldWithoutStepsOrOthers) {
  RankFigures slow = CpuRank();
  ForSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
  EXPECT_THAT(Explain(slow, CpuRank()).text, StartsWith("Compared"));
  EXPECT_THAT(ExplainRank("rank 2", slow, {}, 4 * kMs).text, IsEmpty());
  EXPECT_THAT(Explain(slow, CpuRank(), 0).text, IsEmpty());
  RankFigures without_steps = CpuRank();
  without_steps.time.steps.clear();
  EXPECT_THAT(Explain(slow, without_steps).text, IsEmpty());
  EXPECT_THAT(Explain(without_steps, CpuRank()).text, IsEmpty());
}

}  // namespace
}  // namespace profd::report
