// A pipe or connection whose other side has closed it: writes fail with EPIPE instead of ending
// the process with SIGPIPE. One node that closes its connection must not end a command that asks a
// hundred nodes.
//
// Threads: Call both from main's thread, before other threads start.
#ifndef PROFD_CLI_BASE_BROKEN_PIPES_H_
#define PROFD_CLI_BASE_BROKEN_PIPES_H_

#include <spawn.h>

namespace profd::cli {

// Ignores SIGPIPE in this process from now on.
void IgnoreBrokenPipes();

// Whether SIGPIPE was ignored before IgnoreBrokenPipes(): a closed stdout is then an error like any
// other, as in other programs.
bool BrokenPipesWereIgnored();

// Restores SIGPIPE as this process inherited it. For a process that is about to become another
// program: ignored signals stay ignored across exec.
void RestoreBrokenPipes();

// Adds to `attributes` that the child ends on SIGPIPE, as programs expect. Keeps other flags.
void EndChildOnBrokenPipe(posix_spawnattr_t& attributes);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_BROKEN_PIPES_H_
