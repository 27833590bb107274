#include "daemon/export/sink/stream_write.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace profd::exporter {
namespace {

constexpr int kPatienceMs = 200;

// Returns when a write of PIPE_BUF bytes does not block; false: cancelled before.
bool AwaitRoom(int fd, const IsCancelled& is_cancelled) {
  for (;;) {
    pollfd room{.fd = fd, .events = POLLOUT, .revents = 0};
    // What is wrong with it, the write says.
    if (const int ready = poll(&room, 1, kPatienceMs); ready > 0) return true;
    if (is_cancelled && is_cancelled()) return false;
  }
}

}  // namespace

int WriteToStream(int fd, std::string_view bytes, const IsCancelled& is_cancelled) {
  struct stat info = {};
  const bool never_waits = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  while (!bytes.empty()) {
    if (!never_waits && !AwaitRoom(fd, is_cancelled)) return ECANCELED;
    // poll() promises that PIPE_BUF bytes fit. A larger write may block in the middle, and a
    // cancellation would wait for the reader.
    const size_t piece = never_waits ? bytes.size() : std::min<size_t>(bytes.size(), PIPE_BUF);
    const ssize_t written = write(fd, bytes.data(), piece);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace profd::exporter
