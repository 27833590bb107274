#include "daemon/rpc/admission/arrival_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

constexpr absl::Duration kStart = absl::Seconds(1000);

TEST(NetworkOfTest, AnIPv4AddressIsItself) {
  EXPECT_EQ(NetworkOf("10.0.0.7"), "10.0.0.7");
  EXPECT_NE(NetworkOf("10.0.0.7"), NetworkOf("10.0.0.8"));
}

TEST(NetworkOfTest, AnIPv6AddressIsItsSlash64) {
  EXPECT_EQ(NetworkOf("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOf("2001:db8:1:2:ffff::1"), "2001:db8:1:2::/64");
  EXPECT_EQ(NetworkOf("2001:db8:1:3::1"), "2001:db8:1:3::/64");
  EXPECT_EQ(NetworkOf("::1"), "::/64");
}

TEST(NetworkOfTest, LinkLocalAddressesAreHostsOfTheirOwn) {
  EXPECT_EQ(NetworkOf("fe80::1"), "fe80::1");
  EXPECT_NE(NetworkOf("fe80::1"), NetworkOf("fe80::2"));
}

TEST(ArrivalRatesTest, ANetworkHasSoManyAtOnceAndThenSoManyPerSecond) {
  ArrivalRates rates(/*per_second=*/2, /*at_once=*/3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rates.Take("a", kStart));
  EXPECT_FALSE(rates.Take("a", kStart));
  EXPECT_TRUE(rates.Take("b", kStart));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(rates.Take("a", kStart + absl::Seconds(1)));
  EXPECT_FALSE(rates.Take("a", kStart + absl::Seconds(1)));
}

TEST(ArrivalRatesTest, AllAddressesOfASlash64ShareOneRate) {
  ArrivalRates rates(/*per_second=*/1, /*at_once=*/400);
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (rates.Take(NetworkOf(StrCat("2001:db8:1:2::", i % 9999)), kStart)) ++taken;
  }
  EXPECT_EQ(taken, 400);
  EXPECT_EQ(rates.size(), 1U);
}

TEST(ArrivalRatesTest, WhatIsGivenBackCanBeTakenAgain) {
  ArrivalRates rates(/*per_second=*/0, /*at_once=*/1);
  EXPECT_TRUE(rates.Take("a", kStart));
  EXPECT_FALSE(rates.Take("a", kStart));
  rates.GiveBack("a");
  EXPECT_TRUE(rates.Take("a", kStart));
  rates.GiveBack("never seen");
  EXPECT_EQ(rates.size(), 1U);
}

TEST(ArrivalRatesTest, TheTableIsBoundedAndBeginsAnew) {
  ArrivalRates rates(/*per_second=*/0, /*at_once=*/1);
  size_t largest = 0;
  for (size_t i = 0; i < 3 * ArrivalRates::kMostOrigins; ++i) {
    EXPECT_TRUE(rates.Take(StrCat("10.", i), kStart));
    largest = std::max(largest, rates.size());
    if (i + 1 == ArrivalRates::kMostOrigins) {
      // Full, and still no more than its rate for each of them.
      EXPECT_FALSE(rates.Take("10.0", kStart));
      EXPECT_FALSE(rates.Take(StrCat("10.", i), kStart));
    }
  }
  EXPECT_EQ(largest, ArrivalRates::kMostOrigins);
  // One of the first table.
  EXPECT_TRUE(rates.Take("10.0", kStart));
}

}  // namespace
}  // namespace profd::rpc
