#include "daemon/ingest/decode_worker.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/ingest/decode/untrusted_values.h"
#include "daemon/ingest/ingest_thread.h"
#include "proto/wire/clock.h"

namespace profd {
namespace {

// Between two pieces of the capture memory, until the capture fires: making them in one go takes a
// CPU from the threads of profd that say that the target is armed.
constexpr absl::Duration kFillPause = absl::Milliseconds(1);

int64_t UnixNsOf(const ClockPair& epoch) {
  const int64_t now_unix_ns = absl::GetCurrentTimeNanos();
  const auto now_mono_ns = static_cast<int64_t>(wire::ReadMonotonicNs());
  return now_unix_ns - (now_mono_ns - epoch.mono_ns);
}

}  // namespace

DecodeWorker::DecodeWorker(CaptureMemory& memory, TickClock& clock, CaptureSink& sink,
                           GpuMode gpu_mode, const TorchSpec& torch, uint64_t queue_bytes,
                           absl::Duration settle, Wake wake, Done done, Watchdog* watchdog)
    : memory_(memory),
      clock_(clock),
      sink_(sink),
      gpu_mode_(gpu_mode),
      torch_(torch),
      settle_(settle),
      watchdog_(watchdog),
      queue_(queue_bytes),
      epoch_(clock.Sample()),
      epoch_unix_ns_(UnixNsOf(epoch_)),
      has_first_chunks_(memory.has_first_chunks()),
      wake_(std::move(wake)),
      done_(std::move(done)),
      // A quarter of the buffers at most is held back. If it were all of them, the missing chunk
      // could never be copied.
      sequencer_(
          queue_.capacity() / 4, [this](ChunkCopy* copy) { Decode(copy); },
          [this](ChunkCopy* copy) { Reject(copy); }),
      thread_(StartIngestThread("profd-decode", [this] { Run(); })) {}

DecodeWorker::~DecodeWorker() {
  if (!queue_.closed()) abandoned_.store(true, std::memory_order_relaxed);
  queue_.Close();
  // Run() waits for it, also if the target was never armed.
  Begin();
}

absl::Status DecodeWorker::status() const {
  if (!queue_.ok()) {
    return absl::ResourceExhaustedError("no memory left for the capture's buffers");
  }
  if (thread_.joinable()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "profd may have no more threads (TasksMax= of its unit, pids.max of its cgroup, ulimit -u); "
      "retry when other captures have ended");
}

void DecodeWorker::Begin() {
  absl::MutexLock lock(&mu_);
  begun_ = true;
  begun_changed_.Signal();
}

void DecodeWorker::SetPlan(const FirePlan& plan) {
  has_plan_.store(true, std::memory_order_relaxed);
  absl::MutexLock lock(&mu_);
  plan_ = plan;
}

void DecodeWorker::Finish(const End& end) {
  {
    absl::MutexLock lock(&mu_);
    end_ = end;
  }
  queue_.Close();
  Begin();
}

// While the target maps what there is. False: there is no memory for more.
bool DecodeWorker::FillFirstChunks() {
  if (has_first_chunks()) return true;
  bool more = true;
  while (more && !abandoned_.load(std::memory_order_relaxed) && !memory_.has_first_chunks()) {
    more = memory_.FillFreeList() == CaptureMemory::Fill::kMore;
  }
  has_first_chunks_.store(true, std::memory_order_release);
  std::move(wake_)();
  return more;
}

absl::Status DecodeWorker::sink_status() const {
  absl::MutexLock lock(&mu_);
  return sink_status_;
}

void DecodeWorker::Run() {
  WatchedThread watched(watchdog_, "profd-decode", Watchdog::Work::kDisk);
  bool filling = FillFirstChunks();
  {
    absl::MutexLock lock(&mu_);
    while (!begun_) begun_changed_.Wait(&mu_);
  }
  while (!abandoned_.load(std::memory_order_relaxed)) {
    watched.Works();
    if (filling) filling = memory_.FillFreeList() == CaptureMemory::Fill::kMore;
    watched.Waits();
    const absl::Duration pause =
        has_plan_.load(std::memory_order_relaxed) ? absl::ZeroDuration() : kFillPause;
    ChunkCopy* const copy = queue_.Pop(settle_, filling ? pause : absl::InfiniteDuration());
    watched.Works();
    if (copy != nullptr) {
      sequencer_.Accept(copy);
    } else if (queue_.drained() && !abandoned_.load(std::memory_order_relaxed)) {
      End end;
      {
        absl::MutexLock lock(&mu_);
        end = end_;
      }
      std::move(done_)(Conclude(end), end);
      return;
    }
  }
}

EventDecoder& DecodeWorker::decoder() {
  if (!decoder_.has_value()) {
    FirePlan plan;
    {
      absl::MutexLock lock(&mu_);
      plan = plan_;
    }
    // Made with the first chunk and not with the worker: the plan is known only then, and the slope
    // of the clock gets better with the time since its first pair.
    line_.emplace(clock_.LineThrough(epoch_));
    book_.emplace(memory_.untrusted_header(), plan, epoch_.ticks);
    decoder_.emplace(*line_, memory_, book_->ticks(), sink_, gpu_mode_, torch_);
  }
  return *decoder_;
}

void DecodeWorker::Decode(ChunkCopy* copy) {
  EventDecoder& decoder = this->decoder();
  book_->Refresh(clock_.Now());
  decoder.Decode(
      {.bytes = copy->bytes, .record_bytes = copy->record_bytes, .copy_ticks = copy->copy_ticks});
  queue_.Give(copy);
  NoteSink();
}

void DecodeWorker::Reject(ChunkCopy* copy) {
  decoder().CountInvalidChunk();
  queue_.Give(copy);
}

void DecodeWorker::NoteSink() {
  stored_bytes_.store(sink_.approx_bytes(), std::memory_order_relaxed);
  if (decoder_->sink_status().ok() || sink_failed_.load(std::memory_order_relaxed)) return;
  {
    absl::MutexLock lock(&mu_);
    sink_status_ = decoder_->sink_status();
  }
  sink_failed_.store(true, std::memory_order_release);
}

DrainResult DecodeWorker::Conclude(const End& end) {
  EventDecoder& decoder = this->decoder();
  book_->Refresh(clock_.Now());
  // The windows get their ends first. The chunks that were held back are decoded next, and the
  // ranges that are still open are cut at those ends last.
  book_->Cut(end.cut_ticks);
  sequencer_.Finish();
  decoder.Finish();

  DrainResult result;
  result.windows = book_->Recorded(*line_, decoder);
  result.epoch_unix_ns = epoch_unix_ns_;
  const DecodeCounts& counts = decoder.counts();
  result.event_count = counts.event_count;
  result.warmup_event_count = counts.warmup_event_count;
  result.open_range_count = counts.open_range_count;
  result.truncated_range_count = counts.truncated_range_count;
  const auto drop = [&result](DropReason reason) -> int64_t& {
    return result.drops[static_cast<size_t>(reason)];
  };
  drop(DropReason::kInvalidRecord) = counts.invalid_count + sequencer_.gap_count();
  drop(DropReason::kUnknownKind) = counts.unknown_kind_count;
  drop(DropReason::kByteCap) = counts.byte_cap_count;
  drop(DropReason::kDisk) = counts.disk_count;
  drop(DropReason::kStuckWriter) = end.stuck_writer_count;
  ReadHeaderCounts(result);
  decoder.DescribeGpu(result.gpu, result.drops);
  if ((end.target_gone || end.target_holds_memory) && result.gpu.outcome == GpuOutcome::kRecorded) {
    // All it said is from when it was armed.
    result.gpu.outcome = GpuOutcome::kUnknown;
    result.gpu.problem =
        "the process ended, or did not answer, before it gave all that it had of its GPU";
  }
  if (end.target_is_stopped && result.gpu.outcome == GpuOutcome::kUnknown) {
    result.gpu.problem = "the process is stopped (SIGSTOP, Ctrl-Z, a debugger) and does not answer";
  }
  const ClockPair now = clock_.Sample();
  LimitCounts(now.mono_ns - epoch_.mono_ns, result);
  decoder.DescribeTorch(result.torch);
  const bool ended_early = end.target_gone || end.target_holds_memory;
  if (ended_early && result.torch.outcome == TorchOutcome::kNoTorch) {
    // Its account comes last of all.
    result.torch.outcome = TorchOutcome::kUnknown;
  }
  result.clock_error_ns = line_->ErrorAt(now);
  result.cpu = end.cpu;
  result.read_cpu_times = end.read_cpu_times;
  for (CpuSample& sample : result.cpu.samples) sample.time_ns -= epoch_.mono_ns;
  result.target_gone = end.target_gone;
  result.library_gone = end.library_gone;
  result.target_is_stopped = end.target_is_stopped;
  result.ended_by = end.ended_by;
  result.sink_status = decoder.sink_status();
  return result;
}

void DecodeWorker::ReadHeaderCounts(DrainResult& result) const {
  const wire::CaptureMemoryHeader& header = memory_.untrusted_header();
  static_assert(static_cast<int>(DropReason::kNoThreadState) == wire::kDropNoThreadState);
  for (size_t i = 0; i <= wire::kDropNoThreadState; ++i) {
    result.drops[i] = ReadCount(header.drops[i]);
  }
  result.other_name_event_count = ReadCount(header.other_name_event_count);
  result.foreign_step_mark_count = ReadCount(header.foreign_step_mark_count);
}

// More than the memory holds may be dropped; but nothing is counted faster than once a nanosecond.
void DecodeWorker::LimitCounts(int64_t elapsed_ns, DrainResult& result) const {
  const auto held = static_cast<int64_t>(memory_.size_bytes() / sizeof(wire::EventHeader));
  const int64_t most = held + std::max<int64_t>(0, elapsed_ns);
  const auto limit = [most](int64_t& count) { count = std::min(count, most); };
  for (int64_t& count : result.drops) limit(count);
  limit(result.other_name_event_count);
  limit(result.foreign_step_mark_count);
  GpuRecord& gpu = result.gpu;
  for (int64_t* count : {&gpu.record_count, &gpu.stale_count, &gpu.before_window_count,
                         &gpu.after_window_count, &gpu.filtered_api_count}) {
    limit(*count);
  }
}

}  // namespace profd
