#include "daemon/export/trace/operator_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/export/chrome/strict_json.h"
#include "tests/export/hostile_names.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

TEST(OperatorTextsTest, ListsOfSizesAreTaken) {
  for (const std::string_view text :
       {"[]", "[[]]", "[[16,64],[64,64],[],[[3,4],[3,4]]]", "[[[]]]", "[[0],[-1],[[7,8]]]",
        "[[9223372036854775807]]", "[[1, 2], [3]]", "[[1],[[2,3],[]]]"}) {
    EXPECT_TRUE(IsDimsJson(text)) << text;
    EXPECT_THAT(ParseStrictJson(text), IsOk()) << text;
  }
}

TEST(OperatorTextsTest, WhatIsNoListOfSizesIsNot) {
  for (const std::string_view text : {"",          "[",
                                      "]",         "[[]",
                                      "[]]",       "[1]",
                                      "[[1,]]",    "[,]",
                                      "[[],]",     "[[1][2]]",
                                      "[[01]]",    "[[1.5]]",
                                      "[[1e3]]",   "[[-]]",
                                      "[[\"a\"]]", "{}",
                                      "[{}]",      "[[null]]",
                                      "[[[[1]]]]", "[[1]] ",
                                      "[[1]]x",    "[[10000000000000000000]]",
                                      "[[NaN]]",   "[[1]],\"pid\":0",
                                      "[\n[]]"}) {
    EXPECT_FALSE(IsDimsJson(text)) << text;
  }
}

TEST(OperatorTextsTest, ListsOfStringsAreTaken) {
  for (const std::string_view text :
       {"[]", "[\"\"]", "[\"float\",\"Scalar\",\"\"]", "[\"a\\\"b\\\\\", \"\\u00e9\\n\\/\"]",
        "[\"\xC3\xA9\"]", "[\"\\ud7ff\"]", "[\"[1, 2]\"]", "[\"\\ud83d\\ude00\"]",
        "[\"a\\uDBFF\\uDFFFb\"]"}) {
    EXPECT_TRUE(IsStringsJson(text)) << text;
    EXPECT_THAT(ParseStrictJson(text), IsOk()) << text;
  }
}

TEST(OperatorTextsTest, WhatIsNoListOfStringsIsNot) {
  for (const std::string_view text : {"",
                                      "[",
                                      "[\"a]",
                                      "[\"a\"",
                                      "[\"a\"]]",
                                      "[1]",
                                      "[[\"a\"]]",
                                      "[\"a\",]",
                                      "[\"a\" \"b\"]",
                                      "[\"\n\"]",
                                      "[\"\\x\"]",
                                      "[\"\\u12\"]",
                                      "[\"\\u12g4\"]",
                                      "[\"\\ud800\"]",
                                      "[\"\\ude00\"]",
                                      "[\"\\ud83dx\"]",
                                      "[\"\\ud83d\\n\"]",
                                      "[\"\\ud83d\\ud83d\"]",
                                      "[\"\\ud83d\\u00e9\"]",
                                      "[\"\\ude00\\ud83d\"]",
                                      "[\"\\ud83d\\ude0\"]",
                                      "[\"\\",
                                      "[\"\xFF\"]",
                                      "[\"\xED\xA0\x80\"]",
                                      "[\"a\"],\"pid\":0",
                                      "\"a\"",
                                      "[null]",
                                      "[\"\\u"}) {
    EXPECT_FALSE(IsStringsJson(text)) << text;
  }
}

TEST(OperatorTextsTest, NoTextOfAStrangerIsTakenThatIsNotJson) {
  for (const std::string& name : HostileNames()) {
    for (const std::string& text : {name, "[" + name + "]", "[\"" + name + "\"]"}) {
      if (!IsStringsJson(text) && !IsDimsJson(text)) continue;
      EXPECT_THAT(ParseStrictJson(text), IsOk()) << text;
    }
  }
}

TEST(OperatorTextsTest, WhatIsLeftOutIsCounted) {
  FakeCaptureReader reader;
  const uint32_t good = reader.Inputs("[[1],[]]", "[\"float\",\"\"]");
  const uint32_t bad_dims = reader.Inputs("[[1],[]", "[\"float\",\"\"]");
  const uint32_t bad_types = reader.Inputs("[[1],[]]", "[float]");
  const uint32_t bad_strides = reader.Inputs("[[1],[]]", "[\"float\",\"\"]", "[1]");
  const uint32_t bad_scalars = reader.Scalars("[1]");
  const uint32_t long_scalars =
      reader.Scalars("[\"" + std::string(OperatorTexts::kMostBytes, 'a') + "\"]");
  const uint32_t good_scalars = reader.Scalars("[\"\",\"2\"]");
  const OperatorTexts texts(reader);
  EXPECT_EQ(texts.left_out(), 5);
  ASSERT_NE(texts.InputsAt(good), nullptr);
  EXPECT_EQ(texts.InputsAt(good)->dims, "[[1],[]]");
  for (const uint32_t index : {0U, bad_dims, bad_types, bad_strides, 1000U}) {
    EXPECT_EQ(texts.InputsAt(index), nullptr) << index;
  }
  EXPECT_EQ(texts.ScalarsAt(good_scalars), "[\"\",\"2\"]");
  for (const uint32_t index : {0U, bad_scalars, long_scalars, 1000U}) {
    EXPECT_EQ(texts.ScalarsAt(index), "") << index;
  }
}

TEST(OperatorTextsTest, OfAnOperatorWithoutInputsThereIsNothingToSay) {
  FakeCaptureReader reader;
  const uint32_t inputs = reader.Inputs("[]", "[]", "[]");
  const uint32_t scalars = reader.Scalars("[]");
  const OperatorTexts texts(reader);
  EXPECT_EQ(texts.InputsAt(inputs), nullptr);
  EXPECT_EQ(texts.ScalarsAt(scalars), "");
  EXPECT_EQ(texts.left_out(), 0);
}

}  // namespace
}  // namespace profd::exporter
