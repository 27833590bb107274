#include "daemon/report/gpu/idle_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "daemon/report/index/interval_set.h"
#include "daemon/report/index/source_kinds.h"
#include "daemon/report/index/wide_streams.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class IdleTableTest : public testing::Test {
 protected:
  IdleTable Table() {
    absl::StatusOr<IdleTable> table = SummarizeIdle(reader_);
    EXPECT_THAT(table, IsOk());
    return table.ok() ? *std::move(table) : IdleTable();
  }
  void Window(int64_t start_ns, int64_t end_ns) {
    reader_.mutable_record().windows.push_back({.start_ns = start_ns, .end_ns = end_ns});
  }
  void Launch(int64_t at, int64_t start, int64_t end, const FakeGpu& gpu = {},
              std::string_view name = "gemm") {
    ++correlation_;
    reader_.ApiCall(main_, "cudaLaunchKernel", at, at + 1, correlation_)
        .Kernel(name, start, end, correlation_, gpu);
  }
  void Communicate(int64_t start, int64_t end) {
    Launch(0, start, end, {.stream = 20}, "ncclDevKernel_AllReduce");
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t correlation_ = 0;
};

TEST_F(IdleTableTest, AGapHasTheCauseOfWhatEndedIt) {
  Window(0, 400'000);
  Launch(0, 10'000, 20'000);
  Launch(21'000, 25'000, 30'000);    // Launched after the one before it had ended.
  Launch(22'000, 40'000, 50'000);    // Launched before, gap below 30 us.
  Launch(23'000, 100'000, 110'000);  // Launched before, a gap of 50 us.
  const IdleTable table = Table();
  ASSERT_EQ(table.streams.size(), 1u);
  const StreamIdleRow& stream = table.streams[0];
  EXPECT_EQ(stream.stream, 7);
  EXPECT_EQ(stream.activity_count, 4);
  EXPECT_EQ(stream.busy_ns, 35'000);
  EXPECT_EQ(stream.gap_count, 3);
  EXPECT_EQ(stream.idle_ns, 65'000);
  EXPECT_EQ(stream.host_wait_ns, 5'000);
  EXPECT_EQ(stream.kernel_wait_ns, 10'000);
  EXPECT_EQ(stream.other_ns, 50'000);
  ASSERT_EQ(table.rows.size(), 1u);
  const IdleRow& whole = table.rows[0];
  EXPECT_EQ(whole.step, -1);
  EXPECT_EQ(whole.duration_ns, 400'000);
  EXPECT_EQ(whole.busy_ns, 35'000);
  EXPECT_EQ(whole.idle_ns, 365'000);
  EXPECT_EQ(whole.host_wait_ns, 5'000);
  EXPECT_EQ(whole.kernel_wait_ns, 10'000);
  EXPECT_EQ(whole.other_ns, 350'000);  // And before the first and after the last.
}

TEST_F(IdleTableTest, AGapOf30MicrosecondsIsNoKernelWait) {
  Launch(0, 0, 10);
  Launch(0, 10 + kKernelWaitLimitNs, 50'000);
  Launch(0, 50'000 + kKernelWaitLimitNs - 1, 90'000);
  const IdleTable table = Table();
  EXPECT_EQ(table.streams[0].other_ns, kKernelWaitLimitNs);
  EXPECT_EQ(table.streams[0].kernel_wait_ns, kKernelWaitLimitNs - 1);
}

TEST_F(IdleTableTest, ACallAtTheVeryEndOfTheOneBeforeIsNoHostWait) {
  Launch(0, 0, 10);
  Launch(10, 20, 30);
  EXPECT_EQ(Table().streams[0].kernel_wait_ns, 10);
}

TEST_F(IdleTableTest, AnOrphansGapIsNeverHostWait) {
  Launch(0, 0, 10);
  reader_.Kernel("orphan", 100, 110, 999);
  EXPECT_EQ(Table().streams[0].kernel_wait_ns, 90);
}

TEST_F(IdleTableTest, ADeviceIsIdleWhenNoStreamRunsAnything) {
  Window(0, 100);
  Launch(0, 0, 40, {.stream = 7});
  Launch(0, 30, 60, {.stream = 8});
  Launch(65, 70, 80, {.stream = 7});
  const IdleTable table = Table();
  EXPECT_EQ(table.rows[0].busy_ns, 70);
  EXPECT_EQ(table.rows[0].host_wait_ns, 10);
  EXPECT_EQ(table.rows[0].other_ns, 20);
  ASSERT_EQ(table.streams.size(), 2u);
  EXPECT_EQ(table.streams[0].host_wait_ns, 30);  // By itself, stream 7 waited from 40 to 70.
  EXPECT_EQ(table.streams[1].idle_ns, 0);
}

TEST_F(IdleTableTest, WorkIsComputeCommunicationOrCopies) {
  Window(0, 100);
  Launch(0, 0, 30);
  Communicate(20, 50);  // Alone from 30 to 50.
  reader_.Copy(40, 70, 0, {.stream = 21}).Memset(70, 72, 0, {.stream = 21});
  const IdleRow row = Table().rows.at(0);
  EXPECT_EQ(row.compute_ns, 30);
  EXPECT_EQ(row.communication_ns, 30);
  EXPECT_EQ(row.exposed_communication_ns, 20);
  EXPECT_EQ(row.copy_ns, 32);
  EXPECT_EQ(row.exposed_copy_ns, 22);
  EXPECT_EQ(row.busy_ns, 72);
}

TEST_F(IdleTableTest, AKernelOfAnyNameCommunicatesInAnOperatorThatExchangesData) {
  Window(0, 100);
  reader_.Range(main_, "nccl:all_reduce", 0, 10);
  Launch(2, 10, 25, {}, "one_shot_kernel");
  Launch(40, 50, 60, {}, "one_shot_kernel");
  const IdleRow row = Table().rows.at(0);
  EXPECT_EQ(row.communication_ns, 15);
  EXPECT_EQ(row.compute_ns, 10);
}

TEST_F(IdleTableTest, AKernelThatIsNamedAfterACollectiveComputesInATensorOperator) {
  Window(0, 100);
  reader_.Range(main_, "aten::add", 20, 30);
  Launch(22, 30, 37, {}, "all_reduce_kernel");
  Launch(40, 50, 60, {}, "all_reduce_kernel");
  const IdleRow row = Table().rows.at(0);
  EXPECT_EQ(row.communication_ns, 10);
  EXPECT_EQ(row.compute_ns, 7);
}

TEST_F(IdleTableTest, WholeGraphsCompute) {
  Window(0, 100);
  reader_.GraphLaunch(10, 30, 1);
  EXPECT_EQ(Table().rows.at(0).compute_ns, 20);
}

TEST_F(IdleTableTest, AStepHasWhatRanWithinItAndGapsAreSplitAtItsMarks) {
  Window(0, 200);
  reader_.Step(5, 0, 100).Step(6, 100, 100);
  Launch(0, 10, 30);
  Launch(60, 140, 150);  // A gap from 30 to 140 that its launch ended.
  Launch(61, 190, 230);  // 40 of it within the step, after the mark 30 more.
  const IdleTable table = Table();
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].step, -1);
  const IdleRow& first = table.rows[1];
  EXPECT_EQ(first.step, 5);
  EXPECT_EQ(first.duration_ns, 100);
  EXPECT_EQ(first.busy_ns, 20);
  EXPECT_EQ(first.host_wait_ns, 70);
  EXPECT_EQ(first.other_ns, 10);
  const IdleRow& second = table.rows[2];
  EXPECT_EQ(second.busy_ns, 20);
  EXPECT_EQ(second.host_wait_ns, 40);
  EXPECT_EQ(second.kernel_wait_ns, 40);
  EXPECT_EQ(second.other_ns, 0);
  EXPECT_EQ(table.rows[0].busy_ns, 40);
  EXPECT_EQ(table.rows[0].idle_ns, 160);
}

TEST_F(IdleTableTest, BetweenWindowsNothingCounts) {
  Window(0, 50);
  Window(100, 150);
  Launch(0, 40, 110);
  const IdleRow row = Table().rows.at(0);
  EXPECT_EQ(row.duration_ns, 100);
  EXPECT_EQ(row.busy_ns, 20);
}

// ---- work that was launched before the recording, and has no record

constexpr int64_t kMs = 1'000'000;

class EarlierWorkTest : public IdleTableTest {
 protected:
  EarlierWorkTest() {
    reader_.mutable_record().gpu.mode = GpuMode::kDefault;
    Window(0, 100 * kMs);
  }
  IdleRow Whole() { return Table().rows.at(0); }
};

TEST_F(EarlierWorkTest, UntilTheFirstWorkThatWaitedInItsQueueTheGpuIsNotIdle) {
  Launch(kMs, 40 * kMs, 50 * kMs);
  Launch(2 * kMs, 60 * kMs, 70 * kMs);
  EXPECT_EQ(Whole().duration_ns, 60 * kMs);
  EXPECT_EQ(Whole().busy_ns, 20 * kMs);
  EXPECT_EQ(Whole().idle_ns, 40 * kMs);
  EXPECT_EQ(Table().unknown_ns, 40 * kMs);
  EXPECT_THAT(ToReport(Table()).notes, ElementsAre(HasSubstr("The first 40")));
}

TEST_F(EarlierWorkTest, AStepInItHasNoIdleTime) {
  reader_.Step(1, 0, 30 * kMs);
  reader_.Step(2, 30 * kMs, 40 * kMs);
  Launch(kMs, 40 * kMs, 60 * kMs);
  const IdleTable table = Table();
  EXPECT_EQ(table.rows.at(1).idle_ns, 0);
  EXPECT_EQ(table.rows.at(2).duration_ns, 30 * kMs);
  EXPECT_EQ(table.rows.at(2).idle_ns, 10 * kMs);
}

TEST_F(EarlierWorkTest, AGpuThatBeginsWithWhatIsLaunchedWasIdle) {
  Launch(40 * kMs, 40 * kMs + 5'000, 50 * kMs);
  EXPECT_EQ(Whole().idle_ns, 90 * kMs + 5'000);
  EXPECT_THAT(ToReport(Table()).notes, IsEmpty());
}

TEST_F(EarlierWorkTest, AWaitThatEndsBeforeAnyRecordedWorkWasForEarlierWork) {
  reader_.Sync(4, -5 * kMs, 30 * kMs, 100);
  reader_.Sync(3, 30 * kMs, 30 * kMs + 10'000, 101);  // For nothing.
  reader_.Sync(2, 30 * kMs, 39 * kMs, 102);           // In a stream: no thread waits.
  Launch(40 * kMs, 40 * kMs + 5'000, 50 * kMs);
  reader_.Sync(4, 41 * kMs, 50 * kMs, 103);  // For recorded work.
  EXPECT_EQ(Whole().duration_ns, 70 * kMs);
  EXPECT_EQ(Whole().idle_ns, 60 * kMs + 5'000);
}

TEST_F(EarlierWorkTest, WithoutRecordsOfCallsItEndsWithTheFirstWork) {
  reader_.mutable_record().gpu.mode = GpuMode::kLight;
  reader_.Kernel("gemm", 40 * kMs, 50 * kMs, 1);
  EXPECT_EQ(Whole().duration_ns, 60 * kMs);
  // Work before the window has records: then all in the window has.
  reader_.mutable_record().gpu.before_window_count = 1;
  EXPECT_EQ(Whole().duration_ns, 100 * kMs);
}

TEST_F(EarlierWorkTest, WorkThatRunsAsTheWindowBeginsIsKnown) {
  Launch(-20 * kMs, -kMs, 10 * kMs);
  Launch(-20 * kMs, 40 * kMs, 50 * kMs);
  EXPECT_EQ(Whole().idle_ns, 80 * kMs);
}

TEST_F(EarlierWorkTest, EachGpuHasItsOwn) {
  Launch(kMs, 40 * kMs, 50 * kMs);
  Launch(kMs, kMs + 5'000, 50 * kMs, {.device = 1, .context = 2});
  const IdleTable table = Table();
  EXPECT_EQ(table.rows.at(0).duration_ns, 60 * kMs);
  EXPECT_EQ(table.rows.at(1).duration_ns, 100 * kMs);
}

TEST_F(EarlierWorkTest, AnImportedTraceHasNone) {
  reader_.mutable_record().imported.source = "trace.json";
  Launch(kMs, 40 * kMs, 50 * kMs);
  EXPECT_EQ(Whole().duration_ns, 100 * kMs);
}

TEST_F(IdleTableTest, WithoutWindowsTheWholeIsFromTheFirstToTheLast) {
  Launch(0, 40, 50);
  Launch(0, 60, 100);
  EXPECT_EQ(Table().rows.at(0).duration_ns, 60);
}

TEST_F(IdleTableTest, DevicesAndStreamsComeByTheirNumbers) {
  reader_.Step(5, 0, 10);
  Launch(0, 0, 1, {.device = 1, .context = 2, .stream = 9});
  Launch(0, 0, 1, {.device = 1, .context = 2, .stream = 8});
  Launch(0, 0, 1, {.device = 0, .context = 1, .stream = 9});
  const IdleTable table = Table();
  ASSERT_EQ(table.rows.size(), 4u);
  EXPECT_EQ(table.rows[0].device, 0);
  EXPECT_EQ(table.rows[1].step, 5);
  EXPECT_EQ(table.rows[2].device, 1);
  EXPECT_EQ(table.rows[2].step, -1);
  ASSERT_EQ(table.streams.size(), 3u);
  EXPECT_EQ(table.streams[0].device, 0);
  EXPECT_EQ(table.streams[1].stream, 8);
}

TEST_F(IdleTableTest, ACaptureWithoutGpuHasNoRows) {
  Window(0, 100);
  EXPECT_THAT(Table().rows, IsEmpty());
}

TEST_F(IdleTableTest, NoCaptureHasThousandsOfDevices) {
  for (uint16_t device = 0; device < 300; ++device) Launch(0, 0, 1, {.device = device});
  EXPECT_THAT(SummarizeIdle(reader_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("300 GPUs")));
}

TEST_F(IdleTableTest, TimesOfAHostileFileDoNotOverflow) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  Window(kMin, kMax);
  Window(kMin, kMax);
  Window(kMax, kMin);
  reader_.Step(0, kMax, kMax).Step(1, 0, -5);
  Launch(0, 0, kMax);
  Launch(0, -10, -5);
  EXPECT_EQ(Table().rows.size(), 3u);
}

TEST(IntervalSetTest, MeasuresTheUnion) {
  IntervalSet set;
  set.Add(0, 10);
  set.Add(5, 8);
  set.Add(10, 12);
  set.Add(20, 20);
  set.Add(20, 30);
  EXPECT_EQ(set.total_ns(), 22u);
  EXPECT_EQ(set.begin_ns(), 0);
  EXPECT_EQ(set.end_ns(), 30);
  EXPECT_EQ(set.MeasureIn(-100, 100), 22u);
  EXPECT_EQ(set.MeasureIn(11, 21), 2u);
  EXPECT_EQ(set.MeasureIn(12, 20), 0u);
  EXPECT_EQ(set.MeasureIn(3, 7), 4u);
  EXPECT_EQ(set.MeasureIn(7, 3), 0u);
}

// The record's list of streams is cut at 4096, so that a capture may have streams that it lacks.
TEST_F(IdleTableTest, StreamsHaveTheTracesNumbersAlsoIfTheRecordDoesNotListThem) {
  constexpr int64_t kHip = 94'354'525'917'696;
  Window(0, 100'000);
  Launch(0, 10'000, 20'000, {.stream = kFirstWideStream});
  Launch(0, 10'000, 20'000, {.stream = kFirstWideStream + 1});
  ASSERT_THAT(reader_.record().gpu.streams, IsEmpty());
  int64_t number = kHip;
  for (const uint32_t row : {0, 1}) {
    reader_.Argument({kArgumentOfWideStream, 0, row, reader_.Name(kWideStreamKey),
                      ArgumentType::kInteger, number});
    number = -5;
  }
  std::vector<int64_t> streams;
  for (const StreamIdleRow& stream : Table().streams) streams.push_back(stream.stream);
  EXPECT_THAT(streams, UnorderedElementsAre(kHip, -5));
}

TEST(IntervalSetTest, AnEmptySetMeasuresNothing) {
  const IntervalSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.total_ns(), 0u);
  EXPECT_EQ(set.MeasureIn(0, 100), 0u);
}

}  // namespace
}  // namespace profd::report
