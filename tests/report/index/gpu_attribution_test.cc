#include "daemon/report/index/gpu_attribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::NotNull;

class GpuAttributionTest : public testing::Test {
 protected:
  GpuAttribution Build() {
    absl::StatusOr<GpuAttribution> built = GpuAttribution::Build(reader_);
    EXPECT_THAT(built, IsOk());
    return built.ok() ? *std::move(built) : GpuAttribution();
  }
  // Names from the outermost range inward.
  std::vector<std::string> PathOf(const GpuAttribution& attribution, uint32_t correlation) {
    const GpuAttribution::Call* call = attribution.Find(correlation);
    EXPECT_THAT(call, NotNull()) << correlation;
    if (call == nullptr) return {"(no call)"};
    std::vector<std::string> names;
    for (uint32_t path = call->path; path != RangePaths::kNone;
         path = attribution.paths()[path].parent) {
      names.insert(names.begin(), reader_.names()[attribution.paths()[path].name]);
    }
    return names;
  }
  FakeCaptureReader& Launch(uint32_t thread, int64_t start_ns, uint32_t correlation) {
    return reader_.ApiCall(thread, "cudaLaunchKernel", start_ns, start_ns + 2, correlation);
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  const uint32_t other_ = reader_.AddThread(2, "other");
};

TEST_F(GpuAttributionTest, ACallLiesInAllRangesOfItsThreadThatItBeginsIn) {
  reader_.Range(main_, "step", 0, 100)
      .Range(main_, "forward", 10, 60)
      .Range(main_, "matmul", 20, 50)
      .Range(other_, "loader", 0, 200);
  Launch(main_, 30, 12);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 12), ElementsAre("step", "forward", "matmul"));
  const GpuAttribution::Call& call = *attribution.Find(12);
  EXPECT_EQ(call.start_ns, 30);
  EXPECT_EQ(call.end_ns, 32);
  EXPECT_EQ(call.range_start_ns, 20);
  EXPECT_EQ(call.thread, main_);
  EXPECT_EQ(reader_.names()[call.name], "cudaLaunchKernel");
}

TEST_F(GpuAttributionTest, CallsBetweenChildrenBelongToTheParent) {
  reader_.Range(main_, "step", 0, 100).Range(main_, "a", 10, 20).Range(main_, "b", 30, 40);
  Launch(main_, 5, 1);
  Launch(main_, 12, 2);
  Launch(main_, 25, 3);
  Launch(main_, 35, 4);
  Launch(main_, 45, 5);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("step"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("step", "a"));
  EXPECT_THAT(PathOf(attribution, 3), ElementsAre("step"));
  EXPECT_THAT(PathOf(attribution, 4), ElementsAre("step", "b"));
  EXPECT_THAT(PathOf(attribution, 5), ElementsAre("step"));
}

TEST_F(GpuAttributionTest, ARangesEndIsOutsideItAndItsStartInside) {
  reader_.Range(main_, "a", 10, 20).Range(main_, "b", 20, 30);
  Launch(main_, 10, 1);
  Launch(main_, 20, 2);
  Launch(main_, 30, 3);
  Launch(main_, 9, 4);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("a"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("b"));
  EXPECT_THAT(PathOf(attribution, 3), IsEmpty());
  EXPECT_THAT(PathOf(attribution, 4), IsEmpty());
}

// Two coroutines of one thread: the second one goes on when the first one has ended.
TEST_F(GpuAttributionTest, OfImportedRangesThatOverlapTheOneThatBeganLastHasTheCall) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Range(main_, "A", 0, 100)
      .Range(main_, "aten::mm", 10, 20)
      .Range(main_, "aten::add", 60, 70)
      .Range(main_, "B", 50, 150)
      .Range(main_, "C", 200, 300);
  Launch(main_, 12, 1);
  Launch(main_, 30, 2);
  Launch(main_, 55, 3);
  Launch(main_, 62, 4);
  Launch(main_, 120, 5);
  Launch(main_, 250, 6);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("A", "aten::mm"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("A"));
  EXPECT_THAT(PathOf(attribution, 3), ElementsAre("B"));
  EXPECT_THAT(PathOf(attribution, 4), ElementsAre("B", "aten::add"));
  EXPECT_THAT(PathOf(attribution, 5), ElementsAre("B"));
  EXPECT_THAT(PathOf(attribution, 6), ElementsAre("C"));
}

TEST_F(GpuAttributionTest, WhatIsNestedInACutRangeIsCutToo) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Range(main_, "A", 0, 100).Range(main_, "C", 10, 90).Range(main_, "B", 50, 150);
  reader_.Range(main_, "D", 200, 300).Range(main_, "E", 210, 230).Range(main_, "F", 220, 240);
  Launch(main_, 20, 1);
  Launch(main_, 60, 2);
  Launch(main_, 95, 3);
  Launch(main_, 225, 4);
  Launch(main_, 260, 5);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("A", "C"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("B"));
  EXPECT_THAT(PathOf(attribution, 3), ElementsAre("B"));
  EXPECT_THAT(PathOf(attribution, 4), ElementsAre("D", "F"));
  EXPECT_THAT(PathOf(attribution, 5), ElementsAre("D"));
}

TEST_F(GpuAttributionTest, OfThreeImportedRangesThatOverlapEachIsCutByTheNext) {
  reader_.mutable_record().imported.source = "trace.json";
  reader_.Range(main_, "A", 0, 100).Range(main_, "B", 40, 140).Range(main_, "C", 80, 180);
  for (uint32_t i = 0; i < 9; ++i) Launch(main_, 20 * i + 1, i + 1);
  const GpuAttribution attribution = Build();
  for (const uint32_t i : {1U, 2U}) EXPECT_THAT(PathOf(attribution, i), ElementsAre("A"));
  for (const uint32_t i : {3U, 4U}) EXPECT_THAT(PathOf(attribution, i), ElementsAre("B"));
  for (uint32_t i = 5; i <= 9; ++i) EXPECT_THAT(PathOf(attribution, i), ElementsAre("C"));
}

TEST_F(GpuAttributionTest, CallsMayComeInAnyOrder) {
  reader_.BatchRows(2).Range(main_, "a", 0, 10).Range(main_, "b", 10, 20).Range(other_, "c", 0, 9);
  Launch(main_, 15, 1);
  Launch(other_, 3, 2);
  Launch(main_, 5, 3);
  Launch(main_, 12, 4);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("b"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("c"));
  EXPECT_THAT(PathOf(attribution, 3), ElementsAre("a"));
  EXPECT_THAT(PathOf(attribution, 4), ElementsAre("b"));
  EXPECT_EQ(attribution.calls().size(), 4u);
  EXPECT_EQ(attribution.CallsOf(main_).size(), 3u);
  EXPECT_THAT(attribution.CallsOf(7), IsEmpty());
}

TEST_F(GpuAttributionTest, TheSamePathIsOneNodeHoweverOftenItRuns) {
  for (int64_t i = 0; i < 50; ++i) {
    reader_.Range(main_, "step", i * 100, i * 100 + 90)
        .Range(main_, "op", i * 100 + 10, i * 100 + 50);
    Launch(main_, i * 100 + 20, static_cast<uint32_t>(i + 1));
  }
  const GpuAttribution attribution = Build();
  EXPECT_EQ(attribution.paths().size(), 3u);  // None, step, step > op
  EXPECT_EQ(attribution.Find(1)->path, attribution.Find(50)->path);
  EXPECT_EQ(attribution.Find(50)->range_start_ns, 4910);
}

TEST_F(GpuAttributionTest, TheStepIsTheOneThatTheCallBeganIn) {
  reader_.Step(10, 0, 100).Step(11, 100, 100);
  Launch(main_, 99, 1);
  Launch(main_, 100, 2);
  Launch(main_, 200, 3);
  const GpuAttribution attribution = Build();
  EXPECT_EQ(attribution.StepIndexOf(*attribution.Find(1)), 10);
  EXPECT_EQ(attribution.StepIndexOf(*attribution.Find(2)), 11);
  EXPECT_EQ(attribution.StepIndexOf(*attribution.Find(3)), -1);
}

TEST_F(GpuAttributionTest, WorkWhoseLaunchIsNotInTheCaptureHasNone) {
  Launch(main_, 10, 5);
  Launch(main_, 20, 0);  // Launched nothing.
  const GpuAttribution attribution = Build();
  EXPECT_EQ(attribution.Find(4), nullptr);
  EXPECT_EQ(attribution.Find(6), nullptr);
  EXPECT_EQ(attribution.Find(0), nullptr);
  EXPECT_EQ(attribution.Find(std::numeric_limits<uint32_t>::max()), nullptr);
}

TEST_F(GpuAttributionTest, OfCallsWithOneCorrelationTheFirstIsTaken) {
  Launch(other_, 20, 5);
  Launch(main_, 30, 5);
  Launch(main_, 10, 5);
  EXPECT_EQ(Build().Find(5)->start_ns, 10);
}

TEST_F(GpuAttributionTest, CorrelationsFarApartAreFoundToo) {
  const uint32_t last = std::numeric_limits<uint32_t>::max();
  Launch(main_, 10, 1);
  Launch(main_, 20, last);
  Launch(main_, 30, 1'000'000'000);
  Launch(other_, 5, last);
  const GpuAttribution attribution = Build();
  EXPECT_EQ(attribution.Find(1)->start_ns, 10);
  EXPECT_EQ(attribution.Find(1'000'000'000)->start_ns, 30);
  EXPECT_EQ(attribution.Find(last)->start_ns, 5);
  EXPECT_EQ(attribution.Find(2), nullptr);
}

TEST_F(GpuAttributionTest, CallsOfARangeThatWasDroppedFallToTheRangeAroundIt) {
  reader_.Range(main_, "step", 0, 100, {.depth = 0}).Range(main_, "leaf", 20, 40, {.depth = 2});
  Launch(main_, 15, 1);
  Launch(main_, 30, 2);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), ElementsAre("step"));
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("step", "leaf"));
}

TEST_F(GpuAttributionTest, AnOutermostRangeThatWasDroppedLeavesItsChildrenOutermost) {
  reader_.Range(main_, "leaf", 20, 40, {.depth = 3}).Range(main_, "next", 50, 60, {.depth = 0});
  Launch(main_, 10, 1);
  Launch(main_, 30, 2);
  Launch(main_, 55, 3);
  const GpuAttribution attribution = Build();
  EXPECT_THAT(PathOf(attribution, 1), IsEmpty());
  EXPECT_THAT(PathOf(attribution, 2), ElementsAre("leaf"));
  EXPECT_THAT(PathOf(attribution, 3), ElementsAre("next"));
}

TEST_F(GpuAttributionTest, NestingDeeperThanCanBeEndsAtTheDeepestPath) {
  constexpr int64_t kDepth = 1000;
  for (int64_t i = 0; i < kDepth; ++i) {
    reader_.Range(main_, std::to_string(i), i, 10 * kDepth - i);
  }
  Launch(main_, kDepth + 1, 1);
  const std::vector<std::string> path = PathOf(Build(), 1);
  ASSERT_EQ(path.size(), RangePaths::kMaxDepth);
  EXPECT_EQ(path.front(), "0");
}

TEST_F(GpuAttributionTest, ReadsOnlyTheColumnsAndThreadsItNeeds) {
  reader_.Range(main_, "a", 0, 10);
  Build();
  EXPECT_THAT(reader_.range_readings(), IsEmpty());
  Launch(main_, 5, 1);
  Build();
  EXPECT_THAT(reader_.range_readings(),
              ElementsAre(kRangeStart | kRangeDuration | kRangeName | kRangeDepth));
}

TEST_F(GpuAttributionTest, AReadersErrorIsItsError) {
  Launch(main_, 5, 1).FailAfter(0, absl::DataLossError("bad chunk"));
  EXPECT_THAT(GpuAttribution::Build(reader_), StatusIs(absl::StatusCode::kDataLoss));
}

// The definition itself, call by call, over nested ranges made by chance.
TEST_F(GpuAttributionTest, AgreesWithASearchThroughAllRanges) {
  struct Made {
    int64_t start;
    int64_t end;
    std::string name;
  };
  std::mt19937 random(7);
  std::vector<Made> made;
  const auto nest = [&](auto& self, int64_t begin, int64_t end, int depth) -> void {
    int64_t at = begin;
    while (at < end) {
      const int64_t start = at + static_cast<int64_t>(random() % 20);
      const int64_t stop = start + static_cast<int64_t>(random() % 200);
      if (stop > end) return;
      made.push_back({start, stop, "n" + std::to_string(random() % 5)});
      if (depth < 6) self(self, start, stop, depth + 1);
      at = stop + 1;
    }
  };
  nest(nest, 0, 5000, 0);
  for (const Made& range : made) reader_.Range(main_, range.name, range.start, range.end);
  reader_.BatchRows(37);
  std::vector<int64_t> starts;
  for (uint32_t i = 0; i < 2000; ++i) {
    starts.push_back(static_cast<int64_t>(random() % 5200) - 100);
    Launch(main_, starts.back(), i + 1);
  }
  const GpuAttribution attribution = Build();
  for (uint32_t i = 0; i < starts.size(); ++i) {
    std::vector<std::string> expected;  // `made` has parents before their children.
    for (const Made& range : made) {
      if (range.start <= starts[i] && starts[i] < range.end) expected.push_back(range.name);
    }
    ASSERT_EQ(PathOf(attribution, i + 1), expected) << "a call at " << starts[i];
  }
}

TEST_F(GpuAttributionTest, AnyOrderOfAHostileFileIsSafe) {
  std::mt19937_64 random(11);
  const auto any_time = [&] { return static_cast<int64_t>(random() >> 2); };
  for (int i = 0; i < 500; ++i) {
    const int64_t start = any_time();
    reader_.Range(main_, "r", start, start + static_cast<int64_t>(random() >> 3),
                  {.depth = static_cast<uint16_t>(random() % 4)});
    Launch(main_, any_time() / 2, static_cast<uint32_t>(random()));
  }
  const GpuAttribution attribution = Build();
  for (const GpuAttribution::Call& call : attribution.calls()) {
    EXPECT_LT(call.path, attribution.paths().size());
  }
}

}  // namespace
}  // namespace profd::report
