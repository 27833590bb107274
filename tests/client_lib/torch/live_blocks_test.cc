// The sizes of blocks that an allocator said only once.
#include "client_lib/torch/live_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

namespace profd::client::torch {
namespace {

class LiveBlocksTest : public ::testing::Test {
 protected:
  // Some hundred thousand are more than fit: the addresses that were remembered, in order.
  std::vector<uint64_t> Fill() {
    std::vector<uint64_t> added;
    for (uint64_t i = 1; i <= 200'000; ++i) {
      const uint64_t address = 0x7f00'0000'0000 + i * 64;
      if (blocks_->Add(address, static_cast<int64_t>(i))) added.push_back(address);
    }
    return added;
  }

  const std::unique_ptr<LiveBlocks> blocks_ = std::make_unique<LiveBlocks>();
};

TEST_F(LiveBlocksTest, ABlockIsTakenOnce) {
  EXPECT_EQ(blocks_->Take(0x1000), LiveBlocks::kUnknown);
  EXPECT_TRUE(blocks_->Add(0x1000, 64));
  EXPECT_TRUE(blocks_->Add(0x1040, 128));
  EXPECT_EQ(blocks_->Take(0x1000), 64);
  EXPECT_EQ(blocks_->Take(0x1000), LiveBlocks::kUnknown);
  EXPECT_EQ(blocks_->Take(0x1040), 128);
}

TEST_F(LiveBlocksTest, ABlockWhoseFreeWasNotToldHasTheNewSize) {
  EXPECT_TRUE(blocks_->Add(0x1000, 64));
  EXPECT_TRUE(blocks_->Add(0x1000, 96));
  EXPECT_EQ(blocks_->Take(0x1000), 96);
  EXPECT_EQ(blocks_->Take(0x1000), LiveBlocks::kUnknown);
}

TEST_F(LiveBlocksTest, AddressesThatHaveNoRoomForAGenerationAreNotRemembered) {
  constexpr uint64_t kHigh = (uint64_t{1} << 48) + 0x1000;
  EXPECT_FALSE(blocks_->Add(kHigh, 64));
  EXPECT_TRUE(blocks_->Add(0x1000, 96));
  EXPECT_EQ(blocks_->Take(kHigh), LiveBlocks::kUnknown);
  EXPECT_EQ(blocks_->Take(0x1000), 96);
}

TEST_F(LiveBlocksTest, WhatHasNoPlaceIsSaidAndTheRestStays) {
  const std::vector<uint64_t> added = Fill();
  EXPECT_LT(added.size(), 200'000u);
  EXPECT_GT(added.size(), 100'000u);
  for (uint64_t address : added) {
    ASSERT_EQ(blocks_->Take(address), static_cast<int64_t>((address - 0x7f00'0000'0000) / 64));
  }
}

TEST_F(LiveBlocksTest, AfterForgettingAllPlacesAreEmpty) {
  const std::vector<uint64_t> added = Fill();
  blocks_->Forget();
  EXPECT_TRUE(std::ranges::all_of(
      added, [&](uint64_t address) { return blocks_->Take(address) == LiveBlocks::kUnknown; }));
  EXPECT_EQ(Fill(), added);
}

TEST_F(LiveBlocksTest, NothingComesBackWhenGenerationsDo) {
  EXPECT_TRUE(blocks_->Add(0x1000, 64));
  for (int i = 0; i < 0xffff; ++i) blocks_->Forget();
  EXPECT_EQ(blocks_->Take(0x1000), LiveBlocks::kUnknown);
}

TEST_F(LiveBlocksTest, ThreadsDoNotDisturbEachOther) {
  constexpr int kThreads = 4;
  constexpr uint64_t kBlocks = 2000;
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int64_t round = 1; round <= 20; ++round) {
        // Of neighbouring addresses, each thread has its own.
        for (uint64_t i = 0; i < kBlocks; ++i) {
          ASSERT_TRUE(blocks_->Add((i * kThreads + t + 1) * 64, round));
        }
        for (uint64_t i = 0; i < kBlocks; ++i) {
          ASSERT_EQ(blocks_->Take((i * kThreads + t + 1) * 64), round);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace profd::client::torch
