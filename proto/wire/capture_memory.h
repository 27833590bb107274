// Capture memory: where the threads of a target put their events while a capture
// runs. The daemon makes it, one sealed memfd per capture, and hands it over in the
// ARM frame.
//
//   0                    CaptureMemoryHeader           (one 4 KiB page)
//   chunk_table_offset   ChunkControl[chunk_count]     (16 bytes each)
//   name_index_offset    atomic<u32>[name_capacity]    name id -> offset of its NameEntry
//   name_area_offset     NameEntry, NameEntry, ...     append only, 8-byte aligned
//   chunks_offset        chunk 0, chunk 1, ...         64 KiB each, 4 KiB aligned
//
// A chunk's life:
//
//            thread pops it              thread: full, or done with it
//   FREE ───────────────────────► OWNED ──────────────────────────────► FULL
//     ▲                                                                   │
//     └───────────────────────────────────────────────────────────────────┘
//              daemon copied it out and pushes it on the free list
//
// FREE chunks hang on one list (free_head, a Treiber stack with a tag against ABA).
// Threads of the target pop; only the daemon pushes, after it made the memory. While a
// chunk is OWNED one thread alone writes it; the daemon may read the bytes below
// published_bytes at any time, and reads OWNED chunks at the end of the window.
// A thread that finds the list empty drops its event and counts it in
// drops[kDropNoChunk]: no thread waits, nothing is overwritten. So what the daemon gets of a
// thread are unbroken runs, in `sequence` order, and gaps of known size.
//
// Names: the bytes of a name stand in the name area, and its offset in the name
// index (release), before any event carries its id. The offset counts from the start of
// the capture memory; 0 is an id that has no name yet.
//
// The daemon trusts nothing here but what it wrote itself and kept a copy of: counts,
// offsets and sizes are taken from that copy, never from the header.
#ifndef PROFD_PROTO_WIRE_CAPTURE_MEMORY_H_
#define PROFD_PROTO_WIRE_CAPTURE_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "proto/wire/event.h"

namespace profd::wire {

inline constexpr uint32_t kCaptureMemoryMagic = 0x4d434450;  // "PDCM"
inline constexpr uint32_t kCaptureMemoryVersion = 1;
inline constexpr uint32_t kChunkBytes = 64 * 1024;
inline constexpr uint64_t kMinCaptureMemoryBytes = 1u << 20;
inline constexpr uint64_t kDefaultCaptureMemoryBytes = 64u << 20;
inline constexpr uint64_t kMaxCaptureMemoryBytes = uint64_t{4} << 30;
// Most windows one capture can have (`repeat`).
inline constexpr uint32_t kMaxWindows = 64;

// What the target is doing for this capture. Written by the target; only grows within
// a window; kWaiting..kRecording repeat for each window.
enum class Phase : uint32_t {
  kIdle = 0,       // Not armed yet.
  kArmed = 1,      // Mapped and ready; FIRE has not come.
  kWaiting = 2,    // Has its plan; the first warm-up or recorded step has not begun.
  kWarmup = 3,     // Recording, to be discarded.
  kRecording = 4,  // Inside a window.
  kEnded = 5,      // The last window is over, or STOP came. Only GPU events follow, until DRAINED.
  kMissed = 6,     // The start step had passed when FIRE came. Nothing was recorded.
};

// Why events were not kept, counted by the target. Indexes CaptureMemoryHeader.drops.
enum DropCause : uint32_t {
  kDropNoChunk = 0,        // No free chunk.
  kDropTooDeep = 1,        // Nested deeper than kMaxRangeDepth.
  kDropTooLarge = 2,       // Record over kMaxEventBytes.
  kDropUnbalancedEnd = 3,  // An end with no open range. (Not an event lost; a bug shown.) The
                           // library of 0.1 leaves it 0: it cannot tell such an end from one
                           // whose begin was before the window.
  kDropNoThreadState = 4,  // More live threads than the library has room for.
  kDropCauseCount = 8,
};

struct Window {
  std::atomic<uint64_t> start_ticks;  // 0: not begun
  std::atomic<uint64_t> end_ticks;    // 0: not ended
  std::atomic<uint64_t> first_step;   // Of the first recorded step; UINT64_MAX: by time.
  std::atomic<uint64_t> end_step;     // One past the last recorded step.
};

struct alignas(64) CaptureMemoryHeader {
  // Line 0-1: written by the daemon before the memory is shared, never after.
  uint32_t magic;
  uint32_t version;
  uint64_t capture_number;  // As in the ARM frame.
  uint64_t total_bytes;
  uint32_t chunk_bytes;
  uint32_t chunk_count;
  uint32_t name_capacity;
  uint32_t name_area_bytes;
  uint64_t chunk_table_offset;
  uint64_t name_index_offset;
  uint64_t name_area_offset;
  uint64_t chunks_offset;
  uint8_t reserved0[128 - 72];

  // Line 2: popped by the target, pushed by the daemon. (tag << 32) | (chunk index + 1);
  // low half 0: empty.
  std::atomic<uint64_t> free_head;
  // Written by the daemon: from the start to here every byte has its page, which is the
  // daemon's to pay for. The target touches nothing after it that it need not. 0: all has.
  std::atomic<uint64_t> filled_bytes;
  uint8_t reserved1[48];

  // Line 3: written by the target's step thread and its agent thread.
  std::atomic<uint32_t> phase;         // Phase
  std::atomic<uint32_t> window_count;  // Windows begun so far, at most kMaxWindows.
  std::atomic<uint64_t> current_step;
  uint8_t reserved2[48];

  // Line 4: written by any thread of the target.
  std::atomic<uint32_t> name_area_used;  // Bytes reserved; may pass name_area_bytes.
  std::atomic<uint32_t> reserved3;
  // Events that became "(other)" because a name cap was reached. Kept, not dropped.
  std::atomic<uint64_t> other_name_event_count;
  std::atomic<uint64_t> foreign_step_mark_count;  // Step marks on other threads.
  uint8_t reserved4[40];

  // Line 5-6: by DropCause. `drops` counts inside windows, `warmup_drops` outside them.
  std::atomic<uint64_t> drops[kDropCauseCount];
  std::atomic<uint64_t> warmup_drops[kDropCauseCount];

  uint8_t reserved5[1024 - 448];

  Window windows[kMaxWindows];
  uint8_t reserved6[4096 - 1024 - 32 * kMaxWindows];
};
static_assert(sizeof(CaptureMemoryHeader) == 4096);
static_assert(offsetof(CaptureMemoryHeader, free_head) == 128);
static_assert(offsetof(CaptureMemoryHeader, phase) == 192);
static_assert(offsetof(CaptureMemoryHeader, name_area_used) == 256);
static_assert(offsetof(CaptureMemoryHeader, drops) == 320);
static_assert(offsetof(CaptureMemoryHeader, windows) == 1024);

enum class ChunkState : uint32_t { kFree = 0, kOwned = 1, kFull = 2 };

struct ChunkControl {
  std::atomic<uint32_t> state;      // ChunkState
  std::atomic<uint32_t> next_free;  // Index + 1 of the next free chunk; 0: last.
  uint64_t reserved;
};
static_assert(sizeof(ChunkControl) == 16);

// OpenRange.pairing: what begins the range also ends it, in any order with others.
inline constexpr uint16_t kPairedByIdentity = 65533;

// A range that has begun and not ended, on its thread's stack.
struct OpenRange {
  uint64_t start_ticks;
  uint32_t name_id;
  uint16_t category;  // RangeCategory
  uint16_t pairing;   // kPairedByIdentity, or the writer's number of a stack; its end pops it.
};
static_assert(sizeof(OpenRange) == 16);

// The head of each chunk. Written by the thread that owns the chunk.
//
// The stack is the thread's stack of open ranges, so that ranges open at the window's
// end or at the process's death are not lost. It lives in the thread's current chunk:
// a thread that moves on copies its entries over and sets the old depth to 0. A FULL
// chunk with a depth above 0 was left with ranges open (its window ended).
// At a range's end the record is published before the depth falls: after a kill the
// innermost entry may also be the last record, and the reader drops it then.
struct alignas(64) ChunkHeader {
  std::atomic<uint32_t> published_bytes;  // Of records after this header; release.
  std::atomic<uint32_t> open_depth;       // Entries of open_ranges in use; release.
  uint32_t thread_serial;                 // Which thread of the process, from 1, never reused.
  uint32_t os_thread;                     // gettid() in the target's own pid namespace.
  uint32_t sequence;                      // 0, 1, 2, ... over the chunks of this thread_serial.
  uint32_t window;  // Index of the window (or its warm-up) the chunk belongs to.
  uint8_t reserved[64 - 24];
  OpenRange open_ranges[kMaxRangeDepth];
};
inline constexpr uint32_t kChunkDataOffset = 64 + 16 * kMaxRangeDepth;
inline constexpr uint32_t kChunkDataBytes = kChunkBytes - kChunkDataOffset;
static_assert(sizeof(ChunkHeader) == kChunkDataOffset);
static_assert(kChunkDataOffset % 64 == 0);

// A name in the name area, followed by its bytes and padding to 8. Not terminated.
// Arbitrary bytes: readers sanitise on output.
struct NameEntry {
  uint32_t length_bytes;  // <= kMaxNameBytes
  uint32_t reserved;
};
static_assert(sizeof(NameEntry) == 8);

// Where everything lies in a capture memory of a given size. Both sides compute it.
struct CaptureMemoryLayout {
  uint64_t total_bytes;
  uint32_t chunk_count;
  uint32_t name_capacity;
  uint32_t name_area_bytes;
  uint64_t chunk_table_offset;
  uint64_t name_index_offset;
  uint64_t name_area_offset;
  uint64_t chunks_offset;
};

// The layout for `total_bytes`, which must be a multiple of kChunkBytes within
// [kMinCaptureMemoryBytes, kMaxCaptureMemoryBytes]. A quarter at most goes to names.
constexpr CaptureMemoryLayout LayoutFor(uint64_t total_bytes) {
  constexpr auto round_up = [](uint64_t n, uint64_t to) { return (n + to - 1) / to * to; };
  CaptureMemoryLayout layout{};
  layout.total_bytes = total_bytes;
  layout.name_capacity = total_bytes >= (uint64_t{16} << 20) ? kMaxNames : kMaxNames / 16;
  const uint64_t name_area =
      total_bytes / 4 < kMaxNameAreaBytes ? total_bytes / 4 : kMaxNameAreaBytes;
  layout.name_area_bytes = static_cast<uint32_t>(name_area);
  layout.chunk_table_offset = sizeof(CaptureMemoryHeader);
  const uint64_t table_bytes = round_up(total_bytes / kChunkBytes * sizeof(ChunkControl), 4096);
  layout.name_index_offset = layout.chunk_table_offset + table_bytes;
  layout.name_area_offset = layout.name_index_offset + uint64_t{layout.name_capacity} * 4;
  layout.chunks_offset = round_up(layout.name_area_offset + name_area, 4096);
  layout.chunk_count = static_cast<uint32_t>((total_bytes - layout.chunks_offset) / kChunkBytes);
  return layout;
}
static_assert(LayoutFor(kMinCaptureMemoryBytes).chunk_count >= 11);
static_assert(LayoutFor(kDefaultCaptureMemoryBytes).chunk_count >= 760);

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_CAPTURE_MEMORY_H_
