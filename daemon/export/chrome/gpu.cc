#include "daemon/export/chrome/gpu.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/trace/gpu_text.h"
#include "daemon/report/index/gpu_names.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// Longest event: an escaped name and all arguments of a kernel.
constexpr size_t kMostGpuEventBytes =
    2 * kMostTraceNameBytes + 2048 + kMostCollectiveBytes + SourceArguments::kMostBytes;
static_assert(kMostGpuEventBytes <= OutputBuffer::kMostReservedBytes);

std::string RowText(int64_t pid, int64_t tid) {
  return StrCat("\"pid\":", pid, ",\"tid\":", tid, ",\"ts\":");
}

template <typename Number>
char* PutArgument(char* at, std::string_view key_with_comma, Number value) {
  return PutInteger(PutText(at, key_with_comma), value);
}

// Kineto's figures are floats: nine digits say all of them.
char* PutFigure(char* at, std::string_view key_with_comma, double value) {
  at = PutText(at, key_with_comma);
  return std::to_chars(at, at + kMostNumberBytes, value, std::chars_format::general, 9).ptr;
}

template <typename Number>
char* PutTriple(char* at, std::string_view key_with_comma, const std::array<Number, 3>& size) {
  at = PutArgument(at, key_with_comma, size[0]);
  *at++ = ',';
  at = PutInteger(at, size[1]);
  *at++ = ',';
  at = PutInteger(at, size[2]);
  *at++ = ']';
  return at;
}

// What makes a row of GPU work other than it seems.
char* PutFlags(char* at, uint8_t flags, bool may_mark_orphans) {
  if (flags & kGpuUnfinished) at = PutText(at, R"(,"finished":"false")");
  if (flags & kGpuStraddlesStart) at = PutText(at, R"(,"began_before_window":"true")");
  if (flags & kGpuStraddlesEnd) at = PutText(at, R"(,"ended_after_window":"true")");
  if (flags & kGpuDeviceLaunched) at = PutText(at, R"(,"launched_by_device":"true")");
  if (may_mark_orphans && (flags & kGpuOrphan) != 0) {
    at = PutText(at, R"(,"launch_not_recorded":"true")");
  }
  return at;
}

// The end of an event: `,"args":{`, what is put between, and what closes both.
class ArgumentList {
 public:
  // Moves `at` to where the arguments begin, each with a comma before it.
  explicit ArgumentList(char*& at) {
    at = PutText(at, R"(,"args":)");
    begin_ = at;
  }
  char* Close(char* at) {
    if (at == begin_) ++at;
    *begin_ = '{';  // In place of the first comma.
    return PutText(at, "}}");
  }

 private:
  char* begin_;
};

std::string Prefix(std::string_view category, std::string_view name) {
  std::string prefix = StrCat(",\n{\"ph\":\"X\",\"cat\":\"", category, "\",\"name\":");
  AppendJsonString(TraceName(name), prefix);
  prefix += ",";
  return prefix;
}

}  // namespace

ChromeGpu::ChromeGpu(store::CaptureReader& reader, const GpuPlan& plan, const CallNesting& nesting,
                     const ChromeOperators& operators, SourceArguments& source, ChromeFlows& flows,
                     TraceLayout& layout, TraceClock clock, OutputBuffer& out)
    : reader_(reader),
      plan_(plan),
      nesting_(nesting),
      operators_(operators),
      source_(source),
      flows_(flows),
      layout_(layout),
      clock_(clock),
      out_(out) {
  kernel_prefixes_.resize(reader.names().size());
  annotation_prefixes_.resize(reader.names().size());
  for (auto& prefixes : call_prefixes_) prefixes.resize(reader.names().size());
  for (const GpuTrack& track : plan.tracks().tracks()) {
    track_rows_.push_back(RowText(plan.tracks().processes()[track.process].pid, track.tid));
  }
  for (const TraceRow& row : layout.threads) {
    call_rows_.push_back({RowText(layout.pid, row.tid)});
  }
  for (size_t thread = 0; thread < nesting.sibling_counts().size(); ++thread) {
    for (uint32_t i = 0; i < nesting.sibling_counts()[thread]; ++i) {
      const int64_t tid = layout.tids.Take(-1);
      sibling_rows_.push_back({tid, StrCat(layout.threads[thread].label, " CUDA calls",
                                           i == 0 ? "" : StrCat(" (", i + 1, ")"))});
      call_rows_[thread].push_back(RowText(layout.pid, tid));
    }
  }
}

// ---- rows ----

void ChromeGpu::WriteRows(ChromeLabels& labels) {
  const GpuTracks& tracks = plan_.tracks();
  for (const GpuTrackProcess& process : tracks.processes()) {
    labels.WriteText("process_name", process.pid, 0, "name",
                     process.is_overhead ? process.label : layout_.process_name);
    labels.WriteText("process_labels", process.pid, 0, "labels", process.label);
    labels.WriteNumber("process_sort_index", process.pid, 0, "sort_index", process.sort_index);
  }
  for (const GpuTrack& track : tracks.tracks()) {
    const int64_t pid = tracks.processes()[track.process].pid;
    // Kineto's names of streams end in a space.
    labels.WriteText("thread_name", pid, track.tid, "name", track.label + " ");
    labels.WriteNumber("thread_sort_index", pid, track.tid, "sort_index", track.sort_index);
  }
  for (const TraceRow& sibling : sibling_rows_) {
    labels.WriteText("thread_name", layout_.pid, sibling.tid, "name", sibling.label);
    labels.WriteNumber("thread_sort_index", layout_.pid, sibling.tid, "sort_index", sibling.tid);
  }
}

// ---- events ----

absl::Status ChromeGpu::WriteEvents() {
  RETURN_IF_ERROR(cuda_events_.Read(reader_));
  // Calls last: a loader drops the link of one that is the first event.
  RETURN_IF_ERROR(WriteWork());
  WriteAnnotations();
  RETURN_IF_ERROR(WriteSyncs());
  RETURN_IF_ERROR(WriteOverheads());
  RETURN_IF_ERROR(WriteCalls());
  return out_.status();
}

char* ChromeGpu::PutSlice(char* at, std::string_view prefix, std::string_view row, int64_t start_ns,
                          int64_t end_ns) {
  at = PutText(at, prefix);
  at = PutText(at, row);
  at = micros_.Put(at, clock_.At(start_ns));
  at = PutText(at, R"(,"dur":)");
  return PutMicros(at, clock_.Duration(start_ns, static_cast<uint64_t>(end_ns) -
                                                     static_cast<uint64_t>(start_ns)));
}

void ChromeGpu::WriteFlowEnd(uint32_t correlation, std::string_view row, int64_t start_ns) {
  if (flows_.has_any()) return;
  char* at = out_.Reserve(kMostGpuEventBytes);
  at = PutText(at, ",\n{\"ph\":\"f\",\"id\":");
  at = PutInteger(at, layout_.place.FlowId(correlation));
  *at++ = ',';
  at = PutText(at, row);
  at = micros_.Put(at, clock_.At(start_ns));
  at = PutText(at, R"(,"cat":"ac2g","name":"ac2g","bp":"e"})");
  out_.Commit(at);
}

absl::Status ChromeGpu::WriteWork() {
  uint32_t ordinal = 0;
  return reader_.ForEach<GpuRow>(kGpuAllColumns, {}, [&](const GpuBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(WorkKey(batch, i), ordinal));
      WriteWorkRow(RowAt<GpuRow>(batch, i), track, ordinal, source_.Of(kArgumentOfGpu, 0, ordinal));
      ++ordinal;
    }
    return out_.status();
  });
}

char* ChromeGpu::PutExternalId(char* at, const SourceArguments::Row& source,
                               int64_t external_id) const {
  if (!source_.empty()) return source_.Put(at, source, kFirstArguments);
  return external_id == 0 ? at : PutArgument(at, R"(,"External id":)", external_id);
}

template <typename Number>
char* ChromeGpu::PutUnless(char* at, const SourceArguments::Row& source, RowArgument argument,
                           std::string_view key_with_comma, Number value) const {
  return source_.Has(source, argument) ? at : PutArgument(at, key_with_comma, value);
}

void ChromeGpu::WriteWorkRow(const GpuRow& work, uint32_t track, uint32_t ordinal,
                             const SourceArguments::Row& source) {
  const std::string_view row = track_rows_[track];
  const std::string_view prefix = WorkPrefix(work);
  const GpuLinks::Cause cause = plan_.links().CauseOf(work.correlation, work.start_ns);

  char* at = out_.Reserve(kMostGpuEventBytes);
  at = PutSlice(at, prefix, row, work.start_ns, work.start_ns + work.duration_ns);
  ArgumentList arguments(at);
  at = PutExternalId(at, source, cause.external_id);
  at = PutUnless(at, source, RowArgument::kDevice, R"(,"device":)", work.device);
  at = PutUnless(at, source, RowArgument::kContext, R"(,"context":)", work.context);
  at = PutUnless(at, source, RowArgument::kStream, R"(,"stream":)", work.stream);
  at = PutUnless(at, source, RowArgument::kCorrelation, R"(,"correlation":)", work.correlation);
  if (work.kind == GpuRowKind::kKernel) {
    at = PutKernelArguments(at, work, source);
  } else if (IsMemoryWork(work.kind)) {
    at = PutTransferArguments(at, work, source);
  }
  if (work.graph_id != 0) at = PutArgument(at, R"(,"graph id":)", work.graph_id);
  if (work.graph_node_id != 0) at = PutArgument(at, R"(,"graph node id":)", work.graph_node_id);
  at = PutFlags(at, work.flags, source_.empty());
  if (work.kind == GpuRowKind::kKernel && cause.flow_from.has_value() && source_.empty()) {
    const GpuLinks::Call& call = plan_.links().calls()[*cause.flow_from];
    at = operators_.PutCollectiveAt(at, call.thread, call.start_ns);
  }
  at = source_.Put(at, source, kLastArguments);
  out_.Commit(arguments.Close(at));
  if (cause.flow_from.has_value()) WriteFlowEnd(work.correlation, row, work.start_ns);
  flows_.Write(kArgumentOfGpu, 0, ordinal, row, clock_.At(work.start_ns));
}

char* ChromeGpu::PutKernelArguments(char* at, const GpuRow& kernel,
                                    const SourceArguments::Row& source) const {
  at = PutUnless(at, source, RowArgument::kRegisters, R"(,"registers per thread":)",
                 kernel.registers_per_thread);
  at = PutUnless(at, source, RowArgument::kShared, R"(,"shared memory":)", SharedBytes(kernel));
  at = PutUnless(at, source, RowArgument::kQueued, R"(,"queued":)",
                 kernel.queued_ns == kNoGpuTime ? uint64_t{0} : clock_.At(kernel.queued_ns));
  // Figures of imported traces are those that were recorded.
  const GpuDevice* const device =
      source_.empty() ? FindDevice(reader_.record(), kernel.device) : nullptr;
  if (device != nullptr && KnowsShape(kernel)) {
    const KernelFigures figures = FiguresOf(kernel, *device);
    at = PutFigure(at, R"(,"blocks per SM":)", figures.blocks_per_sm);
    at = PutFigure(at, R"(,"warps per SM":)", figures.warps_per_sm);
    at = PutArgument(at, R"(,"est. achieved occupancy %":)", figures.occupancy_percent);
  }
  at = source_.Put(at, source, kFigureArguments);
  if (kernel.grid[0] != 0 && !source_.Has(source, RowArgument::kGrid)) {
    at = PutTriple(at, R"(,"grid":[)", kernel.grid);
  }
  if (kernel.block[0] != 0 && !source_.Has(source, RowArgument::kBlock)) {
    at = PutTriple(at, R"(,"block":[)", kernel.block);
  }
  if (kernel.cluster[0] != 0) at = PutTriple(at, R"(,"cluster":[)", kernel.cluster);
  return at;
}

char* ChromeGpu::PutTransferArguments(char* at, const GpuRow& transfer,
                                      const SourceArguments::Row& source) const {
  at = PutUnless(at, source, RowArgument::kBytes, R"(,"bytes":)", transfer.bytes);
  // Of a decompression, `bytes` is only what it reads.
  if (transfer.duration_ns > 0 && source_.empty() && !report::IsDecompression(transfer.kind)) {
    at = PutFigure(at, ",\"memory bandwidth (GB/s)\":", BandwidthOf(transfer));
  }
  at = source_.Put(at, source, kFigureArguments);
  if (transfer.source_device != kNoGpuDevice && transfer.destination_device != kNoGpuDevice) {
    at = PutArgument(at, R"(,"fromDevice":)", transfer.source_device);
    at = PutArgument(at, R"(,"inDevice":)", transfer.device);
    at = PutArgument(at, R"(,"toDevice":)", transfer.destination_device);
  }
  return at;
}

std::string_view ChromeGpu::WorkPrefix(const GpuRow& work) {
  std::string& prefix = work.kind == GpuRowKind::kKernel
                            ? kernel_prefixes_[work.name]
                            : transfer_prefixes_[{work.kind, work.copy_kind, work.source_kind,
                                                  work.destination_kind}];
  if (prefix.empty())
    prefix = Prefix(GpuKindOf(work.kind).category, WorkName(work, reader_.names(), demangler_));
  return prefix;
}

std::string ChromeGpu::AnnotationPrefix(const GpuAnnotation& annotation) const {
  // None is a step: GpuPlan::Annotations::kWithoutSteps.
  return Prefix("gpu_user_annotation",
                AnnotationName(annotation, plan_.links(), reader_.names(), /*step_prefix=*/""));
}

void ChromeGpu::WriteAnnotations() {
  for (const GpuAnnotation& annotation : plan_.annotations()) {
    std::string& prefix = annotation_prefixes_[annotation.name];
    if (prefix.empty()) prefix = AnnotationPrefix(annotation);
    char* at = out_.Reserve(kMostGpuEventBytes);
    at =
        PutSlice(at, prefix, track_rows_[annotation.track], annotation.start_ns, annotation.end_ns);
    // Numbers of profd's own would be those of other events of an imported trace.
    if (annotation.external_id != 0 && (annotation.is_recorded || source_.empty())) {
      at = PutArgument(at, R"(,"args":{"External id":)", annotation.external_id);
      *at++ = '}';
    }
    *at++ = '}';
    out_.Commit(at);
  }
}

absl::Status ChromeGpu::WriteSyncs() {
  uint32_t ordinal = 0;
  return reader_.ForEach<SyncRow>([&](const SyncBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(SyncKey(batch, i), ordinal));
      WriteSync(batch, i, track, ordinal, source_.Of(kArgumentOfSync, 0, ordinal));
      ++ordinal;
    }
    return out_.status();
  });
}

void ChromeGpu::WriteSync(const SyncBatch& batch, size_t i, uint32_t track, uint32_t ordinal,
                          const SourceArguments::Row& source) {
  const int64_t start_ns = batch.start_ns[i];
  const std::string_view row = track_rows_[track];
  const GpuLinks::Cause cause = plan_.links().CauseOf(batch.correlation[i], start_ns);
  const std::string name = report::SyncName(batch.kind[i]);
  char* at = out_.Reserve(kMostGpuEventBytes);
  at = PutSlice(at, Prefix("cuda_sync", name), row, start_ns, start_ns + batch.duration_ns[i]);
  ArgumentList arguments(at);
  at = PutExternalId(at, source, cause.external_id);
  if (!source_.Has(source, RowArgument::kSyncKind)) {
    at = PutText(at, R"(,"cuda_sync_kind":")");
    at = PutText(at, name);
    *at++ = '"';
  }
  at = PutWaitedFor(at, batch, i, source);
  at = PutUnless(at, source, RowArgument::kStream, R"(,"stream":)",
                 plan_.StreamNumber(batch.stream[i]));
  at = PutUnless(at, source, RowArgument::kCorrelation, R"(,"correlation":)", batch.correlation[i]);
  if (batch.device[i] != kNoGpuDevice) {
    at = PutUnless(at, source, RowArgument::kDevice, R"(,"device":)", batch.device[i]);
  }
  at = PutUnless(at, source, RowArgument::kContext, R"(,"context":)", batch.context[i]);
  at = source_.PutRest(at, source);
  out_.Commit(arguments.Close(at));
  if (cause.flow_from.has_value()) WriteFlowEnd(batch.correlation[i], row, start_ns);
  flows_.Write(kArgumentOfSync, 0, ordinal, row, clock_.At(start_ns));
}

// -1, as Kineto has it, where the event was not seen being recorded.
char* ChromeGpu::PutWaitedFor(char* at, const SyncBatch& batch, size_t i,
                              const SourceArguments::Row& source) const {
  if (batch.kind[i] != report::kEventSync && batch.kind[i] != report::kStreamWaitEvent) return at;
  const CudaEvents::Recorded* const event =
      cuda_events_.Find(batch.context[i], batch.event_id[i], batch.correlation[i]);
  at = PutUnless(at, source, RowArgument::kWaitStream, R"(,"wait_on_stream":)",
                 event ? plan_.StreamNumber(event->stream) : -1);
  at = PutUnless(at, source, RowArgument::kWaitCorrelation,
                 R"(,"wait_on_cuda_event_record_corr_id":)",
                 event ? int64_t{event->correlation} : -1);
  return PutUnless(at, source, RowArgument::kWaitEvent, R"(,"wait_on_cuda_event_id":)",
                   batch.event_id[i]);
}

absl::Status ChromeGpu::WriteOverheads() {
  uint32_t ordinal = 0;
  return reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      ASSIGN_OR_RETURN(const uint32_t track, plan_.TrackOf(OverheadKey(batch, i), ordinal++));
      const std::string_view row = track_rows_[track];
      const std::string prefix = Prefix("overhead", report::OverheadName(batch.kind[i]));
      char* at = out_.Reserve(kMostGpuEventBytes);
      at = PutSlice(at, prefix, row, batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i]);
      *at++ = '}';
      out_.Commit(at);
    }
    return out_.status();
  });
}

absl::Status ChromeGpu::WriteCalls() {
  next_call_.resize(layout_.threads.size());
  call_counts_.resize(layout_.threads.size());
  return reader_.ForEach<ApiRow>([&](const ApiBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      ASSIGN_OR_RETURN(const size_t call, FindCall(batch, i));
      const uint32_t ordinal = call_counts_[batch.thread]++;
      WriteCall(batch, i, call, ordinal, source_.Of(kArgumentOfApiCall, batch.thread, ordinal));
    }
    return out_.status();
  });
}

absl::StatusOr<size_t> ChromeGpu::FindCall(const ApiBatch& batch, size_t i) {
  const std::span<const GpuLinks::Call> calls = plan_.links().CallsOf(batch.thread);
  const auto is_it = [&](const GpuLinks::Call& call) {
    return call.start_ns == batch.start_ns[i] && call.correlation == batch.correlation[i] &&
           call.end_ns - call.start_ns == batch.duration_ns[i];
  };
  size_t& next = next_call_[batch.thread];
  if (next >= calls.size() || !is_it(calls[next])) {
    auto call = std::lower_bound(
        calls.begin(), calls.end(), batch.start_ns[i],
        [](const GpuLinks::Call& a, int64_t start_ns) { return a.start_ns < start_ns; });
    call = std::find_if(call, calls.end(), is_it);
    if (call == calls.end()) return ChangedWhileRead();
    next = static_cast<size_t>(call - calls.begin());
  }
  return plan_.links().PositionOf(calls[next++]);
}

void ChromeGpu::WriteCall(const ApiBatch& batch, size_t i, size_t call, uint32_t ordinal,
                          const SourceArguments::Row& source) {
  const CallNesting::Place place = nesting_.PlaceOf(plan_.links(), call);
  const std::string_view row = call_rows_[batch.thread][place.sibling];
  const std::string_view prefix = CallPrefix(batch.is_driver[i] != 0, batch.name[i]);
  const uint32_t correlation = batch.correlation[i];
  const int64_t external_id = plan_.links().ExternalIdOf(call);

  char* at = out_.Reserve(kMostGpuEventBytes);
  at = PutSlice(at, prefix, row, place.start_ns, place.end_ns);
  ArgumentList arguments(at);
  at = PutExternalId(at, source, external_id);
  at = PutUnless(at, source, RowArgument::kCbid, R"(,"cbid":)", batch.cbid[i]);
  at = PutUnless(at, source, RowArgument::kCorrelation, R"(,"correlation":)", correlation);
  if (batch.result[i] != 0) at = PutArgument(at, R"(,"result":)", batch.result[i]);
  at = source_.PutRest(at, source);
  at = arguments.Close(at);
  if (plan_.links().FlowCountOf(call) > 0 && !flows_.has_any()) {
    at = PutText(at, ",\n{\"ph\":\"s\",\"id\":");
    at = PutInteger(at, layout_.place.FlowId(correlation));
    *at++ = ',';
    at = PutText(at, row);
    at = micros_.Put(at, clock_.At(place.start_ns));
    at = PutText(at, R"(,"cat":"ac2g","name":"ac2g"})");
  }
  out_.Commit(at);
  flows_.Write(kArgumentOfApiCall, batch.thread, ordinal, row, clock_.At(place.start_ns));
}

std::string_view ChromeGpu::CallPrefix(bool is_driver, uint32_t name) {
  std::string& prefix = call_prefixes_[is_driver ? 1 : 0][name];
  if (prefix.empty()) {
    prefix = Prefix(is_driver ? "cuda_driver" : "cuda_runtime", reader_.names()[name]);
  }
  return prefix;
}

}  // namespace profd::exporter
