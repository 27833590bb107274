// Chrome traces of captures that have arguments of an imported trace, also of hostile ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "daemon/capture/event_kinds.h"
#include "daemon/report/index/source_kinds.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ImportedReader : public FakeCaptureReader {
 public:
  ImportedReader() { mutable_record().imported.source = "trace.json"; }
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

// An import may keep 261 keys: known arguments, unknown ones, arrows, and labels.
TEST_F(SourceArgumentsTest, AsManyKeysAsAnImportMayKeepAreWritten) {
  reader_.Range(main_, "a", 0, 10);
  constexpr int kKeys = 261;
  for (int i = 0; i < kKeys; ++i) {
    reader_.OfRange(main_, 0, "key" + std::to_string(i), ArgumentType::kInteger, i);
  }
  const JsonValue root = TraceOf(reader_);
  const JsonValue& arguments = Named(root, "a")["args"];
  ASSERT_THAT(KeysOf(arguments), SizeIs(kKeys));
  EXPECT_EQ(arguments["key260"].integer(), 260);
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

// The events of a phase, as their names.
std::vector<std::string> NamesOfPhase(const JsonValue& root, std::string_view phase) {
  std::vector<std::string> names;
  for (const JsonValue& event : root["traceEvents"].items) {
    if (event["ph"].text == phase) names.push_back(event["name"].text);
  }
  return names;
}

TEST_F(SourceArgumentsTest, ArrowsOfADamagedFileAreLeftOut) {
  reader_.Range(main_, "a", 0, 10);
  constexpr uint8_t kOf = kArgumentOfRange + report::kFlowsOf;
  for (const char* key : {"", "f", "x,\"cat\":\"a\"", "f,\"cat\":\"a\"},{\"ph\":\"X\"", "f,cat",
                          "f,\"cat\":", "s,\"cat\":\"c\",\"name\":\"fine\""}) {
    reader_.Argument({kOf, main_, 0, reader_.Name(key), ArgumentType::kInteger, 7});
  }
  const auto loose = [&](uint32_t row, const char* key, ArgumentType type, int64_t value) {
    reader_.Argument({report::kArgumentOfLooseFlow, 0, row, reader_.Name(key), type, value});
  };
  const char* const events[] = {"{\"ph\":\"X\",\"name\":\"no arrow\"}", "[1]", "{",
                                "{\"ph\":\"f\",\"name\":\"far\"}",
                                "{\"ph\":\"t\",\"name\":\"loose\",\"tid\":3}"};
  for (uint32_t row = 0; row < std::size(events); ++row) {
    loose(row, "flow", ArgumentType::kJson, reader_.Name(events[row]));
    loose(row, "ns", ArgumentType::kInteger, row == 3 ? INT64_MAX : 5);
  }
  loose(9, "ns", ArgumentType::kInteger, 5);
  absl::StatusOr<JsonValue> root = ParseStrictJson(ExportOrDie(reader_));
  ASSERT_THAT(root, IsOk());
  EXPECT_THAT(NamesOfPhase(*root, "s"), ElementsAre("fine"));
  EXPECT_THAT(NamesOfPhase(*root, "f"), ElementsAre(""));  // "f" alone: an arrow without a name.
  EXPECT_THAT(NamesOfPhase(*root, "t"), ElementsAre("loose"));
  EXPECT_THAT(NamesOfPhase(*root, "X"), ElementsAre("a"));
}

// A number such as 1e14 is written out, so an arrow can be longer here than in the file. Its number
// can be as long. The lengths differ, so that some of 800 arrows are where a piece ends.
TEST_F(SourceArgumentsTest, ArrowsThatGrowAreWrittenWhole) {
  reader_.Range(main_, "a", 0, 10);
  std::string numbers = "1e14";
  while (numbers.size() < 4000) numbers += ",1e14";
  const uint32_t event = reader_.Name("{\"ph\":\"t\",\"name\":\"long\",\"bp\":[" + numbers + "]}");
  constexpr uint32_t kArrows = 800;
  for (uint32_t row = 0; row < kArrows; ++row) {
    const auto add = [&](const char* key, ArgumentType type, int64_t value) {
      reader_.Argument({report::kArgumentOfLooseFlow, 0, row, reader_.Name(key), type, value});
    };
    add("flow", ArgumentType::kJson, event);
    add("id", ArgumentType::kJson, reader_.Name('"' + std::string(4090 - row, 'i') + '"'));
    add("ns", ArgumentType::kInteger, 5);
  }
  absl::StatusOr<JsonValue> root = ParseStrictJson(ExportOrDie(reader_));
  ASSERT_THAT(root, IsOk());
  const std::vector<std::string> names = NamesOfPhase(*root, "t");
  ASSERT_THAT(names, SizeIs(kArrows));
  EXPECT_THAT(names, testing::Each("long"));
  for (const JsonValue& arrow : (*root)["traceEvents"].items) {
    if (arrow["ph"].text != "t") continue;
    ASSERT_THAT(arrow["bp"].items, SizeIs((numbers.size() + 1) / 5));
    ASSERT_GE(arrow["id"].text.size(), size_t{3290});
  }
}

TEST_F(SourceArgumentsTest, LabelsOfADamagedFileAreLeftOut) {
  reader_.Range(main_, "a", 0, 10);
  uint32_t row = 0;
  for (const char* json :
       {"{\"ph\":\"X\",\"name\":\"no label\",\"ts\":1,\"dur\":1}", "[1]", "{",
        "{\"ph\":\"M\",\"name\":7}", "{\"ph\":\"M\",\"name\":\"fine\",\"pid\":1}"}) {
    reader_.Argument({report::kArgumentOfLabel, 0, row++, reader_.Name("label"),
                      ArgumentType::kJson, reader_.Name(json)});
  }
  absl::StatusOr<JsonValue> root = ParseStrictJson(ExportOrDie(reader_));
  ASSERT_THAT(root, IsOk());
  EXPECT_THAT(NamesOfPhase(*root, "X"), ElementsAre("a"));
  EXPECT_THAT(NamesOfPhase(*root, "M"), Contains("fine"));
}

TEST_F(SourceArgumentsTest, TheyAreWhereTheExportOfARecordedCaptureHasThem) {
  reader_.Operator(main_, "a", 0, 10, {.sequence = 9});
  for (const char* key : {"zebra", "Ev Idx", "Python id", "ape", "External id", "Rank"}) {
    reader_.OfRange(main_, 0, key, ArgumentType::kInteger, 1);
  }
  EXPECT_THAT(KeysOf(Named(TraceOf(reader_), "a")["args"]),
              ElementsAre("External id", "Sequence number", "Fwd thread id", "Rank", "Python id",
                          "ape", "zebra", "Ev Idx"));
}

TEST_F(SourceArgumentsTest, ACallStackAsItWasComesBeforeThatOfTheFrames) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Operator(main_, "a", 0, 10, {.stack = reader_.Stack(0, "train.py", 7, "main")});
  reader_.OfRange(main_, 0, "Call stack", ArgumentType::kJson, reader_.Name("\"train.py(7)\""));
  EXPECT_EQ(Named(TraceOf(reader_), "a")["args"]["Call stack"].text, "train.py(7)");
}

class OtherEventsTest : public SourceArgumentsTest {
 protected:
  JsonValue TraceWith(const std::string& events) {
    reader_.Range(main_, "a", 1'000, 2'000);
    reader_.mutable_record().imported.source = "trace.json";
    reader_.mutable_record().imported.members = {{"traceEvents", events}};
    // Not held against the rules of our own traces: it has the members of another.
    absl::StatusOr<JsonValue> root = ParseStrictJson(ExportOrDie(reader_));
    EXPECT_THAT(root, IsOk());
    return root.ok() ? *std::move(root) : JsonValue();
  }
  static std::vector<std::string> NamesOf(const JsonValue& root) {
    std::vector<std::string> names;
    for (const JsonValue& event : root["traceEvents"].items) {
      if (event["ph"].text != "M") names.push_back(event["name"].text);
    }
    return names;
  }
};

TEST_F(OtherEventsTest, AreWrittenAtTheirTimes) {
  const JsonValue root = TraceWith(
      R"([{"ph":"X","cat":"Trace","name":"t","pid":"Spans","tid":"p","ts":-2500,"dur":9000,)"
      R"("args":{"Op count":0}},{"ph":"i","s":"g","name":"Record Window End","pid":"","tid":"",)"
      R"("ts":6500}])");
  EXPECT_THAT(NamesOf(root), ElementsAre("a", "t", "Record Window End"));
  const JsonValue& span = Named(root, "t");
  EXPECT_EQ(UnixNs(root, span), reader_.record().start_unix_ns - 2'500);
  EXPECT_EQ(span["dur"].text, "9.000");
  EXPECT_EQ(span["pid"].text, "Spans");
  EXPECT_EQ(span["args"]["Op count"].integer(), 0);
  EXPECT_EQ(UnixNs(root, Named(root, "Record Window End")), reader_.record().start_unix_ns + 6'500);
}

TEST_F(OtherEventsTest, WhatIsNoneIsLeftOut) {
  for (const std::string& events :
       {std::string("["), std::string("{}"), std::string("[1,null,[],{}]"),
        std::string(R"([{"ph":"X","name":"t","ts":1},{"ph":"i","name":"t"},{"ph":7,"name":"t"}])"),
        std::string(R"([{"ph":"i","name":"t","ts":9223372036854775807}])"),
        std::string(R"([{"ph":"i","name":"t","ts":1.5},{"ph":"s","name":"t","ts":1}])")}) {
    const JsonValue root = TraceWith(events);
    EXPECT_THAT(NamesOf(root), Not(Contains("t"))) << events;
    EXPECT_THAT(NamesOf(root), Contains("Record Window End")) << events;
  }
}

}  // namespace
}  // namespace profd::exporter
