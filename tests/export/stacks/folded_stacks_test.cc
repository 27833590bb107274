#include "daemon/export/stacks/folded_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "daemon/export/trace_export.h"
#include "tests/export/sink/string_sink.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::exporter {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class FoldedStacksTest : public testing::Test {
 protected:
  FoldedStacksTest() : main_(reader_.AddThread(100, "main")) {}

  std::vector<std::string> Lines(TraceFormat format) {
    StringSink sink;
    EXPECT_THAT(ExportTrace(reader_, format, sink), IsOk());
    EXPECT_EQ(sink.finished(), 1);
    std::vector<std::string> lines;
    std::istringstream text(sink.text());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  FakeCaptureReader reader_;
  const uint32_t main_;
};

TEST_F(FoldedStacksTest, AStackHasItsOwnTimeAndEqualOnesAreOneLine) {
  reader_.Range(main_, "forward", 0, 100)
      .Range(main_, "matmul", 10, 30)
      .Range(main_, "matmul", 40, 70)
      .Range(main_, "copy", 15, 20);
  EXPECT_THAT(Lines(TraceFormat::kFolded),
              UnorderedElementsAre("main;forward 50", "main;forward;matmul 45",
                                   "main;forward;matmul;copy 5"));
}

TEST_F(FoldedStacksTest, OwnTimesAddUpToTheOutermostRangesHoweverBatchesFall) {
  for (const size_t rows : {1, 2, 3, 100}) {
    FakeCaptureReader reader;
    const uint32_t thread = reader.AddThread(7, "");
    for (int i = 0; i < 20; ++i) {
      const int64_t start_ns = int64_t{1000} * i;
      reader.Range(thread, "outer", start_ns, start_ns + 900)
          .Range(thread, "inner", start_ns + 100, start_ns + 500)
          .Range(thread, "leaf", start_ns + 100, start_ns + 300);
    }
    reader.BatchRows(rows);
    StringSink sink;
    ASSERT_THAT(ExportTrace(reader, TraceFormat::kFolded, sink), IsOk());
    EXPECT_EQ(sink.text(),
              "thread 7;outer 10000\nthread 7;outer;inner 4000\nthread 7;outer;inner;leaf 4000\n")
        << rows;
  }
}

// A thread's ranges that overlap are on rows of their own, but are one thread's time.
TEST_F(FoldedStacksTest, RangesThatOverlapAreBelowTheirThreadAndNoTimeCountsTwice) {
  const uint32_t other = reader_.AddThread(200, "other");
  const uint32_t lane = reader_.AddThread((1 << 30) | 3, "overlapping ranges of 100");
  const uint32_t second = reader_.AddThread((1 << 30) | 4, "overlapping ranges of 100");
  const uint32_t without = reader_.AddThread((1 << 30) | 9, "overlapping ranges of 300");
  reader_.Range(main_, "step", 0, 100)
      .Range(main_, "decode", 30, 40)
      .Range(main_, "copy", 32, 35)
      .Range(lane, "request", 10, 60)
      .Range(second, "request", 20, 80)
      .Range(second, "late", 90, 120)
      .Range(other, "wait", 0, 100)
      .Range(without, "alone", 0, 7);
  EXPECT_THAT(Lines(TraceFormat::kFolded),
              UnorderedElementsAre("main;step 20", "main;step;decode 7", "main;step;decode;copy 3",
                                   "main;request 60", "main;late 30", "other;wait 100",
                                   "overlapping ranges of 300;alone 7"));
}

TEST_F(FoldedStacksTest, StepsAreOneFrameAndNamesCannotBreakALine) {
  reader_.Range(main_, "ProfilerStep#7", 0, 10)
      .Range(main_, "ProfilerStep#8", 10, 20)
      .Range(main_, "a;b\nc 5", 30, 40);
  EXPECT_THAT(Lines(TraceFormat::kFolded),
              UnorderedElementsAre("main;ProfilerStep* 20", HasSubstr("main;a,b")));
}

TEST_F(FoldedStacksTest, DeviceTimeStandsBelowTheRangesThatLaunchedIt) {
  reader_.Range(main_, "forward", 0, 100)
      .Range(main_, "aten::mm", 10, 50)
      .ApiCall(main_, "cudaLaunchKernel", 20, 25, 1)
      .ApiCall(main_, "cudaLaunchKernel", 30, 35, 2)
      .ApiCall(main_, "cudaMemcpyAsync", 60, 65, 3)
      .Kernel("gemm;big", 500, 600, 1)
      .Kernel("gemm;big", 600, 650, 2)
      .Copy(700, 710, 3, {.device = 1, .copy_kind = 1, .source_kind = 1, .destination_kind = 3})
      .Kernel("lost", 800, 805, 99);
  EXPECT_THAT(Lines(TraceFormat::kFoldedDevice),
              UnorderedElementsAre("GPU 0;forward;aten::mm;gemm,big 150",
                                   "GPU 1;forward;Memcpy HtoD (Pageable -> Device) 10",
                                   "GPU 0;(launch not recorded);lost 5"));
}

TEST_F(FoldedStacksTest, PythonFunctionsAreAboveOperatorsAndOperatorsAboveKernels) {
  reader_.Module(0x10, 0x10, "", "Net").Module(0x20, 0x10, "head", "Linear");
  const uint32_t train = reader_.Stack(0, "train.py", 12, "train");
  const uint32_t head = reader_.ModuleStack(train, 0x20, "Linear");
  reader_.Operator(main_, "aten::add", 0, 10, {.stack = train})
      .Operator(main_, "aten::linear", 30, 80, {.stack = head})
      .ApiCall(main_, "cudaLaunchKernel", 40, 45, 1)
      .Kernel("gemm", 500, 600, 1);
  EXPECT_THAT(
      Lines(TraceFormat::kFolded),
      UnorderedElementsAre("main;train.py(12): train 20", "main;train.py(12): train;aten::add 10",
                           "main;train.py(12): train;nn.Module: head;aten::linear 50"));
  EXPECT_THAT(
      Lines(TraceFormat::kFoldedDevice),
      UnorderedElementsAre("GPU 0;train.py(12): train;nn.Module: head;aten::linear;gemm 100"));
}

TEST_F(FoldedStacksTest, WhereNothingOfTheKindWasRecordedItSaysSo) {
  StringSink sink;
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kFolded, sink),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kFoldedDevice, sink),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(sink.finished(), 0);
}

TEST_F(FoldedStacksTest, ASinkThatFailsEndsIt) {
  reader_.Range(main_, "forward", 0, 100);
  StringSink sink;
  sink.fail_after_bytes = 3;
  EXPECT_THAT(ExportTrace(reader_, TraceFormat::kFolded, sink),
              StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace profd::exporter
