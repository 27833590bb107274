// SocketPlace remembers which socket is at a path. If the file of a socket that profd listens on is
// removed or replaced, no new caller reaches profd, which hears nothing of it.
//
// Threads: any. Errors: none.
#ifndef PROFD_DAEMON_METRICS_SOCKET_PLACE_H_
#define PROFD_DAEMON_METRICS_SOCKET_PLACE_H_

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>

namespace profd::metrics {

class SocketPlace {
 public:
  // As it is now. Where there is no socket, as with one that systemd has bound elsewhere, none is
  // missed.
  explicit SocketPlace(std::filesystem::path path);

  // Returns why new callers cannot reach that socket, as a line for people; "" while they can.
  std::string WhyGone() const;

 private:
  struct File {
    dev_t device;
    ino_t inode;
    friend bool operator==(const File&, const File&) = default;
  };
  // nullopt: there is no socket.
  static std::optional<File> At(const std::filesystem::path& path);

  std::filesystem::path path_;
  std::optional<File> file_;
};

}  // namespace profd::metrics

#endif  // PROFD_DAEMON_METRICS_SOCKET_PLACE_H_
