// Calls of code that holds locks which the program uses, too: torch's list of observers, the
// loader's list of objects. A lock that a thread of ours holds while another thread forks is held
// for ever in the child, where that thread is not, and the child's next operator or dlopen() hangs.
// So each such call is a ForeignCall: fork() waits for those that have begun, and none begins until
// it is over.
//
//   agent     ──[ dl_iterate_phdr() ]──                 ·········[ dlopen() ]──
//   program          fork() ·········[ the fork itself ]──
//
// A call may not wait for what a thread that forks may hold, such as Python's GIL, and is in no
// other one: it would wait for a fork that waits for that one.
//
// Threads: any. ForeignCall waits for forks: on threads of the library, and where the program loads
//          it. TryBeginForeignCall() does not.
// Fork:    waits kMostForkWaitNs at most, and not again until the call that took longer is over.
#ifndef PROFD_CLIENT_LIB_CORE_FOREIGN_CALLS_H_
#define PROFD_CLIENT_LIB_CORE_FOREIGN_CALLS_H_

#include <cstdint>

namespace profd::client {

inline constexpr uint64_t kMostForkWaitNs = 1'000'000'000;

// False: a thread forks. Then EndForeignCall() is not called.
[[nodiscard]] bool TryBeginForeignCall();
void EndForeignCall();

class ForeignCall {
 public:
  ForeignCall();
  ~ForeignCall() { EndForeignCall(); }
  ForeignCall(const ForeignCall&) = delete;
  ForeignCall& operator=(const ForeignCall&) = delete;
};

// Steps of fork(): lifecycle.cc.
void HoldForeignCalls();
void ReleaseForeignCalls();  // In the parent.
void ForgetForeignCalls();   // In the child.

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_FOREIGN_CALLS_H_
