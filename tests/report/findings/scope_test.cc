#include "daemon/report/findings/scope.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace profd::report {
namespace {

constexpr int64_t kStepNs = 10'000'000;

class EdgesTest : public ::testing::Test {
 protected:
  // Of steps one after another.
  void Steps(const std::vector<int64_t>& lengths_ns) {
    int64_t at_ns = scope_.stretches.empty() ? 0 : scope_.stretches.back().end_ns;
    for (const int64_t length_ns : lengths_ns) {
      scope_.stretches.push_back(
          {at_ns, at_ns + length_ns, static_cast<int64_t>(scope_.stretches.size())});
      at_ns += length_ns;
    }
    last_.last_ns = at_ns;
  }
  void Pause(int64_t ns) {
    pause_ns_ = scope_.stretches.back().end_ns;
    scope_.stretches.push_back({pause_ns_ + ns, pause_ns_ + ns + 3 * kStepNs,
                                static_cast<int64_t>(scope_.stretches.size())});
  }
  // The numbers of the steps that are left.
  std::vector<int64_t> Kept() {
    LeaveOutEdges(first_, last_, holes_, scope_);
    std::vector<int64_t> steps;
    int64_t total_ns = 0;
    for (const FindingScope::Stretch& stretch : scope_.stretches) {
      steps.push_back(stretch.step);
      total_ns += stretch.end_ns - stretch.start_ns;
    }
    EXPECT_EQ(scope_.total_ns, total_ns);
    return steps;
  }

  FindingScope scope_;
  EdgeStep first_ = {.is_empty = false};
  EdgeStep last_ = {.is_empty = false};
  IntervalSet holes_;
  int64_t pause_ns_ = 0;
};

using Numbers = std::vector<int64_t>;

TEST_F(EdgesTest, OfAlikeStepsAllAreKept) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs, kStepNs});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(scope_.edge_count, 0);
}

TEST_F(EdgesTest, EmptyOnesAreLeftOut) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs, kStepNs});
  first_.is_empty = true;
  last_.is_empty = true;
  EXPECT_EQ(Kept(), (Numbers{1, 2, 3}));
  EXPECT_EQ(scope_.edge_count, 2);
}

TEST_F(EdgesTest, ALastStepThatIsCutIsLeftOut) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs, kStepNs / 3});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3}));
}

TEST_F(EdgesTest, OfThreeStepsALastOneThatIsCutIsLeftOutByItsEvents) {
  Steps({kStepNs, kStepNs, kStepNs / 3});
  last_.has_few_events = true;
  EXPECT_EQ(Kept(), (Numbers{0, 1}));
  EXPECT_EQ(scope_.edge_count, 1);
}

TEST_F(EdgesTest, OfThreeStepsAShortLastOneWithAsManyEventsIsKept) {
  Steps({kStepNs, kStepNs, kStepNs / 3});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2}));
}

TEST_F(EdgesTest, OfThreeStepsALastOneWithFewEventsThatTakesAsLongIsKept) {
  Steps({kStepNs, kStepNs, kStepNs});
  last_.has_few_events = true;
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2}));
}

// The first one may be the warm-up, with all that is compiled and loaded.
TEST_F(EdgesTest, OfTwoStepsNoneIsTakenForCut) {
  Steps({100 * kStepNs, kStepNs});
  last_.has_few_events = true;
  EXPECT_EQ(Kept(), (Numbers{0, 1}));
}

TEST_F(EdgesTest, ALastStepThatEndsWithTheRecorderIsLeftOut) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs, 2 * kStepNs});
  last_.last_ns -= kStepNs * 9 / 10;
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3}));
}

TEST_F(EdgesTest, ALastStepThatIsBusyForLongerIsKept) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs, 2 * kStepNs});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3, 4}));
}

TEST_F(EdgesTest, TheSlowFirstStepOfALaterWindowIsLeftOut) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs});
  Pause(20 * kStepNs);
  holes_.Add(pause_ns_, pause_ns_ + 20 * kStepNs);
  Steps({kStepNs, kStepNs, kStepNs});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(scope_.edge_count, 1);
}

TEST_F(EdgesTest, AfterAPauseThatWasRecordedASlowStepIsKept) {
  Steps({kStepNs, kStepNs, kStepNs, kStepNs});
  Pause(20 * kStepNs);
  Steps({kStepNs, kStepNs, kStepNs});
  EXPECT_EQ(Kept(), (Numbers{0, 1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace profd::report
