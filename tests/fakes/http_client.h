// An HTTP client that sends exactly the bytes that a test gives it.
#ifndef PROFD_TESTS_FAKES_HTTP_CLIENT_H_
#define PROFD_TESTS_FAKES_HTTP_CLIENT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/unique_fd.h"

namespace profd {

// A connection to 127.0.0.1; invalid if it is refused.
UniqueFd ConnectTo(uint16_t port);
void Send(int fd, std::string_view text);
// All that comes until the other side closes.
std::string ReadAll(int fd);
// The whole answer to one request on a connection of its own.
std::string Ask(uint16_t port, std::string_view request);
std::string Get(uint16_t port, std::string_view path);

}  // namespace profd

#endif  // PROFD_TESTS_FAKES_HTTP_CLIENT_H_
