// Interrupts turns Ctrl-C, SIGTERM, and the loss of the terminal (SIGHUP, unless it is ignored)
// into a call: the first runs a handler on a thread of its own, a second ends the program at once
// with exit code 130; but no second SIGHUP does.
//
// Make it before any other thread starts (a DaemonClient starts some): they inherit the
// blocked signals. A command that makes none is ended by the first signal, as usual. So is one
// whose Interrupts is gone.
//
// Errors:  the constructor throws std::system_error where there is no thread for it.
// Threads: OnInterrupt() one at a time; interrupted() any.
#ifndef PROFD_CLI_BASE_INTERRUPTS_H_
#define PROFD_CLI_BASE_INTERRUPTS_H_

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // What the first signal does from now on; at once, on this thread, if it came already.
  // A handler may be called twice. When this returns, the one before is not running any more.
  void OnInterrupt(std::function<void()> handler);
  // What the second signal writes to stderr before the program ends, with its newline; empty:
  // nothing.
  void SetLastWords(std::string text);
  bool interrupted() const { return interrupted_.load(std::memory_order_acquire); }
  // Whether this process has had the first signal, for code that waits and was handed no
  // Interrupts.
  static bool AnyRequested();

 private:
  void Run();
  void CallHandler();

  std::atomic<bool> interrupted_ = false;
  sigset_t mask_before_{};  // Of the thread that made this.
  UniqueFd signals_;
  UniqueFd stop_;

  // Held while a handler runs: it must not call OnInterrupt().
  absl::Mutex mu_;
  std::function<void()> handler_ ABSL_GUARDED_BY(mu_);

  // Held for no longer than it takes to copy the text: a second signal never waits.
  absl::Mutex last_words_mu_;
  std::string last_words_ ABSL_GUARDED_BY(last_words_mu_);

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_INTERRUPTS_H_
