#include "cli/base/failed_writes.h"

#include <array>
#include <csignal>

namespace profd::cli {
namespace {

struct SignalOfWrites {
  int number;
  bool is_ignoring = false;
  struct sigaction inherited = {};  // What it did when the process started.
};
std::array<SignalOfWrites, 2> g_signals = {{{.number = SIGPIPE}, {.number = SIGXFSZ}}};

}  // namespace

void IgnoreSignalsOfWrites() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (SignalOfWrites& signal : g_signals) {
    signal.is_ignoring = sigaction(signal.number, &ignore, &signal.inherited) == 0;
  }
}

bool BrokenPipesWereIgnored() {
  return g_signals[0].is_ignoring && g_signals[0].inherited.sa_handler == SIG_IGN;
}

void RestoreSignalsOfWrites() {
  for (const SignalOfWrites& signal : g_signals) {
    if (signal.is_ignoring) (void)sigaction(signal.number, &signal.inherited, nullptr);
  }
}

void LetSignalsOfWritesEnd(posix_spawnattr_t& child_attributes) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const SignalOfWrites& signal : g_signals) sigaddset(&signals, signal.number);
  posix_spawnattr_setsigdefault(&child_attributes, &signals);
  short flags = 0;
  posix_spawnattr_getflags(&child_attributes, &flags);
  posix_spawnattr_setflags(&child_attributes, static_cast<short>(flags | POSIX_SPAWN_SETSIGDEF));
}

}  // namespace profd::cli
