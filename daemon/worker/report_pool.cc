#include "daemon/worker/report_pool.h"

#include <pthread.h>

#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/worker/background.h"

namespace profd::worker {
namespace {

// How soon a running report notices that its caller is gone, or that others wait.
constexpr absl::Duration kTick = absl::Milliseconds(50);
// What a program that crashed costs its principal: starting another one, and a slice of others.
constexpr absl::Duration kCrashCharge = absl::Seconds(1);

absl::Status TooLong(absl::Duration most) {
  return WithReason(
      absl::ResourceExhaustedError(
          StrCat("the report takes more than ", absl::FormatDuration(most), " (max-report-time)")),
      kTooLong);
}

absl::Status Crowded() {
  return WithReason(
      absl::ResourceExhaustedError("the report takes long and reports of others wait; retry later"),
      kCrowded);
}

}  // namespace

// ---- ReportTurn ----

ReportTurn::ReportTurn(ReportPool& pool, int lane, ReportProcess& process)
    : pool_(pool), lane_(lane), process_(process), turn_since_(pool.clock_.Monotonic()) {}

absl::Duration ReportTurn::SliceUsed() const {
  return has_turn_ ? pool_.clock_.Monotonic() - turn_since_ : absl::ZeroDuration();
}

void ReportTurn::GiveUp() {
  if (!std::exchange(has_turn_, false)) return;
  const absl::Duration slice = pool_.clock_.Monotonic() - turn_since_;
  used_ += slice;
  pool_.Leave(lane_, slice + std::exchange(charge_, absl::ZeroDuration()), FairTurns::Then::kAway);
}

absl::Status ReportTurn::MayGoOn(absl::FunctionRef<absl::Status()> still_wanted) {
  ReportProgress();  // How long a report may take is not for the watchdog to decide.
  RETURN_IF_ERROR(still_wanted());
  if (used_ + SliceUsed() > pool_.options_.max_duration) {
    return TooLong(pool_.options_.max_duration);
  }
  return pool_.MustEnd(lane_) ? Crowded() : absl::OkStatus();
}

absl::Status ReportTurn::TakeTurn(absl::FunctionRef<absl::Status()> still_wanted) {
  pool_.Want(lane_);
  while (!pool_.AwaitTurn(lane_, kTick)) RETURN_IF_ERROR(MayGoOn(still_wanted));
  has_turn_ = true;
  turn_since_ = pool_.clock_.Monotonic();
  return absl::OkStatus();
}

absl::Status ReportTurn::Run(const ReportRequest& request,
                             absl::FunctionRef<absl::Status()> still_wanted, ReportSink& sink) {
  if (!has_turn_) RETURN_IF_ERROR(TakeTurn(still_wanted));
  RETURN_IF_ERROR(process_.EnsureStarted([&] {
    ReportProgress();  // As in MayGoOn().
    return still_wanted();
  }));
  absl::Status status = process_.Send(request);
  if (status.ok()) status = Relay(still_wanted, sink);
  const std::string reason = ReasonOf(status);
  if (reason == kTooLarge || reason == kCrashed || reason == kKilled) charge_ += kCrashCharge;
  return status;
}

absl::Status ReportTurn::Relay(absl::FunctionRef<absl::Status()> still_wanted, ReportSink& sink) {
  while (true) {
    if (absl::Status status = MayGoOn(still_wanted); !status.ok()) return Abandon(status);
    if (!sink.AwaitReady(kTick)) {
      RETURN_IF_ERROR(StepAside(still_wanted, sink, FairTurns::Then::kAway));
    } else if (SliceUsed() >= pool_.options_.slice && pool_.OthersWant(lane_)) {
      RETURN_IF_ERROR(StepAside(still_wanted, sink, FairTurns::Then::kWants));
    }
    ASSIGN_OR_RETURN(std::optional<Frame> frame, process_.Receive(kTick));
    if (!frame.has_value()) continue;
    if (frame->kind == FrameKind::kEnd) return DecodeStatus(frame->payload);
    if (frame->kind != FrameKind::kData) {
      process_.Kill();
      return WithReason(absl::InternalError("the report process broke the protocol"), kCrashed);
    }
    if (absl::Status status = sink.Append(frame->payload); !status.ok()) return Abandon(status);
  }
}

absl::Status ReportTurn::StepAside(absl::FunctionRef<absl::Status()> still_wanted, ReportSink& sink,
                                   FairTurns::Then then) {
  // Stopped as a whole, in the middle of its work: the program needs no places where it can yield,
  // and keeps what it has computed.
  process_.Pause();
  const absl::Duration slice = SliceUsed();
  used_ += slice;
  has_turn_ = false;
  pool_.Leave(lane_, slice, then);
  absl::Status status;
  if (then == FairTurns::Then::kAway) {
    while (status.ok() && !sink.AwaitReady(kTick)) status = MayGoOn(still_wanted);
  }
  if (status.ok()) status = TakeTurn(still_wanted);
  // A stopped program cannot read a request to cancel, so it is killed.
  if (!status.ok()) {
    process_.Kill();
    return status;
  }
  process_.Resume();
  return absl::OkStatus();
}

absl::Status ReportTurn::Abandon(absl::Status why) {
  const absl::Duration until = pool_.clock_.Monotonic() + pool_.options_.cancel_grace;
  // A program that ends its report itself can serve the next one. Killing it costs a start.
  process_.RequestCancel();
  while (pool_.clock_.Monotonic() < until) {
    absl::StatusOr<std::optional<Frame>> frame = process_.Receive(kTick);
    if (!frame.ok() || (frame->has_value() && (*frame)->kind == FrameKind::kEnd)) return why;
  }
  process_.Kill();
  return why;
}

// ---- ReportPool ----

ReportPool::ReportPool(Options options, Clock& clock, MakeProcess make_process)
    : options_(std::move(options)),
      clock_(clock),
      make_process_(std::move(make_process)),
      turns_(options_.turns),
      lanes_(static_cast<size_t>(options_.turns.lanes)) {
  for (int lane = 0; lane < options_.turns.lanes; ++lane) {
    threads_.emplace_back([this, lane] { LaneLoop(lane); });
  }
}

ReportPool::~ReportPool() { Stop(); }

bool ReportPool::TryPost(std::string_view principal, Work work) {
  absl::MutexLock lock(&mu_);
  if (stopped_ || !turns_.Add(principal, last_job_ + 1, clock_.Monotonic())) return false;
  jobs_[++last_job_] = {.principal = std::string(principal), .work = std::move(work)};
  Dispatch();
  return true;
}

void ReportPool::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
    Dispatch();
  }
  threads_.clear();
}

void ReportPool::Dispatch() {
  if (const auto turn = turns_.Next(clock_.Monotonic())) {
    Lane& lane = lanes_[static_cast<size_t>(turn->lane)];
    lane.granted = true;
    lane.changed.Signal();
    if (turn->job.has_value()) {
      const auto job = jobs_.find(*turn->job);
      lane.job = std::move(job->second);
      jobs_.erase(job);
    }
  }
  // Accepted jobs get their answer, also while profd stops.
  if (stopped_ && turns_.waiting() == 0) {
    for (Lane& lane : lanes_) {
      lane.over = true;
      lane.changed.Signal();
    }
  }
}

std::optional<ReportPool::Job> ReportPool::AwaitJob(int index, absl::Duration timeout,
                                                    WatchedThread& watched) {
  const absl::Duration until = Clock::Real().Monotonic() + timeout;
  absl::MutexLock lock(&mu_);
  Lane& lane = lanes_[static_cast<size_t>(index)];
  const auto has_job_or_is_over = [&lane] { return lane.job.has_value() || lane.over; };
  const auto is_wanted = [&] { return has_job_or_is_over() || watched.asked(); };
  bool is_in_time = false;
  do {
    watched.Waits();
    is_in_time = lane.changed.AwaitWithTimeout(&mu_, until - Clock::Real().Monotonic(), is_wanted);
  } while (is_in_time && !has_job_or_is_over());
  watched.Works();
  return std::exchange(lane.job, std::nullopt);
}

void ReportPool::EndJob(int index, const ReportTurn& turn) {
  const absl::Duration slice = turn.SliceUsed();
  absl::MutexLock lock(&mu_);
  lanes_[static_cast<size_t>(index)].granted = false;
  turns_.End(index, slice + turn.charge_);
  Dispatch();
}

void ReportPool::LaneLoop(int index) {
  pthread_setname_np(pthread_self(), options_.thread_name);
  if (options_.yields_to_training) YieldToTraining();
  WatchedThread watched(options_.watchdog, options_.thread_name, Watchdog::Work::kDisk,
                        [this, index] {
                          absl::MutexLock lock(&mu_);
                          lanes_[static_cast<size_t>(index)].changed.Signal();
                        });
  const std::unique_ptr<ReportProcess> process = make_process_();
  // So that the next report does not wait for it. What goes wrong is logged there.
  const auto keep_started = [this, index, &process] {
    if (index != 0) return;
    process
        ->EnsureStarted([this] {
          absl::MutexLock lock(&mu_);
          return stopped_ ? absl::CancelledError("profd ends") : absl::OkStatus();
        })
        .IgnoreError();
  };
  keep_started();
  // The first lane keeps its program ready. The others give back its memory when they are idle.
  const absl::Duration idle = index == 0 ? absl::InfiniteDuration() : options_.spare_idle;
  bool started = false;
  while (true) {
    std::optional<Job> job = AwaitJob(index, started ? idle : absl::InfiniteDuration(), watched);
    if (job.has_value()) {
      ReportTurn turn(*this, index, *process);
      job->work(turn);
      job.reset();  // What the work kept goes before others run.
      EndJob(index, turn);
      keep_started();  // It may have been killed.
      started = true;
      continue;
    }
    {
      absl::MutexLock lock(&mu_);
      if (lanes_[static_cast<size_t>(index)].over) return;
    }
    process->Kill();
    started = false;
  }
}

void ReportPool::Leave(int lane, absl::Duration used, FairTurns::Then then) {
  absl::MutexLock lock(&mu_);
  lanes_[static_cast<size_t>(lane)].granted = false;
  turns_.Leave(lane, used, then);
  Dispatch();
}

void ReportPool::Want(int lane) {
  absl::MutexLock lock(&mu_);
  turns_.Want(lane);
  Dispatch();
}

bool ReportPool::AwaitTurn(int lane, absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  Lane& waiting = lanes_[static_cast<size_t>(lane)];
  return waiting.changed.AwaitWithTimeout(&mu_, timeout, [&waiting] { return waiting.granted; });
}

bool ReportPool::OthersWant(int lane) {
  absl::MutexLock lock(&mu_);
  return turns_.OthersWant(lane);
}

bool ReportPool::MustEnd(int lane) {
  absl::MutexLock lock(&mu_);
  return turns_.LaneToEnd(clock_.Monotonic()) == lane;
}

}  // namespace profd::worker
