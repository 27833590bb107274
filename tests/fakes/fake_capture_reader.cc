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
  ranges.push_back({start_ns, end_ns, name, range, 0, ranges.size()});
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
    const auto duration =
        Column<int64_t>(rows, [](const auto& row) { return row.end_ns - row.start_ns; });
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

}  // namespace profd
