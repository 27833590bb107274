// What exports show of the arguments that a recorded program gave its ranges.
#include "daemon/export/trace/shown_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "daemon/export/event_csv.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/export/perfetto/perfetto_decoder.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ShownArgumentsTest : public testing::Test {
 protected:
  void Give(uint32_t thread, uint32_t row, std::string_view key, ArgumentType type, int64_t value) {
    reader_.Argument({kArgumentOfRange, thread, row, reader_.Name(key), type, value});
  }
  void GiveText(uint32_t thread, uint32_t row, std::string_view key, std::string_view json) {
    Give(thread, row, key, ArgumentType::kJson, reader_.Name(json));
  }
  static std::vector<std::string> KeysOf(const JsonValue& arguments) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : arguments.members) keys.push_back(key);
    return keys;
  }
  // Ranges of two threads in batches of one row, with arguments of two of them.
  void MakeRequests() {
    reader_.BatchRows(1);
    reader_.Range(main_, "inner", 10, 20).Range(main_, "request", 0, 50);
    reader_.Range(worker_, "other", 5, 15).Range(worker_, "decode", 20, 40);
    GiveText(main_, 1, "id", "\"r-17\"");
    Give(main_, 1, "tokens", ArgumentType::kInteger, -512);
    Give(main_, 1, "share", ArgumentType::kReal, std::bit_cast<int64_t>(0.25));
    GiveText(main_, 1, "cached", "true");
    GiveText(worker_, 1, "id", "\"r-18\"");
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(4242, "main");
  const uint32_t worker_ = reader_.AddThread(4243, "worker");
};

TEST_F(ShownArgumentsTest, ChromeShowsThemAtTheirRanges) {
  MakeRequests();
  const JsonValue root = TraceOf(reader_);
  const JsonValue& request = Named(root, "request")["args"];
  EXPECT_THAT(KeysOf(request), testing::UnorderedElementsAre("id", "tokens", "share", "cached"));
  EXPECT_EQ(request["id"].text, "r-17");
  EXPECT_EQ(request["tokens"].integer(), -512);
  EXPECT_EQ(request["share"].text, "0.25");
  EXPECT_EQ(Named(root, "decode")["args"]["id"].text, "r-18");
  EXPECT_EQ(Named(root, "inner").Find("args"), nullptr);
  EXPECT_EQ(Named(root, "other").Find("args"), nullptr);
}

TEST_F(ShownArgumentsTest, PerfettoShowsThemAtTheirRanges) {
  MakeRequests();
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const auto& request = SliceNamed(trace, "request").annotations;
  EXPECT_EQ(request.at("id"), "r-17");
  EXPECT_EQ(request.at("tokens"), "-512");
  EXPECT_EQ(std::stod(request.at("share")), 0.25);
  EXPECT_EQ(request.at("cached"), "true");
  EXPECT_EQ(SliceNamed(trace, "decode").annotations.at("id"), "r-18");
  EXPECT_THAT(SliceNamed(trace, "inner").annotations, IsEmpty());
  EXPECT_THAT(SliceNamed(trace, "other").annotations, IsEmpty());
}

TEST_F(ShownArgumentsTest, CsvShowsThemAsAnObject) {
  MakeRequests();
  StringSink sink;
  OutputBuffer out(sink);
  EXPECT_THAT(WriteEventCsv(reader_, out), IsOk());
  EXPECT_THAT(out.Finish(), IsOk());
  EXPECT_THAT(sink.text(), HasSubstr(",\"{\"\"id\"\":\"\"r-17\"\",\"\"tokens\"\":-512,"
                                     "\"\"share\"\":0.25,\"\"cached\"\":true}\"\r\n"));
  EXPECT_THAT(sink.text(), HasSubstr(",\"{\"\"id\"\":\"\"r-18\"\"}\"\r\n"));
}

// A capture with arguments is still one of profd's own: with its own numbers and arrows.
TEST_F(ShownArgumentsTest, TheRestOfARecordedCaptureIsAsWithoutThem) {
  reader_.Operator(main_, "aten::add", 0, 10).Range(main_, "request", 20, 30);
  const JsonValue without = TraceOf(reader_);
  Give(main_, 1, "id", ArgumentType::kInteger, 7);
  const JsonValue with = TraceOf(reader_);
  EXPECT_EQ(KeysOf(Named(with, "aten::add")["args"]), KeysOf(Named(without, "aten::add")["args"]));
  std::vector<std::string> keys = KeysOf(Named(without, "request")["args"]);
  EXPECT_THAT(keys, Not(IsEmpty()));
  keys.emplace_back("id");
  EXPECT_THAT(KeysOf(Named(with, "request")["args"]), testing::UnorderedElementsAreArray(keys));
}

TEST_F(ShownArgumentsTest, KeysOfTheExportsOwnAreMarkedAndNoKeyIsThereTwice) {
  reader_.Operator(main_, "aten::add", 0, 10);
  reader_.Range(main_, "request", 20, 30, {.flags = kRangeOpen});
  for (const std::string_view key : {"External id", "Ev Idx", "finished", "id", "id"}) {
    Give(main_, 1, key, ArgumentType::kInteger, 7);
  }
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(
      KeysOf(Named(root, "request")["args"]),
      testing::UnorderedElementsAre("External id", "Ev Idx", "finished", "External id (argument)",
                                    "Ev Idx (argument)", "finished (argument)", "id"));
}

TEST_F(ShownArgumentsTest, PerfettoHasTheSameKeys) {
  reader_.Range(main_, "request", 20, 30, {.flags = kRangeOpen});
  for (const std::string_view key : {"finished", "stream", "id", "id"}) {
    Give(main_, 0, key, ArgumentType::kInteger, 7);
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_THAT(SliceNamed(trace, "request").annotations,
              testing::UnorderedElementsAre(
                  testing::Pair("finished", "false"), testing::Pair("finished (argument)", "7"),
                  testing::Pair("stream (argument)", "7"), testing::Pair("id", "7")));
}

// Readers of the trace would take the range for GPU work.
TEST_F(ShownArgumentsTest, NoArgumentMakesARangeLookLikeSomethingElse) {
  reader_.Range(main_, "copy", 20, 30);
  for (const std::string_view key :
       {"stream", "correlation", "device", "cbid", "Sequence number", "Fwd thread id", "Python id",
        "Collective name", "Record function id", "bytes"}) {
    Give(main_, 0, key, ArgumentType::kInteger, 1);
  }
  const JsonValue root = TraceOf(reader_);  // Held against the rules of `profctl check`.
  const std::vector<std::string> keys = KeysOf(Named(root, "copy")["args"]);
  EXPECT_THAT(keys, SizeIs(10));
  for (const std::string& key : keys) EXPECT_TRUE(key.ends_with(" (argument)")) << key;
}

// TraceOf() takes no JSON that is not strict.
TEST_F(ShownArgumentsTest, HostileArgumentsDoNoHarm) {
  reader_.Range(main_, "a", 0, 10);
  GiveText(main_, 0, "k\"},{\"\xff\n", "}]{");
  GiveText(main_, 0, "long", "\"" + std::string(5000, 'x') + "\"");
  GiveText(main_, 0, "deep", std::string(40, '[') + std::string(40, ']'));
  Give(main_, 0, "nan", ArgumentType::kReal, -1);
  Give(main_, 0, "absent", ArgumentType::kAbsent, 0);
  for (int i = 0; i < 100; ++i) {
    GiveText(main_, 0, "k" + std::to_string(i), "\"" + std::string(4000, 'y') + "\"");
  }
  Give(99, 0, "thread", ArgumentType::kInteger, 1);
  Give(main_, 0xffff'ffff, "row", ArgumentType::kInteger, 1);
  reader_.Argument({kArgumentOfGpu, 0, 0, reader_.Name("gpu"), ArgumentType::kInteger, 1});
  reader_.Argument({kArgumentOfThread, 0, 0, reader_.Name("tid"), ArgumentType::kInteger, 1});
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(KeysOf(Named(root, "a")["args"]).size(),
              testing::Le(report::RangeArguments::kMostOfRange));
  EXPECT_EQ(PerfettoTraceOf(reader_).slices.size(), 1u);
}

}  // namespace
}  // namespace profd::exporter
