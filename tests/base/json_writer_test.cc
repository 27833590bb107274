#include "daemon/base/json_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace profd {
namespace {

nlohmann::json Parsed(const std::string& text) { return nlohmann::json::parse(text); }

TEST(JsonWriterTest, NestsAndSeparates) {
  JsonWriter json;
  json.BeginObject().Key("a").BeginArray().Int(1).Int(2).EndArray();
  json.Key("b").BeginObject().EndObject().Field("c", true).Key("d").Null().EndObject();
  EXPECT_EQ(json.TakeLine(), "{\"a\":[1,2],\"b\":{},\"c\":true,\"d\":null}\n");
}

TEST(JsonWriterTest, IntegersKeepAll64Bits) {
  JsonWriter json;
  json.BeginArray().Int(std::numeric_limits<int64_t>::max());
  json.Int(std::numeric_limits<int64_t>::min()).EndArray();
  EXPECT_EQ(json.TakeLine(), "[9223372036854775807,-9223372036854775808]\n");
}

TEST(JsonWriterTest, NumbersThatAreNotFiniteBecomeNull) {
  JsonWriter json;
  json.BeginArray().Double(NAN).Double(INFINITY).Double(0.5).EndArray();
  EXPECT_EQ(Parsed(json.TakeLine()), nlohmann::json::array({nullptr, nullptr, 0.5}));
}

TEST(JsonWriterTest, AnyBytesGiveJsonThatAStrictParserReads) {
  std::string hostile;
  for (int i = 0; i < 256; ++i) hostile.push_back(static_cast<char>(i));
  hostile += "\"\\\xF0\x9F\x92\xA9\xED\xA0\x80\xC0\xAF";
  JsonWriter json;
  json.BeginObject().Field(hostile, hostile).EndObject();
  const nlohmann::json parsed = Parsed(json.TakeLine());
  EXPECT_EQ(parsed.begin().value(), parsed.begin().key());
}

TEST(JsonWriterTest, BytesThatAreNoUtf8BecomeTheReplacementCharacter) {
  JsonWriter json;
  json.String("a\xFFz");
  EXPECT_EQ(json.TakeLine(), "\"a\xEF\xBF\xBDz\"\n");
}

}  // namespace
}  // namespace profd
