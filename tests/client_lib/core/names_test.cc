// Names: one id each, published before they are used, and the caps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::Each;

uint32_t Intern(const std::string& text) { return profd_intern(text.data(), text.size()); }

void RangeById(uint32_t id) {
  profd_range_begin_id(id);
  profd_range_end_id();
}

// Runs `body` in a child that needs no daemon.
void InChild(const std::function<void()>& body) {
  Child child("/nonexistent", [&](Parent&) { body(); });
  child.ExpectSuccess();
}

TEST(NamesTest, EqualBytesHaveOneId) {
  InChild([] {
    const uint32_t a = Intern("alpha");
    CHILD_EXPECT(a > wire::kOtherNameId);
    CHILD_EXPECT(Intern("alpha") == a);
    CHILD_EXPECT(Intern("alphb") != a);
    CHILD_EXPECT(Intern("alph") != a);
    char buffer[] = "alpha";
    CHILD_EXPECT(profd_intern(buffer, 5) == a);
    buffer[0] = 'A';
    CHILD_EXPECT(profd_intern(buffer, 5) != a);
  });
}

TEST(NamesTest, AnyBytesAreAName) {
  InChild([] {
    const uint32_t empty = Intern("");
    CHILD_EXPECT(empty > wire::kOtherNameId);
    CHILD_EXPECT(Intern(std::string("a\0b", 3)) != Intern("a"));
    CHILD_EXPECT(profd_intern(nullptr, 5) == wire::kOtherNameId);
  });
}

TEST(NamesTest, LongNamesAreCutAndStayDifferent) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    WaitRecording();
    const std::string longest(wire::kMaxNameBytes, 'x');
    RangeById(Intern(longest + "tail"));
    RangeById(Intern(longest));
    CHILD_EXPECT(Intern(longest + "tail") == Intern(longest + "tail"));
    CHILD_EXPECT(Intern(longest + "tail") != Intern(longest + "tale"));
    CHILD_EXPECT(Intern(longest + "tail") != Intern(longest));
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.ranges.size(), 2u);
  EXPECT_EQ(contents.ranges[0].name.size(), wire::kMaxNameBytes);
  EXPECT_TRUE(contents.ranges[0].name.starts_with(std::string(4079, 'x') + "~"));
  EXPECT_EQ(contents.ranges[1].name, std::string(wire::kMaxNameBytes, 'x'));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NamesTest, ThreadsThatRaceGetTheSameIds) {
  InChild([] {
    constexpr int kThreads = 8;
    constexpr uint32_t kNames = 4'000;
    std::vector<std::vector<uint32_t>> ids(kThreads);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        ready.fetch_add(1);
        while (ready.load() < kThreads) {
        }
        for (uint32_t i = 0; i < kNames; ++i) {
          ids[t].push_back(Intern("name " + std::to_string(i)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& of_thread : ids) CHILD_EXPECT(of_thread == ids[0]);
    std::vector<uint32_t> sorted = ids[0];
    std::sort(sorted.begin(), sorted.end());
    CHILD_EXPECT(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
    // Ids that a race wasted are used for the next names.
    CHILD_EXPECT(sorted.back() < kNames + 2 + kThreads);
  });
}

TEST(NamesTest, BeyondTheCapNamesAreOther) {
  FakeDaemon daemon;
  constexpr uint32_t kNames = wire::kMaxNames + 1'000;
  Child child(daemon.directory(), [](Parent& parent) {
    uint32_t others = 0;
    for (uint32_t i = 0; i < kNames; ++i) {
      const uint32_t id = Intern("name " + std::to_string(i));
      CHILD_EXPECT(id != 0 && id < wire::kMaxNames);
      if (id == wire::kOtherNameId) ++others;
    }
    CHILD_EXPECT(others == kNames - (wire::kMaxNames - 2));
    profd_init();
    WaitConnected();
    WaitRecording();
    RangeById(Intern("name 0"));
    RangeById(Intern("one more"));
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.CountRanges("name 0"), 1u);
  EXPECT_EQ(contents.CountRanges("(other)"), 1u);
  EXPECT_EQ(contents.other_name_events, 1u);
  EXPECT_EQ(target->status_page().interned_name_count.load(), wire::kMaxNames - 2);
  // The thread's own name found no place either.
  EXPECT_GE(target->status_page().other_name_count.load(), kNames - (wire::kMaxNames - 2) + 1);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NamesTest, BeyondTheBytesNamesAreOther) {
  InChild([] {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < 4'200; ++i) {
      std::string name(wire::kMaxNameBytes, 'n');
      name.replace(0, 8, std::to_string(10'000'000 + i));
      if (Intern(name) != wire::kOtherNameId) ++kept;
    }
    CHILD_EXPECT(kept == wire::kMaxNameAreaBytes / wire::kMaxNameBytes);
    CHILD_EXPECT(Intern("one more") == wire::kOtherNameId);
  });
}

TEST(NamesTest, ASmallMemoryHasRoomForFewerNames) {
  FakeDaemon daemon;
  constexpr uint32_t kNames = 6'000;
  Child child(daemon.directory(), [](Parent& parent) {
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < kNames; ++i) ids.push_back(Intern("name " + std::to_string(i)));
    profd_init();
    WaitConnected();
    WaitRecording();
    for (const uint32_t id : ids) RangeById(id);
    RangeById(Intern("new in the capture"));
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm(1u << 20);
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_EQ(contents.ranges.size(), kNames + 1);
  const uint64_t others = contents.CountRanges("(other)");
  EXPECT_EQ(others, contents.other_name_events);
  EXPECT_EQ(others, kNames + 1 - (capture->layout().name_capacity - 2));
  EXPECT_EQ(contents.CountRanges("name 0"), 1u);
  EXPECT_EQ(contents.dropped(), 0u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NamesTest, NamesAreThereBeforeTheEventsThatCarryThem) {
  // Threads intern and annotate without a pause while captures begin and end. Read() fails
  // on an event whose name was not published.
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (uint32_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
          RangeById(Intern("thread " + std::to_string(t % 2) + " " + std::to_string(i % 2'000)));
        }
      });
    }
    parent.Tell('r');
    parent.Await('x');
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
  });
  auto target = daemon.WaitTarget();
  child.Await('r');
  for (int round = 0; round < 8; ++round) {
    auto capture = target->Arm(2u << 20);
    capture->Fire(ByTime());
    WaitUntil("a full chunk", [&] {
      return capture->chunk_control(0).state.load() !=
             static_cast<uint32_t>(wire::ChunkState::kFree);
    });
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(contents.CountRanges("(other)"), contents.other_name_events);
  }
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
