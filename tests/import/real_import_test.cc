// Traces of real GPUs hold after import what a plain reading of their JSON counts in them.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "tests/import/import_fixture.h"
#include "tests/import/real_traces.h"
#include "tests/import/unzip.h"

namespace profd::importer {
namespace {

// How many there are, and the sum of their durations.
struct Sum {
  int64_t count = 0;
  int64_t ns = 0;
  friend bool operator==(const Sum& a, const Sum& b) { return a.count == b.count && a.ns == b.ns; }
};
void PrintTo(const Sum& sum, std::ostream* out) { *out << sum.count << " of " << sum.ns << " ns"; }
using Sums = std::map<std::string, Sum>;

Sums SumsOfJson(const std::filesystem::path& path) {
  Sums sums;
  const auto json = nlohmann::json::parse(Unzip(path), nullptr, /*allow_exceptions=*/false);
  for (const auto& event : json["traceEvents"]) {
    const std::string phase = event.value("ph", "");
    const std::string name = event.value("name", "");
    if (phase == "i" && name == "[memory]") {
      Sum& sum = sums["memory"];
      ++sum.count;
      sum.ns += event["args"]["Bytes"].get<int64_t>();
    }
    if (phase != "X" || !event.contains("dur")) continue;
    std::string category = event.value("cat", "");
    if (category == "user_annotation" && name.starts_with("ProfilerStep#")) category = "step";
    if (category == "Trace" || category == "gpu_user_annotation") continue;
    Sum& sum = sums[category];
    ++sum.count;
    sum.ns += std::llround(event["dur"].get<double>() * 1000);
  }
  return sums;
}

Sums SumsOfCapture(store::CaptureReader& reader) {
  Sums sums;
  const auto add = [&sums](std::string_view what, int64_t ns) {
    Sum& sum = sums[std::string(what)];
    ++sum.count;
    sum.ns += ns;
  };
  constexpr std::string_view kRanges[] = {"user_annotation", "cpu_op", "python_function"};
  constexpr std::string_view kWork[] = {"", "kernel", "gpu_memcpy", "gpu_memset"};
  EXPECT_THAT(reader.ForEach<RangeRow>(kRangeAllColumns, {},
                                       [&](const RangeBatch& batch) {
                                         for (size_t i = 0; i < batch.size; ++i)
                                           add(kRanges[batch.category[i]], batch.duration_ns[i]);
                                         return absl::OkStatus();
                                       }),
              IsOk());
  EXPECT_THAT(reader.ForEach<ApiRow>([&](const ApiBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      add(batch.is_driver[i] != 0 ? "cuda_driver" : "cuda_runtime", batch.duration_ns[i]);
    }
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(reader.ForEach<GpuRow>(kGpuAllColumns, {},
                                     [&](const GpuBatch& batch) {
                                       for (size_t i = 0; i < batch.size; ++i)
                                         add(kWork[batch.kind[i]], batch.duration_ns[i]);
                                       return absl::OkStatus();
                                     }),
              IsOk());
  EXPECT_THAT(reader.ForEach<SyncRow>([&](const SyncBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) add("cuda_sync", batch.duration_ns[i]);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(reader.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) add("overhead", batch.duration_ns[i]);
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_THAT(reader.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      add("memory", batch.is_free[i] != 0 ? -batch.bytes[i] : batch.bytes[i]);
    }
    return absl::OkStatus();
  }),
              IsOk());
  for (const StepRecord& step : reader.steps()) add("step", step.duration_ns);
  return sums;
}

class KeptTraceTest : public ImportTest {
 protected:
  void ExpectAllIsThere(const std::filesystem::path& trace) {
    const auto imported = Import(trace);
    ASSERT_THAT(imported, IsOk());
    const auto reader = Open(imported->file);
    EXPECT_EQ(SumsOfCapture(*reader), SumsOfJson(trace));
    for (const auto& [kind, count] : imported->record.imported.not_understood) {
      EXPECT_TRUE(kind.starts_with("arg:")) << kind << " " << count;
    }
  }
};

class RealImportTest : public KeptTraceTest, public testing::WithParamInterface<const char*> {};

TEST_P(RealImportTest, HoldsWhatItsJsonCounts) {
  const std::filesystem::path trace = RealTrace(GetParam());
  if (!std::filesystem::exists(trace)) GTEST_SKIP() << "no " << trace;
  ExpectAllIsThere(trace);
}

INSTANTIATE_TEST_SUITE_P(Traces, RealImportTest, testing::ValuesIn(kRealTraces), RealTraceName);

TEST_F(KeptTraceTest, HoldsWhatItsJsonCounts) {
  ExpectAllIsThere(std::filesystem::path(std::getenv("PROFD_SOURCE_DIR")) /
                   "tests/data/alexnet_train.json.gz");
}

}  // namespace
}  // namespace profd::importer
