#include "daemon/report/memory/host_frees.h"

#include <algorithm>

#include "daemon/base/status_macros.h"
#include "daemon/report/index/wrapping_math.h"
#include "proto/wire/event.h"

namespace profd::report {

absl::StatusOr<HostFrees> HostFreesIn(store::CaptureReader& reader, int64_t thread,
                                      int64_t begin_ns, int64_t end_ns) {
  HostFrees frees;
  const store::TimeFilter time = {.begin_ns = begin_ns, .end_ns = end_ns};
  RETURN_IF_ERROR(reader.ForEach<MemoryRow>(time, [&](const MemoryBatch& batch) {
    if (thread >= 0 && thread != int64_t{batch.thread}) return absl::OkStatus();
    for (size_t i = 0; i < batch.size; ++i) {
      const bool is_host = batch.device_type[i] == static_cast<uint8_t>(wire::DeviceType::kCpu);
      // A filter leaves out whole batches only.
      const bool is_inside = batch.time_ns[i] >= begin_ns && batch.time_ns[i] < end_ns;
      if (batch.is_free[i] == 0 || !is_host || !is_inside) continue;
      AddTo(frees.bytes, std::max<int64_t>(batch.bytes[i], 0));
      ++frees.count;
    }
    return absl::OkStatus();
  }));
  return frees;
}

}  // namespace profd::report
