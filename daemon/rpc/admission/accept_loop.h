// AcceptLoop: one thread that accepts the connections of one listening socket, and hears of the
// end of those it is asked to watch: gRPC, which gets them, does not tell.
//
// Threads:   Start() and Stop() by the owner. The handlers run on the loop's thread, which sleeps
//            in epoll without a timeout; Watch() and Forget() only within them.
// Ownership: of the listener. Watched descriptors stay the caller's. `watchdog` must outlive the
//            loop.
#ifndef PROFD_DAEMON_RPC_ADMISSION_ACCEPT_LOOP_H_
#define PROFD_DAEMON_RPC_ADMISSION_ACCEPT_LOOP_H_

#include <sys/epoll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/watchdog.h"

namespace profd::rpc {

// For listen(): connections that wait to be accepted.
inline constexpr int kListenBacklog = 1024;

class AcceptLoop {
 public:
  struct Handlers {
    std::function<void(UniqueFd connection)> on_connection;
    std::function<void(int watched_fd)> on_ended;  // Both ends are closed.
    std::function<void()> on_wake = nullptr;       // Wake(), or the watchdog asks.
  };

  // `listener` is listening, and does not block from now on. The system's error otherwise.
  static absl::StatusOr<std::unique_ptr<AcceptLoop>> Create(UniqueFd listener);
  ~AcceptLoop();  // Stop().

  // Accepts from now on; call once. `thread_name` has at most 15 bytes; `place` is where
  // callers connect to, for the log. `watchdog` watches the thread; nullptr: not watched.
  void Start(const char* thread_name, std::string place, Handlers handlers,
             Watchdog* watchdog = nullptr);
  // Ends the thread: no connection is accepted, and no end is heard of any more.
  void Stop();

  // Calls on_wake on the loop's thread. Any thread.
  void Wake() const;

  int listener() const { return listener_.get(); }

  // Hears of the hang-up of a second descriptor of a connection.
  absl::Status Watch(int fd);
  // To be called before `fd` is closed: closing alone would not take it out of epoll while gRPC
  // still holds its own descriptor, and the hang-up would be that of the number's next holder.
  void Forget(int fd);

 private:
  AcceptLoop(UniqueFd listener, UniqueFd epoll, UniqueFd wake_event);
  void Loop(const char* thread_name, Watchdog* watchdog);
  // Takes the wakes that have come. False: there is none among `events`.
  bool Drain(std::span<const epoll_event> events) const;
  void AcceptSome();

  const UniqueFd listener_;
  const UniqueFd epoll_;
  const UniqueFd wake_event_;
  std::atomic<bool> stop_{false};
  std::string place_;
  Handlers handlers_;
  RateLimiter failures_{absl::Seconds(10)};
  std::jthread thread_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_ACCEPT_LOOP_H_
