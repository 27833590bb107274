#include "cli/base/interrupts.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "cli/base/errors.h"

namespace profd::cli {
namespace {

// Signals are the process's, too.
std::atomic<bool> any_requested = false;

// nohup makes a program ignore that its terminal is gone.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

sigset_t OurSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

Interrupts::Interrupts() {
  const sigset_t signals = OurSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signals_.Reset(signalfd(-1, &signals, SFD_CLOEXEC));
  stop_.Reset(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Run(); });
}

// The signals stay blocked: gRPC's threads have inherited that, and the process is ending.
Interrupts::~Interrupts() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

void Interrupts::Run() {
  pthread_setname_np(pthread_self(), "profctl-signals");
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  std::thread handling;
  while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
    if (fds[1].revents != 0) break;
    if (fds[0].revents == 0) continue;
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    any_requested.store(true, std::memory_order_release);
    // The kernel and the shell both send one when a terminal goes, so a second one is no order to
    // end at once.
    if (info.ssi_signo == SIGHUP && interrupted()) continue;
    if (interrupted_.exchange(true, std::memory_order_acq_rel)) {
      // Leaves a progress line behind as a line of its own.
      std::string text = isatty(STDERR_FILENO) != 0 ? "\n" : "";
      {
        const absl::MutexLock lock(&last_words_mu_);
        text += last_words_;
      }
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
      _exit(kExitInterrupted);
    }
    // Apart from this thread: a handler that hangs must not keep the second signal waiting.
    handling = std::thread([this] { CallHandler(); });
  }
  if (handling.joinable()) handling.join();
}

bool Interrupts::AnyRequested() { return any_requested.load(std::memory_order_acquire); }

void Interrupts::CallHandler() {
  const absl::MutexLock lock(&mu_);
  if (handler_) handler_();
}

void Interrupts::SetLastWords(std::string text) {
  const absl::MutexLock lock(&last_words_mu_);
  last_words_ = std::move(text);
}

void Interrupts::OnInterrupt(std::function<void()> handler) {
  const absl::MutexLock lock(&mu_);
  handler_ = std::move(handler);
  if (handler_ && interrupted()) handler_();
}

}  // namespace profd::cli
