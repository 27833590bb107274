// Ranks made by hand, each of ten steps. Of the slow one a single thing is changed.
#include "daemon/report/findings/rank_excess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fakes/nanoseconds.h"
#include "tests/fakes/rank_figures.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A step of 10 ms: 8 ms of kernels, 2 ms in which the GPU waits for the host.
RankFigures GpuRank() {
  RankFigures rank;
  rank.time.has_device = true;
  AddSteps(rank, [](int64_t) {
    TimeStep step;
    step.device = {.kernel_time_ns = 10 * kMs, .idle_ns = 2 * kMs, .compute_ns = 8 * kMs};
    step.host = {.operators_ns = 7 * kMs, .data_loader_ns = 100 * kUs, .outside_ns = 2 * kMs};
    return step;
  });
  rank.kernels.rows = {KernelOf("gemm", 4, 1 * kMs), KernelOf("softmax", 2, 1 * kMs),
                       KernelOf("norm", 2, 1 * kMs), KernelOf("ncclDevKernel_AllReduce", 1, kMs)};
  rank.kernels.rows.back().is_communication = true;
  return rank;
}

RankFigures CpuRank() {
  RankFigures rank;
  AddSteps(rank, [](int64_t) {
    TimeStep step;
    step.host = {.operators_ns = 8 * kMs, .collectives_ns = 5 * kMs, .outside_ns = 1 * kMs};
    return step;
  });
  rank.ops.rows = {OperatorOf("aten::addmm", 4, kMs), OperatorOf("aten::relu", 2, kMs),
                   OperatorOf("aten::sum", 2, kMs), OperatorOf("gloo:all_reduce", 1, 5 * kMs)};
  return rank;
}

void ComputeMore(RankFigures& rank) {
  ChangeSteps(rank, [](TimeStep& step) { step.device.compute_ns += 4 * kMs; });
}

RankExcess Explain(const RankFigures& slow, const RankFigures& usual, int64_t more_ns = 4 * kMs) {
  return ExplainRank("rank 2", slow, std::vector<RankFigures>(3, usual), more_ns);
}

TEST(RankExcessTest, AKernelThatTheOthersDoNotRunIsNamed) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows.push_back(KernelOf("extra", 3, 4 * kMs / 3));
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_EQ(excess.text,
            "Compared with 3 other ranks, rank 2 spends 4 ms more per step in GPU compute: extra "
            "takes 4 ms in 3 calls; none of 3 others call it.");
  EXPECT_THAT(excess.advice, HasSubstr("divided among the ranks"));
  ASSERT_EQ(excess.evidence.size(), 2u);
  EXPECT_EQ(excess.evidence[0].name, "computing on the GPU");
  EXPECT_EQ(excess.evidence[0].duration_ns, 4 * kMs);
  EXPECT_EQ(excess.evidence[1].kind, EvidenceKind::kKernel);
  EXPECT_EQ(excess.evidence[1].name, "extra");
  EXPECT_NEAR(static_cast<double>(excess.evidence[1].duration_ns), 4 * kMs, kUs);
}

TEST(RankExcessTest, OthersThatRunItTooAreCounted) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows.push_back(KernelOf("extra", 3, 4 * kMs / 3));
  RankFigures likewise = GpuRank();
  likewise.kernels.rows.push_back(KernelOf("extra", 3, 4 * kMs / 3));
  const RankExcess excess =
      ExplainRank("rank 2", slow, std::vector{GpuRank(), likewise, GpuRank()}, 4 * kMs);
  EXPECT_THAT(excess.text, HasSubstr("extra takes 4 ms in 3 calls; 1 of 3 others call it."));
}

TEST(RankExcessTest, AKernelThatRunsMoreOftenIsNamedWithBothNumbers) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[1] = KernelOf("softmax", 6, kMs);
  EXPECT_THAT(Explain(slow, GpuRank()).text,
              HasSubstr("softmax takes 6 ms in 6 calls instead of 2 ms in 2 calls."));
}

TEST(RankExcessTest, ALayerMoreIsNoSlowGpu) {
  RankFigures usual = GpuRank();
  usual.kernels.rows = {KernelOf("gemm", 10, kMs), KernelOf("softmax", 10, kMs),
                        KernelOf("norm", 10, kMs)};
  RankFigures slow = usual;
  slow.kernels.rows = {KernelOf("gemm", 11, kMs), KernelOf("softmax", 11, kMs),
                       KernelOf("norm", 11, kMs)};
  ChangeSteps(slow, [](TimeStep& step) { step.device.compute_ns += 3 * kMs; });
  // In windows of 20 steps, where a step that was cut is a twentieth.
  for (RankFigures* rank : {&slow, &usual}) {
    const std::vector<TimeStep> steps = rank->time.steps;
    rank->time.steps.insert(rank->time.steps.end(), steps.begin(), steps.end());
    for (KernelRow& row : rank->kernels.rows) {
      row.count *= 2;
      row.total_ns *= 2;
    }
  }
  const RankExcess excess = Explain(slow, usual, 3 * kMs);
  EXPECT_THAT(excess.text, HasSubstr("nearly all kernels are called more often; "));
  EXPECT_THAT(excess.text, HasSubstr("11 ms in 11 calls instead of 10 ms in 10 calls."));
  EXPECT_THAT(excess.advice, AllOf(HasSubstr("divided"), Not(HasSubstr("clock"))));
}

TEST(RankExcessTest, WhereCallsOfAllKernelsTakeLongerTheGpuIsSuspected) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  for (KernelRow& row : slow.kernels.rows) row.total_ns = row.total_ns * 3 / 2;
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("calls of nearly all kernels take longer, by 50% together."));
  EXPECT_THAT(excess.advice, HasSubstr("clocks"));
}

TEST(RankExcessTest, AFewKernelsOfManyAreNotNearlyAll) {
  RankFigures slow = GpuRank();
  RankFigures usual = GpuRank();
  for (RankFigures* rank : {&slow, &usual})
    rank->kernels.rows.push_back(KernelOf("large", 4, 8 * kMs));
  ComputeMore(slow);
  for (size_t i = 0; i < 3; ++i)
    slow.kernels.rows[i].total_ns = slow.kernels.rows[i].total_ns * 3 / 2;
  const RankExcess excess = Explain(slow, usual);
  EXPECT_THAT(excess.text, HasSubstr("gemm takes 6 ms instead of 4 ms, in as many calls."));
  EXPECT_THAT(excess.advice, HasSubstr("inputs"));
}

TEST(RankExcessTest, WhereOneKernelTakesLongerItsInputsAreSuspected) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[0] = KernelOf("gemm", 4, 2 * kMs);
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("gemm takes 8 ms instead of 4 ms, in as many calls"));
  EXPECT_THAT(excess.advice, HasSubstr("inputs"));
}

TEST(RankExcessTest, AnotherKernelForTheSameWorkIsShownWithTheOneItStandsFor) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[0] = KernelOf("gemm_by_trial", 4, 2 * kMs);
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_THAT(excess.text, HasSubstr("gemm_by_trial takes 8 ms in 4 calls; the others run gemm "
                                     "instead, for 4 ms."));
  EXPECT_THAT(excess.advice, HasSubstr("cudnn.benchmark"));
}

TEST(RankExcessTest, AnotherKernelThatIsNotSlowerIsNoCause) {
  RankFigures slow = GpuRank();
  RankFigures usual = GpuRank();
  usual.kernels.rows.push_back(KernelOf("conv_a", 1, 60 * kMs));
  slow.kernels.rows.push_back(KernelOf("conv_b", 1, 55 * kMs));
  ComputeMore(slow);
  slow.kernels.rows[0] = KernelOf("gemm", 4, 2 * kMs);
  const RankExcess excess = Explain(slow, usual);
  EXPECT_THAT(excess.text, AllOf(HasSubstr("gemm takes 8 ms"), Not(HasSubstr("conv"))));
}

TEST(RankExcessTest, OtherWorkIsNoOtherKernel) {
  RankFigures slow = GpuRank();
  RankFigures usual = GpuRank();
  usual.kernels.rows.push_back(KernelOf("embedding", 1, 2 * kMs));
  slow.kernels.rows.push_back(KernelOf("cross_entropy", 3, 2 * kMs));
  ComputeMore(slow);
  const RankExcess excess = Explain(slow, usual);
  EXPECT_THAT(excess.text, AllOf(HasSubstr("cross_entropy takes 6 ms in 3 calls; none of 3"),
                                 Not(HasSubstr("embedding"))));
  EXPECT_THAT(excess.advice, Not(HasSubstr("cudnn")));
}

TEST(RankExcessTest, OfARankThatIsSlowInSomeStepsTheseAreCompared) {
  const std::vector<int64_t> slow_steps = {2, 5, 8};
  RankFigures slow = CpuRank();
  for (const int64_t step : slow_steps) {
    slow.time.steps[static_cast<size_t>(step)].host.operators_ns += 40 * kMs;
  }
  OpProfileRow evaluation = OperatorOf("aten::linear", 1, 0);
  evaluation.calls = 3;
  evaluation.self_cpu_ns = 3 * 40 * kMs;
  slow.ops.rows.push_back(evaluation);
  const std::vector<RankFigures> others(3, CpuRank());
  EXPECT_EQ(ExplainRank("rank 2", slow, others, 40 * kMs, {}, slow_steps).text,
            "Compared with 3 other ranks in these steps, rank 2 spends 40 ms more per step in "
            "operators on its host: aten::linear takes 40 ms in 1 call; none of 3 others call it.");
  // Its median step is as the others'.
  EXPECT_THAT(ExplainRank("rank 2", slow, others, 40 * kMs).text, IsEmpty());
  EXPECT_THAT(ExplainRank("rank 2", slow, others, 40 * kMs, {}, std::vector<int64_t>{77}).text,
              IsEmpty());
}

TEST(RankExcessTest, WhatRunsInFewStepsDoesNotMakeEachStepLonger) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  slow.kernels.rows[0] = KernelOf("gemm", 4, 2 * kMs);
  KernelRow evaluation = KernelOf("evaluation", 1, 0);
  evaluation.count = 1;
  evaluation.total_ns = 100 * kMs;
  slow.kernels.rows.push_back(evaluation);
  EXPECT_THAT(Explain(slow, GpuRank()).text,
              AllOf(HasSubstr("gemm takes 8 ms"), Not(HasSubstr("evaluation"))));
}

TEST(RankExcessTest, WaitingForDataIsToldWithHowLongTheGpuIsIdle) {
  RankFigures slow = GpuRank();
  ChangeSteps(slow, [](TimeStep& step) {
    step.device.idle_ns += 4 * kMs;
    step.host.data_loader_ns += 9 * kMs;  // 5 ms of it while the GPU had work.
    step.host.outside_ns += 3 * kMs;
  });
  const RankExcess excess = Explain(slow, GpuRank());
  EXPECT_EQ(
      excess.text,
      "Compared with 3 other ranks, rank 2 waits 9 ms longer per step for its data loader (its "
      "GPU is idle for 4 ms of it).");
  EXPECT_THAT(excess.advice, HasSubstr("data"));
}

TEST(RankExcessTest, AHostThatTheGpuDoesNotWaitForIsNoCause) {
  RankFigures slow = GpuRank();
  ComputeMore(slow);
  ChangeSteps(slow, [](TimeStep& step) { step.host.outside_ns += 9 * kMs; });
  EXPECT_THAT(Explain(slow, GpuRank()).text,
              AllOf(HasSubstr("GPU compute"), Not(HasSubstr("host"))));
}

TEST(RankExcessTest, WithoutAGpuTheOperatorsAreCompared) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) { step.host.operators_ns += 4 * kMs; });
  slow.ops.rows[1] = OperatorOf("aten::relu", 2, 3 * kMs);
  slow.ops.rows.push_back(
      OperatorOf("Optimizer.step#AdamW.step", 1, 5 * kMs));  // Python runs in it.
  EXPECT_EQ(
      Explain(slow, CpuRank()).text,
      "Compared with 3 other ranks, rank 2 spends 4 ms more per step in operators on its host: "
      "aten::relu takes 6 ms instead of 2 ms, in as many calls.");
}

TEST(RankExcessTest, RangesOfTheProgramCountWhereItHasNoOperators) {
  RankFigures slow = CpuRank();
  RankFigures usual = CpuRank();
  for (RankFigures* rank : {&slow, &usual}) rank->ops.rows = {OperatorOf("forward", 1, 3 * kMs)};
  slow.ops.rows.push_back(OperatorOf("backward", 1, 4 * kMs));
  ChangeSteps(slow, [](TimeStep& step) { step.host.operators_ns += 4 * kMs; });
  EXPECT_THAT(Explain(slow, usual).text, HasSubstr("backward takes 4 ms in 1 call; none of 3"));
}

TEST(RankExcessTest, OfTimeOutsideOperatorsThePlaceIsNamedThatTheOthersDoNotSpendItIn) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
  const auto gap = [](const std::string& after, int64_t ns_of_step) {
    HostGapRow row;
    row.after = after;
    row.before = "aten::addmm";
    row.where = "log_metrics";
    row.total_ns = kFigureSteps * ns_of_step;
    return row;
  };
  RankFigures usual = CpuRank();
  slow.time.host_gap_table.rows = {gap("aten::sum", 5 * kMs), gap("aten::relu", 4 * kMs)};
  usual.time.host_gap_table.rows = {gap("aten::sum", 5 * kMs)};
  const RankExcess excess = Explain(slow, usual);
  EXPECT_THAT(excess.text,
              HasSubstr("4 ms more per step outside operators on its host: 4 ms between "
                        "aten::relu and aten::addmm, in log_metrics."));
  ASSERT_EQ(excess.evidence.size(), 2u);
  EXPECT_EQ(excess.evidence[1].kind, EvidenceKind::kCode);
  // A full table may lack a place where they spend nearly as long.
  usual.time.host_gap_table.rows.assign(kMostHostGapRows, gap("aten::sum", 3 * kMs));
  EXPECT_THAT(Explain(slow, usual).text, HasSubstr("outside operators on its host."));
}

TEST(RankExcessTest, TimeInCollectivesIsNotItsOwn) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) {
    step.host.collectives_ns -= 4 * kMs;
    step.host.outside_ns += 4 * kMs;
  });
  slow.ops.rows.back() = OperatorOf("gloo:all_reduce", 1, kMs);
  EXPECT_THAT(Explain(slow, CpuRank()).text,
              HasSubstr("rank 2 spends 4 ms more per step outside operators on its host."));
}

TEST(RankExcessTest, TwoCausesAreBothTold) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) {
    step.host.outside_ns += 3 * kMs;
    step.host.data_loader_ns += 2 * kMs;
  });
  EXPECT_THAT(Explain(slow, CpuRank(), 5 * kMs).text,
              AllOf(HasSubstr("3 ms more per step outside operators"),
                    HasSubstr(", and waits 2 ms longer per step for its data loader.")));
}

TEST(RankExcessTest, WhatIsSmallAgainstTheDifferenceIsNotTold) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) { step.host.outside_ns += 300 * kUs; });
  EXPECT_THAT(Explain(slow, CpuRank()).text, IsEmpty());
}

TEST(RankExcessTest, TheSplitOfTheHostIsNotUsedWhereARankLacksIt) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
  RankFigures usual = CpuRank();
  usual.time.host_needs = "operators";
  EXPECT_THAT(Explain(slow, usual).text, IsEmpty());
}

TEST(RankExcessTest, NothingIsToldWithoutStepsOrOthers) {
  RankFigures slow = CpuRank();
  ChangeSteps(slow, [](TimeStep& step) { step.host.outside_ns += 4 * kMs; });
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
