// Connection is one peer of the agent socket: frames in and out, never waiting.
//
// Threads:   one at a time.
// Ownership: owns the socket and the peer's pidfd. `closer`, which must outlive it, closes the
//            socket and the descriptors that a peer sends.
#ifndef PROFD_DAEMON_INGEST_CONNECTION_H_
#define PROFD_DAEMON_INGEST_CONNECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/base/passed_files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/ingest/frame_codec.h"
#include "daemon/ingest/process_info.h"
#include "proto/wire/frame.h"

namespace profd {

// One byte more than a frame may have, so that a larger one is seen to be.
using PacketBuffer = std::array<std::byte, wire::kMaxFrameBytes + 1>;

class Connection {
 public:
  Connection(uint64_t id, UniqueFd socket, PeerProcess peer, ForeignCloser& closer)
      : id_(id), socket_(std::move(socket)), peer_(std::move(peer)), closer_(&closer) {}
  Connection(Connection&&) = default;
  ~Connection() { Close(); }

  uint64_t id() const { return id_; }
  int fd() const { return socket_.get(); }
  const PeerProcess& peer() const { return peer_; }

  // The next frame, into `buffer`, where it is valid until the next call. UNAVAILABLE:
  // nothing there now. NOT_FOUND: the peer closed. INVALID_ARGUMENT: no frame, or descriptors
  // came with it.
  absl::StatusOr<Frame> Receive(PacketBuffer& buffer);

  // Sends `frame`, and `attached` with it unless -1. False: the peer is gone or does not
  // read; the connection is broken() from then on. At most a few frames are ever under
  // way to a target that reads nothing, so a full socket is the peer's doing.
  bool Send(std::span<const std::byte> frame, int attached = -1);
  bool broken() const { return broken_; }

  // Closes the socket; the pidfd stays. The socket is shut down at once.
  void Close() { closer_->CloseConnection(std::move(socket_)); }

  // Counts a frame against the peer's allowance. False: it floods us.
  bool CountFrame(absl::Duration now);

 private:
  const uint64_t id_;
  UniqueFd socket_;
  PeerProcess peer_;
  ForeignCloser* closer_;
  bool broken_ = false;
  absl::Duration second_start_ = absl::ZeroDuration();
  int frames_in_second_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CONNECTION_H_
