#include "daemon/store/event_columns.h"

#include <bit>

namespace profd::store {
namespace {

bool IsTime(int64_t time_ns) { return time_ns >= -kMaxTimeNs && time_ns <= kMaxTimeNs; }

template <typename Rows>
bool HaveValidTimes(const Rows& rows) {
  bool valid = true;
  for (const auto& row : rows) valid &= IsTime(row.time_ns);
  return valid;
}

TimeSpan SpanOf(const std::vector<int64_t>& times) {
  TimeSpan span;
  for (const int64_t time : times) span.Add(time);
  return span;
}

}  // namespace

void RangeTable::Append(std::span<const RangeRow> rows) {
  const size_t at = size();
  const size_t total = at + rows.size();
  name.resize(total);
  depth.resize(total);
  duration_ns.resize(total);
  category.resize(total);
  flags.resize(total);
  end_ns.resize(total);
  for (size_t i = 0; i < rows.size(); ++i) {
    const RangeRow& row = rows[i];
    name[at + i] = row.name;
    depth[at + i] = row.depth;
    duration_ns[at + i] = row.duration_ns;
    category[at + i] = row.category;
    flags[at + i] = row.flags;
    end_ns[at + i] = row.start_ns + row.duration_ns;
  }
}
bool RangeTable::AreValid(std::span<const RangeRow> rows) {
  bool valid = true;
  for (const RangeRow& row : rows) {
    valid &= IsTime(row.start_ns) & (row.duration_ns >= 0) & (row.duration_ns <= kMaxTimeNs) &&
             IsTime(row.start_ns + row.duration_ns) && row.depth < kMaxDepth;
  }
  return valid;
}
TimeSpan RangeTable::Span() const {
  TimeSpan span;
  for (size_t i = 0; i < size(); ++i) {
    span.begin_ns = std::min(span.begin_ns, end_ns[i] - duration_ns[i]);
    span.end_ns = std::max(span.end_ns, end_ns[i]);
  }
  return span;
}

void InstantTable::Append(std::span<const InstantRow> rows) {
  for (const InstantRow& row : rows) {
    time_ns.push_back(row.time_ns);
    name.push_back(row.name);
  }
}
bool InstantTable::AreValid(std::span<const InstantRow> rows) { return HaveValidTimes(rows); }
TimeSpan InstantTable::Span() const { return SpanOf(time_ns); }

void CounterTable::Append(std::span<const CounterRow> rows) {
  for (const CounterRow& row : rows) {
    time_ns.push_back(row.time_ns);
    name.push_back(row.name);
    value_bits.push_back(std::bit_cast<uint64_t>(row.value));
  }
}
bool CounterTable::AreValid(std::span<const CounterRow> rows) { return HaveValidTimes(rows); }
TimeSpan CounterTable::Span() const { return SpanOf(time_ns); }

void MemoryTable::Append(std::span<const MemoryRow> rows) {
  for (const MemoryRow& row : rows) {
    time_ns.push_back(row.time_ns);
    address.push_back(row.address);
    bytes.push_back(row.bytes);
    total_allocated_bytes.push_back(row.total_allocated_bytes);
    total_reserved_bytes.push_back(row.total_reserved_bytes);
    device_type.push_back(row.device_type);
    device_index.push_back(row.device_index);
    category.push_back(row.category);
    is_free.push_back(row.is_free ? 1 : 0);
  }
}
bool MemoryTable::AreValid(std::span<const MemoryRow> rows) {
  bool valid = HaveValidTimes(rows);
  for (const MemoryRow& row : rows) {
    valid &= row.bytes >= 0 && row.total_allocated_bytes >= -1 && row.total_reserved_bytes >= -1;
  }
  return valid;
}
TimeSpan MemoryTable::Span() const { return SpanOf(time_ns); }

void StepMarkTable::Append(std::span<const StepRow> rows) {
  for (const StepRow& row : rows) {
    time_ns.push_back(row.time_ns);
    step.push_back(row.step);
  }
}
bool StepMarkTable::AreValid(std::span<const StepRow> rows) {
  bool valid = HaveValidTimes(rows);
  for (const StepRow& row : rows) valid &= row.step >= 0;
  return valid;
}
TimeSpan StepMarkTable::Span() const { return SpanOf(time_ns); }

}  // namespace profd::store
