// Programs of host_program.c that set a seccomp filter, included there.
#ifndef PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_SECCOMP_H_
#define PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_SECCOMP_H_

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host_library.h"

typedef long (*system_call)(long, ...);

enum { kMostCalls = 16 };

// `listed` for the system calls of the list, `others` for all others. Valid until the next call.
// Also sets no_new_privs, without which a filter needs privileges.
static const struct sock_fprog* make_filter(const int* calls, int count, uint32_t listed,
                                            uint32_t others) {
  static struct sock_filter code[1 + 2 * kMostCalls + 1];
  static struct sock_fprog program;
  if (count > kMostCalls) die("too many calls");
  unsigned short n = 0;
  code[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, listed);
  }
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
  program.len = n;
  program.filter = code;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no_new_privs");
  return &program;
}

// Filters the system calls that a profiler may use and this program does not, for all threads:
// also one that the library has started. Sets it by `call`.
static void filter_by(system_call call, uint32_t verdict) {
  static const int kCalls[] = {SYS_membarrier, SYS_eventfd2,        SYS_memfd_create, SYS_socket,
                               SYS_connect,    SYS_sendmsg,         SYS_recvmsg,      SYS_unshare,
                               SYS_pidfd_open, SYS_perf_event_open,
#ifdef SYS_close_range
                               SYS_close_range
#endif
  };
  const struct sock_fprog* const program =
      make_filter(kCalls, sizeof kCalls / sizeof *kCalls, verdict, SECCOMP_RET_ALLOW);
  if (call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, program) != 0) {
    die("seccomp");
  }
}

static void filter(uint32_t verdict) { filter_by(syscall, verdict); }

// A sandbox: what a program below still does, and nothing else. Valid until the next call.
static const struct sock_fprog* make_sandbox(void) {
  static const int kCalls[] = {SYS_write, SYS_exit_group, SYS_nanosleep, SYS_clock_nanosleep,
                               SYS_unshare};
  return make_filter(kCalls, sizeof kCalls / sizeof *kCalls, SECCOMP_RET_ALLOW,
                     SECCOMP_RET_KILL_PROCESS);
}

static void enter_sandbox(void) {
  const struct sock_fprog* const sandbox = make_sandbox();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, sandbox) != 0) {
    die("seccomp");
  }
}

static int end_sandbox(int steps) {
  for (int i = 0; i < steps; ++i) {
    step();
    range();
    pause_ms(20);
  }
  put(1, "in the sandbox\n");
  syscall(SYS_exit_group, 12);
  return 2;
}

static int seccomp_errno(void) {
  filter(SECCOMP_RET_ERRNO | EPERM);
  return work_for_a_while();
}

static int seccomp_kill_in_a_capture(void) {
  work();
  // What libseccomp asks first: does the kernel know the flag?
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) != -1 ||
      errno != EFAULT) {
    die("the probe");
  }
  if (is_to_be_recorded()) await_library(kRecording, 500);
  enter_sandbox();
  return end_sandbox(30);
}

static void* filtered_alone(void* ready) {
  static const int kCalls[] = {SYS_acct};
  const struct sock_fprog* const filter =
      make_filter(kCalls, 1, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) != 0) die("seccomp");
  pthread_barrier_wait(ready);
  pthread_barrier_wait(ready);
  return NULL;
}

// A filter cannot be set for a thread that has another one. The kernel answers with that thread.
static int seccomp_refused(void) {
  work();
  pthread_barrier_t ready;
  pthread_t other;
  pthread_barrier_init(&ready, NULL, 2);
  if (pthread_create(&other, NULL, filtered_alone, &ready) != 0) die("thread");
  pthread_barrier_wait(&ready);
  for (int i = 0; i < 5; ++i) {
    const long result =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, make_sandbox());
    printf("%s\n", result > 0 ? "a thread has another filter" : "it was set");
    work();
    pause_ms(20);
  }
  pthread_barrier_wait(&ready);
  pthread_join(other, NULL);
  return 13;
}

// With a descriptor that hears of filtered calls, of which there are none.
static int seccomp_with_a_listener(void) {
  enum { kNewListener = 1 << 3, kTsyncEsrch = 1 << 4 };
  work();
  if (is_to_be_recorded()) await_library(kRecording, 500);
  static const int kCalls[] = {SYS_acct};
  const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                                SECCOMP_FILTER_FLAG_TSYNC | kNewListener | kTsyncEsrch,
                                make_filter(kCalls, 1, SECCOMP_RET_USER_NOTIF, SECCOMP_RET_ALLOW));
  printf("listener: %s, %s\n", listener > 2 ? "a descriptor" : strerror(errno),
         listener > 2 && fcntl((int)listener, F_GETFD) == FD_CLOEXEC ? "closed by exec" : "odd");
  for (int i = 0; i < 10; ++i) {
    work();
    pause_ms(20);
  }
  return 14;
}

static void* unshare_again_and_again(void* unused) {
  for (;;) {
    if (unshare(CLONE_NEWUSER) == 0) die("unshare");
  }
  return unused;
}

// The kernel refuses each unshare() of a process with two threads, also in the sandbox.
static int seccomp_kill_next_to_unshare(void) {
  work();
  pthread_t other;
  if (pthread_create(&other, NULL, unshare_again_and_again, NULL) != 0) die("thread");
  for (int i = 0; i < 10; ++i) {
    work();
    pause_ms(20);
  }
  enter_sandbox();
  return end_sandbox(10);
}

// As a sandbox does that starts a program: the filter is there before the library is.
static int become_filtered(uint32_t verdict) {
  char* arguments[] = {g_arguments[0], "work_for_a_while", g_arguments[2], NULL};
  filter(verdict);
  setenv("PROFD_CAMPAIGN_AWAIT", "", 1);
  fflush(stdout);
  execv("/proc/self/exe", arguments);
  die("exec");
  return 1;
}

static int seccomp_errno_from_the_start(void) { return become_filtered(SECCOMP_RET_ERRNO | EPERM); }
static int seccomp_kill_from_the_start(void) { return become_filtered(SECCOMP_RET_KILL_PROCESS); }

// A filter that comes when the library is there, and that the preload library does not see. It
// waits for FOLDER/end.
static int filter_for_all_threads(void) {
  system_call call = syscall;
#ifndef CAMPAIGN_STATIC
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc != NULL) *(void**)&call = dlsym(libc, "syscall");
#endif
  filter_by(call, SECCOMP_RET_KILL_PROCESS);
  create_file("changed");
  await_file("end");
  printf("filtered\n");
  return 11;
}

#endif  // PROFD_TESTS_E2E_TARGET_CAMPAIGN_HOST_SECCOMP_H_
