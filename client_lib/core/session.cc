#include "client_lib/core/session.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/direct_calls.h"
#include "client_lib/core/given_names.h"
#include "client_lib/core/name_table.h"
#include "client_lib/core/status_page.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace profd::client {
namespace {

constexpr uint32_t kSessionSlots = 8;
constexpr uint64_t kPrefaultStepBytes = 4096;
constexpr uint64_t kFirstChunkBytes = 512 << 10;
constexpr uint32_t kMostPopTries = 10'000;

constinit Session g_sessions[kSessionSlots] = {};
constinit std::atomic<uint32_t> g_last_session_serial{0};
constinit std::atomic<uint64_t> g_process_drops{0};

bool HeaderIsAsExpected(const wire::CaptureMemoryHeader& header, const wire::ArmBody& arm,
                        const wire::CaptureMemoryLayout& layout) {
  return header.magic == wire::kCaptureMemoryMagic &&
         header.version == wire::kCaptureMemoryVersion &&
         header.capture_number == arm.capture_number && header.total_bytes == layout.total_bytes &&
         header.chunk_bytes == wire::kChunkBytes && header.chunk_count == layout.chunk_count &&
         header.name_capacity == layout.name_capacity &&
         header.name_area_bytes == layout.name_area_bytes &&
         header.chunk_table_offset == layout.chunk_table_offset &&
         header.name_index_offset == layout.name_index_offset &&
         header.name_area_offset == layout.name_area_offset &&
         header.chunks_offset == layout.chunks_offset;
}

bool FileIsAsExpected(int fd, uint64_t bytes) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals &&
         lseek(fd, 0, SEEK_END) == static_cast<off_t>(bytes);
}

// MADV_POPULATE_READ takes a third of the time of MADV_POPULATE_WRITE for pages that the daemon has
// written before, because it maps 16 of them at once, but half as much again for others. A read
// maps a page of shared memory for writing, too.
void Touch(std::byte* from, uint64_t bytes, int advice) {
  if (direct::Advise(from, bytes, advice)) return;
  // Kernels before 5.14.
  for (uint64_t at = 0; at < bytes; at += kPrefaultStepBytes) {
    static_cast<void>(__atomic_load_n(reinterpret_cast<char*>(from + at), __ATOMIC_RELAXED));
  }
}

// Pops the list's first chunk. The daemon pushes at the same time, and may write anything, all the
// time: more failures than threads can cause each other count as no chunk.
bool PopFreeChunk(Session* session, uint32_t* index) {
  std::atomic<uint64_t>& free_head = session->header->free_head;
  uint64_t head = free_head.load(std::memory_order_acquire);
  for (uint32_t tries = 0; tries < kMostPopTries; ++tries) {
    const auto first = static_cast<uint32_t>(head);
    if (first == 0 || first > session->layout.chunk_count) return false;
    const uint64_t next = session->chunk_table[first - 1].next_free.load(std::memory_order_relaxed);
    const uint64_t tag = (head >> 32) + 1;
    if (free_head.compare_exchange_weak(head, (tag << 32) | next, std::memory_order_acq_rel)) {
      *index = first - 1;
      return true;
    }
  }
  return false;
}

// What it says of itself, what others say of it, or its comm.
uint32_t NameOfThread(const ThreadState& thread) {
  if (thread.name_length != 0) return g_names.Intern(thread.name, thread.name_length);
  const uint32_t given = GivenThreadName(thread.os_thread.load(std::memory_order_relaxed));
  if (given != wire::kNoNameId) return given;
  char comm[17] = {};
  if (!direct::GetThreadName(comm)) return wire::kOtherNameId;
  return g_names.Intern(comm, strlen(comm));
}

void WriteThreadName(Session* session, ThreadState* thread) {
  wire::ThreadNameEvent event{};
  event.header = {sizeof(event), static_cast<uint8_t>(wire::EventKind::kThreadName), 0, 0};
  event.name_id = NameOfThread(*thread);
  if (event.name_id == wire::kOtherNameId || !session->PublishName(event.name_id)) return;
  memcpy(thread->data + thread->used_bytes, &event, sizeof(event));
  thread->used_bytes += sizeof(event);
  thread->chunk->published_bytes.store(thread->used_bytes, std::memory_order_release);
}

// Stores `length` bytes in words of 8, each at once: a hostile daemon that changes
// name_area_used can make two threads write the same place.
void StoreInWords(const char* from, size_t length, std::byte* to) {
  for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, from + at, length - at < sizeof(word) ? length - at : sizeof(word));
    std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(to + at))
        .store(word, std::memory_order_relaxed);
  }
}

}  // namespace

Session* NewSession() {
  for (Session& session : g_sessions) {
    if (session.is_abandoned && !AreStillStuck(&session.stuck)) session.Unmap();
  }
  for (Session& session : g_sessions) {
    if (session.memory != nullptr) continue;
    memset(static_cast<void*>(&session), 0, sizeof(session));
    session.serial = g_last_session_serial.fetch_add(1, std::memory_order_relaxed) + 1;
    return &session;
  }
  return nullptr;
}

void ForgetSessions() {
  for (Session& session : g_sessions) {
    session.memory = nullptr;
    session.is_abandoned = false;
  }
}

bool Session::Open(int fd, const wire::ArmBody& arm) {
  if (arm.memory_bytes < wire::kMinCaptureMemoryBytes ||
      arm.memory_bytes > wire::kMaxCaptureMemoryBytes ||
      arm.memory_bytes % wire::kChunkBytes != 0 || !FileIsAsExpected(fd, arm.memory_bytes)) {
    return false;
  }
  void* mapped = direct::Map(arm.memory_bytes, MAP_SHARED, fd);
  if (mapped == MAP_FAILED) return false;
  direct::Advise(mapped, arm.memory_bytes, MADV_DONTFORK);
  layout = wire::LayoutFor(arm.memory_bytes);
  memory = static_cast<std::byte*>(mapped);
  header = reinterpret_cast<wire::CaptureMemoryHeader*>(memory);
  chunk_table = reinterpret_cast<wire::ChunkControl*>(memory + layout.chunk_table_offset);
  name_index = reinterpret_cast<std::atomic<uint32_t>*>(memory + layout.name_index_offset);
  capture_number = arm.capture_number;
  if (HeaderIsAsExpected(*header, arm, layout)) return true;
  Unmap();
  return false;
}

void Session::Prefault(uint64_t until_bytes) {
  if (until_bytes > layout.total_bytes) until_bytes = layout.total_bytes;
  if (until_bytes <= prefaulted_bytes) return;
  const uint64_t from = prefaulted_bytes / kPageBytes * kPageBytes;
  prefaulted_bytes = until_bytes;
  Touch(memory + from, until_bytes - from, MADV_POPULATE_WRITE);
}

void Session::PrefaultFirst(uint64_t until_bytes) {
  prefaulted_bytes = until_bytes < layout.total_bytes ? until_bytes : layout.total_bytes;
  Touch(memory, prefaulted_bytes, MADV_POPULATE_READ);
  const uint64_t from = layout.chunks_offset / kPageBytes * kPageBytes;
  const uint64_t bytes = layout.total_bytes - from;
  Touch(memory + from, bytes < kFirstChunkBytes ? bytes : kFirstChunkBytes, MADV_POPULATE_READ);
}

uint64_t Session::FilledBytes() const {
  const uint64_t filled = header->filled_bytes.load(std::memory_order_acquire);
  return filled == 0 || filled > layout.total_bytes ? layout.total_bytes : filled;
}

void Session::PublishAllNames() {
  PublishName(wire::kOtherNameId);
  const uint32_t limit = g_names.id_limit();
  for (uint32_t id = wire::kOtherNameId + 1; id < limit; ++id) PublishName(id);
}

void Session::Abandon(const StuckWriters& writers) {
  stuck = writers;
  is_abandoned = true;
}

void Session::Unmap() {
  direct::Unmap(memory, layout.total_bytes);
  memory = nullptr;
  is_abandoned = false;
}

bool Session::PublishName(uint32_t id) {
  NameView name;
  if (!g_names.Find(id, &name)) return false;
  const uint64_t size = (sizeof(wire::NameEntry) + name.length + 7) / 8 * 8;
  const auto fits = [&](uint64_t used) {
    return used <= layout.name_area_bytes && size <= layout.name_area_bytes - used;
  };
  if (id < layout.name_capacity) {
    if (name_index[id].load(std::memory_order_acquire) != 0) return true;
    if (fits(header->name_area_used.load(std::memory_order_relaxed))) {
      const uint64_t at =
          header->name_area_used.fetch_add(static_cast<uint32_t>(size), std::memory_order_relaxed);
      if (at % alignof(uint64_t) == 0 && fits(at)) {
        const uint64_t offset = layout.name_area_offset + at;
        const wire::NameEntry entry{name.length, 0};
        StoreInWords(reinterpret_cast<const char*>(&entry), sizeof(entry), memory + offset);
        StoreInWords(name.bytes, name.length, memory + offset + sizeof(entry));
        uint32_t none = 0;
        name_index[id].compare_exchange_strong(none, static_cast<uint32_t>(offset),
                                               std::memory_order_acq_rel);
        return true;
      }
    }
  }
  g_hot.detour.fetch_or(kDetourNames, std::memory_order_seq_cst);
  return false;
}

uint32_t Session::EventNameId(uint32_t id) {
  if (id != wire::kOtherNameId && id != wire::kNoNameId) {
    if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourNames) == 0) return id;
    if (PublishName(id)) return id;
  }
  header->other_name_event_count.fetch_add(1, std::memory_order_relaxed);
  return wire::kOtherNameId;
}

void Session::Adopt(ThreadState* thread) {
  thread->session_serial = serial;
  thread->next_sequence = 0;
  thread->epoch = kNoEpoch;
  // A state from before a bare clone() still has the parent's.
  thread->os_thread.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
  thread->ForgetChunk();
}

bool Session::TakeChunk(ThreadState* thread) {
  uint32_t index;
  if (!PopFreeChunk(this, &index)) {
    HandOverChunk(thread);
    return false;
  }
  // A list that gives out what another holder has, or had and filled, is no list. (Also what the
  // last owner's release of the chunk pairs with.)
  if (chunk_table[index].state.load(std::memory_order_acquire) !=
      static_cast<uint32_t>(wire::ChunkState::kFree)) {
    HandOverChunk(thread);
    return false;
  }
  std::byte* start = memory + layout.chunks_offset + uint64_t{index} * wire::kChunkBytes;
  auto* chunk = reinterpret_cast<wire::ChunkHeader*>(start);
  chunk->published_bytes.store(0, std::memory_order_relaxed);
  chunk->thread_serial = thread->serial;
  chunk->os_thread = thread->os_thread.load(std::memory_order_relaxed);
  chunk->sequence = thread->next_sequence++;
  chunk->window = window.load(std::memory_order_relaxed);
  const uint32_t depth =
      thread->depth < wire::kMaxRangeDepth ? thread->depth : wire::kMaxRangeDepth;
  memcpy(chunk->open_ranges, thread->stack, depth * sizeof(wire::OpenRange));
  thread->open_depth->store(0, std::memory_order_release);
  chunk->open_depth.store(depth, std::memory_order_release);
  chunk_table[index].state.store(static_cast<uint32_t>(wire::ChunkState::kOwned),
                                 std::memory_order_release);
  if (thread->chunk != nullptr) {
    chunk_table[thread->chunk_index].state.store(static_cast<uint32_t>(wire::ChunkState::kFull),
                                                 std::memory_order_release);
  }
  thread->chunk = chunk;
  thread->chunk_index = index;
  thread->data = start + wire::kChunkDataOffset;
  thread->used_bytes = 0;
  thread->depth_limit = wire::kMaxRangeDepth;
  thread->stack = chunk->open_ranges;
  thread->open_depth = &chunk->open_depth;
  if (thread->named_serial != serial) {
    thread->named_serial = serial;
    WriteThreadName(this, thread);
  }
  return true;
}

// Kept, a full chunk could not be emptied: with as many threads as chunks, each holding on
// to its own, nobody would find a free one again.
void Session::HandOverChunk(ThreadState* thread) {
  if (thread->chunk == nullptr) return;
  const uint32_t depth = thread->depth;
  const uint32_t noted = depth < wire::kMaxRangeDepth ? depth : wire::kMaxRangeDepth;
  memcpy(thread->fallback_stack, thread->stack, noted * sizeof(wire::OpenRange));
  thread->open_depth->store(0, std::memory_order_release);
  chunk_table[thread->chunk_index].state.store(static_cast<uint32_t>(wire::ChunkState::kFull),
                                               std::memory_order_release);
  thread->ForgetChunk();
  thread->depth = depth;
  thread->fallback_depth.store(noted, std::memory_order_release);
}

void Session::FinishChunk(ThreadState* thread) {
  if (thread->chunk != nullptr) {
    chunk_table[thread->chunk_index].state.store(static_cast<uint32_t>(wire::ChunkState::kFull),
                                                 std::memory_order_release);
  }
  CountUnhousedRanges(thread);
}

void Session::CountDrop(wire::DropCause cause, uint64_t count) {
  const bool in_window =
      phase.load(std::memory_order_relaxed) == static_cast<uint32_t>(wire::Phase::kRecording);
  (in_window ? header->drops : header->warmup_drops)[cause].fetch_add(count,
                                                                      std::memory_order_relaxed);
  if (in_window) CountProcessDrops(count);
}

void Session::CountUnhousedRanges(ThreadState* thread) {
  if (thread->fallback_depth.load(std::memory_order_relaxed) == 0) return;
  const uint32_t count = thread->fallback_depth.exchange(0, std::memory_order_acq_rel);
  if (count != 0) CountLateDrops(count);
}

void Session::CountLateDrops(uint64_t count, wire::DropCause cause) {
  if (header->window_count.load(std::memory_order_relaxed) == 0) {
    header->warmup_drops[cause].fetch_add(count, std::memory_order_relaxed);
    return;
  }
  header->drops[cause].fetch_add(count, std::memory_order_relaxed);
  CountProcessDrops(count);
}

void Session::SetOwnPhase(wire::Phase to) {
  phase.store(static_cast<uint32_t>(to), std::memory_order_relaxed);
}

void Session::SetPhase(wire::Phase to) {
  SetOwnPhase(to);
  header->phase.store(static_cast<uint32_t>(to), std::memory_order_release);
}

void Session::LeaveArmed() {
  constexpr auto kWaiting = static_cast<uint32_t>(wire::Phase::kWaiting);
  auto armed = static_cast<uint32_t>(wire::Phase::kArmed);
  if (!phase.compare_exchange_strong(armed, kWaiting)) return;
  armed = static_cast<uint32_t>(wire::Phase::kArmed);
  header->phase.compare_exchange_strong(armed, kWaiting);
}

void CountProcessDrops(uint64_t count) {
  const uint64_t total = g_process_drops.fetch_add(count, std::memory_order_relaxed) + count;
  std::atomic<uint64_t>& shown = g_status_page.dropped_event_count;
  uint64_t before = shown.load(std::memory_order_relaxed);
  while (before < total && !shown.compare_exchange_weak(before, total)) {
  }
}

uint64_t ProcessDrops() { return g_process_drops.load(std::memory_order_relaxed); }

}  // namespace profd::client
