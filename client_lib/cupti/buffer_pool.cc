#include "client_lib/cupti/buffer_pool.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "client_lib/core/log.h"
#include "client_lib/cupti/record_decoder.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace profd::client {
namespace {

constexpr uint64_t kPage = 4096;
// As many as threads may want one each, and large enough to come back seldom.
constexpr uint64_t kBuffersPerCap = 128;
constexpr uint64_t kSmallestBufferBytes = 64u << 10;
constexpr uint64_t kLargestBufferBytes = 4u << 20;
constexpr uint64_t kDiscardBytes = 16u << 10;
// Address space for discard buffers; those that are not lent are not touched.
constexpr uint32_t kReserveCount = 16'384;
// How much of a capture's memory they may take.
constexpr uint64_t kReserveShare = 8;
constexpr uint32_t kBuffersAhead = 4;
constexpr uint64_t kSmallestCapBytes = 2u << 20;
// However much CUPTI has of other arenas.
constexpr uint32_t kLeastBuffers = 8;
// CUPTI may have begun a record after the last whole one.
constexpr uint64_t kZeroBeyondBytes = 4096;
constexpr int kWaitForUsersMs = 200;

constexpr uint64_t RoundUp(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

}  // namespace

struct BufferPool::Arena {
  // With CUPTI, which may give it to another tool: then it is not expected back.
  enum Whereabouts : uint32_t { kHere, kOut, kGivenUp };
  struct Slot {
    std::atomic<uint32_t> next;  // Index + 1 on a list; 0: last.
    std::atomic<Whereabouts> where;
    bool is_marked;  // The GPU thread's, as is the next.
    bool is_kept;
    uint64_t valid_bytes;

    bool is_out() const { return where.load(std::memory_order_acquire) == kOut; }
  };

  std::atomic<Arena*> next_arena;
  uint64_t cap_bytes;  // Of the capture that it was made for.
  uint64_t total_bytes;
  uint64_t buffers_offset;
  uint64_t buffer_bytes;
  uint32_t buffer_count;
  uint32_t discard_count;
  // (tag << 32) | (slot + 1); low half 0: empty. Pops race, so the tag guards against ABA.
  alignas(64) std::atomic<uint64_t> free_buffers;
  std::atomic<uint64_t> cold_buffers;  // Free, too; their pages have gone back to the system.
  std::atomic<uint64_t> free_discards;
  std::atomic<uint32_t> fresh;  // Buffers from here on were never lent nor touched.
  std::atomic<uint32_t> fresh_discards;
  std::atomic<uint32_t> free_count;
  std::atomic<uint32_t> out;
  std::atomic<uint64_t> out_bytes;
  alignas(64) std::atomic<uint32_t> returned;  // Slot + 1, the latest first; taken as a whole.
  uint32_t taken;                              // The same turned round: the earliest first.

  Slot* slots() { return reinterpret_cast<Slot*>(this + 1); }

  std::byte* base() { return reinterpret_cast<std::byte*>(this); }
  uint32_t slot_count() const { return buffer_count + discard_count; }
  // The slots from here on were never lent.
  uint32_t lent_count() const {
    return buffer_count + fresh_discards.load(std::memory_order_acquire);
  }
  // Buffers that are out and were not given up. By `out`, which counts one until it is on the list
  // of those that came back.
  uint32_t CountExpected() {
    const uint32_t all = out.load(std::memory_order_acquire);
    if (all == 0) return 0;
    uint32_t given_up = 0;
    for (uint32_t slot = 0; slot < lent_count(); ++slot) {
      given_up += slots()[slot].where.load(std::memory_order_acquire) == kGivenUp ? 1 : 0;
    }
    return all > given_up ? all - given_up : 0;
  }
  bool IsDiscard(uint32_t slot) const { return slot >= buffer_count; }
  uint64_t SizeOf(uint32_t slot) const { return IsDiscard(slot) ? kDiscardBytes : buffer_bytes; }
  std::byte* BytesOf(uint32_t slot) {
    const uint64_t before =
        IsDiscard(slot) ? buffer_count * buffer_bytes + (slot - buffer_count) * kDiscardBytes
                        : slot * buffer_bytes;
    return base() + buffers_offset + before;
  }
  // The slot of a buffer that was lent; slot_count() if it is none.
  uint32_t SlotOf(const uint8_t* buffer) {
    const auto at = reinterpret_cast<uintptr_t>(buffer);
    const auto first = reinterpret_cast<uintptr_t>(base()) + buffers_offset;
    if (at < first || at >= reinterpret_cast<uintptr_t>(base()) + total_bytes) return slot_count();
    const uint64_t offset = at - first;
    const uint64_t all_buffers = buffer_count * buffer_bytes;
    const uint64_t slot = offset < all_buffers
                              ? offset / buffer_bytes
                              : buffer_count + (offset - all_buffers) / kDiscardBytes;
    if (slot >= slot_count()) return slot_count();
    const auto index = static_cast<uint32_t>(slot);
    return reinterpret_cast<uint8_t*>(BytesOf(index)) == buffer ? index : slot_count();
  }

  void Push(std::atomic<uint64_t>* list, uint32_t slot) {
    uint64_t head = list->load(std::memory_order_relaxed);
    uint64_t tag;
    do {
      slots()[slot].next.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
      tag = (head >> 32) + 1;
    } while (
        !list->compare_exchange_weak(head, (tag << 32) | (slot + 1), std::memory_order_acq_rel));
  }
  bool Pop(std::atomic<uint64_t>* list, uint32_t* slot) {
    uint64_t head = list->load(std::memory_order_acquire);
    while (static_cast<uint32_t>(head) != 0) {
      const uint32_t index = static_cast<uint32_t>(head) - 1;
      const uint64_t next = slots()[index].next.load(std::memory_order_relaxed);
      const uint64_t tag = (head >> 32) + 1;
      if (list->compare_exchange_weak(head, (tag << 32) | next, std::memory_order_acq_rel)) {
        *slot = index;
        return true;
      }
    }
    return false;
  }
  static bool TakeFresh(std::atomic<uint32_t>* next, uint32_t limit, uint32_t* slot) {
    uint32_t index = next->load(std::memory_order_relaxed);
    do {
      if (index >= limit) return false;
    } while (!next->compare_exchange_weak(index, index + 1, std::memory_order_acq_rel));
    *slot = index;
    return true;
  }
  bool TakeDiscard(uint32_t limit, uint32_t* slot) {
    if (Pop(&free_discards, slot)) return true;
    if (!TakeFresh(&fresh_discards, limit, slot)) return false;
    *slot += buffer_count;
    return true;
  }

  static Arena* Map(uint64_t buffer_bytes, uint32_t buffer_count, uint32_t discard_count,
                    bool keep_in_child) {
    const uint64_t head =
        RoundUp(sizeof(Arena) + (uint64_t{buffer_count} + discard_count) * sizeof(Slot), kPage);
    const uint64_t total = head + buffer_count * buffer_bytes + discard_count * kDiscardBytes;
    void* mapped = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    if (!keep_in_child) madvise(mapped, total, MADV_DONTFORK);
    auto* arena = static_cast<Arena*>(mapped);
    arena->total_bytes = total;
    arena->buffers_offset = head;
    arena->buffer_bytes = buffer_bytes;
    arena->buffer_count = buffer_count;
    arena->discard_count = discard_count;
    return arena;
  }
};

namespace {

// Whether a buffer that is out holds records. It was lent as zeros, and records begin with a kind,
// which is not 0. CUPTI may be writing to it.
__attribute__((noinline, no_sanitize("thread"))) bool HoldsRecords(const std::byte* buffer) {
  return *reinterpret_cast<const volatile uint32_t*>(buffer) != 0;
}

// The records in a buffer that is out, up to the first that cannot be read. The same holds.
__attribute__((noinline, no_sanitize("thread"))) uint64_t CountWritten(const uint16_t* record_bytes,
                                                                       const std::byte* buffer,
                                                                       uint64_t size) {
  uint64_t count = 0;
  for (uint64_t at = 0; at + sizeof(uint32_t) <= size; ++count) {
    const uint32_t kind = *reinterpret_cast<const volatile uint32_t*>(buffer + at);
    if (kind == 0 || kind >= cupti::kKindLimit || record_bytes[kind] == 0) break;
    at += record_bytes[kind];
  }
  return count;
}

void Touch(std::byte* from, uint64_t bytes) {
  madvise(from, bytes, MADV_HUGEPAGE);
  if (madvise(from, bytes, MADV_POPULATE_WRITE) == 0) return;
  // Kernels before 5.14.
  for (uint64_t at = 0; at < bytes; at += kPage) {
    *reinterpret_cast<volatile char*>(from + at) = 0;
  }
}

}  // namespace

bool BufferPool::Open(uint64_t cap_bytes, const uint16_t* record_bytes, bool may_refuse) {
  record_bytes_.store(record_bytes, std::memory_order_relaxed);
  UnmapReturned();
  if (reserve_.load(std::memory_order_relaxed) == nullptr) {
    Arena* reserve = Arena::Map(kPage, 0, kReserveCount, /*keep_in_child=*/true);
    if (reserve == nullptr) return false;
    reserve_.store(reserve, std::memory_order_release);
  }
  if (cap_bytes < kSmallestCapBytes) cap_bytes = kSmallestCapBytes;
  const uint64_t reserve_count = cap_bytes / kReserveShare / kDiscardBytes;
  // Where CUPTI may be refused the cap holds whatever happens.
  reserve_limit_.store(may_refuse && reserve_count < kReserveCount
                           ? static_cast<uint32_t>(reserve_count)
                           : kReserveCount,
                       std::memory_order_relaxed);
  may_refuse_.store(may_refuse, std::memory_order_relaxed);
  uint64_t buffer_bytes = cap_bytes / kBuffersPerCap / kPage * kPage;
  if (buffer_bytes < kSmallestBufferBytes) buffer_bytes = kSmallestBufferBytes;
  if (buffer_bytes > kLargestBufferBytes) buffer_bytes = kLargestBufferBytes;
  const uint64_t most = cap_bytes / buffer_bytes;
  const uint64_t beside =
      RoundUp(sizeof(Arena) + most * sizeof(Arena::Slot), kPage) + cap_bytes / kReserveShare;
  Arena* arena = FindKept(cap_bytes);
  const uint64_t kept_bytes = KeptBytes() - (arena != nullptr ? arena->out_bytes.load() : 0);
  if (arena == nullptr) {
    const uint64_t room = cap_bytes - beside;
    auto count = static_cast<uint32_t>((room > kept_bytes ? room - kept_bytes : 0) / buffer_bytes);
    if (count < kLeastBuffers) count = kLeastBuffers;
    arena = Arena::Map(buffer_bytes, count, 0, /*keep_in_child=*/false);
    if (arena == nullptr) return false;
    arena->cap_bytes = cap_bytes;
    arena->next_arena.store(arenas_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    arenas_.store(arena, std::memory_order_release);
  }
  kept_bytes_.store(kept_bytes, std::memory_order_relaxed);
  requests_.store(0, std::memory_order_relaxed);
  peak_bytes_.store(0, std::memory_order_relaxed);
  foreign_.store(0, std::memory_order_relaxed);
  discarded_.store(0, std::memory_order_relaxed);
  earlier_strays_ = strays_.load(std::memory_order_relaxed);
  marked_ = 0;
  current_.store(arena, std::memory_order_seq_cst);
  PopulateAhead();
  return true;
}

void BufferPool::PopulateAhead() {
  Arena* arena = current_.load(std::memory_order_relaxed);
  uint32_t slot;
  while (arena != nullptr && arena->free_count.load(std::memory_order_relaxed) < kBuffersAhead &&
         (arena->Pop(&arena->cold_buffers, &slot) ||
          Arena::TakeFresh(&arena->fresh, arena->buffer_count, &slot))) {
    Touch(arena->BytesOf(slot), arena->buffer_bytes);
    arena->free_count.fetch_add(1, std::memory_order_relaxed);
    arena->Push(&arena->free_buffers, slot);
  }
}

void* BufferPool::Lend(Arena* arena, uint32_t slot, size_t* size_bytes) {
  *size_bytes = arena->SizeOf(slot);
  arena->slots()[slot].where.store(Arena::kOut, std::memory_order_relaxed);
  arena->out.fetch_add(1, std::memory_order_acq_rel);
  arena->out_bytes.fetch_add(*size_bytes, std::memory_order_relaxed);
  return arena->BytesOf(slot);
}

void* BufferPool::TryRequest(Arena* current, Arena* reserve, size_t* size_bytes) {
  uint32_t slot;
  if (current != nullptr) {
    if (current->Pop(&current->free_buffers, &slot)) {
      // The count may run a little behind the list; it only says when to touch more.
      if (current->free_count.fetch_sub(1, std::memory_order_relaxed) <= kBuffersAhead / 2) {
        on_wake_();
      }
      return Lend(current, slot, size_bytes);
    }
    if (current->Pop(&current->cold_buffers, &slot) ||
        Arena::TakeFresh(&current->fresh, current->buffer_count, &slot)) {
      return Lend(current, slot, size_bytes);
    }
  }
  const uint32_t limit =
      current != nullptr ? reserve_limit_.load(std::memory_order_relaxed) : kReserveCount;
  if (reserve == nullptr || !reserve->TakeDiscard(limit, &slot)) return nullptr;
  return Lend(reserve, slot, size_bytes);
}

void BufferPool::Request(uint8_t** buffer, size_t* size_bytes) {
  // Before the arena is read: either this finds that there is none, or Close() sees this user and
  // waits.
  users_.fetch_add(1, std::memory_order_seq_cst);
  requests_.fetch_add(1, std::memory_order_relaxed);
  Arena* current = current_.load(std::memory_order_seq_cst);
  Arena* reserve = reserve_.load(std::memory_order_acquire);
  *size_bytes = 0;
  void* found = TryRequest(current, reserve, size_bytes);
  if (found == nullptr && !may_refuse_.load(std::memory_order_relaxed)) {
    // More than anybody thought of, of a CUPTI that crashes without. It is not used again.
    found =
        mmap(nullptr, kDiscardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) found = nullptr;
    *size_bytes = found != nullptr ? kDiscardBytes : 0;
    strays_.fetch_add(1, std::memory_order_relaxed);
  }
  if (current != nullptr && reserve != nullptr) {
    NotePeak(kept_bytes_.load(std::memory_order_relaxed) +
             current->out_bytes.load(std::memory_order_relaxed) +
             reserve->out_bytes.load(std::memory_order_relaxed));
  }
  users_.fetch_sub(1, std::memory_order_release);
  *buffer = static_cast<uint8_t*>(found);
}

bool BufferPool::CompleteIn(Arena* arena, uint8_t* buffer, size_t valid_bytes) {
  if (arena == nullptr) return false;
  const uint32_t slot = arena->SlotOf(buffer);
  if (slot == arena->slot_count()) return false;
  // Given back twice: the second time counts for nothing.
  if (arena->slots()[slot].where.exchange(Arena::kHere, std::memory_order_acq_rel) ==
      Arena::kHere) {
    return true;
  }
  const uint64_t size = arena->SizeOf(slot);
  const uint64_t valid = valid_bytes < size ? valid_bytes : size;
  arena->out_bytes.fetch_sub(size, std::memory_order_relaxed);
  if (arena->IsDiscard(slot)) {
    Discard(arena, slot, valid);
    return true;
  }
  arena->slots()[slot].valid_bytes = valid;
  uint32_t head = arena->returned.load(std::memory_order_relaxed);
  do {
    arena->slots()[slot].next.store(head, std::memory_order_relaxed);
  } while (!arena->returned.compare_exchange_weak(head, slot + 1, std::memory_order_acq_rel));
  // After the push: who sees none outstanding finds all of them returned.
  arena->out.fetch_sub(1, std::memory_order_release);
  return true;
}

// Whoever gives it back may want the next one a moment later, so it does not wait for the GPU
// thread. It is small: a microsecond.
void BufferPool::Discard(Arena* arena, uint32_t slot, uint64_t valid_bytes) {
  std::byte* bytes = arena->BytesOf(slot);
  const uint16_t* record_bytes = record_bytes_.load(std::memory_order_relaxed);
  if (record_bytes != nullptr) {
    discarded_.fetch_add(CountRecords(record_bytes, bytes, valid_bytes), std::memory_order_relaxed);
  }
  const uint64_t used = valid_bytes + kZeroBeyondBytes;
  memset(bytes, 0, used < kDiscardBytes ? used : kDiscardBytes);
  arena->Push(&arena->free_discards, slot);
  arena->out.fetch_sub(1, std::memory_order_release);
}

void BufferPool::Complete(uint8_t* buffer, size_t valid_bytes) {
  users_.fetch_add(1, std::memory_order_seq_cst);
  Arena* current = current_.load(std::memory_order_seq_cst);
  bool known = CompleteIn(current, buffer, valid_bytes) ||
               CompleteIn(reserve_.load(std::memory_order_acquire), buffer, valid_bytes);
  for (Arena* arena = arenas_.load(std::memory_order_acquire); !known && arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_acquire)) {
    known = CompleteIn(arena, buffer, valid_bytes);
  }
  completions_.fetch_add(1, std::memory_order_relaxed);
  if (!known && strays_.load(std::memory_order_relaxed) == 0) {
    foreign_.fetch_add(1, std::memory_order_relaxed);
  }
  users_.fetch_sub(1, std::memory_order_release);
  if (current != nullptr) on_wake_();
}

bool BufferPool::PopReturned(Arena* arena, Returned* returned) {
  if (arena == nullptr) return false;
  if (arena->taken == 0) {
    uint32_t head = arena->returned.exchange(0, std::memory_order_acq_rel);
    while (head != 0) {
      const uint32_t next = arena->slots()[head - 1].next.load(std::memory_order_relaxed);
      arena->slots()[head - 1].next.store(arena->taken, std::memory_order_relaxed);
      arena->taken = head;
      head = next;
    }
  }
  if (arena->taken == 0) return false;
  const uint32_t slot = arena->taken - 1;
  arena->taken = arena->slots()[slot].next.load(std::memory_order_relaxed);
  Arena::Slot& entry = arena->slots()[slot];
  if (entry.is_marked) {
    entry.is_marked = false;
    --marked_;
  }
  *returned = {.arena = arena,
               .slot = slot,
               .bytes = arena->BytesOf(slot),
               .size_bytes = arena->SizeOf(slot),
               .valid_bytes = entry.valid_bytes,
               .is_kept = entry.is_kept};
  entry.is_kept = false;
  return true;
}

bool BufferPool::TakeReturned(Returned* returned) {
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    if (PopReturned(arena, returned)) return true;
  }
  return false;
}

void BufferPool::Recycle(const Returned& returned) {
  // Zeros again: CUPTI relies on it (kAttributeZeroedBuffers), and so does HoldsRecords().
  const uint64_t used = returned.valid_bytes + kZeroBeyondBytes;
  memset(returned.bytes, 0, used < returned.size_bytes ? used : returned.size_bytes);
  returned.arena->free_count.fetch_add(1, std::memory_order_relaxed);
  returned.arena->Push(&returned.arena->free_buffers, returned.slot);
}

void BufferPool::MarkOutstanding() {
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    for (uint32_t slot = 0; slot < arena->buffer_count; ++slot) {
      Arena::Slot& entry = arena->slots()[slot];
      if (entry.is_marked || !entry.is_out() || !HoldsRecords(arena->BytesOf(slot))) continue;
      entry.is_marked = true;
      ++marked_;
    }
  }
  // One that is being given back is not out any more, and not on the list yet.
  WaitForUsers();
}

void BufferPool::GiveUpOutstanding() {
  const auto give_up = [](Arena* arena) {
    for (uint32_t slot = 0; slot < arena->lent_count(); ++slot) {
      auto expected = Arena::kOut;
      arena->slots()[slot].where.compare_exchange_strong(expected, Arena::kGivenUp);
    }
  };
  if (Arena* reserve = reserve_.load(std::memory_order_acquire); reserve != nullptr) {
    give_up(reserve);
  }
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    give_up(arena);
  }
}

uint32_t BufferPool::outstanding() const {
  Arena* reserve = reserve_.load(std::memory_order_acquire);
  uint32_t count = reserve != nullptr ? reserve->CountExpected() : 0;
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    count += arena->CountExpected();
  }
  return count;
}

uint32_t BufferPool::CountHoldingRecords() const {
  Arena* reserve = reserve_.load(std::memory_order_acquire);
  uint32_t count = reserve != nullptr ? CountHolding(reserve) : 0;
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    count += CountHolding(arena);
  }
  return count;
}

uint32_t BufferPool::CountHolding(Arena* arena) {
  if (arena->out.load(std::memory_order_acquire) == 0) return 0;
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < arena->lent_count(); ++slot) {
    count += arena->slots()[slot].is_out() && HoldsRecords(arena->BytesOf(slot)) ? 1 : 0;
  }
  return count;
}

uint64_t BufferPool::CountSignsOfLife() const {
  uint64_t count =
      requests_.load(std::memory_order_relaxed) + completions_.load(std::memory_order_relaxed);
  const uint16_t* record_bytes = record_bytes_.load(std::memory_order_relaxed);
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    for (uint32_t slot = 0; slot < arena->buffer_count; ++slot) {
      if (!arena->slots()[slot].is_out()) continue;
      count += CountWritten(record_bytes, arena->BytesOf(slot), arena->buffer_bytes);
    }
  }
  return count;
}

// Whether all that were inside when the arena was taken from them have left it.
bool BufferPool::WaitForUsers() const {
  for (int waited_ms = 0; users_.load(std::memory_order_seq_cst) != 0; ++waited_ms) {
    if (waited_ms == kWaitForUsersMs) return false;
    const timespec pause{0, 1'000'000};
    nanosleep(&pause, nullptr);
  }
  return true;
}

bool BufferPool::Close() {
  Arena* arena = current_.exchange(nullptr, std::memory_order_seq_cst);
  if (arena == nullptr) return true;
  marked_ = 0;
  const bool is_quiet = WaitForUsers();
  Arena* reserve = reserve_.load(std::memory_order_relaxed);
  if (is_quiet && reserve->out.load(std::memory_order_acquire) == 0) {
    // What was lent of it goes back to being address space.
    madvise(reserve->BytesOf(0), kReserveCount * kDiscardBytes, MADV_DONTNEED);
  }
  for (uint32_t slot = 0; slot < arena->buffer_count; ++slot) {
    Arena::Slot& entry = arena->slots()[slot];
    entry.is_marked = false;
    entry.is_kept = entry.where.load(std::memory_order_acquire) != Arena::kHere;
  }
  if (is_quiet && arena->out.load(std::memory_order_acquire) == 0) {
    UnmapReturned();
    return true;
  }
  ReleasePages(arena);
  Log(LogLevel::kInfo, "CUPTI has kept %u buffers of %llu bytes in all",
      arena->out.load(std::memory_order_relaxed),
      static_cast<unsigned long long>(arena->out_bytes.load(std::memory_order_relaxed)));
  return false;
}

// Of the buffers that CUPTI does not have.
void BufferPool::ReleasePages(Arena* arena) {
  uint32_t slot;
  while (arena->Pop(&arena->free_buffers, &slot)) {
    madvise(arena->BytesOf(slot), arena->buffer_bytes, MADV_DONTNEED);
    arena->Push(&arena->cold_buffers, slot);
  }
  arena->free_count.store(0, std::memory_order_relaxed);
}

BufferPool::Arena* BufferPool::FindKept(uint64_t cap_bytes) const {
  for (Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    if (arena->cap_bytes == cap_bytes) return arena;
  }
  return nullptr;
}

uint64_t BufferPool::KeptBytes() const {
  uint64_t bytes = 0;
  for (const Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    bytes += arena->out_bytes.load(std::memory_order_relaxed);
  }
  return bytes;
}

uint32_t BufferPool::CountKept() const {
  uint32_t count = 0;
  for (const Arena* arena = arenas_.load(std::memory_order_relaxed); arena != nullptr;
       arena = arena->next_arena.load(std::memory_order_relaxed)) {
    count += arena != current_.load(std::memory_order_relaxed) ? 1 : 0;
  }
  return count;
}

// Unmaps the arenas that have got everything back, while none is in use. Who is inside Complete()
// may be looking through the list, and is waited for once they are off it.
void BufferPool::UnmapReturned() {
  std::atomic<Arena*>* link = &arenas_;
  while (Arena* arena = link->load(std::memory_order_relaxed)) {
    if (arena->out.load(std::memory_order_acquire) != 0) {
      link = &arena->next_arena;
      continue;
    }
    link->store(arena->next_arena.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    if (WaitForUsers()) munmap(arena, arena->total_bytes);
  }
}

void BufferPool::NotePeak(uint64_t bytes) {
  uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < bytes &&
         !peak_bytes_.compare_exchange_weak(peak, bytes, std::memory_order_relaxed)) {
  }
}

void BufferPool::ResetInChild() {
  current_.store(nullptr, std::memory_order_relaxed);
  arenas_.store(nullptr, std::memory_order_relaxed);
  users_.store(0, std::memory_order_relaxed);
}

}  // namespace profd::client
