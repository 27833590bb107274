// Where steps begin, by what operators a thread repeats. Times are of a clock of our own.
#include "client_lib/torch/period_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

namespace profd::client::torch {
namespace {

constexpr int64_t kOperatorNs = 1'000'000;
constexpr int64_t kIdleNs = 5'000'000;

// Runs loops whose operators are letters; "." is time without one. A "|" in what it returns is a
// step that begins there.
class PeriodDetectorTest : public ::testing::Test {
 protected:
  std::string Run(const std::string& operators) {
    std::string seen;
    for (const char name : operators) {
      if (name == '.') {
        now_ns_ += kIdleNs;
        continue;
      }
      detector_->OnBegin(static_cast<uint32_t>(name), now_ns_);
      now_ns_ += kOperatorNs;
      seen += name;
      if (detector_->OnEnd(now_ns_)) seen += '|';
    }
    return seen;
  }

  // Until the round is known.
  void Learn(const std::string& round) {
    for (int i = 0; i < 10'000 && detector_->round_length() == 0; ++i) Run(round);
    Run(round);
  }

  std::unique_ptr<PeriodDetector> detector_ = std::make_unique<PeriodDetector>();
  int64_t now_ns_ = 1;
};

TEST_F(PeriodDetectorTest, ARoundBeginsBehindTheOperatorThatIsFollowedByTheLongestIdleTime) {
  Learn("abcd.e");
  EXPECT_EQ(detector_->round_length(), 5u);
  EXPECT_EQ(Run("abcd.eabcd.e"), "abcd|eabcd|e");
}

TEST_F(PeriodDetectorTest, WithoutIdleTimeEachRoundStillHasOneBegin) {
  Learn("abc");
  const std::string seen = Run("abcabcabc");
  EXPECT_EQ(std::ranges::count(seen, '|'), 3);
}

TEST_F(PeriodDetectorTest, ItIsLookedForOnlyAfterASecond) {
  for (int i = 0; i < 20; ++i) Run("abcd.");
  EXPECT_EQ(detector_->round_length(), 0u);
  for (int i = 0; i < 200; ++i) Run("abcd.");
  EXPECT_EQ(detector_->round_length(), 4u);
}

TEST_F(PeriodDetectorTest, LayersAreNoRoundsWhereTheModelIsOne) {
  std::string layers;
  for (int i = 0; i < 40; ++i) layers += "lmn";
  Run(layers.substr(60) + "h.");  // It is watched from the middle of a model on.
  Learn("e" + layers + "h.");
  EXPECT_EQ(detector_->round_length(), layers.size() + 2);
  EXPECT_EQ(Run("e" + layers + "h."), "e" + layers + "h|");
}

TEST_F(PeriodDetectorTest, ABeginIsToldFromOthersOfItsNameByWhatIsBeforeIt) {
  Learn("aabab.");
  EXPECT_EQ(Run("aabab.aabab."), "aabab|aabab|");
}

TEST_F(PeriodDetectorTest, ARoundWithMoreInItIsOneLongerStep) {
  Learn("abcd.");
  EXPECT_EQ(Run("abcd.abxxxcd.abcd.abcdyy.abcd."), "abcd|abxxxcd|abcd|abcd|yyabcd|");
}

TEST_F(PeriodDetectorTest, WhatCameBeforeTheLoopDoesNotMatter) {
  std::string other;
  for (int i = 0; i < 700; ++i) other += static_cast<char>('A' + i * i % 23);
  Run(other);
  Learn("abcd.");
  EXPECT_EQ(Run("abcd.abcd."), "abcd|abcd|");
}

TEST_F(PeriodDetectorTest, AnotherLoopIsLookedForAnew) {
  Learn("abcd.");
  Learn("xyz.");
  for (int i = 0; i < 1000; ++i) Run("xyz.");
  EXPECT_EQ(detector_->round_length(), 3u);
  EXPECT_EQ(Run("xyz.xyz."), "xyz|xyz|");
}

TEST_F(PeriodDetectorTest, WhatNeverRepeatsHasNoRounds) {
  uint32_t state = 1;
  for (uint32_t i = 0; i < 4 * PeriodDetector::kKept; ++i) {
    state = state * 1664525 + 1013904223;
    Run(std::string(1, static_cast<char>('a' + state / 65536 % 20)));
  }
  EXPECT_EQ(detector_->round_length(), 0u);
}

TEST_F(PeriodDetectorTest, ARoundMayHaveAThirdOfWhatIsKept) {
  std::string round;
  uint32_t state = 1;
  for (uint32_t i = 0; i < PeriodDetector::kKept / 3; ++i) {
    state = state * 1664525 + 1013904223;
    round += static_cast<char>('a' + state / 65536 % 20);
  }
  round += "Z.";
  for (int i = 0; i < 12; ++i) Run(round);
  EXPECT_EQ(detector_->round_length(), 0u) << "one operator too many";
  round.erase(0, 1);
  detector_->StartOver();
  for (int i = 0; i < 12; ++i) Run(round);
  EXPECT_EQ(detector_->round_length(), PeriodDetector::kKept / 3);
  EXPECT_EQ(Run(round).back(), '|');
}

}  // namespace
}  // namespace profd::client::torch
