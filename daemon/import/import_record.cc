#include "daemon/import/import_record.h"

#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"

namespace profd::importer {
namespace {

constexpr size_t kMaxSourceBytes = 255;
constexpr size_t kMaxPathBytes = 4096;

void DescribeWindow(const CaptureBuilder::Contents& contents, int64_t base_unix_ns,
                    CaptureRecord& record) {
  record.windows.clear();
  record.covered_ns = 0;
  for (const auto& [start_ns, end_ns] : contents.windows) {
    WindowRecord window = {.start_ns = start_ns - contents.start_ns,
                           .end_ns = end_ns - contents.start_ns};
    for (const StepRecord& step : contents.steps) {  // By number.
      if (step.start_ns < window.start_ns || step.start_ns > window.end_ns) continue;
      if (window.first_step < 0) window.first_step = step.index;
      window.end_step = step.index + 1;
    }
    record.covered_ns += window.end_ns - window.start_ns;
    record.windows.push_back(window);
  }
  record.covered_steps = static_cast<int64_t>(contents.steps.size());
  record.ended_by = contents.steps.empty() ? EndedBy::kDuration : EndedBy::kSteps;
  int64_t start_unix_ns = 0;
  const bool fits = !__builtin_add_overflow(base_unix_ns, contents.epoch_ns, &start_unix_ns) &&
                    !__builtin_add_overflow(start_unix_ns, contents.start_ns, &start_unix_ns);
  // 0 is "nothing recorded".
  record.start_unix_ns = fits && start_unix_ns > 0 ? start_unix_ns : 1;
  int64_t armed_unix_ns = 0;
  if (record.start_unix_ns > 1 && contents.profiler_start_ns.has_value() &&
      !__builtin_add_overflow(base_unix_ns, *contents.profiler_start_ns, &armed_unix_ns)) {
    record.armed_time = absl::FromUnixNanos(armed_unix_ns);
  }
}

}  // namespace

CaptureRecord BeginImport(const std::filesystem::path& trace, const ImportOptions& options,
                          absl::Time now) {
  CaptureRecord record;
  record.id = options.id.empty() ? NewUlid(now) : options.id;
  record.group_id = options.group_id;
  record.create_time = now;
  record.armed_time = absl::InfinitePast();
  record.end_time = now;
  record.imported.source = ForDisplay(trace.filename().string(), kMaxSourceBytes);
  return record;
}

void DescribeContents(const CaptureBuilder::Contents& contents, int64_t base_unix_ns,
                      CaptureRecord& record) {
  DescribeWindow(contents, base_unix_ns, record);
  record.state = CaptureState::kComplete;
  record.event_count = contents.event_count;
  record.drops[static_cast<size_t>(DropReason::kTooDeep)] += contents.too_deep_count;
  record.drops[static_cast<size_t>(DropReason::kThinned)] += contents.thinned_count;
  record.other_name_event_count = contents.other_name_count;
  record.imported.time_unit_ns = contents.whole_us ? 1000 : 1;

  const bool has_gpu = contents.gpu_count > 0 || !record.gpu.devices.empty();
  record.gpu.outcome = has_gpu ? GpuOutcome::kRecorded : GpuOutcome::kOff;
  record.gpu.mode = has_gpu ? GpuMode::kDefault : GpuMode::kOff;
  record.gpu.streams = contents.streams;
  record.gpu.record_count = contents.gpu_count;
  record.gpu.orphan_count = contents.orphan_count;

  if (contents.operator_count == 0 && contents.memory_count == 0) return;
  record.torch.outcome = TorchOutcome::kRecorded;
  record.torch.operators = contents.input_count > 0      ? OperatorMode::kShapes
                           : contents.operator_count > 0 ? OperatorMode::kNames
                                                         : OperatorMode::kOff;
  record.torch.memory = contents.memory_count > 0;
  record.torch.operator_count = contents.operator_count;
  record.torch.cut_input_count = contents.cut_input_count;
  record.torch.stack_count = contents.stack_count;
  record.torch.missing_stack_count = contents.cut_stack_count;
  record.torch.step_source = contents.steps.empty() ? StepSource::kNone : StepSource::kProfiler;
}

absl::Status WithPath(const absl::Status& status, const std::filesystem::path& path) {
  return absl::Status(status.code(), StrCat(ForDisplay(path.string(), kMaxPathBytes), ": ",
                                            FromAbsl(status.message())));
}

}  // namespace profd::importer
