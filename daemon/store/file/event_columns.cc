#include "daemon/store/file/event_columns.h"

#include <bit>

namespace profd::store {
namespace {

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

// The rows and tables that have a start and a duration.
template <typename Rows>
bool HaveValidSpans(const Rows& rows) {
  bool valid = true;
  for (const auto& row : rows) {
    valid &= IsTime(row.start_ns) & (row.duration_ns >= 0) & (row.duration_ns <= kMaxTimeNs) &&
             IsTime(row.start_ns + row.duration_ns);
  }
  return valid;
}

template <typename Table>
TimeSpan SpanFromStarts(const Table& table) {
  TimeSpan span;
  for (size_t i = 0; i < table.size(); ++i) {
    span.begin_ns = std::min(span.begin_ns, table.start_ns[i]);
    span.end_ns = std::max(span.end_ns, table.start_ns[i] + table.duration_ns[i]);
  }
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
  bool valid = HaveValidSpans(rows);
  for (const RangeRow& row : rows) valid &= row.depth < kMaxDepth;
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

void ApiCallTable::Append(std::span<const ApiRow> rows) {
  for (const ApiRow& row : rows) {
    start_ns.push_back(row.start_ns);
    duration_ns.push_back(row.duration_ns);
    name.push_back(row.name);
    correlation.push_back(row.correlation);
    cbid.push_back(row.cbid);
    result.push_back(row.result);
    is_driver.push_back(row.is_driver ? 1 : 0);
  }
}
bool ApiCallTable::AreValid(std::span<const ApiRow> rows) { return HaveValidSpans(rows); }
TimeSpan ApiCallTable::Span() const { return SpanFromStarts(*this); }

uint64_t PackLead(int64_t start_ns, int64_t time_ns) {
  if (time_ns == kNoGpuTime) return 0;
  const int64_t lead_ns = start_ns - time_ns;
  return 1 + ((static_cast<uint64_t>(lead_ns) << 1) ^ static_cast<uint64_t>(lead_ns >> 63));
}
bool UnpackLead(int64_t start_ns, uint64_t lead, int64_t& time_ns) {
  time_ns = kNoGpuTime;
  if (lead == 0) return true;
  const uint64_t zigzag = lead - 1;
  // The distance of two times, and its sign.
  if (zigzag > static_cast<uint64_t>(kMaxTimeNs) * 4) return false;
  const auto lead_ns = static_cast<int64_t>((zigzag >> 1) ^ (uint64_t{0} - (zigzag & 1)));
  time_ns = start_ns - lead_ns;
  return IsTime(time_ns);
}

void GpuTable::Append(std::span<const GpuRow> rows) {
  const size_t at = size();
  const size_t total = at + rows.size();
  VisitColumns(*this, [total](auto& column, ColumnTransform) { column.resize(total); });
  for (size_t i = 0; i < rows.size(); ++i) {
    const GpuRow& row = rows[i];
    const size_t to = at + i;
    start_ns[to] = row.start_ns;
    duration_ns[to] = row.duration_ns;
    kind[to] = static_cast<uint8_t>(row.kind);
    flags[to] = row.flags;
    name[to] = row.name;
    bytes[to] = row.bytes;
    device[to] = row.device;
    context[to] = row.context;
    stream[to] = row.stream;
    correlation[to] = row.correlation;
    graph_id[to] = row.graph_id;
    graph_node_id[to] = row.graph_node_id;
    copy_kind[to] = row.copy_kind;
    source_kind[to] = row.source_kind;
    destination_kind[to] = row.destination_kind;
    source_device[to] = row.source_device;
    destination_device[to] = row.destination_device;
    queued_lead[to] = PackLead(row.start_ns, row.queued_ns);
    submitted_lead[to] = PackLead(row.start_ns, row.submitted_ns);
    grid_x[to] = row.grid[0];
    grid_y[to] = row.grid[1];
    grid_z[to] = row.grid[2];
    block_x[to] = row.block[0];
    block_y[to] = row.block[1];
    block_z[to] = row.block[2];
    cluster_x[to] = row.cluster[0];
    cluster_y[to] = row.cluster[1];
    cluster_z[to] = row.cluster[2];
    registers_per_thread[to] = row.registers_per_thread;
    static_shared_bytes[to] = row.static_shared_bytes;
    dynamic_shared_bytes[to] = row.dynamic_shared_bytes;
    local_bytes_per_thread[to] = row.local_bytes_per_thread;
  }
}
bool GpuTable::AreValid(std::span<const GpuRow> rows) {
  const auto is_optional_time = [](int64_t time_ns) {
    return time_ns == kNoGpuTime || IsTime(time_ns);
  };
  bool valid = HaveValidSpans(rows);
  for (const GpuRow& row : rows) {
    valid &= row.kind >= GpuRowKind::kKernel && row.kind <= GpuRowKind::kGraphLaunch &&
             (row.flags & ~kKnownGpuFlags) == 0 && is_optional_time(row.queued_ns) &&
             is_optional_time(row.submitted_ns);
  }
  return valid;
}
TimeSpan GpuTable::Span() const { return SpanFromStarts(*this); }

void SyncTable::Append(std::span<const SyncRow> rows) {
  for (const SyncRow& row : rows) {
    start_ns.push_back(row.start_ns);
    duration_ns.push_back(row.duration_ns);
    kind.push_back(row.kind);
    device.push_back(row.device);
    context.push_back(row.context);
    stream.push_back(row.stream);
    correlation.push_back(row.correlation);
    event_id.push_back(row.event_id);
  }
}
bool SyncTable::AreValid(std::span<const SyncRow> rows) { return HaveValidSpans(rows); }
TimeSpan SyncTable::Span() const { return SpanFromStarts(*this); }

void OverheadTable::Append(std::span<const OverheadRow> rows) {
  for (const OverheadRow& row : rows) {
    start_ns.push_back(row.start_ns);
    duration_ns.push_back(row.duration_ns);
    kind.push_back(row.kind);
    os_thread.push_back(row.os_thread);
    correlation.push_back(row.correlation);
  }
}
bool OverheadTable::AreValid(std::span<const OverheadRow> rows) { return HaveValidSpans(rows); }
TimeSpan OverheadTable::Span() const { return SpanFromStarts(*this); }

void CudaEventTable::Append(std::span<const CudaEventRow> rows) {
  for (const CudaEventRow& row : rows) {
    correlation.push_back(row.correlation);
    context.push_back(row.context);
    stream.push_back(row.stream);
    event_id.push_back(row.event_id);
  }
}

void OperatorTable::Append(std::span<const OperatorRow> rows) {
  const size_t at = size();
  const size_t total = at + rows.size();
  start_ns.resize(total);
  depth.resize(total);
  scope.resize(total);
  sequence.resize(total);
  forward_thread.resize(total);
  torch_thread.resize(total);
  inputs.resize(total);
  scalars.resize(total);
  for (size_t i = 0; i < rows.size(); ++i) {
    const OperatorRow& row = rows[i];
    start_ns[at + i] = row.start_ns;
    depth[at + i] = row.depth;
    scope[at + i] = row.scope;
    sequence[at + i] = row.sequence;
    forward_thread[at + i] = row.forward_thread;
    torch_thread[at + i] = row.torch_thread;
    inputs[at + i] = row.inputs;
    scalars[at + i] = row.scalars;
  }
}
bool OperatorTable::AreValid(std::span<const OperatorRow> rows) {
  bool valid = true;
  for (const OperatorRow& row : rows) {
    valid &= IsTime(row.start_ns) && row.depth < kMaxDepth && row.sequence >= -1;
  }
  return valid;
}
TimeSpan OperatorTable::Span() const { return SpanOf(start_ns); }

void TensorUseTable::Append(std::span<const TensorUseRow> rows) {
  for (const TensorUseRow& row : rows) {
    time_ns.push_back(row.time_ns);
    address.push_back(row.address);
    depth.push_back(row.depth);
    scope.push_back(row.scope);
    input.push_back(row.input);
  }
}
bool TensorUseTable::AreValid(std::span<const TensorUseRow> rows) {
  bool valid = HaveValidTimes(rows);
  for (const TensorUseRow& row : rows) valid &= row.depth < kMaxDepth;
  return valid;
}
TimeSpan TensorUseTable::Span() const { return SpanOf(time_ns); }

void NoteTable::Append(std::span<const NoteRow> rows) {
  for (const NoteRow& row : rows) {
    time_ns.push_back(row.time_ns);
    kind.push_back(row.kind);
    subject.push_back(row.subject);
    text.push_back(row.text);
    value.push_back(row.value);
  }
}
bool NoteTable::AreValid(std::span<const NoteRow> rows) {
  bool valid = true;
  for (const NoteRow& row : rows) valid &= row.time_ns == kNoNoteTime || IsTime(row.time_ns);
  return valid;
}
TimeSpan NoteTable::Span() const {
  TimeSpan span;
  for (const int64_t time : time_ns) {
    if (time != kNoNoteTime) span.Add(time);
  }
  return span.empty() ? TimeSpan{.begin_ns = 0, .end_ns = 0} : span;
}

void BlockTable::Append(std::span<const BlockRow> rows) {
  for (const BlockRow& row : rows) {
    address.push_back(row.address);
    bytes.push_back(row.bytes);
    name.push_back(row.name);
    category.push_back(row.category);
    device_type.push_back(row.device_type);
    device_index.push_back(row.device_index);
  }
}
bool BlockTable::AreValid(std::span<const BlockRow> rows) {
  bool valid = true;
  for (const BlockRow& row : rows) valid &= row.bytes >= 0;
  return valid;
}

void ArgumentTable::Append(std::span<const ArgumentRow> rows) {
  for (const ArgumentRow& argument : rows) {
    of.push_back(argument.of);
    of_thread.push_back(argument.thread);
    row.push_back(argument.row);
    key.push_back(argument.key);
    type.push_back(static_cast<uint8_t>(argument.type));
    value.push_back(argument.value);
  }
}
bool ArgumentTable::AreValid(std::span<const ArgumentRow> rows) {
  bool valid = true;
  for (const ArgumentRow& row : rows) {
    valid &= row.type <= ArgumentType::kQuotedInteger &&
             (row.type != ArgumentType::kJson || (row.value >= 0 && row.value <= UINT32_MAX));
  }
  return valid;
}

void GpuAnnotationTable::Append(std::span<const GpuAnnotationRow> rows) {
  for (const GpuAnnotationRow& row : rows) {
    start_ns.push_back(row.start_ns);
    duration_ns.push_back(row.duration_ns);
    name.push_back(row.name);
    device.push_back(row.device);
    stream.push_back(row.stream);
    external_id.push_back(row.external_id);
  }
}
bool GpuAnnotationTable::AreValid(std::span<const GpuAnnotationRow> rows) {
  return HaveValidSpans(rows);
}
TimeSpan GpuAnnotationTable::Span() const { return SpanFromStarts(*this); }

}  // namespace profd::store
