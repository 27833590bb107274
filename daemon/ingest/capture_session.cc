#include "daemon/ingest/capture_session.h"

#include <algorithm>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/str_cat.h"
#include "daemon/ingest/decode/untrusted_values.h"
#include "daemon/ingest/frame_codec.h"
#include "daemon/ingest/process_info.h"

namespace profd {
namespace {

constexpr absl::Duration kShortestPeriod = absl::Milliseconds(1);
constexpr absl::Duration kLongestPeriod = absl::Milliseconds(10);
// What the target's threads may write at most; small memories are visited the more often.
constexpr double kWriteBytesPerSecond = 500e6;
// Copied per visit, so that one target's flood does not keep the others waiting.
constexpr size_t kMaxChunksPerVisit = 64;
constexpr absl::Duration kProgressInterval = absl::Milliseconds(10);

absl::Duration LongestPeriod(uint64_t memory_bytes) {
  const absl::Duration fill =
      absl::Seconds(static_cast<double>(memory_bytes) / kWriteBytesPerSecond);
  return std::clamp(fill, kShortestPeriod, kLongestPeriod);
}

void SortByThread(std::vector<CaptureMemory::ChunkTag>& tags) {
  std::sort(tags.begin(), tags.end(), [](const auto& a, const auto& b) {
    return std::pair(a.thread_serial, a.sequence) < std::pair(b.thread_serial, b.sequence);
  });
}

RecordingPhase PhaseOf(uint32_t untrusted, RecordingPhase last) {
  // Both are final, whatever a hostile target writes later.
  if (last == RecordingPhase::kEnded || last == RecordingPhase::kMissed) return last;
  switch (static_cast<wire::Phase>(untrusted)) {
    // A target that has not seen FIRE yet still shows these.
    case wire::Phase::kIdle:
    case wire::Phase::kArmed:
      return last;
    case wire::Phase::kWaiting:
      return RecordingPhase::kWaiting;
    case wire::Phase::kWarmup:
      return RecordingPhase::kWarmup;
    case wire::Phase::kRecording:
      return RecordingPhase::kRecording;
    case wire::Phase::kEnded:
      return RecordingPhase::kEnded;
    case wire::Phase::kMissed:
      return RecordingPhase::kMissed;
  }
  return last;
}

// What is recorded where the target can.
GpuMode Resolved(GpuMode mode) { return mode == GpuMode::kAuto ? GpuMode::kDefault : mode; }

wire::GpuMode WireMode(GpuMode mode) {
  switch (mode) {
    case GpuMode::kOff:
      return wire::GpuMode::kOff;
    case GpuMode::kLight:
      return wire::GpuMode::kLight;
    case GpuMode::kAuto:
    case GpuMode::kDefault:
      return wire::GpuMode::kDefault;
    case GpuMode::kFull:
      return wire::GpuMode::kFull;
  }
  return wire::GpuMode::kOff;
}

// A mode that was asked for by name must be possible; `auto` takes what there is.
uint32_t ArmFlags(const GpuSpec& gpu) {
  const bool wanted = gpu.mode != GpuMode::kAuto && gpu.mode != GpuMode::kOff;
  return (wanted ? wire::kArmGpuRequired : 0) | (gpu.detach ? wire::kArmGpuDetach : 0) |
         (gpu.latency ? wire::kArmGpuLatency : 0);
}

wire::OperatorsMode WireMode(OperatorMode mode) {
  switch (mode) {
    case OperatorMode::kOff:
      return wire::OperatorsMode::kOff;
    case OperatorMode::kNames:
      return wire::OperatorsMode::kNames;
    case OperatorMode::kAuto:
    case OperatorMode::kShapes:
      return wire::OperatorsMode::kShapes;
  }
  return wire::OperatorsMode::kOff;
}

wire::ArmTorchField TorchField(const TorchSpec& torch) {
  return {.operators = static_cast<uint32_t>(WireMode(torch.operators)),
          .flags = (torch.strides ? wire::kArmTorchStrides : 0) |
                   (torch.memory ? wire::kArmTorchMemory : 0) |
                   (torch.stacks ? wire::kArmTorchStacks : 0) |
                   (torch.modules ? wire::kArmTorchModules : 0),
          .step_source = static_cast<uint32_t>(torch.step_source),
          .reserved = 0};
}

}  // namespace

CaptureSession::CaptureSession(const ArmRequest& request, uint64_t number, TargetNumber target,
                               int64_t pid, int64_t start_ticks,
                               std::unique_ptr<CaptureMemory> memory, TickClock& clock,
                               CaptureSink& sink, const Options& options,
                               TargetPort::Observer& observer, DecodeWorker::Wake wake,
                               DecodeWorker::Done done)
    : id_(request.capture_id),
      gpu_(request.gpu),
      torch_(request.torch),
      step_marker_(request.step_marker),
      time_left_(request.time_left),
      number_(number),
      target_(target),
      pid_(pid),
      start_ticks_(start_ticks),
      options_(options),
      clock_(clock),
      observer_(observer),
      memory_(std::move(memory)),
      longest_period_(LongestPeriod(memory_->size_bytes())),
      cpu_watch_(pid),
      period_(longest_period_),
      unpushed_(memory_->layout().chunk_count),
      worker_(*memory_, clock, sink, Resolved(gpu_.mode), torch_,
              std::min(options.queue_bytes, memory_->size_bytes()), options.settle, std::move(wake),
              std::move(done), options.watchdog) {
  progress_.window = -1;
}

void CaptureSession::Begin(Connection& connection, absl::Duration now) {
  connection_ = &connection;
  deadline_ = now + time_left_;
  FrameBuilder frame(wire::FrameType::kArm, static_cast<uint32_t>(number_));
  frame.Add(wire::ArmBody{.capture_number = number_,
                          .memory_bytes = memory_->size_bytes(),
                          .prefault_bytes = memory_->first_bytes(),
                          .gpu_buffer_bytes = static_cast<uint64_t>(gpu_.buffer_bytes),
                          .gpu_max_records = static_cast<uint64_t>(gpu_.max_records),
                          .gpu_mode = static_cast<uint32_t>(WireMode(gpu_.mode)),
                          .flags = ArmFlags(gpu_),
                          .gpu_arm_timeout_ms = static_cast<uint32_t>(
                              absl::ToInt64Milliseconds(options_.gpu_arm_timeout)),
                          .reserved = 0});
  if (!step_marker_.empty()) frame.AddField(wire::FieldTag::kStepMarker, step_marker_);
  if (WantsTorch(torch_)) frame.AddFieldOf(wire::FieldTag::kTorch, TorchField(torch_));
  connection.Send(frame.Finish(), memory_->fd());
}

bool CaptureSession::OnArmed() {
  if (state_ != State::kArming || target_is_armed_) return false;
  target_is_armed_ = true;
  BecomeArmed();
  return true;
}

void CaptureSession::BecomeArmed() {
  if (!worker_.has_first_chunks()) return;
  state_ = State::kArmed;
  observer_.OnArmed(id_);
  worker_.Begin();
}

bool CaptureSession::OnArming(std::string_view activity, absl::Duration now) {
  if (state_ != State::kArming) return false;
  if (now - arming_time_ < options_.arming_interval) return true;
  arming_time_ = now;
  observer_.OnArming(id_, activity);
  return true;
}

bool CaptureSession::OnDrained(uint32_t stuck_writer_count) {
  if (state_ < State::kStopping) return false;
  let_go_ = true;
  if (state_ != State::kStopping) return true;
  end_.stuck_writer_count = stuck_writer_count;
  BeginDraining();
  return true;
}

void CaptureSession::Fire(const FirePlan& plan, absl::Duration now) {
  if (state_ != State::kArmed) return;
  state_ = State::kFired;
  plan_ = plan;
  worker_.SetPlan(plan);
  period_ = kShortestPeriod;
  FrameBuilder frame(wire::FrameType::kFire);
  frame.Add(wire::FireBody{
      .capture_number = number_,
      .base_step = plan.base_step < 0 ? wire::kNextStep : static_cast<uint64_t>(plan.base_step),
      .active_steps = static_cast<uint64_t>(plan.steps),
      .wait_steps = static_cast<uint32_t>(plan.wait_steps),
      .warmup_steps = static_cast<uint32_t>(plan.warmup_steps),
      .repeat = static_cast<uint32_t>(plan.repeat),
      .flags = 0});
  if (connection_ != nullptr) connection_->Send(frame.Finish());
  // After it: reading takes up to 10 ms, and the ranks of a job are fired one after another.
  cpu_watch_.Expect(now);
}

absl::Duration CaptureSession::DrainTimeout() const {
  absl::Duration timeout = options_.drain_timeout;
  if (WantsTorch(torch_)) timeout = std::max(timeout, options_.torch_drain_timeout);
  if (gpu_.mode != GpuMode::kOff) timeout = std::max(timeout, options_.gpu_drain_timeout);
  return timeout;
}

void CaptureSession::Stop(absl::Duration now) {
  if (state_ > State::kFired) return;
  // Before STOP is sent: what the target records until it hears of it lies after the cut.
  end_.cut_ticks = clock_.Now();
  state_ = State::kStopping;
  cpu_watch_.End(now);
  drain_deadline_ = now + DrainTimeout();
  next_look_ = now + options_.drain_timeout;
  SendStop();
}

void CaptureSession::SendStop() {
  FrameBuilder frame(wire::FrameType::kStop, static_cast<uint32_t>(number_));
  frame.Add(wire::StopBody{number_});
  if (connection_ != nullptr) connection_->Send(frame.Finish());
}

void CaptureSession::ConnectionLost(bool library_gone) {
  connection_ = nullptr;
  let_go_ = true;
  if (state_ == State::kArming || state_ > State::kStopping) return;
  if (state_ != State::kStopping) end_.cut_ticks = clock_.Now();
  end_.target_gone = true;
  end_.library_gone = library_gone;
  BeginDraining();
}

void CaptureSession::CutOff() {
  if (state_ > State::kStopping) return;
  if (state_ != State::kStopping) {
    end_.cut_ticks = clock_.Now();
    SendStop();
  }
  BeginDraining();
}

absl::Duration CaptureSession::Poll(absl::Duration now) {
  if (state_ == State::kArming && target_is_armed_) BecomeArmed();
  // In kStopping the target still writes, above all what its GPU had left to do, and needs free
  // chunks for that.
  if (state_ == State::kFired || state_ == State::kStopping) {
    CopyFullChunks();
    ReportProgress(now);
  }
  if (state_ == State::kFired) {
    WatchCpu(now);
    EndLongWindow(now);
  }
  EndAtDeadline(now);
  if (state_ == State::kStopping && IsTargetStopped(now)) {
    LogWarning(StrCat("capture=", id_, " target is stopped; keeping what it had published"));
    end_.target_is_stopped = true;
    end_.target_holds_memory = true;
    BeginDraining();
  }
  if (state_ == State::kStopping && now >= drain_deadline_) {
    LogWarning(StrCat("capture=", id_, " target did not answer STOP within ",
                      absl::FormatDuration(DrainTimeout()), "; keeping what it had published"));
    end_.target_holds_memory = true;
    BeginDraining();
  }
  if (state_ == State::kDraining) PumpFinalChunks();
  switch (state_) {
    case State::kArming:  // The worker wakes this thread when it has made the first chunks.
    case State::kArmed:
      return deadline_ - now;
    case State::kFinishing:
      return absl::InfiniteDuration();
    case State::kFired:
      return std::min(period_, std::max(std::min(window_end_, deadline_) - now, kShortestPeriod));
    case State::kStopping:
      return std::min(period_, drain_deadline_ - now);
    case State::kDraining:
      return kShortestPeriod;
  }
  return absl::InfiniteDuration();
}

bool CaptureSession::IsTargetStopped(absl::Duration now) {
  constexpr absl::Duration kInterval = absl::Milliseconds(200);
  // A process that is stopped and continued again and again, as by cpulimit, is stopped at many a
  // look. It still has something to hand over.
  constexpr absl::Duration kLongEnough = absl::Seconds(1);
  if (pid_ == 0 || now < next_look_) return false;
  next_look_ = now + kInterval;
  const std::optional<int64_t> cpu_ticks = CpuTicksOfStopped(pid_, start_ticks_);
  if (cpu_ticks != stopped_at_ticks_) {
    stopped_at_ticks_ = cpu_ticks;
    stopped_since_ = now;
  }
  return cpu_ticks.has_value() && now - stopped_since_ >= kLongEnough;
}

void CaptureSession::CopyFullChunks() {
  RetryPushes();
  found_.clear();
  const uint32_t chunk_count = memory_->layout().chunk_count;
  for (uint32_t i = 0; i < chunk_count; ++i) {
    if (memory_->untrusted_state(i) == wire::ChunkState::kFull && !unpushed_.Has(i)) {
      found_.push_back(memory_->ReadTag(i));
    }
  }
  // Chunks lie in no order in the memory. The sequencer holds back what comes too early.
  SortByThread(found_);
  size_t copied = 0;
  while (copied < std::min(found_.size(), kMaxChunksPerVisit) &&
         CopyChunk(found_[copied].index, /*give_back=*/true)) {
    ++copied;
  }
  AdaptPeriod(copied, copied < found_.size());
}

// False: there is no buffer for it now.
bool CaptureSession::CopyChunk(uint32_t index, bool give_back) {
  ChunkCopy* copy = worker_.queue().Take();
  if (copy == nullptr) return false;
  memory_->CopyChunk(index, *copy);
  // After the copy, so that no honest event in it is later: the decoder refuses those that are.
  copy->copy_ticks = clock_.Now();
  worker_.queue().Push(copy);
  if (give_back) {
    unpushed_.GiveBack(index, [this](uint32_t chunk) { return memory_->PushFree(chunk); });
  }
  return true;
}

void CaptureSession::RetryPushes() {
  unpushed_.Retry([this](uint32_t index) { return memory_->PushFree(index); });
}

void CaptureSession::AdaptPeriod(size_t copied, bool more) {
  const size_t chunk_count = memory_->layout().chunk_count;
  if (more || copied > chunk_count / 16) {
    // Short at once, long only step by step: a burst must not fill the memory before the next look
    // at it.
    period_ = kShortestPeriod;
  } else if (copied <= chunk_count / 64) {
    period_ = std::min(period_ * 1.5, longest_period_);
  }
}

void CaptureSession::ReportProgress(absl::Duration now) {
  Progress progress = progress_;
  const bool at_once = ReadProgress(progress);
  const bool changed = at_once || progress.window != progress_.window ||
                       progress.current_step != progress_.current_step;
  if (!changed || (!at_once && now - progress_time_ < kProgressInterval)) return;
  progress_ = progress;
  progress_time_ = now;
  observer_.OnProgress(id_, progress_);
}

// Follows the windows as far as the target has told of them.
void CaptureSession::WatchCpu(absl::Duration now) {
  if (progress_.phase == RecordingPhase::kRecording) {
    watched_window_ = progress_.window;
    cpu_watch_.Begin(now);
    cpu_watch_.Sample(now);
  } else if (progress_.phase == RecordingPhase::kEnded) {
    // A short window may begin and end between two looks.
    if (progress_.window > watched_window_) cpu_watch_.Begin(now);
    watched_window_ = progress_.window;
    cpu_watch_.End(now);
  } else {
    cpu_watch_.End(now);
    cpu_watch_.Expect(now);
  }
}

void CaptureSession::EndLongWindow(absl::Duration now) {
  const bool is_recording = progress_.phase == RecordingPhase::kRecording;
  if (is_recording && window_end_ == absl::InfiniteDuration()) {
    window_end_ = now + plan_.longest_window;
  }
  if (now < window_end_) return;
  end_.ended_by = EndedBy::kDuration;
  Stop(now);
}

void CaptureSession::EndAtDeadline(absl::Duration now) {
  if (state_ > State::kFired || now < deadline_) return;
  end_.ended_by = EndedBy::kDeadline;
  Stop(now);
}

// True: something that the observer hears of at once.
bool CaptureSession::ReadProgress(Progress& progress) {
  const wire::CaptureMemoryHeader& header = memory_->untrusted_header();
  const RecordingPhase phase =
      PhaseOf(header.phase.load(std::memory_order_acquire), progress.phase);
  const bool is_final = phase == RecordingPhase::kEnded || phase == RecordingPhase::kMissed;
  // Each window waits, warms up, and records. A change costs the daemon more than the target, so
  // changes beyond the plan are ignored.
  if (phase != progress.phase && (is_final || ++phase_changes_ <= 3 * plan_.repeat)) {
    progress.phase = phase;
  }
  const auto windows =
      std::min<int64_t>(header.window_count.load(std::memory_order_relaxed), plan_.repeat);
  // The target counts, so the number is bounded by the plan and never falls.
  progress.window = std::max(progress.window, windows - 1);
  const uint64_t step = header.current_step.load(std::memory_order_relaxed);
  if (step <= kMaxUntrustedCount) {
    progress.current_step = std::max(progress.current_step, static_cast<int64_t>(step));
  }
  progress.stored_bytes = worker_.stored_bytes();
  bool sink_failed = false;
  if (progress.sink_status.ok() && worker_.sink_failed()) {
    progress.sink_status = worker_.sink_status();
    sink_failed = true;
  }
  return sink_failed || progress.phase != progress_.phase;
}

void CaptureSession::BeginDraining() {
  state_ = State::kDraining;
  RetryPushes();
  found_.clear();
  final_at_ = 0;
  const uint32_t chunk_count = memory_->layout().chunk_count;
  for (uint32_t i = 0; i < chunk_count; ++i) {
    const wire::ChunkState chunk_state = memory_->untrusted_state(i);
    // Chunks in hand, too: their threads publish each record as it is complete and will not hand
    // them over any more.
    if (chunk_state == wire::ChunkState::kFull || chunk_state == wire::ChunkState::kOwned) {
      found_.push_back(memory_->ReadTag(i));
    }
  }
  SortByThread(found_);
  PumpFinalChunks();
}

void CaptureSession::PumpFinalChunks() {
  // No chunk is given back: the target writes no more, and it would only find free memory that
  // nothing reads.
  while (final_at_ < found_.size() && CopyChunk(found_[final_at_].index, /*give_back=*/false)) {
    ++final_at_;
  }
  if (final_at_ < found_.size()) return;
  state_ = State::kFinishing;
  if (connection_ != nullptr) {
    FrameBuilder frame(wire::FrameType::kRelease);
    frame.Add(wire::ReleaseBody{number_});
    connection_->Send(frame.Finish());
  }
  end_.cpu = cpu_watch_.Take();
  end_.read_cpu_times = cpu_watch_.TimesReader();
  worker_.Finish(end_);
}

}  // namespace profd
