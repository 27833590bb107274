// Names that the program gave to threads by their number (nvtxNameOsThread), which may come
// before such a thread has a state, and from another thread. A thread that names itself
// (SetThreadName()) does without.
//
// Threads: any; no lock. At most kMaxGivenNames; further ones are ignored. The number of a
//          thread that ended may go to another one, and the name with it.
// Fork:    kept; a child's threads have numbers of their own.
#ifndef PROFD_CLIENT_LIB_CORE_GIVEN_NAMES_H_
#define PROFD_CLIENT_LIB_CORE_GIVEN_NAMES_H_

#include <cstdint>

namespace profd::client {

inline constexpr uint32_t kMaxGivenNames = 1024;

// Thread `os_thread` is called `name_id` from its next capture on.
void GiveThreadName(uint32_t os_thread, uint32_t name_id);

// wire::kNoNameId: it was given none.
uint32_t GivenThreadName(uint32_t os_thread);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_GIVEN_NAMES_H_
