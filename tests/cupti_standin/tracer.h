// Tracer is the activity side of the stand-in: it knows which kinds are on, writes records into the
// buffers that the client gives, and hands them back.
//
//   API call ends ── the caller writes its record ──────────────┐
//   work is submitted ── pending ── it ends, some ms pass ──────┤
//                                   (worker, or who flushes)    ▼
//        client's bufferRequested ◄── no room ── lane: one thread's buffer, or everybody's
//                                                               │ full, or flushed
//        client's bufferCompleted ◄─────────────────────────────┘ (worker, or who flushes)
//
// From 13.0 each thread has a lane, and the device's records one of their own; before, all share
// one, unless the client asks otherwise (PER_THREAD_ACTIVITY_BUFFER).
//
// Threads:    any. The worker is started by what first needs it.
// Locks:      emit_mu_, then a lane's, then queue_mu_ or pending_mu_. The client is called under
// none
//             but emit_mu_; with the setting lock_strict, under StrictLock too.
// Ownership:  never destroyed; lanes and the worker live as long as the process.
// Fork:       a child must use nothing of it: Forked() says so.
#ifndef PROFD_TESTS_CUPTI_STANDIN_TRACER_H_
#define PROFD_TESTS_CUPTI_STANDIN_TRACER_H_

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/cupti_standin/cupti_api.h"
#include "tests/cupti_standin/gpu.h"
#include "tests/cupti_standin/records.h"
#include "tests/cupti_standin/work.h"

namespace sgpu {

constexpr uint32_t kCallbackIds = 1024;
constexpr uint32_t kExternalKinds = 8;

// CUpti_ActivityAttribute
enum AttributeId : uint32_t {
  kDeviceBufferSize = 0,
  kDeviceBufferPoolLimit = 2,
  kZeroedOutBuffer = 5,
  kDeviceBufferPreallocated = 6,
  kPerThreadBuffer = 9,
};

// A buffer of the client.
struct Buffer {
  uint8_t* data;
  size_t size;
  size_t max_records;  // 0: as many as fit.
  size_t used = 0;
  size_t records = 0;
  std::atomic<uint32_t> reserved{0};  // Records in it that are not written yet.
};

// Where records go one after the other.
struct Lane {
  std::mutex mu;
  // All below guarded by mu.
  std::unique_ptr<Buffer> current;
  std::array<uint64_t, kKinds> written{};
};

struct ThreadState {
  Lane lane;
  uint32_t system_id;   // gettid()
  uint32_t pthread_id;  // The low half of pthread_self().
  int in_buffer_callback = 0;
  int in_subscriber_callback = 0;
  bool holds_strict_lock = false;
  std::atomic<bool> loses_kernels{false};  // See the setting lose_threads.
  std::array<std::vector<uint64_t>, kExternalKinds> external;
  NameCache names;
  // Counted by the thread itself, read by sgpu_stats().
  std::atomic<uint64_t> launches{0};
  std::atomic<uint64_t> api_calls{0};
};

// The caller's own; made at its first use.
ThreadState& ThisThread();

// Whether this is a fork()ed child of the process that began to trace.
bool Forked();

class Tracer {
 public:
  Tracer();

  // --- Kinds ---
  bool IsOn(uint32_t kind) const { return (kinds() >> kind & 1) != 0; }
  uint64_t kinds() const { return kinds_.load(std::memory_order_relaxed); }
  CUptiResult Enable(uint32_t kind);
  CUptiResult Disable(uint32_t kind);
  // `domain`: sgpu_domain. Turning one on without its kind has no effect before 13.3, and later
  // none once the kind was on and off.
  void EnableApi(uint32_t domain, uint32_t cbid, bool on);
  bool ApiIsOn(uint32_t domain, uint32_t cbid) const {
    return api_on_[domain - 1][cbid % kCallbackIds].load(std::memory_order_relaxed) != 0;
  }
  // From the first enable until cuptiFinalize, CUPTI is in the way of each call.
  bool IsAttached() const { return was_enabled_.load(std::memory_order_relaxed); }
  // A thread that launches now loses its kernels from now on.
  bool LosesLaunchers() const { return loses_launchers_.load(std::memory_order_relaxed); }
  // How many times GRAPH_TRACE was turned on.
  uint64_t graph_trace_number() const {
    return graph_trace_number_.load(std::memory_order_relaxed);
  }
  bool AnyApiIsOn() const { return any_api_.load(std::memory_order_relaxed); }
  // The kind that work of `kind` is recorded as: 0 if nobody asked.
  uint32_t RecordedAs(Kind kind) const;
  // Writes the records of the devices, contexts or streams there are.
  void Dump(uint32_t kind);
  void DumpContext(const ContextInfo& context);
  void DumpStream(const StreamInfo& stream);

  // An API call waits here while an enable runs that stalls them.
  void WaitWhileStalled() {
    if (!stalled_.load(std::memory_order_acquire)) return;
    ++api_stalls_;
    while (stalled_.load(std::memory_order_acquire)) stalled_.wait(true);
  }

  uint32_t NextCorrelation() { return next_correlation_.fetch_add(1, std::memory_order_relaxed); }

  // --- Records ---
  // Writes `record` (its first RecordSize(kind) bytes) to the caller's lane. False: dropped.
  bool Append(uint32_t kind, const void* record);
  // The record of `op` is due when it ends. `op.work.kind` is what RecordedAs() said.
  void Submit(Op& op);
  // Makes room for the record of `op` in the caller's buffer, before it is submitted; false:
  // dropped.
  bool Reserve(Op& op);
  // Writes what is due of the device's records by now.
  void EmitFinished();

  // --- Buffers ---
  void RegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                         CUpti_BuffersCallbackCompleteFunc completed);
  void Flush(bool forced);
  void SetFlushPeriod(uint32_t period_ms);
  uint64_t TakeDropped() { return dropped_.exchange(0); }
  // The kinds and settings that the subscriber of the second interface had go with it.
  void EndSharedSubscription();
  // A subscriber of the second interface has settings of its own.
  void BeginSharedSubscription() { all_sync_records = false; }
  // Kinds off; every buffer back to the client.
  void Finalize();
  // As exit() does, in the order of its handlers: from its begin on, no function may be called.
  void RegisterTeardown();
  bool IsTornDown() const { return is_torn_down_.load(std::memory_order_seq_cst); }
  uint32_t ReturnLostBuffers();
  // As it was at first. The client's buffers are forgotten, as at the end of a process.
  void Reset();

  // --- Attributes ---
  CUptiResult GetAttribute(uint32_t attribute, size_t* size, void* value);
  CUptiResult SetAttribute(uint32_t attribute, const size_t* size, const void* value);
  std::atomic<bool> system_thread_ids{false};
  std::atomic<bool> latency_timestamps{false};
  std::atomic<bool> event_device_timestamps{false};
  std::atomic<bool> all_sync_records;  // At first, HasAllSyncRecords().
  uint32_t ThreadIdOf(const ThreadState& thread) const {
    return system_thread_ids.load(std::memory_order_relaxed) ? thread.system_id : thread.pthread_id;
  }

  // Sets what it counted in `stats`, which is zero.
  void AddTo(sgpu_stats_rec& stats);
  void AddThread(ThreadState& thread);

 private:
  friend class BufferCallback;

  Lane& LaneOf(ThreadState& thread) { return PerThread() ? thread.lane : shared_lane_; }
  Lane& DeviceLane() { return PerThread() ? device_lane_ : shared_lane_; }
  bool PerThread() const { return per_thread_.load(std::memory_order_relaxed); }

  // Room for `size` bytes of a record of `kind` in `lane`; `use` gets them under the lane's lock.
  template <typename Use>
  bool WithRoom(Lane& lane, uint32_t kind, const Use& use);
  bool AppendTo(Lane& lane, uint32_t kind, const void* record);
  std::unique_ptr<Buffer> RequestBuffer(Lane& lane);
  void CheckOrZero(const Buffer& buffer);
  void Retire(std::unique_ptr<Buffer> buffer);
  void Complete(std::unique_ptr<Buffer> buffer);
  void Deliver(const Buffer& buffer, size_t valid_bytes);
  void CompleteFull();
  void CountDrop() {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    all_dropped_.fetch_add(1, std::memory_order_relaxed);
  }

  // All work that ended `delay_ns` ago or earlier; forced: all, ended or not. emit_mu_ held.
  void Emit(uint64_t delay_ns, bool forced);
  void Write(const Op& op, bool is_finished);
  void WriteRecord(const Op& op, uint32_t kind, const void* record);

  // On by default from 12.9 on. 12.8 has the switch.
  static bool HasAllSyncRecords();
  void TurnKindsOff();
  void StallCalls(int64_t ms);
  void GiveKernelsBack();
  void SettleAttributes();
  void ForgetCounts();

  void StartWorker();
  void WorkerLoop();

  std::atomic<uint64_t> kinds_{0};
  std::array<std::array<std::atomic<uint8_t>, kCallbackIds>, 2> api_on_{};
  std::array<std::atomic<bool>, 2> api_was_off_{};  // The kind was on, and turned off.
  std::atomic<bool> any_api_{false};
  std::atomic<uint64_t> graph_trace_number_{0};
  std::atomic<bool> loses_launchers_{false};
  std::atomic<bool> stalled_{false};
  std::atomic<bool> was_enabled_{false};
  std::atomic<bool> has_teardown_{false};
  std::atomic<bool> is_torn_down_{false};
  std::atomic<bool> is_poisoned_{false};
  std::atomic<uint32_t> next_correlation_{1};

  std::atomic<CUpti_BuffersCallbackRequestFunc> requested_{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> completed_{nullptr};
  std::atomic<uint64_t> dropped_{0};

  std::atomic<bool> per_thread_{false};
  std::atomic<bool> client_zeroes_{false};
  std::atomic<uint64_t> device_buffer_records_{0};  // 0: the defaults are not set yet.
  std::atomic<uint64_t> device_buffer_limit_{0};
  std::mutex attributes_mu_;
  std::map<uint32_t, uint64_t> attributes_;  // Guarded by attributes_mu_.

  Lane shared_lane_;
  Lane device_lane_;
  std::mutex threads_mu_;
  std::deque<ThreadState*> threads_;  // Guarded by threads_mu_.

  std::mutex emit_mu_;
  std::map<uint32_t, std::deque<Op>> waiting_;  // By stream; guarded by emit_mu_.
  uint64_t written_by_device_ = 0;              // Guarded by emit_mu_.

  std::mutex pending_mu_;
  std::vector<Op> pending_;               // Guarded by pending_mu_.
  std::atomic<uint64_t> on_device_{0};    // Submitted and not written yet.
  std::atomic<uint64_t> device_room_{0};  // What the device's buffers so far hold.

  std::mutex queue_mu_;
  std::condition_variable queue_changed_;
  // All below guarded by queue_mu_.
  std::deque<std::unique_ptr<Buffer>> full_;
  struct LateBuffer {
    uint64_t due_ns;
    std::unique_ptr<Buffer> buffer;
  };
  std::deque<LateBuffer> late_;
  std::deque<std::unique_ptr<Buffer>> lost_;
  uint32_t flush_period_ms_ = 0;
  bool worker_runs_ = false;

  std::atomic<uint64_t> buffers_requested_{0};
  std::atomic<uint64_t> buffers_refused_{0};
  std::atomic<uint64_t> buffers_completed_{0};
  std::atomic<uint64_t> buffers_lost_{0};
  std::atomic<uint64_t> buffers_dirty_{0};
  std::atomic<uint64_t> buffers_out_{0};
  std::atomic<uint64_t> all_dropped_{0};
  std::atomic<uint64_t> stolen_{0};
  std::atomic<uint64_t> lost_records_{0};
  std::atomic<uint64_t> finalized_{0};
  std::atomic<uint64_t> api_stalls_{0};
  std::array<std::atomic<uint64_t>, kKinds> delivered_{};
};

Tracer& tracer();

// The rival's buffer callbacks, which sgpu_rival_steal_callbacks() registers.
void RivalRequested(uint8_t** buffer, size_t* size, size_t* max_records);
void RivalCompleted(CUcontext context, uint32_t stream_id, uint8_t* buffer, size_t size,
                    size_t valid_size);

// Held by every CUPTI function that needs a driver, and around the client's buffer callbacks, while
// the setting lock_strict is on. A client that calls such a function from a buffer callback then
// hangs for good, as it may with the real library; what it called is said on stderr.
class StrictLock {
 public:
  explicit StrictLock(const char* function);
  ~StrictLock();
  StrictLock(const StrictLock&) = delete;
  StrictLock& operator=(const StrictLock&) = delete;

 private:
  bool is_held_ = false;
};

}  // namespace sgpu

#endif  // PROFD_TESTS_CUPTI_STANDIN_TRACER_H_
