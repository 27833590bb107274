// Signals of writes that fail. A pipe or connection whose other side has closed it, and a file that
// would exceed the limit on sizes (ulimit -f), are errors of the write (EPIPE, EFBIG), and do not
// end the process (SIGPIPE, SIGXFSZ): one node that closes its connection must not end a command
// that asks a hundred nodes, and a file that is too large not one that has a report to print.
//
// Threads: LetSignalsOfWritesEnd() any; the others main's, before other threads start.
#ifndef PROFD_CLI_BASE_FAILED_WRITES_H_
#define PROFD_CLI_BASE_FAILED_WRITES_H_

#include <spawn.h>

namespace profd::cli {

// Ignores these signals in this process from now on.
void IgnoreSignalsOfWrites();

// Whether SIGPIPE was ignored before: a closed stdout is then an error like any other, as in other
// programs.
bool BrokenPipesWereIgnored();

// Restores these signals as this process inherited them. For a process that is about to become
// another program: ignored signals stay ignored across exec.
void RestoreSignalsOfWrites();

// Adds to `child_attributes` that these signals end the child, as programs expect. Keeps other
// flags.
void LetSignalsOfWritesEnd(posix_spawnattr_t& child_attributes);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_FAILED_WRITES_H_
