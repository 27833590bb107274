// ControlListener: the socket that callers connect to, and the thread that accepts them.
//
// The socket's mode is 0666: who may do what is decided by the peer's uid, not by who can
// connect. It is made under a name of its own, given its mode, and then renamed into place,
// so no caller finds it half made; that no other user can do so is why the folder must be
// ours and writable by us alone.
//
// Threads:   the accept thread ("profd-accept") runs from Start() to Stop() and calls
//            `on_connection`. It sleeps in epoll without a timeout.
// Ownership: `peers` must outlive the listener.
#ifndef PROFD_DAEMON_RPC_ADMISSION_CONTROL_LISTENER_H_
#define PROFD_DAEMON_RPC_ADMISSION_CONTROL_LISTENER_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/base/log.h"
#include "daemon/base/passed_files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/privilege/process_reader.h"
#include "daemon/rpc/admission/accept_loop.h"
#include "daemon/rpc/admission/caller_traffic.h"
#include "daemon/rpc/admission/peer_table.h"

namespace profd::rpc {

inline constexpr std::string_view kControlSocketName = "control.sock";

// A listening stream socket at `folder`/control.sock. A socket on which no daemon answers is
// replaced. FAILED_PRECONDITION: another daemon answers, or the folder is not ours;
// INVALID_ARGUMENT: the path is too long for a socket.
absl::StatusOr<UniqueFd> ListenAt(const std::filesystem::path& folder);

// INVALID_ARGUMENT unless `fd` is a listening AF_UNIX stream socket.
absl::Status CheckInheritedListener(int fd);

class ControlListener {
 public:
  // Gets the connection's descriptor, which it then owns; the peer is in the table already.
  using OnConnection = std::function<void(UniqueFd)>;

  // `traffic`: the budgets of callers. `peers`, `processes`, and `watchdog` must outlive the
  // listener; nullptr: not watched.
  static absl::StatusOr<std::unique_ptr<ControlListener>> Start(
      UniqueFd listener, PeerTable& peers, ProcessReader& processes,
      std::shared_ptr<CallerTraffic> traffic, OnConnection on_connection,
      Watchdog* watchdog = nullptr);
  ~ControlListener();  // Stop().

  // Ends the thread: no connection is accepted any more, and closed connections stay in the table.
  void Stop();

 private:
  // A second descriptor of a connection, only to hear of its end: gRPC does not tell.
  struct Watched {
    UniqueFd fd;
    PeerTable::Ticket ticket;
    std::shared_ptr<CallerMeter> meter;
  };

  ControlListener(std::unique_ptr<AcceptLoop> loop, PeerTable& peers, ProcessReader& processes,
                  std::shared_ptr<CallerTraffic> traffic, OnConnection on_connection,
                  Watchdog* watchdog);
  void Admit(UniqueFd connection);
  void Refuse(UniqueFd connection, std::string_view caller, std::string_view why);
  absl::StatusOr<UniqueFd> MoveToHighNumber(UniqueFd connection);
  void ConnectionEnded(int watched_fd);

  PeerTable& peers_;
  ProcessReader& processes_;
  // Shared with what gRPC's threads use after the listener is gone.
  const std::shared_ptr<ForeignCloser> closer_ = std::make_shared<ForeignCloser>();
  const std::shared_ptr<CallerTraffic> traffic_;
  const OnConnection on_connection_;

  // The accept thread's own.
  std::map<int, Watched> watched_;
  int next_number_ = 0;
  RateLimiter refusals_{absl::Seconds(10)};
  const std::unique_ptr<AcceptLoop> loop_;  // Last: its thread uses the rest.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_CONTROL_LISTENER_H_
