#include "daemon/import/nsys/nsys_import.h"

#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/import/capture_builder.h"
#include "daemon/import/import_record.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/nsys/description.h"
#include "daemon/import/nsys/events.h"
#include "daemon/import/nsys/export_file.h"
#include "daemon/import/nsys/source.h"
#include "daemon/import/nsys/survey.h"
#include "daemon/import/trace_file.h"
#include "daemon/report/findings/quality.h"
#include "daemon/store/file/writer.h"

namespace profd::importer {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kSqliteMagic = "SQLite format 3\0"sv;
// Offsets of the journal mode in the file's header; 2: write-ahead log.
constexpr off_t kFormatBytes = 18;
constexpr char kLogFormat = 2;

// Rows may be only in the write-ahead log, which is another file.
absl::Status CheckIsClosed(int fd) {
  std::array<char, 2> formats = {};
  if (pread(fd, formats.data(), formats.size(), kFormatBytes) != ssize_t{formats.size()}) {
    return absl::DataLossError("the database is cut off");
  }
  if (formats[0] != kLogFormat && formats[1] != kLogFormat) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the database has a write-ahead log, which may hold rows that the file lacks; run "
      "`sqlite3 FILE 'PRAGMA journal_mode=DELETE'` first");
}

void CountAll(const std::map<std::string, int64_t>& kinds, NotUnderstood& not_understood) {
  for (const auto& [kind, rows] : kinds) not_understood.Count(kind, rows);
}

class Import {
 public:
  Import(const std::filesystem::path& path, Clock& clock, const ImportOptions& options)
      : path_(path), clock_(clock), options_(options) {}

  ~Import() {
    std::error_code ignored;
    for (const ImportedCapture& capture : captures_) std::filesystem::remove(capture.file, ignored);
  }

  absl::StatusOr<std::vector<ImportedCapture>> Run() {
    ASSIGN_OR_RETURN(UniqueFd file, OpenNsysExport(path_, options_));
    RETURN_IF_ERROR(CheckIsClosed(file.get()));
    ASSIGN_OR_RETURN(source_, NsysSource::Open(std::move(file), options_.is_cancelled));
    ASSIGN_OR_RETURN(const NsysSurvey survey, SurveyNsys(*source_));
    int64_t with_gpu = 0;
    for (const NsysProcess& process : survey.captured) with_gpu += process.has_gpu_work ? 1 : 0;
    // The main one last: what others cannot take is counted in it.
    for (size_t i = 0; i < survey.captured.size(); ++i) {
      if (i != survey.main) RETURN_IF_ERROR(Add(survey, i, with_gpu >= 2));
    }
    RETURN_IF_ERROR(Add(survey, survey.main, with_gpu >= 2));
    std::sort(captures_.begin(), captures_.end(),
              [](const ImportedCapture& a, const ImportedCapture& b) {
                return a.record.target.pid < b.record.target.pid;
              });
    return std::exchange(captures_, {});
  }

 private:
  absl::Status Add(const NsysSurvey& survey, size_t position, bool is_group) {
    const NsysProcess& process = survey.captured[position];
    const bool is_main = position == survey.main;
    ImportOptions options = options_;
    if (!is_main) options.id.clear();
    if (!is_group || !process.has_gpu_work) options.group_id.clear();
    NotUnderstood not_understood;
    CountAll(process.left_out, not_understood);
    if (is_main) {
      CountAll(survey.left_out, not_understood);
      CountAll(of_no_capture_.counts(), not_understood);
    }
    ImportedCapture capture = {.record = BeginImport(path_, options, clock_.Now()), .file = {}};
    ASSIGN_OR_RETURN(const std::unique_ptr<store::CaptureFileWriter> writer,
                     store::CaptureFileWriter::Create(
                         capture.record, clock_,
                         {.directory = options.directory,
                          .check_events = store::CheckerOf(report::CheckEventsForSeal),
                          .on_sealed = {}}));
    const absl::StatusOr<bool> has_events =
        Fill(survey, position, *writer, not_understood, capture.record);
    if (!has_events.ok() || !*has_events) writer->Discard();
    RETURN_IF_ERROR(has_events.status());
    if (*has_events) {
      capture.file = store::CapturePaths(options.directory, capture.record.id).sealed;
      captures_.push_back(std::move(capture));
    } else if (is_main) {
      return absl::InvalidArgumentError("none of its events of CUDA and NVTX can be imported");
    } else {
      CountAll(not_understood.counts(), of_no_capture_);
    }
    return absl::OkStatus();
  }

  // False: nothing of the process can be kept.
  absl::StatusOr<bool> Fill(const NsysSurvey& survey, size_t position,
                            store::CaptureFileWriter& writer, NotUnderstood& not_understood,
                            CaptureRecord& record) {
    const NsysProcess& process = survey.captured[position];
    CaptureBuilder builder(writer, not_understood, options_.directory);
    builder.SetIsContinuous();
    const auto on_table = [&](int done, int total) {
      if (!options_.on_progress) return;
      const auto all = static_cast<int64_t>(survey.captured.size()) * total;
      options_.on_progress(static_cast<int64_t>(position) * total + done, all);
    };
    NsysEvents events(*source_, process.key, survey.is_single_process, builder, not_understood,
                      on_table);
    RETURN_IF_ERROR(events.Run());
    ASSIGN_OR_RETURN(CaptureBuilder::Contents contents, builder.Finish());
    if (contents.event_count == 0) return false;
    contents.whole_us = false;
    RETURN_IF_ERROR(DescribeProcess(*source_, process.key, record));
    RETURN_IF_ERROR(DescribeStreams(*source_, process.key, contents.streams));
    ASSIGN_OR_RETURN(const int64_t base_unix_ns, BaseUnixNs(*source_));
    DescribeContents(contents, base_unix_ns, record);
    // It is CUDA's memory, not torch's.
    if (contents.operator_count == 0) record.torch = TorchRecord();
    record.torch.memory = false;
    record.open_range_count = events.open_range_count();
    record.imported.not_understood = not_understood.counts();
    writer.SetSteps(std::move(contents.steps));
    RETURN_IF_ERROR(writer.Finish(record, contents.start_ns));
    return true;
  }

  const std::filesystem::path& path_;
  Clock& clock_;
  const ImportOptions& options_;
  std::unique_ptr<NsysSource> source_;
  NotUnderstood of_no_capture_;
  std::vector<ImportedCapture> captures_;  // Removed unless Run() gives them out.
};

}  // namespace

bool IsSqliteDatabase(const std::filesystem::path& path) {
  const auto file = TraceFile::Open(path);
  if (!file.ok()) return false;
  std::array<char, kSqliteMagic.size()> start = {};
  const absl::StatusOr<size_t> got = (*file)->Read(start.data(), start.size());
  return got.ok() && std::string_view(start.data(), *got) == kSqliteMagic;
}

absl::StatusOr<std::vector<ImportedCapture>> ImportNsys(const std::filesystem::path& path,
                                                        Clock& clock,
                                                        const ImportOptions& options) {
  auto captures = Import(path, clock, options).Run();
  if (!captures.ok()) return WithPath(captures.status(), path);
  return captures;
}

}  // namespace profd::importer
