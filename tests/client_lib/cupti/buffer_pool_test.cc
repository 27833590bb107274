#include "client_lib/cupti/buffer_pool.h"

#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/client_lib/cupti/record_buffer.h"

namespace profd::client {
namespace {

constexpr uint64_t kCap = 8u << 20;

std::atomic<int> g_wakes{0};

class BufferPoolTest : public ::testing::Test {
 protected:
  BufferPoolTest() {
    g_wakes = 0;
    EXPECT_TRUE(pool_.Open(kCap, sizes_.data(), /*may_refuse=*/false));
  }
  ~BufferPoolTest() override {
    for (uint8_t* buffer : held_) pool_.Complete(buffer, 0);
    BufferPool::Returned returned;
    while (pool_.TakeReturned(&returned)) pool_.Recycle(returned);
    pool_.Close();
  }

  struct Lent {
    uint8_t* bytes;
    size_t size;
  };
  Lent Request() {
    Lent lent{};
    pool_.Request(&lent.bytes, &lent.size);
    held_.insert(lent.bytes);
    return lent;
  }
  void Complete(uint8_t* buffer, size_t valid) {
    held_.erase(buffer);
    pool_.Complete(buffer, valid);
  }
  // Takes every full-sized buffer, until a small one comes.
  std::vector<Lent> TakeAll() {
    const Lent first = Request();
    std::vector<Lent> all{first};
    for (;;) {
      const Lent next = Request();
      if (next.size != first.size) {
        Complete(next.bytes, 0);
        return all;
      }
      all.push_back(next);
    }
  }

  const testing::RecordSizes sizes_ = testing::SizesOf13();
  BufferPool pool_{[] { ++g_wakes; }};
  std::set<uint8_t*> held_;
};

TEST_F(BufferPoolTest, BuffersAreZeroAlignedAndNobodyElses) {
  std::set<uint8_t*> seen;
  for (const Lent& lent : TakeAll()) {
    EXPECT_TRUE(seen.insert(lent.bytes).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lent.bytes) % 4096, 0u);
    EXPECT_TRUE(std::all_of(lent.bytes, lent.bytes + lent.size, [](uint8_t b) { return b == 0; }));
    memset(lent.bytes, 0xff, lent.size);
  }
}

TEST_F(BufferPoolTest, WhereCuptiMayBeRefusedItIsAtTheCap) {
  ASSERT_TRUE(pool_.Close());
  ASSERT_TRUE(pool_.Open(kCap, sizes_.data(), /*may_refuse=*/true));
  uint64_t lent_bytes = 0;
  for (Lent lent = Request(); lent.bytes != nullptr; lent = Request()) lent_bytes += lent.size;
  held_.erase(nullptr);
  EXPECT_EQ(pool_.peak_bytes(), lent_bytes);
  EXPECT_LE(lent_bytes, kCap);
  EXPECT_GT(lent_bytes, kCap * 9 / 10);
}

TEST_F(BufferPoolTest, WhenAllAreOutSmallOnesAreLentAndWhatIsInThemCounted) {
  const size_t full_size = TakeAll().front().size;
  testing::RecordBuffer records(sizes_);
  for (int i = 0; i < 7; ++i) records.Add(cupti::ApiRecord{.kind = cupti::kKindRuntime});
  for (int round = 0; round < 500; ++round) {
    const Lent small = Request();
    ASSERT_NE(small.bytes, nullptr);
    ASSERT_LT(small.size, full_size);
    ASSERT_EQ(small.bytes[0], 0);
    memcpy(small.bytes, records.data(), records.size());
    Complete(small.bytes, records.size());
  }
  EXPECT_EQ(pool_.discarded_count(), 3500u);
  // They are lent again at once, with nobody there to decode.
  EXPECT_LE(pool_.peak_bytes(), kCap);
}

TEST_F(BufferPoolTest, ThereIsAlwaysABuffer) {
  for (int i = 0; i < 500; ++i) {
    const Lent lent = Request();
    ASSERT_NE(lent.bytes, nullptr) << i;
    ASSERT_GE(lent.size, 16u << 10) << i;
    lent.bytes[0] = lent.bytes[lent.size - 1] = 1;
  }
}

TEST_F(BufferPoolTest, WhatCameBackIsTakenInThatOrderAndLentAgainAsZeros) {
  const std::vector<Lent> lent = TakeAll();
  BufferPool::Returned returned;
  while (pool_.TakeReturned(&returned)) pool_.Recycle(returned);
  for (size_t i = 0; i < 5; ++i) {
    memset(lent[i].bytes, 0xff, 1000);
    Complete(lent[i].bytes, 1000);
  }
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(pool_.TakeReturned(&returned));
    EXPECT_EQ(reinterpret_cast<uint8_t*>(returned.bytes), lent[i].bytes);
    EXPECT_EQ(returned.valid_bytes, 1000u);
    pool_.Recycle(returned);
  }
  EXPECT_FALSE(pool_.TakeReturned(&returned));
  const Lent again = Request();
  EXPECT_EQ(again.bytes, lent[4].bytes);  // The last one back, which caches still know.
  EXPECT_TRUE(std::all_of(again.bytes, again.bytes + again.size, [](uint8_t b) { return b == 0; }));
}

TEST_F(BufferPoolTest, AValidSizeBeyondTheBufferIsCutToIt) {
  const Lent lent = Request();
  Complete(lent.bytes, lent.size * 2);
  BufferPool::Returned returned;
  ASSERT_TRUE(pool_.TakeReturned(&returned));
  EXPECT_EQ(returned.valid_bytes, lent.size);
  pool_.Recycle(returned);
}

TEST_F(BufferPoolTest, ABufferGivenBackTwiceCountsOnce) {
  const Lent lent = Request();
  EXPECT_EQ(pool_.outstanding(), 1u);
  Complete(lent.bytes, 8);
  pool_.Complete(lent.bytes, 8);
  EXPECT_EQ(pool_.outstanding(), 0u);
  BufferPool::Returned returned;
  ASSERT_TRUE(pool_.TakeReturned(&returned));
  pool_.Recycle(returned);
  EXPECT_FALSE(pool_.TakeReturned(&returned));
}

TEST_F(BufferPoolTest, ABufferOfSomebodyElseIsCountedAndLeftAlone) {
  alignas(8) uint8_t other[64] = {1};
  pool_.Complete(other, 64);
  const Lent lent = Request();
  pool_.Complete(lent.bytes + 64, 8);  // Not where a buffer begins.
  pool_.Complete(nullptr, 0);
  EXPECT_EQ(pool_.foreign_count(), 3u);
  EXPECT_EQ(other[0], 1);
  EXPECT_EQ(pool_.outstanding(), 1u);
}

TEST_F(BufferPoolTest, TheThreadIsWokenWhenABufferComesBack) {
  const Lent lent = Request();
  const int before = g_wakes;
  Complete(lent.bytes, 0);
  EXPECT_GT(g_wakes, before);
}

TEST_F(BufferPoolTest, AnArenaWithBuffersOutIsKeptUntilTheyAreBack) {
  const Lent lent = Request();
  held_.erase(lent.bytes);
  EXPECT_FALSE(pool_.Close());
  EXPECT_EQ(pool_.CountKept(), 1u);
  memset(lent.bytes, 0x11, 64);  // CUPTI may still write there.

  ASSERT_TRUE(pool_.Open(2 * kCap, sizes_.data(), /*may_refuse=*/false));
  EXPECT_EQ(pool_.CountKept(), 1u);
  pool_.Complete(lent.bytes, 64);
  BufferPool::Returned returned;
  ASSERT_TRUE(pool_.TakeReturned(&returned));
  EXPECT_EQ(returned.valid_bytes, 64u);
  EXPECT_TRUE(returned.is_kept);
  pool_.Recycle(returned);
  EXPECT_FALSE(pool_.TakeReturned(&returned));
  EXPECT_EQ(pool_.foreign_count(), 0u);

  EXPECT_TRUE(pool_.Close());
  EXPECT_EQ(pool_.CountKept(), 0u);
}

TEST_F(BufferPoolTest, TheNextCaptureUsesAKeptArena) {
  const std::vector<Lent> all = TakeAll();
  for (size_t i = 1; i < all.size(); ++i) {
    memset(all[i].bytes, 0x11, all[i].size);
    Complete(all[i].bytes, all[i].size);
  }
  held_.erase(all[0].bytes);
  for (int capture = 0; capture < 5; ++capture) {
    BufferPool::Returned returned;
    while (pool_.TakeReturned(&returned)) pool_.Recycle(returned);
    EXPECT_FALSE(pool_.Close());
    EXPECT_EQ(pool_.CountKept(), 1u);
    ASSERT_TRUE(pool_.Open(kCap, sizes_.data(), /*may_refuse=*/false));
    EXPECT_EQ(pool_.CountKept(), 0u);
    const std::vector<Lent> again = TakeAll();
    EXPECT_EQ(again.size(), all.size() - 1) << "all but the kept one";
    for (const Lent& lent : again) {
      EXPECT_NE(lent.bytes, all[0].bytes);
      EXPECT_TRUE(
          std::all_of(lent.bytes, lent.bytes + lent.size, [](uint8_t b) { return b == 0; }));
      Complete(lent.bytes, 0);
    }
  }
  pool_.Complete(all[0].bytes, 0);
}

TEST_F(BufferPoolTest, WhatCuptiKeepsOfAnotherCaptureCountsInTheCap) {
  const std::vector<Lent> all = TakeAll();
  uint64_t kept_bytes = 0;
  for (size_t i = 0; i < all.size() / 2; ++i) {
    held_.erase(all[i].bytes);
    kept_bytes += all[i].size;
  }
  for (size_t i = all.size() / 2; i < all.size(); ++i) Complete(all[i].bytes, 0);
  BufferPool::Returned returned;
  while (pool_.TakeReturned(&returned)) pool_.Recycle(returned);
  EXPECT_FALSE(pool_.Close());
  constexpr uint64_t kOtherCap = kCap + (1u << 20);
  ASSERT_TRUE(pool_.Open(kOtherCap, sizes_.data(), /*may_refuse=*/true));
  uint64_t lent_bytes = 0;
  for (Lent lent = Request(); lent.bytes != nullptr; lent = Request()) lent_bytes += lent.size;
  held_.erase(nullptr);
  EXPECT_EQ(pool_.peak_bytes(), lent_bytes + kept_bytes);
  EXPECT_LE(pool_.peak_bytes(), kOtherCap);
  for (size_t i = 0; i < all.size() / 2; ++i) pool_.Complete(all[i].bytes, 0);
}

TEST_F(BufferPoolTest, ABufferThatIsOutAndEmptyHoldsNoRecords) {
  const Lent empty = Request();
  const Lent used = Request();
  EXPECT_EQ(pool_.CountHoldingRecords(), 0u);
  used.bytes[0] = cupti::kKindRuntime;
  EXPECT_EQ(pool_.outstanding(), 2u);
  EXPECT_EQ(pool_.CountHoldingRecords(), 1u);
  pool_.MarkOutstanding();
  EXPECT_EQ(pool_.marked(), 1u);
  Complete(used.bytes, 40);
  EXPECT_EQ(pool_.CountHoldingRecords(), 0u);
  Complete(empty.bytes, 0);
}

TEST_F(BufferPoolTest, ADiscardBufferThatIsOutCounts) {
  std::vector<Lent> all = TakeAll();
  const Lent discard = Request();
  ASSERT_LT(discard.size, all[0].size);
  while (!all.empty()) {
    Complete(all.back().bytes, 0);
    all.pop_back();
  }
  EXPECT_EQ(pool_.outstanding(), 1u);
  EXPECT_EQ(pool_.CountHoldingRecords(), 0u);
  discard.bytes[0] = cupti::kKindRuntime;
  EXPECT_EQ(pool_.CountHoldingRecords(), 1u);
  EXPECT_EQ(pool_.discarded_count(), 0u);
  Complete(discard.bytes, sizes_[cupti::kKindRuntime]);
  EXPECT_EQ(pool_.outstanding(), 0u);
  EXPECT_EQ(pool_.CountHoldingRecords(), 0u);
  EXPECT_EQ(pool_.discarded_count(), 1u);
}

TEST_F(BufferPoolTest, BuffersThatWereGivenUpAreNotWaitedForAndMayComeBack) {
  std::vector<Lent> all = TakeAll();
  const Lent discard = Request();
  all[0].bytes[0] = discard.bytes[0] = cupti::kKindRuntime;
  pool_.GiveUpOutstanding();
  EXPECT_EQ(pool_.outstanding(), 0u);
  EXPECT_EQ(pool_.CountHoldingRecords(), 0u);
  pool_.MarkOutstanding();
  EXPECT_EQ(pool_.marked(), 0u);
  Complete(discard.bytes, sizes_[cupti::kKindRuntime]);
  Complete(all[0].bytes, sizes_[cupti::kKindRuntime]);
  EXPECT_EQ(pool_.discarded_count(), 1u);
  BufferPool::Returned returned;
  ASSERT_TRUE(pool_.TakeReturned(&returned));
  EXPECT_EQ(reinterpret_cast<uint8_t*>(returned.bytes), all[0].bytes);
  pool_.Recycle(returned);
  const Lent again = Request();
  EXPECT_EQ(again.bytes, all[0].bytes);
  EXPECT_EQ(pool_.outstanding(), 1u);
  for (size_t i = 1; i < all.size(); ++i) Complete(all[i].bytes, 0);
}

TEST_F(BufferPoolTest, BetweenCapturesSmallBuffersAreLentAndTakenBack) {
  ASSERT_TRUE(pool_.Close());
  std::set<uint8_t*> seen;
  for (int i = 0; i < 1000; ++i) {
    const Lent lent = Request();
    ASSERT_NE(lent.bytes, nullptr);
    ASSERT_EQ(lent.bytes[0], 0);
    memset(lent.bytes, 0xff, 128);
    Complete(lent.bytes, 128);
    seen.insert(lent.bytes);
  }
  EXPECT_LE(seen.size(), 64u);
}

TEST_F(BufferPoolTest, ManyThreadsNeverShareABuffer) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 3000;
  std::atomic<bool> over{false};
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        uint8_t* buffer;
        size_t size;
        pool_.Request(&buffer, &size);
        if (buffer[0] != 0) ++clashes;
        buffer[0] = static_cast<uint8_t>(t + 1);
        std::this_thread::yield();
        if (buffer[0] != t + 1) ++clashes;
        pool_.Complete(buffer, 8);
      }
    });
  }
  uint64_t taken = 0;
  std::thread reader([&] {
    BufferPool::Returned returned;
    for (;;) {
      const bool last = over;
      while (pool_.TakeReturned(&returned)) {
        ++taken;
        pool_.Recycle(returned);
      }
      pool_.PopulateAhead();
      if (last) return;
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  reader.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool_.outstanding(), 0u);
  EXPECT_LE(taken, static_cast<uint64_t>(kThreads) * kRounds);
}

}  // namespace
}  // namespace profd::client
