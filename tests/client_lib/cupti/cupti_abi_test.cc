// Holds client_lib/cupti/cupti_abi.h against the toolkit's own headers, at compile time; what
// runs is only the report that it was done. Where no headers are, it skips and says so.
#include "client_lib/cupti/cupti_abi.h"

#include <gtest/gtest.h>

#ifdef PROFD_HAVE_CUPTI_HEADERS
#include <cupti.h>

#include <type_traits>

namespace profd::client::cupti {
namespace {

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                      \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                sizeof(ours::our_field) % sizeof(theirs::their_field) == 0)
#define SAME_VALUE(ours, theirs) \
  static_assert(static_cast<uint32_t>(ours) == static_cast<uint32_t>(theirs))

SAME_SIZE(KernelRecord, CUpti_ActivityKernel10);
SAME_FIELD(KernelRecord, kind, CUpti_ActivityKernel10, kind);
SAME_FIELD(KernelRecord, registers_per_thread, CUpti_ActivityKernel10, registersPerThread);
SAME_FIELD(KernelRecord, start_ns, CUpti_ActivityKernel10, start);
SAME_FIELD(KernelRecord, end_ns, CUpti_ActivityKernel10, end);
SAME_FIELD(KernelRecord, completed_ns, CUpti_ActivityKernel10, completed);
SAME_FIELD(KernelRecord, device, CUpti_ActivityKernel10, deviceId);
SAME_FIELD(KernelRecord, context, CUpti_ActivityKernel10, contextId);
SAME_FIELD(KernelRecord, stream, CUpti_ActivityKernel10, streamId);
SAME_FIELD(KernelRecord, grid, CUpti_ActivityKernel10, gridX);
SAME_FIELD(KernelRecord, block, CUpti_ActivityKernel10, blockX);
SAME_FIELD(KernelRecord, static_shared_bytes, CUpti_ActivityKernel10, staticSharedMemory);
SAME_FIELD(KernelRecord, dynamic_shared_bytes, CUpti_ActivityKernel10, dynamicSharedMemory);
SAME_FIELD(KernelRecord, local_bytes_per_thread, CUpti_ActivityKernel10, localMemoryPerThread);
SAME_FIELD(KernelRecord, correlation, CUpti_ActivityKernel10, correlationId);
SAME_FIELD(KernelRecord, grid_id, CUpti_ActivityKernel10, gridId);
SAME_FIELD(KernelRecord, name, CUpti_ActivityKernel10, name);
SAME_FIELD(KernelRecord, queued_ns, CUpti_ActivityKernel10, queued);
SAME_FIELD(KernelRecord, submitted_ns, CUpti_ActivityKernel10, submitted);
SAME_FIELD(KernelRecord, launch_type, CUpti_ActivityKernel10, launchType);
SAME_FIELD(KernelRecord, shared_bytes_executed, CUpti_ActivityKernel10, sharedMemoryExecuted);
SAME_FIELD(KernelRecord, graph_node_id, CUpti_ActivityKernel10, graphNodeId);
SAME_FIELD(KernelRecord, graph_id, CUpti_ActivityKernel10, graphId);
SAME_FIELD(KernelRecord, channel, CUpti_ActivityKernel10, channelID);
SAME_FIELD(KernelRecord, channel_type, CUpti_ActivityKernel10, channelType);
SAME_FIELD(KernelRecord, cluster, CUpti_ActivityKernel10, clusterX);
SAME_FIELD(KernelRecord, is_device_launched, CUpti_ActivityKernel10, isDeviceLaunched);

SAME_SIZE(MemcpyRecord, CUpti_ActivityMemcpy6);
SAME_FIELD(MemcpyRecord, copy_kind, CUpti_ActivityMemcpy6, copyKind);
SAME_FIELD(MemcpyRecord, source_kind, CUpti_ActivityMemcpy6, srcKind);
SAME_FIELD(MemcpyRecord, destination_kind, CUpti_ActivityMemcpy6, dstKind);
SAME_FIELD(MemcpyRecord, flags, CUpti_ActivityMemcpy6, flags);
SAME_FIELD(MemcpyRecord, bytes, CUpti_ActivityMemcpy6, bytes);
SAME_FIELD(MemcpyRecord, start_ns, CUpti_ActivityMemcpy6, start);
SAME_FIELD(MemcpyRecord, end_ns, CUpti_ActivityMemcpy6, end);
SAME_FIELD(MemcpyRecord, device, CUpti_ActivityMemcpy6, deviceId);
SAME_FIELD(MemcpyRecord, context, CUpti_ActivityMemcpy6, contextId);
SAME_FIELD(MemcpyRecord, stream, CUpti_ActivityMemcpy6, streamId);
SAME_FIELD(MemcpyRecord, correlation, CUpti_ActivityMemcpy6, correlationId);
SAME_FIELD(MemcpyRecord, graph_node_id, CUpti_ActivityMemcpy6, graphNodeId);
SAME_FIELD(MemcpyRecord, graph_id, CUpti_ActivityMemcpy6, graphId);
SAME_FIELD(MemcpyRecord, channel, CUpti_ActivityMemcpy6, channelID);
SAME_FIELD(MemcpyRecord, is_device_launched, CUpti_ActivityMemcpy6, isDeviceLaunched);
SAME_FIELD(MemcpyRecord, copy_count, CUpti_ActivityMemcpy6, copyCount);

SAME_SIZE(MemcpyPeerRecord, CUpti_ActivityMemcpyPtoP4);
SAME_FIELD(MemcpyPeerRecord, copy_kind, CUpti_ActivityMemcpyPtoP4, copyKind);
SAME_FIELD(MemcpyPeerRecord, source_kind, CUpti_ActivityMemcpyPtoP4, srcKind);
SAME_FIELD(MemcpyPeerRecord, destination_kind, CUpti_ActivityMemcpyPtoP4, dstKind);
SAME_FIELD(MemcpyPeerRecord, flags, CUpti_ActivityMemcpyPtoP4, flags);
SAME_FIELD(MemcpyPeerRecord, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
SAME_FIELD(MemcpyPeerRecord, start_ns, CUpti_ActivityMemcpyPtoP4, start);
SAME_FIELD(MemcpyPeerRecord, end_ns, CUpti_ActivityMemcpyPtoP4, end);
SAME_FIELD(MemcpyPeerRecord, device, CUpti_ActivityMemcpyPtoP4, deviceId);
SAME_FIELD(MemcpyPeerRecord, context, CUpti_ActivityMemcpyPtoP4, contextId);
SAME_FIELD(MemcpyPeerRecord, stream, CUpti_ActivityMemcpyPtoP4, streamId);
SAME_FIELD(MemcpyPeerRecord, source_device, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
SAME_FIELD(MemcpyPeerRecord, destination_device, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
SAME_FIELD(MemcpyPeerRecord, correlation, CUpti_ActivityMemcpyPtoP4, correlationId);
SAME_FIELD(MemcpyPeerRecord, graph_node_id, CUpti_ActivityMemcpyPtoP4, graphNodeId);
SAME_FIELD(MemcpyPeerRecord, graph_id, CUpti_ActivityMemcpyPtoP4, graphId);

SAME_SIZE(MemsetRecord, CUpti_ActivityMemset4);
SAME_FIELD(MemsetRecord, value, CUpti_ActivityMemset4, value);
SAME_FIELD(MemsetRecord, bytes, CUpti_ActivityMemset4, bytes);
SAME_FIELD(MemsetRecord, start_ns, CUpti_ActivityMemset4, start);
SAME_FIELD(MemsetRecord, end_ns, CUpti_ActivityMemset4, end);
SAME_FIELD(MemsetRecord, device, CUpti_ActivityMemset4, deviceId);
SAME_FIELD(MemsetRecord, context, CUpti_ActivityMemset4, contextId);
SAME_FIELD(MemsetRecord, stream, CUpti_ActivityMemset4, streamId);
SAME_FIELD(MemsetRecord, correlation, CUpti_ActivityMemset4, correlationId);
SAME_FIELD(MemsetRecord, flags, CUpti_ActivityMemset4, flags);
SAME_FIELD(MemsetRecord, memory_kind, CUpti_ActivityMemset4, memoryKind);
SAME_FIELD(MemsetRecord, graph_node_id, CUpti_ActivityMemset4, graphNodeId);
SAME_FIELD(MemsetRecord, graph_id, CUpti_ActivityMemset4, graphId);
SAME_FIELD(MemsetRecord, is_device_launched, CUpti_ActivityMemset4, isDeviceLaunched);

SAME_SIZE(ApiRecord, CUpti_ActivityAPI);
SAME_FIELD(ApiRecord, cbid, CUpti_ActivityAPI, cbid);
SAME_FIELD(ApiRecord, start_ns, CUpti_ActivityAPI, start);
SAME_FIELD(ApiRecord, end_ns, CUpti_ActivityAPI, end);
SAME_FIELD(ApiRecord, process, CUpti_ActivityAPI, processId);
SAME_FIELD(ApiRecord, thread, CUpti_ActivityAPI, threadId);
SAME_FIELD(ApiRecord, correlation, CUpti_ActivityAPI, correlationId);
SAME_FIELD(ApiRecord, return_value, CUpti_ActivityAPI, returnValue);

SAME_SIZE(SynchronizationRecord, CUpti_ActivitySynchronization2);
SAME_FIELD(SynchronizationRecord, type, CUpti_ActivitySynchronization2, type);
SAME_FIELD(SynchronizationRecord, start_ns, CUpti_ActivitySynchronization2, start);
SAME_FIELD(SynchronizationRecord, end_ns, CUpti_ActivitySynchronization2, end);
SAME_FIELD(SynchronizationRecord, correlation, CUpti_ActivitySynchronization2, correlationId);
SAME_FIELD(SynchronizationRecord, context, CUpti_ActivitySynchronization2, contextId);
SAME_FIELD(SynchronizationRecord, stream, CUpti_ActivitySynchronization2, streamId);
SAME_FIELD(SynchronizationRecord, event_id, CUpti_ActivitySynchronization2, cudaEventId);

SAME_SIZE(CudaEventRecord, CUpti_ActivityCudaEvent2);
SAME_FIELD(CudaEventRecord, correlation, CUpti_ActivityCudaEvent2, correlationId);
SAME_FIELD(CudaEventRecord, context, CUpti_ActivityCudaEvent2, contextId);
SAME_FIELD(CudaEventRecord, stream, CUpti_ActivityCudaEvent2, streamId);
SAME_FIELD(CudaEventRecord, event_id, CUpti_ActivityCudaEvent2, eventId);
SAME_FIELD(CudaEventRecord, device, CUpti_ActivityCudaEvent2, deviceId);

SAME_SIZE(GraphTraceRecord, CUpti_ActivityGraphTrace2);
SAME_FIELD(GraphTraceRecord, correlation, CUpti_ActivityGraphTrace2, correlationId);
SAME_FIELD(GraphTraceRecord, start_ns, CUpti_ActivityGraphTrace2, start);
SAME_FIELD(GraphTraceRecord, end_ns, CUpti_ActivityGraphTrace2, end);
SAME_FIELD(GraphTraceRecord, device, CUpti_ActivityGraphTrace2, deviceId);
SAME_FIELD(GraphTraceRecord, graph_id, CUpti_ActivityGraphTrace2, graphId);
SAME_FIELD(GraphTraceRecord, context, CUpti_ActivityGraphTrace2, contextId);
SAME_FIELD(GraphTraceRecord, stream, CUpti_ActivityGraphTrace2, streamId);

#if CUPTI_API_VERSION >= 26
SAME_SIZE(MemDecompressRecord, CUpti_ActivityMemDecompress);
SAME_FIELD(MemDecompressRecord, device, CUpti_ActivityMemDecompress, deviceId);
SAME_FIELD(MemDecompressRecord, context, CUpti_ActivityMemDecompress, contextId);
SAME_FIELD(MemDecompressRecord, stream, CUpti_ActivityMemDecompress, streamId);
SAME_FIELD(MemDecompressRecord, correlation, CUpti_ActivityMemDecompress, correlationId);
SAME_FIELD(MemDecompressRecord, operations, CUpti_ActivityMemDecompress, numberOfOperations);
SAME_FIELD(MemDecompressRecord, source_bytes, CUpti_ActivityMemDecompress, sourceBytes);
SAME_FIELD(MemDecompressRecord, start_ns, CUpti_ActivityMemDecompress, start);
SAME_FIELD(MemDecompressRecord, end_ns, CUpti_ActivityMemDecompress, end);
#endif

#if CUPTI_API_VERSION >= 130100
SAME_SIZE(GraphHostNodeRecord, CUpti_ActivityGraphHostNode);
SAME_FIELD(GraphHostNodeRecord, stream, CUpti_ActivityGraphHostNode, streamId);
SAME_FIELD(GraphHostNodeRecord, context, CUpti_ActivityGraphHostNode, contextId);
SAME_FIELD(GraphHostNodeRecord, device, CUpti_ActivityGraphHostNode, deviceId);
SAME_FIELD(GraphHostNodeRecord, correlation, CUpti_ActivityGraphHostNode, correlationId);
SAME_FIELD(GraphHostNodeRecord, thread, CUpti_ActivityGraphHostNode, threadId);
SAME_FIELD(GraphHostNodeRecord, start_ns, CUpti_ActivityGraphHostNode, start);
SAME_FIELD(GraphHostNodeRecord, end_ns, CUpti_ActivityGraphHostNode, end);

SAME_SIZE(HostLaunchRecord, CUpti_ActivityHostLaunch);
SAME_FIELD(HostLaunchRecord, stream, CUpti_ActivityHostLaunch, streamId);
SAME_FIELD(HostLaunchRecord, context, CUpti_ActivityHostLaunch, contextId);
SAME_FIELD(HostLaunchRecord, device, CUpti_ActivityHostLaunch, deviceId);
SAME_FIELD(HostLaunchRecord, correlation, CUpti_ActivityHostLaunch, correlationId);
SAME_FIELD(HostLaunchRecord, thread, CUpti_ActivityHostLaunch, threadId);
SAME_FIELD(HostLaunchRecord, start_ns, CUpti_ActivityHostLaunch, start);
SAME_FIELD(HostLaunchRecord, end_ns, CUpti_ActivityHostLaunch, end);
#endif

SAME_SIZE(MemoryRecord, CUpti_ActivityMemory4);
SAME_FIELD(MemoryRecord, operation, CUpti_ActivityMemory4, memoryOperationType);
SAME_FIELD(MemoryRecord, memory_kind, CUpti_ActivityMemory4, memoryKind);
SAME_FIELD(MemoryRecord, correlation, CUpti_ActivityMemory4, correlationId);
SAME_FIELD(MemoryRecord, address, CUpti_ActivityMemory4, address);
SAME_FIELD(MemoryRecord, bytes, CUpti_ActivityMemory4, bytes);
SAME_FIELD(MemoryRecord, time_ns, CUpti_ActivityMemory4, timestamp);
SAME_FIELD(MemoryRecord, device, CUpti_ActivityMemory4, deviceId);
SAME_FIELD(MemoryRecord, context, CUpti_ActivityMemory4, contextId);
SAME_FIELD(MemoryRecord, is_async, CUpti_ActivityMemory4, isAsync);

SAME_SIZE(MemoryPoolRecord, CUpti_ActivityMemoryPool3);
SAME_FIELD(MemoryPoolRecord, operation, CUpti_ActivityMemoryPool3, memoryPoolOperationType);
SAME_FIELD(MemoryPoolRecord, correlation, CUpti_ActivityMemoryPool3, correlationId);
SAME_FIELD(MemoryPoolRecord, device, CUpti_ActivityMemoryPool3, deviceId);
SAME_FIELD(MemoryPoolRecord, address, CUpti_ActivityMemoryPool3, address);
SAME_FIELD(MemoryPoolRecord, bytes, CUpti_ActivityMemoryPool3, size);
SAME_FIELD(MemoryPoolRecord, time_ns, CUpti_ActivityMemoryPool3, timestamp);
SAME_FIELD(MemoryPoolRecord, utilized_bytes, CUpti_ActivityMemoryPool3, utilizedSize);

SAME_SIZE(OverheadRecord, CUpti_ActivityOverhead3);
SAME_FIELD(OverheadRecord, overhead_kind, CUpti_ActivityOverhead3, overheadKind);
SAME_FIELD(OverheadRecord, object_kind, CUpti_ActivityOverhead3, objectKind);
SAME_FIELD(OverheadRecord, object_id, CUpti_ActivityOverhead3, objectId);
SAME_FIELD(OverheadRecord, start_ns, CUpti_ActivityOverhead3, start);
SAME_FIELD(OverheadRecord, end_ns, CUpti_ActivityOverhead3, end);
SAME_FIELD(OverheadRecord, correlation, CUpti_ActivityOverhead3, correlationId);
SAME_FIELD(OverheadRecord, data, CUpti_ActivityOverhead3, overheadData);

SAME_SIZE(DeviceRecord, CUpti_ActivityDevice5);
SAME_FIELD(DeviceRecord, memory_bytes, CUpti_ActivityDevice5, globalMemorySize);
SAME_FIELD(DeviceRecord, warp_threads, CUpti_ActivityDevice5, numThreadsPerWarp);
SAME_FIELD(DeviceRecord, sm_count, CUpti_ActivityDevice5, numMultiprocessors);
SAME_FIELD(DeviceRecord, max_warps_per_sm, CUpti_ActivityDevice5, maxWarpsPerMultiprocessor);
SAME_FIELD(DeviceRecord, max_blocks_per_sm, CUpti_ActivityDevice5, maxBlocksPerMultiprocessor);
SAME_FIELD(DeviceRecord, shared_bytes_per_sm, CUpti_ActivityDevice5,
           maxSharedMemoryPerMultiprocessor);
SAME_FIELD(DeviceRecord, registers_per_sm, CUpti_ActivityDevice5, maxRegistersPerMultiprocessor);
SAME_FIELD(DeviceRecord, registers_per_block, CUpti_ActivityDevice5, maxRegistersPerBlock);
SAME_FIELD(DeviceRecord, shared_bytes_per_block, CUpti_ActivityDevice5, maxSharedMemoryPerBlock);
SAME_FIELD(DeviceRecord, max_threads_per_block, CUpti_ActivityDevice5, maxThreadsPerBlock);
SAME_FIELD(DeviceRecord, compute_major, CUpti_ActivityDevice5, computeCapabilityMajor);
SAME_FIELD(DeviceRecord, compute_minor, CUpti_ActivityDevice5, computeCapabilityMinor);
SAME_FIELD(DeviceRecord, id, CUpti_ActivityDevice5, id);
SAME_FIELD(DeviceRecord, uuid, CUpti_ActivityDevice5, uuid);
SAME_FIELD(DeviceRecord, name, CUpti_ActivityDevice5, name);

SAME_SIZE(ContextRecord, CUpti_ActivityContext3);
SAME_FIELD(ContextRecord, context, CUpti_ActivityContext3, contextId);
SAME_FIELD(ContextRecord, device, CUpti_ActivityContext3, deviceId);
SAME_FIELD(ContextRecord, null_stream, CUpti_ActivityContext3, nullStreamId);

SAME_SIZE(StreamRecord, CUpti_ActivityStream);
SAME_FIELD(StreamRecord, context, CUpti_ActivityStream, contextId);
SAME_FIELD(StreamRecord, stream, CUpti_ActivityStream, streamId);
SAME_FIELD(StreamRecord, priority, CUpti_ActivityStream, priority);
SAME_FIELD(StreamRecord, flags, CUpti_ActivityStream, flag);
SAME_FIELD(StreamRecord, correlation, CUpti_ActivityStream, correlationId);

SAME_VALUE(kSuccess, CUPTI_SUCCESS);
SAME_VALUE(kErrorInvalidParameter, CUPTI_ERROR_INVALID_PARAMETER);
SAME_VALUE(kErrorInvalidOperation, CUPTI_ERROR_INVALID_OPERATION);
SAME_VALUE(kErrorMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_VALUE(kErrorNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE);
SAME_VALUE(kErrorNotInitialized, CUPTI_ERROR_NOT_INITIALIZED);
SAME_VALUE(kErrorInvalidKind, CUPTI_ERROR_INVALID_KIND);
SAME_VALUE(kErrorHardwareBusy, CUPTI_ERROR_HARDWARE_BUSY);
SAME_VALUE(kErrorNotSupported, CUPTI_ERROR_NOT_SUPPORTED);
SAME_VALUE(kErrorInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME_VALUE(kErrorLegacyProfilerNotSupported, CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED);
SAME_VALUE(kErrorMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_VALUE(kErrorVirtualizedInsufficientPrivileges,
           CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
SAME_VALUE(kErrorConfidentialComputing, CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED);
SAME_VALUE(kErrorCmpDevice, CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED);
SAME_VALUE(kErrorMigDevice, CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED);
SAME_VALUE(kErrorWslDevice, CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED);
SAME_VALUE(kErrorUnknown, CUPTI_ERROR_UNKNOWN);
SAME_VALUE(kKindMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_VALUE(kKindMemset, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_VALUE(kKindKernel, CUPTI_ACTIVITY_KIND_KERNEL);
SAME_VALUE(kKindDriver, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_VALUE(kKindRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_VALUE(kKindDevice, CUPTI_ACTIVITY_KIND_DEVICE);
SAME_VALUE(kKindContext, CUPTI_ACTIVITY_KIND_CONTEXT);
SAME_VALUE(kKindConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_VALUE(kKindOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME_VALUE(kKindMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_VALUE(kKindCudaEvent, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
SAME_VALUE(kKindStream, CUPTI_ACTIVITY_KIND_STREAM);
SAME_VALUE(kKindSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME_VALUE(kKindExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME_VALUE(kKindMemory, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME_VALUE(kKindMemoryPool, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME_VALUE(kKindGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
#if CUPTI_API_VERSION >= 26
SAME_VALUE(kKindMemDecompress, CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS);
#endif
#if CUPTI_API_VERSION >= 130100
SAME_VALUE(kKindGraphHostNode, CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE);
SAME_VALUE(kKindHostLaunch, CUPTI_ACTIVITY_KIND_HOST_LAUNCH);
#endif
SAME_VALUE(kDomainDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_VALUE(kDomainRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_VALUE(kDomainState, CUPTI_CB_DOMAIN_STATE);
SAME_VALUE(kCallbackFatalError, CUPTI_CBID_STATE_FATAL_ERROR);
SAME_VALUE(kSiteExit, CUPTI_API_EXIT);
SAME_VALUE(kAttributePoolLimit, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
SAME_VALUE(kAttributeZeroedBuffers, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
SAME_VALUE(kThreadIdSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_VALUE(kFlagMemcpyAsync, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
SAME_VALUE(kFlagMemsetAsync, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
SAME_VALUE(kMemoryOperationAllocation, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
SAME_VALUE(kMemoryOperationRelease, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
SAME_VALUE(kPoolOperationDestroyed, CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED);
SAME_VALUE(kObjectThread, CUPTI_ACTIVITY_OBJECT_THREAD);
SAME_VALUE(kSynchronizationNoStream, CUPTI_SYNCHRONIZATION_INVALID_VALUE);

static_assert(offsetof(CallbackData, site) == offsetof(CUpti_CallbackData, callbackSite));
SAME_SIZE(SubscriberParams, CUpti_SubscriberParams);
SAME_FIELD(SubscriberParams, name, CUpti_SubscriberParams, subscriberName);
SAME_FIELD(SubscriberParams, old_name, CUpti_SubscriberParams, oldSubscriberName);
SAME_FIELD(SubscriberParams, old_name_size, CUpti_SubscriberParams, oldSubscriberSize);

// Functions: as many arguments, each passed in the same way.
template <typename Ours, typename Theirs>
constexpr bool PassedAlike() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours>) {
    return std::is_pointer_v<Theirs>;
  } else {
    return std::is_integral_v<Ours> &&
           (std::is_integral_v<Theirs> || std::is_enum_v<Theirs>)&&sizeof(Ours) == sizeof(Theirs);
  }
}

template <typename Ours, typename Theirs>
struct SameCall;
template <typename OurResult, typename... Ours, typename TheirResult, typename... Theirs>
struct SameCall<OurResult (*)(Ours...), TheirResult (*)(Theirs...)> {
  static constexpr bool Value() {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return PassedAlike<OurResult, TheirResult>() && (PassedAlike<Ours, Theirs>() && ...);
    }
  }
};

#define SAME_CALL(name, arguments) \
  static_assert(SameCall<Result(*) arguments, decltype(&cupti##name)>::Value(), #name);
PROFD_CUPTI_REQUIRED(SAME_CALL)
PROFD_CUPTI_OPTIONAL(SAME_CALL)

static_assert(SameCall<BufferCompleted, CUpti_BuffersCallbackCompleteFunc>::Value());
static_assert(SameCall<BufferRequested, CUpti_BuffersCallbackRequestFunc>::Value());

TEST(CuptiAbiTest, OurDefinitionsAreThoseOfTheToolkit) { EXPECT_GE(CUPTI_API_VERSION, 130000); }

}  // namespace
}  // namespace profd::client::cupti

#else

TEST(CuptiAbiTest, OurDefinitionsAreThoseOfTheToolkit) {
  GTEST_SKIP() << "no CUPTI headers of CUDA 13 on this machine: nothing to compare with";
}

#endif
