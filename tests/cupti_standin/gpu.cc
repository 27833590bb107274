#include "tests/cupti_standin/gpu.h"

#include <algorithm>

#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/settings.h"

namespace sgpu {
namespace {

constexpr uint32_t kMaxDevices = 8;
constexpr uint32_t kMaxCopyEngines = 8;
constexpr uint32_t kMaxConcurrentKernels = 128;
constexpr uint64_t kDefaultLaunchLatencyNs = 3000;
constexpr uint32_t kFirstStreamId = 13;
constexpr uint64_t kAllocationAlignment = 512;

bool IsCopy(const Work& work) { return work.kind == kMemcpy || work.kind == kPeerCopy; }

uint32_t OrDefault(uint32_t value, uint32_t otherwise) { return value == 0 ? otherwise : value; }

}  // namespace

Gpu& gpu() {
  static Gpu* const gpu = new Gpu;
  return *gpu;
}

bool Gpu::Init(const sgpu_opts& options) {
  {
    const std::lock_guard lock(mu_);
    if (initialized_) return true;
    options_ = options;
    options_.device_count = OrDefault(options.device_count, 1);
    options_.copy_engine_count = OrDefault(options.copy_engine_count, 2);
    options_.concurrent_kernels = OrDefault(options.concurrent_kernels, 32);
    if (options.launch_latency_ns == 0) options_.launch_latency_ns = kDefaultLaunchLatencyNs;
    if (options_.device_count > kMaxDevices || options_.copy_engine_count > kMaxCopyEngines ||
        options_.concurrent_kernels > kMaxConcurrentKernels ||
        options_.time_mode > SGPU_TIME_VIRTUAL) {
      return false;
    }
    random_ = options.seed == 0 ? 1 : options.seed;
    Clock::SetVirtual(options_.time_mode == SGPU_TIME_VIRTUAL);
    began_ns_ = Clock::Now();
    devices_.resize(options_.device_count);
    for (uint32_t i = 0; i < devices_.size(); ++i) {
      devices_[i].kernel_slots.resize(options_.concurrent_kernels);
      devices_[i].copy_engines.resize(options_.copy_engine_count);
      devices_[i].next_address = 0x7f00'0000'0000 + (static_cast<uint64_t>(i) << 36);
    }
    initialized_.store(true, std::memory_order_release);
  }
  CreateContext(0);
  return true;
}

void Gpu::Shutdown() {
  const std::lock_guard lock(mu_);
  initialized_ = false;
  devices_.clear();
  contexts_.clear();
  next_stream_id_.clear();
  streams_.clear();
  events_.clear();
  graphs_.clear();
  execs_.clear();
  allocations_.clear();
}

Gpu::StreamState* Gpu::FindStream(uint32_t handle) {
  return handle == 0 || handle > streams_.size() ? nullptr : &streams_[handle - 1];
}

Gpu::StreamState& Gpu::AddStream(uint32_t context, int32_t priority, uint32_t flags, uint32_t id) {
  StreamState& stream = streams_.emplace_back();
  const uint32_t device = contexts_[context - 1].device;
  stream.info = {static_cast<uint32_t>(streams_.size()), id, context, device, priority, flags};
  stream.slot = static_cast<uint32_t>((streams_.size() - 1) % options_.concurrent_kernels);
  return stream;
}

std::optional<ContextInfo> Gpu::CreateContext(uint32_t device) {
  const std::lock_guard lock(mu_);
  if (device >= devices_.size()) return std::nullopt;
  const auto id = static_cast<uint32_t>(contexts_.size() + 1);
  contexts_.push_back({id, device, 0});
  next_stream_id_.push_back(kFirstStreamId);
  contexts_.back().default_stream = AddStream(id, 0, 0, kDefaultStreamId).info.handle;
  return contexts_.back();
}

std::optional<ContextInfo> Gpu::Context(uint32_t id) {
  const std::lock_guard lock(mu_);
  if (id == 0 || id > contexts_.size()) return std::nullopt;
  return contexts_[id - 1];
}

std::optional<StreamInfo> Gpu::CreateStream(uint32_t context, int32_t priority, uint32_t flags) {
  const std::lock_guard lock(mu_);
  if (context == 0 || context > contexts_.size()) return std::nullopt;
  return AddStream(context, priority, flags, next_stream_id_[context - 1]++).info;
}

std::optional<StreamInfo> Gpu::Stream(uint32_t handle) {
  const std::lock_guard lock(mu_);
  const StreamState* const stream = FindStream(handle);
  if (stream == nullptr) return std::nullopt;
  return stream->info;
}

std::vector<ContextInfo> Gpu::Contexts() {
  const std::lock_guard lock(mu_);
  return contexts_;
}

std::vector<StreamInfo> Gpu::Streams() {
  const std::lock_guard lock(mu_);
  std::vector<StreamInfo> streams;
  for (const StreamState& stream : streams_) streams.push_back(stream.info);
  return streams;
}

uint32_t Gpu::device_count() {
  const std::lock_guard lock(mu_);
  return static_cast<uint32_t>(devices_.size());
}

// The device's clock: it may run faster than ours, and be read a little wrong.
uint64_t Gpu::DeviceTime(uint64_t time_ns) {
  auto result = static_cast<int64_t>(time_ns);
  if (const int64_t ppm = settings().drift_ppm.load(std::memory_order_relaxed); ppm != 0) {
    result += (result - static_cast<int64_t>(began_ns_)) * ppm / 1'000'000;
  }
  if (const int64_t jitter = settings().jitter_ns.load(std::memory_order_relaxed); jitter > 0) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    result +=
        static_cast<int64_t>((random_ >> 33) % (2 * static_cast<uint64_t>(jitter) + 1)) - jitter;
  }
  return static_cast<uint64_t>(result);
}

void Gpu::Run(StreamState& stream, const Work& work, uint64_t now, Op& op) {
  Device& device = devices_[stream.info.device];
  uint64_t& engine = IsCopy(work) ? device.copy_engines[work.copy_kind % device.copy_engines.size()]
                                  : device.kernel_slots[stream.slot];
  op.submitted = now;
  op.start = std::max({now + options_.launch_latency_ns, stream.end, engine});
  op.end = op.start + work.duration_ns;
  stream.end = op.end;
  engine = op.end;
  op.recorded_start = DeviceTime(op.start);
  op.recorded_end = std::max(op.recorded_start, DeviceTime(op.end));
  op.device = stream.info.device;
  op.context = stream.info.context;
  op.stream = stream.info.handle;
  op.stream_id = stream.info.id;
}

Gpu::Placed Gpu::Place(uint32_t handle, const Work& work, uint64_t now, Op& op) {
  const std::lock_guard lock(mu_);
  StreamState* const stream = FindStream(handle);
  if (stream == nullptr) return Placed::kNoSuchStream;
  if (stream->capture != 0) {
    graphs_[stream->capture - 1].push_back(work);
    return Placed::kCaptured;
  }
  Run(*stream, work, now, op);
  return Placed::kRuns;
}

std::optional<uint64_t> Gpu::StreamEnd(uint32_t handle) {
  const std::lock_guard lock(mu_);
  const StreamState* const stream = FindStream(handle);
  if (stream == nullptr) return std::nullopt;
  return stream->end;
}

std::optional<uint64_t> Gpu::ContextEnd(uint32_t context) {
  const std::lock_guard lock(mu_);
  if (context == 0 || context > contexts_.size()) return std::nullopt;
  uint64_t end = 0;
  for (const StreamState& stream : streams_) {
    if (stream.info.context == context) end = std::max(end, stream.end);
  }
  return end;
}

uint64_t Gpu::End() {
  const std::lock_guard lock(mu_);
  uint64_t end = 0;
  for (const StreamState& stream : streams_) end = std::max(end, stream.end);
  return end;
}

std::optional<EventInfo> Gpu::RecordEvent(uint32_t handle, uint32_t event, uint64_t now) {
  const std::lock_guard lock(mu_);
  const StreamState* const stream = FindStream(handle);
  if (stream == nullptr || event > events_.size()) return std::nullopt;
  if (event == 0) {
    events_.emplace_back();
    event = static_cast<uint32_t>(events_.size());
  }
  events_[event - 1] = {stream->info, std::max(now, stream->end), event, next_sync_id_++};
  return events_[event - 1];
}

std::optional<EventInfo> Gpu::Event(uint32_t event) {
  const std::lock_guard lock(mu_);
  if (event == 0 || event > events_.size()) return std::nullopt;
  return events_[event - 1];
}

bool Gpu::WaitEvent(uint32_t handle, const EventInfo& event) {
  const std::lock_guard lock(mu_);
  StreamState* const stream = FindStream(handle);
  if (stream == nullptr) return false;
  stream->end = std::max(stream->end, event.time_ns);
  return true;
}

bool Gpu::BeginCapture(uint32_t handle) {
  const std::lock_guard lock(mu_);
  StreamState* const stream = FindStream(handle);
  if (stream == nullptr || stream->capture != 0) return false;
  graphs_.emplace_back();
  stream->capture = static_cast<uint32_t>(graphs_.size());
  return true;
}

std::optional<uint32_t> Gpu::EndCapture(uint32_t handle) {
  const std::lock_guard lock(mu_);
  StreamState* const stream = FindStream(handle);
  if (stream == nullptr || stream->capture == 0) return std::nullopt;
  const uint32_t graph = stream->capture;
  stream->capture = 0;
  return graph;
}

std::optional<uint32_t> Gpu::Instantiate(const Exec& exec) {
  const std::lock_guard lock(mu_);
  if (exec.graph == 0 || exec.graph > graphs_.size()) return std::nullopt;
  execs_.push_back(exec);
  return static_cast<uint32_t>(execs_.size());
}

std::optional<Gpu::Exec> Gpu::FindExec(uint32_t exec) {
  const std::lock_guard lock(mu_);
  if (exec == 0 || exec > execs_.size()) return std::nullopt;
  return execs_[exec - 1];
}

std::optional<std::vector<Op>> Gpu::LaunchGraph(uint32_t exec, uint32_t handle, uint64_t now) {
  const std::lock_guard lock(mu_);
  StreamState* const stream = FindStream(handle);
  if (stream == nullptr || stream->capture != 0 || exec == 0 || exec > execs_.size()) {
    return std::nullopt;
  }
  const Exec& launched = execs_[exec - 1];
  std::vector<Op> ops;
  for (const Work& node : graphs_[launched.graph - 1]) {
    Op& op = ops.emplace_back();
    op.work = node;
    Run(*stream, node, now, op);
    if (launched.is_opaque || (launched.is_unwatched && node.kind == kMemset)) {
      op.work.kind = kKernel;
      op.work.function = nullptr;
    }
    op.graph = exec;
    op.graph_node = static_cast<uint64_t>(exec) << 32 | ops.size();
  }
  return ops;
}

std::optional<Allocation> Gpu::Allocate(uint32_t handle, uint64_t bytes, bool is_async) {
  const std::lock_guard lock(mu_);
  const StreamState* const stream = FindStream(handle);
  if (stream == nullptr || bytes == 0) return std::nullopt;
  Device& device = devices_[stream->info.device];
  const Allocation made{device.next_address, bytes, stream->info.device, stream->info.context,
                        is_async};
  device.next_address +=
      (bytes + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
  allocations_[made.address] = made;
  return made;
}

std::optional<Allocation> Gpu::Free(uint64_t address) {
  const std::lock_guard lock(mu_);
  const auto it = allocations_.find(address);
  if (it == allocations_.end()) return std::nullopt;
  const Allocation freed = it->second;
  allocations_.erase(it);
  return freed;
}

std::optional<Pool> Gpu::PoolOf(uint32_t handle, int64_t utilized_change, uint64_t trim_to) {
  const std::lock_guard lock(mu_);
  const StreamState* const stream = FindStream(handle);
  if (stream == nullptr) return std::nullopt;
  Pool& pool = devices_[stream->info.device].pool;
  pool.is_new = pool.address == 0;
  if (pool.is_new) pool.address = 0x5500'0000 + stream->info.device;
  pool.utilized += static_cast<uint64_t>(utilized_change);
  pool.size = std::max(std::min(pool.size, trim_to), pool.utilized);
  return pool;
}

}  // namespace sgpu
