// Which call of nested ones counts, and when optimizers of one class are several.
#include "client_lib/torch/hooked_optimizers.h"

#include <gtest/gtest.h>

namespace profd::client::torch {
namespace {

constexpr uint64_t kType = 0x100;
constexpr uint64_t kFirst = 0x1000;
constexpr uint64_t kSecond = 0x2000;

TEST(HookedCallTest, ACallBeginsAndEnds) {
  HookedCall call;
  call.Enter(kFirst, 5);
  EXPECT_TRUE(call.Leave(kFirst, 9));
  EXPECT_EQ(call.begin_ticks(), 5u);
}

TEST(HookedCallTest, OfAWrapperAndWhatItWrapsTheWrapperCounts) {
  HookedCall call;
  call.Enter(kFirst, 5);
  call.Enter(kSecond, 6);
  EXPECT_FALSE(call.Leave(kSecond, 7));
  EXPECT_TRUE(call.Leave(kFirst, 8));
  EXPECT_EQ(call.begin_ticks(), 5u);
}

TEST(HookedCallTest, AStepThatCallsItsBasesStepIsOneCall) {
  HookedCall call;
  for (uint64_t ticks = 10; ticks < 100; ticks += 10) {
    call.Enter(kFirst, ticks);
    call.Enter(kFirst, ticks + 1);
    EXPECT_FALSE(call.Leave(kFirst, ticks + 2));
    EXPECT_TRUE(call.Leave(kFirst, ticks + 3));
    EXPECT_EQ(call.begin_ticks(), ticks);
  }
}

TEST(HookedCallTest, ACallThatRaisedCostsOneStepIfItsOptimizerGoesOn) {
  HookedCall call;
  call.Enter(kFirst, 1);  // Raises.
  call.Enter(kFirst, 2);
  EXPECT_FALSE(call.Leave(kFirst, 3));
  for (uint64_t ticks = 10; ticks < 50; ticks += 10) {
    call.Enter(kFirst, ticks);
    EXPECT_TRUE(call.Leave(kFirst, ticks + 1));
    EXPECT_EQ(call.begin_ticks(), ticks);
  }
}

TEST(HookedCallTest, ACallThatRaisedDoesNotHideAnotherOptimizerForLong) {
  HookedCall call;
  call.Enter(kFirst, 1);  // Raises, and is given up.
  int counted = 0;
  for (uint64_t ticks = 10; ticks < 10 + 100; ++ticks) {
    call.Enter(kSecond, ticks);
    counted += call.Leave(kSecond, ticks) ? 1 : 0;
  }
  EXPECT_EQ(counted, 84);
}

TEST(HookedCallTest, AnEndWithoutABeginCounts) {
  HookedCall call;
  EXPECT_TRUE(call.Leave(kFirst, 7));
  EXPECT_EQ(call.begin_ticks(), 7u);
}

TEST(OptimizerKeysTest, OneOfAClassIsItsClass) {
  OptimizerKeys keys;
  const uint64_t key = keys.KeyOf(kType, kFirst);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(keys.KeyOf(kType, kFirst), key);
  EXPECT_FALSE(keys.TakeChange());
  EXPECT_NE(keys.KeyOf(kType + 0x10, kSecond), key);
}

TEST(OptimizerKeysTest, OnesThatComeAfterEachOtherAreTheirClass) {
  OptimizerKeys keys;
  const uint64_t key = keys.KeyOf(kType, kFirst);
  for (uint64_t optimizer = 0x2000; optimizer < 0x9000; optimizer += 0x100) {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(keys.KeyOf(kType, optimizer), key);
  }
  EXPECT_FALSE(keys.TakeChange());
}

TEST(OptimizerKeysTest, OnesThatTakeTurnsAreSeveral) {
  OptimizerKeys keys;
  keys.KeyOf(kType, kFirst);
  keys.KeyOf(kType, kSecond);
  const uint64_t first = keys.KeyOf(kType, kFirst);
  EXPECT_TRUE(keys.TakeChange());
  EXPECT_FALSE(keys.TakeChange());
  const uint64_t second = keys.KeyOf(kType, kSecond);
  EXPECT_NE(first, second);
  EXPECT_EQ(keys.KeyOf(kType, kFirst), first);
}

TEST(OptimizerKeysTest, ManyThatTakeTurnsAreSeveralSoon) {
  for (const uint64_t count : {3, 16, 17, 24, 1000}) {
    OptimizerKeys keys;
    uint64_t calls = 0;
    while (!keys.TakeChange() && calls < 10 * count) {
      keys.KeyOf(kType, kFirst + 0x10 * (calls % count));
      ++calls;
    }
    EXPECT_LT(calls, 4 * count) << count;
    EXPECT_NE(keys.KeyOf(kType, kFirst), keys.KeyOf(kType, kFirst + 0x10)) << count;
  }
}

TEST(OptimizerKeysTest, WhenOneIsLeftItIsItsClassAgain) {
  OptimizerKeys keys;
  const uint64_t key = keys.KeyOf(kType, kFirst);
  for (int i = 0; i < 3; ++i) {
    keys.KeyOf(kType, kSecond);
    keys.KeyOf(kType, kFirst);
  }
  EXPECT_TRUE(keys.TakeChange());
  for (int i = 0; i < 16; ++i) keys.KeyOf(kType, kSecond);
  EXPECT_TRUE(keys.TakeChange());
  EXPECT_EQ(keys.KeyOf(kType, kSecond), key);
}

TEST(OptimizerKeysTest, MoreClassesThanAreKeptHaveOneKeyEach) {
  OptimizerKeys keys;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t type = 0x100; type < 0x2000; type += 0x100) {
      EXPECT_EQ(keys.KeyOf(type, type * 0x100), type | 1);
    }
  }
}

}  // namespace
}  // namespace profd::client::torch
