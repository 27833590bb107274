// The part of TargetServer that deals with connections: who may come in, what they say,
// and how they go.
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/arm_guard.h"
#include "daemon/ingest/target_server.h"
#include "daemon/ingest/target_server_peer.h"
#include "daemon/ingest/workload.h"
#include "proto/wire/clock.h"

namespace profd {
namespace {

using wire::FrameType;

// One flood must not keep the other sources waiting. epoll reports again what is left.
constexpr int kMaxAcceptsPerVisit = 64;
constexpr int kMaxFramesPerVisit = 16;
constexpr absl::Duration kAcceptPause = absl::Seconds(1);
// Of one uid. Room for the ranks of a large machine that start together.
constexpr int kMaxComingLinesPerSecond = 50;
constexpr size_t kMaxComingUids = 1024;
constexpr char kTooManyPending[] = "too many connections without HELLO";

// The counters that this machine's processes can mean.
bool IsClockOfThisMachine(uint32_t kind) {
  switch (static_cast<wire::ClockKind>(kind)) {
    case wire::ClockKind::kMonotonicNs:
      return true;
    case wire::ClockKind::kTsc:
#if defined(__x86_64__)
      return true;
#else
      return false;
#endif
    case wire::ClockKind::kCntvct:
#if defined(__aarch64__)
      return true;
#else
      return false;
#endif
  }
  return false;
}

bool HasHungUp(int socket) {
  pollfd hung_up{.fd = socket, .events = 0, .revents = 0};
  return poll(&hung_up, 1, 0) > 0 && (hung_up.revents & (POLLHUP | POLLERR)) != 0;
}

std::string VersionText(const wire::HelloBody& hello) {
  return StrCat("the target's library speaks protocol versions ", hello.version_min, " to ",
                hello.version_max, ", this profd ", wire::kProtocolVersionMin, " to ",
                wire::kProtocolVersionMax, "; update the older of the two");
}

// What a target that could not record its GPU is told as. `text` is its own account.
absl::Status GpuFailure(int64_t pid, std::string_view reason, std::string_view text,
                        std::string_view otherwise) {
  std::string account(text.empty() ? otherwise : text);
  while (!account.empty() && (account.back() == '.' || account.back() == ' ')) account.pop_back();
  return WithReason(absl::FailedPreconditionError(StrCat("process ", pid, ": ", account,
                                                         "; or trace without the GPU: --gpu off")),
                    reason);
}

absl::Status ArmFailure(int64_t pid, uint32_t reason, std::string_view text) {
  switch (static_cast<wire::ArmFailedReason>(reason)) {
    case wire::ArmFailedReason::kBusy:
      return absl::FailedPreconditionError(
          StrCat("process ", pid, " is busy with another capture; retry later"));
    case wire::ArmFailedReason::kNoCuda:
      return GpuFailure(pid, "NO_CUDA", text,
                        "it uses no CUDA; retry once it does, or take what there is: --gpu auto");
    case wire::ArmFailedReason::kNoCupti:
      return GpuFailure(pid, "NO_CUPTI", text,
                        "it has CUDA, but no CUPTI that can be used; install the toolkit's "
                        "libcupti, or name it by PROFD_CUPTI_LIB");
    case wire::ArmFailedReason::kNoDriver:
      return GpuFailure(pid, "NO_DRIVER", text,
                        "CUPTI does not get on with the driver; update the older of the two");
    case wire::ArmFailedReason::kCuptiBusy:
      return GpuFailure(pid, "CUPTI_BUSY", text, "another profiler holds CUPTI; stop it and retry");
    case wire::ArmFailedReason::kGpuTimeout:
      return GpuFailure(pid, "GPU_TIMEOUT", text,
                        "CUPTI did not begin in time; retry when the process is less busy");
    case wire::ArmFailedReason::kGpuRefused:
      return GpuFailure(pid, "GPU_REFUSED", text,
                        "CUPTI refused to record (privileges, a virtual GPU, MIG)");
    case wire::ArmFailedReason::kStuckWriters:
      return WithReason(
          absl::FailedPreconditionError(StrCat(
              "process ", pid,
              " has threads that stopped inside profd's recording (suspended, or left by "
              "siglongjmp) and hold the memory of earlier captures; let them go on, or restart "
              "the process")),
          "STUCK_THREADS");
    case wire::ArmFailedReason::kMemory:
      break;
  }
  return absl::ResourceExhaustedError(
      StrCat("process ", pid, " could not map the capture memory (reason ", reason,
             "); ask for less, or raise its limit of address space"));
}

}  // namespace

bool TargetServer::Watch(int fd, uint64_t tag) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = tag}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void TargetServer::Unwatch(const Peer& peer) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.connection.fd(), nullptr);
}

void TargetServer::AcceptAll() {
  if (closer_.is_full()) {
    return PauseAccepting("peers passed descriptors that cannot be closed");
  }
  for (int i = 0; i < kMaxAcceptsPerVisit; ++i) {
    UniqueFd socket(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      Admit(std::move(socket));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      return PauseAccepting("out of file descriptors; raise LimitNOFILE");
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

// The listener stays readable while we cannot accept: watching it on would spin.
void TargetServer::PauseAccepting(std::string_view why) {
  if (const auto more = log_limiter_.Allow()) {
    LogError(StrCat("no new targets for a second: ", why, " (", *more, " more)"));
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.fd(), nullptr);
  accept_again_ = clock_.Monotonic() + kAcceptPause;
}

void TargetServer::Admit(UniqueFd socket) {
  absl::StatusOr<PeerProcess> process = IdentifyPeer(socket.get());
  if (!process.ok()) {
    counters_.refused_connections.fetch_add(1, std::memory_order_relaxed);
    return closer_.CloseConnection(std::move(socket));
  }
  // Connections that waited before the listener was set up.
  if (!options_.accept_passed_files_for_testing) RefusePassedFiles(socket.get());
  const uint64_t id = ++last_peer_id_;
  const bool may_pend = MakePendingPlace(process->uid);
  auto peer = std::make_unique<Peer>(
      Peer{.connection = Connection(id, std::move(socket), *std::move(process), closer_),
           .deadline = clock_.Monotonic() + options_.hello_timeout});
  if (!may_pend) {
    Refuse(*peer, {}, wire::RefuseReason::kFull, kTooManyPending);
    return;
  }
  if (!Watch(peer->connection.fd(), 2 * id)) return;
  ++pending_count_;
  peers_.emplace(id, std::move(peer));
}

// A library sends HELLO as soon as it is connected. So the oldest connection of the user with the
// most connections needs its place least, and no user can lock others out by holding places.
bool TargetServer::MakePendingPlace(int64_t uid) {
  struct Holder {
    int64_t count = 0;
    Peer* oldest = nullptr;
  };
  const auto is_root = [](int64_t of) { return of == 0 || of == geteuid(); };
  std::map<int64_t, Holder> holders;
  int64_t of_root = 0;
  for (const auto& [id, peer] : peers_) {  // In the order of their arrival.
    if (!peer->pending()) continue;
    const int64_t owner = peer->connection.peer().uid;
    Holder& holder = holders[owner];
    if (holder.count++ == 0) holder.oldest = peer.get();
    if (is_root(owner)) ++of_root;
  }
  const int64_t capacity = is_root(uid)
                               ? options_.max_pending - of_root
                               : options_.max_pending - std::max(options_.pending_reserve, of_root);
  Holder gives_way;
  if (const Holder& own = holders[uid]; own.count >= options_.max_pending_per_uid) {
    gives_way = own;
  } else if (pending_count_ - of_root >= capacity) {
    for (const auto& [owner, holder] : holders) {
      if (!is_root(owner) && holder.count > gives_way.count) gives_way = holder;
    }
  } else {
    return true;
  }
  if (gives_way.oldest == nullptr) return false;
  const uint64_t id = gives_way.oldest->connection.id();
  HandleReadable(*gives_way.oldest);  // Its HELLO may have arrived.
  if (Peer* peer = PeerById(id); peer != nullptr && peer->pending()) {
    Refuse(*peer, {}, wire::RefuseReason::kFull, kTooManyPending);
    Drop(*peer, /*library_gone=*/true);
  }
  return true;
}

absl::Duration TargetServer::RunDeadlines(absl::Duration now) {
  absl::Duration next = accept_again_;
  if (now >= accept_again_) {
    accept_again_ = next = absl::InfiniteDuration();
    Watch(socket_.fd(), kListenerTag);
  }
  if (pending_count_ > 0 || hung_up_count_ > 0) {
    std::vector<uint64_t> due;
    for (const auto& [id, peer] : peers_) {
      if (peer->deadline <= now) {
        due.push_back(id);
      } else {
        next = std::min(next, peer->deadline);
      }
    }
    for (const uint64_t id : due) {
      if (Peer* peer = PeerById(id)) Drop(*peer, /*library_gone=*/true);
    }
  }
  return next == absl::InfiniteDuration() ? next : next - now;
}

void TargetServer::HandleReadable(Peer& peer) {
  // Bounded, so that one peer does not keep the others waiting. epoll reports what is left again.
  for (int i = 0; i < kMaxFramesPerVisit && !peer.hung_up; ++i) {
    const absl::StatusOr<Frame> frame = peer.connection.Receive(packet_);
    if (absl::IsUnavailable(frame.status())) return;
    if (absl::IsNotFound(frame.status())) return HangUp(peer);
    if (!frame.ok()) {
      counters_.bad_frames.fetch_add(1, std::memory_order_relaxed);
      LogLimited(peer, std::string(frame.status().message()));
      if (peer.pending()) {
        Refuse(peer, {}, wire::RefuseReason::kBadHello, std::string(frame.status().message()));
      }
      return Drop(peer, /*library_gone=*/true);
    }
    if (!Dispatch(peer, *frame)) return Drop(peer, /*library_gone=*/true);
  }
}

void TargetServer::HandleEnded(Peer& peer) {
  // Its last words first: DRAINED may be among them.
  const uint64_t id = peer.connection.id();
  while (PeerById(id) != nullptr && !peer.hung_up) {
    const absl::StatusOr<Frame> frame = peer.connection.Receive(packet_);
    if (!frame.ok() || !Dispatch(peer, *frame)) break;
  }
  if (Peer* const left = PeerById(id)) Drop(*left, /*library_gone=*/false);
}

bool TargetServer::Dispatch(Peer& peer, const Frame& frame) {
  if (!peer.connection.CountFrame(clock_.Monotonic())) {
    counters_.bad_frames.fetch_add(1, std::memory_order_relaxed);
    LogLimited(peer, "sends too many frames");
    return false;
  }
  const auto type = static_cast<FrameType>(frame.type);
  if (type == FrameType::kHello) return OnHello(peer, frame);
  if (peer.pending()) {
    return Refuse(peer, frame, wire::RefuseReason::kBadHello, "the first frame must be HELLO");
  }
  switch (type) {
    case FrameType::kArmed:
      OnArmed(peer, frame);
      return true;
    case FrameType::kArming:
      OnArming(peer, frame);
      return true;
    case FrameType::kArmFailed:
      OnArmFailed(peer, frame);
      return true;
    case FrameType::kDrained:
      OnDrained(peer, frame);
      return true;
    case FrameType::kMetadata:
      if (const absl::StatusOr<Fields> fields = ParseMetadata(frame); fields.ok()) {
        if (registry_.MergeMetadata(peer.target, fields->metadata)) {
          observer_->OnTargetOptedOut(peer.target);
        }
        return true;
      }
      counters_.bad_frames.fetch_add(1, std::memory_order_relaxed);
      return true;
    default:
      counters_.unknown_frames.fetch_add(1, std::memory_order_relaxed);
      return true;
  }
}

bool TargetServer::OnHello(Peer& peer, const Frame& frame) {
  if (!peer.pending()) {
    counters_.bad_frames.fetch_add(1, std::memory_order_relaxed);
    LogLimited(peer, "said HELLO twice");
    return false;
  }
  const absl::StatusOr<Hello> hello = ParseHello(frame);
  if (!hello.ok()) {
    return Refuse(peer, frame, wire::RefuseReason::kBadHello,
                  std::string(hello.status().message()));
  }
  const std::optional<uint16_t> version =
      CommonVersion(hello->body.version_min, hello->body.version_max);
  if (!version.has_value()) {
    return Refuse(peer, frame, wire::RefuseReason::kVersion, VersionText(hello->body));
  }
  if (!IsClockOfThisMachine(hello->body.clock_kind)) {
    return Refuse(peer, frame, wire::RefuseReason::kBadHello,
                  StrCat("clock kind ", hello->body.clock_kind, " is not of this machine"));
  }
  return Register(peer, frame, *hello, *version);
}

bool TargetServer::Register(Peer& peer, const Frame& frame, const Hello& hello, uint16_t version) {
  const PeerProcess& process = peer.connection.peer();
  ProcessReader& reader =
      options_.processes != nullptr ? *options_.processes : ProcessReader::Direct();
  const absl::StatusOr<ProcessFacts> facts = ReadProcessFacts(reader, process.pidfd.get());
  // The facts are of this process only if it lives after they were read.
  if (HasEnded(process.pidfd.get())) return false;
  if (!facts.ok()) {
    return Refuse(peer, frame, wire::RefuseReason::kNotAllowed,
                  StrCat("profd cannot see process ", process.pid, " in /proc"));
  }
  peer.process_start_ticks = facts->start_ticks;
  if (IsTaken(peer)) {
    return Refuse(peer, frame, wire::RefuseReason::kNotAllowed,
                  StrCat("process ", process.pid, " is a target already"));
  }
  TargetInfo info;
  info.uid = process.uid;
  info.workload = facts->workload;
  absl::StatusOr<quota::Reservation> place = registry_.ReservePlace(info, facts->root_container);
  if (!place.ok()) {
    return Refuse(peer, frame, wire::RefuseReason::kFull, std::string(place.status().message()));
  }
  TickClock& clock = registry_.ClockOf(static_cast<wire::ClockKind>(hello.body.clock_kind));
  absl::StatusOr<StatusPageView> page = StatusPageView::Create(hello.body.step_mark_count, clock);
  if (!page.ok() || !Watch(process.pidfd.get(), 2 * peer.connection.id() + 1)) {
    return Refuse(peer, frame, wire::RefuseReason::kFull, "profd is out of resources");
  }
  clock.Sample();
  info.pid = process.pid;
  info.gid = process.gid;
  info.parent_pid = facts->parent_pid;
  info.process_start_ticks = facts->start_ticks;
  info.agent = FindAgentThread(process.pid);
  info.namespace_pid = facts->namespace_pid;
  info.foreign_namespace = facts->foreign_namespace;
  info.command = facts->command;
  info.cgroup = facts->cgroup;
  info.library_version = hello.fields.library_version;
  info.protocol_version = version;
  info.metadata = hello.fields.metadata;
  FindPodNames(kPodLogs, info.workload);
  info.opted_out = AsksNotToBeCaptured(info.metadata);
  info.registered_time = clock_.Now();
  const UniqueFd page_fd = page->ReleaseFd();
  peer.target = registry_.Add(std::move(info), clock, *std::move(page), *std::move(place));
  peer.deadline = absl::InfiniteDuration();
  --pending_count_;
  LogComing(process.uid, StrCat("target=", peer.target, " pid=", process.pid, " uid=", process.uid,
                                " registered"));

  FrameBuilder welcome(FrameType::kWelcome, frame.request_id);
  welcome.Add(wire::WelcomeBody{.version = version,
                                .reserved0 = 0,
                                .reserved1 = 0,
                                .target_number = static_cast<uint64_t>(peer.target)});
  observer_->OnTargetAdded(peer.target);
  const bool sent = peer.connection.Send(welcome.Finish(), page_fd.get());
  RenewSpare();
  return sent;
}

bool TargetServer::IsTaken(const Peer& peer) {
  if (options_.several_per_process_for_testing) return false;
  const int64_t pid = peer.connection.peer().pid;
  for (auto it = peers_.begin(); it != peers_.end();) {
    Peer& other = *(it++)->second;
    if (other.pending() || other.connection.peer().pid != pid ||
        other.process_start_ticks != peer.process_start_ticks) {
      continue;
    }
    if (!other.hung_up && !HasHungUp(other.connection.fd())) return true;
    // exec: the same process, a new image, and the old one's socket closed.
    Drop(other, /*library_gone=*/true);
  }
  return false;
}

bool TargetServer::Refuse(Peer& peer, const Frame& frame, wire::RefuseReason reason,
                          const std::string& text) {
  counters_.refused_connections.fetch_add(1, std::memory_order_relaxed);
  LogLimited(peer, StrCat("is refused: ", text));
  FrameBuilder refuse(FrameType::kRefuse, frame.request_id);
  refuse.Add(wire::RefuseBody{.reason = static_cast<uint32_t>(reason),
                              .version_min = wire::kProtocolVersionMin,
                              .version_max = wire::kProtocolVersionMax});
  refuse.AddField(wire::FieldTag::kText, text);
  peer.connection.Send(refuse.Finish());
  return false;
}

void TargetServer::OnArmed(Peer& peer, const Frame& frame) {
  const std::optional<wire::ArmedBody> body = BodyOf<wire::ArmedBody>(frame);
  CaptureSession* session = body.has_value() ? SessionOf(peer.target) : nullptr;
  if (session == nullptr || session->number() != body->capture_number || !session->OnArmed()) {
    counters_.stray_frames.fetch_add(1, std::memory_order_relaxed);
  }
}

void TargetServer::OnArming(Peer& peer, const Frame& frame) {
  const std::optional<wire::ArmingBody> body = BodyOf<wire::ArmingBody>(frame);
  CaptureSession* session = body.has_value() ? SessionOf(peer.target) : nullptr;
  if (session == nullptr || session->number() != body->capture_number ||
      !session->OnArming(TextBehind(frame, sizeof(*body)), clock_.Monotonic())) {
    counters_.stray_frames.fetch_add(1, std::memory_order_relaxed);
  }
}

void TargetServer::OnArmFailed(Peer& peer, const Frame& frame) {
  const std::optional<wire::ArmFailedBody> body = BodyOf<wire::ArmFailedBody>(frame);
  if (!body.has_value()) {
    counters_.stray_frames.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  CaptureSession* session = SessionOf(peer.target);
  if (session != nullptr && session->number() == body->capture_number &&
      session->state() == CaptureSession::State::kArming) {
    return AbandonArming(*session, ArmFailure(peer.connection.peer().pid, body->reason,
                                              TextBehind(frame, sizeof(*body))));
  }
  // STOP overtook it: there is nothing to let go of.
  LetGo(peer, body->capture_number, /*stuck_writer_count=*/0);
}

void TargetServer::OnDrained(Peer& peer, const Frame& frame) {
  const std::optional<wire::DrainedBody> body = BodyOf<wire::DrainedBody>(frame);
  if (!body.has_value()) {
    counters_.stray_frames.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  LetGo(peer, body->capture_number, body->stuck_writer_count);
}

void TargetServer::LetGo(Peer& peer, uint64_t capture_number, uint32_t stuck_writer_count) {
  for (const auto& [id, session] : sessions_) {
    if (session->target() != peer.target || session->number() != capture_number) continue;
    if (session->OnDrained(stuck_writer_count)) return;
  }
  if (capture_number != 0 && capture_number == peer.unanswered_number) {
    peer.unanswered_number = 0;
    return registry_.LetGo(peer.target);
  }
  counters_.stray_frames.fetch_add(1, std::memory_order_relaxed);
}

void TargetServer::HangUp(Peer& peer) {
  if (peer.pending()) return Drop(peer, /*library_gone=*/true);
  // A process closes its sockets before its pidfd reports the end. The grace below distinguishes a
  // dying process from a library that was shut down in one that lives on.
  if (HasEnded(peer.connection.peer().pidfd.get())) return Drop(peer, /*library_gone=*/false);
  if (peer.hung_up) return;
  peer.hung_up = true;
  ++hung_up_count_;
  peer.deadline = clock_.Monotonic() + options_.hang_up_grace;
  Unwatch(peer);
  peer.connection.Close();
}

void TargetServer::Drop(Peer& peer, bool library_gone) {
  const auto it = peers_.find(peer.connection.id());
  // Out of the map first: nothing that is called below may find the peer any more. It lives to the
  // end of this function.
  const std::unique_ptr<Peer> dropped = std::move(it->second);
  peers_.erase(it);
  Unwatch(*dropped);
  if (dropped->pending()) {
    --pending_count_;
    return;
  }
  if (dropped->hung_up) --hung_up_count_;
  const TargetNumber target = dropped->target;
  LogComing(dropped->connection.peer().uid,
            StrCat("target=", target, " pid=", dropped->connection.peer().pid,
                   library_gone ? " left" : " ended"));
  registry_.Remove(target);
  // Collected first, because AbandonArming() changes sessions_.
  std::vector<CaptureSession*> arming;
  for (const auto& [id, session] : sessions_) {
    if (session->target() != target) continue;
    session->ConnectionLost(library_gone);
    if (session->state() == CaptureSession::State::kArming) arming.push_back(session.get());
  }
  for (CaptureSession* session : arming) {
    AbandonArming(*session,
                  absl::UnavailableError(StrCat("process ", dropped->connection.peer().pid,
                                                library_gone ? " closed its connection" : " ended",
                                                " before it was armed")));
  }
  observer_->OnTargetGone(target);
}

TargetServer::Peer* TargetServer::PeerOf(TargetNumber target) {
  for (const auto& [id, peer] : peers_) {
    if (peer->target == target) return peer.get();
  }
  return nullptr;
}

TargetServer::Peer* TargetServer::PeerById(uint64_t id) {
  const auto it = peers_.find(id);
  return it != peers_.end() ? it->second.get() : nullptr;
}

void TargetServer::LogComing(int64_t uid, std::string_view text) {
  const absl::Duration now = clock_.Monotonic();
  // Forgetting all counts costs a few lines more in the log. Looking for the oldest would cost each
  // line a search.
  if (coming_lines_.size() >= kMaxComingUids) coming_lines_.clear();
  ComingLines& of_uid = coming_lines_[uid];
  if (now - of_uid.second >= absl::Seconds(1)) {
    of_uid.second = now;
    of_uid.lines = 0;
  }
  if (++of_uid.lines > kMaxComingLinesPerSecond) {
    ++of_uid.suppressed;
    return;
  }
  const int64_t suppressed = std::exchange(of_uid.suppressed, 0);
  LogInfo(suppressed == 0 ? std::string(text) : StrCat(text, " (", suppressed, " more)"));
}

void TargetServer::LogLimited(const Peer& peer, std::string_view what) {
  if (const auto more = log_limiter_.Allow()) {
    LogWarning(StrCat("pid=", peer.connection.peer().pid, " uid=", peer.connection.peer().uid, " ",
                      what, " (", *more, " more)"));
  }
}

}  // namespace profd
