// CUPTI's binary interface as far as we use it: record layouts, numbers, function types.
//
// Ours, so that the library builds where no CUDA toolkit is, and so that one binary serves
// CUPTI 11.2 to 13.x. tests/client_lib/cupti/cupti_abi_test.cc holds every line of it against the
// toolkit's own headers where there are any.
//
// Records only ever grew at their ends, so one struct per family is enough: the newest one,
// laid over the record. A field may be read only if it lies within the size that the loaded
// library gives records of that kind (CuptiLibrary::record_bytes()):
//
//   Memcpy:  11.2 ├────────────── 80 ─────────────┤
//            11.8 ├────────────── 88 ──────────────────┤
//            13.0 ├────────────── 96 ───────────────────────┤ copy_count
//
// How do I add a kind?  Add its number and its struct with a static_assert on the size, and both
// to the test. Then decode it in record_decoder.cc and enable it in cupti_tracer.cc. A kind that no
// wire event can carry also needs one (proto/wire/event.h); daemon/README.md has the path from
// there.
#ifndef PROFD_CLIENT_LIB_CUPTI_CUPTI_ABI_H_
#define PROFD_CLIENT_LIB_CUPTI_CUPTI_ABI_H_

#include <cstddef>
#include <cstdint>

namespace profd::client::cupti {

// ---- Numbers

using Result = int;
inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorInvalidParameter = 1;
inline constexpr Result kErrorInvalidOperation = 7;
inline constexpr Result kErrorMaxLimitReached = 12;
inline constexpr Result kErrorNotCompatible = 14;
inline constexpr Result kErrorNotInitialized = 15;
inline constexpr Result kErrorInvalidKind = 21;
inline constexpr Result kErrorDisabled = 23;
inline constexpr Result kErrorHardwareBusy = 26;
inline constexpr Result kErrorNotSupported = 27;
inline constexpr Result kErrorInsufficientPrivileges = 35;
inline constexpr Result kErrorLegacyProfilerNotSupported = 38;
inline constexpr Result kErrorMultipleSubscribers = 39;
inline constexpr Result kErrorVirtualizedInsufficientPrivileges = 40;
inline constexpr Result kErrorConfidentialComputing = 41;
inline constexpr Result kErrorCmpDevice = 42;
inline constexpr Result kErrorMigDevice = 43;
inline constexpr Result kErrorWslDevice = 45;
inline constexpr Result kErrorUnknown = 999;

using Kind = uint32_t;
inline constexpr Kind kKindMemcpy = 1;
inline constexpr Kind kKindMemset = 2;
inline constexpr Kind kKindKernel = 3;
inline constexpr Kind kKindDriver = 4;
inline constexpr Kind kKindRuntime = 5;
inline constexpr Kind kKindDevice = 8;
inline constexpr Kind kKindContext = 9;
inline constexpr Kind kKindConcurrentKernel = 10;
inline constexpr Kind kKindOverhead = 17;
inline constexpr Kind kKindMemcpyPeer = 22;
inline constexpr Kind kKindCudaEvent = 36;
inline constexpr Kind kKindStream = 37;
inline constexpr Kind kKindSynchronization = 38;
inline constexpr Kind kKindExternalCorrelation = 39;
inline constexpr Kind kKindMemory = 49;
inline constexpr Kind kKindMemoryPool = 50;
inline constexpr Kind kKindGraphTrace = 51;
inline constexpr Kind kKindMemDecompress = 54;
inline constexpr Kind kKindGraphHostNode = 56;
inline constexpr Kind kKindHostLaunch = 58;
// Kinds from here on are not known to have been given out; newer libraries have some.
inline constexpr Kind kKindLimit = 128;

inline constexpr uint32_t kDomainDriverApi = 1;
inline constexpr uint32_t kDomainRuntimeApi = 2;
inline constexpr uint32_t kDomainState = 6;
inline constexpr uint32_t kCallbackFatalError = 1;  // Of kDomainState.
inline constexpr uint32_t kSiteExit = 1;            // CallbackData.site

inline constexpr uint32_t kAttributePoolLimit = 2;
inline constexpr uint32_t kAttributeZeroedBuffers = 5;
// Of the second interface (13.2 and later), each subscriber's own but for the graph trace.
inline constexpr uint32_t kAttributeLatencyTimestamps = 15;
inline constexpr uint32_t kAttributeThreadIdType = 21;
inline constexpr uint32_t kThreadIdSystem = 1;

inline constexpr uint8_t kFlagMemcpyAsync = 1 << 0;
inline constexpr uint16_t kFlagMemsetAsync = 1 << 0;
inline constexpr uint32_t kMemoryOperationAllocation = 1;
inline constexpr uint32_t kMemoryOperationRelease = 2;
inline constexpr uint32_t kPoolOperationDestroyed = 2;
inline constexpr uint32_t kObjectThread = 2;
inline constexpr uint32_t kSynchronizationNoStream = 0xffffffff;
inline constexpr uint32_t kSynchronizationEvent = 1;
inline constexpr uint32_t kSynchronizationStream = 3;

// Versions as cuptiGetVersion() gives them.
inline constexpr uint32_t kVersion11_0 = 13;
inline constexpr uint32_t kVersion12_6 = 24;
inline constexpr uint32_t kVersion12_8 = 26;
inline constexpr uint32_t kVersion12_9 = 27;
inline constexpr uint32_t kVersion13_0 = 130000;
inline constexpr uint32_t kVersion13_1 = 130100;
inline constexpr uint32_t kVersion13_2 = 130200;

// ---- Records

struct Activity {
  Kind kind;
};

struct KernelRecord {
  Kind kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers_per_thread;
  uint32_t partitioned_cache_requested;
  uint32_t partitioned_cache_executed;
  uint64_t start_ns;
  uint64_t end_ns;
  uint64_t completed_ns;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t static_shared_bytes;
  int32_t dynamic_shared_bytes;
  uint32_t local_bytes_per_thread;
  uint32_t local_bytes_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved0;
  uint64_t queued_ns;
  uint64_t submitted_ns;
  uint8_t launch_type;
  uint8_t carveout_requested;
  uint8_t carveout_percent;
  uint8_t padding0;
  uint32_t shared_bytes_executed;
  uint64_t graph_node_id;
  uint32_t shared_limit_config;
  uint32_t graph_id;
  void* access_policy_window;  // Since 11.2, as graph_id; what follows is newer.
  uint32_t channel;
  uint32_t channel_type;
  uint32_t cluster[3];
  uint32_t cluster_scheduling_policy;
  uint64_t local_bytes_total_v2;
  uint32_t max_potential_cluster_size;
  uint32_t max_active_clusters;
  uint8_t is_device_launched;
  uint8_t padding1[7];
};
static_assert(sizeof(KernelRecord) == 216);

struct MemcpyRecord {
  Kind kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding0;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel;
  uint32_t channel_type;
  uint8_t is_device_launched;
  uint8_t padding1[3];
  uint64_t copy_count;
};
static_assert(sizeof(MemcpyRecord) == 96);

struct MemcpyPeerRecord {
  Kind kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t destination_device;
  uint32_t destination_context;
  uint32_t correlation;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel;
  uint32_t channel_type;
  uint32_t padding0;
};
static_assert(sizeof(MemcpyPeerRecord) == 96);

struct MemsetRecord {
  Kind kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory_kind;
  uint32_t padding0;
  void* reserved0;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t channel;
  uint32_t channel_type;
  uint8_t is_device_launched;
  uint8_t padding1[3];
};
static_assert(sizeof(MemsetRecord) == 88);

// Since 12.8.
struct MemDecompressRecord {
  Kind kind;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t channel;
  uint32_t channel_type;
  uint32_t correlation;
  uint32_t operations;
  uint64_t source_bytes;
  void* reserved0;
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(MemDecompressRecord) == 64);

struct ApiRecord {
  Kind kind;
  uint32_t cbid;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t return_value;
};
static_assert(sizeof(ApiRecord) == 40);

struct SynchronizationRecord {
  Kind kind;
  uint32_t type;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event_id;
  uint64_t event_sync_id;
  uint32_t return_value;
  uint32_t padding0;
};
static_assert(sizeof(SynchronizationRecord) == 56);

struct CudaEventRecord {
  Kind kind;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event_id;
  uint32_t padding0;
  uint32_t device;
  uint32_t padding1;
  void* reserved0;
  uint64_t device_time_ns;
  uint64_t event_sync_id;
};
static_assert(sizeof(CudaEventRecord) == 56);

struct GraphTraceRecord {
  Kind kind;
  uint32_t correlation;
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t device;
  uint32_t graph_id;
  uint32_t context;
  uint32_t stream;
  void* reserved0;
  uint32_t end_device;
  uint32_t end_context;
};
static_assert(sizeof(GraphTraceRecord) == 56);

// A function of the program's that a thread runs while a stream waits: of a node of a graph, and of
// cudaLaunchHostFunc. From 13.1 on.
struct GraphHostNodeRecord {
  Kind kind;
  uint32_t stream;
  uint32_t context;
  uint32_t device;
  uint32_t correlation;
  uint32_t graph_id;
  uint64_t graph_node_id;
  uint32_t process;
  uint32_t thread;
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(GraphHostNodeRecord) == 56);

struct HostLaunchRecord {
  Kind kind;
  uint32_t stream;
  uint32_t context;
  uint32_t device;
  uint32_t correlation;
  uint32_t process;
  uint32_t thread;
  uint32_t padding;
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(HostLaunchRecord) == 48);

struct MemoryRecord {
  Kind kind;
  uint32_t operation;
  uint32_t memory_kind;
  uint32_t correlation;
  uint64_t address;
  uint64_t bytes;
  uint64_t time_ns;
  uint64_t program_counter;
  uint32_t process;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  const char* name;
  uint32_t is_async;
  uint32_t padding0;
  uint32_t pool_type;
  uint32_t padding1;
  uint64_t pool_address;
  uint64_t pool_release_threshold;
  uint64_t pool_bytes_or_process;
  uint64_t pool_utilized_bytes;
  const char* source;
};
static_assert(sizeof(MemoryRecord) == 128);

struct MemoryPoolRecord {
  Kind kind;
  uint32_t operation;
  uint32_t pool_type;
  uint32_t correlation;
  uint32_t process;
  uint32_t device;
  uint64_t min_bytes_to_keep;
  uint64_t address;
  uint64_t bytes;
  uint64_t release_threshold;
  uint64_t time_ns;
  uint64_t utilized_bytes;
  uint8_t is_managed;
  uint8_t padding0[7];
};
static_assert(sizeof(MemoryPoolRecord) == 80);

struct OverheadRecord {
  Kind kind;
  uint32_t overhead_kind;
  uint32_t object_kind;
  uint32_t object_id[3];  // {process, thread} or {device, context, stream}, by object_kind.
  uint64_t start_ns;
  uint64_t end_ns;
  uint32_t correlation;
  uint32_t reserved0;
  void* data;  // From malloc(); the client's to free.
};
static_assert(sizeof(OverheadRecord) == 56);

struct DeviceRecord {
  Kind kind;
  uint32_t flags;
  uint64_t memory_bandwidth;
  uint64_t memory_bytes;
  uint32_t constant_memory_bytes;
  uint32_t l2_bytes;
  uint32_t warp_threads;
  uint32_t core_clock_khz;
  uint32_t copy_engines;
  uint32_t sm_count;
  uint32_t max_ipc;
  uint32_t max_warps_per_sm;
  uint32_t max_blocks_per_sm;
  uint32_t shared_bytes_per_sm;
  uint32_t registers_per_sm;
  uint32_t registers_per_block;
  uint32_t shared_bytes_per_block;
  uint32_t max_threads_per_block;
  uint32_t max_block_dim[3];
  uint32_t max_grid_dim[3];
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t id;
  uint32_t ecc_enabled;
  uint8_t uuid[16];
  const char* name;  // From malloc(); the client's to free.
  uint8_t is_visible;
  uint8_t is_mig_enabled;
  uint8_t reserved0[6];
  uint32_t gpu_instance;
  uint32_t compute_instance;
  uint8_t mig_uuid[16];
  uint32_t is_numa_node;
  uint32_t numa_id;
};
static_assert(sizeof(DeviceRecord) == 184);

struct ContextRecord {
  Kind kind;
  uint32_t context;
  uint32_t device;
  uint16_t api_kind;
  uint16_t null_stream;
  uint32_t parent_context;
  uint8_t is_green;
  uint8_t padding0;
  uint16_t sm_count;
  uint32_t cig_mode;
  uint32_t padding1;
};
static_assert(sizeof(ContextRecord) == 32);

struct StreamRecord {
  Kind kind;
  uint32_t context;
  uint32_t stream;
  uint32_t priority;
  uint32_t flags;
  uint32_t correlation;
};
static_assert(sizeof(StreamRecord) == 24);

// ---- Functions

using Subscriber = void*;

// Only the beginning of what an API callback gets.
struct CallbackData {
  uint32_t site;
};

using CallbackFunction = void (*)(void* user, uint32_t domain, uint32_t cbid, const void* data);
using BufferRequested = void (*)(uint8_t** buffer, size_t* size, size_t* max_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t size,
                                 size_t valid_bytes);

using BufferRequested_v2 = void (*)(uint8_t** buffer, size_t* size, size_t* max_records,
                                    void* info);
using BufferCompleted_v2 = void (*)(uint8_t* buffer, size_t size, size_t valid_bytes, void* info);

struct SubscriberParams {
  size_t struct_size;
  const char* name;
  char* old_name;  // Written where another subscriber is why ours is refused.
  size_t old_name_size;
};
static_assert(sizeof(SubscriberParams) == 32);
// Since 13.2.
struct SharedSubscriberParams {
  SubscriberParams common;
  uint8_t allows_others;
  uint8_t padding[7];
};
static_assert(sizeof(SharedSubscriberParams) == 40);
inline constexpr size_t kOldSubscriberNameBytes = 64;

// Every version that we use has these.
#define PROFD_CUPTI_REQUIRED(X)                                    \
  X(GetVersion, (uint32_t*))                                       \
  X(GetTimestamp, (uint64_t*))                                     \
  X(Subscribe, (Subscriber*, CallbackFunction, void*))             \
  X(Unsubscribe, (Subscriber))                                     \
  X(EnableDomain, (uint32_t, Subscriber, uint32_t))                \
  X(EnableCallback, (uint32_t, Subscriber, uint32_t, uint32_t))    \
  X(GetCallbackName, (uint32_t, uint32_t, const char**))           \
  X(ActivityEnable, (Kind))                                        \
  X(ActivityDisable, (Kind))                                       \
  X(ActivityRegisterCallbacks, (BufferRequested, BufferCompleted)) \
  X(ActivityGetNextRecord, (uint8_t*, size_t, Activity**))         \
  X(ActivityGetNumDroppedRecords, (void*, uint32_t, size_t*))      \
  X(ActivityFlushAll, (uint32_t))                                  \
  X(ActivitySetAttribute, (uint32_t, size_t*, void*))              \
  X(SetThreadIdType, (uint32_t))                                   \
  X(Finalize, (void))

// Null where the loaded version does not have them.
#define PROFD_CUPTI_OPTIONAL(X)                                              \
  X(Subscribe_v2, (Subscriber*, CallbackFunction, void*, SubscriberParams*)) \
  X(ActivityEnableAndDump, (Kind))                                           \
  X(ActivityEnableRuntimeApi, (uint32_t, uint8_t))                           \
  X(ActivityEnableDriverApi, (uint32_t, uint8_t))                            \
  X(ActivityEnableLatencyTimestamps, (uint8_t))                              \
  X(ActivityEnableAllSyncRecords, (uint8_t))                                 \
  X(ActivityGetAttribute, (uint32_t, size_t*, void*))                        \
  X(GetThreadIdType, (uint32_t*))

// The same, of versions later than the headers that the test compares with. The last argument of
// Enable_v2, Disable_v2, and EnableAndDump_v2 is a configuration, which may be null.
#define PROFD_CUPTI_SINCE_13_2(X)                                                       \
  X(ActivityGetStructSize, (Kind, uint32_t, size_t*))                                   \
  X(ActivityGetEnabledKinds, (Subscriber, Kind*, uint32_t*, uint32_t*))                 \
  X(ActivityRegisterCallbacks_v2, (Subscriber, BufferRequested_v2, BufferCompleted_v2)) \
  X(ActivityEnable_v2, (Subscriber, Kind, void*))                                       \
  X(ActivityEnableAndDump_v2, (Subscriber, Kind, void*))                                \
  X(ActivityDisable_v2, (Subscriber, Kind, void*))                                      \
  X(ActivityGetAttribute_v2, (Subscriber, uint32_t, size_t*, void*))                    \
  X(ActivitySetAttribute_v2, (Subscriber, uint32_t, size_t*, void*))
#define PROFD_CUPTI_SINCE_13_3(X)                                 \
  X(GetTimestamp_v2, (Subscriber, uint64_t*))                     \
  X(ActivityEnableRuntimeApi_v2, (Subscriber, uint32_t, uint8_t)) \
  X(ActivityEnableDriverApi_v2, (Subscriber, uint32_t, uint8_t))  \
  X(ActivityGetNumDroppedRecords_v2, (Subscriber, void*, uint32_t, size_t*))

struct Functions {
#define PROFD_CUPTI_POINTER(name, arguments) Result(*name) arguments;
  PROFD_CUPTI_REQUIRED(PROFD_CUPTI_POINTER)
  PROFD_CUPTI_OPTIONAL(PROFD_CUPTI_POINTER)
  PROFD_CUPTI_SINCE_13_2(PROFD_CUPTI_POINTER)
  PROFD_CUPTI_SINCE_13_3(PROFD_CUPTI_POINTER)
#undef PROFD_CUPTI_POINTER
};

}  // namespace profd::client::cupti

#endif  // PROFD_CLIENT_LIB_CUPTI_CUPTI_ABI_H_
