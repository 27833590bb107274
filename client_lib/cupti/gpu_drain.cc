#include "client_lib/cupti/gpu_drain.h"

#include "client_lib/cupti/launch_tracker.h"

namespace profd::client::gpu {
namespace {

// For work of the window to end, for what may make no record, for buffers to come back, for CUPTI's
// worker to write to empty ones; between looks. The agent's kGpuDrainTimeoutNs has room for all.
constexpr uint64_t kLaunchTimeoutNs = 7 * kNsPerSecond;
constexpr uint64_t kGraceNs = 500 * kNsPerMs;
constexpr uint64_t kReturnTimeoutNs = 2 * kNsPerSecond;
constexpr uint64_t kWriteTimeoutNs = 100 * kNsPerMs;
constexpr uint64_t kReflushNs = 150 * kNsPerMs;
constexpr uint64_t kLongestFlushPauseNs = 100 * kNsPerMs;
// While another profiler waits for CUPTI: CuptiClaim::kTimeoutNs has room for both.
constexpr uint64_t kClaimedLaunchTimeoutNs = 200 * kNsPerMs;
constexpr uint64_t kClaimedReturnTimeoutNs = 300 * kNsPerMs;

uint64_t LaunchTimeoutNs() {
  return g_claim.is_requested() ? kClaimedLaunchTimeoutNs : kLaunchTimeoutNs;
}

uint64_t ReturnTimeoutNs() {
  if (g_exit_gate.is_leaving()) return g_exit_gate.wait_ms() * kNsPerMs / 2;
  return g_claim.is_requested() ? kClaimedReturnTimeoutNs : kReturnTimeoutNs;
}

bool CannotGoOn(Work* work) {
  return g_tracer.is_dead() || HasLostCupti(work, false) || work->decoder.over_cap();
}

// Asks for what is complete first, which most programs have.
bool HasLostCuptiAfterFlush(Work* work) {
  if (HasLostCupti(work, false)) return true;
  const uint64_t before = g_pool.CountSignsOfLife();
  g_tracer.Flush(false);
  const bool is_alive =
      DecodeUntil(work, kFlushPauseNs, [before] { return g_pool.CountSignsOfLife() != before; });
  return HasLostCupti(work, !is_alive);
}

// Has CUPTI hand over records until the window's launches have run. Later and later, as CUPTI's
// locks are the program's, too.
void AwaitLaunches(Work* work) {
  uint64_t pause_ns = kFlushPauseNs;
  for (;;) {
    const uint32_t seen = g_bell.count();
    g_tracer.Flush(false);
    DecodeUntil(work, kFlushPauseNs, [] { return g_pool.CountHoldingRecords() == 0; });
    if (g_pool.marked() == 0) work->decoder.set_leaves_out_later_work();
    if (!AwaitsLaunches(work, NowNs())) return;
    g_bell.Sleep(seen, pause_ns);
    pause_ns = pause_ns * 2 < kLongestFlushPauseNs ? pause_ns * 2 : kLongestFlushPauseNs;
  }
}

// Of the window's calls and of what they launched, everything is here. With graphs it is not known:
// the launch has work once one of its nodes is here.
bool IsWindowWhole(Work* work) {
  const uint64_t* counts = work->decoder.counts();
  if (!work->decoder.knows_calls() || work->calls_off_ns == 0 || g_tracer.calls_are_enabled() ||
      g_pool.marked() != 0 || work->decoder.may_miss_nodes() ||
      counts[wire::kGpuDroppedByCupti] + counts[wire::kGpuCorrupt] + g_pool.discarded_count() !=
          0) {
    return false;
  }
  const LaunchTracker::Missing missing = work->decoder.MissingWork();
  return missing.launches == 0 && missing.copies == 0 && missing.callless == 0;
}

// Counts the buffers that CUPTI has not returned and may still write to. Work that was launched
// after the window is often still under way, and is no loss.
void CountLostBuffers(Work* work) {
  if (IsWindowWhole(work)) return;
  work->decoder.counts()[wire::kGpuLostBuffers] +=
      g_pool.CountHoldingRecords() + g_pool.stray_count();
}

// After the last flush. Work that was under way then may still be written to a buffer, which takes
// another flush to come back. Later and later, as CUPTI's locks are the program's, too.
void AwaitBuffers(Work* work) {
  const uint64_t flush_ns = NowNs();
  const auto is_done = [flush_ns] {
    // CUPTI may keep a buffer for each thread, and is no longer about to write to it.
    return g_pool.outstanding() == 0 ||
           (g_pool.CountHoldingRecords() == 0 && NowNs() - flush_ns > kWriteTimeoutNs);
  };
  for (uint64_t pause_ns = kReflushNs;; pause_ns *= 2) {
    const uint64_t waited_ns = NowNs() - flush_ns;
    const uint64_t timeout_ns = ReturnTimeoutNs();
    if (waited_ns >= timeout_ns) return;
    const uint64_t left_ns = timeout_ns - waited_ns;
    if (DecodeUntil(work, left_ns < pause_ns ? left_ns : pause_ns, is_done)) return;
    if (g_exit_gate.is_leaving() || CannotGoOn(work) || IsWindowWhole(work)) return;
    g_tracer.Flush(false);
  }
}

// Has CUPTI hand over everything, and turns the kinds off.
void DrainCupti(Work* work) {
  const bool is_exiting = g_exit_gate.is_leaving();
  const uint64_t begin_ns = NowNs();
  if (!is_exiting && HasLostCuptiAfterFlush(work)) return CountLostBuffers(work);
  DisableCalls(work);
  if (g_tracer.is_enabled()) AwaitLaunches(work);
  // Again, if another tool had time to come.
  const bool has_waited = NowNs() - begin_ns > kProbeTimeoutNs;
  if (HasLostCupti(work, has_waited && !g_exit_gate.is_leaving())) return CountLostBuffers(work);
  g_tracer.DisableKinds();
  work->decoder.set_is_last_flush();
  g_tracer.Flush(true);
  AwaitBuffers(work);
  CountLostBuffers(work);
  g_tracer.set_stage("counting what CUPTI dropped");
  work->decoder.counts()[wire::kGpuDroppedByCupti] += g_tracer.TakeDropCount();
  if (g_exit_gate.is_leaving()) {
    work->status.flags |= wire::kGpuStatusExited;
    return;
  }
  const bool is_silent = g_pool.CountHoldingRecords() != 0;
  if (!HasLostCupti(work, is_silent) && is_silent) {
    // The answer came with a flush.
    DecodeUntil(work, kProbeTimeoutNs, [] { return g_pool.CountHoldingRecords() == 0; });
  }
}

}  // namespace

void DisableCalls(Work* work) {
  if (!g_tracer.calls_are_enabled()) return;
  g_tracer.DisableCalls();
  g_pool.MarkOutstanding();
  work->calls_off_ns = NowNs();
}

bool AwaitsLaunches(Work* work, uint64_t now_ns) {
  const uint64_t waited_ns = now_ns - work->calls_off_ns;
  if (CannotGoOn(work) || !g_writer.has_session() || waited_ns >= LaunchTimeoutNs() ||
      g_exit_gate.is_leaving()) {
    return false;
  }
  if (g_pool.marked() != 0) {
    // Without records of calls it is unknown which work the window launched.
    return work->decoder.knows_calls() || waited_ns < kGraceNs;
  }
  if (work->decoder.work_count() != work->seen_work_count) {
    work->seen_work_count = work->decoder.work_count();
    work->last_work_ns = now_ns;
  }
  const LaunchTracker::Missing missing = work->decoder.MissingWork();
  // Where records have been lost, these may be the ones that are missing.
  uint64_t* counts = work->decoder.counts();
  counts[wire::kGpuDroppedByCupti] += g_tracer.TakeDropCount();
  const bool has_losses = counts[wire::kGpuDroppedByCupti] + g_pool.discarded_count() != 0;
  if (missing.launches != 0 && !has_losses) return true;
  const uint64_t quiet_since_ns =
      work->last_work_ns > work->calls_off_ns ? work->last_work_ns : work->calls_off_ns;
  return (missing.launches != 0 || missing.copies != 0 || missing.callless != 0 ||
          work->decoder.may_miss_nodes()) &&
         now_ns - quiet_since_ns < kGraceNs;
}

void Drain(Work* work) {
  if (g_tracer.is_taken()) {
    CountLostBuffers(work);
  } else if (!g_tracer.is_dead()) {
    DrainCupti(work);
  }
  DecodeReturned(work);
  work->decoder.SettleUntimed();
  // What came with the last buffers may be what went over it.
  if (work->decoder.over_cap()) work->status.flags |= wire::kGpuStatusEndedByCap;
  CaptureWriter::Turn turn(&g_writer);
  if (!turn.is_open()) return;
  SetWindow(&work->decoder, turn.session());
  work->decoder.Flush(g_writer.sink());
  const uint64_t* counts = work->decoder.counts();
  const bool may_have_lost_calls = g_tracer.is_taken() || g_tracer.is_dead() ||
                                   counts[wire::kGpuDroppedByCupti] +
                                           counts[wire::kGpuLostBuffers] +
                                           counts[wire::kGpuCorrupt] + g_pool.discarded_count() !=
                                       0;
  if (work->decoder.SettleCalls() && !may_have_lost_calls) {
    g_tracer.ReportSilentKind(cupti::kKindDriver);
  }
  if (turn.session() != nullptr) ReportDrops(work, turn.session());
}

}  // namespace profd::client::gpu
