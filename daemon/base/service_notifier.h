// ServiceNotifier tells the service manager that started the process how it is: the protocol of
// sd_notify(3). That function waits for a manager that does not read; this class never does.
//
// Threads: one at a time.
// Errors:  What the manager does not take at once is kept, and sent before the next state: the
//          newest kMaxWaiting states, and one that repeats the last only once.
#ifndef PROFD_DAEMON_BASE_SERVICE_NOTIFIER_H_
#define PROFD_DAEMON_BASE_SERVICE_NOTIFIER_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "daemon/base/unique_fd.h"

namespace profd {

class ServiceNotifier {
 public:
  static constexpr size_t kMaxWaiting = 16;

  // `address` as in NOTIFY_SOCKET: a path, or "@" and an abstract name. With an empty or any other
  // address, states are discarded.
  explicit ServiceNotifier(std::string_view address);

  // Sends a state: "READY=1". Returns false if it waits.
  bool Notify(std::string_view state);
  // Sends what waits. Returns false if some of it still does.
  bool Retry();

 private:
  bool Send(std::string_view state) const;

  const std::string address_;  // As the kernel takes it: abstract names begin with a zero.
  const UniqueFd socket_;
  std::deque<std::string> waiting_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_SERVICE_NOTIFIER_H_
