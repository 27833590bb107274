#include "daemon/report/torch_rows.h"

#include <algorithm>

namespace profd::report {

uint32_t TorchRows::NameOf(std::string_view text) {
  const auto [at, inserted] =
      names_.try_emplace(std::string(text), static_cast<uint32_t>(texts_.size()));
  if (inserted) texts_.emplace_back(text);
  return at->second;
}

uint32_t TorchRows::RowOf(uint32_t name, Kind kind, uint32_t shapes) {
  const auto [at, inserted] =
      numbers_.try_emplace({name, kind, shapes}, static_cast<uint32_t>(rows_.size()));
  if (inserted) rows_.push_back({.name = name, .shapes = shapes, .kind = kind});
  return at->second;
}

void TorchRows::Add(uint32_t row, int64_t start_ns, int64_t end_ns, const TorchMeasures& measures) {
  if (row == kNoRow) return;
  Row& to = rows_[row];
  const bool is_first = to.calls == 0 || start_ns < to.first_start_ns ||
                        (start_ns == to.first_start_ns && end_ns > to.first_end_ns);
  if (is_first) {
    to.first_start_ns = start_ns;
    to.first_end_ns = end_ns;
    to.has_parent = measures.has_parent;
  }
  ++to.calls;
  to.self_cpu_ns += static_cast<uint64_t>(measures.self_cpu_ns);
  to.cpu_total_ns += measures.total_cpu_ns;
  to.self_device_ns += measures.self_device_ns;
  to.device_total_ns += measures.total_device_ns;
  to.memory = to.memory + measures.total_memory;
  to.self_memory = to.self_memory + measures.self_memory;
}

void TorchRows::AddDevice(uint32_t row, int64_t start_ns, int64_t end_ns) {
  const uint64_t duration_ns = static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(start_ns);
  Add(row, start_ns, end_ns, {.total_device_ns = duration_ns, .self_device_ns = duration_ns});
}

std::vector<TorchRow> TorchRows::Take(std::span<const std::string> shapes_texts) const {
  std::vector<const Row*> order;
  for (const Row& row : rows_) {
    if (row.calls > 0) order.push_back(&row);
  }
  std::stable_sort(order.begin(), order.end(), [](const Row* a, const Row* b) {
    return a->first_start_ns != b->first_start_ns ? a->first_start_ns < b->first_start_ns
                                                  : a->first_end_ns > b->first_end_ns;
  });
  std::vector<TorchRow> shown;
  shown.reserve(order.size());
  for (const Row* row : order) shown.push_back(Shown(*row, shapes_texts));
  return shown;
}

TorchRow TorchRows::Shown(const Row& row, std::span<const std::string> shapes_texts) const {
  return {.name = texts_[row.name],
          .shapes = row.shapes < shapes_texts.size() ? shapes_texts[row.shapes] : "",
          .is_device = row.kind != Kind::kCpu,
          .is_annotation = row.kind == Kind::kDeviceAnnotation,
          .has_parent = row.has_parent,
          .calls = static_cast<int64_t>(row.calls),
          .self_cpu_ns = static_cast<int64_t>(row.self_cpu_ns),
          .cpu_total_ns = static_cast<int64_t>(row.cpu_total_ns),
          .self_device_ns = static_cast<int64_t>(row.self_device_ns),
          .device_total_ns = static_cast<int64_t>(row.device_total_ns),
          .cpu_memory_bytes = row.memory.cpu_bytes,
          .self_cpu_memory_bytes = row.self_memory.cpu_bytes,
          .device_memory_bytes = row.memory.device_bytes,
          .self_device_memory_bytes = row.self_memory.device_bytes};
}

}  // namespace profd::report
