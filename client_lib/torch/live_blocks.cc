#include "client_lib/torch/live_blocks.h"

namespace profd::client::torch {
namespace {

constexpr uint32_t kSlotsOfLine = 4;
constexpr uint64_t kMostGenerations = 0xffff;

}  // namespace

uint32_t LiveBlocks::FirstPlace(uint64_t address) {
  static_assert(sizeof(Slot) * kSlotsOfLine == 64);
  // Allocators align to 64 bytes.
  const uint64_t hash = (address >> 6) * 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(hash >> (64 - kSlotBits)) / kSlotsOfLine * kSlotsOfLine;
}

LiveBlocks::Slot* LiveBlocks::Find(uint64_t key, uint32_t first) {
  for (uint32_t i = 0; i < kPlaces; ++i) {
    Slot& slot = slots_[(first + i) % (1u << kSlotBits)];
    if (slot.key.load(std::memory_order_relaxed) == key) return &slot;
  }
  return nullptr;
}

bool LiveBlocks::Add(uint64_t address, int64_t bytes) {
  if (address >> kGenerationShift != 0) return false;
  const uint64_t key = KeyOf(address);
  const uint32_t first = FirstPlace(address);
  // There already, if its free was not reported.
  if (Slot* slot = Find(key, first)) {
    slot->bytes.store(bytes, std::memory_order_relaxed);
    return true;
  }
  for (uint32_t i = 0; i < kPlaces; ++i) {
    Slot& slot = slots_[(first + i) % (1u << kSlotBits)];
    uint64_t old = slot.key.load(std::memory_order_relaxed);
    if (old >> kGenerationShift == key >> kGenerationShift) continue;
    if (!slot.key.compare_exchange_strong(old, key, std::memory_order_acquire)) continue;
    // Whoever frees the block has it from this thread, and with it this store.
    slot.bytes.store(bytes, std::memory_order_relaxed);
    return true;
  }
  return false;
}

int64_t LiveBlocks::Take(uint64_t address) {
  if (address >> kGenerationShift != 0) return kUnknown;
  Slot* slot = Find(KeyOf(address), FirstPlace(address));
  if (slot == nullptr) return kUnknown;
  const int64_t bytes = slot->bytes.load(std::memory_order_relaxed);
  // Released: the next one's bytes must not be seen before these were read.
  slot->key.store(0, std::memory_order_release);
  return bytes;
}

void LiveBlocks::Forget() {
  uint64_t next = generation_.load(std::memory_order_relaxed) + 1;
  if (next > kMostGenerations) {  // What was there in the first one would be there again.
    for (Slot& slot : slots_) slot.key.store(0, std::memory_order_relaxed);
    next = 1;
  }
  generation_.store(next, std::memory_order_relaxed);
}

}  // namespace profd::client::torch
