// GPU work as other profilers, and tools that rewrite traces, have it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"
#include "daemon/report/gpu/idle_table.h"
#include "tests/fakes/status_matchers.h"
#include "tests/import/import_fixture.h"

namespace profd::importer {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

using OddGpuEventsTest = ImportTest;

TEST_F(OddGpuEventsTest, StreamsThatAreNoIntegersStayApart) {
  const auto kernel = [](int64_t start_us, std::string_view stream) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":"GPU","ts":)", start_us,
                  R"(,"dur":5,"args":{"device":0,"stream":)", stream, "}}");
  };
  for (const auto& [first, second] :
       {std::pair(R"("0x7f0a12345678")", R"("0x7f0a12345680")"), std::pair("7.0", "20.0"),
        std::pair("1e15", "2e15"), std::pair(R"("stream 7")", R"("stream 20")"),
        std::pair(R"("compute")", R"("copy")")}) {
    SCOPED_TRACE(first);
    const auto reader =
        ReadEvents(StrCat(kernel(10, first), ",", kernel(20, second), ",", kernel(30, first)));
    ASSERT_NE(reader, nullptr);
    const auto idle = report::SummarizeIdle(*reader);
    ASSERT_THAT(idle, IsOk());
    std::vector<int64_t> counts;
    for (const report::StreamIdleRow& row : idle->streams) counts.push_back(row.activity_count);
    EXPECT_THAT(counts, UnorderedElementsAre(2, 1));
  }
}

TEST_F(OddGpuEventsTest, AProcessNamedAfterItsGpuIsThatGpu) {
  const auto kernel = [](int64_t start_us, std::string_view pid) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":)", pid,
                  R"(,"tid":"stream 7","ts":)", start_us, R"(,"dur":5,"args":{}})");
  };
  for (const auto& [first, second] :
       {std::pair(R"("GPU 0")", R"("GPU 1")"), std::pair(R"("cuda:0")", R"("cuda:1")"),
        std::pair("0", "1")}) {
    SCOPED_TRACE(first);
    const auto reader = ReadEvents(StrCat(kernel(10, first), ",", kernel(10, second)));
    ASSERT_NE(reader, nullptr);
    std::vector<int> devices;
    EXPECT_THAT(reader->ForEach<GpuRow>([&](const GpuBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) devices.push_back(batch.device[i]);
      return absl::OkStatus();
    }),
                IsOk());
    EXPECT_THAT(devices, UnorderedElementsAre(0, 1));
  }
}

TEST_F(OddGpuEventsTest, AGridThatNoGpuHasIsUnknown) {
  const auto kernel = [](int64_t start_us, std::string_view grid, std::string_view block) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", start_us,
                  R"(,"dur":5,"args":{"device":0,"stream":7,"grid":)", grid, R"(,"block":)", block,
                  "}}");
  };
  using Sides = std::array<uint32_t, 3>;
  const auto grid_of = [&](std::string_view grid) {
    Sides sides = {9, 9, 9};
    const auto reader = ReadEvents(kernel(10, grid, "[256,1,1]"));
    EXPECT_NE(reader, nullptr);
    if (reader == nullptr) return sides;
    EXPECT_THAT(reader->ForEach<GpuRow>([&](const GpuBatch& batch) {
      sides = {batch.grid[0][0], batch.grid[1][0], batch.grid[2][0]};
      return absl::OkStatus();
    }),
                IsOk());
    return sides;
  };
  const Sides unknown = {};
  for (const std::string_view grid :
       {"[]", "[null,null,null]", R"(["a","b","c"])", "[4294967904,1,1]", "[-1,1,1]", "[1.5,1,1]",
        "[0,0,0]", R"("")"}) {
    EXPECT_EQ(grid_of(grid), unknown) << grid;
  }
  EXPECT_EQ(grid_of("[608.0, 1.0, 1.0]"), (Sides{608, 1, 1}));
  EXPECT_EQ(grid_of(R"(["608", "2"])"), (Sides{608, 2, 1}));
  EXPECT_EQ(grid_of(R"("[608,2,3]")"), (Sides{608, 2, 3}));
  EXPECT_EQ(grid_of("608"), (Sides{608, 1, 1}));
}

TEST_F(OddGpuEventsTest, CopiesHaveADirectionInOtherWords) {
  const auto kind_of = [&](std::string_view name) {
    uint8_t kind = 99;
    const auto reader = ReadEvents(
        StrCat(R"({"ph":"X","cat":"gpu_memcpy","name":")", name,
               R"x(","pid":0,"tid":7,"ts":10,"dur":5,"args":{"device":0,"stream":7}})x"));
    EXPECT_NE(reader, nullptr);
    if (reader == nullptr) return kind;
    EXPECT_THAT(reader->ForEach<GpuRow>([&](const GpuBatch& batch) {
      kind = batch.copy_kind[0];
      return absl::OkStatus();
    }),
                IsOk());
    return kind;
  };
  EXPECT_EQ(kind_of("CopyHostToDevice"), 1);
  EXPECT_EQ(kind_of("CopyDeviceToHost"), 2);
  EXPECT_EQ(kind_of("MEMORY_COPY_DEVICE_TO_DEVICE"), 8);
  EXPECT_EQ(kind_of("Memcpy PtoP (Device -> Device)"), 10);
  EXPECT_EQ(kind_of("something else"), 0);
}

// The other rank's calls are missing, so its kernels would be taken for the work of this one.
TEST_F(OddGpuEventsTest, OneLaunchMakesNoKernelsOnTwoGpus) {
  std::string events;
  for (int i = 1; i <= 6; ++i) {
    StrAppend(&events, R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":10,"ts":)",
              1000 * i, R"(,"dur":40},)");
    StrAppend(&events,
              R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10,"tid":10,"ts":)",
              1000 * i + 5, R"(,"dur":8,"args":{"correlation":)", i, "}},");
    for (int device = 0; device < 2; ++device) {
      StrAppend(&events, R"({"ph":"X","cat":"kernel","name":"k","pid":)", device,
                R"(,"tid":7,"ts":)", 1000 * i + 60, R"(,"dur":50,"args":{"device":)", device,
                R"(,"stream":7,"correlation":)", i, "}},");
    }
  }
  events.pop_back();
  EXPECT_THAT(ImportText(StrCat(R"({"schemaVersion":1,"traceEvents":[)", events, "]}")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("6 of its 6 launches have kernels")));
}

TEST_F(OddGpuEventsTest, WorkThatIsThereTwiceCountsOnce) {
  const auto kernel = [](int64_t start_us, int64_t correlation) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", start_us,
                  R"(,"dur":5,"args":{"device":0,"stream":7,"correlation":)", correlation, "}}");
  };
  const auto reader = ReadEvents(StrCat(kernel(10, 1), ",", kernel(20, 2), ",", kernel(10, 1), ",",
                                        kernel(20, 2), ",", kernel(30, 3)));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->gpu_row_count(), 3);
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("kernel that is there already", 2)));
}

// As those of a graph on ROCm, which have the number of its launch and nothing else.
TEST_F(OddGpuEventsTest, SeveralKernelsOfOneLaunchAllCount) {
  const auto kernel = [](int64_t start_us) {
    return StrCat(R"({"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)", start_us,
                  R"(,"dur":5,"args":{"device":0,"stream":7,"correlation":1}})");
  };
  const auto reader =
      ReadEvents(StrCat(kernel(10), ",", kernel(20), ",", kernel(20), ",", kernel(30)));
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->gpu_row_count(), 4);
}

TEST_F(OddGpuEventsTest, WorkInTwoEventsIsSaidToBeARange) {
  const auto event = [](std::string_view phase, int64_t at_us) {
    return StrCat(R"({"ph":")", phase, R"(","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)",
                  at_us, "}");
  };
  const auto reader = ReadEvents(StrCat(event("B", 10), ",", event("E", 20)));
  ASSERT_NE(reader, nullptr);
  EXPECT_THAT(reader->record().imported.not_understood,
              Contains(Pair("cat:kernel as ph:B and ph:E, taken as a range of the program", 1)));
}

}  // namespace
}  // namespace profd::importer
