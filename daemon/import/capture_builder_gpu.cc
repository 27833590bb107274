// What CaptureBuilder makes of events of CUDA and its like.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/gpu_words.h"
#include "daemon/import/narrow.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/wide_streams.h"
#include "proto/wire/event.h"

namespace profd::importer {
namespace {

// Enough to see whether launches have kernels on several GPUs.
constexpr size_t kMostKernelDevices = 1'000'000;
constexpr size_t kMostWorkOfLaunches = 4'000'000;

// Of "[1, 2, 3]"; those that are left out are 1. nullopt: it has none, or one that no GPU has. Also
// for a single number.
template <typename Side>
std::optional<std::array<Side, 3>> Sides(std::string_view json) {
  std::array<Side, 3> sides = {1, 1, 1};
  if (json.starts_with("\"[") && json.ends_with("]\"")) json = json.substr(1, json.size() - 2);
  if (json.starts_with('[') && json.ends_with(']')) json = json.substr(1, json.size() - 2);
  size_t count = 0;
  for (const absl::string_view each : absl::StrSplit(ToAbsl(json), ',')) {
    const std::string_view text = FromAbsl(absl::StripAsciiWhitespace(each));
    const std::optional<int64_t> side = ParseInteger(text);
    if (!side.has_value() || *side < 1 || !std::in_range<Side>(*side)) return std::nullopt;
    if (count < sides.size()) sides[count++] = static_cast<Side>(*side);
  }
  return sides;
}

// Texts of zeros stand for sides that are not known.
bool SaysUnknown(std::string_view json) {
  return json.find_first_not_of("[]0, ") == std::string_view::npos;
}

// "GPU 1", "cuda:1", as texts of JSON have them.
std::optional<int64_t> NumberOfGpu(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  for (const std::string_view word : {"GPU", "Gpu", "gpu", "Device", "device", "cuda", "hip"}) {
    if (!text.starts_with(word)) continue;
    text.remove_prefix(word.size());
    text.remove_prefix(std::min(text.find_first_not_of(" #_:"), text.size()));
    return ParseInteger(text);
  }
  return std::nullopt;
}

}  // namespace

// 0, which links nothing, for one that no row can have.
uint32_t CaptureBuilder::CorrelationOf(const TraceEvent& event) {
  const int64_t correlation = event.Get(Number::kCorrelation, 0);
  if (std::in_range<uint32_t>(correlation)) return static_cast<uint32_t>(correlation);
  CountNotUnderstood(event, " with a correlation beyond 32 bits");
  return 0;
}

absl::Status CaptureBuilder::AddApiCall(const TraceEvent& event, bool is_driver) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  const std::string_view tid = is_ours_ ? threads_.ThreadOfCalls(event.pid, event.tid) : event.tid;
  const std::optional<uint32_t> thread = ThreadAt(event, tid);
  if (!thread.has_value()) return absl::OkStatus();
  ApiRow row = {.start_ns = span->start_ns,
                .duration_ns = span->duration_ns,
                .name = 0,
                .correlation = CorrelationOf(event),
                .cbid = NumberOr<uint32_t>(event, Number::kCbid, 0),
                .result = NumberOr<int32_t>(event, Number::kResult, 0),
                .is_driver = is_driver};
  if (!is_driver && row.correlation != 0 && report::LaunchesWork(event.name)) {
    ++contents_.launch_count;
    if (!launches_.insert(row.correlation).second) ++contents_.repeated_launch_count;
  }
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  RETURN_IF_ERROR(arguments_.Add(event, RestoredArguments::kCall, kArgumentOfApiCall, *thread,
                                 rows_[*thread].call_count));
  return Keep(*thread, row);
}

absl::Status CaptureBuilder::Keep(uint32_t thread, const ApiRow& row) {
  ThreadRows& rows = rows_[thread];
  Cover({.start_ns = row.start_ns, .duration_ns = row.duration_ns},
        row.is_driver ? rows.driver_calls : rows.calls);
  ++contents_.gpu_count;
  ++rows.call_count;
  if (row.correlation != 0 && calls_.insert(row.correlation).second && calls_.size() > kMaxCalls) {
    return absl::ResourceExhaustedError(StrCat(
        "it has more than ", kMaxCalls, " CUDA calls with a correlation; record fewer steps"));
  }
  return sink_.Append(thread, row);
}

// 0 for all, if one is not known.
template <typename Side>
std::array<Side, 3> CaptureBuilder::SidesOrUnknown(const TraceEvent& event, Text text) {
  const std::string_view json = event.Get(text);
  if (SaysUnknown(json)) return {};
  const std::optional<std::array<Side, 3>> sides = Sides<Side>(json);
  if (!sides.has_value()) CountNotUnderstood(event, " with an impossible grid");
  return sides.value_or(std::array<Side, 3>{});
}

// A number, of the event's row if it has none itself; or, of a text, the number at its end, as of
// "stream 7".
uint32_t CaptureBuilder::StreamOfWork(const TraceEvent& event) {
  if (event.Has(Number::kStream)) return StreamOf(event.Get(Number::kStream, 0));
  std::string_view text = event.stream.empty() ? event.tid : event.stream;
  if (const std::optional<int64_t> number = ParseInteger(text)) return StreamOf(*number);
  if (text.ends_with('"')) text.remove_suffix(1);
  const size_t last = text.find_last_not_of("0123456789");
  // Of an address, as "0x55d1", the last digits say nothing.
  if (last != std::string_view::npos &&
      std::string_view(" #_:\"").find(text[last]) != std::string_view::npos) {
    const std::optional<int64_t> number = ParseInteger(text.substr(last + 1));
    if (number.has_value()) return StreamOf(*number);
  }
  // Other names get numbers that no trace has.
  if (text.empty()) return 0;
  constexpr size_t kMostBytes = 64;
  text = text.substr(0, kMostBytes);
  const auto next = static_cast<int64_t>(named_streams_.size());
  if (next == report::kMostWideStreams && !named_streams_.contains(text)) return 0;
  constexpr int64_t kFirstNamed = -1000;
  return StreamOf(kFirstNamed - named_streams_.try_emplace(std::string(text), next).first->second);
}

// Of an event that does not say its GPU. The rows of profd's exports have labels.
int64_t CaptureBuilder::DeviceOfRow(const TraceEvent& event) const {
  const std::optional<int64_t> labeled =
      is_ours_ ? NumberOfRow(threads_.LabelOf(event.pid), "GPU ") : std::nullopt;
  if (labeled.has_value()) return *labeled;
  const std::optional<int64_t> number = ParseInteger(event.pid);
  return number.has_value() ? *number : NumberOfGpu(event.pid).value_or(0);
}

// Whether it is the only work of its launch once more, as in a trace that was merged with itself.
// Of a graph's nodes, two may be alike.
bool CaptureBuilder::IsThereAlready(const GpuRow& row) {
  if (is_ours_ || row.correlation == 0 || row.graph_id != 0 || row.graph_node_id != 0 ||
      row.duration_ns <= 0 || only_work_.size() >= kMostWorkOfLaunches) {
    return false;
  }
  const size_t hash =
      absl::HashOf(row.start_ns, row.duration_ns, row.kind, row.device, row.context, row.stream,
                   row.name, row.bytes, row.grid, row.block, row.copy_kind) |
      1;
  const auto [at, is_new] = only_work_.try_emplace(row.correlation, hash);
  if (is_new) return false;
  if (at->second == hash) return true;
  at->second = 0;
  return false;
}

absl::Status CaptureBuilder::AddWork(const TraceEvent& event, GpuRowKind kind) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  // Some releases say where only by the row that the event stands in.
  const int64_t device = event.Get(Number::kDevice, DeviceOfRow(event));
  if (event.Has(Number::kDevice) && !std::in_range<uint16_t>(device)) {
    CountNotUnderstood(event, " of an impossible device");
    return absl::OkStatus();
  }
  const bool is_kernel = kind == GpuRowKind::kKernel;
  // Our own exports have kinds of work that other traces have no category for.
  const auto has_title = [&](const GpuKind& own) {
    return own.title == event.name && own.category == GpuKindOf(kind).category;
  };
  if (is_ours_) {
    const auto own = std::ranges::find_if(kGpuKinds, has_title);
    if (own != kGpuKinds.end()) kind = own->kind;
  }
  // What is left out is zero.
  GpuRow row = {.start_ns = span->start_ns,
                .duration_ns = span->duration_ns,
                .kind = kind,
                .device = Narrow<uint16_t>(device, 0),
                .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                .stream = StreamOfWork(event),
                .correlation = CorrelationOf(event),
                .graph_id = NumberOr<uint32_t>(event, Number::kGraph, 0),
                .graph_node_id = static_cast<uint64_t>(event.Get(Number::kGraphNode, 0)),
                .bytes = static_cast<uint64_t>(std::max<int64_t>(event.Get(Number::kBytes, 0), 0)),
                .source_device = NumberOr<uint16_t>(event, Number::kFromDevice, kNoGpuDevice),
                .destination_device = NumberOr<uint16_t>(event, Number::kToDevice, kNoGpuDevice),
                .queued_ns = kNoGpuTime,
                .submitted_ns = kNoGpuTime};
  if (!event.Get(Text::kFinished).empty()) row.flags |= kGpuUnfinished;
  if (kept_part_ != nullptr && kept_part_->launches.empty() && span->end_ns() > EndOfKeptPart()) {
    row.duration_ns = std::max<int64_t>(EndOfKeptPart() - row.start_ns, 0);
    row.flags |= kGpuStraddlesEnd;
  }
  if (BeganBeforeKeptPart(event) || !event.Get(Text::kBegan).empty()) {
    row.flags |= kGpuStraddlesStart;
  }
  if (!event.Get(Text::kEnded).empty()) row.flags |= kGpuStraddlesEnd;
  if (!event.Get(Text::kLaunchedByDevice).empty()) row.flags |= kGpuDeviceLaunched;
  if (kind == GpuRowKind::kKernel && row.correlation != 0 && row.graph_id == 0 &&
      kernel_devices_.size() < kMostKernelDevices) {
    const auto [at, is_new] = kernel_devices_.try_emplace(row.correlation, row.device);
    if (!is_new && at->second != row.device) ++contents_.split_launch_count;
  }
  if (kind == GpuRowKind::kKernel) {
    ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
    // 0: the trace does not tell, as for the nodes of a graph on ROCm.
    row.grid = SidesOrUnknown<uint32_t>(event, Text::kGrid);
    row.block = SidesOrUnknown<uint32_t>(event, Text::kBlock);
    row.cluster = SidesOrUnknown<uint16_t>(event, Text::kCluster);
    row.registers_per_thread = NumberOr<uint16_t>(event, Number::kRegisters, 0);
    // Static and dynamic are told as one.
    row.dynamic_shared_bytes = NumberOr<uint32_t>(event, Number::kSharedBytes, 0);
  } else if (kind == GpuRowKind::kMemcpy) {
    const CopyKinds kinds = CopyKindsOf(event.name);
    row.copy_kind = kinds.copy;
    row.source_kind = kinds.source;
    row.destination_kind = kinds.destination;
  } else if (kind == GpuRowKind::kMemset) {
    row.destination_kind = MemsetKindOf(event.name);
  }
  if (IsThereAlready(row)) {
    CountNotUnderstood(event, " that is there already");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(
      arguments_.Add(event, is_kernel ? RestoredArguments::kKernel : RestoredArguments::kTransfer,
                     kArgumentOfGpu, 0, gpu_row_count_));
  return Keep(row);
}

// Rows have 32 bits for a stream; HIP's are addresses. Those that do not fit, or are like them, get
// numbers of their own; reports and exports have what the trace had.
uint32_t CaptureBuilder::StreamOf(int64_t stream) {
  const bool is_short = stream >= 0 && stream < report::kFirstWideStream;
  if (is_short || stream == wire::kNoStream) return static_cast<uint32_t>(stream);
  const auto next = static_cast<uint32_t>(wide_streams_.size());
  if (next == report::kMostWideStreams && !wide_streams_.contains(stream)) {
    return report::kFirstWideStream + report::kMostWideStreams;
  }
  return report::kFirstWideStream + wide_streams_.try_emplace(stream, next).first->second;
}

// `otherwise` also for -1, which stands for all streams.
uint32_t CaptureBuilder::StreamOr(const TraceEvent& event, Number number, uint32_t otherwise) {
  const int64_t stream = event.Get(number, -1);
  return stream == -1 ? otherwise : StreamOf(stream);
}

absl::Status CaptureBuilder::Keep(const GpuRow& row) {
  SequenceEnd& stream = streams_[{row.device, row.context, row.stream}];
  if (streams_.size() > kMaxStreams) {
    return absl::ResourceExhaustedError(
        StrCat("it has GPU work on more than ", kMaxStreams, " streams"));
  }
  const Span span = {.start_ns = row.start_ns, .duration_ns = row.duration_ns};
  // Nodes of a graph run side by side.
  if (row.graph_id != 0 || row.graph_node_id != 0) {
    Cover(span, /*by_gpu=*/true);
  } else {
    Cover(span, stream, /*by_gpu=*/true);
  }
  ++contents_.gpu_count;
  ++gpu_row_count_;
  return gpu_.Add(row);
}

absl::Status CaptureBuilder::AddSync(const TraceEvent& event) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  std::string_view word = event.Get(Text::kSyncKind);
  if (word.size() >= 2) word = word.substr(1, word.size() - 2);
  const std::optional<uint32_t> kind = SyncKindOf(word.empty() ? event.name : word);
  if (!kind.has_value()) {
    CountNotUnderstood(event, " of an unknown kind");
    return absl::OkStatus();
  }
  const SyncRow row = {.start_ns = span->start_ns,
                       .duration_ns = span->duration_ns,
                       .kind = *kind,
                       .device = NumberOr<uint16_t>(event, Number::kDevice, kNoGpuDevice),
                       .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                       .stream = StreamOr(event, Number::kStream, wire::kNoStream),
                       .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                       .event_id = NumberOr<uint32_t>(event, Number::kWaitEvent, 0)};
  const bool is_for_event = *kind == report::kEventSync || *kind == report::kStreamWaitEvent;
  RETURN_IF_ERROR(
      arguments_.Add(event, is_for_event ? RestoredArguments::kEventWait : RestoredArguments::kSync,
                     kArgumentOfSync, 0, sync_count_));
  RETURN_IF_ERROR(Keep(row));
  // What it waits for tells of an event that was recorded.
  const int64_t recorded = event.Get(Number::kWaitCorrelation, -1);
  if (recorded <= 0) return absl::OkStatus();
  return NoteCudaEvent({.correlation = Narrow<uint32_t>(recorded, 0),
                        .context = row.context,
                        .stream = StreamOr(event, Number::kWaitStream, wire::kNoStream),
                        .event_id = row.event_id})
      .status();
}

absl::Status CaptureBuilder::Keep(const SyncRow& row) {
  ++sync_count_;
  SequenceEnd alone;
  Cover({.start_ns = row.start_ns, .duration_ns = row.duration_ns}, alone);
  syncs_end_ns_ = std::max(syncs_end_ns_, alone.end_ns);
  return sink_.Append(row);
}

absl::Status CaptureBuilder::AddCudaEvent(const TraceEvent& event) {
  return NoteCudaEvent({.correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                        .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                        .stream = StreamOr(event, Number::kStream, wire::kNoStream),
                        .event_id = NumberOr<uint32_t>(event, Number::kEvent, 0)})
      .status();
}

absl::StatusOr<bool> CaptureBuilder::NoteCudaEvent(const CudaEventRow& row) {
  const bool is_new =
      cuda_events_.emplace(row.correlation, row.context, row.stream, row.event_id).second;
  if (!is_new) return false;
  RETURN_IF_ERROR(Hold());
  ++contents_.event_count;
  RETURN_IF_ERROR(sink_.Append(row));
  return true;
}

// What the GPU did for a range: profd derives that itself, so it is for exports only.
absl::Status CaptureBuilder::AddGpuAnnotation(const TraceEvent& event) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  int64_t device = event.Get(Number::kDevice, ParseInteger(event.pid).value_or(-1));
  int64_t stream = event.Get(Number::kStream, ParseInteger(event.tid).value_or(-1));
  if (is_ours_) {
    device = NumberOfRow(threads_.LabelOf(event.pid), "GPU ").value_or(device);
    stream = NumberOfRow(threads_.LabelOf(event.pid, event.tid), "stream ").value_or(stream);
  }
  if (!std::in_range<uint16_t>(device) || stream == -1) {
    CountNotUnderstood(event, " of an impossible stream");
    return absl::OkStatus();
  }
  GpuAnnotationRow row = {.start_ns = span->start_ns,
                          .duration_ns = span->duration_ns,
                          .name = 0,
                          .device = static_cast<uint16_t>(device),
                          .stream = StreamOf(stream),
                          .external_id = event.Get(Number::kExternalId, 0)};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  return sink_.Append(row);
}

absl::Status CaptureBuilder::AddOverhead(const TraceEvent& event) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  const std::optional<uint32_t> kind = OverheadKindOf(event.name);
  if (!kind.has_value()) {
    not_understood_.Count(StrCat("overhead:", event.name));
    return absl::OkStatus();
  }
  int64_t os_thread = ParseInteger(event.tid).value_or(0);
  if (is_ours_) {
    const std::string_view label = threads_.LabelOf(event.pid, event.tid);
    os_thread =
        label.starts_with("all threads") ? 0 : NumberOfRow(label, "thread ").value_or(os_thread);
  }
  const OverheadRow row = {.start_ns = span->start_ns,
                           .duration_ns = span->duration_ns,
                           .kind = *kind,
                           .os_thread = Narrow<uint32_t>(os_thread, 0),
                           .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0)};
  return Keep(row);
}

absl::Status CaptureBuilder::Keep(const OverheadRow& row) {
  Cover({.start_ns = row.start_ns, .duration_ns = row.duration_ns});
  return sink_.Append(row);
}

absl::Status CaptureBuilder::FinishGpu() {
  return gpu_.Drain([this](std::span<GpuRow> rows) {
    for (GpuRow& row : rows) {
      // Known only now: a trace may have the work before the call that launched it.
      if (calls_.contains(row.correlation)) continue;
      row.flags |= kGpuOrphan;
      ++contents_.orphan_count;
    }
    return sink_.Append(rows);
  });
}

}  // namespace profd::importer
