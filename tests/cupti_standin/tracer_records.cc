// The half of Tracer that turns what happened into CUPTI's records.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/cupti_standin/clock.h"
#include "tests/cupti_standin/settings.h"
#include "tests/cupti_standin/tracer.h"
#include "tests/cupti_standin/versions.h"

namespace sgpu {
namespace {

constexpr uint8_t kPoison = 0xA5;
constexpr uint32_t kComputeChannel = 1;
constexpr uint32_t kCopyChannel = 2;
constexpr uint32_t kDecompressChannel = 3;
constexpr uint32_t kMultiprocessors = 132;
constexpr uint8_t kAsyncFlag = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, and of memsets.

struct Times {
  uint64_t start;
  uint64_t end;
};

// As the record of `op` has them. Work that has not ended has no end, and before it began no start.
Times TimesOf(const Op& op, bool is_finished) {
  if (op.is_untimed) return {0, 0};
  if (is_finished) return {Clock::Stamp(op.recorded_start), Clock::Stamp(op.recorded_end)};
  return {op.start <= Clock::Now() ? Clock::Stamp(op.recorded_start) : 0, 0};
}

sgpu_fate FateOf(const Op& op, bool is_finished) {
  if (op.is_untimed) return SGPU_UNTIMED;
  return is_finished ? SGPU_WRITTEN : SGPU_UNFINISHED;
}

template <size_t N>
void PoisonPadding(uint8_t (&padding)[N]) {
  if (settings().poison != 0) std::memset(padding, kPoison, N);
}

template <typename Padding>
void PoisonPadding(Padding& padding) {
  if (settings().poison != 0) std::memset(&padding, kPoison, sizeof(padding));
}

KernelRecord KernelRecordOf(const Op& op, const Times& times) {
  const Work& work = op.work;
  KernelRecord record{};
  record.kind = work.kind;
  record.start = times.start;
  record.end = times.end;
  record.completed = times.end;
  record.device = op.device;
  record.context = op.context;
  record.stream = op.stream_id;
  record.grid[0] = work.grid.x;
  record.grid[1] = work.grid.y;
  record.grid[2] = work.grid.z;
  record.block[0] = work.block.x;
  record.block[1] = work.block.y;
  record.block[2] = work.block.z;
  if (const Function* const function = work.function; function != nullptr) {
    record.name = function->name;
    record.registers = static_cast<uint16_t>(function->registers.load(std::memory_order_relaxed));
    record.static_shared = function->static_shared.load(std::memory_order_relaxed);
    record.dynamic_shared = function->dynamic_shared.load(std::memory_order_relaxed);
    record.shared_executed = record.static_shared + record.dynamic_shared;
    record.local_per_thread = function->local.load(std::memory_order_relaxed);
  }
  record.correlation = op.correlation;
  record.grid_id = op.correlation;
  if (op.has_latency_timestamps) {
    record.queued = Clock::Stamp(op.submitted);
    record.submitted = Clock::Stamp(op.submitted);
  }
  record.graph_node = op.graph_node;
  record.graph = op.graph;
  record.channel = op.stream_id;
  record.channel_type = kComputeChannel;
  PoisonPadding(record.reserved0);
  PoisonPadding(record.padding);
  PoisonPadding(record.padding3);
  return record;
}

CopyRecord CopyRecordOf(const Op& op, const Times& times) {
  const Work& work = op.work;
  CopyRecord record{};
  record.kind = work.kind;
  record.copy_kind = work.copy_kind;
  record.source_kind = work.source_kind;
  record.destination_kind = work.destination_kind;
  record.flags = work.is_async ? kAsyncFlag : 0;
  record.bytes = work.bytes;
  record.start = times.start;
  record.end = times.end;
  record.device = op.device;
  record.context = op.context;
  record.stream = op.stream_id;
  record.correlation = op.correlation;
  record.graph_node = op.graph_node;
  record.graph = op.graph;
  record.channel = work.copy_kind;
  record.channel_type = kCopyChannel;
  record.copy_count = 1;
  PoisonPadding(record.padding);
  PoisonPadding(record.reserved0);
  PoisonPadding(record.padding2);
  return record;
}

PeerCopyRecord PeerCopyRecordOf(const Op& op, const Times& times) {
  const Work& work = op.work;
  PeerCopyRecord record{};
  record.kind = work.kind;
  record.copy_kind = work.copy_kind;
  record.source_kind = work.source_kind;
  record.destination_kind = work.destination_kind;
  record.flags = work.is_async ? kAsyncFlag : 0;
  record.bytes = work.bytes;
  record.start = times.start;
  record.end = times.end;
  record.device = op.device;
  record.context = op.context;
  record.stream = op.stream_id;
  record.source_device = work.source_device;
  record.source_context = work.source_device + 1;
  record.destination_device = work.destination_device;
  record.destination_context = work.destination_device + 1;
  record.correlation = op.correlation;
  record.graph_node = op.graph_node;
  record.graph = op.graph;
  record.channel = work.copy_kind;
  record.channel_type = kCopyChannel;
  PoisonPadding(record.reserved0);
  PoisonPadding(record.tail);
  return record;
}

MemsetRecord MemsetRecordOf(const Op& op, const Times& times) {
  const Work& work = op.work;
  MemsetRecord record{};
  record.kind = work.kind;
  record.value = work.value;
  record.bytes = work.bytes;
  record.start = times.start;
  record.end = times.end;
  record.device = op.device;
  record.context = op.context;
  record.stream = op.stream_id;
  record.correlation = op.correlation;
  record.flags = work.is_async ? kAsyncFlag : 0;
  record.memory_kind = work.destination_kind;
  record.graph_node = op.graph_node;
  record.graph = op.graph;
  record.channel = op.stream_id;
  record.channel_type = kComputeChannel;
  PoisonPadding(record.padding);
  PoisonPadding(record.reserved0);
  PoisonPadding(record.padding2);
  return record;
}

GraphTraceRecord GraphTraceRecordOf(const Op& op, const Times& times) {
  GraphTraceRecord record{};
  record.kind = op.work.kind;
  record.correlation = op.correlation;
  record.start = times.start;
  record.end = times.end;
  record.device = op.device;
  record.graph = op.graph;
  record.context = op.context;
  record.stream = op.stream_id;
  record.end_device = op.device;
  record.end_context = op.context;
  PoisonPadding(record.reserved);
  return record;
}

MemDecompressRecord MemDecompressRecordOf(const Op& op, const Times& times) {
  MemDecompressRecord record{};
  record.kind = op.work.kind;
  record.device = op.device;
  record.context = op.context;
  record.stream = op.stream_id;
  record.channel = op.stream_id;
  record.channel_type = kDecompressChannel;
  record.correlation = op.correlation;
  record.operations = op.work.operations;
  record.source_bytes = op.work.bytes;
  record.start = times.start;
  record.end = times.end;
  PoisonPadding(record.reserved0);
  return record;
}

HostLaunchRecord HostLaunchRecordOf(const Op& op, const Times& times) {
  HostLaunchRecord record{};
  record.kind = op.work.kind;
  record.stream = op.stream_id;
  record.context = op.context;
  record.device = op.device;
  record.correlation = op.correlation;
  record.process = static_cast<uint32_t>(getpid());
  record.thread = record.process + 1;  // A thread of the driver's.
  record.start = times.start;
  record.end = times.end;
  PoisonPadding(record.padding);
  return record;
}

DeviceRecord DeviceRecordOf(uint32_t device) {
  DeviceRecord record{};
  record.kind = kDevice;
  record.memory_bandwidth = 3'352'000'000;  // In KB/s.
  record.memory_size = 80ULL << 30;
  record.constant_memory_size = 64 << 10;
  record.l2_size = 50 << 20;
  record.threads_per_warp = 32;
  record.core_clock_khz = 1'980'000;
  record.copy_engines = 2;
  record.multiprocessors = kMultiprocessors;
  record.max_ipc = 4;
  record.max_warps = 64;
  record.max_blocks = 32;
  record.max_shared_per_sm = 228 << 10;
  record.max_registers_per_sm = 65536;
  record.max_registers_per_block = 65536;
  record.max_shared_per_block = 48 << 10;
  record.max_threads_per_block = 1024;
  record.max_block[0] = record.max_block[1] = 1024;
  record.max_block[2] = 64;
  record.max_grid[0] = 0x7fffffff;
  record.max_grid[1] = record.max_grid[2] = 65535;
  record.capability_major = 9;
  record.capability_minor = 0;
  record.id = device;
  std::memset(record.uuid, 0x5a, sizeof(record.uuid));
  record.uuid[15] = static_cast<uint8_t>(device);
  record.name = strdup("Simulated GPU");
  record.cuda_visible = 1;
  record.gpu_instance = 0xffffffff;
  record.compute_instance = 0xffffffff;
  return record;
}

}  // namespace

namespace {

uint32_t HiddenDevices() {
  return static_cast<uint32_t>(std::clamp<int64_t>(settings().hidden_devices, 0, 16));
}

}  // namespace

void Tracer::Write(const Op& op, bool is_finished) {
  const Times times = TimesOf(op, is_finished);
  if (!op.is_untimed && is_finished) truth().SetTimes(op.truth, times.start, times.end);
  truth().SetFate(op.truth, FateOf(op, is_finished));
  switch (op.work.kind) {
    case kMemcpy: {
      const CopyRecord record = CopyRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    case kPeerCopy: {
      const PeerCopyRecord record = PeerCopyRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    case kMemset: {
      const MemsetRecord record = MemsetRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    case kGraphTrace: {
      const GraphTraceRecord record = GraphTraceRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    case kMemDecompress: {
      const MemDecompressRecord record = MemDecompressRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    case kHostLaunch: {
      const HostLaunchRecord record = HostLaunchRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
    default: {
      const KernelRecord record = KernelRecordOf(op, times);
      return WriteRecord(op, op.work.kind, &record);
    }
  }
}

void Tracer::DumpContext(const ContextInfo& context) {
  ContextRecord record{};
  record.kind = kContext;
  record.context = context.id;
  record.device = context.device;
  record.api_kind = 1;  // CUPTI_ACTIVITY_COMPUTE_API_CUDA
  record.null_stream = kDefaultStreamId;
  record.multiprocessors = kMultiprocessors;
  PoisonPadding(record.padding);
  PoisonPadding(record.padding2);
  Append(kContext, &record);
}

void Tracer::DumpStream(const StreamInfo& stream) {
  StreamRecord record{};
  record.kind = kStream;
  record.context = stream.context;
  record.stream = stream.id;
  record.priority = static_cast<uint32_t>(stream.priority);
  // CUpti_ActivityStreamFlag: 1 the default kind, 2 non-blocking, 3 the null stream.
  record.flag = stream.id == kDefaultStreamId ? 3 : (stream.flags & 1) + 1;
  Append(kStream, &record);
}

void Tracer::Dump(uint32_t kind) {
  switch (kind) {
    case kDevice:
      for (uint32_t device = 0; device < gpu().device_count() + HiddenDevices(); ++device) {
        DeviceRecord record = DeviceRecordOf(device);
        record.cuda_visible = device < gpu().device_count() ? 1 : 0;
        if (!Append(kDevice, &record)) std::free(const_cast<char*>(record.name));
      }
      break;
    case kContext:
      for (const ContextInfo& context : gpu().Contexts()) DumpContext(context);
      break;
    case kStream:
      for (const StreamInfo& stream : gpu().Streams()) DumpStream(stream);
      break;
    default:
      break;
  }
}

}  // namespace sgpu
