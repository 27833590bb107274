#include "client_lib/core/seccomp_probe.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_lib/core/helper.h"
#include "client_lib/core/log.h"
#include "client_lib/core/own_files.h"

// Newer than the headers of some images; one number on all architectures.
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace profd::client {
namespace {

// How far the child came. It is killed at the first call that the filter kills for.
enum Progress : int { kStarted = 0, kMayWait = 1, kMayAll = 2 };

// Newer than the headers of some images.
constexpr long kClone3Call = 435;
#if defined(__aarch64__)
constexpr long kRseqCall = 293;
#else
constexpr long kRseqCall = 334;
#endif

// On this a child runs that shares our memory.
alignas(64) constinit char g_stack[16 * 1024] = {};

// With arguments that the kernel refuses, or that ask for nothing: no descriptor comes of it.
__attribute__((no_sanitize("address", "thread", "undefined"))) void MakeCalls() {
  constexpr int kNoFile = -1;
  syscall(SYS_membarrier, 0, 0, 0);
  syscall(SYS_close_range, ~0U, 0U, 0U);
  syscall(SYS_socket, -1, 0, 0);
  syscall(SYS_socketpair, -1, 0, 0, nullptr);
  syscall(SYS_connect, kNoFile, nullptr, 0);
  syscall(SYS_sendto, kNoFile, nullptr, 0, 0, nullptr, 0);
  syscall(SYS_recvfrom, kNoFile, nullptr, 0, 0, nullptr, nullptr);
  syscall(SYS_recvmsg, kNoFile, nullptr, 0);
  syscall(SYS_getsockopt, kNoFile, 0, 0, nullptr, nullptr);
  syscall(SYS_signalfd4, kNoFile, nullptr, 0, ~0U);
  syscall(SYS_ppoll, nullptr, ~0U, nullptr, nullptr, 0);
#ifdef SYS_poll
  syscall(SYS_poll, nullptr, ~0U, 0);
#endif
  syscall(SYS_futex, nullptr, -1, 0, nullptr, nullptr, 0);
  syscall(kFutexWaitvCall, nullptr, 0, 0, nullptr, 0);
  syscall(SYS_fcntl, kNoFile, 0, 0);
  syscall(SYS_fstat, kNoFile, nullptr);
  syscall(SYS_newfstatat, kNoFile, "", nullptr, 0);
  syscall(SYS_openat, kNoFile, "", 0);
  syscall(SYS_read, kNoFile, nullptr, 0);
  syscall(SYS_write, kNoFile, nullptr, 0);
  syscall(SYS_lseek, kNoFile, 0, 0);
  syscall(SYS_close, kNoFile);
  syscall(SYS_pipe2, nullptr, -1);
  syscall(SYS_process_vm_readv, 0, nullptr, 0, nullptr, 0, -1);
  syscall(SYS_prctl, -1, 0, 0, 0, 0);
  syscall(SYS_getpriority, -1, 0);
  syscall(SYS_setpriority, -1, 0, 0);
  syscall(SYS_getpid);
  syscall(SYS_gettid);
  syscall(SYS_geteuid);
  syscall(SYS_tgkill, -1, -1, 0);
  syscall(SYS_sched_yield);
  syscall(SYS_nanosleep, nullptr, nullptr);
  syscall(SYS_clock_nanosleep, -1, 0, nullptr, nullptr);  // Some versions of nanosleep().
  syscall(SYS_clock_gettime, -1, nullptr);                // Where the vDSO cannot do it.
  syscall(SYS_mmap, nullptr, 0, 0, 0, kNoFile, 0);
  syscall(SYS_munmap, nullptr, 0);
  syscall(SYS_madvise, nullptr, 0, 0);
  syscall(SYS_mprotect, nullptr, 0, 0);
  // Of pthread_create() and of the thread's first steps.
  syscall(kClone3Call, nullptr, 0);
  syscall(SYS_set_robust_list, nullptr, 0);
  syscall(kRseqCall, nullptr, 0, -1, 0);
}

// Runs on another stack, in memory that the parent sleeps in: nothing for a sanitizer.
__attribute__((no_sanitize("address", "thread", "undefined"))) int RunChild(void* argument) {
  auto* const progress = static_cast<volatile int*>(argument);
  // Neither a handler of the program nor a core file. The kernel's own struct: all zeros is
  // SIG_DFL.
  const uint64_t end[8] = {};
  syscall(SYS_rt_sigaction, SIGSYS, end, nullptr, sizeof(uint64_t));
  const uint64_t no_core[2] = {};
  syscall(SYS_prlimit64, 0, RLIMIT_CORE, no_core, nullptr);
  syscall(SYS_wait4, -1, nullptr, WNOHANG | __WCLONE, nullptr);
  *progress = kMayWait;
  MakeCalls();
  *progress = kMayAll;
  syscall(SYS_exit, 0);
  return 0;
}

}  // namespace

bool SeccompWouldKill() {
  if (!HasSeccompFilter()) return false;
  const int saved_errno = errno;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // Of this thread.
  volatile int progress = kStarted;
  // No signal when it ends: the program's handler of SIGCHLD and its wait() do not see it.
  const int child = clone(&RunChild, g_stack + sizeof(g_stack), CLONE_VM | CLONE_VFORK,
                          const_cast<int*>(&progress));
  // If the child was killed for wait4(), it stays a zombie; we may not wait for it.
  if (child > 0 && progress >= kMayWait) {
    while (waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = saved_errno;
  return child > 0 && progress != kMayAll;
}

}  // namespace profd::client
