// Captures of a GPU of software, from ARM to RELEASE: what is recorded, against the truth.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client_lib/cupti/cupti_abi.h"
#include "proto/wire/sync_kinds.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using client::cupti::kKindConcurrentKernel;
using client::cupti::kKindMemcpy;
using client::cupti::kKindRuntime;
using ::testing::HasSubstr;
using wire::GpuMode;

// Fires by time, runs `commands`, and returns what the capture holds.
CaptureContents CaptureOf(GpuProcess& process, GpuMode mode, const std::string& commands,
                          uint32_t flags = 0) {
  auto capture = process.target().ArmGpu(mode, flags);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run(commands);
  return capture->Finish();
}

uint64_t CountCalls(const CaptureContents& contents, const std::string& name) {
  return static_cast<uint64_t>(std::count_if(contents.api_calls.begin(), contents.api_calls.end(),
                                             [&](const auto& call) { return call.name == name; }));
}

// What was delivered is stored, or counted under one cause.
void ExpectEveryRecordAccountedFor(const CaptureContents& contents) {
  const wire::GpuStatusEvent& status = contents.gpu_status();
  uint64_t lost = 0;
  for (const auto cause :
       {wire::kGpuNoBuffer, wire::kGpuStale, wire::kGpuUntimed, wire::kGpuCorrupt,
        wire::kGpuUnknownKind, wire::kGpuOverCap, wire::kGpuNoChunk, wire::kGpuBeforeWindow,
        wire::kGpuFilteredApi, wire::kGpuStillRunning, wire::kGpuLaterLaunch}) {
    lost += status.counts[cause];
  }
  const uint64_t described =
      contents.devices.size() + contents.contexts.size() + contents.streams.size();
  EXPECT_GE(status.counts[wire::kGpuRecords], lost + contents.CountGpuEvents());
  // Devices that are described again are records, and no events.
  EXPECT_LE(status.counts[wire::kGpuRecords], lost + contents.CountGpuEvents() + 2 * described);
}

class GpuVersionTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuVersionTest, KernelsAreStoredAsTheyWere) {
  GpuProcess process({.version = GetParam()});
  const CaptureContents contents =
      CaptureOf(process, GpuMode::kDefault, "launch 200 5 gemm; copy 65536; memset 4096; sync");
  const wire::GpuStatusEvent& status = contents.gpu_status();
  EXPECT_EQ(ProblemsOf(status), 0u);
  EXPECT_GT(status.cupti_version, 13u);
  ASSERT_EQ(contents.kernels.size(), 200u);
  EXPECT_EQ(CountCalls(contents, "cudaLaunchKernel"), 200u);
  EXPECT_EQ(contents.copies.size(), 1u);
  EXPECT_EQ(contents.memsets.size(), 1u);
  EXPECT_GE(contents.syncs.size(), 1u);
  std::map<uint32_t, Truth> by_correlation;
  for (Truth& truth : process.TruthOf(kKindConcurrentKernel)) {
    by_correlation[truth.record.correlation_id] = std::move(truth);
  }
  std::set<uint32_t> correlations;
  for (const auto& call : contents.api_calls) correlations.insert(call.event.correlation);
  for (const auto& kernel : contents.kernels) {
    EXPECT_EQ(kernel.name, "gemm");
    const Truth& truth = by_correlation[kernel.event.place.correlation];
    EXPECT_EQ(kernel.event.place.stream, truth.record.stream);
    EXPECT_EQ(kernel.event.place.device, truth.record.device);
    EXPECT_EQ(kernel.event.grid[0], truth.record.grid[0]);
    EXPECT_EQ(kernel.event.block[0], truth.record.block[0]);
    EXPECT_TRUE(correlations.contains(kernel.event.place.correlation));
  }
  // The same clock: as much lies between the first and the last as there did.
  const auto by_start = [](const auto& a, const auto& b) {
    return a.event.start_ticks < b.event.start_ticks;
  };
  const auto [first, last] =
      std::minmax_element(contents.kernels.begin(), contents.kernels.end(), by_start);
  const auto& first_truth = by_correlation[first->event.place.correlation].record;
  const auto& last_truth = by_correlation[last->event.place.correlation].record;
  EXPECT_GT(last_truth.start_ns, first_truth.start_ns);
  EXPECT_GT(last->event.start_ticks, first->event.start_ticks);
  ExpectEveryRecordAccountedFor(contents);
}

TEST_P(GpuVersionTest, NoDriverCallOfARuntimeCallIsStoredAndOnesOfTheirOwnAre) {
  GpuProcess process({.version = GetParam()});
  const CaptureContents contents =
      CaptureOf(process, GpuMode::kDefault, "launch 50 1; driver-launch 30; noise 20; sync");
  EXPECT_EQ(CountCalls(contents, "cudaLaunchKernel"), 50u);
  EXPECT_EQ(CountCalls(contents, "cuLaunchKernelEx"), 30u);
  EXPECT_EQ(CountCalls(contents, "cuLaunchKernel"), 0u);
  EXPECT_EQ(CountCalls(contents, "cudaGetDevice"), 0u);
  EXPECT_EQ(CountCalls(contents, "cuCtxGetCurrent"), 0u);
  EXPECT_EQ(contents.kernels.size(), 80u);
  for (const auto& call : contents.api_calls) {
    EXPECT_EQ(call.event.header.thread, static_cast<uint32_t>(process.child().pid()));
    EXPECT_EQ((call.event.header.flags & wire::kGpuFlagDriverApi) != 0,
              call.name.starts_with("cuLaunch"));
  }
  ExpectEveryRecordAccountedFor(contents);
}

TEST(GpuStatusTest, CuptiThatStaysInTheProcessIsSaid) {
  const auto stays = [](const std::string& version, const std::string& commands, uint32_t flags) {
    GpuProcess process({.version = version});
    wire::ArmBody arm = GpuArm(GpuMode::kDefault);
    arm.flags |= flags;
    auto capture = process.target().SendArm(arm);
    process.target().ExpectArmed(*capture);
    capture->Fire(ByTime());
    capture->WaitPhase(wire::Phase::kRecording);
    process.Run(commands);
    const CaptureContents contents = capture->Finish();
    EXPECT_NE(contents.gpu_status().flags & wire::kGpuStatusSimulated, 0u);
    return (contents.gpu_status().flags & wire::kGpuStatusStays) != 0;
  };
  EXPECT_TRUE(stays("11.8", "launch 5 1; sync", 0));
  EXPECT_TRUE(stays("12.4", "launch 5 1; sync", wire::kArmGpuDetach));
  EXPECT_FALSE(stays("13.0", "launch 5 1; sync", 0));
  EXPECT_TRUE(stays("13.0", "graph 3; sync", 0));
  EXPECT_FALSE(stays("13.0", "graph 3; sync", wire::kArmGpuDetach));
}

TEST_P(GpuVersionTest, ASecondCaptureSeesOnlyItsOwn) {
  GpuProcess process({.version = GetParam()});
  CaptureOf(process, GpuMode::kDefault, "launch 10 1 first; sync");
  const CaptureContents contents =
      CaptureOf(process, GpuMode::kDefault, "launch 20 1 second; sync");
  ASSERT_EQ(contents.kernels.size(), 20u);
  for (const auto& kernel : contents.kernels) EXPECT_EQ(kernel.name, "second");
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuVersionTest,
                         ::testing::Values("11.2", "11.8", "12.4", "12.9", "13.0", "future"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// ---- Modes

TEST(GpuModeTest, LightHasWorkOfTheGpuAndNoCalls) {
  GpuProcess process;
  const CaptureContents contents =
      CaptureOf(process, GpuMode::kLight, "launch 10 1; copy 4096; graph 4; sync");
  EXPECT_EQ(contents.kernels.size(), 22u);
  EXPECT_EQ(contents.copies.size(), 1u);
  EXPECT_TRUE(contents.graph_launches.empty());
  EXPECT_TRUE(contents.api_calls.empty());
  EXPECT_TRUE(contents.syncs.empty());
}

TEST(GpuModeTest, FullHasMemoryAndEvents) {
  GpuProcess process;
  const CaptureContents full = CaptureOf(process, GpuMode::kFull, "graph 4; memory; events; sync");
  ASSERT_EQ(full.kernels.size(), 12u);
  for (const auto& kernel : full.kernels) EXPECT_NE(kernel.event.graph_node_id, 0u);
  EXPECT_GE(full.device_memory.size(), 4u);
  EXPECT_GE(full.cuda_events.size(), 1u);
}

// A program that made its graph before any capture, and replays it all the time.
TEST_P(GpuVersionTest, AGraphOfBeforeTheAttachIsRecordedByItsNodesAndRunsOn) {
  for (const GpuMode mode : {GpuMode::kLight, GpuMode::kDefault, GpuMode::kFull}) {
    GpuProcess process({.version = GetParam()});
    process.Run("make-graph; graph 2; sync");
    for (int i = 0; i < 3; ++i) {
      const CaptureContents contents = CaptureOf(process, mode, "graph 5; sync");
      ASSERT_EQ(contents.kernels.size(), 15u) << static_cast<int>(mode);
      for (const auto& kernel : contents.kernels) {
        EXPECT_EQ(kernel.name, "node");
        EXPECT_NE(kernel.event.graph_node_id, 0u);
      }
      ASSERT_EQ(contents.memsets.size(), 5u);
      EXPECT_NE(contents.memsets[0].graph_node_id, 0u);
      EXPECT_TRUE(contents.graph_launches.empty());
      process.Run("graph 2; sync");
      if (mode == GpuMode::kLight) continue;
      EXPECT_EQ(CountCalls(contents, "cudaGraphLaunch"), 5u);
      std::set<uint32_t> launches;
      for (const auto& kernel : contents.kernels) {
        launches.insert(kernel.event.place.correlation);
      }
      EXPECT_EQ(launches.size(), 5u);
    }
  }
}

TEST(GpuModeTest, DevicesContextsAndStreamsAreDescribed) {
  for (const char* version : {"11.8", "13.0"}) {
    GpuProcess process({.version = version});
    const CaptureContents contents = CaptureOf(process, GpuMode::kDefault, "launch 1 1; sync");
    ASSERT_EQ(contents.devices.size(), 1u) << version;
    EXPECT_FALSE(contents.devices[0].name.empty());
    EXPECT_GT(contents.devices[0].event.sm_count, 0u);
    ASSERT_GE(contents.contexts.size(), 1u);
    EXPECT_EQ(contents.contexts[0].context, 1u);
  }
}

TEST(GpuModeTest, OffTouchesNothing) {
  GpuProcess process;
  auto capture = process.target().Arm();
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(process.CountThreads("profd-gpu"), 0);
  const CaptureContents contents = capture->Finish();
  EXPECT_TRUE(contents.gpu_statuses.empty());
  EXPECT_EQ(contents.CountGpuEvents(), 0u);
  const sgpu_stats_rec stats = process.Stats();
  EXPECT_EQ(stats.cupti_calls, 0u);
  EXPECT_EQ(stats.buffers_requested, 0u);
}

TEST(GpuModeTest, AfterACaptureNothingIsLeft) {
  GpuProcess process;
  CaptureOf(process, GpuMode::kDefault, "launch 100 1; sync");
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
  const sgpu_stats_rec before = process.Stats();
  EXPECT_EQ(before.subscribed, 0u);
  EXPECT_EQ(before.enabled_kinds, 0u);
  EXPECT_EQ(before.buffers_out, 0u);
  process.Run("launch 100 1; sync; settle");
  const sgpu_stats_rec after = process.Stats();
  EXPECT_EQ(after.cupti_calls, before.cupti_calls);
  EXPECT_EQ(after.buffers_requested, before.buffers_requested);
}

// ---- Steps

TEST(GpuStepsTest, WorkOfTheStepsThatWereAskedForIsStoredAndNoneBefore) {
  GpuProcess process;
  process.Run("step 1");
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(Steps(2, /*warmup=*/1));
  capture->WaitPhase(wire::Phase::kWaiting);
  process.Run("launch 5 1 before; step 1; launch 5 1 warmup; sync; step 1");
  process.Run("launch 5 1 first; sync; step 1; launch 5 1 second; sync; step 1");
  capture->WaitPhase(wire::Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  std::map<std::string, int> kernels;
  for (const auto& kernel : contents.kernels) ++kernels[kernel.name];
  EXPECT_EQ(kernels, (std::map<std::string, int>{{"first", 5}, {"second", 5}}));
  EXPECT_EQ(CountCalls(contents, "cudaLaunchKernel"), 10u);
  EXPECT_GT(contents.gpu_status().counts[wire::kGpuBeforeWindow], 0u);
  EXPECT_EQ(contents.dropped(), 0u);
  ExpectEveryRecordAccountedFor(contents);
}

TEST(GpuStepsTest, KindsAreOffWhileThePlanIsFarAndOnAgainInTime) {
  GpuProcess process;
  process.Run("step 10");
  // Steps of 30 ms: 200 of them are far away.
  const std::string slow_step = "launch 1 30000; sync; step 1;";
  process.Run(slow_step + slow_step + slow_step + slow_step + slow_step + slow_step + slow_step +
              slow_step + slow_step);
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  EXPECT_NE(process.Stats().enabled_kinds & 1u << kKindConcurrentKernel, 0u);
  capture->Fire(Steps(2, /*warmup=*/1, /*wait=*/200));
  WaitUntil("kinds off",
            [&] { return (process.Stats().enabled_kinds >> kKindConcurrentKernel & 1) == 0; });
  // Fast steps bring it near.
  process.Run("step 195");
  WaitUntil("kinds on",
            [&] { return (process.Stats().enabled_kinds >> kKindConcurrentKernel & 1) != 0; });
  for (int i = 0; i < 10; ++i) process.Run("launch 3 1 work; sync; step 1");
  capture->WaitPhase(wire::Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  // What came until STOP is there too; the daemon tells it by its time.
  const auto is_inside = [&](const auto& kernel) {
    return kernel.event.start_ticks >= contents.windows[0].start_ticks &&
           kernel.event.start_ticks < contents.windows[0].end_ticks;
  };
  EXPECT_EQ(std::count_if(contents.kernels.begin(), contents.kernels.end(), is_inside), 6);
}

TEST(GpuStepsTest, WorkThatRunsOnBehindTheWindowIsWaitedFor) {
  GpuProcess process;
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(Steps(1));
  capture->WaitPhase(wire::Phase::kWaiting);
  process.Run("step 1; launch 1 100000 straddles; step 1");
  capture->WaitPhase(wire::Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.kernels.size(), 1u);
  EXPECT_EQ(contents.kernels[0].name, "straddles");
  EXPECT_EQ(contents.kernels[0].event.header.flags, 0u);
  EXPECT_GT(contents.kernels[0].event.start_ticks + contents.kernels[0].event.duration_ticks,
            contents.windows[0].end_ticks);
}

TEST(GpuStepsTest, WorkThatWillNotEndIsStoredAsUnfinished) {
  GpuProcess process({.environment = {{"SGPU_RESERVE", "1"}}});
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(Steps(1));
  capture->WaitPhase(wire::Phase::kWaiting);
  process.Run("step 1; launch 1 20000000 for_ever; step 1");
  capture->WaitPhase(wire::Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.kernels.size(), 1u);
  EXPECT_EQ(contents.kernels[0].event.header.flags, wire::kGpuFlagUnfinished);
  EXPECT_EQ(contents.gpu_status().counts[wire::kGpuUnfinished], 1u);
}

// ---- Volume

TEST(GpuVolumeTest, ManyThreadsAtOnceLoseNothing) {
  GpuProcess process;
  const CaptureContents contents = CaptureOf(process, GpuMode::kDefault, "threads 8 2000; sync");
  EXPECT_EQ(contents.kernels.size(), 16'000u);
  EXPECT_EQ(CountCalls(contents, "cudaLaunchKernel"), 16'000u);
  EXPECT_EQ(contents.dropped(), 0u);
  std::set<uint32_t> threads;
  for (const auto& call : contents.api_calls) threads.insert(call.event.header.thread);
  EXPECT_GE(threads.size(), 8u);
}

// Launches far faster than 2 MiB of buffers can carry.
class GpuOverloadTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GpuOverloadTest, BuffersStayWithinTheCapAndEveryRecordIsStoredOrCounted) {
  GpuProcess process({.version = GetParam(), .environment = {{"SGPU_TRUTH", "0"}}});
  wire::ArmBody arm = GpuArm(GpuMode::kDefault);
  arm.gpu_buffer_bytes = 2u << 20;
  auto capture = process.target().SendArm(arm);
  process.target().ExpectArmed(*capture);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("flood 50000; sync; settle");
  capture->Stop();
  const CaptureContents contents = capture->Read();
  const wire::GpuStatusEvent& status = contents.gpu_status();
  const bool may_refuse = status.cupti_version >= 27;
  EXPECT_LE(status.peak_pool_bytes, may_refuse ? 2u << 20 : 256u << 20);
  ExpectEveryRecordAccountedFor(contents);
  const sgpu_stats_rec stats = process.Stats();
  uint64_t delivered = 0;
  for (const uint64_t of_kind : stats.delivered) delivered += of_kind;
  EXPECT_EQ(status.counts[wire::kGpuRecords], delivered);
  EXPECT_EQ(status.counts[wire::kGpuDroppedByCupti], stats.dropped);
  capture->Release();
}

INSTANTIATE_TEST_SUITE_P(Versions, GpuOverloadTest, ::testing::Values("11.8", "12.4", "13.0"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(GpuVolumeTest, EventsWithoutAChunkAreCountedToTheExactNumber) {
  GpuProcess process;
  auto capture = process.target().ArmGpu(GpuMode::kDefault, 0, wire::kMinCaptureMemoryBytes);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 20000 0; sync; settle");
  WaitUntil("drops", [&] { return capture->header().drops[wire::kDropNoChunk].load() != 0; });
  // Room for the rest and the last word, as a daemon makes it; nothing else is done meanwhile.
  std::atomic<bool> is_drained{false};
  std::thread recycler([&] {
    while (!is_drained) {
      capture->RecycleFullChunks();
      PauseForPoll();
    }
  });
  capture->Stop();
  is_drained = true;
  recycler.join();
  const CaptureContents contents = capture->Read();
  capture->Release();
  const wire::GpuStatusEvent& status = contents.gpu_status();
  EXPECT_GT(status.counts[wire::kGpuNoChunk], 0u);
  EXPECT_EQ(contents.drops[wire::kDropNoChunk], status.counts[wire::kGpuNoChunk]);
  ExpectEveryRecordAccountedFor(contents);
  const std::vector<Truth> truth = process.AllTruth();
  const auto written = static_cast<uint64_t>(std::count_if(
      truth.begin(), truth.end(), [](const Truth& t) { return t.record.fate == SGPU_WRITTEN; }));
  EXPECT_LE(written, status.counts[wire::kGpuRecords]);
}

TEST(GpuVolumeTest, BehindTheRecordCapRecordingStopsAndSaysSo) {
  GpuProcess process;
  wire::ArmBody arm = GpuArm(GpuMode::kDefault);
  arm.gpu_max_records = 500;
  auto capture = process.target().SendArm(arm);
  process.target().ExpectArmed(*capture);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 2000 0; sync; settle");
  const CaptureContents contents = capture->Finish();
  const wire::GpuStatusEvent& status = contents.gpu_status();
  EXPECT_LE(contents.CountGpuEvents(), 500u);
  EXPECT_GT(status.counts[wire::kGpuOverCap], 0u);
  EXPECT_NE(status.flags & wire::kGpuStatusEndedByCap, 0u);
  ExpectEveryRecordAccountedFor(contents);
}

TEST(GpuVolumeTest, ALongWindowIsFlushedOnTheWay) {
  GpuProcess process;
  auto capture = process.target().ArmGpu(GpuMode::kDefault);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 10 1; sync");
  // Nothing but the flush of a long window brings so few records out.
  WaitUntil("records before STOP", [&] {
    CaptureContents contents = capture->Read();
    return contents.kernels.size() == 10;
  });
  capture->Finish();
}

// A stream waits for a function of the program's: full only, from CUPTI 13.1 on.
TEST(HostFunctionTest, IsAWaitOfItsStreamWithItsLaunchAndTheThreadThatRanIt) {
  for (const char* version : {"12.9", "13.0", "future"}) {
    GpuProcess process({.version = version});
    const std::string work = "launch 1 10 before; host-function 500; launch 1 10 behind; sync";
    const CaptureContents contents = CaptureOf(process, GpuMode::kFull, work);
    const auto function =
        std::find_if(contents.syncs.begin(), contents.syncs.end(),
                     [](const auto& sync) { return sync.sync_kind == wire::kSyncHostFunction; });
    ASSERT_EQ(function != contents.syncs.end(), std::string(version) == "future") << version;
    EXPECT_EQ(contents.gpu_status().kind_result_count, 0u) << version;
    if (function == contents.syncs.end()) continue;
    EXPECT_NE(function->header.thread, 0u);
    const auto launch = std::find_if(
        contents.api_calls.begin(), contents.api_calls.end(),
        [&](const auto& call) { return call.event.correlation == function->correlation; });
    ASSERT_NE(launch, contents.api_calls.end());
    EXPECT_EQ(launch->name, "cudaLaunchHostFunc");
    const auto behind = std::find_if(contents.kernels.begin(), contents.kernels.end(),
                                     [](const auto& kernel) { return kernel.name == "behind"; });
    ASSERT_NE(behind, contents.kernels.end());
    EXPECT_LE(function->start_ticks + function->duration_ticks, behind->event.start_ticks + 1);
    EXPECT_EQ(function->stream, behind->event.place.stream);
  }
}

// Full only, from CUPTI 12.8 on; an older one is not asked for what it does not have.
TEST(MemDecompressTest, IsWorkOfItsCallOfTheDriverApi) {
  constexpr uint64_t kBytes = 1'000'000;
  for (const char* version : {"12.4", "12.9", "13.0", "future"}) {
    for (const GpuMode mode : {GpuMode::kDefault, GpuMode::kFull}) {
      GpuProcess process({.version = version});
      const CaptureContents contents =
          CaptureOf(process, mode, "launch 1 10 before; decompress 1000000; sync");
      ExpectEveryRecordAccountedFor(contents);
      EXPECT_EQ(contents.gpu_status().kind_result_count, 0u) << version;
      const bool is_recorded = mode == GpuMode::kFull && std::string(version) != "12.4";
      ASSERT_EQ(contents.decompressions.size(), is_recorded ? 1u : 0u) << version;
      EXPECT_EQ(CountCalls(contents, "cuMemBatchDecompressAsync"), 1u) << version;
      if (!is_recorded) continue;
      const wire::MemDecompressEvent& event = contents.decompressions[0];
      EXPECT_EQ(event.bytes, kBytes);
      EXPECT_GT(event.duration_ticks, 0u);
      const auto launch = std::find_if(
          contents.api_calls.begin(), contents.api_calls.end(),
          [&](const auto& call) { return call.event.correlation == event.place.correlation; });
      ASSERT_NE(launch, contents.api_calls.end());
      EXPECT_EQ(launch->name, "cuMemBatchDecompressAsync");
    }
  }
}

// No record comes of these calls, and none counts as missing. (record_decoder_test.cc has that the
// end of a capture does not wait for one.)
TEST(MemDecompressTest, WithoutItsKindNoneIsMissing) {
  for (const GpuMode mode : {GpuMode::kDefault, GpuMode::kFull}) {
    GpuProcess process({.version = "12.4"});
    auto capture = process.target().ArmGpu(mode);
    capture->Fire(ByTime());
    capture->WaitPhase(wire::Phase::kRecording);
    process.Run("launch 1 10 before; decompress 1000000 20; sync");
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(CountCalls(contents, "cuMemBatchDecompressAsync"), 20u);
    EXPECT_EQ(contents.gpu_status().counts[wire::kGpuLostBuffers], 0u);
    EXPECT_EQ(contents.gpu_status().counts[wire::kGpuStillRunning], 0u);
  }
}

TEST(MemDecompressTest, RecordsBeyondTheCapAreCounted) {
  GpuProcess process;
  wire::ArmBody arm = GpuArm(GpuMode::kFull);
  arm.gpu_max_records = 500;
  auto capture = process.target().SendArm(arm);
  process.target().ExpectArmed(*capture);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("decompress 1000 600; sync; settle");
  const CaptureContents contents = capture->Finish();
  EXPECT_LE(contents.CountGpuEvents(), 500u);
  EXPECT_GT(contents.decompressions.size(), 0u);
  EXPECT_GT(contents.gpu_status().counts[wire::kGpuOverCap], 0u);
  ExpectEveryRecordAccountedFor(contents);
}

}  // namespace
}  // namespace profd::testing
