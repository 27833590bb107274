#include "cli/render/capture.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_format.h"
#include "cli/base/errors.h"
#include "cli/base/short_names.h"
#include "cli/base/table.h"
#include "cli/base/units.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/table/json.h"
#include "daemon/base/text.h"
#include "daemon/base/units.h"
#include "daemon/capture/quality.h"
#include "daemon/capture/slowdown.h"
#include "daemon/report/index/step_table.h"

namespace profd::cli {
namespace {

constexpr int64_t kTellingClockErrorNs = 1000;

int64_t UnixNanosOrZero(absl::Time time) {
  const bool finite = time != absl::InfinitePast() && time != absl::InfiniteFuture();
  return finite ? absl::ToUnixNanos(time) : 0;
}

void WriteSpecJson(const CaptureSpec& spec, JsonWriter& json) {
  json.Key("spec").BeginObject();
  json.Field("steps", spec.steps);
  json.Field("warmup_steps", spec.warmup_steps);
  json.Field("wait_steps", spec.wait_steps);
  json.Field("repeat", spec.repeat);
  json.Field("start_step", spec.start_step);
  json.Field("duration_ns", absl::ToInt64Nanoseconds(spec.duration));
  json.Field("timeout_ns", absl::ToInt64Nanoseconds(spec.timeout));
  json.Field("memory_bytes", spec.memory_bytes);
  json.Field("allow_less_memory", spec.allow_less_memory);
  json.Field("max_bytes", spec.max_bytes);
  json.Field("step_marker", spec.step_marker);
  json.Key("gpu").BeginObject();
  json.Field("mode", ToString(spec.gpu.mode));
  json.Field("buffer_bytes", spec.gpu.buffer_bytes);
  json.Field("max_records", spec.gpu.max_records);
  json.Field("detach", spec.gpu.detach);
  json.Field("latency", spec.gpu.latency);
  json.EndObject();
  json.Key("torch").BeginObject();
  json.Field("operators", ToString(spec.torch.operators));
  json.Field("strides", spec.torch.strides);
  json.Field("memory", spec.torch.memory);
  json.Field("step_source", ToString(spec.torch.step_source));
  json.EndObject();
  json.EndObject();
}

void WriteTorchRecordJson(const TorchRecord& torch, JsonWriter& json) {
  json.Key("torch").BeginObject();
  json.Field("outcome", ToString(torch.outcome));
  json.Field("operators", ToString(torch.operators));
  json.Field("memory", torch.memory);
  json.Field("version", torch.version);
  json.Key("missing").BeginArray();
  for (const TorchMissing& missing : torch.missing) {
    json.BeginObject();
    json.Field("feature", missing.feature);
    json.Field("reason", missing.reason);
    json.EndObject();
  }
  json.EndArray();
  json.Field("step_source", ToString(torch.step_source));
  json.Field("operator_count", torch.operator_count);
  json.Field("tensor_use_count", torch.tensor_use_count);
  json.Field("note_count", torch.note_count);
  json.Field("block_count", torch.block_count);
  json.Field("folded_count", torch.folded_count);
  json.Field("cut_input_count", torch.cut_input_count);
  json.Field("odd_tensor_count", torch.odd_tensor_count);
  json.Field("lost_note_count", torch.lost_note_count);
  json.Field("missed_memory_count", torch.missed_memory_count);
  json.EndObject();
}

void WriteGpuJson(const GpuRecord& gpu, JsonWriter& json) {
  json.Key("gpu").BeginObject();
  json.Field("outcome", ToString(gpu.outcome));
  json.Field("mode", ToString(gpu.mode));
  json.Field("problem", gpu.problem);
  json.Field("simulated", gpu.simulated);
  json.Field("cupti_version", gpu.cupti_version);
  json.Field("driver_version", gpu.driver_version);
  json.Field("arm_ns", gpu.arm_ns);
  json.Field("clock_error_ns", gpu.clock_error_ns);
  json.Field("clock_step_count", gpu.clock_step_count);
  json.Field("peak_pool_bytes", gpu.peak_pool_bytes);
  json.Key("devices").BeginArray();
  for (const GpuDevice& device : gpu.devices) {
    json.BeginObject();
    json.Field("number", device.number);
    json.Field("name", device.name);
    json.Field("uuid", device.uuid);
    json.Field("memory_bytes", device.memory_bytes);
    json.Field("compute_major", device.compute_major);
    json.Field("compute_minor", device.compute_minor);
    json.Field("sm_count", device.sm_count);
    json.EndObject();
  }
  json.EndArray();
  json.Key("kind_failures").BeginArray();
  for (const GpuKindFailure& failure : gpu.kind_failures) {
    json.BeginObject();
    json.Field("kind", failure.kind);
    json.Field("result", failure.result);
    json.EndObject();
  }
  json.EndArray();
  json.Field("record_count", gpu.record_count);
  json.Field("stale_count", gpu.stale_count);
  json.Field("before_window_count", gpu.before_window_count);
  json.Field("after_window_count", gpu.after_window_count);
  json.Field("filtered_api_count", gpu.filtered_api_count);
  json.Field("orphan_count", gpu.orphan_count);
  json.Field("straddling_count", gpu.straddling_count);
  json.Field("unfinished_count", gpu.unfinished_count);
  json.EndObject();
}

// Nothing of a capture that profd recorded.
void WriteImportJson(const ImportRecord& imported, JsonWriter& json) {
  if (imported.source.empty()) return;
  json.Key("imported").BeginObject();
  json.Field("source", imported.source);
  json.Field("producer", imported.producer);
  json.Field("time_unit_ns", imported.time_unit_ns);
  json.Field("not_understood", imported.not_understood);
  json.EndObject();
}

void WriteCaptureTargetJson(const TargetInfo& target, JsonWriter& json) {
  json.Key("target").BeginObject();
  json.Field("pid", target.pid);
  json.Field("namespace_pid", target.namespace_pid);
  json.Field("uid", target.uid);
  json.Field("command", target.command);
  json.Field("cgroup", target.cgroup);
  json.Field("metadata", target.metadata);
  json.Field("library_version", target.library_version);
  json.EndObject();
}

void WriteWindowsJson(const CaptureView& view, JsonWriter& json) {
  json.Key("windows").BeginArray();
  for (const WindowRecord& window : view.record.windows) {
    json.BeginObject();
    json.Field("start_ns", window.start_ns);
    json.Field("end_ns", window.end_ns);
    json.Field("first_step", window.first_step);
    json.Field("end_step", window.end_step);
    json.EndObject();
  }
  json.EndArray();
  json.Key("steps").BeginArray();
  for (const StepRecord& step : view.steps) {
    json.BeginObject();
    json.Field("index", step.index);
    json.Field("window", step.window);
    json.Field("start_ns", step.start_ns);
    json.Field("duration_ns", step.duration_ns);
    json.EndObject();
  }
  json.EndArray();
}

void WriteSlowdownJson(const SlowdownRecord& slowdown, JsonWriter& json) {
  json.Key("slowdown").BeginObject();
  json.Field("known", slowdown.known);
  json.Field("unknown_reason", slowdown.unknown_reason);
  json.Field("estimate", slowdown.estimate);
  json.Field("low", slowdown.low);
  json.Field("high", slowdown.high);
  json.Field("before_step_count", slowdown.before_step_count);
  json.Field("during_step_count", slowdown.during_step_count);
  json.Field("after_step_count", slowdown.after_step_count);
  json.EndObject();
}

void WriteCountsJson(const CaptureView& view, JsonWriter& json) {
  const CaptureRecord& record = view.record;
  json.Field("event_count", record.event_count);
  json.Field("dropped_event_count", view.dropped_event_count);
  json.Field("dropped_by_reason", view.dropped_by_reason);
  json.Field("warmup_event_count", record.warmup_event_count);
  json.Field("open_range_count", record.open_range_count);
  json.Field("truncated_range_count", record.truncated_range_count);
  json.Field("other_name_event_count", record.other_name_event_count);
  json.Field("foreign_step_mark_count", record.foreign_step_mark_count);
  json.Field("clock_error_ns", record.clock_error_ns);
  json.Field("step_before_ns", record.step_before_ns);
  json.Field("step_during_ns", record.step_during_ns);
  json.Field("step_after_ns", record.step_after_ns);
  WriteSlowdownJson(record.slowdown, json);
  json.Field("quality", view.quality);
  const Quality quality = QualityOf(record);
  json.Field("quality_stored", quality.stored);
  WriteQualityChecksJson(quality, json);
}

// "steps 120 to 124", "3 windows of 5 steps", "2.000s", "nothing".
std::string Covered(const CaptureView& view) {
  const CaptureRecord& record = view.record;
  if (record.start_unix_ns == 0) return "nothing";
  const std::string time = FormatNs(record.covered_ns);
  if (record.covered_steps == 0) return time;
  std::string text =
      StrCat(FormatCount(record.covered_steps), record.covered_steps == 1 ? " step" : " steps");
  if (record.windows.size() == 1 && record.windows[0].first_step >= 0) {
    StrAppend(&text, " (", record.windows[0].first_step);
    if (record.covered_steps > 1) StrAppend(&text, " to ", record.windows[0].end_step - 1);
    StrAppend(&text, ")");
  } else if (record.windows.size() > 1) {
    StrAppend(&text, " in ", record.windows.size(), " windows");
  }
  if (const StepSource source = record.torch.step_source; source > StepSource::kMarks) {
    StrAppend(&text, " from ", ToString(source));
  }
  return StrCat(text, ", ", time);
}

// "trace.json, by torch.profiler, times in whole us".
std::string ImportText(const ImportRecord& imported) {
  if (imported.source.empty()) return "";
  std::string text = imported.source;
  if (!imported.producer.empty()) StrAppend(&text, ", by ", imported.producer);
  if (imported.time_unit_ns > 1) {
    StrAppend(&text, ", times in steps of ", FormatNs(imported.time_unit_ns));
  }
  return text;
}

std::string NotUnderstood(const ImportRecord& imported) {
  std::string text;
  for (const auto& [kind, count] : imported.not_understood) {
    StrAppend(&text, text.empty() ? "not understood: " : ", ", FormatCount(count), " ", kind);
  }
  return text;
}

std::string Asked(const CaptureSpec& spec) {
  if (spec.steps == 0) return FormatNs(absl::ToInt64Nanoseconds(spec.duration));
  std::string text = StrCat(FormatCount(spec.steps), spec.steps == 1 ? " step" : " steps");
  if (spec.repeat > 1) StrAppend(&text, " × ", spec.repeat, " windows");
  StrAppend(&text, ", warm-up ", spec.warmup_steps);
  if (spec.wait_steps > 0) StrAppend(&text, ", wait ", spec.wait_steps);
  if (spec.start_step >= 0) StrAppend(&text, ", from step ", spec.start_step);
  if (!spec.step_marker.empty()) StrAppend(&text, ", a step per '", spec.step_marker, "'");
  if (spec.torch.step_source != StepSource::kNone) {
    StrAppend(&text, ", steps from ", ToString(spec.torch.step_source));
  }
  return text;
}

// Median step times. How much of the difference is due to recording, the line below it says.
std::string Perturbation(const CaptureRecord& record) {
  if (record.step_during_ns == 0) return "";
  std::string text = StrCat(FormatNs(record.step_during_ns), " in the window");
  if (record.step_before_ns > 0) {
    StrAppend(&text, ", ", FormatNs(record.step_before_ns), " before");
  }
  if (record.step_after_ns > 0) StrAppend(&text, ", ", FormatNs(record.step_after_ns), " after");
  return text;
}

// "simulated, default: 1 device (NVIDIA H200), 1,234 records"; empty where none was asked for.
std::string GpuSummary(const GpuRecord& gpu) {
  if (gpu.outcome == GpuOutcome::kOff) return "";
  if (gpu.outcome == GpuOutcome::kNoCuda) return "not recorded: the process uses no CUDA";
  std::string text = gpu.simulated ? "simulated, " : "";
  if (gpu.outcome != GpuOutcome::kRecorded) StrAppend(&text, ToString(gpu.outcome), ", ");
  StrAppend(&text, ToString(gpu.mode), ": ", gpu.devices.size(),
            gpu.devices.size() == 1 ? " device" : " devices");
  std::string names;
  for (const GpuDevice& device : gpu.devices) {
    // One of each name: a node's GPUs are mostly alike.
    if (device.name.empty() || names.find(device.name) != std::string::npos) continue;
    StrAppend(&names, names.empty() ? "" : ", ", device.name);
  }
  if (!names.empty()) StrAppend(&text, " (", names, ")");
  // Who never said how it went never said how many there were.
  if (gpu.outcome == GpuOutcome::kUnknown) return text;
  return StrCat(text, ", ", FormatCount(gpu.record_count), " records");
}

// What is to be known of the records: how many were left out, or lack something.
std::string GpuCounts(const GpuRecord& gpu) {
  std::string text;
  const auto add = [&text](int64_t count, std::string_view what) {
    if (count != 0) StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), what);
  };
  add(gpu.orphan_count, " launched outside the capture");
  add(gpu.straddling_count, " over the window's edge");
  add(gpu.unfinished_count, " still running");
  add(gpu.before_window_count, " before the window");
  add(gpu.after_window_count, " after it");
  add(gpu.stale_count, " of an earlier capture");
  return text;
}

std::string GpuKindFailures(const GpuRecord& gpu) {
  std::string text;
  for (const GpuKindFailure& failure : gpu.kind_failures) {
    StrAppend(&text, text.empty() ? "not recorded: " : ", ", failure.kind, " (", failure.result,
              ")");
  }
  return text;
}

// "2.6.0: 1,234 operators with shapes, memory"; empty where none was asked for, or where there
// is no torch and nobody had asked for it by name.
std::string TorchSummary(const CaptureRecord& record) {
  const TorchRecord& torch = record.torch;
  if (torch.outcome == TorchOutcome::kOff) return "";
  if (torch.outcome == TorchOutcome::kNoTorch) {
    return record.spec.torch == TorchSpec() ? "" : "not recorded: no PyTorch that can be used";
  }
  std::string text = torch.version;
  const auto add = [&text](std::string_view what) {
    StrAppend(&text, text.empty() ? "" : ", ", what);
  };
  if (torch.outcome != TorchOutcome::kRecorded) add(ToString(torch.outcome));
  // Who never said how it went has operators all the same.
  if (torch.operator_count > 0 || torch.operators != OperatorMode::kOff) {
    add(StrCat(FormatCount(torch.operator_count), " operators",
               torch.operators == OperatorMode::kShapes ? " with shapes" : ""));
  }
  if (torch.memory) add("memory");
  return text;
}

// What is to be known of the operators: how many were left out, or lack something.
std::string TorchCounts(const TorchRecord& torch) {
  std::string text;
  const auto add = [&text](int64_t count, std::string_view what) {
    if (count != 0) StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), what);
  };
  add(torch.folded_count, " inside of compilations left out");
  add(torch.cut_input_count, " without all of their inputs");
  add(torch.odd_tensor_count, " odd tensors");
  add(torch.lost_note_count, " notes and blocks lost");
  add(torch.missed_memory_count, " memory events missed");
  return text;
}

std::string TorchMissingText(const TorchRecord& torch) {
  std::string text;
  for (const TorchMissing& missing : torch.missing) {
    StrAppend(&text, text.empty() ? "not recorded: " : ", ", missing.feature);
    if (!missing.reason.empty()) StrAppend(&text, " (", missing.reason, ")");
  }
  return text;
}

std::string Labels(const std::map<std::string, std::string>& labels) {
  std::string text;
  for (const auto& [key, value] : labels) {
    StrAppend(&text, text.empty() ? "" : " ", key, "=", value);
  }
  return text;
}

std::string Process(const TargetInfo& target) {
  std::string text = StrCat("pid ", target.pid);
  const auto rank = target.metadata.find("rank");
  if (rank != target.metadata.end()) StrAppend(&text, ", rank ", rank->second);
  StrAppend(&text, ", uid ", target.uid);
  if (!target.command.empty()) StrAppend(&text, ": ", target.command);
  return text;
}

class Lines {
 public:
  explicit Lines(const Style& style) : style_(style) {}
  void Add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    constexpr size_t kNameWidth = 12;
    constexpr size_t kLongestValue = 8192;
    std::string shown = ForDisplay(value, kLongestValue);
    if (style_.width > static_cast<int>(2 * kNameWidth)) {
      shown = CutToWidth(shown, static_cast<size_t>(style_.width) - kNameWidth - 2);
    }
    StrAppend(&text_, "  ", style_.Paint(Colour::kDim, absl::StrFormat("%-12s", ToAbsl(name))),
              shown, "\n");
  }
  std::string Take() { return std::move(text_); }

 private:
  const Style& style_;
  std::string text_;
};

void AddReason(std::string* text, std::string_view reason, int64_t count) {
  StrAppend(text, "  ", reason, " ", FormatCount(count));
  const std::string_view advice = AdviceForDrop(reason);
  if (!advice.empty()) StrAppend(text, ": ", advice);
  text->push_back('\n');
}

Colour ColourOfGrade(std::string_view grade) {
  if (grade == "A") return Colour::kGreen;
  if (grade == "B" || grade == "-") return Colour::kYellow;
  return Colour::kRed;
}

std::string StepsCell(const CaptureRecord& record) {
  if (!record.imported.source.empty() && record.covered_steps > 0) {
    return FormatCount(record.covered_steps);
  }
  if (record.spec.steps == 0) return FormatNs(record.covered_ns);
  return StrCat(record.covered_steps, "/", record.spec.steps * record.spec.repeat);
}

}  // namespace

Colour ColourOf(CaptureState state) {
  switch (state) {
    case CaptureState::kComplete:
      return Colour::kNone;
    case CaptureState::kPartial:
    case CaptureState::kCancelled:
      return Colour::kYellow;
    case CaptureState::kFailed:
      return Colour::kRed;
    default:
      return Colour::kGreen;  // live
  }
}

void WriteCaptureJson(const CaptureView& view, std::string_view path, JsonWriter& json,
                      std::span<const report::StepLabel> step_labels) {
  const CaptureRecord& record = view.record;
  json.BeginObject();
  json.Field("id", record.id);
  json.Field("group", record.group_id);
  json.Field("state", view.state);
  json.Field("ended_by", view.ended_by);
  json.Field("error_reason", record.error_reason);
  json.Field("error_message", record.error_message);
  json.Field("display_name", record.spec.display_name);
  json.Field("labels", record.spec.labels);
  json.Field("node", record.node);
  json.Field("requested_by_uid", record.requested_by_uid);
  json.Field("requested_by", record.requested_by);
  json.Field("schedule", record.schedule_id);
  json.Field("schedule_window_unix_ns", record.schedule_window_unix_ns);
  json.Field("sampling_weight", record.sampling_weight);
  json.Field("request_id", record.request_id);
  json.Field("create_unix_ns", UnixNanosOrZero(record.create_time));
  json.Field("armed_unix_ns", UnixNanosOrZero(record.armed_time));
  json.Field("end_unix_ns", UnixNanosOrZero(record.end_time));
  json.Field("start_unix_ns", record.start_unix_ns);
  json.Field("covered_ns", record.covered_ns);
  json.Field("covered_steps", record.covered_steps);
  json.Field("current_step", record.current_step);
  WriteWindowsJson(view, json);
  WriteCountsJson(view, json);
  json.Field("file_bytes", record.file_bytes);
  json.Field("file_sha256", record.file_sha256);
  json.Field("deleted", record.deleted);
  json.Field("pinned", view.pinned);
  json.Field("activity", record.activity);
  json.Field("simulated", record.gpu.simulated);
  WriteGpuJson(record.gpu, json);
  WriteTorchRecordJson(record.torch, json);
  WriteImportJson(record.imported, json);
  WriteSpecJson(record.spec, json);
  WriteCaptureTargetJson(record.target, json);
  if (!path.empty()) json.Field("path", path);
  if (!step_labels.empty()) {
    json.Key("step_labels").BeginArray();
    for (const report::StepLabel& label : step_labels) {
      json.BeginObject();
      json.Field("name", label.name);
      json.Field("value", label.value);
      json.Field("step", label.step);
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
}

const table::Description<CaptureView>& ReportHeaderColumns() {
  static const table::Description<CaptureView> columns = {
      {[](const CaptureView& view) { return view.record.id; },
       {.key = "id", .title = "Capture", .doc = "The capture's ULID"}},
      {&CaptureView::state,
       {.key = "state", .title = "State", .doc = "COMPLETE, PARTIAL, FAILED, or CANCELLED"}},
      {&CaptureView::ended_by, {.key = "ended_by", .title = "Ended by", .doc = "What ended it"}},
      {[](const CaptureView& view) { return view.record.start_unix_ns; },
       {.key = "start_unix_ns",
        .title = "Start",
        .doc = "When the window began, ns since 1970-01-01 UTC",
        .unit = table::Unit::kNs}},
      {&CaptureView::quality,
       {.key = "quality", .title = "Quality", .doc = "The grade, A to D; -: none"}},
      {[](const CaptureView& view) { return view.record.event_count; },
       {.key = "event_count",
        .title = "Events",
        .doc = "Events that were kept",
        .unit = table::Unit::kCount}},
      {&CaptureView::dropped_event_count,
       {.key = "dropped_event_count",
        .title = "Lost",
        .doc = "Events that were lost",
        .unit = table::Unit::kCount}},
      {[](const CaptureView& view) { return std::string(ToString(SharesOf(view))); },
       {.key = "shares",
        .title = "Shares",
        .doc = "How far shares of a whole can be trusted: whole, marked, or withheld"}},
      {[](const CaptureView& view) { return view.record.gpu.simulated; },
       {.key = "simulated",
        .title = "Simulated",
        .doc = "Whether the GPU was simulated by software"}}};
  return columns;
}

void WriteReportHeaderJson(const CaptureView& view, JsonWriter& json) {
  table::WriteFields(ReportHeaderColumns().ToTable("header", std::span(&view, 1)), 0, json);
}

std::string RenderCapture(const CaptureView& view, const Style& style,
                          std::span<const report::StepLabel> step_labels) {
  const CaptureRecord& record = view.record;
  Lines lines(style);
  lines.Add("name", record.spec.display_name);
  lines.Add("labels", Labels(record.spec.labels));
  lines.Add("group", record.group_id);
  lines.Add("target", Process(record.target));
  lines.Add("node", record.node);
  lines.Add("created", FormatLocalTime(record.create_time));
  lines.Add("imported", ImportText(record.imported));
  lines.Add("", NotUnderstood(record.imported));
  if (record.imported.source.empty()) lines.Add("asked", Asked(record.spec));
  lines.Add("covered", Covered(view));
  lines.Add("events", StrCat(FormatCount(record.event_count), " kept, ",
                             FormatCount(view.dropped_event_count), " lost"));
  lines.Add("GPU", GpuSummary(record.gpu));
  lines.Add("", GpuCounts(record.gpu));
  lines.Add("", GpuKindFailures(record.gpu));
  lines.Add("GPU problem", record.gpu.problem);
  lines.Add("PyTorch", TorchSummary(record));
  lines.Add("", TorchCounts(record.torch));
  lines.Add("", TorchMissingText(record.torch));
  lines.Add("step time", Perturbation(record));
  if (IsTerminal(record.state) && record.imported.source.empty() && record.start_unix_ns != 0) {
    lines.Add("slow-down", DescribeSlowdown(record.slowdown));
  }
  lines.Add("framework", report::StepLabelsText(step_labels));
  if (record.clock_error_ns > 0) {
    lines.Add("times", StrCat("within ", FormatNs(record.clock_error_ns)));
  }
  if (record.deleted) {
    lines.Add("file", "deleted");
  } else if (record.file_bytes > 0) {
    lines.Add("file", StrCat(FormatBytes(record.file_bytes), view.pinned ? ", pinned" : ""));
    lines.Add("sha256", record.file_sha256);
  }
  if (!record.error_message.empty()) {
    lines.Add("error", StrCat(record.error_message, " [", record.error_reason, "]"));
  }
  std::string title = StrCat("Capture ", record.id, "  ", view.state);
  if (!view.ended_by.empty()) StrAppend(&title, " (", view.ended_by, ")");
  return StrCat(style.Paint(Colour::kBold, ForDisplay(title, 200)), "\n", lines.Take(),
                RenderQuality(view, style));
}

ShareTrust SharesOf(const CaptureView& view) {
  return TrustOfShares(LostShare(view.dropped_event_count, view.record.event_count));
}

Style StyleFor(const CaptureView& view, Style style) {
  style.shares = SharesOf(view);
  return style;
}

std::string RenderReportHeader(const CaptureView& view, const Style& style) {
  const std::string title =
      StrCat("Capture ", view.record.id, "  ", view.state, "  pid ", view.record.target.pid, "  ",
             Covered(view), view.record.gpu.simulated ? "  simulated GPU" : "");
  return StrCat(style.Paint(Colour::kBold, ForDisplay(title, 300)), "\n",
                RenderQuality(view, style));
}

namespace {

// What lowers the grade and is not said by a line of its own.
void AddFailedChecks(const CaptureRecord& record, std::string* text) {
  if (!IsTerminal(record.state)) return;
  for (const QualityCheck& check : QualityOf(record).checks) {
    const bool said = check.name == "loss" || check.name == "names" ||
                      check.name == "clock_error_ns" || check.name == "gpu_recording" ||
                      (check.name == "coverage" && record.state == CaptureState::kPartial);
    if (check.failed() && !said) StrAppend(text, "  ", ForDisplay(check.sentence, 300), "\n");
  }
}

void AddShareTrust(const CaptureView& view, std::string* text) {
  const ShareTrust shares = SharesOf(view);
  if (shares == ShareTrust::kWithheld) {
    StrAppend(text, "  too many events are missing to show percentages: they are \"-\"\n");
  } else if (shares == ShareTrust::kMarked) {
    StrAppend(text, "  percentages refer to the events that were kept, and begin with ~\n");
  }
}

}  // namespace

void WriteQualityChecksJson(const Quality& quality, JsonWriter& json) {
  json.Key("quality_checks").BeginArray();
  for (const QualityCheck& check : quality.checks) {
    json.BeginObject();
    json.Field("check", check.name);
    json.Field("grade", std::string(1, check.grade));
    json.Field("known", check.known);
    json.Field("value", check.value);
    json.Field("bound", check.bound);
    json.Field("sentence", check.sentence);
    json.EndObject();
  }
  json.EndArray();
}

std::string RenderQuality(const CaptureView& view, const Style& style) {
  const CaptureRecord& record = view.record;
  const int64_t lost = view.dropped_event_count;
  std::string headline = StrCat("Quality ", view.quality, ": ");
  if (!IsTerminal(record.state)) {
    StrAppend(&headline, "not ended yet");
  } else if (record.start_unix_ns == 0) {
    StrAppend(&headline, "nothing was recorded");
  } else if (!record.imported.source.empty()) {
    StrAppend(&headline, "imported trace: event loss unknown");
  } else if (lost == 0) {
    StrAppend(&headline, "no events were lost");
  } else {
    StrAppend(&headline, FormatCount(lost), " of ", FormatCount(lost + record.event_count),
              " events were lost (", FormatPercent(lost, lost + record.event_count), ")");
  }
  if (IsGradeMissing(record)) {
    StrAppend(&headline, " (graded now: an older profd stored no grade)");
  }
  std::string text =
      StrCat(style.Paint(ColourOfGrade(view.quality), ForDisplay(headline, 200)), "\n");
  for (const auto& [reason, count] : view.dropped_by_reason) {
    AddReason(&text, ForDisplay(reason, 40), count);
  }
  AddFailedChecks(record, &text);
  AddShareTrust(view, &text);
  if (record.state == CaptureState::kPartial) {
    StrAppend(&text, "  PARTIAL, ended by ", ForDisplay(view.ended_by, 40));
    const std::string_view advice = AdviceForEnd(view.ended_by);
    if (!advice.empty()) StrAppend(&text, ": ", advice);
    StrAppend(&text, "\n");
  }
  if (record.other_name_event_count > 0) {
    StrAppend(&text, "  ", FormatCount(record.other_name_event_count),
              " events are named (other): the program uses too many distinct names\n");
  }
  if (record.clock_error_ns > kTellingClockErrorNs) {
    StrAppend(&text, "  times may be off by up to ", FormatNs(record.clock_error_ns), "\n");
  }
  if (record.foreign_step_mark_count > 0) {
    StrAppend(&text, "  ", FormatCount(record.foreign_step_mark_count),
              record.spec.step_marker.empty()
                  ? " step marks came from other threads and were not counted as steps\n"
                  : " step marks were the program's own, or of other threads, and were not counted "
                    "as steps\n");
  }
  return text;
}

namespace {

std::string CaptureTable(std::span<const CaptureView> views, bool has_nodes, absl::Time now,
                         const Style& style) {
  std::vector<Column> columns = {
      {.title = "ID", .right = false},
      {.title = "AGE", .drop_order = 4},
      {.title = "STATE", .right = false},
      {.title = "PID"},
      {.title = "STEPS", .drop_order = 3},
      {.title = "EVENTS", .drop_order = 5},
      {.title = "LOST", .drop_order = 2},
      {.title = "GRADE", .right = false, .drop_order = 1},
      {.title = "SIZE", .drop_order = 6},
      {.title = "NAME", .right = false, .flexible = true, .drop_order = 7}};
  if (has_nodes) columns.insert(columns.begin(), {.title = "NODE", .right = false});
  Table table(std::move(columns));
  for (const CaptureView& view : views) {
    const CaptureRecord& record = view.record;
    std::string name =
        record.spec.display_name.empty() ? record.imported.source : record.spec.display_name;
    if (name.empty()) name = ShortCommand(record.target.command);
    const std::string labels = Labels(record.spec.labels);
    if (!labels.empty()) StrAppend(&name, name.empty() ? "" : "  ", labels);
    if (view.pinned) StrAppend(&name, name.empty() ? "" : "  ", "(pinned)");
    if (record.gpu.simulated) StrAppend(&name, name.empty() ? "" : "  ", "(simulated GPU)");
    std::vector<std::string> cells = {record.id,
                                      FormatAge(now - record.create_time),
                                      view.state,
                                      StrCat(record.target.pid),
                                      StepsCell(record),
                                      FormatCount(record.event_count),
                                      FormatCount(view.dropped_event_count),
                                      view.quality,
                                      record.deleted           ? "deleted"
                                      : record.file_bytes == 0 ? "-"
                                                               : FormatBytes(record.file_bytes),
                                      name};
    if (has_nodes) cells.insert(cells.begin(), record.node);
    table.AddRow(std::move(cells), ColourOf(record.state));
  }
  return table.Render(style);
}

}  // namespace

std::string RenderCaptureTable(std::span<const CaptureView> views, absl::Time now,
                               const Style& style) {
  return CaptureTable(views, /*has_nodes=*/false, now, style);
}

std::string RenderNodeCaptureTable(std::span<const CaptureView> views, absl::Time now,
                                   const Style& style) {
  return CaptureTable(views, /*has_nodes=*/true, now, style);
}

std::string RenderGroupTable(std::span<const CaptureView> views, const Style& style) {
  Table table({{.title = "PID"},
               {.title = "RANK", .drop_order = 2},
               {.title = "STATE", .right = false},
               {.title = "ENDED BY", .right = false, .drop_order = 3},
               {.title = "STEPS"},
               {.title = "STEP TIME", .drop_order = 1},
               {.title = "EVENTS", .drop_order = 4},
               {.title = "LOST"},
               {.title = "GRADE", .right = false},
               {.title = "CAPTURE", .right = false}});
  for (const CaptureView& view : views) {
    const CaptureRecord& record = view.record;
    const auto rank = record.target.metadata.find("rank");
    table.AddRow(
        {StrCat(record.target.pid), rank == record.target.metadata.end() ? "-" : rank->second,
         view.state, view.ended_by, StepsCell(record),
         record.step_during_ns > 0 ? FormatNs(record.step_during_ns) : "-",
         FormatCount(record.event_count), FormatCount(view.dropped_event_count), view.quality,
         StrCat(record.id, record.gpu.simulated ? " (simulated GPU)" : "")},
        ColourOf(record.state));
  }
  return table.Render(style);
}

}  // namespace profd::cli
