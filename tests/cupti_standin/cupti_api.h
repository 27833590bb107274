// The types of CUPTI's C interface: NVIDIA's own header where it is installed, so that the compiler
// holds each function of the stand-in against the real prototype; else the same names again, as
// far as the stand-in needs them, so that it builds on any machine.
#ifndef PROFD_TESTS_CUPTI_STANDIN_CUPTI_API_H_
#define PROFD_TESTS_CUPTI_STANDIN_CUPTI_API_H_

#include <cstddef>
#include <cstdint>

#ifdef SGPU_HAVE_CUPTI_HEADERS

#define CUPTI_LIB  // The declarations that follow are definitions elsewhere in this library.
#include <cupti.h>

#else

using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUdevice = int;

enum CUptiResult {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_CONTEXT = 3,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT = 10,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_NOT_COMPATIBLE = 14,
  CUPTI_ERROR_NOT_INITIALIZED = 15,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_INVALID_STREAM = 20,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_NOT_SUPPORTED = 27,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
  CUPTI_ERROR_UNKNOWN = 999,
  CUPTI_ERROR_FORCE_INT = 0x7fffffff,
};

enum CUpti_ActivityKind {
  CUPTI_ACTIVITY_KIND_INVALID = 0,
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_KERNEL = 3,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_DEVICE = 8,
  CUPTI_ACTIVITY_KIND_CONTEXT = 9,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_OVERHEAD = 17,
  CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,
  CUPTI_ACTIVITY_KIND_CUDA_EVENT = 36,
  CUPTI_ACTIVITY_KIND_STREAM = 37,
  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION = 38,
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
  CUPTI_ACTIVITY_KIND_MEMORY2 = 49,
  CUPTI_ACTIVITY_KIND_MEMORY_POOL = 50,
  CUPTI_ACTIVITY_KIND_GRAPH_TRACE = 51,
  CUPTI_ACTIVITY_KIND_FORCE_INT = 0x7fffffff,
};

enum CUpti_ActivityAttribute {
  CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE = 0,
  CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_FORCE_INT = 0x7fffffff,
};

enum CUpti_ActivityThreadIdType {
  CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT = 0,
  CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM = 1,
  CUPTI_ACTIVITY_THREAD_ID_TYPE_FORCE_INT = 0x7fffffff,
};

enum CUpti_ExternalCorrelationKind {
  CUPTI_EXTERNAL_CORRELATION_KIND_INVALID = 0,
  CUPTI_EXTERNAL_CORRELATION_KIND_SIZE = 7,
  CUPTI_EXTERNAL_CORRELATION_KIND_FORCE_INT = 0x7fffffff,
};

enum CUpti_CallbackDomain {
  CUPTI_CB_DOMAIN_INVALID = 0,
  CUPTI_CB_DOMAIN_DRIVER_API = 1,
  CUPTI_CB_DOMAIN_RUNTIME_API = 2,
  CUPTI_CB_DOMAIN_RESOURCE = 3,
  CUPTI_CB_DOMAIN_SYNCHRONIZE = 4,
  CUPTI_CB_DOMAIN_NVTX = 5,
  CUPTI_CB_DOMAIN_STATE = 6,
  CUPTI_CB_DOMAIN_FORCE_INT = 0x7fffffff,
};

enum CUpti_ApiCallbackSite {
  CUPTI_API_ENTER = 0,
  CUPTI_API_EXIT = 1,
  CUPTI_API_CBSITE_FORCE_INT = 0x7fffffff,
};

enum CUpti_DeviceVirtualizationMode {
  CUPTI_DEVICE_VIRTUALIZATION_MODE_NONE = 0,
  CUPTI_DEVICE_VIRTUALIZATION_MODE_FORCE_INT = 0x7fffffff,
};

struct CUpti_Activity {
  CUpti_ActivityKind kind;
};
struct CUpti_ActivityAutoBoostState {
  uint32_t enabled;
  uint32_t pid;
};
struct CUpti_ActivityUnifiedMemoryCounterConfig;

using CUpti_SubscriberHandle = struct CUpti_Subscriber_st*;
using CUpti_CallbackId = uint32_t;
using CUpti_DomainTable = CUpti_CallbackDomain*;
using CUpti_CallbackFunc = void (*)(void* user_data, CUpti_CallbackDomain domain,
                                    CUpti_CallbackId cbid, const void* data);
using CUpti_BuffersCallbackRequestFunc = void (*)(uint8_t** buffer, size_t* size,
                                                  size_t* max_records);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, uint32_t stream_id,
                                                   uint8_t* buffer, size_t size, size_t valid_size);
using CUpti_TimestampCallbackFunc = uint64_t (*)();

struct CUpti_CallbackData {
  CUpti_ApiCallbackSite callbackSite;
  const char* functionName;
  const void* functionParams;
  void* functionReturnValue;
  const char* symbolName;
  CUcontext context;
  uint32_t contextUid;
  uint64_t* correlationData;
  uint32_t correlationId;
};

struct CUpti_SubscriberParams {
  size_t structSize;
  const char* subscriberName;
  char* oldSubscriberName;
  size_t oldSubscriberSize;
};

#define CUPTIAPI

#endif  // SGPU_HAVE_CUPTI_HEADERS

// Functions that came after 13.0, whose headers do not have them.
extern "C" {
CUptiResult CUPTIAPI cuptiActivityGetStructSize(CUpti_ActivityKind kind, uint32_t version,
                                                size_t* size);
CUptiResult CUPTIAPI cuptiIsTracingSessionRunning(uint8_t* is_running);

// Of the second interface. The last argument of a callback is a struct that begins with its size;
// that of Enable, Disable, and EnableAndDump is a configuration.
using SgpuBufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records,
                                     void* info);
using SgpuBufferCompleted = void (*)(uint8_t* buffer, size_t size, size_t valid_size, void* info);
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle handle,
                                                       SgpuBufferRequested requested,
                                                       SgpuBufferCompleted completed);
CUptiResult CUPTIAPI cuptiActivityEnable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind,
                                            void* config);
CUptiResult CUPTIAPI cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle handle,
                                                   CUpti_ActivityKind kind, void* config);
CUptiResult CUPTIAPI cuptiActivityDisable_v2(CUpti_SubscriberHandle handle, CUpti_ActivityKind kind,
                                             void* config);
CUptiResult CUPTIAPI cuptiActivityGetEnabledKinds(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityKind* buffer, uint32_t* room,
                                                  uint32_t* count);
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle handle,
                                                      CUpti_CallbackId cbid, uint8_t enable);
CUptiResult CUPTIAPI cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle handle,
                                                     CUpti_CallbackId cbid, uint8_t enable);
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle handle,
                                                          CUcontext context, uint32_t stream_id,
                                                          size_t* dropped);
CUptiResult CUPTIAPI cuptiActivityGetAttribute_v2(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityAttribute attribute, size_t* size,
                                                  void* value);
CUptiResult CUPTIAPI cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle handle,
                                                  CUpti_ActivityAttribute attribute, size_t* size,
                                                  void* value);
CUptiResult CUPTIAPI cuptiGetTimestamp_v2(CUpti_SubscriberHandle handle, uint64_t* timestamp);
}

#endif  // PROFD_TESTS_CUPTI_STANDIN_CUPTI_API_H_
