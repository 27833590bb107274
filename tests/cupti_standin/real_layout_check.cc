// Holds records.h against NVIDIA's own headers; built only where they are installed.
#include <cstddef>

#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/records.h"

namespace sgpu {
namespace {

#define SAME(ours, our_field, real, real_field)                            \
  static_assert(offsetof(ours, our_field) == offsetof(real, real_field) && \
                    sizeof(ours::our_field) == sizeof(real::real_field),   \
                #real "." #real_field)

using Kernel = CUpti_ActivityKernel10;
static_assert(sizeof(Kernel) == sizeof(KernelRecord) - sizeof(KernelRecord::future));
SAME(KernelRecord, registers, Kernel, registersPerThread);
SAME(KernelRecord, start, Kernel, start);
SAME(KernelRecord, end, Kernel, end);
SAME(KernelRecord, completed, Kernel, completed);
SAME(KernelRecord, device, Kernel, deviceId);
SAME(KernelRecord, context, Kernel, contextId);
SAME(KernelRecord, stream, Kernel, streamId);
static_assert(offsetof(KernelRecord, grid) == offsetof(Kernel, gridX));
static_assert(offsetof(KernelRecord, block) == offsetof(Kernel, blockX));
SAME(KernelRecord, static_shared, Kernel, staticSharedMemory);
SAME(KernelRecord, dynamic_shared, Kernel, dynamicSharedMemory);
SAME(KernelRecord, local_per_thread, Kernel, localMemoryPerThread);
SAME(KernelRecord, correlation, Kernel, correlationId);
SAME(KernelRecord, grid_id, Kernel, gridId);
SAME(KernelRecord, name, Kernel, name);
SAME(KernelRecord, queued, Kernel, queued);
SAME(KernelRecord, submitted, Kernel, submitted);
SAME(KernelRecord, launch_type, Kernel, launchType);
SAME(KernelRecord, shared_executed, Kernel, sharedMemoryExecuted);
SAME(KernelRecord, graph_node, Kernel, graphNodeId);
SAME(KernelRecord, graph, Kernel, graphId);
SAME(KernelRecord, channel, Kernel, channelID);
SAME(KernelRecord, channel_type, Kernel, channelType);
static_assert(offsetof(KernelRecord, cluster) == offsetof(Kernel, clusterX));
SAME(KernelRecord, local_total_v2, Kernel, localMemoryTotal_v2);
SAME(KernelRecord, max_active_clusters, Kernel, maxActiveClusters);
SAME(KernelRecord, device_launched, Kernel, isDeviceLaunched);

using Copy = CUpti_ActivityMemcpy6;
static_assert(sizeof(Copy) == sizeof(CopyRecord));
SAME(CopyRecord, copy_kind, Copy, copyKind);
SAME(CopyRecord, source_kind, Copy, srcKind);
SAME(CopyRecord, destination_kind, Copy, dstKind);
SAME(CopyRecord, flags, Copy, flags);
SAME(CopyRecord, bytes, Copy, bytes);
SAME(CopyRecord, start, Copy, start);
SAME(CopyRecord, end, Copy, end);
SAME(CopyRecord, device, Copy, deviceId);
SAME(CopyRecord, context, Copy, contextId);
SAME(CopyRecord, stream, Copy, streamId);
SAME(CopyRecord, correlation, Copy, correlationId);
SAME(CopyRecord, runtime_correlation, Copy, runtimeCorrelationId);
SAME(CopyRecord, graph_node, Copy, graphNodeId);
SAME(CopyRecord, graph, Copy, graphId);
SAME(CopyRecord, channel, Copy, channelID);
SAME(CopyRecord, channel_type, Copy, channelType);
SAME(CopyRecord, device_launched, Copy, isDeviceLaunched);
SAME(CopyRecord, copy_count, Copy, copyCount);

using PeerCopy = CUpti_ActivityMemcpyPtoP4;
static_assert(sizeof(PeerCopy) == sizeof(PeerCopyRecord));
SAME(PeerCopyRecord, bytes, PeerCopy, bytes);
SAME(PeerCopyRecord, start, PeerCopy, start);
SAME(PeerCopyRecord, end, PeerCopy, end);
SAME(PeerCopyRecord, stream, PeerCopy, streamId);
SAME(PeerCopyRecord, source_device, PeerCopy, srcDeviceId);
SAME(PeerCopyRecord, source_context, PeerCopy, srcContextId);
SAME(PeerCopyRecord, destination_device, PeerCopy, dstDeviceId);
SAME(PeerCopyRecord, destination_context, PeerCopy, dstContextId);
SAME(PeerCopyRecord, correlation, PeerCopy, correlationId);
SAME(PeerCopyRecord, graph_node, PeerCopy, graphNodeId);
SAME(PeerCopyRecord, graph, PeerCopy, graphId);
SAME(PeerCopyRecord, channel, PeerCopy, channelID);
SAME(PeerCopyRecord, channel_type, PeerCopy, channelType);

using MemDecompress = CUpti_ActivityMemDecompress;
static_assert(sizeof(MemDecompress) == sizeof(MemDecompressRecord));
SAME(MemDecompressRecord, device, MemDecompress, deviceId);
SAME(MemDecompressRecord, context, MemDecompress, contextId);
SAME(MemDecompressRecord, stream, MemDecompress, streamId);
SAME(MemDecompressRecord, channel, MemDecompress, channelID);
SAME(MemDecompressRecord, channel_type, MemDecompress, channelType);
SAME(MemDecompressRecord, correlation, MemDecompress, correlationId);
SAME(MemDecompressRecord, operations, MemDecompress, numberOfOperations);
SAME(MemDecompressRecord, source_bytes, MemDecompress, sourceBytes);
SAME(MemDecompressRecord, start, MemDecompress, start);
SAME(MemDecompressRecord, end, MemDecompress, end);

using Memset = CUpti_ActivityMemset4;
static_assert(sizeof(Memset) == sizeof(MemsetRecord));
SAME(MemsetRecord, value, Memset, value);
SAME(MemsetRecord, bytes, Memset, bytes);
SAME(MemsetRecord, start, Memset, start);
SAME(MemsetRecord, end, Memset, end);
SAME(MemsetRecord, stream, Memset, streamId);
SAME(MemsetRecord, correlation, Memset, correlationId);
SAME(MemsetRecord, flags, Memset, flags);
SAME(MemsetRecord, memory_kind, Memset, memoryKind);
SAME(MemsetRecord, graph_node, Memset, graphNodeId);
SAME(MemsetRecord, graph, Memset, graphId);
SAME(MemsetRecord, channel, Memset, channelID);
SAME(MemsetRecord, channel_type, Memset, channelType);

using Api = CUpti_ActivityAPI;
static_assert(sizeof(Api) == sizeof(ApiRecord));
SAME(ApiRecord, cbid, Api, cbid);
SAME(ApiRecord, start, Api, start);
SAME(ApiRecord, end, Api, end);
SAME(ApiRecord, process, Api, processId);
SAME(ApiRecord, thread, Api, threadId);
SAME(ApiRecord, correlation, Api, correlationId);
SAME(ApiRecord, return_value, Api, returnValue);

using Sync = CUpti_ActivitySynchronization2;
static_assert(sizeof(Sync) == sizeof(SynchronizationRecord));
SAME(SynchronizationRecord, type, Sync, type);
SAME(SynchronizationRecord, start, Sync, start);
SAME(SynchronizationRecord, end, Sync, end);
SAME(SynchronizationRecord, correlation, Sync, correlationId);
SAME(SynchronizationRecord, context, Sync, contextId);
SAME(SynchronizationRecord, stream, Sync, streamId);
SAME(SynchronizationRecord, event, Sync, cudaEventId);
SAME(SynchronizationRecord, event_sync, Sync, cudaEventSyncId);
SAME(SynchronizationRecord, return_value, Sync, returnValue);
static_assert(kNoStream == CUPTI_SYNCHRONIZATION_INVALID_VALUE);

using Event = CUpti_ActivityCudaEvent2;
static_assert(sizeof(Event) == sizeof(CudaEventRecord));
SAME(CudaEventRecord, correlation, Event, correlationId);
SAME(CudaEventRecord, context, Event, contextId);
SAME(CudaEventRecord, stream, Event, streamId);
SAME(CudaEventRecord, event, Event, eventId);
SAME(CudaEventRecord, device, Event, deviceId);
SAME(CudaEventRecord, device_timestamp, Event, deviceTimestamp);
SAME(CudaEventRecord, event_sync, Event, cudaEventSyncId);

using GraphTrace = CUpti_ActivityGraphTrace2;
static_assert(sizeof(GraphTrace) == sizeof(GraphTraceRecord));
SAME(GraphTraceRecord, correlation, GraphTrace, correlationId);
SAME(GraphTraceRecord, start, GraphTrace, start);
SAME(GraphTraceRecord, end, GraphTrace, end);
SAME(GraphTraceRecord, device, GraphTrace, deviceId);
SAME(GraphTraceRecord, graph, GraphTrace, graphId);
SAME(GraphTraceRecord, context, GraphTrace, contextId);
SAME(GraphTraceRecord, stream, GraphTrace, streamId);
SAME(GraphTraceRecord, end_device, GraphTrace, endDeviceId);
SAME(GraphTraceRecord, end_context, GraphTrace, endContextId);

using Memory = CUpti_ActivityMemory4;
static_assert(sizeof(Memory) == sizeof(MemoryRecord));
SAME(MemoryRecord, operation, Memory, memoryOperationType);
SAME(MemoryRecord, memory_kind, Memory, memoryKind);
SAME(MemoryRecord, correlation, Memory, correlationId);
SAME(MemoryRecord, address, Memory, address);
SAME(MemoryRecord, bytes, Memory, bytes);
SAME(MemoryRecord, timestamp, Memory, timestamp);
SAME(MemoryRecord, pc, Memory, PC);
SAME(MemoryRecord, process, Memory, processId);
SAME(MemoryRecord, device, Memory, deviceId);
SAME(MemoryRecord, context, Memory, contextId);
SAME(MemoryRecord, stream, Memory, streamId);
SAME(MemoryRecord, name, Memory, name);
SAME(MemoryRecord, is_async, Memory, isAsync);
static_assert(offsetof(MemoryRecord, pool_type) == offsetof(Memory, memoryPoolConfig));
static_assert(offsetof(MemoryRecord, pool_address) ==
              offsetof(Memory, memoryPoolConfig) +
                  offsetof(decltype(Memory::memoryPoolConfig), address));
static_assert(offsetof(MemoryRecord, pool_utilized) ==
              offsetof(Memory, memoryPoolConfig) +
                  offsetof(decltype(Memory::memoryPoolConfig), utilizedSize));
SAME(MemoryRecord, source, Memory, source);

using Pool = CUpti_ActivityMemoryPool3;
static_assert(sizeof(Pool) == sizeof(MemoryPoolRecord));
SAME(MemoryPoolRecord, operation, Pool, memoryPoolOperationType);
SAME(MemoryPoolRecord, pool_type, Pool, memoryPoolType);
SAME(MemoryPoolRecord, correlation, Pool, correlationId);
SAME(MemoryPoolRecord, process, Pool, processId);
SAME(MemoryPoolRecord, device, Pool, deviceId);
SAME(MemoryPoolRecord, min_bytes_to_keep, Pool, minBytesToKeep);
SAME(MemoryPoolRecord, address, Pool, address);
SAME(MemoryPoolRecord, size, Pool, size);
SAME(MemoryPoolRecord, release_threshold, Pool, releaseThreshold);
SAME(MemoryPoolRecord, timestamp, Pool, timestamp);
SAME(MemoryPoolRecord, utilized, Pool, utilizedSize);

using Overhead = CUpti_ActivityOverhead3;
static_assert(sizeof(Overhead) == sizeof(OverheadRecord));
SAME(OverheadRecord, overhead_kind, Overhead, overheadKind);
SAME(OverheadRecord, object_kind, Overhead, objectKind);
static_assert(offsetof(OverheadRecord, object_process) == offsetof(Overhead, objectId));
SAME(OverheadRecord, start, Overhead, start);
SAME(OverheadRecord, end, Overhead, end);
SAME(OverheadRecord, correlation, Overhead, correlationId);
SAME(OverheadRecord, data, Overhead, overheadData);
static_assert(kObjectThread == CUPTI_ACTIVITY_OBJECT_THREAD);
static_assert(kOverheadBufferFlush == CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH);
static_assert(kOverheadBufferRequest == CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST);
static_assert(kOverheadResource == CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE);

using Context = CUpti_ActivityContext3;
static_assert(sizeof(Context) == sizeof(ContextRecord) - sizeof(ContextRecord::future));
SAME(ContextRecord, context, Context, contextId);
SAME(ContextRecord, device, Context, deviceId);
SAME(ContextRecord, api_kind, Context, computeApiKind);
SAME(ContextRecord, null_stream, Context, nullStreamId);
SAME(ContextRecord, parent, Context, parentContextId);
SAME(ContextRecord, multiprocessors, Context, numMultiprocessors);

using Stream = CUpti_ActivityStream;
static_assert(sizeof(Stream) == sizeof(StreamRecord));
SAME(StreamRecord, context, Stream, contextId);
SAME(StreamRecord, stream, Stream, streamId);
SAME(StreamRecord, priority, Stream, priority);
SAME(StreamRecord, flag, Stream, flag);
SAME(StreamRecord, correlation, Stream, correlationId);

using Device = CUpti_ActivityDevice5;
static_assert(sizeof(Device) == sizeof(DeviceRecord) - sizeof(DeviceRecord::future));
SAME(DeviceRecord, memory_bandwidth, Device, globalMemoryBandwidth);
SAME(DeviceRecord, memory_size, Device, globalMemorySize);
SAME(DeviceRecord, threads_per_warp, Device, numThreadsPerWarp);
SAME(DeviceRecord, core_clock_khz, Device, coreClockRate);
SAME(DeviceRecord, multiprocessors, Device, numMultiprocessors);
SAME(DeviceRecord, max_warps, Device, maxWarpsPerMultiprocessor);
SAME(DeviceRecord, max_shared_per_sm, Device, maxSharedMemoryPerMultiprocessor);
SAME(DeviceRecord, max_registers_per_sm, Device, maxRegistersPerMultiprocessor);
SAME(DeviceRecord, max_threads_per_block, Device, maxThreadsPerBlock);
SAME(DeviceRecord, capability_major, Device, computeCapabilityMajor);
SAME(DeviceRecord, capability_minor, Device, computeCapabilityMinor);
SAME(DeviceRecord, id, Device, id);
static_assert(offsetof(DeviceRecord, uuid) == offsetof(Device, uuid));
SAME(DeviceRecord, name, Device, name);
SAME(DeviceRecord, cuda_visible, Device, isCudaVisible);
static_assert(offsetof(DeviceRecord, mig_uuid) == offsetof(Device, migUuid));
SAME(DeviceRecord, numa_id, Device, numaId);

using External = CUpti_ActivityExternalCorrelation;
static_assert(sizeof(External) == sizeof(ExternalCorrelationRecord));
SAME(ExternalCorrelationRecord, external_kind, External, externalKind);
SAME(ExternalCorrelationRecord, external_id, External, externalId);
SAME(ExternalCorrelationRecord, correlation, External, correlationId);

}  // namespace
}  // namespace sgpu
