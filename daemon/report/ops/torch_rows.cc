#include "daemon/report/ops/torch_rows.h"

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
  times_.push_back({.start_ns = start_ns,
                    .end_ns = end_ns,
                    .self_cpu_us = measures.self_cpu_us,
                    .self_device_us = measures.self_device_us,
                    .device_total_us = measures.total_device_us,
                    .row = row});
  to.memory = to.memory + measures.total_memory;
  to.self_memory = to.self_memory + measures.self_memory;
}

void TorchRows::AddDevice(uint32_t row, int64_t start_ns, int64_t end_ns) {
  const uint64_t duration_ns = static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(start_ns);
  const double duration_us = clock_.DurationUs(start_ns, end_ns);
  Add(row, start_ns, end_ns,
      {.total_device_ns = duration_ns,
       .self_device_ns = duration_ns,
       .total_device_us = duration_us,
       .self_device_us = duration_us});
}

// Doubles are summed in torch's order, because the order decides how the sum is rounded.
void TorchRows::SumUp() {
  const auto is_before = [](const Times& a, const Times& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  };
  if (!std::is_sorted(times_.begin(), times_.end(), is_before)) {
    std::stable_sort(times_.begin(), times_.end(), is_before);
  }
  for (const Times& times : times_) {
    Row& to = rows_[times.row];
    if (to.kind == Kind::kCpu) to.cpu_total_us += clock_.DurationUs(times.start_ns, times.end_ns);
    to.self_cpu_us += times.self_cpu_us;
    to.self_device_us += times.self_device_us;
    to.device_total_us += times.device_total_us;
  }
  times_ = {};
}

std::vector<TorchRow> TorchRows::Take(std::span<const std::string> shapes_texts) {
  SumUp();
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
          .self_cpu_us = row.self_cpu_us,
          .cpu_total_us = row.cpu_total_us,
          .self_device_us = row.self_device_us,
          .device_total_us = row.device_total_us,
          .cpu_memory_bytes = row.memory.cpu_bytes,
          .self_cpu_memory_bytes = row.self_memory.cpu_bytes,
          .device_memory_bytes = row.memory.device_bytes,
          .self_device_memory_bytes = row.self_memory.device_bytes};
}

}  // namespace profd::report
