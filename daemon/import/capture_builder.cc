#include "daemon/import/capture_builder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/gpu_words.h"
#include "proto/wire/event.h"

namespace profd::importer {
namespace {

// No time lies further from the epoch: a year. What says so is damaged.
constexpr int64_t kMostReachNs = int64_t{366} * 24 * 3600 * 1'000'000'000;
constexpr std::string_view kStepPrefix = "ProfilerStep#";
constexpr uint8_t kOperatorRange = static_cast<uint8_t>(wire::RangeCategory::kOperator);
constexpr uint8_t kUserRange = static_cast<uint8_t>(wire::RangeCategory::kUser);

enum class Category {
  kUnknown,
  kOperator,
  kAnnotation,
  kPython,
  kRuntime,
  kDriver,
  kKernel,
  kMemcpy,
  kMemset,
  kSync,
  kCudaEvent,
  kOverhead,
  kDerived,
};

Category CategoryOf(std::string_view text) {
  static const auto* const kCategories = new absl::flat_hash_map<std::string_view, Category>{
      {"cpu_op", Category::kOperator},
      {"Operator", Category::kOperator},
      {"user_annotation", Category::kAnnotation},
      {"python_function", Category::kPython},
      {"cuda_runtime", Category::kRuntime},
      {"Runtime", Category::kRuntime},
      {"cuda_driver", Category::kDriver},
      {"kernel", Category::kKernel},
      {"Kernel", Category::kKernel},
      {"gpu_memcpy", Category::kMemcpy},
      {"Memcpy", Category::kMemcpy},
      {"gpu_memset", Category::kMemset},
      {"Memset", Category::kMemset},
      {"cuda_sync", Category::kSync},
      {"cuda_event", Category::kCudaEvent},
      {"overhead", Category::kOverhead},
      {"gpu_user_annotation", Category::kDerived},
      {"Trace", Category::kDerived},
  };
  if (const auto found = kCategories->find(text); found != kCategories->end()) return found->second;
  if (text.ends_with("_runtime")) return Category::kRuntime;
  if (text.ends_with("_driver")) return Category::kDriver;
  return Category::kUnknown;
}

// `number` where it fits; else `otherwise`.
template <typename To>
To Narrow(int64_t number, To otherwise) {
  return std::in_range<To>(number) ? static_cast<To>(number) : otherwise;
}
template <typename To>
To NumberOr(const TraceEvent& event, Number number, To otherwise) {
  return Narrow<To>(event.Get(number, otherwise), otherwise);
}

// Of "[1,2,3]".
template <typename Side>
std::array<Side, 3> Sides(std::string_view json, Side otherwise) {
  std::array<Side, 3> sides = {otherwise, otherwise, otherwise};
  const char* at = json.data();
  const char* const end = json.data() + json.size();
  for (size_t i = 0; i < sides.size() && at != end; ++i) {
    while (at != end && (*at < '0' || *at > '9')) ++at;
    const auto [behind, error] = std::from_chars(at, end, sides[i]);
    if (error != std::errc()) break;
    at = behind;
  }
  return sides;
}

}  // namespace

CaptureBuilder::CaptureBuilder(CaptureSink& sink, NotUnderstood& not_understood)
    : sink_(sink), not_understood_(not_understood), names_(sink), texts_(sink) {}

absl::Status CaptureBuilder::Add(const TraceEvent& event) {
  switch (event.phase) {
    case 'X':
      return AddSlice(event);
    case 'i':
    case 'I':
      return AddInstant(event);
    case 'C':
      return AddCounter(event);
    case 'M':
      return AddMetadata(event);
    case 's':
    case 't':
    case 'f':
      return absl::OkStatus();  // They follow from correlations and sequence numbers.
    default:
      not_understood_.Count(event.phase == 0 ? "no ph"
                                             : StrCat("ph:", std::string(1, event.phase)));
      return absl::OkStatus();
  }
}

void CaptureBuilder::AddUnknownArgument(const TraceEvent& event, std::string_view key) {
  not_understood_.Count(StrCat("arg:", event.category, ".", key));
}

void CaptureBuilder::CountNotUnderstood(const TraceEvent& event, std::string_view why) {
  not_understood_.Count(StrCat(event.category.empty() ? "ph:X" : event.category, why));
}

std::optional<CaptureBuilder::Span> CaptureBuilder::SpanOf(const TraceEvent& event,
                                                           bool needs_duration) {
  if (!event.start.has_value()) {
    CountNotUnderstood(event, " without ts");
    return std::nullopt;
  }
  if (needs_duration && !event.duration.has_value()) {
    CountNotUnderstood(event, " without dur");
    return std::nullopt;
  }
  if (!epoch_ns_.has_value()) epoch_ns_ = event.start->ns;
  Span span = {.start_ns = 0, .duration_ns = 0};
  const int64_t duration_ns = needs_duration ? event.duration->ns : 0;
  const bool fits = !__builtin_sub_overflow(event.start->ns, *epoch_ns_, &span.start_ns) &&
                    std::abs(span.start_ns) <= kMostReachNs && duration_ns <= kMostReachNs;
  if (!fits) {
    CountNotUnderstood(event, " more than a year away");
    return std::nullopt;
  }
  // Clocks that step make durations negative: it is known when, not how long.
  if (duration_ns < 0) CountNotUnderstood(event, " with a negative dur, taken as 0");
  span.duration_ns = std::max<int64_t>(duration_ns, 0);
  contents_.whole_us &=
      event.start->is_whole_us && (!event.duration.has_value() || event.duration->is_whole_us);
  return span;
}

void CaptureBuilder::Cover(const Span& span) {
  first_ns_ = std::min(first_ns_, span.start_ns);
  last_ns_ = std::max(last_ns_, span.end_ns());
  ++contents_.event_count;
}

CaptureBuilder::ThreadRows* CaptureBuilder::RowsOf(const TraceEvent& event) {
  const std::optional<uint32_t> thread = threads_.IndexOf(event.pid, event.tid);
  if (!thread.has_value()) {
    CountNotUnderstood(event, " of too many threads");
    return nullptr;
  }
  if (*thread >= rows_.size()) rows_.resize(*thread + 1);
  return &rows_[*thread];
}

absl::Status CaptureBuilder::AddMetadata(const TraceEvent& event) {
  const std::string_view name = event.Get(Text::kName);
  if (event.name == "process_name") {
    threads_.NameProcess(event.pid, Unescape(name));
  } else if (event.name == "thread_name") {
    threads_.NameThread(event.pid, event.tid, Unescape(name));
  } else if (event.name != "process_labels" && event.name != "process_sort_index" &&
             event.name != "thread_sort_index") {
    not_understood_.Count(StrCat("metadata:", event.name));
  }
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddSlice(const TraceEvent& event) {
  switch (CategoryOf(event.category)) {
    case Category::kOperator:
      return AddRange(event, kOperatorRange);
    case Category::kAnnotation:
      return AddRange(event, kUserRange);
    case Category::kRuntime:
      return AddApiCall(event, /*is_driver=*/false);
    case Category::kDriver:
      return AddApiCall(event, /*is_driver=*/true);
    case Category::kKernel:
      return AddWork(event, GpuRowKind::kKernel);
    case Category::kMemcpy:
      return AddWork(event, GpuRowKind::kMemcpy);
    case Category::kMemset:
      return AddWork(event, GpuRowKind::kMemset);
    case Category::kSync:
      return AddSync(event);
    case Category::kCudaEvent:
      return AddCudaEvent(event);
    case Category::kOverhead:
      return AddOverhead(event);
    case Category::kDerived:
      return absl::OkStatus();
    case Category::kPython:
    case Category::kUnknown:
      break;
  }
  not_understood_.Count(event.category.empty() ? "ph:X without cat"
                                               : StrCat("cat:", event.category));
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddRange(const TraceEvent& event, uint8_t category) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  ThreadRows* const rows = RowsOf(event);
  if (rows == nullptr) return absl::OkStatus();
  if (category == kUserRange && AddStep(event, *span, static_cast<uint32_t>(rows - rows_.data()))) {
    return absl::OkStatus();
  }
  Cover(*span);
  ImportedRange range = {.start_ns = span->start_ns,
                         .duration_ns = span->duration_ns,
                         .name = 0,
                         .op = 0,
                         .order = static_cast<uint32_t>(rows->ranges.size()),
                         .depth = 0,
                         .category = category,
                         .flags = 0};
  ASSIGN_OR_RETURN(range.name, names_.IdOfJson(event.name));
  const std::string_view finished = event.Get(Text::kFinished);
  if (finished == "false" || finished == "\"false\"") range.flags |= kRangeOpen;
  if (!event.Get(Text::kBegan).empty()) range.flags |= kRangeTruncated;
  if (category == kOperatorRange) {
    ++contents_.operator_count;
    OperatorInfo info = {
        .sequence = event.Get(Number::kSequence, wire::kNoSequence),
        .forward_thread = static_cast<uint64_t>(event.Get(Number::kForwardThread, 0))};
    ASSIGN_OR_RETURN(info.inputs, texts_.Inputs(event.Get(Text::kDims), event.Get(Text::kTypes),
                                                event.Get(Text::kStrides)));
    ASSIGN_OR_RETURN(info.scalars, texts_.Scalars(event.Get(Text::kScalars)));
    if (info.inputs != 0) ++contents_.tensor_input_count;
    if (info.sequence != wire::kNoSequence || info.inputs != 0 || info.scalars != 0) {
      rows->operators.push_back(info);
      range.op = static_cast<uint32_t>(rows->operators.size());
    }
  }
  rows->ranges.push_back(range);
  return absl::OkStatus();
}

// Of steps that are numbered twice the first is kept.
bool CaptureBuilder::AddStep(const TraceEvent& event, const Span& span, uint32_t thread) {
  std::string_view text = event.name;
  if (!text.starts_with(kStepPrefix)) return false;
  text.remove_prefix(kStepPrefix.size());
  int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || index < 0) return false;
  const auto [at, inserted] = steps_.try_emplace(index, Step{span.start_ns, span.end_ns(), thread});
  if (!inserted) {
    if (at->second.start_ns <= span.start_ns) return false;
    at->second = {span.start_ns, span.end_ns(), thread};
  }
  Cover(span);
  return true;
}

absl::Status CaptureBuilder::AddApiCall(const TraceEvent& event, bool is_driver) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  ThreadRows* const rows = RowsOf(event);
  if (rows == nullptr) return absl::OkStatus();
  Cover(*span);
  ++contents_.gpu_count;
  ApiRow row = {.start_ns = span->start_ns,
                .duration_ns = span->duration_ns,
                .name = 0,
                .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                .cbid = NumberOr<uint32_t>(event, Number::kCbid, 0),
                .result = NumberOr<int32_t>(event, Number::kResult, 0),
                .is_driver = is_driver};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  if (row.correlation != 0) calls_.insert(row.correlation);
  rows->api_calls.push_back(row);
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddWork(const TraceEvent& event, GpuRowKind kind) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  Cover(*span);
  ++contents_.gpu_count;
  // Some releases say where only by the row that the event stands in.
  const int64_t device = event.Get(Number::kDevice, ParseInteger(event.pid).value_or(0));
  const int64_t stream = event.Get(Number::kStream, ParseInteger(event.tid).value_or(0));
  GpuRow row = {.start_ns = span->start_ns,
                .duration_ns = span->duration_ns,
                .kind = kind,
                .flags = 0,
                .device = Narrow<uint16_t>(device, 0),
                .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                .stream = Narrow<uint32_t>(stream, 0),
                .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                .name = 0,
                .graph_id = NumberOr<uint32_t>(event, Number::kGraph, 0),
                .graph_node_id = static_cast<uint64_t>(event.Get(Number::kGraphNode, 0)),
                .bytes = static_cast<uint64_t>(std::max<int64_t>(event.Get(Number::kBytes, 0), 0)),
                .copy_kind = 0,
                .source_kind = 0,
                .destination_kind = 0,
                .source_device = NumberOr<uint16_t>(event, Number::kFromDevice, kNoGpuDevice),
                .destination_device = NumberOr<uint16_t>(event, Number::kToDevice, kNoGpuDevice),
                .queued_ns = kNoGpuTime,
                .submitted_ns = kNoGpuTime,
                .grid = {},
                .block = {},
                .cluster = {},
                .registers_per_thread = 0,
                .static_shared_bytes = 0,
                .dynamic_shared_bytes = 0,
                .local_bytes_per_thread = 0};
  if (!event.Get(Text::kFinished).empty()) row.flags |= kGpuUnfinished;
  if (!event.Get(Text::kBegan).empty()) row.flags |= kGpuStraddlesStart;
  if (!event.Get(Text::kEnded).empty()) row.flags |= kGpuStraddlesEnd;
  if (!event.Get(Text::kLaunchedByDevice).empty()) row.flags |= kGpuDeviceLaunched;
  if (kind == GpuRowKind::kKernel && is_ours_ && event.name == "CUDA graph") {
    row.kind = GpuRowKind::kGraphLaunch;
  } else if (kind == GpuRowKind::kKernel) {
    ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
    row.grid = Sides<uint32_t>(event.Get(Text::kGrid), 1);
    row.block = Sides<uint32_t>(event.Get(Text::kBlock), 1);
    row.cluster = Sides<uint16_t>(event.Get(Text::kCluster), 0);
    row.registers_per_thread = NumberOr<uint16_t>(event, Number::kRegisters, 0);
    // Static and dynamic are told as one.
    row.dynamic_shared_bytes = NumberOr<uint32_t>(event, Number::kSharedBytes, 0);
  } else if (kind == GpuRowKind::kMemcpy) {
    const CopyKinds kinds = CopyKindsOf(event.name);
    row.copy_kind = kinds.copy;
    row.source_kind = kinds.source;
    row.destination_kind = kinds.destination;
  } else {
    row.destination_kind = MemsetKindOf(event.name);
  }
  streams_.emplace(row.device, row.context, row.stream);
  gpu_.push_back(row);
  return absl::OkStatus();
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
  Cover(*span);
  const int64_t stream = event.Get(Number::kStream, -1);
  const SyncRow row = {.start_ns = span->start_ns,
                       .duration_ns = span->duration_ns,
                       .kind = *kind,
                       .device = NumberOr<uint16_t>(event, Number::kDevice, kNoGpuDevice),
                       .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                       .stream = Narrow<uint32_t>(stream, wire::kNoStream),
                       .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                       .event_id = NumberOr<uint32_t>(event, Number::kWaitEvent, 0)};
  syncs_.push_back(row);
  // What it waits for tells of an event that was recorded.
  const int64_t recorded = event.Get(Number::kWaitCorrelation, -1);
  if (recorded <= 0) return absl::OkStatus();
  return NoteCudaEvent({.correlation = Narrow<uint32_t>(recorded, 0),
                        .context = row.context,
                        .stream = NumberOr<uint32_t>(event, Number::kWaitStream, wire::kNoStream),
                        .event_id = row.event_id});
}

absl::Status CaptureBuilder::AddCudaEvent(const TraceEvent& event) {
  return NoteCudaEvent({.correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0),
                        .context = NumberOr<uint32_t>(event, Number::kContext, 0),
                        .stream = NumberOr<uint32_t>(event, Number::kStream, wire::kNoStream),
                        .event_id = NumberOr<uint32_t>(event, Number::kEvent, 0)});
}

absl::Status CaptureBuilder::NoteCudaEvent(const CudaEventRow& row) {
  const bool is_new =
      cuda_events_.emplace(row.correlation, row.context, row.stream, row.event_id).second;
  if (!is_new) return absl::OkStatus();
  ++contents_.event_count;
  return sink_.AppendCudaEvents({&row, 1});
}

absl::Status CaptureBuilder::AddOverhead(const TraceEvent& event) {
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/true);
  if (!span.has_value()) return absl::OkStatus();
  const std::optional<uint32_t> kind = OverheadKindOf(event.name);
  if (!kind.has_value()) {
    not_understood_.Count(StrCat("overhead:", event.name));
    return absl::OkStatus();
  }
  Cover(*span);
  overheads_.push_back({.start_ns = span->start_ns,
                        .duration_ns = span->duration_ns,
                        .kind = *kind,
                        .os_thread = Narrow<uint32_t>(ParseInteger(event.tid).value_or(0), 0),
                        .correlation = NumberOr<uint32_t>(event, Number::kCorrelation, 0)});
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddInstant(const TraceEvent& event) {
  // Marks of the recording itself.
  if (event.name == "Record Window End" || event.name.starts_with("Iteration Start")) {
    return absl::OkStatus();
  }
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/false);
  if (!span.has_value()) return absl::OkStatus();
  if (event.name == "[memory]" || event.name == "[cuda memory]") return AddMemory(event, *span);
  ThreadRows* const rows = RowsOf(event);
  if (rows == nullptr) return absl::OkStatus();
  InstantRow row = {.time_ns = span->start_ns, .name = 0};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  Cover(*span);
  rows->instants.push_back(row);
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddMemory(const TraceEvent& event, const Span& span) {
  if (!event.Has(Number::kBytes)) {
    CountNotUnderstood(event, " [memory] without Bytes");
    return absl::OkStatus();
  }
  ThreadRows* const rows = RowsOf(event);
  if (rows == nullptr) return absl::OkStatus();
  Cover(span);
  ++contents_.memory_count;
  const int64_t bytes = event.Get(Number::kBytes, 0);
  const int64_t type = event.Get(Number::kDeviceType, 0);
  const bool is_cpu = type == static_cast<int64_t>(wire::DeviceType::kCpu);
  const bool is_cuda_own = event.name == "[cuda memory]";
  // torch numbers HIP, XPU and others by themselves: what matters here is that it is no host.
  const uint8_t device_type =
      is_cuda_own ? Narrow<uint8_t>(type, static_cast<uint8_t>(wire::DeviceType::kCudaDriver))
      : is_cpu    ? static_cast<uint8_t>(wire::DeviceType::kCpu)
                  : static_cast<uint8_t>(wire::DeviceType::kCuda);
  rows->memory.push_back(
      {.time_ns = span.start_ns,
       .address = static_cast<uint64_t>(event.Get(Number::kAddress, 0)),
       .bytes = std::abs(std::max(bytes, -std::numeric_limits<int64_t>::max())),
       .total_allocated_bytes = std::max<int64_t>(event.Get(Number::kTotalAllocated, -1), -1),
       .total_reserved_bytes = std::max<int64_t>(event.Get(Number::kTotalReserved, -1), -1),
       .device_type = device_type,
       .device_index = NumberOr<int16_t>(event, Number::kDeviceId, -1),
       .category = 0,
       .is_free = bytes < 0});
  return absl::OkStatus();
}

absl::Status CaptureBuilder::AddCounter(const TraceEvent& event) {
  // Ours draw curves of memory, which follow from the events.
  std::string_view value = event.Get(Text::kValue);
  if (value.empty()) value = event.Get(Text::kUnnamed);
  if (value.empty()) {
    if (!is_ours_) not_understood_.Count("ph:C without a value");
    return absl::OkStatus();
  }
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    not_understood_.Count("ph:C whose value is no number");
    return absl::OkStatus();
  }
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/false);
  if (!span.has_value()) return absl::OkStatus();
  ThreadRows* const rows = RowsOf(event);
  if (rows == nullptr) return absl::OkStatus();
  CounterRow row = {.time_ns = span->start_ns, .value = number, .name = 0};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  Cover(*span);
  rows->counters.push_back(row);
  return absl::OkStatus();
}

absl::Status CaptureBuilder::FinishRanges(uint32_t thread, ThreadRows& rows) {
  constexpr size_t kBatch = 8192;
  const LostRanges lost = Nest(rows.ranges);
  contents_.too_deep_count += lost.other_count + lost.python_count;
  contents_.event_count -= lost.other_count + lost.python_count;
  std::vector<RangeRow> batch;
  for (const ImportedRange& range : rows.ranges) {
    batch.push_back({.start_ns = range.start_ns,
                     .duration_ns = range.duration_ns,
                     .name = range.name,
                     .depth = range.depth,
                     .category = range.category,
                     .flags = range.flags});
    if (batch.size() < kBatch) continue;
    RETURN_IF_ERROR(sink_.AppendRanges(thread, batch));
    batch.clear();
  }
  RETURN_IF_ERROR(sink_.AppendRanges(thread, batch));
  std::vector<OperatorRow> operators;
  for (const ImportedRange& range : rows.ranges) {
    if (range.op == 0) continue;
    const OperatorInfo& info = rows.operators[range.op - 1];
    operators.push_back({.start_ns = range.start_ns,
                         .depth = range.depth,
                         .scope = static_cast<uint8_t>(wire::OperatorScope::kFunction),
                         .sequence = info.sequence,
                         .forward_thread = info.forward_thread,
                         .torch_thread = 0,
                         .inputs = info.inputs,
                         .scalars = info.scalars});
    if (operators.size() < kBatch) continue;
    RETURN_IF_ERROR(sink_.AppendOperators(thread, operators));
    operators.clear();
  }
  return sink_.AppendOperators(thread, operators);
}

absl::Status CaptureBuilder::FinishThread(uint32_t thread, ThreadRows& rows) {
  const auto by_time = [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; };
  RETURN_IF_ERROR(FinishRanges(thread, rows));
  std::stable_sort(rows.memory.begin(), rows.memory.end(), by_time);
  std::stable_sort(rows.instants.begin(), rows.instants.end(), by_time);
  std::stable_sort(rows.counters.begin(), rows.counters.end(), by_time);
  RETURN_IF_ERROR(sink_.AppendMemory(thread, rows.memory));
  RETURN_IF_ERROR(sink_.AppendInstants(thread, rows.instants));
  RETURN_IF_ERROR(sink_.AppendCounters(thread, rows.counters));
  RETURN_IF_ERROR(sink_.AppendApiCalls(thread, rows.api_calls));
  rows = {};
  return absl::OkStatus();
}

absl::Status CaptureBuilder::FinishGpu() {
  for (GpuRow& row : gpu_) {
    if (calls_.contains(row.correlation)) continue;
    row.flags |= kGpuOrphan;
    ++contents_.orphan_count;
  }
  RETURN_IF_ERROR(sink_.AppendGpu(gpu_));
  RETURN_IF_ERROR(sink_.AppendSyncs(syncs_));
  return sink_.AppendOverheads(overheads_);
}

absl::Status CaptureBuilder::FinishSteps() {
  if (steps_.empty()) return absl::OkStatus();
  for (const auto& [index, step] : steps_) {
    contents_.steps.push_back({.index = index,
                               .window = 0,
                               .start_ns = step.start_ns - contents_.start_ns,
                               .duration_ns = step.end_ns - step.start_ns});
  }
  std::sort(contents_.steps.begin(), contents_.steps.end(),
            [](const StepRecord& a, const StepRecord& b) { return a.index < b.index; });
  // Marks say whose the steps are; when each ended, the steps themselves do.
  std::vector<StepRow> marks;
  for (const StepRecord& step : contents_.steps) {
    marks.push_back({.time_ns = step.start_ns + contents_.start_ns, .step = step.index});
  }
  return sink_.AppendSteps(steps_.at(contents_.steps.front().index).thread, marks);
}

absl::StatusOr<CaptureBuilder::Contents> CaptureBuilder::Finish() {
  if (contents_.event_count == 0) return std::move(contents_);
  contents_.epoch_ns = *epoch_ns_;
  contents_.start_ns = std::min(first_ns_, last_ns_);
  contents_.end_ns = last_ns_;
  for (const ThreadRow& thread : threads_.Rows()) RETURN_IF_ERROR(sink_.AddThread(thread));
  for (size_t thread = 0; thread < rows_.size(); ++thread) {
    RETURN_IF_ERROR(FinishThread(static_cast<uint32_t>(thread), rows_[thread]));
  }
  RETURN_IF_ERROR(FinishGpu());
  RETURN_IF_ERROR(FinishSteps());
  for (const auto& [device, context, stream] : streams_) {
    contents_.streams.push_back({.context = context, .stream = stream, .device = device});
  }
  contents_.other_name_count = names_.other_count();
  contents_.cut_input_count = texts_.left_out_count();
  contents_.process = threads_.MainProcess();
  return std::move(contents_);
}

}  // namespace profd::importer
