#include "daemon/report/time/time_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string_view>

#include "daemon/report/index/waiting_calls.h"
#include "daemon/report/time/collective_sums.h"
#include "tests/fakes/fake_capture_reader.h"
#include "tests/fakes/status_matchers.h"

namespace profd::report {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kUs = 1000;

class TimeReportTest : public testing::Test {
 protected:
  TimeReport Report(const TimeOptions& options = {}) {
    absl::StatusOr<TimeReport> report = SummarizeTime(reader_, options);
    EXPECT_THAT(report, IsOk());
    return report.ok() ? *std::move(report) : TimeReport();
  }
  uint32_t Call(std::string_view name, int64_t start, int64_t end) {
    reader_.ApiCall(main_, name, start, end, ++correlation_);
    return correlation_;
  }
  void Launch(int64_t at, int64_t start, int64_t end, const FakeGpu& gpu = {},
              std::string_view name = "gemm") {
    reader_.Kernel(name, start, end, Call("cudaLaunchKernel", at, at + 1), gpu);
  }
  void Communicate(int64_t at, int64_t start, int64_t end) {
    Launch(at, start, end, {.stream = 20}, "ncclDevKernel_AllReduce_Sum");
  }

  FakeCaptureReader reader_;
  const uint32_t main_ = reader_.AddThread(1, "main");
  uint32_t correlation_ = 0;
};

// ---- the device ----

TEST_F(TimeReportTest, TheWholeIsFromTheFirstWorkToTheLastAndSumsUp) {
  Launch(0, 100, 200);
  Communicate(1, 150, 300);  // 50 behind compute.
  reader_.Copy(290, 350, 0, {.stream = 21});
  Launch(400, 450, 500);  // Idle from 350; its launch came at 400.
  const TimeReport report = Report();
  EXPECT_TRUE(report.has_device);
  const TimeBreakdown& whole = report.whole;
  EXPECT_EQ(whole.kernel_time_ns, 400);
  EXPECT_EQ(whole.busy_ns, 300);
  EXPECT_EQ(whole.idle_ns, 100);
  EXPECT_EQ(whole.compute_ns, 150);
  EXPECT_EQ(whole.communication_ns, 150);
  EXPECT_EQ(whole.exposed_communication_ns, 100);
  EXPECT_EQ(whole.overlapped_communication_ns, 50);
  EXPECT_EQ(whole.copy_ns, 60);
  EXPECT_EQ(whole.exposed_copy_ns, 50);
  EXPECT_EQ(
      whole.compute_ns + whole.exposed_communication_ns + whole.exposed_copy_ns + whole.idle_ns,
      whole.kernel_time_ns);
  EXPECT_EQ(whole.idle_by_cause.host_wait_ns, 100);
  EXPECT_EQ(whole.idle_by_cause.kernel_wait_ns + whole.idle_by_cause.other_ns, 0);
  EXPECT_EQ(whole.host_only_ns, 50);  // From 400 on something was launched.
  EXPECT_THAT(report.overlap, DoubleNear(1.0 / 3, 1e-9));
  EXPECT_EQ(ToString(report.kernel_types[0]), "COMPUTATION");
}

// Each step launches 4 ms of kernels in 1 ms.
TEST_F(TimeReportTest, WhereTheHostRunsAheadTheDeviceTellsHowLongAStepTakes) {
  constexpr int64_t kMs = 1'000'000;
  reader_.Step(0, 0, 30 * kMs);  // It warms up.
  Launch(kMs, 2 * kMs, 3 * kMs);
  for (int64_t step = 1; step < 6; ++step) {
    reader_.Step(step, (29 + step) * kMs, kMs);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t start_ns = (30 + 4 * (step - 1) + i) * kMs + kMs / 10;
      Launch((29 + step) * kMs + i * 1000, start_ns, start_ns + kMs);
    }
  }
  const TimeReport report = Report();
  std::vector<int64_t> times_ns;
  for (const TimeStep& step : report.steps) times_ns.push_back(step.device_step_ns);
  EXPECT_THAT(times_ns, ElementsAre(-1, 4 * kMs, 4 * kMs, 4 * kMs, 4 * kMs, -1));
}

TEST_F(TimeReportTest, WhereTheHostKeepsPaceTheDeviceDoesNot) {
  constexpr int64_t kMs = 1'000'000;
  for (int64_t step = 0; step < 4; ++step) {
    reader_.Step(step, step * 5 * kMs, 5 * kMs);
    Launch(step * 5 * kMs, step * 5 * kMs + 1000, step * 5 * kMs + 4 * kMs);
  }
  for (const TimeStep& step : Report().steps) EXPECT_EQ(step.device_step_ns, -1);
}

TEST_F(TimeReportTest, KernelsThatCopyForACallAreCopies) {
  Launch(0, 100, 200);
  reader_.Kernel("__amd_rocclr_copyBuffer", 200, 260, Call("hipMemcpyDtoD", 10, 12));
  const TimeReport report = Report();
  EXPECT_EQ(report.whole.compute_ns, 100);
  EXPECT_EQ(report.whole.exposed_copy_ns, 60);
}

TEST_F(TimeReportTest, AStepIsWhatRanWithinItWhoeverLaunchedIt) {
  reader_.Step(5, 0, 100).Step(6, 100, 100);
  Launch(10, 20, 50);
  Launch(60, 90, 130);  // Launched in step 5, runs into step 6.
  Launch(140, 150, 190);
  const TimeReport report = Report();
  ASSERT_THAT(report.steps, SizeIs(2));
  EXPECT_EQ(report.steps[0].index, 5);
  EXPECT_EQ(report.steps[0].device.kernel_time_ns, 100);
  EXPECT_EQ(report.steps[0].device.busy_ns, 40);
  EXPECT_EQ(report.steps[0].launch_count, 2);
  EXPECT_EQ(report.steps[1].device.busy_ns, 70);
  EXPECT_EQ(report.steps[1].launch_count, 1);
  EXPECT_EQ(report.steps[1].launch_ns, 1);
  for (const TimeStep& step : report.steps) {
    const TimeBreakdown& device = step.device;
    EXPECT_EQ(device.busy_ns + device.idle_ns, step.duration_ns);
    EXPECT_EQ(device.idle_by_cause.host_wait_ns + device.idle_by_cause.kernel_wait_ns +
                  device.idle_by_cause.other_ns,
              device.idle_ns);
    EXPECT_LE(device.host_only_ns, device.idle_ns);
  }
}

TEST_F(TimeReportTest, TheDeviceWithMostWorkUnlessAnotherIsAskedFor) {
  Launch(0, 0, 10, {.device = 3});
  Launch(0, 0, 50, {.device = 1});
  Launch(0, 0, 10, {.device = 2});
  TimeReport report = Report();
  EXPECT_EQ(report.device, 1);
  EXPECT_EQ(report.whole.busy_ns, 50);
  EXPECT_THAT(report.devices,
              ElementsAre(Field(&TimeDevice::number, 1), Field(&TimeDevice::number, 2),
                          Field(&TimeDevice::number, 3)));
  report = Report({.device = 3});
  EXPECT_EQ(report.whole.busy_ns, 10);
  EXPECT_THAT(report.streams, ElementsAre(Field(&StreamIdleRow::device, 3)));
  EXPECT_THAT(SummarizeTime(reader_, {.device = 7}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("did: 1, 2, 3")));
}

TEST_F(TimeReportTest, ACaptureWithoutGpuHasTheHostsPartsOnly) {
  reader_.Step(0, 0, 100).Range(main_, "enumerate(DataLoader)#_Iter.__next__", 0, 30);
  const TimeReport report = Report();
  EXPECT_FALSE(report.has_device);
  EXPECT_EQ(report.whole.kernel_time_ns, 0);
  ASSERT_THAT(report.steps, SizeIs(1));
  EXPECT_EQ(report.steps[0].data_loader_ns, 30);
  EXPECT_THAT(SummarizeTime(reader_, {.device = 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no GPU did")));
}

TEST_F(TimeReportTest, WithoutLaunchesNothingIsToldOfTheHost) {
  reader_.Kernel("gemm", 0, 10, 0).Kernel("gemm", 50, 60, 0);
  const TimeReport report = Report();
  EXPECT_EQ(report.whole.idle_ns, 40);
  EXPECT_EQ(report.whole.host_only_ns, 0);
  EXPECT_EQ(report.launches.count, 0);
  EXPECT_THAT(report.queues, IsEmpty());
}

TEST_F(TimeReportTest, LaunchedOnlyLeavesOutWhatWasLaunchedBefore) {
  reader_.Kernel("orphan", 0, 10, 999);
  Launch(20, 30, 40);
  EXPECT_EQ(Report().whole.kernel_time_ns, 40);
  EXPECT_EQ(Report({.launched_only = true}).whole.kernel_time_ns, 10);
}

TEST_F(TimeReportTest, KindsThatRanAtOnceAreToldApart) {
  Launch(0, 0, 100);
  Communicate(0, 50, 150);
  reader_.Copy(90, 160, 0, {.stream = 21});
  const TimeReport report = Report();
  std::vector<std::pair<std::string, int64_t>> types;
  for (const KernelTypeTime& type : report.kernel_types) {
    types.emplace_back(ToString(type), type.total_ns);
  }
  using Type = std::pair<std::string, int64_t>;
  EXPECT_THAT(types,
              ElementsAre(Type("COMPUTATION", 50), Type("COMMUNICATION overlapping MEMORY", 50),
                          Type("COMPUTATION overlapping COMMUNICATION", 40), Type("MEMORY", 10),
                          Type("COMPUTATION overlapping COMMUNICATION overlapping MEMORY", 10)));
  EXPECT_THAT(report.kernel_types[0].share, DoubleNear(50.0 / 160, 1e-9));
}

// ---- launches ----

TEST_F(TimeReportTest, LaunchesCountTheirCallsAndDelays) {
  const uint32_t slow = Call("cudaLaunchKernel", 0, 60 * kUs);
  reader_.Kernel("gemm", 20 * kUs, 25 * kUs, slow);  // Began before its call had ended.
  const uint32_t late = Call("cuLaunchKernelEx", 100 * kUs, 102 * kUs);
  reader_.Kernel("gemm", 302 * kUs, 400 * kUs, late);
  const LaunchStatistics launches = Report().launches;
  EXPECT_EQ(launches.count, 2);
  EXPECT_EQ(launches.call_ns, 62 * kUs);
  EXPECT_EQ(launches.device_ns, 103 * kUs);
  EXPECT_EQ(launches.delay_ns, 200 * kUs);
  EXPECT_EQ(launches.median_delay_ns, 100 * kUs);
  EXPECT_EQ(launches.shorter_than_call_count, 1);
  EXPECT_EQ(launches.slow_call_count, 1);
  EXPECT_EQ(launches.late_count, 1);
  EXPECT_EQ(launches.kernel_count, 2);
  EXPECT_EQ(launches.short_kernel_count, 1);
  EXPECT_EQ(launches.short_kernel_ns, 5 * kUs);
}

TEST_F(TimeReportTest, AGraphIsLaunchedOnce) {
  const uint32_t graph = Call("cudaGraphLaunch", 0, 10);
  reader_.Kernel("a", 20, 30, graph, {.graph_id = 1}).Kernel("b", 30, 50, graph, {.graph_id = 1});
  const TimeReport report = Report();
  EXPECT_EQ(report.launches.count, 1);
  EXPECT_EQ(report.launches.device_ns, 30);
  EXPECT_EQ(report.launches.delay_ns, 10);
}

TEST_F(TimeReportTest, AnOperatorThatLaunchesLateIsToldAndWhatBindsIt) {
  reader_.Range(main_, "forward", 0, 1000)
      .Range(main_, "aten::mm", 10, 20)
      .Range(main_, "aten::add_", 200, 300);
  reader_.Kernel("gemm", 30, 100, Call("cudaLaunchKernel", 12, 15));
  reader_.Kernel("add", 260, 262, Call("cudaLaunchKernel", 210, 250));
  const TimeReport report = Report();
  ASSERT_THAT(report.launching_ops, SizeIs(2));
  const LaunchingOpRow& late = report.launching_ops[0];
  EXPECT_EQ(late.name, "aten::add_");
  EXPECT_EQ(late.host_wait_ns, 160);
  EXPECT_TRUE(late.launch_bound);
  EXPECT_EQ(late.call_ns, 40);
  EXPECT_EQ(late.shorter_than_call_count, 1);
  EXPECT_EQ(report.launching_ops[1].name, "aten::mm");
  EXPECT_FALSE(report.launching_ops[1].launch_bound);
}

TEST_F(TimeReportTest, AQueueIsWhatWasLaunchedAndHadYetToBegin) {
  Launch(0, 10, 20);
  Launch(1, 30, 40);
  Launch(2, 50, 60);
  Launch(100, 100, 110, {.stream = 9});
  const TimeReport report = Report();
  ASSERT_THAT(report.queues, SizeIs(2));
  const QueueRow& queue = report.queues[0];  // 1 2 3 2 1 0
  EXPECT_EQ(queue.stream, 7);
  EXPECT_EQ(queue.change_count, 6);
  EXPECT_THAT(queue.mean, DoubleNear(1.5, 1e-9));
  EXPECT_THAT(queue.standard_deviation, DoubleNear(1.0488088, 1e-6));
  EXPECT_EQ(queue.min, 0);
  EXPECT_EQ(queue.p25, 1);
  EXPECT_EQ(queue.p50, 1.5);
  EXPECT_EQ(queue.p75, 2);
  EXPECT_EQ(queue.max, 3);
  EXPECT_EQ(queue.full_ns, 0);
  EXPECT_EQ(report.queues[1].stream, 9);
  EXPECT_EQ(report.queues[1].max, 1);  // Launched and begun in one instant: it was in the queue.
}

TEST_F(TimeReportTest, AFullQueueIsTimed) {
  for (int64_t i = 0; i < kFullLaunchQueue; ++i) Launch(i, 5000 + i, 5001 + i);
  const QueueRow queue = Report().queues.at(0);
  EXPECT_EQ(queue.max, kFullLaunchQueue);
  EXPECT_EQ(queue.full_ns, 5000 - (kFullLaunchQueue - 1));
}

TEST_F(TimeReportTest, ALaunchThatWaitsForRoomInTheQueueIsNotSlow) {
  for (int64_t i = 0; i < kFullLaunchQueue; ++i) Launch(i, 5000 + i, 5001 + i);
  reader_.Range(main_, "aten::mul", 1900, 4950);
  reader_.Kernel("gemm", 9000, 9001, Call("cudaLaunchKernel", 2000, 4900));
  const TimeReport report = Report();
  EXPECT_EQ(report.launches.count, kFullLaunchQueue + 1);
  EXPECT_EQ(report.launches.call_ns, kFullLaunchQueue - 1);  // The last of them filled the queue.
  ASSERT_THAT(report.launching_ops, SizeIs(2));
  for (const LaunchingOpRow& op : report.launching_ops) {
    if (op.name != "aten::mul") continue;
    EXPECT_EQ(op.launch_count, 1);
    EXPECT_EQ(op.call_ns, 0);
    EXPECT_FALSE(op.launch_bound);
  }
}

// ---- the host ----

TEST_F(TimeReportTest, ACopyThatItsCallWaitsForIsAWaitAndNoSlowLaunch) {
  reader_.Step(0, 0, 1000);
  reader_.Range(main_, "aten::to", 90, 400).Range(main_, "aten::copy_", 95, 390);
  const FakeGpu to_host = {.bytes = 704, .copy_kind = 2, .source_kind = 3, .destination_kind = 1};
  reader_.Copy(370, 378, Call("cudaMemcpyAsync", 100, 380), to_host);
  FakeGpu to_pinned = to_host;
  to_pinned.destination_kind = 2;
  reader_.Copy(510, 520, Call("cudaMemcpyAsync", 500, 600), to_pinned);
  reader_.Copy(710, 720, Call("cudaMemcpyAsync", 700, 705), to_host);  // Ends after its call.
  const TimeReport report = Report();
  ASSERT_THAT(report.syncs, SizeIs(1));
  EXPECT_EQ(report.syncs[0].call, "cudaMemcpyAsync");
  EXPECT_EQ(report.syncs[0].cause, SyncCause::kCopy);
  EXPECT_EQ(report.syncs[0].op, "aten::to");
  EXPECT_EQ(report.syncs[0].total_ns, 280);
  EXPECT_EQ(report.steps.at(0).sync_ns, 280);
  EXPECT_EQ(report.steps[0].launch_count, 3);
  EXPECT_EQ(report.steps[0].launch_ns, 105);
  EXPECT_EQ(report.launches.call_ns, 105);
}

TEST_F(TimeReportTest, WaitsOfTheHostHaveTheirCause) {
  reader_.Step(4, 0, 500).Step(5, 500, 500);
  reader_.Range(main_, "ProfilerStep#4", 0, 500).Range(main_, "loss", 90, 200);
  reader_.Range(main_, "aten::item", 100, 150).Range(main_, "aten::_local_scalar_dense", 101, 149);
  Call("cudaStreamSynchronize", 110, 140);
  reader_.Range(main_, "aten::to", 210, 260).Range(main_, "aten::copy_", 211, 259);
  Call("cudaStreamSynchronize", 220, 240);
  reader_.Range(main_, "aten::nonzero", 300, 350);
  Call("cudaStreamSynchronize", 310, 320);
  Call("cudaDeviceSynchronize", 600, 605);
  Call("cudaMalloc", 700, 703);
  Call("cudaStreamWaitEvent", 710, 720);  // Only streams wait.
  const TimeReport report = Report();
  ASSERT_THAT(report.syncs, SizeIs(5));
  EXPECT_EQ(report.syncs[0].cause, SyncCause::kItem);
  EXPECT_EQ(report.syncs[0].op, "aten::item");
  EXPECT_EQ(report.syncs[0].where, "loss");
  EXPECT_EQ(report.syncs[0].total_ns, 30);
  EXPECT_EQ(report.syncs[0].per_step, 0.5);
  EXPECT_EQ(report.syncs[1].cause, SyncCause::kCopy);
  EXPECT_EQ(report.syncs[1].op, "aten::to");
  EXPECT_EQ(report.syncs[1].where, "");  // A step's number would make a row of each step.
  EXPECT_EQ(report.syncs[2].cause, SyncCause::kOperator);
  EXPECT_EQ(report.syncs[3].cause, SyncCause::kExplicit);
  EXPECT_EQ(report.syncs[4].cause, SyncCause::kAllocator);
  EXPECT_EQ(report.steps[0].sync_count, 3);
  EXPECT_EQ(report.steps[0].sync_ns, 60);
  EXPECT_EQ(report.steps[1].sync_ns, 8);
}

TEST(SyncCallTest, CallsThatWaitAreKnownByName) {
  for (const std::string_view name :
       {"cudaStreamSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize", "cudaEventSynchronize",
        "cudaMemcpy", "cudaMemcpy2D", "cuMemcpyDtoH_v2", "cudaFree", "hipMalloc",
        "cuMemAlloc_v2"}) {
    EXPECT_TRUE(IsSyncCall(name)) << name;
  }
  for (const std::string_view name :
       {"cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaLaunchKernel", "cudaStreamWaitEvent",
        "cudaFreeAsync", "cudaMallocAsync", "Synchronize", "", "cuda"}) {
    EXPECT_FALSE(IsSyncCall(name)) << name;
  }
}

TEST_F(TimeReportTest, WaitsForTheDataLoaderAreTheOutermostAndOnTheThreadOfTheSteps) {
  const uint32_t other = reader_.AddThread(2, "prefetch");
  reader_.Step(0, 0, 100).Step(1, 100, 100).StepThread(main_);
  reader_.Range(main_, "enumerate(DataLoader)#_Outer.__next__", 10, 40)
      .Range(main_, "enumerate(DataPipe)#Inner", 15, 35)
      .Range(main_, "enumerate(DataLoader)#_Outer.__next__", 110, 120)
      .Range(other, "enumerate(DataLoader)#_Other.__next__", 10, 90);
  const TimeReport report = Report();
  EXPECT_EQ(report.data_loader.count, 3);
  EXPECT_EQ(report.data_loader.total_ns, 120);
  EXPECT_EQ(report.data_loader.max_ns, 80);
  EXPECT_EQ(report.data_loader.in_steps_ns, 40);
  EXPECT_EQ(report.steps[0].data_loader_ns, 30);
  EXPECT_EQ(report.steps[1].data_loader_ns, 10);
}

TEST_F(TimeReportTest, CompiledRegionsAreCountedByStep) {
  reader_.Step(0, 0, 100).Range(main_, "Torch-Compiled Region: 0/0", 10, 20);
  const TimeReport report = Report();
  EXPECT_EQ(report.steps[0].compiled_regions, 1);
  EXPECT_TRUE(report.compile.has_compiled);
}

TEST_F(TimeReportTest, CollectivesHaveSizesAndBandwidth) {
  const auto all_reduce = [&](int64_t start, int64_t end) {
    reader_.Operator(
        main_, "record_param_comms", start, start + 5,
        {.inputs = reader_.Inputs("[[1000],[]]", R"(["float",""])"),
         .scalars = reader_.Scalars(R"(["","12","","0","allreduce","[]","[]","0","1","4"])")});
    reader_.Kernel("ncclDevKernel_AllReduce", start + 10, end,
                   Call("cudaLaunchKernelExC", start + 1, start + 2), {.stream = 20});
  };
  all_reduce(0, 1010);
  all_reduce(2000, 4010);
  const TimeReport report = Report();
  ASSERT_THAT(report.collectives, SizeIs(1));
  const CollectiveSumRow& row = report.collectives[0];
  EXPECT_EQ(row.kind, CollectiveKind::kAllReduce);
  EXPECT_EQ(row.group_size, 4);
  EXPECT_EQ(row.bytes, 4000);
  EXPECT_EQ(row.count, 2);
  EXPECT_EQ(row.total_ns, 3000);
  EXPECT_EQ(row.exposed_ns, 3000);
  EXPECT_THAT(row.algorithm_gb_per_s, DoubleNear(4, 1e-9));  // 4000 B in 1 us.
  EXPECT_THAT(row.bus_gb_per_s, DoubleNear(6, 1e-9));        // 2 (n - 1) / n of that.
}

TEST_F(TimeReportTest, TheCallThatIssuesACollectiveTellsNoBandwidth) {
  reader_.Operator(
      main_, "record_param_comms", 0, 40'000,
      {.inputs = reader_.Inputs("[[1000],[]]", R"(["float",""])"),
       .scalars = reader_.Scalars(R"(["","12","","0","allreduce","[]","[]","0","1","4"])")});
  const TimeReport report = Report();
  ASSERT_THAT(report.collectives, SizeIs(1));
  EXPECT_EQ(report.collectives[0].bytes, 4000);
  EXPECT_EQ(report.collectives[0].algorithm_gb_per_s, -1);
  EXPECT_EQ(report.collectives[0].bus_gb_per_s, -1);
}

TEST(BusFactorTest, IsThatOfNcclsTests) {
  EXPECT_EQ(BusFactor(CollectiveKind::kAllReduce, 8), 1.75);
  EXPECT_EQ(BusFactor(CollectiveKind::kAllGather, 8), 7);  // Of one rank's part.
  EXPECT_EQ(BusFactor(CollectiveKind::kReduceScatter, 8), 0.875);
  EXPECT_EQ(BusFactor(CollectiveKind::kAllToAll, 8), 0.875);
  EXPECT_EQ(BusFactor(CollectiveKind::kBroadcast, 8), 1);
  EXPECT_EQ(BusFactor(CollectiveKind::kBarrier, 8), -1);
  EXPECT_EQ(BusFactor(CollectiveKind::kAllReduce, 0), -1);
  EXPECT_EQ(BusFactor(CollectiveKind::kAllReduce, 1), -1);
}

// ---- a stranger's file ----

TEST_F(TimeReportTest, TimesOfAHostileFileDoNotOverflow) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  reader_.mutable_record().start_unix_ns = kMin;
  reader_.Step(0, kMax, kMax).Step(1, 0, -5).Step(1, kMin, kMax);
  reader_.Range(main_, "enumerate(DataLoader)#x", kMin, -1);
  reader_.ApiCall(main_, "cudaLaunchKernel", kMin, -1, 1);
  reader_.ApiCall(main_, "cudaStreamSynchronize", kMin, -1, 2);
  reader_.Kernel("a", 0, kMax, 1).Kernel("a", kMin, -1, 1).Copy(-10, -5, 1);
  reader_.Sync(3, kMin, -1, 1, {.stream = 7});
  EXPECT_THAT(SummarizeTime(reader_, {}), IsOk());
}

TEST_F(TimeReportTest, AnErrorOfTheReaderIsReturned) {
  Launch(0, 10, 20);
  reader_.FailAfter(0, absl::DataLossError("damaged"));
  EXPECT_THAT(SummarizeTime(reader_, {}), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace profd::report
