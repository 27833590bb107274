#define _GNU_SOURCE
#include "cupti_states.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cupti_rows.h"

enum { kDriverDomain = 1, kRuntimeDomain = 2, kMaxCbid = 1024, kReady = 24, kMaxBuffers = 512 };

typedef struct buffer {
  struct buffer* next;
  uint8_t* memory;
  size_t valid;
} buffer;

static functions f;
static size_t buffer_bytes = 1 << 20;
/* Guards the lists. Buffers on `ready` are zeroed, as attribute 5 promises. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static buffer *ready, *done;
static unsigned buffer_count;

static handle subscriber;
static uint64_t enabled; /* Bits of kinds. */
static int has_callbacks, is_registered, is_lent[kMaxBuffers];
static unsigned quiet_count;
static buffer buffers[kMaxBuffers];
static atomic_ullong callback_count, no_buffer_count, callback_sum;
static uint64_t finished_callbacks, finished_no_buffer, dropped_count;

/* ---- Buffers */

static buffer* add_buffer(void) {
  if (buffer_count == kMaxBuffers) return NULL;
  buffer* added = &buffers[buffer_count];
  added->memory = aligned_alloc(4096, buffer_bytes);
  if (!added->memory) return NULL;
  memset(added->memory, 0, buffer_bytes);
  ++buffer_count;
  return added;
}

static void on_cs_request(uint8_t** memory, size_t* size, size_t* max_records) {
  pthread_mutex_lock(&mutex);
  buffer* taken = ready;
  if (taken) {
    ready = taken->next;
  } else {
    taken = add_buffer();
  }
  if (taken) is_lent[taken - buffers] = 1;
  pthread_mutex_unlock(&mutex);
  if (!taken) ++no_buffer_count;
  *memory = taken ? taken->memory : NULL;
  *size = taken ? buffer_bytes : 0;
  *max_records = 0;
}

static void on_cs_complete(handle context, uint32_t stream, uint8_t* memory, size_t size,
                           size_t valid) {
  (void)context, (void)stream, (void)size;
  pthread_mutex_lock(&mutex);
  for (unsigned i = 0; i < buffer_count; ++i) {
    if (buffers[i].memory != memory || !is_lent[i]) continue;
    is_lent[i] = 0;
    buffers[i].valid = valid;
    buffers[i].next = done;
    done = &buffers[i];
    break;
  }
  pthread_mutex_unlock(&mutex);
}

void cs_take(cs_counts* counts) {
  memset(counts, 0, sizeof(*counts));
  pthread_mutex_lock(&mutex);
  buffer* next = done;
  done = NULL;
  pthread_mutex_unlock(&mutex);
  while (next) {
    buffer* taken = next;
    next = taken->next;
    uint8_t* record = NULL;
    while (taken->valid && f.ActivityGetNextRecord(taken->memory, taken->valid, &record) == 0) {
      uint32_t kind;
      memcpy(&kind, record, sizeof(kind));
      if (kind == kKernel) {
        ++counts->kernels;
      } else if (kind == kRuntime || kind == kDriver) {
        ++counts->calls;
      } else {
        ++counts->others;
      }
    }
    memset(taken->memory, 0, buffer_bytes);
    pthread_mutex_lock(&mutex);
    taken->next = ready;
    ready = taken;
    pthread_mutex_unlock(&mutex);
  }
  const uint64_t callbacks = callback_count, no_buffer = no_buffer_count;
  counts->callbacks = callbacks - finished_callbacks;
  counts->no_buffer = no_buffer - finished_no_buffer;
  counts->dropped = dropped_count;
  finished_callbacks = callbacks, finished_no_buffer = no_buffer, dropped_count = 0;
}

/* ---- States */

static void on_call(void* user, uint32_t domain, uint32_t cbid, const void* data) {
  (void)user, (void)domain, (void)cbid;
  /* As much as a recorder needs: the time, and the correlation ID of CUpti_CallbackData. */
  uint32_t correlation;
  memcpy(&correlation, (const char*)data + 64, sizeof(correlation));
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  callback_sum = (uint64_t)at.tv_nsec + correlation;
  ++callback_count;
}

static const char* const kCallbackNames[] = {
    "cudaLaunchKernel_v7000", "cudaLaunchKernelExC_v11060",
    "cudaMemcpyAsync_v3020",  "cudaMemcpy_v3020",
    "cudaMemsetAsync_v3020",  "cudaGraphLaunch_v10000",
    "cuLaunchKernel",         "cuLaunchKernelEx",
    "cuMemcpyHtoDAsync_v2",   "cuMemcpyDtoHAsync_v2",
    "cuMemsetD32Async",       "cuMemsetD8Async",
    "cuMemcpyAsync",          "cuGraphLaunch",
};

static int wants_callback(const char* name) {
  for (size_t i = 0; i < sizeof(kCallbackNames) / sizeof(*kCallbackNames); ++i) {
    if (strcmp(name, kCallbackNames[i]) == 0) return 1;
  }
  return 0;
}

static int is_noise(const char* name) {
  static const char* const kKept[] = {"Launch", "Memcpy",   "Memset", "Synchronize",
                                      "Malloc", "MemAlloc", "Free"};
  for (size_t i = 0; i < sizeof(kKept) / sizeof(*kKept); ++i) {
    if (strstr(name, kKept[i])) return 0;
  }
  return 1;
}

static void quiet(uint32_t domain) {
  int (*function)(uint32_t, uint8_t) =
      domain == kRuntimeDomain ? f.ActivityEnableRuntimeApi : f.ActivityEnableDriverApi;
  for (uint32_t cbid = 1; function && cbid < kMaxCbid; ++cbid) {
    const char* name = NULL;
    if (f.GetCallbackName(domain, cbid, &name) != 0 || !name || !is_noise(name)) continue;
    quiet_count += function(cbid, 0) == 0;
  }
}

static int switch_callbacks(int on) {
  int failure = 0;
  for (uint32_t domain = kDriverDomain; domain <= kRuntimeDomain; ++domain) {
    for (uint32_t cbid = 1; cbid < kMaxCbid; ++cbid) {
      const char* name = NULL;
      if (f.GetCallbackName(domain, cbid, &name) != 0 || !name || !wants_callback(name)) continue;
      const int result = f.EnableCallback((uint32_t)on, subscriber, domain, cbid);
      if (result && !failure) failure = result;
    }
  }
  has_callbacks = on;
  return failure;
}

enum { kSubscribed = 1, kQuiet = 2, kCallbacks = 4, kFinalized = 8 };
static const struct {
  const char* name;
  unsigned flags;
  uint32_t kinds[8]; /* In the order in which they go on. */
} kStates[] = {
    {"subscribed", kSubscribed, {0}},
    {"kernel", kSubscribed, {kKernel}},
    {"kernel_callbacks", kSubscribed | kCallbacks, {kKernel}},
    {"runtime", kSubscribed, {kRuntime, kKernel}},
    {"runtime_quiet", kSubscribed | kQuiet, {kRuntime, kKernel}},
    {"driver", kSubscribed | kQuiet, {kRuntime, kDriver, kKernel}},
    {"default",
     kSubscribed | kQuiet,
     {kRuntime, kDriver, kSync, kOverhead, kMemcpy, kMemset, kKernel}},
    {"off", kSubscribed, {0}},
    {"unsubscribed", 0, {0}},
    {"kernel_alone", 0, {kKernel}},
    {"default_alone", kQuiet, {kRuntime, kDriver, kSync, kOverhead, kMemcpy, kMemset, kKernel}},
    {"finalized", kFinalized, {0}},
};

static int note(int result, int* failure) {
  if (result && !*failure) *failure = result;
  return result;
}

static void leave(void) {
  if (enabled) f.ActivityFlushAll(0);
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    if (enabled >> kind & 1) f.ActivityDisable(kind);
  }
  if (enabled) {
    f.ActivityFlushAll(1);
    size_t dropped = 0;
    if (f.ActivityGetNumDroppedRecords(NULL, 0, &dropped) == 0) dropped_count += dropped;
  }
  enabled = 0;
  if (has_callbacks) switch_callbacks(0);
}

int cs_enter(const char* state) {
  if (strcmp(state, "none") == 0) return 0;
  for (size_t i = 0; i < sizeof(kStates) / sizeof(*kStates); ++i) {
    if (strcmp(kStates[i].name, state) != 0) continue;
    const unsigned flags = kStates[i].flags;
    int failure = 0;
    leave();
    if (!(flags & kSubscribed) && subscriber) {
      note(f.Unsubscribe(subscriber), &failure);
      subscriber = NULL;
    }
    if (flags & kFinalized) {
      is_registered = 0;
      note(f.Finalize(), &failure);
      return failure;
    }
    if ((flags & kSubscribed) && !subscriber)
      note(f.Subscribe(&subscriber, on_call, NULL), &failure);
    if (!is_registered && kStates[i].kinds[0]) {
      size_t bytes = 1;
      uint8_t zeroed = 1;
      if (f.ActivitySetAttribute) f.ActivitySetAttribute(5, &bytes, &zeroed);
      is_registered =
          note(f.ActivityRegisterCallbacks(on_cs_request, on_cs_complete), &failure) == 0;
    }
    quiet_count = 0;
    for (size_t k = 0; k < 8 && kStates[i].kinds[k]; ++k) {
      const uint32_t kind = kStates[i].kinds[k];
      if (note(f.ActivityEnable(kind), &failure) == 0) enabled |= UINT64_C(1) << kind;
      if (!(flags & kQuiet)) continue;
      /* After the kind, which turns all on. */
      if (kind == kRuntime) quiet(kRuntimeDomain);
      if (kind == kDriver) quiet(kDriverDomain);
    }
    if (flags & kCallbacks) note(switch_callbacks(1), &failure);
    return failure;
  }
  return -1;
}

unsigned cs_quiet_count(void) { return quiet_count; }

int cs_set_attribute(unsigned id, unsigned bytes, uint64_t value) {
  size_t size = bytes;
  return f.ActivitySetAttribute ? f.ActivitySetAttribute(id, &size, &value) : kAbsent;
}

int cs_open(const char* path, unsigned buffer_kib) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return -1;
  resolve(library, &f);
  if (!f.Subscribe || !f.ActivityEnable || !f.ActivityGetNextRecord || !f.GetCallbackName ||
      !f.EnableCallback || !f.Finalize) {
    return -1;
  }
  buffer_bytes = (size_t)buffer_kib << 10;
  for (int i = 0; i < kReady; ++i) {
    buffer* added = add_buffer();
    if (!added) return -1;
    added->next = ready;
    ready = added;
  }
  return 0;
}
