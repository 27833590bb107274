#include "daemon/schedule/window_times.h"

#include <gtest/gtest.h>

#include <set>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr char kScheduleId[] = "01HZZZZZZZZZZZZZZZZZZZZZZA";
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'123);

TEST(WindowTimesTest, AlignedWindowsLieOnMultiplesOfTheUnixClock) {
  const WindowTimes times(kScheduleId, {.every = absl::Minutes(30), .align = true});
  const auto first = times.After(kNow);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(absl::ToUnixSeconds(first->due) % 1800, 0);
  EXPECT_GT(first->due, kNow);
  EXPECT_EQ(times.After(first->nominal)->due, first->due + absl::Minutes(30));
}

TEST(WindowTimesTest, ThePhaseIsOfTheScheduleAndTheSameEverywhere) {
  const ScheduleSpec spec{.every = absl::Minutes(30)};
  std::set<int64_t> phases;
  for (int i = 0; i < 50; ++i) {
    const std::string id = StrCat("schedule-", i);
    const auto here = WindowTimes(id, spec).After(kNow);
    EXPECT_EQ(here, WindowTimes(id, spec).After(kNow + absl::Nanoseconds(1)));
    phases.insert(absl::ToUnixMillis(here->nominal) % (30 * 60 * 1000));
  }
  EXPECT_GT(phases.size(), 45U);
}

// What a running cluster does must not change with a new version of profd.
TEST(WindowTimesTest, ThePhaseNeverChanges) {
  const auto first = WindowTimes(kScheduleId, {.every = absl::Hours(1), .jitter = absl::Minutes(5)})
                         .After(absl::UnixEpoch());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(absl::ToUnixMillis(first->nominal), 1'510'275);
  EXPECT_EQ(absl::ToInt64Milliseconds(first->due - first->nominal), 272'228);
}

TEST(WindowTimesTest, JitterKeepsTheOrderAndStaysInItsBound) {
  const WindowTimes times(kScheduleId, {.every = absl::Seconds(10), .jitter = absl::Seconds(4)});
  absl::Time nominal = kNow;
  absl::Time last_due = absl::InfinitePast();
  std::set<absl::Duration> jitters;
  for (int i = 0; i < 1000; ++i) {
    const auto window = times.After(nominal);
    ASSERT_TRUE(window.has_value());
    EXPECT_GE(window->due, window->nominal);
    EXPECT_LE(window->due, window->nominal + absl::Seconds(4));
    EXPECT_GT(window->due, last_due);
    jitters.insert(window->due - window->nominal);
    last_due = window->due;
    nominal = window->nominal;
  }
  EXPECT_GT(jitters.size(), 500U);
}

TEST(WindowTimesTest, CronWindowsComeByTheirExpression) {
  const WindowTimes times(kScheduleId, {.cron = "0 3 * * *"});
  const auto first = times.After(kNow);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(absl::ToUnixSeconds(first->due) % 86'400, 3 * 3600);
}

TEST(WindowTimesTest, NoWindowIsLaterThanTheEnd) {
  const WindowTimes times(
      kScheduleId,
      {.every = absl::Minutes(30), .align = true, .end_time = kNow + absl::Minutes(31)});
  const auto only = times.After(kNow);
  ASSERT_TRUE(only.has_value());
  EXPECT_FALSE(times.After(only->nominal).has_value());
}

}  // namespace
}  // namespace profd
