// How a client comes and goes: subscribing, enabling, finalising, rivals, failures, no driver,
// forks.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "gmock/gmock.h"
#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void IgnoreCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

class LifecycleTest : public TestClient {
 protected:
  CUptiResult Subscribe(CUpti_CallbackFunc callback = &IgnoreCallback, void* user_data = nullptr) {
    return cupti_.cuptiSubscribe(&handle_, callback, user_data);
  }
  template <typename Call>
  static milliseconds TimeOf(const Call& call) {
    const auto began = steady_clock::now();
    call();
    return std::chrono::duration_cast<milliseconds>(steady_clock::now() - began);
  }

  CUpti_SubscriberHandle handle_ = nullptr;
};

TEST_F(LifecycleTest, ItSaysThatItIsSimulated) { EXPECT_EQ(cupti_.sgpu_version(), 1U); }

TEST_F(LifecycleTest, CallbacksCanBeRegisteredBeforeAnythingElseButNotWithoutFunctions) {
  EXPECT_EQ(cupti_.cuptiActivityRegisterCallbacks(nullptr, nullptr), CUPTI_ERROR_INVALID_PARAMETER);
  Trace({});
}

TEST_F(LifecycleTest, WithoutCallbacksRecordsAreDropped) {
  ASSERT_EQ(Enable(kRuntime), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  size_t dropped = 0;
  EXPECT_EQ(cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 1U);
  EXPECT_EQ(cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
  EXPECT_EQ(dropped, 0U) << "asking sets the count to zero";
  ASSERT_THAT(Truth(kRuntime), SizeIs(1));
  EXPECT_EQ(Truth(kRuntime)[0].fate, static_cast<uint32_t>(SGPU_DROPPED));
}

TEST_F(LifecycleTest, AThreadThatLaunchesBeforeKernelsAreOnLosesItsKernelsUntilFinalize) {
  Set("lose_threads", 1);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(Enable(kKernel), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  std::thread([&] { Launch(); }).join();
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(1)) << "the other thread's";
  EXPECT_THAT(Records(kRuntime), SizeIs(3));
  Disable({kRuntime, kKernel});
  Trace({kKernel, kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(1)) << "in a later session, too";
  size_t dropped = 0;
  cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  EXPECT_EQ(dropped, 0U);
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  Trace({kKernel, kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(2));
}

TEST_F(LifecycleTest, KernelsFirstLosesNone) {
  Set("lose_threads", 1);
  Trace({kKernel});
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(Enable(kRuntime), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kKernel), SizeIs(2));
}

TEST_F(LifecycleTest, CallsTakeLongerFromTheFirstEnableUntilFinalize) {
  Set("call_tax_ns", 400);
  Set("record_tax_ns", 300);
  const auto duration = [&] {
    cupti_.sgpu_truth_clear();
    EXPECT_EQ(cupti_.sgpu_api_call(SGPU_DOMAIN_RUNTIME, kCudaLaunchKernel, 1000, 0), 0);
    const sgpu_truth_rec call = Truth(kRuntime).at(0);
    return call.end_ns - call.start_ns;
  };
  EXPECT_EQ(duration(), 1000U);
  Trace({kKernel});
  EXPECT_EQ(duration(), 1400U);
  ASSERT_EQ(Enable(kRuntime), CUPTI_SUCCESS);
  EXPECT_EQ(duration(), 1700U);
  Disable({kRuntime, kKernel});
  EXPECT_EQ(duration(), 1400U) << "it stays";
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  EXPECT_EQ(duration(), 1000U);
}

TEST_F(LifecycleTest, DevicesThatTheProcessCannotSeeAreDescribed) {
  Set("hidden_devices", 2);
  Trace({});
  ASSERT_EQ(cupti_.cuptiActivityEnableAndDump(static_cast<CUpti_ActivityKind>(kDevice)),
            CUPTI_SUCCESS);
  FlushAll();
  uint32_t visible = 0;
  for (const Seen& seen : Records(kDevice)) visible += seen.As<DeviceRecord>().cuda_visible;
  EXPECT_THAT(Records(kDevice), SizeIs(4));
  EXPECT_EQ(visible, 2U);
}

TEST_F(LifecycleTest, ASecondSubscriberIsRefusedUntilTheFirstLeaves) {
  ASSERT_EQ(Subscribe(), CUPTI_SUCCESS);
  CUpti_SubscriberHandle other = nullptr;
  EXPECT_EQ(cupti_.cuptiSubscribe(&other, &IgnoreCallback, nullptr),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(cupti_.cuptiUnsubscribe(handle_), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.cuptiUnsubscribe(handle_), CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_EQ(cupti_.cuptiSubscribe(&other, &IgnoreCallback, nullptr), CUPTI_SUCCESS);
}

TEST_F(LifecycleTest, WhoIsRefusedLearnsTheNameOfWhoHoldsIt) {
  ASSERT_EQ(cupti_.sgpu_rival_subscribe("the rival"), 0);
  char name[64] = "";
  CUpti_SubscriberParams params{};
  params.structSize = sizeof(params);
  params.subscriberName = "us";
  params.oldSubscriberName = name;
  params.oldSubscriberSize = sizeof(name);
  EXPECT_EQ(cupti_.cuptiSubscribe_v2(&handle_, &IgnoreCallback, nullptr, &params),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_STREQ(name, "the rival");
  EXPECT_EQ(cupti_.cuptiGetLastError(), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(cupti_.cuptiGetLastError(), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.sgpu_rival_unsubscribe(), 0);
  EXPECT_EQ(cupti_.cuptiSubscribe_v2(&handle_, &IgnoreCallback, nullptr, &params), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.sgpu_rival_subscribe("again"),
            static_cast<int>(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED));
}

TEST_F(LifecycleTest, ARivalCanTakeTheBuffers) {
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  ASSERT_EQ(cupti_.sgpu_rival_steal_callbacks(), 0);
  ASSERT_EQ(Launch(), 0);
  EXPECT_THAT(FlushAll(), IsEmpty());
  EXPECT_EQ(OutstandingBuffers(), 1U) << "the rival was given a buffer of ours and keeps it";
  EXPECT_EQ(Stats().stolen, 2U);
}

TEST_F(LifecycleTest, SubscribingAndEnablingTakeAsLongAsTheyAreToldTo) {
  Set("subscribe_ms", 40);
  Set("resubscribe_ms", 0);
  Set("enable_ms", 40);
  EXPECT_GE(TimeOf([&] { Subscribe(); }), milliseconds(40));
  cupti_.cuptiUnsubscribe(handle_);
  EXPECT_GE(TimeOf([&] { Enable(kRuntime); }), milliseconds(40));
  // Only the first is slow: of the second it is known only that it works.
  EXPECT_EQ(Subscribe(), CUPTI_SUCCESS);
  EXPECT_EQ(Enable(kDriver), CUPTI_SUCCESS);
}

TEST_F(LifecycleTest, ASubscribeThatIsHeldReturnsAfterItsRelease) {
  Set("hold_subscribe", 1);
  std::atomic<bool> released{false};
  bool returned_after_release = false;
  std::thread subscribing([&] {
    Subscribe();
    returned_after_release = released;
  });
  while (Stats().subscribed == 0) std::this_thread::yield();
  released = true;
  Set("hold_subscribe", 0);
  subscribing.join();
  EXPECT_TRUE(returned_after_release);
}

TEST_F(LifecycleTest, AFlushTakesAsLongAsItIsToldTo) {
  Set("flush_ms", 40);
  EXPECT_GE(TimeOf([&] { cupti_.cuptiActivityFlushAll(0); }), milliseconds(40));
}

TEST_F(LifecycleTest, CallsOfTheApplicationWaitForAnEnableThatStallsThem) {
  Set("enable_ms", 200);
  Set("stall_api", 1);
  std::atomic<bool> enabled{false};
  std::thread enabler([&] {
    EXPECT_EQ(Enable(kRuntime), CUPTI_SUCCESS);
    enabled = true;
  });
  while (!enabled) ASSERT_EQ(Launch(), 0);
  enabler.join();
  EXPECT_GE(Stats().api_stalls, 1U);
}

TEST_F(LifecycleTest, WithoutDriverEveryFunctionFailsAsTheRealOneDoes) {
  Set("no_driver", 1);
  Trace({});
  EXPECT_EQ(Subscribe(), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(Enable(kKernel), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(Enable(6), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiActivityFlushPeriod(10), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.cuptiGetLastError(), CUPTI_SUCCESS);
  uint64_t now = 0;
  EXPECT_EQ(cupti_.cuptiGetTimestamp(&now), CUPTI_SUCCESS);
  size_t dropped = 1;
  EXPECT_EQ(cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped), CUPTI_SUCCESS);
}

class OldLifecycleTest : public TestClient {
 protected:
  OldLifecycleTest() : TestClient("12.4/libcupti.so.12") {}
};

TEST_F(OldLifecycleTest, WithoutDriverAnOlderOneSaysNotInitialized) {
  Set("no_driver", 1);
  CUpti_SubscriberHandle handle = nullptr;
  EXPECT_EQ(cupti_.cuptiSubscribe(&handle, &IgnoreCallback, nullptr), CUPTI_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(Enable(kKernel), CUPTI_ERROR_NOT_INITIALIZED);
}

class Cupti11LifecycleTest : public TestClient {
 protected:
  Cupti11LifecycleTest() : TestClient("11.8/libcupti.so.11.8") {}
};

TEST_F(Cupti11LifecycleTest, WithoutDriver11_8StillLooksAtTheKindFirst) {
  Set("no_driver", 1);
  EXPECT_EQ(Enable(6), CUPTI_ERROR_INVALID_KIND);
  EXPECT_EQ(Enable(kKernel), CUPTI_ERROR_NOT_INITIALIZED);
}

TEST_F(LifecycleTest, FunctionsFailAsATestAsksThemTo) {
  ASSERT_EQ(
      cupti_.sgpu_fail("cuptiActivityEnable:10=27;cuptiSubscribe=39;cuptiActivityFlushAll@3=999"),
      0);
  EXPECT_EQ(Enable(kKernel), CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Enable(kRuntime), CUPTI_SUCCESS);
  EXPECT_EQ(Subscribe(), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_ERROR_UNKNOWN);
  EXPECT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.sgpu_fail(""), 0);
  EXPECT_EQ(Enable(kKernel), CUPTI_SUCCESS);
}

TEST_F(LifecycleTest, FailuresThatCannotBeReadChangeNothing) {
  ASSERT_EQ(cupti_.sgpu_fail("cuptiSubscribe=39"), 0);
  for (const char* const spec : {"cuptiSubscribe", "=1", "cuptiSubscribe=", "cuptiSubscribe@0=1",
                                 "cuptiSubscribe:x=1", "open=2", "cuptiSubscribe=1;x"}) {
    EXPECT_EQ(cupti_.sgpu_fail(spec), 1) << spec;
  }
  EXPECT_EQ(cupti_.sgpu_fail(nullptr), 1);
  EXPECT_EQ(Subscribe(), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
}

TEST_F(LifecycleTest, SettingsThatDoNotExistAreRefused) {
  EXPECT_EQ(cupti_.sgpu_set("no_such_setting", "1"), 1);
  EXPECT_EQ(cupti_.sgpu_set("reserve", "yes"), 1);
  EXPECT_EQ(cupti_.sgpu_set("reserve", nullptr), 1);
  EXPECT_EQ(cupti_.sgpu_set("reserve", "0"), 0);
}

TEST_F(LifecycleTest, FinalizeEndsEverythingAndANewSessionWorks) {
  ASSERT_EQ(Subscribe(), CUPTI_SUCCESS);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  EXPECT_THAT(Records(kRuntime), SizeIs(1)) << "what was recorded is delivered";
  EXPECT_EQ(OutstandingBuffers(), 0U);
  EXPECT_EQ(Stats().enabled_kinds, 0U);
  EXPECT_EQ(Stats().subscribed, 0U);
  EXPECT_EQ(Stats().finalized, 1U);
  ASSERT_EQ(Subscribe(), CUPTI_SUCCESS);
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  FlushAll();
  EXPECT_THAT(Records(kRuntime), SizeIs(2));
}

TEST_F(LifecycleTest, FinalizeMayPoisonTheProcess) {
  Set("poisoned_finalize", 1);
  ASSERT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS);
  EXPECT_EQ(Subscribe(), CUPTI_SUCCESS);
  Trace({kRuntime, kKernel});
  ASSERT_EQ(Launch(), 0);
  EXPECT_THAT(FlushAll(), IsEmpty());
}

struct Visit {
  CUpti_CallbackDomain domain;
  CUpti_CallbackId cbid;
  CUpti_ApiCallbackSite site;
  uint32_t correlation;
  std::string function;
};

void KeepVisit(void* visits, CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) {
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  static_cast<std::vector<Visit>*>(visits)->push_back(
      {domain, cbid, call.callbackSite, call.correlationId, call.functionName});
}

TEST_F(LifecycleTest, TheSubscriberIsCalledAroundTheCallsItAskedFor) {
  std::vector<Visit> visits;
  ASSERT_EQ(Subscribe(&KeepVisit, &visits), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  EXPECT_THAT(visits, IsEmpty()) << "nothing is on at first";
  ASSERT_EQ(cupti_.cuptiEnableCallback(1, handle_, CUPTI_CB_DOMAIN_RUNTIME_API, 211),
            CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  ASSERT_THAT(visits, SizeIs(2));
  EXPECT_EQ(visits[0].site, CUPTI_API_ENTER);
  EXPECT_EQ(visits[1].site, CUPTI_API_EXIT);
  EXPECT_EQ(visits[0].function, "cudaLaunchKernel_v7000");
  EXPECT_NE(visits[0].correlation, 0U);
  EXPECT_EQ(visits[0].correlation, visits[1].correlation);

  visits.clear();
  ASSERT_EQ(cupti_.cuptiEnableDomain(1, handle_, CUPTI_CB_DOMAIN_DRIVER_API), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  ASSERT_THAT(visits, SizeIs(4)) << "the driver's call within the runtime's";
  EXPECT_EQ(visits[1].domain, CUPTI_CB_DOMAIN_DRIVER_API);
  EXPECT_EQ(visits[1].cbid, 307U);
  EXPECT_EQ(visits[3].domain, CUPTI_CB_DOMAIN_RUNTIME_API);
}

struct Finalizer {
  const Standin* cupti;
  CUptiResult result = CUPTI_ERROR_UNKNOWN;
};

void FinalizeAtExit(void* finalizer, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  auto& self = *static_cast<Finalizer*>(finalizer);
  if (static_cast<const CUpti_CallbackData*>(data)->callbackSite == CUPTI_API_EXIT) {
    self.result = self.cupti->cuptiFinalize();
  }
}

TEST_F(LifecycleTest, FinalizeWorksFromWithinACallback) {
  Finalizer finalizer{.cupti = &cupti_};
  ASSERT_EQ(Subscribe(&FinalizeAtExit, &finalizer), CUPTI_SUCCESS);
  Trace({kRuntime});
  ASSERT_EQ(cupti_.cuptiEnableDomain(1, handle_, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
  ASSERT_EQ(Launch(), 0);
  EXPECT_EQ(finalizer.result, CUPTI_SUCCESS);
  EXPECT_EQ(Stats().finalized, 1U);
  EXPECT_THAT(Records(kRuntime), SizeIs(1));
}

// Stays in the callback until it is told to leave.
struct Guest {
  std::atomic<bool> is_in{false};
  std::atomic<bool> may_leave{false};
};

void StayAWhile(void* guest, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {
  auto& self = *static_cast<Guest*>(guest);
  self.is_in = true;
  self.may_leave.wait(false);
}

TEST_F(LifecycleTest, FinalizeMayHangWhileAnotherThreadIsInACallback) {
  Set("finalize_hang_ms", 40);
  EXPECT_EQ(cupti_.cuptiFinalize(), CUPTI_SUCCESS) << "nobody is in one";
  Guest guest;
  ASSERT_EQ(Subscribe(&StayAWhile, &guest), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.cuptiEnableDomain(1, handle_, CUPTI_CB_DOMAIN_RUNTIME_API), CUPTI_SUCCESS);
  std::thread caller([&] { Launch(); });
  WaitUntil([&] { return guest.is_in.load(); });
  EXPECT_GE(TimeOf([&] { cupti_.cuptiFinalize(); }), milliseconds(40));
  guest.may_leave = true;
  guest.may_leave.notify_all();
  caller.join();
}

// Settings from the environment are read once, so in a process of its own.
TEST(EnvironmentDeathTest, SettingsAndFailuresComeFromTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SGPU_CUPTI_VERSION", "22", 1);
        setenv("SGPU_FAIL", "cuptiActivityEnable:10=27", 1);
        setenv("SGPU_TRUTH", "0", 1);
        const Standin& cupti = Standin::Load(kCupti13);
        cupti.sgpu_init(nullptr);
        uint32_t version = 0;
        cupti.cuptiGetVersion(&version);
        cupti.sgpu_launch(1, "kernel", {1, 1, 1}, {1, 1, 1}, 1, 1, 0);
        const bool heeded = version == 22 && cupti.sgpu_truth(nullptr, 0) == 0 &&
                            cupti.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ==
                                CUPTI_ERROR_NOT_SUPPORTED;
        _exit(heeded ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(EnvironmentDeathTest, WhatCannotBeReadThereIsSaid) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("SGPU_FAIL", "nonsense", 1);
        const Standin& cupti = Standin::Load(kCupti13);
        cupti.cuptiActivityFlushAll(0);
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "SGPU_FAIL cannot be read: 'nonsense'");
}

TEST_F(LifecycleTest, AForkedChildCanUseNothing) {
  Trace({kRuntime});
  ASSERT_EQ(Launch(), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    CUpti_SubscriberHandle handle = nullptr;
    const bool refused =
        cupti_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_DRIVER) == CUPTI_ERROR_UNKNOWN &&
        cupti_.cuptiSubscribe(&handle, &IgnoreCallback, nullptr) == CUPTI_ERROR_UNKNOWN &&
        cupti_.cuptiActivityFlushAll(1) == CUPTI_ERROR_UNKNOWN &&
        cupti_.cuptiFinalize() == CUPTI_ERROR_UNKNOWN &&
        Launch() == static_cast<int>(CUPTI_ERROR_UNKNOWN);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  FlushAll();
  EXPECT_THAT(Records(kRuntime), SizeIs(1)) << "the parent goes on";
}

// Where there is no driver a CUDA program cannot start either; here it never asked for one.
TEST(BeforeInitTest, NothingRunsBeforeTheGpuIsMade) {
  const Standin& cupti = Standin::Load(kCupti13);
  EXPECT_EQ(cupti.sgpu_launch(1, "kernel", {1, 1, 1}, {1, 1, 1}, 1, 1, 0),
            static_cast<int>(CUPTI_ERROR_NOT_INITIALIZED));
  EXPECT_EQ(cupti.sgpu_stream_sync(1), static_cast<int>(CUPTI_ERROR_NOT_INITIALIZED));
}

}  // namespace
}  // namespace sgpu
