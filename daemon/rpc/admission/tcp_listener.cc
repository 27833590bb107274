#include "daemon/rpc/admission/tcp_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/base/host_port.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"

namespace profd::rpc {
namespace {

// New connections of an IPv6 /64, in those of an address.
constexpr double kOfOneNetwork = 8;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

bool IsLoopback(const Address& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

struct Name {
  std::string host;  // Without brackets.
  int port = 0;
  bool is_v6 = false;
};

// An IPv4 caller of a socket for both has its own address, as gRPC says it too.
Name NameOf(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return {.host = text.data(), .port = ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return {.host = text.data(), .port = ntohs(v6.sin6_port)};
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return {.host = text.data(), .port = ntohs(v6.sin6_port), .is_v6 = true};
}

std::string GrpcPeer(const Name& name) {
  return name.is_v6 ? StrCat("ipv6:%5B", name.host, "%5D:", name.port)
                    : StrCat("ipv4:", name.host, ":", name.port);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

absl::StatusOr<Address> Resolve(std::string_view host_and_port) {
  const std::optional<HostPort> parts = SplitHostPort(host_and_port);
  if (!parts.has_value()) {
    return absl::InvalidArgumentError(
        StrCat("'", ForDisplay(host_and_port, 120), "' is not a HOST:PORT to listen on"));
  }
  const std::string host(parts->host);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host == "*" ? nullptr : host.c_str(), StrCat(parts->port).c_str(),
                                &hints, &found);
  const std::unique_ptr<addrinfo, FreeAddresses> list(error == 0 ? found : nullptr);
  if (error != 0 || list == nullptr) {
    return absl::InvalidArgumentError(
        StrCat("cannot listen on ", ForDisplay(host_and_port, 120), ": ", gai_strerror(error)));
  }
  // All addresses are those of IPv6, which take IPv4 in.
  const addrinfo* chosen = list.get();
  for (const addrinfo* one = list.get(); host == "*" && one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET6) chosen = one;
  }
  Address address;
  std::memcpy(&address.storage, chosen->ai_addr, chosen->ai_addrlen);
  address.size = chosen->ai_addrlen;
  return address;
}

absl::StatusOr<UniqueFd> BindAndListen(Address address, std::string_view shown) {
  UniqueFd listener(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto fail = [&](std::string_view what) {
    return absl::UnavailableError(
        StrCat("cannot ", what, " ", ForDisplay(shown, 120), ": ", std::strerror(errno),
               errno == EADDRINUSE ? "; is another profd running? Choose another port" : ""));
  };
  if (!listener.valid()) return fail("make a socket for");
  const int on = 1;
  const int off = 0;
  // A restart need not wait for connections in TIME_WAIT.
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  // What is accepted inherits it; gRPC sets it for its own listeners only.
  setsockopt(listener.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {
    setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(listener.get(), address.get(), address.size) != 0) return fail("bind");
  if (listen(listener.get(), kListenBacklog) != 0) return fail("listen on");
  return listener;
}

void CountDown(std::map<std::string, int64_t>& counts, const std::string& key) {
  const auto it = counts.find(key);
  if (it != counts.end() && --it->second == 0) counts.erase(it);
}

}  // namespace

absl::StatusOr<UniqueFd> ListenTcp(std::string_view host_and_port, bool loopback_only) {
  ASSIGN_OR_RETURN(const Address address, Resolve(host_and_port));
  if (loopback_only && !IsLoopback(address)) {
    return absl::InvalidArgumentError(
        StrCat("plaintext-listen ", ForDisplay(host_and_port, 120),
               " could be reached from other machines, and anybody could read and change what is "
               "sent; use an address of loopback, or listen with tls-cert, tls-key and tls-ca"));
  }
  return BindAndListen(address, host_and_port);
}

std::string LocalAddressOf(int listener_fd) {
  Address address;
  if (getsockname(listener_fd, address.get(), &address.size) != 0) return "(unknown)";
  const Name name = NameOf(address);
  return name.is_v6 ? StrCat("[", name.host, "]:", name.port) : StrCat(name.host, ":", name.port);
}

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Create(UniqueFd listener, Limits limits) {
  ASSIGN_OR_RETURN(auto loop, AcceptLoop::Create(std::move(listener)));
  return std::unique_ptr<TcpListener>(new TcpListener(std::move(loop), std::move(limits)));
}

TcpListener::TcpListener(std::unique_ptr<AcceptLoop> loop, Limits limits)
    : limits_(std::move(limits)),
      arrivals_(limits_.max_new_per_second, limits_.max_new_at_once),
      network_arrivals_(kOfOneNetwork * limits_.max_new_per_second,
                        kOfOneNetwork * limits_.max_new_at_once),
      loop_(std::move(loop)) {}

void TcpListener::Start(OnConnection on_connection, Watchdog* watchdog) {
  on_connection_ = std::move(on_connection);
  loop_->Start("profd-remote", address(),
               {.on_connection = [this](UniqueFd connection) { Admit(std::move(connection)); },
                .on_ended = [this](int watched_fd) { ConnectionEnded(watched_fd); }},
               watchdog);
}

TcpListener::~TcpListener() { Stop(); }

void TcpListener::Stop() { loop_->Stop(); }

void TcpListener::Admit(UniqueFd connection) {
  Address peer;
  if (getpeername(connection.get(), peer.get(), &peer.size) != 0) return;  // Gone already.
  const Name name = NameOf(peer);
  const std::string network = NetworkOf(name.host);
  if (!TakeArrival(name.host, network)) {
    if (const auto n = rate_refusals_.Allow()) {
      LogWarning(StrCat(address(), ": more than ", static_cast<int64_t>(limits_.max_new_per_second),
                        " new connections per second without calls, refused ", name.host, " (", *n,
                        " more)"));
    }
    return;
  }
  // gRPC closes its descriptor whenever it likes; ours stays valid for poll() and shutdown().
  UniqueFd watched(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (!watched.valid()) return;
  const int watched_fd = watched.get();
  std::shared_ptr<CallerMeter> meter;
  if (limits_.traffic != nullptr) {
    meter = std::make_shared<CallerMeter>(limits_.traffic, "plaintext",
                                          StrCat(address(), ": ", GrpcPeer(name)));
  }
  if (!Enter({.fd = std::move(watched),
              .grpc_peer = GrpcPeer(name),
              .address = name.host,
              .network = network,
              .grpc_fd = connection.get(),
              .meter = meter})) {
    if (const auto n = refusals_.Allow()) {
      LogWarning(
          StrCat(address(), ": too many connections, refused ", name.host, " (", *n, " more)"));
    }
    return;
  }
  if (!loop_->Watch(watched_fd).ok()) return ConnectionEnded(watched_fd);
  if (meter != nullptr) ObserveReceives(connection.get(), std::move(meter));
  on_connection_(std::move(connection));
}

bool TcpListener::TakeArrival(const std::string& address, const std::string& network) {
  const absl::Duration now = limits_.clock->Monotonic();
  const absl::MutexLock lock(&mu_);
  // IPv4 addresses are networks of their own, which count once.
  return arrivals_.Take(address, now) &&
         (network == address || network_arrivals_.Take(network, now));
}

bool TcpListener::Enter(Connection connection) {
  const absl::MutexLock lock(&mu_);
  // By address first, so that a host's surplus closes its own connections, not those of others.
  const auto of_address = count_by_address_.find(connection.address);
  if (of_address != count_by_address_.end() &&
      of_address->second >= limits_.max_connections_per_address &&
      !CloseOldestIdle(connection.address)) {
    return false;
  }
  if (std::ssize(connections_) >= limits_.max_connections && !CloseOldestIdle("")) return false;
  ++count_by_address_[connection.address];
  connection.number = ++last_number_;
  const int watched_fd = connection.fd.get();
  by_grpc_peer_[connection.grpc_peer] = watched_fd;
  connections_[watched_fd] = std::move(connection);
  return true;
}

bool TcpListener::CloseOldestIdle(std::string_view address) {
  auto oldest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    const Connection& each = it->second;
    // A connection with a principal has made calls, and the quota of that principal bounds it.
    if (!each.principal.empty() || (!address.empty() && each.address != address)) continue;
    if (oldest == connections_.end() || each.number < oldest->second.number) oldest = it;
  }
  if (oldest == connections_.end()) return false;
  // gRPC sees the end and closes its descriptor.
  shutdown(oldest->second.fd.get(), SHUT_RDWR);
  Leave(oldest);
  return true;
}

absl::Status TcpListener::Claim(std::string_view grpc_peer, const std::string& principal) {
  const absl::MutexLock lock(&mu_);
  const auto found = by_grpc_peer_.find(grpc_peer);
  if (found == by_grpc_peer_.end()) return absl::OkStatus();  // It ends just now.
  Connection& connection = connections_.at(found->second);
  if (connection.principal == principal) return absl::OkStatus();
  quota::Reservation place;
  if (limits_.ledger != nullptr) {
    ASSIGN_OR_RETURN(place, limits_.ledger->Reserve(quota::RemotePrincipal(principal),
                                                    quota::Resource::kRemoteConnections, 1));
  }
  // Its first call: it does not count any more as one that connects and says nothing.
  if (connection.principal.empty()) {
    CountDown(count_by_address_, connection.address);
    arrivals_.GiveBack(connection.address);
    if (connection.network != connection.address) network_arrivals_.GiveBack(connection.network);
  }
  connection.place = std::move(place);
  connection.principal = principal;
  return absl::OkStatus();
}

void TcpListener::ConnectionEnded(int watched_fd) {
  const absl::MutexLock lock(&mu_);
  const auto it = connections_.find(watched_fd);
  if (it != connections_.end()) Leave(it);
}

void TcpListener::Leave(std::map<int, Connection>::iterator it) {
  const Connection& connection = it->second;
  if (connection.principal.empty()) CountDown(count_by_address_, connection.address);
  // The peer may have connected again from the same port, under the same name. That entry stays.
  const auto named = by_grpc_peer_.find(connection.grpc_peer);
  if (named != by_grpc_peer_.end() && named->second == it->first) by_grpc_peer_.erase(named);
  loop_->Forget(it->first);
  if (connection.meter != nullptr) ForgetReceives(connection.grpc_fd, *connection.meter);
  connections_.erase(it);
}

}  // namespace profd::rpc
