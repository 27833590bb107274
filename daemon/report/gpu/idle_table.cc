#include "daemon/report/gpu/idle_table.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/capture/quality.h"
#include "daemon/report/believed/believed_reader.h"
#include "daemon/report/gpu/device_work.h"
#include "daemon/report/index/gpu_attribution.h"
#include "daemon/report/index/kernel_purpose.h"
#include "daemon/report/index/step_lookup.h"
#include "daemon/report/index/wrapping_math.h"

namespace profd::report {
namespace {

void AddDeviceRows(const store::CaptureReader& reader, int64_t number, const DeviceIdle& device,
                   std::vector<IdleRow>& rows) {
  IdleRow whole = {.device = number};
  for (const WindowRecord& window : reader.record().windows) {
    if (window.end_ns > window.start_ns) device.AddTo(whole, window.start_ns, window.end_ns);
  }
  if (reader.record().windows.empty() && !device.empty()) {
    device.AddTo(whole, device.begin_ns(), device.end_ns());
  }
  rows.push_back(whole);
  const StepLookup lookup(reader.steps());
  for (const StepRecord& step : lookup.steps()) {
    IdleRow row = {.step = step.index, .device = number};
    int64_t end_ns = 0;
    if (!__builtin_add_overflow(step.start_ns, step.duration_ns, &end_ns) &&
        end_ns > step.start_ns) {
      device.AddTo(row, step.start_ns, end_ns);
    }
    rows.push_back(row);
  }
}

}  // namespace

absl::StatusOr<IdleTable> SummarizeIdle(store::CaptureReader& recorded) {
  BelievedReader reader(recorded);
  // Ranges are most of what would be read, and seldom tell more of a kernel than its name.
  ASSIGN_OR_RETURN(const GpuAttribution attribution,
                   CommunicationKernels::DependOnRanges(reader.names())
                       ? GpuAttribution::Build(reader)
                       : GpuAttribution::BuildCalls(reader));
  ASSIGN_OR_RETURN(const DeviceWork work, DeviceWork::Read(reader, attribution));
  std::vector<StreamIdle> streams;
  for (const DeviceWork::Stream& stream : work.streams()) {
    streams.emplace_back(StreamIdleRow{.device = work.devices()[stream.device],
                                       .context = stream.context,
                                       .stream = stream.stream},
                         work.holes());
  }
  std::vector<DeviceIdle> devices;
  int64_t unknown_ns = 0;
  for (size_t device = 0; device < work.devices().size(); ++device) {
    const DeviceWork::Unknown unknown = work.UnknownStartOf(device);
    devices.emplace_back(work.holes(), unknown);
    unknown_ns = std::max(unknown_ns, Difference(unknown.end_ns, unknown.begin_ns));
  }
  for (const Activity& activity : work.activities()) {
    streams[activity.stream].Add(activity);
    devices[work.DeviceOf(activity)].Add(activity);
  }

  IdleTable table = {.unknown_ns = unknown_ns,
                     .unread_devices = UnreadDevicesClause(reader.record())};
  for (size_t device = 0; device < devices.size(); ++device) {
    AddDeviceRows(reader, work.devices()[device], devices[device], table.rows);
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const IdleRow& a, const IdleRow& b) { return a.device < b.device; });
  for (const StreamIdle& stream : streams) table.streams.push_back(stream.Row());
  std::sort(table.streams.begin(), table.streams.end(),
            [](const StreamIdleRow& a, const StreamIdleRow& b) {
              return std::tie(a.device, a.context, a.stream) <
                     std::tie(b.device, b.context, b.stream);
            });
  return table;
}

}  // namespace profd::report
