// TargetServer is the daemon's side of every target on this node: it accepts them on the
// agent socket, keeps the list of them, and runs their captures (ports.h, TargetPort).
//
// One thread ("profd-ingest") sleeps in epoll on the listener, connections, pidfds and an
// eventfd for commands. It has no timer unless something is due: a capture that records, a
// connection that has not said HELLO, a target that hung up. Only the watchdog wakes an idle one.
// Each capture has a second thread, its DecodeWorker; SpareMemory has one for all.
//
// Everything a target says or writes is hostile. Who it is comes from the kernel
// (SO_PEERCRED, pidfd, /proc); that it ended, from its pidfd.
//
// Threads:   any; calls neither wait for a target nor for a disk, but Arm() makes the first
//            MiB of capture memory if no spare is ready (0.3 ms, and 0.2 ms to clear it).
// Ownership: the observer must live from Start() until Shutdown() returned, the ledger longer than
//            the server. It limits targets and capture memory.
// Shutdown:  reads what live captures have published, tells the observer OnDrained, stops.
#ifndef PROFD_DAEMON_INGEST_TARGET_SERVER_H_
#define PROFD_DAEMON_INGEST_TARGET_SERVER_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/passed_files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/agent_socket.h"
#include "daemon/ingest/capture_session.h"
#include "daemon/ingest/connection.h"
#include "daemon/ingest/spare_memory.h"
#include "daemon/ingest/target_registry.h"
#include "daemon/privilege/process_reader.h"
#include "daemon/quota/ledger.h"

namespace profd {

class TargetServer final : public TargetPort {
 public:
  struct Options {
    // Connections that have not said HELLO: all, and of one uid. A new one displaces the oldest of
    // its own uid at that uid's limit, else the oldest of the uid that has the most. A part of the
    // places is for root and the daemon's own uid alone.
    int64_t max_pending = 256;
    int64_t max_pending_per_uid = 64;
    int64_t pending_reserve = 32;
    absl::Duration hello_timeout = absl::Seconds(5);
    // A process that ends closes its socket before its pidfd tells: the library's descriptor table
    // is its own, and its memory may take long to free. Who hung up and still lives after this has
    // lost only its library.
    absl::Duration hang_up_grace = absl::Seconds(2);
    CaptureSession::Options capture;
    // As on a kernel without SO_PASSRIGHTS.
    bool accept_passed_files_for_testing = false;
    // Reads /proc; must outlive the server. nullptr: with the daemon's own rights.
    ProcessReader* processes = nullptr;
    // Watches the ingest thread; must outlive the server. nullptr: not watched.
    Watchdog* watchdog = nullptr;
    // Tests run many targets in one process.
    bool several_per_process_for_testing = false;
  };

  // What was turned away or skipped, since the start.
  struct Counters {
    std::atomic<int64_t> refused_connections{0};
    std::atomic<int64_t> bad_frames{0};
    std::atomic<int64_t> unknown_frames{0};
    std::atomic<int64_t> stray_frames{0};  // Answers to nothing that was asked.
    std::atomic<int64_t> wakeups{0};       // Of the ingest thread.
  };

  // Listens at `socket_dir`/agent/agent.sock; errors as AgentSocket::Listen. Nobody is
  // answered before Start(). Raises the process's limit of open files as far as it may.
  static absl::StatusOr<std::unique_ptr<TargetServer>> Create(
      const std::filesystem::path& socket_dir, Options options, quota::Ledger& ledger,
      Clock& clock = Clock::Real());
  // The same on a listening socket that systemd made; errors as AgentSocket::Inherit.
  static absl::StatusOr<std::unique_ptr<TargetServer>> CreateFromSocket(
      UniqueFd listener, Options options, quota::Ledger& ledger, Clock& clock = Clock::Real());
  ~TargetServer() override;  // Shuts down.

  // Call once: from here on targets are answered.
  void Start(Observer& observer);
  // Idempotent. No observer is called after it returned.
  void Shutdown();

  TargetRegistry::MemoryUse memory_use() const { return registry_.memory_use(); }
  // The clock that this machine's targets stamp events with, where nothing keeps them from
  // it; samples it.
  TickClock& clock();
  const Counters& counters() const { return counters_; }
  const SpareMemory& spare_memory() const { return spare_memory_; }

  std::vector<TargetInfo> List() const override;
  std::optional<TargetInfo> Find(TargetNumber target) const override {
    return registry_.Find(target);
  }
  int64_t MedianStepNs(TargetNumber target, int64_t first_step, int64_t end_step) const override {
    return registry_.MedianStepNs(target, first_step, end_step);
  }
  RecentSteps GetRecentSteps(TargetNumber target) const override {
    return registry_.GetRecentSteps(target);
  }
  absl::Status Arm(TargetNumber target, const ArmRequest& request, CaptureSink& sink) override;
  void Fire(std::string_view capture_id, const FirePlan& plan) override;
  void Stop(std::string_view capture_id) override;

 private:
  struct Peer;  // A connection and what is known of it.

  struct ArmCommand {
    std::unique_ptr<CaptureSession> session;
  };
  struct FireCommand {
    std::string capture_id;
    FirePlan plan;
  };
  struct StopCommand {
    std::string capture_id;
  };
  struct FinishedCommand {
    std::string capture_id;
  };
  using Command = std::variant<ArmCommand, FireCommand, StopCommand, FinishedCommand>;

  static absl::StatusOr<std::unique_ptr<TargetServer>> CreateFrom(AgentSocket socket,
                                                                  Options options,
                                                                  quota::Ledger& ledger,
                                                                  Clock& clock);
  TargetServer(AgentSocket socket, Options options, quota::Ledger& ledger, Clock& clock);

  // False: not running.
  bool Post(Command command);
  void Wake();

  // The ingest thread.
  void Run();
  void HandleEvent(uint64_t tag);
  void HandleCommands();
  void Handle(ArmCommand command);
  void Handle(const FireCommand& command);
  void Handle(const StopCommand& command);
  void Handle(const FinishedCommand& command);
  void CutOffSessions();

  void AcceptAll();
  void Admit(UniqueFd socket);
  // Finds a place among the connections without HELLO for one more of `uid`; the one that it
  // displaces is refused. Returns false if none may be displaced.
  bool MakePendingPlace(int64_t uid);
  absl::Duration RunSessions(absl::Duration now);
  absl::Duration RunDeadlines(absl::Duration now);
  bool Watch(int fd, uint64_t tag);
  // Before a connection is closed: the closer may keep its descriptor for a while.
  void Unwatch(const Peer& peer);
  void PauseAccepting(std::string_view why);
  void HandleReadable(Peer& peer);
  void HandleEnded(Peer& peer);
  // False: the peer is to be dropped.
  bool Dispatch(Peer& peer, const Frame& frame);
  bool OnHello(Peer& peer, const Frame& frame);
  bool Register(Peer& peer, const Frame& frame, const Hello& hello, uint16_t version);
  void OnArmed(Peer& peer, const Frame& frame);
  void OnArming(Peer& peer, const Frame& frame);
  void OnArmFailed(Peer& peer, const Frame& frame);
  void OnDrained(Peer& peer, const Frame& frame);
  void LetGo(Peer& peer, uint64_t capture_number, uint32_t stuck_writer_count);
  bool Refuse(Peer& peer, const Frame& frame, wire::RefuseReason reason, const std::string& text);
  // Whether another connection of the same process stands in the way of `peer`.
  bool IsTaken(const Peer& peer);

  void HangUp(Peer& peer);
  void Drop(Peer& peer, bool library_gone);
  void AbandonArming(CaptureSession& session, absl::Status why);
  // Has a spare memory made if there is none: when a target comes, and after each capture or
  // arming that failed. Any thread; returns at once.
  void RenewSpare();
  CaptureSession* SessionOf(std::string_view capture_id);
  CaptureSession* SessionOf(TargetNumber target);
  Peer* PeerOf(TargetNumber target);
  Peer* PeerById(uint64_t id);
  void LogLimited(const Peer& peer, std::string_view what);
  // INFO, unless targets of that uid come and go by the dozen.
  void LogComing(int64_t uid, std::string_view text);

  const Options options_;
  Clock& clock_;
  TargetRegistry registry_;
  SpareMemory spare_memory_;  // See RenewSpare().
  Counters counters_;
  RateLimiter log_limiter_;

  absl::Mutex mu_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mu_);
  enum class Life { kNew, kRunning, kStopped };
  Life life_ ABSL_GUARDED_BY(mu_) = Life::kNew;
  UniqueFd wakeup_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> last_capture_number_{0};
  Observer* observer_ = nullptr;  // Constant while the thread runs.

  ForeignCloser closer_;  // Before all that has connections.

  // The ingest thread's.
  AgentSocket socket_;
  UniqueFd epoll_;
  std::map<uint64_t, std::unique_ptr<Peer>> peers_;
  uint64_t last_peer_id_ = 0;
  int64_t pending_count_ = 0;
  int64_t hung_up_count_ = 0;
  std::map<std::string, std::unique_ptr<CaptureSession>, std::less<>> sessions_;
  absl::Duration accept_again_ = absl::InfiniteDuration();
  struct ComingLines {
    absl::Duration second = -absl::InfiniteDuration();
    int lines = 0;           // In that second.
    int64_t suppressed = 0;  // Since the last line.
  };
  std::map<int64_t, ComingLines> coming_lines_;  // By uid.
  PacketBuffer packet_;

  std::jthread thread_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_TARGET_SERVER_H_
