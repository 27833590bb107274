// The records that the stand-in writes, as the newest CUPTI it emulates lays them out. An older one
// writes the first size_of(kind) bytes of the same: every newer record is an older one with fields
// at its end. real_layout_check.cc holds each offset against NVIDIA's headers, where installed.
#ifndef PROFD_TESTS_CUPTI_STANDIN_RECORDS_H_
#define PROFD_TESTS_CUPTI_STANDIN_RECORDS_H_

#include <cstdint>

namespace sgpu {

// CUpti_ActivityKind, as far as something is recorded.
enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kSerialKernel = 3,
  kDriver = 4,
  kRuntime = 5,
  kDevice = 8,
  kContext = 9,
  kKernel = 10,
  kOverhead = 17,
  kPeerCopy = 22,
  kCudaEvent = 36,
  kStream = 37,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kMemory = 49,
  kMemoryPool = 50,
  kGraphTrace = 51,
  kMemDecompress = 54,
  kHostLaunch = 58,
  kUnknown = 60,  // What only the future has.
};
constexpr uint32_t kKinds = 64;

struct KernelRecord {
  uint32_t kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers;
  uint32_t partitioned_requested;
  uint32_t partitioned_executed;
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared;
  uint32_t dynamic_shared;
  uint32_t local_per_thread;
  uint32_t local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  uint64_t reserved0;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch_type;
  uint8_t carveout_requested;
  uint8_t carveout;
  uint8_t padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit_config;
  uint32_t graph;
  uint64_t access_policy_window;
  uint32_t channel;
  uint32_t channel_type;
  uint32_t cluster[3];
  uint32_t cluster_policy;
  uint64_t local_total_v2;
  uint32_t max_potential_cluster;
  uint32_t max_active_clusters;
  uint8_t device_launched;
  uint8_t padding3[7];
  uint64_t future[2];
};
static_assert(sizeof(KernelRecord) == 216 + 16);

struct CopyRecord {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding;
  uint64_t reserved0;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t channel;
  uint32_t channel_type;
  uint8_t device_launched;
  uint8_t padding2[3];
  uint64_t copy_count;
};
static_assert(sizeof(CopyRecord) == 96);

struct PeerCopyRecord {
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t destination_device;
  uint32_t destination_context;
  uint32_t correlation;
  uint64_t reserved0;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t channel;
  uint32_t channel_type;
  uint32_t tail;
};
static_assert(sizeof(PeerCopyRecord) == 96);

struct MemsetRecord {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;
  uint16_t memory_kind;
  uint32_t padding;
  uint64_t reserved0;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t channel;
  uint32_t channel_type;
  uint8_t device_launched;
  uint8_t padding2[3];
};
static_assert(sizeof(MemsetRecord) == 88);

struct ApiRecord {
  uint32_t kind;
  uint32_t cbid;
  uint64_t start;
  uint64_t end;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t return_value;
};
static_assert(sizeof(ApiRecord) == 40);

struct SynchronizationRecord {
  uint32_t kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint64_t event_sync;
  uint32_t return_value;
  uint32_t padding;
};
static_assert(sizeof(SynchronizationRecord) == 56);
constexpr uint32_t kNoStream = 0xffffffff;
constexpr uint32_t kNoEvent = 0xffffffff;
enum SyncType : uint32_t {
  kEventSync = 1,
  kStreamWaitEvent = 2,
  kStreamSync = 3,
  kContextSync = 4,
};

struct CudaEventRecord {
  uint32_t kind;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint32_t padding;
  uint32_t device;
  uint32_t padding2;
  uint64_t reserved0;
  uint64_t device_timestamp;
  uint64_t event_sync;
};
static_assert(sizeof(CudaEventRecord) == 56);

struct GraphTraceRecord {
  uint32_t kind;
  uint32_t correlation;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t graph;
  uint32_t context;
  uint32_t stream;
  uint64_t reserved;
  uint32_t end_device;
  uint32_t end_context;
};
static_assert(sizeof(GraphTraceRecord) == 56);

struct MemDecompressRecord {
  uint32_t kind;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t channel;
  uint32_t channel_type;
  uint32_t correlation;
  uint32_t operations;
  uint64_t source_bytes;
  uint64_t reserved0;
  uint64_t start;
  uint64_t end;
};
static_assert(sizeof(MemDecompressRecord) == 64);

struct HostLaunchRecord {
  uint32_t kind;
  uint32_t stream;
  uint32_t context;
  uint32_t device;
  uint32_t correlation;
  uint32_t process;
  uint32_t thread;
  uint32_t padding;
  uint64_t start;
  uint64_t end;
};
static_assert(sizeof(HostLaunchRecord) == 48);

struct MemoryRecord {
  uint32_t kind;
  uint32_t operation;  // 1: allocation, 2: release.
  uint32_t memory_kind;
  uint32_t correlation;
  uint64_t address;
  uint64_t bytes;
  uint64_t timestamp;
  uint64_t pc;
  uint32_t process;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  const char* name;
  uint32_t is_async;
  uint32_t padding1;
  uint32_t pool_type;
  uint32_t padding2;
  uint64_t pool_address;
  uint64_t pool_release_threshold;
  uint64_t pool_size;
  uint64_t pool_utilized;
  const char* source;
};
static_assert(sizeof(MemoryRecord) == 128);

struct MemoryPoolRecord {
  uint32_t kind;
  uint32_t operation;  // 1: created, 2: destroyed, 3: trimmed.
  uint32_t pool_type;
  uint32_t correlation;
  uint32_t process;
  uint32_t device;
  uint64_t min_bytes_to_keep;
  uint64_t address;
  uint64_t size;
  uint64_t release_threshold;
  uint64_t timestamp;
  uint64_t utilized;
  uint8_t is_managed;
  uint8_t padding2[7];
};
static_assert(sizeof(MemoryPoolRecord) == 80);

// Unaligned in the middle: CUPTI's union of ids is 12 bytes of 4-byte fields.
struct OverheadRecord {
  uint32_t kind;
  uint32_t overhead_kind;
  uint32_t object_kind;
  uint32_t object_process;
  uint32_t object_thread;
  uint32_t object_rest;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t reserved0;
  uint64_t data;
};
static_assert(sizeof(OverheadRecord) == 56);
constexpr uint32_t kOverheadBufferFlush = 1U << 16;
constexpr uint32_t kOverheadBufferRequest = 7U << 16;
constexpr uint32_t kOverheadResource = 3U << 16;
constexpr uint32_t kObjectThread = 2;

struct ContextRecord {
  uint32_t kind;
  uint32_t context;
  uint32_t device;
  uint16_t api_kind;
  uint16_t null_stream;
  uint32_t parent;
  uint8_t is_green;
  uint8_t padding;
  uint16_t multiprocessors;
  uint32_t cig_mode;
  uint32_t padding2;
  uint64_t future;
};
static_assert(sizeof(ContextRecord) == 32 + 8);

struct StreamRecord {
  uint32_t kind;
  uint32_t context;
  uint32_t stream;
  uint32_t priority;
  uint32_t flag;
  uint32_t correlation;
};
static_assert(sizeof(StreamRecord) == 24);

struct DeviceRecord {
  uint32_t kind;
  uint32_t flags;
  uint64_t memory_bandwidth;
  uint64_t memory_size;
  uint32_t constant_memory_size;
  uint32_t l2_size;
  uint32_t threads_per_warp;
  uint32_t core_clock_khz;
  uint32_t copy_engines;
  uint32_t multiprocessors;
  uint32_t max_ipc;
  uint32_t max_warps;
  uint32_t max_blocks;
  uint32_t max_shared_per_sm;
  uint32_t max_registers_per_sm;
  uint32_t max_registers_per_block;
  uint32_t max_shared_per_block;
  uint32_t max_threads_per_block;
  uint32_t max_block[3];
  uint32_t max_grid[3];
  uint32_t capability_major;
  uint32_t capability_minor;
  uint32_t id;
  uint32_t ecc;
  uint8_t uuid[16];
  const char* name;  // From malloc(); the client frees it.
  uint8_t cuda_visible;
  uint8_t mig_enabled;
  uint8_t reserved[6];
  uint32_t gpu_instance;
  uint32_t compute_instance;
  uint8_t mig_uuid[16];
  uint32_t is_numa_node;
  uint32_t numa_id;
  uint64_t future;
};
static_assert(sizeof(DeviceRecord) == 184 + 8);

struct ExternalCorrelationRecord {
  uint32_t kind;
  uint32_t external_kind;
  uint64_t external_id;
  uint32_t correlation;
  uint32_t reserved;
};
static_assert(sizeof(ExternalCorrelationRecord) == 24);

struct UnknownRecord {
  uint32_t kind;
  uint32_t filler[15];
};
static_assert(sizeof(UnknownRecord) == 64);

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_RECORDS_H_
