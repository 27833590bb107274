/* Asks a libcupti what profd's code assumes of it. Without profd: only CUPTI, and work for the GPU.
 *
 *   cupti_facts --cupti FILE [--label TEXT] [--second FILE] [--cudart FILE] GROUP [OPTION=N...]
 *
 *   calls         what each function answers before cuInit(), after it, and with a context; record
 *                 sizes, settings
 *   session       times of all calls of a session, stalls of a thread that launches meanwhile,
 * which threads CUPTI calls, buffers outstanding, device memory inflight      what becomes of
 * records of work that runs when its kind goes off (forced=1: and when a forced flush comes) syncs
 * records of 200 queries of events devices       DEVICE records under the environment's
 * CUDA_VISIBLE_DEVICES unsubscribed  the activity interface without a subscription (rival=1: while
 * a subscriber exists) two           a second copy of the library (--second) in the process
 *   v1_under_v2   functions of the first interface while a subscriber of the second exists
 *   graph         records of a graph: before=1 instantiated before the attach; trace=1 GRAPH_TRACE;
 *                 copies=1 copies and memsets in it; again=1 in a second session; capturing=1 kinds
 *                 are enabled while another thread captures a stream in global mode
 *   switches      records of switches between contexts (13.1 and later), alone or while another
 *                 process uses the GPU (neighbor=1): what their operations mean
 *   clock         timestamps of kernels against the GPU's timer and the host's clock
 *   call_tax      ns per call in states of CUPTI (seconds=N; --cudart FILE: runtime calls, too)
 *   sessions      kernels of count=N sessions while a thread launches (unsubscribed=1: without
 *                 a subscription)
 *   enable_order  as sessions; variant=N: in another order of calls (gpu_costs.py names them)
 *   finalize      sessions=N, each ended by cuptiFinalize() (inside=1: in a callback); graph=1 made
 *                 before the first, 2 after it
 *
 * CUPTI_FACTS_LIMIT_S=N in the environment: after N seconds it says where its main thread is
 * ("stuck_at"), and ends with 9.
 *
 * Each fact is one line of JSON on stdout, flushed at once: a crash loses none. One group per
 * process, since CUPTI's state is the process's. Exits with 0, or 3: no GPU, no library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cupti_cost.h"
#include "cupti_rows.h"
#include "gpu_work.h"

static const char *second_path, *cudart_path;
static handle library;

static uint64_t now(void) { return gw_now_ns(CLOCK_MONOTONIC); }
static void pause_ms(int ms) {
  const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&time, NULL);
}

static void ignore(void* user, uint32_t domain, uint32_t cbid, const void* data) {
  (void)user, (void)domain, (void)cbid, (void)data;
}

/* ---- calls */

#define TRY(name, ...) (f->name ? f->name(__VA_ARGS__) : kAbsent)
#define SAY(name, ...)                                                          \
  do {                                                                          \
    fact(#name, "{\"when\": \"%s\", \"about_to_be_called\": true}", when);      \
    const uint64_t said_at = now();                                             \
    const int said = TRY(name, __VA_ARGS__);                                    \
    fact(#name, "{\"when\": \"%s\", \"result\": %d, \"us\": %.1f}", when, said, \
         (double)(now() - said_at) / 1000);                                     \
  } while (0)

static void call_all(const functions* f, const char* when) {
  uint32_t number = 0;
  uint64_t time = 0, value = 0;
  size_t count = 0, bytes = sizeof(value);
  const char* text = NULL;
  handle subscriber = NULL;
  SAY(ActivityGetStructSize, kKernel, 0, &count);
  SAY(GetVersion, &number);
  fact("version", "%u", number);
  SAY(GetTimestamp, &time);
  fact("timestamp_minus_realtime_ns", "%lld", (long long)(time - gw_now_ns(CLOCK_REALTIME)));
  SAY(GetResultString, 999, &text);
  SAY(GetCallbackName, 2, 211, &text);
  SAY(ActivityRegisterCallbacks, on_request, on_complete);
  SAY(ActivityGetNumDroppedRecords, NULL, 0, &count);
  SAY(ActivityGetAttribute, 2, &bytes, &value);
  SAY(GetThreadIdType, &number);
  SAY(Subscribe, &subscriber, ignore, NULL);
  SAY(SetThreadIdType, number);
  SAY(ActivityEnable, kKernel);
  SAY(ActivityDisable, kKernel);
  SAY(ActivityEnableAndDump, kDevice);
  SAY(ActivityDisable, kDevice);
  SAY(ActivityEnableDriverApi, 1, 0);
  SAY(ActivityFlushAll, 1);
  SAY(Unsubscribe, subscriber);
}

static void fact_settings(const char* when) {
  for (uint32_t id = 0; id <= 24; ++id) {
    /* Of 1, 4, or 8 bytes; the library refuses other sizes. */
    static const size_t kSizes[] = {8, 4, 1};
    for (int i = 0; i < 3; ++i) {
      uint64_t value = 0;
      size_t bytes = kSizes[i];
      const int result = cupti.ActivityGetAttribute(id, &bytes, &value);
      if (result != 0) continue;
      fact("attribute", "{\"when\": \"%s\", \"id\": %u, \"bytes\": %zu, \"value\": %llu}", when, id,
           bytes, (unsigned long long)value);
      break;
    }
  }
  uint32_t type = 0;
  if (cupti.GetThreadIdType && cupti.GetThreadIdType(&type) == 0) {
    fact("thread_id_type", "{\"when\": \"%s\", \"value\": %u}", when, type);
  }
}

static int begin_gpu(void) {
  const int inited = gw_init();
  const int started = inited ? inited : gw_start();
  if (started) fact("no_gpu", "%d", started);
  return started;
}

static int run_calls(void) {
  call_all(&cupti, "before_init");
  int result = gw_init();
  if (result) {
    fact("no_gpu", "%d", result);
    return 3;
  }
  call_all(&cupti, "after_init");
  result = gw_start();
  if (result) {
    fact("no_gpu", "%d", result);
    return 3;
  }
  call_all(&cupti, "with_context");
  read_sizes();
  fact_settings("never_subscribed_now");
  handle subscriber = NULL;
  if (cupti.Subscribe(&subscriber, ignore, NULL) == 0) {
    fact_settings("subscribed");
    cupti.Unsubscribe(subscriber);
    fact_settings("unsubscribed");
  }
  return 0;
}

/* ---- A thread that launches */

static atomic_int launcher_stop;
static atomic_ullong longest_gap, launch_count;

static void* launch_on(void* argument) {
  (void)argument;
  launcher_thread = (pid_t)syscall(SYS_gettid);
  uint64_t last = now();
  while (!launcher_stop) {
    if (gw_launch(gw_stream_of(1), 0) != 0) break;
    if (++launch_count % 512 == 0) gw_sync(gw_stream_of(1));
    const uint64_t at = now();
    if (at - last > longest_gap) longest_gap = at - last;
    last = at;
  }
  gw_sync(gw_stream_of(1));
  return NULL;
}

/* Runs `call`, and says how long it took and how long a launching thread stood still meanwhile. */
#define TIMED(what, kind, call)                                                                  \
  do {                                                                                           \
    pause_ms(20);                                                                                \
    longest_gap = 0;                                                                             \
    const uint64_t timed_at = now();                                                             \
    const int timed = (call);                                                                    \
    const uint64_t took = now() - timed_at;                                                      \
    pause_ms(20);                                                                                \
    fact(what, "{\"kind\": %d, \"result\": %d, \"us\": %.1f, \"longest_stall_us\": %.1f}", kind, \
         timed, (double)took / 1000, (double)longest_gap / 1000);                                \
  } while (0)

static const uint32_t kSessionKinds[] = {kRuntime, kDriver, kSync,   kOverhead,
                                         kMemcpy,  kMemset, kKernel, kGraphTrace};

static void fact_memory(const char* name) {
  uint64_t bytes;
  if (gw_free_bytes(&bytes) == 0) fact(name, "%llu", (unsigned long long)bytes);
}

static void wait_for_buffers(int ms) {
  for (int i = 0; i < ms && outstanding; ++i) pause_ms(1);
}

static void judge_rows(void) {
  /* An API record lies before the kernel that it launched, and both have one correlation id. */
  unsigned kernels = 0, with_call = 0, call_first = 0, untimed = 0;
  static unsigned first_call[1 << 20];
  memset(first_call, 0xff, sizeof(first_call));
  for (unsigned i = 0; i < noted(); ++i) {
    const uint32_t id = rows[i].correlation % (1 << 20);
    if ((rows[i].kind == kRuntime || rows[i].kind == kDriver) && first_call[id] == ~0u) {
      first_call[id] = i;
    }
  }
  for (unsigned i = 0; i < noted(); ++i) {
    if (rows[i].kind != kKernel) continue;
    ++kernels;
    const unsigned call = first_call[rows[i].correlation % (1 << 20)];
    with_call += call != ~0u;
    call_first += call < i;
    untimed += rows[i].end == 0;
  }
  fact("kernels", "{\"rows\": %u, \"with_call\": %u, \"call_comes_first\": %u, \"untimed\": %u}",
       kernels, with_call, call_first, untimed);
}

static int run_session(void) {
  if (begin_gpu()) return 3;
  read_sizes();
  gw_launch(gw_stream_of(0), 0);
  gw_sync(gw_stream_of(0));
  static const char* const kNames[] = {"cold", "again"};
  for (int i = 0; i < 2; ++i) {
    pthread_t launcher;
    launcher_stop = 0;
    if (pthread_create(&launcher, NULL, launch_on, NULL) != 0) return 3;
    handle subscriber = NULL;
    fact("session_begins", "\"%s\"", kNames[i]);
    forget();
    fact_memory("free_bytes_before");
    TIMED("Subscribe", 0, cupti.Subscribe(&subscriber, ignore, NULL));
    TIMED("RegisterCallbacks", 0, cupti.ActivityRegisterCallbacks(on_request, on_complete));
    for (size_t k = 0; k < sizeof(kSessionKinds) / sizeof(*kSessionKinds); ++k) {
      TIMED("Enable", (int)kSessionKinds[k], cupti.ActivityEnable(kSessionKinds[k]));
    }
    fact_memory("free_bytes_enabled");
    for (int k = 0; k < 1000; ++k) gw_launch(gw_stream_of(0), 0);
    gw_copy(gw_stream_of(0));
    gw_memset(gw_stream_of(0));
    gw_sync(gw_stream_of(0));
    TIMED("FlushAll_0_busy", 0, cupti.ActivityFlushAll(0));
    fact("outstanding_after_FlushAll_0_busy", "%d", outstanding);
    launcher_stop = 1;
    pthread_join(launcher, NULL);
    TIMED("FlushAll_0_idle", 0, cupti.ActivityFlushAll(0));
    fact("outstanding_after_FlushAll_0_idle", "%d", outstanding);
    for (size_t k = 0; k < sizeof(kSessionKinds) / sizeof(*kSessionKinds); ++k) {
      TIMED("Disable", (int)kSessionKinds[k], cupti.ActivityDisable(kSessionKinds[k]));
    }
    TIMED("FlushAll_1", 0, cupti.ActivityFlushAll(1));
    fact("outstanding_after_FlushAll_1", "%d", outstanding);
    wait_for_buffers(2000);
    fact("outstanding_2s_later", "%d", outstanding);
    fact("buffers", "{\"requested\": %d, \"completed\": %d}", requested, completed);
    fact("threads_main_launcher_other", "{\"request\": [%u, %u, %u], \"complete\": [%u, %u, %u]}",
         request_threads[0], request_threads[1], request_threads[2], complete_threads[0],
         complete_threads[1], complete_threads[2]);
    size_t dropped = 0;
    cupti.ActivityGetNumDroppedRecords(NULL, 0, &dropped);
    fact("dropped", "%zu", dropped);
    fact_counts("records");
    judge_rows();
    TIMED("Unsubscribe", 0, cupti.Unsubscribe(subscriber));
    fact_memory("free_bytes_after");
  }
  TIMED("Finalize", 0, cupti.Finalize());
  fact("launch_after_Finalize", "%d", gw_launch(gw_stream_of(0), 0));
  fact("sync_after_Finalize", "%d", gw_sync(gw_stream_of(0)));
  fact_memory("free_bytes_finalized");
  return 0;
}

/* ---- The other groups */

static int attach(handle* subscriber) {
  if (begin_gpu()) return 3;
  read_sizes();
  gw_launch(gw_stream_of(0), 0);
  gw_sync(gw_stream_of(0));
  const int subscribed = cupti.Subscribe(subscriber, ignore, NULL);
  const int registered = cupti.ActivityRegisterCallbacks(on_request, on_complete);
  if (subscribed || registered) fact("no_attach", "[%d, %d]", subscribed, registered);
  return subscribed || registered ? 3 : 0;
}

static int run_inflight(int forced) {
  handle subscriber;
  if (attach(&subscriber)) return 3;
  cupti.ActivityEnable(kRuntime);
  cupti.ActivityEnable(kDriver);
  cupti.ActivityEnable(kKernel);
  for (int i = 0; i < 4; ++i) gw_launch(gw_stream_of(0), 100000000);
  pause_ms(50); /* The first runs, three wait. */
  if (forced) {
    fact("FlushAll_1_while_running", "%d", cupti.ActivityFlushAll(1));
    wait_for_buffers(200);
    judge_rows();
    forget();
  } else {
    fact("Disable_while_running", "%d", cupti.ActivityDisable(kKernel));
  }
  gw_sync(gw_stream_of(0));
  cupti.ActivityFlushAll(0);
  wait_for_buffers(500);
  cupti.ActivityFlushAll(1);
  wait_for_buffers(500);
  unsigned timed = 0, rows_of_kernels = 0;
  for (unsigned i = 0; i < noted(); ++i) {
    if (rows[i].kind != kKernel) continue;
    ++rows_of_kernels;
    timed += rows[i].end > rows[i].start && rows[i].end - rows[i].start >= 90000000;
  }
  fact(forced ? "came_after_forced_flush" : "came_after_Disable",
       "{\"launched\": 4, \"rows\": %u, \"with_right_times\": %u}", rows_of_kernels, timed);
  return 0;
}

static int run_syncs(void) {
  handle subscriber;
  if (attach(&subscriber)) return 3;
  for (int off = 0; off < 2; ++off) {
    forget();
    if (off) {
      fact("EnableAllSyncRecords_0", "%d",
           cupti.ActivityEnableAllSyncRecords ? cupti.ActivityEnableAllSyncRecords(0) : kAbsent);
    }
    cupti.ActivityEnable(kSync);
    gw_event done = 0, running = 0;
    gw_event_record(gw_stream_of(0), &done);
    gw_sync(gw_stream_of(0));
    for (int i = 0; i < 100; ++i) gw_event_query(done);
    gw_launch(gw_stream_of(0), 200000000);
    gw_event_record(gw_stream_of(0), &running);
    for (int i = 0; i < 100; ++i) gw_event_query(running);
    gw_event_sync(running);
    cupti.ActivityFlushAll(1);
    wait_for_buffers(500);
    cupti.ActivityDisable(kSync);
    unsigned by_type[8] = {0};
    for (unsigned i = 0; i < noted(); ++i) {
      if (rows[i].kind == kSync) ++by_type[rows[i].extra & 7];
    }
    fact(off ? "sync_rows_when_off" : "sync_rows_by_default",
         "{\"queries\": 200, \"rows\": %u, \"event\": %u, \"stream_wait\": %u, \"stream\": %u, "
         "\"context\": %u}",
         counts[kSync], by_type[1], by_type[2], by_type[3], by_type[4]);
  }
  return 0;
}

enum { kSwitchMs = 400, kTurnNs = 4000000, kMostSwitches = 40 };

/* A process that shares the GPU for longer than the question takes. */
static pid_t start_neighbor(void) {
  const pid_t child = fork();
  if (child != 0) return child;
  if (gw_init() != 0 || gw_start() != 0) _exit(3);
  const uint64_t begin = now();
  while (now() - begin < 2 * kSwitchMs * UINT64_C(1000000)) {
    if (gw_launch(gw_stream_of(0), kTurnNs) != 0) _exit(4);
    gw_sync(gw_stream_of(0));
  }
  _exit(0);
}

static int run_switches(int with_neighbor) {
  const pid_t neighbor = with_neighbor ? start_neighbor() : 0;
  if (begin_gpu()) return 3;
  read_sizes();
  fact("switch_size", "%u", sizes[kSwitch]);
  cupti.ActivityRegisterCallbacks(on_request, on_complete);
  forget();
  cupti.ActivityEnable(kKernel);
  const int enabled = cupti.ActivityEnable(kSwitch);
  const uint64_t begin = now();
  while (now() - begin < kSwitchMs * UINT64_C(1000000)) {
    gw_launch(gw_stream_of(0), kTurnNs);
    gw_sync(gw_stream_of(0));
  }
  cupti.ActivityFlushAll(1);
  wait_for_buffers(500);
  if (enabled == 0) cupti.ActivityDisable(kSwitch);
  cupti.ActivityDisable(kKernel);
  uint64_t first = UINT64_MAX;
  unsigned by_operation[4] = {0};
  for (unsigned i = 0; i < noted(); ++i) {
    if (rows[i].kind == kSwitch) ++by_operation[rows[i].extra & 3];
    if (rows[i].kind == kKernel && rows[i].start < first) first = rows[i].start;
  }
  fact("switches",
       "{\"neighbor\": %d, \"enable\": %d, \"kernels\": %u, \"starts\": %u, \"ends\": %u}",
       with_neighbor, enabled, counts[kKernel], by_operation[1], by_operation[2]);
  /* In microseconds after the first kernel's start: [operation, context, time], [10, start, end].
   */
  unsigned listed[2] = {0};
  for (unsigned i = 0; i < noted(); ++i) {
    const double start_us = (double)(int64_t)(rows[i].start - first) / 1000;
    if (rows[i].kind != kSwitch && rows[i].kind != kKernel) continue;
    if (++listed[rows[i].kind == kSwitch] > kMostSwitches) continue;
    if (rows[i].kind == kSwitch) {
      fact("switch", "[%u, %u, %.1f]", rows[i].extra, rows[i].correlation, start_us);
    } else {
      fact("switch", "[%u, %.1f, %.1f]", rows[i].kind, start_us,
           (double)(int64_t)(rows[i].end - first) / 1000);
    }
  }
  int status = 0;
  if (neighbor > 0 && waitpid(neighbor, &status, 0) == neighbor) {
    fact("neighbor_ended", "%d", status);
  }
  return 0;
}

static int run_devices(void) {
  const char* visible = getenv("CUDA_VISIBLE_DEVICES");
  const int inited = gw_init();
  fact("cuInit", "{\"visible\": \"%s\", \"result\": %d}", visible ? visible : "(not set)", inited);
  if (inited) return 0;
  read_sizes();
  handle subscriber = NULL;
  fact("Subscribe", "%d", cupti.Subscribe(&subscriber, ignore, NULL));
  cupti.ActivityRegisterCallbacks(on_request, on_complete);
  fact("EnableAndDump", "%d",
       cupti.ActivityEnableAndDump ? cupti.ActivityEnableAndDump(kDevice) : kAbsent);
  cupti.ActivityFlushAll(1);
  wait_for_buffers(500);
  unsigned visible_rows = 0;
  for (unsigned i = 0; i < noted(); ++i) visible_rows += rows[i].kind == kDevice && rows[i].extra;
  fact("device_rows", "{\"visible_devices\": \"%s\", \"rows\": %u, \"is_visible\": %u}",
       visible ? visible : "(not set)", counts[kDevice], visible_rows);
  return 0;
}

static int run_unsubscribed(int rival) {
  if (begin_gpu()) return 3;
  read_sizes();
  handle subscriber = NULL;
  if (rival) fact("rival_Subscribe", "%d", cupti.Subscribe(&subscriber, ignore, NULL));
  fact("RegisterCallbacks", "%d", cupti.ActivityRegisterCallbacks(on_request, on_complete));
  fact("Enable", "%d", cupti.ActivityEnable(kKernel));
  for (int i = 0; i < 10; ++i) gw_launch(gw_stream_of(0), 0);
  gw_sync(gw_stream_of(0));
  fact("Disable", "%d", cupti.ActivityDisable(kKernel));
  fact("FlushAll", "%d", cupti.ActivityFlushAll(1));
  wait_for_buffers(500);
  fact(rival ? "kernels_beside_a_rival" : "kernels_without_a_subscriber", "%u", counts[kKernel]);
  handle late = NULL;
  fact("Subscribe_afterwards", "%d", cupti.Subscribe(&late, ignore, NULL));
  return 0;
}

static int run_two(void) {
  handle subscriber;
  if (!second_path) {
    fact("no_second_library", "true");
    return 3;
  }
  if (attach(&subscriber)) return 3;
  handle other = dlopen(second_path, RTLD_NOW | RTLD_LOCAL);
  fact("second_is_another_copy", "%s", other && other != library ? "true" : "false");
  if (!other || other == library) return 3;
  static functions second;
  resolve(other, &second);
  call_all(&second, "second_copy");
  cupti.ActivityEnable(kKernel);
  for (int i = 0; i < 10; ++i) gw_launch(gw_stream_of(0), 0);
  gw_sync(gw_stream_of(0));
  cupti.ActivityFlushAll(1);
  wait_for_buffers(500);
  fact("kernels_of_the_first_copy_of_10", "%u", counts[kKernel]);
  return 0;
}

static int run_v1_under_v2(void) {
  if (begin_gpu()) return 3;
  if (!cupti.Subscribe_v2) {
    fact("Subscribe_v2", "{\"when\": \"v2\", \"result\": %d}", kAbsent);
    return 0;
  }
  char old_name[128] = "";
  handle subscriber = NULL;
  /* 13.0 knows the first four members, 13.3 all. */
  for (size_t size = sizeof(subscriber_params); size >= 32; size -= 8) {
    subscriber_params params = {size, "cupti_facts", old_name, sizeof(old_name), size > 32, {0}};
    const int result = cupti.Subscribe_v2(&subscriber, ignore, NULL, &params);
    fact("Subscribe_v2", "{\"when\": \"v2\", \"struct_size\": %zu, \"result\": %d}", size, result);
    if (result == 0) break;
  }
  call_all(&cupti, "v1_under_v2");
  return 0;
}

static atomic_int is_capturing, stop_capturing, capture_result;

static void* capture_on(void* argument) {
  (void)argument;
  capture_result = gw_capture_begin(0 /* global */);
  is_capturing = 1;
  while (!stop_capturing) {
    gw_launch(gw_stream_of(1), 0);
    pause_ms(1);
  }
  const int ended = gw_capture_end();
  if (capture_result == 0) capture_result = ended;
  return NULL;
}

static int run_graph(int before, int trace, int copies, int again, int capturing) {
  if (begin_gpu()) return 3;
  read_sizes();
  gw_launch(gw_stream_of(0), 0);
  uint64_t launched = 1;
  gw_sync(gw_stream_of(0));
  gw_graph exec = 0;
  int made = before ? gw_graph_make(copies, 0, &exec) : 0;
  for (int session = 1; session <= 1 + again; ++session) {
    handle subscriber = NULL;
    fact("Subscribe", "%d", cupti.Subscribe(&subscriber, ignore, NULL));
    cupti.ActivityRegisterCallbacks(on_request, on_complete);
    pthread_t thread;
    if (capturing) {
      stop_capturing = is_capturing = 0;
      if (pthread_create(&thread, NULL, capture_on, NULL) != 0) return 3;
      while (!is_capturing) pause_ms(1);
    }
    cupti.ActivityEnable(kRuntime);
    cupti.ActivityEnable(kDriver);
    cupti.ActivityEnable(kMemcpy);
    cupti.ActivityEnable(kMemset);
    cupti.ActivityEnable(kKernel);
    if (trace) fact("Enable_GRAPH_TRACE", "%d", cupti.ActivityEnable(kGraphTrace));
    if (capturing) {
      stop_capturing = 1;
      pthread_join(thread, NULL);
      fact("capture_in_global_mode", "%d", capture_result);
    }
    if (!made && !exec) made = gw_graph_make(copies, 0, &exec);
    fact("graph_made", "%d", made);
    if (made) return 0;
    forget();
    const unsigned kLaunches = 5;
    for (unsigned i = 0; i < kLaunches; ++i) {
      gw_graph_launch(exec, gw_stream_of(0));
      launched += GW_GRAPH_KERNELS;
    }
    gw_sync(gw_stream_of(0));
    cupti.ActivityDisable(kRuntime);
    cupti.ActivityDisable(kDriver);
    cupti.ActivityDisable(kMemcpy);
    cupti.ActivityDisable(kMemset);
    cupti.ActivityDisable(kKernel);
    if (trace) cupti.ActivityDisable(kGraphTrace);
    cupti.ActivityFlushAll(1);
    wait_for_buffers(1000);
    unsigned named = 0, with_graph = 0, with_call = 0, graph_with_call = 0;
    for (unsigned i = 0; i < noted(); ++i) {
      if (rows[i].kind != kKernel && rows[i].kind != kGraphTrace) continue;
      int has_call = 0;
      for (unsigned k = 0; k < noted() && !has_call; ++k) {
        has_call = (rows[k].kind == kRuntime || rows[k].kind == kDriver) &&
                   rows[k].correlation == rows[i].correlation;
      }
      if (rows[i].kind == kGraphTrace) {
        graph_with_call += (unsigned)has_call;
        continue;
      }
      named += strstr(rows[i].name, "profd_") != NULL;
      with_graph += rows[i].extra != 0;
      with_call += (unsigned)has_call;
    }
    fact("graph_rows",
         "{\"before\": %d, \"trace\": %d, \"copies\": %d, \"session\": %d, \"capturing\": %d, "
         "\"launches\": %u, \"nodes\": %u, \"kernels\": %u, \"memcpys\": %u, \"memsets\": %u, "
         "\"graph_traces\": %u, \"named\": %u, \"with_graph_id\": %u, \"with_call\": %u, "
         "\"graph_traces_with_call\": %u}",
         before, trace, copies, session, capturing, kLaunches, kLaunches * GW_GRAPH_KERNELS,
         counts[kKernel], counts[kMemcpy], counts[kMemset], counts[kGraphTrace], named, with_graph,
         with_call, graph_with_call);
    cupti.Unsubscribe(subscriber);
  }
  fact("computes_right", "%d", gw_result_is(launched));
  return 0;
}

static int compare_ns(const void* a, const void* b) {
  const int64_t x = *(const int64_t*)a, y = *(const int64_t*)b;
  return (x > y) - (x < y);
}

static int run_clock(void) {
  enum { kStamps = 300 };
  static uint64_t launched_ns[kStamps], seen_ns[kStamps], timer_ns[kStamps];
  static int64_t early_ns[kStamps], late_ns[kStamps], offset_ns[kStamps];
  handle subscriber;
  if (attach(&subscriber)) return 3;
  cupti.ActivityEnable(kKernel);
  int count = 0;
  for (; count < kStamps; ++count) {
    launched_ns[count] = gw_now_ns(CLOCK_REALTIME);
    const int result = gw_stamp(&timer_ns[count], &seen_ns[count]);
    if (result) {
      fact("no_stamp", "%d", result);
      break;
    }
    pause_ms(2);
  }
  cupti.ActivityFlushAll(1);
  wait_for_buffers(500);
  int found = 0;
  for (unsigned i = 0; i < noted() && found < count; ++i) {
    if (rows[i].kind != kKernel || !strstr(rows[i].name, "profd_stamp")) continue;
    early_ns[found] = (int64_t)(launched_ns[found] - rows[i].start); /* > 0: before its launch */
    late_ns[found] = (int64_t)(rows[i].start - seen_ns[found]);      /* > 0: after it was seen */
    offset_ns[found] = (int64_t)(rows[i].start - timer_ns[found]);
    ++found;
  }
  fact("stamps", "{\"made\": %d, \"recorded\": %d}", count, found);
  if (!found) return 0;
  int too_early = 0, too_late = 0;
  for (int i = 0; i < found; ++i) too_early += early_ns[i] > 0, too_late += late_ns[i] > 0;
  const int64_t drift = offset_ns[found - 1] - offset_ns[0];
  qsort(early_ns, (size_t)found, sizeof(*early_ns), compare_ns);
  qsort(late_ns, (size_t)found, sizeof(*late_ns), compare_ns);
  qsort(offset_ns, (size_t)found, sizeof(*offset_ns), compare_ns);
  fact("start_outside_what_the_host_saw",
       "{\"before_launch\": %d, \"most_ns\": %lld, \"after_seen\": %d, \"most_late_ns\": %lld}",
       too_early, (long long)early_ns[found - 1], too_late, (long long)late_ns[found - 1]);
  fact("start_minus_globaltimer_ns", "{\"spread\": %lld, \"drift\": %lld, \"p50_spread\": %lld}",
       (long long)(offset_ns[found - 1] - offset_ns[0]), (long long)drift,
       (long long)(offset_ns[found * 3 / 4] - offset_ns[found / 4]));
  return 0;
}

static int option(int argc, char** argv, const char* name) {
  const size_t length = strlen(name);
  for (int i = 1; i < argc; ++i) {
    if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') {
      return atoi(argv[i] + length + 1);
    }
  }
  return 0;
}

/* Of the main thread, which CUPTI does not come back to: the innermost calls, by library. */
static void on_limit(int number) {
  (void)number;
  enum { kFrames = 24 };
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  char line[4096];
  int used = snprintf(line, sizeof(line),
                      "\n{\"phase\": \"cupti_facts\", \"cupti\": \"%s\", \"group\": \"%s\", "
                      "\"fact\": \"stuck_at\", \"value\": [",
                      label, group);
  for (int i = 2; i < count && used < (int)sizeof(line) - 300; ++i) {
    Dl_info at;
    const int known = dladdr(frames[i], &at) != 0 && at.dli_fname;
    const char* slash = known ? strrchr(at.dli_fname, '/') : NULL;
    used += snprintf(line + used, sizeof(line) - (size_t)used, "%s\"%.80s+0x%zx %.80s\"",
                     i > 2 ? ", " : "",
                     slash   ? slash + 1
                     : known ? at.dli_fname
                             : "?",
                     (size_t)((char*)frames[i] - (known ? (char*)at.dli_fbase : NULL)),
                     known && at.dli_sname ? at.dli_sname : "");
  }
  used += snprintf(line + used, sizeof(line) - (size_t)used, "]}\n");
  if (write(1, line, (size_t)used) < 0) _exit(10);
  _exit(9);
}

static void watch_for_the_limit(void) {
  const char* limit = getenv("CUPTI_FACTS_LIMIT_S");
  if (!limit || atoi(limit) <= 0) return;
  void* unused[1];
  backtrace(unused, 1); /* Loads what it needs now. */
  signal(SIGALRM, on_limit);
  alarm((unsigned)atoi(limit));
}

static int usage(void) {
  fprintf(stderr,
          "usage: cupti_facts --cupti FILE [--label TEXT] [--second FILE] [--cudart FILE] "
          "calls|session|inflight|syncs|switches|devices|unsubscribed|two|v1_under_v2|graph|clock|"
          "call_tax|"
          "sessions|enable_order|finalize [OPTION=N...]\n");
  return 2;
}

int main(int argc, char** argv) {
  const char* path = NULL;
  int at = 1;
  for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
    if (!strcmp(argv[at], "--cupti")) {
      path = argv[at + 1];
    } else if (!strcmp(argv[at], "--label")) {
      label = argv[at + 1];
    } else if (!strcmp(argv[at], "--second")) {
      second_path = argv[at + 1];
    } else if (!strcmp(argv[at], "--cudart")) {
      cudart_path = argv[at + 1];
    } else {
      return usage();
    }
  }
  if (!path || at >= argc) return usage();
  group = argv[at];
  main_thread = (pid_t)syscall(SYS_gettid);
  watch_for_the_limit();
  const uint64_t loading_at = now();
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fact("no_library", "\"cannot be loaded\"");
    fprintf(stderr, "cupti_facts: %s\n", dlerror());
    return 3;
  }
  fact("dlopen_us", "%.1f", (double)(now() - loading_at) / 1000);
  char why[256] = "";
  resolve(library, &cupti);
  if (gw_load(library, why, sizeof(why)) != 0) {
    fact("no_gpu", "\"%s\"", why);
    fprintf(stderr, "cupti_facts: %s\n", why);
    return 3;
  }
  fact("simulated", "%s", gw_is_standin() ? "true" : "false");
  int result = 2;
  if (!strcmp(group, "calls"))
    result = run_calls();
  else if (!strcmp(group, "session"))
    result = run_session();
  else if (!strcmp(group, "inflight"))
    result = run_inflight(option(argc, argv, "forced"));
  else if (!strcmp(group, "syncs"))
    result = run_syncs();
  else if (!strcmp(group, "switches"))
    result = run_switches(option(argc, argv, "neighbor"));
  else if (!strcmp(group, "devices"))
    result = run_devices();
  else if (!strcmp(group, "unsubscribed"))
    result = run_unsubscribed(option(argc, argv, "rival"));
  else if (!strcmp(group, "two"))
    result = run_two();
  else if (!strcmp(group, "v1_under_v2"))
    result = run_v1_under_v2();
  else if (!strcmp(group, "clock"))
    result = run_clock();
  else if (!strcmp(group, "call_tax"))
    result = run_call_tax(path, cudart_path, option(argc, argv, "seconds"));
  else if (!strcmp(group, "sessions"))
    result = run_sessions(option(argc, argv, "count"), option(argc, argv, "unsubscribed"));
  else if (!strcmp(group, "enable_order"))
    result = run_enable_order(option(argc, argv, "count"), option(argc, argv, "variant"));
  else if (!strcmp(group, "finalize"))
    result = run_finalize(option(argc, argv, "graph"), option(argc, argv, "inside"),
                          option(argc, argv, "sessions"));
  else if (!strcmp(group, "graph")) {
    result = run_graph(option(argc, argv, "before"), option(argc, argv, "trace"),
                       option(argc, argv, "copies"), option(argc, argv, "again"),
                       option(argc, argv, "capturing"));
  }
  if (result == 2) return usage();
  fact("ended", "%d", result);
  return result;
}
