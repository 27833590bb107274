// Chrome JSON as Kineto writes it: what HTA, TensorBoard's plugin, Perfetto and
// chrome://tracing were tuned on.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/export/chrome/flows.h"
#include "daemon/export/chrome/gpu.h"
#include "daemon/export/chrome/header.h"
#include "daemon/export/chrome/labels.h"
#include "daemon/export/chrome/operators.h"
#include "daemon/export/chrome/other_events.h"
#include "daemon/export/chrome/python.h"
#include "daemon/export/trace/call_nesting.h"
#include "daemon/export/trace/clock.h"
#include "daemon/export/trace/gpu_plan.h"
#include "daemon/export/trace/json_text.h"
#include "daemon/export/trace/layout.h"
#include "daemon/export/trace/operator_plan.h"
#include "daemon/export/trace/shown_arguments.h"
#include "daemon/export/trace/source_arguments.h"
#include "daemon/export/trace/writers.h"
#include "daemon/report/index/accelerators.h"
#include "daemon/report/memory/timeline.h"
#include "proto/wire/event.h"

namespace profd::exporter {
namespace {

// Longest event: an escaped name, two ids, two times and arguments.
constexpr size_t kMostEventBytes = 2 * kMostTraceNameBytes + 1024 + SourceArguments::kMostBytes;
constexpr size_t kMostOperatorEventBytes =
    kMostEventBytes - SourceArguments::kMostBytes + ChromeOperators::kMostArgumentBytes;
static_assert(kMostOperatorEventBytes <= OutputBuffer::kMostReservedBytes);

constexpr auto kPythonCategory = static_cast<uint8_t>(wire::RangeCategory::kPython);

// "Ev Idx", the number of an event: steps, ranges, then memory, from 0.
constexpr int64_t EventOf(int64_t external_id) { return external_id - 1; }

// The end of a range's event: what is put in between are its arguments, if it has any.
class RangeEnd {
 public:
  explicit RangeEnd(char* at) : at_(at) {}

  // Where the value has to be put.
  char*& Key(std::string_view quoted_key_and_colon) {
    at_ = PutText(at_, has_arguments_ ? "," : R"(,"args":{)");
    has_arguments_ = true;
    at_ = PutText(at_, quoted_key_and_colon);
    return at_;
  }
  // profd's own numbers.
  void ExternalId(int64_t id) { Number(R"("External id":)", id); }
  void EventIndex(int64_t external_id) { Number(R"("Ev Idx":)", EventOf(external_id)); }
  void Number(std::string_view quoted_key_and_colon, int64_t value) {
    char*& at = Key(quoted_key_and_colon);
    at = PutInteger(at, value);
  }
  // What `put` puts at its argument, each with a comma before it.
  template <typename Put>
  void Arguments(Put put) {
    char* const begin = has_arguments_ ? at_ : PutText(at_, R"(,"args":)");
    char* const end = put(begin);
    if (end == begin) return;
    if (!has_arguments_) *begin = '{';  // In place of the first comma.
    has_arguments_ = true;
    at_ = end;
  }
  void Flags(uint8_t flags) {
    if (flags & kRangeOpen) Key(R"("finished":"false")");
    if (flags & kRangeTruncated) Key(R"("began_before_window":"true")");
    if ((flags & kRangeUnended) == 0) return;
    Key(flags & kRangeOpen ? R"("never_ended":"true")" : R"("ended_with_thread":"true")");
  }
  char* Close() {
    if (has_arguments_) *at_++ = '}';
    *at_++ = '}';
    return at_;
  }

 private:
  char* at_;
  bool has_arguments_ = false;
};

// Whether the steps nest with the ranges of one thread: viewers show rows, and loaders
// demand that a row's events nest.
class StepNesting {
 public:
  explicit StepNesting(std::span<const StepRecord> steps) {
    for (const StepRecord& step : steps) {
      spans_.push_back({step.start_ns, End(step.start_ns, step.duration_ns)});
    }
    std::sort(spans_.begin(), spans_.end(),
              [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  }

  void Check(const RangeBatch& batch) {
    for (size_t i = 0; i < batch.size && nests_; ++i) {
      const int64_t start_ns = batch.start_ns[i];
      const int64_t end_ns = End(start_ns, batch.duration_ns[i]);
      // Ranges come by their end: steps that end before it are past for good.
      while (next_ < spans_.size() && spans_[next_].end_ns < end_ns) ++next_;
      nests_ = !CutsAnEndedStep(start_ns) && !CutsTheStepAround(start_ns, end_ns);
    }
  }
  bool nests() const { return nests_; }

 private:
  struct Span {
    int64_t start_ns;
    int64_t end_ns;
  };
  static int64_t End(int64_t start_ns, int64_t duration_ns) {
    return static_cast<int64_t>(static_cast<uint64_t>(start_ns) +
                                static_cast<uint64_t>(duration_ns));
  }

  // Begins inside a step that ended before the range did.
  bool CutsAnEndedStep(int64_t start_ns) const {
    if (next_ == 0 || spans_[next_ - 1].end_ns <= start_ns) return false;
    const auto after =
        std::upper_bound(spans_.begin(), spans_.begin() + static_cast<ptrdiff_t>(next_), start_ns,
                         [](int64_t time, const Span& span) { return time < span.start_ns; });
    if (after == spans_.begin()) return false;
    const Span& around = *(after - 1);
    return around.start_ns < start_ns && start_ns < around.end_ns;
  }
  // Ends inside a step that began after the range did.
  bool CutsTheStepAround(int64_t start_ns, int64_t end_ns) const {
    if (next_ == spans_.size()) return false;
    const Span& around = spans_[next_];
    return start_ns < around.start_ns && around.start_ns < end_ns && end_ns < around.end_ns;
  }

  std::vector<Span> spans_;
  size_t next_ = 0;
  bool nests_ = true;
};

class ChromeWriter {
 public:
  ChromeWriter(store::CaptureReader& reader, GpuPlan plan, OperatorPlan operators,
               SourceArguments source, ShownArguments arguments, TraceLayout layout,
               std::string_view step_prefix, OutputBuffer& out)
      : reader_(reader),
        out_(out),
        layout_(std::move(layout)),
        plan_(std::move(plan)),
        operators_(std::move(operators)),
        source_(std::move(source)),
        arguments_(std::move(arguments)),
        step_prefix_(step_prefix),
        flows_(source_, layout_.place.is_merged, out),
        labels_(source_, layout_.place, out),
        other_events_(layout_.place.is_merged ? OtherEvents() : OtherEvents(reader.record())),
        range_counts_(reader.threads().size()),
        memory_counts_(reader.threads().size()) {
    for (auto& prefixes : range_prefixes_) prefixes.resize(reader.names().size());
    TakeSourceTids();
    for (const TraceRow& row : layout_.threads) {
      thread_texts_.push_back(StrCat(row.tid, ",\"ts\":"));
    }
  }

  absl::Status Write() {
    ASSIGN_OR_RETURN(int64_t earliest_ns, EarliestTime(reader_));
    earliest_ns = std::min({earliest_ns, other_events_.earliest_ns(), flows_.earliest_ns()});
    const TracePlace& place = layout_.place;
    const int64_t base_unix_ns =
        place.is_merged ? place.base_unix_ns : ChromeBase(place.start_unix_ns, earliest_ns);
    clock_.offset_ns =
        static_cast<uint64_t>(place.start_unix_ns) - static_cast<uint64_t>(base_unix_ns);
    clock_.drift = place.drift;
    ASSIGN_OR_RETURN(steps_on_thread_, StepsNestWithThread());
    const CaptureRecord& record = reader_.record();
    ASSIGN_OR_RETURN(
        const CallNesting nesting,
        CallNesting::Make(reader_, plan_.links(),
                          {.clock_error_ns = ClockErrorOfCalls(record),
                           .step_thread = steps_on_thread_ ? layout_.step_thread : -1}));
    ASSIGN_OR_RETURN(
        const ChromePython python,
        ChromePython::Make(reader_, {.steps = plan_.links().steps(),
                                     .step_thread = steps_on_thread_ ? layout_.step_thread : -1}));
    ChromeOperators operators(reader_, operators_, python, layout_, thread_texts_, source_, clock_,
                              out_);
    ChromeGpu gpu(reader_, plan_, nesting, operators, source_, flows_, layout_, clock_, out_);

    if (!place.is_merged) {
      out_.Append(ChromeHeader(record, layout_, Threads(), base_unix_ns,
                               {.gpu_annotations = plan_.annotations_left_out(),
                                .operator_inputs = operators.inputs_left_out(),
                                .cut_stacks = python.cut_stack_count()}));
    }
    WriteRows();
    gpu.WriteRows(labels_);
    WriteSteps();
    python.WriteFunctions(layout_, thread_texts_, clock_, out_);
    RETURN_IF_ERROR(WriteSourceFunctions());
    RETURN_IF_ERROR(WriteRanges(operators));
    RETURN_IF_ERROR(gpu.WriteEvents());
    RETURN_IF_ERROR(WriteInstants());
    RETURN_IF_ERROR(operators.WriteNotes());
    RETURN_IF_ERROR(WriteMemory());
    RETURN_IF_ERROR(WriteCounters());
    RETURN_IF_ERROR(WriteMemoryCurves());
    WriteEnd();
    return out_.status();
  }

 private:
  absl::StatusOr<bool> StepsNestWithThread() {
    if (reader_.steps().empty() || layout_.step_thread < 0) return false;
    StepNesting nesting(reader_.steps());
    RETURN_IF_ERROR(
        reader_.ForEach<RangeRow>(kRangeStart | kRangeDuration, {}, [&](const RangeBatch& batch) {
          if (batch.thread == layout_.step_thread) nesting.Check(batch);
          return absl::OkStatus();
        }));
    return nesting.nests();
  }

  // Rows of imported traces are those of the source: Python's functions are on the row of their
  // thread again.
  void TakeSourceTids() {
    has_source_tid_.resize(layout_.threads.size());
    for (uint32_t thread = 0; thread < layout_.threads.size(); ++thread) {
      const std::optional<int64_t> tid =
          layout_.place.is_merged ? std::nullopt : source_.TidOf(thread);
      if (!tid.has_value()) continue;
      has_source_tid_[thread] = true;
      TraceRow& row = layout_.threads[thread];
      row.tid = *tid;
      row.label = row.label.substr(0, row.label.rfind(", row "));
    }
  }

  std::vector<ChromeThread> Threads() const {
    std::vector<ChromeThread> threads;
    for (size_t thread = 0; thread < layout_.threads.size(); ++thread) {
      threads.push_back(
          {.tid = layout_.threads[thread].tid,
           .is_python = has_source_tid_[thread] && IsPythonRow(reader_.threads()[thread].name)});
    }
    return threads;
  }

  uint64_t Timestamp(int64_t time_ns) const { return clock_.At(time_ns); }

  uint64_t Duration(int64_t start_ns, int64_t duration_ns) const {
    return clock_.Duration(start_ns, static_cast<uint64_t>(std::max<int64_t>(duration_ns, 0)));
  }

  void WriteRows() {
    const int64_t pid = layout_.pid;
    std::string labels = "CPU";
    if (layout_.rank.has_value()) StrAppend(&labels, ", rank ", *layout_.rank);
    if (!reader_.record().node.empty()) StrAppend(&labels, ", ", TraceName(reader_.record().node));
    if (layout_.place.is_merged) StrAppend(&labels, ", pid ", reader_.record().target.pid);
    labels_.WriteSource();
    labels_.WriteText("process_name", pid, 0, "name", layout_.process_name);
    labels_.WriteText("process_labels", pid, 0, "labels", labels);
    labels_.WriteNumber("process_sort_index", pid, 0, "sort_index", pid);
    absl::flat_hash_set<int64_t> tids;
    for (const bool of_source : {false, true}) {
      for (size_t thread = 0; thread < layout_.threads.size(); ++thread) {
        const TraceRow& row = layout_.threads[thread];
        if (has_source_tid_[thread] != of_source || !tids.insert(row.tid).second) continue;
        labels_.WriteText("thread_name", pid, row.tid, "name", row.label);
        labels_.WriteNumber("thread_sort_index", pid, row.tid, "sort_index", row.tid);
      }
    }
    if (!reader_.steps().empty() && !steps_on_thread_) {
      labels_.WriteText("thread_name", pid, layout_.steps.tid, "name", layout_.steps.label);
      // Above the threads.
      labels_.WriteNumber("thread_sort_index", pid, layout_.steps.tid, "sort_index", -1);
    }
  }

  // The trace's arrows at an event of a thread that was just written.
  void WriteFlows(uint8_t of, uint32_t thread, uint32_t number, std::string_view row,
                  int64_t start_ns) {
    if (!flows_.has_any()) return;
    flows_.Write(of, thread, number, StrCat("\"pid\":", layout_.pid, ",\"tid\":", row),
                 Timestamp(start_ns));
  }

  void WriteSteps() {
    const int64_t tid = steps_on_thread_
                            ? layout_.threads[static_cast<size_t>(layout_.step_thread)].tid
                            : layout_.steps.tid;
    const std::span<const StepRecord> steps = plan_.links().steps();
    for (size_t i = 0; i < steps.size(); ++i) {
      const StepRecord& step = steps[i];
      char* at = out_.Reserve(kMostEventBytes);
      at = PutText(at, R"(,
{"ph":"X","cat":"user_annotation","name":")");
      at = PutText(at, step_prefix_);
      at = PutInteger(at, step.index);
      at = PutText(at, R"(","pid":)");
      at = PutInteger(at, layout_.pid);
      at = PutText(at, R"(,"tid":)");
      at = PutInteger(at, tid);
      at = PutText(at, R"(,"ts":)");
      at = PutMicros(at, Timestamp(step.start_ns));
      at = PutText(at, R"(,"dur":)");
      at = PutMicros(at, Duration(step.start_ns, step.duration_ns));
      RangeEnd end(at);
      const int64_t id = GpuLinks::StepId(i);
      if (source_.empty()) {
        if (!operators_.empty() || !plan_.empty()) end.ExternalId(id);
        if (!operators_.empty()) end.EventIndex(id);
      } else if (std::in_range<uint32_t>(step.index)) {
        const SourceArguments::Row source =
            source_.Of(kArgumentOfStep, 0, static_cast<uint32_t>(step.index));
        end.Arguments([&](char* to) {
          return source_.PutRest(source_.Put(to, source, kFirstArguments), source);
        });
      }
      out_.Commit(end.Close());
      if (!std::in_range<uint32_t>(step.index)) continue;
      WriteFlows(kArgumentOfStep, 0, static_cast<uint32_t>(step.index), StrCat(tid, ",\"ts\":"),
                 step.start_ns);
    }
  }

  // A function of Python that an imported trace has.
  struct SourceFunction {
    int64_t start_ns;
    int64_t duration_ns;
    uint32_t thread;
    uint32_t row;  // Among the ranges of the thread, where an inner one comes first.
    uint32_t name;
    uint8_t flags;
  };
  static bool IsWrittenBefore(const SourceFunction& a, const SourceFunction& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    if (a.duration_ns != b.duration_ns) return a.duration_ns > b.duration_ns;
    return a.duration_ns == 0 ? a.row < b.row : a.row > b.row;
  }

  // Where and in the order in which ChromePython writes functions.
  absl::Status WriteSourceFunctions() {
    has_source_functions_ =
        !source_.empty() &&
        std::ranges::any_of(reader_.threads(), [](const store::ReaderThread& thread) {
          return IsPythonRow(thread.name);
        });
    if (!has_source_functions_) return absl::OkStatus();
    std::vector<SourceFunction> functions;
    std::vector<uint32_t> rows(layout_.threads.size());
    RETURN_IF_ERROR(reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeCategory | kRangeFlags, {},
        [&](const RangeBatch& batch) {
          for (size_t i = 0; i < batch.size; ++i) {
            const uint32_t row = rows[batch.thread]++;
            if (batch.category[i] != kPythonCategory) continue;
            functions.push_back({.start_ns = batch.start_ns[i],
                                 .duration_ns = batch.duration_ns[i],
                                 .thread = batch.thread,
                                 .row = row,
                                 .name = batch.name[i],
                                 .flags = batch.flags[i]});
          }
          return absl::OkStatus();
        }));
    std::ranges::sort(functions, IsWrittenBefore);
    for (const SourceFunction& function : functions) {
      char* at = out_.Reserve(kMostEventBytes);
      at = PutText(at, RangePrefix(kPythonSlice, function.name));
      at = PutText(at, thread_texts_[function.thread]);
      at = micros_.Put(at, Timestamp(function.start_ns));
      at = PutText(at, R"(,"dur":)");
      at = PutMicros(at, Duration(function.start_ns, function.duration_ns));
      RangeEnd end(at);
      const SourceArguments::Row source =
          source_.Of(kArgumentOfRange, function.thread, function.row);
      end.Arguments([&](char* to) {
        return source_.PutRest(source_.Put(to, source, kFirstArguments), source);
      });
      if (function.flags != 0) end.Flags(function.flags);
      out_.Commit(end.Close());
      WriteFlows(kArgumentOfRange, function.thread, function.row, thread_texts_[function.thread],
                 function.start_ns);
    }
    return out_.status();
  }

  absl::Status WriteRanges(ChromeOperators& operators) {
    OperatorPlan::Cursor cursor(operators_);
    return reader_.ForEach<RangeRow>(
        kRangeStart | kRangeDuration | kRangeName | kRangeCategory | kRangeFlags, {},
        [&](const RangeBatch& batch) {
          WriteRangeBatch(batch, operators, cursor);
          return out_.status();
        });
  }

  void WriteRangeBatch(const RangeBatch& batch, ChromeOperators& operators,
                       OperatorPlan::Cursor& cursor) {
    const std::string_view thread = thread_texts_[batch.thread];
    const std::span<const uint32_t> with_id = plan_.links().ranges_with_id();
    for (size_t i = 0; i < batch.size; ++i) {
      const PlannedOperator* const op = cursor.Next(next_range_);
      if (batch.category[i] == kPythonCategory && has_source_functions_) {
        PassRange(batch.thread);
        continue;
      }
      const std::string_view prefix =
          RangePrefix(SliceKindOf(batch.category[i], op), batch.name[i]);
      char* at = out_.Reserve(op == nullptr ? kMostEventBytes : kMostOperatorEventBytes);
      at = PutText(at, prefix);
      at = PutText(at, thread);
      at = micros_.Put(at, Timestamp(batch.start_ns[i]));
      at = PutText(at, R"(,"dur":)");
      at = PutMicros(at, Duration(batch.start_ns[i], batch.duration_ns[i]));
      const bool has_id = next_id_ < with_id.size() && with_id[next_id_] == next_range_;
      RangeEnd end(at);
      const int64_t id = plan_.links().RangeId(next_range_);
      const bool is_torchs =
          op != nullptr || (!operators_.empty() && batch.category[i] != kPythonCategory);
      const uint32_t number = range_counts_[batch.thread];
      const SourceArguments::Row source = source_.Of(kArgumentOfRange, batch.thread, number);
      if (!source_.empty()) {
        end.Arguments([&](char* to) { return source_.Put(to, source, kFirstArguments); });
      } else if (has_id || is_torchs) {
        end.ExternalId(id);
      }
      if (op != nullptr) {
        end.Arguments([&](char* to) { return operators.PutArguments(to, *op, source); });
      }
      if (!source_.empty()) {
        end.Arguments([&](char* to) { return source_.PutRest(to, source); });
      } else if (is_torchs) {
        end.EventIndex(id);
      }
      if (op == nullptr && !arguments_.empty()) {
        end.Arguments([&](char* to) { return PutArguments(to, next_range_); });
      }
      if (batch.flags[i] != 0) end.Flags(batch.flags[i]);
      out_.Commit(end.Close());
      if (op != nullptr && !flows_.has_any()) {
        operators.WriteFlow(*op, batch.thread, batch.start_ns[i]);
      }
      WriteFlows(kArgumentOfRange, batch.thread, number, thread, batch.start_ns[i]);
      PassRange(batch.thread);
    }
  }

  // Those that the program gave the range, each with a comma before it.
  char* PutArguments(char* at, uint32_t range) const {
    const std::string members = arguments_.MembersOf(range, SourceArguments::kMostBytes - 1);
    return members.empty() ? at : PutText(PutText(at, ","), members);
  }

  void PassRange(uint32_t thread) {
    const std::span<const uint32_t> with_id = plan_.links().ranges_with_id();
    if (next_id_ < with_id.size() && with_id[next_id_] == next_range_) ++next_id_;
    ++range_counts_[thread];
    ++next_range_;
  }

  enum SliceKind : size_t { kUserSlice, kOperatorSlice, kPythonSlice, kSliceKinds };
  static SliceKind SliceKindOf(uint8_t category, const PlannedOperator* op) {
    if (category == kPythonCategory) return kPythonSlice;
    return IsOperator(category, op) ? kOperatorSlice : kUserSlice;
  }

  // All of a range's event before its thread; made at the first use.
  std::string_view RangePrefix(SliceKind kind, uint32_t name) {
    constexpr std::string_view kCategories[kSliceKinds] = {"user_annotation", "cpu_op",
                                                           "python_function"};
    std::string& prefix = range_prefixes_[kind][name];
    if (prefix.empty()) {
      StrAppend(&prefix, ",\n{\"ph\":\"X\",\"cat\":\"", kCategories[kind], "\",\"name\":");
      AppendJsonString(TraceName(reader_.names()[name]), prefix);
      StrAppend(&prefix, ",\"pid\":", layout_.pid, ",\"tid\":");
    }
    return prefix;
  }

  // `,{...,"ts":T` of an event that is not a range.
  char* PutStart(char* at, std::string_view before_name, std::string_view name, uint32_t thread,
                 int64_t time_ns) {
    at = PutText(at, before_name);
    at = PutText(at, Escaped(name));
    at = PutText(at, R"(","pid":)");
    at = PutInteger(at, layout_.pid);
    at = PutText(at, R"(,"tid":)");
    at = PutText(at, thread_texts_[thread]);
    return micros_.Put(at, Timestamp(time_ns));
  }

  std::string_view Escaped(std::string_view trace_name) {
    escaped_.clear();
    AppendJsonEscaped(trace_name, escaped_);
    return escaped_;
  }

  absl::Status WriteInstants() {
    return reader_.ForEach<InstantRow>([&](const InstantBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        WriteInstant(TraceName(reader_.names()[batch.name[i]]), batch.thread, batch.time_ns[i]);
      }
      return out_.status();
    });
  }

  void WriteInstant(std::string_view trace_name, uint32_t thread, int64_t time_ns) {
    char* at = out_.Reserve(kMostEventBytes);
    at = PutStart(at, ",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"",
                  trace_name, thread, time_ns);
    *at++ = '}';
    out_.Commit(at);
  }

  absl::Status WriteMemory() {
    return reader_.ForEach<MemoryRow>([&](const MemoryBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) WriteMemoryRow(batch, i);
      return out_.status();
    });
  }

  void WriteMemoryRow(const MemoryBatch& batch, size_t i) {
    // Loaders add up what is called [memory], and would count what the allocator took from CUDA
    // twice.
    const bool is_allocators =
        batch.device_type[i] <= static_cast<uint8_t>(wire::DeviceType::kCuda) ||
        !report::AcceleratorName(batch.device_type[i]).empty();
    char* at = out_.Reserve(kMostEventBytes);
    at = PutStart(at, ",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"",
                  is_allocators ? "[memory]" : "[cuda memory]", batch.thread, batch.time_ns[i]);
    const SourceArguments::Row source =
        source_.Of(kArgumentOfMemory, batch.thread, memory_counts_[batch.thread]++);
    at = PutText(at, R"(,"args":{)");
    if (batch.total_reserved_bytes[i] >= 0) {
      at = PutText(at, R"("Total Reserved":)");
      at = PutInteger(at, batch.total_reserved_bytes[i]);
      *at++ = ',';
    }
    if (batch.total_allocated_bytes[i] >= 0) {
      at = PutText(at, R"("Total Allocated":)");
      at = PutInteger(at, batch.total_allocated_bytes[i]);
      *at++ = ',';
    }
    at = PutText(at, R"("Bytes":)");
    if (batch.is_free[i] != 0 && batch.bytes[i] > 0) *at++ = '-';
    at = PutInteger(at, batch.bytes[i]);
    const auto put = [&](RowArgument argument, std::string_view key, auto value) {
      if (!source_.Has(source, argument)) at = PutInteger(PutText(at, key), value);
    };
    put(RowArgument::kAddress, R"(,"Addr":)", batch.address[i]);
    put(RowArgument::kDeviceId, R"(,"Device Id":)", batch.device_index[i]);
    put(RowArgument::kDeviceType, R"(,"Device Type":)", int{batch.device_type[i]});
    at = source_.PutRest(source_.Put(at, source, kFirstArguments), source);
    if (source_.empty() && !operators_.empty()) {
      // Of the events that operators count among, too.
      at = PutText(at, R"(,"Ev Idx":)");
      at = PutInteger(at, EventOf(plan_.links().RangeId(next_range_)) + next_memory_++);
    }
    at = PutText(at, "}}");
    out_.Commit(at);
  }

  absl::Status WriteCounters() {
    return reader_.ForEach<CounterRow>([&](const CounterBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const std::string name = TraceName(reader_.names()[batch.name[i]]);
        if (std::isfinite(batch.value[i])) {
          WriteCounter(name, batch.thread, batch.time_ns[i], batch.value[i]);
        } else {
          // JSON has no such numbers, and a loss that became NaN is not to be missed.
          WriteInstant(NonFiniteLabel(name, batch.value[i]), batch.thread, batch.time_ns[i]);
        }
      }
      return out_.status();
    });
  }

  void WriteCounter(std::string_view name, uint32_t thread, int64_t time_ns, double value) {
    char* at = out_.Reserve(kMostEventBytes);
    at = PutStart(at, ",\n{\"ph\":\"C\",\"name\":\"", name, thread, time_ns);
    at = PutText(at, R"(,"args":{"value":)");
    at = PutInteger(at, value);
    at = PutText(at, "}}");
    out_.Commit(at);
  }

  absl::Status WriteMemoryCurves() {
    ASSIGN_OR_RETURN(
        const report::MemoryTimeline timeline,
        report::SummarizeMemory(reader_, {.max_points = kMemoryCurvePoints, .peak_by_op = false}));
    for (const report::DeviceMemory& device : timeline.devices) {
      const std::string before = StrCat(",\n{\"ph\":\"C\",\"name\":\"", MemoryCurveName(device),
                                        "\",\"pid\":", layout_.pid, ",\"tid\":0,\"ts\":");
      for (const report::MemoryPoint& point : device.points) {
        char* at = out_.Reserve(kMostEventBytes);
        at = PutText(at, before);
        at = PutMicros(at, Timestamp(point.time_ns));
        at = PutText(at, R"(,"args":{"bytes":)");
        at = PutInteger(at, point.allocated_bytes);
        at = PutText(at, "}}");
        out_.Commit(at);
      }
    }
    return out_.status();
  }

  void WriteEnd() {
    other_events_.Write(clock_, out_);
    if (!other_events_.has_end()) WriteEndMark();
    flows_.WriteLoose(clock_);
    if (layout_.place.is_merged) return;
    const std::string name = ChromeTraceName(reader_.record());
    out_.Append(name.empty() ? "\n]\n}\n" : StrCat("\n],\n\"traceName\": ", name, "\n}\n"));
  }

  // As Kineto, whose loaders take it for the end of the recording.
  void WriteEndMark() {
    char* at = out_.Reserve(kMostEventBytes);
    at = PutText(at, ",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":");
    at = PutInteger(at, layout_.pid);
    at = PutText(at, R"(,"tid":0,"ts":)");
    at = PutMicros(at, Timestamp(EndOfRecording(reader_)));
    *at++ = '}';
    out_.Commit(at);
  }

  store::CaptureReader& reader_;
  OutputBuffer& out_;
  TraceLayout layout_;
  const GpuPlan plan_;
  const OperatorPlan operators_;
  SourceArguments source_;
  ShownArguments arguments_;
  const std::string_view step_prefix_;
  ChromeFlows flows_;
  ChromeLabels labels_;
  const OtherEvents other_events_;
  std::vector<bool> has_source_tid_;     // By thread.
  std::vector<uint32_t> range_counts_;   // By thread: those written.
  std::vector<uint32_t> memory_counts_;  // Likewise.
  TraceClock clock_;
  uint32_t next_range_ = 0;  // Ranges written so far.
  int64_t next_memory_ = 0;  // Events of memory likewise.
  size_t next_id_ = 0;       // Of the plan's ranges with an id.
  bool steps_on_thread_ = false;
  bool has_source_functions_ = false;
  MicrosWriter micros_;
  std::vector<std::string> range_prefixes_[kSliceKinds];  // By name.
  std::vector<std::string> thread_texts_;                 // `17,"ts":`
  std::string escaped_;
};

}  // namespace

int64_t ChromeBase(int64_t start_unix_ns, int64_t earliest_ns) {
  // Kineto counts from the start of slots this long (about three months), so that times stay
  // small enough for a double to keep their nanoseconds, and ranks agree on the zero.
  constexpr int64_t kSlotNs = int64_t{7'889'238} * 1'000'000'000;
  int64_t first_unix_ns = 0;
  if (__builtin_add_overflow(start_unix_ns, earliest_ns, &first_unix_ns)) return 0;
  // Traces without a date may begin before 1970.
  const int64_t slot = first_unix_ns / kSlotNs - (first_unix_ns % kSlotNs < 0 ? 1 : 0);
  int64_t base_unix_ns = 0;
  return __builtin_mul_overflow(slot, kSlotNs, &base_unix_ns) ? 0 : base_unix_ns;
}

absl::Status WriteChromeTrace(store::CaptureReader& reader, const TracePlace& place,
                              OutputBuffer& out) {
  TraceLayout layout = MakeLayout(reader, place);
  // HTA takes every ProfilerStep#k for a step of the host: those of streams would be steps again.
  ASSIGN_OR_RETURN(GpuPlan plan,
                   GpuPlan::Make(reader, layout, GpuPlan::Annotations::kWithoutSteps));
  ASSIGN_OR_RETURN(OperatorPlan operators, OperatorPlan::Make(reader));
  ASSIGN_OR_RETURN(SourceArguments source, SourceArguments::Read(reader));
  ASSIGN_OR_RETURN(report::RangeArguments arguments, report::RangeArguments::Read(reader));
  ASSIGN_OR_RETURN(const std::string_view step_prefix, StepPrefix(reader));
  // The clocks of merged captures are put on one time from what their records say.
  if (!place.is_merged) {
    layout.place.start_unix_ns = source.StartUnixNs().value_or(place.start_unix_ns);
  }
  return ChromeWriter(reader, std::move(plan), std::move(operators), std::move(source),
                      ShownArguments(std::move(arguments)), std::move(layout), step_prefix, out)
      .Write();
}

}  // namespace profd::exporter
