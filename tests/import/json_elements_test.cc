// How far whole elements reach, against a look at one value after the other.
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/import/json/elements.h"
#include "daemon/import/json/skip.h"
#include "gtest/gtest.h"

namespace profd::importer {
namespace {

// Value by value; -1: no element is whole.
ptrdiff_t ByValues(std::string_view text) {
  const char* const end = text.data() + text.size();
  ptrdiff_t whole = -1;
  for (const char* at = text.data(); at != end && *at == '{';) {
    at = SkipJsonValue(at, end);
    if (at == nullptr) break;
    whole = at - text.data();
    at = SkipJsonSpace(at, end);
    if (at != end && *at == ',') at = SkipJsonSpace(at + 1, end);
  }
  return whole;
}

ptrdiff_t Offset(const char* found, std::string_view text) {
  return found == nullptr ? -1 : found - text.data();
}

void ExpectSame(std::string_view text) {
  const ptrdiff_t expected = ByValues(text);
  const char* const end = text.data() + text.size();
  ASSERT_EQ(Offset(EndOfWholeElements(text.data(), end), text), expected) << text;
  ASSERT_EQ(Offset(EndOfWholeElementsForTesting(text.data(), end), text), expected) << text;
}
// However much of it has been read. Each in memory of its own, so that one read behind its end
// shows where memory is checked.
void ExpectSameWhereverItIsCut(std::string_view text) {
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::vector<char> read(text.begin(), text.begin() + static_cast<ptrdiff_t>(size));
    ExpectSame({read.data(), read.size()});
    if (testing::Test::HasFatalFailure()) return;
  }
}

// One of the objects that events may be, of all sizes.
std::string RandomObject(std::mt19937& random) {
  const auto up_to = [&random](size_t most) { return random() % (most + 1); };
  std::string object = "{";
  for (size_t member = 0, count = up_to(4); member < count; ++member) {
    if (member > 0) object += ", ";
    std::string text;
    for (size_t i = 0, length = up_to(30); i < length; ++i) {
      constexpr std::string_view kPieces[] = {"a", "{", "}", "[", "]", ",", R"(\")", R"(\\)", "é"};
      text += kPieces[up_to(std::size(kPieces) - 1)];
    }
    StrAppend(&object, "\"", text, "\": ");
    if (up_to(3) == 0) {
      StrAppend(&object, "[", RandomObject(random), ",[1, [2]]]");
    } else {
      StrAppend(&object, "\"", text, "\"");
    }
  }
  return object + "}";
}

TEST(JsonElementsTest, EndWhereValuesEnd) {
  std::mt19937 random(7);  // Fixed: the same cases each time.
  for (int round = 0; round < 30; ++round) {
    std::string text;
    for (int i = 0; i < 6; ++i) StrAppend(&text, i == 0 ? "" : ",\n ", RandomObject(random));
    ExpectSameWhereverItIsCut(text + R"(], "behind": [{"a": 1}])");
    if (HasFatalFailure()) return;
  }
}

TEST(JsonElementsTest, BackslashesAndQuotesMayStandOnBothSidesOfABlock) {
  for (size_t length = 50; length < 140; ++length) {
    for (const std::string_view tail : {R"(\\)", R"(\")", R"(\\\")", R"(\\\\)"}) {
      ExpectSame(StrCat(R"({"a":")", std::string(length, 'x'), tail, R"(","}":1},{"b":2}])"));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(JsonElementsTest, DeepOnesAreCountedAcrossBlocks) {
  const std::string deep = StrCat(std::string(500, '['), std::string(500, ']'));
  ExpectSameWhereverItIsCut(StrCat("{\"a\":", deep, "},{\"b\":", deep, "}]"));
}

TEST(JsonElementsTest, WhatIsNoJsonEndsSomewhereInIt) {
  for (const std::string_view text :
       {"", "]", "}", "}}}}", "\"", "\\", "{\"", "{]", "[}{]", "\\\"{}", "{\"\\\"}"}) {
    const char* const end = text.data() + text.size();
    const char* const found = EndOfWholeElements(text.data(), end);
    EXPECT_TRUE(found == nullptr || (found > text.data() && found <= end)) << text;
    EXPECT_EQ(found, EndOfWholeElementsForTesting(text.data(), end)) << text;
  }
}

}  // namespace
}  // namespace profd::importer
