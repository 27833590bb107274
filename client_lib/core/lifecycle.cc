#include "client_lib/core/lifecycle.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "client_lib/core/agent.h"
#include "client_lib/core/capture_listener.h"
#include "client_lib/core/foreign_calls.h"
#include "client_lib/core/handover.h"
#include "client_lib/core/helper.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/log.h"
#include "client_lib/core/metadata.h"
#include "client_lib/core/own_files.h"
#include "client_lib/core/seccomp_probe.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/core/torch_hooks.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

namespace profd::client {
namespace {

// kClaimed: as kRunning, and a thread looks whether it may stop the library's.
enum class State : uint32_t {
  kNew,
  kStarting,
  kRunning,
  kClaimed,
  kStopped,
  kStayStopped,
  kDisabled
};

bool IsOff(State state) { return state == State::kDisabled || state == State::kStayStopped; }

// An attempt to stop a capture may take this long: torch's functions, CUPTI.
constexpr uint64_t kStopThreadsNs = 3'000'000'000;
constexpr uint64_t kAskAgainNs = 100'000'000;
// Of another thread: its stop, and a system call.
constexpr uint64_t kAwaitOtherStopNs = kStopThreadsNs + 1'000'000'000;

constinit std::atomic<State> g_state{State::kNew};
constinit std::atomic<bool> g_loaded{false};
constinit std::atomic<pthread_t> g_stopped_by{};  // While kStopped.
// The one thread that may claim kRunning. Others wait for this place first: a thread that stops the
// library's again and again gives it up while they are stopped, so that others get it even where
// all share one CPU.
constinit std::atomic<pthread_t> g_next_to_stop{};
constinit bool g_have_fork_handlers = false;
constinit uint32_t g_pid = 0;
constinit uint32_t g_registered_parent_pid = 0;
constinit char g_socket_paths[kMaxSocketPaths][sizeof(sockaddr_un::sun_path)] = {};
constinit uint32_t g_socket_path_count = 0;

void AddSocketPath(const char* directory, const char* below) {
  char* path = g_socket_paths[g_socket_path_count];
  const int length =
      snprintf(path, sizeof(g_socket_paths[0]), "%s%s/agent/agent.sock", directory, below);
  if (length > 0 && static_cast<size_t>(length) < sizeof(g_socket_paths[0])) {
    ++g_socket_path_count;
  } else {
    Log(LogLevel::kError, "socket directory %s%s: its path is too long for a socket", directory,
        below);
  }
}

void FindSocketPaths() {
  g_socket_path_count = 0;
  const char* chosen = secure_getenv("PROFD_SOCKET_DIR");
  if (chosen != nullptr && chosen[0] != '\0') return AddSocketPath(chosen, "");
  AddSocketPath("/run/profd", "");
  const char* runtime = secure_getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') AddSocketPath(runtime, "/profd");
}

// Forgets everything that belongs to the parent. On the child's only thread.
void ResetInChild() {
  if (AgentWasRegistered()) g_registered_parent_pid = g_pid;
  AgentResetInChild();
  g_hot.session.store(nullptr, std::memory_order_relaxed);
  g_hot.session_for_names.store(nullptr, std::memory_order_relaxed);
  g_hot.detour.store(0, std::memory_order_relaxed);
  g_hot.guests.store(0, std::memory_order_relaxed);
  g_hot.alive.store(0, std::memory_order_relaxed);
  g_next_to_stop.store({}, std::memory_order_relaxed);
  ForgetSessions();
  KeepStatusPagePrivate();
  ForgetStepMarks();
  ForgetStepThread();
  ThreadPool::ResetInChild();
  const bool was_started = g_state.load(std::memory_order_relaxed) != State::kDisabled;
  if (was_started) g_state.store(State::kNew, std::memory_order_relaxed);
  g_hot.flag.store(was_started ? kFlagForked : kFlagOff, std::memory_order_release);
  TellCaptureListener();
}

void BeforeFork() {
  HoldForeignCalls();
  LockMetadata();
}
void AfterForkInParent() {
  UnlockMetadata();
  ReleaseForeignCalls();
  const TorchHooks* hooks = g_torch_hooks.load(std::memory_order_acquire);
  if (hooks != nullptr) hooks->after_fork_in_parent();
}
void AfterForkInChild() {
  UnlockMetadata();
  ForgetForeignCalls();
  ResetInChild();
}

bool IsSet(const char* variable) {
  const char* value = getenv(variable);
  return value != nullptr && value[0] != '\0' && strcmp(value, "0") != 0;
}

void SetUpProcess() {
  if (!g_have_fork_handlers) {
    g_have_fork_handlers = true;
    pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
    FindSocketPaths();
    ReadMetadataFromEnvironment();
  }
  g_pid = static_cast<uint32_t>(getpid());
  ForbidOwnFiles(IsSet("PROFD_TEST_SHARED_FILES"));
  const bool slow_clock = g_clock == wire::ClockKind::kMonotonicNs;
  g_hot.detour.store(slow_clock ? kDetourClock : 0, std::memory_order_relaxed);
}

void PauseBriefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// In kStarting.
bool StartUp() {
  const int saved_errno = errno;
  SetUpProcess();
  const bool would_kill = SeccompWouldKill();
  const bool started = !would_kill && StartAgent();
  if (!started) {
    Log(LogLevel::kError, "%s; off in this process",
        would_kill ? "a seccomp filter kills for system calls that profiling needs"
                   : "no thread to be had");
  }
  uint32_t forked = kFlagForked;
  if (g_hot.flag.compare_exchange_strong(forked, kFlagOff)) TellCaptureListener();
  if (started) g_hot.alive.store(1, std::memory_order_release);
  // Unless the agent has found out by now that it cannot work.
  State starting = State::kStarting;
  g_state.compare_exchange_strong(starting, started ? State::kRunning : State::kDisabled);
  errno = saved_errno;
  return started;
}

// The calling thread's place as the next one that stops the library's.
class NextToStop {
 public:
  explicit NextToStop(pthread_t self) : self_(self) {}
  ~NextToStop() {
    if (is_held_) g_next_to_stop.store({}, std::memory_order_release);
  }

  bool Take() {
    pthread_t holder{};
    if (!is_held_) is_held_ = g_next_to_stop.compare_exchange_strong(holder, self_);
    // A handler of a signal that interrupted this thread in its place goes first.
    return is_held_ || pthread_equal(holder, self_) != 0;
  }

 private:
  const pthread_t self_;
  bool is_held_ = false;
};

// From kRunning. Waits for another thread that has stopped the library's for a call of its own, or
// is about to: it would start them again in the middle of ours. The wait makes no system call,
// because that call may be the one that sets a filter. False: see StopThreads().
bool BecomeStopped() {
  constexpr uint64_t kLooksPerClock = 1024;
  NextToStop next(pthread_self());
  uint64_t deadline_ns = 0;
  for (uint64_t look = 0;; ++look) {
    State state = g_state.load(std::memory_order_acquire);
    if (state == State::kNew || IsOff(state)) return false;
    // First of all: until this thread lets others stop the library's, none of them sets a filter
    // that may forbid getpid(), and IsStarted() is false for no other thread's stop.
    if (next.Take() && state == State::kRunning &&
        g_state.compare_exchange_strong(state, State::kClaimed)) {
      // The child of a vfork() has no threads, but its parent's memory. So has that of a bare
      // clone(), whose page was wiped.
      const bool is_ours = IsStarted() && g_pid == static_cast<uint32_t>(getpid());
      State claimed = State::kClaimed;
      const State then = is_ours ? State::kStopped : State::kRunning;
      if (!g_state.compare_exchange_strong(claimed, then) || !is_ours) return false;
      g_stopped_by.store(pthread_self());
      return true;
    }
    const bool is_ours =
        state == State::kStopped && pthread_equal(g_stopped_by.load(), pthread_self()) != 0;
    if (is_ours) return false;
    if (look % kLooksPerClock == 0) {
      const uint64_t now_ns = wire::ReadMonotonicNs();
      if (deadline_ns == 0) deadline_ns = now_ns + kAwaitOtherStopNs;
      if (now_ns > deadline_ns) return false;
    }
    PauseBriefly();
  }
}

// Once stopped. False: they run again, or end when they can.
bool EndThreads() {
  g_hot.alive.store(0, std::memory_order_release);
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + kStopThreadsNs;
  bool has_agent_ended = false;
  while (!has_agent_ended && wire::ReadMonotonicNs() < deadline_ns) {
    AskForAgent();  // Again and again: one that is just starting may not hear it.
    has_agent_ended =
        AwaitEndOfThread(LibraryThread::kAgent, wire::ReadMonotonicNs() + kAskAgainNs);
  }
  const bool have_ended = has_agent_ended && AwaitEndOfThread(LibraryThread::kHelper, deadline_ns);
  const bool is_alone = have_ended && AwaitEndOfThread(LibraryThread::kGpu, deadline_ns);
  if (!have_ended) {
    // A second agent next to this one would share its state.
    Log(LogLevel::kError, "the library's threads do not end; profiling is off in this process");
    g_state.store(State::kDisabled, std::memory_order_release);
  } else if (!is_alone) {
    RestartThreads();
  }
  return is_alone;
}

__attribute__((constructor(101))) void OnLoad() {
  Load();
  if (EarlierCopy() == nullptr && IsSet("PROFD_START")) Start();
}

}  // namespace

constinit HotState g_hot{};
constinit wire::ClockKind g_clock = wire::ClockKind::kMonotonicNs;

void Load() {
  if (g_loaded.exchange(true)) return;
  const int saved_errno = errno;
  InitLog();
  if (IsSet("PROFD_DISABLE")) g_state.store(State::kDisabled, std::memory_order_relaxed);
  FindEarlierCopy();
  if (EarlierCopy() == nullptr && !IsDisabled()) {
    madvise(&g_hot, sizeof(g_hot), MADV_WIPEONFORK);
    ThreadPool::Init();
    g_clock = wire::DetectClockKind();
  }
  errno = saved_errno;
}

void StayOff(const char* call, int error) {
  Log(LogLevel::kError, "%s: %s%s; profiling is off in this process", call, strerror(error),
      HasSeccompFilter() ? " (a seccomp filter is set)" : "");
  g_state.store(State::kDisabled, std::memory_order_release);
}

void EndWithMainThread() {
  Log(LogLevel::kInfo, "the main thread has ended; profiling is off in this process");
  g_state.store(State::kDisabled, std::memory_order_release);
}

bool IsDisabled() { return IsOff(g_state.load(std::memory_order_relaxed)); }

bool MustThreadsEnd() {
  const State state = g_state.load(std::memory_order_relaxed);
  return state == State::kStopped || IsOff(state);
}

bool Start() {
  State state = g_state.load(std::memory_order_acquire);
  if (IsOff(state)) return false;
  if (state == State::kRunning) {
    if (g_hot.alive.load(std::memory_order_relaxed) != 0) return true;
    // The kernel wiped the page and no handler ran: a child of a bare clone().
    ResetInChild();
    state = State::kNew;
  }
  if (state != State::kNew || !g_state.compare_exchange_strong(state, State::kStarting)) {
    return true;
  }
  return StartUp();
}

bool StopThreads() {
  const int saved_errno = errno;
  const bool are_stopped = BecomeStopped() && EndThreads();
  errno = saved_errno;
  return are_stopped;
}

void RestartThreads() {
  g_stopped_by.store({});
  State stopped = State::kStopped;
  if (g_state.compare_exchange_strong(stopped, State::kStarting)) StartUp();
}

void StayStopped() {
  State stopped = State::kStopped;
  g_state.compare_exchange_strong(stopped, State::kStayStopped);
}

bool StartAndLookForDaemon() {
  if (!Start()) return false;
  WakeAgentToConnect();
  return true;
}

void RegisterForkedChild() { Start(); }

uint32_t RegisteredParentPid() { return g_registered_parent_pid; }

uint32_t SocketPathCount() { return g_socket_path_count; }
const char* SocketPath(uint32_t index) { return g_socket_paths[index]; }

}  // namespace profd::client
