// The GPU's part of a Perfetto trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/index/source_kinds.h"
#include "daemon/report/index/wide_streams.h"
#include "tests/export/gpu_capture.h"
#include "tests/export/hostile_names.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/fakes/fake_capture_reader.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class PerfettoGpuTest : public testing::Test {
 protected:
  PerfettoGpuTest() { AddGpuSteps(reader_); }
  int64_t start_unix_ns() { return reader_.record().start_unix_ns; }
  FakeCaptureReader reader_;
};

TEST_F(PerfettoGpuTest, AWaitOnAStreamOfAnImportedTraceHasItsOwnNumber) {
  constexpr int64_t kHip = 140'234'234'234;
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Argument({.of = report::kArgumentOfWideStream,
                    .of_thread = 0,
                    .row = 0,
                    .key = reader_.Name(report::kWideStreamKey),
                    .type = ArgumentType::kInteger,
                    .value = kHip});
  reader_.CudaEvent(/*event_id=*/3, /*correlation=*/40, 1, report::kFirstWideStream)
      .Sync(report::kStreamWaitEvent, 30'000, 30'100, 50,
            {.stream = report::kFirstWideStream, .event_id = 3});
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoSlice& wait = SliceNamed(trace, "Stream Wait Event");
  EXPECT_EQ(wait.annotations.at("stream"), StrCat(kHip));
  EXPECT_EQ(wait.annotations.at("wait_on_stream"), StrCat(kHip));
}

class PerfettoGpuPlainTest : public testing::Test {
 protected:
  PerfettoGpuPlainTest() : main_(reader_.AddThread(4242, "main")) {
    reader_.mutable_record().gpu = RecordedGpu();
  }
  FakeCaptureReader reader_;
  const uint32_t main_;
};

std::string TrackOf(const PerfettoTrace& trace, const PerfettoSlice& slice) {
  return trace.tracks.at(slice.track).name;
}

TEST_F(PerfettoGpuTest, AStreamIsATrackUnderItsDeviceUnderTheProcess) {
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoTrack& stream = trace.tracks.at(SliceNamed(trace, "relu").track);
  EXPECT_EQ(stream.name, "stream 7");
  const PerfettoTrack& device = trace.tracks.at(stream.parent);
  EXPECT_EQ(device.name, "GPU 0");
  EXPECT_EQ(trace.tracks.at(device.parent).pid, 4242);
}

TEST_F(PerfettoGpuTest, WorkIsNestedInWhatLaunchedIt) {
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoSlice& gemm = SliceNamed(trace, "gemm(float*, int)");
  EXPECT_EQ(gemm.category, "kernel");
  EXPECT_EQ(gemm.start_ns, start_unix_ns() + 3'500);
  EXPECT_EQ(gemm.end_ns, start_unix_ns() + 5'500);
  EXPECT_EQ(gemm.depth, 2U);
  EXPECT_EQ(gemm.annotations.at("grid"), "[66,1,1]");
  EXPECT_EQ(gemm.annotations.at("block"), "[128,1,1]");
  EXPECT_EQ(gemm.annotations.at("registers per thread"), "128");
  EXPECT_EQ(gemm.annotations.at("shared memory"), "3072");
  EXPECT_EQ(gemm.annotations.at("blocks per SM"), "0.5");
  EXPECT_EQ(gemm.annotations.at("est. achieved occupancy %"), "3");
  EXPECT_EQ(gemm.annotations.at("correlation"), "2");
  std::vector<std::string> annotations;
  for (const PerfettoSlice& slice : trace.slices) {
    if (slice.category != "gpu_user_annotation") continue;
    annotations.push_back(StrCat(slice.name, " ", slice.depth));
  }
  EXPECT_THAT(annotations,
              ElementsAre("ProfilerStep#10 0", "forward 1", "ProfilerStep#11 0", "forward 1"));
  const PerfettoSlice& copy = SliceNamed(trace, "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(copy.annotations.at("bytes"), "4096");
  EXPECT_EQ(copy.annotations.at("memory bandwidth (GB/s)"), "4.096");
}

TEST_F(PerfettoGpuTest, CallsStandAmongTheRangesOfTheirThread) {
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  const PerfettoSlice& launch = SliceNamed(trace, "cudaLaunchKernel");
  EXPECT_EQ(launch.category, "cuda_runtime");
  EXPECT_EQ(trace.tracks.at(launch.track).tid, 4242);
  EXPECT_EQ(launch.depth, 2U);  // forward, aten::mm
  EXPECT_EQ(launch.annotations.at("correlation"), "2");
  EXPECT_EQ(SliceNamed(trace, "cudaStreamSynchronize").depth, 0U);
}

TEST_F(PerfettoGpuTest, FlowsLeadFromCallsToWorkAndWaits) {
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  std::multiset<std::string> flows;
  for (const PerfettoFlow& flow : trace.flows) {
    flows.insert(StrCat(trace.slices[flow.from].name, " > ", trace.slices[flow.to].name));
  }
  EXPECT_EQ(flows,
            (std::multiset<std::string>{
                "cudaMemcpyAsync > Memcpy HtoD (Pageable -> Device)",
                "cudaMemcpyAsync > Memcpy HtoD (Pageable -> Device)",
                "cudaLaunchKernel > gemm(float*, int)", "cudaLaunchKernel > gemm(float*, int)",
                "cudaLaunchKernel > relu", "cudaLaunchKernel > relu",
                "cudaStreamSynchronize > Stream Sync", "cudaStreamSynchronize > Stream Sync"}));
}

TEST_F(PerfettoGpuPlainTest, AGraphLaunchPointsAtItsNodesUpToALimit) {
  constexpr uint32_t kNodes = 1030;
  reader_.ApiCall(main_, "cudaGraphLaunch", 0, 10, 5);
  for (uint32_t i = 0; i < kNodes; ++i) {
    reader_.Kernel("node", 100 + i * 10, 110 + i * 10, 5, {.graph_id = 3, .graph_node_id = i});
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_THAT(trace.flows, SizeIs(1024));
  EXPECT_EQ(SliceNamed(trace, "node").annotations.at("graph id"), "3");
}

TEST_F(PerfettoGpuPlainTest, NoFlowHasOnlyOneEnd) {
  reader_.ApiCall(main_, "cudaMalloc", 0, 10, 1)
      .Kernel("orphan", 5, 15, 99, {.flags = kGpuOrphan})
      .ApiCall(main_, "cudaLaunchKernel", 40, 50, 2)
      .Kernel("early", 39, 60, 2);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_THAT(trace.flows, IsEmpty());
  EXPECT_EQ(SliceNamed(trace, "orphan").annotations.at("launch_not_recorded"), "true");
}

TEST_F(PerfettoGpuTest, WaitsAndOverheadHaveTracksOfTheirOwn) {
  reader_.Overhead(65536, 100, 300)
      .CudaEvent(3, 40, 1, 11)
      .Sync(report::kStreamWaitEvent, 20'120, 20'150, 50, {.stream = 7, .event_id = 3})
      .Sync(report::kContextSync, 20'500, 20'600, 52);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_EQ(TrackOf(trace, SliceNamed(trace, "Stream Sync")), "stream 7 (sync)");
  EXPECT_EQ(TrackOf(trace, SliceNamed(trace, "Context Sync")), "context 1 (sync)");
  const PerfettoSlice& wait = SliceNamed(trace, "Stream Wait Event");
  EXPECT_EQ(wait.category, "cuda_sync");
  EXPECT_EQ(wait.annotations.at("wait_on_stream"), "11");
  EXPECT_EQ(wait.annotations.at("wait_on_cuda_event_record_corr_id"), "40");
  std::set<std::string> parents;
  for (const PerfettoSlice& slice : trace.slices) {
    if (slice.category == "overhead") {
      parents.insert(trace.tracks.at(trace.tracks.at(slice.track).parent).name);
    }
  }
  EXPECT_THAT(parents, ElementsAre("CUPTI Overhead"));
}

TEST_F(PerfettoGpuPlainTest, WhatRunsAtOnceHasTracksBesideItsStream) {
  reader_.Kernel("a", 0, 100, 0, {.graph_id = 1})
      .Kernel("b", 50, 150, 0, {.graph_id = 1})
      .Kernel("c", 60, 160, 0, {.context = 2})
      .ApiCall(main_, "call", 10, 100, 1)
      .ApiCall(main_, "at once", 20, 200, 2);
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_EQ(TrackOf(trace, SliceNamed(trace, "a")), "stream 7 of context 1");
  EXPECT_EQ(TrackOf(trace, SliceNamed(trace, "b")), "stream 7 of context 1 (2)");
  EXPECT_EQ(TrackOf(trace, SliceNamed(trace, "c")), "stream 7 of context 2");
  const PerfettoSlice& aside = SliceNamed(trace, "at once");
  EXPECT_EQ(TrackOf(trace, aside), "CUDA calls");
  EXPECT_EQ(trace.tracks.at(trace.tracks.at(aside.track).parent).tid, 4242);
}

TEST_F(PerfettoGpuTest, WhatIsSimulatedSaysSo) {
  reader_.mutable_record().gpu.simulated = true;
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_NE(trace.TrackNamed("GPU 0 (simulated)"), nullptr);
  ASSERT_THAT(trace.instants, Not(IsEmpty()));
  EXPECT_EQ(trace.instants.front().annotations.at("simulated"), "true");
}

TEST_F(PerfettoGpuTest, TracksOfOtherProcessesHaveOtherIds) {
  FakeCaptureReader other;
  AddGpuSteps(other);
  other.mutable_record().target.pid = 4343;
  const PerfettoTrace first = PerfettoTraceOf(reader_);
  const PerfettoTrace second = PerfettoTraceOf(other);
  for (const auto& [uuid, track] : second.tracks) {
    EXPECT_FALSE(first.tracks.contains(uuid)) << track.name;
  }
  EXPECT_NE(SliceNamed(first, "relu").flows_in, SliceNamed(second, "relu").flows_in);
}

TEST_F(PerfettoGpuPlainTest, ACaptureWithoutGpuRowsIsWhatItWas) {
  FakeCaptureReader other;
  const uint32_t thread = other.AddThread(4242, "main");
  for (FakeCaptureReader* reader : {&reader_, &other}) {
    reader->mutable_record().gpu = {};
    reader->Step(1, 0, 100).Range(thread, "forward", 0, 50, {.flags = 1});
  }
  StringSink mine;
  StringSink its;
  ASSERT_THAT(ExportTrace(reader_, TraceFormat::kPerfetto, mine), IsOk());
  ASSERT_THAT(ExportTrace(other, TraceFormat::kPerfetto, its), IsOk());
  EXPECT_EQ(mine.text(), its.text());
  for (const std::string_view word : {"cuda", "gpu", "kernel", "simulated"}) {
    EXPECT_THAT(mine.text(), Not(HasSubstr(std::string(word))));
  }
}

TEST_F(PerfettoGpuPlainTest, HostileNamesMakeAGoodTrace) {
  uint32_t correlation = 0;
  int64_t at = 0;
  for (const std::string& name : HostileNames()) {
    ++correlation;
    reader_.Range(main_, name, at, at + 10)
        .ApiCall(main_, name, at + 2, at + 5, correlation)
        .Kernel(name, at + 3, at + 8, correlation);
    at += 10;
  }
  const PerfettoTrace trace = PerfettoTraceOf(reader_);
  EXPECT_THAT(trace.slices, SizeIs(4 * HostileNames().size()));
  EXPECT_THAT(trace.flows, SizeIs(HostileNames().size()));
}

// What a slice was, wherever it stands.
using What = std::tuple<std::string, int64_t, int64_t>;

TEST_F(PerfettoGpuPlainTest, WhateverRunsAtOnceIsAllThereAndNested) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    FakeCaptureReader reader;
    reader.BatchRows(17);
    reader.mutable_record().gpu = RecordedGpu();
    std::mt19937_64 random(seed);
    const auto below = [&](int64_t limit) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    };
    std::multiset<What> expected;
    for (uint32_t thread = 0; thread < 3; ++thread) {
      reader.AddThread(100 + thread, "");
      for (int64_t at = 0; at < 1'000; at += 100) reader.Range(thread, "r", at, at + 90);
    }
    for (uint32_t i = 0; i < 300; ++i) {
      const int64_t start = below(1'000);
      const int64_t end = start + below(30);
      reader.ApiCall(static_cast<uint32_t>(below(3)), "call", start, end,
                     static_cast<uint32_t>(below(200)));
      expected.insert({"call", start, end});
      const int64_t begin = below(1'500);
      const int64_t until = begin + below(60);
      reader.Kernel("k", begin, until, static_cast<uint32_t>(below(250)),
                    {.stream = static_cast<uint32_t>(below(3))});
      expected.insert({"k", begin, until});
    }
    const PerfettoTrace trace = PerfettoTraceOf(reader);
    std::multiset<What> found;
    for (const PerfettoSlice& slice : trace.slices) {
      if (slice.name == "r") continue;
      found.insert({slice.name, slice.start_ns - reader.record().start_unix_ns,
                    slice.end_ns - reader.record().start_unix_ns});
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace profd::exporter
