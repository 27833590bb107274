#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/trace/clock.h"
#include "daemon/export/trace_export.h"
#include "tests/export/chrome/exported_chrome.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/export/sink/gunzip.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kStartUnixNs = 1'790'000'000'000'000'000;

// Two ranks that are alike to the last number: process, device, stream and correlation. The
// second's clock is 500 us ahead.
class MergedTraceTest : public testing::Test {
 protected:
  MergedTraceTest() {
    for (size_t i = 0; i < 2; ++i) {
      FakeCaptureReader& reader = readers_[i];
      CaptureRecord& record = reader.mutable_record();
      record.id = i == 0 ? "01J00000000000000000000000" : "01J00000000000000000000001";
      record.node = i == 0 ? "gpu0" : "gpu1";
      record.start_unix_ns = kStartUnixNs + static_cast<int64_t>(i) * 500'000;
      record.target.pid = 4711;
      record.target.command = "python train.py";
      record.target.metadata["rank"] = std::to_string(i);
      record.windows = {{.start_ns = 0, .end_ns = 1000}};
      const uint32_t main = reader.AddThread(4711, "main");
      reader.Operator(main, "aten::linear", 0, 100, {.sequence = 9, .torch_thread = 1})
          .Operator(main, "AddmmBackward0", 200, 300,
                    {.scope = 1, .sequence = 9, .forward_thread = 1})
          .ApiCall(main, "cudaLaunchKernel", 20, 30, 7)
          .Kernel("gemm", 50, 90, 7)
          .Step(3, 0, 1000);
      clocks_.members.push_back({.basis = report::ClockBasis::kProbe,
                                 .reference_unix_ns = kStartUnixNs,
                                 .offset_ns = static_cast<double>(i) * 500'000,
                                 .error_ns = 40});
    }
  }

  std::string Merge(TraceFormat format) {
    std::vector<store::CaptureReader*> readers = {&readers_[0], &readers_[1]};
    StringSink sink;
    EXPECT_THAT(ExportMergedTrace(readers, clocks_, "01JGROUP", format, sink), IsOk());
    EXPECT_EQ(sink.finished(), 1);
    return sink.text();
  }
  JsonValue Chrome() {
    absl::StatusOr<JsonValue> root = ParseStrictJson(Merge(TraceFormat::kChrome));
    EXPECT_THAT(root, IsOk());
    return root.ok() ? *std::move(root) : JsonValue();
  }

  static std::vector<const JsonValue*> AllNamed(const JsonValue& root, std::string_view name) {
    std::vector<const JsonValue*> found;
    for (const JsonValue& event : root["traceEvents"].items) {
      // GPUs have annotations of the same names.
      if (event["name"].text == name && event["cat"].text != "gpu_user_annotation") {
        found.push_back(&event);
      }
    }
    return found;
  }

  FakeCaptureReader readers_[2];
  report::ClockAlignment clocks_;
};

TEST_F(MergedTraceTest, EachRankIsAProcessAndEachGpuOneOfItsOwn) {
  const JsonValue root = Chrome();
  std::map<int64_t, std::string> names;
  for (const JsonValue* event : AllNamed(root, "process_name")) {
    names.emplace((*event)["pid"].integer(), (*event)["args"]["name"].text);
  }
  ASSERT_THAT(names, SizeIs(4));
  std::vector<std::string> in_order;
  in_order.reserve(names.size());
  for (const auto& [pid, name] : names) in_order.push_back(name);
  EXPECT_THAT(in_order, ElementsAre("rank 0: python train.py", "rank 0: python train.py",
                                    "rank 1: python train.py", "rank 1: python train.py"));
  std::vector<std::string> labels;
  for (const JsonValue* event : AllNamed(root, "process_labels")) {
    labels.push_back((*event)["args"]["labels"].text);
  }
  EXPECT_THAT(labels, ElementsAre("CPU, rank 0, gpu0, pid 4711", "GPU 0, rank 0",
                                  "CPU, rank 1, gpu1, pid 4711", "GPU 0, rank 1"));
}

TEST_F(MergedTraceTest, ClocksAreOnCommonTime) {
  const JsonValue root = Chrome();
  const auto steps = AllNamed(root, "ProfilerStep#3");
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(UnixNs(root, *steps[0]), kStartUnixNs);
  EXPECT_EQ(UnixNs(root, *steps[1]), kStartUnixNs);
}

// Kineto counts from slots of about three months: work of the slot before is not at its begin.
TEST_F(MergedTraceTest, GpuWorkBeforeTheFirstRangeKeepsItsTime) {
  constexpr int64_t kSlotUnixNs = int64_t{7'889'238} * 1'000'000'000 * 226;
  for (size_t i = 0; i < 2; ++i) {
    readers_[i].mutable_record().start_unix_ns = kSlotUnixNs + static_cast<int64_t>(i) * 500'000;
    clocks_.members[i].reference_unix_ns = kSlotUnixNs;
  }
  readers_[0].Kernel("early", -1000, -200, 5);
  const JsonValue root = Chrome();
  const auto early = AllNamed(root, "early");
  ASSERT_THAT(early, SizeIs(1));
  EXPECT_EQ(UnixNs(root, *early[0]), kSlotUnixNs - 1000);
  EXPECT_EQ(UnixNs(root, *AllNamed(root, "ProfilerStep#3").at(0)), kSlotUnixNs);
}

TEST_F(MergedTraceTest, ArrowsOfRanksAreKeptApart) {
  const JsonValue root = Chrome();
  // By category and id: a start and an end in one process family.
  std::map<std::pair<std::string, int64_t>, std::vector<std::string>> arrows;
  for (const JsonValue& event : root["traceEvents"].items) {
    const std::string& phase = event["ph"].text;
    if (phase == "s" || phase == "f") {
      arrows[{event["cat"].text, event["id"].integer()}].push_back(phase);
    }
  }
  ASSERT_THAT(arrows, SizeIs(4));
  for (const auto& [id, phases] : arrows) EXPECT_THAT(phases, SizeIs(2)) << id.first;
}

TEST_F(MergedTraceTest, ItSaysOfWhatItIsAndHowFarClocksMayBeOff) {
  clocks_.residual_p50_ns = 450;
  const JsonValue root = Chrome();
  EXPECT_EQ(root["profd"]["group"].text, "01JGROUP");
  EXPECT_EQ(root["profd"]["clock_residual_ns"].integer(), 450);
  ASSERT_THAT(root["profd"]["captures"].items, SizeIs(2));
  const JsonValue& second = root["profd"]["captures"].items[1];
  EXPECT_EQ(second["node"].text, "gpu1");
  EXPECT_EQ(second["clock_basis"].text, "probe");
  EXPECT_EQ(second["clock_error_ns"].integer(), 40);
  EXPECT_EQ(second["about"]["capture"].text, "01J00000000000000000000001");
}

TEST_F(MergedTraceTest, GzipHoldsTheSame) {
  EXPECT_THAT(GunzipOneMember(Merge(TraceFormat::kChromeGz)),
              IsOkAndHolds(Merge(TraceFormat::kChrome)));
}

TEST_F(MergedTraceTest, PerfettoHasAProcessPerRankOnCommonTimeAndArrowsApart) {
  absl::StatusOr<PerfettoTrace> trace = DecodePerfetto(Merge(TraceFormat::kPerfetto));
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->offences, testing::IsEmpty());
  std::set<int64_t> pids;
  for (const auto& [uuid, track] : trace->tracks) {
    if (track.pid >= 0) pids.insert(track.pid);
  }
  EXPECT_GE(pids.size(), 2u);
  std::vector<int64_t> starts;
  std::set<uint64_t> tracks;
  for (const PerfettoSlice& slice : trace->slices) {
    if (slice.name != "aten::linear") continue;
    starts.push_back(slice.start_ns);
    tracks.insert(slice.track);
  }
  EXPECT_THAT(starts, ElementsAre(kStartUnixNs, kStartUnixNs));
  EXPECT_THAT(tracks, SizeIs(2));
  std::set<uint64_t> flows;
  size_t flow_count = 0;
  for (const PerfettoSlice& slice : trace->slices) {
    flow_count += slice.flows_out.size();
    flows.insert(slice.flows_out.begin(), slice.flows_out.end());
  }
  EXPECT_EQ(flows.size(), flow_count);
}

TEST_F(MergedTraceTest, ADriftingClockKeepsRangesNested) {
  clocks_.members[1].drift = 3e-6;
  FakeCaptureReader& reader = readers_[1];
  for (int64_t i = 0; i < 50; ++i) {
    const int64_t at = 1'000'000'000 + i * 999'983;
    reader.Range(0, "outer", at, at + 900'001).Range(0, "inner", at + 333, at + 900'001);
  }
  const JsonValue root = Chrome();
  const auto outer = AllNamed(root, "outer");
  const auto inner = AllNamed(root, "inner");
  ASSERT_THAT(outer, SizeIs(50));
  ASSERT_THAT(inner, SizeIs(50));
  for (size_t i = 0; i < 50; ++i) {
    const auto end_of = [](const JsonValue& event) {
      return TraceTimeNs(event["ts"]) + TraceTimeNs(event["dur"]);
    };
    EXPECT_GE(TraceTimeNs((*inner[i])["ts"]), TraceTimeNs((*outer[i])["ts"]));
    EXPECT_EQ(end_of(*inner[i]), end_of(*outer[i]));
  }
  // A second of it is 3 us.
  EXPECT_NEAR(static_cast<double>(UnixNs(root, *outer[0]) - kStartUnixNs), 1e9 - 3000, 2);
}

TEST_F(MergedTraceTest, WhatIsNoClockIsRefusedOrLeftOut) {
  std::vector<store::CaptureReader*> readers = {&readers_[0]};
  StringSink sink;
  EXPECT_THAT(ExportMergedTrace(readers, clocks_, "", TraceFormat::kChrome, sink),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ExportMergedTrace({}, {}, "", TraceFormat::kChrome, sink),
              StatusIs(absl::StatusCode::kInvalidArgument));
  clocks_.members[0].drift = 1e9;
  clocks_.members[1].drift = std::numeric_limits<double>::quiet_NaN();
  clocks_.members[1].offset_ns = std::numeric_limits<double>::infinity();
  Chrome();
}

TEST(TraceClockTest, NeverGoesBack) {
  for (const double drift : {0.0, 2e-6, -2e-6, 0.009, -0.009}) {
    const TraceClock clock = {.offset_ns = 1'000'000, .drift = drift};
    uint64_t last = 0;
    for (int64_t time_ns = -2000; time_ns < 2000; ++time_ns) {
      EXPECT_GE(clock.At(time_ns), last) << drift;
      last = clock.At(time_ns);
    }
  }
  EXPECT_EQ((TraceClock{.offset_ns = 5}).At(-6), 0u);
  EXPECT_EQ((TraceClock{.offset_ns = 5}).Duration(-6, 3), 3u);
}

}  // namespace
}  // namespace profd::exporter
