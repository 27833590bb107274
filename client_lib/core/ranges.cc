// Ranges: the exported functions with their straight paths, each one function without a
// call, and everything that is off them. (tests/bench/hot_path_benchmark.cc)
//
// A copy that hands over to an earlier one has no thread states, so it never gets past the
// first branch of a straight path.

#define PROFD_COLD  // Callers put their calls aside; here these are the hot paths.
#include <string.h>

#include <bit>

#include "client_lib/core/handover.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/range_set.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/steps.h"
#include "client_lib/core/thread_state.h"
#include "client_lib/include/profd/profd.h"
#include "proto/wire/clock.h"
#include "proto/wire/range_arguments.h"

namespace profd::client {
namespace {

// An OpenRange and a RangeEvent as the words they are made of, so that each is written and
// read back in whole words: a narrow store followed by a wide load stalls.
static_assert(std::endian::native == std::endian::little);
static_assert(offsetof(wire::OpenRange, name_id) == 8 && offsetof(wire::OpenRange, category) == 12);
static_assert(offsetof(wire::RangeEvent, name_id) == 24 && offsetof(wire::RangeEvent, depth) == 28);

constexpr uint64_t kRangeHeaderWord =
    sizeof(wire::RangeEvent) | uint64_t{static_cast<uint8_t>(wire::EventKind::kRange)} << 16;
constexpr uint64_t kUnendedHeaderWord = kRangeHeaderWord | uint64_t{wire::kEventFlagUnended} << 24;
static_assert(offsetof(wire::EventHeader, flags) == 3);
constexpr uint32_t kStackShift = 48;  // OpenRange.pairing
static_assert(offsetof(wire::OpenRange, pairing) == 8 + kStackShift / 8);
constexpr uint32_t kLastRoomForAnyEvent = wire::kChunkDataBytes - wire::kMaxEventBytes;
constexpr uint32_t kLastRoomForRange = wire::kChunkDataBytes - sizeof(wire::RangeEvent);

typedef uint64_t __attribute__((may_alias)) Word;

// `name` is a name id and, in the upper 16 bits, the stack; 0 is that of profd_range_*().
[[gnu::always_inline]] inline void Push(ThreadState* thread, uint32_t depth, uint64_t name,
                                        uint64_t start_ticks) {
  auto* open = reinterpret_cast<Word*>(&thread->stack[depth]);
  open[0] = start_ticks;
  open[1] = name;
  thread->depth = depth + 1;
  thread->open_depth->store(depth + 1, std::memory_order_release);
}

// The record first, then the depth: after a kill the range may stand twice, never nowhere.
[[gnu::always_inline]] inline void Pop(ThreadState* thread, uint32_t depth, uint32_t used,
                                       uint64_t end_ticks,
                                       uint64_t header_word = kRangeHeaderWord) {
  const auto* open = reinterpret_cast<const Word*>(&thread->stack[depth]);
  const uint64_t start_ticks = open[0];
  const uint64_t name = static_cast<uint32_t>(open[1]);
  const uint64_t category = open[1] >> 32;
  auto* record = reinterpret_cast<Word*>(thread->data + used);
  record[0] = header_word;
  record[1] = start_ticks;
  record[2] = end_ticks > start_ticks ? end_ticks - start_ticks : 0;
  record[3] = name | uint64_t{depth} << 32 | category << 48;
  thread->used_bytes = used + sizeof(wire::RangeEvent);
  thread->chunk->published_bytes.store(used + sizeof(wire::RangeEvent), std::memory_order_release);
  thread->depth = depth;
  thread->open_depth->store(depth, std::memory_order_release);
}

// Ranges that another thread has closed and that their own threads still have on their stacks. What
// finds no place stays there, and is in the capture twice: closed, and open.
constinit RangeSet g_closed_elsewhere{};
// Ranges that their threads left open when they ended, and that were written then.
constinit RangeSet g_ended_with_thread{};

[[gnu::always_inline]] inline bool IsByIdentity(const wire::OpenRange& range) {
  return range.pairing == kIdentityStack;
}

// Takes those that were closed elsewhere out of the `depth` ranges of `stack`. Returns how many
// are left.
uint32_t KeepOpen(wire::OpenRange* stack, uint32_t depth) {
  uint32_t kept = 0;
  for (uint32_t at = 0; at < depth; ++at) {
    const wire::OpenRange range = stack[at];
    if (IsByIdentity(range) && g_closed_elsewhere.Remove(range.start_ticks)) continue;
    if (kept != at) stack[kept] = range;
    ++kept;
  }
  return kept;
}

// Inside a write, at the thread's epoch.
PROFD_NOINLINE void DropClosedElsewhere(ThreadState* thread) {
  if (thread->depth > wire::kMaxRangeDepth) return;
  const uint32_t depth = KeepOpen(thread->stack, thread->depth);
  if (depth == thread->depth) return;
  thread->depth = depth;
  thread->open_depth->store(depth, std::memory_order_release);
}

}  // namespace

bool IsRangeOpen(ThreadState* thread, uint32_t name_id) {
  if (g_hot.flag.load(std::memory_order_relaxed) != thread->epoch) return false;
  const uint32_t noted =
      thread->depth < wire::kMaxRangeDepth ? thread->depth : wire::kMaxRangeDepth;
  for (uint32_t at = 0; at < noted; ++at) {
    // Those of asyncio tasks overlap: at any time one of them may be open.
    if (thread->stack[at].name_id == name_id && !IsByIdentity(thread->stack[at])) return true;
  }
  return false;
}

namespace {

// Off the straight path: the thread's first range of a window, no chunk, too deep, a name
// without a place, a slow clock. Returns the range's start; kRangeTooDeep; 0: nothing records.
PROFD_NOINLINE uint64_t BeginSlowly(uint32_t name_id, uint64_t stack_bits = 0) {
  if (!IsRecording()) return 0;
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourMarker) != 0) {
    MarkStepByRange(thread, name_id);  // May open or end a window.
  }
  Session* session;
  const Entry entry = EnterEpoch(thread, &session);
  if (entry == Entry::kOff) return 0;
  if (entry == Entry::kNoThread) {
    session->CountDrop(wire::kDropNoThreadState);
    return 0;
  }
  if (!g_closed_elsewhere.is_empty()) DropClosedElsewhere(thread);
  if (thread->depth >= wire::kMaxRangeDepth) {
    ++thread->depth;
    session->CountDrop(wire::kDropTooDeep);
    return kRangeTooDeep;
  }
  if (thread->chunk == nullptr) session->TakeChunk(thread);
  const uint32_t event_name_id = session->EventNameId(name_id);
  const uint64_t start_ticks = ReadTicks();
  Push(thread, thread->depth, event_name_id | stack_bits, start_ticks);
  return start_ticks;
}

[[gnu::always_inline]] inline uint32_t StackAt(const ThreadState* thread, uint32_t depth) {
  return static_cast<uint32_t>(reinterpret_cast<const Word*>(&thread->stack[depth])[1] >>
                               kStackShift);
}

// The chunk is full, or there is none, or the innermost range was too deep to be noted.
// Inside a write, at the thread's epoch.
PROFD_NOINLINE void EndSlowly(ThreadState* thread) {
  const uint64_t end_ticks = ReadTicks();
  if (thread->depth == 0) return;
  const uint32_t depth = thread->depth - 1;
  if (depth >= wire::kMaxRangeDepth) {
    thread->depth = depth;
    return;
  }
  // A thread that was stuck right here may find the next capture's session.
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session == nullptr || session->serial != thread->session_serial) return;
  if (thread->used_bytes > kLastRoomForRange && !session->TakeChunk(thread)) {
    session->CountDrop(wire::kDropNoChunk);
    thread->depth = depth;
    thread->open_depth->store(depth, std::memory_order_release);
    return;
  }
  Pop(thread, depth, thread->used_bytes, end_ticks);
}

// Takes the range at stack[at] off the stack.
wire::OpenRange TakeOut(ThreadState* thread, uint32_t at) {
  const wire::OpenRange range = thread->stack[at];
  const uint32_t depth = thread->depth - 1;
  memmove(&thread->stack[at], &thread->stack[at + 1], (depth - at) * sizeof(range));
  thread->depth = depth;
  thread->open_depth->store(depth, std::memory_order_release);
  return range;
}

// The innermost range is of another stack, or whatever EndSlowly() is for.
PROFD_NOINLINE void EndSlowlyOn(ThreadState* thread, uint32_t stack) {
  const uint32_t depth = thread->depth;
  if (depth > wire::kMaxRangeDepth) return EndSlowly(thread);  // Whose it was is not known.
  uint32_t at = depth;
  while (at > 0 && StackAt(thread, at - 1) != stack) --at;
  if (at == 0) return;
  if (at == depth) return EndSlowly(thread);
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session == nullptr || session->serial != thread->session_serial) return;
  const wire::OpenRange range = TakeOut(thread, at - 1);
  WriteSpan(session, thread, range.name_id, range.start_ticks, ReadTicks());
}

#if defined(__SANITIZE_THREAD__)
void EnterWrite(ThreadState* thread) { thread->EnterWrite(); }
#else
[[gnu::always_inline]] inline void EnterWrite(ThreadState* thread) { thread->EnterWriteUnfenced(); }
#endif

// False: nothing was done.
[[gnu::always_inline]] inline bool BeginStraight(ThreadState* thread, uint32_t name_id,
                                                 uint64_t stack_bits = 0) {
  if (PROFD_UNLIKELY(thread == nullptr)) return false;
  if (PROFD_UNLIKELY(g_hot.detour.load(std::memory_order_relaxed) != 0)) return false;
  EnterWrite(thread);
  const uint32_t depth = thread->depth;
  if (PROFD_UNLIKELY(g_hot.flag.load(std::memory_order_relaxed) != thread->epoch) ||
      PROFD_UNLIKELY(depth >= thread->depth_limit) ||
      PROFD_UNLIKELY(name_id <= wire::kOtherNameId)) {
    thread->LeaveWrite();
    return false;
  }
  Push(thread, depth, name_id | stack_bits, wire::ReadCpuTicks());
  thread->LeaveWrite();
  return true;
}

PROFD_NOINLINE void BeginSlowlyByName(profd_name* name) {
  if (const CopyTable* copy = EarlierCopy()) return copy->range_begin_slow(name);
  if (IsRecording()) BeginSlowly(IdOf(name));
}

PROFD_NOINLINE void BeginSlowlyById(uint32_t name_id) {
  if (const CopyTable* copy = EarlierCopy()) return copy->range_begin_id(name_id);
  BeginSlowly(CheckedId(name_id));
}

PROFD_NOINLINE void EndWithoutState() {
  if (const CopyTable* copy = EarlierCopy()) copy->range_end_id();
}

PROFD_NOINLINE void EndOnDetour(ThreadState* thread) {
  WriteGuard guard(thread);
  if (g_hot.flag.load(std::memory_order_relaxed) == thread->epoch) EndSlowly(thread);
}

PROFD_NOINLINE void EndOnDetourOn(ThreadState* thread, uint32_t stack) {
  WriteGuard guard(thread);
  if (g_hot.flag.load(std::memory_order_relaxed) == thread->epoch) EndSlowlyOn(thread, stack);
}

// The rest of StartOperator(): inside a write, at the thread's epoch.
[[gnu::always_inline]] inline void PlaceRecord(ThreadState* thread, Session* session,
                                               OperatorBegin* begin) {
  const uint32_t used = thread->used_bytes;
  std::byte* record =
      used <= kLastRoomForAnyEvent ? thread->data + used : static_cast<std::byte*>(begin->aside);
  begin->record = reinterpret_cast<wire::OperatorEvent*>(record);
  begin->thread = thread;
  begin->session = session;
}

enum class Started { kYes, kNo, kTooDeep };

// The thread's first operator of a window, no chunk, too deep, a name without a place, a slow
// clock. Left inside a write where it says kYes.
PROFD_NOINLINE Started StartOperatorSlowly(uint32_t name_id, OperatorBegin* begin) {
  if (!IsRecording()) return Started::kNo;
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourMarker) != 0) {
    MarkStepByRange(thread, name_id);
  }
  Session* session;
  const Entry entry = EnterEpoch(thread, &session);
  if (entry == Entry::kOff) return Started::kNo;
  if (entry == Entry::kNoThread) {
    session->CountDrop(wire::kDropNoThreadState);
    return Started::kNo;
  }
  if (!g_closed_elsewhere.is_empty()) DropClosedElsewhere(thread);
  if (thread->depth >= wire::kMaxRangeDepth) {
    ++thread->depth;
    session->CountDrop(wire::kDropTooDeep);
    return Started::kTooDeep;
  }
  PlaceRecord(thread, session, begin);
  guard.StayInside();
  return Started::kYes;
}

}  // namespace

// STOP may have come, and taken the thread for one that is stuck.
Session* SessionOf(const OperatorBegin& begin) {
  Session* session = begin.session;
  if (session == nullptr) session = g_hot.session.load(std::memory_order_acquire);
  const bool is_left = session == nullptr || session->serial != begin.thread->session_serial;
  return is_left ? nullptr : session;
}

namespace {

// The record stands aside: into the chunk's last bytes, or into a new chunk.
PROFD_NOINLINE void MoveRecordIn(OperatorBegin* begin, uint32_t bytes) {
  ThreadState* thread = begin->thread;
  Session* session = SessionOf(*begin);
  if (session == nullptr) return;
  if (thread->used_bytes + bytes > wire::kChunkDataBytes && !session->TakeChunk(thread)) {
    session->CountDrop(wire::kDropNoChunk);
    return;
  }
  memcpy(thread->data + thread->used_bytes, begin->aside, bytes);
  thread->used_bytes += bytes;
  thread->chunk->published_bytes.store(thread->used_bytes, std::memory_order_release);
}

}  // namespace

bool StartOperator(uint32_t name_id, OperatorBegin* begin) {
  ThreadState* thread = CurrentThread();
  if (PROFD_UNLIKELY(thread == nullptr) ||
      PROFD_UNLIKELY(g_hot.detour.load(std::memory_order_relaxed) != 0)) {
    return StartOperatorSlowly(name_id, begin) == Started::kYes;
  }
  EnterWrite(thread);
  if (PROFD_UNLIKELY(g_hot.flag.load(std::memory_order_relaxed) != thread->epoch) ||
      PROFD_UNLIKELY(thread->depth >= thread->depth_limit) ||
      PROFD_UNLIKELY(name_id <= wire::kOtherNameId)) {
    thread->LeaveWrite();
    return StartOperatorSlowly(name_id, begin) == Started::kYes;
  }
  PlaceRecord(thread, nullptr, begin);
  return true;
}

bool WriteBeforeOperator(OperatorBegin* begin, const void* event, uint32_t bytes) {
  ThreadState* thread = begin->thread;
  Session* session = SessionOf(*begin);
  if (session == nullptr) return false;
  if (thread->used_bytes + bytes > wire::kChunkDataBytes && !session->TakeChunk(thread)) {
    PlaceRecord(thread, begin->session, begin);
    return false;
  }
  memcpy(thread->data + thread->used_bytes, event, bytes);
  thread->used_bytes += bytes;
  thread->chunk->published_bytes.store(thread->used_bytes, std::memory_order_release);
  PlaceRecord(thread, begin->session, begin);
  return true;
}

uint64_t FinishOperator(OperatorBegin* begin, uint32_t name_id, wire::RangeCategory category,
                        uint32_t bytes, uint16_t stack) {
  ThreadState* thread = begin->thread;
  wire::OperatorEvent* record = begin->record;
  const uint32_t depth = thread->depth;
  uint64_t start_ticks;
  if (PROFD_LIKELY(begin->session == nullptr)) {
    start_ticks = wire::ReadCpuTicks();
  } else {
    name_id = begin->session->EventNameId(name_id);
    start_ticks = ReadTicks();
  }
  record->header = {static_cast<uint16_t>(bytes), static_cast<uint8_t>(wire::EventKind::kOperator),
                    0, 0};
  record->start_ticks = start_ticks;
  record->depth = static_cast<uint16_t>(depth);
  if (PROFD_LIKELY(reinterpret_cast<std::byte*>(record) != begin->aside)) {
    const uint32_t used = thread->used_bytes + bytes;
    thread->used_bytes = used;
    thread->chunk->published_bytes.store(used, std::memory_order_release);
  } else {
    MoveRecordIn(begin, bytes);
  }
  Push(thread, depth,
       name_id | uint64_t{static_cast<uint16_t>(category)} << 32 | uint64_t{stack} << kStackShift,
       start_ticks);
  thread->LeaveWrite();
  return start_ticks;
}

void EndRangesWithThread(Session* session, ThreadState* thread) {
  const uint64_t end_ticks = ReadTicks();
  if (!g_closed_elsewhere.is_empty()) DropClosedElsewhere(thread);
  // Deeper ones are not on the stack; they were counted as dropped when they began.
  if (thread->depth > wire::kMaxRangeDepth) thread->depth = wire::kMaxRangeDepth;
  while (thread->depth > 0) {
    // Without a chunk, FinishChunk() counts the rest as dropped.
    if (thread->used_bytes > kLastRoomForRange && !session->TakeChunk(thread)) return;
    const wire::OpenRange& range = thread->stack[thread->depth - 1];
    if (IsByIdentity(range)) g_ended_with_thread.Add(range.start_ticks);
    Pop(thread, thread->depth - 1, thread->used_bytes, end_ticks, kUnendedHeaderWord);
  }
}

void LeaveNoClosedRanges(ThreadState* thread) {
  if (g_closed_elsewhere.is_empty()) return;
  const uint32_t noted =
      thread->depth < wire::kMaxRangeDepth ? thread->depth : wire::kMaxRangeDepth;
  const uint32_t kept = KeepOpen(thread->stack, noted);
  if (kept != noted) thread->open_depth->store(kept, std::memory_order_release);
}

void EndClosedRanges(const Session& session) {
  const auto keep_open = [](wire::OpenRange* stack, std::atomic<uint32_t>& open_depth) {
    const uint32_t depth = open_depth.load(std::memory_order_acquire);
    if (depth == 0 || depth > wire::kMaxRangeDepth) return;
    const uint32_t kept = KeepOpen(stack, depth);
    if (kept != depth) open_depth.store(kept, std::memory_order_release);
  };
  for (uint32_t i = 0; !g_closed_elsewhere.is_empty() && i < session.layout.chunk_count; ++i) {
    if (session.chunk_table[i].state.load(std::memory_order_acquire) !=
        static_cast<uint32_t>(wire::ChunkState::kOwned)) {
      continue;
    }
    std::byte* const at =
        session.memory + session.layout.chunks_offset + uint64_t{i} * wire::kChunkBytes;
    auto* const chunk = reinterpret_cast<wire::ChunkHeader*>(at);
    keep_open(chunk->open_ranges, chunk->open_depth);
  }
  const uint32_t limit = ThreadPool::high_water();
  for (uint32_t i = 0; !g_closed_elsewhere.is_empty() && i < limit; ++i) {
    ThreadState* const thread = ThreadPool::At(i);
    keep_open(thread->fallback_stack, thread->fallback_depth);
  }
  g_closed_elsewhere.Clear();
  g_ended_with_thread.Clear();
}

uint64_t OpenRange(uint32_t name_id) {
  const uint64_t start_ticks = BeginSlowly(name_id, uint64_t{kIdentityStack} << kStackShift);
  return start_ticks <= kRangeTooDeep ? start_ticks : SpanOf(name_id, start_ticks);
}

uint64_t OpenRangeWith(uint32_t name_id, const void* inputs, uint32_t bytes, uint8_t input_count,
                       uint8_t described_count) {
  OperatorBegin begin;
  // As OpenRange() does: StartOperator()'s straight path leaves ranges that others have closed on
  // the stack.
  const Started started = StartOperatorSlowly(name_id, &begin);
  if (started != Started::kYes) return started == Started::kTooDeep ? kRangeTooDeep : 0;
  wire::OperatorEvent* record = begin.record;
  record->sequence = wire::kNoSequence;
  record->forward_thread = 0;
  record->torch_thread = 0;
  record->scope = wire::kArgumentScope;
  record->input_count = input_count;
  record->described_count = described_count;
  record->stack_id = wire::kNoStackId;
  if (bytes != 0) memcpy(record + 1, inputs, bytes);
  const uint64_t start_ticks =
      FinishOperator(&begin, name_id, wire::RangeCategory::kUser,
                     static_cast<uint32_t>(sizeof(*record)) + bytes, kIdentityStack);
  return SpanOf(name_id, start_ticks);
}

void CloseRange(uint64_t range) {
  if (range == 0 || !IsRecording()) return;
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session;
  const Entry entry = EnterEpoch(thread, &session);
  if (entry == Entry::kOff) return;
  if (range == kRangeTooDeep) {
    if (entry == Entry::kReady && thread->depth > wire::kMaxRangeDepth) --thread->depth;
    return;
  }
  const uint64_t end_ticks = ReadTicks();
  const uint64_t start_ticks = StartOfSpan(range, end_ticks);
  if (start_ticks < session->cycle_ticks.load(std::memory_order_relaxed)) return;
  if (entry == Entry::kNoThread) return session->CountDrop(wire::kDropNoThreadState);
  if (!g_closed_elsewhere.is_empty()) DropClosedElsewhere(thread);
  const uint32_t depth = thread->depth;
  uint32_t at = depth < wire::kMaxRangeDepth ? depth : wire::kMaxRangeDepth;
  while (at > 0 && (thread->stack[at - 1].start_ticks != start_ticks ||
                    StackAt(thread, at - 1) != kIdentityStack)) {
    --at;
  }
  if (at > 0 && at == depth) return EndSlowly(thread);
  if (at == 0) {
    if (!g_ended_with_thread.is_empty() && g_ended_with_thread.Remove(start_ticks)) return;
    g_closed_elsewhere.Add(start_ticks);
    return WriteSpan(session, thread, session->EventNameId(NameOfSpan(range)), start_ticks,
                     end_ticks);
  }
  // With ranges too deep to be kept inside of it, there is none to move.
  if (depth > wire::kMaxRangeDepth) return;
  const wire::OpenRange open = TakeOut(thread, at - 1);
  WriteSpan(session, thread, open.name_id, start_ticks, end_ticks);
}

void BeginRangeOn(uint16_t stack, uint32_t name_id) {
  const uint64_t stack_bits = uint64_t{stack} << kStackShift;
  if (PROFD_LIKELY(BeginStraight(CurrentThread(), name_id, stack_bits))) return;
  BeginSlowly(name_id, stack_bits);
}

void EndRangeOn(uint16_t stack) {
  const uint64_t end_ticks = wire::ReadCpuTicks();
  ThreadState* thread = CurrentThread();
  if (PROFD_UNLIKELY(thread == nullptr)) return;
  if (PROFD_UNLIKELY((g_hot.detour.load(std::memory_order_relaxed) & kEndDetours) != 0)) {
    return EndOnDetourOn(thread, stack);
  }
  EnterWrite(thread);
  if (PROFD_LIKELY(g_hot.flag.load(std::memory_order_relaxed) == thread->epoch)) {
    const uint32_t depth = thread->depth - 1;
    const uint32_t used = thread->used_bytes;
    if (PROFD_LIKELY(depth < thread->depth_limit) && PROFD_LIKELY(used <= kLastRoomForRange) &&
        PROFD_LIKELY(StackAt(thread, depth) == stack)) {
      Pop(thread, depth, used, end_ticks);
    } else {
      EndSlowlyOn(thread, stack);
    }
  }
  thread->LeaveWrite();
}

}  // namespace profd::client

using namespace profd::client;  // NOLINT: the C functions stand outside.
namespace wire = profd::wire;

extern "C" {

void profd_range_begin_slow(profd_name* name) {
  const uint32_t id = __atomic_load_n(&name->id, __ATOMIC_ACQUIRE);
  if (PROFD_UNLIKELY(!BeginStraight(CurrentThread(), id))) BeginSlowlyByName(name);
}

void profd_range_begin_id(uint32_t name_id) {
  const uint32_t id = CheckedId(name_id);
  if (PROFD_UNLIKELY(!BeginStraight(CurrentThread(), id))) BeginSlowlyById(name_id);
}

void profd_range_end_id(void) {
  const uint64_t end_ticks = wire::ReadCpuTicks();
  ThreadState* thread = CurrentThread();
  if (PROFD_UNLIKELY(thread == nullptr)) return EndWithoutState();
  if (PROFD_UNLIKELY((g_hot.detour.load(std::memory_order_relaxed) & kEndDetours) != 0)) {
    return EndOnDetour(thread);
  }
  EnterWrite(thread);
  if (PROFD_LIKELY(g_hot.flag.load(std::memory_order_relaxed) == thread->epoch)) {
    const uint32_t depth = thread->depth - 1;
    const uint32_t used = thread->used_bytes;
    if (PROFD_LIKELY(depth < thread->depth_limit) && PROFD_LIKELY(used <= kLastRoomForRange)) {
      Pop(thread, depth, used, end_ticks);
    } else {
      EndSlowly(thread);
    }
  }
  thread->LeaveWrite();
}

uint64_t profd_range_open_id(uint32_t name_id) {
  if (const CopyTable* copy = EarlierCopy()) {
    if (copy->size_bytes > offsetof(CopyTable, range_open_id)) return copy->range_open_id(name_id);
    copy->range_begin_id(name_id);
    return kRangeTooDeep;  // An older copy knows no identities: closing ends its innermost range.
  }
  return OpenRange(CheckedId(name_id));
}

uint64_t profd_range_open_with(uint32_t name_id, const void* inputs, uint32_t bytes,
                               uint32_t input_count, uint32_t described_count) {
  if (const CopyTable* copy = EarlierCopy()) {
    if (copy->size_bytes > offsetof(CopyTable, range_open_with)) {
      return copy->range_open_with(name_id, inputs, bytes, input_count, described_count);
    }
    return profd_range_open_id(name_id);  // An older copy knows no arguments.
  }
  constexpr uint32_t kMostBytes = wire::kMaxEventBytes - sizeof(wire::OperatorEvent);
  if (bytes > kMostBytes || bytes % 8 != 0) bytes = described_count = 0;
  return OpenRangeWith(CheckedId(name_id), inputs, bytes, static_cast<uint8_t>(input_count),
                       static_cast<uint8_t>(described_count));
}

void profd_range_close(uint64_t range) {
  if (const CopyTable* copy = EarlierCopy()) {
    if (copy->size_bytes > offsetof(CopyTable, range_close)) return copy->range_close(range);
    return copy->range_end_id();
  }
  CloseRange(range);
}

}  // extern "C"
