#include "daemon/base/settled_clock.h"

#include <gtest/gtest.h>

#include <optional>

namespace profd {
namespace {

class SettableClock final : public Clock {
 public:
  absl::Time Now() override { return time; }
  absl::Duration Monotonic() override { return monotonic; }
  void Run(absl::Duration by) {
    time += by;
    monotonic += by;
  }

  absl::Time time = absl::FromUnixSeconds(1'800'000'000);
  absl::Duration monotonic = absl::Seconds(1000);
};

TEST(SettledClockTest, AClockCountsAfterAnHour) {
  SettableClock clock;
  SettledClock settled(clock, "nothing is removed");
  clock.Run(absl::Minutes(59));
  EXPECT_EQ(settled.Now(), std::nullopt);
  clock.Run(absl::Minutes(1));
  EXPECT_EQ(settled.Now(), clock.time);
}

TEST(SettledClockTest, AfterAJumpItTakesAnotherHour) {
  for (const absl::Duration jump : {absl::Hours(24 * 200), absl::Hours(-24 * 200)}) {
    SettableClock clock;
    SettledClock settled(clock, "nothing is removed");
    clock.Run(absl::Hours(2));
    ASSERT_EQ(settled.Now(), clock.time);
    clock.time += jump;
    clock.Run(absl::Hours(2));
    EXPECT_EQ(settled.Now(), std::nullopt) << "it may have jumped just now";
    clock.Run(absl::Minutes(59));
    EXPECT_EQ(settled.Now(), std::nullopt);
    clock.Run(absl::Minutes(1));
    EXPECT_EQ(settled.Now(), clock.time);
  }
}

TEST(SettledClockTest, ASlewIsNoJump) {
  SettableClock clock;
  SettledClock settled(clock, "nothing is removed");
  for (int hour = 0; hour < 1000; ++hour) {
    clock.Run(absl::Hours(1));
    clock.time += absl::Seconds(2);
    ASSERT_EQ(settled.Now(), clock.time);
  }
}

}  // namespace
}  // namespace profd
