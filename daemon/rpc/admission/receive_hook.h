// Shows profd what gRPC receives, before gRPC sees it. gRPC 1.51 has no interface for that, so
// this file's .cc defines recvmsg(), which gRPC calls for every read, for the whole process. It
// calls the C library's; for observed descriptors it shows the bytes to an observer.
//
// Rejected: a relay between the caller and gRPC. It would cost two more thread switches per message
// and a copy; this costs a look-up.
//
// Descriptors that a peer passes are taken out of the message. Without this the kernel closes
// them on gRPC's thread (base/passed_files.h).
//
// Threads:   any. An observer is called on gRPC's threads, one read of a descriptor at a time.
// Ownership: an observer lives until another one replaces it, or ForgetReceives(), since gRPC does
//            not report when it closes a descriptor.
#ifndef PROFD_DAEMON_RPC_ADMISSION_RECEIVE_HOOK_H_
#define PROFD_DAEMON_RPC_ADMISSION_RECEIVE_HOOK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/unique_fd.h"

namespace profd::rpc {

class ReceiveObserver {
 public:
  virtual ~ReceiveObserver() = default;
  // The next bytes. False ends the connection: gRPC reads an error and never sees the bytes.
  virtual bool OnReceived(std::span<const std::byte> bytes) = 0;
  // The peer passed descriptors; the connection ends. Must not close them on this thread.
  virtual void OnFiles(std::vector<UniqueFd> files) = 0;
};

// Shows `observer` what is read from `fd` from now on; replaces an earlier one of that number.
// Call it before gRPC gets the descriptor.
void ObserveReceives(int fd, std::shared_ptr<ReceiveObserver> observer);

// Ends that, if `observer` is still the one of `fd`.
void ForgetReceives(int fd, const ReceiveObserver& observer);

// Whether other libraries' calls of recvmsg() come here. False: this build of profd is wrong.
bool ReceiveHookIsInPlace();

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_RECEIVE_HOOK_H_
