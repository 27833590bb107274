#include "daemon/import/trace_import.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_file.h"
#include "daemon/import/trace_header.h"
#include "daemon/import/trace_splitter.h"
#include "daemon/report/findings/quality.h"
#include "daemon/store/file/writer.h"

namespace profd::importer {
namespace {

constexpr size_t kMaxSourceBytes = 255;

class Import : public TraceSplitter::Handler {
 public:
  Import(TraceFile& file, CaptureSink& sink, const ImportOptions& options)
      : file_(file), options_(options), builder_(sink, not_understood_, options.directory) {}

  absl::Status Read() { return TraceSplitter(file_, *this).Run(); }

  absl::Status OnMember(std::string_view key, std::string_view value, int64_t) override {
    header_.Add(key, value, not_understood_);
    if (header_.is_ours()) builder_.SetIsOurs();
    if (!header_.is_merged()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "it holds several captures on one time; export and import each by itself");
  }

  absl::Status OnEvents(std::string_view array, int64_t offset) override {
    if (options_.is_cancelled && options_.is_cancelled()) return absl::CancelledError();
    if (options_.on_progress) options_.on_progress(file_.done_bytes(), file_.total_bytes());
    return parser_.Parse(
        array, offset, [this](const TraceEvent& event) { return builder_.Add(event); },
        [this](const TraceEvent& event, std::string_view key) {
          builder_.AddUnknownArgument(event, key);
        });
  }

  // Says of what kinds the events are of which profd understands none.
  absl::Status NoEvents() const {
    const std::map<std::string, int64_t>& counts = not_understood_.counts();
    const auto most = std::ranges::max_element(
        counts, [](const auto& a, const auto& b) { return a.second < b.second; });
    std::string text = "there is no event in it that profd understands";
    if (most != counts.end()) {
      StrAppend(&text, ": it has ", most->second, " of kind '", most->first,
                "', which torch.profiler does not write; https://ui.perfetto.dev may read it");
    }
    return absl::InvalidArgumentError(text);
  }

  absl::StatusOr<CaptureBuilder::Contents> Finish() {
    if (parser_.replaced_bytes() > 0) {
      not_understood_.Count("bytes that are not UTF-8", parser_.replaced_bytes());
    }
    return builder_.Finish();
  }
  // `record` as it is when all has been read.
  void Describe(const CaptureBuilder::Contents& contents, CaptureRecord& record) const;

 private:
  void DescribeWindow(const CaptureBuilder::Contents& contents, CaptureRecord& record) const;

  TraceFile& file_;
  const ImportOptions& options_;
  NotUnderstood not_understood_;
  TraceHeader header_;
  CaptureBuilder builder_;
  EventParser parser_;
};

void Import::DescribeWindow(const CaptureBuilder::Contents& contents, CaptureRecord& record) const {
  WindowRecord window = {.start_ns = 0, .end_ns = contents.end_ns - contents.start_ns};
  if (!contents.steps.empty()) {
    window.first_step = contents.steps.front().index;
    window.end_step = contents.steps.back().index + 1;
  }
  record.windows = {window};
  record.covered_ns = window.end_ns;
  record.covered_steps = static_cast<int64_t>(contents.steps.size());
  record.ended_by = contents.steps.empty() ? EndedBy::kDuration : EndedBy::kSteps;
  int64_t start_unix_ns = 0;
  const bool fits =
      !__builtin_add_overflow(header_.base_unix_ns(), contents.epoch_ns, &start_unix_ns) &&
      !__builtin_add_overflow(start_unix_ns, contents.start_ns, &start_unix_ns);
  // 0 is "nothing recorded".
  record.start_unix_ns = fits && start_unix_ns > 0 ? start_unix_ns : 1;
  int64_t armed_unix_ns = 0;
  if (record.start_unix_ns > 1 && contents.profiler_start_ns.has_value() &&
      !__builtin_add_overflow(header_.base_unix_ns(), *contents.profiler_start_ns,
                              &armed_unix_ns)) {
    record.armed_time = absl::FromUnixNanos(armed_unix_ns);
  }
}

void Import::Describe(const CaptureBuilder::Contents& contents, CaptureRecord& record) const {
  header_.FillIn(record);
  DescribeWindow(contents, record);
  record.state = CaptureState::kComplete;
  record.event_count = contents.event_count;
  record.drops[static_cast<size_t>(DropReason::kTooDeep)] = contents.too_deep_count;
  record.drops[static_cast<size_t>(DropReason::kThinned)] = contents.thinned_count;
  record.other_name_event_count = contents.other_name_count;
  record.imported.not_understood = not_understood_.counts();
  record.imported.time_unit_ns = contents.whole_us ? 1000 : 1;
  if (record.target.pid == 0) record.target.pid = contents.process.pid;
  // Ours has the command in its header, where it is known.
  if (!header_.is_ours()) record.target.command = contents.process.name;

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
  record.torch.step_source = contents.steps.empty() ? StepSource::kNone : StepSource::kProfiler;
}

absl::Status WithPath(const absl::Status& status, const std::filesystem::path& path) {
  return absl::Status(status.code(),
                      StrCat(ForDisplay(path.string(), 4096), ": ", FromAbsl(status.message())));
}

CaptureRecord BeginRecord(const std::filesystem::path& trace, const ImportOptions& options,
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

absl::Status Fill(TraceFile& file, store::CaptureFileWriter& writer, const ImportOptions& options,
                  CaptureRecord& record) {
  Import import(file, writer, options);
  RETURN_IF_ERROR(import.Read());
  ASSIGN_OR_RETURN(CaptureBuilder::Contents contents, import.Finish());
  if (contents.event_count == 0) {
    return import.NoEvents();
  }
  import.Describe(contents, record);
  writer.SetSteps(std::move(contents.steps));
  return writer.Finish(record, contents.start_ns);
}

}  // namespace

absl::StatusOr<ImportedCapture> ImportTrace(const std::filesystem::path& trace, Clock& clock,
                                            const ImportOptions& options) {
  auto file = TraceFile::Open(trace);
  if (!file.ok()) return WithPath(file.status(), trace);
  ImportedCapture imported = {.record = BeginRecord(trace, options, clock.Now()), .file = {}};
  const store::CapturePaths paths(options.directory, imported.record.id);
  ASSIGN_OR_RETURN(const std::unique_ptr<store::CaptureFileWriter> writer,
                   store::CaptureFileWriter::Create(imported.record, clock,
                                                    {.directory = options.directory,
                                                     .check_events = report::CheckEventsForSeal,
                                                     .on_sealed = {}}));
  if (absl::Status status = Fill(**file, *writer, options, imported.record); !status.ok()) {
    writer->Discard();
    return WithPath(status, trace);
  }
  imported.file = paths.sealed;
  return imported;
}

}  // namespace profd::importer
