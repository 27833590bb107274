#include "daemon/report/ranks/peer_waits.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <tuple>

namespace profd::report {
namespace {

// Those that take the same time where nobody waits: kind, size, and where they run.
using TransferKind = std::tuple<CollectiveKind, int64_t, int64_t, bool>;

TransferKind KindOfTransfer(const CollectiveRow& row) {
  return {row.kind, row.elements, row.bytes, row.on_device};
}

bool HasPeer(const CollectiveRow& row) {
  return (row.kind == CollectiveKind::kSend || row.kind == CollectiveKind::kReceive) &&
         row.has_completion;
}

}  // namespace

PeerWaits PeerWaitsOf(std::span<const CollectiveTable* const> members) {
  std::map<TransferKind, int64_t> shortest_ns;
  for (const CollectiveTable* const table : members) {
    if (table == nullptr) continue;
    for (const CollectiveRow& row : table->rows) {
      if (!HasPeer(row)) continue;
      const int64_t duration_ns = std::max<int64_t>(row.duration_ns, 0);
      const auto [at, inserted] = shortest_ns.try_emplace(KindOfTransfer(row), duration_ns);
      at->second = std::min(at->second, duration_ns);
    }
  }
  PeerWaits waits(members.size());
  for (size_t member = 0; member < members.size(); ++member) {
    if (members[member] == nullptr) continue;
    for (const CollectiveRow& row : members[member]->rows) {
      if (!HasPeer(row)) continue;
      const int64_t wait_ns =
          row.exposed_ns - std::min(row.exposed_ns, shortest_ns.at(KindOfTransfer(row)));
      int64_t& sum_ns = waits[member][row.step];
      if (__builtin_add_overflow(sum_ns, wait_ns, &sum_ns)) {
        sum_ns = std::numeric_limits<int64_t>::max();
      }
    }
  }
  return waits;
}

}  // namespace profd::report
