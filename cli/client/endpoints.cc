#include "cli/client/endpoints.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "cli/client/contexts.h"
#include "daemon/base/host_port.h"
#include "daemon/base/reason.h"
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

// Names are not looked up: what one stands for may change.
bool IsLoopback(std::string_view host) {
  if (host == "localhost") return true;
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6) != 0;
}

std::string SocketIn(std::string_view directory) {
  while (directory.size() > 1 && directory.ends_with('/')) directory.remove_suffix(1);
  return StrCat(directory, "/", kSocketName);
}

std::string EnvironmentValue(const GetEnv& getenv, const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<std::optional<ClientTls>> TlsOfEnvironment(const GetEnv& getenv) {
  ClientTls tls{.ca_file = EnvironmentValue(getenv, "PROFD_TLS_CA"),
                .certificate_file = EnvironmentValue(getenv, "PROFD_TLS_CERT"),
                .key_file = EnvironmentValue(getenv, "PROFD_TLS_KEY"),
                .server_name = EnvironmentValue(getenv, "PROFD_TLS_SERVER_NAME")};
  if (tls.ca_file.empty() && tls.certificate_file.empty() && tls.key_file.empty()) {
    return std::optional<ClientTls>();
  }
  if (tls.ca_file.empty()) {
    return UsageError("PROFD_TLS_CERT and PROFD_TLS_KEY need PROFD_TLS_CA: who signs for daemons");
  }
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    return UsageError("PROFD_TLS_CERT and PROFD_TLS_KEY go together: a certificate and its key");
  }
  return std::optional<ClientTls>(std::move(tls));
}

// The context that `chosen_by` names; with none, the file's current one.
absl::StatusOr<std::optional<Context>> ContextThatHolds(const std::string& chosen,
                                                        std::string_view chosen_by,
                                                        const GetEnv& getenv) {
  const std::filesystem::path path = ContextsPath(getenv);
  ASSIGN_OR_RETURN(const ContextFile file, ReadContexts(path));
  const std::string& name = chosen.empty() ? file.current : chosen;
  if (name.empty()) return std::optional<Context>();
  const Context* const found = FindContext(file, name);
  if (found == nullptr) {
    return UsageError(StrCat(chosen.empty() ? std::string_view(path.native()) : chosen_by,
                             ": there is no context '", ForDisplay(name, 80),
                             "'; `profctl context list` lists them"));
  }
  return std::optional<Context>(*found);
}

}  // namespace

absl::StatusOr<ClientSettings> ReadClientSettings(const std::optional<std::string>& address_flag,
                                                  const std::optional<std::string>& context_flag,
                                                  const GetEnv& getenv) {
  ClientSettings settings;
  const std::string chosen = context_flag.value_or(EnvironmentValue(getenv, "PROFD_CONTEXT"));
  const std::string_view chosen_by = context_flag.has_value() ? "--context" : "PROFD_CONTEXT";
  const std::string directory = EnvironmentValue(getenv, "PROFD_SOCKET_DIR");
  bool context_names_it = false;
  if (address_flag.has_value()) {
    settings.address = *address_flag;
    settings.from = "--address";
    if (settings.address.empty())
      return UsageError("--address is empty: use unix:PATH or HOST:PORT");
  } else if (context_flag.has_value()) {
    context_names_it = true;
  } else if (std::string address = EnvironmentValue(getenv, "PROFD_ADDRESS"); !address.empty()) {
    settings.address = std::move(address);
    settings.from = "PROFD_ADDRESS";
  } else if (!chosen.empty()) {
    context_names_it = true;
  } else if (!directory.empty()) {
    settings.address = StrCat("unix:", SocketIn(directory));
    settings.from = "PROFD_SOCKET_DIR";
  } else {
    context_names_it = true;
  }

  ASSIGN_OR_RETURN(settings.tls, TlsOfEnvironment(getenv));
  const absl::StatusOr<std::optional<Context>> context =
      ContextThatHolds(chosen, chosen_by, getenv);
  if (!context.ok()) {
    // Who has said all that is needed need not hear of it.
    if (!context_names_it && chosen.empty()) return settings;
    return context.status();
  }
  if (!context->has_value()) return settings;
  settings.context = (*context)->name;
  if (!settings.tls.has_value()) settings.tls = (*context)->tls;
  if (context_names_it) {
    settings.address = (*context)->address;
    settings.nodes = (*context)->nodes;
    settings.from = StrCat("context ", settings.context);
  }
  return settings;
}

absl::StatusOr<Endpoint> ParseAddress(std::string_view address, std::string from,
                                      const std::optional<ClientTls>& tls) {
  constexpr std::string_view kUnixScheme = "unix:";
  if (address.starts_with(kUnixScheme)) {
    std::string_view path = address.substr(kUnixScheme.size());
    if (path.starts_with("///")) path.remove_prefix(2);
    return UnixEndpoint(std::string(path), std::move(from));
  }
  if (address.find('/') != std::string_view::npos) {
    return UnixEndpoint(std::string(address), std::move(from));
  }
  const std::optional<HostPort> parts = SplitHostPort(address);
  if (!parts.has_value() || parts->port == 0) {
    return UsageError(StrCat(from, " '", ForDisplay(address, 120),
                             "' is not an address: use unix:PATH or HOST:PORT"));
  }
  if (!tls.has_value() && !IsLoopback(parts->host)) {
    return UsageError(StrCat(from, ": ", ForDisplay(address, 120),
                             " needs certificates: set PROFD_TLS_CA, PROFD_TLS_CERT and "
                             "PROFD_TLS_KEY, or make a context with them (`profctl context add`); "
                             "or forward the daemon's socket with `ssh -L`"));
  }
  Endpoint endpoint;
  endpoint.address = std::string(address);
  endpoint.from = std::move(from);
  endpoint.tls = tls;
  return endpoint;
}

absl::StatusOr<std::vector<Endpoint>> CandidateEndpoints(const ClientSettings& settings,
                                                         const GetEnv& getenv) {
  std::vector<Endpoint> endpoints;
  if (!settings.address.empty()) {
    ASSIGN_OR_RETURN(endpoints.emplace_back(),
                     ParseAddress(settings.address, settings.from, settings.tls));
    return endpoints;
  }
  ASSIGN_OR_RETURN(endpoints.emplace_back(), UnixEndpoint(SocketIn(kSystemDirectory), "default"));
  const std::string runtime = EnvironmentValue(getenv, "XDG_RUNTIME_DIR");
  if (!runtime.empty()) {
    ASSIGN_OR_RETURN(endpoints.emplace_back(),
                     UnixEndpoint(SocketIn(StrCat(runtime, "/profd")), "XDG_RUNTIME_DIR"));
  }
  return endpoints;
}

namespace {

// The account that the units run profd as.
constexpr char kDaemonAccount[] = "profd";

// Root listens on the socket of a daemon that root or systemd starts, whatever the daemon runs as.
bool IsTrustedUid(uid_t uid) {
  if (uid == 0 || uid == geteuid()) return true;
  passwd account{};
  passwd* found = nullptr;
  char texts[4096];
  return getpwnam_r(kDaemonAccount, &account, texts, sizeof texts, &found) == 0 &&
         found != nullptr && found->pw_uid == uid;
}

absl::Status OfOtherUser(std::string_view what, const Endpoint& endpoint, uid_t uid) {
  return WithReason(
      absl::PermissionDeniedError(StrCat(what, " ", ForDisplay(endpoint.address, 400), " (",
                                         endpoint.from, ") belongs to uid ", uid, ", not to root, ",
                                         kDaemonAccount, ", or your own user")),
      kOtherUsersDaemonReason);
}

// The owner of the socket's file is checked, too: in a folder of its own, another user could
// lead us to a daemon of root here, and elsewhere for the calls that follow.
absl::Status CheckOwners(const Endpoint& endpoint, int socket) {
  struct stat info {};
  if (lstat(endpoint.unix_path.c_str(), &info) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  if (!IsTrustedUid(info.st_uid)) return OfOtherUser("the socket", endpoint, info.st_uid);
  ucred listener{};
  socklen_t size = sizeof listener;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &listener, &size) != 0) {
    return absl::UnavailableError(std::strerror(errno));
  }
  if (IsTrustedUid(listener.uid)) return absl::OkStatus();
  return OfOtherUser("the daemon at", endpoint, listener.uid);
}

}  // namespace

absl::Status ProbeEndpoint(const Endpoint& endpoint) {
  if (endpoint.unix_path.empty()) return absl::OkStatus();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, endpoint.unix_path.data(), endpoint.unix_path.size());
  // Non-blocking: a daemon that hangs with a full backlog must not hang us.
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return absl::InternalError(StrCat("socket: ", std::strerror(errno)));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return CheckOwners(endpoint, socket.get());
  }
  switch (errno) {
    case EAGAIN:
      return absl::UnavailableError("does not accept connections");
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError("no such socket");
    case ECONNREFUSED:
      return absl::UnavailableError("nothing is listening");
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError("permission denied");
    default:
      return absl::UnavailableError(std::strerror(errno));
  }
}

}  // namespace profd::cli
