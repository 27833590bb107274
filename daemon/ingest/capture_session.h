// CaptureSession is one live capture as ingest sees it: the conversation with the target,
// and the way of its chunks from shared memory to the decoder.
//
//   kArming ─ARMED─► kArmed ─Fire─► kFired ─Stop─► kStopping ─DRAINED─► kDraining ─► kFinishing
//      │                │             │               │ (or time-out)     ▲
//      └──Stop──────────┴──Stop───────┼───────────────┘                   │
//      └ ARM_FAILED, target gone: over└ target gone ──────────────────────┘
//
// kArmed also waits for the first chunks, which the worker's thread makes while the target arms.
// While kFired, full chunks are copied out and given back every 1 to 10 ms, faster the
// fuller the memory. In kDraining the target writes no more (or is given up on): what its
// threads had in hand is copied too. Nothing here ever waits for the target or the disk.
//
// Threads:   the ingest thread.
// Ownership: owns the memory and the worker; borrows the connection until ConnectionLost().
#ifndef PROFD_DAEMON_INGEST_CAPTURE_SESSION_H_
#define PROFD_DAEMON_INGEST_CAPTURE_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/capture_memory.h"
#include "daemon/ingest/connection.h"
#include "daemon/ingest/cpu_watch.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/decode_worker.h"
#include "daemon/ingest/unpushed_chunks.h"

namespace profd {

class CaptureSession {
 public:
  enum class State { kArming, kArmed, kFired, kStopping, kDraining, kFinishing };

  struct Options {
    // Copies of chunks that wait to be decoded; no more than the capture's own memory.
    uint64_t queue_bytes = 32 << 20;
    // See DecodeWorker.
    absl::Duration settle = absl::Milliseconds(50);
    // How long a target may take from STOP to DRAINED: its threads alone, with PyTorch, and with
    // its GPU. (The library gives its GPU 5 s, and 3 s to Python.) A process that a signal has
    // stopped gets `drain_timeout`, whatever is recorded of it.
    absl::Duration drain_timeout = absl::Seconds(2);
    absl::Duration torch_drain_timeout = absl::Seconds(6);
    absl::Duration gpu_drain_timeout = absl::Seconds(14);
    // How long CUPTI may take to begin: the first time in a process it may be 15 s and more.
    absl::Duration gpu_arm_timeout = absl::Seconds(60);
    // What arming is busy with is passed on no more often than this.
    absl::Duration arming_interval = absl::Milliseconds(200);
    Watchdog* watchdog = nullptr;  // Of the worker's thread; nullptr: not watched.
  };

  // `wake` makes the ingest thread call Poll(); `done` runs last; both run on the worker's thread.
  // `pid`: of the target, which began at `start_ticks`; 0: not known.
  CaptureSession(const ArmRequest& request, uint64_t number, TargetNumber target, int64_t pid,
                 int64_t start_ticks, std::unique_ptr<CaptureMemory> memory, TickClock& clock,
                 CaptureSink& sink, const Options& options, TargetPort::Observer& observer,
                 DecodeWorker::Wake wake, DecodeWorker::Done done);

  const std::string& id() const { return id_; }
  uint64_t number() const { return number_; }
  TargetNumber target() const { return target_; }
  State state() const { return state_; }
  uint64_t memory_bytes() const { return memory_->size_bytes(); }
  // RESOURCE_EXHAUSTED: use it no further.
  absl::Status status() const { return worker_.status(); }
  // The session ended while the target had not let go of the memory, and it has not yet.
  bool target_holds_memory() const { return end_.target_holds_memory && !let_go_; }

  // Sends ARM.
  void Begin(Connection& connection, absl::Duration now);
  const Connection* connection() const { return connection_; }
  // The target's answers. False: not expected.
  bool OnArmed();
  // `activity` is clean.
  bool OnArming(std::string_view activity, absl::Duration now);
  // Also after the time for it: the target lets go of the memory.
  bool OnDrained(uint32_t stuck_writer_count);

  void Fire(const FirePlan& plan, absl::Duration now);
  void Stop(absl::Duration now);
  // The target is gone, or only its library. In kArming the session is over by that.
  void ConnectionLost(bool library_gone);
  // Reads what is published now, waits for nothing. For the daemon's end.
  void CutOff();

  // Does what is due. Returns how long it may wait for the next call; infinite: for an event.
  absl::Duration Poll(absl::Duration now);

 private:
  // If the first chunks have been made, too.
  void BecomeArmed();
  absl::Duration DrainTimeout() const;
  // In kStopping, when even a target that is alone with its threads had to answer: whether it was
  // stopped at each look of a second, and did not run between them.
  bool IsTargetStopped(absl::Duration now);
  void SendStop();
  void CopyFullChunks();
  bool CopyChunk(uint32_t index, bool give_back);
  void RetryPushes();
  void AdaptPeriod(size_t copied, bool more);
  void ReportProgress(absl::Duration now);
  bool ReadProgress(Progress& progress);
  void BeginDraining();
  void PumpFinalChunks();
  void WatchCpu(absl::Duration now);
  void EndLongWindow(absl::Duration now);
  void EndAtDeadline(absl::Duration now);

  const std::string id_;
  const GpuSpec gpu_;
  const TorchSpec torch_;
  const std::string step_marker_;
  const absl::Duration time_left_;
  const uint64_t number_;
  const TargetNumber target_;
  const int64_t pid_;
  const int64_t start_ticks_;
  const Options options_;
  TickClock& clock_;
  TargetPort::Observer& observer_;
  const std::unique_ptr<CaptureMemory> memory_;
  const absl::Duration longest_period_;

  State state_ = State::kArming;
  bool target_is_armed_ = false;  // In kArming: ARMED came.
  Connection* connection_ = nullptr;
  FirePlan plan_;
  absl::Duration deadline_ = absl::InfiniteDuration();
  absl::Duration window_end_ = absl::InfiniteDuration();  // Once it has begun.
  CpuWatch cpu_watch_;
  int64_t watched_window_ = -1;  // The latest one that cpu_watch_ has begun.
  bool let_go_ = false;
  DecodeWorker::End end_;
  absl::Duration drain_deadline_ = absl::InfiniteDuration();
  absl::Duration next_look_ = absl::InfiniteDuration();  // Whether it is stopped.
  std::optional<int64_t> stopped_at_ticks_;  // The CPU time at the last look, if it was.
  absl::Duration stopped_since_;             // The first look with that time.
  absl::Duration arming_time_ = -absl::InfiniteDuration();  // When an activity was passed on.

  absl::Duration period_ = absl::ZeroDuration();
  std::vector<CaptureMemory::ChunkTag> found_;  // Kept for its room.
  UnpushedChunks unpushed_;
  size_t final_at_ = 0;  // Of found_, in kDraining.

  Progress progress_;
  int64_t phase_changes_ = 0;
  absl::Duration progress_time_ = -absl::InfiniteDuration();

  DecodeWorker worker_;  // Last: its thread uses the memory.
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_CAPTURE_SESSION_H_
