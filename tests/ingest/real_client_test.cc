// The real library against the real server: what one thread does between marks is what the
// capture holds, exactly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <thread>

#include "client_lib/include/profd/profd.h"
#include "tests/ingest/server_fixture.h"

namespace profd {
namespace {

using testing::SizeIs;

profd_name kOuter = PROFD_NAME_INIT("outer");
profd_name kInner = PROFD_NAME_INIT("inner");
profd_name kTick = PROFD_NAME_INIT("tick");
profd_name kLoader = PROFD_NAME_INIT("load");

constexpr int kInnerPerStep = 50;

class RealClientTest : public TargetServerTest {
 protected:
  void StartWithLibrary() {
    // The library stays with the directory that it found first, and comes back to it.
    static const TempDir socket_dir;
    options_.several_per_process_for_testing = false;
    StartAt(socket_dir.path());
    setenv("PROFD_SOCKET_DIR", socket_dir.path().c_str(), 1);
    ASSERT_EQ(profd_init(), PROFD_OK);
    number_ = OnlyTarget().number;
  }
  static void Step() {
    profd_step();
    profd_instant(&kTick);  // Often at the very tick of the mark.
    profd_range_begin(&kOuter);
    for (int i = 0; i < kInnerPerStep; ++i) {
      profd_range_begin(&kInner);
      profd_range_end();
    }
    profd_range_end();
    profd_instant(&kTick);
  }
  void ArmFire(const std::string& id, CaptureSink& sink, const FirePlan& plan) {
    ASSERT_THAT(Arm(number_, id, sink, 16 << 20), IsOk());
    observer_.WaitArmed(id);
    server_->Fire(id, plan);
    observer_.WaitPhase(id, RecordingPhase::kWaiting);
  }
  DrainResult StepUntilEnded(const std::string& id, void (*step)() = &Step) {
    const auto ended = [&] {
      const std::vector<Progress> progress = observer_.progress(id);
      return !progress.empty() && progress.back().phase == RecordingPhase::kEnded;
    };
    while (!ended()) step();
    server_->Stop(id);
    return observer_.WaitDrained(id);
  }
  static std::map<std::string, int64_t> CountByName(const RecordingSink& sink) {
    std::map<std::string, int64_t> counts;
    for (const std::string& name : sink.range_names()) ++counts[name];
    for (const auto& instant : sink.instants()) ++counts[instant.name];
    return counts;
  }
  void ExpectExact(const RecordingSink& sink, const DrainResult& result, int64_t steps) {
    const auto counts = CountByName(sink);
    EXPECT_EQ(counts.at("outer"), steps);
    EXPECT_EQ(counts.at("inner"), steps * kInnerPerStep);
    EXPECT_EQ(counts.at("tick"), 2 * steps);
    EXPECT_EQ(result.event_count, steps * (kInnerPerStep + 3));
    EXPECT_EQ(TotalDrops(result.drops), 0);
    EXPECT_EQ(result.open_range_count, 0);
    EXPECT_EQ(result.truncated_range_count, 0);
    for (const RecordedWindow& window : result.windows) EXPECT_TRUE(window.complete);
  }

  TargetNumber number_ = 0;
};

TEST_F(RealClientTest, StepsHoldExactlyWhatWasDoneInThem) {
  StartWithLibrary();
  Step();
  for (int round = 0; round < 20; ++round) {
    const std::string id = StrCat("R", round);
    RecordingSink sink;
    ArmFire(id, sink, {.steps = 5, .warmup_steps = round % 3});
    const DrainResult result = StepUntilEnded(id);
    ASSERT_THAT(result.windows, SizeIs(1));
    EXPECT_EQ(result.windows[0].end_step - result.windows[0].first_step, 5);
    ExpectExact(sink, result, 5);
    EXPECT_EQ(result.warmup_event_count, round % 3 * (kInnerPerStep + 3));
    EXPECT_THAT(sink.steps(), SizeIs(6 + round % 3));
  }
}

TEST_F(RealClientTest, WindowsThatTouchShareNoEventAndLoseNone) {
  StartWithLibrary();
  Step();
  RecordingSink sink;
  ArmFire("A", sink, {.steps = 2, .repeat = 20});
  const DrainResult result = StepUntilEnded("A");
  EXPECT_THAT(result.windows, SizeIs(20));
  ExpectExact(sink, result, 40);
  EXPECT_THAT(sink.steps(), SizeIs(41));
}

TEST_F(RealClientTest, WindowsApartWithWarmup) {
  StartWithLibrary();
  Step();
  RecordingSink sink;
  ArmFire("A", sink, {.steps = 2, .wait_steps = 3, .warmup_steps = 1, .repeat = 5});
  const DrainResult result = StepUntilEnded("A");
  EXPECT_THAT(result.windows, SizeIs(5));
  ExpectExact(sink, result, 10);
}

TEST_F(RealClientTest, RangesThatStepsLeaveOpenAreUnended) {
  StartWithLibrary();
  Step();
  RecordingSink sink;
  ArmFire("A", sink, {.steps = 4, .warmup_steps = 1});
  const DrainResult result = StepUntilEnded("A", [] {
    profd_step();
    profd_range_begin(&kOuter);  // Never ended.
    const uint64_t request = profd_range_open_id(profd_intern("request", 7));
    profd_range_begin(&kInner);
    profd_range_end();
    static_cast<void>(request);  // Still answered.
  });
  std::map<std::string, std::vector<int>> flags;
  for (const auto& range : sink.ranges()) flags[range.name].push_back(range.row.flags);
  EXPECT_THAT(flags["outer"],
              testing::ElementsAre(kRangeOpen | kRangeUnended, kRangeOpen | kRangeUnended,
                                   kRangeOpen | kRangeUnended, kRangeOpen | kRangeUnended,
                                   kRangeOpen | kRangeTruncated));
  EXPECT_THAT(flags["request"], testing::ElementsAre(kRangeOpen, kRangeOpen, kRangeOpen, kRangeOpen,
                                                     kRangeOpen | kRangeTruncated));
  EXPECT_THAT(flags["inner"], testing::ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(TotalDrops(result.drops), 0);
}

TEST_F(RealClientTest, BusyThreadsAreReadWithoutAnInvalidRecord) {
  StartWithLibrary();
  Step();
  std::atomic<bool> stop{false};
  std::vector<std::thread> loaders;
  loaders.reserve(2);
  for (int i = 0; i < 2; ++i) {
    loaders.emplace_back([&stop] {
      profd_thread_name("loader");
      while (!stop.load(std::memory_order_relaxed)) {
        profd_range_begin(&kLoader);
        profd_range_begin(&kInner);
        profd_range_end();
        profd_range_end();
      }
    });
  }
  RecordingSink sink;
  ASSERT_THAT(Arm(number_, "A", sink, 16 << 20), IsOk());
  observer_.WaitArmed("A");
  server_->Fire("A", {});
  EXPECT_TRUE(Eventually([&sink] {
    int named = 0;
    for (const auto& [index, thread] : sink.threads()) named += thread.name == "loader";
    return named == 2;
  }));
  server_->Stop("A");
  const DrainResult result = observer_.WaitDrained("A");
  stop = true;
  for (std::thread& loader : loaders) loader.join();
  EXPECT_EQ(result.drops[static_cast<size_t>(DropReason::kInvalidRecord)], 0);
  EXPECT_EQ(static_cast<int64_t>(sink.ranges().size()), result.event_count);
}

TEST_F(RealClientTest, ADurationEndsAtStop) {
  StartWithLibrary();
  RecordingSink sink;
  ASSERT_THAT(Arm(number_, "A", sink), IsOk());
  observer_.WaitArmed("A");
  server_->Fire("A", {});
  observer_.WaitPhase("A", RecordingPhase::kRecording);
  profd_range_begin(&kOuter);
  profd_range_begin(&kInner);
  profd_range_end();
  server_->Stop("A");
  const DrainResult result = observer_.WaitDrained("A");
  profd_range_end();
  EXPECT_EQ(result.event_count, 2);
  EXPECT_EQ(result.open_range_count, 1);
  ASSERT_THAT(result.windows, SizeIs(1));
  EXPECT_TRUE(result.windows[0].complete);
  EXPECT_EQ(result.windows[0].first_step, -1);
}

}  // namespace
}  // namespace profd
