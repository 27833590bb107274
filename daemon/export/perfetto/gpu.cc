#include "daemon/export/perfetto/gpu.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/export/trace/gpu_text.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/gpu_names.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// Category and annotation names of the GPU's sequence: their places here plus one are their ids.
constexpr std::array<std::string_view, 8> kCategories = {
    "kernel",    "gpu_memcpy", "gpu_memset",   "gpu_user_annotation",
    "cuda_sync", "overhead",   "cuda_runtime", "cuda_driver"};
constexpr std::array<std::string_view, 26> kGpuArguments = {"correlation",
                                                            "queued",
                                                            "registers per thread",
                                                            "shared memory",
                                                            "blocks per SM",
                                                            "warps per SM",
                                                            "grid",
                                                            "block",
                                                            "cluster",
                                                            "est. achieved occupancy %",
                                                            "graph id",
                                                            "graph node id",
                                                            "bytes",
                                                            "memory bandwidth (GB/s)",
                                                            "fromDevice",
                                                            "toDevice",
                                                            "finished",
                                                            "began_before_window",
                                                            "ended_after_window",
                                                            "launch_not_recorded",
                                                            "launched_by_device",
                                                            "context",
                                                            "stream",
                                                            "wait_on_stream",
                                                            "wait_on_cuda_event_record_corr_id",
                                                            "wait_on_cuda_event_id"};

template <size_t kCount>
constexpr uint64_t IidOf(const std::array<std::string_view, kCount>& names, std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return i + 1;
  }
  return 0;
}

// Annotations of one event. Their names are interned.
class Arguments {
 public:
  explicit Arguments(ProtoMessage& event) : event_(event) {}

  Arguments& Number(std::string_view name, uint64_t value) {
    Start(name).Varint(annotation::kUintValue, value);
    return Add();
  }
  Arguments& Signed(std::string_view name, int64_t value) {
    Start(name).Signed(annotation::kIntValue, value);
    return Add();
  }
  // `value` as Number() has it, unless it is negative.
  Arguments& Integer(std::string_view name, int64_t value) {
    return value < 0 ? Signed(name, value) : Number(name, static_cast<uint64_t>(value));
  }
  Arguments& Figure(std::string_view name, double value) {
    Start(name).Double(annotation::kDoubleValue, value);
    return Add();
  }
  Arguments& Text(std::string_view name, std::string_view value) {
    Start(name).Bytes(annotation::kStringValue, value);
    return Add();
  }
  template <typename Value>
  Arguments& Triple(std::string_view name, const std::array<Value, 3>& size) {
    return Text(name, StrCat("[", size[0], ",", size[1], ",", size[2], "]"));
  }

 private:
  ProtoMessage& Start(std::string_view name) {
    message_.Clear();
    return message_.Varint(annotation::kNameIid, IidOf(kGpuArguments, name));
  }
  Arguments& Add() {
    event_.Message(event::kDebugAnnotations, message_);
    return *this;
  }

  ProtoMessage& event_;
  ProtoMessage message_;
};

// By start; the longest first, which is around the others.
template <typename Slice>
bool PrecedesOnTrack(const Slice& a, const Slice& b) {
  return std::tie(a.start_ns, b.end_ns, a.track, a.index) <
         std::tie(b.start_ns, a.end_ns, b.track, b.index);
}

}  // namespace

PerfettoGpu::PerfettoGpu(store::CaptureReader& reader, const GpuPlan& plan,
                         PerfettoPackets& packets, uint64_t sequence, std::string_view step_prefix)
    : reader_(reader),
      plan_(plan),
      packets_(packets),
      step_prefix_(step_prefix),
      sequence_(sequence) {
  const size_t tracks = plan.tracks().tracks().size();
  for (uint32_t track = 0; track < tracks; ++track) track_uuids_.push_back(TrackUuid(track));
  open_.resize(tracks);
  flow_ends_.resize(plan.links().calls().size());
  kernel_names_.resize(reader.names().size());
  annotation_names_.resize(reader.names().size());
}

// ---- tracks ----

uint64_t PerfettoGpu::TrackUuid(uint32_t track) const {
  const GpuTrack& row = plan_.tracks()[track];
  uint64_t id = Mix(static_cast<uint64_t>(row.key.kind), row.key.device);
  id = Mix(Mix(Mix(id, row.key.context), row.key.stream), row.sibling);
  return packets_.Uuid(kGpuRow, id);
}

uint64_t PerfettoGpu::ProcessUuid(const GpuTrackProcess& process) const {
  return packets_.Uuid(kGpuProcess, process.is_overhead ? uint64_t{kNoGpuDevice} + 1
                                                        : static_cast<uint64_t>(process.device));
}

void PerfettoGpu::WriteTrack(uint64_t uuid, uint64_t parent, std::string_view name, int64_t rank,
                             bool orders_children) {
  ProtoMessage descriptor;
  descriptor.Varint(track::kUuid, uuid)
      .Varint(track::kParentUuid, parent)
      .Bytes(track::kName, name)
      .Signed(track::kSiblingOrderRank, rank);
  if (orders_children) descriptor.Varint(track::kChildOrdering, kExplicitOrder);
  ProtoMessage packet;
  packet.Varint(packet::kSequenceId, sequence_).Message(packet::kTrackDescriptor, descriptor);
  packets_.WritePacket(packet);
}

void PerfettoGpu::WriteTracks() {
  ProtoMessage defaults;
  defaults.Varint(defaults::kTimestampClockId, kRealtimeClock);
  ProtoMessage interned_data;
  for (size_t i = 0; i < kCategories.size(); ++i) {
    PerfettoPackets::AddInterned(interned::kEventCategories, i + 1, kCategories[i], interned_data);
  }
  for (size_t i = 0; i < kGpuArguments.size(); ++i) {
    PerfettoPackets::AddInterned(interned::kAnnotationNames, i + 1, kGpuArguments[i],
                                 interned_data);
  }
  ProtoMessage packet;
  packet.Varint(packet::kSequenceId, sequence_)
      .Varint(packet::kSequenceFlags, kStateCleared)
      .Varint(packet::kFirstOnSequence, 1)
      .Message(packet::kDefaults, defaults)
      .Message(packet::kInternedData, interned_data);
  packets_.WritePacket(packet);

  const GpuTracks& tracks = plan_.tracks();
  for (const GpuTrackProcess& process : tracks.processes()) {
    WriteTrack(ProcessUuid(process), packets_.ProcessUuid(), process.label, process.sort_index,
               /*orders_children=*/true);
  }
  for (uint32_t track = 0; track < track_uuids_.size(); ++track) {
    const GpuTrack& row = tracks[track];
    WriteTrack(track_uuids_[track], ProcessUuid(tracks.processes()[row.process]), row.label,
               row.sort_index, /*orders_children=*/false);
  }
}

// ---- slices ----

// Slices of a track nest, and their ends are written in the order of time: those that end before
// the next one begins come first.
void PerfettoGpu::CloseUntil(int64_t time_ns, uint32_t track) {
  std::vector<int64_t>& open = open_[track];
  while (!open.empty() && open.back() <= time_ns) {
    ProtoMessage event;
    event.Varint(event::kType, kSliceEnd).Varint(event::kTrackUuid, track_uuids_[track]);
    packets_.WriteEvent(sequence_, open.back(), event);
    open.pop_back();
  }
}

void PerfettoGpu::CloseAll() {
  for (uint32_t track = 0; track < open_.size(); ++track) {
    CloseUntil(std::numeric_limits<int64_t>::max(), track);
  }
}

template <typename Describe>
void PerfettoGpu::Begin(const Slice& slice, uint64_t category, std::string_view name,
                        Describe describe) {
  CloseUntil(slice.start_ns, slice.track);
  open_[slice.track].push_back(slice.end_ns);
  auto iid = name_iids_.find(ToAbsl(name));
  const bool is_new = iid == name_iids_.end();
  if (is_new) iid = name_iids_.emplace(std::string(name), name_iids_.size() + 1).first;
  ProtoMessage packet;
  packet.Varint(packet::kTimestamp, packets_.UnixTime(slice.start_ns))
      .Varint(packet::kSequenceId, sequence_)
      .Varint(packet::kSequenceFlags, kNeedsState);
  if (is_new) {
    ProtoMessage interned_data;
    PerfettoPackets::AddInterned(interned::kEventNames, iid->second, name, interned_data);
    packet.Message(packet::kInternedData, interned_data);
  }
  ProtoMessage event;
  event.Varint(event::kType, kSliceBegin)
      .Varint(event::kTrackUuid, track_uuids_[slice.track])
      .Varint(event::kCategoryIids, category)
      .Varint(event::kNameIid, iid->second);
  describe(event);
  packet.Message(packet::kTrackEvent, event);
  packets_.WritePacket(packet);
}

void PerfettoGpu::AddFlowEnd(uint32_t correlation, int64_t start_ns, ProtoMessage& event) {
  const GpuLinks::Cause cause = plan_.links().CauseOf(correlation, start_ns);
  if (!cause.flow_from.has_value()) return;
  // A flow of Perfetto ends once, and a call may launch several pieces of work. So each has a flow
  // of its own, by its number among those of the call (see DescribeCall()).
  uint32_t& ends = flow_ends_[*cause.flow_from];
  if (ends < kMostFlowsPerCall) {
    event.Fixed64(event::kTerminatingFlowIds, packets_.FlowId(correlation, ends));
  }
  ++ends;
}

void PerfettoGpu::DescribeCall(size_t call, ProtoMessage& event) const {
  const uint32_t correlation = plan_.links().calls()[call].correlation;
  ProtoMessage argument;
  argument.Bytes(annotation::kName, "correlation").Varint(annotation::kUintValue, correlation);
  event.Message(event::kDebugAnnotations, argument);
  const uint32_t flows = std::min(plan_.links().FlowCountOf(call), kMostFlowsPerCall);
  for (uint32_t i = 0; i < flows; ++i) {
    event.Fixed64(event::kFlowIds, packets_.FlowId(correlation, i));
  }
}

void PerfettoGpu::WriteCallsAside(const CallNesting& nesting, std::vector<uint32_t> calls,
                                  std::span<const uint64_t> thread_uuids) {
  // Those of one row follow each other; they do not overlap.
  std::sort(calls.begin(), calls.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t row_a = nesting.PlaceOf(plan_.links(), a).sibling;
    const uint32_t row_b = nesting.PlaceOf(plan_.links(), b).sibling;
    const GpuLinks::Call& call_a = plan_.links().calls()[a];
    const GpuLinks::Call& call_b = plan_.links().calls()[b];
    return std::tie(call_a.thread, row_a, call_a.start_ns, call_a.end_ns, a) <
           std::tie(call_b.thread, row_b, call_b.start_ns, call_b.end_ns, b);
  });
  uint64_t last_uuid = 0;
  for (const uint32_t position : calls) {
    const GpuLinks::Call& call = plan_.links().calls()[position];
    const uint32_t row = nesting.PlaceOf(plan_.links(), position).sibling;
    const uint64_t thread_uuid = thread_uuids[call.thread];
    const uint64_t uuid = packets_.Uuid(kCalls, Mix(thread_uuid, row));
    if (uuid != last_uuid) {
      WriteTrack(uuid, thread_uuid, row == 1 ? "CUDA calls" : StrCat("CUDA calls (", row, ")"), row,
                 /*orders_children=*/false);
      last_uuid = uuid;
    }
    ProtoMessage begin;
    begin.Varint(event::kType, kSliceBegin)
        .Varint(event::kTrackUuid, uuid)
        .Varint(event::kCategoryIids,
                IidOf(kCategories, call.is_driver ? "cuda_driver" : "cuda_runtime"))
        .Bytes(event::kName, TraceName(reader_.names()[call.name]));
    DescribeCall(position, begin);
    packets_.WriteEvent(sequence_, call.start_ns, begin);
    ProtoMessage end;
    end.Varint(event::kType, kSliceEnd).Varint(event::kTrackUuid, uuid);
    packets_.WriteEvent(sequence_, call.end_ns, end);
  }
}

// ---- work ----

absl::Status PerfettoGpu::WriteEvents() {
  RETURN_IF_ERROR(cuda_events_.Read(reader_));
  RETURN_IF_ERROR(WriteWork());
  RETURN_IF_ERROR(WriteSyncs());
  RETURN_IF_ERROR(WriteOverheads());
  return packets_.out().status();
}

absl::Status PerfettoGpu::WriteWork() {
  for (const GpuPlan::Window& window : plan_.windows()) RETURN_IF_ERROR(WriteWindow(window));
  for (; next_annotation_ < plan_.annotations().size(); ++next_annotation_) {
    BeginAnnotation(plan_.annotations()[next_annotation_]);
  }
  CloseAll();
  slices_ = {};
  rows_ = {};
  return packets_.out().status();
}

absl::Status PerfettoGpu::WriteWindow(const GpuPlan::Window& window) {
  slices_.clear();
  rows_.clear();
  RETURN_IF_ERROR(ReadWindow(window));
  std::sort(slices_.begin(), slices_.end(), PrecedesOnTrack<Slice>);
  const std::span<const GpuAnnotation> annotations = plan_.annotations();
  for (const Slice& slice : slices_) {
    for (; next_annotation_ < annotations.size() &&
           annotations[next_annotation_].start_ns <= slice.start_ns;
         ++next_annotation_) {
      BeginAnnotation(annotations[next_annotation_]);
    }
    BeginWork(slice, rows_[slice.index]);
  }
  return packets_.out().status();
}

absl::Status PerfettoGpu::ReadWindow(const GpuPlan::Window& window) {
  GpuBatches::Cursor cursor(plan_.batches());
  const auto take = [&](const GpuBatch& batch) {
    ASSIGN_OR_RETURN(const uint32_t first, cursor.FirstOrdinal(batch));
    for (size_t i = 0; i < batch.size; ++i) {
      const auto ordinal = static_cast<uint32_t>(first + i);
      const int64_t start_ns = batch.start_ns[i];
      if (!window.Holds(start_ns, ordinal)) continue;
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(WorkKey(batch, i), ordinal));
      slices_.push_back(
          {start_ns, start_ns + batch.duration_ns[i], track, static_cast<uint32_t>(rows_.size())});
      rows_.push_back(RowAt<GpuRow>(batch, i));
    }
    return absl::OkStatus();
  };
  return reader_.ForEach<GpuRow>(kGpuAllColumns, window.filter(), take);
}

void PerfettoGpu::BeginAnnotation(const GpuAnnotation& annotation) {
  std::string of_step;
  std::string& name = annotation.is_step ? of_step : annotation_names_[annotation.name];
  if (name.empty())
    name = TraceName(AnnotationName(annotation, plan_.links(), reader_.names(), step_prefix_));
  Begin({annotation.start_ns, annotation.end_ns, annotation.track, 0},
        IidOf(kCategories, "gpu_user_annotation"), name, [](ProtoMessage&) {});
}

void PerfettoGpu::BeginWork(const Slice& slice, const GpuRow& work) {
  Begin(slice, IidOf(kCategories, GpuKindOf(work.kind).category), NameOf(work),
        [&](ProtoMessage& event) { DescribeWork(work, event); });
}

void PerfettoGpu::DescribeWork(const GpuRow& work, ProtoMessage& event) {
  Arguments arguments(event);
  arguments.Number("correlation", work.correlation);
  if (work.kind == GpuRowKind::kKernel) {
    DescribeKernel(work, event);
  } else if (IsMemoryWork(work.kind)) {
    arguments.Number("bytes", work.bytes);
    // Of a decompression, `bytes` is only what it reads.
    if (work.duration_ns > 0 && !report::IsDecompression(work.kind)) {
      arguments.Figure("memory bandwidth (GB/s)", BandwidthOf(work));
    }
    if (work.source_device != kNoGpuDevice && work.destination_device != kNoGpuDevice) {
      arguments.Number("fromDevice", work.source_device)
          .Number("toDevice", work.destination_device);
    }
  }
  if (work.graph_id != 0) {
    arguments.Number("graph id", work.graph_id).Number("graph node id", work.graph_node_id);
  }
  if (work.flags & kGpuUnfinished) arguments.Text("finished", "false");
  if (work.flags & kGpuStraddlesStart) arguments.Text("began_before_window", "true");
  if (work.flags & kGpuStraddlesEnd) arguments.Text("ended_after_window", "true");
  if (work.flags & kGpuOrphan) arguments.Text("launch_not_recorded", "true");
  if (work.flags & kGpuDeviceLaunched) arguments.Text("launched_by_device", "true");
  AddFlowEnd(work.correlation, work.start_ns, event);
}

void PerfettoGpu::DescribeKernel(const GpuRow& kernel, ProtoMessage& event) const {
  Arguments arguments(event);
  if (kernel.grid[0] != 0) arguments.Triple("grid", kernel.grid);
  if (kernel.block[0] != 0) arguments.Triple("block", kernel.block);
  if (kernel.cluster[0] != 0) arguments.Triple("cluster", kernel.cluster);
  arguments.Number("registers per thread", kernel.registers_per_thread)
      .Number("shared memory", SharedBytes(kernel));
  if (kernel.queued_ns != kNoGpuTime) {
    arguments.Number("queued", packets_.UnixTime(kernel.queued_ns));
  }
  const GpuDevice* const device = FindDevice(reader_.record(), kernel.device);
  if (device == nullptr || !KnowsShape(kernel)) return;
  const KernelFigures figures = FiguresOf(kernel, *device);
  arguments.Figure("blocks per SM", figures.blocks_per_sm)
      .Figure("warps per SM", figures.warps_per_sm)
      .Signed("est. achieved occupancy %", figures.occupancy_percent);
}

std::string_view PerfettoGpu::NameOf(const GpuRow& work) {
  std::string& name =
      work.kind == GpuRowKind::kKernel
          ? kernel_names_[work.name]
          : transfer_names_[{work.kind, work.copy_kind, work.source_kind, work.destination_kind}];
  if (name.empty()) name = TraceName(WorkName(work, reader_.names(), demangler_));
  return name;
}

// ---- waits and overhead ----

void PerfettoGpu::WriteSlices(std::vector<Slice>& slices,
                              absl::FunctionRef<void(const Slice&)> begin) {
  std::sort(slices.begin(), slices.end(), PrecedesOnTrack<Slice>);
  for (const Slice& slice : slices) begin(slice);
  CloseAll();
}

absl::Status PerfettoGpu::WriteSyncs() {
  std::vector<Slice> slices;
  std::vector<SyncRow> rows;
  RETURN_IF_ERROR(reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      const auto ordinal = static_cast<uint32_t>(rows.size());
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(SyncKey(batch, i), ordinal));
      slices.push_back(
          {batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i], track, ordinal});
      rows.push_back({batch.start_ns[i], batch.duration_ns[i], batch.kind[i], batch.device[i],
                      batch.context[i], batch.stream[i], batch.correlation[i], batch.event_id[i]});
    }
    return absl::OkStatus();
  }));
  WriteSlices(slices, [&](const Slice& slice) {
    const SyncRow& row = rows[slice.index];
    Begin(slice, IidOf(kCategories, "cuda_sync"), report::SyncName(row.kind),
          [&](ProtoMessage& event) {
            DescribeSync(row, event);
            AddFlowEnd(row.correlation, row.start_ns, event);
          });
  });
  return packets_.out().status();
}

void PerfettoGpu::DescribeSync(const SyncRow& sync, ProtoMessage& event) const {
  Arguments arguments(event);
  arguments.Number("correlation", sync.correlation).Number("context", sync.context);
  if (sync.stream != wire::kNoStream) {
    arguments.Integer("stream", plan_.StreamNumber(sync.stream));
  }
  if (sync.kind != report::kEventSync && sync.kind != report::kStreamWaitEvent) return;
  arguments.Number("wait_on_cuda_event_id", sync.event_id);
  const CudaEvents::Recorded* const recorded =
      cuda_events_.Find(sync.context, sync.event_id, sync.correlation);
  if (recorded == nullptr) return;
  arguments.Integer("wait_on_stream", plan_.StreamNumber(recorded->stream))
      .Number("wait_on_cuda_event_record_corr_id", recorded->correlation);
}

absl::Status PerfettoGpu::WriteOverheads() {
  std::vector<Slice> slices;
  std::vector<uint32_t> kinds;
  RETURN_IF_ERROR(reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      const auto ordinal = static_cast<uint32_t>(kinds.size());
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(OverheadKey(batch, i), ordinal));
      slices.push_back(
          {batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i], track, ordinal});
      kinds.push_back(batch.kind[i]);
    }
    return absl::OkStatus();
  }));
  WriteSlices(slices, [&](const Slice& slice) {
    Begin(slice, IidOf(kCategories, "overhead"), report::OverheadName(kinds[slice.index]),
          [](ProtoMessage&) {});
  });
  return packets_.out().status();
}

}  // namespace profd::exporter
