// The few words that the recording paths read: is a capture on, and where is it.
//
// They live on a page of their own that the kernel wipes in a forked child, so that a
// child can neither believe that it records nor touch what its parent mapped, however it
// was forked.
//
//   off ── step mark or FIRE ──► epoch n ── step mark or STOP ──► off ──► epoch n+1 ...
//
// How memory may be unmapped under writers: a writer marks itself busy, then reads the
// flag (or session); the agent clears both, runs a barrier on every CPU that runs one of
// our threads, then waits until no thread that was busy still is (Quiesce()). So either the
// writer sees the cleared flag, or the agent sees the writer.
#ifndef PROFD_CLIENT_LIB_CORE_HOT_STATE_H_
#define PROFD_CLIENT_LIB_CORE_HOT_STATE_H_

#include <atomic>
#include <cstdint>

#include "proto/wire/clock.h"

#define PROFD_LIKELY(x) __builtin_expect(!!(x), 1)
#define PROFD_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PROFD_NOINLINE __attribute__((noinline))

namespace profd::client {

struct Session;

#if defined(__x86_64__)
inline constexpr uint32_t kPageBytes = 4096;
#else
inline constexpr uint32_t kPageBytes = 65536;  // The largest page of any kernel.
#endif

// Values of HotState.flag that are no epochs.
inline constexpr uint32_t kFlagOff = 0;
// In a forked child: the first annotation takes the slow path, which registers the child.
inline constexpr uint32_t kFlagForked = 0xffffffff;
// ThreadState.epoch that equals no flag.
inline constexpr uint32_t kNoEpoch = 0xfffffffe;

// Bits of HotState.detour: why the straight path of a range is not enough.
inline constexpr uint32_t kDetourNames = 1;   // Some name has no place in the capture's memory.
inline constexpr uint32_t kDetourClock = 2;   // The clock is CLOCK_MONOTONIC.
inline constexpr uint32_t kDetourFence = 4;   // No membarrier(): writers pay for a fence.
inline constexpr uint32_t kDetourMarker = 8;  // Begins of some range are step marks.

// What the end of a range has to look at.
inline constexpr uint32_t kEndDetours = kDetourNames | kDetourClock | kDetourFence;

struct alignas(kPageBytes) HotState {
  std::atomic<uint32_t> flag;
  std::atomic<uint32_t> detour;
  std::atomic<Session*> session;  // Null unless a capture is armed.
  // Where new names are published. As `session`, but until the flag is off: a thread that finds
  // none here, and then the flag on, has the next capture before it, which publishes all names.
  std::atomic<Session*> session_for_names;
  std::atomic<uint32_t> alive;  // 0 in a child that did not come through our fork handler.

  // Threads without a ThreadState that are inside a write.
  alignas(64) std::atomic<uint32_t> guests;
};

extern constinit HotState g_hot;

// Constant from Load() on.
extern constinit wire::ClockKind g_clock;

inline uint64_t ReadTicks() { return wire::ReadTicks(g_clock); }

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_HOT_STATE_H_
