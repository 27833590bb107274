#include "daemon/report/index/short_replays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "daemon/report/findings/quality.h"
#include "daemon/report/gpu/idle_table.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kUs = 1000;
constexpr int64_t kPeriodNs = 100 * kUs;

class ShortReplaysTest : public testing::Test {
 protected:
  // A letter per kernel of 10 us, without gaps; a space is one whose record was lost.
  void Replay(std::string_view kernels, uint32_t graph = 5) {
    const int64_t launch_ns = kPeriodNs * next_;
    const uint32_t correlation = ++next_;
    reader_.ApiCall(main_, "cudaGraphLaunch_v10000", launch_ns, launch_ns + 5 * kUs, correlation);
    int64_t at_ns = launch_ns + 10 * kUs;
    for (const char kernel : kernels) {
      if (kernel != ' ') {
        reader_.Kernel(std::string(1, kernel), at_ns, at_ns + 10 * kUs, correlation,
                       {.graph_id = graph});
      }
      at_ns += 10 * kUs;
    }
  }
  ShortReplays Find() {
    const auto attribution = GpuAttribution::Build(reader_);
    EXPECT_THAT(attribution, IsOk());
    const auto found = FindShortReplays(reader_, *attribution);
    EXPECT_THAT(found, IsOk());
    return found.ok() ? *found : ShortReplays();
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t next_ = 0;
};

TEST_F(ShortReplaysTest, AReplayThatLacksKernelsOfTheOthersIsFound) {
  for (const uint32_t graph : {5U, 0U}) {
    for (const std::string_view kernels :
         {"ABCD", "ABCD", "AB D", "ABCD", "ABCD", "A", "ABCD", "ABCD"}) {
      Replay(kernels, graph);
    }
  }
  const ShortReplays found = Find();
  EXPECT_EQ(found.count, 4);
  EXPECT_EQ(found.missing_count, 8);
}

TEST_F(ShortReplaysTest, ItIsALaunchWithoutAllItsWorkAndItsGapsAreUnknown) {
  for (int i = 0; i < 4; ++i) Replay("ABCD");
  Replay("AB D");
  Replay("A");
  for (int i = 0; i < 6; ++i) Replay("ABCD");
  const auto checks = CheckEvents(reader_);
  ASSERT_THAT(checks, IsOk());
  EXPECT_EQ(checks->short_graph_count, 2);
  EXPECT_EQ(checks->missing_node_count, 4);
  EXPECT_EQ(checks->silent_launch_count, 0);
  const SilentLaunches silent = SilentLaunchesOf(*checks);
  EXPECT_EQ(silent.count, 2);
  EXPECT_EQ(silent.of, 12);
  EXPECT_THAT(silent.Clause(),
              HasSubstr("have less than other replays of their graph (4 activities are missing)"));
  const auto idle = SummarizeIdle(reader_);
  ASSERT_THAT(idle, IsOk());
  // Between replays the GPU is idle for 60 us, 11 times. The gap of C in one replay, and that of
  // BCD in the other, are not; nor is the time from their launches to their first kernels.
  EXPECT_EQ(idle->rows.at(0).busy_ns, (12 * 4 - 4) * 10 * kUs);
  EXPECT_EQ(idle->rows.at(0).idle_ns, (11 * 60 - 2 * 10) * kUs);
}

TEST_F(ShortReplaysTest, ItCountsWhileOtherGraphsAreCaptured) {
  reader_.ApiCall(main_, "cudaStreamBeginCapture_v10000", -50, -40, 90)
      .ApiCall(main_, "cudaLaunchKernel", 250 * kUs, 251 * kUs, 91);
  for (int i = 0; i < 4; ++i) Replay("ABCD");
  Replay("AB D");
  for (int i = 0; i < 4; ++i) Replay("ABCD");
  const auto checks = CheckEvents(reader_);
  ASSERT_THAT(checks, IsOk());
  EXPECT_TRUE(checks->captures_graphs);
  EXPECT_EQ(checks->silent_launch_count, 1);
  EXPECT_EQ(SilentLaunchesOf(*checks).count, 1);
  EXPECT_EQ(SilentLaunchesOf(*checks).missing_node_count, 1);
}

TEST_F(ShortReplaysTest, GraphsOfDifferentSizesAreNot) {
  for (int i = 0; i < 8; ++i) {
    Replay("ABCD", 5);
    Replay("AB", 6);
  }
  Replay("ABC", 7);
  Replay("ABCD", 5);
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, GraphsWithoutANumberAreToldApartByTheirWork) {
  for (int i = 0; i < 8; ++i) Replay("ABCD", 0);
  Replay("AX", 0);
  for (int i = 0; i < 8; ++i) Replay("ABCD", 0);
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, NodesThatSomeReplaysLeaveOutAreConditional) {
  for (int i = 0; i < 20; ++i) Replay(i % 10 == 4 ? "ABD" : "ABCD");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, RoundsOfALoopMayBeFewer) {
  for (int i = 0; i < 20; ++i) Replay(i == 7 ? "ABCBCD" : i == 11 ? "ABCD" : "ABCBCBCD");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, AGraphWhoseReplaysAlsoDifferOtherwiseIsConditional) {
  for (int i = 0; i < 20; ++i) Replay(i == 7 ? "ABD" : i == 11 ? "ABCDE" : "ABCD");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, RepeatedWorkMayBeMissingToo) {
  for (int i = 0; i < 20; ++i) Replay(i == 7 ? "AB BC" : "ABDBCBC");
  const ShortReplays found = Find();
  EXPECT_EQ(found.count, 1);
  EXPECT_EQ(found.missing_count, 3);
}

TEST_F(ShortReplaysTest, TheGapsOfReplaysThatWereLaunchedMeanwhileStayKnown) {
  // The host launches all first. Each replay then takes 40 us of 100.
  for (uint32_t i = 1; i <= 10; ++i) {
    reader_.ApiCall(main_, "cudaGraphLaunch_v10000", i * kUs, (i + 1) * kUs, i);
  }
  for (uint32_t i = 1; i <= 10; ++i) {
    int64_t at_ns = i * kPeriodNs;
    for (const char kernel : std::string_view(i == 6 ? "AB D" : "ABCD")) {
      if (kernel != ' ') {
        reader_.Kernel(std::string(1, kernel), at_ns, at_ns + 10 * kUs, i, {.graph_id = 5});
      }
      at_ns += 10 * kUs;
    }
  }
  const ShortReplays found = Find();
  EXPECT_EQ(found.count, 1);
  const auto idle = SummarizeIdle(reader_);
  ASSERT_THAT(idle, IsOk());
  EXPECT_EQ(idle->rows.at(0).busy_ns, (10 * 4 - 1) * 10 * kUs);
  // Of 9 gaps the one before the short replay is unknown, and its own.
  EXPECT_EQ(idle->rows.at(0).idle_ns, 8 * 60 * kUs);
}

TEST_F(ShortReplaysTest, NodesThatAreOffFromSomeTimeOnAreNotLost) {
  for (int i = 0; i < 10; ++i) Replay("ABCD");
  Replay("ABD");
  Replay("AB");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, TheEdgesOfTheRecordingCutReplays) {
  Replay("  CD");
  for (int i = 0; i < 10; ++i) Replay("ABCD");
  Replay("AB");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, TooFewReplaysDoNotSayWhatAGraphDoes) {
  Replay("ABCD");
  Replay("AB");
  Replay("ABCD");
  EXPECT_EQ(Find().count, 0);
}

TEST_F(ShortReplaysTest, AGraphThatIsOneRowHasAllItsWork) {
  for (uint32_t i = 1; i <= 8; ++i) {
    reader_.ApiCall(main_, "cudaGraphLaunch", i * kPeriodNs, i * kPeriodNs + kUs, i);
    reader_.GraphLaunch(i * kPeriodNs + kUs, i * kPeriodNs + 9 * kUs, i, {.graph_id = 5});
  }
  EXPECT_EQ(Find().count, 0);
}

}  // namespace
}  // namespace profd::report
