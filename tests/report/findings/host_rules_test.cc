// Host time outside operators, as a finding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include "proto/wire/event.h"
#include "tests/report/findings/findings_fixture.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kOperator = static_cast<uint8_t>(wire::RangeCategory::kOperator);

using HostRulesTest = FindingsFixture;

// Five sleeps at known places of each step, between operators; one within Optimizer.step().
TEST_F(HostRulesTest, HostTimeOutsideOperatorsIsFoundWithItsPlaces) {
  constexpr std::array<std::string_view, 6> kOps = {"aten::linear",   "aten::relu",
                                                    "aten::mse_loss", "MseLossBackward0",
                                                    "aten::add_",     "aten::stack"};
  constexpr std::array<int64_t, 6> kSleepsAfter = {2 * kMs, 1 * kMs,   700 * kUs,
                                                   3 * kMs, 500 * kUs, 0};
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    int64_t at = step * kStepNs;
    for (size_t i = 0; i < kOps.size(); ++i) {
      reader_.Range(main_, kOps[i], at, at + 400 * kUs, {.category = kOperator});
      at += 400 * kUs;
      if (i == 3) reader_.Range(main_, "Optimizer.step#SGD.step", at, at + kSleepsAfter[i]);
      at += kSleepsAfter[i];
    }
    reader_.Range(main_, "aten::sum", at, (step + 1) * kStepNs, {.category = kOperator});
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_DOUBLE_EQ(finding.value, 0.72);
  EXPECT_EQ(finding.saving_ns_per_step, 7'200 * kUs);
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
  ASSERT_EQ(finding.evidence.size(), 5u);
  EXPECT_EQ(finding.evidence[0].name,
            "between MseLossBackward0 and aten::add_, in Optimizer.step#SGD.step");
  EXPECT_EQ(finding.evidence[0].count, 5);
  EXPECT_EQ(finding.evidence[0].duration_ns, 15 * kMs);
  EXPECT_EQ(finding.evidence[1].name, "between aten::linear and aten::relu");
  EXPECT_EQ(finding.evidence[1].duration_ns, 10 * kMs);
  EXPECT_EQ(finding.evidence[4].name, "between aten::add_ and aten::stack");
  EXPECT_THAT(finding.measured, HasSubstr("3 ms at the median, 5 times in 5 of 5 steps"));
  EXPECT_THAT(Report().verdict, HasSubstr("First change (HOST_BOUND)"));
}

// As torch.cat of a growing cache: its last result is freed once nothing uses it.
// Importers put Python functions on a row of their own.
TEST_F(HostRulesTest, PythonFunctionsOnAnotherRowOfTheThreadNameThePlace) {
  const uint32_t python = reader_.AddThread(1, "main, Python functions");
  const uint32_t stranger = reader_.AddThread(7, "stranger");
  Steps(3);
  for (int64_t at = 0; at < 3 * kStepNs; at += kStepNs) {
    reader_.Range(main_, "aten::mm", at, at + 2 * kMs, {.category = kOperator});
    reader_.Range(main_, "aten::add", at + 8 * kMs, at + kStepNs, {.category = kOperator});
    constexpr auto kPython = static_cast<uint8_t>(wire::RangeCategory::kPython);
    reader_.Range(python, "images.py(235): preprocess", at + 2'100 * kUs, at + 7'900 * kUs,
                  {.category = kPython});
    reader_.Range(stranger, "threading.py(1): wait", at + 2'200 * kUs, at + 7'900 * kUs,
                  {.category = kPython});
  }
  EXPECT_THAT(Find("HOST_BOUND").measured, HasSubstr("in images.py(235): preprocess"));
}

TEST_F(HostRulesTest, FreesOfLargeBlocksInTheLargestGapAreSaid) {
  constexpr int64_t kBlock = 60 << 20;
  Steps(5);
  reader_.mutable_record().torch.memory = true;
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Operator(main_, "aten::cat", at, at + 2 * kMs);
    reader_.Allocate(main_, at + kMs, 0x10000000, kBlock, {.device_type = 0});
    reader_.Free(main_, at + 2 * kMs + kUs, 0x10000000, kBlock, {.device_type = 0});
    reader_.Operator(main_, "aten::linear", at + 8 * kMs, at + kStepNs);
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_THAT(finding.measured, HasSubstr("1 block of host memory, 60 MiB in all, is freed"));
  EXPECT_THAT(finding.advice, HasSubstr("Keep large tensors"));
}

TEST_F(HostRulesTest, FreesThatTakeLittleOfTheGapAreNot) {
  Steps(5);
  reader_.mutable_record().torch.memory = true;
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Operator(main_, "aten::cat", at, at + 2 * kMs);
    reader_.Allocate(main_, at + kMs, 0x10000000, 4 << 20, {.device_type = 0});
    reader_.Free(main_, at + 2 * kMs + kUs, 0x10000000, 4 << 20, {.device_type = 0});
    reader_.Operator(main_, "aten::linear", at + 8 * kMs, at + kStepNs);
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_THAT(finding.measured, Not(HasSubstr("freed")));
  EXPECT_THAT(finding.advice, HasSubstr("freeing large tensors"));
}

// The thread that loads data replaces its batches while the program sleeps.
TEST_F(HostRulesTest, FreesOfOtherThreadsDoNotExplainTheGap) {
  Steps(5);
  reader_.StepThread(main_);
  reader_.mutable_record().torch.memory = true;
  const uint32_t loader = reader_.AddThread(2, "loader");
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Operator(main_, "aten::cat", at, at + 2 * kMs);
    reader_.Allocate(loader, at + kMs, 0x10000000, 60 << 20, {.device_type = 0});
    reader_.Free(loader, at + 2 * kMs + kUs, 0x10000000, 60 << 20, {.device_type = 0});
    reader_.Operator(main_, "aten::linear", at + 8 * kMs, at + kStepNs);
  }
  EXPECT_THAT(Find("HOST_BOUND").measured, Not(HasSubstr("freed")));
}

// The GPU works in the first part of the gap, which is not counted: the frees are after that.
TEST_F(HostRulesTest, FreesAnywhereInTheGapAreSaid) {
  constexpr int64_t kBlock = 100 << 20;
  Steps(5);
  reader_.mutable_record().torch.memory = true;
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    Launch({.start_ns = at + kMs, .count = 1, .kernel_ns = 4 * kMs, .op = "aten::cat"});
    reader_.Allocate(main_, at + kMs, 0x10000000, kBlock, {.device_type = 0});
    reader_.Free(main_, at + 7 * kMs, 0x10000000, kBlock, {.device_type = 0});
    reader_.Operator(main_, "aten::linear", at + 9 * kMs, at + kStepNs);
  }
  EXPECT_THAT(Find("HOST_BOUND").measured, HasSubstr("1 block of host memory, 100 MiB in all"));
}

TEST_F(HostRulesTest, ARankThatMostlyWaitsForOthersSaysWhereToLook) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Operator(main_, "aten::linear", at, at + 2 * kMs);
    reader_.Operator(main_, "c10d::allreduce_", at + 2 * kMs, at + 9 * kMs);
  }
  reader_.StepThread(main_);
  EXPECT_THAT(Report().verdict,
              HasSubstr("Most of the time is in collectives: the program waits for other ranks, "
                        "for the network, or for a CPU, or reduces on the CPU. A capture of all "
                        "ranks (`profctl trace --all`) shows whether it waits for another rank"));
  reader_.mutable_record().group_id = "01JCQ0Z9";
  EXPECT_THAT(Report().verdict, HasSubstr("`profctl stragglers 01JCQ0Z9` shows whether"));
}

TEST_F(HostRulesTest, OfAFileThatIsCutOffBeforeGpuWorkWhatTheGpuDidIsUnknown) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Operator(main_, "aten::linear", at, at + 2 * kMs);
  }
  EXPECT_THAT(Report().verdict, HasSubstr("First change (HOST_BOUND)"));
  CaptureRecord& record = reader_.mutable_record();
  record.imported.source = "trace.json";
  record.imported.not_understood["file cut off in an event, at byte 7"] = 1;
  // The complete events are all that the program wrote.
  EXPECT_THAT(Report().verdict, HasSubstr("First change (HOST_BOUND)"));
  record.state = CaptureState::kPartial;
  const FindingsReport report = Report();
  EXPECT_EQ(report.bound, BoundBy::kUnknown);
  EXPECT_THAT(report.verdict, HasSubstr("The file is cut off, and no time in it has all its GPU "
                                        "work: what the GPU did is unknown."));
  EXPECT_THAT(report.verdict, Not(HasSubstr("First change")));
  EXPECT_THAT(NeedsOf("HOST_BOUND"),
              HasSubstr("The file is cut off, and no time in it has all its GPU work"));
  // With GPU work, the rest of the file is like any other.
  Launch({.start_ns = 5 * kMs});
  EXPECT_THAT(Report().verdict, Not(HasSubstr("cut off, and no time")));
}

TEST_F(HostRulesTest, ItSaysWhatTheHostIsOutsideOf) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, "train_step", at, at + 9 * kMs)
        .Operator(main_, "aten::linear", at, at + 2 * kMs)
        .Operator(main_, "aten::relu", at + 8 * kMs, at + kStepNs);
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_EQ(finding.title, "The host is busy or waits outside operators");
  EXPECT_THAT(finding.measured, HasSubstr("runs no operator of the framework for 6 ms"));
  EXPECT_THAT(finding.measured, HasSubstr("inside or outside the program's own ranges"));
  EXPECT_THAT(finding.evidence.at(0).name, HasSubstr("in train_step"));
  EXPECT_THAT(Report().verdict, HasSubstr("40% in operators, 60% on the host outside operators"));
}

TEST_F(HostRulesTest, WithoutAFrameworkItIsOutsideTheProgramsRanges) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += kStepNs) {
    reader_.Range(main_, "forward", at, at + 2 * kMs)
        .Range(main_, "backward", at + 8 * kMs, at + kStepNs);
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_EQ(finding.title, "The host is busy or waits outside ranges");
  EXPECT_THAT(finding.measured, HasSubstr("outside all ranges of the program for 6 ms"));
  EXPECT_THAT(finding.measured, Not(HasSubstr("operator")));
  EXPECT_THAT(finding.evidence.at(0).detail, HasSubstr("host outside ranges"));
  EXPECT_THAT(Report().verdict, HasSubstr("40% in ranges, 60% on the host outside ranges"));
}

TEST_F(HostRulesTest, WithPythonStacksAGapHasTheLinesAroundIt) {
  const uint32_t step_line = reader_.Stack(0, "/home/me/train.py", 98, "step");
  const uint32_t caller = reader_.Stack(0, "/home/me/train.py", 100, "step");
  const uint32_t log_line = reader_.Stack(caller, "/home/me/train.py", 112, "log_metrics");
  Steps(5);
  for (int step = 0; step < 5; ++step) {
    const int64_t at = step * kStepNs;
    reader_.Operator(main_, "aten::_fused_adamw_", at, at + 1 * kMs, {.stack = step_line})
        .Operator(main_, "aten::select", at + 8 * kMs, at + 9 * kMs, {.stack = log_line})
        .Operator(main_, "aten::sum", at + 9 * kMs, at + kStepNs, {.stack = log_line});
  }
  const Finding finding = Find("HOST_BOUND");
  ASSERT_FALSE(finding.evidence.empty());
  EXPECT_EQ(finding.evidence[0].name,
            "between aten::_fused_adamw_ and aten::select: train.py:98 step to train.py:112 "
            "log_metrics");
  EXPECT_THAT(finding.measured, HasSubstr("train.py:112 log_metrics"));
}

// Of each step, one gap of `long_gap_ns` and 59 of 10 us.
class ShortGapsTest : public HostRulesTest {
 protected:
  Finding HostBoundWith(int64_t long_gap_ns) {
    Steps(5);
    for (int64_t begin = 0; begin < 5 * kStepNs; begin += kStepNs) {
      int64_t at = begin;
      for (int i = 0; i < 60; ++i) {
        reader_.Operator(main_, "aten::relu", at, at + 10 * kUs);
        at += 20 * kUs;
      }
      reader_.Operator(main_, "aten::linear", at - 10 * kUs + long_gap_ns, begin + kStepNs);
    }
    return Find("HOST_BOUND");
  }
};

TEST_F(ShortGapsTest, ItIsNotSureWhereTheyMakeTheDifference) {
  const Finding finding = HostBoundWith(900 * kUs);
  EXPECT_EQ(finding.saving_ns_per_step, 1'490 * kUs);
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("gaps of 100 us or more take 900 us of each"));
  EXPECT_THAT(finding.confidence_reason, HasSubstr("recording itself takes part of shorter ones"));
}

TEST_F(ShortGapsTest, ItIsSureWhereTheLongOnesAreEnough) {
  const Finding finding = HostBoundWith(1'100 * kUs);
  EXPECT_EQ(finding.saving_ns_per_step, 1'690 * kUs);
  EXPECT_EQ(finding.confidence, Confidence::kHigh);
}

// A loop over the elements of a tensor: the time is in short gaps at one line.
class LoopOverElementsTest : public HostRulesTest {
 protected:
  void Loop(uint32_t loop_line, uint32_t other_line) {
    Steps(5);
    for (int64_t begin = 0; begin < 5 * kStepNs; begin += kStepNs) {
      int64_t at = begin;
      for (int i = 0; i < 100; ++i) {
        reader_.Operator(main_, i % 2 == 0 ? "aten::select" : "aten::item", at, at + 10 * kUs,
                         {.stack = loop_line});
        at += 40 * kUs;
      }
      reader_.Operator(main_, "aten::linear", at + 200 * kUs, at + kMs, {.stack = other_line})
          .Operator(main_, "aten::relu", at + 1'050 * kUs, begin + kStepNs, {.stack = other_line});
    }
  }
};

TEST_F(LoopOverElementsTest, ItsLineIsTheEvidence) {
  Loop(reader_.Stack(0, "/home/me/metrics.py", 9, "confusion"),
       reader_.Stack(0, "/home/me/train.py", 14, "step"));
  const Finding finding = Find("HOST_BOUND");
  EXPECT_THAT(finding.measured, HasSubstr("most of all at metrics.py:9 confusion: 2.97 ms."));
  EXPECT_THAT(finding.advice, HasSubstr("Start at metrics.py:9 confusion"));
  ASSERT_EQ(finding.evidence.size(), 3u);
  EXPECT_EQ(finding.evidence[0].name, "short gaps at metrics.py:9 confusion");
  EXPECT_EQ(finding.evidence[0].count, 495);
  EXPECT_EQ(finding.evidence[0].duration_ns, 14'850 * kUs);
  EXPECT_THAT(finding.evidence[1].name, HasSubstr("between aten::item and aten::linear"));
  EXPECT_EQ(finding.evidence[2].name, "short gaps at train.py:14 step");
}

TEST_F(LoopOverElementsTest, WithoutStacksTheOperatorsAre) {
  Loop(0, 0);
  const Finding finding = Find("HOST_BOUND");
  EXPECT_THAT(finding.measured,
              HasSubstr("most of all between aten::select and aten::item: 1.5 ms."));
  EXPECT_THAT(finding.advice, Not(HasSubstr("Start at")));
  ASSERT_GE(finding.evidence.size(), 2u);
  EXPECT_EQ(finding.evidence[0].name, "short gaps between aten::select and aten::item");
  EXPECT_EQ(finding.evidence[0].duration_ns, 7'500 * kUs);
  EXPECT_EQ(finding.evidence[1].name, "short gaps between aten::item and aten::select");
}

TEST_F(LoopOverElementsTest, GapsBeforeBackwardOperatorsAreOfTheBackwardPass) {
  const uint32_t line = reader_.Stack(0, "/home/me/train.py", 14, "step");
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += 50 * kUs) {
    reader_.Operator(main_, "SumBackward1", at, at + 20 * kUs, {.stack = line});
  }
  EXPECT_EQ(Find("HOST_BOUND").evidence.at(0).name, "short gaps at backward of train.py:14 step");
}

TEST_F(HostRulesTest, HostTimeOfAFewStepsMayBeAnotherProcess) {
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    const int64_t begin = step * kStepNs;
    const int64_t end = begin + kStepNs;
    if (step == 3 || step == 7) {
      reader_.Range(main_, "aten::linear", begin, begin + kStepNs / 20, {.category = kOperator});
      reader_.Range(main_, "aten::relu", end - kStepNs / 20, end, {.category = kOperator});
    } else {
      reader_.Range(main_, "aten::linear", begin, end, {.category = kOperator});
    }
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_DOUBLE_EQ(finding.value, 0.18);
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.confidence_reason, HasSubstr("most steps are below the threshold"));
  EXPECT_THAT(Report().verdict, HasSubstr("with low confidence"));
}

TEST_F(HostRulesTest, TheFirstChangeIsTheFirstFindingAlsoIfAnotherIsLargerButNotSure) {
  Steps(10);
  for (int step = 0; step < 10; ++step) {
    const int64_t begin = step * kStepNs;
    const int64_t end = begin + kStepNs;
    reader_.Range(main_, kLoader, begin, begin + 700 * kUs);
    const int64_t python_ns = step == 3 || step == 7 ? 9 * kMs : 0;
    reader_.Range(main_, "aten::linear", begin + 700 * kUs + python_ns, end,
                  {.category = kOperator});
  }
  ASSERT_GT(Find("HOST_BOUND").saving_ns_per_step, Find("INPUT_BOUND").saving_ns_per_step);
  ASSERT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
  const FindingsReport report = Report();
  EXPECT_THAT(report.verdict, HasSubstr("First change (INPUT_BOUND)"));
  EXPECT_EQ(report.findings.at(0).rule, "INPUT_BOUND");
  EXPECT_EQ(report.findings.at(1).rule, "HOST_BOUND");
  EXPECT_THAT(report.verdict,
              HasSubstr("HOST_BOUND could save more (up to 1.8 ms a step), but only with low "
                        "confidence: most steps are below the threshold"));
}

// ---- the data loader's workers start again at each epoch ----

class EpochStartTest : public FindingsFixture {
 protected:
  static constexpr std::string_view kWorkers =
      "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

  // Steps of 10 ms that wait `wait_ns` for a batch; those at a multiple of `epoch` first for the
  // old iterator to end, and then 8 ms for the first batch of the new one.
  void Epochs(int steps, int epoch, std::string_view loader, int64_t wait_ns = 10 * kUs) {
    Steps(steps);
    for (int step = 0; step < steps; ++step) {
      int64_t at = step * kStepNs;
      if (step % epoch == 0) {
        reader_.Range(main_, loader, at, at + 100 * kUs);
        at += 200 * kUs;
      }
      const int64_t wait = step % epoch == 0 ? 8 * kMs : wait_ns;
      reader_.Range(main_, loader, at, at + wait);
      reader_.Range(main_, "aten::mm", at + wait, (step + 1) * kStepNs, {.category = kOperator});
    }
  }
};

TEST_F(EpochStartTest, WorkersThatStartAgainAreToBeKept) {
  for (const int epoch : {2, 3, 8}) {
    reader_ = FakeCaptureReader();
    reader_.StepThread(reader_.AddThread(1, "main"));
    reader_.mutable_record().start_unix_ns = 1;
    Epochs(24, epoch, kWorkers);
    const Finding finding = Find("INPUT_BOUND");
    EXPECT_THAT(finding.advice, HasSubstr("persistent_workers=True")) << epoch;
    EXPECT_THAT(finding.advice, HasSubstr("More workers do not help")) << epoch;
    EXPECT_THAT(finding.measured, HasSubstr("begin an epoch")) << epoch;
  }
}

// Eight steps to an epoch: the first ones take 60 ms, 40 of which are the fork of workers, between
// operators of the loader's iterator.
class WorkerForkTest : public FindingsFixture {
 protected:
  static constexpr std::string_view kWorkers =
      "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
  static constexpr int kSteps = 24;

  // `seeds`: the iterator draws its seed before the fork; else the program does something else.
  void Epochs(bool seeds, std::string_view loader = kWorkers, bool marks_steps = true) {
    int64_t at = 0;
    for (int step = 0; step < kSteps; ++step) {
      const int64_t begin = at;
      if (step % 8 == 4) {
        reader_.Range(main_, loader, at, at + 2 * kMs);  // The old iterator ends.
        at += 3 * kMs;
        for (const std::string_view op : {"aten::empty", "aten::random_", "aten::item"}) {
          reader_.Operator(main_, seeds ? op : "aten::save", at, at + 10 * kUs);
          at += 20 * kUs;
        }
        at += 40 * kMs;
        for (const std::string_view op : {"aten::empty", "aten::random_", "aten::item"}) {
          reader_.Operator(main_, seeds ? op : "aten::save", at, at + 10 * kUs);  // The sampler's.
          at += 20 * kUs;
        }
        reader_.Range(main_, loader, at, at + 8 * kMs);
        at += 8 * kMs;
      } else {
        reader_.Range(main_, loader, at, at + 100 * kUs);
        at += 100 * kUs;
      }
      reader_.Operator(main_, "aten::mm", at, at + 5 * kMs);
      at += 5 * kMs;
      if (marks_steps) reader_.Step(step, begin, at - begin);
    }
    CaptureRecord& record = reader_.mutable_record();
    record.windows.push_back({.start_ns = 0, .end_ns = at, .first_step = 0, .end_step = kSteps});
    if (!marks_steps) {
      record.windows.back() = {.start_ns = 0, .end_ns = at};
      return;
    }
    record.spec.steps = kSteps;
    record.covered_steps = kSteps;
    record.covered_ns = at;
  }
};

TEST_F(WorkerForkTest, WithoutStepsTheForkShowsWhereAnEpochBegins) {
  Epochs(true, kWorkers, /*marks_steps=*/false);
  const Finding finding = Find("INPUT_BOUND");
  EXPECT_THAT(finding.advice, HasSubstr("persistent_workers=True"));
  EXPECT_THAT(finding.measured, HasSubstr("of the wait is in the 3 waits that begin an epoch"));
}

TEST_F(WorkerForkTest, TheForkIsTheLoaders) {
  Epochs(true);
  const Finding finding = Find("INPUT_BOUND");
  // Of three epochs: 2 ms for the end, 40.1 ms for the start, 8 ms for the batch; and 21 batches.
  EXPECT_NEAR(static_cast<double>(finding.saving_ns_per_step),
              static_cast<double>((3 * (50'120 * kUs) + 21 * 100 * kUs) / kSteps), 100e3);
  EXPECT_THAT(finding.advice, HasSubstr("persistent_workers=True"));
  EXPECT_THAT(Report().verdict, HasSubstr("First change (INPUT_BOUND)"));
  for (const Finding& other : Report().findings) {
    EXPECT_NE(other.rule, "HOST_BOUND");
    if (other.rule != "STEP_OUTLIER") continue;
    EXPECT_THAT(other.confidence_reason, HasSubstr("all slow steps begin an epoch"));
  }
}

TEST_F(WorkerForkTest, WhatTheProgramDoesBetweenEpochsIsNot) {
  Epochs(false);
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step),
              static_cast<double>((3 * (10 * kMs) + 21 * 100 * kUs) / kSteps), 100e3);
  EXPECT_EQ(Find("STEP_OUTLIER").confidence, Confidence::kHigh);
}

TEST_F(WorkerForkTest, ALoaderWithoutWorkersForksNone) {
  Epochs(true, kLoader);
  EXPECT_NEAR(static_cast<double>(Find("INPUT_BOUND").saving_ns_per_step),
              static_cast<double>((3 * (10 * kMs) + 21 * 100 * kUs) / kSteps), 100e3);
}

TEST_F(EpochStartTest, AStepThatAsksTwiceEachTimeBeginsNone) {
  Epochs(24, 1, kWorkers);
  EXPECT_THAT(Find("INPUT_BOUND").advice, HasSubstr("num_workers"));
}

TEST_F(EpochStartTest, ALoaderWithoutWorkersHasNoneToKeep) {
  Epochs(24, 8, kLoader);
  EXPECT_THAT(Find("INPUT_BOUND").advice, HasSubstr("num_workers"));
}

TEST_F(EpochStartTest, WaitsInAllStepsAreNotThoseOfEpochs) {
  Epochs(24, 8, kWorkers, 7 * kMs);
  EXPECT_THAT(Find("INPUT_BOUND").advice, HasSubstr("num_workers"));
}

TEST_F(HostRulesTest, HostTimeThatTheGpuHidesIsNotHostBound) {
  Healthy();  // 100 operators a step, 90 us apart, while the GPU never idles.
  EXPECT_THAT(Fired(), Not(Contains("HOST_BOUND")));
}

TEST_F(HostRulesTest, ManyShortGapsMayBeTheRecordersOwn) {
  Steps(5);
  for (int64_t at = 0; at < 5 * kStepNs; at += 100 * kUs) {
    reader_.Range(main_, "aten::mm", at, at + 50 * kUs, {.category = kOperator});
  }
  const Finding finding = Find("HOST_BOUND");
  EXPECT_EQ(finding.confidence, Confidence::kLow);
  EXPECT_THAT(finding.measured, HasSubstr("500 gaps shorter than 100 us"));
  EXPECT_THAT(finding.advice, HasSubstr("torch.compile"));
}

TEST_F(HostRulesTest, HostTimeWithoutStepsMayBeAServerWithoutRequests) {
  reader_.mutable_record().windows.push_back({.start_ns = 0, .end_ns = 100 * kMs});
  reader_.Range(main_, "aten::mm", kMs, 3 * kMs, {.category = kOperator});
  EXPECT_EQ(Find("HOST_BOUND").confidence, Confidence::kLow);
}

}  // namespace
}  // namespace profd::report
