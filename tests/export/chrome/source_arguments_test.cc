// Chrome traces of captures that have arguments of an imported trace, also of hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "daemon/capture/event_kinds.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ImportedReader : public FakeCaptureReader {
 public:
  void OfRange(uint32_t thread, uint32_t row, std::string_view key, ArgumentType type,
               int64_t value) {
    Argument({kArgumentOfRange, thread, row, Name(key), type, value});
  }
};

class SourceArgumentsTest : public testing::Test {
 protected:
  std::vector<std::string> KeysOf(const JsonValue& arguments) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : arguments.members) keys.push_back(key);
    return keys;
  }

  ImportedReader reader_;
  const uint32_t main_ = reader_.AddThread(4242, "main");
};

TEST_F(SourceArgumentsTest, EachRowHasItsOwnAndOthersHaveNone) {
  reader_.Operator(main_, "a", 0, 10, {.sequence = 9});
  reader_.Operator(main_, "b", 20, 30);
  reader_.Operator(main_, "c", 40, 50);
  reader_.OfRange(main_, 2, "External id", ArgumentType::kInteger, 7);
  reader_.OfRange(main_, 0, "Python parent id", ArgumentType::kJson, reader_.Name("null"));
  reader_.OfRange(main_, 0, "Ev Idx", ArgumentType::kQuotedInteger, -3);
  reader_.OfRange(main_, 0, "share", ArgumentType::kReal, std::bit_cast<int64_t>(0.1));
  reader_.OfRange(main_, 0, "Fwd thread id", ArgumentType::kAbsent, 0);
  const JsonValue root = TraceOf(reader_);
  const JsonValue& a = Named(root, "a")["args"];
  EXPECT_THAT(KeysOf(a), testing::UnorderedElementsAre("Sequence number", "Python parent id",
                                                       "Ev Idx", "share"));
  EXPECT_EQ(a["Ev Idx"].text, "-3");
  EXPECT_EQ(a["share"].text, "0.1");
  EXPECT_EQ(Named(root, "b").Find("args"), nullptr);
  EXPECT_THAT(KeysOf(Named(root, "c")["args"]), ElementsAre("External id"));
}

TEST_F(SourceArgumentsTest, AKeyThatComesTwiceIsWrittenOnce) {
  reader_.Range(main_, "a", 0, 10);
  for (int64_t value : {1, 2}) {
    reader_.OfRange(main_, 0, "Ev Idx", ArgumentType::kInteger, value);
  }
  EXPECT_THAT(KeysOf(Named(TraceOf(reader_), "a")["args"]), SizeIs(1));
}

// TraceOf() takes no JSON that is not strict.
TEST_F(SourceArgumentsTest, WhatIsNoPlainJsonIsLeftOut) {
  reader_.Range(main_, "a", 0, 10);
  int number = 0;
  for (const std::string& json :
       {std::string("{"), std::string("1}}]"), std::string("\"\xff\""), std::string(""),
        std::string(40, '[') + std::string(40, ']'), "\"" + std::string(5000, 'x') + "\""}) {
    reader_.OfRange(main_, 0, "key" + std::to_string(number++), ArgumentType::kJson,
                    reader_.Name(json));
  }
  reader_.OfRange(main_, 0, std::string(500, 'k'), ArgumentType::kInteger, 1);
  EXPECT_EQ(Named(TraceOf(reader_), "a").Find("args"), nullptr);
}

TEST_F(SourceArgumentsTest, KeysAreEscapedAndNumbersThatAreNoneAreNull) {
  reader_.Range(main_, "a", 0, 10);
  reader_.OfRange(main_, 0, "\"},{\"", ArgumentType::kInteger, 1);
  reader_.OfRange(main_, 0, "nan", ArgumentType::kReal,
                  std::bit_cast<int64_t>(std::numeric_limits<double>::quiet_NaN()));
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "a")["args"]["\"},{\""].integer(), 1);
  const JsonValue* const nan = Named(root, "a")["args"].Find("nan");
  ASSERT_NE(nan, nullptr);
  EXPECT_EQ(nan->kind, JsonValue::Kind::kNull);
}

TEST_F(SourceArgumentsTest, AnEventWithMoreThanItMayHaveLacksTheRest) {
  reader_.Range(main_, "a", 0, 10);
  for (int i = 0; i < 100; ++i) {
    reader_.OfRange(main_, 0, "key" + std::to_string(i), ArgumentType::kJson,
                    reader_.Name("\"" + std::string(4000, static_cast<char>('a' + i % 26)) + "\""));
  }
  EXPECT_THAT(KeysOf(Named(TraceOf(reader_), "a")["args"]), SizeIs(4));
}

TEST_F(SourceArgumentsTest, ArgumentsOfRowsThatAreNotThereAreHarmless) {
  reader_.Range(main_, "a", 0, 10);
  for (const uint8_t of : {uint8_t{0}, kArgumentOfRange, kArgumentOfGpu, kArgumentOfThread,
                           uint8_t{77}, std::numeric_limits<uint8_t>::max()}) {
    reader_.Argument({of, 0xffff'ffff, 0xffff'ffff, reader_.Name("Ev Idx"), ArgumentType::kInteger,
                      std::numeric_limits<int64_t>::min()});
  }
  EXPECT_EQ(Named(TraceOf(reader_), "a").Find("args"), nullptr);
}

}  // namespace
}  // namespace profd::exporter
