#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/failures.h"
#include "cli/base/interrupts.h"
#include "cli/captures/one_run.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/captures/scratch_folder.h"
#include "cli/client/daemon_client.h"
#include "cli/client/endpoints.h"
#include "cli/commands/command.h"
#include "cli/render/capture.h"
#include "cli/render/group_view.h"
#include "cli/render/outcomes.h"
#include "daemon/base/clock.h"
#include "daemon/base/json_writer.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/import/nsys/nsys_import.h"
#include "daemon/import/trace_import.h"
#include "daemon/import/trace_set.h"
#include "daemon/report/findings/quality.h"

namespace profd::cli {
namespace {

constexpr size_t kMostPathBytes = 4096;

// Whether it was not said which daemon to ask, and none answers where one would be looked for.
bool HasNoDaemon(Invocation& invocation) {
  const absl::StatusOr<ClientSettings> settings = invocation.Settings();
  if (!settings.ok() || !settings->from.empty()) return false;
  return ReasonOf(invocation.Daemon().status()) == kNoDaemonReason;
}

// "FOLDER/run.profd" of "run.json.gz".
std::string CaptureFileOf(const std::string& trace, const std::filesystem::path& folder) {
  std::string name = std::filesystem::path(trace).filename().string();
  for (const std::string_view suffix : {".gz", ".json", ".sqlite", ".trace", ".pt"}) {
    if (name.ends_with(suffix)) name.erase(name.size() - suffix.size());
  }
  return (folder / StrCat(name, ".profd")).string();
}

// A file whose name the user did not choose replaces none.
absl::Status CheckIsNew(const std::string& path) {
  std::error_code error;
  const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(path, error));
  if (is_new) return absl::OkStatus();
  return UsageError(StrCat("'", ForDisplay(path, kMostPathBytes),
                           "' is there already; name the new one with -o or --output-dir"));
}

// Where the captures go.
struct Outputs {
  std::vector<std::string> paths;  // Of each trace's capture; empty: into a daemon.
  bool keeps_files = false;        // A file that is there is not replaced.
};

absl::StatusOr<Outputs> OutputsOf(Invocation& invocation) {
  const std::vector<std::string>& traces = invocation.arguments();
  for (const std::string& trace : traces) {
    if (!trace.ends_with(".profd")) continue;
    return UsageError(StrCat("'", ForDisplay(trace, kMostPathBytes),
                             "' is a capture already: commands take it in place of an id"));
  }
  const std::optional<std::string> output = invocation.flags().Get("output");
  const std::optional<std::string> folder = invocation.flags().Get("output-dir");
  if (output.has_value() && folder.has_value()) {
    return UsageError("-o and --output-dir both say where to; leave one out");
  }
  Outputs outputs;
  outputs.keeps_files = !output.has_value() && !folder.has_value();
  if (outputs.keeps_files && !HasNoDaemon(invocation)) {
    outputs.paths.resize(traces.size());
    return outputs;
  }
  if (output.has_value()) {
    if (traces.size() != 1) return UsageError("-o is of one trace; use --output-dir of several");
    if (!output->ends_with(".profd")) {
      return UsageError("an imported capture must be named FILE.profd");
    }
    outputs.paths.push_back(*output);
  } else {
    for (const std::string& trace : traces) {
      outputs.paths.push_back(CaptureFileOf(trace, folder.value_or("")));
    }
  }
  for (const std::string& path : outputs.paths) {
    RETURN_IF_ERROR(CheckWritable(path));
    if (outputs.keeps_files) RETURN_IF_ERROR(CheckIsNew(path));
  }
  std::vector<std::string> sorted = outputs.paths;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return UsageError(StrCat("two of the traces would become ", ForDisplay(*twice, kMostPathBytes),
                             "; import them into different folders"));
  }
  if (outputs.keeps_files) {
    invocation.Note("No profd answers: captures become files in this folder.\n");
  }
  return outputs;
}

// Whether the traces are of the ranks of one job, which are captures of one group then.
importer::TraceSet FindSet(Invocation& invocation, Interrupts& interrupts) {
  const std::vector<std::string>& traces = invocation.arguments();
  if (traces.size() < 2 || invocation.flags().Has("no-group")) return {};
  std::vector<std::optional<importer::TraceRank>> ranks;
  for (const std::string& trace : traces) {
    auto rank = importer::RankOfTrace(trace, [&] { return interrupts.interrupted(); });
    // What is wrong with it the import says.
    if (!rank.ok()) return {};
    ranks.push_back(*rank);
  }
  importer::TraceSet set = importer::SetOf(traces, ranks);
  if (!set.contradiction.empty()) {
    invocation.Note(StrCat("No group: ", set.contradiction,
                           ". Each is a capture by itself; --no-group says that it shall be.\n"));
  }
  return set;
}

// The line about a complete or partial group.
std::string GroupNote(const std::string& group_id, const importer::TraceSet& set, size_t count) {
  std::string note = StrCat("Group ", group_id, ": ", count, " of ", set.world_size, " ranks");
  if (set.absent_count == 0) return note + "\n";
  StrAppend(&note, "; it is PARTIAL, without ", NameRanks(set.absent_ranks, set.absent_count));
  return note + ": no trace of it was given\n";
}

void NoteIfNotOneRun(Invocation& invocation, const std::vector<ImportedTrace>& captures) {
  std::vector<const CaptureRecord*> records;
  records.reserve(captures.size());
  for (const ImportedTrace& capture : captures) records.push_back(&capture.record);
  const absl::Status status = CheckOneRun(records);
  if (status.ok()) return;
  invocation.Note(StrCat("Reports will not compare them: ", FromAbsl(status.message()), "\n"));
}

// Where the captures of several processes go: "FOLDER/report-4711.profd". Processes of different
// machines may have one ID.
std::vector<std::string> PathsOfProcesses(const std::string& path,
                                          const std::vector<importer::ImportedCapture>& captures) {
  const std::filesystem::path whole = path;
  std::map<int64_t, int> seen;
  std::vector<std::string> paths;
  for (const importer::ImportedCapture& capture : captures) {
    const int64_t pid = capture.record.target.pid;
    std::string name = StrCat(whole.stem().string(), "-", pid);
    if (const int earlier = seen[pid]++; earlier > 0) StrAppend(&name, "-", earlier + 1);
    paths.push_back((whole.parent_path() / StrCat(name, ".profd")).string());
  }
  return paths;
}

// Processes of one file are a group of their own, unless they are not to be.
absl::StatusOr<std::vector<importer::ImportedCapture>> ReadTrace(const std::string& trace,
                                                                 importer::ImportOptions options,
                                                                 bool groups_processes) {
  if (importer::IsSqliteDatabase(trace)) {
    if (groups_processes) options.group_id = NewUlid(Clock::Real().Now());
    return importer::ImportNsys(trace, Clock::Real(), options);
  }
  std::vector<importer::ImportedCapture> captures;
  ASSIGN_OR_RETURN(captures.emplace_back(), importer::ImportTrace(trace, Clock::Real(), options));
  return captures;
}

// Sends a capture to the daemon, which checks it and makes it the caller's. Its ID changes where
// the daemon has another capture of that ID; its group's is empty where that group is another
// user's. An interrupt ends it as CANCELLED.
absl::StatusOr<ImportedTrace> Upload(Invocation& invocation, Interrupts& interrupts,
                                     ProgressLine& progress, importer::ImportedCapture imported) {
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  interrupts.OnInterrupt([daemon] { daemon->Abort(); });
  const absl::StatusOr<CaptureView> view = daemon->ImportCapture(
      imported.file, NewUlid(Clock::Real().Now()), [&](int64_t done, int64_t total) {
        progress.Show(TransferProgress("storing", done, total));
      });
  interrupts.OnInterrupt(nullptr);
  RETURN_IF_ERROR(view.status());
  imported.record.id = view->record.id;
  imported.record.group_id = view->record.group_id;
  return ImportedTrace{.record = std::move(imported.record), .stored = *view};
}

// Puts a capture that was made of a trace where it belongs: to `path`; empty: into a daemon.
absl::StatusOr<ImportedTrace> PutAway(Invocation& invocation, Interrupts& interrupts,
                                      ProgressLine& progress, const std::string& path,
                                      importer::ImportedCapture imported) {
  if (path.empty()) return Upload(invocation, interrupts, progress, std::move(imported));
  ASSIGN_OR_RETURN(const std::string to, PathToWrite(path));
  RETURN_IF_ERROR(MoveToFile(imported.file, to));
  return ImportedTrace{.record = std::move(imported.record), .path = path};
}

// One trace; an export of Nsight Systems may hold several processes, each of which is a capture.
absl::StatusOr<std::vector<ImportedTrace>> ImportOne(Invocation& invocation, Interrupts& interrupts,
                                                     const std::string& trace,
                                                     const std::string& path, bool keeps_files,
                                                     const std::string& group_id) {
  ProgressLine progress(invocation.error_style());
  std::string beside;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(beside, PathToWrite(path));
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchFolder> scratch,
      path.empty() ? ScratchFolder::MakeTemporary() : ScratchFolder::MakeBeside(beside));
  importer::ImportOptions options;
  options.directory = scratch->path();
  options.group_id = group_id;
  options.on_progress = [&](int64_t done, int64_t total) {
    progress.Show(TransferProgress("reading", done, total));
  };
  options.is_cancelled = [&] { return interrupts.interrupted(); };
  absl::StatusOr<std::vector<importer::ImportedCapture>> captures =
      ReadTrace(trace, options, !invocation.flags().Has("no-group"));
  if (!captures.ok()) return LocalFailure(captures.status());
  const bool is_one = captures->size() == 1;
  if (!is_one && invocation.flags().Has("output")) {
    return UsageError(StrCat("'", ForDisplay(trace, kMostPathBytes), "' holds ", captures->size(),
                             " processes, each a capture; use --output-dir in place of -o"));
  }
  std::vector<std::string> paths(captures->size(), path);
  if (!path.empty() && !is_one) {
    paths = PathsOfProcesses(path, *captures);
    for (const std::string& to : paths) {
      RETURN_IF_ERROR(CheckWritable(to));
      if (keeps_files) RETURN_IF_ERROR(CheckIsNew(to));
    }
  }
  std::vector<ImportedTrace> stored;
  for (size_t i = 0; i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(stored.emplace_back(), PutAway(invocation, interrupts, progress, paths[i],
                                                    std::move((*captures)[i])));
  }
  return stored;
}

// Prints a line about the group that the captures of one file form.
void NoteGroupOfProcesses(Invocation& invocation, const std::vector<ImportedTrace>& captures) {
  std::string group_id;
  size_t count = 0;
  for (const ImportedTrace& capture : captures) {
    if (capture.record.group_id.empty()) continue;
    group_id = capture.record.group_id;
    ++count;
  }
  if (count < 2) return;
  invocation.Note(StrCat("Group ", group_id, ": ", count, " processes of ",
                         ForDisplay(captures.front().record.imported.source, 255), "\n"));
}

// "3 events not understood: kernel without dur 3"; the most frequent first. Empty: there are none.
std::string KindsNote(std::vector<std::pair<int64_t, std::string>> kinds, std::string_view one,
                      std::string_view many) {
  constexpr size_t kMostShown = 6;
  if (kinds.empty()) return "";
  std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) {
    return std::tie(b.first, a.second) < std::tie(a.first, b.second);
  });
  int64_t total = 0;
  for (const auto& [count, kind] : kinds) total += count;
  std::string note = StrCat(total, total == 1 ? one : many, " not understood:");
  for (size_t i = 0; i < std::min(kMostShown, kinds.size()); ++i) {
    StrAppend(&note, i == 0 ? " " : ", ", kinds[i].second, " ", kinds[i].first);
  }
  if (kinds.size() > kMostShown) {
    StrAppend(&note, ", and ", kinds.size() - kMostShown, " kinds more (--json names all)");
  }
  return note;
}

// "Warning: ...". Empty: the whole trace was there.
std::string CutOffNote(const CaptureRecord& record) {
  const std::string_view place = CutOffPlace(record);
  if (place.empty()) return "";
  std::string_view effect = "no event of the program is missing";
  if (record.state == CaptureState::kPartial) {
    effect = "the capture is PARTIAL: later steps and events are missing";
  } else if (place.starts_with(kWithoutBracketPlace)) {
    effect = "events may be missing";
  }
  return StrCat("Warning: ", ForDisplay(record.imported.source, 255), ": ", kCutOffKind, place,
                "; ", effect, "\n");
}

// The line about what was not understood of the trace.
std::string NotUnderstoodNote(const CaptureRecord& record) {
  constexpr std::string_view kOfArgument = "arg:";
  std::vector<std::pair<int64_t, std::string>> events;
  std::vector<std::pair<int64_t, std::string>> arguments;  // Of events that are in the capture.
  for (const auto& [kind, count] : record.imported.not_understood) {
    if (kind.starts_with(kOfArgument)) {
      arguments.emplace_back(count, kind.substr(kOfArgument.size()));
    } else {
      events.emplace_back(count, kind);
    }
  }
  if (events.empty() && arguments.empty()) return "";
  std::string note = KindsNote(std::move(events), " event", " events");
  const std::string details = KindsNote(std::move(arguments), " argument", " arguments");
  if (!note.empty() && !details.empty()) note += "; ";
  return StrCat(ForDisplay(record.imported.source, 255), ": ", note, details, "\n");
}

// The group of those that are in one. Empty: there is none, or more than one.
std::string CommonGroup(const std::vector<ImportedTrace>& captures) {
  std::set<std::string> groups;
  for (const ImportedTrace& capture : captures) {
    if (!capture.record.group_id.empty()) groups.insert(capture.record.group_id);
  }
  return groups.size() == 1 ? *groups.begin() : "";
}

absl::StatusOr<int> RunImport(Invocation& invocation) {
  Interrupts interrupts;
  ASSIGN_OR_RETURN(const Outputs outputs, OutputsOf(invocation));
  const importer::TraceSet set = FindSet(invocation, interrupts);
  std::string group_id = set.is_job ? NewUlid(Clock::Real().Now()) : std::string();
  ImportAnswer answer;
  size_t imported_traces = 0;
  for (size_t i = 0; i < outputs.paths.size(); ++i) {
    const std::string& trace = invocation.arguments()[i];
    absl::StatusOr<std::vector<ImportedTrace>> captures =
        ImportOne(invocation, interrupts, trace, outputs.paths[i], outputs.keeps_files, group_id);
    if (!captures.ok()) {
      // Of a single trace there is no other result to show.
      if (outputs.paths.size() == 1) return captures.status();
      answer.failures.push_back({trace, /*node=*/"", captures.status()});
      continue;
    }
    ++imported_traces;
    for (const ImportedTrace& imported : *captures) {
      // Where it is stored they may know no groups.
      if (set.is_job && imported.record.group_id != group_id) group_id.clear();
      if (invocation.json()) continue;
      invocation.Print(StrCat(imported.path.empty() ? imported.record.id : imported.path, "\n"));
      invocation.Note(CutOffNote(imported.record));
      invocation.Note(NotUnderstoodNote(imported.record));
      invocation.Note(RenderEvicted(std::span(&imported.stored, 1)));
    }
    if (!set.is_job) NoteGroupOfProcesses(invocation, *captures);
    std::ranges::move(*captures, std::back_inserter(answer.captures));
  }
  answer.group = set.is_job ? group_id : CommonGroup(answer.captures);
  if (!group_id.empty()) {
    answer.missing_ranks = set.absent_ranks;
    answer.missing_rank_count = set.absent_count;
  }
  if (!group_id.empty() && !answer.captures.empty()) {
    invocation.Note(GroupNote(group_id, set, imported_traces));
    NoteIfNotOneRun(invocation, answer.captures);
  }
  if (invocation.json()) {
    JsonWriter json;
    ImportAnswerObject().Write(answer, json);
    invocation.Print(json.TakeLine());
  }
  invocation.Note(DescribeFailures(answer.failures, "trace"));
  const int code = ExitCodeOf(answer.failures, !answer.captures.empty());
  const bool is_whole = std::ranges::none_of(answer.captures, [](const ImportedTrace& imported) {
    return imported.record.state == CaptureState::kPartial;
  });
  return code == kExitDone && !is_whole ? kExitPartial : code;
}

}  // namespace

Command ImportCommand() {
  return {
      .name = "import",
      .summary = "Make captures of traces of torch.profiler or Nsight Systems",
      .arguments = "FILE...",
      .description =
          "Reads Chrome traces as torch.profiler (Kineto) writes them, .json or .json.gz, of "
          "old and new releases, CUDA and HIP; and those that `profctl export` wrote. Each "
          "becomes a capture of yours in the daemon, and its id is printed. With -o or "
          "--output-dir, or where no daemon answers and none was named, it becomes a capture "
          "file, here as NAME.profd, which every report and `export` take in place of an id.\n\n"
          "Traces of the ranks of one job (distributedInfo: each another rank, of the same "
          "number) are one group: `ops`, `steps`, `stragglers` and `export` of its id compare "
          "the ranks. Clock offsets between their hosts are unknown, so clocks are "
          "aligned on collectives that all ranks took part in.\n\n"
          "Exports of Nsight Systems (`nsys export -t sqlite`), .sqlite or .sqlite.gz, become a "
          "capture per process with GPU work or NVTX ranges. Processes with GPU work are one "
          "group. Host, user, paths, and command lines are left out.\n\n"
          "Events and arguments that profd does not understand are counted by their kind or table. "
          "A damaged event is lost alone, and counted with its byte. Of a file that is cut off, "
          "the complete events become a PARTIAL capture, which ends where the missing ones would "
          "begin; a warning names the byte at which the file ends, and the exit code is 4. One "
          "without a complete event is refused, as is an export of Nsight Systems that is cut off. "
          "Of several files, one that is refused is named on stderr and in \"errors\" of --json, "
          "and "
          "the others are imported (exit code 4).",
      .flags = {{.name = "output",
                 .letter = 'o',
                 .value_name = "FILE",
                 .help = "Capture file to write, ending in .profd; for a single trace",
                 .completes = Completes::kCaptureFile},
                {.name = "output-dir",
                 .value_name = "DIR",
                 .help = "Folder for the capture files, each named after its trace"},
                {.name = "no-group",
                 .help = "Do not group ranks of one job, or processes of one file"}},
      .examples = {{"profctl import trace.json.gz", "Read a trace"},
                   {"profctl import trace.json.gz -o run.profd", "Into a file, without a daemon"},
                   {"profctl import rank*.json", "All ranks of a job: a group, too"},
                   {"profctl import rank*.json --output-dir runs", "The same, into files"},
                   {"profctl import report.sqlite", "Read an export of Nsight Systems"}},
      .min_arguments = 1,
      .max_arguments = 4096,
      .completes = Completes::kFile,
      .run = &RunImport};
}

}  // namespace profd::cli
