#include "client_lib/core/helper.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/agent_wake.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/own_files.h"
#include "proto/wire/clock.h"

namespace profd::client {
namespace {

// PyTorch's functions run here, as they do on the program's threads. Only touched pages count.
#ifdef PROFD_SANITIZED
constexpr size_t kStackBytes = 2u << 20;
#else
constexpr size_t kStackBytes = 512u << 10;
#endif

enum class Job : uint32_t { kNone, kAsked, kDone };

constinit std::atomic<uint32_t> g_bell{0};  // A futex: changes of what follows.
constinit std::atomic<bool> g_is_agent_wanted{false};
constinit std::atomic<bool> g_should_stop{false};
constinit std::atomic<Job> g_job{Job::kNone};  // A futex, too: the agent waits for kDone.
// Written before kAsked.
using Function = void (*)(void*);
constinit Function g_function = nullptr;
constinit void* g_argument = nullptr;

// Of the main thread: the kernel writes 0 there when it ends. Null: not known.
constinit std::atomic<int>* g_main_thread_id = nullptr;
constinit std::atomic<bool> g_was_main_thread_gone{false};  // When the library started.
constinit std::atomic<int> g_main_thread_status{0};
// How soon the library's threads end after the main thread, where the kernel cannot wait for two
// things at once. A wait that ends costs 2 us.
constexpr timespec kMainThreadCheck{1, 0};
constexpr timespec kRingAgain{0, 10'000'000};
constinit bool g_has_wait_for_two = true;  // The helper's: Linux 5.16 and later.

// Of each thread of the library: its ID; kComing, until the thread has stored it; negative, since
// its last call; 0: there is none.
constexpr int kComing = INT_MAX;
constinit std::atomic<int> g_threads[kLibraryThreads] = {};
constinit std::atomic<uint64_t> g_last_calls_ns[kLibraryThreads] = {};
// After its last call a thread still runs glibc's end of it, and the library's have a low priority:
// on a busy machine they take their time. After that time its ID may be another thread's.
constexpr uint64_t kLastCallNs = 2'000'000'000;
constexpr timespec kLookAgain{0, 50'000};

// As in <linux/futex.h>, which is older in some images.
struct FutexToWait {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};
constexpr uint32_t kFutex32 = 2;
constexpr uint32_t kFutexPrivate = 128;

void Wait(void* futex, uint32_t seen, const timespec* timeout = nullptr) {
  syscall(SYS_futex, futex, FUTEX_WAIT_PRIVATE, seen, timeout, nullptr, 0);
}

// Sleeps until the bell rings or the main thread ends. The library's threads must end before the
// program's last thread, because that one decides the status of the process.
void WaitForBell(uint32_t seen) {
  if (g_main_thread_id == nullptr) return Wait(&g_bell, seen);
  const auto thread = static_cast<uint32_t>(g_main_thread_id->load(std::memory_order_seq_cst));
  if (g_has_wait_for_two && thread != 0) {
    // When a thread ends, the kernel wakes its ID as a shared futex, not as a private one.
    const FutexToWait both[] = {
        {seen, reinterpret_cast<uint64_t>(&g_bell), kFutex32 | kFutexPrivate, 0},
        {thread, reinterpret_cast<uint64_t>(g_main_thread_id), kFutex32, 0}};
    if (syscall(kFutexWaitvCall, both, 2, 0, nullptr, 0) >= 0) return;
    if (errno == EAGAIN || errno == EINTR) return;
    g_has_wait_for_two = false;
  }
  Wait(&g_bell, seen, &kMainThreadCheck);
}

void Wake(void* futex) {
  const int saved_errno = errno;
  syscall(SYS_futex, futex, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  errno = saved_errno;
}

void RingBell() {
  g_bell.fetch_add(1, std::memory_order_seq_cst);
  Wake(&g_bell);
}

// The main thread's, for another thread. The kernel does not say where it is, but where the
// thread's list of robust mutexes begins. In glibc's struct pthread there is the ID, 4 bytes that
// are not used, and a pointer before that. Null: the list is elsewhere, or the main thread has
// ended.
int* FindIdOfOtherThread(int thread) {
  if (HasSeccompFilter()) return nullptr;  // It may end the process for what follows.
  uint64_t list = 0;
  size_t bytes = 0;
  if (syscall(SYS_get_robust_list, thread, &list, &bytes) != 0) return nullptr;
  constexpr uint64_t kBetween = 2 * sizeof(int) + sizeof(void*);
  constexpr uint64_t kSmallestPage = 4096;
  // What lies in the list's page can be read.
  if (list % alignof(void*) != 0 || list % kSmallestPage < kBetween) return nullptr;
  return reinterpret_cast<int*>(list - kBetween);
}

// A program whose main() ends in pthread_exit() or SYS_exit ends with its last thread, so ours must
// not be that one. Reading the ID needs no system call, which a seccomp filter might punish. On
// glibc it is a member of the thread's own structure, which the main thread keeps for ever.
std::atomic<int>* FindMainThreadId() {
  const int main_thread = getpid();
  int* id = nullptr;
  if (syscall(SYS_gettid) != main_thread) {
    id = FindIdOfOtherThread(main_thread);
  } else if (syscall(SYS_prctl, PR_GET_TID_ADDRESS, &id, 0UL, 0UL, 0UL) != 0) {
    return nullptr;
  }
  static_assert(sizeof(std::atomic<int>) == sizeof(int));
  return id != nullptr && *id == main_thread ? reinterpret_cast<std::atomic<int>*>(id) : nullptr;
}

void DoJob() {
  if (g_job.load(std::memory_order_acquire) != Job::kAsked) return;
  g_function(g_argument);
  g_job.store(Job::kDone, std::memory_order_release);
  Wake(&g_job);
}

void RingAgent() {
  while (!agent_wake::Ring() && !g_should_stop.load(std::memory_order_seq_cst)) {
    nanosleep(&kRingAgain, nullptr);
  }
}

std::atomic<int>& IdOf(LibraryThread which) { return g_threads[static_cast<uint32_t>(which)]; }
std::atomic<uint64_t>& LastCallOf(LibraryThread which) {
  return g_last_calls_ns[static_cast<uint32_t>(which)];
}

void* RunHelper(void*) {
  EnterLibraryThread(LibraryThread::kHelper);
  prctl(PR_SET_NAME, "profd-helper", 0, 0, 0);
  for (;;) {
    const uint32_t seen = g_bell.load(std::memory_order_seq_cst);
    if (g_should_stop.load(std::memory_order_seq_cst)) {
      EndLibraryThread(LibraryThread::kHelper);
      return nullptr;
    }
    DoJob();
    if (!MustThreadsEnd() && MainThreadHasEnded()) {
      EndWithMainThread();
      // The agent ends, and stops this thread.
      g_is_agent_wanted.store(true, std::memory_order_seq_cst);
    }
    if (g_is_agent_wanted.exchange(false, std::memory_order_seq_cst)) RingAgent();
    WaitForBell(seen);
  }
}

}  // namespace

bool StartHelper() {
  g_should_stop.store(false, std::memory_order_relaxed);
  g_main_thread_id = FindMainThreadId();
  return StartLibraryThread(LibraryThread::kHelper, RunHelper, nullptr, kStackBytes);
}

bool MainThreadIsKnown() { return g_main_thread_id != nullptr; }
void SetMainThreadGone() { g_was_main_thread_gone.store(true, std::memory_order_relaxed); }

bool MainThreadHasEnded() {
  if (g_main_thread_id == nullptr) return g_was_main_thread_gone.load(std::memory_order_relaxed);
  return g_main_thread_id->load(std::memory_order_relaxed) == 0;
}

void StopHelper(int main_thread_status) {
  g_main_thread_status.store(main_thread_status, std::memory_order_seq_cst);
  g_should_stop.store(true, std::memory_order_seq_cst);
  RingBell();
}

void EnterLibraryThread(LibraryThread which) {
  IdOf(which).store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_release);
}

bool AwaitEndOfThread(LibraryThread which, uint64_t deadline_ns) {
  for (;;) {
    const int id = IdOf(which).load(std::memory_order_acquire);
    if (id == 0) return true;
    if (id != kComing && syscall(SYS_tgkill, getpid(), id < 0 ? -id : id, 0) != 0) break;
    const uint64_t now_ns = wire::ReadMonotonicNs();
    if (id < 0 && now_ns >= LastCallOf(which).load(std::memory_order_relaxed) + kLastCallNs) break;
    if (now_ns >= deadline_ns) return false;
    nanosleep(&kLookAgain, nullptr);
  }
  IdOf(which).store(0, std::memory_order_relaxed);
  return true;
}

void EndLibraryThread(LibraryThread which) {
  LastCallOf(which).store(wire::ReadMonotonicNs(), std::memory_order_relaxed);
  // Another one may have been made meanwhile: the GPU's is free for the next capture before this.
  int id = static_cast<int>(syscall(SYS_gettid));
  IdOf(which).compare_exchange_strong(id, -id, std::memory_order_release,
                                      std::memory_order_relaxed);
  const int status = g_main_thread_status.load(std::memory_order_seq_cst);
  // Not with status 0: glibc's way out also ends a process that pthread_exit() has left to us.
  if (status != 0) syscall(SYS_exit, status);
}

void AskForAgent() {
  g_is_agent_wanted.store(true, std::memory_order_seq_cst);
  RingBell();
}

void RunOnHelper(void (*function)(void*), void* argument) {
  g_function = function;
  g_argument = argument;
  g_job.store(Job::kAsked, std::memory_order_release);
  RingBell();
  while (g_job.load(std::memory_order_acquire) == Job::kAsked) {
    Wait(&g_job, static_cast<uint32_t>(Job::kAsked));
  }
  g_job.store(Job::kNone, std::memory_order_relaxed);
}

void HelperResetInChild() {
  g_job.store(Job::kNone, std::memory_order_relaxed);
  g_is_agent_wanted.store(false, std::memory_order_relaxed);
  g_should_stop.store(false, std::memory_order_relaxed);
  g_main_thread_id = nullptr;
  g_was_main_thread_gone.store(false, std::memory_order_relaxed);
  g_main_thread_status.store(0, std::memory_order_relaxed);
  g_has_wait_for_two = true;
  for (auto& id : g_threads) id.store(0, std::memory_order_relaxed);
}

bool StartLibraryThread(LibraryThread which, void* (*run)(void*), void* argument,
                        size_t stack_bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  // Inherited by the thread: no signal of the program is handled in it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  IdOf(which).store(kComing, std::memory_order_release);
  pthread_t thread;
  int result = pthread_create(&thread, &attributes, run, argument);
  if (result == EINVAL) {
    // Static TLS alone is larger than our stack.
    pthread_attr_t defaults;
    pthread_attr_init(&defaults);
    pthread_attr_setdetachstate(&defaults, PTHREAD_CREATE_DETACHED);
    result = pthread_create(&thread, &defaults, run, argument);
    pthread_attr_destroy(&defaults);
  }
  if (result != 0) IdOf(which).store(0, std::memory_order_release);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return result == 0;
}

}  // namespace profd::client
