#include "daemon/report/time/operator_rounds.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace profd::report {
namespace {

constexpr int64_t kNsPerOperator = 20'000'000;

class OperatorRoundsTest : public testing::Test {
 protected:
  // A letter is an operator.
  void Run(std::string_view names, int times = 1) {
    for (int i = 0; i < times; ++i) {
      for (const char name : names) {
        operators_.push_back({.name = static_cast<uint32_t>(name), .start_ns = now_ns_});
        now_ns_ += kNsPerOperator;
      }
    }
  }
  OperatorRounds Find() const { return FindOperatorRounds(operators_); }

  std::vector<OutermostOperator> operators_;
  int64_t now_ns_ = 0;
};

TEST_F(OperatorRoundsTest, AreTheShortestThatRepeat) {
  Run("abcc", 30);
  EXPECT_EQ(Find().count, 30);
  EXPECT_EQ(Find().operators, 4);
  EXPECT_EQ(Find().median_ns, 4 * kNsPerOperator);
}

TEST_F(OperatorRoundsTest, NeedTwentyRepeats) {
  Run("abcc", 19);
  EXPECT_EQ(Find().count, 0);
  Run("abcc");
  EXPECT_EQ(Find().count, 20);
}

TEST_F(OperatorRoundsTest, AreNotLayersOfAModelThatRepeatWithinThem) {
  for (int round = 0; round < 20; ++round) {
    Run("ab", 27);
    Run("e");
  }
  EXPECT_EQ(Find().operators, 55);
  operators_.resize(operators_.size() / 4);
  EXPECT_EQ(Find().count, 0) << "27 layers, for a fifth of the time";
}

TEST_F(OperatorRoundsTest, GoOnAfterAStartAndBeforeAnEndThatDiffer) {
  Run("xyz", 7);
  Run("abc", 60);
  Run("qrs", 20);
  EXPECT_EQ(Find().operators, 3);
  EXPECT_GE(Find().count, 40);
  EXPECT_LE(Find().count, 60);
}

TEST_F(OperatorRoundsTest, EndAtADifferenceSoThatHalfMustRepeatWithoutOne) {
  for (int i = 0; i < 10; ++i) {
    Run("abc", 25);
    Run("q");
  }
  EXPECT_EQ(Find().count, 0) << "a tenth is the longest, and 10 rounds of 76 are too few";
}

TEST_F(OperatorRoundsTest, LastASecond) {
  Run("abcc", 30);
  for (OutermostOperator& op : operators_) op.start_ns /= 10;
  EXPECT_EQ(Find().count, 0) << "240 ms";
}

TEST_F(OperatorRoundsTest, OfNoneOrOneOperatorThereAreNone) {
  EXPECT_EQ(Find().count, 0);
  Run("a");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(OperatorRoundsTest, AreNotOneOperatorThatRepeats) {
  Run("a", 100);
  EXPECT_EQ(Find().count, 0);
}

}  // namespace
}  // namespace profd::report
