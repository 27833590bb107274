// LiveBlocks knows how large the blocks are that were allocated since Forget(): an allocator says
// so once, when it allocates, and reports want it of frees, too.
//
//   allocation ── Add(address, bytes) ──► one of the eight places of its address
//   free       ── Take(address)       ──► the bytes, and the place is empty
//
// Threads:  Add(), Take(): any, as long as no thread frees a block while another allocates it.
//           Forget(): one at a time; a call that it meets may be remembered or not.
// Hot path: no lock, no allocation; at most two cache lines, besides a page's first touch. Forget()
//           is one store, but for one in 65,535, which goes through the table.
// Memory:   2 MiB, of which pages are taken as they are needed.
// Errors:   an address whose places are taken, or above 2^48, is not remembered: Add() says so.
#ifndef PROFD_CLIENT_LIB_TORCH_LIVE_BLOCKS_H_
#define PROFD_CLIENT_LIB_TORCH_LIVE_BLOCKS_H_

#include <atomic>
#include <cstdint>

namespace profd::client::torch {

class LiveBlocks {
 public:
  static constexpr int64_t kUnknown = -1;

  // False: there is no place for it. `address` is not 0.
  bool Add(uint64_t address, int64_t bytes);
  // The block's bytes; kUnknown where it was not added.
  int64_t Take(uint64_t address);
  void Forget();

 private:
  static constexpr uint32_t kSlotBits = 17;
  static constexpr uint32_t kPlaces = 8;  // Of an address: of its line, and of the next one.
  static constexpr uint32_t kGenerationShift = 48;

  // Empty, where the upper bits of its key are not those of this generation.
  struct Slot {
    std::atomic<uint64_t> key;  // The address, and in the bits above it the generation.
    std::atomic<int64_t> bytes;
  };

  // A generation is never 0, so that what was never written is empty.
  uint64_t KeyOf(uint64_t address) const {
    return address | generation_.load(std::memory_order_relaxed) << kGenerationShift;
  }
  static uint32_t FirstPlace(uint64_t address);
  Slot* Find(uint64_t key, uint32_t first);

  alignas(64) Slot slots_[1u << kSlotBits] = {};
  std::atomic<uint64_t> generation_{1};
};

}  // namespace profd::client::torch

#endif  // PROFD_CLIENT_LIB_TORCH_LIVE_BLOCKS_H_
