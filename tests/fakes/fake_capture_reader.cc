#include "tests/fakes/fake_capture_reader.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "daemon/base/status_macros.h"

namespace profd {
namespace {

// The overlap of a batch with [begin, end), for a batch from `first_ns` to `last_ns`.
bool Overlaps(const store::TimeFilter& filter, int64_t first_ns, int64_t last_ns) {
  return last_ns >= filter.begin_ns && first_ns < filter.end_ns;
}

// One column of `rows`.
template <typename T, typename Row, typename Get>
std::vector<T> Column(std::span<const Row> rows, Get get) {
  std::vector<T> column;
  column.reserve(rows.size());
  for (const Row& row : rows) column.push_back(static_cast<T>(get(row)));
  return column;
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
  rows_.emplace_back();
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
  std::vector<RangeRow>& ranges = rows_.at(thread).ranges;
  ranges.push_back({start_ns, end_ns, name, range, 0, ranges.size(), std::nullopt});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Instant(uint32_t thread, std::string_view name,
                                              int64_t time_ns) {
  rows_.at(thread).instants.push_back({time_ns, Name(name)});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Counter(uint32_t thread, std::string_view name,
                                              int64_t time_ns, double value) {
  rows_.at(thread).counters.push_back({time_ns, Name(name), value});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Allocate(uint32_t thread, int64_t time_ns, uint64_t address,
                                               int64_t bytes, FakeMemory memory) {
  memory.is_free = false;
  rows_.at(thread).memory.push_back({time_ns, address, bytes, memory});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Free(uint32_t thread, int64_t time_ns, uint64_t address,
                                           int64_t bytes, FakeMemory memory) {
  memory.is_free = true;
  rows_.at(thread).memory.push_back({time_ns, address, bytes, memory});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::ApiCall(uint32_t thread, std::string_view name,
                                              int64_t start_ns, int64_t end_ns,
                                              uint32_t correlation, const FakeApiCall& call) {
  rows_.at(thread).api_calls.push_back({.start_ns = start_ns,
                                        .duration_ns = end_ns - start_ns,
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
  gpu_.push_back({.start_ns = start_ns,
                  .duration_ns = end_ns - start_ns,
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
  syncs_.push_back({.start_ns = start_ns,
                    .duration_ns = end_ns - start_ns,
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
  overheads_.push_back({start_ns, end_ns - start_ns, kind, os_thread, correlation});
  return *this;
}

FakeCaptureReader& FakeCaptureReader::CudaEvent(uint32_t event_id, uint32_t correlation,
                                                uint32_t context, uint32_t stream) {
  cuda_events_.push_back({correlation, context, stream, event_id});
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
  rows_.at(thread).ranges.back().op = op;
  ++framework_row_count_;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::LooseOperator(uint32_t thread, const OperatorRow& row) {
  rows_.at(thread).loose_operators.push_back(row);
  ++framework_row_count_;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::TensorUse(uint32_t thread, int64_t time_ns, uint64_t address,
                                                const FakeTensorUse& use) {
  rows_.at(thread).tensor_uses.push_back({time_ns, address, use.depth, use.scope, use.input});
  ++framework_row_count_;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Note(uint32_t thread, int64_t time_ns, uint16_t kind,
                                           std::string_view subject, std::string_view text,
                                           int64_t value) {
  rows_.at(thread).notes.push_back(
      {time_ns, kind, subject.empty() ? 0 : Name(subject), text.empty() ? 0 : Name(text), value});
  ++framework_row_count_;
  return *this;
}

FakeCaptureReader& FakeCaptureReader::Block(uint64_t address, int64_t bytes,
                                            const FakeBlock& block) {
  blocks_.push_back({address, bytes, block.name.empty() ? 0 : Name(block.name), block.category,
                     block.device_type, block.device_index});
  ++framework_row_count_;
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

void FakeCaptureReader::PutInEndOrder(std::vector<RangeRow>& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const RangeRow& a, const RangeRow& b) {
    return std::tuple(a.start_ns, -a.end_ns, a.order) < std::tuple(b.start_ns, -b.end_ns, b.order);
  });
  std::vector<const RangeRow*> open;
  for (RangeRow& row : ranges) {
    while (!open.empty() && open.back()->end_ns <= row.start_ns) open.pop_back();
    row.depth = row.range.depth.value_or(static_cast<uint16_t>(open.size()));
    open.push_back(&row);
  }
  // Of those that end together the inner ones are recorded first.
  std::stable_sort(ranges.begin(), ranges.end(), [](const RangeRow& a, const RangeRow& b) {
    return std::tuple(a.end_ns, -int{a.depth}, a.start_ns) <
           std::tuple(b.end_ns, -int{b.depth}, b.start_ns);
  });
}

template <typename Row, typename Emit>
absl::Status FakeCaptureReader::ForEachBatch(std::vector<Row> ThreadRows::*member, Emit emit) {
  size_t batches = 0;
  bool more = true;
  for (size_t begin = 0; more; begin += batch_rows_) {
    more = false;
    for (uint32_t thread = 0; thread < rows_.size(); ++thread) {
      const std::vector<Row>& rows = rows_[thread].*member;
      if (begin >= rows.size()) continue;
      more = true;
      if (fail_after_.has_value() && batches++ == fail_after_->first) return fail_after_->second;
      RETURN_IF_ERROR(
          emit(thread, std::span(rows).subspan(begin, std::min(batch_rows_, rows.size() - begin))));
    }
  }
  return absl::OkStatus();
}

template <typename Row, typename Emit>
absl::Status FakeCaptureReader::ForEachTimedBatch(const std::vector<Row>& rows,
                                                  const store::TimeFilter& filter, Emit emit) {
  size_t batches = 0;
  for (size_t begin = 0; begin < rows.size(); begin += batch_rows_) {
    if (fail_after_.has_value() && batches++ == fail_after_->first) return fail_after_->second;
    const auto batch = std::span(rows).subspan(begin, std::min(batch_rows_, rows.size() - begin));
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    for (const Row& row : batch) {
      first_ns = std::min(first_ns, row.start_ns);
      last_ns = std::max(last_ns, row.start_ns + row.duration_ns);
    }
    if (Overlaps(filter, first_ns, last_ns)) RETURN_IF_ERROR(emit(batch));
  }
  return absl::OkStatus();
}

absl::Status FakeCaptureReader::ForEachRange(
    uint32_t columns, const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::RangeBatch&)> fn) {
  range_readings_.push_back(columns);
  for (ThreadRows& thread : rows_) PutInEndOrder(thread.ranges);
  return ForEachBatch(&ThreadRows::ranges, [&](uint32_t thread, std::span<const RangeRow> rows) {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    for (const RangeRow& row : rows) first_ns = std::min(first_ns, row.start_ns);
    if (!Overlaps(filter, first_ns, rows.back().end_ns)) return absl::OkStatus();
    store::RangeBatch batch{.thread = thread, .size = rows.size()};
    const auto start = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    // As a hostile file has it: any number.
    const auto duration = Column<int64_t>(rows, [](const auto& row) {
      return static_cast<int64_t>(static_cast<uint64_t>(row.end_ns) -
                                  static_cast<uint64_t>(row.start_ns));
    });
    const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
    const auto depth = Column<uint16_t>(rows, [](const auto& row) { return row.depth; });
    const auto category = Column<uint8_t>(rows, [](const auto& row) { return row.range.category; });
    const auto flags = Column<uint8_t>(rows, [](const auto& row) { return row.range.flags; });
    if (columns & store::kRangeStart) batch.start_ns = start;
    if (columns & store::kRangeDuration) batch.duration_ns = duration;
    if (columns & store::kRangeName) batch.name = name;
    if (columns & store::kRangeDepth) batch.depth = depth;
    if (columns & store::kRangeCategory) batch.category = category;
    if (columns & store::kRangeFlags) batch.flags = flags;
    return fn(batch);
  });
}

absl::Status FakeCaptureReader::ForEachInstant(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::InstantBatch&)> fn) {
  return ForEachBatch(
      &ThreadRows::instants, [&](uint32_t thread, std::span<const InstantRow> rows) {
        if (!Overlaps(filter, rows.front().time_ns, rows.back().time_ns)) return absl::OkStatus();
        const auto time = Column<int64_t>(rows, [](const auto& row) { return row.time_ns; });
        const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
        return fn({.thread = thread, .size = rows.size(), .time_ns = time, .name = name});
      });
}

absl::Status FakeCaptureReader::ForEachCounter(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::CounterBatch&)> fn) {
  return ForEachBatch(
      &ThreadRows::counters, [&](uint32_t thread, std::span<const CounterRow> rows) {
        if (!Overlaps(filter, rows.front().time_ns, rows.back().time_ns)) return absl::OkStatus();
        const auto time = Column<int64_t>(rows, [](const auto& row) { return row.time_ns; });
        const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
        const auto value = Column<double>(rows, [](const auto& row) { return row.value; });
        return fn(
            {.thread = thread, .size = rows.size(), .time_ns = time, .name = name, .value = value});
      });
}

absl::Status FakeCaptureReader::ForEachMemory(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::MemoryBatch&)> fn) {
  return ForEachBatch(&ThreadRows::memory, [&](uint32_t thread, std::span<const MemoryRow> rows) {
    if (!Overlaps(filter, rows.front().time_ns, rows.back().time_ns)) return absl::OkStatus();
    const auto time = Column<int64_t>(rows, [](const auto& row) { return row.time_ns; });
    const auto address = Column<uint64_t>(rows, [](const auto& row) { return row.address; });
    const auto bytes = Column<int64_t>(rows, [](const auto& row) { return row.bytes; });
    const auto allocated =
        Column<int64_t>(rows, [](const auto& row) { return row.memory.total_allocated_bytes; });
    const auto reserved =
        Column<int64_t>(rows, [](const auto& row) { return row.memory.total_reserved_bytes; });
    const auto type = Column<uint8_t>(rows, [](const auto& row) { return row.memory.device_type; });
    const auto index =
        Column<int16_t>(rows, [](const auto& row) { return row.memory.device_index; });
    const auto category =
        Column<uint8_t>(rows, [](const auto& row) { return row.memory.category; });
    const auto is_free =
        Column<uint8_t>(rows, [](const auto& row) { return row.memory.is_free ? 1 : 0; });
    return fn({.thread = thread,
               .size = rows.size(),
               .time_ns = time,
               .address = address,
               .bytes = bytes,
               .total_allocated_bytes = allocated,
               .total_reserved_bytes = reserved,
               .device_type = type,
               .device_index = index,
               .category = category,
               .is_free = is_free});
  });
}

absl::Status FakeCaptureReader::ForEachApiCall(
    const store::TimeFilter& filter, absl::FunctionRef<absl::Status(const store::ApiBatch&)> fn) {
  return ForEachBatch(&ThreadRows::api_calls, [&](uint32_t thread, std::span<const ApiRow> rows) {
    int64_t first_ns = std::numeric_limits<int64_t>::max();
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    for (const ApiRow& row : rows) {
      first_ns = std::min(first_ns, row.start_ns);
      last_ns = std::max(last_ns, row.start_ns + row.duration_ns);
    }
    if (!Overlaps(filter, first_ns, last_ns)) return absl::OkStatus();
    const auto start = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    const auto duration = Column<int64_t>(rows, [](const auto& row) { return row.duration_ns; });
    const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
    const auto correlation =
        Column<uint32_t>(rows, [](const auto& row) { return row.correlation; });
    const auto cbid = Column<uint32_t>(rows, [](const auto& row) { return row.cbid; });
    const auto result = Column<int32_t>(rows, [](const auto& row) { return row.result; });
    const auto is_driver = Column<uint8_t>(rows, [](const auto& row) { return row.is_driver; });
    return fn({.thread = thread,
               .size = rows.size(),
               .start_ns = start,
               .duration_ns = duration,
               .name = name,
               .correlation = correlation,
               .cbid = cbid,
               .result = result,
               .is_driver = is_driver});
  });
}

absl::Status FakeCaptureReader::ForEachGpu(
    uint32_t columns, const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::GpuBatch&)> fn) {
  gpu_readings_.push_back(columns);
  return ForEachTimedBatch(gpu_, filter, [&](std::span<const GpuRow> rows) {
    store::GpuBatch batch{.size = rows.size()};
    const auto start_ns = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    const auto duration_ns = Column<int64_t>(rows, [](const auto& row) { return row.duration_ns; });
    const auto kind = Column<uint8_t>(rows, [](const auto& row) { return row.kind; });
    const auto flags = Column<uint8_t>(rows, [](const auto& row) { return row.flags; });
    const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
    const auto bytes = Column<uint64_t>(rows, [](const auto& row) { return row.bytes; });
    const auto device = Column<uint16_t>(rows, [](const auto& row) { return row.device; });
    const auto context = Column<uint32_t>(rows, [](const auto& row) { return row.context; });
    const auto stream = Column<uint32_t>(rows, [](const auto& row) { return row.stream; });
    const auto correlation =
        Column<uint32_t>(rows, [](const auto& row) { return row.correlation; });
    const auto graph_id = Column<uint32_t>(rows, [](const auto& row) { return row.graph_id; });
    const auto graph_node_id =
        Column<uint64_t>(rows, [](const auto& row) { return row.graph_node_id; });
    const auto copy_kind = Column<uint8_t>(rows, [](const auto& row) { return row.copy_kind; });
    const auto source_kind = Column<uint8_t>(rows, [](const auto& row) { return row.source_kind; });
    const auto destination_kind =
        Column<uint8_t>(rows, [](const auto& row) { return row.destination_kind; });
    const auto source_device =
        Column<uint16_t>(rows, [](const auto& row) { return row.source_device; });
    const auto destination_device =
        Column<uint16_t>(rows, [](const auto& row) { return row.destination_device; });
    const auto queued_ns = Column<int64_t>(rows, [](const auto& row) { return row.queued_ns; });
    const auto submitted_ns =
        Column<int64_t>(rows, [](const auto& row) { return row.submitted_ns; });
    const auto grid_x = Column<uint32_t>(rows, [](const auto& row) { return row.grid[0]; });
    const auto grid_y = Column<uint32_t>(rows, [](const auto& row) { return row.grid[1]; });
    const auto grid_z = Column<uint32_t>(rows, [](const auto& row) { return row.grid[2]; });
    const auto block_x = Column<uint32_t>(rows, [](const auto& row) { return row.block[0]; });
    const auto block_y = Column<uint32_t>(rows, [](const auto& row) { return row.block[1]; });
    const auto block_z = Column<uint32_t>(rows, [](const auto& row) { return row.block[2]; });
    const auto cluster_x = Column<uint16_t>(rows, [](const auto& row) { return row.cluster[0]; });
    const auto cluster_y = Column<uint16_t>(rows, [](const auto& row) { return row.cluster[1]; });
    const auto cluster_z = Column<uint16_t>(rows, [](const auto& row) { return row.cluster[2]; });
    const auto registers_per_thread =
        Column<uint16_t>(rows, [](const auto& row) { return row.registers_per_thread; });
    const auto static_shared_bytes =
        Column<uint32_t>(rows, [](const auto& row) { return row.static_shared_bytes; });
    const auto dynamic_shared_bytes =
        Column<uint32_t>(rows, [](const auto& row) { return row.dynamic_shared_bytes; });
    const auto local_bytes_per_thread =
        Column<uint32_t>(rows, [](const auto& row) { return row.local_bytes_per_thread; });
    if (columns & store::kGpuTime) {
      batch.start_ns = start_ns;
      batch.duration_ns = duration_ns;
    }
    if (columns & store::kGpuWhat) {
      batch.kind = kind;
      batch.flags = flags;
      batch.name = name;
      batch.bytes = bytes;
    }
    if (columns & store::kGpuWhere) {
      batch.device = device;
      batch.context = context;
      batch.stream = stream;
    }
    if (columns & store::kGpuCause) {
      batch.correlation = correlation;
      batch.graph_id = graph_id;
      batch.graph_node_id = graph_node_id;
    }
    if (columns & store::kGpuCopy) {
      batch.copy_kind = copy_kind;
      batch.source_kind = source_kind;
      batch.destination_kind = destination_kind;
      batch.source_device = source_device;
      batch.destination_device = destination_device;
    }
    if (columns & store::kGpuLaunch) {
      batch.queued_ns = queued_ns;
      batch.submitted_ns = submitted_ns;
      batch.grid_x = grid_x;
      batch.grid_y = grid_y;
      batch.grid_z = grid_z;
      batch.block_x = block_x;
      batch.block_y = block_y;
      batch.block_z = block_z;
      batch.cluster_x = cluster_x;
      batch.cluster_y = cluster_y;
      batch.cluster_z = cluster_z;
      batch.registers_per_thread = registers_per_thread;
      batch.static_shared_bytes = static_shared_bytes;
      batch.dynamic_shared_bytes = dynamic_shared_bytes;
      batch.local_bytes_per_thread = local_bytes_per_thread;
    }
    return fn(batch);
  });
}

absl::Status FakeCaptureReader::ForEachSync(
    const store::TimeFilter& filter, absl::FunctionRef<absl::Status(const store::SyncBatch&)> fn) {
  return ForEachTimedBatch(syncs_, filter, [&](std::span<const SyncRow> rows) {
    const auto start_ns = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    const auto duration_ns = Column<int64_t>(rows, [](const auto& row) { return row.duration_ns; });
    const auto kind = Column<uint32_t>(rows, [](const auto& row) { return row.kind; });
    const auto device = Column<uint16_t>(rows, [](const auto& row) { return row.device; });
    const auto context = Column<uint32_t>(rows, [](const auto& row) { return row.context; });
    const auto stream = Column<uint32_t>(rows, [](const auto& row) { return row.stream; });
    const auto correlation =
        Column<uint32_t>(rows, [](const auto& row) { return row.correlation; });
    const auto event_id = Column<uint32_t>(rows, [](const auto& row) { return row.event_id; });
    return fn({.size = rows.size(),
               .start_ns = start_ns,
               .duration_ns = duration_ns,
               .kind = kind,
               .device = device,
               .context = context,
               .stream = stream,
               .correlation = correlation,
               .event_id = event_id});
  });
}

absl::Status FakeCaptureReader::ForEachOverhead(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::OverheadBatch&)> fn) {
  return ForEachTimedBatch(overheads_, filter, [&](std::span<const OverheadRow> rows) {
    const auto start_ns = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    const auto duration_ns = Column<int64_t>(rows, [](const auto& row) { return row.duration_ns; });
    const auto kind = Column<uint32_t>(rows, [](const auto& row) { return row.kind; });
    const auto os_thread = Column<uint32_t>(rows, [](const auto& row) { return row.os_thread; });
    const auto correlation =
        Column<uint32_t>(rows, [](const auto& row) { return row.correlation; });
    return fn({.size = rows.size(),
               .start_ns = start_ns,
               .duration_ns = duration_ns,
               .kind = kind,
               .os_thread = os_thread,
               .correlation = correlation});
  });
}

absl::Status FakeCaptureReader::ForEachCudaEvent(
    absl::FunctionRef<absl::Status(const store::CudaEventBatch&)> fn) {
  if (cuda_events_.empty()) return absl::OkStatus();
  const std::span<const CudaEventRow> rows = cuda_events_;
  const auto correlation = Column<uint32_t>(rows, [](const auto& row) { return row.correlation; });
  const auto context = Column<uint32_t>(rows, [](const auto& row) { return row.context; });
  const auto stream = Column<uint32_t>(rows, [](const auto& row) { return row.stream; });
  const auto event_id = Column<uint32_t>(rows, [](const auto& row) { return row.event_id; });
  return fn({.size = rows.size(),
             .correlation = correlation,
             .context = context,
             .stream = stream,
             .event_id = event_id});
}

absl::Status FakeCaptureReader::ForEachOperator(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::OperatorBatch&)> fn) {
  for (ThreadRows& thread : rows_) {
    PutInEndOrder(thread.ranges);
    thread.operators.clear();
    for (const RangeRow& range : thread.ranges) {
      if (!range.op.has_value()) continue;
      thread.operators.push_back({.start_ns = range.start_ns,
                                  .depth = range.depth,
                                  .scope = range.op->scope,
                                  .sequence = range.op->sequence,
                                  .forward_thread = range.op->forward_thread,
                                  .torch_thread = range.op->torch_thread,
                                  .inputs = range.op->inputs,
                                  .scalars = range.op->scalars});
    }
    thread.operators.insert(thread.operators.end(), thread.loose_operators.begin(),
                            thread.loose_operators.end());
  }
  return ForEachBatch(&ThreadRows::operators, [&](uint32_t thread,
                                                  std::span<const OperatorRow> rows) {
    const auto start = Column<int64_t>(rows, [](const auto& row) { return row.start_ns; });
    const auto [first, last] = std::minmax_element(start.begin(), start.end());
    if (!Overlaps(filter, *first, *last)) return absl::OkStatus();
    const auto depth = Column<uint16_t>(rows, [](const auto& row) { return row.depth; });
    const auto scope = Column<uint8_t>(rows, [](const auto& row) { return row.scope; });
    const auto sequence = Column<int64_t>(rows, [](const auto& row) { return row.sequence; });
    const auto forward = Column<uint64_t>(rows, [](const auto& row) { return row.forward_thread; });
    const auto torch_thread =
        Column<uint32_t>(rows, [](const auto& row) { return row.torch_thread; });
    const auto inputs = Column<uint32_t>(rows, [](const auto& row) { return row.inputs; });
    const auto scalars = Column<uint32_t>(rows, [](const auto& row) { return row.scalars; });
    return fn({.thread = thread,
               .size = rows.size(),
               .start_ns = start,
               .depth = depth,
               .scope = scope,
               .sequence = sequence,
               .forward_thread = forward,
               .torch_thread = torch_thread,
               .inputs = inputs,
               .scalars = scalars});
  });
}

absl::Status FakeCaptureReader::ForEachTensorUse(
    const store::TimeFilter& filter,
    absl::FunctionRef<absl::Status(const store::TensorUseBatch&)> fn) {
  return ForEachBatch(
      &ThreadRows::tensor_uses, [&](uint32_t thread, std::span<const TensorUseRow> rows) {
        const auto time = Column<int64_t>(rows, [](const auto& row) { return row.time_ns; });
        const auto [first, last] = std::minmax_element(time.begin(), time.end());
        if (!Overlaps(filter, *first, *last)) return absl::OkStatus();
        const auto address = Column<uint64_t>(rows, [](const auto& row) { return row.address; });
        const auto depth = Column<uint16_t>(rows, [](const auto& row) { return row.depth; });
        const auto scope = Column<uint8_t>(rows, [](const auto& row) { return row.scope; });
        const auto input = Column<uint8_t>(rows, [](const auto& row) { return row.input; });
        return fn({.thread = thread,
                   .size = rows.size(),
                   .time_ns = time,
                   .address = address,
                   .depth = depth,
                   .scope = scope,
                   .input = input});
      });
}

absl::Status FakeCaptureReader::ForEachNote(
    absl::FunctionRef<absl::Status(const store::NoteBatch&)> fn) {
  return ForEachBatch(&ThreadRows::notes, [&](uint32_t thread, std::span<const NoteRow> rows) {
    const auto time = Column<int64_t>(rows, [](const auto& row) { return row.time_ns; });
    const auto kind = Column<uint16_t>(rows, [](const auto& row) { return row.kind; });
    const auto subject = Column<uint32_t>(rows, [](const auto& row) { return row.subject; });
    const auto text = Column<uint32_t>(rows, [](const auto& row) { return row.text; });
    const auto value = Column<int64_t>(rows, [](const auto& row) { return row.value; });
    return fn({.thread = thread,
               .size = rows.size(),
               .time_ns = time,
               .kind = kind,
               .subject = subject,
               .text = text,
               .value = value});
  });
}

absl::Status FakeCaptureReader::ForEachBlock(
    absl::FunctionRef<absl::Status(const store::BlockBatch&)> fn) {
  if (blocks_.empty()) return absl::OkStatus();
  const std::span<const BlockRow> rows = blocks_;
  const auto address = Column<uint64_t>(rows, [](const auto& row) { return row.address; });
  const auto bytes = Column<int64_t>(rows, [](const auto& row) { return row.bytes; });
  const auto name = Column<uint32_t>(rows, [](const auto& row) { return row.name; });
  const auto category = Column<uint8_t>(rows, [](const auto& row) { return row.category; });
  const auto type = Column<uint8_t>(rows, [](const auto& row) { return row.device_type; });
  const auto index = Column<int16_t>(rows, [](const auto& row) { return row.device_index; });
  return fn({.size = rows.size(),
             .address = address,
             .bytes = bytes,
             .name = name,
             .category = category,
             .device_type = type,
             .device_index = index});
}

}  // namespace profd
