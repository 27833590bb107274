#define _GNU_SOURCE
#include "gpu_work.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* kernels.ptx, as a string. */
__asm__(
    ".section .rodata\n"
    "gw_ptx: .incbin \"" GW_PTX_FILE
    "\"\n"
    ".byte 0\n"
    ".previous\n");
extern const char gw_ptx[];

enum { kBytes = 1 << 20, kNotSupported = 801 };
typedef void* handle;

/* The driver's functions: names and types as in cuda.h. */
#define GW_DRIVER(X)                                                                               \
  X(Init, "cuInit", (unsigned))                                                                    \
  X(DriverGetVersion, "cuDriverGetVersion", (int*))                                                \
  X(DeviceGet, "cuDeviceGet", (int*, int))                                                         \
  X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (handle*, int))                                  \
  X(CtxSetCurrent, "cuCtxSetCurrent", (handle))                                                    \
  X(CtxGetCurrent, "cuCtxGetCurrent", (handle*))                                                   \
  X(ModuleLoadData, "cuModuleLoadData", (handle*, const void*))                                    \
  X(ModuleGetFunction, "cuModuleGetFunction", (handle*, handle, const char*))                      \
  X(MemAlloc, "cuMemAlloc_v2", (uint64_t*, size_t))                                                \
  X(MemAllocHost, "cuMemAllocHost_v2", (void**, size_t))                                           \
  X(MemGetInfo, "cuMemGetInfo_v2", (size_t*, size_t*))                                             \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (uint64_t, const void*, size_t, handle))              \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, uint64_t, size_t, handle))                    \
  X(MemsetD32Async, "cuMemsetD32Async", (uint64_t, unsigned, size_t, handle))                      \
  X(StreamCreate, "cuStreamCreate", (handle*, unsigned))                                           \
  X(StreamSynchronize, "cuStreamSynchronize", (handle))                                            \
  X(EventCreate, "cuEventCreate", (handle*, unsigned))                                             \
  X(EventRecord, "cuEventRecord", (handle, handle))                                                \
  X(EventQuery, "cuEventQuery", (handle))                                                          \
  X(EventSynchronize, "cuEventSynchronize", (handle))                                              \
  X(LaunchKernel, "cuLaunchKernel",                                                                \
    (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void**, \
     void**))                                                                                      \
  X(StreamBeginCapture, "cuStreamBeginCapture_v2", (handle, unsigned))                             \
  X(StreamEndCapture, "cuStreamEndCapture", (handle, handle*))                                     \
  X(GraphInstantiate, "cuGraphInstantiateWithFlags", (handle*, handle, uint64_t))                  \
  X(GraphLaunch, "cuGraphLaunch", (handle, handle))

typedef struct {
  uint32_t x, y, z;
} dim3;

/* The stand-in's: tests/cupti_standin/sgpu.h. */
#define GW_STANDIN(X)                                                          \
  X(init, (const void*))                                                       \
  X(default_stream, (uint32_t, uint32_t*))                                     \
  X(stream_create, (uint32_t, int32_t, uint32_t, uint32_t*))                   \
  X(launch, (uint32_t, const char*, dim3, dim3, uint64_t, uint64_t, uint32_t)) \
  X(memcpy, (uint32_t, uint32_t, uint64_t, int, int))                          \
  X(memset, (uint32_t, uint32_t, uint64_t, int))                               \
  X(stream_sync, (uint32_t))                                                   \
  X(event_record, (uint32_t, uint32_t*))                                       \
  X(event_query, (uint32_t))                                                   \
  X(event_sync, (uint32_t))                                                    \
  X(graph_begin, (uint32_t))                                                   \
  X(graph_end, (uint32_t, uint32_t*))                                          \
  X(graph_instantiate, (uint32_t, uint32_t*))                                  \
  X(graph_launch, (uint32_t, uint32_t, uint64_t))                              \
  X(api_call, (uint32_t, uint32_t, uint64_t, uint32_t))

#define GW_POINTER(name, symbol, arguments) int(*name) arguments;
static struct { GW_DRIVER(GW_POINTER) } cu;
#undef GW_POINTER
#define GW_POINTER(name, arguments) int(*name) arguments;
static struct { GW_STANDIN(GW_POINTER) } sgpu;
#undef GW_POINTER

static int is_standin;
static handle context, spin, saxpy, stamp;
static uint64_t device_x, device_y;
static float* host;
static gw_stream streams[2];
static const float kFactor = 1;

#define GW_TRY(call)                 \
  do {                               \
    const int gw_result = (call);    \
    if (gw_result) return gw_result; \
  } while (0)

static int find(void* library, const char* name, void* function, char* why, size_t bytes) {
  void* found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
  if (!found) snprintf(why, bytes, "no %s", name);
  return found != NULL;
}

int gw_load(void* cupti, char* why, size_t bytes) {
  is_standin = cupti && dlsym(cupti, "sgpu_init");
  if (is_standin) {
#define GW_FIND(name, arguments) \
  if (!find(cupti, "sgpu_" #name, &sgpu.name, why, bytes)) return -1;
    GW_STANDIN(GW_FIND)
#undef GW_FIND
    return 0;
  }
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    snprintf(why, bytes, "no NVIDIA driver: %s", dlerror());
    return -1;
  }
#define GW_FIND(name, symbol, arguments) \
  if (!find(library, symbol, &cu.name, why, bytes)) return -1;
  GW_DRIVER(GW_FIND)
#undef GW_FIND
  return 0;
}

int gw_is_standin(void) { return is_standin; }

int gw_init(void) { return is_standin ? sgpu.init(NULL) : cu.Init(0); }

int gw_start(void) {
  if (is_standin) {
    for (int i = 0; i < 2; ++i) {
      uint32_t stream = 0;
      GW_TRY(sgpu.stream_create(1, 0, 0, &stream));
      streams[i] = stream;
    }
    return 0;
  }
  int device = 0;
  GW_TRY(cu.DeviceGet(&device, 0));
  GW_TRY(cu.PrimaryCtxRetain(&context, device));
  GW_TRY(cu.CtxSetCurrent(context));
  handle module = NULL;
  GW_TRY(cu.ModuleLoadData(&module, gw_ptx));
  GW_TRY(cu.ModuleGetFunction(&spin, module, "profd_spin"));
  GW_TRY(cu.ModuleGetFunction(&saxpy, module, "profd_saxpy"));
  GW_TRY(cu.ModuleGetFunction(&stamp, module, "profd_stamp"));
  GW_TRY(cu.MemAlloc(&device_x, kBytes));
  GW_TRY(cu.MemAlloc(&device_y, kBytes));
  void* memory = NULL;
  GW_TRY(cu.MemAllocHost(&memory, kBytes));
  host = memory;
  for (int i = 0; i < kBytes / 4; ++i) host[i] = 1;
  for (int i = 0; i < 2; ++i) {
    handle stream = NULL;
    GW_TRY(cu.StreamCreate(&stream, 1 /* not blocking */));
    streams[i] = (gw_stream)stream;
  }
  GW_TRY(cu.MemcpyHtoDAsync(device_x, host, kBytes, (handle)streams[0]));
  GW_TRY(cu.MemsetD32Async(device_y, 0, kBytes / 4, (handle)streams[0]));
  return cu.StreamSynchronize((handle)streams[0]);
}

int gw_driver_version(void) {
  int version = 0;
  if (is_standin) return 0;
  cu.DriverGetVersion(&version);
  return version;
}

gw_stream gw_stream_of(int which) { return streams[which & 1]; }

static int launch_saxpy(gw_stream stream) {
  unsigned count = 1;
  float factor = kFactor;
  void* arguments[] = {&device_x, &device_y, &factor, &count};
  return cu.LaunchKernel(saxpy, 1, 1, 1, 32, 1, 1, 0, (handle)stream, arguments, NULL);
}

int gw_launch(gw_stream stream, uint64_t ns) {
  if (is_standin) {
    const dim3 one = {1, 1, 1}, block = {32, 1, 1};
    return sgpu.launch((uint32_t)stream, ns ? "profd_spin" : "profd_saxpy", one, block,
                       ns ? ns : 1000, 0, 0);
  }
  if (ns == 0) return launch_saxpy(stream);
  void* arguments[] = {&ns};
  return cu.LaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, (handle)stream, arguments, NULL);
}

int gw_call(void) {
  handle current = NULL;
  return is_standin ? sgpu.api_call(1 /* driver */, 304, 0, 0) : cu.CtxGetCurrent(&current);
}

int gw_copy(gw_stream stream) {
  if (is_standin) return sgpu.memcpy((uint32_t)stream, 1, kBytes, 1, 1);
  return cu.MemcpyHtoDAsync(device_x, host, kBytes, (handle)stream);
}

int gw_memset(gw_stream stream) {
  if (is_standin) return sgpu.memset((uint32_t)stream, 0, kBytes / 4, 1);
  /* Not of the first value, which gw_result_is() looks at. */
  return cu.MemsetD32Async(device_y + 256, 0, kBytes / 8, (handle)stream);
}

int gw_sync(gw_stream stream) {
  return is_standin ? sgpu.stream_sync((uint32_t)stream) : cu.StreamSynchronize((handle)stream);
}

int gw_event_record(gw_stream stream, gw_event* event) {
  if (is_standin) {
    uint32_t made = (uint32_t)*event;
    GW_TRY(sgpu.event_record((uint32_t)stream, &made));
    *event = made;
    return 0;
  }
  if (*event == 0) {
    handle made = NULL;
    GW_TRY(cu.EventCreate(&made, 2 /* no timing */));
    *event = (gw_event)made;
  }
  return cu.EventRecord((handle)*event, (handle)stream);
}

int gw_event_query(gw_event event) {
  return is_standin ? sgpu.event_query((uint32_t)event) : cu.EventQuery((handle)event);
}

int gw_event_sync(gw_event event) {
  return is_standin ? sgpu.event_sync((uint32_t)event) : cu.EventSynchronize((handle)event);
}

int gw_capture_begin(int mode) {
  return is_standin ? sgpu.graph_begin((uint32_t)streams[1])
                    : cu.StreamBeginCapture((handle)streams[1], (unsigned)mode);
}

static handle captured;
static uint32_t captured_standin;

int gw_capture_end(void) {
  return is_standin ? sgpu.graph_end((uint32_t)streams[1], &captured_standin)
                    : cu.StreamEndCapture((handle)streams[1], &captured);
}

int gw_graph_make(int copies, uint64_t ns, gw_graph* exec) {
  GW_TRY(gw_capture_begin(2 /* relaxed */));
  for (int i = 0; i < GW_GRAPH_KERNELS; ++i) GW_TRY(gw_launch(streams[1], ns));
  if (copies) {
    GW_TRY(gw_copy(streams[1]));
    GW_TRY(gw_memset(streams[1]));
  }
  GW_TRY(gw_capture_end());
  if (is_standin) {
    uint32_t made = 0;
    GW_TRY(sgpu.graph_instantiate(captured_standin, &made));
    *exec = made;
    return 0;
  }
  handle made = NULL;
  GW_TRY(cu.GraphInstantiate(&made, captured, 0));
  *exec = (gw_graph)made;
  return 0;
}

int gw_graph_launch(gw_graph exec, gw_stream stream) {
  return is_standin ? sgpu.graph_launch((uint32_t)exec, (uint32_t)stream, 0)
                    : cu.GraphLaunch((handle)exec, (handle)stream);
}

int gw_result_is(uint64_t expected) {
  if (is_standin) return -1;
  float value = -1;
  if (cu.MemcpyDtoHAsync(&value, device_y, sizeof(value), (handle)streams[0]) != 0 ||
      cu.StreamSynchronize((handle)streams[0]) != 0) {
    return 0;
  }
  return value == (float)expected * kFactor;
}

int gw_free_bytes(uint64_t* free_bytes) {
  size_t available = 0, total = 0;
  *free_bytes = 0;
  if (is_standin) return kNotSupported;
  GW_TRY(cu.MemGetInfo(&available, &total));
  *free_bytes = available;
  return 0;
}

int gw_stamp(uint64_t* gpu_timer_ns, uint64_t* seen_ns) {
  if (is_standin) return kNotSupported;
  /* Page-locked memory has the same address on the device (unified addressing). */
  volatile uint64_t* out = (volatile uint64_t*)((char*)host + 4096);
  out[1] = 0;
  uint64_t address = (uint64_t)out;
  void* arguments[] = {&address};
  GW_TRY(cu.LaunchKernel(stamp, 1, 1, 1, 1, 1, 1, 0, (handle)streams[0], arguments, NULL));
  const uint64_t deadline = gw_now_ns(CLOCK_MONOTONIC) + 1000000000u;
  while (out[1] == 0 && gw_now_ns(CLOCK_MONOTONIC) < deadline) {
  }
  *seen_ns = gw_now_ns(CLOCK_REALTIME);
  *gpu_timer_ns = out[0];
  return out[1] == 0 ? 702 /* launch timeout */ : cu.StreamSynchronize((handle)streams[0]);
}

const char* gw_kernels(void) { return gw_ptx; }

uint64_t gw_now_ns(int clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
