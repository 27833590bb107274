#include "daemon/report/time/host_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string_view>

#include "daemon/report/time/time_report.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kNsPerMs = 1'000'000;

class HostSplitTest : public testing::Test {
 protected:
  HostSplitTest() { reader_.StepThread(main_); }

  TimeReport Report() {
    absl::StatusOr<TimeReport> report = SummarizeTime(reader_, {});
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : TimeReport();
  }
  // The split of the only step.
  HostSplit Split() {
    const TimeReport report = Report();
    EXPECT_THAT(report.steps, SizeIs(1));
    EXPECT_EQ(report.host_needs, "");
    return report.steps.empty() ? HostSplit() : report.steps[0].host;
  }
  void Op(uint32_t thread, std::string_view name, int64_t start, int64_t end) {
    reader_.Range(thread, name, start, end,
                  {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  const uint32_t other_ = reader_.AddThread(2, "other");
};

TEST_F(HostSplitTest, EachInstantOfAStepHasOnePart) {
  reader_.Step(0, 0, 100);
  reader_.Range(main_, "enumerate(DataLoader)#_Iter.__next__", 0, 20);
  Op(main_, "aten::stack", 5, 10);  // Loading, not an operator.
  Op(main_, "aten::item", 30, 60);
  reader_.ApiCall(main_, "cudaStreamSynchronize", 40, 55, 1);
  reader_.ApiCall(main_, "cudaLaunchKernel", 62, 65, 2);  // Outside an operator, but no wait.
  reader_.Kernel("gemm", 62, 66, 2);
  Op(main_, "c10d::allreduce_", 70, 80);
  reader_.Overhead(2, 90, 94, 1);  // The profiler's own, on this thread, ...
  reader_.Overhead(2, 94, 98, 7);  // ... and on another.
  const HostSplit split = Split();
  EXPECT_EQ(split.data_loader_ns, 20);
  EXPECT_EQ(split.gpu_wait_ns, 15);
  EXPECT_EQ(split.collectives_ns, 10);
  EXPECT_EQ(split.operators_ns, 15 + 3);
  EXPECT_EQ(split.other_ns, 4);
  EXPECT_EQ(split.outside_ns, 33);
  EXPECT_EQ(split.total_ns(), 100);
}

TEST_F(HostSplitTest, RangesAroundOperatorsCountForNothing) {
  reader_.Step(0, 0, 100);
  Op(main_, "aten::add_", 20, 30);
  reader_.Range(main_, "Optimizer.step#SGD.step", 10, 90);
  reader_.Range(main_, "ProfilerStep#0", 0, 100);
  EXPECT_EQ(Split().operators_ns, 10);
}

// A torch.autograd.Function whose passes are in Python, and a hook.
TEST_F(HostSplitTest, CodeOfTheProgramInAutogradIsOutsideOperators) {
  reader_.Step(0, 0, 20 * kNsPerMs);
  Op(main_, "aten::linear", 0, 1 * kNsPerMs);
  Op(main_, "aten::clamp", 1'050'000, 2 * kNsPerMs);
  Op(main_, "Clamp", 1 * kNsPerMs, 5 * kNsPerMs);
  Op(main_, "aten::detach", 6 * kNsPerMs, 7 * kNsPerMs);
  Op(main_, "aten::to", 9 * kNsPerMs, 9'100'000);
  Op(main_, "ClampBackward", 6 * kNsPerMs, 10 * kNsPerMs);
  Op(main_, "autograd::engine::evaluate_function: ClampBackward", 5 * kNsPerMs, 10'050'000);
  // Native code between its operators is the node's own, ...
  Op(main_, "aten::mm", 10'060'000, 11 * kNsPerMs);
  Op(main_, "AddmmBackward0", 10'060'000, 14 * kNsPerMs);
  // ... and what follows in the engine is a hook.
  Op(main_, "autograd::engine::evaluate_function: AddmmBackward0", 10'050'000, 18 * kNsPerMs);
  Op(main_, "torch::autograd::AccumulateGrad", 18 * kNsPerMs, 18'050'000);
  const TimeReport report = Report();
  ASSERT_THAT(report.steps, SizeIs(1));
  // In Clamp 3 ms after its operator, in the engine 1 ms before the node, in ClampBackward 2 ms
  // and, with the engine, 0.95, and in the hook 4; after all of it 1.95.
  EXPECT_EQ(report.steps[0].host.outside_ns, (3'000 + 1'000 + 2'000 + 950 + 4'000 + 1'950) * 1000);
}

TEST_F(HostSplitTest, CompiledCodeInAutogradIsAnOperator) {
  reader_.Step(0, 0, 10 * kNsPerMs);
  Op(main_, "CompiledFunction", 0, 4 * kNsPerMs);
  Op(main_, "CompiledFunctionBackward", 5'010'000, 8'990'000);
  Op(main_, "autograd::engine::evaluate_function: CompiledFunctionBackward", 5 * kNsPerMs,
     9 * kNsPerMs);
  EXPECT_EQ(Split().operators_ns, 8 * kNsPerMs);
}

TEST_F(HostSplitTest, WithoutOperatorsTheRangesOfTheProgramAreItsOperators) {
  reader_.mutable_record().spec.step_marker = "my step";
  reader_.Step(0, 0, 100);
  reader_.Range(main_, "solve", 10, 90);
  reader_.Range(main_, "my step", 0, 100);
  EXPECT_EQ(Split().operators_ns, 80);
}

// Blocks of asyncio tasks.
TEST_F(HostSplitTest, RangesThatOverlapAreOfTheirThread) {
  const uint32_t lane = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 1");
  const uint32_t of_another = reader_.AddThread((1 << 30) | 4, "overlapping ranges of 2");
  reader_.Step(0, 0, 100);
  reader_.Range(main_, "solve", 10, 40);
  reader_.Range(lane, "request 1", 5, 60).Range(lane, "request 2", 70, 80);
  reader_.Range(of_another, "request 3", 15, 95);
  EXPECT_EQ(Split().operators_ns, 65);
}

TEST_F(HostSplitTest, WithoutAnyRangesItIsUnknown) {
  reader_.Step(0, 0, 100);
  const TimeReport report = Report();
  EXPECT_THAT(report.host_needs, HasSubstr("operators"));
  EXPECT_EQ(report.steps[0].host.total_ns(), 0);
}

TEST_F(HostSplitTest, WhereOperatorsWereNotAskedForRangesDoNotStandInForThem) {
  reader_.mutable_record().spec.torch.operators = OperatorMode::kOff;
  reader_.Step(0, 0, 100).Range(main_, "epoch part", 10, 20);
  EXPECT_THAT(Report().host_needs, HasSubstr("--ops"));
}

TEST_F(HostSplitTest, AStepOfRecordedTorchWithoutOperatorsIsOutsideThem) {
  reader_.mutable_record().torch = {.outcome = TorchOutcome::kRecorded,
                                    .operators = OperatorMode::kShapes};
  reader_.Step(0, 0, 100);
  EXPECT_EQ(Split().outside_ns, 100);
}

// A program of NumPy that imports torch for something else.
TEST_F(HostSplitTest, WhereRecordedTorchRunsNoOperatorTheProgramsRangesCount) {
  reader_.mutable_record().torch = {.outcome = TorchOutcome::kRecorded,
                                    .operators = OperatorMode::kShapes};
  reader_.Step(0, 0, 100).Range(main_, "fft", 10, 90);
  EXPECT_EQ(Split().operators_ns, 80);
  EXPECT_TRUE(Report().host_of_ranges);
}

TEST_F(HostSplitTest, TheBackwardPassRunsOnAThreadOfItsOwn) {
  reader_.Step(0, 0, 100);
  Op(main_, "aten::mm", 0, 20);
  Op(other_, "autograd::engine::evaluate_function: MmBackward0", 15, 70);
  EXPECT_EQ(Split().operators_ns, 70);
}

TEST_F(HostSplitTest, AThreadThatTakesTurnsTrainsToo) {
  reader_.Step(0, 0, 100);
  Op(main_, "aten::scatter", 0, 50);
  Op(other_, "aten::mm", 50, 90);  // DataParallel waits for it.
  EXPECT_EQ(Split().operators_ns, 90);
}

TEST_F(HostSplitTest, AThreadThatWorksWheneverItLikesDoesNot) {
  reader_.Step(0, 0, 100);
  for (int64_t at = 0; at < 100; at += 20) {
    Op(main_, "aten::mm", at, at + 10);
    Op(other_, "aten::pin_memory", at + 5, at + 15);
  }
  EXPECT_EQ(Split().operators_ns, 50);
}

// Two trainings in one process: each has steps of its own.
TEST_F(HostSplitTest, AThreadOfAnotherLoopDoesNotTrainForTheseSteps) {
  reader_.Step(0, 0, 100);
  Op(main_, "aten::mm", 0, 20);
  Op(main_, "autograd::engine::evaluate_function: MmBackward0", 20, 30);
  for (int64_t at = 30; at < 100; at += 10) {
    Op(other_, "autograd::engine::evaluate_function: MmBackward0", at, at + 5);
    reader_.Range(other_, "Optimizer.step#SGD.step", at + 5, at + 7);
  }
  EXPECT_EQ(Split().operators_ns, 30 + 7 * 5);  // Parts of one loop, as far as is known.
  reader_.mutable_record().covered_steps = 1;
  reader_.mutable_record().foreign_step_mark_count = 7;
  EXPECT_EQ(Split().operators_ns, 30);
}

TEST_F(HostSplitTest, AThreadThatCallsNoCudaDoesNotWhereTheOtherDoes) {
  reader_.Step(0, 0, 100);
  Op(main_, "aten::mm", 0, 20);
  reader_.ApiCall(main_, "cudaLaunchKernel", 10, 15, 1);
  reader_.Kernel("gemm", 16, 40, 1);
  Op(other_, "aten::sort", 20, 90);
  const HostSplit split = Split();
  EXPECT_EQ(split.operators_ns, 20);
  EXPECT_EQ(split.outside_ns, 80);
}

TEST_F(HostSplitTest, AnOperatorAroundAStepIsARangeOfTheProgram) {
  for (const std::string_view name :
       {"training_step", "aten::lstm", "Torch-Compiled Region: 0/0"}) {
    SCOPED_TRACE(name);
    FakeCaptureReader reader;
    const uint32_t thread = reader.AddThread(1, "main");
    reader.StepThread(thread).Step(0, 0, 10 * kNsPerMs);
    const auto op = [&](std::string_view op_name, int64_t start, int64_t end) {
      reader.Range(thread, op_name, start, end,
                   {.category = static_cast<uint8_t>(wire::RangeCategory::kOperator)});
    };
    op("aten::mm", 1 * kNsPerMs, 2 * kNsPerMs);
    op("aten::add", 4 * kNsPerMs, 5 * kNsPerMs);
    op(name, 0, 10 * kNsPerMs);
    const auto report = SummarizeTime(reader, {});
    ASSERT_THAT(report, IsOk());
    ASSERT_THAT(report->steps, SizeIs(1));
    EXPECT_EQ(report->steps[0].host.outside_ns, name == "training_step" ? 8 * kNsPerMs : 0);
  }
}

// Five sleeps at known places, twice each.
TEST_F(HostSplitTest, GapsSayBetweenWhichOperatorsHowLongAndHowOften) {
  const auto place = [&](int64_t at) {
    Op(main_, "a", at, at + kNsPerMs);
    Op(main_, "b", at + 11 * kNsPerMs, at + 12 * kNsPerMs);  // 10 ms
    reader_.Range(main_, "validate", at + 12 * kNsPerMs, at + 17 * kNsPerMs);
    Op(main_, "c", at + 17 * kNsPerMs, at + 18 * kNsPerMs);           // 5 ms
    Op(main_, "d", at + 20 * kNsPerMs, at + 21 * kNsPerMs);           // 2 ms
    Op(main_, "a", at + 22 * kNsPerMs, at + 23 * kNsPerMs);           // 1 ms
    Op(main_, "e", at + 23 * kNsPerMs + 50'000, at + 30 * kNsPerMs);  // Short.
  };
  for (int64_t step = 0; step < 2; ++step) {
    reader_.Step(step + 7, step * 50 * kNsPerMs, 50 * kNsPerMs);
    place(step * 50 * kNsPerMs);  // 20 ms from its end to the next step's begin.
  }
  const TimeReport report = Report();
  for (const TimeStep& step : report.steps) {
    EXPECT_EQ(step.host.total_ns(), step.duration_ns);
    EXPECT_EQ(step.host.outside_ns, 38 * kNsPerMs + 50'000);
  }
  const HostGapTable& gaps = report.host_gap_table;
  EXPECT_EQ(gaps.short_count, 2);
  EXPECT_EQ(gaps.short_ns, 100'000);
  EXPECT_EQ(gaps.long_ns, 76 * kNsPerMs);
  ASSERT_THAT(gaps.rows, SizeIs(6));  // The last ends with the window.
  EXPECT_EQ(gaps.rows[0].after, "a");
  EXPECT_EQ(gaps.rows[0].before, "b");
  EXPECT_EQ(gaps.rows[0].count, 2);
  EXPECT_EQ(gaps.rows[0].step_count, 2);
  EXPECT_EQ(gaps.rows[0].median_ns, 10 * kNsPerMs);
  EXPECT_EQ(gaps.rows[0].where, "");
  EXPECT_EQ(gaps.rows[1].before, "");
  EXPECT_EQ(gaps.rows[1].total_ns, 20 * kNsPerMs);
  EXPECT_EQ(gaps.rows[1].longest_step, 8);
  EXPECT_EQ(gaps.rows[2].after, "e");
  EXPECT_EQ(gaps.rows[2].before, "a");
  EXPECT_EQ(gaps.rows[2].max_ns, 20 * kNsPerMs);
  EXPECT_EQ(gaps.rows[3].where, "validate");
  EXPECT_EQ(gaps.rows[3].median_ns, 5 * kNsPerMs);
  EXPECT_EQ(gaps.rows[5].total_ns, 2 * kNsPerMs);
}

TEST_F(HostSplitTest, APythonFunctionAroundAGapIsItsPlace) {
  reader_.Step(0, 0, 30 * kNsPerMs);
  Op(main_, "a", 0, kNsPerMs);
  reader_.Range(main_, "train.py(7): collate", 2 * kNsPerMs, 19 * kNsPerMs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kPython)});
  reader_.Range(main_, "train.py(1): train", 0, 30 * kNsPerMs,
                {.category = static_cast<uint8_t>(wire::RangeCategory::kPython)});
  Op(main_, "b", 20 * kNsPerMs, 30 * kNsPerMs);
  const TimeReport report = Report();
  EXPECT_EQ(report.steps[0].host.operators_ns, 11 * kNsPerMs);
  EXPECT_THAT(report.host_gap_table.rows,
              ElementsAre(Field(&HostGapRow::where, "train.py(7): collate")));
}

TEST_F(HostSplitTest, GapsOutsideStepsDoNotCount) {
  reader_.Step(0, 0, 10 * kNsPerMs).Step(1, 50 * kNsPerMs, 10 * kNsPerMs);
  Op(main_, "a", 0, 10 * kNsPerMs);
  Op(main_, "a", 50 * kNsPerMs, 60 * kNsPerMs);
  EXPECT_THAT(Report().host_gap_table.rows, IsEmpty());
}

TEST_F(HostSplitTest, TimesOfAHostileFileDoNotOverflow) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  reader_.Step(0, kMin, kMax).Step(1, 0, -5).Step(2, kMax, kMax).Step(3, -5, kMax);
  Op(main_, "a", kMin, kMin + 1);
  Op(main_, "b", kMax - 1, kMax);
  Op(other_, "c", kMin, kMax);
  reader_.Overhead(2, kMin, -1, 1).Overhead(2, 0, kMax, 1);
  EXPECT_THAT(SummarizeTime(reader_, {}), IsOk());
}

}  // namespace
}  // namespace profd::report
