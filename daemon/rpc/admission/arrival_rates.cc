#include "daemon/rpc/admission/arrival_rates.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>

#include "daemon/base/str_cat.h"

namespace profd::rpc {

std::string NetworkOf(std::string_view address) {
  std::string network(address);
  in6_addr v6{};
  if (inet_pton(AF_INET6, network.c_str(), &v6) != 1 || IN6_IS_ADDR_LINKLOCAL(&v6) != 0) {
    return network;
  }
  std::fill(std::begin(v6.s6_addr) + 8, std::end(v6.s6_addr), 0);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &v6, text.data(), text.size());
  return StrCat(std::string_view(text.data()), "/64");
}

bool ArrivalRates::Take(const std::string& origin, absl::Duration now) {
  if (by_origin_.size() >= kMostOrigins && !by_origin_.contains(origin)) by_origin_.clear();
  const auto [it, is_new] = by_origin_.try_emplace(origin);
  Share& share = it->second;
  const double filled =
      is_new ? at_once_ : share.left + (absl::ToDoubleSeconds(now - share.filled) * per_second_);
  share.left = std::min(filled, at_once_);
  share.filled = now;
  if (share.left < 1) return false;
  share.left -= 1;
  return true;
}

void ArrivalRates::GiveBack(const std::string& origin) {
  const auto share = by_origin_.find(origin);
  if (share != by_origin_.end()) share->second.left += 1;
}

}  // namespace profd::rpc
