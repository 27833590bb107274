#include "daemon/ingest/target_server.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/time/clock.h"
#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/arm_guard.h"
#include "daemon/ingest/ingest_thread.h"
#include "daemon/ingest/target_server_peer.h"
#include "proto/wire/clock.h"

namespace profd {
namespace {

constexpr int kMaxEvents = 64;
constexpr absl::Duration kCutOffPoll = absl::Milliseconds(1);

// Rounded up: a timer that fires early would find nothing to do.
int ToEpollTimeout(absl::Duration wait) {
  if (wait == absl::InfiniteDuration()) return -1;
  const double ms = std::ceil(absl::ToDoubleMilliseconds(wait));
  return static_cast<int>(std::clamp(ms, 0.0, 1e6));
}

// A target takes two descriptors, and the usual soft limit is 1,024 for all.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TargetServer>> TargetServer::Create(
    const std::filesystem::path& socket_dir, Options options, quota::Ledger& ledger, Clock& clock) {
  ASSIGN_OR_RETURN(AgentSocket socket, AgentSocket::Listen(socket_dir));
  return CreateFrom(std::move(socket), options, ledger, clock);
}

absl::StatusOr<std::unique_ptr<TargetServer>> TargetServer::CreateFromSocket(UniqueFd listener,
                                                                             Options options,
                                                                             quota::Ledger& ledger,
                                                                             Clock& clock) {
  ASSIGN_OR_RETURN(AgentSocket socket, AgentSocket::Inherit(std::move(listener)));
  return CreateFrom(std::move(socket), options, ledger, clock);
}

absl::StatusOr<std::unique_ptr<TargetServer>> TargetServer::CreateFrom(AgentSocket socket,
                                                                       Options options,
                                                                       quota::Ledger& ledger,
                                                                       Clock& clock) {
  std::unique_ptr<TargetServer> server(new TargetServer(std::move(socket), options, ledger, clock));
  if (!server->epoll_.valid() || !server->wakeup_.valid() ||
      !server->Watch(server->socket_.fd(), kListenerTag) ||
      !server->Watch(server->wakeup_.get(), kWakeupTag)) {
    return absl::ResourceExhaustedError("no file descriptors left for the agent socket");
  }
  return server;
}

TargetServer::TargetServer(AgentSocket socket, Options options, quota::Ledger& ledger, Clock& clock)
    : options_(options),
      clock_(clock),
      registry_(ledger),
      spare_memory_(clock),
      log_limiter_(absl::Seconds(1), clock),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      socket_(std::move(socket)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  RaiseDescriptorLimit();
  if (!options_.accept_passed_files_for_testing) RefusePassedFiles(socket_.fd());
  // Slopes of clocks get better with age.
  registry_.ClockOf(wire::DetectClockKind());
}

TickClock& TargetServer::clock() {
  static const wire::ClockKind kind = wire::DetectClockKind();
  return registry_.ClockOf(kind);
}

TargetServer::~TargetServer() { Shutdown(); }

void TargetServer::Start(Observer& observer) {
  observer_ = &observer;
  {
    absl::MutexLock lock(&mu_);
    life_ = Life::kRunning;
  }
  spare_memory_.Start();
  thread_ = StartIngestThread("profd-ingest", [this] { Run(); });
  if (thread_.joinable()) return;
  LogError("profd cannot start: the system has no room for its threads (TasksMax=, pids.max)");
  std::abort();
}

void TargetServer::Shutdown() {
  {
    absl::MutexLock lock(&mu_);
    life_ = Life::kStopped;
  }
  // After `life_`: no command is accepted any more when the thread takes the last ones.
  stop_.store(true, std::memory_order_relaxed);
  Wake();
  if (thread_.joinable()) thread_.join();
  spare_memory_.Stop();
}

bool TargetServer::Post(Command command) {
  {
    absl::MutexLock lock(&mu_);
    if (life_ != Life::kRunning) return false;
    commands_.push_back(std::move(command));
  }
  Wake();
  return true;
}

void TargetServer::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wakeup_.get(), &one, sizeof(one));
}

std::vector<TargetInfo> TargetServer::List() const {
  std::vector<TargetInfo> targets = registry_.List();
  for (TargetInfo& target : targets) {
    if (target.state == TargetState::kRunning &&
        IsStopped(target.pid, target.process_start_ticks)) {
      target.state = TargetState::kStopped;
    }
  }
  return targets;
}

absl::Status TargetServer::Arm(TargetNumber target, const ArmRequest& request, CaptureSink& sink) {
  ASSIGN_OR_RETURN(const TargetRegistry::Reservation reserved, registry_.Reserve(target, request));
  const uint64_t number = last_capture_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto give_up = [&](absl::Status why) {
    registry_.EndCapture(target, /*held=*/false);
    RenewSpare();
    return why;
  };
  const std::optional<TargetInfo> info = registry_.Find(target);
  const int64_t pid = info.has_value() ? info->pid : 0;
  if (info.has_value()) {
    if (absl::Status may =
            MayBeArmed(pid, info->agent, static_cast<int64_t>(reserved.memory_bytes));
        !may.ok()) {
      return give_up(std::move(may));
    }
  }
  absl::StatusOr<std::unique_ptr<CaptureMemory>> memory =
      spare_memory_.Take(number, reserved.memory_bytes);
  if (!memory.ok()) return give_up(memory.status());
  auto done = [this, target, id = request.capture_id, pages = memory->get()](
                  DrainResult result, const DecodeWorker::End& end) {
    // First, so that those who hear of it can arm the next.
    registry_.EndCapture(target, end.target_holds_memory);
    observer_->OnDrained(id, std::move(result));
    // Takes milliseconds, which the ingest thread owes to others.
    if (!end.target_holds_memory) pages->FreePages();
    RenewSpare();
    Post(FinishedCommand{id});
  };
  auto session = std::make_unique<CaptureSession>(
      request, number, target, pid, info.has_value() ? info->process_start_ticks : 0,
      *std::move(memory), *reserved.clock, sink, options_.capture, *observer_, [this] { Wake(); },
      std::move(done));
  if (absl::Status status = session->status(); !status.ok()) return give_up(std::move(status));
  if (!Post(ArmCommand{std::move(session)})) {
    return give_up(absl::UnavailableError("profd is stopping"));
  }
  return absl::OkStatus();
}

void TargetServer::Fire(std::string_view capture_id, const FirePlan& plan) {
  Post(FireCommand{std::string(capture_id), plan});
}

void TargetServer::Stop(std::string_view capture_id) { Post(StopCommand{std::string(capture_id)}); }

void TargetServer::Run() {
  WatchedThread watched(options_.watchdog, "profd-ingest", Watchdog::Work::kNoDisk,
                        [this] { Wake(); });
  epoll_event events[kMaxEvents];
  absl::Duration wait = absl::InfiniteDuration();
  while (!stop_.load(std::memory_order_relaxed)) {
    watched.Waits();
    const int count = epoll_wait(epoll_.get(), events, kMaxEvents, ToEpollTimeout(wait));
    watched.Works();
    counters_.wakeups.fetch_add(1, std::memory_order_relaxed);
    for (int i = 0; i < count; ++i) HandleEvent(events[i].data.u64);
    const absl::Duration now = clock_.Monotonic();
    wait = std::min(RunSessions(now), RunDeadlines(now));
  }
  // Commands that were accepted before the stop. An ArmCommand among them holds a session whose
  // capture waits for an answer.
  HandleCommands();
  CutOffSessions();
  peers_.clear();
}

void TargetServer::HandleEvent(uint64_t tag) {
  if (tag == kListenerTag) return AcceptAll();
  if (tag == kWakeupTag) {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(wakeup_.get(), &count, sizeof(count));
    return HandleCommands();
  }
  Peer* peer = PeerById(tag / 2);
  if (peer == nullptr) return;
  if (tag % 2 == 0) {
    HandleReadable(*peer);
  } else {
    HandleEnded(*peer);
  }
}

absl::Duration TargetServer::RunSessions(absl::Duration now) {
  absl::Duration wait = absl::InfiniteDuration();
  // Collected first: hanging up may end sessions, which changes the map that is walked here.
  std::vector<TargetNumber> broken;
  for (const auto& [id, session] : sessions_) {
    wait = std::min(wait, session->Poll(now));
    const Connection* connection = session->connection();
    if (connection != nullptr && connection->broken()) broken.push_back(session->target());
  }
  for (const TargetNumber target : broken) {
    Peer* const peer = PeerOf(target);
    // One that has been hung up on stays broken until its grace is over.
    if (peer == nullptr || peer->hung_up) continue;
    HangUp(*peer);
    wait = absl::ZeroDuration();
  }
  return wait;
}

void TargetServer::HandleCommands() {
  std::vector<Command> commands;
  {
    absl::MutexLock lock(&mu_);
    commands.swap(commands_);
  }
  for (Command& command : commands) {
    std::visit([this](auto& each) { Handle(std::move(each)); }, command);
  }
}

void TargetServer::Handle(ArmCommand command) {
  CaptureSession& session = *command.session;
  sessions_[session.id()] = std::move(command.session);
  Peer* peer = PeerOf(session.target());
  if (peer == nullptr || peer->hung_up) {
    return AbandonArming(session,
                         absl::UnavailableError(StrCat("target ", session.target(), " has ended")));
  }
  session.Begin(peer->connection, clock_.Monotonic());
}

void TargetServer::Handle(const FireCommand& command) {
  if (CaptureSession* session = SessionOf(command.capture_id))
    session->Fire(command.plan, clock_.Monotonic());
}

void TargetServer::Handle(const StopCommand& command) {
  if (CaptureSession* session = SessionOf(command.capture_id)) session->Stop(clock_.Monotonic());
}

void TargetServer::Handle(const FinishedCommand& command) {
  const auto it = sessions_.find(command.capture_id);
  if (it == sessions_.end()) return;
  const CaptureSession& session = *it->second;
  Peer* peer = PeerOf(session.target());
  // The target may still answer. Until then its mapping keeps the pages in use, so they stay
  // counted and it cannot be armed again.
  if (session.target_holds_memory() && peer != nullptr) {
    peer->unanswered_number = session.number();
  } else {
    registry_.LetGo(session.target());
  }
  sessions_.erase(it);
}

void TargetServer::CutOffSessions() {
  while (!sessions_.empty()) {
    CaptureSession& session = *sessions_.begin()->second;
    if (session.state() == CaptureSession::State::kArming) {
      AbandonArming(session, absl::UnavailableError("profd is stopping"));
      continue;
    }
    // Each Poll() copies what the queue has room for while the worker decodes, so this ends without
    // an answer of the target.
    session.CutOff();
    while (session.state() != CaptureSession::State::kFinishing) {
      session.Poll(clock_.Monotonic());
      absl::SleepFor(kCutOffPoll);
    }
    // Waits for the worker, which stores what was copied and reports it.
    sessions_.erase(sessions_.begin());
  }
}

void TargetServer::AbandonArming(CaptureSession& session, absl::Status why) {
  // The session goes first.
  const std::string id = session.id();  // NOLINT(performance-unnecessary-copy-initialization)
  registry_.EndCapture(session.target(), /*held=*/false);
  sessions_.erase(id);
  RenewSpare();
  observer_->OnArmFailed(id, std::move(why));
}

// A capture takes the default size or, if it may, less: below that limit none would take a spare.
void TargetServer::RenewSpare() {
  if (stop_.load(std::memory_order_relaxed)) return;
  if (memory_use().cap_bytes < static_cast<int64_t>(SpareMemory::kSizeBytes)) return;
  spare_memory_.PrepareSoon();
}

CaptureSession* TargetServer::SessionOf(std::string_view capture_id) {
  const auto it = sessions_.find(capture_id);
  return it != sessions_.end() ? it->second.get() : nullptr;
}

CaptureSession* TargetServer::SessionOf(TargetNumber target) {
  for (const auto& [id, session] : sessions_) {
    // A finishing session's target may have its next capture already.
    if (session->target() == target && session->state() != CaptureSession::State::kFinishing) {
      return session.get();
    }
  }
  return nullptr;
}

}  // namespace profd
