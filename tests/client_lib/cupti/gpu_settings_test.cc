// CUPTI's settings hold for the whole process. After a capture they are as before, however it
// ended.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "client_lib/cupti/cupti_abi.h"
#include "tests/client_lib/cupti/gpu_process.h"

namespace profd::testing {
namespace {

using wire::GpuMode;

struct CuptiSettingValues {
  uint64_t pool_limit;
  uint32_t zeroed_buffers;
  uint32_t thread_id_type;
  uint32_t latency_timestamps;
  uint32_t all_sync_records;

  friend bool operator==(const CuptiSettingValues&, const CuptiSettingValues&) = default;
};

void PrintTo(const CuptiSettingValues& values, std::ostream* out) {
  *out << "pool limit " << values.pool_limit << ", zeroed buffers " << values.zeroed_buffers
       << ", thread ID type " << values.thread_id_type << ", latency timestamps "
       << values.latency_timestamps << ", all sync records " << values.all_sync_records;
}

constexpr CuptiSettingValues kDefaults = {.pool_limit = 250,
                                          .zeroed_buffers = 0,
                                          .thread_id_type = 0,
                                          .latency_timestamps = 0,
                                          .all_sync_records = 1};

CuptiSettingValues SettingsOf(GpuProcess& process) {
  const sgpu_stats_rec stats = process.Stats();
  return {.pool_limit = stats.device_buffer_pool_limit,
          .zeroed_buffers = stats.zeroed_out_activity_buffer,
          .thread_id_type = stats.thread_id_type,
          .latency_timestamps = stats.latency_timestamps,
          .all_sync_records = stats.all_sync_records};
}

std::unique_ptr<FakeCapture> RecordWith(GpuProcess& process, uint32_t flags = 0) {
  auto capture = process.target().ArmGpu(GpuMode::kDefault, flags);
  capture->Fire(ByTime());
  capture->WaitPhase(wire::Phase::kRecording);
  process.Run("launch 10 1; sync");
  return capture;
}

void WaitForTheEndOfTheGpuThread(GpuProcess& process) {
  WaitUntil("the GPU thread's end", [&] { return process.CountThreads("profd-gpu") == 0; });
}

// A way in which the GPU part of a capture can end.
struct SessionEnd {
  const char* name;
  void (*run)(GpuProcess& process);
};

constexpr SessionEnd kSessionEnds[] = {
    {"Stop", [](GpuProcess& process) { RecordWith(process)->Finish(); }},
    {"StopWithLatencyTimestamps",
     [](GpuProcess& process) { RecordWith(process, wire::kArmGpuLatency)->Finish(); }},
    {"StopWithWorkInFlight",
     [](GpuProcess& process) {
       auto capture = RecordWith(process);
       process.Run("launch 1 50000");
       capture->Finish();
     }},
    {"LostBuffers",
     [](GpuProcess& process) {
       auto capture = RecordWith(process);
       process.Run("set lose_buffers 1");
       capture->Finish();
     }},
    {"Detach",
     [](GpuProcess& process) {
       RecordWith(process, wire::kArmGpuDetach)->Finish();
       WaitUntil("cuptiFinalize", [&] {
         process.Run("launch 1 1");
         return process.Stats().finalized == 1;
       });
     }},
    {"DaemonGone",
     [](GpuProcess& process) {
       { auto capture = RecordWith(process); }
       process.Reconnect();
     }},
    {"RefusedCallbacks",
     [](GpuProcess& process) {
       process.Run("fail cuptiActivityRegisterCallbacks=999");
       auto capture = process.target().SendArm(GpuArm(GpuMode::kDefault));
       process.target().Expect(wire::FrameType::kArmFailed);
     }},
    {"RefusedKinds",
     [](GpuProcess& process) {
       process.Run("fail cuptiActivityEnable=35");
       auto capture = process.target().SendArm(GpuArm(GpuMode::kLight));
       process.target().Expect(wire::FrameType::kArmFailed);
     }},
    {"ArmTimeout",
     [](GpuProcess& process) {
       process.Run("set hold_subscribe 1");
       wire::ArmBody arm = GpuArm(GpuMode::kDefault);
       arm.gpu_arm_timeout_ms = 100;
       auto capture = process.target().SendArm(arm);
       process.target().Expect(wire::FrameType::kArmFailed);
       process.Run("set hold_subscribe 0");
     }},
    {"StopWhileArming",
     [](GpuProcess& process) {
       process.Run("set hold_subscribe 1");
       auto capture = process.target().SendArm(GpuArm(GpuMode::kDefault));
       WaitUntil("the GPU thread", [&] { return process.CountThreads("profd-gpu") == 1; });
       process.target().Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
       capture->Release();
       process.target().Expect(wire::FrameType::kDrained);
       process.Run("set hold_subscribe 0");
     }},
    {"GivenUpInTheDrain",
     [](GpuProcess& process) {
       auto capture = RecordWith(process);
       process.Run("set hold_flush 1");
       process.target().Send(wire::FrameType::kStop, wire::StopBody{capture->number()});
       capture->Release();
       process.target().Expect(wire::FrameType::kDrained);
       process.Run("set hold_flush 0");
     }},
};

class SessionEndTest : public ::testing::TestWithParam<SessionEnd> {};

TEST_P(SessionEndTest, SettingsAreAsBefore) {
  GpuProcess process;
  ASSERT_EQ(SettingsOf(process), kDefaults);
  GetParam().run(process);
  WaitForTheEndOfTheGpuThread(process);
  EXPECT_EQ(SettingsOf(process), kDefaults);
  EXPECT_EQ(process.Stats().subscribed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Ends, SessionEndTest, ::testing::ValuesIn(kSessionEnds),
                         [](const auto& test) { return test.param.name; });

class SettingsVersionTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SettingsVersionTest, SettingsAreAsBeforeACapture) {
  GpuProcess process({.version = GetParam()});
  const CuptiSettingValues before = SettingsOf(process);
  auto capture = RecordWith(process);
  EXPECT_NE(SettingsOf(process), before) << "else there is nothing to restore";
  capture->Finish();
  WaitForTheEndOfTheGpuThread(process);
  EXPECT_EQ(SettingsOf(process), before);
}

INSTANTIATE_TEST_SUITE_P(Versions, SettingsVersionTest,
                         ::testing::Values("11.2", "11.8", "12.4", "12.9", "13.0", "future"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '.' ? '_' : c;
                           return name;
                         });

const std::string kPoolLimit = std::to_string(client::cupti::kAttributePoolLimit);

TEST(SettingsTest, ValuesThatAnotherToolHadChosenComeBack) {
  GpuProcess process;
  process.Run("attribute " + kPoolLimit + " 100");
  RecordWith(process)->Finish();
  WaitForTheEndOfTheGpuThread(process);
  EXPECT_EQ(SettingsOf(process).pool_limit, 100u);
}

TEST(SettingsTest, ValuesThatAnotherToolSetsDuringTheCaptureStay) {
  GpuProcess process({.environment = {{"SGPU_FREE_MIB", "1000"}}});
  auto capture = RecordWith(process);
  ASSERT_EQ(SettingsOf(process).pool_limit, 81u);
  process.Run("attribute " + kPoolLimit + " 64");
  capture->Finish();
  WaitForTheEndOfTheGpuThread(process);
  CuptiSettingValues expected = kDefaults;
  expected.pool_limit = 64;
  EXPECT_EQ(SettingsOf(process), expected);
}

// CUPTI's limit of 250 buffers is 800 MB on each device, enough to run a trainer out of memory.
TEST(SettingsTest, CuptiMayTakeAQuarterOfTheFreeMemoryOfTheGpu) {
  constexpr struct {
    const char* free_mib;
    uint64_t buffers;
  } kCases[] = {{"64", 16}, {"1000", 81}, {"4000", 250}};
  for (const auto& each : kCases) {
    GpuProcess process({.environment = {{"SGPU_FREE_MIB", each.free_mib}}});
    auto capture = RecordWith(process);
    EXPECT_EQ(SettingsOf(process).pool_limit, each.buffers) << each.free_mib;
    capture->Finish();
  }
}

TEST(SettingsTest, ASettingThatCannotBeReadIsNotChanged) {
  GpuProcess process;
  process.Run("fail cuptiActivityGetAttribute=999");
  auto capture = RecordWith(process);
  EXPECT_EQ(SettingsOf(process).pool_limit, 250u);
  EXPECT_EQ(SettingsOf(process).zeroed_buffers, 0u);
  EXPECT_EQ(capture->Finish().kernels.size(), 10u);
}

// cudaEventQuery() waits for nothing, and polls.
TEST(SettingsTest, QueriesOfEventsAreNotRecordedAsSynchronization) {
  GpuProcess process;
  auto capture = RecordWith(process);
  process.Run("queries 500; sync");
  EXPECT_LT(capture->Finish().syncs.size(), 10u);
}

}  // namespace
}  // namespace profd::testing
