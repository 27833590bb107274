#include "daemon/base/service_notifier.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

namespace profd {
namespace {

std::string KernelAddress(std::string_view address) {
  const bool fits = address.size() > 1 && address.size() < sizeof(sockaddr_un::sun_path);
  if (!fits || (address.front() != '/' && address.front() != '@')) return {};
  std::string kernel_address(address);
  if (kernel_address.front() == '@') kernel_address.front() = '\0';
  return kernel_address;
}

}  // namespace

ServiceNotifier::ServiceNotifier(std::string_view address)
    : address_(KernelAddress(address)),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

bool ServiceNotifier::Notify(std::string_view state) {
  if (waiting_.empty() || waiting_.back() != state) waiting_.emplace_back(state);
  if (waiting_.size() > kMaxWaiting) waiting_.pop_front();
  return Retry();
}

bool ServiceNotifier::Retry() {
  while (!waiting_.empty() && Send(waiting_.front())) waiting_.pop_front();
  return waiting_.empty();
}

// Returns false if it is worth another attempt.
bool ServiceNotifier::Send(std::string_view state) const {
  if (address_.empty()) return true;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ssize_t sent =
      sendto(socket_.get(), state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&to), size);
  if (sent >= 0) return true;
  return errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM && errno != EINTR;
}

}  // namespace profd
