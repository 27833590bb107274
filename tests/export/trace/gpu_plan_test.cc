// What is decided about the GPU's rows before any is written, and what that costs where there
// are many.
#include "daemon/export/trace/gpu_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/export/trace_export.h"
#include "tests/export/gpu_capture.h"
#include "tests/export/perfetto/exported_perfetto.h"
#include "tests/export/sink/string_sink.h"
#include "tests/export/synthetic_gpu_reader.h"
#include "tests/fakes/sanitized.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::vector<std::pair<uint32_t, uint32_t>> Siblings(std::vector<LaneSlice> slices) {
  std::vector<std::pair<uint32_t, uint32_t>> siblings;  // (ordinal, lane)
  AssignLanes(slices, [&](const LaneSlice& slice, uint32_t lane) {
    siblings.emplace_back(slice.ordinal, lane);
  });
  return siblings;
}

TEST(SliceLanesTest, WhatDoesNotOverlapStaysOnTheFirstLane) {
  EXPECT_THAT(Siblings({}), IsEmpty());
  EXPECT_THAT(Siblings({{10, 20, 0, 0}, {0, 10, 1, 0}, {20, 20, 2, 0}, {20, 30, 3, 0}}), IsEmpty());
  // Of different groups.
  EXPECT_THAT(Siblings({{0, 10, 0, 0}, {0, 10, 1, 1}, {5, 15, 2, 2}}), IsEmpty());
}

TEST(SliceLanesTest, WhatOverlapsGetsTheLowestFreeLane) {
  EXPECT_THAT(Siblings({{0, 100, 0, 4},
                        {10, 50, 1, 4},
                        {20, 30, 2, 4},
                        {30, 60, 3, 4},
                        {50, 70, 4, 4},
                        {100, 110, 5, 4}}),
              ElementsAre(Pair(1, 1), Pair(2, 2), Pair(3, 2), Pair(4, 1)));
}

TEST(SliceLanesTest, ManyAtOnceTakeAsManyLanesAndNoLongerThanSorting) {
  constexpr uint32_t kSlices = 200'000;
  std::vector<LaneSlice> slices;
  for (uint32_t i = 0; i < kSlices; ++i) slices.push_back({i, 1'000'000, i, 0});
  const auto siblings = Siblings(std::move(slices));
  ASSERT_THAT(siblings, SizeIs(kSlices - 1));
  EXPECT_EQ(siblings.back().second, kSlices - 1);
}

GpuPlan PlanOf(store::CaptureReader& reader) {
  absl::StatusOr<GpuPlan> plan =
      GpuPlan::Make(reader, MakeLayout(reader, PlaceAlone(reader.record())));
  EXPECT_THAT(plan, IsOk());
  return *std::move(plan);
}

TEST(GpuPlanTest, ACaptureWithoutGpuIsNotReadForOne) {
  FakeCaptureReader reader;
  reader.Range(reader.AddThread(1, "main"), "r", 0, 10);
  const GpuPlan plan = PlanOf(reader);
  EXPECT_TRUE(plan.empty());
  EXPECT_THAT(plan.windows(), IsEmpty());
}

TEST(GpuPlanTest, EveryRowIsInOneWindowAndWindowsAreFew) {
  constexpr uint32_t kRows = 300'000;
  SyntheticGpuReader reader(kRows, GpuRowKind::kGraphLaunch);
  const GpuPlan plan = PlanOf(reader);
  ASSERT_THAT(plan.windows(), SizeIs(2));
  std::vector<size_t> found(2);
  uint32_t ordinal = 0;
  ASSERT_THAT(reader.ForEach<GpuRow>(kGpuTime, {},
                                     [&](const GpuBatch& batch) {
                                       for (const int64_t start_ns : batch.start_ns) {
                                         int holders = 0;
                                         for (size_t i = 0; i < 2; ++i) {
                                           if (!plan.windows()[i].Holds(start_ns, ordinal))
                                             continue;
                                           ++holders;
                                           ++found[i];
                                         }
                                         EXPECT_EQ(holders, 1);
                                         ++ordinal;
                                       }
                                       return absl::OkStatus();
                                     }),
              IsOk());
  EXPECT_THAT(found, ElementsAre(GpuPlan::kWindowRows, kRows - GpuPlan::kWindowRows));
}

TEST(GpuPlanTest, RowsThatBeginTogetherAreDividedToo) {
  FakeCaptureReader reader;
  reader.AddThread(1, "main");
  constexpr size_t kRows = GpuPlan::kWindowRows + 10;
  for (size_t i = 0; i < kRows; ++i) {
    reader.Memset(5, 5, 0, {.stream = 7});
  }
  const GpuPlan plan = PlanOf(reader);
  ASSERT_THAT(plan.windows(), SizeIs(2));
  EXPECT_TRUE(plan.windows()[0].Holds(5, 0));
  EXPECT_FALSE(plan.windows()[0].Holds(5, GpuPlan::kWindowRows));
  EXPECT_TRUE(plan.windows()[1].Holds(5, GpuPlan::kWindowRows));
}

GpuBatch BatchOfStarts(std::span<const int64_t> starts, size_t size) {
  GpuBatch batch;
  batch.size = size;
  batch.start_ns = starts;
  return batch;
}

TEST(GpuPlanTest, BatchesAreFoundAgainWhereSomeAreLeftOut) {
  const std::vector<std::vector<int64_t>> starts = {{5, 1}, {9, 7}, {7, 9}, {20, 30, 25}};
  GpuBatches batches;
  for (const std::vector<int64_t>& of_batch : starts) {
    batches.Add(BatchOfStarts(of_batch, of_batch.size()));
  }
  GpuBatches::Cursor all(batches);
  EXPECT_THAT(all.FirstOrdinal(BatchOfStarts(starts[0], 2)), IsOkAndHolds(0U));
  EXPECT_THAT(all.FirstOrdinal(BatchOfStarts(starts[1], 2)), IsOkAndHolds(2U));
  EXPECT_THAT(all.FirstOrdinal(BatchOfStarts(starts[2], 2)), IsOkAndHolds(4U));
  GpuBatches::Cursor some(batches);
  EXPECT_THAT(some.FirstOrdinal(BatchOfStarts(starts[3], 3)), IsOkAndHolds(6U));
  EXPECT_THAT(some.FirstOrdinal(BatchOfStarts(starts[0], 2)),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(GpuPlanTest, APerfettoTraceOfSeveralWindowsIsWholeAndInOrder) {
  constexpr uint32_t kRows = 300'000;
  SyntheticGpuReader reader(kRows, GpuRowKind::kGraphLaunch);
  const PerfettoTrace trace = PerfettoTraceOf(reader);
  EXPECT_THAT(trace.flows, SizeIs(kRows));
  EXPECT_EQ(std::count_if(trace.slices.begin(), trace.slices.end(),
                          [](const PerfettoSlice& slice) { return slice.category == "kernel"; }),
            kRows);
}

// A file that is written to by somebody else: its rows are others whenever they are read.
class ChangingReader : public FakeCaptureReader {
 public:
  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    if (kind != RowKind::kGpu) return FakeCaptureReader::Scan(kind, columns, filter, fn);
    ++readings_;
    Kernel("more", 1'000 * readings_, 1'000 * readings_ + 10, 0, {.stream = readings_});
    return FakeCaptureReader::Scan(kind, columns, filter, fn);
  }

 private:
  uint32_t readings_ = 0;
};
class ChangingCallsReader : public FakeCaptureReader {
 public:
  absl::Status Scan(RowKind kind, uint32_t columns, const store::TimeFilter& filter,
                    absl::FunctionRef<absl::Status(const EventBatch&)> fn) override {
    if (kind != RowKind::kApiCall) return FakeCaptureReader::Scan(kind, columns, filter, fn);
    ++readings_;
    ApiCall(0, "more", 1'000 * readings_, 1'000 * readings_ + 10, 0);
    return FakeCaptureReader::Scan(kind, columns, filter, fn);
  }

 private:
  int64_t readings_ = 0;
};

TEST(GpuPlanTest, AFileThatChangesWhileItIsReadIsRefused) {
  for (const TraceFormat format : {TraceFormat::kChrome, TraceFormat::kPerfetto}) {
    ChangingReader reader;
    reader.AddThread(1, "main");
    StringSink sink;
    EXPECT_THAT(ExportTrace(reader, format, sink), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(sink.finished(), 0);
  }
  ChangingCallsReader reader;
  reader.AddThread(1, "main");
  StringSink sink;
  EXPECT_THAT(ExportTrace(reader, TraceFormat::kChrome, sink),
              StatusIs(absl::StatusCode::kDataLoss));
}

// ---- memory ----

// What the allocator has given out; 0 under sanitizers, which have their own.
size_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

class CountingSink : public StringSink {
 public:
  explicit CountingSink(bool is_json) : is_json_(is_json) { keep = false; }
  absl::Status Append(std::string_view bytes) override {
    if (!is_json_) return StringSink::Append(bytes);
    for (size_t at = 0; (at = bytes.find(kKernel, at)) != std::string_view::npos; ++at) ++kernels_;
    return StringSink::Append(bytes);
  }
  int64_t kernels() const { return kernels_; }

 private:
  static constexpr std::string_view kKernel = "\"cat\":\"kernel\"";
  const bool is_json_;
  int64_t kernels_ = 0;
};

TEST(GpuMemoryTest, AMillionRowsAndCallsCostWhatTheReadmeSays) {
  constexpr uint32_t kRows = kSanitized ? 100'000 : 1'000'000;
  for (const TraceFormat format : {TraceFormat::kChrome, TraceFormat::kPerfetto}) {
    SyntheticGpuReader reader(kRows, GpuRowKind::kKernel);
    const size_t before = HeapBytes();
    size_t most = before;
    reader.on_batch = [&] { most = std::max(most, HeapBytes()); };
    CountingSink sink(format == TraceFormat::kChrome);
    ASSERT_THAT(ExportTrace(reader, format, sink), IsOk());
    EXPECT_LE(sink.longest_piece(), size_t{1} << 20);
    if (format == TraceFormat::kChrome) {
      EXPECT_EQ(sink.kernels(), kRows);
    }
    // 64 bytes per call and 24 per row, and vectors that grow by doubling; a window of Perfetto's.
    RecordProperty("bytes_per_row", static_cast<int>((most - before) / kRows));
    EXPECT_LE(most - before, size_t{160} * kRows);
  }
}

}  // namespace
}  // namespace profd::exporter
