#include "daemon/report/ops/torch_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "daemon/base/status_macros.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/index/end_of.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/gpu_names.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/index/operator_index.h"
#include "daemon/report/index/step_names.h"
#include "daemon/report/ops/input_shapes.h"
#include "daemon/report/ops/torch_memory.h"
#include "daemon/report/ops/torch_rows.h"
#include "daemon/report/ops/torch_tree.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

using GpuCall = GpuAttribution::Call;
using Kind = TorchRows::Kind;

constexpr uint32_t kNoPosition = std::numeric_limits<uint32_t>::max();

// Rows that torch leaves out wherever they come from.
bool IsLeftOut(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {"[memory]",
                                                      "[OutOfMemory]",
                                                      "profiler::_record_function_enter",
                                                      "profiler::_record_function_enter_new",
                                                      "profiler::_record_function_exit",
                                                      "aten::is_leaf",
                                                      "aten::output_nr",
                                                      "aten::_version"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Where torch's clock begins: in imports of its traces, when its profiler started. Others were not
// measured by torch, so that any time near by serves.
int64_t ProfilerStartOf(const CaptureRecord& record) {
  const absl::Duration since = record.armed_time - absl::FromUnixNanos(record.start_unix_ns);
  return absl::AbsDuration(since) <= absl::Hours(24) ? absl::ToInt64Nanoseconds(since) : 0;
}

class TorchTableBuilder {
 public:
  TorchTableBuilder(store::CaptureReader& reader, const TorchTableOptions& options)
      : reader_(reader),
        options_(options),
        clock_(ProfilerStartOf(reader.record())),
        rows_(clock_),
        threads_(reader.threads().size()) {}

  absl::StatusOr<TorchTable> Build() {
    ReadNames();
    ReadShapes();
    FindPythonThreads();
    RETURN_IF_ERROR(ReadRanges());
    AddSteps();
    ASSIGN_OR_RETURN(gpu_, GpuAttribution::Build(reader_));
    LinkCalls();
    RETURN_IF_ERROR(ReadGpu());
    AddGpuAnnotations();
    RETURN_IF_ERROR(ReadSyncs());
    RETURN_IF_ERROR(ReadOverheads());
    RETURN_IF_ERROR(memory_.Read(reader_));
    MeasureThreads();
    AddLooseMemory();
    RETURN_IF_ERROR(ReadFailedAllocations());
    return Finish();
  }

 private:
  // What a call was made in.
  struct Link {
    uint32_t op = kNoPosition;          // Position in its thread's events.
    uint32_t annotation = kNoPosition;  // Likewise.
  };
  struct AnnotationKey {
    uint32_t thread;
    uint32_t annotation;
    uint16_t device;
    uint32_t stream;

    template <typename H>
    friend H AbslHashValue(H h, const AnnotationKey& key) {
      return H::combine(std::move(h), key.thread, key.annotation, key.device, key.stream);
    }
    friend bool operator==(const AnnotationKey&, const AnnotationKey&) = default;
  };
  struct Span {
    int64_t start_ns;
    int64_t end_ns;
  };

  void ReadNames() {
    for (const std::string& name : reader_.names()) {
      const bool is_step = IsProfilerStep(name);
      is_step_.push_back(is_step);
      names_.push_back(IsLeftOut(name) ? kNoPosition : rows_.NameOf(is_step ? kStepRow : name));
    }
  }

  // Captures keep the frames of Python of a thread in a row of their own, named after it: its name
  // begins with the thread's. In the order of names, those that a name begins with are open.
  void FindPythonThreads() {
    const std::span<const store::ReaderThread> threads = reader_.threads();
    python_threads_.resize(threads.size());
    std::iota(python_threads_.begin(), python_threads_.end(), 0U);
    std::vector<uint32_t> order = python_threads_;
    std::ranges::sort(order, {}, [&](uint32_t row) {
      return std::tuple(threads[row].os_thread, std::string_view(threads[row].name), row);
    });
    struct Open {
      uint32_t row;    // The first of its name.
      uint32_t owner;  // The first of those that its name begins with, or `row`.
    };
    std::vector<Open> open;
    for (const uint32_t row : order) {
      const auto is_begun_by = [&](const Open& outer) {
        return threads[outer.row].os_thread == threads[row].os_thread &&
               threads[row].name.starts_with(threads[outer.row].name);
      };
      while (!open.empty() && !is_begun_by(open.back())) open.pop_back();
      const bool is_same_name = !open.empty() && threads[open.back().row].name == threads[row].name;
      if (is_same_name) {
        const bool has_owner = open.back().owner != open.back().row;
        python_threads_[row] = has_owner ? open.back().owner : row;
        continue;
      }
      const uint32_t owner = open.empty() ? row : std::min(open.back().owner, open.back().row);
      python_threads_[row] = owner;
      open.push_back({row, owner});
    }
  }

  // Texts by number; 0: of what has no inputs.
  void ReadShapes() {
    if (!options_.by_inputs) return;
    shapes_texts_ = {"[]"};
    absl::flat_hash_map<std::string, uint32_t> numbers = {{"[]", 0}};
    for (const OperatorInputs& inputs : reader_.inputs()) {
      const auto shapes = ParseInputShapes(inputs.dims);
      std::string text = shapes.has_value() ? InputShapesText(*shapes) : "[]";
      const auto [at, inserted] =
          numbers.try_emplace(text, static_cast<uint32_t>(shapes_texts_.size()));
      if (inserted) shapes_texts_.push_back(std::move(text));
      shapes_of_.push_back(at->second);
    }
  }

  absl::Status ReadRanges() {
    ASSIGN_OR_RETURN(OperatorIndex operators, OperatorIndex::Build(reader_));
    constexpr uint32_t kColumns =
        kRangeStart | kRangeDuration | kRangeName | kRangeDepth | kRangeCategory;
    return reader_.ForEach<RangeRow>(kColumns, {}, [&](const RangeBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const OperatorIndex::Entry* const op =
            operators.Find(batch.thread, batch.start_ns[i], batch.depth[i]);
        AddRange(batch, i, op);
      }
      return absl::OkStatus();
    });
  }

  void AddRange(const RangeBatch& batch, size_t i, const OperatorIndex::Entry* op) {
    const uint32_t name = names_[batch.name[i]];
    if (name == kNoPosition) return;
    // A name alone may be that of a range on a stream.
    has_step_ranges_ |= is_step_[batch.name[i]];
    const bool is_python = batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kPython);
    const bool is_operator =
        batch.category[i] == static_cast<uint8_t>(wire::RangeCategory::kOperator) &&
        (op == nullptr || op->scope != static_cast<uint8_t>(wire::OperatorScope::kUserScope));
    const uint32_t shapes = options_.by_inputs && op != nullptr ? shapes_of_[op->inputs] : 0;
    const uint32_t thread = is_python ? python_threads_[batch.thread] : batch.thread;
    threads_[thread].push_back({.start_ns = batch.start_ns[i],
                                .end_ns = EndOf(batch.start_ns[i], batch.duration_ns[i]),
                                .row = is_python && !options_.version.has_python()
                                           ? TorchRows::kNoRow
                                           : rows_.RowOf(name, Kind::kCpu, shapes),
                                .name = name,
                                .depth = batch.depth[i],
                                .is_operator = is_operator,
                                .is_annotation = !is_operator && !is_python});
  }

  // What torch's own profiler opens a range for, captures keep as steps.
  void AddSteps() {
    const int64_t thread = reader_.step_thread();
    if (has_step_ranges_ || thread < 0 || static_cast<size_t>(thread) >= threads_.size()) return;
    const uint32_t name = rows_.NameOf(kStepRow);
    for (const StepRecord& step : reader_.steps()) {
      threads_[static_cast<size_t>(thread)].push_back(
          {.start_ns = step.start_ns,
           .end_ns = EndOf(step.start_ns, step.duration_ns),
           .row = rows_.RowOf(name, Kind::kCpu),
           .name = name,
           .is_annotation = true});
    }
  }

  // Finds the innermost operator and annotation around each call; a call outside of all operators
  // is on no thread.
  void LinkCalls() {
    links_.resize(gpu_->calls().size());
    for (uint32_t thread = 0; thread < threads_.size(); ++thread) {
      SortForTorch(threads_[thread]);
      LinkCallsOf(thread);
    }
  }

  void LinkCallsOf(uint32_t thread) {
    const std::vector<TorchEvent>& events = threads_[thread];
    std::vector<uint32_t> ops;
    std::vector<uint32_t> annotations;
    const auto innermost = [&](std::vector<uint32_t>& open, int64_t time_ns) {
      while (!open.empty() && events[open.back()].end_ns <= time_ns) open.pop_back();
      return open.empty() ? kNoPosition : open.back();
    };
    size_t next = 0;
    for (const GpuCall& call : gpu_->CallsOf(thread)) {
      for (; next < events.size() && events[next].start_ns <= call.start_ns; ++next) {
        if (!events[next].is_operator && !events[next].is_annotation) continue;
        std::vector<uint32_t>& open = events[next].is_annotation ? annotations : ops;
        innermost(open, events[next].start_ns);
        open.push_back(static_cast<uint32_t>(next));
      }
      links_[PositionOf(call)] = {innermost(ops, call.start_ns),
                                  innermost(annotations, call.start_ns)};
    }
  }

  size_t PositionOf(const GpuCall& call) const {
    return static_cast<size_t>(&call - gpu_->calls().data());
  }

  absl::Status ReadGpu() {
    return reader_.ForEach<GpuRow>(kGpuTime | kGpuWhat | kGpuWhere | kGpuCause | kGpuCopy, {},
                                   [&](const GpuBatch& batch) {
                                     for (size_t i = 0; i < batch.size; ++i) AddWork(batch, i);
                                     return absl::OkStatus();
                                   });
  }

  void AddWork(const GpuBatch& batch, size_t i) {
    const int64_t start_ns = batch.start_ns[i];
    const int64_t end_ns = start_ns + batch.duration_ns[i];
    const GpuCall* const call = gpu_->Find(batch.correlation[i]);
    // torch.profiler has no work that was launched before it started.
    if (call != nullptr && gpu_->IsBeforeWindow(*call)) return;
    const uint32_t row = RowOfWork(batch, i);
    rows_.AddDevice(row, start_ns, end_ns);
    device_total_ns_ += static_cast<uint64_t>(batch.duration_ns[i]);
    if (call == nullptr) return;
    const Link& link = links_[PositionOf(*call)];
    if (link.op != kNoPosition) {
      TorchEvent& op = threads_[call->thread][link.op];
      op.self_device_ns = static_cast<int64_t>(static_cast<uint64_t>(op.self_device_ns) +
                                               static_cast<uint64_t>(batch.duration_ns[i]));
      op.self_device_us += clock_.DurationUs(start_ns, end_ns);
    }
    if (link.annotation == kNoPosition || !options_.version.has_gpu_annotations()) return;
    const AnnotationKey key = {call->thread, link.annotation, batch.device[i], batch.stream[i]};
    const auto [at, inserted] = gpu_annotations_.try_emplace(key, Span{start_ns, end_ns});
    at->second = {std::min(at->second.start_ns, start_ns), std::max(at->second.end_ns, end_ns)};
  }

  uint32_t RowOfWork(const GpuBatch& batch, size_t i) {
    const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
    const bool is_kernel = kind == GpuRowKind::kKernel;
    const std::tuple what = {kind, is_kernel ? batch.name[i] : 0,
                             is_kernel ? uint8_t{0} : batch.copy_kind[i],
                             is_kernel ? uint8_t{0} : batch.source_kind[i],
                             is_kernel ? uint8_t{0} : batch.destination_kind[i]};
    const auto [at, inserted] = work_rows_.try_emplace(what, 0);
    if (inserted) at->second = rows_.RowOf(rows_.NameOf(NameOfWork(batch, i)), Kind::kDevice);
    return at->second;
  }

  std::string NameOfWork(const GpuBatch& batch, size_t i) {
    const auto kind = static_cast<GpuRowKind>(batch.kind[i]);
    return kind == GpuRowKind::kKernel ? demangler_.Demangle(reader_.names()[batch.name[i]])
                                       : WorkName(kind, batch.copy_kind[i], batch.source_kind[i],
                                                  batch.destination_kind[i]);
  }

  void AddGpuAnnotations() {
    for (const auto& [key, span] : gpu_annotations_) {
      const TorchEvent& annotation = threads_[key.thread][key.annotation];
      rows_.AddDevice(rows_.RowOf(annotation.name, Kind::kDeviceAnnotation), span.start_ns,
                      span.end_ns);
      if (options_.version.totals_work_only()) continue;
      device_total_ns_ += static_cast<uint64_t>(span.end_ns) - static_cast<uint64_t>(span.start_ns);
    }
  }

  // torch records them only if asked, and then its trace has them: our own captures always do.
  absl::Status ReadSyncs() {
    if (reader_.record().imported.source.empty() || !options_.version.has_syncs()) {
      return absl::OkStatus();
    }
    return reader_.ForEach<profd::SyncRow>([&](const SyncBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        rows_.AddDevice(rows_.RowOf(rows_.NameOf(SyncName(batch.kind[i])), Kind::kDevice),
                        batch.start_ns[i], batch.start_ns[i] + batch.duration_ns[i]);
        device_total_ns_ += static_cast<uint64_t>(batch.duration_ns[i]);
      }
      return absl::OkStatus();
    });
  }

  absl::Status ReadOverheads() {
    return reader_.ForEach<OverheadRow>([&](const OverheadBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        const uint32_t name = rows_.NameOf(OverheadName(batch.kind[i]));
        loose_.push_back({.start_ns = batch.start_ns[i],
                          .end_ns = batch.start_ns[i] + batch.duration_ns[i],
                          .row = rows_.RowOf(name, Kind::kCpu),
                          .name = name,
                          .depth = TorchEvent::kInnermost});
      }
      return absl::OkStatus();
    });
  }

  void MeasureThreads() {
    for (uint32_t thread = 0; thread < threads_.size(); ++thread) {
      std::vector<TorchEvent>& events = threads_[thread];
      for (const GpuCall& call : gpu_->CallsOf(thread)) {
        const uint32_t name = names_[call.name];
        if (name == kNoPosition || gpu_->IsBeforeWindow(call)) continue;
        const TorchEvent event = {.start_ns = call.start_ns,
                                  .end_ns = call.end_ns,
                                  .row = rows_.RowOf(name, Kind::kCpu),
                                  .name = name,
                                  .depth = TorchEvent::kInnermost};
        (links_[PositionOf(call)].op == kNoPosition ? loose_ : events).push_back(event);
      }
      Measure(events);
      events = {};
    }
    Measure(loose_);
  }

  // By which allocations are looked up.
  int64_t MemoryTime(int64_t time_ns) const {
    if (!options_.version.has_coarse_memory()) return time_ns;
    return CoarseTime(time_ns, reader_.record().start_unix_ns);
  }

  void Measure(std::vector<TorchEvent>& events) {
    SortForTorch(events);
    const auto memory_of = [&](const TorchEvent& event) {
      return memory_.In(MemoryTime(event.start_ns), MemoryTime(event.end_ns));
    };
    const absl::FunctionRef<TorchMemory(const TorchEvent&)> memory_of_ref = memory_of;
    MeasureAsTorch(events, clock_, memory_.empty() ? nullptr : &memory_of_ref,
                   [&](const TorchEvent& event, const TorchMeasures& measures) {
                     rows_.Add(event.row, event.start_ns, event.end_ns, measures);
                     if (memory_.empty() || measures.has_parent) return;
                     memory_.Cover(MemoryTime(event.start_ns), MemoryTime(event.end_ns));
                   });
  }

  void AddLooseMemory() {
    const uint32_t name = rows_.NameOf("[memory]");
    memory_.ForEachUncovered([&](int64_t time_ns, const TorchMemory& memory) {
      rows_.Add(rows_.RowOf(name, Kind::kCpu), time_ns, time_ns,
                {.total_memory = memory, .self_memory = memory});
    });
  }

  absl::Status ReadFailedAllocations() {
    const uint32_t name = rows_.NameOf("[OutOfMemory]");
    return reader_.ForEach<NoteRow>([&](const NoteBatch& batch) {
      for (size_t i = 0; i < batch.size; ++i) {
        if (batch.kind[i] != static_cast<uint16_t>(wire::NoteKind::kOutOfMemory)) continue;
        const std::string& device = reader_.names()[batch.subject[i]];
        TorchMemory memory;
        (device.starts_with("cpu") ? memory.cpu_bytes : memory.device_bytes) = batch.value[i];
        rows_.Add(rows_.RowOf(name, Kind::kCpu), batch.time_ns[i], batch.time_ns[i],
                  {.total_memory = memory, .self_memory = memory});
      }
      return absl::OkStatus();
    });
  }

  TorchTable Finish() {
    TorchTable table;
    table.rows = rows_.Take(shapes_texts_);
    table.version = options_.version;
    table.has_memory = !memory_.empty();
    uint64_t self_cpu_ns = 0;
    for (const TorchRow& row : table.rows) self_cpu_ns += static_cast<uint64_t>(row.self_cpu_ns);
    table.self_cpu_total_ns = static_cast<int64_t>(self_cpu_ns);
    table.self_device_total_ns = static_cast<int64_t>(device_total_ns_);
    return table;
  }

  store::CaptureReader& reader_;
  const TorchTableOptions options_;
  const TorchClock clock_;
  TorchRows rows_;
  std::vector<uint32_t> names_;  // By name of the reader: of rows_; kNoPosition: left out.
  std::vector<std::string> shapes_texts_;  // By number.
  std::vector<uint32_t> shapes_of_;        // By inputs of the reader: such a number.
  std::vector<bool> is_step_;              // By name.
  bool has_step_ranges_ = false;
  std::vector<uint32_t> python_threads_;  // By thread: whose frames of Python its row has.
  std::vector<std::vector<TorchEvent>> threads_;
  std::vector<TorchEvent> loose_;  // On no thread.
  std::optional<GpuAttribution> gpu_;
  std::vector<Link> links_;  // Of gpu_->calls().
  absl::flat_hash_map<AnnotationKey, Span> gpu_annotations_;
  absl::flat_hash_map<std::tuple<GpuRowKind, uint32_t, uint8_t, uint8_t, uint8_t>, uint32_t>
      work_rows_;
  Demangler demangler_;
  uint64_t device_total_ns_ = 0;
  TorchMemoryRecords memory_;
};

}  // namespace

std::optional<TorchVersion> TorchVersionFromString(std::string_view text) {
  TorchVersion version;
  const char* const end = text.data() + text.size();
  const auto [dot, major_error] = std::from_chars(text.data(), end, version.major);
  if (major_error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [rest, minor_error] = std::from_chars(dot + 1, end, version.minor);
  if (minor_error != std::errc() || version.minor < 0) return std::nullopt;
  if (rest != end && *rest != '.' && *rest != '+' && *rest != 'a' && *rest != 'r') {
    return std::nullopt;
  }
  if (!version.IsAtLeast(1, 13)) return std::nullopt;
  return version;
}

absl::StatusOr<TorchTable> SummarizeAsTorch(store::CaptureReader& recorded,
                                            const TorchTableOptions& options) {
  BelievedReader reader(recorded);
  return TorchTableBuilder(reader, options).Build();
}

}  // namespace profd::report
