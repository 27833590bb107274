/* sgpu.h: a GPU made of software, to drive the CUPTI stand-in that it lives in.
 *
 * A test or a demo plays the part of the CUDA runtime: it launches kernels, copies and waits
 * through these functions, and the stand-in reports them through CUPTI's own ABI as the real
 * library would. Nothing is computed. Whoever loads a libcupti that exports sgpu_version()
 * knows that what it records is simulated.
 *
 * Functions return 0 or a CUPTI result code (1: a bad argument, 15: no sgpu_init() yet).
 *
 * Threads: any, at once, except sgpu_init() and sgpu_shutdown().
 * Time:    CLOCK_REALTIME in nanoseconds, as CUPTI's records carry. In real time a call takes the
 *          time it is told to take and waits really wait. In virtual time only the calls move the
 *          clock, by what they are told to take, and waits jump: runs are repeatable.
 * Fork:    a child's calls fail with 999, as CUDA's do.
 *
 * Usable from C, C++ and ctypes: fixed-width integers, no bit fields, no ownership to pass on.
 */
#ifndef PROFD_TESTS_CUPTI_STANDIN_SGPU_H_
#define PROFD_TESTS_CUPTI_STANDIN_SGPU_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SGPU_BUILDS_ITSELF)
#define SGPU_API __attribute__((visibility("default")))
#else
#define SGPU_API
#endif

/* The version of this interface: 1. */
SGPU_API uint32_t sgpu_version(void);

/* --- Life cycle ------------------------------------------------------------------------- */

enum sgpu_time_mode { SGPU_TIME_REAL = 0, SGPU_TIME_VIRTUAL = 1 };

/* Zero in a field means its default. */
typedef struct sgpu_opts {
  uint32_t size;               /* sizeof(sgpu_opts) */
  uint32_t device_count;       /* 1 to 8; default 1 */
  uint32_t copy_engine_count;  /* per device, 1 to 8; default 2 */
  uint32_t concurrent_kernels; /* that one device runs at once, 1 to 128; default 32 */
  uint32_t time_mode;          /* sgpu_time_mode */
  uint32_t reserved;
  uint64_t launch_latency_ns; /* from a launch's submission to its start; default 3000 */
  uint64_t seed;              /* of the jitter; default 1 */
} sgpu_opts;

/* Loads libcuda.so.1 (the one the process has, else the stand-in's own from its folder or the one
 * above) and calls its cuInit(), which runs what CUDA_INJECTION64_PATH names; makes the devices and
 * a context on device 0. NULL: all defaults. Once per process; a second call does nothing. */
SGPU_API int sgpu_init(const sgpu_opts* options);
/* Waits for all that was submitted, as the end of a CUDA process does, and forgets everything:
 * kinds, subscribers, settings, counts, the truth. Records and buffers not delivered by then never
 * are. sgpu_init() may follow. */
SGPU_API void sgpu_shutdown(void);

/* --- Contexts and streams --------------------------------------------------------------- */

/* Contexts are numbered from 1, as CUPTI's; context 1 is on device 0 and made by sgpu_init(). */
SGPU_API int sgpu_ctx_create(uint32_t device, uint32_t* context);
/* The default stream of `context`. Streams are handles; CUPTI's stream ids are others: 7 for every
 * default stream, and numbers from 13 in each context for those made. */
SGPU_API int sgpu_default_stream(uint32_t context, uint32_t* stream);
SGPU_API int sgpu_stream_create(uint32_t context, int32_t priority, uint32_t flags,
                                uint32_t* stream);
SGPU_API int sgpu_stream_id(uint32_t stream, uint32_t* context, uint32_t* cupti_stream_id);

/* --- Work ------------------------------------------------------------------------------- */

typedef struct sgpu_dim3 {
  uint32_t x, y, z;
} sgpu_dim3;

/* Which API call a launch is, in `cbid`: 0 for cudaLaunchKernel; a callback id of CUPTI's runtime
 * domain; or SGPU_DRIVER_CBID | a callback id of its driver domain, for a launch that no runtime
 * call wraps (cuLaunchKernelEx, as Triton does). A runtime call contains a driver call of the same
 * correlation id. */
#define SGPU_DRIVER_CBID 0x80000000u

/* Launches `kernel` on `stream`. It runs for `device_ns`; the call itself takes `api_ns` of the
 * caller's time beyond what it costs anyway (in virtual time: all it takes, and at least 1). A name
 * that sgpu_function() gave is used as it is; any other is copied once into a module that is never
 * unloaded. */
SGPU_API int sgpu_launch(uint32_t stream, const char* kernel, sgpu_dim3 grid, sgpu_dim3 block,
                         uint64_t device_ns, uint64_t api_ns, uint32_t cbid);

/* What launches of `kernel` report from now on; the default is 32 registers, no shared memory. */
SGPU_API int sgpu_kernel_attributes(const char* kernel, uint32_t registers_per_thread,
                                    uint32_t static_shared_bytes, uint32_t dynamic_shared_bytes,
                                    uint32_t local_bytes_per_thread);

/* CUpti_ActivityMemcpyKind's numbers. */
enum sgpu_copy_kind { SGPU_HTOD = 1, SGPU_DTOH = 2, SGPU_DTOD = 8, SGPU_HTOH = 9 };

/* Copies; `pinned` is whether the host's side is page-locked. Takes bytes / 25 GB/s (device to
 * device: / 1 TB/s) on a copy engine. Not `async`: returns when the copy is done. */
SGPU_API int sgpu_memcpy(uint32_t stream, uint32_t copy_kind, uint64_t bytes, int async,
                         int pinned);
SGPU_API int sgpu_memset(uint32_t stream, uint32_t value, uint64_t bytes, int async);
SGPU_API int sgpu_memcpy_peer(uint32_t stream, uint32_t source_device, uint32_t destination_device,
                              uint64_t bytes);

/* Decompresses `bytes` in a batch of `operations`: cuMemBatchDecompressAsync, a call of the driver
 * API alone. Takes bytes / 100 GB/s, and no copy engine. Recorded from CUPTI 12.8 on. */
SGPU_API int sgpu_mem_decompress(uint32_t stream, uint32_t operations, uint64_t bytes);

/* A function of the program's on a thread of the driver's, for `host_ns`, while `stream` waits. */
SGPU_API int sgpu_host_function(uint32_t stream, uint64_t host_ns);

/* Allocation; `async` ones come from the stream's memory pool, made at its first. */
SGPU_API int sgpu_malloc(uint32_t stream, uint64_t bytes, int async, uint64_t* address);
SGPU_API int sgpu_free(uint32_t stream, uint64_t address, int async);
/* Gives memory of `stream`'s pool back to the device: a pool record. */
SGPU_API int sgpu_pool_trim(uint32_t stream, uint64_t min_bytes_to_keep);

/* --- Waiting ---------------------------------------------------------------------------- */

/* Records an event, made if *event is 0. */
SGPU_API int sgpu_event_record(uint32_t stream, uint32_t* event);
SGPU_API int sgpu_stream_wait_event(uint32_t stream, uint32_t event);
SGPU_API int sgpu_event_sync(uint32_t event);
/* Asks whether `event` is done, and does not wait. Records that as a synchronization if it is. If
 * it is not: from CUPTI 12.9 on, unless cuptiActivityEnableAllSyncRecords(0) was called; in 12.8
 * after cuptiActivityEnableAllSyncRecords(1). Returns 600 then. */
SGPU_API int sgpu_event_query(uint32_t event);
SGPU_API int sgpu_stream_sync(uint32_t stream);
SGPU_API int sgpu_device_sync(uint32_t context);

/* --- Graphs ----------------------------------------------------------------------------- */

/* Between begin and end, work given to `stream` becomes nodes of a graph and does not run. */
SGPU_API int sgpu_graph_begin(uint32_t stream);
SGPU_API int sgpu_graph_end(uint32_t stream, uint32_t* graph);
SGPU_API int sgpu_graph_instantiate(uint32_t graph, uint32_t* exec);
/* The nodes run one after the other on `stream`. */
SGPU_API int sgpu_graph_launch(uint32_t exec, uint32_t stream, uint64_t api_ns);

/* --- API calls that do no work ---------------------------------------------------------- */

enum sgpu_domain { SGPU_DOMAIN_DRIVER = 1, SGPU_DOMAIN_RUNTIME = 2 };

/* A call such as cudaGetDevice (17) or cuCtxGetCurrent (304), which returns `return_value`. */
SGPU_API int sgpu_api_call(uint32_t domain, uint32_t cbid, uint64_t api_ns, uint32_t return_value);

/* --- Modules: where kernel names live ---------------------------------------------------- */

typedef struct sgpu_module sgpu_module;

/* What unloading does to the names of the module. */
enum sgpu_unload {
  SGPU_UNLOAD_UNMAP = 0,     /* reading one is a fault; the addresses are never used again */
  SGPU_UNLOAD_OVERWRITE = 1, /* they turn into other text */
  SGPU_UNLOAD_REUSE = 2,     /* the next module of as many bytes is loaded at the same addresses */
};

SGPU_API int sgpu_module_load(const char* const* names, uint32_t count, sgpu_module** module);
/* The name of function `index`, for sgpu_launch(); NULL if there is none. */
SGPU_API const char* sgpu_function(sgpu_module* module, uint32_t index);
SGPU_API int sgpu_module_unload(sgpu_module* module, uint32_t how);

/* --- The clock -------------------------------------------------------------------------- */

SGPU_API uint64_t sgpu_now_ns(void);
/* Virtual time: moves the clock on. Real time: 7 (an invalid operation). */
SGPU_API int sgpu_advance(uint64_t ns);
/* From now on all timestamps are `ns` later (earlier): CLOCK_REALTIME was set. */
SGPU_API void sgpu_clock_step(int64_t ns);

/* --- Faults and settings ----------------------------------------------------------------- */

/* Sets what the calls of a CUPTI function return, as the environment variable SGPU_FAIL does:
 *   "cuptiActivityEnable:10=27;cuptiSubscribe=39;cuptiActivityFlushAll@3=999"
 * FUNCTION[:ARGUMENT][@N]=RESULT; ARGUMENT is the activity kind; @N: the Nth call from now on
 * only. "" forgets them all. 1 if the text cannot be read. */
SGPU_API int sgpu_fail(const char* spec);

/* Changes a setting; README.md lists them. Each can also be set from the start by the environment
 * variable SGPU_ and the key in capitals. 1: no such key or not a number. */
SGPU_API int sgpu_set(const char* key, const char* value);

/* Another profiler in the process. It subscribes under `name`: 39 if somebody has. */
SGPU_API int sgpu_rival_subscribe(const char* name);
SGPU_API int sgpu_rival_unsubscribe(void);
/* The same by the interface for several subscribers, which CUPTI 13.3 and later have: it records
 * calls of the runtime and kernels. 39 if a subscriber lets no others in, 14 if the interface for
 * one subscriber is in use, 27 if this version has no other. */
SGPU_API int sgpu_rival_join(const char* name);
SGPU_API int sgpu_rival_leave(void);
/* It registers its own buffer callbacks over those there are, and takes all records from then on.
 */
SGPU_API int sgpu_rival_steal_callbacks(void);

/* Completes, now, buffers that the setting lose_buffers held back. Returns how many. */
SGPU_API uint32_t sgpu_return_lost_buffers(void);

/* Waits until every record that the work submitted so far is due has been written to a buffer. */
SGPU_API int sgpu_settle(void);

/* --- The truth --------------------------------------------------------------------------- */

/* What became of the record of something that happened. */
enum sgpu_fate {
  SGPU_UNWANTED = 0,   /* no activity kind asked for it when it was submitted */
  SGPU_PENDING = 1,    /* not written yet */
  SGPU_WRITTEN = 2,    /* written to a buffer as it was */
  SGPU_UNFINISHED = 3, /* written by a forced flush before it ended: its end is 0 */
  SGPU_UNTIMED = 4,    /* written with start and end 0: the device had no room for its times */
  SGPU_DROPPED = 5,    /* there was no buffer: counted by cuptiActivityGetNumDroppedRecords */
};

/* One thing that happened, in the order of submission: an API call, or work of the device. */
typedef struct sgpu_truth_rec {
  uint32_t kind;           /* the CUpti_ActivityKind it is reported as */
  uint32_t fate;           /* sgpu_fate */
  uint32_t correlation_id; /* of the API call; 0 where the record carries 0 */
  uint32_t domain; /* sgpu_domain and callback id of the API call that caused it, or is it */
  uint32_t cbid;
  uint32_t thread_id; /* gettid() of the caller */
  uint64_t start_ns;  /* of the call; or when the device began */
  uint64_t end_ns;
  uint32_t device;
  uint32_t context;
  uint32_t stream; /* CUPTI's stream id */
  uint32_t graph_id;
  uint64_t graph_node_id;
  const char* name; /* of a kernel: a copy that stays valid; else NULL */
  uint64_t bytes;   /* of copies, memsets and allocations */
  uint32_t copy_kind;
  uint32_t return_value;
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t address; /* of allocations; the sync type of synchronisations */
} sgpu_truth_rec;

/* Copies up to `max` records, the oldest first, to `out`; returns how many there are. */
SGPU_API uint32_t sgpu_truth(sgpu_truth_rec* out, uint32_t max);
SGPU_API void sgpu_truth_clear(void);

#define SGPU_KINDS 64

/* Counted since sgpu_init(). */
typedef struct sgpu_stats_rec {
  uint32_t size; /* sizeof(sgpu_stats_rec), set by the caller */
  uint32_t subscribed;
  uint64_t launches;
  uint64_t api_calls;
  uint64_t records[SGPU_KINDS];   /* written to buffers, by kind */
  uint64_t delivered[SGPU_KINDS]; /* of those, in buffers that were completed to the client */
  uint64_t stolen;                /* records that went to a rival */
  uint64_t lost;                  /* records in buffers that were never completed */
  uint64_t dropped;               /* for want of a buffer */
  uint64_t buffers_requested;
  uint64_t buffers_refused; /* NULL, misaligned or too small */
  uint64_t buffers_completed;
  uint64_t buffers_lost;
  uint64_t buffers_dirty; /* not zero although ZEROED_OUT_ACTIVITY_BUFFER says so */
  uint64_t buffers_out;   /* with the stand-in now */
  uint64_t cupti_calls;   /* of any function that needs a driver */
  uint64_t callbacks;     /* of a subscriber */
  uint64_t enabled_kinds; /* bit k: kind k is on */
  uint64_t finalized;     /* calls of cuptiFinalize */
  uint64_t api_stalls;    /* API calls that waited for an enable */
  /* Settings of CUPTI that hold for the whole process, as they are now. */
  uint64_t device_buffer_pool_limit;
  uint32_t zeroed_out_activity_buffer;
  uint32_t thread_id_type;
  uint32_t latency_timestamps;
  uint32_t all_sync_records;
  /* Of the tool that joined: its records, and those whose times a forced flush took. */
  uint64_t rival_records;
  uint64_t rival_unfinished;
} sgpu_stats_rec;

SGPU_API int sgpu_stats(sgpu_stats_rec* stats);

#ifdef __cplusplus
}
#endif

#endif /* PROFD_TESTS_CUPTI_STANDIN_SGPU_H_ */
