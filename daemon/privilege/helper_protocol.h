// What the daemon and its helper say to each other over an AF_UNIX SOCK_SEQPACKET connection: one
// request, one answer, each a packet of fixed size.
//
//   daemon -> helper   HelperRequest   descriptors: pidfd [, the target's connection]
//   helper -> daemon   HelperAnswer    descriptors: none  [, /proc/PID/mem, read-only]
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

enum class HelperRequestKind : uint32_t {
  // Facts from /proc about the process of the pidfd.
  kFacts = 1,
  // A descriptor of its memory. The second descriptor proves that the process is a target: a
  // connection that it made to the agent socket. `start_ticks` must match.
  kMemory = 2,
};

struct HelperRequest {
  HelperRequestKind kind;
  uint32_t reserved = 0;
  uint64_t number;          // Returned in the answer.
  int64_t start_ticks = 0;  // 0 in kFacts: not known yet.
};
static_assert(sizeof(HelperRequest) == 24 && std::is_trivially_copyable_v<HelperRequest>);

struct HelperAnswer {
  uint64_t number = 0;
  int32_t error = 0;  // An errno. EINVAL: the request breaks a rule above. ESRCH: it has ended.
  uint32_t reserved = 0;
  ProcFacts facts;  // kFacts only.
};
static_assert(std::is_trivially_copyable_v<HelperAnswer>);

}  // namespace profd

#endif  // PROFD_DAEMON_PRIVILEGE_HELPER_PROTOCOL_H_
