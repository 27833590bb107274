#define _GNU_SOURCE
#include "cupti_cost.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cupti_rows.h"
#include "cupti_states.h"
#include "gpu_work.h"

static uint64_t now(void) { return gw_now_ns(CLOCK_MONOTONIC); }
static void pause_us(long us) {
  const struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static int begin_gpu(void) {
  const int inited = gw_init();
  const int started = inited ? inited : gw_start();
  if (started) fact("no_gpu", "%d", started);
  return started;
}

static void wait_for_buffers(int ms) {
  for (int i = 0; i < ms && outstanding; ++i) pause_us(1000);
}

static void ignore(void* user, uint32_t domain, uint32_t cbid, const void* data) {
  (void)user, (void)domain, (void)cbid, (void)data;
}

static unsigned kernels_called(const char* name) {
  unsigned found = 0;
  for (unsigned i = 0; i < noted(); ++i) {
    found += rows[i].kind == kKernel && (!name || strstr(rows[i].name, name) != NULL);
  }
  return found;
}

/* ---- call_tax */

typedef struct {
  unsigned x, y, z;
} dim3;

static struct {
  int (*GetDevice)(int*);
  int (*EventQuery)(handle);
  int (*LaunchKernel)(const void*, dim3, dim3, void**, size_t, handle);
  int (*LibraryLoadData)(handle*, const void*, void*, void**, unsigned, void*, void**, unsigned);
  int (*LibraryGetKernel)(handle*, handle, const char*);
} runtime;
static handle runtime_kernel;
static gw_event event;

static int call_driver(void) { return gw_call(); }
static int query_driver(void) { return gw_event_query(event); }
static int launch_driver(void) { return gw_launch(gw_stream_of(0), 0); }
static int call_runtime(void) {
  int device;
  return runtime.GetDevice(&device);
}
static int query_runtime(void) { return runtime.EventQuery((handle)event); }
static int launch_runtime(void) {
  uint64_t ns = 0;
  void* arguments[] = {&ns};
  const dim3 one = {1, 1, 1};
  return runtime.LaunchKernel(runtime_kernel, one, one, arguments, 0, (handle)gw_stream_of(0));
}

static struct {
  const char* name;
  int (*call)(void);
  int batch, batches, is_launch;
} calls[] = {
    {"cuCtxGetCurrent", call_driver, 4000, 7, 0},  {"cuEventQuery", query_driver, 2000, 7, 0},
    {"cuLaunchKernel", launch_driver, 400, 11, 1}, {"cudaGetDevice", call_runtime, 4000, 7, 0},
    {"cudaEventQuery", query_runtime, 2000, 7, 0}, {"cudaLaunchKernel", launch_runtime, 400, 11, 1},
};
enum { kCalls = sizeof(calls) / sizeof(*calls), kDriverCalls = 3 };
static int call_count = kDriverCalls;

static void load_runtime(const char* path) {
  void* library = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (!library) {
    fact("no_runtime", "\"%s\"", path ? "cannot be loaded" : "none was given");
    return;
  }
#define FIND(name)                                       \
  do {                                                   \
    void* found = dlsym(library, "cuda" #name);          \
    memcpy(&runtime.name, &found, sizeof(found));        \
    if (!found) {                                        \
      fact("no_runtime", "\"it has no cuda" #name "\""); \
      return;                                            \
    }                                                    \
  } while (0)
  FIND(GetDevice);
  FIND(EventQuery);
  FIND(LaunchKernel);
  FIND(LibraryLoadData);
  FIND(LibraryGetKernel);
#undef FIND
  handle loaded = NULL;
  const int load = runtime.LibraryLoadData(&loaded, gw_kernels(), NULL, NULL, 0, NULL, NULL, 0);
  const int get = load ? load : runtime.LibraryGetKernel(&runtime_kernel, loaded, "profd_spin");
  const int launch = get ? get : launch_runtime();
  if (launch || gw_sync(gw_stream_of(0))) {
    fact("no_runtime", "[%d, %d, %d]", load, get, launch);
    return;
  }
  call_count = kCalls;
}

static int compare_doubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* The median of batches, in ns per call. */
static double measure(int which, int* failure) {
  double found[16];
  for (int i = 0; i < calls[which].batches; ++i) {
    const uint64_t begin = now();
    for (int k = 0; k < calls[which].batch; ++k) {
      const int result = calls[which].call();
      if (result) *failure = result;
    }
    found[i] = (double)(now() - begin) / calls[which].batch;
    if (calls[which].is_launch) gw_sync(gw_stream_of(0));
  }
  qsort(found, (size_t)calls[which].batches, sizeof(*found), compare_doubles);
  return found[calls[which].batches / 2];
}

static void measure_state(const char* state, int round, int is_after_finalize) {
  const uint64_t begin = now();
  const int entered = cs_enter(state);
  const double enter_us = (double)(now() - begin) / 1000;
  int failure = 0;
  unsigned launches = 0;
  char text[512] = "";
  size_t at = 0;
  for (int i = 0; i < call_count; ++i) {
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\"%s\": %.1f", i ? ", " : "",
                           calls[i].name, measure(i, &failure));
    if (calls[i].is_launch) launches += (unsigned)(calls[i].batch * calls[i].batches);
  }
  const unsigned quieted = cs_quiet_count();
  /* Flushes what is to be counted; the next state begins as if from there. */
  const int left =
      strcmp(state, "none") == 0 || strcmp(state, "finalized") == 0
          ? 0
          : cs_enter(strstr(state, "_alone") || strcmp(state, "unsubscribed") == 0 ? "unsubscribed"
                                                                                   : "off");
  pause_us(2000);
  cs_counts taken;
  cs_take(&taken);
  fact("call_ns",
       "{\"state\": \"%s\", \"round\": %d, \"after_finalize\": %s, \"entered\": %d, \"left\": %d, "
       "\"enter_us\": %.1f, \"failure\": %d, \"quiet\": %u, \"launched\": %u, \"kernels\": %llu, "
       "\"calls\": %llu, \"callbacks\": %llu, \"dropped\": %llu, \"ns\": {%s}}",
       state, round, is_after_finalize ? "true" : "false", entered, left, enter_us, failure,
       quieted, launches, (unsigned long long)taken.kernels, (unsigned long long)taken.calls,
       (unsigned long long)taken.callbacks, (unsigned long long)taken.dropped + taken.no_buffer,
       text);
}

int run_call_tax(const char* cupti_path, const char* cudart, int seconds) {
  static const char* const kRound[] = {
      "subscribed", "kernel", "kernel_callbacks", "runtime",      "runtime_quiet", "driver",
      "default",    "off",    "unsubscribed",     "kernel_alone", "default_alone", "unsubscribed"};
  enum { kLength = sizeof(kRound) / sizeof(*kRound), kMostRounds = 4 };
  if (begin_gpu()) return 3;
  if (gw_is_standin()) {
    for (int i = 0; i < kCalls; ++i) calls[i].batch = 20, calls[i].batches = 3;
  }
  load_runtime(cudart);
  gw_event_record(gw_stream_of(0), &event);
  gw_sync(gw_stream_of(0));
  if (cs_open(cupti_path, 1024)) {
    fact("no_states", "true");
    return 3;
  }
  const uint64_t begin = now(), limit = (uint64_t)seconds * 1000000000u;
  measure_state("none", -1, 0); /* Warms up. */
  measure_state("none", 0, 0);
  measure_state("none", 1, 0);
  int round = 0;
  for (; round < kMostRounds - 1; ++round) {
    if (round > 0 && now() - begin > limit * 6 / 10) break;
    for (int i = 0; i < kLength; ++i) measure_state(kRound[i], round, 0);
  }
  measure_state("finalized", round, 1);
  for (int i = 0; i < kLength && now() - begin < limit * 2; ++i) measure_state(kRound[i], round, 1);
  measure_state("finalized", round + 1, 1);
  return 0;
}

/* ---- sessions */

enum { kTold = 150, kShortNs = 1000 };
static atomic_int launcher_told, launcher_done, launcher_stop, launcher_failure;
static atomic_int launcher_pause, launcher_paused;

/* Launches profd_saxpy until told; then kTold of profd_spin. */
static void* launch_on(void* argument) {
  (void)argument;
  launcher_thread = (pid_t)syscall(SYS_gettid);
  int finished = 0;
  while (!launcher_stop) {
    launcher_paused = launcher_pause;
    if (launcher_paused) {
      pause_us(50);
      continue;
    }
    if (launcher_told == finished) {
      if (gw_launch(gw_stream_of(1), 0)) launcher_failure = 1;
      pause_us(50);
      continue;
    }
    for (int i = 0; i < kTold; ++i) {
      if (gw_launch(gw_stream_of(1), kShortNs)) launcher_failure = 1;
    }
    gw_sync(gw_stream_of(1));
    launcher_done = ++finished;
  }
  return NULL;
}

int run_sessions(int count, int unsubscribed) {
  /* Kernels first: in another order, a thread that launches meanwhile may lose all of its own. */
  static const uint32_t kAll[] = {kKernel, kRuntime, kDriver, kSync, kOverhead, kMemcpy, kMemset};
  if (begin_gpu()) return 3;
  read_sizes();
  gw_launch(gw_stream_of(0), kShortNs);
  gw_sync(gw_stream_of(0));
  pthread_t launcher;
  if (pthread_create(&launcher, NULL, launch_on, NULL) != 0) return 3;
  for (int session = 1; session <= count; ++session) {
    handle subscriber = NULL;
    const int subscribed = unsubscribed ? 0 : cupti.Subscribe(&subscriber, ignore, NULL);
    const int registered = cupti.ActivityRegisterCallbacks(on_request, on_complete);
    forget();
    int failed = 0;
    for (size_t k = 0; k < sizeof(kAll) / sizeof(*kAll); ++k) {
      failed += cupti.ActivityEnable(kAll[k]) != 0;
    }
    launcher_told = session;
    for (int i = 0; i < kTold; ++i) gw_launch(gw_stream_of(0), kShortNs);
    gw_sync(gw_stream_of(0));
    for (int i = 0; i < 5000 && launcher_done != session; ++i) pause_us(1000);
    cupti.ActivityFlushAll(0);
    for (size_t k = 0; k < sizeof(kAll) / sizeof(*kAll); ++k) cupti.ActivityDisable(kAll[k]);
    cupti.ActivityFlushAll(1);
    wait_for_buffers(500);
    size_t dropped = 0;
    cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped);
    fact("session_kernels",
         "{\"session\": %d, \"unsubscribed\": %d, \"results\": [%d, %d, %d], \"launched\": %d, "
         "\"kernels\": %u, \"others\": %u, \"dropped\": %zu}",
         session, unsubscribed, subscribed, registered, failed, 2 * kTold,
         kernels_called("profd_spin"), kernels_called("profd_saxpy"), dropped);
    if (subscriber) cupti.Unsubscribe(subscriber);
  }
  launcher_stop = 1;
  pthread_join(launcher, NULL);
  fact("launcher_failure", "%d", launcher_failure);
  return 0;
}

/* ---- enable_order */

/* The numbers are those of gpu_costs.py. */
enum {
  kAsNow,
  kKernelFirst,
  kKernelTwice,
  kKernelOnly,
  kKernelStaysOn,
  kFinalizeAtEnd,
  kSubscribed,
  kSharedBuffers,
  kThreadBuffers,
  kHeal,
  kPausedLauncher,
  kFlushAround,
  kVariants
};
enum { kPerThreadBuffer = 9, kMostHeals = 5, kOrderMs = 2300 };

typedef struct {
  uint32_t kinds[7];
  int count;
} kind_list;

static kind_list kinds_of(int variant) {
  static const kind_list kFirst = {{kKernel, kRuntime, kDriver, kSync, kOverhead, kMemcpy, kMemset},
                                   7};
  static const kind_list kLast = {{kRuntime, kDriver, kSync, kOverhead, kMemcpy, kMemset, kKernel},
                                  7};
  static const kind_list kOnly = {{kKernel}, 1};
  return variant == kKernelFirst ? kFirst : variant == kKernelOnly ? kOnly : kLast;
}

/* Turns all kinds on or off, but not `except`. Returns how many calls failed. */
static int switch_kinds(const kind_list* list, int on, uint32_t except) {
  int failed = 0;
  for (int k = 0; k < list->count; ++k) {
    const uint32_t kind = list->kinds[k];
    if (kind == except) continue;
    failed += (on ? cupti.ActivityEnable(kind) : cupti.ActivityDisable(kind)) != 0;
  }
  return failed;
}

static void set_launcher_pause(int on) {
  launcher_pause = on;
  for (int i = 0; i < 20000 && launcher_paused != on; ++i) pause_us(50);
}

/* Whether the launcher, which goes on, has a record of what it launches from now on. CUPTI returns
 * a buffer only once all its records are complete, so some flushes are tried. */
static int launcher_is_recorded(void) {
  const unsigned before = kernels_called("profd_saxpy");
  pause_us(20000);
  for (int i = 0; i < 5; ++i) {
    cupti.ActivityFlushAll(0);
    if (kernels_called("profd_saxpy") > before) return 1;
    pause_us(1000);
  }
  return 0;
}

static int begin_order(int variant, const kind_list* list, int session, int* heals) {
  const uint32_t except = variant == kKernelStaysOn && session > 1 ? kKernel : 0;
  if (variant == kPausedLauncher) set_launcher_pause(1);
  if (variant == kFlushAround) cupti.ActivityFlushAll(0);
  int failed = switch_kinds(list, 1, except);
  if (variant == kFlushAround) cupti.ActivityFlushAll(0);
  if (variant == kPausedLauncher) set_launcher_pause(0);
  if (variant == kKernelTwice) {
    pause_us(5000);
    failed += cupti.ActivityDisable(kKernel) != 0;
    failed += cupti.ActivityEnable(kKernel) != 0;
  }
  while (variant == kHeal && *heals < kMostHeals && !launcher_is_recorded()) {
    ++*heals;
    failed += switch_kinds(list, 0, 0) + switch_kinds(list, 1, 0);
  }
  return failed;
}

int run_enable_order(int count, int variant) {
  if (variant < 0 || variant >= kVariants) return 2;
  const uint64_t begin = now();
  if (begin_gpu()) return 3;
  read_sizes();
  const kind_list list = kinds_of(variant);
  gw_launch(gw_stream_of(0), kShortNs);
  gw_sync(gw_stream_of(0));
  handle subscriber = NULL;
  int set_up = 0;
  if (variant == kSubscribed) set_up = cupti.Subscribe(&subscriber, ignore, NULL);
  if (variant == kSharedBuffers || variant == kThreadBuffers) {
    uint8_t value = variant == kThreadBuffers;
    size_t bytes = sizeof(value);
    set_up = cupti.ActivitySetAttribute
                 ? cupti.ActivitySetAttribute(kPerThreadBuffer, &bytes, &value)
                 : kAbsent;
  }
  fact("order_set_up", "%d", set_up);
  pthread_t launcher;
  if (pthread_create(&launcher, NULL, launch_on, NULL) != 0) return 3;
  for (int session = 1; session <= count && now() - begin < kOrderMs * UINT64_C(1000000);
       ++session) {
    int heals = 0, ended = 0;
    int failed = cupti.ActivityRegisterCallbacks(on_request, on_complete) != 0;
    forget();
    failed += begin_order(variant, &list, session, &heals);
    launcher_told = session;
    for (int i = 0; i < kTold; ++i) gw_launch(gw_stream_of(0), kShortNs);
    gw_sync(gw_stream_of(0));
    for (int i = 0; i < 5000 && launcher_done != session; ++i) pause_us(1000);
    cupti.ActivityFlushAll(0);
    switch_kinds(&list, 0, variant == kKernelStaysOn && session < count ? kKernel : 0);
    cupti.ActivityFlushAll(1);
    wait_for_buffers(500);
    size_t dropped = 0;
    cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped);
    if (variant == kFinalizeAtEnd) ended = cupti.Finalize();
    fact("order_session",
         "{\"session\": %d, \"missing\": %d, \"others\": %u, \"heals\": %d, \"dropped\": %zu, "
         "\"failed\": %d, \"finalized\": %d}",
         session, 2 * kTold - (int)kernels_called("profd_spin"), kernels_called("profd_saxpy"),
         heals, dropped, failed, ended);
  }
  launcher_stop = 1;
  pthread_join(launcher, NULL);
  fact("launcher_failure", "%d", launcher_failure);
  return 0;
}

/* ---- finalize */

static atomic_int wants_finalize, finalize_result;

static void finalize_at_exit(void* user, uint32_t domain, uint32_t cbid, const void* data) {
  (void)user, (void)domain, (void)cbid;
  int site;
  memcpy(&site, data, sizeof(site));
  int one = 1;
  if (site == 1 && atomic_compare_exchange_strong(&wants_finalize, &one, 2)) {
    finalize_result = cupti.Finalize();
  }
}

int run_finalize(int graph, int inside, int sessions) {
  enum { kLaunches = 50, kGraphLaunches = 5 };
  if (begin_gpu()) return 3;
  read_sizes();
  uint64_t launched = 1;
  gw_launch(gw_stream_of(0), 0);
  gw_sync(gw_stream_of(0));
  gw_graph exec = 0;
  if (graph == 1) fact("graph_made", "%d", gw_graph_make(0, 0, &exec));
  for (int session = 1; session <= sessions; ++session) {
    handle subscriber = NULL;
    const int subscribed = cupti.Subscribe(&subscriber, inside ? finalize_at_exit : ignore, NULL);
    const int registered = cupti.ActivityRegisterCallbacks(on_request, on_complete);
    forget();
    static const uint32_t kAll[] = {kRuntime, kDriver, kKernel};
    int failed = 0;
    for (int k = 0; k < 3; ++k) failed += cupti.ActivityEnable(kAll[k]) != 0;
    for (int i = 0; i < kLaunches; ++i) gw_launch(gw_stream_of(0), 0);
    unsigned expected = kLaunches;
    for (int i = 0; exec && i < kGraphLaunches; ++i) {
      gw_graph_launch(exec, gw_stream_of(0));
      expected += GW_GRAPH_KERNELS;
    }
    launched += expected;
    const int synced = gw_sync(gw_stream_of(0));
    for (int k = 0; k < 3; ++k) cupti.ActivityDisable(kAll[k]);
    cupti.ActivityFlushAll(1);
    wait_for_buffers(500);
    fact("finalize_session",
         "{\"session\": %d, \"graph\": %d, \"inside\": %d, \"results\": [%d, %d, %d, %d], "
         "\"launched\": %u, \"kernels\": %u, \"calls\": %u}",
         session, graph, inside, subscribed, registered, failed, synced, expected,
         kernels_called("profd_"), counts[kRuntime] + counts[kDriver]);
    fact("Finalize_begins", "%d", session);
    const uint64_t begin = now();
    int result = -1;
    if (inside) {
      finalize_result = -1;
      wants_finalize = 1;
      cupti.EnableDomain(1, subscriber, 1);
      gw_launch(gw_stream_of(0), 0);
      ++launched;
      result = finalize_result;
    } else {
      if (subscriber) cupti.Unsubscribe(subscriber);
      result = cupti.Finalize();
    }
    fact("Finalize_result", "{\"session\": %d, \"result\": %d, \"us\": %.1f}", session, result,
         (double)(now() - begin) / 1000);
    for (int i = 0; i < 200; ++i) gw_launch(gw_stream_of(0), 0);
    launched += 200;
    if (graph == 2 && session == 1) fact("graph_made", "%d", gw_graph_make(0, 0, &exec));
    if (exec) {
      gw_graph_launch(exec, gw_stream_of(0));
      launched += GW_GRAPH_KERNELS;
    }
    fact("runs_after_Finalize", "%d", gw_sync(gw_stream_of(0)));
  }
  fact("computes_right", "%d", gw_result_is(launched));
  return 0;
}
