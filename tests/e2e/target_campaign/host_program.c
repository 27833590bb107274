// Programs that do what training processes and their launchers do to a library in them.
//
//   campaign_host CASE FOLDER
//
// Each prints the same text and ends with the same status with and without the client library,
// which it finds at run time only: `profctl run --preload` brings it. Before its case it creates
// FOLDER/ready and waits for FOLDER/go; PROFD_CAMPAIGN_AWAIT says for which state of the library it
// waits before that, if there is one. Also compiled as a static and as a musl program.
#define _GNU_SOURCE  // NOLINT(bugprone-reserved-identifier): glibc and musl ask for it.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host_library.h"

#if __has_include(<linux/seccomp.h>)
#define CAMPAIGN_HAS_SECCOMP
#endif

enum { kFiles = 8, kNobody = 65534 };

static char** g_arguments;

// ---- Descriptors

static void write_checkpoints(int rounds) {
  char paths[kFiles][PATH_MAX];
  int files[kFiles];
  for (int i = 0; i < kFiles; ++i) {
    files[i] = open_checkpoint(i, paths[i]);
    put(files[i], "first part\n");
  }
  for (int round = 0; round < rounds; ++round) {
    work();
    pause_ms(20);
  }
  for (int i = 0; i < kFiles; ++i) {
    put(files[i], "second part\n");
    if (lseek(files[i], 0, SEEK_CUR) != 23) printf("file %d: moved offset\n", i);
    if (close(files[i]) != 0) printf("file %d: close: %s\n", i, strerror(errno));
    show_file(paths[i]);
  }
}

static void close_from(int first) {
  for (int fd = first; fd < 1024; ++fd) close(fd);
}

static int descriptors_reused(void) {
  close_from(3);
  write_checkpoints(8);
  return 3;
}

static void* close_in_thread(void* unused) {
  (void)unused;
  close_from(3);
  work();
  return NULL;
}

static int closefrom_in_a_thread(void) {
  for (int round = 0; round < 4; ++round) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, close_in_thread, NULL) != 0) die("pthread_create");
    work();
    pthread_join(thread, NULL);
    write_checkpoints(2);
  }
  return 4;
}

// The reader of stdout sees its end although the process goes on.
static int standard_files_closed(void) {
  printf("last line\n");
  fflush(stdout);
  for (int fd = 0; fd < 3; ++fd) close(fd);
  work();
  await_file("seen");
  for (int fd = 0; fd < 3; ++fd) {
    if (open("/dev/null", O_RDWR) != fd) return 1;
  }
  work();
  return 5;
}

static int few_descriptors(void) {
  struct rlimit limit = {24, 24};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) die("setrlimit");
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) ++count;
  printf("%d opened, then %s\n", count, strerror(errno));
  for (int i = 0; i < 5; ++i) {
    work();
    pause_ms(20);
  }
  return 6;
}

// ---- Signals that the program takes by itself.

static int own_signals(void) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  int lost = 0;
  for (int round = 0; round < 20; ++round) {
    for (int number = 1; number <= SIGRTMAX; ++number) {
      if (sigismember(&all, number) == 1 && number != SIGKILL && number != SIGSTOP) {
        kill(getpid(), number);
      }
    }
    work();
    pause_ms(20);
    for (int number = 1; number <= SIGRTMAX; ++number) {
      // Those that stop and continue a process cancel each other.
      const int is_of_jobs = number == SIGSTOP || number == SIGTSTP || number == SIGTTIN ||
                             number == SIGTTOU || number == SIGCONT;
      if (sigismember(&all, number) != 1 || number == SIGKILL) continue;
      sigset_t one;
      sigemptyset(&one);
      sigaddset(&one, number);
      const struct timespec now = {0, 0};
      if (sigtimedwait(&one, NULL, &now) != number && !is_of_jobs) ++lost;
    }
  }
  printf("%d signals lost\n", lost);
  return 9;
}

// ---- Limits. Those of processes and stacks are set before the program starts.

static int little_address_space(void) {
  struct rlimit limit = {400u << 20, 400u << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit");
  for (int i = 0; i < 10; ++i) {
    void* block = malloc(16u << 20);
    if (block == NULL) die("malloc");
    memset(block, i, 16u << 20);
    work();
    free(block);
    pause_ms(10);
  }
  printf("10 blocks\n");
  return 7;
}

// What a batch system leaves of its limit belongs to the program. It waits for FOLDER/end.
static int tight_address_space(void) {
  char text[128];
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fgets(text, sizeof text, file) == NULL) die("statm");
  fclose(file);
  const long pages = strtol(text, NULL, 10);
  const rlim_t size = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (100u << 20);
  const struct rlimit limit = {size, size};
  if (setrlimit(RLIMIT_AS, &limit) != 0) die("setrlimit");
  create_file("changed");
  await_file("end");
  int blocks = 0;
  while (blocks < 18 && mmap(NULL, 5u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0) != MAP_FAILED) {
    ++blocks;
  }
  printf("%d blocks\n", blocks);
  return 7;
}

static int no_processes(void) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  printf("fork: %s\n", child < 0 ? strerror(errno) : "works");
  for (int i = 0; i < 5; ++i) {
    work();
    pause_ms(10);
  }
  return 8;
}

static void* mark_in_thread(void* unused) {
  (void)unused;
  for (int i = 0; i < 100; ++i) range();
  return NULL;
}

static int small_stacks(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, mark_in_thread, NULL) != 0) die("pthread_create");
    pthread_join(thread, NULL);
    work();
  }
  printf("50 threads\n");
  return 9;
}

static int work_for_a_while(void) {
  for (int i = 0; i < 10; ++i) {
    work();
    pause_ms(10);
  }
  printf("worked\n");
  return 10;
}

#ifdef CAMPAIGN_HAS_SECCOMP
#include "host_seccomp.h"
#endif

// ---- Processes

static int vfork_children(void) {
  for (int i = 0; i < 20; ++i) {
    work();
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", (char*)NULL);
      _exit(127);
    }
    wait_for(child);
  }
  return 11;
}

static int clone_child(void* unused) {
  (void)unused;
  range();
  return 12;
}

static int clone_children(void) {
  static char stack[256 * 1024];
  for (int i = 0; i < 10; ++i) {
    work();
    wait_for(clone(clone_child, stack + sizeof stack, SIGCHLD, NULL));
    wait_for(clone(clone_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
  }
  return 12;
}

static int bare_fork_children(void) {
  for (int i = 0; i < 10; ++i) {
    work();
    // What glibc's _Fork() is: no handlers of pthread_atfork().
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
      work();
      _exit(13);
    }
    wait_for(child);
  }
  return 13;
}

static int fork_children(void) {
  for (int i = 0; i < 10; ++i) {
    work();
    const pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 3; ++k) work();
      _exit(14);
    }
    wait_for(child);
  }
  return 14;
}

static int exec_storm(void) {
  const char* count = getenv("CAMPAIGN_EXECS");
  const long left = count == NULL ? 10 : strtol(count, NULL, 10);
  printf("%ld left\n", left);
  fflush(stdout);
  work();
  if (left == 0) return 15;
  char text[32];
  snprintf(text, sizeof text, "%ld", left - 1);
  setenv("CAMPAIGN_EXECS", text, 1);
  setenv("PROFD_CAMPAIGN_AWAIT", "", 1);
  execv("/proc/self/exe", g_arguments);
  die("exec");
  return 1;
}

static int setuid_drop(void) {
  work();
  if (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0) {
    die("setresuid");
  }
  for (int i = 0; i < 5; ++i) {
    work();
    pause_ms(10);
  }
  printf("uid %d gid %d\n", (int)getuid(), (int)getgid());
  return 16;
}

// ---- Cancellation, jumps, signals

static volatile unsigned g_sum;

static void* mark_until_cancelled(void* unused) {
  (void)unused;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  for (;;) range();
  return NULL;
}

static int cancelled_writers(void) {
  for (int i = 0; i < 40; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, mark_until_cancelled, NULL) != 0) die("pthread_create");
    work();
    pause_ms(1);
    pthread_cancel(thread);
    void* result = NULL;
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) printf("thread %d was not cancelled\n", i);
  }
  printf("cancelled\n");
  fflush(stdout);
  return 17;
}

// Then captures still work: the test takes one after the end of stdout, before it creates `seen`.
static int captures_after_cancelled_writers(void) {
  cancelled_writers();
  fclose(stdout);
  char path[PATH_MAX];
  path_of(path, "seen");
  while (access(path, F_OK) != 0) {
    step();
    range();
    pause_ms(2);
  }
  return 18;
}

static sigjmp_buf g_jump;
static volatile sig_atomic_t g_may_jump;

static void jump(int signal_number) {
  (void)signal_number;
  if (g_may_jump) siglongjmp(g_jump, 1);
}

static void start_timer(int which, long us) {
  const struct itimerval interval = {{0, us}, {0, us}};
  if (setitimer(which, &interval, NULL) != 0) die("setitimer");
}

static int jumps_out_of_writes(void) {
  signal(SIGALRM, jump);
  volatile int jumps = 0;
  start_timer(ITIMER_REAL, 500);
  while (jumps < 100) {
    if (sigsetjmp(g_jump, 1) != 0) {
      g_may_jump = 0;
      ++jumps;
      continue;
    }
    g_may_jump = 1;
    for (;;) range();
  }
  start_timer(ITIMER_REAL, 0);
  for (int i = 0; i < 5; ++i) work();
  printf("%d jumps\n", jumps);
  return 19;
}

static void count_signal(int signal_number) {
  (void)signal_number;
  ++g_sum;
}

static int signal_storm(void) {
  struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  sigaction(SIGPROF, &action, NULL);
  start_timer(ITIMER_REAL, 100);
  start_timer(ITIMER_PROF, 100);
  unsigned sum = 0;
  for (int i = 0; i < 200; ++i) {
    work();
    for (unsigned k = 0; k < 1000; ++k) sum = sum * 31 + k;
  }
  start_timer(ITIMER_REAL, 0);
  start_timer(ITIMER_PROF, 0);
  printf("sum %u\n", sum);
  return 20;
}

// ---- Allocators

static void* allocate_in_thread(void* unused) {
  (void)unused;
  unsigned char* blocks[64] = {0};
  unsigned seed = 1;
  uintptr_t sum = 0;
  for (int i = 0; i < 20000; ++i) {
    seed = seed * 1664525 + 1013904223;
    unsigned char** const block = &blocks[seed >> 26];
    if (*block != NULL) sum += **block;
    free(*block);
    *block = malloc((seed >> 8) % 5000 + 1);
    if (*block == NULL) die("malloc");
    **block = (unsigned char)i;
    if (i % 100 == 0) range();
  }
  for (int i = 0; i < 64; ++i) free(blocks[i]);
  return (void*)sum;
}

static int allocations(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    if (pthread_create(&threads[i], NULL, allocate_in_thread, NULL) != 0) die("pthread_create");
  }
  work();
  for (int i = 0; i < 4; ++i) {
    void* sum = NULL;
    pthread_join(threads[i], &sum);
    printf("sum %lu\n", (unsigned long)(uintptr_t)sum);
  }
  return 21;
}

// ---- Programs that end with their last thread

static void* work_and_leave(void* unused) {
  for (int i = 0; i < 20; ++i) {
    work();
    pause_ms(10);
  }
  puts("the worker is done");
  fflush(stdout);
  return unused;
}

static void start_thread(void* (*run)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, NULL) != 0) die("pthread_create");
  pthread_detach(thread);
}

static void start_worker(void) {
  start_thread(work_and_leave);
  work();
  puts("the main thread leaves");
  fflush(stdout);
}

static int pthread_exit_in_main(void) {
  start_worker();
  pthread_exit(NULL);
}

static void end_at_signal(int signal) {
  (void)signal;
  static const char kSaid[] = "terminated\n";
  if (write(STDOUT_FILENO, kSaid, sizeof(kSaid) - 1) < 0) _exit(1);
  _exit(22);
}

static void* work_and_be_terminated(void* unused) {
  for (int i = 0; i < 20; ++i) {
    work();
    pause_ms(10);
  }
  fflush(stdout);
  kill(getpid(), SIGTERM);
  for (;;) pause();
  return unused;
}

// The kernel gives the signal to a thread that does not block it; of the main one only its ID is left.
static int terminated_after_main(void) {
  struct sigaction action = {.sa_handler = end_at_signal};
  if (sigaction(SIGTERM, &action, NULL) != 0) die("sigaction");
  start_thread(work_and_be_terminated);
  work();
  fflush(stdout);
  pthread_exit(NULL);
}

// The library starts in another thread: while the main one is there, or after its end.
static int worker_starts_the_library(void) {
  start_thread(work_and_leave);
  pause_ms(100);
  syscall(SYS_exit, 6);
  return 2;
}

static void* work_later_and_leave(void* unused) {
  pause_ms(100);
  return work_and_leave(unused);
}

static int worker_starts_the_library_later(void) {
  start_thread(work_later_and_leave);
  pthread_exit(NULL);
}

static int raw_exit_in_main(void) {
  start_worker();
  syscall(SYS_exit, 7);
  return 2;
}

static int raw_exit_alone(void) {
  work();
  syscall(SYS_exit, 8);
  return 2;
}

#ifdef CAMPAIGN_HAS_SECCOMP
static int strict_seccomp(void) {
  work();
  fflush(stdout);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) die("strict seccomp");
  static const char text[] = "strict\n";
  if (write(1, text, sizeof text - 1) < 0) syscall(SYS_exit, 98);
  syscall(SYS_exit, 9);
  return 2;
}
#endif

// ---- Namespaces

static void work_on(void) {
  for (int i = 0; i < 10; ++i) {
    work();
    pause_ms(5);
  }
}

static void say_result(const char* call, int result) {
  printf("%s: %s\n", call, result == 0 ? "done" : strerror(errno));
}

static int user_namespace(void) {
  work();
  say_result("unshare(CLONE_NEWUSER)", unshare(CLONE_NEWUSER));
  work_on();
  return 19;
}

static int mount_namespace(void) {
  work();
  const int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < 3; ++i) {
    say_result("setns(mnt)", setns(own, CLONE_NEWNS));
    work_on();
  }
  return 20;
}

// The kernel refuses it to the program itself, and not only because of the library.
static int user_namespace_with_a_thread(void) {
  start_worker();
  say_result("unshare(CLONE_NEWUSER)", unshare(CLONE_NEWUSER));
  fflush(stdout);
  pthread_exit(NULL);
}

static int user_namespace_of_a_child(void) {
  work();
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
  wait_for(child);
  work_on();
  return 21;
}

// ----

static const struct {
  const char* name;
  int (*run)(void);
} kCases[] = {
    {"descriptors_reused", descriptors_reused},
    {"closefrom_in_a_thread", closefrom_in_a_thread},
    {"standard_files_closed", standard_files_closed},
    {"few_descriptors", few_descriptors},
    {"little_address_space", little_address_space},
    {"tight_address_space", tight_address_space},
    {"no_processes", no_processes},
    {"small_stacks", small_stacks},
    {"work_for_a_while", work_for_a_while},
#ifdef CAMPAIGN_HAS_SECCOMP
    {"seccomp_errno", seccomp_errno},
    {"seccomp_errno_from_the_start", seccomp_errno_from_the_start},
    {"seccomp_kill_from_the_start", seccomp_kill_from_the_start},
    {"seccomp_kill_in_a_capture", seccomp_kill_in_a_capture},
    {"seccomp_kill_next_to_unshare", seccomp_kill_next_to_unshare},
    {"seccomp_refused", seccomp_refused},
    {"seccomp_with_a_listener", seccomp_with_a_listener},
    {"filter_for_all_threads", filter_for_all_threads},
    {"strict_seccomp", strict_seccomp},
#endif
    {"vfork_children", vfork_children},
    {"clone_children", clone_children},
    {"bare_fork_children", bare_fork_children},
    {"fork_children", fork_children},
    {"exec_storm", exec_storm},
    {"setuid_drop", setuid_drop},
    {"cancelled_writers", cancelled_writers},
    {"captures_after_cancelled_writers", captures_after_cancelled_writers},
    {"jumps_out_of_writes", jumps_out_of_writes},
    {"signal_storm", signal_storm},
    {"own_signals", own_signals},
    {"allocations", allocations},
    {"pthread_exit_in_main", pthread_exit_in_main},
    {"raw_exit_in_main", raw_exit_in_main},
    {"terminated_after_main", terminated_after_main},
    {"worker_starts_the_library", worker_starts_the_library},
    {"worker_starts_the_library_later", worker_starts_the_library_later},
    {"raw_exit_alone", raw_exit_alone},
    {"user_namespace", user_namespace},
    {"mount_namespace", mount_namespace},
    {"user_namespace_with_a_thread", user_namespace_with_a_thread},
    {"user_namespace_of_a_child", user_namespace_of_a_child},
};

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  g_arguments = argv;
  g_folder = argv[2];
  find_library();
  get_ready();
  for (size_t i = 0; i < sizeof kCases / sizeof *kCases; ++i) {
    if (strcmp(kCases[i].name, argv[1]) == 0) return kCases[i].run();
  }
  return 2;
}
