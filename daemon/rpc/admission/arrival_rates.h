// ArrivalRates: how many new connections a network of callers may make: so many at once, then so
// many per second. A connection that turns out to be a caller's gives its share back.
//
// A network is an IPv4 address, or the /64 of an IPv6 address: a host may have each of the 2^64
// addresses of its /64. All hosts of a link share fe80::/64, so link-local addresses count by
// themselves.
//
// The table has at most kMostNetworks. The next network empties it, which gives the others as many
// connections at once as they had at first: to begin anew costs less than to look for old ones.
//
// Threads: none of its own; a value.
#ifndef PROFD_DAEMON_RPC_ADMISSION_ARRIVAL_RATES_H_
#define PROFD_DAEMON_RPC_ADMISSION_ARRIVAL_RATES_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace profd::rpc {

// Returns the network of an address as inet_ntop() gives it: "10.0.0.7", "2001:db8:1:2::/64".
std::string NetworkOf(std::string_view address);

class ArrivalRates {
 public:
  static constexpr size_t kMostNetworks = 4096;

  ArrivalRates(double per_second, double at_once) : per_second_(per_second), at_once_(at_once) {}

  // Takes the share of one new connection, at `now` on a monotonic clock. False: none is left.
  bool Take(const std::string& network, absl::Duration now);
  void GiveBack(const std::string& network);

  size_t size() const { return networks_.size(); }

 private:
  struct Share {
    double left = 0;
    absl::Duration filled;  // Time of the last refill.
  };

  const double per_second_;
  const double at_once_;
  std::map<std::string, Share> networks_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_ARRIVAL_RATES_H_
