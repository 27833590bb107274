#include "daemon/export/trace/cuda_events.h"

#include <algorithm>
#include <tuple>

#include "daemon/base/status_macros.h"

namespace profd::exporter {
namespace {

auto OrderOf(const CudaEvents::Recorded& event) {
  return std::tie(event.context, event.event_id, event.correlation, event.stream);
}

}  // namespace

absl::Status CudaEvents::Read(store::CaptureReader& reader) {
  RETURN_IF_ERROR(reader.ForEach<CudaEventRow>([&](const CudaEventBatch& batch) {
    for (size_t i = 0; i < batch.size; ++i) {
      events_.push_back(
          {batch.context[i], batch.event_id[i], batch.correlation[i], batch.stream[i]});
    }
    return absl::OkStatus();
  }));
  std::sort(events_.begin(), events_.end(),
            [](const Recorded& a, const Recorded& b) { return OrderOf(a) < OrderOf(b); });
  return absl::OkStatus();
}

const CudaEvents::Recorded* CudaEvents::Find(uint32_t context, uint32_t event_id,
                                             uint32_t wait_correlation) const {
  const Recorded wait = {context, event_id, wait_correlation, 0};
  const auto after = std::lower_bound(
      events_.begin(), events_.end(), wait,
      [](const Recorded& a, const Recorded& b) { return OrderOf(a) < OrderOf(b); });
  if (after == events_.begin()) return nullptr;
  const Recorded& last = *(after - 1);
  return last.context == context && last.event_id == event_id ? &last : nullptr;
}

}  // namespace profd::exporter
