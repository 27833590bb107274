#include "tests/fakes/fake_capture_reader.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "daemon/base/status_macros.h"
#include "daemon/store/file/event_columns.h"

namespace profd {
namespace {

// Also of times that no clock gives, of which tests make use.
int64_t DurationOf(int64_t start_ns, int64_t end_ns) {
  return static_cast<int64_t>(static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(start_ns));
}

// The overlap of a batch with [begin, end), for a batch from `first_ns` to `last_ns`.
bool Overlaps(const store::TimeFilter& filter, int64_t first_ns, int64_t last_ns) {
  return last_ns >= filter.begin_ns && first_ns < filter.end_ns;
}

// When a row begins or is, and ends; nullopt for kinds without a time. Also of rows of a hostile
// file, whose durations may be any number.
template <typename Row>
std::optional<std::pair<int64_t, int64_t>> TimesOf(const Row& row) {
  if constexpr (requires { row.duration_ns; }) {
    return std::pair(row.start_ns, static_cast<int64_t>(static_cast<uint64_t>(row.start_ns) +
                                                        static_cast<uint64_t>(row.duration_ns)));
  } else if constexpr (requires { row.start_ns; }) {
    return std::pair(row.start_ns, row.start_ns);
  } else if constexpr (requires { row.time_ns; }) {
    return std::pair(row.time_ns, row.time_ns);
  }
  return std::nullopt;
}

template <typename Row>
bool IsWanted(std::span<const Row> rows, const store::TimeFilter& filter) {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = std::numeric_limits<int64_t>::min();
  for (const Row& row : rows) {
    const auto times = TimesOf(row);
    if (!times.has_value()) return true;
    first_ns = std::min(first_ns, times->first);
    last_ns = std::max(last_ns, times->second);
  }
  return Overlaps(filter, first_ns, last_ns);
}

}  // namespace

FakeCaptureReader::FakeCaptureReader() : names_(1) {
  record_.id = "01JCAPTURE0000000000000000";
  record_.node = "node-1";
  record_.state = CaptureState::kComplete;
  record_.ended_by = EndedBy::kSteps;
  record_.start_unix_ns = 1'800'000'000'000'000'000;
  record_.target.pid = 4242;
  record_.target.namespace_pid = 4242;
  record_.target.command = "python train.py";
}

uint32_t FakeCaptureReader::AddThread(int64_t os_thread, std::string_view name) {
  threads_.push_back({os_thread, std::string(name)});
  ranges_.emplace_back();
  loose_operators_.emplace_back();
  return static_cast<uint32_t>(threads_.size()) - 1;
}

uint32_t FakeCaptureReader::Name(std::string_view text) {
  const auto [at, inserted] =
      name_ids_.try_emplace(std::string(text), static_cast<uint32_t>(names_.size()));
  if (inserted) names_.emplace_back(text);
  return at->second;
}

uint32_t FakeCaptureReader::SecondName(std::string_view text) {
  names_.emplace_back(text);
  return static_cast<uint32_t>(names_.size()) - 1;
}

FakeCaptureReader& FakeCaptureReader::Range(uint32_t thread, std::string_view name,
                                            int64_t start_ns, int64_t end_ns,
                                            const FakeRange& range) {
  return RangeById(thread, Name(name), start_ns, end_ns, range);
}

FakeCaptureReader& FakeCaptureReader::RangeById(uint32_t thread, uint32_t name, int64_t start_ns,
                                                int64_t end_ns, const FakeRange& range) {
  std::vector<PendingRange>& ranges = ranges_.at(thread);
  ranges.push_back({start_ns, end_ns, name, range, 0, ranges.size(), std::nullopt});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Instant(uint32_t thread, std::string_view name,
                                              int64_t time_ns) {
  Put(thread, InstantRow{time_ns, Name(name)});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Counter(uint32_t thread, std::string_view name,
                                              int64_t time_ns, double value) {
  Put(thread, CounterRow{.time_ns = time_ns, .value = value, .name = Name(name)});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Allocate(uint32_t thread, int64_t time_ns, uint64_t address,
                                               int64_t bytes, FakeMemory memory) {
  memory.is_free = false;
  Put(thread, MemoryRow{.time_ns = time_ns,
                        .address = address,
                        .bytes = bytes,
                        .total_allocated_bytes = memory.total_allocated_bytes,
                        .total_reserved_bytes = memory.total_reserved_bytes,
                        .device_type = memory.device_type,
                        .device_index = memory.device_index,
                        .category = memory.category,
                        .is_free = memory.is_free});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Free(uint32_t thread, int64_t time_ns, uint64_t address,
                                           int64_t bytes, FakeMemory memory) {
  memory.is_free = true;
  Put(thread, MemoryRow{.time_ns = time_ns,
                        .address = address,
                        .bytes = bytes,
                        .total_allocated_bytes = memory.total_allocated_bytes,
                        .total_reserved_bytes = memory.total_reserved_bytes,
                        .device_type = memory.device_type,
                        .device_index = memory.device_index,
                        .category = memory.category,
                        .is_free = memory.is_free});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::ApiCall(uint32_t thread, std::string_view name,
                                              int64_t start_ns, int64_t end_ns,
                                              uint32_t correlation, const FakeApiCall& call) {
  Put(thread, ApiRow{.start_ns = start_ns,
                     .duration_ns = DurationOf(start_ns, end_ns),
                     .name = Name(name),
                     .correlation = correlation,
                     .cbid = call.cbid,
                     .result = call.result,
                     .is_driver = call.is_driver});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Kernel(std::string_view name, int64_t start_ns,
                                             int64_t end_ns, uint32_t correlation,
                                             const FakeGpu& gpu) {
  return AddGpu(GpuRowKind::kKernel, Name(name), start_ns, end_ns, correlation, gpu);
}

FakeCaptureReader& FakeCaptureReader::Copy(int64_t start_ns, int64_t end_ns, uint32_t correlation,
                                           const FakeGpu& gpu) {
  return AddGpu(GpuRowKind::kMemcpy, 0, start_ns, end_ns, correlation, gpu);
}

FakeCaptureReader& FakeCaptureReader::Memset(int64_t start_ns, int64_t end_ns, uint32_t correlation,
                                             const FakeGpu& gpu) {
  return AddGpu(GpuRowKind::kMemset, 0, start_ns, end_ns, correlation, gpu);
}

FakeCaptureReader& FakeCaptureReader::GraphLaunch(int64_t start_ns, int64_t end_ns,
                                                  uint32_t correlation, const FakeGpu& gpu) {
  return AddGpu(GpuRowKind::kGraphLaunch, 0, start_ns, end_ns, correlation, gpu);
}

FakeCaptureReader& FakeCaptureReader::AddGpu(GpuRowKind kind, uint32_t name, int64_t start_ns,
                                             int64_t end_ns, uint32_t correlation,
                                             const FakeGpu& gpu) {
  Put(0, GpuRow{.start_ns = start_ns,
                .duration_ns = DurationOf(start_ns, end_ns),
                .kind = kind,
                .flags = gpu.flags,
                .device = gpu.device,
                .context = gpu.context,
                .stream = gpu.stream,
                .correlation = correlation,
                .name = name,
                .graph_id = gpu.graph_id,
                .graph_node_id = gpu.graph_node_id,
                .bytes = gpu.bytes,
                .copy_kind = gpu.copy_kind,
                .source_kind = gpu.source_kind,
                .destination_kind = gpu.destination_kind,
                .source_device = gpu.source_device,
                .destination_device = gpu.destination_device,
                .queued_ns = gpu.queued_ns,
                .submitted_ns = gpu.submitted_ns,
                .grid = gpu.grid,
                .block = gpu.block,
                .cluster = gpu.cluster,
                .registers_per_thread = gpu.registers_per_thread,
                .static_shared_bytes = gpu.static_shared_bytes,
                .dynamic_shared_bytes = gpu.dynamic_shared_bytes,
                .local_bytes_per_thread = gpu.local_bytes_per_thread});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Sync(uint32_t kind, int64_t start_ns, int64_t end_ns,
                                           uint32_t correlation, const FakeSync& sync) {
  Put(0, SyncRow{.start_ns = start_ns,
                 .duration_ns = DurationOf(start_ns, end_ns),
                 .kind = kind,
                 .device = sync.device,
                 .context = sync.context,
                 .stream = sync.stream,
                 .correlation = correlation,
                 .event_id = sync.event_id});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Overhead(uint32_t kind, int64_t start_ns, int64_t end_ns,
                                               uint32_t os_thread, uint32_t correlation) {
  Put(0, OverheadRow{start_ns, DurationOf(start_ns, end_ns), kind, os_thread, correlation});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::CudaEvent(uint32_t event_id, uint32_t correlation,
                                                uint32_t context, uint32_t stream) {
  Put(0, CudaEventRow{correlation, context, stream, event_id});
  return *this;
}

uint32_t FakeCaptureReader::Inputs(std::string_view dims, std::string_view types,
                                   std::string_view strides) {
  inputs_.push_back({std::string(dims), std::string(types), std::string(strides)});
  return static_cast<uint32_t>(inputs_.size()) - 1;
}

uint32_t FakeCaptureReader::Scalars(std::string_view json) {
  scalars_.emplace_back(json);
  return static_cast<uint32_t>(scalars_.size()) - 1;
}

FakeCaptureReader& FakeCaptureReader::Operator(uint32_t thread, std::string_view name,
                                               int64_t start_ns, int64_t end_ns,
                                               const FakeOperator& op) {
  Range(thread, name, start_ns, end_ns, {.category = 1});
  ranges_.at(thread).back().op = op;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::LooseOperator(uint32_t thread, const OperatorRow& row) {
  loose_operators_.at(thread).push_back(row);
  return *this;
}

FakeCaptureReader& FakeCaptureReader::TensorUse(uint32_t thread, int64_t time_ns, uint64_t address,
                                                const FakeTensorUse& use) {
  Put(thread, TensorUseRow{time_ns, address, use.depth, use.scope, use.input});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Note(uint32_t thread, int64_t time_ns, uint16_t kind,
                                           std::string_view subject, std::string_view text,
                                           int64_t value) {
  Put(thread, NoteRow{time_ns, kind, subject.empty() ? 0 : Name(subject),
                      text.empty() ? 0 : Name(text), value});
  return *this;
}

uint32_t FakeCaptureReader::PutStack(const StackRow& row) {
  Put(0, row);
  return static_cast<uint32_t>(RowsOf(RowKind::kStack));
}

uint32_t FakeCaptureReader::Stack(uint32_t caller, std::string_view file, uint32_t line,
                                  std::string_view function) {
  return PutStack({.caller = caller,
                   .file = Name(file),
                   .function = Name(function),
                   .line = line,
                   .first_line = line,
                   .module = 0,
                   .class_name = 0,
                   .is_cut = false});
}

uint32_t FakeCaptureReader::ModuleStack(uint32_t caller, uint64_t module,
                                        std::string_view class_name) {
  return PutStack({.caller = caller,
                   .file = Name("/site-packages/torch/nn/modules/module.py"),
                   .function = Name("Module._call_impl"),
                   .line = 1750,
                   .first_line = 1740,
                   .module = module,
                   .class_name = Name(class_name),
                   .is_cut = false});
}

FakeCaptureReader& FakeCaptureReader::Module(uint64_t address, uint64_t root, std::string_view path,
                                             std::string_view class_name) {
  Put(0, ModuleRow{.address = address,
                   .root = root,
                   .path = path.empty() ? 0 : Name(path),
                   .class_name = Name(class_name)});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Argument(const ArgumentRow& row) {
  Put(0, row);
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Block(uint64_t address, int64_t bytes,
                                            const FakeBlock& block) {
  Put(0, BlockRow{address, bytes, block.name.empty() ? 0 : Name(block.name), block.category,
                  block.device_type, block.device_index});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Step(int64_t index, int64_t start_ns, int64_t duration_ns) {
  steps_.push_back({index, 0, start_ns, duration_ns});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::StepThread(uint32_t thread) {
  step_thread_ = thread;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::BatchRows(size_t rows) {
  batch_rows_ = rows;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::FailAfter(size_t batches, absl::Status status) {
  fail_after_.emplace(batches, std::move(status));
  return *this;
}

void FakeCaptureReader::PutInEndOrder(std::vector<PendingRange>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const PendingRange& a, const PendingRange& b) {
    return std::tuple(a.start_ns, -a.end_ns, a.order) < std::tuple(b.start_ns, -b.end_ns, b.order);
  });
  std::vector<const PendingRange*> open;
  for (PendingRange& row : ranges) {
    while (!open.empty() && open.back()->end_ns <= row.start_ns) open.pop_back();
    row.depth = row.range.depth.value_or(static_cast<uint16_t>(open.size()));
    open.push_back(&row);
  }
  // Of those that end together the inner ones are recorded first.
  std::stable_sort(ranges.begin(), ranges.end(), [](const PendingRange& a, const PendingRange& b) {
    return std::tuple(a.end_ns, -int{a.depth}, a.start_ns) <
           std::tuple(b.end_ns, -int{b.depth}, b.start_ns);
  });
}

void FakeCaptureReader::MakeRanges() {
  Rows<RangeRow>& rows = std::get<Rows<RangeRow>>(rows_);
  Rows<OperatorRow>& operators = std::get<Rows<OperatorRow>>(rows_);
  rows.threads.assign(ranges_.size(), {});
  operators.threads.assign(ranges_.size(), {});
  for (size_t thread = 0; thread < ranges_.size(); ++thread) {
    PutInEndOrder(ranges_[thread]);
    for (const PendingRange& range : ranges_[thread]) {
      rows.threads[thread].push_back(
          {.start_ns = range.start_ns,
           // As a hostile file has it: any number.
           .duration_ns = static_cast<int64_t>(static_cast<uint64_t>(range.end_ns) -
                                               static_cast<uint64_t>(range.start_ns)),
           .name = range.name,
           .depth = range.depth,
           .category = range.range.category,
           .flags = range.range.flags});
      if (!range.op.has_value()) continue;
      operators.threads[thread].push_back({.start_ns = range.start_ns,
                                           .depth = range.depth,
                                           .scope = range.op->scope,
                                           .sequence = range.op->sequence,
                                           .forward_thread = range.op->forward_thread,
                                           .torch_thread = range.op->torch_thread,
                                           .inputs = range.op->inputs,
                                           .scalars = range.op->scalars,
                                           .stack = range.op->stack});
    }
    operators.threads[thread].insert(operators.threads[thread].end(),
                                     loose_operators_[thread].begin(),
                                     loose_operators_[thread].end());
  }
}

template <typename Row>
void FakeCaptureReader::Put(uint32_t thread, const Row& row) {
  std::vector<std::vector<Row>>& threads = std::get<Rows<Row>>(rows_).threads;
  if (threads.size() <= thread) threads.resize(thread + size_t{1});
  threads[thread].push_back(row);
}

int64_t FakeCaptureReader::RowsOf(RowKind kind) const {
  size_t count = 0;
  const auto add = [&count](const auto& threads) {
    for (const auto& rows : threads) count += rows.size();
  };
  if (kind == RowKind::kRange) {
    add(ranges_);
  } else if (kind == RowKind::kOperator) {
    add(loose_operators_);
    for (const auto& ranges : ranges_) {
      for (const PendingRange& range : ranges) count += range.op.has_value() ? 1 : 0;
    }
  } else {
    EventTypes::Visit(kind, [&]<typename Row>() { add(std::get<Rows<Row>>(rows_).threads); });
  }
  return static_cast<int64_t>(count);
}

template <typename Row>
absl::Status FakeCaptureReader::ScanRows(uint32_t columns, const store::TimeFilter& filter,
                                         absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  const std::vector<std::vector<Row>>& threads = std::get<Rows<Row>>(rows_).threads;
  size_t batches = 0;
  bool more = true;
  for (size_t begin = 0; more; begin += batch_rows_) {
    more = false;
    for (uint32_t thread = 0; thread < threads.size(); ++thread) {
      const std::vector<Row>& all = threads[thread];
      if (begin >= all.size()) continue;
      more = true;
      if (fail_after_.has_value() && batches++ == fail_after_->first) return fail_after_->second;
      const auto rows = std::span(all).subspan(begin, std::min(batch_rows_, all.size() - begin));
      if (!IsWanted(rows, filter)) continue;
      store::EventTable<Row> table;
      table.Append(rows);
      RETURN_IF_ERROR(fn(store::ToBatch(table, columns, thread, 0, rows.size())));
    }
  }
  return absl::OkStatus();
}

absl::Status FakeCaptureReader::Scan(RowKind kind, uint32_t columns,
                                     const store::TimeFilter& filter,
                                     absl::FunctionRef<absl::Status(const EventBatch&)> fn) {
  if (kind == RowKind::kRange) range_readings_.push_back(columns);
  if (kind == RowKind::kGpu) gpu_readings_.push_back(columns);
  MakeRanges();
  absl::Status status;
  EventTypes::Visit(kind, [&]<typename Row>() { status = ScanRows<Row>(columns, filter, fn); });
  return status;
}

}  // namespace profd
