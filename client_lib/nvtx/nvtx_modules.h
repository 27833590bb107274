// The shared objects of the process that have NVTX compiled in, and their function slots.
//
//   attached ──► slots of handles and thread names: ours, for good
//           └──► slots of ranges and marks: empty ── armed ──► ours ── released ──► empty
//
// An empty slot costs a program what NVTX costs without a tool. In a forked child the slots
// are filled until its first annotation, which registers it.
//
// Threads:   any; no lock. Slots are single words, written by the thread that sees a change; after
//            all of them returned, the slots are as HotState says.
// Ownership: a shared object that was attached is never unmapped, since its slots are written.
// Errors:    beyond kMaxModules, and where a table is not what it must be, ranges of that
//            object are not seen; the program notices nothing.
#ifndef PROFD_CLIENT_LIB_NVTX_NVTX_MODULES_H_
#define PROFD_CLIENT_LIB_NVTX_NVTX_MODULES_H_

#include <cstdint>

#include "client_lib/nvtx/nvtx_abi.h"

namespace profd::client::nvtx {

inline constexpr uint32_t kMaxModules = 512;

// Takes the slots of the object whose NVTX `get` belongs to. False: there are none to take.
bool Attach(GetExportTable get);

}  // namespace profd::client::nvtx

#endif  // PROFD_CLIENT_LIB_NVTX_NVTX_MODULES_H_
