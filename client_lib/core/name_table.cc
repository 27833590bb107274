#include "client_lib/core/name_table.h"

#include <string.h>

#include "client_lib/core/direct_calls.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/unseen_bytes.h"

namespace profd::client {
namespace {

constexpr uint32_t kSlots = 2 * wire::kMaxNames;
static_assert((kSlots & (kSlots - 1)) == 0);
constexpr char kOtherName[] = "(other)";

uint32_t Hash(const char* text, uint32_t length) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25;
  uint64_t hash = length * kMultiplier;
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 29;
  };
  uint32_t at = 0;
  for (; at + 8 <= length; at += 8) {
    uint64_t word;
    memcpy(&word, text + at, 8);
    mix(word);
  }
  if (at < length) {
    uint64_t word = 0;
    memcpy(&word, text + at, length - at);
    mix(word);
  }
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

struct NameTable::Storage {
  std::atomic<uint32_t> slots[kSlots];  // Open addressing; 0: empty.
  Entry entries[wire::kMaxNames];       // By id.
  char bytes[wire::kMaxNameAreaBytes];
};

constinit NameTable g_names;

NameTable::Storage* NameTable::GetStorage() {
  Storage* storage = storage_.load(std::memory_order_acquire);
  if (storage != nullptr) return storage;
  void* memory = direct::Map(sizeof(Storage), MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (memory == MAP_FAILED) return nullptr;
  auto* fresh = static_cast<Storage*>(memory);
  if (!storage_.compare_exchange_strong(storage, fresh, std::memory_order_acq_rel)) {
    direct::Unmap(memory, sizeof(Storage));
  }
  return storage_.load(std::memory_order_acquire);
}

// Apart, for its 4 KiB of stack.
PROFD_NOINLINE uint32_t NameTable::InternLong(const char* text, size_t length) {
  char name[wire::kMaxNameBytes];
  const uint32_t shortened = wire::ShortenName(text, length, name);
  return Intern(name, shortened);
}

uint32_t NameTable::Intern(const char* text, size_t length) {
  if (length > wire::kMaxNameBytes) return InternLong(text, length);
  Storage* storage = GetStorage();
  if (storage == nullptr) {
    other_count_.fetch_add(1, std::memory_order_relaxed);
    return wire::kOtherNameId;
  }
  const auto cut = static_cast<uint32_t>(length);
  const uint32_t hash = Hash(text, cut);
  uint32_t mine = 0;
  for (uint32_t slot = hash % kSlots;; slot = (slot + 1) % kSlots) {
    uint32_t id = storage->slots[slot].load(std::memory_order_acquire);
    if (id == 0) {
      if (mine == 0) mine = NewEntry(storage, text, cut, hash);
      if (mine == 0) {
        other_count_.fetch_add(1, std::memory_order_relaxed);
        return wire::kOtherNameId;
      }
      if (storage->slots[slot].compare_exchange_strong(id, mine, std::memory_order_acq_rel)) {
        storage->entries[mine].live.store(1, std::memory_order_seq_cst);
        name_count_.fetch_add(1, std::memory_order_relaxed);
        return mine;
      }
    }
    Entry& entry = storage->entries[id];
    if (entry.hash != hash || entry.length != cut) continue;
    if (!AreEqualUnseen(storage->bytes + entry.offset, text, cut)) continue;
    if (mine != 0) GiveBackId(storage, mine);
    // The inserting thread may not have come to this yet, and the id is in use from here.
    if (entry.live.load(std::memory_order_relaxed) == 0) {
      entry.live.store(1, std::memory_order_seq_cst);
    }
    return id;
  }
}

bool NameTable::Find(uint32_t id, NameView* name) const {
  if (id == wire::kOtherNameId) {
    *name = {kOtherName, sizeof(kOtherName) - 1};
    return true;
  }
  const Storage* storage = storage_.load(std::memory_order_acquire);
  if (storage == nullptr || id == 0 || id >= wire::kMaxNames) return false;
  const Entry& entry = storage->entries[id];
  if (entry.live.load(std::memory_order_seq_cst) == 0) return false;
  *name = {storage->bytes + entry.offset, entry.length};
  return true;
}

uint32_t NameTable::NewEntry(Storage* storage, const char* text, uint32_t length, uint32_t hash) {
  const uint32_t id = TakeId(storage);
  if (id == 0) return 0;
  Entry& entry = storage->entries[id];
  if (entry.capacity < length) {
    uint32_t offset;
    if (!ReserveBytes(length, &offset)) {
      GiveBackId(storage, id);
      return 0;
    }
    entry.offset = offset;
    entry.capacity = length;
  }
  CopyUnseen(storage->bytes + entry.offset, text, length);
  entry.length = length;
  entry.hash = hash;
  return id;
}

uint32_t NameTable::TakeId(Storage* storage) {
  uint64_t head = spare_ids_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    const auto id = static_cast<uint32_t>(head);
    const uint64_t next = storage->entries[id].next_spare.load(std::memory_order_relaxed);
    const uint64_t tag = (head >> 32) + 1;
    if (spare_ids_.compare_exchange_weak(head, (tag << 32) | next, std::memory_order_acq_rel)) {
      return id;
    }
  }
  uint32_t id = next_id_.load(std::memory_order_relaxed);
  do {
    if (id >= wire::kMaxNames) return 0;
  } while (!next_id_.compare_exchange_weak(id, id + 1, std::memory_order_seq_cst));
  return id;
}

void NameTable::GiveBackId(Storage* storage, uint32_t id) {
  uint64_t head = spare_ids_.load(std::memory_order_relaxed);
  uint64_t tag;
  do {
    storage->entries[id].next_spare.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    tag = (head >> 32) + 1;
  } while (!spare_ids_.compare_exchange_weak(head, (tag << 32) | id, std::memory_order_acq_rel));
}

bool NameTable::ReserveBytes(uint32_t length, uint32_t* offset) {
  uint32_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (used + length > wire::kMaxNameAreaBytes) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + length, std::memory_order_relaxed));
  *offset = used;
  return true;
}

}  // namespace profd::client
