/* profd.h: what an application tells the profiler about itself. C ABI of libprofd_client.so.
 *
 *   profd_init();                                   // once; a no-op without a daemon
 *   static profd_name kForward = PROFD_NAME_INIT("forward");
 *   for (;;) {
 *     profd_step();                                 // a new training step begins
 *     profd_range_begin(&kForward);
 *     ...
 *     profd_range_end();
 *   }
 *
 * Costs: while no capture runs, a range is two loads and a predicted branch, inlined, and
 * everything else is a call that returns at once. While one runs, a range is two time
 * stamps and a 32-byte record. Nothing here blocks, and nothing waits for the daemon.
 *
 * Threads: every function may be called from any thread, at any time after main() began,
 *          also inside a callback of a GPU runtime. Not from signal handlers.
 * Errors:  nothing here fails in a way a program must handle; functions that return an
 *          int return a profd_result for those who ask. Never throws, never exits.
 * Fork:    a child is silent until it calls profd_step() or begins a range; then it
 *          registers as a target of its own, below its parent.
 * Environment: PROFD_DISABLE=1 makes all of this do nothing; PROFD_START=1 calls profd_init()
 *          when the library is loaded. PROFD_SOCKET_DIR names the daemon's socket
 *          directory (else /run/profd, else $XDG_RUNTIME_DIR/profd).
 *          PROFD_LOG=error|warning|info|debug writes to stderr (default: silent).
 *
 * C++ programs include profd/profd.hpp, which adds scopes on top.
 */
#ifndef PROFD_PROFD_H_
#define PROFD_PROFD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROFD_API __attribute__((visibility("default")))
#ifndef PROFD_COLD
#define PROFD_COLD __attribute__((cold, noinline))
#endif

/* ABI version of this header. Functions are only ever added. */
#define PROFD_ABI_VERSION 1

typedef enum profd_result {
  PROFD_OK = 0,
  PROFD_DISABLED = 1,  /* PROFD_DISABLE is set, or the library could not set itself up. */
  PROFD_NO_DAEMON = 2, /* Not connected now; the library keeps trying in the background. */
  PROFD_INVALID = 3,   /* An argument is out of its range; nothing happened. */
  PROFD_LIMIT = 4,     /* A limit named at the function is reached; nothing happened. */
} profd_result;

/* A name, interned at its first use in a capture. Make it static, one per place. */
typedef struct profd_name {
  const char* text; /* Not copied before first use; must stay valid and unchanged. */
  uint32_t length;  /* Bytes; 0: strlen(text). Over 4096 bytes they are cut, and end with a hash. */
  uint32_t id;      /* 0 until interned. Set by the library, by relaxed atomic stores. */
} profd_name;
#define PROFD_NAME_INIT(literal) \
  { literal, sizeof(literal) - 1, 0 }

/* Connects this process to the daemon, in the background, and starts the library's
 * threads (signals blocked, named "profd" and "profd-helper"). Idempotent. Returns without waiting:
 * PROFD_OK or PROFD_DISABLED. A program that never calls it is not a target, unless it
 * calls profd_step(), or the library is its injection (`profctl run`), which imply it. */
PROFD_API int profd_init(void);

/* Tells the daemon something about this process, for display and grouping only: "job",
 * "rank", "world_size" and what else is useful. RANK, LOCAL_RANK, WORLD_SIZE,
 * SLURM_JOB_ID and SLURM_PROCID are read from the environment without being asked.
 * `key` matches [a-z][a-z0-9_.]{0,62}; `value` is at most 255 bytes; at most 32 keys.
 * PROFD_OK, PROFD_INVALID or PROFD_LIMIT. */
PROFD_API int profd_set_metadata(const char* key, const char* value);

/* Marks the start of the next training step, on the thread that drives the steps (the
 * first that calls it; marks on other threads are counted and move nothing). Steps count
 * from 0 at the first call. Captures start and end exactly at marks. */
PROFD_API void profd_step(void);

/* The number of steps of the present source of steps. It begins anew when a better source takes
 * over: profd_step() after steps of PyTorch, or an optimizer after batches. */
PROFD_API uint64_t profd_step_count(void);

/* Interns `length` bytes and returns an id for the profd_*_id functions below, valid for
 * the life of the process. Equal bytes give equal ids. Beyond 65,536 names or 16 MiB it
 * returns the id of "(other)" and counts it. Never returns 0. */
PROFD_API uint32_t profd_intern(const char* text, size_t length);

/* Ranges by name id, not inlined: for bindings. begin/end nest per thread, 128 deep; a
 * deeper begin is dropped and counted, and its end is matched and ignored. */
PROFD_API void profd_range_begin_id(uint32_t name_id);
PROFD_API void profd_range_end_id(void);

/* A range that is paired by what opening it returns, not by the thread's nesting: for code that
 * suspends inside of ranges (asyncio), or closes them on another thread. profd_range_close() takes
 * the handle once, on any thread; 0, which means that nothing is recorded, is ignored. A range that
 * is the thread's innermost when it is closed there nests as others do. Any other is kept on a row
 * of its own. A range whose thread has ended has ended with it. */
PROFD_API uint64_t profd_range_open_id(uint32_t name_id);
PROFD_API void profd_range_close(uint64_t range);

/* A point in time on this thread. */
PROFD_API void profd_instant_id(uint32_t name_id);

/* A sample of the series `name_id`. Any double. */
PROFD_API void profd_counter_id(uint32_t name_id, double value);

/* What a device is. The numbers are those of c10::DeviceType. */
typedef enum profd_device_type { PROFD_DEVICE_CPU = 0, PROFD_DEVICE_CUDA = 1 } profd_device_type;

typedef enum profd_memory_category {
  PROFD_MEMORY_UNKNOWN = 0,
  PROFD_MEMORY_PARAMETER = 1,
  PROFD_MEMORY_GRADIENT = 2,
  PROFD_MEMORY_OPTIMIZER_STATE = 3,
  PROFD_MEMORY_ACTIVATION = 4,
  PROFD_MEMORY_INPUT = 5,
  PROFD_MEMORY_TEMPORARY = 6,
  PROFD_MEMORY_BUFFER = 7, /* Of a module: kept like a parameter, not trained. */
} profd_memory_category;

typedef struct profd_memory_event {
  uint64_t address;              /* Of the block; identifies it until it is freed. */
  int64_t bytes;                 /* >= 0; a free may pass 0 for "not known". */
  int64_t total_allocated_bytes; /* On this device after this event; -1: not known. */
  int64_t total_reserved_bytes;  /* Held by the allocator; -1: not known. */
  uint16_t device_type;          /* profd_device_type */
  int16_t device_index;          /* 0.. */
  uint16_t category;             /* profd_memory_category */
  uint16_t reserved;             /* 0 */
} profd_memory_event;

/* A block was allocated, or freed, just now. Out-of-range fields: the event is ignored. */
PROFD_API void profd_alloc(const profd_memory_event* event);
PROFD_API void profd_free(const profd_memory_event* event);

/* Ends the library's threads, and with them a capture of this process, for calls that the
 * kernel refuses to a process with several threads: unshare(CLONE_NEWUSER), and setns() to a
 * user, mount, or time namespace. PROFD_OK: they are gone, and profd_restart_threads() starts
 * them again; until then, nothing is recorded. PROFD_DISABLED: the library has no threads, they
 * did not end within 3 s, or they are stopped already: by this thread, or by another one for
 * longer than 4 s. `profctl run --preload` makes both calls around unshare() and
 * setns(). Neither is needed before the first use of the library, or in a forked child. */
PROFD_API int profd_stop_threads(void);
PROFD_API void profd_restart_threads(void);

/* Instead of profd_restart_threads(): profiling is off in this process from then on, and
 * profd_get_status() says so. For a program that, since profd_stop_threads(), has set a seccomp
 * filter for all its threads that kills for system calls other than its own: this makes none.
 * A child that is forked later tries what the filter allows when it first uses the library.
 * Without such a stop, nothing happens. `profctl run --preload` makes both calls around a filter
 * that is set by syscall(). */
PROFD_API void profd_stay_stopped(void);

/* Names the calling thread in reports (at most 63 bytes; default: its comm). Remembered
 * for captures to come. */
PROFD_API void profd_thread_name(const char* name);

/* The library's version, "0.1.0". */
PROFD_API const char* profd_version(void);

/* What the library knows about itself; for diagnosis and tests. */
typedef struct profd_status {
  uint32_t size_bytes; /* Set by the caller to sizeof(profd_status). */
  uint32_t connected;  /* 1 while registered with a daemon. */
  uint32_t recording;  /* 1 while events are kept. */
  uint32_t disabled;   /* 1: off for good in this process. */
  uint64_t step_count;
  uint64_t dropped_event_count;
  uint64_t capture_count; /* Captures armed so far. */
} profd_status;
PROFD_API int profd_get_status(profd_status* status);

/* ---- inlined fast paths; not to be used directly ---- */

/* Address of the on/off flag: 0 while nothing records. Never exported as data, so that no
 * executable gets a copy of its own. */
PROFD_API const uint32_t* profd_recording_flag(void);
PROFD_API PROFD_COLD void profd_range_begin_slow(profd_name* name);
PROFD_API PROFD_COLD void profd_instant_slow(profd_name* name);
PROFD_API PROFD_COLD void profd_counter_slow(profd_name* name, double value);

#ifndef PROFD_NO_FAST_PATHS /* The library itself has no use for them. */
static const uint32_t profd_zero_flag_ = 0;
static const uint32_t* profd_flag_ = &profd_zero_flag_;
__attribute__((constructor)) static void profd_bind_flag_(void) {
  profd_flag_ = profd_recording_flag();
}
static inline int profd_is_recording_(void) {
  return __builtin_expect(__atomic_load_n(profd_flag_, __ATOMIC_RELAXED) != 0, 0) != 0;
}

/* Begins a range on this thread. Every begin has its end on the same thread. */
static inline void profd_range_begin(profd_name* name) {
  if (profd_is_recording_()) profd_range_begin_slow(name);
}
/* Ends the innermost open range of this thread. An end without a begin is ignored, as is
 * one whose begin fell outside the capture. */
static inline void profd_range_end(void) {
  if (profd_is_recording_()) profd_range_end_id();
}
static inline void profd_instant(profd_name* name) {
  if (profd_is_recording_()) profd_instant_slow(name);
}
static inline void profd_counter(profd_name* name, double value) {
  if (profd_is_recording_()) profd_counter_slow(name, value);
}
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PROFD_PROFD_H_ */
