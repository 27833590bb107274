// Event records: what one thing that happened looks like in capture memory.
//
// An event is a variable-length record, a multiple of 8 bytes and at most
// kMaxEventBytes, that starts with an EventHeader. A reader that does not know a
// kind skips it by `size_bytes` and counts it, so new kinds need no new layout.
//
//   byte 0        2      3       4             8
//        +--------+------+-------+-------------+----------------------------+
//        |  size  | kind | flags |   thread    |  body, size - 8 bytes ...  |
//        +--------+------+-------+-------------+----------------------------+
//
// All integers are in the byte order of the machine (both sides run on it).
// Times are ticks of the target's clock (ClockKind in frame.h). Everything here is
// written by the target and so is hostile until checked.
//
// How do I add an event kind?  Take the next number of its block below, add a
// struct with a static_assert on its size, teach daemon/ingest/decode/event_decoder.cc to
// validate it, and raise nothing: an older daemon skips and counts it. Numbers of
// removed kinds are never reused. A change to an existing struct's meaning needs a
// new kind.
#ifndef PROFD_PROTO_WIRE_EVENT_H_
#define PROFD_PROTO_WIRE_EVENT_H_

#include <cstdint>
#include <type_traits>

namespace profd::wire {

inline constexpr uint32_t kMaxEventBytes = 4096;
inline constexpr uint32_t kMinEventBytes = 8;
// Deepest nesting of ranges on one thread. A deeper begin is refused and counted.
inline constexpr uint32_t kMaxRangeDepth = 128;
// Longest name, in bytes. Longer names are cut here, and marked by the cut.
inline constexpr uint32_t kMaxNameBytes = 4096;
// Distinct names per process. Names beyond it become kOtherNameId and are counted.
inline constexpr uint32_t kMaxNames = 65536;
inline constexpr uint32_t kMaxNameAreaBytes = 16u << 20;
// Name 0 is never a name; 1 is the name "(other)".
inline constexpr uint32_t kNoNameId = 0;
inline constexpr uint32_t kOtherNameId = 1;

enum class EventKind : uint8_t {
  kPad = 0,         // Filler: no meaning beyond its size.
  kRange = 1,       // RangeEvent, written at the range's end.
  kInstant = 2,     // InstantEvent
  kCounter = 3,     // CounterEvent
  kMemory = 4,      // MemoryEvent
  kStep = 5,        // StepEvent
  kThreadName = 6,  // ThreadNameEvent
  // 7..15   CPU kinds to come.
  // 16..31  GPU kinds; see "GPU events" below.
  kApiCall = 16,        // ApiCallEvent
  kKernel = 17,         // KernelEvent
  kMemcpy = 18,         // MemcpyEvent
  kMemset = 19,         // MemsetEvent
  kGraphLaunch = 20,    // GraphLaunchEvent
  kSync = 21,           // SyncEvent
  kOverhead = 22,       // OverheadEvent
  kCudaEvent = 23,      // CudaEventEvent
  kDeviceMemory = 24,   // DeviceMemoryEvent
  kDevice = 25,         // DeviceEvent
  kContext = 26,        // ContextEvent
  kStream = 27,         // StreamEvent
  kGpuStatus = 28,      // GpuStatusEvent
  kMemDecompress = 29,  // MemDecompressEvent
  // 32..47  framework kinds; see "Framework events" below.
  kOperator = 32,     // OperatorEvent
  kNote = 33,         // NoteEvent
  kBlock = 34,        // BlockEvent
  kTorchStatus = 35,  // TorchStatusEvent
  kStackFrame = 36,   // StackFrameEvent
  kModule = 37,       // ModuleEvent
};
inline constexpr EventKind kLastGpuKind = EventKind::kMemDecompress;

// EventHeader.flags. Bits not named are ignored by readers and zero from writers.
inline constexpr uint8_t kEventFlagFree = 1 << 0;       // MemoryEvent: a free, not an allocation.
inline constexpr uint8_t kEventFlagTruncated = 1 << 1;  // RangeEvent: cut at the window's edge.
// RangeEvent: open when its thread ended, which ended it.
inline constexpr uint8_t kEventFlagUnended = 1 << 2;

// From here on EventHeader.thread is no thread but a lane: a track of its own for ranges that
// would not nest on a thread, such as one begun on one thread and ended on another. Those of
// one lane do not overlap. Its ThreadNameEvent says whose it is. No kernel has such thread ids.
inline constexpr uint32_t kFirstLane = 1u << 30;

struct EventHeader {
  uint16_t size_bytes;  // Of the whole record; a multiple of 8 in [8, 4096].
  uint8_t kind;         // EventKind
  uint8_t flags;
  uint32_t thread;  // 0: the thread of the chunk. Else the OS thread id it happened on, or lane.
};
static_assert(sizeof(EventHeader) == 8);

// A named span of one thread's time. Ranges of a thread nest.
struct RangeEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  uint32_t name_id;
  uint16_t depth;     // Open ranges around it on its thread: 0 for an outermost one.
  uint16_t category;  // RangeCategory
};
static_assert(sizeof(RangeEvent) == 32);

// Where a range came from; shown as the trace's category.
enum class RangeCategory : uint16_t {
  kUser = 0,      // profd_range_* and annotate(): `user_annotation`
  kOperator = 1,  // a framework's operator: `cpu_op`
  kPython = 2,    // A function of Python, in imported traces; targets do not write it.
};

// A point in time.
struct InstantEvent {
  EventHeader header;
  uint64_t time_ticks;
  uint32_t name_id;
  uint32_t reserved;
};
static_assert(sizeof(InstantEvent) == 24);

// A sample of a named series.
struct CounterEvent {
  EventHeader header;
  uint64_t time_ticks;
  double value;  // Any double, also NaN and infinities; readers must cope.
  uint32_t name_id;
  uint32_t reserved;
};
static_assert(sizeof(CounterEvent) == 32);

// An allocation or (kEventFlagFree) a free. `bytes` of a free may be 0 for "not known".
struct MemoryEvent {
  EventHeader header;
  uint64_t time_ticks;
  uint64_t address;
  int64_t bytes;                  // >= 0
  int64_t total_allocated_bytes;  // On this device after the event; -1 when not known.
  int64_t total_reserved_bytes;   // By the allocator; -1 when not known.
  uint16_t device_type;           // DeviceType
  int16_t device_index;           // >= 0 for GPUs; 0 for the CPU
  uint16_t category;              // MemoryCategory
  uint16_t reserved;
};
static_assert(sizeof(MemoryEvent) == 56);

// The first two as PyTorch's c10::DeviceType has them.
enum class DeviceType : uint16_t {
  kCpu = 0,
  kCuda = 1,         // A framework's allocator.
  kCudaDriver = 64,  // cudaMalloc itself: DeviceMemoryEvent.
  kCudaPool = 65,    // CUDA's own stream-ordered pools: DeviceMemoryEvent with kGpuFlagPool.
};

enum class MemoryCategory : uint16_t {
  kUnknown = 0,
  kParameter = 1,
  kGradient = 2,
  kOptimizerState = 3,
  kActivation = 4,
  kInput = 5,
  kTemporary = 6,
  kBuffer = 7,  // A module's buffer: kept like a parameter, not trained.
};
inline constexpr uint16_t kMaxMemoryCategory = 7;

// A step mark: step `step - 1` ended here and `step` begins.
struct StepEvent {
  EventHeader header;
  uint64_t time_ticks;
  uint64_t step;  // Counts from 0 at the process's first mark.
};
static_assert(sizeof(StepEvent) == 24);

// The chunk's thread calls itself this from now on.
struct ThreadNameEvent {
  EventHeader header;
  uint32_t name_id;
  uint32_t reserved;
};
static_assert(sizeof(ThreadNameEvent) == 16);

// ---- GPU events ----
//
// Written by the library's GPU thread, which has them from CUPTI, in no order of time: of
// one stream, of one thread, and across an API call and what it launched. Times are CUPTI's,
// which the library turned into ticks with the clock pairs around them; the error of that is
// in GpuStatusEvent. A device, context or stream may be named before the event that
// describes it, or never be described.
//
// Numbers whose meaning is CUPTI's (kinds of copies, memory, synchronisation, overhead) are
// those of cupti_activity.h, CUDA 13.0, passed on as they came; readers show those they do
// not know as numbers.

inline constexpr uint32_t kNoStream = UINT32_MAX;  // SyncEvent: not of one stream.
inline constexpr uint32_t kNoDevice = UINT32_MAX;

// EventHeader.flags of GPU kinds.
inline constexpr uint8_t kGpuFlagDriverApi = 1 << 0;  // ApiCallEvent: of the driver API.
inline constexpr uint8_t kGpuFlagAsync = 1 << 1;      // MemcpyEvent, MemsetEvent, DeviceMemoryEvent
inline constexpr uint8_t kGpuFlagUnfinished = 1 << 2;      // Still running when flushed: no end.
inline constexpr uint8_t kGpuFlagDeviceLaunched = 1 << 3;  // By another kernel.
inline constexpr uint8_t kGpuFlagPool = 1 << 4;  // DeviceMemoryEvent: of a memory pool itself.
// ApiCallEvent: a launch before the window whose work ran in the window.
inline constexpr uint8_t kGpuFlagEarlyLaunch = 1 << 5;

// Where GPU work ran and which API call asked for it.
struct GpuPlace {
  uint32_t device;  // CUDA's number of it, in the target.
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;  // ApiCallEvent.correlation of its launch; 0: none.
};
static_assert(sizeof(GpuPlace) == 16);

// A call of the CUDA runtime or driver API. EventHeader.thread made the call. A driver call
// within a runtime call has the same correlation and is not sent.
struct ApiCallEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  uint32_t name_id;  // "cudaLaunchKernel": without CUPTI's suffixes ("_v7000", "_ptsz").
  uint32_t correlation;
  uint32_t cbid;   // CUPTI's callback id, within its API.
  int32_t result;  // cudaError_t or CUresult
};
static_assert(sizeof(ApiCallEvent) == 40);

struct KernelEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  GpuPlace place;
  uint32_t name_id;          // As CUPTI gives it: mangled, as a rule.
  uint32_t graph_id;         // Of the executable graph; 0: not of a graph.
  uint64_t graph_node_id;    // 0: not of a graph.
  uint64_t queued_ticks;     // Into the command buffer; 0: not known.
  uint64_t submitted_ticks;  // To the GPU; 0: not known.
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes_per_thread;
  uint16_t registers_per_thread;
  uint16_t reserved;
  uint16_t cluster[3];  // 0: no clusters
  uint16_t channel;     // 0: not known
};
static_assert(sizeof(KernelEvent) == 120);

struct MemcpyEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  GpuPlace place;
  uint64_t bytes;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint8_t copy_kind;         // CUpti_ActivityMemcpyKind
  uint8_t source_kind;       // CUpti_ActivityMemoryKind
  uint8_t destination_kind;  // CUpti_ActivityMemoryKind
  uint8_t reserved0;
  uint32_t source_device;  // kNoDevice: not from device to device.
  uint32_t destination_device;
};
static_assert(sizeof(MemcpyEvent) == 72);

struct MemsetEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  GpuPlace place;
  uint64_t bytes;
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t value;
  uint16_t memory_kind;  // CUpti_ActivityMemoryKind
  uint16_t reserved0;
  uint32_t reserved1;
};
static_assert(sizeof(MemsetEvent) == 72);

// A batch of decompressions by the GPU: cuMemBatchDecompressAsync.
struct MemDecompressEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  GpuPlace place;
  uint64_t bytes;  // Compressed.
};
static_assert(sizeof(MemDecompressEvent) == 48);

// One launch of a whole graph, where its nodes are not recorded.
struct GraphLaunchEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  GpuPlace place;
  uint32_t graph_id;
  uint32_t reserved;
};
static_assert(sizeof(GraphLaunchEvent) == 48);

// The host (or a stream) waiting for the GPU.
struct SyncEvent {
  EventHeader header;
  uint64_t start_ticks;
  uint64_t duration_ticks;
  uint32_t sync_kind;  // CUpti_ActivitySynchronizationType
  uint32_t context;
  uint32_t stream;  // kNoStream: all of the context.
  uint32_t correlation;
  uint32_t event_id;  // CUDA event waited for; 0: none
  uint32_t reserved;
};
static_assert(sizeof(SyncEvent) == 48);

// What profiling itself cost, as CUPTI says.
struct OverheadEvent {
  EventHeader header;  // thread: where it says so
  uint64_t start_ticks;
  uint64_t duration_ticks;
  uint32_t overhead_kind;  // CUpti_ActivityOverheadKind
  uint32_t correlation;
};
static_assert(sizeof(OverheadEvent) == 32);

// A CUDA event recorded on a stream: what a later SyncEvent of that event_id waits for.
struct CudaEventEvent {
  EventHeader header;
  GpuPlace place;
  uint32_t event_id;
  uint32_t reserved;
};
static_assert(sizeof(CudaEventEvent) == 32);

// cudaMalloc, cudaFree and their kin (not a framework's allocator on top of them).
struct DeviceMemoryEvent {
  EventHeader header;  // kEventFlagFree | kGpuFlagAsync | kGpuFlagPool
  uint64_t time_ticks;
  uint64_t address;
  uint64_t bytes;           // With kGpuFlagPool: the pool's size.
  uint64_t utilized_bytes;  // With kGpuFlagPool; else 0.
  uint32_t device;
  uint32_t context;
  uint32_t correlation;
  uint16_t memory_kind;  // CUpti_ActivityMemoryKind
  uint16_t reserved;
};
static_assert(sizeof(DeviceMemoryEvent) == 56);

struct DeviceEvent {
  EventHeader header;
  uint32_t device;
  uint32_t name_id;
  uint64_t memory_bytes;
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t sm_count;
  uint32_t warp_threads;
  uint32_t max_threads_per_block;
  uint32_t max_threads_per_sm;
  uint32_t max_blocks_per_sm;
  uint32_t registers_per_block;
  uint32_t registers_per_sm;
  uint32_t shared_bytes_per_block;
  uint32_t shared_bytes_per_sm;
  uint32_t shared_bytes_per_block_optin;
  uint8_t uuid[16];
};
static_assert(sizeof(DeviceEvent) == 88);

struct ContextEvent {
  EventHeader header;
  uint32_t context;
  uint32_t device;
};
static_assert(sizeof(ContextEvent) == 16);

struct StreamEvent {
  EventHeader header;
  uint32_t context;
  uint32_t stream;
  int32_t priority;
  uint32_t flags;  // CUpti_ActivityStreamFlag
};
static_assert(sizeof(StreamEvent) == 24);

// What became of records between CUPTI and capture memory. Indexes GpuStatusEvent.counts.
enum GpuCount : uint32_t {
  kGpuRecords = 0,         // Records that CUPTI delivered.
  kGpuDroppedByCupti = 1,  // cuptiActivityGetNumDroppedRecords
  kGpuNoBuffer = 2,        // Fell into the discard buffer: our pool was at its cap.
  kGpuLate = 3,            // In buffers that had not come back when the drain's time was over
                           // (counted when they do; else see kGpuLostBuffers).
  kGpuStale = 4,           // Of an earlier capture. No loss.
  kGpuUntimed = 5,         // start = end = 0: CUPTI was short of device buffers.
  kGpuCorrupt = 6,         // Unreadable: the rest of that buffer, by bytes / smallest record.
  kGpuUnknownKind = 7,     // Skipped by their size.
  kGpuOverCap = 8,         // Beyond the record cap.
  kGpuNoChunk = 9,         // Capture memory was full.
  kGpuBeforeWindow = 10,   // Ended before the first window. No loss.
  kGpuUnfinished = 11,     // Kept, flagged.
  kGpuLostBuffers = 12,    // Buffers that CUPTI never gave back; what was in them is unknown.
  kGpuFilteredApi = 13,    // API calls left out on purpose (nested, or of the noise list).
  kGpuStillRunning = 14,   // Work of the window that had not begun when the drain's time was over.
                           // Where records of calls are missing: also work that the window may
                           // have launched.
  kGpuLaterLaunch = 15,    // Work of calls after the window. No loss.
  kGpuCountCount = 16,
};

inline constexpr uint32_t kGpuStatusSimulated = 1 << 0;   // The loaded CUPTI is the stand-in.
inline constexpr uint32_t kGpuStatusStolen = 1 << 1;      // Another tool took our callbacks.
inline constexpr uint32_t kGpuStatusAbandoned = 1 << 2;   // CUPTI hung: given up, detached.
inline constexpr uint32_t kGpuStatusFatal = 1 << 3;       // CUPTI said FATAL_ERROR.
inline constexpr uint32_t kGpuStatusNoCuda = 1 << 4;      // No CUDA in this process: no GPU part.
inline constexpr uint32_t kGpuStatusEndedByCap = 1 << 5;  // Stopped early by time or record cap.
inline constexpr uint32_t kGpuStatusExited = 1 << 6;      // The process exited while recording.
inline constexpr uint32_t kGpuStatusStays = 1 << 7;       // CUPTI is not finalized afterwards.

// A GpuKindResult.result: CUPTI turned the kind on, and work has no calls of this kind.
inline constexpr uint16_t kGpuKindGivesNoRecords = UINT16_MAX;

struct GpuKindResult {
  uint16_t kind;    // CUpti_ActivityKind
  uint16_t result;  // CUptiResult of enabling it, not 0; or kGpuKindGivesNoRecords.
};

// How GPU recording stands. Sent when armed and when drained; the last one counts.
struct GpuStatusEvent {
  EventHeader header;
  uint32_t cupti_version;     // cuptiGetVersion: 130001
  uint32_t driver_version;    // cuDriverGetVersion: 13000; 0: not known
  uint32_t flags;             // kGpuStatus*
  uint32_t arm_ms;            // From ARM until all kinds were on.
  uint64_t clock_error_ns;    // Bound on the error of GPU times, besides the target clock's own.
  uint32_t clock_step_count;  // Times the wall clock was stepped while recording.
  uint32_t kind_result_count;
  uint64_t peak_pool_bytes;  // Most of our buffers in CUPTI's hands at once.
  uint64_t counts[kGpuCountCount];
  GpuKindResult kind_results[16];  // Kinds that could not be turned on, or gave no records.
};
static_assert(sizeof(GpuStatusEvent) == 8 + 40 + 8 * 16 + 64);

// ---- Framework events ----
//
// Written by client_lib/torch. An operator is a RangeEvent of RangeCategory::kOperator like any
// other range, written at its end. What is known of it at its begin stands in an OperatorEvent
// that was written then, on the same thread: the one whose start_ticks and depth are the
// range's. So inputs need no place to wait in, and an operator that never ends is known too.

// torch's at::RecordScope, as far as it matters here.
enum class OperatorScope : uint8_t {
  kFunction = 0,          // An ATen operator, or a custom one.
  kBackwardFunction = 1,  // A node of autograd.
  kTorchscriptFunction = 2,
  kUserScope = 7,  // record_function("..."): shown as `user_annotation`.
};
inline constexpr uint8_t kMaxOperatorScope = 9;

inline constexpr int64_t kNoSequence = -1;

// Followed by `described_count` inputs. Inputs that did not fit kMaxEventBytes are left out from
// the first that did not on.
struct OperatorEvent {
  EventHeader header;
  uint64_t start_ticks;
  int64_t sequence;         // Autograd's; kNoSequence: none. Of a backward node: its forward's.
  uint64_t forward_thread;  // torch's number of the thread that ran the forward; 0: none.
  uint32_t torch_thread;    // torch's number of this thread; 0: not known.
  uint16_t depth;
  uint8_t scope;        // OperatorScope
  uint8_t input_count;  // As torch says, at most 255.
  uint32_t described_count;
  uint32_t stack_id;  // StackFrameEvent.stack_id, of the same thread; kNoStackId: none.
};
static_assert(sizeof(OperatorEvent) == 48);

// One input, followed by its values: 8 bytes each, none of them aligned to more.
//
//   kTensor             [storage address, if kInputStorage] rank sizes [rank strides, if
//                       kInputStrides], int64
//   kTensorList         nothing; the next `count` inputs are its tensors, and are counted in
//                       described_count
//   kInt, kBool         one int64         kDouble      one double
//   kIntList, kBoolList count int64       kDoubleList  count doubles
//   kString             count bytes, padded to 8 with zeros
//   kNone, kOther       nothing
struct OperatorInput {
  uint8_t kind;   // InputKind
  int8_t dtype;   // kTensor: c10::ScalarType; -1: not known.
  uint8_t rank;   // kTensor: dimensions, at most kMaxTensorRank.
  uint8_t flags;  // kInput*
  uint32_t count;
};
static_assert(sizeof(OperatorInput) == 8);

enum class InputKind : uint8_t {
  kNone = 0,  // None, or an undefined tensor.
  kTensor = 1,
  kTensorList = 2,
  kInt = 3,
  kDouble = 4,
  kBool = 5,
  kString = 6,
  kIntList = 7,
  kDoubleList = 8,
  kBoolList = 9,
  kOther = 15,  // Something else, or what could not be read.
};
inline constexpr uint8_t kMaxTensorRank = 25;
inline constexpr uint32_t kMaxListItems = 64;  // Longer lists are cut; kInputCut.
inline constexpr uint32_t kMaxInputStringBytes = 256;

inline constexpr uint8_t kInputStorage = 1 << 0;  // The storage's address precedes the sizes.
inline constexpr uint8_t kInputStrides = 1 << 1;  // Strides follow the sizes.
inline constexpr uint8_t kInputCut = 1 << 2;      // A list or string that is longer in truth.

// A Python stack, as its innermost frame and the stack below that one. A stack is defined on the
// thread that uses it, before the first operator of the capture that does, and its parent before
// it. So readers need no other thread's events, and a lost chunk loses no definition that a later
// operator names: what found no chunk is defined again. An id of one thread stands for one stack
// for as long as the capture lasts.
//
// A capture of modules alone has only the frames of calls of modules.
struct StackFrameEvent {
  EventHeader header;      // flags: kStackFlagCut
  uint64_t module;         // Address of the module that the frame calls; 0: it calls none.
  uint32_t stack_id;       // From 1, in [1, kMaxStackId].
  uint32_t parent_id;      // The caller's stack, smaller than stack_id; kNoStackId: outermost.
  uint32_t file_id;        // Names. The file as Python has it: "train.py", "<string>".
  uint32_t name_id;        // Qualified name; before Python 3.11, the name.
  uint32_t line;           // Of the call; 0: Python has none for it.
  uint32_t first_line;     // Of the code.
  uint32_t class_name_id;  // With `module`: its class. Else kNoNameId.
  uint32_t depth;          // Frames below this one.
};
static_assert(sizeof(StackFrameEvent) == 48);

inline constexpr uint32_t kNoStackId = 0;
// Distinct stacks of one thread, its parents included. Operators beyond them have none.
inline constexpr uint32_t kMaxStackId = 16384;
// Deepest stack. Of a deeper one the innermost frames are kept, and the outermost of those has
// kStackFlagCut.
inline constexpr uint32_t kMaxStackDepth = 256;
inline constexpr uint8_t kStackFlagCut = 1 << 0;

// Something that a framework says about itself, in words. Rare.
struct NoteEvent {
  EventHeader header;
  uint64_t time_ticks;  // 0: of no moment; it holds for the whole capture.
  uint32_t subject_id;  // A name; kNoNameId: none.
  uint32_t text_id;     // A name; kNoNameId: none.
  int64_t value;
  uint16_t kind;  // NoteKind
  uint16_t reserved0;
  uint32_t reserved1;
};
static_assert(sizeof(NoteEvent) == 40);

enum class NoteKind : uint16_t {
  // Dynamo stopped tracing. subject: "file.py:19 in f", text: why.
  kGraphBreak = 1,
  // Guards failed and code was compiled again. subject: "file.py:19 in f", text: the guard,
  // value: compile time, ns; -1: not known.
  kRecompile = 2,
  // What the number in `Torch-Compiled Region: 0/1` stands for. subject: "0/1",
  // text: "file.py:19 in f", value: guards.
  kCompiledRegion = 3,
  // An allocation failed. subject: "cuda:0", value: bytes asked for.
  kOutOfMemory = 4,
  // What a framework calls a step. subject: "epoch", value: its number, text: "step 41", ours.
  kStepLabel = 5,
  // Something asked for is not recorded. subject: the feature, text: why.
  kMissing = 6,
  // Events left out on purpose: subject: in what ("_compile.compile_inner"), value: how many.
  kFolded = 7,
  // Which line of the program generated code comes from. subject: the generated file, value: the
  // first line of a range, which lasts to that of the file's next, text: "model.py(12): forward";
  // none: the range comes from no line.
  kGeneratedCode = 8,
};
inline constexpr uint16_t kMaxNoteKind = 8;

// Who owns a block of memory, seen by looking at the program's objects after the window. Of
// category kUnknown: that a block is there, and its size.
struct BlockEvent {
  EventHeader header;
  uint64_t address;  // Of the storage.
  int64_t bytes;
  uint32_t name_id;      // "layers.0.weight"; kNoNameId: none.
  uint16_t category;     // MemoryCategory: parameter, gradient, optimizer state, buffer; unknown
  uint16_t device_type;  // DeviceType
  int16_t device_index;
  uint16_t reserved0;
  uint32_t reserved1;
};
static_assert(sizeof(BlockEvent) == 40);

// A module of the program, found among its objects after the window. `address` is what
// StackFrameEvent.module has of it, unless it was made after one that was at the same address.
struct ModuleEvent {
  EventHeader header;
  uint64_t address;
  uint64_t root;     // Address of the outermost module that holds it; its own for that one.
  uint32_t path_id;  // Below the root: "blocks.0.mlp"; kNoNameId: it is the root.
  uint32_t class_name_id;
  uint64_t reserved;
};
static_assert(sizeof(ModuleEvent) == 40);

// How much of torch could be recorded. Sent when the capture has been drained; the last one counts.
struct TorchStatusEvent {
  EventHeader header;
  uint32_t version_id;   // "2.6.0+cu124"; kNoNameId: not known.
  uint32_t wanted;       // TorchFeature: what the capture asked for.
  uint32_t recorded;     // TorchFeature: of that, what was. A NoteEvent says why not, for each.
  uint32_t step_source;  // StepSource in status_page.h
  uint64_t counts[8];    // TorchCount
};
static_assert(sizeof(TorchStatusEvent) == 24 + 64);

// Bits of TorchStatusEvent.
enum TorchFeature : uint32_t {
  kTorchPresent = 1 << 0,         // There is a torch in the process, with what we need.
  kTorchOperators = 1 << 1,       // Names, times, nesting.
  kTorchScopes = 1 << 2,          // OperatorEvent.scope
  kTorchSequences = 1 << 3,       // .sequence
  kTorchThreads = 1 << 4,         // .torch_thread
  kTorchForwardThreads = 1 << 5,  // .forward_thread
  kTorchInputs = 1 << 6,          // Their number and kinds.
  kTorchShapes = 1 << 7,          // Sizes and types of tensors.
  kTorchStrides = 1 << 8,
  kTorchStorages = 1 << 9,
  kTorchLists = 1 << 10,
  kTorchScalars = 1 << 11,
  kTorchStrings = 1 << 12,
  kTorchSteps = 1 << 13,  // Steps without marks of the program's own.
  kTorchCpuMemory = 1 << 14,
  kTorchCudaMemory = 1 << 15,
  kTorchBlocks = 1 << 16,       // BlockEvents: a Python to look into.
  kTorchCompile = 1 << 17,      // Notes of torch.compile.
  kTorchStacks = 1 << 18,       // OperatorEvent.stack_id, with every Python frame.
  kTorchModules = 1 << 19,      // StackFrameEvent.module
  kTorchModulePaths = 1 << 20,  // ModuleEvents: a Python to look into.
};
inline constexpr uint32_t kAllTorchFeatures = (1 << 21) - 1;

// Indexes TorchStatusEvent.counts.
enum TorchCount : uint32_t {
  kTorchCutInputs = 0,     // Operators with inputs that were left out, or cut.
  kTorchFolded = 1,        // Events inside of compilations, left out on purpose.
  kTorchOddTensors = 2,    // Tensors that did not look like one; given as kOther.
  kTorchLostNotes = 3,     // Notes and blocks for which there was no room.
  kTorchMissedMemory = 4,  // Memory events on threads that were inside our own code.
  kTorchOddFrames = 5,     // Operators without a stack: a frame did not look like one.
  kTorchFullStacks = 6,    // Operators without a stack: the thread has kMaxStackId of them.
};

static_assert(std::is_trivially_copyable_v<RangeEvent> &&
              std::is_trivially_copyable_v<MemoryEvent> &&
              std::is_trivially_copyable_v<KernelEvent> &&
              std::is_trivially_copyable_v<GpuStatusEvent> &&
              std::is_trivially_copyable_v<OperatorEvent>);

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_EVENT_H_
