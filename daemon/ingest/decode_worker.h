// DecodeWorker is one capture's own thread ("profd-decode"): it takes copies of chunks
// from its queue, decodes them into the sink, and at the end says what came of it. First
// of all it finishes making the capture memory, which takes too long to arm after it; and
// not before the target is armed, or the two would compete for the processor.
//
// A copy is decoded only once it is `settle` old: by then a window edge that its events
// lie beyond has been published, even if the thread that did so was interrupted between
// reading the counter and storing it.
//
// Threads:   queue() and the accessors any; the rest belongs to the ingest thread. `done`
//            runs on the worker, which touches the sink no more by then.
// Ownership: memory, clock and sink must outlive the worker.
#ifndef PROFD_DAEMON_INGEST_DECODE_WORKER_H_
#define PROFD_DAEMON_INGEST_DECODE_WORKER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/watchdog.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/capture_memory.h"
#include "daemon/ingest/chunk_queue.h"
#include "daemon/ingest/chunk_sequencer.h"
#include "daemon/ingest/decode/event_decoder.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/window_book.h"

namespace profd {

class DecodeWorker {
 public:
  // How the recording ended.
  struct End {
    uint64_t cut_ticks = 0;  // Windows that the target did not close end here.
    bool target_gone = false;
    bool library_gone = false;
    uint32_t stuck_writer_count = 0;
    bool target_holds_memory = false;   // It did not answer.
    bool target_is_stopped = false;     // As DrainResult has it, ...
    EndedBy ended_by = EndedBy::kNone;  // ... and this.
    CpuRecord cpu;
    CpuTimesReader read_cpu_times;  // As DrainResult has it.
  };
  using Wake = absl::AnyInvocable<void() &&>;
  using Done = absl::AnyInvocable<void(DrainResult, const End&) &&>;

  // `gpu_mode`: what of the GPU is recorded; not kAuto. `torch`: what of PyTorch is.
  // `wake` is called on the worker's thread when has_first_chunks() becomes true, unless it is from
  // the start. `watchdog` watches the worker's thread and must outlive it; nullptr: not watched.
  DecodeWorker(CaptureMemory& memory, TickClock& clock, CaptureSink& sink, GpuMode gpu_mode,
               const TorchSpec& torch, uint64_t queue_bytes, absl::Duration settle, Wake wake,
               Done done, Watchdog* watchdog = nullptr);
  // Without Finish(): drops what is queued and never calls `done`. Joins.
  ~DecodeWorker();

  // RESOURCE_EXHAUSTED: there are no buffers, or is no thread; use it no further.
  absl::Status status() const;

  ChunkQueue& queue() { return queue_; }
  const ChunkQueue& queue() const { return queue_; }

  // The target is armed: the rest of its memory may be made. Before the first chunk is pushed.
  void Begin();
  // Before the first chunk is pushed. Without a plan there are no windows.
  void SetPlan(const FirePlan& plan);
  // Everything was pushed. `done` follows.
  void Finish(const End& end);

  // The first chunks have been made, or there was no memory for them: recording may begin.
  bool has_first_chunks() const { return has_first_chunks_.load(std::memory_order_acquire); }

  int64_t stored_bytes() const { return stored_bytes_.load(std::memory_order_relaxed); }
  bool sink_failed() const { return sink_failed_.load(std::memory_order_acquire); }
  absl::Status sink_status() const;

 private:
  void Run();
  bool FillFirstChunks();
  void Decode(ChunkCopy* copy);
  void Reject(ChunkCopy* copy);
  void NoteSink();
  EventDecoder& decoder();
  DrainResult Conclude(const End& end);
  void ReadHeaderCounts(DrainResult& result) const;
  // Bounds what the target counted by what is possible: it may have made the numbers up, and
  // metrics of the node add them up.
  void LimitCounts(int64_t elapsed_ns, DrainResult& result) const;

  CaptureMemory& memory_;
  TickClock& clock_;
  CaptureSink& sink_;
  const GpuMode gpu_mode_;
  const TorchSpec torch_;
  const absl::Duration settle_;
  Watchdog* const watchdog_;
  ChunkQueue queue_;
  const ClockPair epoch_;
  const int64_t epoch_unix_ns_;

  std::atomic<bool> abandoned_{false};
  std::atomic<bool> has_first_chunks_;
  std::atomic<bool> has_plan_{false};
  std::atomic<int64_t> stored_bytes_{0};
  std::atomic<bool> sink_failed_{false};

  mutable absl::Mutex mu_;
  absl::CondVar begun_changed_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
  FirePlan plan_ ABSL_GUARDED_BY(mu_) = {.repeat = 0};
  End end_ ABSL_GUARDED_BY(mu_);
  absl::Status sink_status_ ABSL_GUARDED_BY(mu_);

  // The worker thread's.
  Wake wake_;
  Done done_;
  ChunkSequencer sequencer_;
  std::optional<TickLine> line_;
  std::optional<WindowBook> book_;
  std::optional<EventDecoder> decoder_;

  std::jthread thread_;  // Last: it uses all of the above.
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_WORKER_H_
