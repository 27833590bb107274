// What CaptureBuilder makes of instants and counters: memory, notes, and what users mark.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/narrow.h"
#include "daemon/report/index/accelerators.h"
#include "proto/wire/event.h"

namespace profd::importer {
namespace {

// How exports say what daemon/export/trace/note_text.h makes of a note.
struct NoteShape {
  std::string_view name;
  wire::NoteKind kind;
  Text subject;
  Text text;
  Number value;
  int64_t no_value;
};
constexpr NoteShape kOutOfMemoryShape = {
    "[OutOfMemory]", wire::NoteKind::kOutOfMemory, Text::kDevice, Text::kReason, Number::kBytes, 0};
constexpr std::array kOurShapes = {
    NoteShape{"Graph Break", wire::NoteKind::kGraphBreak, Text::kWhere, Text::kReason,
              Number::kEvents, 0},
    NoteShape{"Recompile", wire::NoteKind::kRecompile, Text::kWhere, Text::kReason,
              Number::kCompileNs, -1},
    NoteShape{"Not Recorded", wire::NoteKind::kMissing, Text::kFeature, Text::kReason,
              Number::kEvents, 0},
    NoteShape{"Left Out", wire::NoteKind::kFolded, Text::kInsideOf, Text::kReason, Number::kEvents,
              0},
};
// After its name stands its subject.
constexpr NoteShape kRegionShape = {"Compiled Region: ", wire::NoteKind::kCompiledRegion,
                                    Text::kWhere,        Text::kCode,
                                    Number::kGuards,     0};

const NoteShape* ShapeOf(std::string_view name, bool is_ours) {
  if (name == kOutOfMemoryShape.name) return &kOutOfMemoryShape;
  if (!is_ours) return nullptr;
  if (name.starts_with(kRegionShape.name)) return &kRegionShape;
  for (const NoteShape& shape : kOurShapes) {
    if (name == shape.name) return &shape;
  }
  return nullptr;
}

// "cpu", "cuda:0", "xpu:0"
std::string DeviceNameOf(const TraceEvent& event) {
  const int64_t type = event.Get(Number::kDeviceType, 0);
  if (type == static_cast<int64_t>(wire::DeviceType::kCpu)) return "cpu";
  const std::string_view accelerator = report::AcceleratorName(type);
  return StrCat(accelerator.empty() ? "cuda" : accelerator, ":", event.Get(Number::kDeviceId, 0));
}

}  // namespace

absl::Status CaptureBuilder::AddInstant(const TraceEvent& event) {
  // Marks of the recording itself.
  if (event.name == "Record Window End") {
    NoteProfilerEnd(event);
    other_events_.Add(event);
    return absl::OkStatus();
  }
  if (event.name.starts_with("Iteration Start")) {
    other_events_.Add(event);
    if (event.start.has_value() && !contents_.profiler_start_ns.has_value()) {
      contents_.profiler_start_ns = event.start->ns;
    }
    return absl::OkStatus();
  }
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/false);
  if (!span.has_value()) return absl::OkStatus();
  if (event.name == "[memory]" || event.name == "[cuda memory]") return AddMemory(event, *span);
  ASSIGN_OR_RETURN(const bool is_note, AddNote(event, *span));
  if (is_note) return absl::OkStatus();
  const std::optional<uint32_t> thread = ThreadOf(event);
  if (!thread.has_value()) return absl::OkStatus();
  InstantRow row = {.time_ns = span->start_ns, .name = 0};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  Cover(*span);
  rows_[*thread].instants.push_back(row);
  return Hold();
}

absl::Status CaptureBuilder::AddMemory(const TraceEvent& event, const Span& span) {
  if (!event.Has(Number::kBytes)) {
    CountNotUnderstood(event, " [memory] without Bytes");
    return absl::OkStatus();
  }
  const std::optional<uint32_t> thread = ThreadOf(event);
  if (!thread.has_value()) return absl::OkStatus();
  const int64_t bytes = event.Get(Number::kBytes, 0);
  const int64_t type = event.Get(Number::kDeviceType, 0);
  const bool is_cpu = type == static_cast<int64_t>(wire::DeviceType::kCpu);
  const bool is_cuda_own = event.name == "[cuda memory]";
  // Other types, such as HIP, count as CUDA: all that matters is that they are not the CPU.
  const uint8_t device_type =
      is_cuda_own ? Narrow<uint8_t>(type, static_cast<uint8_t>(wire::DeviceType::kCudaDriver))
      : is_cpu || !report::AcceleratorName(type).empty()
          ? static_cast<uint8_t>(type)
          : static_cast<uint8_t>(wire::DeviceType::kCuda);
  const bool is_foreign = device_type != type;
  RETURN_IF_ERROR(arguments_.Add(
      event, is_foreign ? RestoredArguments::kForeignMemory : RestoredArguments::kMemory,
      kArgumentOfMemory, *thread, static_cast<uint32_t>(rows_[*thread].memory.size())));
  return Keep(
      *thread,
      {.time_ns = span.start_ns,
       .address = static_cast<uint64_t>(event.Get(Number::kAddress, 0)),
       .bytes = std::abs(std::max(bytes, -std::numeric_limits<int64_t>::max())),
       .total_allocated_bytes = std::max<int64_t>(event.Get(Number::kTotalAllocated, -1), -1),
       .total_reserved_bytes = std::max<int64_t>(event.Get(Number::kTotalReserved, -1), -1),
       .device_type = device_type,
       .device_index = NumberOr<int16_t>(event, Number::kDeviceId, -1),
       .category = 0,
       .is_free = bytes < 0});
}

absl::Status CaptureBuilder::Keep(uint32_t thread, const MemoryRow& row) {
  Cover({.start_ns = row.time_ns, .duration_ns = 0});
  ++contents_.memory_count;
  rows_[thread].memory.push_back(row);
  return Hold();
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
    not_understood_.Count("ph:C whose value is not a number");
    return absl::OkStatus();
  }
  const std::optional<Span> span = SpanOf(event, /*needs_duration=*/false);
  if (!span.has_value()) return absl::OkStatus();
  const std::optional<uint32_t> thread = ThreadOf(event);
  if (!thread.has_value()) return absl::OkStatus();
  CounterRow row = {.time_ns = span->start_ns, .value = number, .name = 0};
  ASSIGN_OR_RETURN(row.name, names_.IdOfJson(event.name));
  Cover(*span);
  rows_[*thread].counters.push_back(row);
  return Hold();
}

// The name of an argument that is a string; 0: it is not there.
absl::StatusOr<uint32_t> CaptureBuilder::NameOf(const TraceEvent& event, Text text) {
  const std::string_view json = event.Get(text);
  if (json.empty()) return 0;
  return names_.IdOf(Unescape(json));
}

// What profd's exports say of a framework, and torch of memory that ran out. False: it is none.
absl::StatusOr<bool> CaptureBuilder::AddNote(const TraceEvent& event, const Span& span) {
  const NoteShape* const shape = ShapeOf(event.name, is_ours_);
  if (shape == nullptr) return false;
  const std::optional<uint32_t> thread = ThreadOf(event);
  if (!thread.has_value()) return true;
  NoteRow row = {.time_ns = span.start_ns,
                 .kind = static_cast<uint16_t>(shape->kind),
                 .subject = 0,
                 .text = 0,
                 .value = event.Get(shape->value, shape->no_value)};
  if (shape->kind == wire::NoteKind::kOutOfMemory) {
    ASSIGN_OR_RETURN(row.subject, names_.IdOf(DeviceNameOf(event)));
  } else if (shape->kind == wire::NoteKind::kCompiledRegion) {
    ASSIGN_OR_RETURN(row.subject, names_.IdOf(Unescape(event.name.substr(shape->name.size()))));
  } else {
    ASSIGN_OR_RETURN(row.subject, NameOf(event, shape->subject));
  }
  ASSIGN_OR_RETURN(row.text, NameOf(event, shape->text));
  // What holds for the whole capture is at no time.
  const bool is_timeless = is_ours_ && event.scope == "p";
  if (is_timeless) row.time_ns = kNoNoteTime;
  Cover(span);
  --contents_.event_count;  // Notes are none.
  RETURN_IF_ERROR(sink_.Append(*thread, row));
  return true;
}

}  // namespace profd::importer
