// Waiting for writers: the agent's half of the protocol drawn in hot_state.h.
#ifndef PROFD_CLIENT_LIB_CORE_QUIESCE_H_
#define PROFD_CLIENT_LIB_CORE_QUIESCE_H_

#include <cstdint>

namespace profd::client {

// Finds out which barrier this kernel has. Before the first capture, on the agent thread.
void PrepareQuiescence();

// After the flag and the session were cleared: waits until no thread that may have seen
// them is inside a write, for `timeout_ms` at most. Returns how many still are.
uint32_t Quiesce(uint32_t timeout_ms);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_QUIESCE_H_
