// What a command would start, found out before it is started: which file, and whether the dynamic
// loader that this program runs with would load it. Scripts count as their interpreter.
//
// Nothing here decides whether a command may run: a file that cannot be read or understood has no
// obstacle, and exec says what is wrong with it.
//
// Threads: Any. Reads the first bytes of a few files.
#ifndef PROFD_CLI_BASE_PROGRAM_FILE_H_
#define PROFD_CLI_BASE_PROGRAM_FILE_H_

#include <string>
#include <string_view>

namespace profd::cli {

// Why LD_PRELOAD does not bring the client library into `command` (a path, or a name on PATH):
// "'/sbin/ldconfig' is statically linked". Empty: nothing speaks against it. Processes that the
// command starts may differ.
std::string PreloadObstacle(std::string_view command);

}  // namespace profd::cli

#endif  // PROFD_CLI_BASE_PROGRAM_FILE_H_
