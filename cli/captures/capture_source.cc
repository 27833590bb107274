#include "cli/captures/capture_source.h"

#include <atomic>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/captures/abortable_sink.h"
#include "cli/captures/capture_cache.h"
#include "cli/captures/find_capture.h"
#include "cli/captures/find_group.h"
#include "cli/captures/fleet.h"
#include "cli/captures/output_file.h"
#include "cli/captures/progress.h"
#include "cli/captures/scratch_folder.h"
#include "cli/client/daemon_client.h"
#include "cli/client/resource_names.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/base/units.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::cli {
namespace {

absl::StatusOr<std::unique_ptr<store::CaptureReader>> OpenReader(const std::string& path) {
  absl::StatusOr<std::unique_ptr<store::CaptureReader>> reader = store::CaptureReader::Open(path);
  if (reader.ok()) return reader;
  // The command line was right; what the file holds is not.
  return LocalFailure(reader.status().code() == absl::StatusCode::kInvalidArgument
                          ? absl::DataLossError(reader.status().message())
                          : reader.status());
}

// Says on a terminal what takes its time. `progress`: nullptr: nowhere.
class ReportProgress {
 public:
  ReportProgress(const Style* progress, const CaptureView& view, std::string_view report) {
    if (progress == nullptr) return;
    line_.emplace(*progress,
                  StrCat("computing ", report, " (",
                         FormatCountOf(view.record.event_count, "event", "events"), ")"));
  }

 private:
  std::optional<WorkingLine> line_;
};

class FileSource final : public CaptureSource {
 public:
  FileSource(CaptureView view, std::string path, std::unique_ptr<store::CaptureReader> reader,
             const Style* progress)
      : path_(std::move(path)),
        reader_(std::move(reader)),
        view_(std::move(view)),
        progress_(progress) {}

  const CaptureView& view() const override { return view_; }
  const std::string& shown_name() const override { return path_; }
  const Style* progress() const override { return progress_; }

  absl::StatusOr<table::Report> Report(const report::ReportRequest& request) override {
    const ReportProgress line(progress_, view_, request.report);
    return report::MakeReport(*reader_, request);
  }
  absl::Status Export(exporter::TraceFormat format, exporter::ByteSink& sink) override {
    AbortableSink abortable(sink, aborted_);
    return exporter::ExportTrace(*reader_, format, abortable);
  }
  absl::StatusOr<std::string> ToFile(const std::string&) override { return path_; }
  absl::StatusOr<store::CaptureReader*> Reader() override { return reader_.get(); }
  void Abort() override { aborted_.store(true, std::memory_order_relaxed); }

 private:
  const std::string path_;
  const std::unique_ptr<store::CaptureReader> reader_;
  const CaptureView view_;
  const Style* const progress_;
  std::atomic<bool> aborted_ = false;
};

class DaemonSource final : public CaptureSource {
 public:
  // `fleet`, if any, has the connection that `daemon` is.
  DaemonSource(DaemonClient& daemon, CaptureView view, const Style* progress,
               std::optional<Fleet> fleet = std::nullopt)
      : fleet_(std::move(fleet)), daemon_(daemon), view_(std::move(view)), progress_(progress) {}

  const CaptureView& view() const override { return view_; }
  const std::string& shown_name() const override { return view_.record.id; }
  const Style* progress() const override { return progress_; }

  absl::StatusOr<table::Report> Report(const report::ReportRequest& request) override {
    const ReportProgress line(progress_, view_, request.report);
    return daemon_.GetReport(view_.record.id, request);
  }
  absl::Status Export(exporter::TraceFormat format, exporter::ByteSink& sink) override {
    if (!exporter::IsTrace(format)) {
      ASSIGN_OR_RETURN(store::CaptureReader* const reader, Reader());
      return exporter::ExportTrace(*reader, format, sink);
    }
    RETURN_IF_ERROR(daemon_.ExportTrace(
        view_.record.id, format, [&](std::string_view piece) { return sink.Append(piece); }));
    return sink.Finish();
  }
  absl::StatusOr<std::string> ToFile(const std::string& path) override {
    RETURN_IF_ERROR(FetchToFile(daemon_, view_, path, [](int64_t, int64_t) {}));
    return path;
  }
  absl::StatusOr<store::CaptureReader*> Reader() override {
    if (reader_ != nullptr) return reader_.get();
    ASSIGN_OR_RETURN(reader_, OpenCopy());
    return reader_.get();
  }
  void Abort() override { daemon_.Abort(); }

 private:
  absl::StatusOr<std::unique_ptr<store::CaptureReader>> OpenCopy() {
    if (const auto cache = CaptureCache::Find(&std::getenv, daemon_.is_remote())) {
      absl::StatusOr<std::unique_ptr<store::CaptureReader>> reader = OpenKept(*cache);
      // Another profctl copies it right now, or the disk is full there.
      if (reader.ok() || reader.status().code() != absl::StatusCode::kFailedPrecondition) {
        return reader;
      }
    }
    ASSIGN_OR_RETURN(const auto folder, ScratchFolder::MakeTemporary());
    const std::string path = folder->path() / "capture.profd";
    RETURN_IF_ERROR(CopyTo(path));
    return OpenReader(path);
  }

  absl::StatusOr<std::unique_ptr<store::CaptureReader>> OpenKept(const CaptureCache& cache) {
    const CaptureRecord& record = view_.record;
    if (!cache.Takes(record)) return absl::FailedPreconditionError("not one to be kept");
    const std::string path = cache.PathOf(record);
    if (!cache.Has(record)) RETURN_IF_ERROR(CopyTo(path));
    cache.Trim(path, absl::Now());
    return OpenReader(path);
  }

  absl::Status CopyTo(const std::string& path) {
    std::optional<ProgressLine> line;
    if (progress_ != nullptr) line.emplace(*progress_);
    return FetchToFile(daemon_, view_, path, [&](int64_t done, int64_t total) {
      if (line.has_value()) line->Show(TransferProgress("fetching", done, total));
    });
  }

  const std::optional<Fleet> fleet_;
  DaemonClient& daemon_;
  const CaptureView view_;
  const Style* const progress_;
  std::unique_ptr<store::CaptureReader> reader_;  // Its file may have no name any more.
};

}  // namespace

absl::StatusOr<table::Report> DemandingReport(CaptureSource& source,
                                              const report::ReportRequest& request) {
  if (source.view().record.file_bytes <= kMostBytesForDaemon) {
    absl::StatusOr<table::Report> report = source.Report(request);
    // It needs more than the daemon gives a report, or too many wait there.
    if (!absl::IsResourceExhausted(report.status())) return report;
  }
  ASSIGN_OR_RETURN(store::CaptureReader* const reader, source.Reader());
  const ReportProgress line(source.progress(), source.view(), request.report);
  return report::MakeReport(*reader, request);
}

bool NamesFile(std::string_view text) {
  return text.ends_with(".profd") ||
         (text.find('/') != std::string_view::npos && !text.starts_with(kCapturesPrefix) &&
          !text.starts_with(kGroupsPrefix));
}

namespace {

std::string WhyNoCaptureId(std::string_view text) {
  const std::string shown = StrCat("'", ForDisplay(text, 400), "'");
  if (text.ends_with(".profd")) {
    return StrCat(shown, " is a file, and this takes the id of a stored capture");
  }
  if (text.starts_with(kGroupsPrefix)) {
    return StrCat(shown, " is a group, and this command takes captures; `profctl show ",
                  ForDisplay(text, 400), "` lists those of the group");
  }
  if (text.ends_with(".json") || text.ends_with(".json.gz")) {
    return StrCat(shown, " is a trace; `profctl import` makes a capture of it");
  }
  return StrCat(shown,
                " is neither the id of a capture (`profctl captures` lists them) nor a file ending "
                "in .profd");
}

}  // namespace

absl::StatusOr<std::string> ParseCaptureId(std::string_view text) {
  text = WithoutPrefix(text, kCapturesPrefix);
  if (!IsUlidPrefix(text)) return UsageError(WhyNoCaptureId(text));
  std::string id(text);
  for (char& c : id) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return id;
}

absl::StatusOr<std::unique_ptr<CaptureSource>> OpenCaptureFile(const std::string& path,
                                                               const Style* progress) {
  ASSIGN_OR_RETURN(std::unique_ptr<store::CaptureReader> reader, OpenReader(path));
  CaptureView view = ViewOf(reader->record(), {reader->steps().begin(), reader->steps().end()});
  return std::make_unique<FileSource>(std::move(view), path, std::move(reader), progress);
}

std::unique_ptr<CaptureSource> NewDaemonSource(DaemonClient& daemon, CaptureView view,
                                               const Style* progress) {
  return std::make_unique<DaemonSource>(daemon, std::move(view), progress);
}

absl::StatusOr<std::unique_ptr<CaptureSource>> OpenCaptureSource(Invocation& invocation,
                                                                 const std::string& text) {
  if (NamesFile(text)) return OpenCaptureFile(text, &invocation.error_style());
  ASSIGN_OR_RETURN(const std::string id, ParseCaptureId(text));
  ASSIGN_OR_RETURN(std::optional<Fleet> fleet, FleetOf(invocation));
  if (fleet.has_value()) {
    absl::StatusOr<FoundCapture> found = FindCapture(invocation, *fleet, id);
    if (!found.ok()) return WhyNoCapture(invocation, *fleet, id, found.status());
    DaemonClient& owner = *fleet->connection(found->member);
    return std::unique_ptr<CaptureSource>(new DaemonSource(
        owner, std::move(found->view), &invocation.error_style(), std::move(fleet)));
  }
  ASSIGN_OR_RETURN(DaemonClient* const daemon, invocation.Daemon());
  absl::StatusOr<CaptureView> view = daemon->GetCapture(id);
  if (!view.ok()) return WhyNoCapture(*daemon, id, view.status());
  return NewDaemonSource(*daemon, *std::move(view), &invocation.error_style());
}

}  // namespace profd::cli
