#include "tests/cupti_standin/tracer.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

std::atomic<bool> forked{false};

// What this library holds is the parent's.
const bool fork_handler_is_set = pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0;

constexpr uint64_t Bit(uint32_t kind) { return 1ULL << kind; }
constexpr uint64_t kKernelKinds = Bit(kKernel) | Bit(kSerialKernel);
// They describe what there is, and record nothing that a thread does.
constexpr uint64_t kDescriptions = Bit(kDevice) | Bit(kContext) | Bit(kStream);

// What each attribute holds at first, and since when there is one.
struct Attribute {
  uint32_t id;
  size_t bytes;
  uint64_t value;
  uint32_t since;
};
constexpr Attribute kAttributes[] = {
    {kDeviceBufferSize, sizeof(size_t), 3'200'000, 0},
    {1, sizeof(size_t), 8 << 20, 0},
    {kDeviceBufferPoolLimit, sizeof(size_t), 250, 0},
    {kZeroedOutBuffer, sizeof(uint8_t), 0, 0},
    {kDeviceBufferPreallocated, sizeof(size_t), 3, 0},
    {7, sizeof(size_t), 3, 0},
    {8, sizeof(uint8_t), 0, 0},
    {kPerThreadBuffer, sizeof(uint8_t), 0, 21},
    {10, sizeof(size_t), 16 << 20, 22},
};
// What the device writes of one activity.
constexpr uint64_t kDeviceRecordBytes = 32;

const Attribute* FindAttribute(uint32_t id) {
  const auto* const found = std::find_if(
      std::begin(kAttributes), std::end(kAttributes), [id](const Attribute& attribute) {
        return attribute.id == id && VersionIsAtLeast(attribute.since);
      });
  return found == std::end(kAttributes) ? nullptr : found;
}

uint64_t DefaultOf(const Attribute& attribute) {
  // Each thread has its own from 13.0 on.
  return attribute.id == kPerThreadBuffer && VersionIsAtLeast(130000) ? 1 : attribute.value;
}

}  // namespace

bool Forked() { return forked.load(std::memory_order_relaxed); }

ThreadState& ThisThread() {
  // One word of what libraries loaded later may have: no call to find it.
  [[gnu::tls_model("initial-exec")]] thread_local constinit ThreadState* state = nullptr;
  if (state == nullptr) {
    state = new ThreadState;
    state->system_id = static_cast<uint32_t>(syscall(SYS_gettid));
    state->pthread_id = static_cast<uint32_t>(pthread_self());
    tracer().AddThread(*state);
  }
  return *state;
}

Tracer& tracer() {
  static Tracer* const tracer = new Tracer;
  return *tracer;
}

bool Tracer::HasAllSyncRecords() { return VersionIsAtLeast(kCupti12_9); }

Tracer::Tracer() : all_sync_records(HasAllSyncRecords()) {
  static_cast<void>(fork_handler_is_set);
  SettleAttributes();
}

void Tracer::AddThread(ThreadState& thread) {
  const std::lock_guard lock(threads_mu_);
  threads_.push_back(&thread);
}

// --- Kinds ---------------------------------------------------------------------------------

void Tracer::RegisterTeardown() {
  if (has_teardown_.exchange(true)) return;
  std::atexit([] {
    if (Forked()) return;
    tracer().is_torn_down_ = true;
    Clock::SleepMs(settings().teardown_ms);
  });
}

void Tracer::StallCalls(int64_t ms) {
  stalled_ = settings().stall_api != 0;
  Clock::SleepMs(ms);
  stalled_.store(false, std::memory_order_release);
  stalled_.notify_all();
}

CUptiResult Tracer::Enable(uint32_t kind) {
  if (RecordSize(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  RegisterTeardown();
  const bool is_first = !was_enabled_.exchange(true);
  // As measured: between the first other kind and the kernels, who launches loses its kernels.
  if (settings().lose_threads != 0 && (kinds() & kKernelKinds) == 0 &&
      ((kKernelKinds | kDescriptions) & Bit(kind)) == 0) {
    loses_launchers_ = true;
  }
  if (is_first) StallCalls(settings().enable_ms);
  if (settings().each_enable_ms > 0) StallCalls(settings().each_enable_ms);
  StartWorker();
  if (is_poisoned_) return CUPTI_SUCCESS;
  if (kind == kGraphTrace && !IsOn(kind)) ++graph_trace_number_;
  if (kind == kDriver || kind == kRuntime) {
    const uint32_t domain = kind == kDriver ? SGPU_DOMAIN_DRIVER : SGPU_DOMAIN_RUNTIME;
    for (auto& cbid : api_on_[domain - 1]) cbid = 1;
    any_api_ = true;
  }
  {
    const std::lock_guard lock(queue_mu_);  // The worker waits while no kind is on.
    kinds_.fetch_or(Bit(kind));
  }
  if ((kKernelKinds & Bit(kind)) != 0) loses_launchers_ = false;
  queue_changed_.notify_one();
  return CUPTI_SUCCESS;
}

CUptiResult Tracer::Disable(uint32_t kind) {
  if (RecordSize(kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  const bool was_on = (kinds_.fetch_and(~Bit(kind)) & Bit(kind)) != 0;
  if ((kinds() & ~kDescriptions) == 0) loses_launchers_ = false;
  if (kind == kDriver || kind == kRuntime) {
    const uint32_t domain = kind == kDriver ? SGPU_DOMAIN_DRIVER : SGPU_DOMAIN_RUNTIME;
    if (was_on) api_was_off_[domain - 1] = true;
    for (auto& cbid : api_on_[domain - 1]) cbid = 0;
    any_api_ = std::any_of(api_on_.begin(), api_on_.end(), [](const auto& cbids) {
      return std::any_of(cbids.begin(), cbids.end(), [](const auto& on) { return on != 0; });
    });
  }
  return CUPTI_SUCCESS;
}

void Tracer::EnableApi(uint32_t domain, uint32_t cbid, bool on) {
  StartWorker();
  if (is_poisoned_) return;
  // As measured: without the kind it is inert, except that a new enough CUPTI takes it until the
  // kind is turned off for the first time.
  const bool is_inert = !IsOn(domain == SGPU_DOMAIN_DRIVER ? kDriver : kRuntime) &&
                        (!VersionIsAtLeast(kCuptiFuture) || api_was_off_[domain - 1].load());
  if (on && is_inert) return;
  api_on_[domain - 1][cbid % kCallbackIds] = on ? 1 : 0;
  if (on) any_api_ = true;
}

uint32_t Tracer::RecordedAs(Kind kind) const {
  const uint64_t on = kinds();
  switch (kind) {
    case kKernel:
      if ((on & Bit(kKernel)) != 0) return kKernel;
      return (on & Bit(kSerialKernel)) != 0 ? kSerialKernel : 0U;
    case kPeerCopy:  // What copies are recorded includes those between devices.
      return (on & (Bit(kPeerCopy) | Bit(kMemcpy))) != 0 ? kPeerCopy : 0U;
    default:
      return (on & Bit(kind)) != 0 ? kind : 0U;
  }
}

void Tracer::TurnKindsOff() {
  kinds_ = 0;
  loses_launchers_ = false;
  any_api_ = false;
  for (auto& was_off : api_was_off_) was_off = false;
  for (auto& cbids : api_on_) {
    for (auto& cbid : cbids) cbid = 0;
  }
}

void Tracer::EndSharedSubscription() {
  TurnKindsOff();
  system_thread_ids = false;
  latency_timestamps = false;
  all_sync_records = HasAllSyncRecords();
}

void Tracer::Finalize() {
  ++finalized_;
  TurnKindsOff();
  Flush(true);
  GiveKernelsBack();
  was_enabled_ = false;
  requested_ = nullptr;
  completed_ = nullptr;
  if (settings().poisoned_finalize != 0) is_poisoned_ = true;
}

void Tracer::GiveKernelsBack() {
  const std::lock_guard lock(threads_mu_);
  for (ThreadState* const thread : threads_) thread->loses_kernels = false;
}

void Tracer::Reset() {
  TurnKindsOff();
  GiveKernelsBack();
  requested_ = nullptr;
  completed_ = nullptr;
  was_enabled_ = false;
  is_poisoned_ = false;
  next_correlation_ = 1;
  system_thread_ids = false;
  latency_timestamps = false;
  event_device_timestamps = false;
  all_sync_records = HasAllSyncRecords();
  client_zeroes_ = false;
  device_buffer_records_ = 0;
  {
    const std::lock_guard lock(emit_mu_);
    const std::lock_guard pending_lock(pending_mu_);
    waiting_.clear();
    pending_.clear();
    on_device_ = 0;
  }
  const auto empty = [](Lane& lane) {
    const std::lock_guard lock(lane.mu);
    lane.current.reset();
    lane.written = {};
  };
  {
    const std::lock_guard lock(threads_mu_);
    for (ThreadState* const thread : threads_) {
      empty(thread->lane);
      thread->launches = 0;
      thread->api_calls = 0;
      for (auto& stack : thread->external) stack.clear();
    }
  }
  empty(device_lane_);
  empty(shared_lane_);
  {
    const std::lock_guard lock(queue_mu_);
    full_.clear();
    late_.clear();
    lost_.clear();
  }
  {
    const std::lock_guard lock(attributes_mu_);
    attributes_.clear();
  }
  ForgetCounts();
  SettleAttributes();
}

// --- Attributes ----------------------------------------------------------------------------

void Tracer::SettleAttributes() {
  const std::lock_guard lock(attributes_mu_);
  for (const Attribute& each : kAttributes) attributes_[each.id] = DefaultOf(each);
  per_thread_ = attributes_[kPerThreadBuffer] != 0;
}

CUptiResult Tracer::GetAttribute(uint32_t id, size_t* size, void* value) {
  if (size == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const Attribute* const attribute = FindAttribute(id);
  if (attribute == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size < attribute->bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  const std::lock_guard lock(attributes_mu_);
  const uint64_t current = attributes_[id];
  std::memcpy(value, &current, attribute->bytes);  // Little-endian: the low bytes.
  *size = attribute->bytes;
  return CUPTI_SUCCESS;
}

CUptiResult Tracer::SetAttribute(uint32_t id, const size_t* size, const void* value) {
  if (size == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const Attribute* const attribute = FindAttribute(id);
  if (attribute == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (*size < attribute->bytes) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  uint64_t next = 0;
  std::memcpy(&next, value, attribute->bytes);
  const std::lock_guard lock(attributes_mu_);
  attributes_[id] = next;
  if (id == kZeroedOutBuffer) client_zeroes_ = next != 0;
  if (id == kPerThreadBuffer) per_thread_ = next != 0;
  if (id == kDeviceBufferSize || id == kDeviceBufferPoolLimit || id == kDeviceBufferPreallocated) {
    device_buffer_records_ = attributes_[kDeviceBufferSize] / kDeviceRecordBytes;
    device_buffer_limit_ = attributes_[kDeviceBufferPoolLimit];
    device_room_ = attributes_[kDeviceBufferPreallocated] * device_buffer_records_;
  }
  return CUPTI_SUCCESS;
}

// --- Work ----------------------------------------------------------------------------------

void Tracer::Submit(Op& op) {
  const uint64_t before = on_device_.fetch_add(1, std::memory_order_relaxed);
  const uint64_t per_buffer = device_buffer_records_.load(std::memory_order_relaxed);
  // Where nobody has set how large the device's buffers are, they are large enough.
  if (per_buffer != 0) {
    if (before >= per_buffer * device_buffer_limit_.load(std::memory_order_relaxed)) {
      op.is_untimed = true;
    } else if (before >= device_room_.load(std::memory_order_relaxed)) {
      device_room_.fetch_add(per_buffer);
      if (const int64_t stall = settings().grow_us; stall > 0) {
        Clock::Spend(static_cast<uint64_t>(stall) * 1000);
      }
    }
  }
  op.has_latency_timestamps = latency_timestamps.load(std::memory_order_relaxed);
  // The worker looks here by itself while a kind is on: nobody is woken within an API call.
  const std::lock_guard lock(pending_mu_);
  pending_.push_back(op);
}

void Tracer::EmitFinished() {
  const StrictLock strict("sgpu_settle");
  const std::lock_guard lock(emit_mu_);
  Emit(0, false);
}

void Tracer::Emit(uint64_t delay_ns, bool forced) {
  std::vector<Op> arrived;
  {
    const std::lock_guard lock(pending_mu_);
    arrived.swap(pending_);
  }
  for (const Op& op : arrived) waiting_[op.stream].push_back(op);
  const uint64_t now = Clock::Now();
  uint64_t emitted = 0;
  for (auto& [stream, ops] : waiting_) {
    while (!ops.empty() && (forced || ops.front().end + delay_ns <= now)) {
      Write(ops.front(), ops.front().end <= now);
      ops.pop_front();
      ++emitted;
    }
  }
  on_device_.fetch_sub(emitted, std::memory_order_relaxed);
}

// --- The worker ----------------------------------------------------------------------------

void Tracer::StartWorker() {
  const std::lock_guard lock(queue_mu_);
  if (worker_runs_) return;
  worker_runs_ = true;
  // A plain thread, detached: it lives as long as the process, as CUPTI's does.
  pthread_t thread{};
  const int error = pthread_create(
      &thread, nullptr,
      [](void* self) -> void* {
        pthread_setname_np(pthread_self(), "sgpu-worker");
        static_cast<Tracer*>(self)->WorkerLoop();
        return nullptr;
      },
      this);
  if (error != 0) std::abort();
  pthread_detach(thread);
}

void Tracer::WorkerLoop() {
  uint64_t random = 1;
  for (;;) {
    const auto shortest = static_cast<uint64_t>(std::max<int64_t>(settings().delay_min_us, 0));
    const auto longest =
        std::max(shortest, static_cast<uint64_t>(std::max<int64_t>(settings().delay_max_us, 0)));
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    const uint64_t delay_us = shortest + (random >> 33) % (longest - shortest + 1);
    {
      std::unique_lock lock(queue_mu_);
      queue_changed_.wait(lock, [&] {
        return kinds() != 0 || !full_.empty() || !late_.empty() ||
               on_device_.load(std::memory_order_relaxed) != 0;
      });
      if (full_.empty()) {
        queue_changed_.wait_for(lock, std::chrono::microseconds(std::clamp<uint64_t>(
                                          Clock::IsVirtual() ? 1000 : delay_us, 500, 5000)));
      }
    }
    const StrictLock strict("the worker");
    {
      const std::lock_guard lock(emit_mu_);
      Emit(Clock::IsVirtual() ? 0 : delay_us * 1000, false);
    }
    CompleteFull();
  }
}

}  // namespace sgpu
