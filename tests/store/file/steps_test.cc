// Step k lasts from mark k to mark k + 1, also where a mark was lost at a window's edge.
#include "daemon/store/file/steps.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace profd::store {
namespace {

using testing::ElementsAre;
using testing::FieldsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(SortMarksTest, SortsByStepAndKeepsTheFirstOfARepeat) {
  const auto marks = SortMarks({{30, 3}, {10, 1}, {99, 1}, {20, 2}});
  ASSERT_THAT(marks, SizeIs(3));
  EXPECT_EQ(marks[0].time_ns, 10);
  EXPECT_EQ(marks[2].step, 3);
}

TEST(DeriveStepsTest, TimesCountFromTheCapturesStart) {
  const std::vector<StepRow> marks = {{1'000, 5}, {1'100, 6}, {1'250, 7}};
  const std::vector<WindowRecord> windows = {{0, 250, 5, 7}};
  EXPECT_THAT(DeriveSteps(marks, windows, 1'000),
              ElementsAre(FieldsAre(5, 0, 0, 100), FieldsAre(6, 0, 100, 150)));
}

TEST(DeriveStepsTest, WindowsOfStepsKnowTheirEdgesWithoutMarks) {
  const std::vector<WindowRecord> windows = {{0, 300, 5, 8}};
  const std::vector<StepRow> inner = {{100, 6}, {200, 7}};
  EXPECT_THAT(
      DeriveSteps(inner, windows, 0),
      ElementsAre(FieldsAre(5, 0, 0, 100), FieldsAre(6, 0, 100, 100), FieldsAre(7, 0, 200, 100)));
  const std::vector<WindowRecord> single = {{0, 300, 5, 6}};
  EXPECT_THAT(DeriveSteps({}, single, 0), ElementsAre(FieldsAre(5, 0, 0, 300)));
}

TEST(DeriveStepsTest, AStepWithALostMarkInTheMiddleIsLeftOut) {
  const std::vector<StepRow> marks = {{0, 5}, {100, 6}, {300, 8}, {400, 9}};
  const std::vector<WindowRecord> windows = {{0, 400, 5, 9}};
  EXPECT_THAT(DeriveSteps(marks, windows, 0),
              ElementsAre(FieldsAre(5, 0, 0, 100), FieldsAre(8, 0, 300, 100)));
}

TEST(DeriveStepsTest, EachWindowHasItsOwnSteps) {
  const std::vector<StepRow> marks = {{0, 5}, {10, 6}, {20, 7}, {90, 12}, {99, 13}};
  const std::vector<WindowRecord> windows = {{0, 10, 5, 6}, {90, 99, 12, 13}};
  EXPECT_THAT(DeriveSteps(marks, windows, 0),
              ElementsAre(FieldsAre(5, 0, 0, 10), FieldsAre(12, 1, 90, 9)));
}

TEST(DeriveStepsTest, AWindowByTimeHasTheStepsWhollyInsideIt) {
  const std::vector<StepRow> marks = {{-10, 1}, {5, 2}, {15, 3}, {25, 4}, {35, 5}};
  const std::vector<WindowRecord> windows = {{0, 30, -1, -1}};
  EXPECT_THAT(DeriveSteps(marks, windows, 0),
              ElementsAre(FieldsAre(2, 0, 5, 10), FieldsAre(3, 0, 15, 10)));
}

TEST(DeriveStepsTest, ImpossibleWindowsHaveNoSteps) {
  const std::vector<StepRow> marks = {{0, 5}, {10, 6}};
  const std::vector<WindowRecord> windows = {{0, 10, 6, 5}, {0, 10, 7, 7}, {0, -5, 5, 6}};
  EXPECT_THAT(DeriveSteps(marks, windows, 0), ElementsAre(FieldsAre(5, 2, 0, 10)));
}

TEST(RecoverWindowsTest, EveryUnbrokenRunOfMarksIsAWindow) {
  const std::vector<StepRow> marks = {{100, 5},  {110, 6},  {120, 7},
                                      {300, 20}, {310, 21}, {500, 40}};
  const RecoveredWindows recovered = RecoverWindows(marks, {0, 1'000});
  EXPECT_EQ(recovered.start_ns, 100);
  EXPECT_THAT(recovered.windows, ElementsAre(FieldsAre(0, 20, 5, 7), FieldsAre(200, 210, 20, 21)));
}

TEST(RecoverWindowsTest, WithoutStepsTheEventsTellTheTime) {
  const RecoveredWindows recovered = RecoverWindows({}, {-50, 950});
  EXPECT_EQ(recovered.start_ns, -50);
  EXPECT_THAT(recovered.windows, ElementsAre(FieldsAre(0, 1'000, -1, -1)));
  EXPECT_THAT(RecoverWindows({}, {}).windows, IsEmpty());
}

TEST(SummarizeStepTimesTest, GivesOneRowPerWindow) {
  const std::vector<StepRecord> steps = {
      {1, 0, 0, 10}, {2, 0, 0, 40}, {3, 0, 0, 20}, {4, 0, 0, 30}, {9, 1, 0, 7}};
  EXPECT_THAT(SummarizeStepTimes(steps),
              ElementsAre(FieldsAre(0, 4, 10, 25, 25, 40), FieldsAre(1, 1, 7, 7, 7, 7)));
  EXPECT_THAT(SummarizeStepTimes({}), IsEmpty());
}

TEST(MedianStepTimeTest, IsOfTheStepsOfAllWindows) {
  const std::vector<StepRecord> steps = {
      {1, 0, 0, 10}, {2, 0, 0, 40}, {3, 0, 0, 20}, {4, 0, 0, 30}, {9, 1, 0, 7}};
  EXPECT_EQ(MedianStepTime(steps), 20);
  EXPECT_EQ(MedianStepTime({}), 0);
}

}  // namespace
}  // namespace profd::store
