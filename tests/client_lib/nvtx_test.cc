// The library as NVTX's injection: slots, names, and what becomes of each kind of call.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/client_lib/child.h"
#include "tests/fakes/fake_daemon.h"
#include "tests/fakes/fake_nvtx.h"

namespace profd::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using Range = CaptureContents::Range;
using wire::Phase;

using Nvtx = FakeNvtx<0>;
using OtherNvtx = FakeNvtx<1>;

constexpr uint32_t kRangeSlots[] = {nvtx::kMarkEx,       nvtx::kMarkA,       nvtx::kMarkW,
                                    nvtx::kRangeStartEx, nvtx::kRangeStartA, nvtx::kRangeStartW,
                                    nvtx::kRangeEnd,     nvtx::kRangePushEx, nvtx::kRangePushA,
                                    nvtx::kRangePushW,   nvtx::kRangePop};
constexpr uint32_t kDomainSlots[] = {nvtx::kDomainMarkEx, nvtx::kDomainRangeStartEx,
                                     nvtx::kDomainRangeEnd, nvtx::kDomainRangePushEx,
                                     nvtx::kDomainRangePop};

template <typename Fake>
bool RangeSlotsAre(bool filled) {
  return std::all_of(std::begin(kRangeSlots), std::end(kRangeSlots),
                     [&](uint32_t id) { return (Fake::CoreSlot(id) != nullptr) == filled; }) &&
         std::all_of(std::begin(kDomainSlots), std::end(kDomainSlots),
                     [&](uint32_t id) { return (Fake::Core2Slot(id) != nullptr) == filled; });
}

template <typename Fake = Nvtx>
void WaitRangeSlots(bool filled) {
  WaitUntil("the slots", [&] { return RangeSlotsAre<Fake>(filled); });
}

void PushPop(const char* text) {
  Nvtx::PushA(text);
  Nvtx::Pop();
}

// What a child did in a window by time, with NVTX attached before and slots filled by then.
CaptureContents Recorded(const std::function<void()>& body) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [&](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    parent.Tell('c');
    WaitRecording();
    WaitRangeSlots(true);
    body();
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  CaptureContents contents = capture->Finish();
  child.Tell('x');
  child.ExpectSuccess();
  return contents;
}

std::vector<std::string> NamesOf(const std::vector<Range>& ranges) {
  std::vector<std::string> names;
  names.reserve(ranges.size());
  for (const Range& range : ranges) names.push_back(range.name);
  return names;
}

const Range& RangeNamed(const CaptureContents& contents, const std::string& name) {
  for (const Range& range : contents.ranges) {
    if (range.name == name) return range;
  }
  FailTest("no range " + name);
}

uint64_t EndOf(const Range& range) { return range.start_ticks + range.duration_ticks; }

// ---- Attaching

TEST(NvtxAttachTest, TheFirstCallMakesTheProcessATarget) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  EXPECT_EQ(target->hello().own_pid, static_cast<uint32_t>(child.pid()));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, SoDoesTheInjectionOfTheCudaDriver) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(InitializeInjection() == 1);
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  EXPECT_EQ(target->hello().own_pid, static_cast<uint32_t>(child.pid()));
  child.Tell('x');
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, SlotsOfRangesAreFilledOnlyWhileACaptureIsArmed) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    CHILD_EXPECT(RangeSlotsAre<Nvtx>(false));
    WaitConnected();
    CHILD_EXPECT(RangeSlotsAre<Nvtx>(false));
    for (int capture = 0; capture < 3; ++capture) {
      parent.Tell('c');
      parent.Await('a');
      WaitRangeSlots(true);
      parent.Tell('f');
      parent.Await('r');
      WaitRangeSlots(false);
    }
  });
  auto target = daemon.WaitTarget();
  for (int i = 0; i < 3; ++i) {
    child.Await('c');
    auto capture = target->Arm();
    child.Tell('a');
    child.Await('f');
    capture->Finish();
    child.Tell('r');
  }
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, AConnectionThatBreaksEmptiesTheSlots) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitRangeSlots(true);
    parent.Tell('f');
    WaitRangeSlots(false);
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  child.Await('f');
  target.reset();
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, SlotsOfHandlesAndThreadNamesAreFilledForGood) {
  Child child("/nonexistent", [](Parent&) {
    CHILD_EXPECT(Nvtx::Attach());
    for (const uint32_t id : {nvtx::kNameOsThreadA, nvtx::kNameOsThreadW}) {
      CHILD_EXPECT(Nvtx::CoreSlot(id) != nullptr);
    }
    for (const uint32_t id : {nvtx::kDomainCreateA, nvtx::kDomainCreateW,
                              nvtx::kDomainRegisterStringA, nvtx::kDomainRegisterStringW}) {
      CHILD_EXPECT(Nvtx::Core2Slot(id) != nullptr);
    }
    // Categories, resources, what is destroyed: nobody is asked.
    CHILD_EXPECT(Nvtx::CoreSlot(12) == nullptr && Nvtx::CoreSlot(13) == nullptr);
    for (const uint32_t id : {6u, 7u, 8u, 9u, 14u, 15u}) {
      CHILD_EXPECT(Nvtx::Core2Slot(id) == nullptr);
    }
  });
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, AnObjectThatComesDuringACaptureIsSeenAtOnce) {
  const CaptureContents contents = Recorded([] {
    CHILD_EXPECT(OtherNvtx::Attach());
    CHILD_EXPECT(RangeSlotsAre<OtherNvtx>(true));
    OtherNvtx::PushA("of the other object");
    PushPop("of the first");
    OtherNvtx::Pop();
  });
  EXPECT_THAT(NamesOf(contents.ranges), ElementsAre("of the first", "of the other object"));
  EXPECT_EQ(contents.ranges[0].depth, 1u);
}

TEST(NvtxAttachTest, TablesOfOlderHeadersAreNotReadBeyondTheirEnd) {
  Child child("/nonexistent", [](Parent&) {
    Nvtx::table_size = 12;  // No names of threads, no domains to create.
    CHILD_EXPECT(Nvtx::Attach());
    CHILD_EXPECT(Nvtx::CoreSlot(nvtx::kNameOsThreadA) == nullptr);
    CHILD_EXPECT(Nvtx::Core2Slot(nvtx::kDomainRegisterStringA) != nullptr);
    CHILD_EXPECT(Nvtx::Core2Slot(nvtx::kDomainCreateA) == nullptr);
  });
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, WhatIsNoNvtxIsLeftAlone) {
  Child child("/nonexistent", [](Parent&) {
    CHILD_EXPECT(InitializeInjectionNvtx2(nullptr) == 0);
    CHILD_EXPECT(InitializeInjectionNvtx2([](uint32_t) -> const void* { return nullptr; }) == 0);
    Nvtx::callbacks_bytes = 8;
    CHILD_EXPECT(!Nvtx::Attach());
    OtherNvtx::has_modules = false;
    CHILD_EXPECT(!OtherNvtx::Attach());
  });
  child.ExpectSuccess();
}

TEST(NvtxAttachTest, ALaterCopyOfTheLibraryHandsItsNvtxToTheFirst) {
  FakeDaemon daemon;
  const std::string path = daemon.directory() + "/libinjected.so";
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&InitializeInjection), &info);
  std::filesystem::copy_file(info.dli_fname, path);
  Child child(daemon.directory(), [&](Parent& parent) {
    void* copy = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    CHILD_EXPECT(copy != nullptr);
    const auto injection = reinterpret_cast<decltype(&InitializeInjectionNvtx2)>(
        dlsym(copy, "InitializeInjectionNvtx2"));
    CHILD_EXPECT(injection != nullptr && injection != &InitializeInjectionNvtx2);
    CHILD_EXPECT(Nvtx::Attach(injection));
    WaitRecording();
    WaitRangeSlots(true);
    PushPop("through the copy");
    parent.Tell('d');
    parent.Await('x');
  });
  auto target = daemon.WaitTarget();
  auto capture = target->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  EXPECT_EQ(capture->Finish().CountRanges("through the copy"), 1u);
  EXPECT_FALSE(daemon.HasCaller());
  child.Tell('x');
  child.ExpectSuccess();
  std::filesystem::remove(path);
}

// ---- The loader

class NvtxModuleTest : public ::testing::Test {
 protected:
  // As the environment of a process that `profctl run` started.
  static void NameTheInjection() {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&InitializeInjection), &info);
    setenv("NVTX_INJECTION64_PATH", info.dli_fname, 1);
  }
  static std::string ModulePath() {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "nvtx_module.so";
  }
  static int Call(void* module, const char* name) {
    return reinterpret_cast<int (*)()>(dlsym(module, name))();
  }
};

TEST_F(NvtxModuleTest, AFirstCallInsideTheLoaderWaitsForNobody) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    NameTheInjection();
    setenv("NVTX_MODULE_EARLY", "1", 1);
    // Its constructor returns when the agent has connected, without the loader's lock.
    CHILD_EXPECT(dlopen(ModulePath().c_str(), RTLD_NOW) != nullptr);
    parent.Tell('c');
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.ExpectSuccess();
}

TEST_F(NvtxModuleTest, AnObjectThatIsClosedKeepsItsSlots) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    NameTheInjection();
    void* module = dlopen(ModulePath().c_str(), RTLD_NOW);
    CHILD_EXPECT(module != nullptr && Call(module, "nvtx_module_attach") == 1);
    const auto is_hooked = reinterpret_cast<int (*)()>(dlsym(module, "nvtx_module_is_hooked"));
    CHILD_EXPECT(dlclose(module) == 0);
    parent.Tell('c');
    WaitUntil("the slots", [&] { return is_hooked() == 1; });
    parent.Tell('f');
    WaitUntil("the slots", [&] { return is_hooked() == 0; });
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm();
  child.Await('f');
  capture->Finish();
  child.ExpectSuccess();
}

// ---- Forking

TEST(NvtxAttachTest, TheFirstNvtxCallOfAForkedChildRegistersIt) {
  FakeDaemon daemon;
  Child child(daemon.directory(), [](Parent& parent) {
    CHILD_EXPECT(Nvtx::Attach());
    WaitConnected();
    parent.Tell('c');
    parent.Await('f');
    const pid_t pid = fork();
    if (pid == 0) {
      CHILD_EXPECT(RangeSlotsAre<Nvtx>(true));
      PushPop("registers");
      CHILD_EXPECT(RangeSlotsAre<Nvtx>(false));
      WaitRecording();
      WaitRangeSlots(true);
      PushPop("in the child");
      parent.Tell('d');
      parent.Await('x');
      _exit(0);
    }
    CHILD_EXPECT(RangeSlotsAre<Nvtx>(false));
    CHILD_EXPECT(WaitForExit(pid) == 0);
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  child.Tell('f');
  auto grandchild = daemon.WaitTarget();
  EXPECT_EQ(grandchild->hello().parent_pid, static_cast<uint32_t>(child.pid()));
  auto capture = grandchild->Arm();
  capture->Fire(ByTime());
  child.Await('d');
  EXPECT_THAT(NamesOf(capture->Finish().ranges), ElementsAre("in the child"));
  child.Tell('x');
  child.ExpectSuccess();
}

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

TEST(NvtxRangeTest, NamesTooLongAreCut) {
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
  });
  ASSERT_EQ(contents.ranges.size(), 4u);
  EXPECT_EQ(contents.ranges[0].name, std::string(wire::kMaxNameBytes, 'n'));
  EXPECT_EQ(contents.ranges[1].name, contents.ranges[0].name);
  EXPECT_EQ(contents.ranges[2].name.size(), wire::kMaxNameBytes / 3 * 3);  // No half characters.
  EXPECT_EQ(contents.ranges[3].name, "domain:" + std::string(wire::kMaxNameBytes - 7, 'n'));
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
    CHILD_EXPECT(*profd_recording_flag() == 0);
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
