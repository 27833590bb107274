// Standard input, output and error of a process that may have been started without them.
#ifndef PROFD_DAEMON_BASE_STANDARD_FILES_H_
#define PROFD_DAEMON_BASE_STANDARD_FILES_H_

#include <fcntl.h>
#include <unistd.h>

namespace profd {

// For main(), before anything is opened: takes the numbers 0 to 2 where they are closed, so that no
// file or socket gets one of them, and with it what is written to stdout or stderr. Writing there
// still fails (EBADF), and a program that this one becomes finds them closed as before.
inline void KeepStandardFilesApart() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // open() takes the lowest number that is free.
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
}

}  // namespace profd

#endif  // PROFD_DAEMON_BASE_STANDARD_FILES_H_
