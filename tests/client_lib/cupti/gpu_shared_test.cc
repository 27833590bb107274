// CUPTI 13.3 and later with a driver as new: several tools have subscriptions at the same time.
// Another tool loses nothing by a capture, and a capture nothing by another tool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client_lib/cupti/cupti_abi.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using client::cupti::kKindConcurrentKernel;
using client::cupti::kKindRuntime;
using ::testing::HasSubstr;
using wire::ArmFailedReason;
using wire::GpuMode;

GpuProcess::Options SharedCupti() {
  return {.version = "future", .environment = {{"SGPU_DRIVER_VERSION", "13030"}}};
}

void WaitForGpuThreadsEnd(GpuProcess& process) {
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
}

// The tool that joined has one record of the runtime and one of a kernel for each launch.
void ExpectToolHasAll(GpuProcess& process, uint64_t launch_count) {
  process.Run("sync; settle");
  const sgpu_stats_rec stats = process.Stats();
  EXPECT_GE(stats.rival_records, 2 * launch_count);
  EXPECT_EQ(stats.rival_unfinished, 0u);
}

TEST(SharedCuptiTest, ACaptureIsWholeWhileAnotherToolHasASubscription) {
  GpuProcess process(SharedCupti());
  process.Run("join monitor; launch 10 1");
  auto capture = StartRecording(process);
  process.Run("launch 10 1; copy 4096; sync");
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.kernels.size(), 10u);
  EXPECT_EQ(contents.copies.size(), 1u);
  EXPECT_EQ(contents.dropped(), 0u);
  EXPECT_EQ(ProblemsOf(contents.gpu_status()), 0u);
  for (const auto& call : contents.api_calls) EXPECT_NE(call.event.header.thread, 0u);
  WaitForGpuThreadsEnd(process);
  process.Run("launch 10 1");
  ExpectToolHasAll(process, 30);
}

TEST(SharedCuptiTest, AToolThatComesWhileRecordingAndGoesOnAfterItLosesNothing) {
  GpuProcess process(SharedCupti());
  auto capture = StartRecording(process);
  process.Run("launch 10 1; join monitor; launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 20u);
  WaitForGpuThreadsEnd(process);
  process.Run("launch 10 1");
  ExpectToolHasAll(process, 20);
}

TEST(SharedCuptiTest, AToolThatComesWhileDrainingLosesNothing) {
  GpuProcess process(SharedCupti());
  auto capture = StartRecording(process);
  // Else the buffer with the call comes back only after `long`, and no launch is known to be later.
  process.Run("set reserve 0; launch 1 300000 long");
  process.target().Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
  WaitUntil("the drain", [&] { return (process.Stats().enabled_kinds >> kKindRuntime & 1) == 0; });
  process.Run("join monitor; launch 10 1");
  process.target().Expect(wire::FrameType::kDrained);
  const CaptureContents contents = capture->Read();
  capture->Release();
  EXPECT_EQ(contents.kernels.size(), 1u);
  EXPECT_EQ(contents.dropped(), 0u);
  WaitForGpuThreadsEnd(process);
  ExpectToolHasAll(process, 10);
}

TEST(SharedCuptiTest, AToolThatLeavesWhileRecordingDisturbsNothing) {
  GpuProcess process(SharedCupti());
  process.Run("join monitor");
  auto capture = StartRecording(process);
  process.Run("launch 10 1; leave; launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 20u);
}

// A forced flush ends the records of all subscribers.
TEST(SharedCuptiTest, WorkThatOutlivesTheDrainKeepsItsTimesInTheOtherTool) {
  GpuProcess process(SharedCupti());
  process.Run("join monitor");
  auto capture = StartRecording(process, GpuMode::kLight);
  process.Run("launch 1 2500000 long");
  capture->Finish();
  WaitForGpuThreadsEnd(process);
  EXPECT_EQ(process.Stats().enabled_kinds, 0u);
  ExpectToolHasAll(process, 1);
}

TEST(SharedCuptiTest, WithoutAnotherToolWorkThatOutlivesTheDrainIsFlagged) {
  GpuProcess process(SharedCupti());
  auto capture = StartRecording(process, GpuMode::kLight);
  process.Run("launch 1 2500000 long");
  EXPECT_EQ(capture->Finish().gpu_status().counts[wire::kGpuUnfinished], 1u);
}

TEST(SharedCuptiTest, SettingsEndWithTheSubscription) {
  GpuProcess process(SharedCupti());
  const sgpu_stats_rec before = process.Stats();
  auto capture = StartRecording(process, GpuMode::kDefault, wire::kArmGpuLatency);
  const sgpu_stats_rec during = process.Stats();
  EXPECT_EQ(during.thread_id_type, 1u);
  EXPECT_EQ(during.latency_timestamps, 1u);
  EXPECT_EQ(during.all_sync_records, 0u);
  capture->Finish();
  WaitForGpuThreadsEnd(process);
  const sgpu_stats_rec after = process.Stats();
  EXPECT_EQ(after.subscribed, 0u);
  EXPECT_EQ(after.device_buffer_pool_limit, before.device_buffer_pool_limit);
  EXPECT_EQ(after.zeroed_out_activity_buffer, before.zeroed_out_activity_buffer);
  EXPECT_EQ(after.thread_id_type, before.thread_id_type);
  EXPECT_EQ(after.latency_timestamps, before.latency_timestamps);
  EXPECT_EQ(after.all_sync_records, before.all_sync_records);
}

TEST(SharedCuptiTest, SeveralCapturesAreWholeWhileOneToolStays) {
  GpuProcess process(SharedCupti());
  process.Run("join monitor");
  for (int i = 0; i < 3; ++i) {
    auto capture = StartRecording(process);
    process.Run("launch 10 1; sync");
    EXPECT_EQ(capture->Finish().kernels.size(), 10u);
    WaitForGpuThreadsEnd(process);
  }
  ExpectToolHasAll(process, 30);
}

TEST(SharedCuptiTest, GraphsAreRecordedByNodesWhateverAnotherToolChose) {
  for (const bool is_as_one : {false, true}) {
    GpuProcess process(SharedCupti());
    process.Run(is_as_one ? "set shared_graph_trace 1; join monitor" : "join monitor");
    auto capture = StartRecording(process);
    process.Run("graph 2; sync");
    const CaptureContents contents = capture->Finish();
    EXPECT_TRUE(contents.graph_launches.empty());
    EXPECT_EQ(contents.kernels.size(), 6u);
    EXPECT_EQ(contents.gpu_status().kind_result_count, 0u);
  }
}

TEST(SharedCuptiTest, AToolWithTheInterfaceForOneSubscriberIsNamedAsBusy) {
  GpuProcess process(SharedCupti());
  process.Run("rival SomeOtherTool");
  const Refusal refusal = ArmThatFails(process);
  EXPECT_EQ(refusal.reason, ArmFailedReason::kCuptiBusy);
  EXPECT_THAT(refusal.text, HasSubstr("SomeOtherTool"));
  process.Run("rival-gone");
  auto capture = StartRecording(process);
  process.Run("launch 5 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 5u);
}

// It locks the interface for several subscribers out, so the capture uses the same as the tool.
TEST(SharedCuptiTest, AToolThatUsesTheOtherInterfaceWithoutASubscriptionIsNoObstacle) {
  GpuProcess process(SharedCupti());
  process.Run("attribute 2 99");
  auto capture = StartRecording(process);
  process.Run("launch 10 1; sync");
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
  WaitForGpuThreadsEnd(process);
  EXPECT_EQ(process.Stats().device_buffer_pool_limit, 99u);
}

TEST(SharedCuptiTest, AnOlderDriverLetsOneToolIn) {
  GpuProcess process({.version = "future", .environment = {{"SGPU_DRIVER_VERSION", "13020"}}});
  process.Run("join monitor");
  EXPECT_EQ(ArmThatFails(process).reason, ArmFailedReason::kCuptiBusy);
  ExpectGoesOn(process);
  EXPECT_EQ(process.Stats().rival_unfinished, 0u);
}

TEST(SharedCuptiTest, CuptiStaysInTheProcessForOtherTools) {
  GpuProcess process(SharedCupti());
  process.Run("join monitor");
  StartRecording(process, GpuMode::kDefault, wire::kArmGpuDetach)->Finish();
  WaitForGpuThreadsEnd(process);
  EXPECT_EQ(process.Stats().finalized, 0u);
  EXPECT_EQ(process.Stats().subscribed, 0u);
  process.Run("launch 10 1");
  ExpectToolHasAll(process, 10);
}

}  // namespace
}  // namespace profd::testing
