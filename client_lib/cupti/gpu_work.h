// What the files of the GPU thread share: gpu_session.cc, which has the thread, arming, and
// recording, and gpu_drain.cc, which has a window's end.
//
// Threads: the GPU thread's, but for what says otherwise.
#ifndef PROFD_CLIENT_LIB_CUPTI_GPU_WORK_H_
#define PROFD_CLIENT_LIB_CUPTI_GPU_WORK_H_

#include <cstdint>

#include "client_lib/core/session.h"
#include "client_lib/cupti/buffer_dump.h"
#include "client_lib/cupti/buffer_pool.h"
#include "client_lib/cupti/capture_writer.h"
#include "client_lib/cupti/cupti_claim.h"
#include "client_lib/cupti/cupti_library.h"
#include "client_lib/cupti/cupti_tracer.h"
#include "client_lib/cupti/exit_gate.h"
#include "client_lib/cupti/gpu_clock.h"
#include "client_lib/cupti/record_decoder.h"
#include "client_lib/cupti/rivals.h"
#include "client_lib/cupti/wake_bell.h"
#include "proto/wire/event.h"

namespace profd::client::gpu {

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kNsPerSecond = 1'000'000'000;

// Between looks for buffers.
constexpr uint64_t kFlushPauseNs = 10 * kNsPerMs;
// For CUPTI's answer to a question.
constexpr uint64_t kProbeTimeoutNs = 100 * kNsPerMs;

// How far away the next recorded step is.
enum class Nearness { kNear, kBetween, kFar };

// What the thread needs and nobody else sees. Mapped while it runs.
struct Work {
  CuptiLibrary library;
  CudaDriver driver;
  GpuClock clock;
  RecordDecoder decoder;
  BufferDump dump;
  wire::GpuStatusEvent status;
  uint64_t arm_begin_ns;
  uint64_t arm_begin_ticks;
  uint64_t enabled_since_ns;
  uint64_t last_flush_ns;
  uint64_t plan_deadline_ns;
  uint64_t calls_off_ns;  // When records of API calls went off.
  uint64_t seen_work_count;
  uint64_t last_work_ns;  // When records of work were last seen, since then.
  uint64_t no_chunk_reported;
  uint32_t device_buffers;                      // That CUPTI may allocate on each device.
  TorchProfilerRecords torch_profiler_records;  // Null: not known.
  Nearness nearness;
  bool answers;  // A device that is described again is seen, so silence means something.
  uint64_t seen_signs_of_life;
  bool is_tracing;
};

// What is shared between the GPU thread, the agent and CUPTI's callbacks. Static: CUPTI keeps the
// callbacks, and calls them, for as long as the process lives.
extern constinit BufferPool g_pool;
extern constinit CaptureWriter g_writer;
extern constinit ExitGate g_exit_gate;
extern constinit CuptiTracer g_tracer;
extern constinit WakeBell g_bell;  // Of the thread.
extern constinit CuptiClaim g_claim;

inline uint64_t NowNs() { return wire::ReadMonotonicNs(); }

// Tells the decoder where the windows that have begun are.
void SetWindow(RecordDecoder* decoder, const Session* session);
// Drops for want of a chunk, where the daemon looks for drops.
void ReportDrops(Work* work, Session* session);

// Decodes all that came back. False: there was nothing.
bool DecodeReturned(Work* work);

// Decodes what comes back until `done`, `timeout_ns` at most.
template <typename Done>
bool DecodeUntil(Work* work, uint64_t timeout_ns, const Done& done) {
  const uint64_t deadline_ns = NowNs() + timeout_ns;
  for (;;) {
    const uint32_t seen = g_bell.count();
    const bool is_done = done();
    DecodeReturned(work);
    if (is_done) return true;
    const uint64_t now_ns = NowNs();
    if (now_ns >= deadline_ns) return false;
    g_bell.Sleep(seen, deadline_ns - now_ns < kFlushPauseNs ? deadline_ns - now_ns : kFlushPauseNs);
  }
}

// Whether another tool has CUPTI now; then the session is over. `is_silent`: nothing has been seen
// of CUPTI where something was to be expected.
bool HasLostCupti(Work* work, bool is_silent);

}  // namespace profd::client::gpu

#endif  // PROFD_CLIENT_LIB_CUPTI_GPU_WORK_H_
