// Reports and traces of a capture file as the daemon writes it: what the parts say of it has
// to agree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/gpu/copy_table.h"
#include "daemon/report/gpu/kernel_table.h"
#include "daemon/report/index/step_table.h"
#include "daemon/report/memory/timeline.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/writer.h"
#include "tests/export/chrome/strict_json.h"
#include "tests/export/gpu_capture.h"
#include "tests/export/perfetto/perfetto_decoder.h"
#include "tests/export/sink/string_sink.h"
#include "tests/export/trace/trace_rules.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd::exporter {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// More ranges per thread than one chunk of the file holds.
constexpr int64_t kSteps = 24;
constexpr uint32_t kStepThread = 1;

class StoredCaptureTest : public testing::Test {
 protected:
  // Two threads in the store's pattern; the second marks the steps. Times count from an
  // epoch that lies before the capture's start, as the daemon's do.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<store::TemporaryFolder>();
    store::ManualClock clock;
    CaptureRecord record = store::NewRecord(store::IdOf(1));
    auto writer = store::CaptureFileWriter::Create(
        record, clock, {.directory = folder_->path(), .on_sealed = nullptr});
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT(store::IntroducePattern(store::StepPattern(1), 2, **writer), IsOk());
    for (uint32_t thread = 0; thread < 2; ++thread) {
      store::StepPattern pattern(thread + 1);
      for (int64_t step = 0; step < kSteps; ++step) {
        if (thread == kStepThread) Mark(**writer, pattern.now_ns(), step);
        ASSERT_THAT((*writer)->Append(thread, Shifted(pattern.NextRanges())), IsOk());
        ASSERT_THAT((*writer)->Append(thread, Shifted(pattern.Memory())), IsOk());
      }
      if (thread == kStepThread) {
        Mark(**writer, pattern.now_ns(), kSteps);
        end_ns_ = pattern.now_ns();
      }
    }
    record = store::FinishedRecord(
        record, {.start_ns = 0, .end_ns = end_ns_, .first_step = 0, .end_step = kSteps});
    ASSERT_THAT((*writer)->Finish(record, kEpochOffsetNs), IsOk());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  void SetUp() override {
    auto reader = store::CaptureReader::Open(*folder_ / (store::IdOf(1) + ".profd"));
    ASSERT_THAT(reader, IsOk());
    reader_ = *std::move(reader);
  }

  std::string Export(TraceFormat format) {
    StringSink sink;
    EXPECT_THAT(ExportTrace(*reader_, format, sink), IsOk());
    return sink.text();
  }
  std::map<std::string, std::pair<int64_t, int64_t>> OpsOfReport() {
    std::map<std::string, std::pair<int64_t, int64_t>> ops;
    const auto table = report::SummarizeOps(*reader_, {});
    EXPECT_THAT(table, IsOk());
    for (const report::OpRow& row : table->rows) ops[row.name] = {row.calls, row.cpu_total_ns};
    return ops;
  }

  static inline int64_t end_ns_ = 0;
  std::unique_ptr<store::CaptureReader> reader_;

 private:
  static inline std::unique_ptr<store::TemporaryFolder> folder_;
  static constexpr int64_t kEpochOffsetNs = 5'000'000;

  static void Mark(CaptureSink& sink, int64_t time_ns, int64_t step) {
    const StepRow row = {time_ns + kEpochOffsetNs, step};
    EXPECT_THAT(sink.Append(kStepThread, row), IsOk());
  }
  static std::vector<RangeRow> Shifted(std::vector<RangeRow> rows) {
    for (RangeRow& row : rows) row.start_ns += kEpochOffsetNs;
    return rows;
  }
  static std::vector<MemoryRow> Shifted(std::vector<MemoryRow> rows) {
    for (MemoryRow& row : rows) row.time_ns += kEpochOffsetNs;
    return rows;
  }
};

TEST_F(StoredCaptureTest, TheChromeTraceSaysWhatTheReportsSay) {
  const std::string text = Export(TraceFormat::kChrome);
  const absl::StatusOr<JsonValue> root = ParseStrictJson(text);
  ASSERT_THAT(root, IsOk());
  EXPECT_THAT(TraceRuleOffences(text, *root), IsEmpty());
  std::map<std::string, std::pair<int64_t, int64_t>> ops;
  int64_t steps = 0;
  for (const JsonValue& event : (*root)["traceEvents"].items) {
    if (event["ph"].text != "X") continue;
    if (event["name"].text.starts_with("ProfilerStep#")) {
      ++steps;
      EXPECT_EQ(event["tid"].integer(), 1000 + kStepThread);
      continue;
    }
    auto& [calls, total_ns] = ops[event["name"].text];
    ++calls;
    total_ns += TraceTimeNs(event["dur"]);
  }
  EXPECT_EQ(steps, kSteps);
  EXPECT_EQ(ops, OpsOfReport());
}

TEST_F(StoredCaptureTest, ThePerfettoTraceSaysWhatTheReportsSay) {
  const absl::StatusOr<PerfettoTrace> trace = DecodePerfetto(Export(TraceFormat::kPerfetto));
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->offences, IsEmpty());
  std::map<std::string, std::pair<int64_t, int64_t>> ops;
  for (const PerfettoSlice& slice : trace->slices) {
    if (slice.name.starts_with("ProfilerStep#")) continue;
    auto& [calls, total_ns] = ops[slice.name];
    ++calls;
    total_ns += slice.end_ns - slice.start_ns;
  }
  EXPECT_EQ(ops, OpsOfReport());
}

TEST_F(StoredCaptureTest, StepsAddUpToTheWindow) {
  const auto table = report::SummarizeSteps(*reader_);
  ASSERT_THAT(table, IsOk());
  ASSERT_THAT(table->rows, SizeIs(kSteps));
  int64_t sum_ns = 0;
  for (const report::StepTableRow& row : table->rows) sum_ns += row.duration_ns;
  EXPECT_EQ(sum_ns, end_ns_);
}

TEST_F(StoredCaptureTest, TheStepsRowsOfTheOperatorTableAddUpToTheWhole) {
  const auto all = report::SummarizeOps(*reader_, {});
  const auto by_step = report::SummarizeOps(*reader_, {.by_step = true});
  ASSERT_THAT(all, IsOk());
  ASSERT_THAT(by_step, IsOk());
  EXPECT_EQ(by_step->self_cpu_total_ns, all->self_cpu_total_ns);
  int64_t of_steps_ns = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto one = report::SummarizeOps(*reader_, {.step = step});
    ASSERT_THAT(one, IsOk());
    of_steps_ns += one->self_cpu_total_ns;
  }
  for (const report::OpRow& row : by_step->rows) {
    if (row.step < 0) of_steps_ns += row.self_cpu_ns;
  }
  EXPECT_EQ(of_steps_ns, all->self_cpu_total_ns);
}

TEST_F(StoredCaptureTest, MemoryHasItsDeviceAndItsPeak) {
  const auto timeline = report::SummarizeMemory(*reader_, {.max_points = 100});
  ASSERT_THAT(timeline, IsOk());
  ASSERT_THAT(timeline->devices, SizeIs(1));
  const report::DeviceMemory& device = timeline->devices.front();
  EXPECT_FALSE(device.relative);
  EXPECT_GT(device.peak_bytes, 1'000'000);
  EXPECT_LE(device.points.size(), 100U);
  EXPECT_FALSE(device.peak_by_op.empty());
}

// A capture file with GPU rows, several chunks of them, of the store's pattern.
class StoredGpuCaptureTest : public testing::Test {
 protected:
  static constexpr size_t kRows = 70'000;  // More than a chunk holds.

  void SetUp() override {
    store::ManualClock clock;
    CaptureRecord record = store::NewRecord(store::IdOf(2));
    auto writer = store::CaptureFileWriter::Create(
        record, clock, {.directory = folder_.path(), .on_sealed = nullptr});
    ASSERT_THAT(writer, IsOk());
    ASSERT_THAT(store::IntroducePattern(store::StepPattern(1), 1, **writer), IsOk());
    store::GpuPattern pattern(1);
    for (size_t rows = 0; rows < kRows; rows += 10'000) {
      const std::vector<GpuRow>& gpu = pattern.NextRows(10'000);
      ASSERT_THAT((*writer)->Append(gpu), IsOk());
      ASSERT_THAT((*writer)->Append(0, pattern.ApiCalls()), IsOk());
      for (const GpuRow& row : gpu) end_ns_ = std::max(end_ns_, row.start_ns + row.duration_ns);
    }
    record = store::FinishedRecord(record, {.start_ns = 0, .end_ns = end_ns_});
    record.gpu = RecordedGpu();
    ASSERT_THAT((*writer)->Finish(record, 0), IsOk());
    auto reader = store::CaptureReader::Open(folder_ / (store::IdOf(2) + ".profd"));
    ASSERT_THAT(reader, IsOk());
    reader_ = *std::move(reader);
  }

  using Totals = std::map<std::string, std::pair<int64_t, int64_t>>;  // Count and ns, by name.
  Totals OfReports() {
    Totals totals;
    const auto kernels = report::SummarizeKernels(*reader_, {});
    EXPECT_THAT(kernels, IsOk());
    for (const report::KernelRow& row : kernels->rows) {
      totals[row.display_name] = {row.count, row.total_ns};
    }
    const auto copies = report::SummarizeCopies(*reader_);
    EXPECT_THAT(copies, IsOk());
    for (const report::CopyRow& row : copies->rows) totals[row.name] = {row.count, row.total_ns};
    return totals;
  }

  const store::TemporaryFolder folder_;
  int64_t end_ns_ = 0;
  std::unique_ptr<store::CaptureReader> reader_;
};

TEST_F(StoredGpuCaptureTest, TheChromeTraceSaysWhatTheReportsSay) {
  StringSink sink;
  ASSERT_THAT(ExportTrace(*reader_, TraceFormat::kChrome, sink), IsOk());
  const absl::StatusOr<JsonValue> root = ParseStrictJson(sink.text());
  ASSERT_THAT(root, IsOk());
  EXPECT_THAT(TraceRuleOffences(sink.text(), *root), IsEmpty());
  Totals totals;
  size_t flows = 0;
  for (const JsonValue& event : (*root)["traceEvents"].items) {
    if (event["ph"].text == "f") ++flows;
    const std::string& category = event["cat"].text;
    if (category != "kernel" && category != "gpu_memcpy" && category != "gpu_memset") continue;
    auto& [count, total_ns] = totals[event["name"].text];
    ++count;
    total_ns += TraceTimeNs(event["dur"]);
  }
  EXPECT_EQ(totals, OfReports());
  EXPECT_EQ(flows, kRows);
}

TEST_F(StoredGpuCaptureTest, ThePerfettoTraceSaysWhatTheReportsSay) {
  StringSink sink;
  ASSERT_THAT(ExportTrace(*reader_, TraceFormat::kPerfetto, sink), IsOk());
  const absl::StatusOr<PerfettoTrace> trace = DecodePerfetto(sink.text());
  ASSERT_THAT(trace, IsOk());
  EXPECT_THAT(trace->offences, IsEmpty());
  Totals totals;
  for (const PerfettoSlice& slice : trace->slices) {
    if (slice.category != "kernel" && !slice.category.starts_with("gpu_mem")) continue;
    auto& [count, total_ns] = totals[slice.name];
    ++count;
    total_ns += slice.end_ns - slice.start_ns;
  }
  EXPECT_EQ(totals, OfReports());
  EXPECT_THAT(trace->flows, SizeIs(kRows));
}

}  // namespace
}  // namespace profd::exporter
