#include "daemon/rpc/admission/receive_hook.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/passed_files.h"

namespace profd::rpc {
namespace {

class Observers {
 public:
  void Set(int fd, std::shared_ptr<ReceiveObserver> observer) {
    absl::MutexLock lock(&mu_);
    std::swap(by_fd_[fd], observer);  // The earlier one ends after the lock.
  }
  void Remove(int fd, const ReceiveObserver& observer) {
    absl::MutexLock lock(&mu_);
    const auto it = by_fd_.find(fd);
    if (it != by_fd_.end() && it->second.get() == &observer) by_fd_.erase(it);
  }
  std::shared_ptr<ReceiveObserver> Find(int fd) const {
    absl::ReaderMutexLock lock(&mu_);
    const auto it = by_fd_.find(fd);
    return it == by_fd_.end() ? nullptr : it->second;
  }

 private:
  mutable absl::Mutex mu_;
  absl::flat_hash_map<int, std::shared_ptr<ReceiveObserver>> by_fd_ ABSL_GUARDED_BY(mu_);
};

// Never destroyed: gRPC's threads read until the process ends.
Observers& TheObservers() {
  static auto* const observers = new Observers;
  return *observers;
}

using Recvmsg = ssize_t (*)(int, msghdr*, int);

Recvmsg LibcRecvmsg() {
  static const auto real = reinterpret_cast<Recvmsg>(dlsym(RTLD_NEXT, "recvmsg"));
  return real;
}

bool Show(ReceiveObserver& observer, const msghdr& message, size_t size) {
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& part = message.msg_iov[i];
    const size_t used = std::min(size, part.iov_len);
    if (!observer.OnReceived({static_cast<const std::byte*>(part.iov_base), used})) return false;
    size -= used;
  }
  return true;
}

ssize_t ReceiveObserved(ReceiveObserver& observer, int fd, msghdr* message, int flags) {
  alignas(cmsghdr) char control[kPassedFilesControlBytes];
  void* const callers_control = message->msg_control;
  // If the caller has no room for control data, the kernel closes descriptors that a peer passes
  // here, on gRPC's thread, and a close may block. With room of our own they arrive and are closed
  // elsewhere.
  const bool borrow = message->msg_controllen == 0;
  if (borrow) {
    message->msg_control = control;
    message->msg_controllen = sizeof control;
  }
  const ssize_t size = LibcRecvmsg()(fd, message, flags | MSG_CMSG_CLOEXEC);
  const int error = errno;
  bool ends = false;
  if (borrow) {
    if (size >= 0) {
      std::vector<UniqueFd> files = TakePassedFiles(*message);
      ends = !files.empty();
      if (ends) observer.OnFiles(std::move(files));
    }
    message->msg_control = callers_control;
    message->msg_controllen = 0;
  }
  if (size > 0 && !ends) ends = !Show(observer, *message, static_cast<size_t>(size));
  if (!ends) {
    errno = error;
    return size;
  }
  shutdown(fd, SHUT_RDWR);  // The peer hears of it, and so does the listener.
  errno = ECONNRESET;
  return -1;
}

}  // namespace

void ObserveReceives(int fd, std::shared_ptr<ReceiveObserver> observer) {
  TheObservers().Set(fd, std::move(observer));
}

void ForgetReceives(int fd, const ReceiveObserver& observer) {
  TheObservers().Remove(fd, observer);
}

bool ReceiveHookIsInPlace() {
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg);
}

}  // namespace profd::rpc

extern "C" __attribute__((visibility("default"))) ssize_t recvmsg(int fd, msghdr* message,
                                                                  int flags) {
  // A shared pointer: the accept thread may replace the observer while this read goes on.
  const auto observer = profd::rpc::TheObservers().Find(fd);
  if (observer == nullptr) return profd::rpc::LibcRecvmsg()(fd, message, flags);
  return profd::rpc::ReceiveObserved(*observer, fd, message, flags);
}
