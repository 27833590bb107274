#include "daemon/rpc/admission/peer_table.h"

#include <charconv>

#include "daemon/capture/access.h"

namespace profd::rpc {
namespace {

constexpr std::string_view kPrefix = "fd:";
constexpr quota::Resource kConnections = quota::Resource::kConnections;

std::optional<int> ParseFd(std::string_view grpc_peer) {
  if (!grpc_peer.starts_with(kPrefix)) return std::nullopt;
  grpc_peer.remove_prefix(kPrefix.size());
  int fd = -1;
  const char* const end = grpc_peer.data() + grpc_peer.size();
  const auto [rest, error] = std::from_chars(grpc_peer.data(), end, fd);
  if (error != std::errc() || rest != end || fd < 0) return std::nullopt;
  return fd;
}

}  // namespace

bool PeerTable::Reserve(const Principal& who) {
  absl::MutexLock lock(&mu_);
  const auto it = count_by_uid_.find(who.uid);
  const int64_t of_uid = it == count_by_uid_.end() ? 0 : it->second;
  if (count_ >= max_connections_ || of_uid >= max_connections_per_uid_) return false;
  if (ledger_ != nullptr) {
    absl::StatusOr<quota::Reservation> place =
        ledger_->Reserve(QuotaPrincipalOf(who), kConnections, 1);
    if (!place.ok()) return false;
    place->Keep();
  }
  ++count_;
  ++count_by_uid_[who.uid];
  return true;
}

void PeerTable::ReleaseLocked(const Principal& who) {
  --count_;
  if (ledger_ != nullptr) {
    ledger_->Discharge(QuotaPrincipalOf(who), kConnections, 1);
  }
  if (--count_by_uid_[who.uid] == 0) count_by_uid_.erase(who.uid);
}

void PeerTable::Release(const Principal& who) {
  absl::MutexLock lock(&mu_);
  ReleaseLocked(who);
}

PeerTable::Ticket PeerTable::Add(int fd, const Peer& peer) {
  absl::MutexLock lock(&mu_);
  // gRPC closed its descriptor before we heard that the connection is gone.
  if (const auto old = entries_.find(fd); old != entries_.end()) {
    ReleaseLocked(old->second.peer.principal);
  }
  const Ticket ticket{.fd = fd, .generation = ++last_generation_};
  entries_[fd] = Entry{.generation = ticket.generation, .peer = peer};
  return ticket;
}

void PeerTable::Remove(Ticket ticket) {
  absl::MutexLock lock(&mu_);
  const auto it = entries_.find(ticket.fd);
  if (it == entries_.end() || it->second.generation != ticket.generation) return;
  ReleaseLocked(it->second.peer.principal);
  entries_.erase(it);
}

std::optional<Peer> PeerTable::Find(std::string_view grpc_peer) const {
  const std::optional<int> fd = ParseFd(grpc_peer);
  if (!fd.has_value()) return std::nullopt;
  absl::MutexLock lock(&mu_);
  const auto it = entries_.find(*fd);
  if (it == entries_.end()) return std::nullopt;
  return it->second.peer;
}

int64_t PeerTable::size() const {
  absl::MutexLock lock(&mu_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace profd::rpc
