// The functions of sgpu.h.
#include "tests/cupti_standin/sgpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/cupti_standin/api_call.h"
#include "tests/cupti_standin/api_ids.h"
#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/entry.h"
#include "tests/cupti_standin/gpu.h"
#include "tests/cupti_standin/names.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/shared_rival.h"
#include "tests/cupti_standin/subscriber.h"
#include "tests/cupti_standin/tracer.h"
#include "tests/cupti_standin/versions.h"
#include "tests/cupti_standin/work.h"

namespace sgpu {
namespace {

constexpr uint32_t kInterfaceVersion = 1;
constexpr int kInvalid = CUPTI_ERROR_INVALID_PARAMETER;

// CUpti_ActivityMemoryKind.
constexpr uint8_t kPageable = 1;
constexpr uint8_t kPinned = 2;
constexpr uint8_t kDeviceMemory = 3;
constexpr uint8_t kPeerToPeer = 10;  // CUpti_ActivityMemcpyKind.

constexpr uint64_t kLinkBytesPerUs = 25'000;
constexpr uint64_t kDeviceBytesPerUs = 1'000'000;
constexpr uint64_t kDecompressBytesPerUs = 100'000;
constexpr uint64_t kLeastCopyNs = 1000;
constexpr uint64_t kWholePool = UINT64_MAX;

uint64_t CopyTime(uint64_t bytes, uint64_t bytes_per_us) {
  return kLeastCopyNs + bytes * 1000 / bytes_per_us;
}

// The driver that the process has; else ours, from this library's folder or the one above.
void* OpenDriver() {
  constexpr char kName[] = "libcuda.so.1";
  if (void* const there = dlopen(kName, RTLD_NOW | RTLD_NOLOAD); there != nullptr) return there;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&OpenDriver), &self) == 0) return nullptr;
  std::string folder = self.dli_fname;
  for (int level = 0; level < 2; ++level) {
    const size_t slash = folder.rfind('/');
    folder = slash == std::string::npos ? "." : folder.substr(0, slash);
    if (void* const ours = dlopen((folder + "/" + kName).c_str(), RTLD_NOW); ours != nullptr) {
      return ours;
    }
  }
  return nullptr;
}

bool InitializeDriver() {
  void* const driver = OpenDriver();
  if (driver == nullptr) {
    std::fprintf(stderr, "sgpu: no libcuda.so.1 in the process or next to the stand-in\n");
    return false;
  }
  auto* const initialize = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  // What a real driver without a device answers does not matter: the devices are ours.
  if (initialize != nullptr) initialize(0);
  return initialize != nullptr;
}

// Waits for `end` on behalf of `call`, and records that it waited.
int Synchronize(ApiCall& call, uint64_t end, SyncType type, const SynchronizationRecord& where,
                uint32_t device) {
  Clock::WaitUntil(end);
  SynchronizationRecord record = where;
  record.kind = kSynchronization;
  record.type = type;
  record.start = Clock::Stamp(call.began());
  record.end = Clock::Stamp(std::max(Clock::Now(), call.began()));
  record.correlation = call.correlation();
  sgpu_truth_rec happened = call.TruthOf(kSynchronization);
  happened.start_ns = record.start;
  happened.end_ns = record.end;
  happened.device = device;
  happened.context = record.context;
  happened.stream = record.stream;
  happened.address = type;
  call.RecordNow(kSynchronization, record, happened);
  return call.Finish(0);
}

void RecordMemory(ApiCall& call, uint32_t operation, const Allocation& memory,
                  const StreamInfo& stream, const Pool* pool) {
  MemoryRecord record{};
  record.kind = kMemory;
  record.operation = operation;
  record.memory_kind = kDeviceMemory;
  record.correlation = call.correlation();
  record.address = memory.address;
  record.bytes = memory.bytes;
  record.timestamp = Clock::Stamp(Clock::Now());
  record.process = 0;
  record.device = memory.device;
  record.context = memory.context;
  record.stream = memory.is_async ? stream.id : kNoStream;
  record.is_async = memory.is_async ? 1 : 0;
  if (pool != nullptr) {
    record.pool_type = 1;  // CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL
    record.pool_address = pool->address;
    record.pool_size = pool->size;
    record.pool_utilized = pool->utilized;
  }
  sgpu_truth_rec happened = call.TruthOf(kMemory);
  happened.start_ns = happened.end_ns = record.timestamp;
  happened.device = memory.device;
  happened.context = memory.context;
  happened.stream = record.stream;
  happened.bytes = memory.bytes;
  happened.address = memory.address;
  happened.copy_kind = operation;
  call.RecordNow(kMemory, record, happened);
}

void RecordPool(ApiCall& call, uint32_t operation, const Pool& pool, uint32_t device,
                uint64_t min_bytes_to_keep) {
  MemoryPoolRecord record{};
  record.kind = kMemoryPool;
  record.operation = operation;
  record.pool_type = 1;
  record.correlation = call.correlation();
  record.device = device;
  record.min_bytes_to_keep = min_bytes_to_keep;
  record.address = pool.address;
  record.size = pool.size;
  record.timestamp = Clock::Stamp(Clock::Now());
  record.utilized = pool.utilized;
  sgpu_truth_rec happened = call.TruthOf(kMemoryPool);
  happened.start_ns = happened.end_ns = record.timestamp;
  happened.device = device;
  happened.address = pool.address;
  happened.bytes = pool.size;
  happened.copy_kind = operation;
  call.RecordNow(kMemoryPool, record, happened);
}

CUpti_SubscriberHandle rival_handle = nullptr;

void RivalCallback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

int SubmitAndWait(ApiCall& call, uint32_t stream, const Work& work) {
  if (const int error = call.Submit(stream, work); error != 0) return error;
  if (!work.is_async) Clock::WaitUntil(gpu().StreamEnd(stream).value_or(0));
  return call.Finish(0);
}

// How long a call takes that allocates or frees without a pool.
uint64_t AllocationNs(bool async) {
  const int64_t us = settings().allocation_us;
  return async || us < 0 ? 0 : static_cast<uint64_t>(us) * 1000;
}

}  // namespace
}  // namespace sgpu

using sgpu::ApiCall;
using sgpu::Clock;
using sgpu::gpu;
using sgpu::kInvalid;
using sgpu::tracer;
using sgpu::Work;

extern "C" {

uint32_t sgpu_version() { return sgpu::kInterfaceVersion; }

// --- Life cycle ----------------------------------------------------------------------------

int sgpu_init(const sgpu_opts* options) {
  sgpu_opts chosen{};
  if (options != nullptr) {
    if (options->size == 0 || options->size > sizeof(chosen)) return kInvalid;
    std::memcpy(&chosen, options, options->size);
  }
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  if (gpu().is_initialized()) return CUPTI_SUCCESS;
  if (!sgpu::InitializeDriver()) return CUPTI_ERROR_NOT_INITIALIZED;
  return gpu().Init(chosen) ? CUPTI_SUCCESS : kInvalid;
}

void sgpu_shutdown() {
  if (sgpu::Forked() || !gpu().is_initialized()) return;
  sgpu_settle();
  gpu().Shutdown();
  sgpu::subscriber().Reset();
  sgpu::Entry::ForgetCalls();
  tracer().Reset();
  sgpu::truth().Clear();
  sgpu::ResetSettings();
  Clock::ForgetSteps();
  Clock::SetVirtual(false);
}

// --- Contexts and streams ------------------------------------------------------------------

int sgpu_ctx_create(uint32_t device, uint32_t* context) {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  const auto made = gpu().CreateContext(device);
  if (!made || context == nullptr) return kInvalid;
  *context = made->id;
  if (tracer().IsOn(sgpu::kContext)) tracer().DumpContext(*made);
  return CUPTI_SUCCESS;
}

int sgpu_default_stream(uint32_t context, uint32_t* stream) {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  const auto info = gpu().Context(context);
  if (!info || stream == nullptr) return kInvalid;
  *stream = info->default_stream;
  return CUPTI_SUCCESS;
}

int sgpu_stream_create(uint32_t context, int32_t priority, uint32_t flags, uint32_t* stream) {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  const auto made = gpu().CreateStream(context, priority, flags);
  if (!made || stream == nullptr) return kInvalid;
  *stream = made->handle;
  if (tracer().IsOn(sgpu::kStream)) tracer().DumpStream(*made);
  return CUPTI_SUCCESS;
}

int sgpu_stream_id(uint32_t stream, uint32_t* context, uint32_t* cupti_stream_id) {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  const auto info = gpu().Stream(stream);
  if (!info) return kInvalid;
  if (context != nullptr) *context = info->context;
  if (cupti_stream_id != nullptr) *cupti_stream_id = info->id;
  return CUPTI_SUCCESS;
}

// --- Work ----------------------------------------------------------------------------------

int sgpu_launch(uint32_t stream, const char* kernel, sgpu_dim3 grid, sgpu_dim3 block,
                uint64_t device_ns, uint64_t api_ns, uint32_t cbid) {
  if (kernel == nullptr) return kInvalid;
  const uint32_t domain = (cbid & SGPU_DRIVER_CBID) != 0 ? SGPU_DOMAIN_DRIVER : SGPU_DOMAIN_RUNTIME;
  ApiCall call(domain, cbid == 0 ? sgpu::kCudaLaunchKernel : cbid & ~SGPU_DRIVER_CBID);
  if (call.error() != 0) return call.error();
  auto& unsettled = sgpu::settings().unsettled_ns;
  if (unsettled.load(std::memory_order_relaxed) != 0) unsettled = 0;
  Work work;
  work.kind = sgpu::kKernel;
  work.function = sgpu::FindFunction(kernel, call.thread().names);
  work.grid = grid;
  work.block = block;
  work.duration_ns = device_ns;
  if (const int error = call.Submit(stream, work); error != 0) return error;
  std::atomic<uint64_t>& launches = call.thread().launches;
  launches.store(launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return call.Finish(api_ns);
}

int sgpu_kernel_attributes(const char* kernel, uint32_t registers_per_thread,
                           uint32_t static_shared_bytes, uint32_t dynamic_shared_bytes,
                           uint32_t local_bytes_per_thread) {
  if (kernel == nullptr) return kInvalid;
  sgpu::Function* const function = sgpu::FindFunction(kernel, sgpu::ThisThread().names);
  function->registers = registers_per_thread;
  function->static_shared = static_shared_bytes;
  function->dynamic_shared = dynamic_shared_bytes;
  function->local = local_bytes_per_thread;
  return CUPTI_SUCCESS;
}

int sgpu_memcpy(uint32_t stream, uint32_t copy_kind, uint64_t bytes, int async, int pinned) {
  Work work;
  work.kind = sgpu::kMemcpy;
  work.copy_kind = static_cast<uint8_t>(copy_kind);
  const uint8_t host = pinned != 0 ? sgpu::kPinned : sgpu::kPageable;
  switch (copy_kind) {
    case SGPU_HTOD:
      work.source_kind = host;
      work.destination_kind = sgpu::kDeviceMemory;
      break;
    case SGPU_DTOH:
      work.source_kind = sgpu::kDeviceMemory;
      work.destination_kind = host;
      break;
    case SGPU_DTOD:
      work.source_kind = work.destination_kind = sgpu::kDeviceMemory;
      break;
    case SGPU_HTOH:
      work.source_kind = work.destination_kind = host;
      break;
    default:
      return kInvalid;
  }
  work.bytes = bytes;
  work.is_async = async != 0;
  work.duration_ns = sgpu::CopyTime(
      bytes, copy_kind == SGPU_DTOD ? sgpu::kDeviceBytesPerUs : sgpu::kLinkBytesPerUs);
  ApiCall call(SGPU_DOMAIN_RUNTIME, async != 0 ? sgpu::kCudaMemcpyAsync : sgpu::kCudaMemcpy);
  if (call.error() != 0) return call.error();
  return sgpu::SubmitAndWait(call, stream, work);
}

int sgpu_memset(uint32_t stream, uint32_t value, uint64_t bytes, int async) {
  Work work;
  work.kind = sgpu::kMemset;
  work.value = value;
  work.bytes = bytes;
  work.destination_kind = sgpu::kDeviceMemory;
  work.is_async = async != 0;
  work.duration_ns = sgpu::CopyTime(bytes, sgpu::kDeviceBytesPerUs);
  ApiCall call(SGPU_DOMAIN_RUNTIME, async != 0 ? sgpu::kCudaMemsetAsync : sgpu::kCudaMemset);
  if (call.error() != 0) return call.error();
  return sgpu::SubmitAndWait(call, stream, work);
}

int sgpu_memcpy_peer(uint32_t stream, uint32_t source_device, uint32_t destination_device,
                     uint64_t bytes) {
  if (std::max(source_device, destination_device) >= gpu().device_count()) return kInvalid;
  Work work;
  work.kind = sgpu::kPeerCopy;
  work.copy_kind = sgpu::kPeerToPeer;
  work.source_kind = work.destination_kind = sgpu::kDeviceMemory;
  work.source_device = source_device;
  work.destination_device = destination_device;
  work.bytes = bytes;
  work.is_async = true;
  work.duration_ns = sgpu::CopyTime(bytes, sgpu::kLinkBytesPerUs);
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaMemcpyPeerAsync);
  if (call.error() != 0) return call.error();
  return sgpu::SubmitAndWait(call, stream, work);
}

int sgpu_mem_decompress(uint32_t stream, uint32_t operations, uint64_t bytes) {
  Work work;
  work.kind = sgpu::kMemDecompress;
  work.operations = operations;
  work.bytes = bytes;
  work.is_async = true;
  work.duration_ns = sgpu::CopyTime(bytes, sgpu::kDecompressBytesPerUs);
  ApiCall call(SGPU_DOMAIN_DRIVER, sgpu::kCuMemBatchDecompressAsync);
  if (call.error() != 0) return call.error();
  return sgpu::SubmitAndWait(call, stream, work);
}

int sgpu_host_function(uint32_t stream, uint64_t host_ns) {
  Work work;
  work.kind = sgpu::kHostLaunch;
  work.is_async = true;
  work.duration_ns = host_ns;
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaLaunchHostFunc);
  if (call.error() != 0) return call.error();
  return sgpu::SubmitAndWait(call, stream, work);
}

int sgpu_malloc(uint32_t stream, uint64_t bytes, int async, uint64_t* address) {
  if (address == nullptr) return kInvalid;
  ApiCall call(SGPU_DOMAIN_RUNTIME, async != 0 ? sgpu::kCudaMallocAsync : sgpu::kCudaMalloc);
  if (call.error() != 0) return call.error();
  const auto memory = gpu().Allocate(stream, bytes, async != 0);
  if (!memory) return kInvalid;
  const auto info = gpu().Stream(stream);
  if (async != 0) {
    const auto pool = gpu().PoolOf(stream, static_cast<int64_t>(bytes), sgpu::kWholePool);
    if (pool->is_new) sgpu::RecordPool(call, 1, *pool, info->device, 0);
    sgpu::RecordMemory(call, 1, *memory, *info, &*pool);
  } else {
    sgpu::RecordMemory(call, 1, *memory, *info, nullptr);
  }
  *address = memory->address;
  return call.Finish(sgpu::AllocationNs(async != 0));
}

int sgpu_free(uint32_t stream, uint64_t address, int async) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, async != 0 ? sgpu::kCudaFreeAsync : sgpu::kCudaFree);
  if (call.error() != 0) return call.error();
  const auto info = gpu().Stream(stream);
  if (!info) return kInvalid;
  const auto memory = gpu().Free(address);
  if (!memory) return kInvalid;
  if (memory->is_async) {
    const auto pool = gpu().PoolOf(stream, -static_cast<int64_t>(memory->bytes), sgpu::kWholePool);
    sgpu::RecordMemory(call, 2, *memory, *info, &*pool);
  } else {
    sgpu::RecordMemory(call, 2, *memory, *info, nullptr);
  }
  return call.Finish(sgpu::AllocationNs(async != 0));
}

int sgpu_pool_trim(uint32_t stream, uint64_t min_bytes_to_keep) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaMemPoolTrimTo);
  if (call.error() != 0) return call.error();
  const auto pool = gpu().PoolOf(stream, 0, min_bytes_to_keep);
  if (!pool) return kInvalid;
  const uint32_t device = gpu().Stream(stream)->device;
  if (pool->is_new) sgpu::RecordPool(call, 1, *pool, device, 0);
  sgpu::RecordPool(call, 3, *pool, device, min_bytes_to_keep);
  return call.Finish(0);
}

// --- Waiting -------------------------------------------------------------------------------

int sgpu_event_record(uint32_t stream, uint32_t* event) {
  if (event == nullptr) return kInvalid;
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaEventRecord);
  if (call.error() != 0) return call.error();
  const auto made = gpu().RecordEvent(stream, *event, call.began());
  if (!made) return kInvalid;
  *event = made->id;
  sgpu::CudaEventRecord record{};
  record.kind = sgpu::kCudaEvent;
  record.correlation = call.correlation();
  record.context = made->stream.context;
  record.stream = made->stream.id;
  record.event = made->id;
  record.device = made->stream.device;
  if (tracer().event_device_timestamps) record.device_timestamp = Clock::Stamp(made->time_ns);
  record.event_sync = made->sync_id;
  sgpu_truth_rec happened = call.TruthOf(sgpu::kCudaEvent);
  happened.start_ns = happened.end_ns = Clock::Stamp(call.began());
  happened.device = record.device;
  happened.context = record.context;
  happened.stream = record.stream;
  happened.address = record.event;
  call.RecordNow(sgpu::kCudaEvent, record, happened);
  return call.Finish(0);
}

int sgpu_stream_wait_event(uint32_t stream, uint32_t event) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaStreamWaitEvent);
  if (call.error() != 0) return call.error();
  const auto recorded = gpu().Event(event);
  if (!recorded || !gpu().WaitEvent(stream, *recorded)) return kInvalid;
  const auto info = gpu().Stream(stream);
  sgpu::SynchronizationRecord where{};
  where.context = info->context;
  where.stream = info->id;
  where.event = event;
  where.event_sync = recorded->sync_id;
  return sgpu::Synchronize(call, 0, sgpu::kStreamWaitEvent, where, info->device);
}

int sgpu_event_sync(uint32_t event) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaEventSynchronize);
  if (call.error() != 0) return call.error();
  const auto recorded = gpu().Event(event);
  if (!recorded) return kInvalid;
  sgpu::SynchronizationRecord where{};
  where.context = recorded->stream.context;
  where.stream = sgpu::kNoStream;
  where.event = event;
  where.event_sync = recorded->sync_id;
  return sgpu::Synchronize(call, recorded->time_ns, sgpu::kEventSync, where,
                           recorded->stream.device);
}

int sgpu_event_query(uint32_t event) {
  constexpr uint32_t kCudaErrorNotReady = 600;
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaEventQuery);
  if (call.error() != 0) return call.error();
  const auto recorded = gpu().Event(event);
  if (!recorded) return kInvalid;
  const uint64_t now = Clock::Now();
  const uint32_t result = recorded->time_ns <= now ? 0 : kCudaErrorNotReady;
  if (result == 0 || tracer().all_sync_records) {
    sgpu::SynchronizationRecord record{};
    record.kind = sgpu::kSynchronization;
    record.type = sgpu::kEventSync;
    record.start = Clock::Stamp(call.began());
    record.end = Clock::Stamp(std::max(now, call.began()));
    record.correlation = call.correlation();
    record.context = recorded->stream.context;
    record.stream = sgpu::kNoStream;
    record.event = event;
    record.event_sync = recorded->sync_id;
    record.return_value = result;
    call.RecordNow(sgpu::kSynchronization, record, call.TruthOf(sgpu::kSynchronization));
  }
  return call.Finish(0, result);
}

int sgpu_stream_sync(uint32_t stream) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaStreamSynchronize);
  if (call.error() != 0) return call.error();
  const auto info = gpu().Stream(stream);
  if (!info) return kInvalid;
  sgpu::SynchronizationRecord where{};
  where.context = info->context;
  where.stream = info->id;
  where.event = sgpu::kNoEvent;
  return sgpu::Synchronize(call, gpu().StreamEnd(stream).value_or(0), sgpu::kStreamSync, where,
                           info->device);
}

int sgpu_device_sync(uint32_t context) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaDeviceSynchronize);
  if (call.error() != 0) return call.error();
  const auto info = gpu().Context(context);
  if (!info) return kInvalid;
  sgpu::SynchronizationRecord where{};
  where.context = context;
  where.stream = sgpu::kNoStream;
  where.event = sgpu::kNoEvent;
  return sgpu::Synchronize(call, gpu().ContextEnd(context).value_or(0), sgpu::kContextSync, where,
                           info->device);
}

// --- Graphs --------------------------------------------------------------------------------

int sgpu_graph_begin(uint32_t stream) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaStreamBeginCapture);
  if (call.error() != 0) return call.error();
  if (!gpu().BeginCapture(stream)) return kInvalid;
  return call.Finish(0);
}

int sgpu_graph_end(uint32_t stream, uint32_t* graph) {
  if (graph == nullptr) return kInvalid;
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaStreamEndCapture);
  if (call.error() != 0) return call.error();
  const auto made = gpu().EndCapture(stream);
  if (!made) return kInvalid;
  *graph = *made;
  return call.Finish(0);
}

int sgpu_graph_instantiate(uint32_t graph, uint32_t* exec) {
  if (exec == nullptr) return kInvalid;
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaGraphInstantiate);
  if (call.error() != 0) return call.error();
  const bool is_unwatched = tracer().RecordedAs(sgpu::kKernel) == 0;
  const auto made =
      gpu().Instantiate({.graph = graph,
                         .is_unwatched = is_unwatched,
                         .is_opaque = is_unwatched && sgpu::settings().opaque_graphs != 0,
                         .is_graph_traced = tracer().IsOn(sgpu::kGraphTrace),
                         .graph_trace_number = tracer().graph_trace_number()});
  if (!made) return kInvalid;
  *exec = *made;
  return call.Finish(0);
}

int sgpu_graph_launch(uint32_t exec, uint32_t stream, uint64_t api_ns) {
  ApiCall call(SGPU_DOMAIN_RUNTIME, sgpu::kCudaGraphLaunch);
  if (call.error() != 0) return call.error();
  auto nodes = gpu().LaunchGraph(exec, stream, call.began());
  if (!nodes) return kInvalid;
  // GRAPH_TRACE was turned on after the graph was made. Turning it off again changes nothing.
  const auto made = gpu().FindExec(exec);
  const bool is_broken =
      !made->is_graph_traced && made->graph_trace_number != tracer().graph_trace_number();
  if (is_broken && !sgpu::VersionIsAtLeast(sgpu::kCuptiFuture)) {
    std::fprintf(stderr, "sgpu: launch of a graph that is older than GRAPH_TRACE\n");
    std::abort();
  }
  if (is_broken) {
    for (sgpu::Op& node : *nodes) call.SubmitUnrecorded(node);
  } else if (tracer().IsOn(sgpu::kGraphTrace) && !nodes->empty()) {
    // One record for all: it says nothing of the nodes, and they have none of their own.
    sgpu::Op whole = nodes->front();
    whole.work = Work{};
    whole.work.kind = sgpu::kGraphTrace;
    whole.graph_node = 0;
    whole.end = nodes->back().end;
    whole.recorded_end = nodes->back().recorded_end;
    call.Submit(whole);
  } else {
    for (sgpu::Op& node : *nodes) call.Submit(node);
  }
  return call.Finish(api_ns);
}

// --- The rest ------------------------------------------------------------------------------

int sgpu_api_call(uint32_t domain, uint32_t cbid, uint64_t api_ns, uint32_t return_value) {
  if ((domain != SGPU_DOMAIN_DRIVER && domain != SGPU_DOMAIN_RUNTIME) ||
      cbid >= sgpu::kCallbackIds) {
    return kInvalid;
  }
  ApiCall call(domain, cbid);
  if (call.error() != 0) return call.error();
  call.Finish(api_ns, return_value);
  return CUPTI_SUCCESS;
}

int sgpu_module_load(const char* const* names, uint32_t count, sgpu_module** module) {
  if (names == nullptr || module == nullptr) return kInvalid;
  *module = sgpu::LoadModule(names, count);
  return *module == nullptr ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}

const char* sgpu_function(sgpu_module* module, uint32_t index) {
  return module == nullptr ? nullptr : sgpu::FunctionName(module, index);
}

int sgpu_module_unload(sgpu_module* module, uint32_t how) {
  if (module == nullptr || how > SGPU_UNLOAD_REUSE) return kInvalid;
  sgpu::UnloadModule(module, static_cast<sgpu_unload>(how));
  return CUPTI_SUCCESS;
}

uint64_t sgpu_now_ns() { return Clock::Stamp(Clock::Now()); }

int sgpu_advance(uint64_t ns) {
  if (!Clock::IsVirtual()) return CUPTI_ERROR_INVALID_OPERATION;
  Clock::Advance(ns);
  return CUPTI_SUCCESS;
}

void sgpu_clock_step(int64_t ns) { Clock::Step(ns); }

int sgpu_fail(const char* spec) { return sgpu::SetFailures(spec) ? CUPTI_SUCCESS : kInvalid; }

int sgpu_set(const char* key, const char* value) {
  return sgpu::ChangeSetting(key, value) ? CUPTI_SUCCESS : kInvalid;
}

int sgpu_rival_subscribe(const char* name) {
  if (name == nullptr) return kInvalid;
  return sgpu::subscriber().Subscribe(&sgpu::RivalCallback, nullptr, name, false,
                                      &sgpu::rival_handle, nullptr);
}

int sgpu_rival_join(const char* name) {
  return name == nullptr ? kInvalid : sgpu::subscriber().Join(name);
}

int sgpu_rival_leave() { return sgpu::subscriber().Leave(); }

int sgpu_rival_unsubscribe() { return sgpu::subscriber().Unsubscribe(sgpu::rival_handle); }

int sgpu_rival_steal_callbacks() {
  tracer().RegisterCallbacks(&sgpu::RivalRequested, &sgpu::RivalCompleted);
  return CUPTI_SUCCESS;
}

uint32_t sgpu_return_lost_buffers() { return tracer().ReturnLostBuffers(); }

int sgpu_settle() {
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  Clock::WaitUntil(gpu().End());
  tracer().EmitFinished();
  return CUPTI_SUCCESS;
}

uint32_t sgpu_truth(sgpu_truth_rec* out, uint32_t max) { return sgpu::truth().Copy(out, max); }

void sgpu_truth_clear() { sgpu::truth().Clear(); }

int sgpu_stats(sgpu_stats_rec* stats) {
  if (stats == nullptr || stats->size == 0 || stats->size > sizeof(*stats)) return kInvalid;
  if (sgpu::Forked()) return CUPTI_ERROR_UNKNOWN;
  sgpu_stats_rec all{};
  all.size = stats->size;
  all.subscribed = sgpu::subscriber().IsSubscribed() ? 1 : 0;
  all.cupti_calls = sgpu::Entry::calls();
  all.callbacks = sgpu::subscriber().callbacks();
  tracer().AddTo(all);
  sgpu::shared_rival().AddTo(all);
  std::memcpy(stats, &all, stats->size);
  return CUPTI_SUCCESS;
}

}  // extern "C"
