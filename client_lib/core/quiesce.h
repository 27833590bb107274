// Waiting for writers: the agent's half of the protocol drawn in hot_state.h.
#ifndef PROFD_CLIENT_LIB_CORE_QUIESCE_H_
#define PROFD_CLIENT_LIB_CORE_QUIESCE_H_

#include <cstdint>

namespace profd::client {

// Finds out which barrier this kernel has. Before the first capture, on the agent thread.
void PrepareQuiescence();

// Threads that were inside a write when the agent stopped waiting for them.
struct StuckWriters {
  static constexpr uint32_t kMostListed = 32;

  uint32_t count;
  uint32_t listed_count;
  uint32_t pool_indexes[kMostListed];
};

// After the flag and the session were cleared: waits until no thread that may have seen
// them is inside a write, for `timeout_ms` at most. A thread that has ended is inside none; one
// that an earlier call has waited for is not waited for again. Returns how many still are, and
// in `stuck`, if given, which.
uint32_t Quiesce(uint32_t timeout_ms, StuckWriters* stuck = nullptr);

// Waits until each thread with a state was outside of a write once, for `timeout_ms` at most; a
// write that is entered after this call sees what the caller stored before it. False: some never
// was. Any thread; none is noted as stuck.
bool AwaitWriters(uint32_t timeout_ms);

// Whether some of `stuck` have neither left a write nor ended since. Forgets those that have.
bool AreStillStuck(StuckWriters* stuck);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_QUIESCE_H_
