#include "cli/render/capture.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "cli/base/errors.h"
#include "cli/base/short_names.h"
#include "cli/base/units.h"
#include "cli/client/resource_names.h"
#include "cli/render/report_tables.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/base/units.h"
#include "daemon/capture/quality.h"
#include "daemon/capture/slowdown.h"
#include "daemon/report/index/step_table.h"

namespace profd::cli {
namespace {

constexpr int64_t kTellingClockErrorNs = 1000;

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

// Older captures have a mean where only the capture counted the steps.
bool HasMeanStepTime(const CaptureRecord& record) {
  return CountsOwnSteps(record.spec) && record.covered_steps > 0 &&
         record.step_during_ns == record.covered_ns / record.covered_steps;
}

// Median step times. How much of the difference is due to recording, the line below it says.
std::string Perturbation(const CaptureRecord& record) {
  if (record.step_during_ns == 0) return "";
  std::string text = StrCat(FormatNs(record.step_during_ns), " in the window",
                            HasMeanStepTime(record) ? " (mean)" : " (median)");
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
// is no torch and it was not asked for by name.
std::string TorchSummary(const CaptureRecord& record) {
  const TorchRecord& torch = record.torch;
  if (torch.outcome == TorchOutcome::kOff) return "";
  if (torch.outcome == TorchOutcome::kNoTorch) {
    return record.spec.torch == TorchSpec()
               ? ""
               : "not recorded: no PyTorch is attached; where the program uses PyTorch, start it "
                 "with profctl run, or call profd.init()";
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
  if (torch.stack_count > 0) add(StrCat(FormatCount(torch.stack_count), " Python stacks"));
  return text;
}

// What is to be known of the operators: how many were left out, or lack something.
std::string TorchCounts(const TorchRecord& torch) {
  std::string text;
  const auto add = [&text](int64_t count, std::string_view what) {
    if (count != 0) StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), what);
  };
  add(torch.folded_count, " inside of compilations left out");
  add(torch.cut_input_count, " without all of their inputs or arguments");
  add(torch.odd_tensor_count, " odd tensors");
  add(torch.lost_note_count, " notes and blocks lost");
  add(torch.missed_memory_count, " memory events missed");
  add(torch.missing_stack_count, " stacks incomplete");
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
    StrAppend(&text, text.empty() ? "" : ", ", key, "=", value);
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

namespace {

// Empty: it is not known.
std::string AskedBy(const CaptureRecord& record) {
  const std::string who = ForDisplay(record.requested_by, 80);
  if (record.schedule_id.empty()) return who;
  return StrCat("schedule ", record.schedule_id, who.empty() ? "" : StrCat(" of ", who));
}

}  // namespace

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
  lines.Add("asked by", AskedBy(record));
  lines.Add("covered", Covered(view));
  lines.Add("events", StrCat(FormatCount(record.event_count), " kept, ",
                             FormatCount(view.dropped_event_count), " lost"));
  lines.Add("GPU", GpuSummary(record.gpu));
  lines.Add("", GpuCounts(record.gpu));
  lines.Add("", GpuKindFailures(record.gpu));
  lines.Add("GPU problem", record.gpu.problem);
  const std::string torch = TorchSummary(record);
  lines.Add("PyTorch", torch);
  // Ranges have arguments without torch, too.
  lines.Add(torch.empty() ? "ranges" : "", TorchCounts(record.torch));
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
    lines.Add("file", record.evicted ? "removed to make room for others" : "deleted");
  } else if (record.file_bytes > 0) {
    lines.Add("file", StrCat(FormatBytes(record.file_bytes), view.pinned ? ", pinned" : ""));
    lines.Add("sha256", record.file_sha256);
  }
  if (!record.error_message.empty()) {
    lines.Add("error", StrCat(record.error_message, " [", record.error_reason, "]"));
  }
  std::string title = StrCat("Capture ", record.id, "  ", view.state);
  // Nothing ended an import: its file did.
  const bool is_import = !record.imported.source.empty();
  if (!view.ended_by.empty() && !is_import) StrAppend(&title, " (", view.ended_by, ")");
  return StrCat(style.Paint(Colour::kBold, ForDisplay(title, 200)), "\n", lines.Take(),
                RenderQuality(view, style), RenderEvicted(std::span(&view, 1)));
}

std::string RenderEvicted(std::span<const CaptureView> views) {
  constexpr size_t kMostNamed = 16;
  int64_t count = 0;
  size_t own_count = 0;
  bool is_cut = false;
  std::string names;
  for (const CaptureView& view : views) {
    count += view.evicted_count;
    // A view with as many may not have all.
    is_cut = is_cut || view.evicted_ids.size() >= kMostNamed;
    for (const std::string& id : view.evicted_ids) {
      if (own_count++ >= kMostNamed) continue;
      StrAppend(&names, names.empty() ? "" : ", ", ForDisplay(id, kUlidLength));
    }
  }
  if (count <= 0) return "";
  const std::string_view captures = count == 1 ? " older capture" : " older captures";
  std::string text = StrCat("To make room, the events of ", count, captures);
  if (names.empty()) {
    // All IDs of the caller's own captures would be there.
    return StrCat(text, " of other users were removed\n");
  }
  StrAppend(&text, " were removed: ", names);
  const int64_t unnamed = count - static_cast<int64_t>(std::min(own_count, kMostNamed));
  if (unnamed > 0) {
    const bool is_others = !is_cut && own_count <= kMostNamed;
    StrAppend(&text, ", and ", unnamed, is_others ? " of other users" : " more");
  }
  return StrCat(text, " (to keep the events of a capture: profctl pin ID)\n");
}

ShareTrust SharesOf(const CaptureView& view) {
  return TrustOfShares(LostShare(view.dropped_event_count, view.record.event_count));
}

Style StyleFor(const CaptureView& view, Style style) {
  style.shares = SharesOf(view);
  return style;
}

std::string RenderReportTitle(const CaptureView& view, const Style& style) {
  const std::string title =
      StrCat("Capture ", view.record.id, "  ", view.state, "  pid ", view.record.target.pid, "  ",
             Covered(view), view.record.gpu.simulated ? "  simulated GPU" : "");
  return StrCat(style.Paint(Colour::kBold, ForDisplay(title, 300)), "\n");
}

std::string RenderReportHeader(const CaptureView& view, const Style& style) {
  return StrCat(RenderReportTitle(view, style), RenderQuality(view, style));
}

namespace {

// What a capture without lost events has its grade from. Of an imported trace, mostly that nothing
// is known of its losses.
std::optional<QualityCheck> WorstCheck(const CaptureRecord& record) {
  std::optional<QualityCheck> worst;
  const bool has_losses = record.imported.source.empty() && TotalDrops(record.drops) > 0;
  if (!IsTerminal(record.state) || record.start_unix_ns == 0 || has_losses) return worst;
  for (QualityCheck& check : QualityOf(record).checks) {
    if (!check.failed() || (worst.has_value() && check.grade <= worst->grade)) continue;
    worst = std::move(check);
  }
  return worst;
}

// What lowers the grade and is not said by the headline or by a line of its own.
void AddFailedChecks(const CaptureRecord& record, std::string_view headline, std::string* text) {
  if (!IsTerminal(record.state)) return;
  for (const QualityCheck& check : QualityOf(record).checks) {
    const bool said = check.name == headline || check.name == "loss" || check.name == "names" ||
                      check.name == "clock_error_ns" || check.name == "gpu_recording" ||
                      (check.name == "coverage" && record.state == CaptureState::kPartial &&
                       record.imported.source.empty());
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

std::string RenderQuality(const CaptureView& view, const Style& style) {
  const CaptureRecord& record = view.record;
  const int64_t lost = view.dropped_event_count;
  std::string headline = StrCat("Quality ", view.quality, ": ");
  const std::optional<QualityCheck> worst = WorstCheck(record);
  if (!IsTerminal(record.state)) {
    StrAppend(&headline, "not ended yet");
  } else if (record.start_unix_ns == 0) {
    StrAppend(&headline, "nothing was recorded");
  } else if (!record.imported.source.empty()) {
    StrAppend(&headline,
              worst.has_value() ? worst->sentence : "imported trace: event loss unknown");
  } else if (lost == 0) {
    if (worst.has_value()) StrAppend(&headline, worst->sentence, "; ");
    StrAppend(&headline, "no events were lost");
  } else {
    StrAppend(&headline, FormatCount(lost), " of ", FormatCount(lost + record.event_count),
              " events were lost (", FormatPercent(lost, lost + record.event_count), ")");
  }
  if (IsGradeMissing(record)) {
    StrAppend(&headline, " (graded now: an older profd stored no grade)");
  }
  std::string text =
      StrCat(style.Paint(ColourOfGrade(view.quality), ForDisplay(headline, 300)), "\n");
  for (const auto& [reason, count] : view.dropped_by_reason) {
    AddReason(&text, ForDisplay(reason, 40), count);
  }
  AddFailedChecks(record, worst.has_value() ? worst->name : "", &text);
  AddShareTrust(view, &text);
  if (record.state == CaptureState::kPartial && record.imported.source.empty()) {
    StrAppend(&text, "  PARTIAL, ended by ", ForDisplay(view.ended_by, 40));
    const bool was_stopped =
        view.ended_by == "deadline" && record.target.state == TargetState::kStopped;
    const std::string_view advice = was_stopped
                                        ? "the process is stopped (SIGSTOP, Ctrl-Z, a debugger)"
                                        : AdviceForEnd(view.ended_by);
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
                  ? " step marks came from other threads or asyncio tasks and were not counted as "
                    "steps\n"
                  : " step marks were the program's own, or of other threads or asyncio tasks, and "
                    "were not counted as steps\n");
  }
  return text;
}

namespace {

struct CaptureRow {
  const CaptureView* view = nullptr;
  absl::Time now;
};

// Its name, and what is special about it.
std::string NameCell(const CaptureView& view) {
  const CaptureRecord& record = view.record;
  std::string name =
      record.spec.display_name.empty() ? record.imported.source : record.spec.display_name;
  if (name.empty()) name = ShortCommand(record.target.command);
  const auto add = [&name](const std::string& more) {
    if (!more.empty()) StrAppend(&name, name.empty() ? "" : "  ", more);
  };
  if (view.pinned) add("(pinned)");
  if (record.gpu.simulated) add("(simulated GPU)");
  return name;
}

std::string SizeCell(const CaptureRecord& record) {
  if (record.deleted) return record.evicted ? "evicted" : "deleted";
  return record.file_bytes == 0 ? std::string() : FormatBytes(record.file_bytes);
}

const table::Description<CaptureRow>& CaptureRowColumns() {
  using Row = CaptureRow;
  static const table::Description<Row> columns = {
      {[](const Row& row) { return row.view->record.node; },
       {.title = "NODE", .doc = "Node of the daemon"}},
      {[](const Row& row) { return row.view->record.id; },
       {.title = "ID", .doc = "Capture ID; a unique prefix is enough"}},
      {[](const Row& row) { return FormatAge(row.now - row.view->record.create_time); },
       {.title = "AGE", .doc = "Time since it was requested", .priority = 4, .right = true}},
      {[](const Row& row) { return row.view->state; }, {.title = "STATE", .doc = "Capture state"}},
      {[](const Row& row) { return row.view->record.target.pid; },
       {.title = "PID", .doc = "Process ID on the daemon's node"}},
      {[](const Row& row) { return StepsCell(row.view->record); },
       {.title = "STEPS", .doc = "Complete steps recorded", .priority = 3, .right = true}},
      {[](const Row& row) { return row.view->record.event_count; },
       {.title = "EVENTS", .doc = "Events kept", .unit = table::Unit::kCount, .priority = 5}},
      {[](const Row& row) { return row.view->dropped_event_count; },
       {.title = "LOST", .doc = "Lost events", .unit = table::Unit::kCount, .priority = 2}},
      {[](const Row& row) { return row.view->quality; },
       {.title = "GRADE",
        .doc = "Quality grade, A to D; `profctl show ID` has the reasons",
        .priority = 1}},
      {[](const Row& row) { return SizeCell(row.view->record); },
       {.title = "SIZE", .doc = "Size of the capture file", .priority = 6, .right = true}},
      {[](const Row& row) {
         const std::string& id = row.view->record.group_id;
         return id.empty() ? std::string() : GroupName(id);
       },
       {.title = "GROUP",
        .doc = "Group of the captures of one job, for commands that take one",
        .priority = 9,
        .only_if_set = true}},
      {[](const Row& row) { return Labels(row.view->record.spec.labels); },
       {.title = "LABELS",
        .doc = "Labels given by its creator",
        .priority = 8,
        .only_if_set = true,
        .max_width = 40}},
      {[](const Row& row) { return NameCell(*row.view); },
       {.title = "NAME",
        .doc = "Name given by its creator; without one, the file of an import, or the command of "
               "the target",
        .priority = 7,
        .flexible = true}}};
  return columns;
}

const table::Description<CaptureView>& GroupRowColumns() {
  using Row = CaptureView;
  static const table::Description<Row> columns = {
      {[](const Row& row) { return row.record.target.pid; },
       {.title = "PID", .doc = "Process ID on the daemon's node"}},
      {[](const Row& row) {
         const auto& metadata = row.record.target.metadata;
         const auto rank = metadata.find("rank");
         return rank == metadata.end() ? std::string() : rank->second;
       },
       {.title = "RANK", .doc = "Rank, from the program's metadata", .priority = 2, .right = true}},
      {&Row::state, {.title = "STATE", .doc = "Capture state"}},
      {&Row::ended_by, {.title = "ENDED BY", .doc = "Reason for the end", .priority = 3}},
      {[](const Row& row) { return StepsCell(row.record); },
       {.title = "STEPS", .doc = "Complete steps recorded", .right = true}},
      {[](const Row& row) {
         const int64_t ns = row.record.step_during_ns;
         return ns > 0 ? FormatNs(ns) : std::string();
       },
       {.title = "STEP TIME",
        .doc = "Median time of its steps, as in `profctl steps`",
        .priority = 1,
        .right = true}},
      {[](const Row& row) { return row.record.event_count; },
       {.title = "EVENTS", .doc = "Events kept", .unit = table::Unit::kCount, .priority = 4}},
      {&Row::dropped_event_count,
       {.title = "LOST", .doc = "Lost events", .unit = table::Unit::kCount}},
      {&Row::quality,
       {.title = "GRADE", .doc = "Quality grade, A to D; `profctl show ID` has the reasons"}},
      {[](const Row& row) {
         return StrCat(row.record.id, row.record.gpu.simulated ? " (simulated GPU)" : "");
       },
       {.title = "CAPTURE", .doc = "The capture's ID"}}};
  return columns;
}

std::string CaptureTable(std::span<const CaptureView> views, bool has_nodes, absl::Time now,
                         const Style& style) {
  std::vector<CaptureRow> rows;
  for (const CaptureView& view : views) rows.push_back({&view, now});
  table::Table table = CaptureRowColumns().ToTable("captures", rows);
  if (!has_nodes) table.columns.front().priority = kOnlyInData;
  return RenderTable(table, style, [&](size_t row) { return ColourOf(views[row].record.state); });
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
  return RenderTable(GroupRowColumns().ToTable("captures", views), style,
                     [&](size_t row) { return ColourOf(views[row].record.state); });
}

std::vector<table::Column> CaptureColumns() { return CaptureRowColumns().columns(); }
std::vector<table::Column> GroupColumns() { return GroupRowColumns().columns(); }

}  // namespace profd::cli
