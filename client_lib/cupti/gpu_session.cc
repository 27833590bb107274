// The GPU's part in a capture (client_lib/core/gpu_part.h): the thread "profd-gpu" and what it
// goes through.
//
//   Arm()     find CUDA and CUPTI, attach, turn the kinds on, have the devices described; wait
//             (within bounds) for work that was launched before
//   Record()  until STOP: decode what comes back; have the kinds on only while the plan is near
//   Drain()   API calls off; wait (within bounds) for the work that calls of the window launched;
//             kinds off, flush, count what is lost
//   Leave()   detach, last status, memory back
//
// When kinds are on. Turning them on for the first time is the slow part, so it is done at
// ARM, at once. With them on every CUDA call costs, so they go off again if no plan comes
// within kPlanPatienceNs, or the plan begins later than in kFarNs; and on again kNearNs (by the
// pace of the last steps), or one step, before the first warm-up step. They go off between the
// windows of a plan by the same rule, and when its last window is over. Then records of API calls
// go first. Those of GPU work stay on until what the window launched has run, within bounds: a
// program may be seconds ahead of its GPU, and no CUPTI promises records of work that was under way
// when its kind went off (gpu_drain.h).
//
// CUPTI may hang in any call. Then this thread hangs, and nobody else: the agent gives up by
// its own clock (LeaveSession()), threads of the program only ever meet the lists of
// BufferPool. When CUPTI comes back the thread puts things in order and ends; until then the
// GPU part of further captures is refused.
//
// Another tool may put its callbacks in place of ours. Then the session ends at once, and CUPTI
// stays as it is (CuptiTracer::Abandon()). Signs are a foreign buffer, and silence
// (HasLostCupti()). A torch.profiler that begins says so first, and waits until this thread has
// left CUPTI (cupti_claim.h).
//
// If the process exits, Record() and Drain() end at once, with what came (exit_gate.h). CUPTI is
// not put back in order then.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>

#include "client_lib/core/agent.h"
#include "client_lib/core/gpu_part.h"
#include "client_lib/core/helper.h"
#include "client_lib/core/log.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/cupti/device_memory.h"
#include "client_lib/cupti/driver_devices.h"
#include "client_lib/cupti/gpu_drain.h"
#include "client_lib/cupti/gpu_work.h"

namespace profd::client::gpu {
namespace {

using gpu_part::State;
using wire::ArmFailedReason;

// For work that was launched before kernels were recorded; far below the time that arming may take.
constexpr uint64_t kEarlierWorkTimeoutNs = 2 * kNsPerSecond;
constexpr uint64_t kLongestEarlierPauseNs = 50 * kNsPerMs;
// A program whose first launch comes later than this is not waited for.
constexpr uint64_t kFirstLaunchTimeoutNs = 50 * kNsPerMs;
constexpr uint64_t kPlanPatienceNs = kNsPerSecond;
constexpr uint64_t kNearNs = kNsPerSecond;
constexpr uint64_t kFarNs = 3 * kNsPerSecond;
// A window shorter than this is not disturbed by a flush.
constexpr uint64_t kFirstFlushNs = 2 * kNsPerSecond;
constexpr uint64_t kFlushPeriodNs = kNsPerSecond;
constexpr uint64_t kClockPeriodNs = kNsPerSecond;
constexpr uint64_t kWatchPeriodNs = 20 * kNsPerMs;
constexpr uint64_t kFarWatchPeriodNs = 200 * kNsPerMs;
constexpr uint64_t kLastStatusTimeoutNs = kNsPerSecond;

// A call of CUPTI that takes longer, after the agent has given up, is not waited for.
constexpr uint64_t kStuckNs = 5 * kNsPerSecond;

// CUPTI attaches on our stack; what is not touched costs nothing.
constexpr size_t kStackBytes = 2u << 20;
constexpr int kNiceness = 5;

void OnPoolWake() { g_bell.Ring(); }
void OnLeaving() { g_bell.Ring(); }

}  // namespace

constinit BufferPool g_pool(OnPoolWake);
constinit CaptureWriter g_writer;
constinit ExitGate g_exit_gate(OnLeaving);
constinit CuptiTracer g_tracer(&g_exit_gate);
constinit WakeBell g_bell;
constinit CuptiClaim g_claim;

namespace {

constinit std::atomic<State> g_state{State::kNone};
constinit std::atomic<bool> g_is_running{false};  // The thread.
constinit std::atomic<bool> g_stop{false};        // The capture is over.
constinit std::atomic<bool> g_has_left{false};    // CUPTI, to another tool.
constinit std::atomic<bool> g_given_up{false};    // The agent has left before the end.
constinit wire::ArmBody g_arm{};
constinit ArmFailure g_failure{};
// CUPTI was loaded in this process, or in the one that it was forked from.
constinit std::atomic<bool> g_cupti_touched{false};
constinit bool g_is_forked_child = false;
// The exit handler runs before what CUPTI has registered when it was attached.
constinit bool g_exit_is_covered = false;
// The library that was found, kept for callbacks that come after the capture.
constinit CuptiLibrary g_library{};

void OnExit() { g_exit_gate.RunHandler(); }

void OnBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *max_records = 0;  // As many as fit.
  g_pool.Request(buffer, size);
}

void OnBufferCompleted(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  g_pool.Complete(buffer, valid_bytes);
}

// The same for CUPTI with several subscribers.
void OnSharedBufferRequested(uint8_t** buffer, size_t* size, size_t* max_records, void*) {
  OnBufferRequested(buffer, size, max_records);
}

void OnSharedBufferCompleted(uint8_t* buffer, size_t size, size_t valid_bytes, void*) {
  OnBufferCompleted(nullptr, 0, buffer, size, valid_bytes);
}

constexpr BufferCallbacks kBufferCallbacks{OnBufferRequested, OnBufferCompleted,
                                           OnSharedBufferRequested, OnSharedBufferCompleted};

bool ShouldStop() { return g_stop.load(std::memory_order_acquire) || g_exit_gate.is_leaving(); }
// CUPTI is to be left, at the capture's end or because another profiler begins.
bool ShouldLeaveCupti() { return ShouldStop() || g_claim.is_requested(); }

// The capture ends here: from now on nothing is known of the GPU.
void EndForOtherTool(Work* work, const char* what) {
  if (g_has_left.exchange(true, std::memory_order_acq_rel)) return;
  Log(LogLevel::kWarning, "%s; the capture ends", what);
  work->status.flags |= wire::kGpuStatusStolen;
  WakeAgentForGpu();
}

void SetState(State state) {
  g_state.store(state, std::memory_order_release);
  WakeAgentForGpu();
}

void SampleClock(Work* work) {
  const ClockSample sample = ReadClocks([](uint64_t* ns) { return g_tracer.GetTimestamp(ns); });
  work->clock.Add(sample);
  work->dump.AddClock(sample);
}

}  // namespace

// ---- What came back

void ReportDrops(Work* work, Session* session) {
  const uint64_t count = work->decoder.counts()[wire::kGpuNoChunk];
  if (count == work->no_chunk_reported) return;
  session->CountLateDrops(count - work->no_chunk_reported);
  work->no_chunk_reported = count;
}

// From the start of the first window to the end of the last that has begun.
void SetWindow(RecordDecoder* decoder, const Session* session) {
  const uint32_t count = session->header->window_count.load(std::memory_order_acquire);
  if (count == 0 || count > wire::kMaxWindows) return;
  const wire::Window* windows = session->header->windows;
  const uint64_t end_ticks = windows[count - 1].end_ticks.load(std::memory_order_acquire);
  decoder->set_window(windows[0].start_ticks.load(std::memory_order_acquire),
                      end_ticks != 0 ? end_ticks : UINT64_MAX);
}

namespace {

void DecodeBuffer(Work* work, const BufferPool::Returned& buffer) {
  RecordDecoder& decoder = work->decoder;
  CaptureWriter::Turn turn(&g_writer);
  if (!turn.is_open()) return;
  SetWindow(&decoder, turn.session());
  decoder.set_is_kept_buffer(buffer.is_kept);
  work->dump.AddBuffer(decoder, buffer.bytes, buffer.valid_bytes);
  decoder.Decode(buffer.bytes, buffer.valid_bytes, g_writer.sink());
  work->dump.AddResult(&decoder);
  if (turn.session() != nullptr) ReportDrops(work, turn.session());
}

}  // namespace

bool DecodeReturned(Work* work) {
  BufferPool::Returned buffer;
  bool found = false;
  while (g_pool.TakeReturned(&buffer)) {
    if (!found) {
      found = true;
      work->decoder.BeginBatch();
      // As late as can be, so that every record lies before it.
      SampleClock(work);
    }
    // It asks CUPTI for names of functions.
    g_exit_gate.Pass();
    DecodeBuffer(work, buffer);
    g_pool.Recycle(buffer);
  }
  g_pool.PopulateAhead();
  return found;
}

// ---- Other tools

namespace {

// Has CUPTI write a record. True: something of it is seen here, or CUPTI cannot be asked.
bool IsAnswered(Work* work) {
  const uint64_t before = g_pool.CountSignsOfLife();
  const auto is_alive = [before] { return g_pool.CountSignsOfLife() != before; };
  if (!g_tracer.DescribeDevicesAgain() || is_alive()) return true;
  g_tracer.Flush(false);
  return DecodeUntil(work, kProbeTimeoutNs, is_alive);
}

bool TorchRecords(const Work* work) {
  return !g_claim.is_in_use() && work->torch_profiler_records != nullptr &&
         work->torch_profiler_records();
}

}  // namespace

bool HasLostCupti(Work* work, bool is_silent) {
  if (g_tracer.is_taken()) return true;
  const bool is_taken = g_pool.foreign_count() != 0 || TorchRecords(work) ||
                        (is_silent && work->answers && !IsAnswered(work));
  if (!is_taken) return false;
  // Kineto does not know the buffers that CUPTI still has from us, so what CUPTI writes there is
  // lost to it. Without them, CUPTI asks it for buffers.
  if (TorchRecords(work)) g_tracer.Flush(false);
  g_tracer.Abandon();
  EndForOtherTool(work, "another tool has taken CUPTI over");
  return true;
}

// ---- Status

namespace {

// While CUPTI is in the process, each call of CUDA costs more: 24 to 37 % of a host-bound step
// (H200, CUPTI 13.0). Finalizing CUPTI ends that, and later captures record as before. It happens
// in a later call of the program's, which may be the next profiler's.
bool ShouldFinalize(const Work* work) {
  return !g_claim.is_requested() &&
         ((g_arm.flags & wire::kArmGpuDetach) != 0 || !work->decoder.may_miss_nodes());
}

void FillStatus(Work* work) {
  wire::GpuStatusEvent& status = work->status;
  status.header = {sizeof(status), static_cast<uint8_t>(wire::EventKind::kGpuStatus), 0, 0};
  status.driver_version = work->driver.version;
  status.cupti_version = work->library.version;
  if (work->library.simulated) status.flags |= wire::kGpuStatusSimulated;
  if (g_tracer.is_dead()) status.flags |= wire::kGpuStatusFatal;
  if (work->clock.sample_count() != 0) status.clock_error_ns = work->clock.error_ns();
  status.clock_step_count = work->clock.step_count();
  g_tracer.ReportKinds(&status);
  const uint64_t* counts = work->decoder.counts();
  for (uint32_t i = 0; i < wire::kGpuCountCount; ++i) status.counts[i] = counts[i];
  if (!work->is_tracing) return;
  if (!ShouldFinalize(work) || !g_tracer.CanFinalize()) status.flags |= wire::kGpuStatusStays;
  status.peak_pool_bytes = g_pool.peak_bytes();
  status.counts[wire::kGpuNoBuffer] = g_pool.discarded_count();
  status.counts[wire::kGpuRecords] += g_pool.discarded_count();
}

bool WriteStatus(Work* work) {
  CaptureWriter::Turn turn(&g_writer);
  if (!turn.is_open()) return true;  // It is not read any more.
  EventSink* sink = g_writer.sink();
  FillStatus(work);
  if (static_cast<size_t>(sink->end - sink->at) < sizeof(work->status) &&
      !sink->make_room(sink, sizeof(work->status))) {
    return false;
  }
  memcpy(sink->at, &work->status, sizeof(work->status));
  sink->at += sizeof(work->status);
  return true;
}

// The last one says what was lost, so it is worth waiting for the daemon to make room.
void WriteLastStatus(Work* work) {
  const uint64_t deadline_ns = NowNs() + kLastStatusTimeoutNs;
  while (!WriteStatus(work) && NowNs() < deadline_ns) g_bell.Sleep(g_bell.count(), kFlushPauseNs);
  CaptureWriter::Turn turn(&g_writer);
  if (turn.is_open()) g_writer.Finish();
}

// ---- Arm

bool FailArm(ArmFailedReason reason, const char* text) {
  g_failure.reason = reason;
  snprintf(g_failure.text, sizeof(g_failure.text), "%s", text);
  return false;
}

// True without tracing: the capture goes on without a GPU.
bool GoOnWithoutCuda(Work* work) {
  if ((g_arm.flags & wire::kArmGpuRequired) != 0) {
    return FailArm(ArmFailedReason::kNoCuda, gpu_part::kNoCudaText);
  }
  work->status.flags |= wire::kGpuStatusNoCuda;
  return true;
}

// Counts the records of earlier captures that have come since. They are not needed.
void CountStale(Work* work) {
  BufferPool::Returned buffer;
  while (g_pool.TakeReturned(&buffer)) {
    const uint64_t count = CountRecords(g_library.record_bytes, buffer.bytes, buffer.valid_bytes);
    work->decoder.counts()[wire::kGpuRecords] += count;
    work->decoder.counts()[wire::kGpuStale] += count;
    g_pool.Recycle(buffer);
  }
}

// torch.profiler records, or is about to.
bool TorchHasCupti(const Work* work) { return TorchRecords(work) || g_claim.is_requested(); }

bool FailForTorch() {
  return FailArm(ArmFailedReason::kCuptiBusy,
                 "torch.profiler records in this process; wait for its end, and try again");
}

// A tool that uses CUPTI without a subscription, which would have been refused to us.
bool FailForOtherTool() {
  g_tracer.Detach(false);
  return FailArm(ArmFailedReason::kCuptiBusy,
                 "another tool in this process has buffers in CUPTI, without a subscription; stop "
                 "it, or wait for its end, and try again");
}

bool AttachAndEnable(Work* work) {
  // A mode of a newer daemon's is more than the most that we have.
  constexpr auto kMost = static_cast<uint32_t>(wire::GpuMode::kFull);
  const uint32_t mode = g_arm.gpu_mode < kMost ? g_arm.gpu_mode : kMost;
  g_tracer.Begin(&g_library, static_cast<wire::GpuMode>(mode), g_arm.flags, work->device_buffers);
  const RecordDecoder::Setup setup{.record_bytes = g_library.record_bytes,
                                   .clock = &work->clock,
                                   .callback_name = g_library.GetCallbackName,
                                   .api_filter = g_tracer.api_filter(),
                                   .max_records = g_arm.gpu_max_records,
                                   .begin_ticks = work->arm_begin_ticks};
  work->decoder.Begin(setup);
  work->dump.Begin(g_library, work->driver.version, setup);
  CountStale(work);
  g_tracer.set_stage("making buffers for CUPTI");
  if (!g_pool.Open(g_arm.gpu_buffer_bytes, g_library.record_bytes,
                   g_library.version >= cupti::kVersion12_9)) {
    return FailArm(ArmFailedReason::kMemory,
                   "no memory for CUPTI's buffers; capture with less, or with --gpu off");
  }
  if (!g_tracer.Attach(kBufferCallbacks, &g_failure)) return false;
  // Before a kind is on, so that none has to be turned off again.
  g_tracer.Flush(false);
  if (g_pool.foreign_count() != 0) return FailForOtherTool();
  SampleClock(work);
  if (!g_tracer.EnableKinds(&g_failure)) {
    g_tracer.Detach(false);
    return false;
  }
  work->decoder.set_records_decompression(g_tracer.records_decompression());
  work->enabled_since_ns = NowNs();
  g_tracer.DescribeDevices();
  g_tracer.Flush(false);
  DecodeUntil(work, kProbeTimeoutNs, [] { return g_pool.CountHoldingRecords() == 0; });
  if (g_pool.foreign_count() != 0) {
    g_tracer.Abandon();
    return FailForOtherTool();
  }
  work->answers = work->decoder.has_device() && IsAnswered(work);
  if (!work->decoder.has_device()) {
    DescribeByDriver(work->driver, &g_writer, &work->decoder);
    work->dump.AddDevices(work->decoder);
  }
  return true;
}

// Work that was launched before kernels were turned on has no record, so the GPU would look idle
// while it runs. A stream runs its work in order: once the work of the first recorded launches has
// run, so has what was launched before them. Waits for that, or, where CUPTI keeps the records of
// calls until their work has run, for its buffers. Not for a program that launches nothing at
// first, and not without records of calls. The report leaves out what is unknown after that
// (daemon/report/index/earlier_work.h).
void AwaitEarlierWork(Work* work) {
  if (!work->decoder.knows_calls()) return;
  const uint64_t deadline_ns = NowNs() + kEarlierWorkTimeoutNs;
  uint32_t last = 0;
  bool is_kept = false;  // CUPTI has records that it did not hand over.
  uint64_t pause_ns = kFlushPauseNs;
  for (;;) {
    if (last == 0) last = work->decoder.LastEarlyLaunch();
    const uint64_t now_ns = NowNs();
    const bool is_done = last != 0
                             ? work->decoder.CountEarlyLaunchesWithoutWork(last) == 0
                             : now_ns - work->enabled_since_ns >= kFirstLaunchTimeoutNs && !is_kept;
    if (is_done || now_ns >= deadline_ns || ShouldLeaveCupti() || g_tracer.is_dead() ||
        g_pool.foreign_count() != 0) {
      return;
    }
    g_tracer.Flush(false);
    g_tracer.set_stage("waiting for GPU work that was launched before the capture");
    const uint32_t seen = g_bell.count();
    is_kept = g_pool.CountHoldingRecords() != 0;
    if (!DecodeReturned(work)) g_bell.Sleep(seen, pause_ns);
    // CUPTI's locks are the program's, too: later and later.
    if ((last != 0 || is_kept) && pause_ns < kLongestEarlierPauseNs) pause_ns *= 2;
  }
}

bool Arm(Work* work) {
  work->arm_begin_ns = NowNs();
  work->arm_begin_ticks = ReadTicks();
  g_tracer.Begin(&g_library, wire::GpuMode::kOff, 0, 0);
  g_tracer.set_stage("looking for CUDA");
  if (g_is_forked_child || !FindCudaDriver(&work->driver)) return GoOnWithoutCuda(work);
  work->torch_profiler_records = FindTorchProfiler();
  if (TorchHasCupti(work)) return FailForTorch();
  g_tracer.set_stage("asking for free memory on the GPUs");
  if (!DevicesHaveRoom(work->driver, &work->device_buffers, &g_failure)) return false;
  g_tracer.set_stage("loading CUPTI");
  const bool is_covered = g_exit_is_covered;
  if (!is_covered) g_exit_gate.Register(OnExit);
  if (!FindCupti(work->driver, &work->library, &g_failure)) return false;
  g_cupti_touched.store(true, std::memory_order_relaxed);
  g_library = work->library;
  if (TorchHasCupti(work)) return FailForTorch();
  if (!AttachAndEnable(work)) return false;
  // Again, before the handlers that CUPTI has registered meanwhile.
  if (!is_covered) g_exit_gate.Register(OnExit);
  g_exit_is_covered = true;
  work->is_tracing = true;
  work->status.arm_ms = static_cast<uint32_t>((NowNs() - work->arm_begin_ns) / kNsPerMs);
  AwaitEarlierWork(work);
  const uint64_t now_ns = NowNs();
  work->enabled_since_ns = now_ns;
  work->last_flush_ns = now_ns;
  work->plan_deadline_ns = now_ns + kPlanPatienceNs;
  return true;
}

// ---- Record

// What a step took of late; 0: not known.
uint64_t RecentStepTicks() {
  const uint64_t marks = StepMarkCount();
  const uint64_t first = marks > 8 ? marks - 8 : 0;
  if (marks - first < 2) return 0;
  const auto ticks_of = [](uint64_t step) {
    return g_status_page.steps[step % wire::kStatusPageSteps].ticks.load(std::memory_order_relaxed);
  };
  const uint64_t span = ticks_of(marks - 1) - ticks_of(first);
  return span / (marks - 1 - first);
}

Nearness LookAtPlan(Work* work, const Session* session, uint64_t now_ns) {
  if (session->has_plan.load(std::memory_order_acquire) == 0) {
    return now_ns < work->plan_deadline_ns ? Nearness::kNear : Nearness::kFar;
  }
  const uint64_t steps = StepsUntilRecording(*session);
  if (steps == kNoSteps) return Nearness::kFar;
  // The times of steps that a range marks are not kept.
  const uint64_t step_ticks = session->step_marker == wire::kNoNameId ? RecentStepTicks() : 0;
  if (steps <= 1 || step_ticks == 0) return Nearness::kNear;
  const double until_ns =
      static_cast<double>(steps) * static_cast<double>(step_ticks) / work->clock.ticks_per_ns();
  if (until_ns < static_cast<double>(kNearNs)) return Nearness::kNear;
  return until_ns < static_cast<double>(kFarNs) ? Nearness::kBetween : Nearness::kFar;
}

// Whether kinds are to be on. Between near and far they stay as they are.
bool WantsKinds(Work* work, uint64_t now_ns) {
  if ((work->status.flags & wire::kGpuStatusEndedByCap) != 0 || g_tracer.is_dead() ||
      g_tracer.is_taken()) {
    return false;
  }
  CaptureWriter::Turn turn(&g_writer);
  if (!turn.is_open()) return false;
  const Nearness nearness = LookAtPlan(work, turn.session(), now_ns);
  return nearness == Nearness::kNear || (nearness == Nearness::kBetween && g_tracer.is_enabled());
}

void SwitchKinds(Work* work, uint64_t now_ns) {
  if (WantsKinds(work, now_ns)) {
    if (g_tracer.is_enabled() && g_tracer.calls_are_enabled()) return;
    ArmFailure ignored;
    g_tracer.EnableKinds(&ignored);
    work->enabled_since_ns = NowNs();
    SampleClock(work);
    return;
  }
  if (!g_tracer.is_enabled()) return;
  DisableCalls(work);
  if (!AwaitsLaunches(work, NowNs())) g_tracer.DisableKinds();
}

// In a long window CUPTI is asked for what it has now and then, or its buffers on the GPU grow.
void FlushIfDue(Work* work, uint64_t now_ns) {
  if (!g_tracer.is_enabled() || now_ns - work->enabled_since_ns < kFirstFlushNs ||
      now_ns - work->last_flush_ns < kFlushPeriodNs) {
    return;
  }
  // Records that do not come back, and no request for a buffer since the last flush.
  const uint64_t signs_of_life = g_pool.CountSignsOfLife();
  const bool is_silent =
      signs_of_life == work->seen_signs_of_life && g_pool.CountHoldingRecords() != 0;
  if (HasLostCupti(work, is_silent)) return;
  g_tracer.Flush(false);
  work->seen_signs_of_life = signs_of_life;
  work->last_flush_ns = NowNs();
}

void Record(Work* work) {
  while (!ShouldLeaveCupti()) {
    const uint32_t seen = g_bell.count();
    const uint64_t now_ns = NowNs();
    HasLostCupti(work, false);
    SwitchKinds(work, now_ns);
    FlushIfDue(work, now_ns);
    if (now_ns - work->clock.last_sample_ns() >= kClockPeriodNs) SampleClock(work);
    DecodeReturned(work);
    if (work->decoder.over_cap() && (work->status.flags & wire::kGpuStatusEndedByCap) == 0) {
      work->status.flags |= wire::kGpuStatusEndedByCap;
      continue;
    }
    if (ShouldLeaveCupti()) return;
    g_tracer.set_stage("waiting");
    // Buffers wake it. What it has to look for itself are steps.
    g_bell.Sleep(seen, g_tracer.is_enabled()              ? kFlushPeriodNs / 4
                       : work->nearness == Nearness::kFar ? kFarWatchPeriodNs
                                                          : kWatchPeriodNs);
  }
}

// ---- The thread

// After arming: the threads that CUPTI makes meanwhile inherit this one's niceness, and stay. On a
// busy node they would fall behind, and CUPTI's buffers on the GPU run out.
void BeNice() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  if (getpriority(PRIO_PROCESS, thread) < kNiceness) setpriority(PRIO_PROCESS, thread, kNiceness);
}

// Of a window that has been drained.
void LeaveCupti(Work* work) {
  const bool finalize = ShouldFinalize(work);
  g_tracer.Detach(finalize);
  if (finalize) g_exit_is_covered = false;
  if (g_tracer.is_taken()) g_pool.GiveUpOutstanding();
  // What came back meanwhile is nobody's.
  BufferPool::Returned buffer;
  while (g_pool.TakeReturned(&buffer)) g_pool.Recycle(buffer);
  g_pool.Close();
  g_claim.Release();
}

// Lets another profiler have CUPTI, and waits for the capture's end without it.
void GiveCuptiUp(Work* work) {
  LeaveCupti(work);
  while (!ShouldStop()) g_bell.Sleep(g_bell.count(), kNsPerSecond);
}

void Run(Work* work) {
  const bool is_armed = Arm(work);
  BeNice();
  if (!is_armed) {
    work->dump.Finish();
    g_pool.Close();
    SetState(State::kFailed);
    return;
  }
  WriteStatus(work);
  SetState(State::kArmed);
  bool has_left = false;
  if (work->is_tracing) {
    Record(work);
    if (g_claim.is_requested()) EndForOtherTool(work, "torch.profiler begins");
    Drain(work);
    has_left = g_claim.is_requested() && !ShouldStop();
    if (has_left) GiveCuptiUp(work);
  } else {
    g_claim.Release();
    while (!ShouldStop()) g_bell.Sleep(g_bell.count(), kNsPerSecond);
  }
  WriteLastStatus(work);
  work->dump.Finish();
  SetState(State::kDrained);
  if (work->is_tracing && !has_left && !g_exit_gate.is_leaving()) LeaveCupti(work);
}

void* RunThread(void*) {
  EnterLibraryThread(LibraryThread::kGpu);
  prctl(PR_SET_NAME, "profd-gpu", 0, 0, 0);
  void* memory = mmap(nullptr, sizeof(Work), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    FailArm(ArmFailedReason::kMemory, "no memory for the GPU part of the capture");
    SetState(State::kFailed);
  } else {
    madvise(memory, sizeof(Work), MADV_DONTFORK);
    Run(new (memory) Work{});
    munmap(memory, sizeof(Work));
  }
  g_tracer.set_stage("idle");
  g_claim.Release();
  g_exit_gate.Leave();
  g_is_running.store(false, std::memory_order_release);
  WakeAgentForGpu();
  EndLibraryThread(LibraryThread::kGpu);
  return nullptr;
}

}  // namespace
}  // namespace profd::client::gpu

namespace profd::client::gpu_part {

bool IsCudaLoaded() { return IsCudaDriverLoaded(); }

bool Start(Session* session, const wire::ArmBody& arm) {
  if (gpu::g_is_running.load(std::memory_order_acquire) || gpu::g_exit_gate.is_leaving())
    return false;
  gpu::g_arm = arm;
  gpu::g_failure = {};
  gpu::g_stop.store(false, std::memory_order_relaxed);
  gpu::g_given_up.store(false, std::memory_order_relaxed);
  gpu::g_has_left.store(false, std::memory_order_relaxed);
  gpu::g_writer.Begin(session);
  gpu::g_state.store(State::kArming, std::memory_order_relaxed);
  gpu::g_tracer.set_stage("starting");
  gpu::g_is_running.store(true, std::memory_order_release);
  gpu::g_exit_gate.Enter();
  gpu::g_claim.Hold();
  // The helper, which calls this, has the program's descriptors. So has the thread, and so have the
  // threads that CUPTI makes on it.
  if (StartLibraryThread(LibraryThread::kGpu, gpu::RunThread, nullptr, gpu::kStackBytes)) {
    return true;
  }
  gpu::g_claim.Release();
  gpu::g_exit_gate.Leave();
  gpu::g_writer.Leave();
  gpu::g_is_running.store(false, std::memory_order_relaxed);
  gpu::g_state.store(State::kNone, std::memory_order_relaxed);
  return false;
}

State GetState() { return gpu::g_state.load(std::memory_order_acquire); }
wire::ArmFailedReason FailureReason() { return gpu::g_failure.reason; }
const char* FailureText() { return gpu::g_failure.text; }
const char* Stage() { return gpu::g_tracer.stage(); }
bool HasLeft() { return gpu::g_has_left.load(std::memory_order_acquire); }
void OnPlan() { gpu::g_bell.Ring(); }

void RequestStop() {
  gpu::g_stop.store(true, std::memory_order_release);
  gpu::g_bell.Ring();
}

void LeaveSession() {
  const State state = GetState();
  if (state == State::kArming || state == State::kArmed) {
    gpu::g_given_up.store(true, std::memory_order_relaxed);
  }
  gpu::g_writer.Leave();
  RequestStop();
}

bool IsStuck() {
  // Read first: the thread may begin with something else at any time.
  const uint64_t stage_begin_ns = gpu::g_tracer.stage_begin_ns();
  return gpu::g_is_running.load(std::memory_order_acquire) &&
         gpu::g_given_up.load(std::memory_order_relaxed) &&
         gpu::NowNs() - stage_begin_ns > gpu::kStuckNs;
}

void ClaimCupti() {
  if (gpu::g_claim.Claim([] { gpu::g_bell.Ring(); })) return;
  Log(LogLevel::kWarning, "torch.profiler begins while a capture is in a call of CUPTI (%s)",
      Stage());
}

void DropCuptiClaim() { gpu::g_claim.Drop(); }

void ResetInChild() {
  if (gpu::g_cupti_touched.load(std::memory_order_relaxed)) gpu::g_is_forked_child = true;
  gpu::g_exit_gate.Leave();
  gpu::g_writer.Leave();
  gpu::g_pool.ResetInChild();
  gpu::g_claim.ResetInChild();
  gpu::g_state.store(State::kNone, std::memory_order_relaxed);
  gpu::g_is_running.store(false, std::memory_order_relaxed);
  gpu::g_stop.store(false, std::memory_order_relaxed);
  gpu::g_given_up.store(false, std::memory_order_relaxed);
  gpu::g_has_left.store(false, std::memory_order_relaxed);
  gpu::g_bell.ResetInChild();
}

}  // namespace profd::client::gpu_part
