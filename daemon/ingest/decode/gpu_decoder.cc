#include "daemon/ingest/decode/gpu_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "daemon/ingest/decode/untrusted_values.h"
#include "proto/wire/sync_kinds.h"

namespace profd {
namespace {

using wire::EventKind;

constexpr uint32_t kFirstBadDevice = kNoGpuDevice;
constexpr char kMemoryThreadName[] = "CUDA memory";

// A copy's other end. False: no device can have that number.
bool TakePeer(uint32_t device, uint16_t& peer) {
  if (device != wire::kNoDevice && device >= kFirstBadDevice) return false;
  peer = device == wire::kNoDevice ? kNoGpuDevice : static_cast<uint16_t>(device);
  return true;
}

uint8_t FlagIf(bool condition, uint8_t flag) { return condition ? flag : uint8_t{0}; }

}  // namespace

GpuDecoder::GpuDecoder(GpuMode mode, const Context& context)
    : mode_(mode), has_calls_(mode >= GpuMode::kDefault), context_(context) {}

void GpuDecoder::EnterChunk(uint32_t os_thread, uint64_t latest_ticks) {
  chunk_os_thread_ = os_thread;
  latest_ticks_ = latest_ticks;
}

// ---- one kind each ----

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::ApiCallEvent& event) {
  Span span;
  const uint32_t name = context_.names.Find(event.name_id);
  if (name == NameTable::kNoName || !TakeSpan(event.start_ticks, event.duration_ticks, span)) {
    return false;
  }
  // Where it begins is what counts. The target sends an earlier launch only if work of it ran in
  // the window.
  const Span begin = {span.start, span.start};
  const bool is_early_launch =
      (header.flags & wire::kGpuFlagEarlyLaunch) != 0 && PlaceOf(begin).place == Place::kBefore;
  if (!is_early_launch && !Keep(begin)) {
    // Noted although it is not kept: otherwise the work that it launched would wait for the call
    // until the end of the capture.
    calls_seen_.Add(event.correlation, CorrelationSet::Call::kLeftOut);
    return true;
  }
  const std::optional<uint32_t> thread =
      context_.threads.OfCaller(header.thread != 0 ? header.thread : chunk_os_thread_);
  if (!thread.has_value()) return false;
  calls_seen_.Add(event.correlation, CorrelationSet::Call::kKept);
  NoteHostTime(event.correlation, span.start);
  const int64_t start_ns = context_.line.ToNs(span.start);
  calls_.push_back({.thread = *thread,
                    .row = {.start_ns = start_ns,
                            .duration_ns = context_.line.ToNs(span.end) - start_ns,
                            .name = name,
                            .correlation = event.correlation,
                            .cbid = event.cbid,
                            .result = event.result,
                            .is_driver = (header.flags & wire::kGpuFlagDriverApi) != 0}});
  return true;
}

template <typename Event>
std::optional<GpuRow> GpuDecoder::NewRow(const Event& event, GpuRowKind kind, uint8_t flags,
                                         Span& span) const {
  if (event.place.device >= kFirstBadDevice ||
      !TakeSpan(event.start_ticks, event.duration_ticks, span)) {
    return std::nullopt;
  }
  GpuRow row{};
  row.start_ns = context_.line.ToNs(span.start);
  row.duration_ns = context_.line.ToNs(span.end) - row.start_ns;
  row.kind = kind;
  row.flags = FlagIf((flags & wire::kGpuFlagAsync) != 0, kGpuAsync) |
              FlagIf((flags & wire::kGpuFlagUnfinished) != 0, kGpuUnfinished) |
              FlagIf((flags & wire::kGpuFlagDeviceLaunched) != 0, kGpuDeviceLaunched);
  row.device = static_cast<uint16_t>(event.place.device);
  row.context = event.place.context;
  row.stream = event.place.stream;
  row.correlation = event.place.correlation;
  if constexpr (requires { event.graph_id; }) row.graph_id = event.graph_id;
  row.source_device = kNoGpuDevice;
  row.destination_device = kNoGpuDevice;
  row.queued_ns = kNoGpuTime;
  row.submitted_ns = kNoGpuTime;
  return row;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::KernelEvent& event) {
  const uint32_t name = context_.names.Find(event.name_id);
  Span span;
  std::optional<GpuRow> row = NewRow(event, GpuRowKind::kKernel, header.flags, span);
  if (name == NameTable::kNoName || !row.has_value()) return false;
  row->name = name;
  row->graph_node_id = event.graph_node_id;
  row->queued_ns = OptionalNs(event.queued_ticks, span.start);
  row->submitted_ns = OptionalNs(event.submitted_ticks, span.start);
  row->grid = std::to_array(event.grid);
  row->block = std::to_array(event.block);
  row->cluster = std::to_array(event.cluster);
  row->registers_per_thread = event.registers_per_thread;
  row->static_shared_bytes = event.static_shared_bytes;
  row->dynamic_shared_bytes = event.dynamic_shared_bytes;
  row->local_bytes_per_thread = event.local_bytes_per_thread;
  Place(*row, span, (header.flags & wire::kGpuFlagUnfinished) != 0);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::MemcpyEvent& event) {
  Span span;
  std::optional<GpuRow> row = NewRow(event, GpuRowKind::kMemcpy, header.flags, span);
  if (!row.has_value() || !TakePeer(event.source_device, row->source_device) ||
      !TakePeer(event.destination_device, row->destination_device)) {
    return false;
  }
  row->graph_node_id = event.graph_node_id;
  row->bytes = event.bytes;
  row->copy_kind = event.copy_kind;
  row->source_kind = event.source_kind;
  row->destination_kind = event.destination_kind;
  Place(*row, span, (header.flags & wire::kGpuFlagUnfinished) != 0);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::MemsetEvent& event) {
  Span span;
  std::optional<GpuRow> row = NewRow(event, GpuRowKind::kMemset, header.flags, span);
  if (!row.has_value()) return false;
  row->graph_node_id = event.graph_node_id;
  row->bytes = event.bytes;
  // Kinds to come that are too large for us count as unknown.
  row->destination_kind =
      event.memory_kind <= UINT8_MAX ? static_cast<uint8_t>(event.memory_kind) : uint8_t{0};
  Place(*row, span, (header.flags & wire::kGpuFlagUnfinished) != 0);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header,
                             const wire::MemDecompressEvent& event) {
  Span span;
  std::optional<GpuRow> row = NewRow(event, GpuRowKind::kMemDecompress, header.flags, span);
  if (!row.has_value()) return false;
  row->bytes = event.bytes;
  Place(*row, span, (header.flags & wire::kGpuFlagUnfinished) != 0);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::GraphLaunchEvent& event) {
  Span span;
  const std::optional<GpuRow> row = NewRow(event, GpuRowKind::kGraphLaunch, header.flags, span);
  if (!row.has_value()) return false;
  Place(*row, span, (header.flags & wire::kGpuFlagUnfinished) != 0);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/, const wire::SyncEvent& event) {
  Span span;
  if (!TakeSpan(event.start_ticks, event.duration_ticks, span)) return false;
  if (!Keep(span)) return true;
  // A host function has the ID of its launch, which may be long before.
  if (!wire::IsHostFunction(event.sync_kind)) NoteHostTime(event.correlation, span.start);
  const int64_t start_ns = context_.line.ToNs(span.start);
  const SyncRow row = {.start_ns = start_ns,
                       .duration_ns = context_.line.ToNs(span.end) - start_ns,
                       .kind = event.sync_kind,
                       .device = kNoGpuDevice,
                       .context = event.context,
                       .stream = event.stream,
                       .correlation = event.correlation,
                       .event_id = event.event_id};
  if (!DecideDevice(row, /*last=*/false)) held_syncs_.Add(row);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header, const wire::OverheadEvent& event) {
  Span span;
  if (!TakeSpan(event.start_ticks, event.duration_ticks, span)) return false;
  if (!Keep(span)) return true;
  NoteHostTime(event.correlation, span.start);
  const int64_t start_ns = context_.line.ToNs(span.start);
  overheads_.push_back({.start_ns = start_ns,
                        .duration_ns = context_.line.ToNs(span.end) - start_ns,
                        .kind = event.overhead_kind,
                        .os_thread = header.thread,
                        .correlation = event.correlation});
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/,
                             const wire::CudaEventEvent& event) {
  // CUPTI before 12.8 does not name the device.
  if (event.place.device >= kFirstBadDevice && event.place.device != wire::kNoDevice) return false;
  cuda_events_.push_back({.correlation = event.place.correlation,
                          .context = event.place.context,
                          .stream = event.place.stream,
                          .event_id = event.event_id});
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& header,
                             const wire::DeviceMemoryEvent& event) {
  constexpr auto kMaxBytes = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  constexpr auto kMaxDevice = static_cast<uint32_t>(std::numeric_limits<int16_t>::max());
  Span span;
  if (event.bytes > kMaxBytes || event.utilized_bytes > kMaxBytes || event.device > kMaxDevice ||
      !TakeSpan(event.time_ticks, 0, span)) {
    return false;
  }
  if (!Keep(span)) return true;
  if (allocations_.size() >= kMaxMemoryRows) {
    ++over_cap_count_;
    return true;
  }
  // A pool allocates nothing by itself: it tells how large it is and how much is in use.
  const bool is_pool = (header.flags & wire::kGpuFlagPool) != 0;
  const auto type = is_pool ? wire::DeviceType::kCudaPool : wire::DeviceType::kCudaDriver;
  allocations_.push_back({.row = {.time_ns = context_.line.ToNs(span.start),
                                  .address = event.address,
                                  .bytes = is_pool ? 0 : static_cast<int64_t>(event.bytes),
                                  .total_allocated_bytes = -1,
                                  .total_reserved_bytes = -1,
                                  .device_type = static_cast<uint8_t>(type),
                                  .device_index = static_cast<int16_t>(event.device),
                                  .category = 0,
                                  .is_free = (header.flags & wire::kEventFlagFree) != 0},
                          .pool_bytes = static_cast<int64_t>(event.bytes),
                          .pool_used_bytes = static_cast<int64_t>(event.utilized_bytes)});
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/, const wire::DeviceEvent& event) {
  std::string name;
  if (event.device >= kFirstBadDevice || !context_.names.reader().ReadName(event.name_id, name)) {
    return false;
  }
  inventory_.AddDevice(event, name);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/, const wire::ContextEvent& event) {
  if (event.device >= kFirstBadDevice) return false;
  inventory_.AddContext(event.context, event.device);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/, const wire::StreamEvent& event) {
  inventory_.AddStream(event);
  return true;
}

template <>
bool GpuDecoder::DecodeEvent(const wire::EventHeader& /*header*/,
                             const wire::GpuStatusEvent& event) {
  inventory_.SetStatus(event);
  return true;
}

template <typename Event>
bool GpuDecoder::DecodeAs(const wire::EventHeader& header, const std::byte* record) {
  return header.size_bytes >= sizeof(Event) && DecodeEvent(header, LoadUnaligned<Event>(record));
}

bool GpuDecoder::Decode(const wire::EventHeader& header, const std::byte* record) {
  switch (static_cast<EventKind>(header.kind)) {
    case EventKind::kApiCall:
      return DecodeAs<wire::ApiCallEvent>(header, record);
    case EventKind::kKernel:
      return DecodeAs<wire::KernelEvent>(header, record);
    case EventKind::kMemcpy:
      return DecodeAs<wire::MemcpyEvent>(header, record);
    case EventKind::kMemset:
      return DecodeAs<wire::MemsetEvent>(header, record);
    case EventKind::kMemDecompress:
      return DecodeAs<wire::MemDecompressEvent>(header, record);
    case EventKind::kGraphLaunch:
      return DecodeAs<wire::GraphLaunchEvent>(header, record);
    case EventKind::kSync:
      return DecodeAs<wire::SyncEvent>(header, record);
    case EventKind::kOverhead:
      return DecodeAs<wire::OverheadEvent>(header, record);
    case EventKind::kCudaEvent:
      return DecodeAs<wire::CudaEventEvent>(header, record);
    case EventKind::kDeviceMemory:
      return DecodeAs<wire::DeviceMemoryEvent>(header, record);
    case EventKind::kDevice:
      return DecodeAs<wire::DeviceEvent>(header, record);
    case EventKind::kContext:
      return DecodeAs<wire::ContextEvent>(header, record);
    case EventKind::kStream:
      return DecodeAs<wire::StreamEvent>(header, record);
    case EventKind::kGpuStatus:
      return DecodeAs<wire::GpuStatusEvent>(header, record);
    default:
      return false;
  }
}

// ---- times and windows ----

bool GpuDecoder::TakeSpan(uint64_t start_ticks, uint64_t duration_ticks, Span& span) const {
  span = {start_ticks, start_ticks + duration_ticks};
  return span.end >= span.start && span.start >= context_.earliest_ticks &&
         span.end <= latest_ticks_;
}

int64_t GpuDecoder::OptionalNs(uint64_t ticks, uint64_t not_after) const {
  return ticks >= context_.earliest_ticks && ticks <= not_after ? context_.line.ToNs(ticks)
                                                                : kNoGpuTime;
}

GpuDecoder::Placed GpuDecoder::PlaceOf(const Span& span) const {
  Placed placed;
  for (const WindowTicks& window : context_.windows) {
    if (window.start == 0) break;  // It has not begun, nor have those after it.
    if (span.start >= window.start) placed.place = Place::kAfter;
    // Work of no length at the start of a window is in it.
    const bool reaches_it = span.end > window.start || span.start >= window.start;
    if (reaches_it && (window.end == 0 || span.start < window.end)) {
      return {.place = Place::kInside, .window = window};
    }
  }
  return placed;
}

bool GpuDecoder::Keep(const Span& span) {
  const Placed placed = PlaceOf(span);
  before_window_count_ += placed.place == Place::kBefore;
  after_window_count_ += placed.place == Place::kAfter;
  return placed.place == Place::kInside;
}

void GpuDecoder::NoteHostTime(uint32_t correlation, uint64_t start_ticks) {
  // Serial-number arithmetic: CUPTI's IDs have 32 bits and wrap in a job that runs for long.
  const auto is_before = [](uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; };
  if (correlation == 0 || PlaceOf({start_ticks, start_ticks}).place != Place::kInside) return;
  if (first_id_ == 0) first_id_ = last_id_ = correlation;
  if (is_before(correlation, first_id_)) first_id_ = correlation;
  if (is_before(last_id_, correlation)) last_id_ = correlation;
}

void GpuDecoder::Place(GpuRow row, const Span& span, bool unfinished) {
  // What was still running when CUPTI was asked has an unknown end, but not before.
  const Span reach = {span.start, unfinished ? std::numeric_limits<uint64_t>::max() : span.end};
  const Placed placed = PlaceOf(reach);
  if (placed.place == Place::kBefore) {
    ++before_window_count_;
    return;
  }
  const bool inside = placed.place == Place::kInside;
  const WindowTicks& window = placed.window;
  const bool after_end = !inside || (window.end != 0 && reach.end > window.end);
  row.flags |= FlagIf(inside && span.start < window.start, kGpuStraddlesStart) |
               FlagIf(after_end || unfinished, kGpuStraddlesEnd);
  const HeldGpuRow held = {row, inside};
  if (!DecideLaunch(held, /*last=*/false)) held_.Add(held);
}

bool GpuDecoder::DecideLaunch(const HeldGpuRow& held, bool last) {
  using Call = CorrelationSet::Call;
  GpuRow row = held.row;
  Call call = Call::kLeftOut;  // No call can have launched it.
  if (has_calls_ && row.correlation != 0) {
    call = calls_seen_.Find(row.correlation);
    if (call == Call::kUnseen && !last) return false;
  }
  // The window launched it, but the record of its call is missing.
  const bool is_callless = call == Call::kUnseen && IsOfWindows(row.correlation);
  if (call != Call::kKept && !held.inside && !is_callless) {
    ++after_window_count_;
    return true;
  }
  row.flags |= FlagIf(has_calls_ && call != Call::kKept, kGpuOrphan);
  rows_.push_back(row);
  return true;
}

bool GpuDecoder::DecideDevice(const SyncRow& row, bool last) {
  const std::optional<uint16_t> device = inventory_.DeviceOf(row.context);
  if (!device.has_value() && !last) return false;
  syncs_.push_back(row);
  syncs_.back().device = device.value_or(kNoGpuDevice);
  return true;
}

// ---- to the sink ----

void GpuDecoder::Flush() {
  held_.Sweep([this](const HeldGpuRow& held, bool last) { return DecideLaunch(held, last); });
  held_syncs_.Sweep([this](const SyncRow& row, bool last) { return DecideDevice(row, last); });
  GiveCalls();
  GiveGpuRows();
  Give(syncs_);
  Give(overheads_);
  Give(cuda_events_);
}

void GpuDecoder::Finish() {
  held_.Finish([this](const HeldGpuRow& held, bool last) { return DecideLaunch(held, last); });
  held_syncs_.Finish([this](const SyncRow& row, bool last) { return DecideDevice(row, last); });
  Flush();
  GiveAllocations();
}

template <typename Row>
void GpuDecoder::Give(std::vector<Row>& rows) {
  if (rows.empty()) return;
  context_.sink.Append(static_cast<int64_t>(rows.size()),
                       [&rows](CaptureSink& sink) { return sink.Append(rows); });
  rows.clear();
}

void GpuDecoder::GiveGpuRows() {
  if (rows_.empty()) return;
  const bool taken = context_.sink.Append(static_cast<int64_t>(rows_.size()),
                                          [this](CaptureSink& sink) { return sink.Append(rows_); });
  if (taken) {
    for (const GpuRow& row : rows_) {
      orphan_count_ += (row.flags & kGpuOrphan) != 0;
      straddling_count_ += (row.flags & (kGpuStraddlesStart | kGpuStraddlesEnd)) != 0;
      unfinished_count_ += (row.flags & kGpuUnfinished) != 0;
    }
  }
  rows_.clear();
}

void GpuDecoder::GiveCalls() {
  // The sink takes rows of one thread at a time. Stable: within a thread they stay in the order in
  // which they came.
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const CallRow& a, const CallRow& b) { return a.thread < b.thread; });
  for (size_t begin = 0; begin < calls_.size();) {
    const uint32_t thread = calls_[begin].thread;
    call_run_.clear();
    for (; begin < calls_.size() && calls_[begin].thread == thread; ++begin) {
      call_run_.push_back(calls_[begin].row);
    }
    const uint32_t sink_thread = context_.threads.Announce(thread);
    context_.sink.Append(static_cast<int64_t>(call_run_.size()),
                         [&](CaptureSink& sink) { return sink.Append(sink_thread, call_run_); });
  }
  calls_.clear();
}

// Memory rows of one thread are in order of time, so these wait for the end.
void GpuDecoder::GiveAllocations() {
  if (allocations_.empty()) return;
  std::stable_sort(
      allocations_.begin(), allocations_.end(),
      [](const Allocation& a, const Allocation& b) { return a.row.time_ns < b.row.time_ns; });
  // Totals are a device's, over all of its pools that have shown themselves.
  struct Level {
    int64_t bytes = 0;
    int64_t used_bytes = 0;
  };
  std::map<std::pair<int16_t, uint64_t>, Level> pools;
  std::map<int16_t, Level> devices;
  // Sizes of pools are the target's, and sums of them may overflow. Unsigned arithmetic wraps,
  // where signed would be undefined.
  const auto change = [](int64_t total, int64_t from, int64_t to) {
    return static_cast<int64_t>(static_cast<uint64_t>(total) - static_cast<uint64_t>(from) +
                                static_cast<uint64_t>(to));
  };
  std::vector<MemoryRow> rows;
  rows.reserve(allocations_.size());
  for (const Allocation& allocation : allocations_) {
    MemoryRow row = allocation.row;
    if (row.device_type == static_cast<uint8_t>(wire::DeviceType::kCudaPool)) {
      Level& pool = pools[{row.device_index, row.address}];
      Level& device = devices[row.device_index];
      const Level now =
          row.is_free ? Level{} : Level{allocation.pool_bytes, allocation.pool_used_bytes};
      device.bytes = change(device.bytes, pool.bytes, now.bytes);
      device.used_bytes = change(device.used_bytes, pool.used_bytes, now.used_bytes);
      pool = now;
      row.total_reserved_bytes = std::max<int64_t>(-1, device.bytes);
      row.total_allocated_bytes = std::max<int64_t>(-1, device.used_bytes);
    }
    rows.push_back(row);
  }
  allocations_.clear();
  const std::optional<uint32_t> thread = context_.threads.AddUnknown(kMemoryThreadName);
  if (!thread.has_value()) {
    over_cap_count_ += static_cast<int64_t>(rows.size());
    return;
  }
  const uint32_t sink_thread = context_.threads.Announce(*thread);
  context_.sink.Append(static_cast<int64_t>(rows.size()),
                       [&](CaptureSink& sink) { return sink.Append(sink_thread, rows); });
}

void GpuDecoder::Describe(GpuRecord& record, DropCounts& drops) const {
  if (mode_ == GpuMode::kOff) return;
  record.before_window_count = before_window_count_;
  record.after_window_count = after_window_count_;
  record.orphan_count = orphan_count_;
  record.straddling_count = straddling_count_;
  record.unfinished_count = unfinished_count_;
  inventory_.Describe(mode_, record);
  inventory_.AddDrops(drops);
  drops[static_cast<size_t>(DropReason::kGpuRecordCap)] += over_cap_count_;
}

}  // namespace profd
