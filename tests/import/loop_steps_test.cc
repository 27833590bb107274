// Steps of torch.profiler that do not follow each other: of two threads, nested, overlapping.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class LoopStepsTest : public ImportTest {
 protected:
  // Times in us.
  void Step(int index, int64_t at, int64_t length) { StepOf(9, index, at, length); }
  void StepOf(int tid, int index, int64_t at, int64_t length) {
    StrAppend(&events_, events_.empty() ? "" : ",",
              R"({"ph":"X","cat":"user_annotation","name":"ProfilerStep#)", index,
              R"(","pid":7,"tid":)", tid, R"(,"ts":)", at, R"(,"dur":)", length, "}");
  }
  // Number, start, and duration of each step, in us.
  static std::vector<std::tuple<int64_t, int64_t, int64_t>> StepsOf(store::CaptureReader& reader) {
    std::vector<std::tuple<int64_t, int64_t, int64_t>> steps;
    for (const StepRecord& step : reader.steps()) {
      steps.emplace_back(step.index, step.start_ns / 1000, step.duration_ns / 1000);
    }
    return steps;
  }
  std::unique_ptr<store::CaptureReader> ReadAll() { return ReadEvents(events_); }

 private:
  std::string events_;
};

TEST_F(LoopStepsTest, StepsAreThoseOfTheThreadWithMost) {
  for (int i = 0; i < 3; ++i) StepOf(9, i, 1000 * i, 1000);
  for (int i = 0; i < 2; ++i) StepOf(10, 50 + i, 400 + 1100 * i, 1100);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), ElementsAre(std::tuple(0, 0, 1000), std::tuple(1, 1000, 1000),
                                            std::tuple(2, 2000, 1000)));
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep of another thread than most", 2)));
}

TEST_F(LoopStepsTest, StepsOfALoopThatChangesItsThreadAreKept) {
  for (int i = 0; i < 3; ++i) StepOf(9, i, 1000 * i, 1000);
  for (int i = 3; i < 5; ++i) StepOf(10, i, 1000 * i, 1000);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), SizeIs(5));
  EXPECT_THAT(reader->record().imported.not_understood, IsEmpty());
}

TEST_F(LoopStepsTest, AStepAroundOthersIsNoStepOfTheirLoop) {
  Step(100, 0, 3000);
  for (int i = 0; i < 3; ++i) Step(i, 1000 * i, 900);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), ElementsAre(std::tuple(0, 0, 900), std::tuple(1, 1000, 900),
                                            std::tuple(2, 2000, 900)));
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep around others", 1)));
}

TEST_F(LoopStepsTest, AStepInsideOneOfManyIsNoStepOfTheirLoop) {
  for (int i = 0; i < 3; ++i) Step(i, 1000 * i, 1000);
  Step(100, 1200, 300);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), SizeIs(3));
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep inside another", 1)));
}

TEST_F(LoopStepsTest, AStepThatOverlapsTheNextEndsThere) {
  for (int i = 0; i < 3; ++i) Step(i, 1000 * i, 1400);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(StepsOf(*reader), ElementsAre(std::tuple(0, 0, 1000), std::tuple(1, 1000, 1000),
                                            std::tuple(2, 2000, 1400)));
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("ProfilerStep that overlaps the next, where it is taken to end", 2)));
}

TEST_F(LoopStepsTest, StepsThatRoundingMakesOverlapAreComplete) {
  for (int i = 0; i < 3; ++i) Step(i, 1000 * i, 1001);
  const auto reader = ReadAll();
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood, IsEmpty());
}

}  // namespace
}  // namespace profd::importer
