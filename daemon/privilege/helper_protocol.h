// What the daemon and its helper say to each other over an AF_UNIX SOCK_SEQPACKET connection: one
// request, one answer, each a packet of fixed size.
//
//   daemon -> helper   HelperRequest   one descriptor: a pidfd
//   helper -> daemon   HelperAnswer    facts from /proc about its process
//
// Both programs are of one build; there is no version.
#ifndef PROFD_DAEMON_PRIVILEGE_HELPER_PROTOCOL_H_
#define PROFD_DAEMON_PRIVILEGE_HELPER_PROTOCOL_H_

#include <cstdint>
#include <type_traits>

#include "daemon/privilege/proc_files.h"

namespace profd {

// The descriptor that a helper finds its connection at: systemd's first.
inline constexpr int kHelperConnectionFd = 3;

struct HelperRequest {
  uint64_t number;  // Returned in the answer.
};
static_assert(sizeof(HelperRequest) == 8 && std::is_trivially_copyable_v<HelperRequest>);

struct HelperAnswer {
  uint64_t number = 0;
  int32_t error = 0;  // An errno. EINVAL: the request breaks a rule above. ESRCH: it has ended.
  uint32_t reserved = 0;
  ProcFacts facts;
};
static_assert(std::is_trivially_copyable_v<HelperAnswer>);

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_HELPER_PROTOCOL_H_
