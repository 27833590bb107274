// TcpListener: the port that remote callers connect to, and the thread that accepts them, for
// gRPC to go on with (and to speak TLS first). gRPC could listen by itself, but counts no
// connections: here they are counted over all and by address, before a byte of theirs is read,
// and by principal once their first call tells who they are.
//
// A caller that connects and makes no call locks no one out: at a limit, a new connection replaces
// the oldest one that has not made a call (of the same address, at that address's limit).
// Connections that have made a call are never closed for a new one.
//
// An address whose connections make no calls gets 200 new ones a second, after the first 400: the
// others are closed before they cost a TLS handshake. A connection that makes a call gives its
// share back. The addresses of an IPv6 /64, which one host may have all, get eight times as many
// together: in many clusters it is also the network of all nodes.
//
// Frames of HTTP/2 are counted here where they are not encrypted (caller_traffic.h), else by
// tls_receive_hook.h.
//
//   connect ──► profd-remote ──limits──► on_connection ──► gRPC: handshake ──► call ──► Claim()
//
// Threads:   the accept thread ("profd-remote") runs from Start() to Stop() and calls
//            `on_connection`. It sleeps in epoll without a timeout. Claim() anyone.
#ifndef PROFD_DAEMON_RPC_ADMISSION_TCP_LISTENER_H_
#define PROFD_DAEMON_RPC_ADMISSION_TCP_LISTENER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/admission/accept_loop.h"
#include "daemon/rpc/admission/arrival_rates.h"
#include "daemon/rpc/admission/caller_traffic.h"

namespace profd::rpc {

// A listening TCP socket at "HOST:PORT": an address, a name, or `*` for all addresses; port 0:
// any that is free. INVALID_ARGUMENT: no such address; or, with `loopback_only`, one that other
// machines reach. UNAVAILABLE: the port is taken.
absl::StatusOr<UniqueFd> ListenTcp(std::string_view host_and_port, bool loopback_only);

// "127.0.0.1:7411", "[::1]:7411": where it listens.
std::string LocalAddressOf(int listener_fd);

class TcpListener {
 public:
  struct Limits {
    int64_t max_connections = 1024;
    int64_t max_connections_per_address = 256;  // Of those that made no call yet.
    double max_new_per_second = 200;            // Of one address; of those that make no call.
    double max_new_at_once = 400;
    // Counts the connections of each principal from its first call on, and says how many it may
    // have; must outlive the listener. nullptr: any number.
    quota::Ledger* ledger = nullptr;
    // Holds all connections together to its limits of frames. nullptr: none are counted here.
    std::shared_ptr<CallerTraffic> traffic;
    Clock* clock = &Clock::Real();  // Must outlive the listener.
  };
  // Gets the connection's descriptor, which it then owns.
  using OnConnection = std::function<void(UniqueFd)>;

  static absl::StatusOr<std::unique_ptr<TcpListener>> Create(UniqueFd listener, Limits limits);
  ~TcpListener();  // Stop().

  // Accepts from now on; call once. `watchdog` must outlive the listener; nullptr: not watched.
  void Start(OnConnection on_connection, Watchdog* watchdog = nullptr);

  // Ends the thread: no connection is accepted any more.
  void Stop();

  int fd() const { return loop_->listener(); }
  std::string address() const { return LocalAddressOf(fd()); }

  // A call of `principal` came by the connection that gRPC calls `grpc_peer`
  // ("ipv4:10.0.0.7:41234"). RESOURCE_EXHAUSTED (QUOTA_EXCEEDED): it has too many connections.
  absl::Status Claim(std::string_view grpc_peer, const std::string& principal);

 private:
  struct Connection {
    UniqueFd fd;            // A second descriptor, only to hear of its end: gRPC does not tell.
    std::string grpc_peer;  // Both sides' names for it.
    std::string address;
    std::string network;                 // Of IPv6, the /64; else the address.
    std::string principal;               // Empty: not known yet.
    quota::Reservation place;            // Of the principal.
    int64_t number = 0;                  // In the order of arrival.
    int grpc_fd = -1;                    // gRPC's number, where `meter` is.
    std::shared_ptr<CallerMeter> meter;  // nullptr: frames are not counted here.
  };

  TcpListener(std::unique_ptr<AcceptLoop> loop, Limits limits);
  void Admit(UniqueFd connection);
  bool TakeArrival(const std::string& address, const std::string& network);
  // False: at a limit, and no connection gives way.
  bool Enter(Connection connection);
  // Closes the oldest connection without a call, of `address` unless empty. False: there is none.
  bool CloseOldestIdle(std::string_view address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Leave(std::map<int, Connection>::iterator it) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ConnectionEnded(int watched_fd);

  const Limits limits_;
  OnConnection on_connection_;
  RateLimiter refusals_{absl::Seconds(10)};
  RateLimiter rate_refusals_{absl::Seconds(10)};

  absl::Mutex mu_;                                              // Before the ledger's.
  std::map<int, Connection> connections_ ABSL_GUARDED_BY(mu_);  // By the watched descriptor.
  std::map<std::string, int, std::less<>> by_grpc_peer_ ABSL_GUARDED_BY(mu_);
  // Of those without a principal.
  std::map<std::string, int64_t> count_by_address_ ABSL_GUARDED_BY(mu_);
  ArrivalRates arrivals_ ABSL_GUARDED_BY(mu_);          // By address.
  ArrivalRates network_arrivals_ ABSL_GUARDED_BY(mu_);  // By network, where it is another.
  int64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  const std::unique_ptr<AcceptLoop> loop_;  // Last: its thread uses the rest.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_TCP_LISTENER_H_
