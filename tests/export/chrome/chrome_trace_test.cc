#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "daemon/capture/quality.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace_export.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/hostile_names.h"
#include "tests/export/sink/gunzip.h"
#include "tests/export/sink/string_sink.h"
#include "tests/export/trace/trace_rules.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"
#include "tests/fakes/synthetic_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChromeTraceTest : public testing::Test {
 protected:
  ChromeTraceTest() : main_(reader_.AddThread(4242, "main")) {}
  int64_t start_unix_ns() { return reader_.record().start_unix_ns; }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(ChromeTraceTest, AnEmptyCaptureIsAGoodTrace) {
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(Events(root, "X"), IsEmpty());
  EXPECT_EQ(root["traceName"].text, reader_.record().id + ".json");
  EXPECT_EQ(root["displayTimeUnit"].text, "ms");
  EXPECT_TRUE(root["deviceProperties"].is_array());
}

TEST_F(ChromeTraceTest, ARangeIsOneCompleteEventAtItsTrueTime) {
  reader_.Range(main_, "forward", 1'234'567, 3'234'568)
      .Range(main_, "aten::mm", 2'000'000, 2'000'007, {.category = 1});
  const JsonValue root = TraceOf(reader_);
  const JsonValue& forward = Named(root, "forward");
  EXPECT_EQ(forward["cat"].text, "user_annotation");
  EXPECT_EQ(UnixNs(root, forward), start_unix_ns() + 1'234'567);
  EXPECT_EQ(forward["dur"].text, "2000.001");
  EXPECT_EQ(forward["pid"].integer(), 4242);
  EXPECT_EQ(forward["tid"].integer(), 4242);
  EXPECT_EQ(forward.Find("args"), nullptr);
  EXPECT_EQ(Named(root, "aten::mm")["cat"].text, "cpu_op");
  EXPECT_EQ(Named(root, "aten::mm")["dur"].text, "0.007");
}

TEST_F(ChromeTraceTest, EveryDurationKeepsItsNanoseconds) {
  std::vector<int64_t> durations = {
      0,    1,      9,       10,      999,       1000,           1001,
      9999, 99'999, 123'456, 999'999, 1'000'000, 59'999'999'999, 86'400'000'000'123};
  int64_t at = 0;
  for (const int64_t duration : durations) {
    reader_.Range(main_, std::to_string(duration), at, at + duration);
    at += duration;
  }
  const JsonValue root = TraceOf(reader_);
  at = start_unix_ns();
  for (const int64_t duration : durations) {
    const JsonValue& event = Named(root, std::to_string(duration));
    EXPECT_EQ(TraceTimeNs(event["dur"]), duration);
    EXPECT_EQ(UnixNs(root, event), at);
    at += duration;
  }
}

TEST_F(ChromeTraceTest, RangesCutByTheWindowSaySo) {
  reader_.Range(main_, "open", 0, 10, {.flags = 1})
      .Range(main_, "early", -500, 20, {.flags = 2})
      .Range(main_, "both", -600, 30, {.flags = 3});
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "open")["args"]["finished"].text, "false");
  EXPECT_EQ(Named(root, "early")["args"]["began_before_window"].text, "true");
  EXPECT_EQ(Named(root, "both")["args"].members.size(), 2U);
  EXPECT_EQ(UnixNs(root, Named(root, "both")), start_unix_ns() - 600);
}

TEST_F(ChromeTraceTest, TimeStaysPositiveWhereverTheCaptureLies) {
  constexpr int64_t kSlot = 7'889'238'000'000'000;
  for (const int64_t start : {int64_t{0}, int64_t{5}, kSlot * 220, kSlot * 220 + 10}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(1, "main");
    reader.mutable_record().start_unix_ns = start;
    reader.Range(main, "early", -100, 50).Range(main, "late", 60, 70);
    const JsonValue root = TraceOf(reader);
    if (start >= 100) {
      EXPECT_EQ(UnixNs(root, Named(root, "early")), start - 100);
    }
    EXPECT_EQ(UnixNs(root, Named(root, "late")), start + 60);
  }
}

TEST_F(ChromeTraceTest, RanksAgreeOnTheZeroOfTime) {
  FakeCaptureReader other;
  other.mutable_record().start_unix_ns += 123'456'789;
  EXPECT_EQ(TraceOf(reader_)["baseTimeNanoseconds"].text,
            TraceOf(other)["baseTimeNanoseconds"].text);
}

TEST_F(ChromeTraceTest, TheRankStandsOnceWithItsSpaceAndOnlyIfKnown) {
  EXPECT_EQ(TraceOf(reader_).Find("distributedInfo"), nullptr);
  reader_.mutable_record().target.metadata = {{"rank", "3"}, {"world_size", "8"}};
  reader_.Range(main_, "\"rank\": 9", 0, 1);
  const std::string text = ExportOrDie(reader_);
  EXPECT_THAT(text, HasSubstr("\"distributedInfo\": {\"rank\": 3, \"world_size\": 8}"));
  ParsedTrace(text);
  reader_.mutable_record().target.metadata = {{"rank", "3 \"rank\": 4"}};
  EXPECT_EQ(TraceOf(reader_).Find("distributedInfo"), nullptr);
}

TEST_F(ChromeTraceTest, TheHeaderTellsHowFarToTrustIt) {
  CaptureRecord& record = reader_.mutable_record();
  record.drops[static_cast<size_t>(DropReason::kNoChunk)] = 7;
  record.event_count = 100;
  record.clock_error_ns = 40;
  record.spec.labels = {{"run", "a\"b"}};
  record.target.command = "python \"train\".py \xFF";
  const JsonValue root = TraceOf(reader_);
  const JsonValue& about = root["profd"];
  EXPECT_EQ(root["host_name"].text, "node-1");
  EXPECT_EQ(root["trace_id"].text, record.id);
  EXPECT_EQ(about["capture"].text, record.id);
  EXPECT_EQ(about["state"].text, "COMPLETE");
  EXPECT_EQ(about["quality_grade"].text, QualityGrade(record));
  EXPECT_EQ(about["dropped_event_count"].integer(), 7);
  EXPECT_EQ(about["drops"]["no_chunk"].integer(), 7);
  EXPECT_EQ(about["clock_error_ns"].integer(), 40);
  EXPECT_EQ(about["labels"]["run"].text, "a\"b");
  EXPECT_FALSE(about["version"].text.empty());
}

TEST_F(ChromeTraceTest, RowsAreNamed) {
  reader_.AddThread(4243, "");
  reader_.mutable_record().target.metadata = {{"rank", "3"}};
  const JsonValue root = TraceOf(reader_);
  std::map<std::string, std::vector<std::string>> names;
  for (const JsonValue* event : Events(root, "M")) {
    const JsonValue& value = (*event)["args"].members.at(0).second;
    names[(*event)["name"].text].push_back(value.text);
  }
  EXPECT_THAT(names["process_name"], ElementsAre("python train.py"));
  EXPECT_THAT(names["process_labels"], ElementsAre("CPU, rank 3, node-1"));
  EXPECT_THAT(names["process_sort_index"], ElementsAre("4242"));
  EXPECT_THAT(names["thread_name"], ElementsAre("thread 4242 (main)", "thread 4243"));
}

TEST_F(ChromeTraceTest, ThreadIdsUsedTwiceGetRowsOfTheirOwn) {
  const uint32_t again = reader_.AddThread(4242, "later");
  const uint32_t strange = reader_.AddThread(-5, "");
  const uint32_t huge = reader_.AddThread(int64_t{1} << 40, "");
  reader_.Range(main_, "a", 0, 100).Range(again, "b", 50, 150).Range(strange, "c", 75, 175);
  reader_.Range(huge, "d", 0, 10);
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "a")["tid"].integer(), 4242);
  EXPECT_NE(Named(root, "b")["tid"].integer(), 4242);
}

TEST_F(ChromeTraceTest, StepsStandOnTheThreadThatMarkedThem) {
  const uint32_t driver = reader_.AddThread(99, "driver");
  reader_.StepThread(driver).Step(10, 0, 100).Step(11, 100, 100);
  reader_.Range(driver, "epoch", -50, 250).Range(driver, "forward", 10, 100);
  reader_.Range(driver, "both", 0, 200).Range(main_, "astride", 50, 150);
  const JsonValue root = TraceOf(reader_);
  const JsonValue& step = Named(root, "ProfilerStep#11");
  EXPECT_EQ(step["cat"].text, "user_annotation");
  EXPECT_EQ(step["tid"].integer(), 99);
  EXPECT_EQ(UnixNs(root, step), start_unix_ns() + 100);
  EXPECT_EQ(step["dur"].text, "0.100");
}

TEST_F(ChromeTraceTest, StepsStandOnTheMainThreadIfNobodyKnowsBetter) {
  reader_.Step(10, 0, 100).Step(11, 100, 100);
  EXPECT_EQ(Named(TraceOf(reader_), "ProfilerStep#10")["tid"].integer(), 4242);
}

// Of a program with a torch.profiler of its own: readers would find each step twice.
TEST(OwnProfilerTest, StepsThatTheProgramMarkedAreTheOnlyProfilerSteps) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(4242, "main");
  reader.Step(10, 0, 100).Step(11, 100, 100);
  reader.Range(main, "ProfilerStep#7", 20, 90);
  const JsonValue root = TraceOf(reader);
  Named(root, "ProfilerStep#7");
  Named(root, "step 10");
  Named(root, "step 11");
  for (const JsonValue* event : Events(root, "X")) {
    EXPECT_NE((*event)["name"].text, "ProfilerStep#10");
  }
}

TEST(OwnProfilerTest, ANameThatIsNoStepLeavesThoseOfProfd) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(4242, "main");
  reader.Name("ProfilerStep#7");  // Of no range of the window.
  reader.Step(10, 0, 100).Range(main, "ProfilerStep#x", 20, 90);
  Named(TraceOf(reader), "ProfilerStep#10");
}

class AstrideTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};
TEST_P(AstrideTest, StepsMoveToARowOfTheirOwn) {
  FakeCaptureReader reader;
  const uint32_t main = reader.AddThread(4242, "main");
  reader.BatchRows(1).Step(10, 0, 100).Step(11, 100, 100).Step(12, 200, 100);
  reader.Range(main, "before", 0, 5).Range(main, "astride", GetParam().first, GetParam().second);
  const JsonValue root = TraceOf(reader);
  const int64_t tid = Named(root, "ProfilerStep#10")["tid"].integer();
  EXPECT_NE(tid, 4242);
  std::vector<std::string> labels;
  for (const JsonValue* event : Events(root, "M")) {
    if ((*event)["tid"].integer() == tid) labels.push_back((*event)["args"]["name"].text);
  }
  EXPECT_THAT(labels, Contains("steps"));
}
INSTANTIATE_TEST_SUITE_P(Ranges, AstrideTest,
                         testing::Values(std::pair(50, 150), std::pair(50, 200), std::pair(50, 300),
                                         std::pair(50, 400), std::pair(-50, 50),
                                         std::pair(-50, 250), std::pair(0, 150),
                                         std::pair(299, 301)));

TEST_F(ChromeTraceTest, InstantsAndCountersAreThere) {
  reader_.Instant(main_, "checkpoint", 500).Counter(main_, "loss", 600, 0.25);
  const JsonValue root = TraceOf(reader_);
  const JsonValue& instant = Named(root, "checkpoint");
  EXPECT_EQ(instant["ph"].text, "i");
  EXPECT_EQ(instant["s"].text, "t");
  EXPECT_EQ(instant["cat"].text, "cpu_instant_event");
  EXPECT_EQ(UnixNs(root, instant), start_unix_ns() + 500);
  const JsonValue& counter = Named(root, "loss");
  EXPECT_EQ(counter["ph"].text, "C");
  EXPECT_EQ(counter["args"]["value"].number(), 0.25);
}

TEST_F(ChromeTraceTest, NumbersThatJsonDoesNotHaveBecomeInstants) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  reader_.Counter(main_, "loss", 1, std::numeric_limits<double>::quiet_NaN())
      .Counter(main_, "loss", 2, kInfinity)
      .Counter(main_, "loss", 3, -kInfinity)
      .Counter(main_, std::string(4096, 'n'), 4, kInfinity)
      .Counter(main_, "big", 5, 1e300)
      .Counter(main_, "small", 6, std::numeric_limits<double>::denorm_min());
  const JsonValue root = TraceOf(reader_);
  EXPECT_EQ(Named(root, "loss = nan")["ph"].text, "i");
  EXPECT_EQ(Named(root, "loss = inf")["ph"].text, "i");
  EXPECT_EQ(Named(root, "loss = -inf")["ph"].text, "i");
  EXPECT_EQ(Named(root, "big")["args"]["value"].number(), 1e300);
  EXPECT_GT(Named(root, "small")["args"]["value"].number(), 0);
}

TEST_F(ChromeTraceTest, MemoryEventsCarryKinetosArguments) {
  reader_
      .Allocate(main_, 10, 0x7f00, 512,
                {.total_allocated_bytes = 1536,
                 .total_reserved_bytes = 4096,
                 .device_type = 1,
                 .device_index = 2})
      .Free(main_, 20, 0x7f00, 512, {.device_type = 1, .device_index = 2});
  const JsonValue root = TraceOf(reader_);
  std::vector<const JsonValue*> memory;
  for (const JsonValue* event : Events(root, "i")) {
    if ((*event)["name"].text == "[memory]") memory.push_back(event);
  }
  ASSERT_THAT(memory, SizeIs(2));
  const JsonValue& allocation = (*memory[0])["args"];
  EXPECT_EQ((*memory[0])["cat"].text, "cpu_instant_event");
  EXPECT_EQ(allocation["Total Allocated"].integer(), 1536);
  EXPECT_EQ(allocation["Total Reserved"].integer(), 4096);
  EXPECT_EQ(allocation["Bytes"].integer(), 512);
  EXPECT_EQ(allocation["Addr"].integer(), 0x7f00);
  EXPECT_EQ(allocation["Device Id"].integer(), 2);
  EXPECT_EQ(allocation["Device Type"].integer(), 1);
  EXPECT_EQ((*memory[1])["args"]["Bytes"].integer(), -512);
  EXPECT_EQ((*memory[1])["args"].Find("Total Allocated"), nullptr);
}

TEST_F(ChromeTraceTest, MemoryIsACurveToo) {
  reader_.Allocate(main_, 10, 1, 100).Free(main_, 20, 1, 100);
  reader_.Allocate(main_, 15, 9, 7, {.total_allocated_bytes = 1007, .device_type = 1});
  const JsonValue root = TraceOf(reader_);
  std::map<std::string, std::vector<int64_t>> curves;
  for (const JsonValue* event : Events(root, "C")) {
    curves[(*event)["name"].text].push_back((*event)["args"]["bytes"].integer());
  }
  EXPECT_THAT(curves["cpu:0 allocated bytes (since start)"], ElementsAre(0, 100, 0));
  EXPECT_THAT(curves["cuda:0 allocated bytes"], ElementsAre(1000, 1007));
}

TEST_F(ChromeTraceTest, HostileNamesEverywhereMakeAGoodTrace) {
  int64_t at = 0;
  for (const std::string& name : HostileNames()) {
    reader_.AddThread(at + 1, name);
    reader_.Range(main_, name, at, at + 10)
        .Range(main_, name, at + 2, at + 5, {.category = 1, .flags = 3})
        .Instant(main_, name, at + 6)
        .Counter(main_, name, at + 7, 1.5)
        .Counter(main_, name, at + 7, std::numeric_limits<double>::quiet_NaN());
    reader_.mutable_record().target.metadata["key" + std::to_string(at)] = name;
    reader_.mutable_record().target.command += name;
    reader_.mutable_record().node += name;
    at += 10;
  }
  const JsonValue root = TraceOf(reader_);
  EXPECT_THAT(Events(root, "X"), SizeIs(2 * HostileNames().size()));
  EXPECT_EQ(Named(root, "a\"b\\c/d")["ph"].text, "X");
  EXPECT_EQ(Named(root, "line\u240Aline\u240D\u2409tab")["ph"].text, "X");
  EXPECT_EQ(Named(root, "(unnamed)")["ph"].text, "X");
  EXPECT_EQ(
      ParsedTrace(*GunzipOneMember(ExportOrDie(reader_, TraceFormat::kChromeGz)))["traceEvents"]
          .items.size(),
      root["traceEvents"].items.size());
}

TEST_F(ChromeTraceTest, NumbersOfAHostileFileMakeAGoodTrace) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t start : {int64_t{0}, kMost, kLeast}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(kMost, "main");
    reader.mutable_record().start_unix_ns = start;
    reader.mutable_record().target.pid = kLeast;
    reader.Range(main, "a", kLeast / 4, 0).Step(kLeast, kMost, kMost);
    reader.Allocate(main, kMost / 2, ~uint64_t{0}, kMost).Free(main, kMost / 2, 1, kMost);
    StringSink sink;
    ASSERT_THAT(ExportTrace(reader, TraceFormat::kChrome, sink), IsOk());
    EXPECT_THAT(ParseStrictJson(sink.text()), IsOk());
  }
}

TEST_F(ChromeTraceTest, TheGzippedTraceIsTheSameInOneMember) {
  reader_.Range(main_, "forward", 0, 100);
  EXPECT_THAT(GunzipOneMember(ExportOrDie(reader_, TraceFormat::kChromeGz)),
              IsOkAndHolds(ExportOrDie(reader_)));
}

TEST_F(ChromeTraceTest, ErrorsOfReaderAndSinkAreTheExports) {
  reader_.Range(main_, "forward", 0, 100);
  StringSink sink;
  sink.fail_after_bytes = 10;
  for (const TraceFormat format :
       {TraceFormat::kChrome, TraceFormat::kChromeGz, TraceFormat::kPerfetto}) {
    EXPECT_THAT(ExportTrace(reader_, format, sink), StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_EQ(sink.finished(), 0);
  StringSink good;
  reader_.FailAfter(0, absl::DataLossError("bad chunk"));
  for (const TraceFormat format :
       {TraceFormat::kChrome, TraceFormat::kChromeGz, TraceFormat::kPerfetto}) {
    EXPECT_THAT(ExportTrace(reader_, format, good), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_EQ(good.finished(), 0);
}

class StreamingTest : public testing::TestWithParam<TraceFormat> {};

// Notes how much had been read when the first piece came.
class FirstPieceSink : public StringSink {
 public:
  explicit FirstPieceSink(const SyntheticCaptureReader& reader) : reader_(reader) { keep = false; }
  absl::Status Append(std::string_view bytes) override {
    if (total_bytes() == 0) first_piece_batches_ = reader_.batches_given();
    return StringSink::Append(bytes);
  }
  int64_t first_piece_batches() const { return first_piece_batches_; }

 private:
  const SyntheticCaptureReader& reader_;
  int64_t first_piece_batches_ = 0;
};

TEST_P(StreamingTest, PiecesAreSmallAndComeWhileTheCaptureIsRead) {
  constexpr int64_t kSteps = 128;
  SyntheticCaptureReader reader(/*threads=*/2, kSteps);
  FirstPieceSink sink(reader);
  ASSERT_THAT(ExportTrace(reader, GetParam(), sink), IsOk());
  EXPECT_LE(sink.longest_piece(), size_t{1} << 20);
  EXPECT_GT(sink.total_bytes(), static_cast<size_t>(reader.range_count()));
  // The last reading writes; at the first piece most of it was still to come.
  const int64_t batches_per_reading = 2 * kSteps / 32;
  EXPECT_LT(sink.first_piece_batches(), reader.batches_given() - batches_per_reading / 2);
}
INSTANTIATE_TEST_SUITE_P(Formats, StreamingTest,
                         testing::Values(TraceFormat::kChrome, TraceFormat::kChromeGz,
                                         TraceFormat::kPerfetto));

TEST(TraceFormatTest, NamesAndSuffixesReadBack) {
  for (const TraceFormat format :
       {TraceFormat::kChrome, TraceFormat::kChromeGz, TraceFormat::kPerfetto}) {
    EXPECT_EQ(TraceFormatFromPath("dir.json/x" + std::string(SuffixOf(format))), format);
  }
  EXPECT_EQ(TraceFormatFromName("chrome"), TraceFormat::kChrome);
  EXPECT_EQ(TraceFormatFromName("chrome-gz"), TraceFormat::kChromeGz);
  EXPECT_EQ(TraceFormatFromName("perfetto"), TraceFormat::kPerfetto);
  EXPECT_EQ(TraceFormatFromName("Chrome"), std::nullopt);
  EXPECT_EQ(TraceFormatFromPath("x.perfetto-trace"), TraceFormat::kPerfetto);
  EXPECT_EQ(TraceFormatFromPath("x.gz"), std::nullopt);
  EXPECT_EQ(TraceFormatFromPath(""), std::nullopt);
}

// One of those makes TensorBoard's plugin refuse the whole file.
TEST(TraceNameTest, WhatIsNoStepIsNotCalledOne) {
  EXPECT_EQ(TraceName("ProfilerStep#12"), "ProfilerStep#12");
  EXPECT_EQ(TraceName("ProfilerStep#12#x"), "ProfilerStep#12#x");
  EXPECT_EQ(TraceName("ProfilerStep#x"), "ProfilerStep #x");
  EXPECT_EQ(TraceName("ProfilerStep#"), "ProfilerStep #");
  EXPECT_EQ(TraceName("ProfilerStep# 1"), "ProfilerStep # 1");
}

TEST(TraceNameTest, LongNamesAreCutAtACharacterAndSaySo) {
  EXPECT_EQ(TraceName(std::string(4096, 'x')), std::string(4096, 'x'));
  EXPECT_EQ(TraceName(std::string(4097, 'x')), std::string(4093, 'x') + "...");
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "\u00e9\u20ac";
  const std::string cut = TraceName(wide);
  EXPECT_LE(cut.size(), 4096U);
  EXPECT_THAT(ParseStrictJson("\"" + cut + "\""), IsOk());
}

}  // namespace
}  // namespace profd::exporter
