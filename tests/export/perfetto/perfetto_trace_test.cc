#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/capture/quality.h"
#include "daemon/export/trace_export.h"
#include "proto/wire/event.h"
#include "tests/export/hostile_names.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/export/perfetto/perfetto_decoder.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"
#include "tests/fakes/synthetic_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class PerfettoTraceTest : public testing::Test {
 protected:
  PerfettoTraceTest() : main_(reader_.AddThread(4242, "main")) {}
  int64_t start_unix_ns() { return reader_.record().start_unix_ns; }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(PerfettoTraceTest, AnEmptyCaptureHasItsTracks) {
  reader_.mutable_record().target.metadata = {{"rank", "3"}};
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_NE(trace.TrackNamed("rank 3 python train.py"), nullptr);
  const PerfettoTrack* const thread = trace.TrackNamed("thread 4242 (main)");
  ASSERT_NE(thread, nullptr);
  EXPECT_EQ(thread->pid, 4242);
  EXPECT_EQ(thread->tid, 4242);
  EXPECT_THAT(trace.slices, IsEmpty());
}

TEST_F(PerfettoTraceTest, OperatorsHaveTheirPythonStack) {
  reader_.Module(0x10, 0x10, "", "Net").Module(0x20, 0x10, "head", "Linear");
  const uint32_t train = reader_.Stack(0, "train.py", 12, "train");
  const uint32_t head = reader_.ModuleStack(train, 0x20, "Linear");
  const uint32_t worker = reader_.AddThread(4243, "worker");
  reader_.Operator(main_, "aten::add", 100, 200, {.stack = train})
      .Operator(main_, "aten::linear", 300, 400, {.stack = head})
      .Operator(main_, "aten::linear", 500, 600, {.stack = head})
      .Operator(worker, "aten::linear", 300, 400, {.stack = head})
      .Operator(worker, "aten::mul", 500, 600);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  std::map<std::string, std::vector<std::string>> stacks;
  for (const PerfettoSlice& slice : trace.slices) stacks[slice.name] = slice.callstack;
  EXPECT_THAT(stacks["aten::add"], ElementsAre("train train.py:12"));
  EXPECT_THAT(stacks["aten::linear"],
              ElementsAre("train train.py:12",
                          "nn.Module: head /site-packages/torch/nn/modules/module.py:1750"));
  EXPECT_THAT(stacks["aten::mul"], IsEmpty());
}

TEST_F(PerfettoTraceTest, StacksOfGeneratedCodeHaveTheLineThatItComesFrom) {
  reader_.Note(main_, kNoNoteTime, static_cast<uint16_t>(wire::NoteKind::kGeneratedCode), "gen.py",
               "net.py(8): forward", 5);
  const uint32_t train = reader_.Stack(0, "train.py", 12, "train");
  const uint32_t call = reader_.Stack(train, "gen.py", 6, "call");
  const uint32_t worker = reader_.AddThread(4243, "worker");
  for (const uint32_t thread : {main_, worker}) {
    reader_.Operator(thread, "aten::mm", 100, 200, {.stack = call})
        .Operator(thread, "aten::mm", 300, 400, {.stack = call});
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.slices, SizeIs(4));
  for (const PerfettoSlice& slice : trace.slices) {
    EXPECT_THAT(slice.callstack,
                ElementsAre("train train.py:12", "call gen.py:6", "forward net.py:8"));
  }
  for (const PerfettoInstant& instant : trace.instants) EXPECT_EQ(instant.name, "profd capture");
}

TEST_F(PerfettoTraceTest, AnInstantTellsHowFarToTrustTheCapture) {
  CaptureRecord& record = reader_.mutable_record();
  record.drops[static_cast<size_t>(DropReason::kNoChunk)] = 7;
  record.event_count = 100;
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.instants, SizeIs(1));
  const PerfettoInstant& about = trace.instants.front();
  EXPECT_EQ(about.name, "profd capture");
  EXPECT_EQ(about.time_ns, start_unix_ns());
  EXPECT_EQ(trace.tracks.at(about.track).pid, 4242);
  EXPECT_EQ(about.annotations.at("capture"), record.id);
  EXPECT_EQ(about.annotations.at("dropped_event_count"), "7");
  EXPECT_EQ(about.annotations.at("quality_grade"), QualityGrade(record));
}

TEST_F(PerfettoTraceTest, RangesAreSlicesAtTheirTrueTimes) {
  reader_.Range(main_, "forward", -100, 900, {.flags = 2 | kRangeUnended})
      .Range(main_, "aten::mm", 0, 900, {.category = 1, .flags = 1 | kRangeUnended});
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.slices, SizeIs(2));
  const PerfettoSlice& forward = SliceNamed(trace, "forward");
  EXPECT_EQ(forward.start_ns, start_unix_ns() - 100);
  EXPECT_EQ(forward.end_ns, start_unix_ns() + 900);
  EXPECT_EQ(forward.category, "user_annotation");
  EXPECT_EQ(forward.annotations.at("began_before_window"), "true");
  EXPECT_EQ(forward.annotations.at("ended_with_thread"), "true");
  const PerfettoSlice& mm = SliceNamed(trace, "aten::mm");
  EXPECT_EQ(mm.depth, 1U);
  EXPECT_EQ(mm.category, "cpu_op");
  EXPECT_EQ(mm.annotations.at("finished"), "false");
  EXPECT_EQ(mm.annotations.at("never_ended"), "true");
}

TEST_F(PerfettoTraceTest, StepsHaveATrackOfTheirOwn) {
  reader_.Step(10, 0, 100).Step(11, 100, 100).Range(main_, "astride", 50, 150);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoSlice& step = SliceNamed(trace, "ProfilerStep#11");
  EXPECT_EQ(trace.tracks.at(step.track).name, "steps");
  EXPECT_EQ(step.start_ns, start_unix_ns() + 100);
  EXPECT_EQ(step.end_ns, start_unix_ns() + 200);
  EXPECT_EQ(step.depth, 0U);
}

TEST_F(PerfettoTraceTest, StepsThatTheProgramMarkedAreTheOnlyProfilerSteps) {
  reader_.Step(10, 0, 100).Range(main_, "ProfilerStep#7", 20, 90);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  SliceNamed(trace, "step 10");
  SliceNamed(trace, "ProfilerStep#7");
}

TEST_F(PerfettoTraceTest, RandomTreesOfAllThreadsComeOutAsRecorded) {
  for (const size_t rows : {1, 7, 1000}) {
    FakeCaptureReader reader;
    reader.BatchRows(rows);
    std::mt19937_64 random(11);
    std::multimap<std::tuple<std::string, int64_t, int64_t>, size_t> expected;  // -> depth
    for (uint32_t thread = 0; thread < 3; ++thread) {
      reader.AddThread(100 + thread, "");
      int count = 0;
      const auto make = [&](auto& self, int64_t start, int64_t end, uint16_t depth) -> void {
        const std::string name = StrCat("t", thread, ".", count++ % 17);
        reader.Range(thread, name, start, end, {.depth = depth});
        expected.emplace(std::tuple(name, start, end), depth);
        for (int64_t at = start; at < end && depth < 12;) {
          const int64_t to =
              at + 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(end - at));
          if (random() % 3 != 0) self(self, at, to, static_cast<uint16_t>(depth + 1));
          at = to;
        }
      };
      for (int64_t i = 0; i < 6; ++i) make(make, i * 50, i * 50 + 50, 0);
    }
    const PerfettoTrace trace = PerfettoTraceOf(reader);
    std::multimap<std::tuple<std::string, int64_t, int64_t>, size_t> found;
    for (const PerfettoSlice& slice : trace.slices) {
      found.emplace(std::tuple(slice.name, slice.start_ns - reader.record().start_unix_ns,
                               slice.end_ns - reader.record().start_unix_ns),
                    slice.depth);
    }
    EXPECT_EQ(found, expected);
  }
}

TEST_F(PerfettoTraceTest, InstantsAndCountersAreThere) {
  reader_.Instant(main_, "checkpoint", 500)
      .Counter(main_, "loss", 600, 0.25)
      .Counter(main_, "loss", 700, 0.125)
      .Counter(main_, "loss", 800, std::numeric_limits<double>::quiet_NaN());
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  ASSERT_THAT(trace.instants, SizeIs(3));
  EXPECT_EQ(trace.instants[1].name, "checkpoint");
  EXPECT_EQ(trace.instants[1].time_ns, start_unix_ns() + 500);
  EXPECT_EQ(trace.tracks.at(trace.instants[1].track).tid, 4242);
  EXPECT_EQ(trace.instants[2].name, "loss = nan");
  ASSERT_THAT(trace.samples, SizeIs(2));
  EXPECT_EQ(trace.samples[1].value, 0.125);
  EXPECT_EQ(trace.tracks.at(trace.samples[0].track).name, "loss");
}

TEST_F(PerfettoTraceTest, MemoryIsACounterInBytes) {
  reader_.Allocate(main_, 10, 1, 100).Free(main_, 20, 1, 100);
  reader_.Free(main_, 30, 2, 40);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoTrack* const track = trace.TrackNamed("cpu:0 allocated bytes (since start)");
  ASSERT_NE(track, nullptr);
  EXPECT_EQ(track->unit, 3U);
  std::vector<double> levels;
  for (const PerfettoSample& sample : trace.samples) levels.push_back(sample.value);
  EXPECT_THAT(levels, ElementsAre(40, 140, 40, 0));
}

TEST_F(PerfettoTraceTest, HostileNamesEverywhereMakeAGoodTrace) {
  int64_t at = 0;
  for (const std::string& name : HostileNames()) {
    reader_.AddThread(at + 1, name);
    reader_.Range(main_, name, at, at + 10)
        .Range(main_, name, at + 2, at + 5, {.flags = 3})
        .Instant(main_, name, at + 6)
        .Counter(main_, name, at + 7, 1.5);
    at += 10;
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_THAT(trace.slices, SizeIs(2 * HostileNames().size()));
}

TEST_F(PerfettoTraceTest, ThreadIdsUsedTwiceGetTracksOfTheirOwn) {
  const uint32_t again = reader_.AddThread(4242, "later");
  reader_.Range(main_, "a", 0, 100).Range(again, "b", 50, 150);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_NE(SliceNamed(trace, "a").track, SliceNamed(trace, "b").track);
  EXPECT_THAT(trace.slices, Each(Field(&PerfettoSlice::depth, 0U)));
}

TEST_F(PerfettoTraceTest, TracksOfOtherProcessesAndNodesHaveOtherIds) {
  FakeCaptureReader other;
  other.AddThread(4242, "main");
  other.mutable_record().node = "node-2";
  const PerfettoTrace first = PerfettoTraceOf(reader_);
  for (const auto& [uuid, track] : PerfettoTraceOf(other).tracks) {
    EXPECT_FALSE(first.tracks.contains(uuid)) << track.name;
  }
}

TEST_F(PerfettoTraceTest, NumbersOfAHostileFileMakeAReadableTrace) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t start : {int64_t{0}, kMost, kLeast}) {
    FakeCaptureReader reader;
    const uint32_t main = reader.AddThread(kMost, "main");
    reader.mutable_record().start_unix_ns = start;
    reader.mutable_record().target.pid = kLeast;
    reader.Range(main, "a", kLeast / 4, 0).Step(kLeast, kMost, kMost);
    reader.Allocate(main, kMost / 2, ~uint64_t{0}, kMost);
    StringSink sink;
    ASSERT_THAT(ExportTrace(reader, TraceFormat::kPerfetto, sink), IsOk());
    EXPECT_THAT(DecodePerfetto(sink.text()), IsOk());
  }
}

TEST_F(PerfettoTraceTest, ALargeTraceIsWholeAndInOrder) {
  SyntheticCaptureReader reader(/*threads=*/2, /*steps=*/40);
  const PerfettoTrace trace = PerfettoTraceOf(reader);
  EXPECT_EQ(static_cast<int64_t>(trace.slices.size()), reader.range_count() + 40);
}

TEST(PerfettoDecoderTest, FindsWhatALoaderWouldHaveToGuess) {
  EXPECT_THAT(DecodePerfetto("\x0a\x05\x01"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DecodePerfetto("\x12\x00"), StatusIs(absl::StatusCode::kInvalidArgument));
  // Sequence 1, an end on a track nobody described.
  const std::string bytes("\x0a\x0c\x40\x05\x50\x01\x5a\x06\x48\x02\x58\x07\x50\x07", 14);
  const absl::StatusOr<PerfettoTrace> trace = DecodePerfetto(bytes.substr(0, 14));
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->offences, testing::Contains(testing::HasSubstr("unknown track")));
  EXPECT_THAT(trace->offences, testing::Contains(testing::HasSubstr("without begin")));
}

}  // namespace
}  // namespace profd::exporter
