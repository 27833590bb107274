#include "cli/base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "daemon/base/reason.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

const std::vector<Flag>& Table() {
  static const std::vector<Flag> table = {
      {.name = "steps", .letter = 's', .value_name = "N"},
      {.name = "pid", .letter = 'p', .value_name = "PID", .repeated = true},
      {.name = "json"},
      {.name = "time", .value_name = "TIME"},
      {.name = "size", .value_name = "SIZE"},
      {.name = "sort", .value_name = "KEY", .choices = {"calls", "name"}}};
  return table;
}

absl::StatusOr<ParsedFlags> Parse(const std::vector<std::string>& words) {
  return ParseFlags(Table(), words);
}

std::string Refused(const std::vector<std::string>& words) {
  const auto parsed = Parse(words);
  EXPECT_EQ(ReasonOf(parsed.status()), kUsageReason);
  return std::string(parsed.status().message());
}

TEST(ParseFlagsTest, ValuesStandBehindAnEqualsSignOrABlankOrTheLetter) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--steps=5"}, {"--steps", "5"}, {"-s", "5"}, {"-s5"}, {"-s=5"}}) {
    const auto parsed = Parse(words);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_THAT(parsed->Get("steps"), Optional(std::string("5"))) << words[0];
  }
}

TEST(ParseFlagsTest, FlagsAndArgumentsMixUntilTwoDashes) {
  const auto parsed = Parse({"one", "--json", "two", "--", "--steps", "-x"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->Has("json"));
  EXPECT_FALSE(parsed->Has("steps"));
  EXPECT_THAT(parsed->arguments(), ElementsAre("one", "two", "--steps", "-x"));
}

TEST(ParseFlagsTest, ALoneDashIsAnArgument) {
  EXPECT_THAT(Parse({"-"})->arguments(), ElementsAre("-"));
}

TEST(ParseFlagsTest, ListsComeFromRepetitionAndCommas) {
  EXPECT_THAT(Parse({"--pid", "1,2", "-p3"})->List("pid"), ElementsAre("1", "2", "3"));
}

TEST(ParseFlagsTest, AnUnknownFlagNamesTheNearest) {
  EXPECT_THAT(Refused({"--stesp=3"}), HasSubstr("did you mean --steps?"));
  EXPECT_THAT(Refused({"--js"}), HasSubstr("did you mean --json?"));
  EXPECT_THAT(Refused({"--zzzzzz"}), ::testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(Refused({"-x"}), HasSubstr("'-x'"));
}

TEST(ParseFlagsTest, MisusedFlagsSayHow) {
  EXPECT_THAT(Refused({"--steps"}), HasSubstr("--steps N"));
  EXPECT_THAT(Refused({"--json=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Refused({"--steps=1", "--steps=2"}), HasSubstr("given twice"));
  EXPECT_THAT(Refused({"--sort=size"}), HasSubstr("calls, name"));
}

TEST(ParseFlagsTest, ControlCharactersOfTheUserDoNotReachTheMessage) {
  EXPECT_THAT(Refused({"--\033[31mred"}), ::testing::Not(HasSubstr("\033")));
}

TEST(ParsedFlagsTest, WholeNumbersHaveTheirRange) {
  const auto in = [](const std::string& text) {
    return Parse({"--steps", text})->Int("steps", 1, 9);
  };
  EXPECT_THAT(*in("9"), Optional(int64_t{9}));
  for (const std::string text : {"0", "10", "-1", "3x", "", "99999999999999999999", "1e3", " 3"}) {
    const auto value = in(text);
    EXPECT_THAT(value.status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(std::string(value.status().message()), HasSubstr("from 1 to 9"));
  }
  EXPECT_EQ(*Parse({})->Int("steps", 1, 9), std::nullopt);
}

TEST(ParseDurationTest, UnitsAddUp) {
  EXPECT_EQ(*ParseDuration("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("1.5s"), absl::Milliseconds(1500));
  EXPECT_EQ(*ParseDuration("3d"), absl::Hours(72));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDuration("7us"), absl::Microseconds(7));
}

TEST(ParseDurationTest, WhatIsNoTimeSpanIsRefused) {
  for (const std::string_view text : {"", "s", "-3s", "3 s", "3w", "inf", "nan", "1s2", "1h-3m"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

// "500" could be meant as milliseconds as well as seconds.
TEST(ParseDurationTest, ANumberNeedsItsUnit) {
  for (const std::string_view text : {"500", "10", "1.5"}) {
    const absl::StatusOr<absl::Duration> span = ParseDuration(text);
    EXPECT_THAT(span.status(), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
    EXPECT_THAT(std::string(span.status().message()), HasSubstr("has no unit")) << text;
  }
  EXPECT_THAT(std::string(ParseDuration("500").status().message()),
              HasSubstr("as in 500ms or 500s"));
}

TEST(ParseBytesTest, UnitsAreOf1024AndDecimalOnesOf1000) {
  EXPECT_EQ(*ParseBytes("10MB"), 10'000'000);
  EXPECT_EQ(*ParseBytes("1.5kB"), 1'500);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000);
  EXPECT_EQ(*ParseBytes("1048576"), 1 << 20);
  EXPECT_EQ(*ParseBytes("64MiB"), 64 << 20);
  EXPECT_EQ(*ParseBytes("64M"), 64 << 20);
  EXPECT_EQ(*ParseBytes("1.5K"), 1536);
  EXPECT_EQ(*ParseBytes("2GiB"), int64_t{2} << 30);
}

TEST(ParseBytesTest, WhatIsNoSizeIsRefused) {
  for (const std::string_view text :
       {"", "MiB", "-1", "1 MiB", "1mib", "9e30", "nan", "99999999T"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(NearestMatchTest, FarWordsMatchNothing) {
  const std::string_view names[] = {"trace", "captures", "ps"};
  EXPECT_EQ(NearestMatch("trcae", names), "trace");
  EXPECT_EQ(NearestMatch("capt", names), "captures");
  EXPECT_EQ(NearestMatch("delete-everything", names), "");
  EXPECT_EQ(NearestMatch(std::string(100000, 'a'), names), "");
}

}  // namespace
}  // namespace profd::cli
