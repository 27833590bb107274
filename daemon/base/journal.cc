#include "daemon/base/journal.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <cstring>

namespace profd {

Journal::Journal(std::filesystem::path socket)
    : path_(std::move(socket)),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

// The protocol of systemd-journald: "NAME=value\n", or, for values with line breaks, the name, a
// line break, 64 bits of length (little-endian), the value, and a line break.
bool Journal::Send(std::span<const Field> fields) const {
  std::string packet;
  for (const auto& [name, value] : fields) {
    packet += name;
    if (value.find('\n') == std::string::npos) {
      packet += "=";
    } else {
      packet += "\n";
      for (int shift = 0; shift < 64; shift += 8) {
        packet.push_back(static_cast<char>(static_cast<uint64_t>(value.size()) >> shift));
      }
    }
    packet += value;
    packet += "\n";
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = path_.string();
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const ssize_t sent =
      sendto(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  return sent == static_cast<ssize_t>(packet.size());
}

}  // namespace profd
