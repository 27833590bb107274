// ArrivalRates: how many new connections each of some origins, addresses or networks, may make: so
// many at once, then so many per second. A connection that turns out to be a caller's gives its
// share back.
//
// The network of an IPv6 address is its /64: a host may have each of the 2^64 addresses of its /64.
// All hosts of a link share fe80::/64, so a link-local address is a network of its own, and so is
// an IPv4 address.
//
// The table has at most kMostOrigins. The next one empties it, which gives the others as many
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
  static constexpr size_t kMostOrigins = 4096;

  ArrivalRates(double per_second, double at_once) : per_second_(per_second), at_once_(at_once) {}

  // Takes the share of one new connection, at `now` on a monotonic clock. False: none is left.
  bool Take(const std::string& origin, absl::Duration now);
  void GiveBack(const std::string& origin);

  size_t size() const { return by_origin_.size(); }

 private:
  struct Share {
    double left = 0;
    absl::Duration filled;  // Time of the last refill.
  };

  const double per_second_;
  const double at_once_;
  std::map<std::string, Share> by_origin_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_ARRIVAL_RATES_H_
