// Ranges that other threads look for: each is found once, whatever places they share.
#include "client_lib/core/range_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace profd::client {
namespace {

TEST(RangeSetTest, WhatWasAddedIsFoundOnceAlsoWhereManyShareTheirPlaces) {
  const auto set = std::make_unique<RangeSet>();
  std::vector<uint64_t> added;
  // More than half full, so that many are not at their first place.
  for (uint64_t ticks = 1; ticks <= 700; ++ticks) {
    if (set->Add(ticks * 977)) added.push_back(ticks * 977);
  }
  EXPECT_GT(added.size(), 600u);
  EXPECT_FALSE(set->is_empty());
  EXPECT_FALSE(set->Remove(12));
  for (size_t i = 0; i < added.size(); i += 2) EXPECT_TRUE(set->Remove(added[i])) << i;
  for (size_t i = 0; i < added.size(); ++i) EXPECT_EQ(set->Remove(added[i]), i % 2 == 1) << i;
  EXPECT_TRUE(set->is_empty());
}

TEST(RangeSetTest, AFullPlaceIsRefusedAndAClearedSetIsEmpty) {
  const auto set = std::make_unique<RangeSet>();
  size_t added = 0;
  for (uint64_t ticks = 1; ticks <= 2 * RangeSet::kPlaces; ++ticks) added += set->Add(ticks * 977);
  EXPECT_LE(added, RangeSet::kPlaces);
  EXPECT_GT(added, RangeSet::kPlaces / 2);
  set->Clear();
  EXPECT_TRUE(set->is_empty());
  EXPECT_FALSE(set->Remove(977));
  EXPECT_TRUE(set->Add(977));
  EXPECT_TRUE(set->Remove(977));
}

TEST(RangeSetTest, ThreadsFindWhatTheyAddedWhileOthersAddAndRemove) {
  const auto set = std::make_unique<RangeSet>();
  constexpr int kThreads = 4;
  std::vector<int> missed(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int number = 0; number < kThreads; ++number) {
    threads.emplace_back([&set, &missed, number] {
      for (uint64_t round = 1; round <= 20'000; ++round) {
        const uint64_t ticks = round * kThreads + static_cast<uint64_t>(number);
        if (!set->Add(ticks) || !set->Remove(ticks)) ++missed[static_cast<size_t>(number)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missed, std::vector<int>(kThreads));
  EXPECT_TRUE(set->is_empty());
}

}  // namespace
}  // namespace profd::client
