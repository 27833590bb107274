// What is written of ranges and of the other events, and what is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "client_lib/core/python_calls.h"
#include "client_lib/include/profd/profd.hpp"
#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A child that annotates inside one window by time, and what was captured of it.
class RangesTest : public ::testing::Test {
 protected:
  // `before` runs while nothing records yet.
  CaptureContents Capture(
      const std::function<void()>& body, const std::function<void()>& before = [] {}) {
    FakeDaemon daemon;
    Child child(daemon.directory(), [&](Parent& parent) {
      profd_init();
      WaitConnected();
      before();
      parent.Tell('b');
      WaitRecording();
      body();
      parent.Tell('d');
      parent.Await('x');
    });
    auto target = daemon.WaitTarget();
    child.Await('b');
    auto capture = target->Arm();
    capture->Fire(ByTime());
    child.Await('d');
    CaptureContents contents = capture->Finish();
    child.Tell('x');
    child.ExpectSuccess();
    return contents;
  }

  static std::vector<std::string> NamesOf(const CaptureContents& contents) {
    std::vector<std::string> names;
    for (const auto& range : contents.ranges) names.push_back(range.name);
    return names;
  }
};

profd_name g_outer = PROFD_NAME_INIT("outer");
profd_name g_inner = PROFD_NAME_INIT("inner");

TEST_F(RangesTest, NestedRangesAreWrittenAtTheirEndsWithTheirDepths) {
  const CaptureContents contents = Capture([] {
    profd_range_begin(&g_outer);
    profd_range_begin(&g_inner);
    profd_range_end();
    profd_range_begin(&g_inner);
    profd_range_end();
    profd_range_end();
  });
  ASSERT_THAT(NamesOf(contents), ElementsAre("inner", "inner", "outer"));
  const auto& first = contents.ranges[0];
  const auto& second = contents.ranges[1];
  const auto& outer = contents.ranges[2];
  EXPECT_EQ(first.depth, 1u);
  EXPECT_EQ(second.depth, 1u);
  EXPECT_EQ(outer.depth, 0u);
  EXPECT_LE(outer.start_ticks, first.start_ticks);
  EXPECT_LE(first.start_ticks + first.duration_ticks, second.start_ticks);
  EXPECT_LE(second.start_ticks + second.duration_ticks, outer.start_ticks + outer.duration_ticks);
  EXPECT_EQ(contents.dropped(), 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, RangesByIdAreThoseByName) {
  const CaptureContents contents = Capture([] {
    const uint32_t id = profd_intern("by id", 5);
    profd_range_begin_id(id);
    profd_range_end_id();
    profd_range_begin_id(0);  // Not an id.
    profd_range_end_id();
    profd_range_begin_id(60'000);  // Not one that was given out.
    profd_range_end_id();
  });
  EXPECT_THAT(NamesOf(contents), ElementsAre("by id", "(other)", "(other)"));
  EXPECT_EQ(contents.other_name_events, 2u);
}

TEST_F(RangesTest, RangesThatAreClosedInOrderNest) {
  const CaptureContents contents = Capture([] {
    const uint64_t outer = profd_range_open_id(profd_intern("outer", 5));
    profd_range_begin(&g_inner);
    profd_range_end();
    profd_range_close(outer);
    profd_range_close(0);
  });
  ASSERT_THAT(NamesOf(contents), ElementsAre("inner", "outer"));
  EXPECT_EQ(contents.ranges[0].depth, 1u);
  EXPECT_EQ(contents.ranges[1].depth, 0u);
  EXPECT_EQ(contents.ranges[0].lane, contents.ranges[1].lane);
}

TEST_F(RangesTest, RangesThatOverlapAreClosedByIdentity) {
  const CaptureContents contents = Capture([] {
    const uint32_t name = profd_intern("task", 4);
    const uint64_t first = profd_range_open_id(name);
    profd_range_begin(&g_inner);
    profd_range_end();
    const uint64_t second = profd_range_open_id(name);
    profd_range_close(first);
    profd_range_begin(&g_outer);
    profd_range_end();
    profd_range_close(second);
  });
  ASSERT_THAT(NamesOf(contents), ElementsAre("inner", "task", "outer", "task"));
  const auto end_of = [&](size_t i) {
    return contents.ranges[i].start_ticks + contents.ranges[i].duration_ticks;
  };
  EXPECT_GE(contents.ranges[1].lane, wire::kFirstLane);
  EXPECT_LE(contents.ranges[1].start_ticks, contents.ranges[0].start_ticks);
  EXPECT_LE(end_of(1), contents.ranges[2].start_ticks);
  EXPECT_EQ(contents.ranges[3].depth, 0u);
  EXPECT_GE(contents.ranges[3].start_ticks, end_of(0));
  EXPECT_GE(end_of(3), end_of(2));
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, ARangeMayBeClosedOnAnotherThread) {
  const CaptureContents contents = Capture([] {
    const uint64_t outer = profd_range_open_id(profd_intern("around", 6));
    const uint64_t range = profd_range_open_id(profd_intern("handed over", 11));
    std::thread([&] { profd_range_close(range); }).join();
    profd_range_close(outer);
    profd_range_begin(&g_inner);
    profd_range_end();
  });
  ASSERT_THAT(NamesOf(contents), UnorderedElementsAre("handed over", "around", "inner"));
  const auto named = [&](std::string_view name) {
    return *std::ranges::find(contents.ranges, name, &CaptureContents::Range::name);
  };
  EXPECT_GE(named("handed over").lane, wire::kFirstLane);
  EXPECT_EQ(named("around").lane, 0u);
  EXPECT_EQ(named("around").depth, 0u);
  EXPECT_LE(named("around").start_ticks, named("handed over").start_ticks);
  EXPECT_EQ(named("inner").depth, 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, ARangeThatIsClosedOnAnotherThreadIsThereOnce) {
  const CaptureContents contents = Capture([] {
    const uint64_t range = profd_range_open_id(profd_intern("handed over", 11));
    profd_range_begin(&g_outer);
    std::thread([&] { profd_range_close(range); }).join();
    // The window ends before this thread's next range.
  });
  EXPECT_THAT(NamesOf(contents), ElementsAre("handed over"));
  ASSERT_EQ(contents.open_ranges.size(), 1u);
  EXPECT_EQ(contents.open_ranges[0].name, "outer");
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(RangesTest, AThreadWhoseRangesAreAllClosedOnAnotherLosesNone) {
  constexpr size_t kCount = 500;  // Its stack holds 128.
  const CaptureContents contents = Capture([] {
    const uint32_t name = profd_intern("request", 7);
    std::atomic<uint64_t> handed_over{0};
    std::thread closer([&] {
      for (size_t i = 0; i < kCount; ++i) {
        uint64_t range;
        while ((range = handed_over.exchange(0)) == 0) std::this_thread::yield();
        profd_range_close(range);
      }
    });
    for (size_t i = 0; i < kCount; ++i) {
      const uint64_t range = profd_range_open_id(name);
      uint64_t none = 0;
      while (!handed_over.compare_exchange_weak(none, range)) {
        none = 0;
        std::this_thread::yield();
      }
    }
    closer.join();
  });
  EXPECT_EQ(contents.CountRanges("request"), kCount);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
  EXPECT_EQ(contents.dropped(), 0u);
}

// A thread that only opens, while another one closes: none of its ranges is inside of another.
TEST_F(RangesTest, RangesWithArgumentsThatAreAllClosedOnAnotherThreadAreFlat) {
  const CaptureContents contents = Capture([] {
    const uint32_t name = profd_intern("request", 7);
    for (int i = 0; i < 200; ++i) {
      const uint64_t range = profd_range_open_with(name, nullptr, 0, 0, 0);
      std::thread([&] { profd_range_close(range); }).join();
    }
    profd_range_begin(&g_inner);
    profd_range_end();
  });
  EXPECT_EQ(contents.CountRanges("request"), 200u);
  ASSERT_EQ(contents.operators.size(), 200u);
  for (const auto& arguments : contents.operators) EXPECT_EQ(arguments.event.depth, 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(RangesTest, OnlyARangeThatIsTooDeepSaysSo) {
  uint64_t idle = 1;
  const CaptureContents contents = Capture(
      [&] {
        const uint32_t name = profd_intern("deep", 4);
        std::vector<uint64_t> open;
        for (int i = 0; i < 130; ++i) {
          open.push_back(profd_range_open_with(name, nullptr, 0, 0, 0));
          EXPECT_EQ(open.back() == 1, i >= 128);
        }
        profd_range_close(idle);  // Ends none of those that are too deep.
        for (int i = 0; i < 2; ++i) profd_range_close(1);
        profd_range_close(open[127]);
      },
      [&] { idle = profd_range_open_with(profd_intern("idle", 4), nullptr, 0, 0, 0); });
  EXPECT_EQ(contents.ranges.size(), 1u);
  EXPECT_EQ(contents.open_ranges.size(), 127u);
  EXPECT_EQ(contents.dropped(), 2u);
}

TEST_F(RangesTest, ARangeThatEndedWithItsThreadIsNotClosedAgain) {
  const CaptureContents contents = Capture([] {
    uint64_t range = 0;
    std::thread([&] { range = profd_range_open_id(profd_intern("left", 4)); }).join();
    profd_range_close(range);
  });
  ASSERT_THAT(NamesOf(contents), ElementsAre("left"));
  EXPECT_EQ(contents.ranges[0].flags, wire::kEventFlagUnended);
}

TEST_F(RangesTest, ARangeThatIsClosedOnAnotherThreadIsThereOnceInEachWindow) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    profd_init();
    WaitConnected();
    parent.Tell('b');
    parent.Await('f');
    const uint32_t name = profd_intern("request", 7);
    for (int step = 0; step < 4; ++step) {
      profd_step();
      const uint64_t range = profd_range_open_id(name);
      std::thread([&] { profd_range_close(range); }).join();
    }
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('b');
  auto capture = target->Arm();
  // Window, gap, window: what the gap has is not recorded.
  capture->Fire(Steps(/*active=*/1, /*warmup=*/0, /*wait=*/1, /*repeat=*/2, /*base_step=*/0));
  capture->WaitPhase(wire::Phase::kWaiting);
  child.Tell('f');
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  child.Tell('x');
  child.ExpectSuccess();
  EXPECT_THAT(NamesOf(contents), ElementsAre("request", "request"));
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, RangesThatAreNeverClosedAreOpenAndKeepOthersInTheirPlace) {
  uint64_t before = 0;
  const CaptureContents contents = Capture(
      [&] {
        profd_range_close(before);
        profd_range_open_id(profd_intern("left open", 9));
        profd_range_close(profd_range_open_id(profd_intern("closed", 6)));
      },
      [&] { before = profd_range_open_id(profd_intern("before", 6)); });
  EXPECT_THAT(NamesOf(contents), ElementsAre("closed"));
  ASSERT_EQ(contents.open_ranges.size(), 1u);
}

TEST_F(RangesTest, ARangeThatIsTooDeepIsCountedAndItsCloseEndsNoOther) {
  const CaptureContents contents = Capture([] {
    const uint32_t name = profd_intern("deep", 4);
    std::vector<uint64_t> open;
    open.reserve(130);
    for (int i = 0; i < 130; ++i) open.push_back(profd_range_open_id(name));
    while (!open.empty()) {
      profd_range_close(open.back());
      open.pop_back();
    }
    profd_range_begin(&g_inner);
    profd_range_end();
  });
  EXPECT_EQ(contents.ranges.size(), 129u);
  EXPECT_EQ(contents.ranges.back().depth, 0u);
  EXPECT_EQ(contents.dropped(), 2u);
}

TEST_F(RangesTest, InstantsAndCountersKeepTheirValues) {
  const CaptureContents contents = Capture([] {
    static profd_name name = PROFD_NAME_INIT("loss");
    profd_instant(&name);
    profd_counter(&name, 1.5);
    profd_counter_id(profd_intern("loss", 4), -std::numeric_limits<double>::infinity());
    profd_counter(&name, std::nan(""));
    profd_instant_id(profd_intern("mark", 4));
  });
  ASSERT_EQ(contents.instants.size(), 2u);
  EXPECT_EQ(contents.instants[0].name, "loss");
  EXPECT_EQ(contents.instants[1].name, "mark");
  EXPECT_LE(contents.instants[0].ticks, contents.instants[1].ticks);
  ASSERT_EQ(contents.counters.size(), 3u);
  EXPECT_EQ(contents.counters[0].value, 1.5);
  EXPECT_EQ(contents.counters[1].value, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(contents.counters[2].value));
  EXPECT_EQ(contents.counters[2].name, "loss");
}

TEST_F(RangesTest, MemoryEventsKeepTheirFields) {
  const CaptureContents contents = Capture([] {
    const profd_memory_event event{
        0xabc0, 4096, 8192, -1, PROFD_DEVICE_CUDA, 3, PROFD_MEMORY_GRADIENT, 0};
    profd_alloc(&event);
    profd_free(&event);
  });
  ASSERT_EQ(contents.memory.size(), 2u);
  const wire::MemoryEvent& event = contents.memory[0];
  EXPECT_EQ(event.address, 0xabc0u);
  EXPECT_EQ(event.bytes, 4096);
  EXPECT_EQ(event.total_allocated_bytes, 8192);
  EXPECT_EQ(event.total_reserved_bytes, -1);
  EXPECT_EQ(event.device_type, 1);
  EXPECT_EQ(event.device_index, 3);
  EXPECT_EQ(event.category, 2);
  EXPECT_EQ(event.header.flags, 0);
  EXPECT_EQ(contents.memory[1].header.flags, wire::kEventFlagFree);
}

TEST_F(RangesTest, MemoryEventsOutOfRangeAreIgnored) {
  const CaptureContents contents = Capture([] {
    const profd_memory_event good{1, 2, 3, 4, PROFD_DEVICE_CPU, 0, PROFD_MEMORY_UNKNOWN, 0};
    profd_alloc(nullptr);
    for (int wrong = 0; wrong < 6; ++wrong) {
      profd_memory_event event = good;
      if (wrong == 0) event.bytes = -1;
      if (wrong == 1) event.total_allocated_bytes = -2;
      if (wrong == 2) event.total_reserved_bytes = -2;
      if (wrong == 3) event.device_type = 2;
      if (wrong == 4) event.device_index = -1;
      if (wrong == 5) event.category = PROFD_MEMORY_BUFFER + 1;
      profd_alloc(&event);
      profd_free(&event);
    }
    profd_alloc(&good);
  });
  EXPECT_EQ(contents.memory.size(), 1u);
}

TEST_F(RangesTest, RangesNestedTooDeepAreCountedAndTheirEndsMatched) {
  constexpr int kExtra = 7;
  const CaptureContents contents = Capture([] {
    for (uint32_t i = 0; i < wire::kMaxRangeDepth + kExtra; ++i) profd_range_begin(&g_inner);
    for (uint32_t i = 0; i < wire::kMaxRangeDepth + kExtra; ++i) profd_range_end();
    EmptyRange(&g_outer);
  });
  EXPECT_EQ(contents.CountRanges("inner"), wire::kMaxRangeDepth);
  EXPECT_EQ(contents.ranges.front().depth, wire::kMaxRangeDepth - 1);
  EXPECT_EQ(contents.CountRanges("outer"), 1u);
  EXPECT_EQ(contents.ranges.back().depth, 0u);
  EXPECT_EQ(contents.drops[wire::kDropTooDeep], uint64_t{kExtra});
  EXPECT_EQ(contents.dropped(), uint64_t{kExtra});
}

TEST_F(RangesTest, AnEndWithoutABeginIsIgnored) {
  const CaptureContents contents = Capture([] {
    profd_range_end();
    profd_range_end_id();
    EmptyRange(&g_outer);
    profd_range_end();
  });
  EXPECT_THAT(NamesOf(contents), ElementsAre("outer"));
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(RangesTest, ARangeBegunBeforeTheWindowIsNotWritten) {
  const CaptureContents contents = Capture(
      [] {
        EmptyRange(&g_inner);
        profd_range_end();  // Of the one begun before.
        EmptyRange(&g_inner);
      },
      [] { profd_range_begin(&g_outer); });
  EXPECT_THAT(NamesOf(contents), ElementsAre("inner", "inner"));
  EXPECT_EQ(contents.ranges[1].depth, 0u);
}

TEST_F(RangesTest, RangesOpenAtTheEndStayInTheChunk) {
  const CaptureContents contents = Capture([] {
    profd_range_begin(&g_outer);
    EmptyRange(&g_inner);
    profd_range_begin(&g_inner);
  });
  EXPECT_THAT(NamesOf(contents), ElementsAre("inner"));
  ASSERT_EQ(contents.open_ranges.size(), 2u);
  EXPECT_EQ(contents.open_ranges[0].name, "outer");
  EXPECT_EQ(contents.open_ranges[1].name, "inner");
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(RangesTest, RangesThatAThreadLeavesOpenEndWithIt) {
  const CaptureContents contents = Capture([] {
    profd_range_begin(&g_outer);  // Of a thread that goes on.
    std::thread([] {
      profd_range_begin(&g_outer);
      profd_range_begin(&g_inner);
    }).join();
    EmptyRange(&g_inner);
  });
  // The first thread's chunk comes first.
  ASSERT_THAT(NamesOf(contents), ElementsAre("inner", "inner", "outer"));
  const auto& later = contents.ranges[0];
  const auto& inner = contents.ranges[1];
  const auto& outer = contents.ranges[2];
  EXPECT_EQ(inner.flags, wire::kEventFlagUnended);
  EXPECT_EQ(inner.depth, 1u);
  EXPECT_EQ(outer.flags, wire::kEventFlagUnended);
  EXPECT_EQ(outer.depth, 0u);
  EXPECT_EQ(inner.start_ticks + inner.duration_ticks, outer.start_ticks + outer.duration_ticks);
  EXPECT_EQ(later.flags, 0);
  EXPECT_LE(outer.start_ticks + outer.duration_ticks, later.start_ticks);
  ASSERT_EQ(contents.open_ranges.size(), 1u);
  EXPECT_EQ(contents.open_ranges[0].name, "outer");
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST_F(RangesTest, OpenRangesMoveOnToTheNextChunk) {
  const CaptureContents contents = Capture([] {
    profd_range_begin(&g_outer);
    for (int i = 0; i < 10'000; ++i) EmptyRange(&g_inner);
    profd_range_end();
  });
  EXPECT_EQ(contents.CountRanges("inner"), 10'000u);
  EXPECT_EQ(contents.CountRanges("outer"), 1u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, MacrosStandWhereverAStatementMay) {
  const CaptureContents contents = Capture([] {
    const std::string text = "made at run time";
    for (int i = 0; i < 3; ++i) {
      // clang-format off
      PROFD_RANGE("first"); PROFD_RANGE("second");
      // clang-format on
      if (i == 0) PROFD_RANGE("branch");
      PROFD_DYNAMIC_RANGE(text);
      const InternedName interned(text);
      const ScopedRange kept(interned);
    }
  });
  EXPECT_EQ(contents.CountRanges("first"), 3u);
  EXPECT_EQ(contents.CountRanges("second"), 3u);
  EXPECT_EQ(contents.CountRanges("branch"), 1u);
  EXPECT_EQ(contents.CountRanges("made at run time"), 6u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
}

TEST_F(RangesTest, AScopeThatBeganWhileNothingRecordedWritesNothing) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    static Name name("scope");
    {
      ScopedRange before(name);
      parent.Tell('b');
      WaitRecording();
      PROFD_RANGE("inside");
    }
    {
      ScopedRange through(name);
      ScopedDynamicRange dynamic("put together");
      Instant(name);
      Counter(name, 1);
    }
    {
      ScopedRange open(name);
      parent.Tell('d');
      WaitNotRecording();
    }
    parent.Tell('e');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('b');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  capture->Stop();
  child.Await('e');
  const CaptureContents contents = capture->Read();
  EXPECT_THAT(NamesOf(contents), ElementsAre("inside", "put together", "scope"));
  ASSERT_EQ(contents.open_ranges.size(), 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

TEST_F(RangesTest, EveryThreadSaysItsName) {
  const CaptureContents contents = Capture([] {
    prctl(PR_SET_NAME, "by-comm");
    EmptyRange(&g_outer);
    std::thread([] {
      profd_thread_name("loader");
      EmptyRange(&g_outer);
      profd_thread_name("loader 2");
      EmptyRange(&g_outer);
    }).join();
  });
  ASSERT_EQ(contents.thread_names.size(), 2u);
  EXPECT_THAT(contents.thread_names.begin()->second, ElementsAre("by-comm"));
  EXPECT_THAT(contents.thread_names.rbegin()->second, ElementsAre("loader", "loader 2"));
}

TEST_F(RangesTest, ThreadNamesAreCutAndRememberedForLaterCaptures) {
  const CaptureContents contents = Capture([] { EmptyRange(&g_outer); },
                                           [] { profd_thread_name(std::string(80, 'n').c_str()); });
  ASSERT_EQ(contents.thread_names.size(), 1u);
  EXPECT_THAT(contents.thread_names.begin()->second, ElementsAre(std::string(63, 'n')));
}

TEST_F(RangesTest, ThreadsAreToldApartByTheirOsThread) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    WaitRecording();
    EmptyRange(&g_outer);
    std::thread([] { EmptyRange(&g_outer); }).join();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  ASSERT_EQ(contents.os_threads.size(), 2u);
  EXPECT_EQ(contents.os_threads.begin()->second, static_cast<uint32_t>(child.pid()));
  EXPECT_NE(contents.os_threads.rbegin()->second, static_cast<uint32_t>(child.pid()));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST_F(RangesTest, CapturesFollowOneAnother) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    profd_init();
    WaitConnected();
    for (int round = 0; round < 5; ++round) {
      parent.Await('g');
      WaitRecording();
      for (int i = 0; i <= round; ++i) EmptyRange(&g_outer);
      parent.Tell('d');
      WaitNotRecording();
      EmptyRange(&g_outer);
      profd_range_end();
      parent.Tell('n');
    }
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  for (uint64_t round = 0; round < 5; ++round) {
    auto capture = target->Arm(1u << 20);
    capture->Fire(ByTime());
    child.Tell('g');
    child.Await('d');
    const CaptureContents contents = capture->Finish();
    EXPECT_EQ(contents.ranges.size(), round + 1);
    EXPECT_EQ(contents.thread_names.size(), 1u);
    EXPECT_EQ(contents.phase, wire::Phase::kEnded);
    child.Await('n');  // Or the next capture may begin before it has looked.
  }
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
