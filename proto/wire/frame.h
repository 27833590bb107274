// Frames: the messages between a target and its daemon, on an AF_UNIX SOCK_SEQPACKET
// socket (DIR/agent/agent.sock). One frame is one packet.
//
//   byte 0       4        6        8              12            16
//        +-------+--------+--------+--------------+-------------+---------------------+
//        | magic |  type  | zero   | length, all  | request id  | fixed body | fields |
//        +-------+--------+--------+--------------+-------------+---------------------+
//
// `length` counts the whole frame and must equal the packet's size. A body longer than
// its struct continues with fields (tag, length, bytes); unknown tags are skipped, and so
// are unknown frame types (counted). A reply carries the request id of what it answers.
//
// A connection's life:
//
//   target                                daemon
//     │ HELLO (versions, clock, fields)     │
//     ├────────────────────────────────────►│  pid, uid, gid from SO_PEERCRED, not from HELLO
//     │        WELCOME (version) + page fd  │
//     │◄────────────────────────────────────┤  or REFUSE and close
//     │            ARM (capture) + memory fd│
//     │◄────────────────────────────────────┤
//     │ ARMING (text), any number of times  │
//     ├────────────────────────────────────►│
//     │ ARMED | ARM_FAILED                  │
//     ├────────────────────────────────────►│
//     │            FIRE (plan)              │
//     │◄────────────────────────────────────┤
//     │   ... the window: nothing is sent; the daemon reads `phase` in capture memory
//     │            STOP                     │  the window is over (or is to be)
//     │◄────────────────────────────────────┤
//     │ DRAINED (no thread writes any more) │
//     ├────────────────────────────────────►│
//     │            RELEASE                  │
//     │◄────────────────────────────────────┤  unmap, forget the capture
//
// Versions: HELLO carries the lowest and highest version the sender speaks; the daemon
// picks the highest common one. What a version means is listed at kProtocolVersionMax.
//
// How do I add a frame?  Take the next type number, add a body struct with a
// static_assert, and handle it in client_lib/core/agent.cc or daemon/ingest/. If the
// other side must understand it, raise kProtocolVersionMax and say so below.
#ifndef PROFD_PROTO_WIRE_FRAME_H_
#define PROFD_PROTO_WIRE_FRAME_H_

#include <cstdint>

namespace profd::wire {

// Version 1 (profd 0.1): everything in this file.
inline constexpr uint16_t kProtocolVersionMin = 1;
inline constexpr uint16_t kProtocolVersionMax = 1;

inline constexpr uint32_t kFrameMagic = 0x46444650;  // "PFDF"
inline constexpr uint32_t kMaxFrameBytes = 16 * 1024;

enum class FrameType : uint16_t {
  kHello = 1,      // target -> daemon
  kWelcome = 2,    // daemon -> target, with the status page's fd
  kRefuse = 3,     // daemon -> target; the connection closes after it
  kArm = 4,        // daemon -> target, with the capture memory's fd
  kArmed = 5,      // target -> daemon
  kArmFailed = 6,  // target -> daemon
  kFire = 7,       // daemon -> target
  kStop = 8,       // daemon -> target
  kDrained = 9,    // target -> daemon
  kRelease = 10,   // daemon -> target
  kMetadata = 11,  // target -> daemon: fields only; replaces those of the same key
  kArming = 12,    // target -> daemon, while ARM takes long: what it is doing
};

struct FrameHeader {
  uint32_t magic;
  uint16_t type;  // FrameType
  uint16_t reserved;
  uint32_t length_bytes;  // Whole frame, in [16, kMaxFrameBytes].
  uint32_t request_id;    // 0 where nothing is answered.
};
static_assert(sizeof(FrameHeader) == 16);

// A field after a body: `length_bytes` bytes follow, no padding, no terminator.
struct FieldHeader {
  uint16_t tag;  // FieldTag
  uint16_t length_bytes;
};
static_assert(sizeof(FieldHeader) == 4);

enum class FieldTag : uint16_t {
  kLibraryVersion = 1,  // "0.1.0"
  kMetadata = 2,        // "KEY=VALUE": job, rank and the like; hints for display only
  kText = 3,            // a reason, for people
  kStepMarker = 4,      // ARM: the name of the range whose begins are step marks
  kTorch = 5,           // ARM: ArmTorchField
};
inline constexpr uint32_t kMaxMetadataFields = 32;

// What `ticks` in events mean.
enum class ClockKind : uint32_t {
  kMonotonicNs = 1,  // CLOCK_MONOTONIC, nanoseconds
  kTsc = 2,          // x86 time-stamp counter; invariant TSC only
  kCntvct = 3,       // aarch64 cntvct_el0
};

struct HelloBody {
  uint16_t version_min;
  uint16_t version_max;
  uint32_t clock_kind;  // ClockKind
  uint32_t own_pid;     // getpid() in the target's namespace: a hint for display.
  uint32_t parent_pid;  // Set by a forked child that had a registered parent; else 0.
  uint64_t step_mark_count;
  uint64_t reserved;
};
static_assert(sizeof(HelloBody) == 32);

struct WelcomeBody {
  uint16_t version;  // The one spoken from here on.
  uint16_t reserved0;
  uint32_t reserved1;
  uint64_t target_number;  // The daemon's name for this registration.
};
static_assert(sizeof(WelcomeBody) == 16);

enum class RefuseReason : uint32_t {
  kVersion = 1,   // No common version.
  kBadHello = 2,  // Not understood.
  kFull = 3,      // Too many targets; try again later.
  kNotAllowed = 4,
};

struct RefuseBody {
  uint32_t reason;  // RefuseReason
  uint16_t version_min;
  uint16_t version_max;
};
static_assert(sizeof(RefuseBody) == 8);

// How much of the GPU to record; each includes those before it.
enum class GpuMode : uint32_t {
  kOff = 0,
  kLight = 1,    // Kernels, copies, memsets, also as nodes of graphs.
  kDefault = 2,  // And API calls, synchronization, overhead.
  // And all driver calls, device memory and pools, CUDA events, host functions, decompression.
  kFull = 3,
};

inline constexpr uint32_t kArmGpuRequired = 1 << 0;  // Fail if this process has no CUDA.
inline constexpr uint32_t kArmGpuDetach = 1 << 1;    // cuptiFinalize after the capture.
inline constexpr uint32_t kArmGpuLatency = 1 << 2;   // Queue and submit times of kernels.

// How much of PyTorch's operators to record; each includes those before it.
enum class OperatorsMode : uint32_t {
  kOff = 0,
  kNames = 1,   // Names, nesting, forward and backward.
  kShapes = 2,  // And inputs: sizes, types, scalars.
};

inline constexpr uint32_t kArmTorchStrides = 1 << 0;  // And strides of inputs.
inline constexpr uint32_t kArmTorchMemory = 1 << 1;   // The allocators' events, and who owns what.
inline constexpr uint32_t kArmTorchStacks = 1 << 2;   // Python stacks of operators.
inline constexpr uint32_t kArmTorchModules = 1 << 3;  // Modules that operators are in.

// A field of ARM, since a body that grows is not understood by older libraries. Without it
// nothing of torch is recorded. In a process without torch it changes nothing.
struct ArmTorchField {
  uint32_t operators;    // OperatorsMode
  uint32_t flags;        // kArmTorch*
  uint32_t step_source;  // StepSource whose steps this capture counts; kNone: the process's own.
  uint32_t reserved;
};
static_assert(sizeof(ArmTorchField) == 16);

// Fields: kStepMarker, kTorch.
struct ArmBody {
  uint64_t capture_number;  // The daemon's name for the capture on this connection; never 0.
  uint64_t memory_bytes;
  uint64_t prefault_bytes;    // Touch this much from the start before ARMED; the rest after.
  uint64_t gpu_buffer_bytes;  // Most that CUPTI's buffers may take in the target.
  uint64_t gpu_max_records;   // Recording of the GPU stops after this many.
  uint32_t gpu_mode;          // GpuMode
  uint32_t flags;             // kArm*
  uint32_t gpu_arm_timeout_ms;
  uint32_t reserved;
};
static_assert(sizeof(ArmBody) == 56);

// Fields: kText, what the target is doing ("attaching to CUPTI, 3 s").
struct ArmingBody {
  uint64_t capture_number;
};
static_assert(sizeof(ArmingBody) == 8);

struct ArmedBody {
  uint64_t capture_number;
  uint64_t step_mark_count;
};
static_assert(sizeof(ArmedBody) == 16);

enum class ArmFailedReason : uint32_t {
  kBusy = 1,    // Another capture is live in this process.
  kMemory = 2,  // The memory could not be mapped or did not look right.
  // Of the GPU; the text field says who or what, and the remedy.
  kNoCuda = 3,      // kArmGpuRequired, and no CUDA in this process.
  kNoCupti = 4,     // CUDA, but no usable libcupti.
  kNoDriver = 5,    // CUPTI does not get on with the driver.
  kCuptiBusy = 6,   // Another tool holds CUPTI.
  kGpuTimeout = 7,  // CUPTI did not answer within gpu_arm_timeout_ms.
  kGpuRefused = 8,  // CUPTI refused for another reason (privileges, vGPU, MIG, ...).
  // Threads that were stopped inside a write hold the memory of all earlier captures that this
  // process can have.
  kStuckWriters = 9,
};

// Fields: kText.

struct ArmFailedBody {
  uint64_t capture_number;
  uint32_t reason;  // ArmFailedReason
  uint32_t reserved;
};
static_assert(sizeof(ArmFailedBody) == 16);

inline constexpr uint64_t kNextStep = UINT64_MAX;

// The plan. With B = base_step (kNextStep: the next mark) and a cycle of
// n = wait + warmup + active steps, step B + r*n + i of cycle r < repeat is idle for
// i < wait, warm-up for i < wait + warmup, and recorded otherwise. active_steps == 0:
// by time instead; the window opens at once and ends at STOP.
struct FireBody {
  uint64_t capture_number;
  uint64_t base_step;
  uint64_t active_steps;  // At most 1,000,000.
  uint32_t wait_steps;
  uint32_t warmup_steps;
  uint32_t repeat;  // 1..kMaxWindows
  uint32_t flags;   // 0
};
static_assert(sizeof(FireBody) == 40);

struct StopBody {
  uint64_t capture_number;
};
static_assert(sizeof(StopBody) == 8);

struct DrainedBody {
  uint64_t capture_number;
  // Threads that were still inside a write when the library stopped waiting for them
  // (a second): what they were writing is not kept.
  uint32_t stuck_writer_count;
  uint32_t reserved;
};
static_assert(sizeof(DrainedBody) == 16);

struct ReleaseBody {
  uint64_t capture_number;
};
static_assert(sizeof(ReleaseBody) == 8);

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_FRAME_H_
