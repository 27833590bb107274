/* A program that keeps a GPU busy in a known way, as a target for run_on_gpu.sh.
 *
 *   gpu_job [--profd FILE] [--standin FILE] busy --lead-ms L [--step-ms S] [--kernels K]
 *           [--graph G]
 *       steps of K kernels (10), S ms (200) in all; the CPU is up to L ms ahead. Until SIGTERM.
 *       G 1: and a replay of a CUDA graph, which is made first
 *   gpu_job ... launches [--batch N]
 *       N launches (1000) of a kernel that ends at once, then a sync; a line per batch:
 *       {"at_ns": CLOCK_MONOTONIC, "launch_ns": mean of the batch}. Until SIGTERM
 *   gpu_job ... end HOW --steps N
 *       N short steps (0: until SIGUSR1), then HOW: exit, _exit, abort, term (SIGTERM to itself),
 * kill (SIGKILL), fork (a child in the middle that ends by _exit(0); then exit)
 *
 * --profd: the client library, which is initialized and gets a mark per step. Without it the
 * program has nothing of profd. --standin: a libcupti of tests/cupti_standin, whose GPU is
 * simulated.
 *
 * Prints "ready" once work has begun. Exits with 0; 1: a call failed or a result is wrong; 77: no
 * GPU.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gpu_work.h"

enum { kSkipped = 77, kMostAhead = 64 };

static volatile sig_atomic_t stop, end_now;
static int (*profd_init)(void);
static void (*profd_step)(void);

static void on_term(int signal_number) {
  (void)signal_number;
  stop = 1;
}

static void on_user(int signal_number) {
  (void)signal_number;
  end_now = 1;
}

static void check(int result, const char* what) {
  if (result == 0) return;
  fprintf(stderr, "gpu_job: %s: %d\n", what, result);
  exit(1);
}

static void mark_step(void) {
  if (profd_step) profd_step();
}

static void load_profd(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    fprintf(stderr, "gpu_job: %s\n", dlerror());
    exit(1);
  }
  void* function = dlsym(library, "profd_init");
  memcpy(&profd_init, &function, sizeof(function));
  function = dlsym(library, "profd_step");
  memcpy(&profd_step, &function, sizeof(function));
  if (!profd_init || !profd_step) {
    fprintf(stderr, "gpu_job: %s is not profd's library\n", path);
    exit(1);
  }
  profd_init();
}

static void ready(void) {
  printf("ready\n");
  fflush(stdout);
}

static void launch_step(int kernels, uint64_t kernel_ns) {
  mark_step();
  for (int i = 0; i < kernels; ++i) {
    check(gw_launch(gw_stream_of(0), kernel_ns), "launch");
    check(gw_launch(gw_stream_of(1), 0), "launch");
  }
}

/* `launches` have been made of the kernel that counts: floats count to 2^24. */
static int end_checked(uint64_t launches) {
  check(gw_sync(gw_stream_of(0)), "sync");
  check(gw_sync(gw_stream_of(1)), "sync");
  if (launches < 1 << 24 && gw_result_is(launches) == 0) {
    fprintf(stderr, "gpu_job: the GPU did not compute %llu\n", (unsigned long long)launches);
    return 1;
  }
  return 0;
}

static int run_busy(int lead_ms, int step_ms, int kernels, int with_graph) {
  gw_graph graph = 0;
  if (with_graph) check(gw_graph_make(1, 100000, &graph), "graph");
  if (kernels < 1 || step_ms < 1 || lead_ms < 0) return 2;
  const uint64_t kernel_ns = (uint64_t)step_ms * 1000000u / (uint64_t)kernels;
  const int ahead = lead_ms / step_ms < kMostAhead ? lead_ms / step_ms : kMostAhead - 1;
  static gw_event ends[kMostAhead];
  uint64_t launches = 0;
  for (uint64_t step = 0; !stop; ++step) {
    launch_step(kernels, kernel_ns);
    launches += (uint64_t)kernels;
    if (with_graph) check(gw_graph_launch(graph, gw_stream_of(0)), "graph launch");
    check(gw_event_record(gw_stream_of(0), &ends[step % kMostAhead]), "record");
    if (step == (uint64_t)ahead) ready();
    if (step >= (uint64_t)ahead) {
      check(gw_event_sync(ends[(step - (uint64_t)ahead) % kMostAhead]), "wait");
    }
  }
  mark_step();
  return end_checked(launches);
}

static int run_launches(int batch) {
  uint64_t launches = 0;
  ready();
  while (!stop) {
    mark_step();
    const uint64_t begin = gw_now_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < batch; ++i) check(gw_launch(gw_stream_of(0), 0), "launch");
    const uint64_t end = gw_now_ns(CLOCK_MONOTONIC);
    check(gw_sync(gw_stream_of(0)), "sync");
    launches += (uint64_t)batch;
    printf("{\"at_ns\": %llu, \"launch_ns\": %.1f}\n", (unsigned long long)end,
           (double)(end - begin) / batch);
    fflush(stdout);
  }
  return end_checked(launches);
}

static void fork_child(void) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) {
    fprintf(stderr, "gpu_job: the child ended with %d\n", status);
    exit(1);
  }
}

static int run_end(const char* how, int steps) {
  ready();
  uint64_t launches = 0;
  for (int step = 0; steps == 0 ? !end_now : step < steps; ++step) {
    launch_step(10, 100000);
    launches += 10;
    if (step % 4 == 3) check(gw_sync(gw_stream_of(0)), "sync");
    if (strcmp(how, "fork") == 0 && steps != 0 && step == steps / 2) fork_child();
  }
  if (strcmp(how, "fork") == 0 && steps == 0) fork_child();
  /* Work is still under way when it ends. */
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "term") == 0) raise(SIGTERM);
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "fork") == 0) return end_checked(launches);
  exit(0);
}

static int number(int argc, char** argv, const char* name, int fallback) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return atoi(argv[i + 1]);
  }
  return fallback;
}

int main(int argc, char** argv) {
  const char *profd = NULL, *standin = NULL;
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (strcmp(argv[at], "--profd") == 0) {
      profd = argv[at + 1];
    } else if (strcmp(argv[at], "--standin") == 0) {
      standin = argv[at + 1];
    } else {
      break;
    }
  }
  const char* mode = at < argc ? argv[at] : "";
  void* library = standin ? dlopen(standin, RTLD_NOW) : NULL;
  if (standin && !library) {
    fprintf(stderr, "gpu_job: %s\n", dlerror());
    return 1;
  }
  char why[256] = "";
  if (gw_load(library, why, sizeof(why)) != 0) {
    fprintf(stderr, "gpu_job: %s\n", why);
    return kSkipped;
  }
  if (profd) load_profd(profd);
  const int inited = gw_init();
  if (inited) {
    fprintf(stderr, "gpu_job: no GPU: cuInit answers %d\n", inited);
    return kSkipped;
  }
  check(gw_start(), "start");
  if (strcmp(mode, "end") != 0) signal(SIGTERM, on_term);
  signal(SIGUSR1, on_user);
  if (strcmp(mode, "busy") == 0) {
    return run_busy(number(argc, argv, "--lead-ms", 0), number(argc, argv, "--step-ms", 200),
                    number(argc, argv, "--kernels", 10), number(argc, argv, "--graph", 0));
  }
  if (strcmp(mode, "launches") == 0) return run_launches(number(argc, argv, "--batch", 1000));
  if (strcmp(mode, "end") == 0 && at + 1 < argc) {
    return run_end(argv[at + 1], number(argc, argv, "--steps", 40));
  }
  fprintf(stderr, "usage: gpu_job [--profd FILE] [--standin FILE] busy|launches|end HOW [...]\n");
  return 2;
}
