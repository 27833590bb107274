#include "client_lib/core/agent_wake.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/own_files.h"

namespace profd::client::agent_wake {
namespace {

// glibc's SIGCANCEL: glibc has no public name for it and leaves it out of every sigset_t, so that
// no program waits for it.
constexpr int kSignalOfNobody = 32;
// For processes that may have no pending signals (RLIMIT_SIGPENDING), which this one does not count
// against. Ignored unless a program handles it, should it ever be delivered.
constexpr int kSignalOfLimited = SIGURG;

constinit std::atomic<int> g_agent_thread{0};  // 0: not by signal.
constinit std::atomic<int> g_signal{0};
constinit OwnFile g_waited;  // The agent polls it.
constinit OwnFile g_rung;    // The other end, of a pair of sockets.

bool RingBySignal(int thread, int signal) {
  return syscall(SYS_tgkill, getpid(), thread, signal) == 0;
}

bool OpenSignal(int signal) {
  const uint64_t mask = uint64_t{1} << (signal - 1);  // The kernel's sigset_t.
  if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, nullptr, sizeof(mask)) != 0) return false;
  const auto fd =
      static_cast<int>(syscall(SYS_signalfd4, -1, &mask, sizeof(mask), SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd < 0) return false;
  g_waited.Take(fd);
  // Once, to see that it may be sent; Drain() takes it.
  const auto thread = static_cast<int>(syscall(SYS_gettid));
  if (!RingBySignal(thread, signal)) return false;
  g_signal.store(signal, std::memory_order_relaxed);
  g_agent_thread.store(thread, std::memory_order_release);
  return true;
}

bool OpenAnySignal() {
  if (OpenSignal(kSignalOfNobody)) return true;
  g_waited.Close();
  return OpenSignal(kSignalOfLimited);
}

bool OpenSockets() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  g_waited.Take(ends[0]);
  g_rung.Take(ends[1]);
  return true;
}

}  // namespace

bool Open() { return FilesAreShared() ? OpenSockets() : OpenAnySignal(); }

int Fd() {
  const int fd = g_waited.Get();
  if (!FilesAreShared() || (fd >= 0 && g_rung.Get() >= 0)) return fd;
  // The program has closed one. Without free descriptors the next call tries again.
  return OpenSockets() ? g_waited.Get() : -1;
}

void Drain() {
  const int fd = g_waited.Get();
  if (fd < 0) return;
  char taken[sizeof(signalfd_siginfo)];
  if (FilesAreShared()) {
    while (recv(fd, taken, sizeof(taken), MSG_DONTWAIT) > 0) {
    }
  } else {
    while (read(fd, taken, sizeof(taken)) > 0) {
    }
  }
}

bool Ring() {
  const int thread = g_agent_thread.load(std::memory_order_acquire);
  if (thread != 0) {
    return RingBySignal(thread, g_signal.load(std::memory_order_relaxed)) || errno != EAGAIN;
  }
  const int fd = FilesAreShared() ? g_rung.Get() : -1;
  const char one = 1;
  if (fd >= 0) send(fd, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  return true;
}

void Close() {
  g_agent_thread.store(0, std::memory_order_relaxed);
  g_waited.Close();
  g_rung.Close();
}

void ResetInChild() {
  g_agent_thread.store(0, std::memory_order_relaxed);
  g_waited.ResetInChild();
  g_rung.ResetInChild();
}

}  // namespace profd::client::agent_wake
