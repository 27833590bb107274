#include "client_lib/core/helper.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>

#include "proto/wire/clock.h"

namespace profd::client {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr size_t kStackBytes = 2u << 20;

uint64_t InMs(uint64_t ms) { return wire::ReadMonotonicNs() + ms * kNsPerMs; }

pthread_key_t g_key;
std::atomic<bool> g_may_end{false};

void AwaitLeave(void*) { g_may_end.wait(false); }

void Leave() {
  g_may_end = true;
  g_may_end.notify_all();
}

// What runs after a thread's last call: destructors of its variables, and glibc's end of it.
void* RunUntilLastCall(void*) {
  EnterLibraryThread(LibraryThread::kGpu);
  pthread_setspecific(g_key, &g_key);
  EndLibraryThread(LibraryThread::kGpu);
  return nullptr;
}

TEST(LibraryThreadTest, OneThatEndsSlowlyAfterItsLastCallHasNotEnded) {
  ASSERT_EQ(pthread_key_create(&g_key, &AwaitLeave), 0);
  ASSERT_TRUE(StartLibraryThread(LibraryThread::kGpu, &RunUntilLastCall, nullptr, kStackBytes));
  EXPECT_FALSE(AwaitEndOfThread(LibraryThread::kGpu, InMs(200)));
  Leave();
  EXPECT_TRUE(AwaitEndOfThread(LibraryThread::kGpu, InMs(10'000)));
  pthread_key_delete(g_key);
}

TEST(LibraryThreadTest, TheIdOfOneThatMadeItsLastCallLongAgoMayBeAnothers) {
  // As if this thread had got the ID.
  EnterLibraryThread(LibraryThread::kGpu);
  EndLibraryThread(LibraryThread::kGpu);
  EXPECT_FALSE(AwaitEndOfThread(LibraryThread::kGpu, InMs(1)));
  EXPECT_TRUE(AwaitEndOfThread(LibraryThread::kGpu, InMs(20'000)));
}

TEST(LibraryThreadTest, TheEndOfOneIsNotTheEndOfTheNext) {
  EnterLibraryThread(LibraryThread::kGpu);
  std::atomic<bool> has_entered{false};
  pthread_t next;
  const auto run = [](void* entered) -> void* {
    EnterLibraryThread(LibraryThread::kGpu);
    static_cast<std::atomic<bool>*>(entered)->store(true);
    static_cast<std::atomic<bool>*>(entered)->notify_one();
    AwaitLeave(nullptr);
    return nullptr;
  };
  g_may_end = false;
  ASSERT_EQ(pthread_create(&next, nullptr, run, &has_entered), 0);
  has_entered.wait(false);
  EndLibraryThread(LibraryThread::kGpu);
  EXPECT_FALSE(AwaitEndOfThread(LibraryThread::kGpu, InMs(3000)));
  Leave();
  pthread_join(next, nullptr);
  EXPECT_TRUE(AwaitEndOfThread(LibraryThread::kGpu, InMs(10'000)));
}

}  // namespace
}  // namespace profd::client
