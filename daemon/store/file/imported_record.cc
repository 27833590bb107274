#include "daemon/store/file/imported_record.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/store/file/event_columns.h"

namespace profd::store {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxCommandBytes = 4096;
constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kMaxMetadata = 64;
constexpr size_t kMaxMemberBytes = size_t{64} << 10;  // ImportRecord::members
constexpr size_t kMaxKinds = 65;                      // ImportRecord's 64, and "(other)".
constexpr size_t kMaxLabels = 32;
constexpr size_t kMaxDisplayNameBytes = 128;
constexpr size_t kMaxDevices = 1024;
constexpr size_t kMaxRemarks = 64;  // Kinds that failed, features that are missing.
constexpr int64_t kMaxTimeUnitNs = 1'000'000'000;
// 2116; later, and sums of times might overflow.
constexpr int64_t kMaxStartUnixNs = int64_t{1} << 62;

absl::Status Refused(std::string_view what) {
  return absl::InvalidArgumentError(StrCat("the capture file's record ", what));
}

template <typename... Counts>
bool NoneIsNegative(Counts... counts) {
  return ((counts >= 0) && ...);
}

// At most `most` entries, in their order; the values as `keep` makes them.
template <typename T, typename Keep>
std::map<std::string, T> CleanMap(const std::map<std::string, T>& untrusted, size_t most,
                                  Keep keep) {
  std::map<std::string, T> clean;
  for (const auto& [key, value] : untrusted) {
    if (clean.size() == most) break;
    clean[ForDisplay(key, kMaxNameBytes)] = keep(value);
  }
  return clean;
}

template <typename T>
void Keep(std::vector<T>& elements, size_t most) {
  if (elements.size() > most) elements.resize(most);
}

absl::Status TakeSpec(const CaptureSpec& untrusted, CaptureSpec& spec) {
  if (untrusted.display_name.size() > kMaxDisplayNameBytes ||
      !IsPrintableUtf8(untrusted.display_name)) {
    return Refused(StrCat("has a name that is not at most ", kMaxDisplayNameBytes,
                          " bytes of printable text"));
  }
  if (untrusted.labels.size() > kMaxLabels) {
    return Refused(StrCat("has more than ", kMaxLabels, " labels"));
  }
  for (const auto& [key, value] : untrusted.labels) RETURN_IF_ERROR(ValidateLabel(key, value));
  spec.display_name = untrusted.display_name;
  spec.labels = untrusted.labels;
  return absl::OkStatus();
}

// A job or pod that a trace names would decide who may read it: the kernel said none of that.
TargetInfo TakeTarget(const TargetInfo& untrusted, const Importer& importer, absl::Time now) {
  TargetInfo target;
  target.pid = std::max<int64_t>(untrusted.pid, 0);
  target.namespace_pid = std::max<int64_t>(untrusted.namespace_pid, 0);
  target.uid = importer.uid;
  target.gid = importer.gid;
  target.command = ForDisplay(untrusted.command, kMaxCommandBytes);
  target.metadata = CleanMap(untrusted.metadata, kMaxMetadata, [](const std::string& value) {
    return ForDisplay(value, kMaxNameBytes);
  });
  target.registered_time = now;
  target.state = TargetState::kGone;
  target.step_source = untrusted.step_source;
  return target;
}

absl::Status TakeWindows(const CaptureRecord& untrusted, CaptureRecord& record) {
  if (untrusted.start_unix_ns <= 0) return Refused("says that nothing was recorded");
  if (untrusted.start_unix_ns > kMaxStartUnixNs) return Refused("has an impossible start");
  if (untrusted.windows.empty() || untrusted.windows.size() > kMaxImportedWindows) {
    return Refused(StrCat("has ", untrusted.windows.size(), " windows"));
  }
  for (const WindowRecord& window : untrusted.windows) {
    const bool by_time = window.first_step == -1 && window.end_step == -1;
    const bool by_steps = window.first_step >= 0 && window.end_step >= window.first_step;
    if (!IsTime(window.start_ns) || !IsTime(window.end_ns) || window.end_ns < window.start_ns ||
        !(by_time || by_steps)) {
      return Refused("has an impossible window");
    }
    // The bound is on the sum, too, so that it does not overflow.
    const int64_t length_ns = window.end_ns - window.start_ns;
    if (length_ns > kMaxTimeNs - record.covered_ns) return Refused("has an impossible window");
    record.covered_ns += length_ns;
  }
  record.start_unix_ns = untrusted.start_unix_ns;
  record.windows = untrusted.windows;
  return absl::OkStatus();
}

absl::Status TakeCounts(const CaptureRecord& untrusted, CaptureRecord& record) {
  const bool valid =
      NoneIsNegative(untrusted.event_count, untrusted.warmup_event_count,
                     untrusted.open_range_count, untrusted.truncated_range_count,
                     untrusted.other_name_event_count, untrusted.foreign_step_mark_count,
                     untrusted.clock_error_ns, untrusted.step_before_ns, untrusted.step_during_ns,
                     untrusted.step_after_ns, untrusted.around_step_count,
                     untrusted.around_step_mean_ns, untrusted.around_slow_step_count) &&
      std::ranges::all_of(untrusted.drops, [](int64_t count) { return count >= 0; });
  if (!valid) return Refused("has a negative count");
  record.event_count = untrusted.event_count;
  record.drops = untrusted.drops;
  record.warmup_event_count = untrusted.warmup_event_count;
  record.open_range_count = untrusted.open_range_count;
  record.truncated_range_count = untrusted.truncated_range_count;
  record.other_name_event_count = untrusted.other_name_event_count;
  record.foreign_step_mark_count = untrusted.foreign_step_mark_count;
  record.clock_error_ns = untrusted.clock_error_ns;
  record.step_before_ns = untrusted.step_before_ns;
  record.step_during_ns = untrusted.step_during_ns;
  record.step_after_ns = untrusted.step_after_ns;
  record.around_step_count = untrusted.around_step_count;
  record.around_step_mean_ns = untrusted.around_step_mean_ns;
  record.around_slow_step_count = untrusted.around_slow_step_count;
  return absl::OkStatus();
}

GpuRecord TakeGpu(GpuRecord gpu) {
  gpu.problem = ForDisplay(gpu.problem, kMaxTextBytes);
  Keep(gpu.devices, kMaxDevices);
  for (GpuDevice& device : gpu.devices) {
    device.name = ForDisplay(device.name, kMaxNameBytes);
    device.uuid = ForDisplay(device.uuid, kMaxNameBytes);
  }
  Keep(gpu.streams, kMaxImportedStreams);
  Keep(gpu.kind_failures, kMaxRemarks);
  for (GpuKindFailure& failure : gpu.kind_failures) {
    failure.kind = ForDisplay(failure.kind, kMaxNameBytes);
    failure.result = ForDisplay(failure.result, kMaxTextBytes);
  }
  return gpu;
}

TorchRecord TakeTorch(TorchRecord torch) {
  torch.version = ForDisplay(torch.version, kMaxNameBytes);
  Keep(torch.missing, kMaxRemarks);
  for (TorchMissing& missing : torch.missing) {
    missing.feature = ForDisplay(missing.feature, kMaxNameBytes);
    missing.reason = ForDisplay(missing.reason, kMaxTextBytes);
  }
  return torch;
}

absl::Status TakeImport(const ImportRecord& untrusted, ImportRecord& imported) {
  if (untrusted.source.empty()) {
    return Refused(
        "does not say which trace it was imported from: a capture that profd recorded works as a "
        "file, in every command");
  }
  if (untrusted.time_unit_ns < 1 || untrusted.time_unit_ns > kMaxTimeUnitNs) {
    return Refused("has an impossible unit of time");
  }
  imported.source = ForDisplay(untrusted.source, kMaxNameBytes);
  imported.producer = ForDisplay(untrusted.producer, kMaxNameBytes);
  imported.time_unit_ns = untrusted.time_unit_ns;
  imported.not_understood = CleanMap(untrusted.not_understood, kMaxKinds,
                                     [](int64_t count) { return std::max<int64_t>(count, 0); });
  size_t member_bytes = 0;
  for (const auto& [key, json] : untrusted.members) {
    member_bytes += key.size() + json.size();
    if (member_bytes > kMaxMemberBytes) return Refused("has too many members of a trace");
  }
  imported.members = untrusted.members;  // Exports check that they are JSON.
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CaptureRecord> TakeImportedRecord(const CaptureRecord& untrusted,
                                                 const Importer& importer, absl::Time now) {
  if (untrusted.state != CaptureState::kComplete && untrusted.state != CaptureState::kPartial) {
    return Refused(StrCat("says that it is ", ToString(untrusted.state)));
  }
  // A new record, into which each believed field is copied. A field that is added to CaptureRecord
  // stays at its default here until it is checked, so none is taken from a sender by accident.
  CaptureRecord record;
  record.id = untrusted.id;
  if (IsUlid(untrusted.group_id)) record.group_id = untrusted.group_id;
  record.request_id = importer.request_id;
  record.requested_by_uid = importer.uid;
  record.requested_by = importer.principal;
  record.state = untrusted.state;
  record.ended_by = untrusted.ended_by;
  record.create_time = now;
  record.armed_time = untrusted.armed_time;
  record.end_time = now;
  record.node = ForDisplay(untrusted.node, kMaxNameBytes);
  if (record.node.empty()) record.node = importer.node;
  RETURN_IF_ERROR(TakeSpec(untrusted.spec, record.spec));
  record.target = TakeTarget(untrusted.target, importer, now);
  RETURN_IF_ERROR(TakeWindows(untrusted, record));
  RETURN_IF_ERROR(TakeCounts(untrusted, record));
  // As believable as the events that it was made from; DecodeRecord() cleaned its text.
  record.graded = untrusted.graded;
  record.gpu = TakeGpu(untrusted.gpu);
  record.torch = TakeTorch(untrusted.torch);
  RETURN_IF_ERROR(TakeImport(untrusted.imported, record.imported));
  return record;
}

}  // namespace profd::store
