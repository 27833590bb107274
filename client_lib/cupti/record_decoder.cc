#include "client_lib/cupti/record_decoder.h"

#include <stdlib.h>
#include <string.h>

#include "client_lib/core/hot_state.h"
#include "proto/wire/sync_kinds.h"

namespace profd::client {
namespace {

using wire::EventKind;

#define PROFD_ALWAYS_INLINE __attribute__((always_inline)) inline

// The records that are read: their kind, their layout, and the size of the smallest that we can
// read, which is CUPTI 11.2's or the first there was.
#define PROFD_RECORDS(X)                             \
  X(kKindRuntime, ApiRecord, 40)                     \
  X(kKindDriver, ApiRecord, 40)                      \
  X(kKindConcurrentKernel, KernelRecord, 160)        \
  X(kKindKernel, KernelRecord, 160)                  \
  X(kKindMemcpy, MemcpyRecord, 72)                   \
  X(kKindMemcpyPeer, MemcpyPeerRecord, 80)           \
  X(kKindMemset, MemsetRecord, 72)                   \
  X(kKindMemDecompress, MemDecompressRecord, 64)     \
  X(kKindSynchronization, SynchronizationRecord, 40) \
  X(kKindCudaEvent, CudaEventRecord, 24)             \
  X(kKindGraphTrace, GraphTraceRecord, 48)           \
  X(kKindHostLaunch, HostLaunchRecord, 48)           \
  X(kKindGraphHostNode, GraphHostNodeRecord, 56)     \
  X(kKindOverhead, OverheadRecord, 40)               \
  X(kKindMemory, MemoryRecord, 112)                  \
  X(kKindMemoryPool, MemoryPoolRecord, 64)           \
  X(kKindDevice, DeviceRecord, 144)                  \
  X(kKindContext, ContextRecord, 16)                 \
  X(kKindStream, StreamRecord, 24)

// Whether a record of `bytes` has the field that ends at `end`.
#define PROFD_HAS(bytes, Record, field) ((bytes) >= offsetof(Record, field) + sizeof(Record::field))

}  // namespace

bool CanDecode(cupti::Kind kind, uint16_t bytes) {
  switch (kind) {
#define PROFD_CAN_DECODE(name, Record, smallest) \
  case cupti::name:                              \
    return bytes >= smallest;
    PROFD_RECORDS(PROFD_CAN_DECODE)
#undef PROFD_CAN_DECODE
    default:
      return false;
  }
}

void RecordDecoder::Begin(const Setup& setup) {
  memset(static_cast<void*>(this), 0, sizeof(*this));
  setup_ = setup;
  window_start_ticks_ = UINT64_MAX;
  window_end_ticks_ = UINT64_MAX;
  for (cupti::Kind kind = 0; kind < cupti::kKindLimit; ++kind) {
    is_known_[kind] = CanDecode(kind, setup.record_bytes[kind]);
  }
  // Before 13.0, whose kernel records are longer than those of 12.9, the byte was padding.
  copies_tell_launcher_ =
      setup.record_bytes[cupti::kKindMemcpy] >= sizeof(cupti::MemcpyRecord) &&
      setup.record_bytes[cupti::kKindConcurrentKernel] >= sizeof(cupti::KernelRecord);
}

void RecordDecoder::Decode(const std::byte* buffer, uint64_t bytes, EventSink* sink) {
  uint64_t at = 0;
  while (at + sizeof(cupti::Activity) <= bytes) {
    cupti::Kind kind;
    memcpy(&kind, buffer + at, sizeof(kind));
    const uint32_t size = kind < cupti::kKindLimit ? setup_.record_bytes[kind] : 0;
    // Without a size there is no next record; and none may run past the end.
    if (PROFD_UNLIKELY(size == 0 || size > bytes - at)) break;
    if (PROFD_LIKELY(is_known_[kind])) {
      DecodeOne(buffer + at, size, sink);
    } else {
      ++counts_[wire::kGpuUnknownKind];
    }
    at += size;
    ++counts_[wire::kGpuRecords];
  }
  if (at == bytes) return;
  constexpr uint64_t kSmallest = 16;
  const uint64_t lost = (bytes - at + kSmallest - 1) / kSmallest;
  counts_[wire::kGpuRecords] += lost;
  counts_[wire::kGpuCorrupt] += lost;
}

uint64_t CountRecords(const uint16_t* record_bytes, const std::byte* buffer, uint64_t bytes) {
  uint64_t count = 0;
  uint64_t at = 0;
  while (at + sizeof(cupti::Activity) <= bytes) {
    cupti::Kind kind;
    memcpy(&kind, buffer + at, sizeof(kind));
    const uint32_t size = kind < cupti::kKindLimit ? record_bytes[kind] : 0;
    if (size == 0 || size > bytes - at) break;
    at += size;
    ++count;
  }
  return at == bytes ? count : count + 1;
}

// The event's place, its header written and the rest whatever was there before; the caller
// writes all of it. Null: it is counted as lost.
template <typename Event>
PROFD_ALWAYS_INLINE Event* RecordDecoder::NewEvent(EventSink* sink, EventKind kind, uint8_t flags,
                                                   uint32_t thread) {
  if (PROFD_UNLIKELY(over_cap())) {
    ++counts_[wire::kGpuOverCap];
    return nullptr;
  }
  if (PROFD_UNLIKELY(static_cast<size_t>(sink->end - sink->at) < sizeof(Event)) &&
      !sink->make_room(sink, sizeof(Event))) {
    ++counts_[wire::kGpuNoChunk];
    return nullptr;
  }
  auto* event = reinterpret_cast<Event*>(sink->at);
  sink->at += sizeof(Event);
  ++event_count_;
  event->header = {sizeof(Event), static_cast<uint8_t>(kind), flags, thread};
  return event;
}

PROFD_ALWAYS_INLINE bool RecordDecoder::IsInTime(uint64_t end_ticks) {
  if (PROFD_LIKELY(end_ticks >= window_start_ticks_)) return true;
  ++counts_[end_ticks < setup_.begin_ticks ? wire::kGpuStale : wire::kGpuBeforeWindow];
  return false;
}

PROFD_ALWAYS_INLINE bool RecordDecoder::TakeSpan(uint64_t start_ns, uint64_t end_ns, Span* span) {
  if (PROFD_UNLIKELY(end_ns == 0)) {
    if (start_ns == 0) {
      ++counts_[wire::kGpuUntimed];
      return false;
    }
    const uint64_t start = setup_.clock->ToTicks(start_ns);
    if (is_kept_buffer_ && start < setup_.begin_ticks) {
      ++counts_[wire::kGpuStale];
      return false;
    }
    // It runs still, so it is in every window.
    ++counts_[wire::kGpuUnfinished];
    *span = {start, 0, wire::kGpuFlagUnfinished};
    return true;
  }
  const uint64_t start = setup_.clock->ToTicks(start_ns);
  const uint64_t end = setup_.clock->ToTicks(end_ns);
  if (!IsInTime(end)) return false;
  *span = {start, end > start ? end - start : 0, 0};
  return true;
}

PROFD_ALWAYS_INLINE bool RecordDecoder::TakeWork(uint32_t correlation, uint64_t start_ns,
                                                 uint64_t end_ns, Span* span, EventSink* sink) {
  if (PROFD_UNLIKELY(start_ns == 0 && end_ns == 0)) {
    TakeUntimedWork(correlation);
    return false;
  }
  if (!TakeSpan(start_ns, end_ns, span)) {
    if (PROFD_UNLIKELY(window_start_ticks_ == UINT64_MAX)) NoteEarlyWork(correlation);
    return false;
  }
  ++work_count_;
  uint8_t* launch = launches_.At(correlation);
  if (PROFD_UNLIKELY(launch == nullptr || (*launch & LaunchTracker::kOfWindow) == 0)) {
    return TakeOtherWork(correlation, launch, span, sink);
  }
  *launch |= LaunchTracker::kHasWork;
  return true;
}

PROFD_ALWAYS_INLINE bool RecordDecoder::IsOfWindow(uint32_t correlation) const {
  return window_first_id_ != 0 &&
         correlation - window_first_id_ <= window_last_id_ - window_first_id_;
}

// `correlation` is the ID of a host record that began at `start_ticks`.
PROFD_ALWAYS_INLINE void RecordDecoder::NoteHostTime(uint32_t correlation, uint64_t start_ticks) {
  if (correlation == 0 || start_ticks < window_start_ticks_) return;
  if (PROFD_UNLIKELY(start_ticks >= window_end_ticks_)) {
    if (next_id_ == 0 || IsBefore(correlation, next_id_)) next_id_ = correlation;
    return;
  }
  if (PROFD_UNLIKELY(window_first_id_ == 0)) window_first_id_ = window_last_id_ = correlation;
  if (IsBefore(correlation, window_first_id_)) window_first_id_ = correlation;
  if (IsBefore(window_last_id_, correlation)) window_last_id_ = correlation;
}

// Work that no call of the window launched, as far as calls have been decoded.
PROFD_NOINLINE bool RecordDecoder::TakeOtherWork(uint32_t correlation, uint8_t* launch, Span* span,
                                                 EventSink* sink) {
  const bool is_later = span->start_ticks >= window_end_ticks_;
  if (is_later && leaves_out_later_work_ && !IsOfWindow(correlation)) {
    ++counts_[wire::kGpuLaterLaunch];
    // Launched before the window: the window's work may come after it. From 13.0 on, what is
    // launched while no calls are recorded has ID 0.
    const bool has_id = correlation != 0;
    const bool is_earlier =
        has_id && window_first_id_ != 0 && IsBefore(correlation, window_first_id_);
    if (!is_earlier) --work_count_;
    if (has_id && !is_earlier && (next_id_ == 0 || IsBefore(correlation, next_id_))) {
      ++unsure_count_;
    }
    if ((span->flags & wire::kGpuFlagUnfinished) != 0) --counts_[wire::kGpuUnfinished];
    return false;
  }
  if (launch == nullptr) return true;
  if (!is_later) {
    if ((*launch & LaunchTracker::kCallIsHeld) == 0) {
      *launch |= LaunchTracker::kWantsCall;
    } else {
      *launch &= static_cast<uint8_t>(~LaunchTracker::kCallIsHeld);
      const cupti::ApiRecord& call = early_[correlation % kEarlySlots];
      if (call.correlation == correlation) {
        --counts_[wire::kGpuBeforeWindow];
        WriteEarlyLaunch(call, sink);
      }
    }
  }
  *launch |= LaunchTracker::kHasWork;
  return true;
}

void RecordDecoder::SettleUntimed() {
  for (uint32_t i = 0; i < untimed_count_; ++i) {
    const uint8_t* launch = launches_.At(untimed_[i]);
    const bool is_of_window =
        IsOfWindow(untimed_[i]) || (launch != nullptr && (*launch & LaunchTracker::kOfWindow) != 0);
    ++counts_[is_of_window ? wire::kGpuStillRunning : wire::kGpuLaterLaunch];
  }
  untimed_count_ = 0;
}

LaunchTracker::Missing RecordDecoder::MissingWork() {
  for (const HeldCall& held : held_) {
    if (!held.is_held || held.record.return_value != 0) continue;
    const ApiName& name = apis_[1][held.record.cbid < kApiSlots ? held.record.cbid : kApiSlots - 1];
    const uint64_t start_ticks = setup_.clock->ToTicks(held.record.start_ns);
    NoteCall(held.record, name.launches, start_ticks);
  }
  return CountMissing();
}

// A call with its start; `launches` are the flags of what it launches. True: its wait is held.
PROFD_ALWAYS_INLINE bool RecordDecoder::NoteCall(const cupti::ApiRecord& record, uint8_t launches,
                                                 uint64_t start_ticks) {
  NoteHostTime(record.correlation, start_ticks);
  uint8_t* launch = launches_.At(record.correlation);
  if (launch == nullptr) return false;
  const bool has_wait = (*launch & LaunchTracker::kWaitIsHeld) != 0;
  *launch |= LaunchTracker::kHasCall;
  if (first_call_id_ == 0 || IsBefore(record.correlation, first_call_id_)) {
    first_call_id_ = record.correlation;
  }
  if (start_ticks < window_start_ticks_ || start_ticks >= window_end_ticks_) return has_wait;
  *launch |= LaunchTracker::kOfWindow;
  // What becomes a node of a graph has no work of its own.
  if (PROFD_LIKELY(capturing_count_ == 0) || !IsCapturing(record.thread)) *launch |= launches;
  return has_wait;
}

// Notes a call before the window. Keeps it if it launches something, although it is counted as
// kGpuBeforeWindow, until its work shows whether it ran in the window.
PROFD_NOINLINE void RecordDecoder::NoteEarlyCall(const cupti::ApiRecord& record, bool launches,
                                                 EventSink* sink) {
  if (record.end_ns == 0 || setup_.clock->ToTicks(record.end_ns) < setup_.begin_ticks) return;
  NoteCall(record, 0, 0);
  uint8_t* launch = launches_.At(record.correlation);
  if (launch == nullptr || !launches) return;
  if (PROFD_UNLIKELY(capturing_count_ != 0) && IsCapturing(record.thread)) return;
  if ((*launch & LaunchTracker::kWantsCall) != 0) {
    *launch &= static_cast<uint8_t>(~LaunchTracker::kWantsCall);
    --counts_[wire::kGpuBeforeWindow];
    WriteEarlyLaunch(record, sink);
    return;
  }
  *launch |= LaunchTracker::kCallIsHeld;
  early_[record.correlation % kEarlySlots] = record;
}

PROFD_NOINLINE void RecordDecoder::WriteEarlyLaunch(const cupti::ApiRecord& record,
                                                    EventSink* sink) {
  const uint8_t flags = wire::kGpuFlagEarlyLaunch |
                        (record.kind == cupti::kKindDriver ? wire::kGpuFlagDriverApi : uint8_t{0});
  auto* event = NewEvent<wire::ApiCallEvent>(sink, EventKind::kApiCall, flags, record.thread);
  if (event == nullptr) return;
  const uint64_t start = setup_.clock->ToTicks(record.start_ns);
  const uint64_t end = setup_.clock->ToTicks(record.end_ns);
  event->start_ticks = start;
  event->duration_ticks = end > start ? end - start : 0;
  event->name_id = ApiNameOf(record, sink).name_id;
  event->correlation = record.correlation;
  event->cbid = record.cbid;
  event->result = static_cast<int32_t>(record.return_value);
}

template <>
void RecordDecoder::DecodeRecord(const cupti::KernelRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  has_nodes_ |= record.graph_node_id != 0;
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  if (PROFD_UNLIKELY(record.graph_node_id != 0 && record.name == nullptr)) {
    return WriteUnnamedNode(record, span, sink);
  }
  const uint32_t name_id = KernelNameId(record.name, sink);
  auto* event = NewEvent<wire::KernelEvent>(sink, EventKind::kKernel, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->name_id = name_id;
  event->graph_id = record.graph_id;
  event->graph_node_id = record.graph_node_id;
  event->queued_ticks = record.queued_ns != 0 ? setup_.clock->ToTicks(record.queued_ns) : 0;
  event->submitted_ticks =
      record.submitted_ns != 0 ? setup_.clock->ToTicks(record.submitted_ns) : 0;
  for (int i = 0; i < 3; ++i) {
    event->grid[i] = static_cast<uint32_t>(record.grid[i]);
    event->block[i] = static_cast<uint32_t>(record.block[i]);
  }
  event->static_shared_bytes = static_cast<uint32_t>(record.static_shared_bytes);
  event->dynamic_shared_bytes = static_cast<uint32_t>(record.dynamic_shared_bytes);
  event->local_bytes_per_thread = record.local_bytes_per_thread;
  event->registers_per_thread = record.registers_per_thread;
  event->reserved = 0;
  const bool has_cluster = PROFD_HAS(bytes, cupti::KernelRecord, cluster);
  for (int i = 0; i < 3; ++i) {
    event->cluster[i] = has_cluster ? static_cast<uint16_t>(record.cluster[i]) : uint16_t{0};
  }
  event->channel =
      PROFD_HAS(bytes, cupti::KernelRecord, channel) ? static_cast<uint16_t>(record.channel) : 0;
  if (PROFD_HAS(bytes, cupti::KernelRecord, is_device_launched) && record.is_device_launched != 0) {
    event->header.flags |= wire::kGpuFlagDeviceLaunched;
  }
}

// CUPTI records memset nodes of graphs that were instantiated before the attach as kernels. How
// many bytes they set is unknown.
PROFD_NOINLINE void RecordDecoder::WriteUnnamedNode(const cupti::KernelRecord& record,
                                                    const Span& span, EventSink* sink) {
  auto* event = NewEvent<wire::MemsetEvent>(sink, EventKind::kMemset, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->bytes = 0;
  event->graph_node_id = record.graph_node_id;
  event->graph_id = record.graph_id;
  event->value = 0;
  event->memory_kind = 0;
  event->reserved0 = 0;
  event->reserved1 = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemcpyRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  if ((record.flags & cupti::kFlagMemcpyAsync) != 0) span.flags |= wire::kGpuFlagAsync;
  if (copies_tell_launcher_ && record.is_device_launched != 0) {
    span.flags |= wire::kGpuFlagDeviceLaunched;
  }
  auto* event = NewEvent<wire::MemcpyEvent>(sink, EventKind::kMemcpy, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->bytes = record.bytes;
  event->graph_node_id = record.graph_node_id;
  event->graph_id = PROFD_HAS(bytes, cupti::MemcpyRecord, graph_id) ? record.graph_id : 0;
  event->copy_kind = record.copy_kind;
  event->source_kind = record.source_kind;
  event->destination_kind = record.destination_kind;
  event->reserved0 = 0;
  event->source_device = wire::kNoDevice;
  event->destination_device = wire::kNoDevice;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemcpyPeerRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  if ((record.flags & cupti::kFlagMemcpyAsync) != 0) span.flags |= wire::kGpuFlagAsync;
  auto* event = NewEvent<wire::MemcpyEvent>(sink, EventKind::kMemcpy, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->bytes = record.bytes;
  event->graph_node_id = record.graph_node_id;
  event->graph_id = PROFD_HAS(bytes, cupti::MemcpyPeerRecord, graph_id) ? record.graph_id : 0;
  event->copy_kind = record.copy_kind;
  event->source_kind = record.source_kind;
  event->destination_kind = record.destination_kind;
  event->reserved0 = 0;
  event->source_device = record.source_device;
  event->destination_device = record.destination_device;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemsetRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  if ((record.flags & cupti::kFlagMemsetAsync) != 0) span.flags |= wire::kGpuFlagAsync;
  auto* event = NewEvent<wire::MemsetEvent>(sink, EventKind::kMemset, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->bytes = record.bytes;
  event->graph_node_id = record.graph_node_id;
  event->graph_id = PROFD_HAS(bytes, cupti::MemsetRecord, graph_id) ? record.graph_id : 0;
  event->value = record.value;
  event->memory_kind = record.memory_kind;
  event->reserved0 = 0;
  event->reserved1 = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemDecompressRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  span.flags |= wire::kGpuFlagAsync;
  auto* event = NewEvent<wire::MemDecompressEvent>(sink, EventKind::kMemDecompress, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->bytes = record.source_bytes;
}

PROFD_ALWAYS_INLINE const RecordDecoder::ApiName& RecordDecoder::ApiNameOf(
    const cupti::ApiRecord& record, EventSink* sink) {
  // Numbers beyond the table share its last place, under a name that says so.
  const uint32_t index = record.cbid < kApiSlots ? record.cbid : kApiSlots - 1;
  ApiName& name = apis_[record.kind == cupti::kKindDriver ? 1 : 0][index];
  if (PROFD_UNLIKELY(name.name_id == wire::kNoNameId)) ReadApiName(record, &name, sink);
  return name;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::ApiRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  if (!ApiNameOf(record, sink).is_kept) {
    ++counts_[wire::kGpuFilteredApi];
    return;
  }
  if (record.kind == cupti::kKindDriver) return HoldDriverCall(record, sink);
  HeldCall& held = held_[record.thread % kHeldSlots];
  if (held.record.thread == record.thread) {
    if (held.is_held && record.correlation != 0 && held.record.correlation == record.correlation) {
      held.is_held = false;
      ++counts_[wire::kGpuFilteredApi];
    }
    held.last_runtime_correlation = record.correlation;
  }
  WriteApi(record, sink);
}

void RecordDecoder::HoldDriverCall(const cupti::ApiRecord& record, EventSink* sink) {
  HeldCall& held = held_[record.thread % kHeldSlots];
  const bool same_thread = held.record.thread == record.thread;
  const bool has_id = record.correlation != 0;
  // After the runtime call that it was inside of, if buffers came in that order.
  if (same_thread && has_id && held.last_runtime_correlation == record.correlation) {
    ++counts_[wire::kGpuFilteredApi];
    return;
  }
  if (held.is_held) {
    // Two of one id are both inside the same runtime call.
    if (same_thread && has_id && held.record.correlation == record.correlation) {
      ++counts_[wire::kGpuFilteredApi];
    } else {
      WriteApi(held.record, sink);
    }
  }
  held.record = record;
  held.is_held = true;
  if (!same_thread) held.last_runtime_correlation = 0;
}

void RecordDecoder::Flush(EventSink* sink) {
  for (HeldCall& held : held_) {
    if (held.is_held) WriteApi(held.record, sink);
    held.is_held = false;
  }
  for (cupti::SynchronizationRecord& wait : waits_) {
    if (wait.kind != 0) ++counts_[wire::kGpuFilteredApi];
    wait.kind = 0;
  }
}

void RecordDecoder::WriteApi(const cupti::ApiRecord& record, EventSink* sink) {
  const ApiName& name = ApiNameOf(record, sink);
  if (PROFD_UNLIKELY(name.begins_capture || name.ends_capture) && record.return_value == 0) {
    NoteGraphCapture(name, record.thread);
  }
  const bool launches = name.launches != 0 && record.return_value == 0;
  Span span;
  if (!TakeSpan(record.start_ns, record.end_ns, &span)) {
    return NoteEarlyCall(record, launches, sink);
  }
  if (launches && PROFD_UNLIKELY(span.start_ticks < window_start_ticks_)) {
    ++counts_[wire::kGpuBeforeWindow];
    return NoteEarlyCall(record, launches, sink);
  }
  const bool has_wait = NoteCall(record, launches ? name.launches : uint8_t{0}, span.start_ticks);
  if (PROFD_UNLIKELY(has_wait)) WriteHeldWait(record.correlation, sink);
  if (record.kind == cupti::kKindDriver) span.flags |= wire::kGpuFlagDriverApi;
  auto* event = NewEvent<wire::ApiCallEvent>(sink, EventKind::kApiCall, span.flags, record.thread);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->name_id = name.name_id;
  event->correlation = record.correlation;
  event->cbid = record.cbid;
  event->result = static_cast<int32_t>(record.return_value);
}

template <>
void RecordDecoder::DecodeRecord(const cupti::SynchronizationRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  if (!HoldWait(record)) WriteSync(record, sink);
}

// Keeps a wait that may be a query's until its call comes. False: it is none.
bool RecordDecoder::HoldWait(const cupti::SynchronizationRecord& record) {
  // A query takes a few microseconds.
  constexpr uint64_t kLongestQueryNs = 50'000;
  if ((record.type != cupti::kSynchronizationEvent &&
       record.type != cupti::kSynchronizationStream) ||
      record.end_ns - record.start_ns > kLongestQueryNs) {
    return false;
  }
  uint8_t* launch = launches_.At(record.correlation);
  if (launch == nullptr || (*launch & LaunchTracker::kHasCall) != 0) return false;
  *launch |= LaunchTracker::kWaitIsHeld;
  cupti::SynchronizationRecord& slot = waits_[record.correlation % kWaitSlots];
  if (slot.kind != 0) ++counts_[wire::kGpuFilteredApi];
  memcpy(&slot, &record, offsetof(cupti::SynchronizationRecord, event_sync_id));
  return true;
}

PROFD_NOINLINE void RecordDecoder::WriteHeldWait(uint32_t correlation, EventSink* sink) {
  cupti::SynchronizationRecord& slot = waits_[correlation % kWaitSlots];
  if (slot.kind == 0 || slot.correlation != correlation) return;
  slot.kind = 0;
  WriteSync(slot, sink);
}

void RecordDecoder::WriteSync(const cupti::SynchronizationRecord& record, EventSink* sink) {
  Span span;
  if (!TakeSpan(record.start_ns, record.end_ns, &span)) return;
  NoteHostTime(record.correlation, span.start_ticks);
  auto* event = NewEvent<wire::SyncEvent>(sink, EventKind::kSync, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->sync_kind = record.type;
  event->context = record.context;
  event->stream = record.stream;
  event->correlation = record.correlation;
  event->event_id = record.event_id == UINT32_MAX ? 0 : record.event_id;
  event->reserved = 0;
}

// Its ID is that of its launch, which may be long before: it says nothing of the window's IDs.
template <typename Record>
void RecordDecoder::DecodeHostFunction(const Record& record, uint32_t sync_kind, EventSink* sink) {
  Span span;
  if (!TakeSpan(record.start_ns, record.end_ns, &span)) return;
  auto* event = NewEvent<wire::SyncEvent>(sink, EventKind::kSync, span.flags, record.thread);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->sync_kind = sync_kind;
  event->context = record.context;
  event->stream = record.stream;
  event->correlation = record.correlation;
  event->event_id = 0;
  event->reserved = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::HostLaunchRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  DecodeHostFunction(record, wire::kSyncHostFunction, sink);
}

template <>
void RecordDecoder::DecodeRecord(const cupti::GraphHostNodeRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  DecodeHostFunction(record, wire::kSyncGraphHostNode, sink);
}

template <>
void RecordDecoder::DecodeRecord(const cupti::CudaEventRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  // It carries no time, so the window cannot tell; it goes with the call that recorded it.
  auto* event = NewEvent<wire::CudaEventEvent>(sink, EventKind::kCudaEvent, 0, 0);
  if (event == nullptr) return;
  const uint32_t device =
      PROFD_HAS(bytes, cupti::CudaEventRecord, device) ? record.device : wire::kNoDevice;
  event->place = {device, record.context, record.stream, record.correlation};
  event->event_id = record.event_id;
  event->reserved = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::GraphTraceRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  Span span;
  if (!TakeWork(record.correlation, record.start_ns, record.end_ns, &span, sink)) return;
  auto* event = NewEvent<wire::GraphLaunchEvent>(sink, EventKind::kGraphLaunch, span.flags, 0);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->place = {record.device, record.context, record.stream, record.correlation};
  event->graph_id = record.graph_id;
  event->reserved = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::OverheadRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  if (PROFD_HAS(bytes, cupti::OverheadRecord, data) && record.data != nullptr) free(record.data);
  Span span;
  if (!TakeSpan(record.start_ns, record.end_ns, &span)) return;
  if (PROFD_HAS(bytes, cupti::OverheadRecord, correlation)) {
    NoteHostTime(record.correlation, span.start_ticks);
  }
  const uint32_t thread = record.object_kind == cupti::kObjectThread ? record.object_id[1] : 0;
  auto* event = NewEvent<wire::OverheadEvent>(sink, EventKind::kOverhead, span.flags, thread);
  if (event == nullptr) return;
  event->start_ticks = span.start_ticks;
  event->duration_ticks = span.duration_ticks;
  event->overhead_kind = record.overhead_kind;
  event->correlation =
      PROFD_HAS(bytes, cupti::OverheadRecord, correlation) ? record.correlation : 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemoryRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  if (record.time_ns == 0) {
    ++counts_[wire::kGpuUntimed];
    return;
  }
  const uint64_t ticks = setup_.clock->ToTicks(record.time_ns);
  if (!IsInTime(ticks)) return;
  uint8_t flags = record.operation == cupti::kMemoryOperationRelease ? wire::kEventFlagFree : 0;
  // Bits of two numberings in one byte: a free is bit 0, an asynchronous one also bit 1.
  if (record.is_async != 0) flags |= wire::kGpuFlagAsync;
  auto* event = NewEvent<wire::DeviceMemoryEvent>(sink, EventKind::kDeviceMemory, flags, 0);
  if (event == nullptr) return;
  event->time_ticks = ticks;
  event->address = record.address;
  event->bytes = record.bytes;
  event->utilized_bytes = 0;
  event->device = record.device;
  event->context = record.context;
  event->correlation = record.correlation;
  event->memory_kind = static_cast<uint16_t>(record.memory_kind);
  event->reserved = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::MemoryPoolRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  if (record.time_ns == 0) {
    ++counts_[wire::kGpuUntimed];
    return;
  }
  const uint64_t ticks = setup_.clock->ToTicks(record.time_ns);
  if (!IsInTime(ticks)) return;
  const auto flags = static_cast<uint8_t>(
      wire::kGpuFlagPool |
      (record.operation == cupti::kPoolOperationDestroyed ? wire::kEventFlagFree : 0));
  auto* event = NewEvent<wire::DeviceMemoryEvent>(sink, EventKind::kDeviceMemory, flags, 0);
  if (event == nullptr) return;
  event->time_ticks = ticks;
  event->address = record.address;
  event->bytes = record.bytes;
  event->utilized_bytes =
      PROFD_HAS(bytes, cupti::MemoryPoolRecord, utilized_bytes) ? record.utilized_bytes : 0;
  event->device = record.device;
  event->context = 0;
  event->correlation = record.correlation;
  event->memory_kind = 0;
  event->reserved = 0;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::DeviceRecord& record, uint32_t bytes,
                                 EventSink* sink) {
  char name[256];
  ptrdiff_t length = -1;
  if (record.name != nullptr) {
    length = CopyText(record.name, name, sizeof(name));
    if (length >= 0) free(const_cast<char*>(record.name));
  }
  // CUPTI describes all GPUs of the node, also those that CUDA_VISIBLE_DEVICES hides.
  if (PROFD_HAS(bytes, cupti::DeviceRecord, is_visible) && record.is_visible == 0) return;
  wire::DeviceEvent device{};
  device.device = record.id;
  device.name_id = length > 0 ? sink->intern(sink, name, static_cast<size_t>(length))
                              : sink->intern(sink, kNoName, sizeof(kNoName) - 1);
  device.memory_bytes = record.memory_bytes;
  device.compute_major = record.compute_major;
  device.compute_minor = record.compute_minor;
  device.sm_count = record.sm_count;
  device.warp_threads = record.warp_threads;
  device.max_threads_per_block = record.max_threads_per_block;
  device.max_threads_per_sm = record.max_warps_per_sm * record.warp_threads;
  device.max_blocks_per_sm = record.max_blocks_per_sm;
  device.registers_per_block = record.registers_per_block;
  device.registers_per_sm = record.registers_per_sm;
  device.shared_bytes_per_block = record.shared_bytes_per_block;
  device.shared_bytes_per_sm = record.shared_bytes_per_sm;
  memcpy(device.uuid, record.uuid, sizeof(device.uuid));
  WriteDevice(device, sink);
}

bool RecordDecoder::WriteDevice(const wire::DeviceEvent& device, EventSink* sink) {
  if (device.device >= 64 || (devices_seen_ >> device.device & 1) != 0) return false;
  auto* event = NewEvent<wire::DeviceEvent>(sink, EventKind::kDevice, 0, 0);
  if (event == nullptr) return false;
  devices_seen_ |= uint64_t{1} << device.device;
  const wire::EventHeader header = event->header;
  memcpy(event, &device, sizeof(device));
  event->header = header;
  return true;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::ContextRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  auto* event = NewEvent<wire::ContextEvent>(sink, EventKind::kContext, 0, 0);
  if (event == nullptr) return;
  event->context = record.context;
  event->device = record.device;
}

template <>
void RecordDecoder::DecodeRecord(const cupti::StreamRecord& record, uint32_t /*bytes*/,
                                 EventSink* sink) {
  auto* event = NewEvent<wire::StreamEvent>(sink, EventKind::kStream, 0, 0);
  if (event == nullptr) return;
  event->context = record.context;
  event->stream = record.stream;
  event->priority = static_cast<int32_t>(record.priority);
  event->flags = record.flags;
}

// `record` has the size of its kind in this CUPTI, at least the smallest of PROFD_RECORDS.
void RecordDecoder::DecodeOne(const std::byte* record, uint32_t bytes, EventSink* sink) {
  switch (reinterpret_cast<const cupti::Activity*>(record)->kind) {
#define PROFD_DECODE(name, Record, smallest) \
  case cupti::name:                          \
    return DecodeRecord(*reinterpret_cast<const cupti::Record*>(record), bytes, sink);
    PROFD_RECORDS(PROFD_DECODE)
#undef PROFD_DECODE
    default:
      break;
  }
}

uint32_t RecordDecoder::KernelNameId(const char* text, EventSink* sink) {
  constexpr uint32_t kProbes = 8;
  const auto address = reinterpret_cast<uintptr_t>(text);
  const uint64_t hash = (address >> 3) * 0x9fb21c651e98df25;
  KernelName* victim = nullptr;
  for (uint32_t i = 0; i < kProbes; ++i) {
    KernelName& entry = kernels_[((hash >> 40) + i) % kKernelSlots];
    if (entry.text == text && text != nullptr) {
      if (PROFD_LIKELY(entry.batch == batch_)) return entry.name_id;
      return ReadKernelName(&entry, text, sink);
    }
    if (victim == nullptr && (entry.text == nullptr || entry.batch != batch_)) victim = &entry;
    if (entry.text == nullptr) break;
  }
  if (victim == nullptr) victim = &kernels_[(hash >> 40) % kKernelSlots];
  victim->text = text;
  victim->name_id = wire::kNoNameId;
  return ReadKernelName(victim, text, sink);
}

}  // namespace profd::client
