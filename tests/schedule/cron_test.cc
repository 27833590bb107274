#include "daemon/schedule/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

absl::Time At(const char* text) {
  absl::Time time;
  std::string why;
  EXPECT_TRUE(absl::ParseTime("%Y-%m-%d %H:%M:%S", text, &time, &why)) << why;
  return time;
}

// The next `count` matches, as text.
std::vector<std::string> Next(const char* cron, const char* after, int count) {
  const auto parsed = CronExpression::Parse(cron);
  EXPECT_THAT(parsed, IsOk()) << cron;
  std::vector<std::string> found;
  absl::Time time = At(after);
  for (int i = 0; parsed.ok() && i < count; ++i) {
    time = parsed->Next(time);
    found.push_back(absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::UTCTimeZone()));
  }
  return found;
}

TEST(CronTest, EveryMinuteIsTheNextWholeOne) {
  EXPECT_THAT(Next("* * * * *", "2026-11-20 10:00:30", 2),
              ElementsAre("2026-11-20 10:01:00", "2026-11-20 10:02:00"));
}

TEST(CronTest, AMatchIsLaterThanWhatItIsAskedFor) {
  EXPECT_THAT(Next("0 10 * * *", "2026-11-20 10:00:00", 1), ElementsAre("2026-11-21 10:00:00"));
}

TEST(CronTest, ListsRangesAndStepsAreTaken) {
  EXPECT_THAT(Next("5,20-30/5 8 * * *", "2026-11-20 00:00:00", 4),
              ElementsAre("2026-11-20 08:05:00", "2026-11-20 08:20:00", "2026-11-20 08:25:00",
                          "2026-11-20 08:30:00"));
}

TEST(CronTest, ZeroAndSevenAreSunday) {
  EXPECT_THAT(Next("0 0 * * 0", "2026-11-20 00:00:00", 1), ElementsAre("2026-11-22 00:00:00"));
  EXPECT_THAT(Next("0 0 * * 7", "2026-11-20 00:00:00", 1), ElementsAre("2026-11-22 00:00:00"));
}

TEST(CronTest, OfTwoRestrictedDaysEitherWillDo) {
  EXPECT_THAT(Next("0 0 25 * 1", "2026-11-20 00:00:00", 3),
              ElementsAre("2026-11-23 00:00:00", "2026-11-25 00:00:00", "2026-11-30 00:00:00"));
}

TEST(CronTest, ALeapDayComesAlsoOverTheTurnOfACentury) {
  EXPECT_THAT(Next("0 0 29 2 *", "2096-03-01 00:00:00", 1), ElementsAre("2104-02-29 00:00:00"));
}

TEST(CronTest, TheYearEnds) {
  EXPECT_THAT(Next("59 23 31 12 *", "2026-12-31 23:59:00", 1), ElementsAre("2027-12-31 23:59:00"));
}

TEST(CronTest, WhatIsOutOfRangeIsRefusedByTheNameOfItsField) {
  EXPECT_THAT(CronExpression::Parse("60 * * * *"),
              StatusIs(Code::kInvalidArgument, HasSubstr("minute '60'")));
  EXPECT_THAT(CronExpression::Parse("* 24 * * *"),
              StatusIs(Code::kInvalidArgument, HasSubstr("hour")));
  EXPECT_THAT(CronExpression::Parse("* * 0 * *"),
              StatusIs(Code::kInvalidArgument, HasSubstr("day of the month")));
  EXPECT_THAT(CronExpression::Parse("* * * 13 *"),
              StatusIs(Code::kInvalidArgument, HasSubstr("month")));
  EXPECT_THAT(CronExpression::Parse("* * * * 8"),
              StatusIs(Code::kInvalidArgument, HasSubstr("day of the week")));
}

TEST(CronTest, WhatIsNoExpressionIsRefused) {
  for (const char* text :
       {"", "*", "* * * *", "* * * * * *", "a * * * *", "1- * * * *", "-1 * * * *", "5-1 * * * *",
        "*/0 * * * *", "*/ * * * *", "1,,2 * * * *", "5/15 * * * *", "1-2-3 * * * *",
        "*/5/5 * * * *", "@daily", "99999999999999999999 * * * *", "0 0 * JAN *"}) {
    EXPECT_THAT(CronExpression::Parse(text), StatusIs(Code::kInvalidArgument)) << text;
  }
  EXPECT_THAT(CronExpression::Parse(std::string(10'000, '*')), StatusIs(Code::kInvalidArgument));
}

TEST(CronTest, ADayThatNeverComesIsRefused) {
  EXPECT_THAT(CronExpression::Parse("0 0 31 2 *"),
              StatusIs(Code::kInvalidArgument, HasSubstr("never comes")));
}

TEST(CronTest, TheShortestGapIsFoundAlsoOverMidnight) {
  const auto gap = [](const char* text) { return CronExpression::Parse(text)->ShortestGap(); };
  EXPECT_EQ(gap("* * * * *"), absl::Minutes(1));
  EXPECT_EQ(gap("*/15 * * * *"), absl::Minutes(15));
  EXPECT_EQ(gap("0,59 0,23 * * *"), absl::Minutes(1));
  EXPECT_EQ(gap("0 3 * * *"), absl::Hours(24));
  EXPECT_EQ(gap("0 0 1 1 *"), absl::InfiniteDuration());
}

}  // namespace
}  // namespace profd
