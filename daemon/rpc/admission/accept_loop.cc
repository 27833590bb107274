#include "daemon/rpc/admission/accept_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"

namespace profd::rpc {
namespace {

absl::Status Add(int epoll_fd, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "epoll_ctl");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AcceptLoop>> AcceptLoop::Create(UniqueFd listener) {
  // One that systemd hands over may block.
  const int flags = fcntl(listener.get(), F_GETFL);
  if (flags < 0 || fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "fcntl(O_NONBLOCK) on a listening socket");
  }
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  UniqueFd wake_event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll.valid() || !wake_event.valid()) return absl::ErrnoToStatus(errno, "epoll or eventfd");
  RETURN_IF_ERROR(Add(epoll.get(), listener.get(), EPOLLIN));
  RETURN_IF_ERROR(Add(epoll.get(), wake_event.get(), EPOLLIN));
  return std::unique_ptr<AcceptLoop>(
      new AcceptLoop(std::move(listener), std::move(epoll), std::move(wake_event)));
}

AcceptLoop::AcceptLoop(UniqueFd listener, UniqueFd epoll, UniqueFd wake_event)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      wake_event_(std::move(wake_event)) {}

AcceptLoop::~AcceptLoop() { Stop(); }

void AcceptLoop::Start(const char* thread_name, std::string place, Handlers handlers,
                       Watchdog* watchdog) {
  place_ = std::move(place);
  handlers_ = std::move(handlers);
  thread_ = std::jthread([this, thread_name, watchdog] { Loop(thread_name, watchdog); });
}

void AcceptLoop::Stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  Wake();
  thread_.join();
}

void AcceptLoop::Wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_event_.get(), &one, sizeof one);
}

absl::Status AcceptLoop::Watch(int fd) {
  // Asks for nothing: the hang-up, when both ends are closed, is always told.
  return Add(epoll_.get(), fd, 0);
}

void AcceptLoop::Forget(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void AcceptLoop::Loop(const char* thread_name, Watchdog* watchdog) {
  pthread_setname_np(pthread_self(), thread_name);
  WatchedThread watched(watchdog, thread_name, Watchdog::Work::kNoDisk, [this] { Wake(); });
  std::array<epoll_event, 64> events;
  while (true) {
    watched.Waits();
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    watched.Works();
    const bool is_woken = Drain(std::span(events).first(static_cast<size_t>(std::max(count, 0))));
    // After the drain, which may have taken the wake of Stop() together with another one.
    if (stop_.load(std::memory_order_acquire)) return;
    if (is_woken && handlers_.on_wake) handlers_.on_wake();
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd != wake_event_.get() && fd != listener_.get()) handlers_.on_ended(fd);
    }
    // Last, so that the numbers of ended connections are not reused within one round.
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == listener_.get()) AcceptSome();
    }
  }
}

bool AcceptLoop::Drain(std::span<const epoll_event> events) const {
  const bool is_woken = std::ranges::any_of(
      events, [this](const epoll_event& event) { return event.data.fd == wake_event_.get(); });
  if (!is_woken) return false;
  uint64_t wakes;
  [[maybe_unused]] const ssize_t got = read(wake_event_.get(), &wakes, sizeof wakes);
  return true;
}

// Not all at once, so that wakes and ends are handled in between: epoll reports the rest again.
void AcceptLoop::AcceptSome() {
  constexpr int kMost = 64;
  for (int accepted = 0; accepted < kMost; ++accepted) {
    UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      handlers_.on_connection(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) {
      // Out of descriptors: waiting callers keep the socket readable, so do not spin.
      if (const auto n = failures_.Allow()) {
        LogError(StrCat(place_, ": accept: ", std::strerror(errno), " (", *n,
                        " more); raise LimitNOFILE"));
      }
      usleep(100'000);
    }
    return;
  }
}

}  // namespace profd::rpc
