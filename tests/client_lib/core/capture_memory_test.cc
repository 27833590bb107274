// Chunks: what happens when there are none, and when threads come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

constexpr uint64_t kSmallMemory = 1u << 20;
constexpr uint64_t kChunkRanges = wire::kChunkDataBytes / sizeof(wire::RangeEvent);

profd_name g_late = PROFD_NAME_INIT("late");

// A child that runs `body` once it records, and then waits for the test to read.
class CaptureMemoryTest : public ::testing::Test {
 protected:
  void Start(const std::function<void(Parent&)>& body) {
    child_ = std::make_unique<Child>(daemon_.directory(), [&](Parent& parent) {
      profd_init();
      WaitConnected();
      WaitRecording();
      body(parent);
      parent.Tell('d');
      parent.Await('x');
    });
    target_ = daemon_.WaitTarget();
  }

  void Fire(uint64_t memory_bytes = kSmallMemory) {
    capture_ = target_->Arm(memory_bytes);
    capture_->Fire(ByTime());
  }

  CaptureContents Finish() {
    child_->Await('d');
    CaptureContents contents = capture_->Finish();
    EXPECT_EQ(target_->status_page().dropped_event_count.load(), contents.dropped());
    child_->Tell('x');
    child_->ExpectSuccess();
    return contents;
  }

  FakeDaemon daemon_;
  std::unique_ptr<Child> child_;
  std::unique_ptr<FakeTarget> target_;
  std::unique_ptr<FakeCapture> capture_;
};

TEST_F(CaptureMemoryTest, FullMemoryDropsAndCountsEachRange) {
  constexpr uint64_t kRanges = 50'000;
  Start([](Parent&) {
    for (uint64_t i = 0; i < kRanges; ++i) EmptyRange(&g_range);
    CHILD_EXPECT(Status().dropped_event_count > 0);
  });
  Fire();
  const CaptureContents contents = Finish();
  // The thread's name takes the room of a part of one range.
  EXPECT_EQ(contents.ranges.size(), capture_->layout().chunk_count * kChunkRanges - 1);
  EXPECT_EQ(contents.ranges.size() + contents.drops[wire::kDropNoChunk], kRanges);
  EXPECT_EQ(contents.dropped(), contents.drops[wire::kDropNoChunk]);
}

TEST_F(CaptureMemoryTest, FullMemoryCountsEveryKindOfEventExactly) {
  constexpr uint64_t kEach = 20'000;
  Start([](Parent&) {
    const profd_memory_event event{1, 2, -1, -1, 0, 0, 0, 0};
    for (uint64_t i = 0; i < kEach; ++i) {
      EmptyRange(&g_range);
      profd_instant(&g_range);
      profd_counter(&g_range, 1.0);
      profd_alloc(&event);
    }
  });
  Fire();
  const CaptureContents contents = Finish();
  const uint64_t kept = contents.ranges.size() + contents.instants.size() +
                        contents.counters.size() + contents.memory.size();
  EXPECT_EQ(kept + contents.drops[wire::kDropNoChunk], 4 * kEach);
  EXPECT_GT(contents.drops[wire::kDropNoChunk], 0u);
}

TEST_F(CaptureMemoryTest, ThreadsThatFightForChunksLoseNoCount) {
  constexpr int kThreads = 8;
  constexpr uint64_t kRanges = 20'000;
  Start([](Parent&) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([] {
        for (uint64_t j = 0; j < kRanges; ++j) EmptyRange(&g_range);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  Fire();
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size() + contents.dropped(), kThreads * kRanges);
  EXPECT_GT(contents.dropped(), 0u);
}

TEST_F(CaptureMemoryTest, OpenRangesThatNeverHadAChunkAreEachADrop) {
  Start([](Parent& parent) {
    for (uint64_t i = 0; i < 50'000; ++i) EmptyRange(&g_range);
    std::thread([] {
      for (int i = 0; i < 3; ++i) profd_range_begin(&g_late);  // Left open; the thread ends.
    }).join();
    profd_range_begin(&g_late);  // The full chunk is the daemon's by now.
    std::thread([&] {
      for (int i = 0; i < 5; ++i) profd_range_begin(&g_late);  // Left open; the thread lives.
      parent.Tell('o');
      WaitNotRecording();
    }).join();
  });
  Fire();
  child_->Await('o');
  capture_->Stop();
  const CaptureContents contents = capture_->Read();
  EXPECT_THAT(contents.open_ranges, ::testing::IsEmpty());
  const uint64_t ranges_dropped = 50'000 - contents.ranges.size();
  EXPECT_EQ(contents.dropped(), ranges_dropped + 3 + 1 + 5);
  EXPECT_EQ(contents.drops[wire::kDropNoChunk], contents.dropped());
  capture_->Release();
}

TEST_F(CaptureMemoryTest, ARangeBegunWithoutAChunkIsKeptIfOneComesInTime) {
  Start([](Parent& parent) {
    for (uint64_t i = 0; i < 50'000; ++i) EmptyRange(&g_range);
    std::thread([&] {
      profd_range_begin(&g_late);
      profd_range_begin(&g_late);
      parent.Tell('r');
      parent.Await('r');
      profd_range_end();
      profd_range_end();
    }).join();
  });
  Fire();
  child_->Await('r');
  capture_->RecycleFullChunks();
  child_->Tell('r');
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.CountRanges("late"), 2u);
  EXPECT_EQ(contents.CountRanges("range") + contents.dropped(), 50'000u);
}

TEST_F(CaptureMemoryTest, ChunksThatAreGivenBackAreUsedAgain) {
  constexpr uint64_t kBatches = 20;
  constexpr uint64_t kBatch = 10'000;  // Half of what fits.
  Start([](Parent& parent) {
    for (uint64_t i = 0; i < kBatches; ++i) {
      for (uint64_t j = 0; j < kBatch; ++j) EmptyRange(&g_range);
      parent.Tell('b');
      parent.Await('b');
    }
  });
  Fire();
  for (uint64_t i = 0; i < kBatches; ++i) {
    child_->Await('b');
    capture_->RecycleFullChunks();
    child_->Tell('b');
  }
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size(), kBatches * kBatch);
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(CaptureMemoryTest, ThreadsComeAndGoByTheThousand) {
  constexpr uint32_t kThreads = 3'000;
  Start([](Parent& parent) {
    for (uint32_t i = 0; i < kThreads; i += 8) {
      std::vector<std::thread> threads;
      threads.reserve(8);
      for (int j = 0; j < 8; ++j) {
        threads.emplace_back([] {
          EmptyRange(&g_range);
          profd_range_begin(&g_late);
        });
      }
      for (std::thread& thread : threads) thread.join();
      parent.Tell('b');
      parent.Await('b');
    }
  });
  Fire();
  for (uint32_t i = 0; i < kThreads; i += 8) {
    child_->Await('b');
    capture_->RecycleFullChunks();
    child_->Tell('b');
  }
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size(), 2 * kThreads);
  EXPECT_TRUE(contents.open_ranges.empty());  // They ended with their threads.
  EXPECT_EQ(contents.dropped(), 0u);
  std::set<uint32_t> serials;
  for (const auto& range : contents.ranges) serials.insert(range.thread_serial);
  EXPECT_EQ(serials.size(), kThreads);
}

TEST_F(CaptureMemoryTest, ALyingFreeListIsNoList) {
  Start([](Parent&) {
    for (uint64_t i = 0; i < 1000; ++i) EmptyRange(&g_range);
  });
  capture_ = target_->Arm(kSmallMemory);
  capture_->header().free_head.store(0xfffffff0);
  capture_->Fire(ByTime());
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size(), 0u);
  EXPECT_EQ(contents.dropped(), 1000u);
}

TEST_F(CaptureMemoryTest, ALyingNextChunkEndsTheList) {
  Start([](Parent&) {
    for (uint64_t i = 0; i < 10'000; ++i) EmptyRange(&g_range);
  });
  capture_ = target_->Arm(kSmallMemory);
  for (uint32_t i = 0; i < capture_->layout().chunk_count; ++i) {
    capture_->chunk_control(i).next_free.store(0x7fffffff);
  }
  capture_->Fire(ByTime());
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size(), kChunkRanges - 1);
  EXPECT_EQ(contents.ranges.size() + contents.dropped(), 10'000u);
}

TEST_F(CaptureMemoryTest, AChunkThatIsNotFreeIsNotTaken) {
  Start([](Parent&) {
    for (uint64_t i = 0; i < 1'000; ++i) EmptyRange(&g_range);
    for (int i = 0; i < 10; ++i) std::thread([] { EmptyRange(&g_late); }).join();
  });
  capture_ = target_->Arm(kSmallMemory);
  // Chunk 0 follows itself: the second thread is offered what the first one writes.
  capture_->chunk_control(0).next_free.store(1);
  capture_->Fire(ByTime());
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.CountRanges("range"), 1'000u);
  EXPECT_EQ(contents.CountRanges("late"), 0u);
  EXPECT_EQ(contents.dropped(), 10u);
}

TEST_F(CaptureMemoryTest, AFullChunkIsHandedOverThoughNoneIsFree) {
  Start([](Parent& parent) {
    for (int round = 0; round < 3; ++round) {
      for (uint64_t i = 0; i < 20 * kChunkRanges; ++i) EmptyRange(&g_range);
      parent.Tell('f');
      parent.Await('f');
    }
  });
  Fire();
  for (int round = 0; round < 3; ++round) {
    child_->Await('f');
    capture_->RecycleFullChunks();
    EXPECT_NE(static_cast<uint32_t>(capture_->header().free_head.load()), 0u);
    child_->Tell('f');
  }
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.ranges.size() + contents.dropped(), 3 * 20 * kChunkRanges);
  EXPECT_EQ(contents.ranges.size(), 3 * capture_->layout().chunk_count * kChunkRanges - 1);
}

TEST_F(CaptureMemoryTest, WhatIsLostInWarmupIsCountedApart) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    parent.Tell('c');
    parent.Await('g');
    profd_step();
    CHILD_EXPECT(Status().recording == 1);
    for (uint64_t i = 0; i < 50'000; ++i) EmptyRange(&g_range);
    CHILD_EXPECT(Status().dropped_event_count == 0);
    profd_step();
    for (uint64_t i = 0; i < 1'000; ++i) EmptyRange(&g_range);
    profd_step();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm(kSmallMemory);
  capture->Fire(Steps(1, /*warmup=*/1));
  capture->WaitPhase(wire::Phase::kWaiting);
  child.Tell('g');
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  // The steps found no place either: both marks of the window.
  EXPECT_EQ(contents.drops[wire::kDropNoChunk], 1'000u + 2u);
  EXPECT_EQ(contents.warmup_drops[wire::kDropNoChunk], 50'000u - contents.ranges.size());
  EXPECT_EQ(contents.steps.size(), 1u);
  ASSERT_EQ(contents.windows.size(), 1u);  // Its edges are known all the same.
  EXPECT_NE(contents.windows[0].end_ticks, 0u);
  child.Tell('x');
  child.ExpectSuccess();
}

#ifndef PROFD_SANITIZED
// A sanitizer's runtime needs more address space than this leaves.
TEST_F(CaptureMemoryTest, ThreadsBeyondTheLibrarysRoomAreCounted) {
  constexpr uint64_t kThreads = 400;
  Start([](Parent&) {
    EmptyRange(&g_range);
    std::atomic<uint64_t> ready{0};
    std::atomic<bool> go{false};
    std::atomic<uint64_t> done{0};
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (uint64_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        ready.fetch_add(1);
        WaitUntil("the limit", [&] { return go.load(); });
        EmptyRange(&g_range);
        profd_instant(&g_range);
        done.fetch_add(1);
        WaitUntil("all threads", [&] { return done.load() == kThreads; });
      });
    }
    WaitUntil("the threads", [&] { return ready.load() == kThreads; });
    // So little address space is left that the library gets room for few threads.
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    std::ifstream statm("/proc/self/statm");
    uint64_t pages = 0;
    statm >> pages;
    const rlimit tight{pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + 500'000,
                       limit.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
    go.store(true);
    WaitUntil("all threads", [&] { return done.load() == kThreads; });
    setrlimit(RLIMIT_AS, &limit);
    for (std::thread& thread : threads) thread.join();
    std::thread([] { EmptyRange(&g_late); }).join();  // There is room again.
  });
  Fire(wire::kDefaultCaptureMemoryBytes);
  const CaptureContents contents = Finish();
  EXPECT_EQ(contents.CountRanges("range") + contents.instants.size() +
                contents.drops[wire::kDropNoThreadState],
            2 * kThreads + 1);
  EXPECT_GT(contents.drops[wire::kDropNoThreadState], 0u);
  EXPECT_EQ(contents.CountRanges("late"), 1u);
  EXPECT_EQ(contents.dropped(), contents.drops[wire::kDropNoThreadState]);
}
#endif

std::atomic<bool> g_hold{false};
std::atomic<bool> g_is_held{false};

void HoldThread(int) {
  g_is_held.store(true);
  while (g_hold.load()) {
  }
  g_is_held.store(false);
}

TEST(StuckWriterTest, AThreadStuckInsideAWriteIsCountedAndHurtsNobody) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    signal(SIGUSR1, HoldThread);
    std::atomic<bool> stop{false};
    std::thread records([&] {
      while (!stop.load(std::memory_order_relaxed)) EmptyRange(&g_range);
    });
    // Each 'h' holds the thread wherever it is, most often inside a write.
    for (;;) {
      parent.Await('h');
      WaitRecording();
      g_hold.store(true);
      pthread_kill(records.native_handle(), SIGUSR1);
      WaitUntil("the thread held", [] { return g_is_held.load(); });
      parent.Tell('h');
      parent.Await('l');
      g_hold.store(false);
      WaitUntil("the thread let go", [] { return !g_is_held.load(); });
      parent.Tell('l');
    }
  });
  auto target = daemon.WaitTarget();
  uint32_t stuck = 0;
  for (int round = 0; round < 100 && stuck == 0; ++round) {
    auto capture = target->Arm(kSmallMemory);
    capture->Fire(ByTime());
    child.Tell('h');
    child.Await('h');
    stuck = capture->Stop().stuck_writer_count;
    capture->Release();
    // The next capture has memory of its own, whatever became of this one's.
    auto next = target->Arm(kSmallMemory);
    next->Fire(ByTime());
    child.Tell('l');
    child.Await('l');
    WaitUntil("a second chunk", [&] {
      return next->chunk_control(1).state.load() != static_cast<uint32_t>(wire::ChunkState::kFree);
    });
    EXPECT_GT(next->Finish().ranges.size(), 0u);
  }
  EXPECT_EQ(stuck, 1u);
}

wire::ArmFailedReason ReasonOfRefusedArm(FakeTarget& target) {
  auto refused = target.SendArm({}, kSmallMemory);
  const Frame frame = target.Expect(wire::FrameType::kArmFailed);
  return static_cast<wire::ArmFailedReason>(frame.As<wire::ArmFailedBody>().reason);
}

// Eight captures are all that a stuck thread can hold. It lets go of all when it goes on.
TEST(StuckWriterTest, StuckThreadsHoldEightCapturesUntilTheyGoOn) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    signal(SIGUSR1, HoldThread);
    std::thread records([&] {
      for (;;) EmptyRange(&g_range);
    });
    for (;;) {
      switch (parent.Next()) {
        case 'h':
          g_hold.store(true);
          pthread_kill(records.native_handle(), SIGUSR1);
          WaitUntil("the thread held", [] { return g_is_held.load(); });
          parent.Tell('h');
          break;
        case 'l':
          g_hold.store(false);
          WaitUntil("the thread let go", [] { return !g_is_held.load(); });
          parent.Tell('l');
          break;
        default:
          _exit(0);
      }
    }
  });
  auto target = daemon.WaitTarget();
  const auto say = [&](char what) {
    child.Tell(what);
    child.Await(what);
  };
  uint32_t held = 0;
  for (int round = 0; round < 1000 && held < 8; ++round) {
    auto capture = target->Arm(kSmallMemory);
    capture->Fire(ByTime());
    WaitUntil("a chunk", [&] {
      return held > 0 || capture->chunk_control(0).state.load() !=
                             static_cast<uint32_t>(wire::ChunkState::kFree);
    });
    if (held == 0) say('h');
    held += capture->Stop().stuck_writer_count;
    capture->Release();
    if (held == 0) say('l');
  }
  ASSERT_EQ(held, 8u);
  EXPECT_EQ(ReasonOfRefusedArm(*target), wire::ArmFailedReason::kStuckWriters);
  say('l');
  auto capture = target->Arm(kSmallMemory);
  capture->Fire(ByTime());
  WaitUntil("a chunk", [&] {
    return capture->chunk_control(0).state.load() != static_cast<uint32_t>(wire::ChunkState::kFree);
  });
  EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
  EXPECT_GT(capture->Finish().ranges.size(), 0u);
  child.Tell('q');
  child.ExpectSuccess();
}

// Runs `end_thread` for many threads that record, one after the other, during a capture.
void ExpectEndedThreadsAreNotStuck(const std::function<void(pthread_t)>& end_thread) {
#ifdef PROFD_SANITIZED
  GTEST_SKIP() << "threads that end in the middle of anything confuse the sanitizer's runtime";
#endif
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    profd_init();
    WaitConnected();
    signal(SIGUSR1, [](int) { syscall(SYS_exit, 0); });
    WaitRecording();
    for (int i = 0; i < 50; ++i) {
      static std::atomic<bool> records;
      records.store(false);
      pthread_t thread;
      pthread_create(
          &thread, nullptr,
          [](void*) -> void* {
            pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
            for (;;) {
              EmptyRange(&g_range);
              records.store(true, std::memory_order_relaxed);
            }
          },
          nullptr);
      WaitUntil("its first range", [] { return records.load(std::memory_order_relaxed); });
      end_thread(thread);
      pthread_join(thread, nullptr);
    }
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  EXPECT_EQ(capture->Stop().stuck_writer_count, 0u);
  capture->Release();
  for (int i = 0; i < 10; ++i) target->Arm(kSmallMemory)->Finish();
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(StuckWriterTest, ThreadsThatAreCancelledInsideAWriteAreNotStuck) {
  ExpectEndedThreadsAreNotStuck([](pthread_t thread) { pthread_cancel(thread); });
}

TEST(StuckWriterTest, ThreadsThatEndWithoutTellingAreNotStuck) {
  ExpectEndedThreadsAreNotStuck([](pthread_t thread) { pthread_kill(thread, SIGUSR1); });
}

bool CanLockMemory() {
  constexpr size_t kBytes = size_t{64} << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool can = memory != MAP_FAILED && mlock(memory, kBytes) == 0;
  if (memory != MAP_FAILED) munmap(memory, kBytes);
  return can;
}

// Such a program has all memory at once that is mapped in it.
TEST(LockedMemoryTest, AProgramThatLocksItsMemoryIsNotGivenTheRoomOfEveryThread) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is far too large to be locked";
#endif
  if (!CanLockMemory()) GTEST_SKIP() << "this process may not lock as much memory";
  constexpr int64_t kMostKib = 40 << 10;  // The capture's memory and the names take 22 MiB.
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    const auto locked_kib = [] {
      std::ifstream status("/proc/self/status");
      std::string word;
      int64_t kib = 0;
      while (status >> word && word != "VmLck:") {
      }
      status >> kib;
      return kib;
    };
    profd_init();
    WaitConnected();
    CHILD_EXPECT(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    const int64_t before_kib = locked_kib();
    parent.Tell('l');
    WaitRecording();
    EmptyRange(&g_range);
    CHILD_EXPECT(before_kib > 0 && locked_kib() - before_kib < kMostKib);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('l');
  auto capture = target->Arm(4u << 20);
  capture->Fire(ByTime());
  child.Await('d');
  EXPECT_EQ(capture->Finish().CountRanges("range"), 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
