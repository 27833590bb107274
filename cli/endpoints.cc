#include "cli/endpoints.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/flags.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"

namespace profd::cli {
namespace {

constexpr std::string_view kSocketName = "control.sock";
constexpr std::string_view kSystemDirectory = "/run/profd";

absl::StatusOr<Endpoint> UnixEndpoint(std::string path, std::string from) {
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return UsageError(StrCat(from, ": the path of a unix socket has at most ",
                             sizeof(sockaddr_un::sun_path) - 1, " bytes, this one ", path.size()));
  }
  Endpoint endpoint;
  endpoint.address = StrCat("unix:", path);
  endpoint.unix_path = std::move(path);
  endpoint.from = std::move(from);
  return endpoint;
}

absl::StatusOr<Endpoint> ParseAddress(std::string_view text, std::string from) {
  constexpr std::string_view kUnixScheme = "unix:";
  if (text.starts_with(kUnixScheme)) {
    std::string_view path = text.substr(kUnixScheme.size());
    if (path.starts_with("///")) path.remove_prefix(2);
    return UnixEndpoint(std::string(path), std::move(from));
  }
  if (text.find('/') != std::string_view::npos) {
    return UnixEndpoint(std::string(text), std::move(from));
  }
  const size_t colon = text.rfind(':');
  const bool has_port = colon != std::string_view::npos && colon > 0;
  const auto port = has_port ? ParseInt(text.substr(colon + 1)) : absl::StatusOr<int64_t>(0);
  if (!port.ok() || *port < 1 || *port > 65535) {
    return UsageError(
        StrCat(from, " '", ForDisplay(text, 120), "' is no address: use unix:PATH or HOST:PORT"));
  }
  Endpoint endpoint;
  endpoint.address = std::string(text);
  endpoint.from = std::move(from);
  return endpoint;
}

std::string SocketIn(std::string_view directory) {
  while (directory.size() > 1 && directory.ends_with('/')) directory.remove_suffix(1);
  return StrCat(directory, "/", kSocketName);
}

std::string ValueOf(const GetEnv& getenv, const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<std::vector<Endpoint>> CandidateEndpoints(std::optional<std::string> address_flag,
                                                         const GetEnv& getenv) {
  const auto alone =
      [](absl::StatusOr<Endpoint> endpoint) -> absl::StatusOr<std::vector<Endpoint>> {
    if (!endpoint.ok()) return std::move(endpoint).status();
    return std::vector<Endpoint>{*std::move(endpoint)};
  };
  if (address_flag.has_value()) return alone(ParseAddress(*address_flag, "--address"));
  const std::string address = ValueOf(getenv, "PROFD_ADDRESS");
  if (!address.empty()) return alone(ParseAddress(address, "PROFD_ADDRESS"));
  const std::string directory = ValueOf(getenv, "PROFD_SOCKET_DIR");
  if (!directory.empty()) return alone(UnixEndpoint(SocketIn(directory), "PROFD_SOCKET_DIR"));

  std::vector<Endpoint> endpoints;
  ASSIGN_OR_RETURN(endpoints.emplace_back(), UnixEndpoint(SocketIn(kSystemDirectory), "default"));
  const std::string runtime = ValueOf(getenv, "XDG_RUNTIME_DIR");
  if (!runtime.empty()) {
    ASSIGN_OR_RETURN(endpoints.emplace_back(),
                     UnixEndpoint(SocketIn(StrCat(runtime, "/profd")), "XDG_RUNTIME_DIR"));
  }
  return endpoints;
}

absl::Status ProbeEndpoint(const Endpoint& endpoint) {
  if (endpoint.unix_path.empty()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, endpoint.unix_path.data(), endpoint.unix_path.size());
  // Non-blocking: a daemon that hangs with a full backlog must not hang us.
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return absl::InternalError(StrCat("socket: ", std::strerror(errno)));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return absl::OkStatus();
  }
  switch (errno) {
    case EAGAIN:
      return absl::UnavailableError("does not accept connections");
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError("no such socket");
    case ECONNREFUSED:
      return absl::UnavailableError("nobody listens");
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError("permission denied");
    default:
      return absl::UnavailableError(std::strerror(errno));
  }
}

}  // namespace profd::cli
