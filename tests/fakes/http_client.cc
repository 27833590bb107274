#include "tests/fakes/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "daemon/base/str_cat.h"

namespace profd {

UniqueFd ConnectTo(uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.Reset();
  return fd;
}

void Send(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // Turned away: the answer tells.
    text.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string ReadAll(int fd) {
  std::string all;
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = read(fd, piece.data(), piece.size());
    if (size <= 0) return all;
    all.append(piece.data(), static_cast<size_t>(size));
  }
}

std::string Ask(uint16_t port, std::string_view request) {
  const UniqueFd fd = ConnectTo(port);
  Send(fd.get(), request);
  return ReadAll(fd.get());
}

std::string Get(uint16_t port, std::string_view path) {
  return Ask(port, StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
}

}  // namespace profd
