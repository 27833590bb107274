#include "daemon/rpc/peer_table.h"

#include <charconv>

namespace profd::rpc {
namespace {

constexpr std::string_view kPrefix = "fd:";

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

bool PeerTable::Reserve(int64_t uid) {
  absl::MutexLock lock(&mu_);
  const auto it = count_by_uid_.find(uid);
  const int64_t of_uid = it == count_by_uid_.end() ? 0 : it->second;
  if (count_ >= max_connections_ || of_uid >= max_connections_per_uid_) return false;
  ++count_;
  ++count_by_uid_[uid];
  return true;
}

void PeerTable::ReleaseLocked(int64_t uid) {
  --count_;
  if (--count_by_uid_[uid] == 0) count_by_uid_.erase(uid);
}

void PeerTable::Release(int64_t uid) {
  absl::MutexLock lock(&mu_);
  ReleaseLocked(uid);
}

PeerTable::Ticket PeerTable::Add(int fd, const Peer& peer) {
  absl::MutexLock lock(&mu_);
  // gRPC closed its descriptor before we heard that the connection is gone.
  if (const auto old = entries_.find(fd); old != entries_.end()) {
    ReleaseLocked(old->second.peer.principal.uid);
  }
  const Ticket ticket{.fd = fd, .generation = ++last_generation_};
  entries_[fd] = Entry{.generation = ticket.generation, .peer = peer};
  return ticket;
}

void PeerTable::Remove(Ticket ticket) {
  absl::MutexLock lock(&mu_);
  const auto it = entries_.find(ticket.fd);
  if (it == entries_.end() || it->second.generation != ticket.generation) return;
  ReleaseLocked(it->second.peer.principal.uid);
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
