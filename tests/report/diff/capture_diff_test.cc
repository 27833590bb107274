// Captures made by hand, each of ten steps. Of the second a single thing is changed.
#include "daemon/report/diff/capture_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "daemon/report/index/op_kinds.h"
#include "tests/fakes/nanoseconds.h"
#include "tests/fakes/rank_figures.h"

namespace profd::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

CaptureRecord ARecord(const std::string& id) {
  CaptureRecord record;
  record.id = id;
  record.target.command = "python3 train.py";
  record.torch.version = "2.6.0";
  record.covered_ns = 2'000 * kMs;
  return record;
}

// Steps of 10 ms: 8 ms of kernels, 2 ms in which the GPU waits for the host.
DiffCapture GpuCapture(const std::string& id = "A") {
  DiffCapture capture = {.record = ARecord(id)};
  capture.record.gpu.devices = {{.name = "H100"}, {.number = 1, .name = "H100"}};
  capture.figures.time.has_device = true;
  AddSteps(capture.figures, [](int64_t i) {
    TimeStep step;
    step.duration_ns = 10 * kMs + i * kUs;
    step.device = {.kernel_time_ns = 10 * kMs, .idle_ns = 2 * kMs, .compute_ns = 8 * kMs};
    step.device.idle_by_cause.host_wait_ns = 2 * kMs;
    step.host = {.operators_ns = 7 * kMs, .outside_ns = 3 * kMs};
    return step;
  });
  capture.figures.kernels.rows = {KernelOf("gemm", 4, 1 * kMs), KernelOf("softmax", 4, 1 * kMs)};
  capture.figures.ops.has_device = true;
  capture.figures.ops.rows = {OperatorOf("aten::mm", 4, 1 * kMs, 1 * kMs),
                              OperatorOf("aten::softmax", 4, 750 * kUs, 1 * kMs)};
  return capture;
}

// Steps of 10 ms without a GPU: 6 ms in operators.
DiffCapture CpuCapture(const std::string& id = "A") {
  DiffCapture capture = {.record = ARecord(id)};
  AddSteps(capture.figures, [](int64_t i) {
    TimeStep step;
    step.duration_ns = 10 * kMs + i * kUs;
    step.host = {.operators_ns = 6 * kMs, .data_loader_ns = 1 * kMs, .outside_ns = 3 * kMs};
    return step;
  });
  capture.figures.ops.rows = {OperatorOf("aten::mm", 4, 1 * kMs),
                              OperatorOf("aten::relu", 2, 1 * kMs)};
  return capture;
}

// Each step takes `more_ns` more, of which `change` says where.
template <typename Change>
void LengthenSteps(DiffCapture& capture, int64_t more_ns, Change change) {
  ChangeSteps(capture.figures, [&](TimeStep& step) {
    step.duration_ns += more_ns;
    change(step);
  });
}

TEST(CaptureDiffTest, EqualCapturesDifferInNothing) {
  const CaptureDiff diff = DiffCaptures({GpuCapture("A")}, {GpuCapture("B")});
  EXPECT_EQ(diff.before, "A");
  EXPECT_EQ(diff.after, "B");
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kSame);
  EXPECT_THAT(diff.why, IsEmpty());
  EXPECT_THAT(diff.facts, IsEmpty());
  EXPECT_THAT(diff.other_work, IsEmpty());
  EXPECT_TRUE(diff.per_step);
  EXPECT_TRUE(diff.operators_on_device);
  EXPECT_THAT(diff.operators, Not(Contains(Field(&DiffName::why, Not(IsEmpty())))));
}

TEST(CaptureDiffTest, PartsOfAStepAreMeansAndAddUpToIt) {
  const CaptureDiff diff = DiffCaptures({GpuCapture()}, {GpuCapture()});
  ASSERT_EQ(diff.parts.size(), 4U);
  for (const std::string side : {"gpu", "host"}) {
    int64_t sum_ns = 0;
    for (const DiffPart& part : diff.parts) sum_ns += part.side == side ? part.before_ns : 0;
    EXPECT_EQ(sum_ns, 10 * kMs) << side;
  }
}

TEST(CaptureDiffTest, ALongerKernelIsNamed) {
  DiffCapture after = GpuCapture("B");
  LengthenSteps(after, 2 * kMs, [](TimeStep& step) { step.device.compute_ns += 2 * kMs; });
  after.figures.kernels.rows[0] = KernelOf("gemm", 4, 1'500 * kUs);
  after.figures.ops.rows[0] = OperatorOf("aten::mm", 4, 1 * kMs, 1'500 * kUs);
  const CaptureDiff diff = DiffCaptures({GpuCapture()}, {after});
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kSlower);
  EXPECT_THAT(diff.sentence, StartsWith("A step takes 20% longer ("));
  EXPECT_EQ(
      diff.why,
      "Mostly on the GPU, compute: +2 ms of +2 ms per step on average; gemm takes 6 ms instead of "
      "4 ms, "
      "in longer calls");
  ASSERT_FALSE(diff.kernels.empty());
  EXPECT_EQ(diff.kernels[0].name, "gemm");
  EXPECT_EQ(diff.kernels[0].change_ns(), 2 * kMs);
  EXPECT_EQ(diff.kernels[0].why, "longer calls");
  EXPECT_EQ(diff.operators[0].name, "aten::mm");
  EXPECT_EQ(diff.operators[0].after_ns, 6 * kMs);
}

TEST(CaptureDiffTest, WhereTheGpuWaitsLongerTheHostSaysWhy) {
  DiffCapture after = GpuCapture("B");
  LengthenSteps(after, 5 * kMs, [](TimeStep& step) {
    step.device.idle_ns += 5 * kMs;
    step.device.idle_by_cause.host_wait_ns += 5 * kMs;
    step.host.data_loader_ns += 5 * kMs;
  });
  EXPECT_EQ(DiffCaptures({GpuCapture()}, {after}).why,
            "Mostly on the host, data loading: +5 ms of +5 ms per step on average");
}

TEST(CaptureDiffTest, OperatorsOfACpuAreNamedByHowTheyChanged) {
  DiffCapture after = CpuCapture("B");
  LengthenSteps(after, 4 * kMs, [](TimeStep& step) { step.host.operators_ns += 4 * kMs; });
  after.figures.ops.rows = {OperatorOf("aten::mm", 8, 1 * kMs),
                            OperatorOf("aten::gelu", 2, 1 * kMs)};
  const CaptureDiff diff = DiffCaptures({CpuCapture()}, {after});
  EXPECT_EQ(diff.why,
            "Mostly on the host, operators: +4 ms of +4 ms per step on average; aten::mm takes 8 "
            "ms instead "
            "of 4 ms, in more calls");
  EXPECT_FALSE(diff.operators_on_device);
  EXPECT_THAT(diff.kernels, IsEmpty());
  const auto why_of = [&](const std::string& name) {
    return std::ranges::find(diff.operators, name, &DiffName::name)->why;
  };
  EXPECT_EQ(why_of("aten::mm"), "more calls");
  EXPECT_EQ(why_of("aten::relu"), "gone");
  EXPECT_EQ(why_of("aten::gelu"), "new");
}

TEST(CaptureDiffTest, AFasterStepIsExplainedLikewise) {
  DiffCapture after = CpuCapture("B");
  LengthenSteps(after, -3 * kMs, [](TimeStep& step) { step.host.outside_ns -= 3 * kMs; });
  const CaptureDiff diff = DiffCaptures({CpuCapture()}, {after});
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kFaster);
  EXPECT_EQ(diff.why, "Mostly on the host, outside operators: -3 ms of -3 ms per step on average");
}

// One step of 10 s makes the mean longer, not the steps.
TEST(CaptureDiffTest, WhatSingleStepsChangeIsNotWhyStepsDo) {
  DiffCapture after = CpuCapture("B");
  LengthenSteps(after, -3 * kMs, [](TimeStep& step) { step.host.outside_ns -= 3 * kMs; });
  after.figures.time.steps[4].duration_ns += 10'000 * kMs;
  after.figures.time.steps[4].host.outside_ns += 10'000 * kMs;
  const CaptureDiff diff = DiffCaptures({CpuCapture()}, {after});
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kFaster);
  EXPECT_THAT(diff.why, IsEmpty());
}

TEST(CaptureDiffTest, WhatElseDiffersIsSaid) {
  DiffCapture before = GpuCapture();
  DiffCapture after = GpuCapture("B");
  after.record.target.command = "python3 train.py --batch-size 64\x1b[2J";
  after.record.gpu.devices = {{.name = "H200"}};
  after.record.torch.version = "2.7.0";
  after.record.spec.torch.stacks = true;
  after.record.target.metadata["world_size"] = "8";
  before.figures.ops.rows[0].flops = 1e10;
  after.figures.ops.rows[0].flops = 2e10;
  const CaptureDiff diff = DiffCaptures({before}, {after});
  const auto fact = [](const std::string& what, const std::string& first,
                       const std::string& second) {
    return AllOf(Field(&DiffFact::what, what), Field(&DiffFact::before, first),
                 Field(&DiffFact::after, second));
  };
  EXPECT_THAT(diff.facts,
              ElementsAre(AllOf(Field(&DiffFact::what, "program"),
                                Field(&DiffFact::after, Not(HasSubstr("\x1b")))),
                          fact("ranks", "", "8"), fact("GPU", "2 x H100", "H200"),
                          fact("PyTorch", "2.6.0", "2.7.0"), fact("GFLOP per step", "1", "2"),
                          fact("Python stacks recorded", "no", "yes")));
  EXPECT_EQ(diff.other_work, "ranks, GPU, GFLOP per step");
}

TEST(CaptureDiffTest, WaitsForACpuOfOneCaptureAreSaid) {
  DiffCapture after = CpuCapture("B");
  LengthenSteps(after, 1 * kMs, [](TimeStep& step) { step.host.operators_ns += 1 * kMs; });
  after.record.cpu.watched_ns = 100 * kMs;
  after.record.cpu.threads = {{.os_thread = 7, .ran_ns = 70 * kMs, .waited_ns = 30 * kMs}};
  // Of an import nothing is known of it.
  EXPECT_THAT(DiffCaptures({CpuCapture()}, {after}).facts, IsEmpty());
  DiffCapture before = CpuCapture();
  before.record.cpu.watched_ns = 100 * kMs;
  const CaptureDiff diff = DiffCaptures({before}, {after});
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kSame);
  EXPECT_TRUE(diff.steps.waits_can_explain);
  EXPECT_THAT(diff.facts, Contains(AllOf(Field(&DiffFact::what, "waits for a CPU"),
                                         Field(&DiffFact::after, "30%"))));
  EXPECT_THAT(diff.why, IsEmpty());

  // That the machine stayed as busy afterwards says nothing of when the other one was made.
  after.record.cpu.after_watched_ns = 50 * kMs;
  after.record.cpu.threads[0].after_ran_ns = 35 * kMs;
  after.record.cpu.threads[0].after_waited_ns = 15 * kMs;
  const CaptureDiff later = DiffCaptures({before}, {after});
  EXPECT_TRUE(later.steps.waits_can_explain);
  EXPECT_THAT(later.facts, Contains(AllOf(Field(&DiffFact::what, "waits for a CPU"),
                                          Field(&DiffFact::after, "30%"))));
}

TEST(CaptureDiffTest, WithoutStepsTimesArePerSecond) {
  DiffCapture before = CpuCapture();
  before.figures.time.steps.clear();
  const CaptureDiff diff = DiffCaptures({before}, {CpuCapture("B")});
  EXPECT_FALSE(diff.per_step);
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kUnknown);
  EXPECT_THAT(diff.parts, IsEmpty());
  ASSERT_FALSE(diff.operators.empty());
  EXPECT_EQ(diff.operators[0].before_ns, 20 * kMs);  // 40 ms in two seconds.
}

TEST(CaptureDiffTest, TheRowOfStepsIsNoOperator) {
  DiffCapture before = CpuCapture();
  DiffCapture after = CpuCapture("B");
  before.figures.ops.rows.push_back(OperatorOf(std::string(kStepRow), 1, 10 * kMs));
  after.figures.ops.rows.clear();
  const CaptureDiff diff = DiffCaptures({before}, {after});
  EXPECT_THAT(diff.operators, ElementsAre(Field(&DiffName::name, "aten::mm"),
                                          Field(&DiffName::name, "aten::relu")));
  EXPECT_EQ(diff.operators[0].after_ns, 0);
  EXPECT_EQ(diff.operators[0].why, "gone");
}

TEST(CaptureDiffTest, APartThatIsLessThanHalfIsNotCalledMost) {
  DiffCapture after = CpuCapture("B");
  LengthenSteps(after, 6 * kMs, [](TimeStep& step) {
    step.host.outside_ns += 25 * kMs / 10;
    step.host.data_loader_ns += 2 * kMs;
    step.host.collectives_ns += 15 * kMs / 10;
  });
  EXPECT_EQ(DiffCaptures({CpuCapture()}, {after}).why,
            "The largest part of it is on the host, outside operators: +2.5 ms of +6 ms per step "
            "on average");
}

TEST(CaptureDiffTest, TimesOfSeveralCapturesAreTheirMeans) {
  DiffCapture longer = CpuCapture("B");
  LengthenSteps(longer, 2 * kMs, [](TimeStep& step) { step.host.outside_ns += 2 * kMs; });
  longer.figures.ops.rows[1] = OperatorOf("aten::relu", 4, 1 * kMs);
  longer.record.torch.version = "2.7.0";
  DiffCapture without_steps = CpuCapture("C");
  without_steps.figures.time.steps.clear();
  const CaptureDiff diff =
      DiffCaptures({CpuCapture("A"), longer, without_steps}, {CpuCapture("D")});
  EXPECT_EQ(diff.before, "A,B,C");
  EXPECT_EQ(diff.after, "D");
  EXPECT_EQ(diff.steps.before_captures, 2);
  const auto outside = std::ranges::find(diff.parts, "outside operators", &DiffPart::name);
  ASSERT_NE(outside, diff.parts.end());
  EXPECT_EQ(outside->before_ns, 4 * kMs);
  EXPECT_EQ(outside->after_ns, 3 * kMs);
  const auto relu = std::ranges::find(diff.operators, "aten::relu", &DiffName::name);
  ASSERT_NE(relu, diff.operators.end());
  EXPECT_EQ(relu->before_calls, 3);
  EXPECT_EQ(relu->before_ns, 3 * kMs);
  EXPECT_EQ(relu->why, "fewer calls");
  EXPECT_THAT(diff.facts, ElementsAre(AllOf(Field(&DiffFact::what, "PyTorch"),
                                            Field(&DiffFact::before, "2.6.0 / 2.7.0"),
                                            Field(&DiffFact::after, "2.6.0"))));
}

// What was lost would count as what takes less.
TEST(CaptureDiffTest, OfACaptureThatLostMuchOnlyStepsAreCompared) {
  DiffCapture after = GpuCapture("B");
  LengthenSteps(after, 2 * kMs, [](TimeStep& step) { step.device.compute_ns += 2 * kMs; });
  after.figures.kernels.rows.pop_back();
  after.figures.ops.rows[0].flops = 1e10;
  after.record.event_count = 370;
  after.lost_event_count = 630;
  DiffCapture before = GpuCapture();
  before.figures.ops.rows[0].flops = 3e10;
  for (const CaptureDiff& diff :
       {DiffCaptures({before}, {after}), DiffCaptures({after}, {before}),
        DiffCaptures({before, GpuCapture("C")}, {GpuCapture("D"), after})}) {
    EXPECT_EQ(diff.not_compared,
              "Parts of a step, operators, and kernels are not compared: capture B lost 63% of its "
              "events");
    EXPECT_THAT(diff.parts, IsEmpty());
    EXPECT_THAT(diff.operators, IsEmpty());
    EXPECT_THAT(diff.kernels, IsEmpty());
    EXPECT_THAT(diff.facts, IsEmpty());
    EXPECT_THAT(diff.why, IsEmpty());
  }
  EXPECT_EQ(DiffCaptures({before}, {after}).steps.verdict, StepVerdict::kSlower);
  after.lost_event_count = 20;
  EXPECT_THAT(DiffCaptures({before}, {after}).not_compared, IsEmpty());
}

// It launches a step in 1 ms, of which the GPU has 4, or 8.
TEST(CaptureDiffTest, WhereTheHostRunsAheadTheGpuTellsHowLongAStepTakes) {
  const auto capture_of = [](const std::string& id, int64_t device_step_ns) {
    DiffCapture capture = GpuCapture(id);
    ChangeSteps(capture.figures, [&](TimeStep& step) {
      step.duration_ns = kMs;
      step.device_step_ns = device_step_ns + step.index * kUs;
    });
    capture.figures.time.steps.back().device_step_ns = -1;
    return capture;
  };
  const CaptureDiff diff = DiffCaptures({capture_of("A", 4 * kMs)}, {capture_of("B", 8 * kMs)});
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kSlower);
  EXPECT_NEAR(diff.steps.change, 1, 0.01);
  EXPECT_EQ(diff.steps.before_count, kFigureSteps - 1);
  EXPECT_TRUE(diff.by_device);
  EXPECT_THAT(diff.parts, IsEmpty());
  EXPECT_THAT(diff.why, IsEmpty());
}

TEST(CaptureDiffTest, NumbersOfAHostileFileAreSafe) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  DiffCapture before = GpuCapture();
  DiffCapture after = GpuCapture("B");
  for (TimeStep& step : after.figures.time.steps) {
    step.duration_ns = kMax;
    step.device.compute_ns = kMax;
    step.host.operators_ns = std::numeric_limits<int64_t>::min();
  }
  before.figures.ops.rows[0].self_device_ns = std::numeric_limits<int64_t>::min();
  after.figures.ops.rows[0].self_device_ns = kMax;
  after.figures.kernels.rows[0].total_ns = kMax;
  EXPECT_EQ(DiffCaptures({before}, {after}).steps.verdict, StepVerdict::kSlower);
  // Of a window of a nanosecond, a second is a billion times as long.
  before.figures.time.steps.clear();
  before.record.covered_ns = 1;
  EXPECT_FALSE(DiffCaptures({after}, {before}).operators.empty());
}

TEST(CaptureDiffTest, EmptyCapturesAreSafe) {
  const CaptureDiff diff = DiffCaptures({}, {});
  EXPECT_THAT(diff.operators, IsEmpty());
  EXPECT_EQ(diff.steps.verdict, StepVerdict::kUnknown);
}

}  // namespace
}  // namespace profd::report
