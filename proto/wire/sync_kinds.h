// Values of SyncEvent.sync_kind beyond CUpti_ActivitySynchronizationType: a stream waits while a
// thread runs a function of the program's, which cudaLaunchHostFunc or a node of a graph gave it.
// The event's stream waits, its time is the function's, and its thread is the header's.
#ifndef PROFD_PROTO_WIRE_SYNC_KINDS_H_
#define PROFD_PROTO_WIRE_SYNC_KINDS_H_

#include <cstdint>

namespace profd::wire {

inline constexpr uint32_t kSyncHostFunction = 256;
inline constexpr uint32_t kSyncGraphHostNode = 257;

constexpr bool IsHostFunction(uint32_t sync_kind) {
  return sync_kind == kSyncHostFunction || sync_kind == kSyncGraphHostNode;
}

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_SYNC_KINDS_H_
