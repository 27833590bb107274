// What becomes of each kind of NVTX call in a capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "proto/wire/long_names.h"
#include "tests/client_lib/nvtx/nvtx_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Range = CaptureContents::Range;
using wire::Phase;

// ---- Ranges of a thread

TEST(NvtxRangeTest, PushAndPopAreRangesThatNest) {
  const CaptureContents contents = Recorded([] {
    CHILD_EXPECT(Nvtx::PushA("outer") == nvtx::kNotTracked);
    Nvtx::PushA("inner");
    CHILD_EXPECT(Nvtx::Pop() == nvtx::kNotTracked);
    Nvtx::PushA("inner");
    Nvtx::Pop();
    Nvtx::Pop();
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("inner", "inner", "outer"));
  EXPECT_EQ(contents.ranges[0].depth, 1u);
  EXPECT_EQ(contents.ranges[2].depth, 0u);
  for (const Range& range : contents.ranges) {
    EXPECT_EQ(range.category, static_cast<uint32_t>(wire::RangeCategory::kUser));
    EXPECT_EQ(range.lane, 0u);
  }
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST(NvtxRangeTest, AllKindsOfTextBecomeNames) {
  const CaptureContents contents = Recorded([] {
    const auto push_pop = [](const nvtx::EventAttributes& event) {
      Nvtx::PushEx(&event);
      Nvtx::Pop();
    };
    PushPop("ascii");
    Nvtx::PushW(L"wide \u00e9 \u20ac \U0001F600");
    Nvtx::Pop();
    push_pop(AnEvent("event"));
    push_pop(AnEvent(L"wide event"));
    push_pop(AnEvent(Nvtx::RegisterA(nullptr, "registered")));
    push_pop(AnEvent(Nvtx::RegisterW(nullptr, L"wide registered")));
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("ascii", "wide \u00e9 \u20ac \U0001F600", "event", "wide event",
                          "registered", "wide registered"));
}

TEST(NvtxRangeTest, WithoutATextItIsUnnamed) {
  const CaptureContents contents = Recorded([] {
    const auto push_pop = [](const nvtx::EventAttributes* event) {
      Nvtx::PushEx(event);
      Nvtx::Pop();
    };
    PushPop(nullptr);
    Nvtx::PushW(nullptr);
    Nvtx::Pop();
    push_pop(nullptr);
    nvtx::EventAttributes event{};
    push_pop(&event);  // Of no size.
    event = AnEvent("text");
    event.message_type = nvtx::kMessageNone;
    push_pop(&event);
    event.message_type = 77;
    push_pop(&event);
    event = AnEvent(nvtx::String{nullptr});
    push_pop(&event);
    event = AnEvent(reinterpret_cast<nvtx::String>(uintptr_t{0x7fff12345678}));  // Not ours.
    push_pop(&event);
  });
  EXPECT_EQ(contents.ranges.size(), 8u);
  EXPECT_EQ(contents.CountRanges("(unnamed)"), 8u);
}

TEST(NvtxRangeTest, ABufferThatIsUsedAgainHasItsNewName) {
  const CaptureContents contents = Recorded([] {
    char buffer[64];
    for (const char* text : {"first", "second", "sec", "first", "second and longer"}) {
      strcpy(buffer, text);
      PushPop(buffer);
    }
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("first", "second", "sec", "first", "second and longer"));
}

TEST(NvtxRangeTest, NamesTooLongAreCutAndStayDifferent) {
  const CaptureContents contents = Recorded([] {
    const std::string text(wire::kMaxNameBytes + 10, 'n');
    const std::wstring wide(wire::kMaxNameBytes, L'\u20ac');
    for (int i = 0; i < 2; ++i) PushPop(text.c_str());
    Nvtx::PushW(wide.c_str());
    Nvtx::Pop();
    const nvtx::EventAttributes event = AnEvent(text.c_str());
    nvtx::Domain domain = Nvtx::CreateA("domain");
    Nvtx::DomainPush(domain, &event);
    Nvtx::DomainPop(domain);
    const std::string other_text = text + "!";
    const nvtx::EventAttributes other = AnEvent(other_text.c_str());
    Nvtx::DomainPush(domain, &other);
    Nvtx::DomainPop(domain);
    PushPop(other_text.c_str());
    const std::wstring other_wide = wide + L"!";
    Nvtx::PushW(other_wide.c_str());
    Nvtx::Pop();
    const std::wstring wide_text(text.begin(), text.end());
    Nvtx::PushW(wide_text.c_str());
    Nvtx::Pop();
    const nvtx::EventAttributes wide_event = AnEvent(wide_text.c_str());
    Nvtx::DomainPush(domain, &wide_event);
    Nvtx::DomainPop(domain);
  });
  ASSERT_EQ(contents.ranges.size(), 9u);
  const std::string begin(wire::kMaxNameBytes - wire::kLongNameMarkBytes, 'n');
  EXPECT_TRUE(contents.ranges[0].name.starts_with(begin + "~")) << contents.ranges[0].name;
  EXPECT_EQ(contents.ranges[0].name.size(), wire::kMaxNameBytes);
  EXPECT_EQ(contents.ranges[1].name, contents.ranges[0].name);
  // No half characters before the mark.
  const uint32_t mark = (wire::kMaxNameBytes - wire::kLongNameMarkBytes) / 3 * 3;
  EXPECT_EQ(contents.ranges[2].name.size(), mark + wire::kLongNameMarkBytes);
  EXPECT_EQ(contents.ranges[2].name[mark], '~');
  EXPECT_TRUE(contents.ranges[3].name.starts_with("domain:" + begin.substr(7) + "~"));
  EXPECT_NE(contents.ranges[4].name, contents.ranges[3].name);
  EXPECT_NE(contents.ranges[5].name, contents.ranges[0].name);
  EXPECT_NE(contents.ranges[6].name, contents.ranges[2].name);
  EXPECT_EQ(contents.ranges[7].name, contents.ranges[0].name) << "the same text";
  EXPECT_EQ(contents.ranges[8].name, contents.ranges[3].name);
}

TEST(NvtxRangeTest, ADomainStandsBeforeTheName) {
  const CaptureContents contents = Recorded([] {
    nvtx::Domain library = Nvtx::CreateA("library");
    CHILD_EXPECT(library != nullptr);
    CHILD_EXPECT(Nvtx::CreateW(L"library") == library);
    nvtx::Domain wide = Nvtx::CreateW(L"w\u00efde");
    CHILD_EXPECT(wide != library);
    CHILD_EXPECT(Nvtx::CreateA(nullptr) == nullptr && Nvtx::CreateA("") == nullptr);
    const auto push_pop = [](nvtx::Domain domain, const nvtx::EventAttributes& event) {
      Nvtx::DomainPush(domain, &event);
      Nvtx::DomainPop(domain);
    };
    static const char text[] = "work";  // One address, three names.
    push_pop(library, AnEvent(text));
    push_pop(wide, AnEvent(text));
    push_pop(nullptr, AnEvent(text));
    push_pop(library, AnEvent(Nvtx::RegisterA(library, "registered")));
    push_pop(library, AnEvent(L"wide"));
    push_pop(reinterpret_cast<nvtx::Domain>(uintptr_t{0x1234567}), AnEvent("of no domain"));
  });
  EXPECT_THAT(NamesOf(contents.ranges),
              ElementsAre("library:work", "w\u00efde:work", "work", "library:registered",
                          "library:wide", "of no domain"));
}

TEST(NvtxRangeTest, DomainsBeyondTheMostAreTheDefaultOne) {
  Child child("/nonexistent", [](Parent&) {
    CHILD_EXPECT(Nvtx::Attach());
    for (int i = 0; i < 1024; ++i) {
      CHILD_EXPECT(Nvtx::CreateA(("domain " + std::to_string(i)).c_str()) != nullptr);
    }
    CHILD_EXPECT(Nvtx::CreateA("one more") == nullptr);
    CHILD_EXPECT(Nvtx::CreateA("domain 1023") != nullptr);
  });
  child.ExpectSuccess();
}

TEST(NvtxRangeTest, APopEndsTheInnermostRangeOfItsDomain) {
  const CaptureContents contents = Recorded([] {
    nvtx::Domain a = Nvtx::CreateA("a");
    nvtx::Domain b = Nvtx::CreateA("b");
    const nvtx::EventAttributes event = AnEvent("range");
    Nvtx::DomainPush(a, &event);
    Nvtx::DomainPush(b, &event);
    PushPop("in both");
    Nvtx::DomainPop(a);  // Not the innermost of the thread.
    PushPop("in b");
    Nvtx::DomainPop(b);
    Nvtx::DomainPop(b);  // Nothing is open any more.
    PushPop("after");
  });
  ASSERT_EQ(contents.ranges.size(), 5u);
  const Range& a = RangeNamed(contents, "a:range");
  const Range& b = RangeNamed(contents, "b:range");
  EXPECT_LT(a.start_ticks, b.start_ticks);
  EXPECT_LT(EndOf(a), EndOf(b));
  EXPECT_GT(EndOf(a), EndOf(RangeNamed(contents, "in both")));
  EXPECT_LE(EndOf(a), RangeNamed(contents, "in b").start_ticks);
  EXPECT_GE(a.lane, wire::kFirstLane);
  EXPECT_EQ(a.depth, 0u);
  EXPECT_EQ(b.lane, 0u);
  EXPECT_EQ(b.depth, 0u);
  EXPECT_EQ(RangeNamed(contents, "after").depth, 0u);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
  EXPECT_EQ(contents.dropped(), 0u);
}

TEST(NvtxRangeTest, APopWithoutAPushEndsNobodyElsesRange) {
  const CaptureContents contents = Recorded([] {
    static profd_name name = PROFD_NAME_INIT("ours");
    Nvtx::Pop();
    profd_range_begin(&name);
    Nvtx::Pop();
    PushPop("theirs");
    Nvtx::DomainPop(Nvtx::CreateA("other"));
    profd_range_end();
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("theirs", "ours"));
  EXPECT_EQ(contents.ranges[0].depth, 1u);
  EXPECT_GE(EndOf(contents.ranges[1]), EndOf(contents.ranges[0]));
}

TEST(NvtxRangeTest, RangesTooDeepAreDroppedAndCounted) {
  const CaptureContents contents = Recorded([] {
    for (uint32_t i = 0; i < wire::kMaxRangeDepth + 3; ++i) Nvtx::PushA("deep");
    for (uint32_t i = 0; i < wire::kMaxRangeDepth + 3; ++i) Nvtx::Pop();
    PushPop("after");
  });
  EXPECT_EQ(contents.CountRanges("deep"), wire::kMaxRangeDepth);
  EXPECT_EQ(contents.drops[wire::kDropTooDeep], 3u);
  EXPECT_EQ(RangeNamed(contents, "after").depth, 0u);
}

TEST(NvtxRangeTest, WithoutRoomEveryRangeIsCounted) {
  constexpr uint64_t kRanges = 200'000;
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitRecording();
    WaitRangeSlots(true);
    nvtx::Domain domain = Nvtx::CreateA("domain");
    const nvtx::EventAttributes event = AnEvent("range");
    for (uint64_t i = 0; i < kRanges / 4; ++i) {
      PushPop("range");
      Nvtx::End(Nvtx::StartA("span"));
      Nvtx::PushA("range");
      Nvtx::DomainPush(domain, &event);
      Nvtx::Pop();
      Nvtx::DomainPop(domain);
    }
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm(wire::kMinCaptureMemoryBytes);
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_GT(contents.ranges.size(), 0u);
  EXPECT_GT(contents.drops[wire::kDropNoChunk], 0u);
  EXPECT_EQ(contents.ranges.size() + contents.dropped(), kRanges);
  EXPECT_THAT(contents.open_ranges, IsEmpty());
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NvtxRangeTest, ManyThreadsMeetTheSameTexts) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  const CaptureContents contents = Recorded([] {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([] {
        nvtx::Domain domain = Nvtx::CreateA("domain");
        const nvtx::EventAttributes event = AnEvent("text");
        char buffer[32];
        for (int i = 0; i < kRounds; ++i) {
          snprintf(buffer, sizeof(buffer), "text %d", i % 7);
          Nvtx::PushA(buffer);
          Nvtx::DomainPush(domain, &event);
          Nvtx::DomainPop(domain);
          Nvtx::Pop();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(contents.CountRanges("domain:text"), uint64_t{kThreads} * kRounds);
  uint64_t numbered = 0;
  for (int i = 0; i < 7; ++i) numbered += contents.CountRanges("text " + std::to_string(i));
  EXPECT_EQ(numbered, uint64_t{kThreads} * kRounds);
  EXPECT_EQ(contents.dropped(), 0u);
}

// ---- Start and end

TEST(NvtxSpanTest, StartAndEndAreARangeOnALane) {
  const CaptureContents contents = Recorded([] {
    Nvtx::PushA("around");
    const nvtx::RangeId id = Nvtx::StartA("span");
    CHILD_EXPECT(id != 0);
    PushPop("inside");
    Nvtx::End(id);
    Nvtx::Pop();
  });
  ASSERT_EQ(contents.ranges.size(), 3u);
  const Range& span = RangeNamed(contents, "span");
  EXPECT_GE(span.lane, wire::kFirstLane);
  EXPECT_EQ(span.depth, 0u);
  EXPECT_LE(span.start_ticks, RangeNamed(contents, "inside").start_ticks);
  EXPECT_GE(EndOf(span), EndOf(RangeNamed(contents, "inside")));
  EXPECT_EQ(RangeNamed(contents, "inside").depth, 1u);
  ASSERT_THAT(contents.lane_names, SizeIs(1));
  EXPECT_THAT(contents.lane_names.at(span.lane).front(), HasSubstr("overlapping ranges of "));
}

TEST(NvtxSpanTest, OneThreadMayEndWhatAnotherStarted) {
  const CaptureContents contents = Recorded([] {
    const nvtx::EventAttributes event = AnEvent("span");
    nvtx::Domain domain = Nvtx::CreateA("domain");
    const nvtx::RangeId id = Nvtx::DomainStart(domain, &event);
    PushPop("on the first thread");
    std::thread([&] { Nvtx::DomainEnd(domain, id); }).join();
  });
  ASSERT_EQ(contents.ranges.size(), 2u);
  const Range& span = RangeNamed(contents, "domain:span");
  const Range& other = RangeNamed(contents, "on the first thread");
  EXPECT_NE(span.thread_serial, other.thread_serial);
  EXPECT_LE(span.start_ticks, other.start_ticks);
  EXPECT_GE(EndOf(span), EndOf(other));
}

TEST(NvtxSpanTest, SpansThatOverlapAreOnDifferentLanes) {
  const CaptureContents contents = Recorded([] {
    const nvtx::RangeId first = Nvtx::StartA("first");
    const nvtx::RangeId second = Nvtx::StartA("second");
    Nvtx::End(first);
    Nvtx::End(second);
    Nvtx::End(Nvtx::StartW(L"third"));
  });
  ASSERT_EQ(contents.ranges.size(), 3u);
  EXPECT_NE(RangeNamed(contents, "first").lane, RangeNamed(contents, "second").lane);
  EXPECT_EQ(RangeNamed(contents, "first").lane, RangeNamed(contents, "third").lane);
  EXPECT_THAT(contents.lane_names, SizeIs(2));
}

TEST(NvtxSpanTest, MoreThanEightAtOnceAreDroppedAndCounted) {
  const CaptureContents contents = Recorded([] {
    std::array<nvtx::RangeId, 11> ids;
    for (nvtx::RangeId& id : ids) id = Nvtx::StartA("span");
    for (const nvtx::RangeId id : ids) Nvtx::End(id);
  });
  EXPECT_EQ(contents.CountRanges("span"), 8u);
  EXPECT_EQ(contents.drops[wire::kDropTooDeep], 3u);
}

TEST(NvtxSpanTest, WhatWasStartedInNoCaptureOrAnotherIsNotKept) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    CHILD_EXPECT(Nvtx::StartA("idle") == 0);
    std::vector<nvtx::RangeId> ids = {0, 1, ~uint64_t{0}, uint64_t{12345} << 16};
    for (int capture = 0; capture < 2; ++capture) {
      parent.Tell('c');
      WaitRecording();
      WaitRangeSlots(true);
      for (const nvtx::RangeId id : ids) Nvtx::End(id);
      ids.push_back(Nvtx::StartA("begun"));
      Nvtx::End(Nvtx::StartA("whole"));
      parent.Tell('d');
      WaitNotRecording();
      WaitRangeSlots(false);
    }
    parent.Await('x');  // The slots are empty before the daemon has its answer.
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < 2; ++i) {
    child.Await('c');
    auto capture = target->Arm();
    capture->Fire(ByTime());
    child.Await('d');
    const CaptureContents contents = capture->Finish();
    EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("whole"));
    EXPECT_EQ(contents.dropped(), 0u);
  }
  child.Tell('x');
  child.ExpectSuccess();
}

// ---- Marks, payloads, thread names

TEST(NvtxEventTest, MarksAreInstants) {
  const CaptureContents contents = Recorded([] {
    Nvtx::MarkA("ascii");
    Nvtx::MarkW(L"wide");
    const nvtx::EventAttributes event = AnEvent("event");
    Nvtx::MarkEx(&event);
    Nvtx::DomainMark(Nvtx::CreateA("domain"), &event);
  });
  std::vector<std::string> names;
  for (const auto& instant : contents.instants) names.push_back(instant.name);
  EXPECT_THAT(names, ElementsAre("ascii", "wide", "event", "domain:event"));
}

TEST(NvtxEventTest, PayloadsThatAreNumbersAreSamplesOfTheSameName) {
  const CaptureContents contents = Recorded([] {
    nvtx::EventAttributes event = AnEvent("loss");
    const auto mark = [&](nvtx::PayloadType type) {
      event.payload_type = type;
      Nvtx::MarkEx(&event);
    };
    event.payload.as_uint64 = uint64_t{1} << 40;
    mark(nvtx::kPayloadUint64);
    event.payload.as_int64 = -2;
    mark(nvtx::kPayloadInt64);
    event.payload.as_double = 0.25;
    mark(nvtx::kPayloadDouble);
    event.payload.as_uint32 = 3'000'000'000;
    mark(nvtx::kPayloadUint32);
    event.payload.as_int32 = -4;
    mark(nvtx::kPayloadInt32);
    event.payload.as_float = 0.5F;
    mark(nvtx::kPayloadFloat);
    event.payload_type = static_cast<int32_t>(0xDFBD0009);  // A schema's.
    Nvtx::PushEx(&event);
    Nvtx::Pop();
    event.payload_type = nvtx::kPayloadInt32;
    event.payload.as_int32 = 7;
    Nvtx::PushEx(&event);
    Nvtx::Pop();
    Nvtx::End(Nvtx::StartEx(&event));
  });
  std::vector<double> values;
  for (const auto& counter : contents.counters) {
    EXPECT_EQ(counter.name, "loss");
    values.push_back(counter.value);
  }
  EXPECT_THAT(values, ElementsAre(double(uint64_t{1} << 40), -2, 0.25, 3e9, -4, 0.5, 7, 7));
  EXPECT_THAT(contents.instants, SizeIs(6));
  EXPECT_EQ(contents.CountRanges("loss"), 3u);
}

TEST(NvtxEventTest, ThreadsCanBeNamedByThemselvesAndByOthersAtAnyTime) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    std::atomic<uint32_t> number{0};
    std::atomic<bool> go{false};
    std::thread worker([&] {
      number = static_cast<uint32_t>(syscall(SYS_gettid));
      WaitUntil("the word to go", [&] { return go.load(); });
      PushPop("work");
    });
    WaitUntil("the worker", [&] { return number != 0; });
    Nvtx::NameThreadA(number, "not yet this");
    Nvtx::NameThreadA(number, "worker");
    Nvtx::NameThreadW(static_cast<uint32_t>(getpid()), L"m\u00e4in");
    Nvtx::NameThreadA(1, nullptr);
    parent.Tell('c');
    WaitRecording();
    WaitRangeSlots(true);
    go = true;
    worker.join();
    PushPop("main's");
    Nvtx::NameThreadA(static_cast<uint32_t>(pthread_self()), "renamed");
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  const CaptureContents contents = capture->Finish();
  EXPECT_THAT(contents.thread_names.at(RangeNamed(contents, "work").thread_serial),
              ElementsAre("worker"));
  EXPECT_THAT(contents.thread_names.at(RangeNamed(contents, "main's").thread_serial),
              ElementsAre("m\u00e4in", "renamed"));
  child.Tell('x');
  child.ExpectSuccess();
}

// ---- Steps

TEST(NvtxStepMarkerTest, PushesAndStartsOfTheMarkersNameAreSteps) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    nvtx::Domain domain = Nvtx::CreateA("trainer");
    const nvtx::EventAttributes event = AnEvent(Nvtx::RegisterA(domain, "step"));
    parent.Tell('c');
    WaitRecording();
    WaitRangeSlots(true);
    PushPop("step");  // Of another name: the marker's is in a domain.
    Nvtx::DomainPush(domain, &event);
    Nvtx::DomainPop(domain);
    const nvtx::RangeId id = Nvtx::DomainStart(domain, &event);
    Nvtx::DomainEnd(domain, id);
    Nvtx::DomainPush(domain, &event);
    Nvtx::DomainPop(domain);
    CHILD_EXPECT(__atomic_load_n(profd_recording_flag(), __ATOMIC_ACQUIRE) == 0);
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->ArmByMarker("trainer:step");
  capture->Fire(Steps(/*active=*/2));
  child.Await('d');
  EXPECT_EQ(capture->phase(), Phase::kEnded);
  const CaptureContents contents = capture->Finish();
  ASSERT_THAT(contents.steps, SizeIs(3));
  ASSERT_EQ(contents.windows.size(), 1u);
  EXPECT_EQ(contents.windows[0].end_step, 2u);
  EXPECT_EQ(contents.CountRanges("trainer:step"), 2u);
  EXPECT_EQ(contents.CountRanges("step"), 1u);
  child.Tell('x');
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::testing
