// The half of Tracer that deals with the client's buffers.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/shared_rival.h"
#include "tests/cupti_standin/tracer.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

constexpr size_t kAlignment = 8;
constexpr uint32_t kNonsenseKind = 0x7ffffff0;
// From here on nullptr is an answer to a request for a buffer; before, CUPTI crashed.
constexpr uint32_t kNullBufferAllowed = kCupti12_9;

std::mutex strict_mu;

struct Rival {
  std::mutex mu;
  std::set<uint8_t*> buffers;  // Guarded by mu.
};
Rival& rival() {
  static Rival* const rival = new Rival;
  return *rival;
}

bool HasRoom(const Buffer& buffer, size_t bytes) {
  return buffer.size - buffer.used >= bytes &&
         (buffer.max_records == 0 || buffer.records < buffer.max_records);
}

uint64_t SteadyNowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

uint32_t KindAt(const uint8_t* record) {
  uint32_t kind = 0;
  std::memcpy(&kind, record, sizeof(kind));
  return kind;
}

// Damages the buffer as the setting `corrupt` says; what its valid size is then.
size_t Corrupt(const Buffer& buffer, int64_t how) {
  size_t middle = 0;
  size_t last = 0;
  size_t index = 0;
  for (size_t at = 0; at < buffer.used; at += RecordSize(KindAt(buffer.data + at)), ++index) {
    if (index == buffer.records / 2) middle = at;
    last = at;
  }
  const auto overwrite_kind = [&](uint32_t kind) {
    std::memcpy(buffer.data + middle, &kind, sizeof(kind));
  };
  switch (how) {
    case 1:
      overwrite_kind(kNonsenseKind);
      return buffer.used;
    case 2:
      return last + kAlignment;
    case 3:
      return buffer.size + 4096;
    default:
      overwrite_kind(0);
      return buffer.used;
  }
}

}  // namespace

// --- Locks ---------------------------------------------------------------------------------

StrictLock::StrictLock(const char* function) {
  if (settings().lock_strict.load(std::memory_order_relaxed) == 0) return;
  ThreadState& thread = ThisThread();
  if (thread.in_buffer_callback != 0) {
    std::fprintf(stderr, "sgpu: %s called from a buffer callback: deadlock\n", function);
    for (;;) pause();
  }
  if (thread.holds_strict_lock) return;
  strict_mu.lock();
  thread.holds_strict_lock = true;
  is_held_ = true;
}

StrictLock::~StrictLock() {
  if (!is_held_) return;
  ThisThread().holds_strict_lock = false;
  strict_mu.unlock();
}

// Around a call of the client's buffer callbacks.
class BufferCallback {
 public:
  BufferCallback() : strict_("a buffer callback"), thread_(ThisThread()) {
    ++thread_.in_buffer_callback;
  }
  ~BufferCallback() { --thread_.in_buffer_callback; }
  BufferCallback(const BufferCallback&) = delete;
  BufferCallback& operator=(const BufferCallback&) = delete;

 private:
  const StrictLock strict_;
  ThreadState& thread_;
};

// --- Records -------------------------------------------------------------------------------

template <typename Use>
bool Tracer::WithRoom(Lane& lane, uint32_t kind, const Use& use) {
  const uint32_t size = RecordSize(kind);
  for (;;) {
    {
      const std::lock_guard lock(lane.mu);
      if (Buffer* const buffer = lane.current.get(); buffer != nullptr && HasRoom(*buffer, size)) {
        uint8_t* const at = buffer->data + buffer->used;
        buffer->used += size;
        ++buffer->records;
        ++lane.written[kind];
        use(*buffer, at, size);
        return true;
      }
      if (lane.current != nullptr) Retire(std::move(lane.current));
    }
    std::unique_ptr<Buffer> fresh = RequestBuffer(lane);
    if (fresh == nullptr) {
      CountDrop();
      return false;
    }
    const std::lock_guard lock(lane.mu);
    if (lane.current == nullptr) {
      lane.current = std::move(fresh);
    } else {
      Retire(std::move(fresh));  // Another thread was faster.
    }
  }
}

bool Tracer::AppendTo(Lane& lane, uint32_t kind, const void* record) {
  return WithRoom(lane, kind,
                  [&](Buffer&, uint8_t* at, uint32_t size) { std::memcpy(at, record, size); });
}

bool Tracer::Append(uint32_t kind, const void* record) {
  return AppendTo(LaneOf(ThisThread()), kind, record);
}

bool Tracer::Reserve(Op& op) {
  return WithRoom(LaneOf(ThisThread()), op.work.kind, [&](Buffer& buffer, uint8_t* at, uint32_t) {
    const uint32_t kind = op.work.kind;
    std::memcpy(at, &kind, sizeof(kind));
    buffer.reserved.fetch_add(1, std::memory_order_relaxed);
    op.reserved_in = &buffer;
    op.reserved_at = static_cast<size_t>(at - buffer.data);
  });
}

void Tracer::WriteRecord(const Op& op, uint32_t kind, const void* record) {
  if (op.reserved_in != nullptr) {
    std::memcpy(op.reserved_in->data + op.reserved_at, record, RecordSize(kind));
    // Pairs with the acquiring load before the buffer is completed.
    op.reserved_in->reserved.fetch_sub(1, std::memory_order_release);
  } else if (!AppendTo(DeviceLane(), kind, record)) {
    truth().SetFate(op.truth, SGPU_DROPPED);
    return;
  }
  const int64_t every = settings().unknown_kind.load(std::memory_order_relaxed);
  if (every > 0 && RecordSize(kUnknown) != 0 &&
      ++written_by_device_ % static_cast<uint64_t>(every) == 0) {
    UnknownRecord unknown{.kind = kUnknown, .filler = {}};
    std::fill(std::begin(unknown.filler), std::end(unknown.filler), 0xabababab);
    AppendTo(DeviceLane(), kUnknown, &unknown);
  }
}

// --- Buffers from the client, and back -----------------------------------------------------

void Tracer::RegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                               CUpti_BuffersCallbackCompleteFunc completed) {
  requested_ = requested;
  completed_ = completed;
}

void Tracer::CheckOrZero(const Buffer& buffer) {
  if (!client_zeroes_.load(std::memory_order_relaxed)) {
    std::memset(buffer.data, 0, buffer.size);
  } else if (settings().check_zeroed != 0 && std::any_of(buffer.data, buffer.data + buffer.size,
                                                         [](uint8_t b) { return b != 0; })) {
    ++buffers_dirty_;
  }
}

std::unique_ptr<Buffer> Tracer::RequestBuffer(Lane& lane) {
  const CUpti_BuffersCallbackRequestFunc requested = requested_;
  if (requested == nullptr) return nullptr;
  const uint64_t began = Clock::Now();
  uint8_t* data = nullptr;
  size_t size = 0;
  size_t max_records = 0;
  {
    const BufferCallback callback;
    requested(&data, &size, &max_records);
  }
  ++buffers_requested_;
  if (data == nullptr) {
    if (!VersionIsAtLeast(kNullBufferAllowed)) {
      std::fprintf(stderr,
                   "sgpu: the client gave no buffer: this CUPTI (version %u) crashes then\n",
                   Version());
      std::abort();
    }
    ++buffers_refused_;
    return nullptr;
  }
  ++buffers_out_;
  std::unique_ptr<Buffer> buffer(
      new Buffer{.data = data, .size = size, .max_records = max_records});
  if (reinterpret_cast<uintptr_t>(data) % kAlignment != 0 || size < LargestRecordSize()) {
    ++buffers_refused_;
    Deliver(*buffer, 0);
    return nullptr;
  }
  CheckOrZero(*buffer);
  if (IsOn(kOverhead) && HasRoom(*buffer, RecordSize(kOverhead))) {
    const ThreadState& thread = ThisThread();
    const OverheadRecord record{
        .kind = kOverhead,
        .overhead_kind = VersionIsAtLeast(kCupti13_0) ? kOverheadBufferRequest : kOverheadResource,
        .object_kind = kObjectThread,
        .object_process = static_cast<uint32_t>(getpid()),
        .object_thread = ThreadIdOf(thread),
        .start = Clock::Stamp(began),
        .end = Clock::Stamp(Clock::Now()),
    };
    std::memcpy(buffer->data, &record, RecordSize(kOverhead));
    buffer->used = RecordSize(kOverhead);
    buffer->records = 1;
    const std::lock_guard lock(lane.mu);
    ++lane.written[kOverhead];
  }
  return buffer;
}

void Tracer::Retire(std::unique_ptr<Buffer> buffer) {
  const std::lock_guard lock(queue_mu_);
  full_.push_back(std::move(buffer));
  queue_changed_.notify_one();
}

void Tracer::Deliver(const Buffer& buffer, size_t valid_bytes) {
  const CUpti_BuffersCallbackCompleteFunc completed = completed_;
  --buffers_out_;
  ++buffers_completed_;
  if (completed == nullptr) return;
  const BufferCallback callback;
  completed(nullptr, 0, buffer.data, buffer.size, valid_bytes);
}

void Tracer::Complete(std::unique_ptr<Buffer> buffer) {
  const int64_t lose_every = settings().lose_buffers;
  if (lose_every > 0 &&
      (buffers_completed_ + buffers_lost_ + 1) % static_cast<uint64_t>(lose_every) == 0) {
    ++buffers_lost_;
    lost_records_ += buffer->records;
    const std::lock_guard lock(queue_mu_);
    lost_.push_back(std::move(buffer));
    return;
  }
  if (completed_ == &RivalCompleted) {
    stolen_ += buffer->records;
  } else {
    for (size_t at = 0; at < buffer->used;) {
      const uint32_t kind = KindAt(buffer->data + at);
      ++delivered_[kind];
      at += RecordSize(kind);
    }
  }
  size_t valid_bytes = buffer->used;
  if (buffer->used != 0) {
    if (const int64_t how = settings().corrupt.exchange(0); how != 0) {
      valid_bytes = Corrupt(*buffer, how);
    }
  }
  Deliver(*buffer, valid_bytes);
}

uint32_t Tracer::ReturnLostBuffers() {
  std::deque<std::unique_ptr<Buffer>> buffers;
  {
    const std::lock_guard lock(queue_mu_);
    buffers.swap(lost_);
  }
  settings().lose_buffers = 0;
  const auto count = static_cast<uint32_t>(buffers.size());
  for (std::unique_ptr<Buffer>& buffer : buffers) {
    --buffers_lost_;
    lost_records_ -= buffer->records;
    Complete(std::move(buffer));
  }
  return count;
}

void Tracer::CompleteFull() {
  std::deque<std::unique_ptr<Buffer>> buffers;
  {
    const std::lock_guard lock(queue_mu_);
    std::deque<std::unique_ptr<Buffer>> unfinished;
    for (std::unique_ptr<Buffer>& buffer : full_) {
      const bool is_finished = buffer->reserved.load(std::memory_order_acquire) == 0;
      (is_finished ? buffers : unfinished).push_back(std::move(buffer));
    }
    full_.swap(unfinished);
    while (!late_.empty() && late_.front().due_ns <= SteadyNowNs()) {
      buffers.push_back(std::move(late_.front().buffer));
      late_.pop_front();
    }
  }
  for (std::unique_ptr<Buffer>& buffer : buffers) Complete(std::move(buffer));
}

void Tracer::Flush(bool forced) {
  {
    const std::lock_guard lock(emit_mu_);
    Emit(0, forced);
  }
  shared_rival().Flush(forced, Clock::Now());
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Lane*> emptied;
  const bool keeps = settings().keep_buffers != 0;
  const auto take = [&](Lane& lane) {
    const std::lock_guard lock(lane.mu);
    const Buffer* const buffer = lane.current.get();
    if (buffer == nullptr || buffer->reserved.load(std::memory_order_acquire) != 0) return;
    if (buffer->used == 0 && (!forced || keeps)) return;
    buffers.push_back(std::move(lane.current));
    if (keeps) emptied.push_back(&lane);
  };
  {
    const std::lock_guard lock(threads_mu_);
    for (ThreadState* const thread : threads_) take(thread->lane);
  }
  take(device_lane_);
  take(shared_lane_);
  if (const int64_t late_ms = settings().late_ms; late_ms > 0) {
    const std::lock_guard lock(queue_mu_);
    for (std::unique_ptr<Buffer>& buffer : buffers) {
      late_.push_back(
          {SteadyNowNs() + static_cast<uint64_t>(late_ms) * 1'000'000, std::move(buffer)});
    }
    queue_changed_.notify_one();
    return;
  }
  CompleteFull();
  for (std::unique_ptr<Buffer>& buffer : buffers) Complete(std::move(buffer));
  for (Lane* const lane : emptied) {
    std::unique_ptr<Buffer> fresh = RequestBuffer(*lane);
    const std::lock_guard lock(lane->mu);
    if (fresh != nullptr && lane->current == nullptr) {
      lane->current = std::move(fresh);
    } else if (fresh != nullptr) {
      Retire(std::move(fresh));
    }
  }
}

void Tracer::SetFlushPeriod(uint32_t period_ms) {
  // Full buffers are completed at once, so any period is kept.
  const std::lock_guard lock(queue_mu_);
  flush_period_ms_ = period_ms;
}

void Tracer::ForgetCounts() {
  for (std::atomic<uint64_t>* const counter :
       {&buffers_requested_, &buffers_refused_, &buffers_completed_, &buffers_lost_,
        &buffers_dirty_, &buffers_out_, &all_dropped_, &stolen_, &lost_records_, &finalized_,
        &api_stalls_, &dropped_}) {
    *counter = 0;
  }
  for (std::atomic<uint64_t>& counter : delivered_) counter = 0;
}

void Tracer::AddTo(sgpu_stats_rec& stats) {
  const auto add = [&](Lane& lane) {
    const std::lock_guard lock(lane.mu);
    for (uint32_t kind = 0; kind < kKinds; ++kind) stats.records[kind] += lane.written[kind];
  };
  {
    const std::lock_guard lock(threads_mu_);
    for (ThreadState* const thread : threads_) {
      add(thread->lane);
      stats.launches += thread->launches.load(std::memory_order_relaxed);
      stats.api_calls += thread->api_calls.load(std::memory_order_relaxed);
    }
  }
  add(device_lane_);
  add(shared_lane_);
  for (uint32_t kind = 0; kind < kKinds; ++kind) stats.delivered[kind] = delivered_[kind];
  stats.stolen = stolen_;
  stats.lost = lost_records_;
  stats.dropped = all_dropped_;
  stats.buffers_requested = buffers_requested_;
  stats.buffers_refused = buffers_refused_;
  stats.buffers_completed = buffers_completed_;
  stats.buffers_lost = buffers_lost_;
  stats.buffers_dirty = buffers_dirty_;
  stats.buffers_out = buffers_out_;
  stats.enabled_kinds = kinds_;
  stats.finalized = finalized_;
  stats.api_stalls = api_stalls_;
  {
    const std::lock_guard lock(attributes_mu_);
    stats.zeroed_out_activity_buffer = static_cast<uint32_t>(attributes_[kZeroedOutBuffer]);
    stats.device_buffer_pool_limit = attributes_[kDeviceBufferPoolLimit];
  }
  stats.thread_id_type = system_thread_ids ? 1 : 0;
  stats.latency_timestamps = latency_timestamps ? 1 : 0;
  stats.all_sync_records = all_sync_records ? 1 : 0;
}

// --- The rival -----------------------------------------------------------------------------

void RivalRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  constexpr size_t kBytes = 64 << 10;
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBytes));
  *size = *buffer == nullptr ? 0 : kBytes;
  *max_records = 0;
  const std::lock_guard lock(rival().mu);
  rival().buffers.insert(*buffer);
}

// Buffers that are another's come here too: whose they were is not asked.
void RivalCompleted(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) {
  const std::lock_guard lock(rival().mu);
  if (rival().buffers.erase(buffer) != 0) std::free(buffer);
}

}  // namespace sgpu
