// Slots of the global offset table, in shared objects that were linked in the ways that there are.
#include "client_lib/torch/got_slots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "tests/client_lib/child.h"
#include "tests/client_lib/torch/fake_c10.h"

namespace profd::client::torch {
namespace {

using profd::testing::Child;
using profd::testing::Parent;

constexpr char kEnabled[] = "_ZN3c1022memoryProfilingEnabledEv";
constexpr char kReport[] = "_ZN3c1027reportMemoryUsageToProfilerEPvl";

std::atomic<int> g_calls{0};

bool CountedEnabled() {
  g_calls.fetch_add(1);
  return false;
}

bool OthersEnabled() { return false; }

template <typename Function>
Function* Symbol(void* object, const char* name) {
  return reinterpret_cast<Function*>(dlsym(object, name));
}

// "bound": all of it bound at once, and read-only from then on. "lazy": bound at the first call.
void* Load(const std::string& how) {
  const std::string path = std::string(PROFD_TEST_C10_DIR) + "/" + how + "/libc10.so";
  return dlopen(path.c_str(), (how == "lazy" ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
}

void* PageOf(void* address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) / page * page);
}

bool IsWritable(const void* address) {
  FILE* maps = fopen("/proc/self/maps", "re");
  char line[512];
  bool writable = false;
  while (fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long start;
    unsigned long end;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) != 3) continue;
    const auto at = reinterpret_cast<uintptr_t>(address);
    if (at >= start && at < end) writable = rights[1] == 'w';
  }
  fclose(maps);
  return writable;
}

// In a process of its own, since an object that was loaded stays.
class GotSlotsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void RunInChild(const std::function<void()>& body) {
    Child child("", [&](Parent&) { body(); });
    child.ExpectSuccess();
  }
};

TEST_P(GotSlotsTest, CallsGoWhereTheSlotLeadsUntilItIsRestored) {
  RunInChild([] {
    void* c10 = Load(GetParam());
    CHILD_EXPECT(c10 != nullptr);
    auto* allocate = Symbol<decltype(fake_cpu_allocate)>(c10, "fake_cpu_allocate");
    GotSlots slots;
    CHILD_EXPECT(slots.Find("libc10.", kEnabled) == 1);
    CHILD_EXPECT(slots.function() == dlsym(c10, kEnabled));
    CHILD_EXPECT(slots.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
    allocate(nullptr, 1);
    CHILD_EXPECT(g_calls == 1);
    slots.Restore();
    allocate(nullptr, 1);
    CHILD_EXPECT(g_calls == 1);
    // And again, by now bound in any case.
    CHILD_EXPECT(slots.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
    allocate(nullptr, 1);
    CHILD_EXPECT(g_calls == 2);
  });
}

TEST_P(GotSlotsTest, ASlotThatAnotherToolHasIsLeftAlone) {
  RunInChild([] {
    CHILD_EXPECT(Load(GetParam()) != nullptr);
    GotSlots theirs;
    GotSlots ours;
    CHILD_EXPECT(theirs.Find("libc10.", kEnabled) == 1);
    CHILD_EXPECT(ours.Find("libc10.", kEnabled) == 1);
    CHILD_EXPECT(theirs.Replace(reinterpret_cast<void*>(OthersEnabled)) == 1);
    CHILD_EXPECT(ours.Replace(reinterpret_cast<void*>(CountedEnabled)) == 0);
    ours.Restore();
    CHILD_EXPECT(ours.Replace(reinterpret_cast<void*>(CountedEnabled)) == 0);  // Still theirs.
    theirs.Restore();
    CHILD_EXPECT(ours.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
  });
}

TEST_P(GotSlotsTest, ASymbolIsFoundByTheBeginOfItsName) {
  RunInChild([] {
    CHILD_EXPECT(Load(GetParam()) != nullptr);
    GotSlots slots;
    CHILD_EXPECT(slots.Find("libc10.", kReport) == 1);
    CHILD_EXPECT(std::string(slots.symbol()).starts_with(kReport));
    CHILD_EXPECT(slots.Find("libc10.", "_ZN3c1099nothing") == 0);
    CHILD_EXPECT(slots.function() == nullptr);
    CHILD_EXPECT(slots.Find("libnothing", kReport) == 0);
    CHILD_EXPECT(IsObjectLoaded("libc10.") && !IsObjectLoaded("libc10_cuda"));
  });
}

INSTANTIATE_TEST_SUITE_P(Linked, GotSlotsTest, ::testing::Values("bound", "lazy"),
                         [](const auto& how) { return how.param; });

TEST(GotSlotsRelroTest, APageThatWasMadeWritableStaysSo) {
  Child child("", [](Parent&) {
    void* c10 = Load("bound");
    CHILD_EXPECT(c10 != nullptr);
    GotSlots slots;
    CHILD_EXPECT(slots.Find("libc10.", kEnabled) == 1);
    void* slot = slots.AddressForTesting(0);
    CHILD_EXPECT(!IsWritable(slot));
    CHILD_EXPECT(slots.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
    CHILD_EXPECT(IsWritable(slot));
    slots.Restore();
    CHILD_EXPECT(IsWritable(slot));
  });
  child.ExpectSuccess();
}

// As memray and heaptrack do: make the page writable, then store to another slot of it.
TEST(GotSlotsRelroTest, AnotherToolThatPatchesTheSamePageDoesNotFault) {
  Child child("", [](Parent&) {
    CHILD_EXPECT(Load("bound") != nullptr);
    GotSlots ours;
    GotSlots theirs;
    CHILD_EXPECT(ours.Find("libc10.", kEnabled) == 1);
    CHILD_EXPECT(theirs.Find("libc10.", kReport) == 1);
    auto** slot = static_cast<void**>(theirs.AddressForTesting(0));
    auto** const our_slot = static_cast<void**>(ours.AddressForTesting(0));
    if (PageOf(slot) != PageOf(our_slot)) {
      slot = PageOf(our_slot + 1) == PageOf(our_slot) ? our_slot + 1 : our_slot - 1;
    }
    std::atomic<bool> stop{false};
    std::thread other([&] {
      const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
      void* const value = *slot;
      while (!stop.load(std::memory_order_relaxed)) {
        CHILD_EXPECT(mprotect(PageOf(slot), page, PROT_READ | PROT_WRITE) == 0);
        for (int i = 0; i < 1000; ++i) __atomic_store_n(slot, value, __ATOMIC_RELAXED);
      }
    });
    for (int i = 0; i < 2000; ++i) {
      CHILD_EXPECT(ours.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
      ours.Restore();
    }
    stop.store(true);
    other.join();
  });
  child.ExpectSuccess();
}

TEST(GotSlotsRelroTest, WhatAnotherToolPutThereSinceStays) {
  Child child("", [](Parent&) {
    CHILD_EXPECT(Load("bound") != nullptr);
    GotSlots slots;
    CHILD_EXPECT(slots.Find("libc10.", kEnabled) == 1);
    CHILD_EXPECT(slots.Replace(reinterpret_cast<void*>(CountedEnabled)) == 1);
    auto** slot = static_cast<void**>(slots.AddressForTesting(0));
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    CHILD_EXPECT(mprotect(PageOf(slot), page, PROT_READ | PROT_WRITE) == 0);
    *slot = reinterpret_cast<void*>(OthersEnabled);
    slots.Restore();
    CHILD_EXPECT(*slot == reinterpret_cast<void*>(OthersEnabled));
  });
  child.ExpectSuccess();
}

}  // namespace
}  // namespace profd::client::torch
