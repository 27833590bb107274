// What becomes of each table of an export, by schema.
#include "daemon/import/nsys/nsys_import.h"

#include <string>

#include "daemon/import/nsys/torch_text.h"
#include "gmock/gmock.h"
#include "tests/import/nsys/nsys_file.h"

namespace profd::importer {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;
using enum absl::StatusCode;

constexpr std::string_view kTexts = R"(
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'add(float *, int)'), (3, 'add'),
      (4, 'cudaMemcpyAsync_ptsz_v7000'), (5, 'cudaStreamSynchronize_v3020'), (6, 'data'),
      (7, 'cuMemsetD8Async_v2'), (8, 'registered'), (9, 'CUPTI Buffer flush'),
      (10, 'TLS allocation'), (11, 'Command Buffer Full');)";

std::string Launch(int64_t pid, int64_t start, int64_t correlation) {
  return StrCat("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (", start, ", ", start + 5, ", 0, ",
                GlobalTid(pid, pid), ", ", correlation, ", 1, 0, NULL);");
}
std::string Kernel(int64_t pid, int64_t start, int64_t correlation, int64_t device = 0) {
  return StrCat(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
      "correlationId, globalPid, demangledName, shortName, registersPerThread, gridX, gridY, "
      "gridZ, "
      "blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread) "
      "VALUES (",
      start, ", ", start + 30, ", ", device, ", 1, 7, ", correlation, ", ", GlobalPid(pid),
      ", 2, 3, 40, 9, 8, 7, 6, 5, 4, 100, 20, 0);");
}
std::string Range(int64_t pid, int64_t start, const std::string& end, std::string_view text) {
  return StrCat(
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) "
      "VALUES (",
      start, ", ", end, ", 59, '", text, "', ", GlobalTid(pid, pid), ", 0);");
}

class NsysSchemaTest : public NsysImportTest, public testing::WithParamInterface<NsysSchema> {
 protected:
  std::string Tables() const { return StrCat(NsysTables(GetParam()), kTexts); }
};
INSTANTIATE_TEST_SUITE_P(Schemas, NsysSchemaTest,
                         testing::Values(NsysSchema::k2023, NsysSchema::k2025),
                         [](const auto& schema) {
                           return schema.param == NsysSchema::k2023 ? "Of2023" : "Of2025";
                         });

TEST_P(NsysSchemaTest, CallsAndKernelsBecomeRows) {
  const std::string driver_call =
      StrCat("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1050, 1060, 1, ", GlobalTid(41, 42),
             ", 8, 7, 2, NULL);");
  CaptureRecord record;
  EXPECT_THAT(
      LinesOfFile(Make(Tables() + Launch(41, 1000, 7) + driver_call + Kernel(41, 1010, 7)),
                  &record),
      UnorderedElementsAre("api 41: cudaLaunchKernel 0 5 corr 7 cbid 0 driver 0 result 0",
                           "api 42: cuMemsetD8Async_v2 50 10 corr 8 cbid 0 driver 1 result 2",
                           "gpu kind 1 add(float *, int) 10 30 dev 0 ctx 1 stream 7 corr 7 flags 0 "
                           "graph 0/0 bytes 0 "
                           "kinds 0,0,0 grid 9,8,7 block 6,5,4 regs 40 shared 120"));
  EXPECT_EQ(record.event_count, 3);
  EXPECT_EQ(record.gpu.orphan_count, 0);
  EXPECT_EQ(record.imported.source, "report.sqlite");
  EXPECT_EQ(record.imported.time_unit_ns, 1);
  EXPECT_EQ(record.target.pid, 41);
  EXPECT_THAT(record.imported.not_understood, IsEmpty());
}

TEST_P(NsysSchemaTest, TablesWithAVersionInTheirNameAreRead) {
  const std::string rows =
      StrCat(Tables(), Launch(41, 1000, 7), Kernel(41, 1010, 7), Range(41, 990, "1100", "step"));
  const std::vector<std::string> lines = LinesOfFile(Make(rows));
  ASSERT_THAT(lines, SizeIs(3));
  CaptureRecord record;
  EXPECT_EQ(LinesOfFile(Make(StrCat(rows,
                                    "ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V2;"
                                    "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO "
                                    "CUPTI_ACTIVITY_KIND_KERNEL_V12;"),
                             "versions.sqlite"),
                        &record),
            lines);
  EXPECT_THAT(record.imported.not_understood, IsEmpty());
}

TEST_P(NsysSchemaTest, ATableWhoseNameEndsOtherwiseIsNotRead) {
  CaptureRecord record;
  LinesOfFile(Make(StrCat(Tables(), Kernel(41, 1010, 7), Range(41, 990, "1100", "step"),
                          "ALTER TABLE NVTX_EVENTS RENAME TO NVTX_EVENTS_V;")),
              &record);
  EXPECT_THAT(record.imported.not_understood, ElementsAre(Pair("NVTX_EVENTS_V", 1)));
}

TEST_P(NsysSchemaTest, CopiesAndMemsetsHaveCuptisKinds) {
  const std::string sql = StrCat(
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, contextId, streamId, "
      "correlationId, globalPid, bytes, copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId) "
      "VALUES "
      "(10, 20, 1, 1, 7, 1, ",
      GlobalPid(41), ", 4096, 1, 1, 2, NULL, NULL), (30, 40, 1, 1, 7, 2, ", GlobalPid(41),
      ", 64, 10, 2, 2, 0, 1), (50, 60, 1, 1, 7, 3, ", GlobalPid(41),
      ", 1, 11, 0, 2, NULL, NULL), (70, 80, 1, 1, 7, 4, ", GlobalPid(41),
      ", 2, 99, 0, 2, NULL, NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, contextId, streamId, "
      "correlationId, globalPid, value, bytes) VALUES (90, 95, 1, 1, 7, 5, ",
      GlobalPid(41), ", 0, 16);");
  CaptureRecord record;
  EXPECT_THAT(
      LinesOfFile(Make(Tables() + sql), &record),
      UnorderedElementsAre(HasSubstr("gpu kind 2  0 10 dev 1 ctx 1 stream 7 corr 1 flags 0 graph "
                                     "0/0 bytes 4096 kinds 1,2,3"),
                           HasSubstr("corr 2 flags 0 graph 0/0 bytes 64 kinds 10,3,3"),
                           HasSubstr("corr 4 flags 0 graph 0/0 bytes 2 kinds 0,1,3"),
                           HasSubstr("gpu kind 3  80 5 dev 1 ctx 1 stream 7 corr 5 flags 0 graph "
                                     "0/0 bytes 16 kinds 0,0,0")));
  EXPECT_THAT(record.imported.not_understood,
              UnorderedElementsAre(Pair("CUPTI_ACTIVITY_KIND_MEMCPY of unified memory", 1),
                                   Pair("arg:CUPTI_ACTIVITY_KIND_MEMCPY.copyKind", 1)));
}

// 2025.1 numbers cudaStreamSynchronize() as a wait for an event, and newer ones say device 0 of
// all.
TEST_P(NsysSchemaTest, SynchronizationIsWhatItsCallSays) {
  const std::string sql = StrCat(
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 190, 0, ", GlobalTid(41, 41),
      ", 3, 5, 0, NULL);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start, end, deviceId, contextId, streamId, "
      "correlationId, globalPid, syncType, eventId) VALUES (110, 180, 0, 1, 7, 3, ",
      GlobalPid(41), ", 2, 4294967295), (200, 210, 0, 1, 4294967295, 4, ", GlobalPid(41),
      ", 4, 4294967295), (220, 230, 0, 1, 7, 5, ", GlobalPid(41), ", 77, 1);");
  CaptureRecord record;
  EXPECT_THAT(LinesOfFile(Make(Tables() + Kernel(41, 100, 1, /*device=*/3) + sql), &record),
              AllOf(SizeIs(4), Contains("sync 3 10 70 dev 3 ctx 1 stream 7 corr 3 event 0"),
                    Contains("sync 4 100 10 dev 3 ctx 1 stream 4294967295 corr 4 event 0")));
  EXPECT_THAT(
      record.imported.not_understood,
      UnorderedElementsAre(Pair("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION of an unknown type", 1),
                           Pair("arg:CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.syncType", 1)));
}

TEST_P(NsysSchemaTest, GraphsEventsMemoryAndOverheadsBecomeRows) {
  const std::string pid = StrCat(GlobalPid(41));
  const std::string tid = StrCat(GlobalTid(41, 41));
  const std::string sql =
      StrCat("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 90, 0, 5, 1, 7, 2, ", pid,
             "); INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 7, 6, ", pid,
             ", 3), (0, 1, 7, 6, ", pid,
             ", 3);"
             "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (20, ",
             pid, ", 0, 1, 4096, 512, 2, 0), (30, ", pid, ", 0, 1, 4096, 512, 2, 1), (40, ", pid,
             ", 0, 1, 8192, 512, 1, 0);"
             "INSERT INTO PROFILER_OVERHEAD VALUES (50, 60, ",
             tid, ", 9, 0), (70, 80, ", tid, ", 10, 0);");
  CaptureRecord record;
  EXPECT_THAT(
      LinesOfFile(Make(Tables() + sql), &record),
      AllOf(Contains(HasSubstr("gpu kind 4  0 80 dev 0 ctx 1 stream 7 corr 2 flags 0 graph 5/0")),
            Contains("memory 0: 10 4096 512 -1 -1 dev 64:0 free 0"),
            Contains("memory 0: 20 4096 512 -1 -1 dev 64:0 free 1"),
            Contains("overhead 65536 40 10")));
  EXPECT_EQ(record.event_count, 5);
  EXPECT_FALSE(record.torch.memory);
  EXPECT_THAT(record.imported.not_understood,
              UnorderedElementsAre(Pair("CUDA_GPU_MEMORY_USAGE_EVENTS of the host's memory", 1),
                                   Pair("CUPTI_ACTIVITY_KIND_CUDA_EVENT that is there twice", 1),
                                   Pair("PROFILER_OVERHEAD of Nsight Systems itself", 1)));
}

TEST_P(NsysSchemaTest, NvtxBecomesRangesMarksDomainsAndThreads) {
  const std::string tid = StrCat(GlobalTid(41, 43));
  const std::string sql = StrCat(
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, textId, globalTid, domainId, "
      "int64Value) VALUES (10, 90, 59, 'outer', NULL, ",
      tid, ", 0, NULL), (20, 30, 60, NULL, 8, ", tid, ", 5, 7), (40, NULL, 34, 'mark', NULL, ", tid,
      ", 0, NULL), (50, NULL, 59, 'open', NULL, ", tid, ", 0, NULL), (1, NULL, 75, 'NCCL', NULL, ",
      tid, ", 5, NULL), (2, NULL, 39, 'loader', NULL, ", tid,
      ", 0, NULL), (3, NULL, 33, 'kind', NULL, ", tid, ", 0, NULL);");
  CaptureRecord record;
  const auto captures = ImportFile(Make(Tables() + sql));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  const auto reader = Open(captures->front().file);
  EXPECT_THAT(
      LinesOf(*reader),
      UnorderedElementsAre("range 43: outer 0 80 depth 0 cat 0 flags 0",
                           "range 1073741824: NCCL:registered 10 10 depth 0 cat 0 flags 0",
                           "range 43: open 40 40 depth 1 cat 0 flags 1", "instant 43: mark 30"));
  EXPECT_EQ(reader->threads()[0].name, "loader");
  EXPECT_EQ(captures->front().record.open_range_count, 1);
  EXPECT_THAT(captures->front().record.imported.not_understood,
              UnorderedElementsAre(Pair("NVTX_EVENTS of type 33", 1),
                                   Pair("arg:NVTX_EVENTS.int64Value", 1)));
}

// Each step pushes a range that nothing pops: only the last one may still have run at the end.
TEST_P(NsysSchemaTest, PushesThatTheProgramBeganAgainWereLeftOpen) {
  const std::string tid = StrCat(GlobalTid(41, 43));
  const std::string sql = StrCat(
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES "
      "(0, 100, 59, 'step', ",
      tid, ", 0), (10, NULL, 59, 'forward', ", tid, ", 0), (50, NULL, 59, 'forward', ", tid,
      ", 0), (20, NULL, 59, 'other', ", tid, ", 0);");
  const auto captures = ImportFile(Make(Tables() + sql));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  const std::string left_open = StrCat("flags ", kRangeOpen | kRangeUnended);
  EXPECT_THAT(LinesOf(*Open(captures->front().file)),
              UnorderedElementsAre("range 43: step 0 100 depth 0 cat 0 flags 0",
                                   StrCat("range 43: forward 10 90 depth 1 cat 0 ", left_open),
                                   "range 43: other 20 80 depth 2 cat 0 flags 1",
                                   "range 43: forward 50 50 depth 3 cat 0 flags 1"));
}

// nvtxRangeStart() and nvtxRangeEnd().
TEST_P(NsysSchemaTest, SpansThatOverlapAreOnLanesOfTheirThread) {
  const std::string tid = StrCat(GlobalTid(41, 43));
  const std::string sql = StrCat(
      "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES "
      "(0, 100, 59, 'pushed', ",
      tid, ", 0), (10, 60, 60, 'a', ", tid, ", 0), (30, 90, 60, 'b', ", tid,
      ", 0), (60, 80, 60, 'c', ", tid, ", 0), (40, 50, 59, 'inner', ", tid, ", 0);");
  const auto captures = ImportFile(Make(Tables() + sql));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  const auto reader = Open(captures->front().file);
  EXPECT_THAT(LinesOf(*reader),
              UnorderedElementsAre("range 43: pushed 0 100 depth 0 cat 0 flags 0",
                                   "range 43: inner 40 10 depth 1 cat 0 flags 0",
                                   "range 1073741824: a 10 50 depth 0 cat 0 flags 0",
                                   "range 1073741825: b 30 60 depth 0 cat 0 flags 0",
                                   "range 1073741824: c 60 20 depth 0 cat 0 flags 0"));
  EXPECT_EQ(
      std::ranges::count(reader->threads(), "overlapping ranges of 43", &store::ReaderThread::name),
      2);
}

TEST_P(NsysSchemaTest, WhatTorchWritesIsOperatorsAndSteps) {
  const std::string sql =
      Range(41, 10, "90", "aten::mm, seq = 4, op_id = 17, sizes = [[2, 3], [3, 4]]") +
      Range(41, 20, "30", "aten::empty, op_id = 18") + Range(41, 100, "190", "ProfilerStep#3");
  CaptureRecord record;
  EXPECT_THAT(LinesOfFile(Make(Tables() + sql), &record),
              AllOf(Contains("range 41: aten::mm 0 80 depth 0 cat 1 flags 0"),
                    Contains(HasSubstr("operator 41: aten::mm 0 0 seq 4 fwd 0 [[2,3],[3,4]]")),
                    Contains(HasSubstr("operator 41: aten::empty 10 1 seq -1"))));
  EXPECT_EQ(record.torch.operator_count, 2);
  EXPECT_EQ(record.covered_steps, 1);
}

TEST_P(NsysSchemaTest, TheRecordNamesGpusAndNotTheHost) {
  const std::string sql = StrCat(
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2025.1.1.110'), "
      "('EXPORT_HOST', 'secret-host'), ('EXPORT_USER', 'secret-user');"
      "INSERT INTO TARGET_INFO_GPU VALUES (4, 'NVIDIA H200', 150121545728, 132, 9, 0, 32, 64, "
      "'secret-uuid', 'secret-bus');"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (4, 0, 41), (4, 1, 99);"
      "INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, 41, 1, 4294967291, 1);"
      "INSERT INTO PROCESSES VALUES (",
      GlobalPid(41), ", 41, '/home/secret-user/bin/python3');");
  CaptureRecord record;
  LinesOfFile(Make(Tables() + sql + Kernel(41, 10, 1)), &record);
  EXPECT_EQ(record.imported.producer, "Nsight Systems 2025.1.1.110");
  EXPECT_EQ(record.target.command, "python3");
  ASSERT_THAT(record.gpu.devices, SizeIs(1));
  EXPECT_EQ(record.gpu.devices[0].number, 0);
  EXPECT_EQ(record.gpu.devices[0].name, "NVIDIA H200");
  EXPECT_EQ(record.gpu.devices[0].max_threads_per_sm, 2048);
  ASSERT_THAT(record.gpu.streams, SizeIs(1));
  EXPECT_EQ(record.gpu.streams[0].priority, -5);
  std::ifstream file(folder_ / StrCat(record.id, ".profd"), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(bytes, Not(HasSubstr("secret")));
}

TEST_F(NsysImportTest, TheNewSchemaSaysMoreOfAKernel) {
  const std::string sql = StrCat(
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, "
      "correlationId, globalPid, demangledName, graphNodeId, graphId, clusterX, clusterY, "
      "clusterZ) "
      "VALUES (10, 20, 0, 1, 7, 1, ",
      GlobalPid(41), ", 2, 12884901889, 3, 2, 1, 1);");
  const auto captures = ImportFile(Make(StrCat(NsysTables(NsysSchema::k2025), kTexts, sql)));
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(LinesOf(*Open(captures->front().file)),
              ElementsAre(HasSubstr("graph 3/12884901889")));
  EXPECT_EQ(captures->front().record.imported.time_unit_ns, 1);
}

TEST_F(NsysImportTest, TimesCountFromTheSessionsStart) {
  constexpr int64_t kStart = 1'790'000'000'000'000'000;
  const std::string rows = StrCat(kTexts, Kernel(41, 500, 1));
  CaptureRecord record;
  LinesOfFile(
      Make(StrCat(NsysTables(NsysSchema::k2023),
                  "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (", kStart, ");", rows)),
      &record);
  EXPECT_EQ(record.start_unix_ns, kStart + 500);
  // Newer ones count from another moment than the session's start.
  LinesOfFile(
      Make(StrCat(NsysTables(NsysSchema::k2025),
                  "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (", kStart, ", 400);", rows)),
      &record);
  EXPECT_EQ(record.start_unix_ns, kStart + 100);
  LinesOfFile(Make(StrCat(NsysTables(NsysSchema::k2023),
                          "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (77);"
                          "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIME_NORMALIZE', "
                          "'true');",
                          kTexts, Kernel(41, kStart, 1))),
              &record);
  EXPECT_EQ(record.start_unix_ns, kStart);
}

TEST_F(NsysImportTest, EachProcessIsACaptureWithItsOwnCorrelations) {
  const std::string group_id = "01JDZ0000000000000000000AB";
  // Process 42 has the same correlation, but did not launch the kernel of 43.
  const auto captures = ImportFile(
      Make(StrCat(
          NsysTables(NsysSchema::k2025), kTexts, Launch(42, 10, 1), Kernel(42, 20, 1),
          Kernel(43, 30, 1, 1), Range(44, 40, "50", "loader"), Launch(45, 60, 1),
          "CREATE TABLE OSRT_API (start, end, globalTid); INSERT INTO OSRT_API VALUES (1, 2, ",
          GlobalTid(43, 9), "), (1, 2, ", GlobalTid(45, 9),
          "); CREATE TABLE GPU_METRICS (timestamp, value);"
          "INSERT INTO GPU_METRICS VALUES (1, 2), (3, 4), (5, 6);")),
      group_id);
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(3)));
  const CaptureRecord& first = (*captures)[0].record;
  const CaptureRecord& second = (*captures)[1].record;
  const CaptureRecord& third = (*captures)[2].record;
  EXPECT_THAT((std::vector{first.target.pid, second.target.pid, third.target.pid}),
              ElementsAre(42, 43, 44));
  EXPECT_THAT((std::vector{first.gpu.orphan_count, second.gpu.orphan_count}), ElementsAre(0, 1));
  EXPECT_EQ(first.group_id, group_id);
  EXPECT_EQ(second.group_id, group_id);
  EXPECT_EQ(third.group_id, "") << "it uses no GPU";
  // What is of no capture is counted once, where most is.
  EXPECT_THAT(first.imported.not_understood,
              UnorderedElementsAre(
                  Pair("CUPTI_ACTIVITY_KIND_RUNTIME of a process without GPU work or NVTX", 1),
                  Pair("GPU_METRICS", 3), Pair("OSRT_API", 1)));
  EXPECT_THAT(second.imported.not_understood, UnorderedElementsAre(Pair("OSRT_API", 1)));
  EXPECT_THAT(third.imported.not_understood, IsEmpty());
}

TEST_F(NsysImportTest, OneProcessOnTwoGpusIsOneCaptureOfNoGroup) {
  const auto captures = ImportFile(Make(StrCat(NsysTables(NsysSchema::k2025), kTexts,
                                               Kernel(42, 20, 1, 0), Kernel(42, 30, 2, 1))),
                                   "01JDZ0000000000000000000AB");
  ASSERT_THAT(captures, IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(captures->front().record.group_id, "");
  EXPECT_THAT(captures->front().record.gpu.streams, SizeIs(2));
}

TEST_F(NsysImportTest, WhatHasNoEventsIsNamed) {
  EXPECT_THAT(ImportFile(Make("CREATE TABLE a (b); INSERT INTO a VALUES (1);")),
              StatusIs(kInvalidArgument, HasSubstr("not an export of Nsight Systems")));
  EXPECT_THAT(ImportFile(Make(StrCat(NsysTables(NsysSchema::k2025),
                                     "CREATE TABLE OSRT_API (start); INSERT INTO OSRT_API VALUES "
                                     "(1), (2);"))),
              StatusIs(kInvalidArgument, HasSubstr("most of its rows, 2, are in OSRT_API")));
  EXPECT_FALSE(IsSqliteDatabase(Write("t.json", "{}")));
  EXPECT_FALSE(IsSqliteDatabase(folder_ / "absent"));
}

TEST(TorchTextTest, OnlyWhatTorchWritesIsTaken) {
  const auto torch =
      ParseTorchText("a, seq = 1, op_id = 2, sizes = [[], [1]], input_op_ids = [(1,0)]");
  ASSERT_TRUE(torch.has_value());
  EXPECT_EQ(torch->name, "a");
  EXPECT_EQ(torch->sequence, 1);
  EXPECT_EQ(torch->dims, "[[], [1]]");
  for (const std::string_view other :
       {"a", "", ", op_id = 1", "a, op_id = ", "a, op_id = -3", "a, op_id = 1 more",
        "a, seq = 99999999999999999999", "a, op_id = 1, sizes = [1",
        "a, op_id = 1, sizes = [\"x\"]", "a, op_id = 1, sizes = ]",
        "a, op_id = 1, sizes = [[[[[[[[[]]]]]]]]]"}) {
    EXPECT_FALSE(ParseTorchText(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace profd::importer
