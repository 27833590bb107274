#include "daemon/report/index/step_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/index/step_labels.h"
#include "daemon/report/index/step_lookup.h"
#include "proto/wire/event.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

StepTable TableOf(std::initializer_list<int64_t> durations) {
  FakeCaptureReader reader;
  int64_t start_ns = 0;
  int64_t index = 10;
  for (const int64_t duration : durations) {
    reader.Step(index++, start_ns, duration);
    start_ns += duration;
  }
  absl::StatusOr<StepTable> table = SummarizeSteps(reader);
  EXPECT_THAT(table, IsOk());
  return *std::move(table);
}

std::vector<int64_t> OutliersOf(const StepTable& table) {
  std::vector<int64_t> outliers;
  for (const StepTableRow& row : table.rows) {
    if (row.outlier) outliers.push_back(row.index);
  }
  return outliers;
}

TEST(StepTableTest, FiguresOfAnOddAndAnEvenNumber) {
  const StepTable odd = TableOf({300, 100, 200});
  EXPECT_EQ(odd.min_ns, 100);
  EXPECT_EQ(odd.median_ns, 200);
  EXPECT_EQ(odd.mean_ns, 200);
  EXPECT_EQ(odd.max_ns, 300);
  EXPECT_EQ(odd.rows.at(1).index, 11);
  EXPECT_EQ(TableOf({400, 100, 200, 301}).median_ns, 250);
}

TEST(StepTableTest, WithAGpuTheNotesSayWhoseTimesTheseAre) {
  FakeCaptureReader reader;
  reader.Step(1, 0, 100).Step(2, 100, 100);
  const auto notes = [&reader] {
    absl::StatusOr<StepTable> table = SummarizeSteps(reader);
    EXPECT_THAT(table, IsOk());
    return ToReport(*table).notes;
  };
  EXPECT_THAT(notes(), Not(Contains(HasSubstr("Durations are the host's"))));
  reader.Kernel("gemm", 50, 150, 1);
  EXPECT_THAT(notes(), Contains(HasSubstr("Durations are the host's")));
}

TEST(StepTableTest, PercentilesAreByNearestRankAndShownOfManySteps) {
  FakeCaptureReader reader;
  for (int64_t i = 0; i < 200; ++i) reader.Step(i, i * 1'000, i + 1);
  absl::StatusOr<StepTable> table = SummarizeSteps(reader);
  ASSERT_THAT(table, IsOk());
  EXPECT_EQ(table->p95_ns, 190);
  EXPECT_EQ(table->p99_ns, 198);
  EXPECT_THAT(ToReport(*table).notes.at(0), HasSubstr(", p95 0.190us, p99 0.198us, max "));
  const StepTable few = TableOf({300, 100, 200});
  EXPECT_EQ(few.p99_ns, 300);
  EXPECT_THAT(ToReport(few).notes.at(0), Not(HasSubstr("p9")));
}

constexpr auto kStepLabel = static_cast<uint16_t>(wire::NoteKind::kStepLabel);

std::vector<std::string> LabelsOf(store::CaptureReader& reader) {
  absl::StatusOr<StepTable> table = SummarizeSteps(reader);
  EXPECT_THAT(table, IsOk());
  std::vector<std::string> texts;
  for (const StepLabel& label : table->labels) {
    texts.push_back(StrCat(label.name, " ", label.value, " at ", label.step));
  }
  return texts;
}

TEST(StepTableTest, WhatAFrameworkCalledThemComesByStep) {
  FakeCaptureReader reader;
  const uint32_t thread = reader.AddThread(1, "collector");
  reader.Note(thread, kNoNoteTime, kStepLabel, "epoch", "step 41", 3)
      .Note(thread, kNoNoteTime, kStepLabel, "global_step", "step 41", 1200)
      .Note(thread, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kMissing), "x", "step 1", 1)
      .Note(thread, kNoNoteTime, kStepLabel, "epoch", "", 0);
  EXPECT_THAT(LabelsOf(reader),
              ElementsAre("epoch 0 at -1", "epoch 3 at 41", "global_step 1200 at 41"));
}

FrameworkSteps FrameworkOf(const std::vector<StepLabel>& labels,
                           StepSource source = StepSource::kOptimizer) {
  return FrameworkSteps(labels, source);
}

TEST(FrameworkStepsTest, OneLabelNumbersAllSteps) {
  const FrameworkSteps steps = FrameworkOf({{"epoch", 3, 41}, {"global_step", 1200, 41}});
  EXPECT_EQ(steps.GlobalStepOf(41), 1200);
  EXPECT_EQ(steps.GlobalStepOf(38), 1197);
  EXPECT_EQ(steps.NumberText(38), "38 (global step 1197)");
  EXPECT_EQ(steps.LongText(41), "41 (global step 1200, epoch 3)");
  EXPECT_EQ(steps.LongText(38), "38 (global step 1197, epoch 3 at step 41)")
      << "an epoch may have begun in between";
}

TEST(FrameworkStepsTest, WithoutLabelsAStepHasItsNumberAlone) {
  EXPECT_EQ(FrameworkOf({}).LongText(41), "41");
  EXPECT_EQ(FrameworkOf({{"micro_step", 5, 41}}).LongText(41), "41");
  EXPECT_EQ(FrameworkOf({{"global_step", 0, -1}}).LongText(41), "41");
  EXPECT_EQ(FrameworkOf({{"epoch", 2, 44}}).LongText(41), "41 (epoch 2 at step 44)");
  EXPECT_EQ(FrameworkOf({{"global_step", 3, 41}}).NumberText(30), "30") << "it would be negative";
}

TEST(FrameworkStepsTest, TrainersThatDisagreeNumberNothing) {
  EXPECT_EQ(FrameworkOf({{"global_step", 7, 41}, {"global_step", 1200, 41}}).NumberText(41), "41");
  EXPECT_EQ(FrameworkOf({{"epoch", 1, 41}, {"epoch", 2, 41}}).LongText(41), "41");
  EXPECT_EQ(FrameworkOf({{"global_step", 7, 41}, {"global_step", 9, 43}}).NumberText(40),
            "40 (global step 6)");
}

TEST(FrameworkStepsTest, ACountOfSeveralOptimizersNumbersItsStepAlone) {
  const FrameworkSteps steps = FrameworkOf({{"global_step", 84, 41}, {"optimizers", 2, 41}});
  EXPECT_EQ(steps.NumberText(41), "41 (global step 84)");
  EXPECT_EQ(steps.NumberText(40), "40");
}

// With an accumulated gradient, several of them make one global step.
TEST(FrameworkStepsTest, StepsThatAreNotAnOptimizersHaveTheLabelsNumberAlone) {
  for (const StepSource source : {StepSource::kNone, StepSource::kMarks, StepSource::kProfiler,
                                  StepSource::kDataLoader, StepSource::kPeriodicity}) {
    const FrameworkSteps steps = FrameworkOf({{"global_step", 21'050, 50}}, source);
    EXPECT_EQ(steps.NumberText(50), "50 (global step 21050)");
    EXPECT_EQ(steps.NumberText(46), "46");
    EXPECT_EQ(steps.NumberText(51), "51");
  }
}

TEST(FrameworkStepsTest, LabelsOfADamagedCaptureDoNotOverflow) {
  constexpr int64_t kMost = INT64_MAX;
  EXPECT_EQ(FrameworkOf({{"global_step", kMost, 0}}).GlobalStepOf(kMost), std::nullopt);
  EXPECT_EQ(FrameworkOf({{"global_step", 5, kMost}}).GlobalStepOf(0), std::nullopt);
}

StepTable LabeledTable(const CaptureSpec& spec, StepSource source = StepSource::kOptimizer) {
  FakeCaptureReader reader;
  reader.mutable_record().spec = spec;
  reader.mutable_record().torch.step_source = source;
  reader.Step(40, 0, 100).Step(41, 100, 100);
  reader.Note(reader.AddThread(1, "collector"), kNoNoteTime, kStepLabel, "global_step", "step 41",
              1200);
  absl::StatusOr<StepTable> table = SummarizeSteps(reader);
  EXPECT_THAT(table, IsOk());
  return *table;
}

TEST(StepTableTest, RowsHaveTheFrameworksNumbers) {
  const StepTable table = LabeledTable({});
  EXPECT_EQ(table.rows.at(0).global_step, 1199);
  EXPECT_EQ(table.rows.at(1).global_step, 1200);
}

TEST(StepTableTest, BatchesHaveNoNumbersOfAFrameworkButTheLabelsOwn) {
  const StepTable table = LabeledTable({}, StepSource::kDataLoader);
  EXPECT_EQ(table.rows.at(0).global_step, StepTableRow::kNoGlobalStep);
  EXPECT_EQ(table.rows.at(1).global_step, 1200);
}

TEST(StepTableTest, StepsOfACaptureAloneHaveNoNumbersOfAFramework) {
  CaptureSpec spec;
  spec.step_marker = "forward";
  EXPECT_EQ(LabeledTable(spec).rows.at(1).global_step, StepTableRow::kNoGlobalStep);
}

TEST(StepTableTest, LabelsOfNoStepAreNone) {
  FakeCaptureReader reader;
  const uint32_t thread = reader.AddThread(1, "collector");
  for (const char* text :
       {"41", "step", "step ", "step -2", "step 4x", "step 99999999999999999999"}) {
    reader.Note(thread, kNoNoteTime, kStepLabel, "epoch", text, 3);
  }
  reader.Note(thread, kNoNoteTime, kStepLabel, "", "step 1", 3);
  EXPECT_THAT(LabelsOf(reader), IsEmpty());
}

TEST(StepTableTest, ManyLabelsAreCut) {
  FakeCaptureReader reader;
  const uint32_t thread = reader.AddThread(1, "collector");
  for (int i = 0; i < 1000; ++i) {
    reader.Note(thread, kNoNoteTime, kStepLabel, std::string(500, 'e'), "step 1", i);
  }
  const std::vector<std::string> labels = LabelsOf(reader);
  EXPECT_EQ(labels.size(), kMostStepLabels);
  EXPECT_LT(labels[0].size(), 100u);
}

TEST(StepTableTest, FewerThanFiveStepsHaveNoOutliers) {
  const StepTable table = TableOf({100, 100, 100, 10'000});
  EXPECT_EQ(table.outlier_threshold_ns, 0);
  EXPECT_THAT(OutliersOf(table), IsEmpty());
}

TEST(StepTableTest, AStepFarAboveTheSpreadIsAnOutlier) {
  const StepTable table = TableOf({100'000, 101'000, 99'000, 102'000, 98'000, 150'000});
  // Median 100,500; deviations 500, 500, 1500, 1500, 2500, 49500: MAD 1,500.
  EXPECT_EQ(table.outlier_threshold_ns, 100'500 + 25'125);
  EXPECT_THAT(OutliersOf(table), ElementsAre(15));
}

TEST(StepTableTest, StepsThatVaryMuchHaveAHighBound) {
  const StepTable table = TableOf({100'000, 110'000, 90'000, 120'000, 80'000, 150'000});
  // Median 105,000; deviations 5000, 5000, 15000, 15000, 25000, 45000: MAD 15,000.
  EXPECT_EQ(table.outlier_threshold_ns, 105'000 + 75'000);
  EXPECT_THAT(OutliersOf(table), IsEmpty());
}

TEST(StepTableTest, EqualStepsAreNoOutliersOfEachOther) {
  EXPECT_THAT(OutliersOf(TableOf({1000, 1000, 1000, 1000, 1249})), IsEmpty());
  EXPECT_THAT(OutliersOf(TableOf({1000, 1000, 1000, 1000, 1251})), ElementsAre(14));
}

TEST(StepTableTest, ACaptureByTimeHasNoRows) {
  const StepTable table = TableOf({});
  EXPECT_THAT(table.rows, IsEmpty());
  EXPECT_EQ(table.median_ns, 0);
}

TEST(StepTableTest, ANegativeDurationIsDamage) {
  FakeCaptureReader reader;
  reader.Step(0, 0, -1);
  EXPECT_THAT(SummarizeSteps(reader), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(StepLookupTest, FindsTheStepAroundATimeWhateverWasAskedBefore) {
  const std::vector<StepRecord> steps = {{10, 0, 0, 100}, {11, 0, 100, 100}, {20, 1, 500, 100}};
  StepLookup lookup(steps);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(lookup.PositionAt(550), 2U);
    EXPECT_EQ(lookup.PositionAt(0), 0U);
    EXPECT_EQ(lookup.PositionAt(99), 0U);
    EXPECT_EQ(lookup.PositionAt(100), 1U);
    EXPECT_EQ(lookup.PositionAt(200), StepLookup::kNone);
    EXPECT_EQ(lookup.PositionAt(-1), StepLookup::kNone);
    EXPECT_EQ(lookup.PositionAt(600), StepLookup::kNone);
  }
  EXPECT_EQ(lookup.WithIndex(20)->start_ns, 500);
  EXPECT_THAT(lookup.WithIndex(12), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace profd::report
