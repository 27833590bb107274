#include "cli/base/broken_pipes.h"

#include <csignal>

namespace profd::cli {
namespace {

// What SIGPIPE did when the process started.
struct sigaction g_inherited = {};
bool g_is_ignoring = false;

}  // namespace

void IgnoreBrokenPipes() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  if (sigaction(SIGPIPE, &ignore, &g_inherited) == 0) g_is_ignoring = true;
}

bool BrokenPipesWereIgnored() { return g_is_ignoring && g_inherited.sa_handler == SIG_IGN; }

void RestoreBrokenPipes() {
  if (g_is_ignoring) (void)sigaction(SIGPIPE, &g_inherited, nullptr);
}

void EndChildOnBrokenPipe(posix_spawnattr_t& attributes) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  short flags = 0;
  posix_spawnattr_getflags(&attributes, &flags);
  posix_spawnattr_setflags(&attributes, static_cast<short>(flags | POSIX_SPAWN_SETSIGDEF));
}

}  // namespace profd::cli
