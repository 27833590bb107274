// Files of `profctl schedule apply`: what they declare, and what is wrong with one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/client/schedule_view.h"
#include "daemon/base/str_cat.h"
#include "profd/v1/schedules.pb.h"
#include "tests/fakes/status_matchers.h"

namespace profd::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kDeclaredName[] = "schedules/01HZZZZZZZZZZZZZZZZZZZZZZA";
constexpr char kDeclaredSpec[] = R"("spec": {"every": "1800s", "capture": {"steps": 3}})";

std::string ScheduleFileOf(const std::string& declarations) {
  return StrCat(R"({"schedules": [)", declarations, "]}");
}
std::string ActiveOf(const std::string& name, const std::string& version) {
  return StrCat(R"({"name": ")", name, R"(", "version": )", version, ", ", kDeclaredSpec, "}");
}

auto RefusesFile(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST(ScheduleFileTest, DeclaresSchedulesInItsOrder) {
  const auto declared = ParseScheduleFile(ScheduleFileOf(
      StrCat(ActiveOf(kDeclaredName, "7"), R"(, {"name": "schedules/01HZZZZZZZZZZZZZZZZZZZZZZB",)",
             R"( "version": "9007199254740993", "deleted": true})")));
  ASSERT_THAT(declared, IsOk());
  ASSERT_THAT(*declared, SizeIs(2));
  EXPECT_EQ((*declared)[0].id, "01HZZZZZZZZZZZZZZZZZZZZZZA");
  EXPECT_EQ((*declared)[0].version, 7);
  EXPECT_FALSE((*declared)[0].deleted);
  v1::ScheduleDeclaration message;
  ASSERT_TRUE(message.ParseFromString((*declared)[0].message));
  EXPECT_EQ(message.spec().every().seconds(), 1800);
  EXPECT_TRUE((*declared)[1].deleted);
  EXPECT_EQ((*declared)[1].version, (int64_t{1} << 53) + 1);
}

TEST(ScheduleFileTest, AnErrorNamesTheScheduleAndTheField) {
  const std::string good = ActiveOf(kDeclaredName, "1");
  const std::string other = "schedules/01HZZZZZZZZZZZZZZZZZZZZZZB";
  const auto second = [&](const std::string& declaration) {
    return ParseScheduleFile(ScheduleFileOf(StrCat(good, ", ", declaration)));
  };
  EXPECT_THAT(second(good),
              RefusesFile(StrCat("schedule 2 '", kDeclaredName, "': the file has this")));
  EXPECT_THAT(second(ActiveOf("nightly", "1")), RefusesFile("schedule 2 'nightly'"));
  EXPECT_THAT(second(ActiveOf("schedules/../etc", "1")), RefusesFile("schedules/ULID"));
  EXPECT_THAT(second(ActiveOf(other, "0")), RefusesFile("invalid \"version\" 0"));
  EXPECT_THAT(second(ActiveOf(other, "-5")), RefusesFile("invalid \"version\" -5"));
  EXPECT_THAT(second(ActiveOf(other, "\"9007199254740993\"")), RefusesFile("invalid \"version\""));
  EXPECT_THAT(second(StrCat(R"({"name": ")", other, R"(", "version": 1})")),
              RefusesFile("\"spec\" is missing"));
  EXPECT_THAT(second(StrCat(R"({"name": ")", other, R"(", "version": 1, "deleted": true, )",
                            kDeclaredSpec, "}")),
              RefusesFile("mutually exclusive"));
  EXPECT_THAT(second(StrCat(R"({"name": ")", other, R"(", "versions": 1})")),
              RefusesFile("versions"));
  EXPECT_THAT(second(ActiveOf(other, "1.5")), RefusesFile("version"));
  EXPECT_THAT(second(ActiveOf(other, "1e400")), RefusesFile("version"));
}

TEST(ScheduleFileTest, WhatIsNoFileIsRefused) {
  for (const char* text :
       {"", "  ", "{", "[]", "null", "{}", R"({"schedules": []})", R"({"schedules": null})",
        R"({"schedules": {}})", "\x00\x01", R"({"schedules": [1]})", R"({"schedules": [null]})"}) {
    EXPECT_THAT(ParseScheduleFile(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
  const std::string good = ScheduleFileOf(ActiveOf(kDeclaredName, "1"));
  EXPECT_THAT(ParseScheduleFile(good + "}"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ParseScheduleFile(std::string(100'000, '[')),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += R"({"schedules": )";
  EXPECT_THAT(ParseScheduleFile(deep), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ScheduleFileTest, BadBytesDoNotReachTheTerminal) {
  const auto escape = ParseScheduleFile(ScheduleFileOf(ActiveOf("x\\u001b[31m", "1")));
  ASSERT_FALSE(escape.ok());
  EXPECT_THAT(std::string(escape.status().message()), Not(HasSubstr("\x1b")));
  EXPECT_FALSE(ParseScheduleFile("{\"schedules\": [{\"name\": \"\xff\xfe\"}]}").ok());
}

TEST(ScheduleFileTest, TakesOnlySoManySchedules) {
  const auto file = [](int number) {
    std::string declarations;
    for (int i = 0; i < number; ++i) {
      const std::string digits = std::to_string(1000 + i);
      StrAppend(&declarations, i == 0 ? "" : ", ",
                ActiveOf("schedules/01HZZZZZZZZZZZZZZZZZZZ" + digits, "1"));
    }
    return ScheduleFileOf(declarations);
  };
  EXPECT_THAT(ParseScheduleFile(file(256)), IsOk());
  EXPECT_THAT(ParseScheduleFile(file(257)), RefusesFile("257 schedules (at most 256)"));
}

}  // namespace
}  // namespace profd::cli
