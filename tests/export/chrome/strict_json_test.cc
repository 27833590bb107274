#include "tests/export/chrome/strict_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "daemon/base/str_cat.h"
#include "tests/fakes/status_matchers.h"

namespace profd {
namespace {

using std::string_view_literals::operator""sv;

class AcceptedJsonTest : public testing::TestWithParam<std::string_view> {};
TEST_P(AcceptedJsonTest, IsRead) { EXPECT_THAT(ParseStrictJson(GetParam()), IsOk()); }
INSTANTIATE_TEST_SUITE_P(Values, AcceptedJsonTest,
                         testing::Values(R"({})", R"([])", R"( [ 1 , 2 ] )", R"("")", R"(0)",
                                         R"(-0)", R"(-1.5e+10)", R"(1E-2)", R"(true)", R"(false)",
                                         R"(null)", R"({"a":{"b":[null]}})",
                                         R"(["\"\\\/\b\f\n\r\t\u0041"])", R"("\ud83d\ude00")",
                                         "\"\xF0\x9F\x98\x80\"", "\"\x7F\"", R"("\u0000")",
                                         "[1]\n"));

class RejectedJsonTest : public testing::TestWithParam<std::string_view> {};
TEST_P(RejectedJsonTest, IsRefused) {
  EXPECT_THAT(ParseStrictJson(GetParam()), StatusIs(absl::StatusCode::kInvalidArgument));
}
INSTANTIATE_TEST_SUITE_P(Grammar, RejectedJsonTest,
                         testing::Values(""sv, " "sv, "{"sv, "["sv, "[1,]"sv, "[,1]"sv,
                                         "{\"a\":1,}"sv, "{\"a\"}"sv, "{a:1}"sv, "{'a':1}"sv,
                                         "[1 2]"sv, "1 2"sv, "[1]]"sv, "tru"sv, "nul"sv, "True"sv,
                                         "NaN"sv, "Infinity"sv, "-Infinity"sv, "[1]x"sv,
                                         "// no\n1"sv, "\xEF\xBB\xBF[]"sv, "[1]\0"sv));
INSTANTIATE_TEST_SUITE_P(Numbers, RejectedJsonTest,
                         testing::Values("01"sv, "-"sv, "+1"sv, ".5"sv, "1."sv, "1e"sv, "1e+"sv,
                                         "-01"sv, "0x10"sv, "1.2.3"sv, "1_000"sv));
INSTANTIATE_TEST_SUITE_P(Strings, RejectedJsonTest,
                         testing::Values("\"a"sv, "\"\n\""sv, "\"\0\""sv, "\"\x1F\""sv,
                                         R"("\x41")"sv, R"("\u12")"sv, R"("\u12g4")"sv,
                                         R"("\ud800")"sv, R"("\ud800A")"sv, R"("\udc00")"sv,
                                         R"("\ud800\u0041")"sv, "\"\\"sv));
INSTANTIATE_TEST_SUITE_P(Utf8, RejectedJsonTest,
                         testing::Values("\"\xFF\""sv, "\"\x80\""sv, "\"\xC0\xAF\""sv,
                                         "\"\xE0\x80\xAF\""sv, "\"\xED\xA0\x80\""sv,
                                         "\"\xF4\x90\x80\x80\""sv, "\"\xE2\x82\""sv,
                                         "\"\xF8\x88\x80\x80\x80\""sv));
INSTANTIATE_TEST_SUITE_P(DuplicateKeys, RejectedJsonTest,
                         testing::Values(R"({"a":1,"a":2})"sv, R"({"a":1,"\u0061":2})"sv));

TEST(StrictJsonTest, GivesWhatTheTextSays) {
  const absl::StatusOr<JsonValue> value =
      ParseStrictJson(R"({"n":-12.50,"i":-7,"s":"\u00e9\n\ud83d\ude00","l":[1,true]})");
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ((*value)["n"].text, "-12.50");
  EXPECT_EQ((*value)["n"].number(), -12.5);
  EXPECT_FALSE((*value)["n"].is_integer());
  EXPECT_TRUE((*value)["i"].is_integer());
  EXPECT_EQ((*value)["i"].integer(), -7);
  EXPECT_EQ((*value)["s"].text, "\u00e9\n\U0001F600");
  EXPECT_TRUE((*value)["l"].items.at(1).boolean);
  EXPECT_EQ(value->Find("none"), nullptr);
}

TEST(StrictJsonTest, OfManyKeysEachIsCompared) {
  const auto object = [](int last) {
    std::string text = "{";
    for (int i = 0; i < 300; ++i) text += StrCat("\"", i, "\":0,");
    return StrCat(text, "\"", last, "\":0}");
  };
  EXPECT_THAT(ParseStrictJson(object(300)), IsOk());
  EXPECT_THAT(ParseStrictJson(object(299)), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StrictJsonTest, AStringIsWholeOrRefused) {
  const std::string text((64 << 10) - 1, 'a');
  const absl::StatusOr<JsonValue> value = ParseStrictJson(StrCat("\"", text, "\""));
  ASSERT_THAT(value, IsOk());
  EXPECT_EQ(value->text, text);
  EXPECT_THAT(ParseStrictJson(StrCat("\"", text, "ab\"")),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StrictJsonTest, NestsOnlyAsDeepAsItSays) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_THAT(ParseStrictJson(nested(kMostJsonDepth)), IsOk());
  EXPECT_THAT(ParseStrictJson(nested(1'000'000)), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace profd
