// The interface for several subscribers: which of them come together, and what each has for itself.
#include <dlfcn.h>

#include "gmock/gmock.h"
#include "tests/cupti_standin/test_client.h"

namespace sgpu {
namespace {

constexpr int kBusy = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
constexpr int kLockedOut = CUPTI_ERROR_NOT_COMPATIBLE;

void IgnoreSharedCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

// CUpti_SubscriberParams as 13.2 and later have it.
struct SharedParams {
  CUpti_SubscriberParams common;
  uint8_t allows_others;
  uint8_t padding[7];
};

class SharedTest : public TestClient {
 protected:
  SharedTest() : TestClient("future/libcupti.so.13") {}

  template <typename Function>
  static Function* Find(const char* name) {
    void* const library = dlopen(Standin::PathOf("future/libcupti.so.13").c_str(), RTLD_NOW);
    return reinterpret_cast<Function*>(dlsym(library, name));
  }

  int Subscribe(bool allows_others, char* old_name = nullptr, size_t old_name_bytes = 0) {
    SharedParams params{};
    params.common.structSize = sizeof(params);
    params.common.subscriberName = "us";
    params.common.oldSubscriberName = old_name;
    params.common.oldSubscriberSize = old_name_bytes;
    params.allows_others = allows_others ? 1 : 0;
    return cupti_.cuptiSubscribe_v2(&handle_, &IgnoreSharedCallback, nullptr, &params.common);
  }
  int EnableShared(uint32_t kind) {
    return Find<decltype(cuptiActivityEnable_v2)>("cuptiActivityEnable_v2")(
        handle_, static_cast<CUpti_ActivityKind>(kind), nullptr);
  }
  uint32_t CountKinds(CUpti_SubscriberHandle handle) {
    uint32_t count = 0;
    EXPECT_EQ(Find<decltype(cuptiActivityGetEnabledKinds)>("cuptiActivityGetEnabledKinds")(
                  handle, nullptr, nullptr, &count),
              CUPTI_SUCCESS);
    return count;
  }

  CUpti_SubscriberHandle handle_ = nullptr;
};

TEST_F(SharedTest, TwoThatLetOthersInComeTogetherAndTheSecondLearnsTheNameOfTheFirst) {
  ASSERT_EQ(cupti_.sgpu_rival_join("the monitor"), 0);
  char name[64] = "";
  ASSERT_EQ(Subscribe(true, name, sizeof(name)), 0);
  EXPECT_STREQ(name, "the monitor");
}

TEST_F(SharedTest, OneThatLetsNobodyInKeepsOthersOutAndIsKeptOut) {
  ASSERT_EQ(Subscribe(false), 0);
  EXPECT_EQ(cupti_.sgpu_rival_join("the monitor"), kBusy);
  ASSERT_EQ(cupti_.cuptiUnsubscribe(handle_), CUPTI_SUCCESS);
  ASSERT_EQ(cupti_.sgpu_rival_join("the monitor"), 0);
  EXPECT_EQ(Subscribe(false), kBusy);
  CUpti_SubscriberHandle other = nullptr;
  EXPECT_EQ(cupti_.cuptiSubscribe(&other, &IgnoreSharedCallback, nullptr), kBusy);
}

TEST_F(SharedTest, EachInterfaceLocksTheOtherOutUntilTheLastSubscriberLeaves) {
  ASSERT_EQ(Subscribe(true), 0);
  ASSERT_EQ(EnableShared(kKernel), 0);
  const auto use_the_first = [&] {
    return cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
  };
  EXPECT_EQ(use_the_first(), kLockedOut);
  uint64_t now = 0;
  EXPECT_EQ(cupti_.cuptiGetTimestamp(&now), CUPTI_SUCCESS) << "it serves both, as measured";
  ASSERT_EQ(cupti_.sgpu_rival_join("the monitor"), 0);
  ASSERT_EQ(cupti_.cuptiUnsubscribe(handle_), CUPTI_SUCCESS);
  EXPECT_EQ(use_the_first(), kLockedOut);
  ASSERT_EQ(cupti_.sgpu_rival_leave(), 0);
  EXPECT_EQ(use_the_first(), CUPTI_SUCCESS);
  ASSERT_EQ(Subscribe(true), 0);
  EXPECT_EQ(EnableShared(kKernel), kLockedOut);
  EXPECT_EQ(cupti_.sgpu_rival_join("the monitor"), kLockedOut);
}

TEST_F(SharedTest, KindsAreEachSubscribersOwnAndEndWithIt) {
  ASSERT_EQ(cupti_.sgpu_rival_join("the monitor"), 0);
  ASSERT_EQ(Subscribe(true), 0);
  EXPECT_EQ(CountKinds(handle_), 0U);
  ASSERT_EQ(EnableShared(kMemcpy), 0);
  EXPECT_EQ(CountKinds(handle_), 1U);
  EXPECT_EQ(CountKinds(nullptr), 3U);
  ASSERT_EQ(cupti_.cuptiUnsubscribe(handle_), CUPTI_SUCCESS);
  EXPECT_EQ(CountKinds(nullptr), 2U);
}

TEST_F(SharedTest, AForcedFlushTakesTheTimesOfEverybodysWork) {
  ASSERT_EQ(cupti_.sgpu_rival_join("the monitor"), 0);
  ASSERT_EQ(Subscribe(true), 0);
  ASSERT_EQ(Launch("long", 1'000'000'000), 0);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_EQ(Stats().rival_unfinished, 0U);
  ASSERT_EQ(cupti_.cuptiActivityFlushAll(1), CUPTI_SUCCESS);
  EXPECT_EQ(Stats().rival_unfinished, 1U);
  EXPECT_EQ(Stats().rival_records, 2U);
}

TEST_F(SharedTest, RecordsOfGraphsHaveToBeChosenForAll) {
  ASSERT_EQ(Subscribe(true), 0);
  EXPECT_EQ(EnableShared(kGraphTrace), kLockedOut);
  Set("shared_graph_trace", 1);
  EXPECT_EQ(EnableShared(kGraphTrace), 0);
}

}  // namespace
}  // namespace sgpu
