#include "daemon/import/trace_import.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/import_record.h"
#include "daemon/import/kept_part.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_file.h"
#include "daemon/import/trace_header.h"
#include "daemon/import/trace_splitter.h"
#include "daemon/report/findings/quality.h"
#include "daemon/store/file/writer.h"

namespace profd::importer {
namespace {

// For the writer, which puts rows away early where time passes: the order of a file's rows would
// depend on the machine. Of an import that does not end nothing is kept.
class StoppedClock : public Clock {
 public:
  explicit StoppedClock(Clock& clock) : clock_(clock) {}
  absl::Time Now() override { return clock_.Now(); }
  absl::Duration Monotonic() override { return absl::ZeroDuration(); }

 private:
  Clock& clock_;
};

class Import : public TraceSplitter::Handler {
 public:
  Import(TraceFile& file, CaptureSink& sink, const ImportOptions& options)
      : file_(file), options_(options), builder_(sink, not_understood_, options.directory) {}

  absl::Status Read() { return TraceSplitter(file_, *this).Run(); }

  absl::Status OnMember(std::string_view key, std::string_view value, int64_t) override {
    header_.Add(key, value, not_understood_);
    if (key == "distributedInfo") builder_.SetGroupNames(header_.group_names());
    if (key == "profd" && header_.is_ours()) {
      builder_.SetIsOurs(/*is_continuous=*/!header_.has_windows());
      builder_.SetThreads(header_.pid(), header_.threads());
    }
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
        },
        [this](int64_t byte) { OnDamagedEvent(byte); });
  }

  absl::Status OnCutOff(const TraceSplitter::CutOff& cut) override {
    using enum TraceSplitter::CutPlace;
    cut_ = cut;
    const std::string_view place = cut.place == kInEvent          ? "in an event"
                                   : cut.place == kBetweenEvents  ? "between events"
                                   : cut.place == kWithoutBracket ? kWithoutBracketPlace
                                                                  : "after its events";
    not_understood_.Count(StrCat(kCutOffKind, place, ", at byte ", cut.offset));
    return absl::OkStatus();
  }
  bool lacks_events() const {
    using enum TraceSplitter::CutPlace;
    return cut_.has_value() && (cut_->place == kInEvent || cut_->place == kBetweenEvents);
  }
  // Of a file that lacks events, where they are known to end.
  void SetKeptPart(const KeptPart& part) {
    has_kept_part_ = true;
    builder_.SetKeptPart(part);
  }

  void OnDamagedEvent(int64_t offset) override {
    // The place of each is only worth its name while they are few.
    if (++damaged_count_ <= kMostNamedPlaces) {
      not_understood_.Count(StrCat("event damaged at byte ", offset));
    } else {
      not_understood_.Count("events damaged at other bytes");
    }
    if (damaged_count_ == 1) first_damaged_ = offset;
  }

  // Whether it has what only ONNX Runtime's own profiles have.
  bool IsOfOnnxRuntime() const {
    constexpr std::array<std::string_view, 4> kOnly = {"cat:Session", "cat:Node", "cat:Api",
                                                       "arg:Kernel.grid_x"};
    return std::ranges::any_of(kOnly, [&](std::string_view kind) {
      return not_understood_.counts().contains(std::string(kind));
    });
  }
  static absl::Status OfOnnxRuntime() {
    return absl::InvalidArgumentError(
        "no torch.profiler trace: it is a profile that ONNX Runtime wrote itself; "
        "https://ui.perfetto.dev reads it");
  }

  // Says of what kinds the events are of which profd understands none.
  absl::Status NoEvents() const {
    if (cut_.has_value()) {
      return absl::DataLossError(StrCat("cut off: it ends at byte ", cut_->offset,
                                        ", before an event that profd understands is complete"));
    }
    if (damaged_count_ > 0) {
      return absl::DataLossError(
          StrCat("damaged at byte ", first_damaged_, ": no event in it can be read"));
    }
    if (IsOfOnnxRuntime()) return OfOnnxRuntime();
    const std::map<std::string, int64_t>& counts = not_understood_.counts();
    // Of an argument, only where nothing says more.
    const auto key = [](const auto& entry) {
      return std::pair(!entry.first.starts_with("arg:"), entry.second);
    };
    const auto most = std::ranges::max_element(counts, {}, key);
    std::string text = "there is no event in it that profd understands";
    if (most != counts.end()) {
      StrAppend(&text, ": it has ", most->second, " of kind '", most->first,
                most->first == "ph:X without cat" || most->first.starts_with(kUnreadDeviceKind)
                    ? "', as profilers of JAX and TensorFlow write them"
                    : "'",
                "; https://ui.perfetto.dev may read it");
    }
    return absl::InvalidArgumentError(text);
  }

  // Refuses what looks like a torch.profiler trace of one process, and is not.
  absl::Status CheckKind(const CaptureBuilder::Contents& contents) const {
    if (contents.operator_count == 0 && IsOfOnnxRuntime()) return OfOnnxRuntime();
    // A process numbers its launches. Ranks in containers may all have the same pid.
    const bool collides = contents.repeated_launch_count >= kFewestCollisions &&
                          contents.repeated_launch_count * 100 >= contents.launch_count;
    if (contents.recorded_pids.size() < 2 && collides) {
      return absl::FailedPreconditionError(
          StrCat(contents.repeated_launch_count, " of its ", contents.launch_count,
                 " launches have the correlation of another launch: it holds several processes "
                 "with one pid, and GPU work cannot be assigned. Import the traces that it was "
                 "merged from, each by itself"));
    }
    // One launch makes kernels on one GPU. Of a process whose calls are missing, the kernels would
    // be taken for another's.
    const bool is_split = contents.launch_count > 0 &&
                          contents.split_launch_count >= kFewestCollisions &&
                          contents.split_launch_count * 100 >= contents.launch_count;
    if (contents.recorded_pids.size() < 2 && is_split) {
      return absl::FailedPreconditionError(StrCat(
          contents.split_launch_count, " of its ", contents.launch_count,
          " launches have kernels on several GPUs: it holds several processes, of which some "
          "lack their CUDA calls, and GPU work cannot be assigned. Import the traces that it "
          "was merged from, each by itself"));
    }
    if (contents.recorded_pids.size() < 2) return absl::OkStatus();
    std::string pids;
    for (const std::string& pid : contents.recorded_pids) {
      if (pids.size() > kMaxPidsBytes) {
        pids += ", ...";
        break;
      }
      StrAppend(&pids, pids.empty() ? "" : ", ", ForDisplay(pid, kMaxPidsBytes));
    }
    return absl::FailedPreconditionError(
        StrCat("it holds ", contents.recorded_pids.size(), " processes (pid ", pids,
               "), which number their CUDA calls alike: GPU work cannot be assigned. "
               "Import the traces that it was merged from, each by itself"));
  }

  absl::StatusOr<CaptureBuilder::Contents> Finish() {
    if (parser_.replaced_bytes() > 0) {
      // A detail of a text: no event is lost.
      not_understood_.Count("arg:bytes that are not UTF-8", parser_.replaced_bytes());
    }
    if (parser_.non_finite_numbers() > 0) {
      not_understood_.Count("arg:numbers that are not finite", parser_.non_finite_numbers());
    }
    if (parser_.control_characters() > 0) {
      not_understood_.Count("arg:control characters in texts", parser_.control_characters());
    }
    builder_.SetBase(header_.base_unix_ns());
    return builder_.Finish();
  }
  // `record` as it is when all has been read.
  void Describe(const CaptureBuilder::Contents& contents, CaptureRecord& record) const;

 private:
  static constexpr int64_t kMostNamedPlaces = 8;
  static constexpr size_t kMaxPidsBytes = 80;
  static constexpr int64_t kFewestCollisions = 4;

  TraceFile& file_;
  const ImportOptions& options_;
  NotUnderstood not_understood_;
  TraceHeader header_;
  CaptureBuilder builder_;
  EventParser parser_;
  std::optional<TraceSplitter::CutOff> cut_;
  bool has_kept_part_ = false;
  int64_t damaged_count_ = 0;
  int64_t first_damaged_ = 0;
};

void Import::Describe(const CaptureBuilder::Contents& contents, CaptureRecord& record) const {
  header_.FillIn(record);
  header_.AddOtherEvents(contents.other_events, record);
  DescribeContents(contents, header_.base_unix_ns(), record);
  // The memory of a program that does not use torch is counted otherwise.
  if (header_.is_ours() && !header_.has_torch() && contents.operator_count == 0) record.torch = {};
  record.imported.not_understood = not_understood_.counts();
  if (has_kept_part_ || header_.was_cut_off()) {
    record.state = CaptureState::kPartial;
    record.ended_by = EndedBy::kStorage;
  }
  if (record.target.pid == 0) record.target.pid = contents.process.pid;
  // Ours has the command in its header, where it is known.
  if (!header_.is_ours()) record.target.command = contents.process.name;
}

// What is known of a trace that was found to lack events.
struct KnownCut {
  std::optional<KeptPart> part;  // nullopt: it lacks none with a time.
};

// Returns false, and leaves the writer as it is, if the trace lacks events and `cut` is null.
absl::StatusOr<bool> Fill(TraceFile& file, store::CaptureFileWriter& writer,
                          const ImportOptions& options, const KnownCut* cut,
                          CaptureRecord& record) {
  Import import(file, writer, options);
  if (cut != nullptr && cut->part.has_value()) import.SetKeptPart(*cut->part);
  RETURN_IF_ERROR(import.Read());
  if (import.lacks_events() && cut == nullptr) return false;
  ASSIGN_OR_RETURN(CaptureBuilder::Contents contents, import.Finish());
  RETURN_IF_ERROR(import.CheckKind(contents));
  if (contents.event_count == 0) {
    return import.NoEvents();
  }
  import.Describe(contents, record);
  writer.SetSteps(std::move(contents.steps));
  RETURN_IF_ERROR(writer.Finish(record, contents.start_ns));
  return true;
}

// Reads the trace once; as Fill().
absl::StatusOr<bool> MakeCapture(const std::filesystem::path& trace, Clock& clock,
                                 const ImportOptions& options, const KnownCut* cut,
                                 CaptureRecord& record) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceFile> file, TraceFile::Open(trace));
  StoppedClock stopped(clock);
  ASSIGN_OR_RETURN(const std::unique_ptr<store::CaptureFileWriter> writer,
                   store::CaptureFileWriter::Create(
                       record, stopped,
                       {.directory = options.directory,
                        .check_events = store::CheckerOf(report::CheckEventsForSeal),
                        .on_sealed = {}}));
  absl::StatusOr<bool> is_made = Fill(*file, *writer, options, cut, record);
  if (!is_made.ok() || !*is_made) writer->Discard();
  return is_made;
}

absl::StatusOr<KnownCut> FindCut(const std::filesystem::path& trace, const ImportOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TraceFile> file, TraceFile::Open(trace));
  KnownCut cut;
  ASSIGN_OR_RETURN(cut.part, FindKeptPart(*file, options.is_cancelled));
  return cut;
}

}  // namespace

absl::StatusOr<ImportedCapture> ImportTrace(const std::filesystem::path& trace, Clock& clock,
                                            const ImportOptions& options) {
  ImportedCapture imported = {.record = BeginImport(trace, options, clock.Now()), .file = {}};
  const CaptureRecord begun = imported.record;
  absl::StatusOr<bool> is_made = MakeCapture(trace, clock, options, nullptr, imported.record);
  if (is_made.ok() && !*is_made) {
    // Where a file that is cut off stops being complete is known only at its end.
    imported.record = begun;
    const absl::StatusOr<KnownCut> cut = FindCut(trace, options);
    if (!cut.ok()) return WithPath(cut.status(), trace);
    is_made = MakeCapture(trace, clock, options, &*cut, imported.record);
  }
  if (!is_made.ok()) return WithPath(is_made.status(), trace);
  imported.file = store::CapturePaths(options.directory, imported.record.id).sealed;
  return imported;
}

}  // namespace profd::importer
