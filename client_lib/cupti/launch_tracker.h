// LaunchTracker records, by correlation ID, which calls launched GPU work in the window, and
// whether a record of that work has arrived. The drain waits for exactly this work, and not for
// what the program has launched since.
//
// IDs grow with time, so the table holds the most recent 2^20: a byte of flags for each, in blocks
// of 64. A later ID that needs a block clears it first.
//
//   ID  ┌ block (14 bits) ┬ place (6 bits) ┐      tags_[block] = ID / 64 + 1; 0: not used yet
//
// Threads:  the GPU thread's.
// Hot path: At() for each launch and each record of work: 1.2 ns with IDs in order, because
//           neighbors share a cache line (2026-11-23, 2 cores of an AMD EPYC).
#ifndef PROFD_CLIENT_LIB_CUPTI_LAUNCH_TRACKER_H_
#define PROFD_CLIENT_LIB_CUPTI_LAUNCH_TRACKER_H_

#include <cstdint>

namespace profd::client {

// Whether ID `a` was given before `b`. IDs wrap.
constexpr bool IsBefore(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

class LaunchTracker {
 public:
  enum Flag : uint8_t {
    kOfWindow = 1 << 0,     // The call began in the window.
    kIsAwaited = 1 << 1,    // Work of it has to come: a kernel's or a graph's launch.
    kMayBeSilent = 1 << 2,  // Copies, memsets, decompression; some make no record.
    kHasWork = 1 << 3,      // A record of its work has come.
    kCallIsHeld = 1 << 4,   // The call began before the window, and its record is kept for now.
    kWantsCall = 1 << 5,    // Work that ran in the window has come, and no call yet.
    kHasCall = 1 << 6,      // A record of a call has come.
    kWaitIsHeld = 1 << 7,   // RecordDecoder keeps the record of its wait for now.
  };

  // All zero is an empty one.
  constexpr LaunchTracker() = default;

  // The flags of `correlation`. Null if it is 0 (not an ID), or so old that a later ID has its
  // block.
  uint8_t* At(uint32_t correlation) {
    if (correlation == 0) return nullptr;
    const uint32_t tag = correlation / kBlockIds + 1;
    uint32_t& there = tags_[correlation / kBlockIds % kBlocks];
    if (__builtin_expect(there != tag, 0) && !TakeBlock(&there, tag)) return nullptr;
    return &flags_[correlation % kIds];
  }

  struct Missing {
    uint64_t launches;  // kIsAwaited, and no work yet.
    uint64_t copies;    // kMayBeSilent, and no work yet.
    uint64_t callless;  // Work without a call.
    uint64_t worked;    // Work, with a call or without.
  };
  // Counts `callless` and `worked` among the IDs from `first` to `last`; 0: among those of work
  // that ran in the window. Reads the whole table: 0.4 ms if it is full (same machine).
  Missing CountMissing(uint32_t first = 0, uint32_t last = 0) const;

 private:
  static constexpr uint32_t kBlockIds = 64;
  static constexpr uint32_t kIds = 1u << 20;
  static constexpr uint32_t kBlocks = kIds / kBlockIds;

  bool TakeBlock(uint32_t* there, uint32_t tag);

  uint32_t tags_[kBlocks];
  uint8_t flags_[kIds];
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CUPTI_LAUNCH_TRACKER_H_
