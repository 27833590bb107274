#include "cli/render/top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1'700'000'000);
const Style kWide{.is_terminal = true, .width = 160, .colour = false};

TargetInfo Training(int64_t pid, int64_t steps, double per_second) {
  TargetInfo target;
  target.pid = pid;
  target.process_start_ticks = 7;
  target.step_mark_count = steps;
  target.current_step = steps - 1;
  target.steps_per_second = per_second;
  target.command = "python3 train.py";
  return target;
}

class TopViewTest : public ::testing::Test {
 protected:
  std::string LookAt(int second, std::vector<TargetInfo> targets) {
    TopLook look;
    look.time = kStart + absl::Seconds(second);
    look.nodes.push_back({"", std::move(targets)});
    view_.Add(look);
    return view_.Render(kWide);
  }

  TopView view_;
};

TEST_F(TopViewTest, ShowsRateTimeAndTrend) {
  LookAt(0, {Training(4711, 100, 10)});
  LookAt(10, {Training(4711, 200, 10)});
  LookAt(20, {Training(4711, 300, 10)});
  const std::string text = LookAt(30, {Training(4711, 320, 2)});
  EXPECT_THAT(text, HasSubstr("1 target, 0 running captures; q quits"));
  EXPECT_THAT(text, HasSubstr("319"));
  EXPECT_THAT(text, HasSubstr("2.00"));
  EXPECT_THAT(text, HasSubstr("500.000ms"));
  // From 100 ms to 500 ms a step: the lowest block and the highest.
  EXPECT_THAT(text, HasSubstr("\u2581"));
  EXPECT_THAT(text, HasSubstr("\u2588"));
}

TEST_F(TopViewTest, SaysThatStepsAreMissing) {
  TargetInfo target = Training(4711, 103, 1);
  target.median_step_ns = 1'000'000'000;
  target.since_last_step_ns = 1'500'000'000;
  EXPECT_THAT(LookAt(0, {target}), AllOf(HasSubstr("1.000s"), Not(HasSubstr("none for"))));
  target.since_last_step_ns = 41'000'000'000;
  EXPECT_THAT(LookAt(40, {target}), AllOf(HasSubstr("none for 41s"), Not(HasSubstr("1.00 "))));
}

TEST_F(TopViewTest, AProcessThatTakesThePidOfAnotherStartsAnew) {
  LookAt(0, {Training(4711, 100, 10)});
  LookAt(1, {Training(4711, 110, 10)});
  TargetInfo other = Training(4711, 3, 1);
  other.process_start_ticks = 8;
  const std::string text = LookAt(2, {other});
  EXPECT_THAT(text, Not(HasSubstr("\u2581")));
}

TEST_F(TopViewTest, WithoutTargetsSaysHowToStartOne) {
  EXPECT_THAT(LookAt(0, {}), HasSubstr("profctl run"));
}

}  // namespace
}  // namespace profd::cli
