/* States of CUPTI whose cost is measured: what is subscribed, which kinds are on. For
 * cupti_facts.c, and as libgpu_states.so for programs that load it with ctypes.
 *
 * All records are counted and none is kept: completed buffers are read only in cs_take(), so that
 * reading costs the measured program nothing.
 *
 * Threads: cs_ functions on one thread; CUPTI's callbacks on any.
 */
#ifndef PROFD_TESTS_GPU_CUPTI_STATES_H_
#define PROFD_TESTS_GPU_CUPTI_STATES_H_

#include <stdint.h>

typedef struct {
  uint64_t kernels;   /* Records of kernels. */
  uint64_t calls;     /* Records of API calls. */
  uint64_t others;    /* Other records. */
  uint64_t callbacks; /* Calls of the callback of the state "kernel_callbacks". */
  uint64_t dropped;   /* By CUPTI's count. */
  uint64_t no_buffer; /* Requests that got none. */
} cs_counts;

/* Uses the library at `path`; it is loaded if the process does not have it. Buffers have
 * `buffer_kib`. Returns 0, or -1. */
int cs_open(const char* path, unsigned buffer_kib);

/* Leaves the present state (kinds off, records flushed) and enters `state`. Returns 0, the first
 * code of CUPTI that is not 0, or -1 if there is no such state.
 *
 *   none              as the state before: nothing is done
 *   subscribed        a subscription, no kinds
 *   kernel            and CONCURRENT_KERNEL
 *   kernel_callbacks  and a callback for launches, copies, and memsets
 *   runtime           kernel and RUNTIME
 *   runtime_quiet     and its records off but for launches, copies, and waits
 *   driver            and DRIVER, as quiet
 *   default           and MEMCPY, MEMSET, SYNCHRONIZATION, OVERHEAD
 *   off               a subscription, no kinds
 *   unsubscribed      no subscription, no kinds
 *   kernel_alone      CONCURRENT_KERNEL without a subscription
 *   default_alone     the kinds of default without a subscription
 *   finalized         cuptiFinalize() */
int cs_enter(const char* state);

/* What was recorded since the last call. */
void cs_take(cs_counts* counts);

/* cuptiActivitySetAttribute() with a value of `bytes` (1, 4, or 8). */
int cs_set_attribute(unsigned id, unsigned bytes, uint64_t value);
/* Functions whose records the last cs_enter() turned off. */
unsigned cs_quiet_count(void);

#endif /* PROFD_TESTS_GPU_CUPTI_STATES_H_ */
