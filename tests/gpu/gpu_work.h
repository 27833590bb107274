/* Work for a GPU, in C: NVIDIA's by the driver API, or the stand-in's of tests/cupti_standin.
 *
 * Which one is decided by the libcupti that is opened: the stand-in has sgpu_init(), and then no
 * driver is needed. Functions return 0, or a code of CUDA or the stand-in.
 *
 * Threads: any, after gw_start().
 */
#ifndef PROFD_TESTS_GPU_GPU_WORK_H_
#define PROFD_TESTS_GPU_GPU_WORK_H_

#include <stddef.h>
#include <stdint.h>

typedef uint64_t gw_stream;
typedef uint64_t gw_event;
typedef uint64_t gw_graph;

/* What a graph has besides its kernels. */
enum { GW_GRAPH_KERNELS = 4 };

/* Loads libcuda.so.1, or notes that `cupti` (a handle of dlopen, or null) is the stand-in. */
int gw_load(void* cupti, char* why, size_t why_bytes);
int gw_is_standin(void);
/* cuInit(). The stand-in does all of gw_start() here. */
int gw_init(void);
/* The context of device 0, kernels, two streams, buffers. */
int gw_start(void);
int gw_driver_version(void);

gw_stream gw_stream_of(int which); /* 0 or 1 */
/* A kernel of `ns`; 0: one that ends at once. */
int gw_launch(gw_stream stream, uint64_t ns);
int gw_call(void);               /* cuCtxGetCurrent(): a call that does nothing. */
int gw_copy(gw_stream stream);   /* 1 MiB to the device. */
int gw_memset(gw_stream stream); /* 1 MiB. */
int gw_sync(gw_stream stream);
int gw_event_record(gw_stream stream, gw_event* event); /* Made if it is 0. */
int gw_event_query(gw_event event);
int gw_event_sync(gw_event event);
/* GW_GRAPH_KERNELS kernels of `ns`; with `copies` a copy and a memset, too. On the stand-in and on
 * a GPU it is captured from a stream, whose capture of `mode` 0 is global and 2 relaxed. */
int gw_graph_make(int copies, uint64_t ns, gw_graph* exec);
int gw_graph_launch(gw_graph exec, gw_stream stream);
/* Begins a capture of stream 1 and leaves it open; gw_capture_end() ends it. */
int gw_capture_begin(int mode);
int gw_capture_end(void);
/* 1: the counter that each gw_launch(…, 0) to it has added to is `expected`. 0: it is not. -1:
 * unknown, since nothing is computed. */
int gw_result_is(uint64_t expected);
int gw_free_bytes(uint64_t* free_bytes); /* Of the device; 0 if unknown. */
/* A kernel that writes the GPU's timer: launches it, waits until the host sees it, and gives that
 * time of CLOCK_REALTIME. Not on the stand-in: 801 (not supported). */
int gw_stamp(uint64_t* gpu_timer_ns, uint64_t* seen_ns);

const char* gw_kernels(void);  /* The text of kernels.ptx. */
uint64_t gw_now_ns(int clock); /* CLOCK_REALTIME or CLOCK_MONOTONIC */

#endif /* PROFD_TESTS_GPU_GPU_WORK_H_ */
