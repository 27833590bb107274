#include "cli/base/interrupts.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>
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
  pthread_sigmask(SIG_BLOCK, &signals, &mask_before_);
  signals_.Reset(signalfd(-1, &signals, SFD_CLOEXEC));
  stop_.Reset(eventfd(0, EFD_CLOEXEC));
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    throw;
  }
}

// From now on the signals end the process as usual, even where it hangs. gRPC's threads have them
// blocked, but this thread has not.
Interrupts::~Interrupts() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
  sigset_t mask = mask_before_;
  if (interrupted()) sigaddset(&mask, SIGHUP);  // A second one does not end the process, see Run().
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
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
    // On another thread: a handler that hangs must not keep the second signal waiting.
    try {
      handling = std::thread([this] { CallHandler(); });
    } catch (const std::system_error&) {
      // No thread is to be had. The kernel then ends the process at the second signal.
      sigset_t seconds;
      sigemptyset(&seconds);
      sigaddset(&seconds, SIGINT);
      sigaddset(&seconds, SIGTERM);
      pthread_sigmask(SIG_UNBLOCK, &seconds, nullptr);
      CallHandler();
    }
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
