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
// struct with a static_assert on its size, teach daemon/ingest/event_decoder.cc to
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
  // 16..31  GPU kinds: kernels, copies, memsets, synchronisations, API calls.
  // 32..47  framework kinds: operators with shapes, Python frames, modules.
};

// EventHeader.flags. Bits not named are ignored by readers and zero from writers.
inline constexpr uint8_t kEventFlagFree = 1 << 0;       // MemoryEvent: a free, not an allocation.
inline constexpr uint8_t kEventFlagTruncated = 1 << 1;  // RangeEvent: cut at the window's edge.

struct EventHeader {
  uint16_t size_bytes;  // Of the whole record; a multiple of 8 in [8, 4096].
  uint8_t kind;         // EventKind
  uint8_t flags;
  uint32_t thread;  // 0: the thread of the chunk. Else the OS thread id it happened on.
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

// Numbers as PyTorch's c10::DeviceType has them.
enum class DeviceType : uint16_t { kCpu = 0, kCuda = 1 };

enum class MemoryCategory : uint16_t {
  kUnknown = 0,
  kParameter = 1,
  kGradient = 2,
  kOptimizerState = 3,
  kActivation = 4,
  kInput = 5,
  kTemporary = 6,
};
inline constexpr uint16_t kMaxMemoryCategory = 6;

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

static_assert(std::is_trivially_copyable_v<RangeEvent> &&
              std::is_trivially_copyable_v<MemoryEvent>);

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_EVENT_H_
