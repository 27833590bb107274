// Where records go: which thread asks for buffers, what buffers are refused, how they come back.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kZeroedOutAttribute = 5;
constexpr uint32_t kPerThreadAttribute = 9;

class BuffersTest : public TestClient {};

TEST_F(BuffersTest, TheThreadThatNeedsRoomAsksForIt) {
  Trace({kRuntime});
  EXPECT_THAT(request_threads_, IsEmpty()) << "not before there is something to write";
  ASSERT_EQ(Launch(), 0);
  ASSERT_THAT(request_threads_, SizeIs(1));
  EXPECT_EQ(request_threads_[0], ThreadId());
  uint32_t other = 0;
  std::thread([&] {
    other = ThreadId();
    Launch();
  }).join();
  ASSERT_THAT(request_threads_, SizeIs(2)) << "each thread has its own buffer";
  EXPECT_EQ(request_threads_[1], other);
}

TEST_F(BuffersTest, ThreadsShareOneBufferIfTheClientAsksForThat) {
  SetAttribute(kPerThreadAttribute, 0, 1);
  Trace({kRuntime, kKernel});
  ASSERT_EQ(Launch(), 0);
  std::thread([&] { Launch(); }).join();
  EXPECT_THAT(request_threads_, SizeIs(1));
  FlushAll();
  EXPECT_THAT(Records(kRuntime), SizeIs(2));
  EXPECT_THAT(Records(kKernel), SizeIs(2));
  EXPECT_THAT(Completed(), SizeIs(1));
}

class OldBuffersTest : public TestClient {
 protected:
  OldBuffersTest() : TestClient("12.4/libcupti.so.12") {}
};

TEST_F(OldBuffersTest, Before13ThreadsShareOneBuffer) {
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  std::thread([&] { Launch(); }).join();
  EXPECT_THAT(request_threads_, SizeIs(1));
}

TEST_F(BuffersTest, AFullBufferIsCompletedByItself) {
  buffer_bytes_ = 4096;
  Trace({kRuntime});
  constexpr int kPerBuffer = 4096 / sizeof(ApiRecord);
  for (int i = 0; i <= kPerBuffer; ++i) ASSERT_EQ(Launch(), 0);
  WaitUntil([&] { return Completed().size() == 1; });
  EXPECT_NE(Completed()[0].thread_id, ThreadId()) << "by the worker";
  EXPECT_EQ(Completed()[0].valid_size, kPerBuffer * sizeof(ApiRecord));
  EXPECT_EQ(OutstandingBuffers(), 1U);
}

TEST_F(BuffersTest, ABufferTakesNoMoreRecordsThanTheClientAllows) {
  max_records_ = 3;
  Trace({kRuntime});
  for (int i = 0; i < 7; ++i) ASSERT_EQ(Launch(), 0);
  FlushAll();
  // The worker may be at the full ones; a buffer is no longer out before the client has it.
  WaitUntil([&] { return Completed().size() == 3; });
  EXPECT_THAT(Records(kRuntime), SizeIs(7));
}

TEST_F(BuffersTest, AMisalignedBufferComesBackEmptyAndItsRecordsAreDropped) {
  buffer_offset_ = 4;
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  ASSERT_THAT(Completed(), SizeIs(1));
  EXPECT_EQ(Completed()[0].valid_size, 0U);
  EXPECT_EQ(Stats().dropped, 1U);
  EXPECT_EQ(Stats().buffers_refused, 1U);
}

TEST_F(BuffersTest, ABufferTooSmallForARecordComesBackEmpty) {
  buffer_bytes_ = 128;
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  ASSERT_THAT(Completed(), SizeIs(1));
  EXPECT_EQ(Completed()[0].valid_size, 0U);
  EXPECT_EQ(Stats().dropped, 1U);
}

TEST_F(BuffersTest, NoBufferMeansDropsFrom12_9On) {
  give_null_ = true;
  Trace({kRuntime, kKernel});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  size_t dropped = 0;
  EXPECT_EQ(cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 2U);
  give_null_ = false;
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kRuntime), SizeIs(1)) << "the next call asks again";
}

using OldBuffersDeathTest = OldBuffersTest;

TEST_F(OldBuffersDeathTest, NoBufferCrashesAnOlderOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        give_null_ = true;
        Trace({kRuntime});
        Launch();
      },
      "gave no buffer");
}

TEST_F(BuffersTest, BuffersAreZeroedUnlessTheClientSaysItDid) {
  fill_ = 0xff;
  Set("check_zeroed", 1);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_EQ(Stats().buffers_dirty, 0U);
  SetAttribute(kZeroedOutAttribute, 1, 1);
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(Stats().buffers_dirty, 1U);
  FlushAll();
  fill_ = 0;
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(Stats().buffers_dirty, 1U);
}

TEST_F(BuffersTest, PaddingCanBePoisoned) {
  Set("poison", 1);
  Trace({kMemset, kKernel});
  ASSERT_EQ(cupti_.sgpu_memset(stream_, 0, 4096, 1), 0);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  ASSERT_THAT(Records(kMemset), SizeIs(1));
  EXPECT_EQ(Records(kMemset)[0].As<MemsetRecord>().reserved0, 0xa5a5a5a5a5a5a5a5U);
  EXPECT_EQ(Records(kMemset)[0].As<MemsetRecord>().bytes, 4096U);
  EXPECT_EQ(Records(kKernel)[0].As<KernelRecord>().padding3[6], 0xa5);
}

TEST_F(BuffersTest, AFlushDeliversWhatIsFinalAndAForcedOneTheRestWithoutEnd) {
  Set("reserve", 0);
  Trace({kKernel});
  ASSERT_EQ(Launch("ended", 1000), 0);
  ASSERT_EQ(cupti_.sgpu_advance(10'000), 0);
  ASSERT_EQ(Launch("running", 1'000'000), 0);
  ASSERT_EQ(Launch("waiting", 1'000'000), 0);
  ASSERT_EQ(cupti_.sgpu_advance(10'000), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_THAT(Records(kKernel), SizeIs(1));

  FlushAll();
  const std::vector<Seen> kernels = Records(kKernel);
  ASSERT_THAT(kernels, SizeIs(3));
  EXPECT_STREQ(kernels[1].As<KernelRecord>().name, "running");
  EXPECT_NE(kernels[1].As<KernelRecord>().start, 0U);
  EXPECT_EQ(kernels[1].As<KernelRecord>().end, 0U);
  EXPECT_EQ(kernels[2].As<KernelRecord>().start, 0U);
  EXPECT_EQ(Truth(kKernel)[1].fate, static_cast<uint32_t>(SGPU_UNFINISHED));

  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(3)) << "and never again";
}

TEST_F(BuffersTest, AForcedFlushReturnsEveryBuffer) {
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  std::thread([&] { Launch(); }).join();
  EXPECT_EQ(OutstandingBuffers(), 2U);
  FlushAll();
  EXPECT_EQ(OutstandingBuffers(), 0U);
  EXPECT_EQ(Stats().buffers_out, 0U);
}

TEST_F(BuffersTest, WithReservationABufferWaitsForItsKernels) {
  Set("reserve", 1);
  Trace({kKernel});
  ASSERT_EQ(Launch("long", 1'000'000), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_THAT(Completed(), IsEmpty());
  EXPECT_THAT(request_threads_, ::testing::ElementsAre(ThreadId()));
  ASSERT_EQ(cupti_.sgpu_advance(2'000'000), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  ASSERT_THAT(Records(kKernel), SizeIs(1));
  EXPECT_STREQ(Records(kKernel)[0].As<KernelRecord>().name, "long");
  EXPECT_EQ(Records(kKernel)[0].As<KernelRecord>().end, Truth(kKernel)[0].end_ns);
}

TEST_F(BuffersTest, WithReservationAForcedFlushEndsThem) {
  Set("reserve", 1);
  Trace({kKernel});
  ASSERT_EQ(Launch("long", 1'000'000), 0);
  FlushAll();
  ASSERT_THAT(Records(kKernel), SizeIs(1));
  EXPECT_EQ(Records(kKernel)[0].As<KernelRecord>().end, 0U);
  EXPECT_EQ(OutstandingBuffers(), 0U);
}

TEST_F(BuffersTest, AFlushFromABufferCallbackIsRefused) {
  std::vector<CUptiResult> results;
  on_request_ = [&] { results.push_back(cupti_.cuptiActivityFlushAll(0)); };
  on_complete_ = on_request_;
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(results,
              ::testing::ElementsAre(CUPTI_ERROR_INVALID_OPERATION, CUPTI_ERROR_INVALID_OPERATION));
}

using BuffersDeathTest = BuffersTest;

// The setting is for clients' tests: what may deadlock with the real library does so with this.
TEST_F(BuffersDeathTest, UnderStrictLocksACallOfCuptiFromABufferCallbackHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Set("lock_strict", 1);
        on_request_ = [&] {
          alarm(1);
          size_t dropped = 0;
          cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
        };
        Trace({kRuntime});
        Launch();
      },
      ::testing::KilledBySignal(SIGALRM), "cuptiActivityGetNumDroppedRecords called from a buffer");
}

TEST_F(BuffersTest, UnderStrictLocksAWellBehavedClientIsServed) {
  Set("lock_strict", 1);
  buffer_bytes_ = 1024;
  Trace({kRuntime, kDriver, kKernel, kOverhead});
  std::thread other([&] {
    for (int i = 0; i < 500; ++i) Launch();
  });
  for (int i = 0; i < 500; ++i) ASSERT_EQ(Launch(), 0);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  other.join();
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  WaitUntil([&] { return Stats().buffers_out == 0; });
  EXPECT_THAT(Records(kKernel), SizeIs(1000));
  EXPECT_THAT(Records(kRuntime), SizeIs(1000));
}

TEST_F(BuffersTest, CompletionCanComeAfterTheFlush) {
  Set("late_ms", 20);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  EXPECT_THAT(FlushAll(), IsEmpty());
  WaitUntil([&] { return Completed().size() == 1; });
  EXPECT_NE(Completed()[0].thread_id, ThreadId());
  EXPECT_THAT(Records(kRuntime), SizeIs(1));
}

TEST_F(BuffersTest, BuffersCanBeLostAndReturnedMuchLater) {
  Set("lose_buffers", 1);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  EXPECT_THAT(FlushAll(), IsEmpty());
  EXPECT_EQ(OutstandingBuffers(), 1U);
  EXPECT_EQ(Stats().buffers_lost, 1U);
  EXPECT_EQ(Stats().lost, 1U);
  EXPECT_EQ(cupti_.sgpu_return_lost_buffers(), 1U);
  EXPECT_EQ(OutstandingBuffers(), 0U);
  EXPECT_THAT(Records(kRuntime), SizeIs(1));
  EXPECT_EQ(Stats().lost, 0U);
}

TEST_F(BuffersTest, EveryNthBufferCanBeLost) {
  Set("lose_buffers", 3);
  Trace({kRuntime});
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Launch(), 0);
    FlushAll();
  }
  EXPECT_THAT(Records(kRuntime), SizeIs(4));
  EXPECT_EQ(Stats().lost, 2U);
}

TEST_F(BuffersTest, ABufferCanComeBackDamaged) {
  struct Damage {
    int64_t how;
    size_t valid_size;
  };
  constexpr size_t kUsed = 4 * sizeof(ApiRecord);
  Trace({kRuntime});
  const Damage damages[] = {
      {1, kUsed}, {2, kUsed - sizeof(ApiRecord) + 8}, {3, buffer_bytes_ + 4096}, {4, kUsed}};
  for (size_t index = 0; index < std::size(damages); ++index) {
    Set("corrupt", damages[index].how);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(Launch(), 0);
    ASSERT_EQ(cupti_.cuptiActivityFlushAll(1), CUPTI_SUCCESS);
    ASSERT_THAT(Completed(), SizeIs(index + 1));
    EXPECT_EQ(Completed()[index].valid_size, damages[index].valid_size);
  }
  const auto kind_in_the_middle = [&](size_t index) {
    uint32_t kind = 0;
    std::memcpy(&kind, &Completed()[index].bytes[2 * sizeof(ApiRecord)], sizeof(kind));
    return kind;
  };
  EXPECT_GT(kind_in_the_middle(0), 1'000'000U);
  EXPECT_EQ(kind_in_the_middle(3), 0U);
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(1), CUPTI_SUCCESS);
  EXPECT_EQ(Completed().back().valid_size, sizeof(ApiRecord)) << "once each";
}

TEST_F(BuffersTest, TheDeviceRunsOutOfRoomForTimes) {
  SetAttribute(0, 10 * 32, 8);  // Ten activities to a buffer of the device,
  SetAttribute(6, 1, 8);        // one at first,
  SetAttribute(2, 2, 8);        // and two at most.
  Trace({kKernel});
  for (int i = 0; i < 25; ++i) ASSERT_EQ(Launch("kernel", 1'000'000'000), 0);
  ASSERT_EQ(cupti_.sgpu_settle(), 0);
  FlushAll();
  const std::vector<Seen> kernels = Records(kKernel);
  ASSERT_THAT(kernels, SizeIs(25));
  const auto is_untimed = [](const Seen& seen) {
    const auto kernel = seen.As<KernelRecord>();
    return kernel.start == 0 && kernel.end == 0;
  };
  EXPECT_EQ(std::count_if(kernels.begin(), kernels.end(), is_untimed), 5);
  const std::vector<sgpu_truth_rec> truth = Truth(kKernel);
  EXPECT_EQ(std::count_if(truth.begin(), truth.end(),
                          [](const auto& each) { return each.fate == SGPU_UNTIMED; }),
            5);
}

TEST_F(BuffersTest, ALaunchStallsWhenTheDeviceNeedsMoreRoom) {
  SetAttribute(0, 10 * 32, 8);
  SetAttribute(6, 1, 8);
  SetAttribute(2, 100, 8);
  Set("grow_us", 500);
  Trace({kKernel});
  for (int i = 0; i < 25; ++i) ASSERT_EQ(Launch("kernel", 1'000'000'000), 0);
  std::vector<sgpu_truth_rec> calls = Truth(kRuntime);
  ASSERT_THAT(calls, SizeIs(25));
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                          [](const auto& call) { return call.end_ns - call.start_ns > 500'000; }),
            2);
}

TEST_F(BuffersTest, AttributesHaveCuptisDefaultsAndSizes) {
  uint64_t value = 0;
  size_t size = sizeof(value);
  const auto get = [&](uint32_t attribute) {
    value = 0;
    size = sizeof(value);
    return cupti_.cuptiActivityGetAttribute(static_cast<CUpti_ActivityAttribute>(attribute), &size,
                                            &value);
  };
  EXPECT_EQ(get(0), CUPTI_SUCCESS);
  EXPECT_EQ(value, 3'200'000U);
  EXPECT_EQ(get(2), CUPTI_SUCCESS);
  EXPECT_EQ(value, 250U);
  EXPECT_EQ(get(kPerThreadAttribute), CUPTI_SUCCESS);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(size, 1U);
  EXPECT_EQ(get(3), CUPTI_ERROR_INVALID_PARAMETER);
  size = 4;
  EXPECT_EQ(
      cupti_.cuptiActivitySetAttribute(static_cast<CUpti_ActivityAttribute>(0), &size, &value),
      CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
  EXPECT_EQ(
      cupti_.cuptiActivityGetAttribute(static_cast<CUpti_ActivityAttribute>(0), nullptr, nullptr),
      CUPTI_ERROR_INVALID_PARAMETER);
}

TEST_F(BuffersTest, RequestsAreRecordedAsOverhead) {
  Trace({kRuntime, kOverhead});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  ASSERT_THAT(Records(kOverhead), SizeIs(1));
  const auto overhead = Records(kOverhead)[0].As<OverheadRecord>();
  EXPECT_EQ(overhead.overhead_kind, kOverheadBufferRequest);
  EXPECT_LE(overhead.start, overhead.end);
}

}  // namespace
}  // namespace sgpu
