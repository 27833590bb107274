#include "daemon/schedule/schedule_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

ScheduleSpec HalfHourly() {
  return {.every = absl::Minutes(30), .capture = {.steps = 3}, .sample = {.fraction = 0.05}};
}

TEST(ScheduleSpecTest, AnOrdinaryScheduleIsTaken) {
  EXPECT_THAT(ValidateScheduleSpec(HalfHourly()), IsOk());
}

struct WrongSpec {
  const char* says;  // Part of the message.
  std::function<void(ScheduleSpec&)> spoil;
};

TEST(ScheduleSpecTest, WhatIsOutOfRangeIsRefusedByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<WrongSpec> wrongs = {
      {"every", [](ScheduleSpec& s) { s.every = absl::ZeroDuration(); }},
      {"every", [](ScheduleSpec& s) { s.cron = "* * * * *"; }},
      {"every", [](ScheduleSpec& s) { s.every = absl::Seconds(9); }},
      {"every", [](ScheduleSpec& s) { s.every = absl::Hours(24 * 31); }},
      {"every", [](ScheduleSpec& s) { s.every = -absl::Seconds(30); }},
      {"milliseconds", [](ScheduleSpec& s) { s.every += absl::Nanoseconds(1); }},
      {"jitter", [](ScheduleSpec& s) { s.jitter = -absl::Seconds(1); }},
      {"jitter", [](ScheduleSpec& s) { s.jitter = absl::Minutes(15); }},
      {"steps", [](ScheduleSpec& s) { s.capture.steps = 0; }},
      {"repeat", [](ScheduleSpec& s) { s.capture.start_step = 5; }},
      {"repeat", [](ScheduleSpec& s) { s.capture.repeat = 2; }},
      {"selector.ranks", [](ScheduleSpec& s) { s.selector.ranks = {-1}; }},
      {"selector.ranks", [](ScheduleSpec& s) { s.selector.ranks.resize(1025); }},
      {"selector.job", [](ScheduleSpec& s) { s.selector.job = "a\nb"; }},
      {"selector.command", [](ScheduleSpec& s) { s.selector.command = std::string(256, 'x'); }},
      {"selector.uid", [](ScheduleSpec& s) { s.selector.uid = -1; }},
      {"fraction", [](ScheduleSpec& s) { s.sample.fraction = 1.01; }},
      {"fraction", [](ScheduleSpec& s) { s.sample.fraction = -0.1; }},
      {"fraction", [nan](ScheduleSpec& s) { s.sample.fraction = nan; }},
      {"sample", [](ScheduleSpec& s) { s.sample.count = 3; }},
      {"names of all nodes", [](ScheduleSpec& s) { s.sample = {.count = 3}; }},
      {"captures_per_hour", [](ScheduleSpec& s) { s.budget.captures_per_hour = -1; }},
      {"bytes_per_day", [](ScheduleSpec& s) { s.budget.bytes_per_day = 1000; }},
      {"time_share", [](ScheduleSpec& s) { s.budget.time_share = 1.5; }},
      {"step_grid is 3", [](ScheduleSpec& s) { s.step_grid = 3; }},
      {"step_grid is -256", [](ScheduleSpec& s) { s.step_grid = -256; }},
      {"step_grid", [](ScheduleSpec& s) { s.step_grid = int64_t{1} << 21; }},
      {"step_lead is -1", [](ScheduleSpec& s) { s.step_lead = -1; }},
      {"step_lead", [](ScheduleSpec& s) { s.step_lead = 1'000'001; }},
      {"time_share", [nan](ScheduleSpec& s) { s.budget.time_share = nan; }},
      {"max_slowdown", [](ScheduleSpec& s) { s.max_slowdown = -0.01; }},
      {"max_slowdown", [nan](ScheduleSpec& s) { s.max_slowdown = nan; }},
      {"twice",
       [](ScheduleSpec& s) {
         s.nodes = {"a", "a"};
       }},
      {"nodes", [](ScheduleSpec& s) { s.nodes = {"a\x1b[2J"}; }},
      {"display_name", [](ScheduleSpec& s) { s.display_name = std::string(129, 'x'); }},
  };
  for (const WrongSpec& wrong : wrongs) {
    ScheduleSpec spec = HalfHourly();
    wrong.spoil(spec);
    EXPECT_THAT(ValidateScheduleSpec(spec), StatusIs(Code::kInvalidArgument, HasSubstr(wrong.says)))
        << wrong.says;
  }
}

TEST(ScheduleSpecTest, TheJitterOfACronScheduleIsHeldAgainstItsGaps) {
  ScheduleSpec spec = HalfHourly();
  spec.every = absl::ZeroDuration();
  spec.cron = "0 3 * * *";
  spec.jitter = absl::Minutes(50);
  EXPECT_THAT(ValidateScheduleSpec(spec), IsOk());
  spec.cron = "*/10 * * * *";
  spec.jitter = absl::Minutes(5);
  EXPECT_THAT(ValidateScheduleSpec(spec), StatusIs(Code::kInvalidArgument, HasSubstr("10m")));
}

TEST(ScheduleSpecTest, EveryNodeOfALargeClusterCanBeNamed) {
  ScheduleSpec spec = HalfHourly();
  spec.sample = {.count = 3};
  for (int i = 0; i < 16'384; ++i) spec.nodes.push_back(StrCat("gpu", i));
  EXPECT_THAT(ValidateScheduleSpec(spec), IsOk());
  spec.nodes.push_back("one-more");
  EXPECT_THAT(ValidateScheduleSpec(spec), StatusIs(Code::kInvalidArgument));

  spec.nodes.clear();
  for (int i = 0; i < 2'000; ++i) spec.nodes.push_back(StrCat(std::string(200, 'n'), i));
  EXPECT_THAT(ValidateScheduleSpec(spec),
              StatusIs(Code::kInvalidArgument, HasSubstr("bytes of names")));
}

}  // namespace
}  // namespace profd
