#include "daemon/report/ops/torch_memory.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "daemon/report/index/accelerators.h"
#include "daemon/report/index/memory_order.h"
#include "proto/wire/event.h"

namespace profd::report {
namespace {

// The year 2200: a later double might not fit back.
constexpr int64_t kFarUnixNs = 7'258'118'400'000'000'000;

}  // namespace

int64_t CoarseTime(int64_t time_ns, int64_t start_unix_ns) {
  int64_t unix_ns = 0;
  if (__builtin_add_overflow(start_unix_ns, time_ns, &unix_ns)) return time_ns;
  if (unix_ns < 0 || unix_ns > kFarUnixNs) return time_ns;
  const int64_t whole_us = unix_ns / 1000;
  // As Python divides: to the nearest double.
  const double us = static_cast<double>(whole_us) + static_cast<double>(unix_ns % 1000) / 1e3;
  return std::llround(us * 1e3) - start_unix_ns;
}

absl::Status TorchMemoryRecords::Read(store::CaptureReader& reader) {
  // What blocks took, for frees that do not say.
  absl::flat_hash_map<std::tuple<uint8_t, int16_t, uint64_t>, int64_t> live;
  const absl::Status status = MemoryInOrder(reader).ForEach([&](const MemoryEvent& event) {
    const bool is_cpu = event.device_type == static_cast<uint8_t>(wire::DeviceType::kCpu);
    const bool is_device = event.device_type == static_cast<uint8_t>(wire::DeviceType::kCuda) ||
                           !AcceleratorName(event.device_type).empty();
    if (!is_cpu && !is_device) return absl::OkStatus();
    const auto block = std::tuple(event.device_type, event.device_index, event.address);
    int64_t bytes = event.bytes;
    if (!event.is_free) {
      live[block] = bytes;
    } else if (const auto found = live.find(block); found != live.end()) {
      if (bytes == 0) bytes = found->second;
      live.erase(found);
    }
    TorchMemory change;
    (is_cpu ? change.cpu_bytes : change.device_bytes) = bytes;
    times_.push_back(event.time_ns);
    sums_.push_back(event.is_free ? sums_.back() - change : sums_.back() + change);
    return absl::OkStatus();
  });
  covers_.resize(times_.size() + 1);
  return status;
}

TorchMemory TorchMemoryRecords::In(int64_t start_ns, int64_t end_ns) const {
  const size_t first = FirstFrom(start_ns);
  return sums_[std::max(first, FirstAfter(end_ns))] - sums_[first];
}

void TorchMemoryRecords::Cover(int64_t start_ns, int64_t end_ns) {
  const size_t first = FirstFrom(start_ns);
  ++covers_[first];
  --covers_[std::max(first, FirstAfter(end_ns))];
}

void TorchMemoryRecords::ForEachUncovered(
    absl::FunctionRef<void(int64_t, const TorchMemory&)> fn) const {
  int64_t covered = 0;
  for (size_t i = 0; i < times_.size(); ++i) {
    covered += covers_[i];
    if (covered == 0) fn(times_[i], sums_[i + 1] - sums_[i]);
  }
}

size_t TorchMemoryRecords::FirstFrom(int64_t time_ns) const {
  return static_cast<size_t>(std::lower_bound(times_.begin(), times_.end(), time_ns) -
                             times_.begin());
}

size_t TorchMemoryRecords::FirstAfter(int64_t time_ns) const {
  return static_cast<size_t>(std::upper_bound(times_.begin(), times_.end(), time_ns) -
                             times_.begin());
}

}  // namespace profd::report
