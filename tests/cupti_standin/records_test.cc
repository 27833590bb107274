// What is recorded, held against what happened.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RecordsTest : public TestClient {
 protected:
  using TestClient::TestClient;
  uint32_t CreateStream(uint32_t context = 1) {
    uint32_t stream = 0;
    EXPECT_EQ(cupti_.sgpu_stream_create(context, 0, 1, &stream), 0);
    return stream;
  }
  void SettleAndFlush() {
    ASSERT_EQ(cupti_.sgpu_settle(), 0);
    FlushAll();
    // Buffers that were full are brought by a thread of the stand-in's own.
    while (Stats().buffers_out != 0 || Completed().size() != Stats().buffers_completed) {
      std::this_thread::yield();
    }
  }
  template <typename Record>
  Record Only(uint32_t kind) {
    const std::vector<Seen> records = Records(kind);
    EXPECT_THAT(records, SizeIs(1));
    return records.empty() ? Record{} : records[0].As<Record>();
  }
};

using Times = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;  // Kind, correlation, start, end.

TEST_F(RecordsTest, EverythingThatHappenedIsRecordedOnceWithItsTimes) {
  Trace({kRuntime, kDriver, kKernel, kMemcpy, kMemset, kSynchronization});
  const uint32_t other = CreateStream();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(Launch("a", 100 + i), 0);
    ASSERT_EQ(cupti_.sgpu_launch(other, "b", {1, 1, 1}, {32, 1, 1}, 500, 100, 0), 0);
    ASSERT_EQ(cupti_.sgpu_memcpy(other, SGPU_HTOD, 1 << 16, 1, 1), 0);
    ASSERT_EQ(cupti_.sgpu_memset(stream_, 7, 1 << 10, 1), 0);
    if (i % 10 != 0) continue;
    ASSERT_EQ(cupti_.sgpu_stream_sync(other), 0);
  }
  SettleAndFlush();

  std::multiset<Times> expected;
  for (const sgpu_truth_rec& each : Truth()) {
    EXPECT_EQ(each.fate, static_cast<uint32_t>(SGPU_WRITTEN));
    expected.emplace(each.kind, each.correlation_id, each.start_ns, each.end_ns);
  }
  std::multiset<Times> recorded;
  for (const Seen& seen : Records()) {
    switch (seen.kind) {
      case kKernel: {
        const auto record = seen.As<KernelRecord>();
        recorded.emplace(seen.kind, record.correlation, record.start, record.end);
        break;
      }
      case kMemcpy: {
        const auto record = seen.As<CopyRecord>();
        recorded.emplace(seen.kind, record.correlation, record.start, record.end);
        break;
      }
      case kMemset: {
        const auto record = seen.As<MemsetRecord>();
        recorded.emplace(seen.kind, record.correlation, record.start, record.end);
        break;
      }
      case kSynchronization: {
        const auto record = seen.As<SynchronizationRecord>();
        recorded.emplace(seen.kind, record.correlation, record.start, record.end);
        break;
      }
      default: {
        const auto record = seen.As<ApiRecord>();
        recorded.emplace(seen.kind, record.correlation, record.start, record.end);
      }
    }
  }
  // Of more than 1,000 records only those that differ are worth reading.
  std::vector<Times> invented;
  std::set_difference(recorded.begin(), recorded.end(), expected.begin(), expected.end(),
                      std::back_inserter(invented));
  EXPECT_THAT(invented, IsEmpty());
  std::vector<Times> missing;
  std::set_difference(expected.begin(), expected.end(), recorded.begin(), recorded.end(),
                      std::back_inserter(missing));
  EXPECT_THAT(missing, IsEmpty());
  const sgpu_stats_rec stats = Stats();
  EXPECT_EQ(stats.launches, 400U);
  EXPECT_EQ(stats.records[kKernel], 400U);
  EXPECT_EQ(stats.delivered[kMemcpy], 200U);
  EXPECT_EQ(stats.dropped, 0U);
}

TEST_F(RecordsTest, AKernelIsRecordedAsItWasLaunched) {
  Trace({kRuntime, kKernel});
  ASSERT_EQ(cupti_.sgpu_kernel_attributes("gemm", 168, 1024, 65536, 16), 0);
  ASSERT_EQ(Launch("gemm", 5000), 0);
  SettleAndFlush();
  const auto kernel = Only<KernelRecord>(kKernel);
  EXPECT_STREQ(kernel.name, "gemm");
  EXPECT_THAT(kernel.grid, ElementsAre(8, 4, 2));
  EXPECT_THAT(kernel.block, ElementsAre(128, 2, 1));
  EXPECT_EQ(kernel.registers, 168);
  EXPECT_EQ(kernel.static_shared, 1024U);
  EXPECT_EQ(kernel.dynamic_shared, 65536U);
  EXPECT_EQ(kernel.local_per_thread, 16U);
  EXPECT_EQ(kernel.end - kernel.start, 5000U);
  EXPECT_EQ(kernel.device, 0U);
  EXPECT_EQ(kernel.context, 1U);
  EXPECT_EQ(kernel.stream, 7U) << "the default stream's id";
  EXPECT_EQ(kernel.queued, 0U);
  EXPECT_EQ(kernel.correlation, Only<ApiRecord>(kRuntime).correlation);
}

TEST_F(RecordsTest, LatencyTimestampsAreThereIfAskedFor) {
  ASSERT_EQ(cupti_.cuptiActivityEnableLatencyTimestamps(1), CUPTI_SUCCESS);
  Trace({kKernel});
  ASSERT_EQ(Launch(), 0);
  SettleAndFlush();
  const auto kernel = Only<KernelRecord>(kKernel);
  EXPECT_NE(kernel.queued, 0U);
  EXPECT_LE(kernel.submitted, kernel.start);
}

TEST_F(RecordsTest, WorkOnOneStreamRunsInOrderAndStreamsOverlap) {
  const uint32_t other = CreateStream();
  ASSERT_EQ(Launch("first", 100'000), 0);
  ASSERT_EQ(Launch("second", 100'000), 0);
  ASSERT_EQ(cupti_.sgpu_launch(other, "beside", {1, 1, 1}, {1, 1, 1}, 100'000, 1, 0), 0);
  const std::vector<sgpu_truth_rec> kernels = Truth(kKernel);
  ASSERT_THAT(kernels, SizeIs(3));
  EXPECT_GE(kernels[1].start_ns, kernels[0].end_ns);
  EXPECT_LT(kernels[2].start_ns, kernels[0].end_ns);
  EXPECT_EQ(kernels[2].stream, 13U);
}

TEST_F(RecordsTest, AStreamWaitsForAnEventOfAnother) {
  const uint32_t other = CreateStream();
  ASSERT_EQ(Launch("producer", 1'000'000), 0);
  uint32_t event = 0;
  ASSERT_EQ(cupti_.sgpu_event_record(stream_, &event), 0);
  ASSERT_EQ(cupti_.sgpu_stream_wait_event(other, event), 0);
  ASSERT_EQ(cupti_.sgpu_launch(other, "consumer", {1, 1, 1}, {1, 1, 1}, 10, 1, 0), 0);
  const std::vector<sgpu_truth_rec> kernels = Truth(kKernel);
  EXPECT_GE(kernels[1].start_ns, kernels[0].end_ns);
}

TEST_F(RecordsTest, RuntimeCallsContainTheDriversCallOfTheSameId) {
  Trace({kRuntime, kDriver});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  const auto runtime = Only<ApiRecord>(kRuntime);
  const auto driver = Only<ApiRecord>(kDriver);
  EXPECT_EQ(runtime.cbid, 211U);
  EXPECT_EQ(driver.cbid, 307U);
  EXPECT_EQ(driver.correlation, runtime.correlation);
  EXPECT_GE(driver.start, runtime.start);
  EXPECT_LE(driver.end, runtime.end);
  EXPECT_EQ(runtime.process, static_cast<uint32_t>(getpid()));
}

TEST_F(RecordsTest, ALaunchCanBeTheDriversAlone) {
  Trace({kRuntime, kDriver, kKernel});
  ASSERT_EQ(Launch("triton", 100, SGPU_DRIVER_CBID | 652), 0);
  SettleAndFlush();
  EXPECT_THAT(Records(kRuntime), IsEmpty());
  EXPECT_EQ(Only<ApiRecord>(kDriver).cbid, 652U);
  EXPECT_EQ(Only<ApiRecord>(kDriver).correlation, Only<KernelRecord>(kKernel).correlation);
}

TEST_F(RecordsTest, SomeCallsCanBeLeftOutAndStillCount) {
  Trace({kRuntime});
  ASSERT_EQ(cupti_.cuptiActivityEnableRuntimeApi(17, 0), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.sgpu_api_call(SGPU_DOMAIN_RUNTIME, 17, 10, 0), 0);
  ASSERT_EQ(cupti_.sgpu_api_call(SGPU_DOMAIN_RUNTIME, 10, 10, 2), 0);
  ASSERT_EQ(cupti_.sgpu_api_call(SGPU_DOMAIN_RUNTIME, 17, 10, 0), 0);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  const std::vector<Seen> calls = Records(kRuntime);
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_EQ(calls[0].As<ApiRecord>().return_value, 2U);
  EXPECT_EQ(calls[1].As<ApiRecord>().correlation - calls[0].As<ApiRecord>().correlation, 2U)
      << "the id of a call left out is used up";
}

TEST_F(RecordsTest, ChosenCallsWithoutTheKindAreNotRecorded) {
  Trace({});
  ASSERT_EQ(cupti_.cuptiActivityEnableDriverApi(307, 1), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(), IsEmpty());
  Trace({kDriver});
  ASSERT_EQ(cupti_.sgpu_api_call(SGPU_DOMAIN_DRIVER, 304, 10, 0), 0);
  FlushAll();
  EXPECT_EQ(Only<ApiRecord>(kDriver).cbid, 304U) << "the kind turns all functions on";
}

class FutureRecordsTest : public RecordsTest {
 protected:
  FutureRecordsTest() : RecordsTest("future/libcupti.so.13") {}
};

TEST_F(FutureRecordsTest, ChosenCallsAreRecordedWithoutTheKindUntilItWasTurnedOff) {
  Trace({});
  ASSERT_EQ(cupti_.cuptiActivityEnableDriverApi(307, 1), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_EQ(Only<ApiRecord>(kDriver).cbid, 307U);
  ASSERT_EQ(Enable(kDriver), CUPTI_SUCCESS);
  Disable({kDriver});
  ASSERT_EQ(cupti_.cuptiActivityEnableDriverApi(307, 1), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kDriver), SizeIs(1));
}

TEST_F(RecordsTest, From13OnThereAreIdsOnlyWhileCallsAreRecorded) {
  Trace({kKernel});
  ASSERT_EQ(Launch(), 0);
  Set("always_correlate", 1);
  ASSERT_EQ(Launch(), 0);
  SettleAndFlush();
  const std::vector<Seen> kernels = Records(kKernel);
  ASSERT_THAT(kernels, SizeIs(2));
  EXPECT_EQ(kernels[0].As<KernelRecord>().correlation, 0U);
  EXPECT_NE(kernels[1].As<KernelRecord>().correlation, 0U);
}

class OldRecordsTest : public TestClient {
 protected:
  OldRecordsTest() : TestClient("12.4/libcupti.so.12") {}
};

TEST_F(OldRecordsTest, Before13ThereAreIdsAlways) {
  Trace({kKernel});
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  ASSERT_THAT(Records(kKernel), SizeIs(1));
  EXPECT_NE(Records(kKernel)[0].As<KernelRecord>().correlation, 0U);
}

TEST_F(RecordsTest, ExternalIdsAreRecordedJustBeforeTheirCall) {
  Trace({kRuntime, kExternalCorrelation});
  const auto default_kind = static_cast<CUpti_ExternalCorrelationKind>(3);
  const auto user_kind = static_cast<CUpti_ExternalCorrelationKind>(4);
  uint64_t last = 0;
  EXPECT_EQ(cupti_.cuptiActivityPopExternalCorrelationId(default_kind, &last),
            CUPTI_ERROR_QUEUE_EMPTY);
  ASSERT_EQ(cupti_.cuptiActivityPushExternalCorrelationId(default_kind, 100), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.cuptiActivityPushExternalCorrelationId(default_kind, 101), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.cuptiActivityPushExternalCorrelationId(user_kind, 7), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(cupti_.cuptiActivityPopExternalCorrelationId(default_kind, &last), CUPTI_SUCCESS);
  EXPECT_EQ(last, 101U);
  std::thread([&] { Launch(); }).join();  // The stack is the thread's own.
  FlushAll();
  const std::vector<Seen> records = Records();
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_EQ(records[0].As<ExternalCorrelationRecord>().external_id, 101U);
  EXPECT_EQ(records[1].As<ExternalCorrelationRecord>().external_id, 7U);
  EXPECT_EQ(records[1].As<ExternalCorrelationRecord>().correlation,
            records[2].As<ApiRecord>().correlation);
  EXPECT_EQ(records[2].kind, static_cast<uint32_t>(kRuntime));
}

TEST_F(RecordsTest, ThreadsAreNamedByPthreadUntilToldOtherwise) {
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  const std::vector<Seen> calls = Records(kRuntime);
  EXPECT_EQ(calls[0].As<ApiRecord>().thread, static_cast<uint32_t>(pthread_self()));
  EXPECT_EQ(calls[1].As<ApiRecord>().thread, ThreadId());
}

TEST_F(RecordsTest, ADisabledKindStillDeliversWhatWasUnderWay) {
  Trace({kKernel});
  ASSERT_EQ(Launch("under way", 1'000'000), 0);
  Disable({kKernel});
  ASSERT_EQ(Launch("later", 1000), 0);
  SettleAndFlush();
  EXPECT_STREQ(Only<KernelRecord>(kKernel).name, "under way");
}

TEST_F(RecordsTest, WaitsAreRecordedByWhatWasWaitedFor) {
  Trace({kSynchronization, kCudaEvent});
  uint32_t event = 0;
  ASSERT_EQ(Launch("long", 1'000'000), 0);
  ASSERT_EQ(cupti_.sgpu_event_record(stream_, &event), 0);
  ASSERT_EQ(cupti_.sgpu_stream_wait_event(CreateStream(), event), 0);
  ASSERT_EQ(cupti_.sgpu_event_sync(event), 0);
  ASSERT_EQ(cupti_.sgpu_stream_sync(stream_), 0);
  ASSERT_EQ(cupti_.sgpu_device_sync(1), 0);
  FlushAll();
  const std::vector<Seen> waits = Records(kSynchronization);
  ASSERT_THAT(waits, SizeIs(4));
  const auto wait_event = waits[0].As<SynchronizationRecord>();
  EXPECT_EQ(wait_event.type, kStreamWaitEvent);
  EXPECT_EQ(wait_event.stream, 13U);
  EXPECT_EQ(wait_event.event, event);
  const auto event_sync = waits[1].As<SynchronizationRecord>();
  EXPECT_EQ(event_sync.type, kEventSync);
  EXPECT_EQ(event_sync.stream, kNoStream);
  EXPECT_GE(event_sync.end - event_sync.start, 900'000U) << "it waited for the kernel";
  EXPECT_EQ(waits[2].As<SynchronizationRecord>().type, kStreamSync);
  EXPECT_EQ(waits[2].As<SynchronizationRecord>().stream, 7U);
  EXPECT_EQ(waits[3].As<SynchronizationRecord>().type, kContextSync);
  const auto recorded = Only<CudaEventRecord>(kCudaEvent);
  EXPECT_EQ(recorded.event, event);
  EXPECT_EQ(recorded.event_sync, wait_event.event_sync);
}

TEST_F(RecordsTest, QueriesOfWhatIsDoneAreAlwaysRecordedAsWaits) {
  Trace({kSynchronization});
  ASSERT_EQ(cupti_.cuptiActivityEnableAllSyncRecords(0), CUPTI_SUCCESS);
  uint32_t event = 0;
  ASSERT_EQ(cupti_.sgpu_event_record(stream_, &event), 0);
  ASSERT_EQ(cupti_.sgpu_event_query(event), 0);
  FlushAll();
  EXPECT_EQ(Only<SynchronizationRecord>(kSynchronization).return_value, 0U);
}

TEST_F(RecordsTest, QueriesOfWhatIsNotDoneAreRecordedAsWaitsUnlessTheClientTurnsThatOff) {
  Trace({kSynchronization});
  uint32_t event = 0;
  ASSERT_EQ(Launch("long", 1'000'000), 0);
  ASSERT_EQ(cupti_.sgpu_event_record(stream_, &event), 0);
  EXPECT_EQ(cupti_.sgpu_event_query(event), 600) << "not ready";
  ASSERT_EQ(cupti_.cuptiActivityEnableAllSyncRecords(0), CUPTI_SUCCESS);
  EXPECT_EQ(Stats().all_sync_records, 0U);
  cupti_.sgpu_event_query(event);
  FlushAll();
  EXPECT_EQ(Only<SynchronizationRecord>(kSynchronization).return_value, 600U);
}

TEST_F(RecordsTest, CopiesSayWhatTheyMoved) {
  uint32_t context = 0;
  ASSERT_EQ(cupti_.sgpu_ctx_create(1, &context), 0);
  EXPECT_EQ(context, 2U);
  Trace({kMemcpy, kRuntime});
  ASSERT_EQ(cupti_.sgpu_memcpy(stream_, SGPU_DTOH, 1'000'000, 0, 0), 0);
  ASSERT_EQ(cupti_.sgpu_memcpy_peer(stream_, 0, 1, 4096), 0);
  EXPECT_EQ(cupti_.sgpu_memcpy(stream_, 3, 1, 1, 1), 1) << "arrays are not simulated";
  EXPECT_EQ(cupti_.sgpu_memcpy_peer(stream_, 0, 2, 4096), 1);
  SettleAndFlush();
  const auto copy = Only<CopyRecord>(kMemcpy);
  EXPECT_EQ(copy.copy_kind, SGPU_DTOH);
  EXPECT_EQ(copy.bytes, 1'000'000U);
  EXPECT_EQ(copy.source_kind, 3);
  EXPECT_EQ(copy.destination_kind, 1) << "pageable";
  EXPECT_EQ(copy.flags, 0) << "not asynchronous";
  const auto peer = Only<PeerCopyRecord>(kPeerCopy);
  EXPECT_EQ(peer.source_device, 0U);
  EXPECT_EQ(peer.destination_device, 1U);
  EXPECT_EQ(peer.bytes, 4096U);
  const auto call = Records(kRuntime)[0].As<ApiRecord>();
  EXPECT_GE(call.end, copy.end) << "the call returned when the copy was done";
}

TEST_F(RecordsTest, AllocationsAndTheirPoolsAreRecorded) {
  Trace({kMemory, kMemoryPool});
  uint64_t plain = 0;
  uint64_t pooled = 0;
  ASSERT_EQ(cupti_.sgpu_malloc(stream_, 1000, 0, &plain), 0);
  ASSERT_EQ(cupti_.sgpu_malloc(stream_, 2000, 1, &pooled), 0);
  EXPECT_NE(plain, pooled);
  ASSERT_EQ(cupti_.sgpu_free(stream_, plain, 0), 0);
  EXPECT_EQ(cupti_.sgpu_free(stream_, plain, 0), 1) << "it is free already";
  ASSERT_EQ(cupti_.sgpu_free(stream_, pooled, 1), 0);
  ASSERT_EQ(cupti_.sgpu_pool_trim(stream_, 100), 0);
  FlushAll();
  const std::vector<Seen> memory = Records(kMemory);
  ASSERT_THAT(memory, SizeIs(4));
  EXPECT_EQ(memory[0].As<MemoryRecord>().operation, 1U);
  EXPECT_EQ(memory[0].As<MemoryRecord>().address, plain);
  EXPECT_EQ(memory[0].As<MemoryRecord>().bytes, 1000U);
  EXPECT_EQ(memory[1].As<MemoryRecord>().is_async, 1U);
  EXPECT_EQ(memory[1].As<MemoryRecord>().pool_utilized, 2000U);
  EXPECT_EQ(memory[2].As<MemoryRecord>().operation, 2U);
  EXPECT_EQ(memory[3].As<MemoryRecord>().address, pooled);
  const std::vector<Seen> pools = Records(kMemoryPool);
  ASSERT_THAT(pools, SizeIs(2));
  EXPECT_EQ(pools[0].As<MemoryPoolRecord>().operation, 1U);
  EXPECT_EQ(pools[1].As<MemoryPoolRecord>().operation, 3U);
  EXPECT_EQ(pools[1].As<MemoryPoolRecord>().size, 100U);
}

TEST_F(RecordsTest, CallsThatAllocateTakeAsLongAsAsked) {
  Trace({kRuntime});
  ASSERT_EQ(cupti_.sgpu_set("allocation_us", "2000"), 0);
  uint64_t plain = 0;
  uint64_t pooled = 0;
  ASSERT_EQ(cupti_.sgpu_malloc(stream_, 1000, 0, &plain), 0);
  ASSERT_EQ(cupti_.sgpu_free(stream_, plain, 0), 0);
  ASSERT_EQ(cupti_.sgpu_malloc(stream_, 1000, 1, &pooled), 0);
  ASSERT_EQ(cupti_.sgpu_set("allocation_us", "0"), 0);
  FlushAll();
  const std::vector<Seen> calls = Records(kRuntime);
  ASSERT_THAT(calls, SizeIs(3));
  const auto took_ns = [&](size_t i) {
    return calls[i].As<ApiRecord>().end - calls[i].As<ApiRecord>().start;
  };
  EXPECT_GE(took_ns(0), 2'000'000U);
  EXPECT_GE(took_ns(1), 2'000'000U);
  EXPECT_LT(took_ns(2), 2'000'000U) << "it comes from a pool";
}

TEST_F(RecordsTest, WhatIsThereAlreadyCanBeDumped) {
  uint32_t context = 0;
  ASSERT_EQ(cupti_.sgpu_ctx_create(1, &context), 0);
  CreateStream(context);
  Trace({});
  for (const uint32_t kind : {kDevice, kContext, kStream}) {
    ASSERT_EQ(cupti_.cuptiActivityEnableAndDump(static_cast<CUpti_ActivityKind>(kind)),
              CUPTI_SUCCESS);
  }
  CreateStream();
  FlushAll();
  const std::vector<Seen> devices = Records(kDevice);
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_EQ(devices[1].As<DeviceRecord>().id, 1U);
  EXPECT_STREQ(devices[0].As<DeviceRecord>().name, "Simulated GPU");
  for (const Seen& device : devices) std::free(const_cast<char*>(device.As<DeviceRecord>().name));
  ASSERT_THAT(Records(kContext), SizeIs(2));
  EXPECT_EQ(Records(kContext)[1].As<ContextRecord>().device, 1U);
  EXPECT_EQ(Records(kContext)[0].As<ContextRecord>().null_stream, 7U);
  ASSERT_THAT(Records(kStream), SizeIs(4)) << "two default streams, one made before, one after";
  uint32_t device = 0;
  EXPECT_EQ(cupti_.cuptiGetDeviceId(reinterpret_cast<CUcontext>(uintptr_t{context}), &device),
            CUPTI_SUCCESS);
  EXPECT_EQ(device, 1U);
}

class GraphTest : public RecordsTest {
 protected:
  using RecordsTest::RecordsTest;
  // Two kernels and a copy.
  uint32_t Instantiate() {
    EXPECT_EQ(cupti_.sgpu_graph_begin(stream_), 0);
    EXPECT_EQ(Launch("node a", 1000), 0);
    EXPECT_EQ(cupti_.sgpu_memcpy(stream_, SGPU_DTOD, 4096, 1, 0), 0);
    EXPECT_EQ(Launch("node b", 2000), 0);
    uint32_t graph = 0;
    uint32_t exec = 0;
    EXPECT_EQ(cupti_.sgpu_graph_end(stream_, &graph), 0);
    EXPECT_EQ(cupti_.sgpu_graph_instantiate(graph, &exec), 0);
    return exec;
  }
};

TEST_F(GraphTest, NodesShareTheIdOfTheirLaunchAndEachLaunchHasItsOwn) {
  const uint32_t exec = Instantiate();
  EXPECT_THAT(Truth(kKernel), IsEmpty()) << "what is captured does not run";
  Trace({kRuntime, kKernel, kMemcpy});
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  SettleAndFlush();
  const std::vector<Seen> calls = Records(kRuntime);
  const std::vector<Seen> kernels = Records(kKernel);
  ASSERT_THAT(calls, SizeIs(2));
  ASSERT_THAT(kernels, SizeIs(4));
  EXPECT_EQ(calls[0].As<ApiRecord>().cbid, 311U);
  const auto a = kernels[0].As<KernelRecord>();
  const auto b = kernels[1].As<KernelRecord>();
  EXPECT_EQ(a.correlation, calls[0].As<ApiRecord>().correlation);
  EXPECT_EQ(b.correlation, a.correlation);
  EXPECT_EQ(a.graph, exec);
  EXPECT_NE(a.graph_node, b.graph_node);
  EXPECT_EQ(kernels[2].As<KernelRecord>().graph_node, a.graph_node);
  EXPECT_NE(kernels[2].As<KernelRecord>().correlation, a.correlation);
  EXPECT_EQ(Records(kMemcpy)[0].As<CopyRecord>().graph, exec);
}

TEST_F(GraphTest, ATraceOfGraphsReplacesTheirNodes) {
  Trace({kRuntime, kKernel, kMemcpy, kGraphTrace});
  const uint32_t exec = Instantiate();
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  ASSERT_EQ(Launch("alone", 100), 0);
  SettleAndFlush();
  EXPECT_STREQ(Only<KernelRecord>(kKernel).name, "alone");
  EXPECT_THAT(Records(kMemcpy), IsEmpty());
  const auto graph = Only<GraphTraceRecord>(kGraphTrace);
  EXPECT_EQ(graph.graph, exec);
  EXPECT_GT(graph.end - graph.start, 3000U);
  const std::vector<Seen> calls = Records(kRuntime);
  ASSERT_GE(calls.size(), 2U);
  EXPECT_EQ(graph.correlation, calls[calls.size() - 2].As<ApiRecord>().correlation);
}

TEST_F(GraphTest, AGraphOlderThanATraceOfGraphsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const uint32_t exec = Instantiate();
  Trace({kKernel, kGraphTrace});
  EXPECT_DEATH(cupti_.sgpu_graph_launch(exec, stream_, 100), "older than GRAPH_TRACE");
  Disable({kGraphTrace});
  EXPECT_DEATH(cupti_.sgpu_graph_launch(exec, stream_, 100), "older than GRAPH_TRACE");
}

class FutureGraphTest : public GraphTest {
 protected:
  FutureGraphTest() : GraphTest("future/libcupti.so.13") {}
};

TEST_F(FutureGraphTest, AGraphOlderThanATraceOfGraphsHasNoRecords) {
  const uint32_t exec = Instantiate();
  Trace({kKernel, kMemcpy, kGraphTrace});
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  Disable({kGraphTrace});
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  SettleAndFlush();
  EXPECT_THAT(Records(kKernel), IsEmpty());
  EXPECT_THAT(Records(kMemcpy), IsEmpty());
  EXPECT_THAT(Records(kGraphTrace), IsEmpty());
  EXPECT_THAT(Truth(kKernel), SizeIs(4));
}

TEST_F(GraphTest, AMemsetNodeOfAGraphMadeUnwatchedIsAKernelWithoutAName) {
  ASSERT_EQ(cupti_.sgpu_graph_begin(stream_), 0);
  ASSERT_EQ(Launch("node", 1000), 0);
  ASSERT_EQ(cupti_.sgpu_memset(stream_, 0, 4096, 1), 0);
  uint32_t graph = 0;
  uint32_t exec = 0;
  ASSERT_EQ(cupti_.sgpu_graph_end(stream_, &graph), 0);
  ASSERT_EQ(cupti_.sgpu_graph_instantiate(graph, &exec), 0);
  Trace({kKernel, kMemset});
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  SettleAndFlush();
  EXPECT_THAT(Records(kMemset), IsEmpty());
  ASSERT_THAT(Records(kKernel), SizeIs(2));
  EXPECT_STREQ(Records(kKernel)[0].As<KernelRecord>().name, "node");
  EXPECT_EQ(Records(kKernel)[1].As<KernelRecord>().name, nullptr);
}

TEST_F(GraphTest, AGraphMadeUnwatchedMayHideItsNodes) {
  Set("opaque_graphs", 1);
  const uint32_t exec = Instantiate();
  Trace({kKernel, kMemcpy});
  ASSERT_EQ(cupti_.sgpu_graph_launch(exec, stream_, 100), 0);
  SettleAndFlush();
  EXPECT_THAT(Records(kMemcpy), IsEmpty());
  ASSERT_THAT(Records(kKernel), SizeIs(3)) << "the copy is reported as a kernel";
  EXPECT_EQ(Records(kKernel)[0].As<KernelRecord>().name, nullptr);
}

class ModuleTest : public RecordsTest {
 protected:
  sgpu_module* Load(const char* name) {
    sgpu_module* module = nullptr;
    EXPECT_EQ(cupti_.sgpu_module_load(&name, 1, &module), 0);
    return module;
  }
  // The name in the one kernel record there is; launched before `unload`, flushed after.
  const char* NameAfter(const std::function<void(sgpu_module*)>& unload) {
    Trace({kKernel});
    sgpu_module* const module = Load("of a module");
    EXPECT_EQ(Launch(cupti_.sgpu_function(module, 0)), 0);
    EXPECT_EQ(cupti_.sgpu_function(module, 1), nullptr);
    EXPECT_EQ(cupti_.sgpu_settle(), 0);
    FlushAll();
    const char* const name = Only<KernelRecord>(kKernel).name;
    EXPECT_STREQ(name, "of a module");
    EXPECT_EQ(name, cupti_.sgpu_function(module, 0)) << "the module's own bytes";
    unload(module);
    return name;
  }
};

TEST_F(ModuleTest, UnloadingMayOverwriteTheNames) {
  const char* const name =
      NameAfter([&](auto* module) { cupti_.sgpu_module_unload(module, SGPU_UNLOAD_OVERWRITE); });
  EXPECT_STREQ(name, "###########");
  EXPECT_STREQ(Truth(kKernel)[0].name, "of a module");
}

TEST_F(ModuleTest, AnotherModuleMayTakeTheAddresses) {
  const char* const name = NameAfter([&](auto* module) {
    cupti_.sgpu_module_unload(module, SGPU_UNLOAD_REUSE);
    Load("another one");
  });
  EXPECT_STREQ(name, "another one");
  ASSERT_EQ(Launch(name), 0) << "and it is launched under its own name";
  EXPECT_STREQ(Truth(kKernel)[1].name, "another one");
}

using ModuleDeathTest = ModuleTest;

TEST_F(ModuleDeathTest, UnloadingMayUnmapTheNames) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const char* const name =
            NameAfter([&](auto* module) { cupti_.sgpu_module_unload(module, SGPU_UNLOAD_UNMAP); });
        _exit(*name);
      },
      "");
}

class ClockTest : public RecordsTest {};

TEST_F(ClockTest, TimestampsAreOfTheRealTimeClock) {
  timespec before{};
  clock_gettime(CLOCK_REALTIME, &before);
  const Standin& real_time = Standin::Load("12.9/libcupti.so.12");
  uint64_t now = 0;
  ASSERT_EQ(real_time.cuptiGetTimestamp(&now), CUPTI_SUCCESS);
  timespec after{};
  clock_gettime(CLOCK_REALTIME, &after);
  const auto ns = [](const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
  };
  // A microsecond of grace for the cycle counter.
  EXPECT_GE(now + 1000, ns(before));
  EXPECT_LE(now, ns(after) + 1000);
}

TEST_F(ClockTest, ItCanBeUnsettledUntilTheFirstLaunch) {
  Set("unsettled_ns", 1'000'000'000);
  uint64_t now = 0;
  ASSERT_EQ(cupti_.cuptiGetTimestamp(&now), CUPTI_SUCCESS);
  EXPECT_EQ(now, cupti_.sgpu_now_ns() + 1'000'000'000);
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.cuptiGetTimestamp(&now), CUPTI_SUCCESS);
  EXPECT_EQ(now, cupti_.sgpu_now_ns());
}

TEST_F(ClockTest, ItCanBeStepped) {
  Trace({kRuntime, kKernel});
  ASSERT_EQ(Launch(), 0);
  SettleAndFlush();
  cupti_.sgpu_clock_step(-5'000'000'000);
  ASSERT_EQ(Launch(), 0);
  SettleAndFlush();
  const std::vector<Seen> kernels = Records(kKernel);
  EXPECT_LT(kernels[1].As<KernelRecord>().start, kernels[0].As<KernelRecord>().start);
  EXPECT_EQ(kernels[1].As<KernelRecord>().end, Truth(kKernel)[1].end_ns);
  EXPECT_LT(Records(kRuntime)[1].As<ApiRecord>().start, Records(kRuntime)[0].As<ApiRecord>().start);
}

TEST_F(ClockTest, TheDevicesClockCanDriftAndJitter) {
  Set("drift_ppm", 1000);
  ASSERT_EQ(cupti_.sgpu_advance(1'000'000'000), 0);
  ASSERT_EQ(Launch("kernel", 1000), 0);
  const uint64_t drifted = Truth(kKernel)[0].start_ns - Truth(kRuntime)[0].start_ns;
  EXPECT_GE(drifted, 1'000'000U) << "a thousandth of a second in a second";
  Set("drift_ppm", 0);
  Set("jitter_ns", 100'000);
  bool is_early = false;
  for (int i = 0; i < 100; ++i) {
    cupti_.sgpu_truth_clear();
    ASSERT_EQ(cupti_.sgpu_device_sync(1), 0);
    cupti_.sgpu_truth_clear();
    ASSERT_EQ(Launch("kernel", 1000), 0);
    is_early |= Truth(kKernel)[0].start_ns < Truth(kRuntime)[0].start_ns;
  }
  EXPECT_TRUE(is_early) << "a kernel can seem to start before its launch";
}

uint64_t FixedClock() { return 42; }

TEST_F(ClockTest, TheClientCanBringItsOwn) {
  ASSERT_EQ(cupti_.cuptiActivityRegisterTimestampCallback(&FixedClock), CUPTI_SUCCESS);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_LT(Only<ApiRecord>(kRuntime).start, 10'000U);
}

TEST_F(RecordsTest, TheTruthCanBeTurnedOff) {
  Set("truth", 0);
  Trace({kKernel});
  ASSERT_EQ(Launch(), 0);
  SettleAndFlush();
  EXPECT_THAT(Truth(), IsEmpty());
  EXPECT_THAT(Records(kKernel), SizeIs(1));
}

TEST_F(RecordsTest, ManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kLaunches = 5000;
  Trace({kRuntime, kDriver, kKernel});
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, stream = CreateStream()] {
      for (int j = 0; j < kLaunches; ++j) {
        cupti_.sgpu_launch(stream, "kernel", {1, 1, 1}, {1, 1, 1}, 100, 10, 0);
      }
    });
  }
  for (int i = 0; i < 20; ++i) ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  for (std::thread& thread : threads) thread.join();
  SettleAndFlush();
  WaitUntil([&] { return Stats().buffers_out == 0; });
  std::set<uint32_t> correlations;
  for (const Seen& seen : Records(kKernel)) {
    correlations.insert(seen.As<KernelRecord>().correlation);
  }
  EXPECT_THAT(correlations, SizeIs(kThreads * kLaunches));
  EXPECT_THAT(Records(kRuntime), SizeIs(kThreads * kLaunches));
  EXPECT_THAT(Records(kDriver), SizeIs(kThreads * kLaunches));
}

class RealTimeTest : public TestClient {
 protected:
  RealTimeTest() : TestClient(kCupti13, SGPU_TIME_REAL) {}
};

TEST_F(RealTimeTest, WaitsWaitAndRecordsComeAfterTheWorkEnded) {
  Trace({kKernel, kRuntime});
  ASSERT_EQ(Launch("kernel", 20'000'000), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  for (const Seen& seen : Records(kKernel)) {
    EXPECT_LE(seen.As<KernelRecord>().end, cupti_.sgpu_now_ns());
  }
  ASSERT_EQ(cupti_.sgpu_stream_sync(stream_), 0);
  EXPECT_GE(cupti_.sgpu_now_ns(), Truth(kKernel)[0].end_ns);
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  ASSERT_THAT(Records(kKernel), SizeIs(1));
  EXPECT_EQ(cupti_.sgpu_advance(1), static_cast<int>(CUPTI_ERROR_INVALID_OPERATION));
}

TEST_F(RealTimeTest, TheWorkerWritesRecordsThatNobodyFlushes) {
  Trace({kKernel});
  ASSERT_EQ(Launch("kernel", 1000), 0);
  WaitUntil([&] { return Stats().records[kKernel] == 1; });
  EXPECT_THAT(Records(), IsEmpty()) << "their buffer is not full";
}

}  // namespace
}  // namespace sgpu
