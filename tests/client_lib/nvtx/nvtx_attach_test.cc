// The library as NVTX's injection: whose slots it takes, when, and what the loader and fork()
// have to do with it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/client_lib/nvtx/nvtx_fixture.h"

namespace profd::testing {
namespace {

using ::testing::ElementsAre;

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
    parent.Await('x');  // The slots are empty before the daemon has its answer.
  });
  auto target = daemon.WaitTarget();
  child.Await('c');
  auto capture = target->Arm();
  child.Await('f');
  capture->Finish();
  child.Tell('x');
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

}  // namespace
}  // namespace profd::testing
