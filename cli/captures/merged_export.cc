#include "cli/captures/merged_export.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/captures/abortable_sink.h"
#include "cli/captures/output_file.h"
#include "cli/captures/scratch_folder.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/report/ranks/collective_match.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::cli {
namespace {

// More teach the clocks nothing.
constexpr int64_t kMostCollectivesOfOne = 50'000;

// A capture of the trace, open.
struct Opened {
  std::unique_ptr<store::CaptureReader> reader;
  report::CollectiveTable collectives;
};

absl::StatusOr<Opened> Open(const std::string& path) {
  Opened opened;
  ASSIGN_OR_RETURN(opened.reader, store::CaptureReader::Open(path));
  ASSIGN_OR_RETURN(opened.collectives,
                   report::SummarizeCollectives(*opened.reader, kMostCollectivesOfOne));
  return opened;
}

// Where the members' capture files are; empty: of one that is missing.
absl::StatusOr<std::vector<std::string>> FetchMemberFiles(CaptureSet& set,
                                                          const ScratchFolder& folder,
                                                          ProgressLine& progress) {
  std::vector<std::string> files(set.members().size());
  absl::Mutex mu;
  int64_t fetched_bytes = 0;
  RETURN_IF_ERROR(set.ForEach([&](size_t member, CaptureSource& source) -> absl::Status {
    ASSIGN_OR_RETURN(files[member],
                     source.ToFile((folder.path() / StrCat(member, ".profd")).string()));
    const absl::MutexLock lock(&mu);
    fetched_bytes += source.view().record.file_bytes;
    progress.Show(TransferProgress("fetched", fetched_bytes, 0));
    return absl::OkStatus();
  }));
  return files;
}

report::ClockAlignment Align(const std::vector<Opened>& opened,
                             const std::vector<std::optional<report::ClockProbe>>& probes) {
  std::vector<const report::CollectiveTable*> tables;
  std::vector<report::ClockMember> members;
  for (size_t i = 0; i < opened.size(); ++i) {
    tables.push_back(&opened[i].collectives);
    members.push_back({.start_unix_ns = opened[i].reader->record().start_unix_ns,
                       .probe = probes[i],
                       .collectives = tables.back(),
                       .host = report::ClockHostOf(opened[i].reader->record())});
  }
  return report::AlignClocks(members, report::MatchCollectives(tables));
}

}  // namespace

absl::StatusOr<MergedExport> ExportMerged(CaptureSet& set, exporter::TraceFormat format,
                                          const std::string& path, const std::atomic<bool>& aborted,
                                          ProgressLine& progress) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> folder,
                   path == "-" ? ScratchFolder::MakeTemporary() : ScratchFolder::MakeBeside(path));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, FetchMemberFiles(set, *folder, progress));
  std::vector<Opened> opened;
  std::vector<std::optional<report::ClockProbe>> probes;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!set.members()[i].missing.empty()) continue;
    if (aborted.load(std::memory_order_relaxed)) return absl::CancelledError("interrupted");
    ASSIGN_OR_RETURN(Opened one, Open(files[i]));
    opened.push_back(std::move(one));
    probes.push_back(set.members()[i].probe);
    progress.Show(StrCat("aligning clocks: ", opened.size(), " of ", set.present_count()));
  }
  MergedExport merged = {.clocks = Align(opened, probes)};
  std::vector<store::CaptureReader*> readers;
  readers.reserve(opened.size());
  for (const Opened& one : opened) readers.push_back(one.reader.get());
  ASSIGN_OR_RETURN(merged.bytes, WriteToFile(
                                     path,
                                     [&](int64_t done, int64_t total) {
                                       progress.Show(TransferProgress("writing", done, total));
                                     },
                                     [&](exporter::ByteSink& sink) {
                                       AbortableSink abortable(sink, aborted);
                                       return exporter::ExportMergedTrace(readers, merged.clocks,
                                                                          set.group_id(), format,
                                                                          abortable);
                                     }));
  return merged;
}

}  // namespace profd::cli
