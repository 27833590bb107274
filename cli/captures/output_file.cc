#include "cli/captures/output_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/base/errors.h"
#include "cli/base/flags.h"
#include "cli/base/interrupts.h"
#include "cli/captures/part_file.h"
#include "cli/captures/scratch_folder.h"
#include "daemon/base/folder_of.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/export/sink/output_path.h"
#include "daemon/export/sink/stream_write.h"

namespace profd::cli {
namespace {

constexpr std::string_view kCaptureSuffix = ".profd";
// Longer ones first: ".json" ends no name that ".json.gz" ends, but not the other way round.
constexpr std::string_view kSuffixes[] = {
    ".json.gz",       ".speedscope.json", ".json", ".pftrace", ".perfetto-trace",
    ".device.folded", ".folded",          ".csv",  ".html",    kCaptureSuffix};

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class CountingSink final : public exporter::ByteSink {
 public:
  CountingSink(exporter::ByteSink& out, OnBytes on_bytes) : out_(out), on_bytes_(on_bytes) {}
  absl::Status Append(std::string_view bytes) override {
    RETURN_IF_ERROR(LocalFailure(out_.Append(bytes)));
    bytes_ += static_cast<int64_t>(bytes.size());
    on_bytes_(bytes_, 0);
    return absl::OkStatus();
  }
  absl::Status Finish() override { return LocalFailure(out_.Finish()); }
  int64_t bytes() const { return bytes_; }

 private:
  exporter::ByteSink& out_;
  const OnBytes on_bytes_;
  int64_t bytes_ = 0;
};

// Whatever stdout is: a pipe, or a file that the shell opened and that must not be replaced.
class StdoutSink final : public exporter::ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    const int error = exporter::WriteToStream(STDOUT_FILENO, bytes, &Interrupts::AnyRequested);
    if (error == ECANCELED) return absl::CancelledError("interrupted");
    return error == 0 ? absl::OkStatus() : StdoutError(error);
  }
  absl::Status Finish() override { return absl::OkStatus(); }
};

absl::StatusOr<std::unique_ptr<exporter::ByteSink>> OpenSink(const std::string& path) {
  if (path == "-") return std::unique_ptr<exporter::ByteSink>(new StdoutSink);
  absl::StatusOr<std::unique_ptr<exporter::ByteSink>> sink =
      exporter::OpenFileSink(path, &Interrupts::AnyRequested);
  if (!sink.ok()) return LocalFailure(sink.status());
  return sink;
}

struct WholeFile {
  int64_t bytes = 0;
  std::string sha256;
};

// Appends what the part does not have yet. OUT_OF_RANGE: it has more than there is.
absl::StatusOr<WholeFile> Download(DaemonClient& daemon, const std::string& id, PartFile& part,
                                   OnBytes on_bytes) {
  WholeFile whole;
  const auto keep = [&](const DownloadPiece& piece) -> absl::Status {
    if (piece.offset != part.size()) {
      return absl::DataLossError(StrCat("profd sent byte ", piece.offset, " where byte ",
                                        part.size(), " was due; run the same again"));
    }
    whole.bytes = piece.total_bytes;
    whole.sha256 = piece.sha256;
    RETURN_IF_ERROR(part.Append(piece.data));
    on_bytes(part.size(), whole.bytes);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(daemon.DownloadCapture(id, part.size(), keep));
  return whole;
}

absl::Status Verify(PartFile& part, const WholeFile& whole) {
  ASSIGN_OR_RETURN(const std::string sha256, part.Finish());
  if (part.size() != whole.bytes) {
    return absl::DataLossError(
        StrCat("got ", part.size(), " bytes of ", whole.bytes, "; run the same again"));
  }
  if (sha256 != whole.sha256) {
    return absl::DataLossError(
        StrCat("what arrived has the sha256 ", sha256, ", and profd states ", whole.sha256));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutputKind> OutputKindOf(std::string_view path) {
  if (path.ends_with(kCaptureSuffix)) return OutputKind{};
  if (const auto format = exporter::TraceFormatFromPath(path)) return OutputKind{.trace = format};
  return UsageError(
      StrCat("the suffix of '", ForDisplay(path, 200),
             "' is not a known output format; use .json or .json.gz (Chrome), .pftrace "
             "(Perfetto), .folded, .device.folded or .speedscope.json (stacks), .csv (events), "
             ".html (a report), or with trace and fetch .profd (the capture itself)"));
}

absl::Status CheckWritable(const std::string& path) {
  const absl::StatusOr<exporter::OutputPath> target = exporter::ResolveOutputPath(path);
  if (!target.ok()) return LocalFailure(target.status());
  const std::string folder = FolderOf(path).string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return UsageError(StrCat("'", ForDisplay(path, 400), "' is a folder; name a file in it"));
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return UsageError(StrCat("cannot write '", ForDisplay(path, 400), "': folder '",
                           ForDisplay(folder, 400), "': ", std::strerror(errno)));
}

absl::StatusOr<std::string> PathToWrite(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_symlink(path, ignored)) return path;
  const absl::StatusOr<exporter::OutputPath> target = exporter::ResolveOutputPath(path);
  if (!target.ok()) return LocalFailure(target.status());
  return target->path.string();
}

absl::Status MoveToFile(const std::filesystem::path& from, const std::string& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error == std::errc::cross_device_link) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch, ScratchFolder::MakeBeside(to));
    const std::filesystem::path copy = scratch->path() / "capture";
    error.clear();
    std::filesystem::copy_file(from, copy, error);
    if (!error) std::filesystem::rename(copy, to, error);
    // The file is where it should be, even if the other one stays.
    std::error_code ignored;
    if (!error) std::filesystem::remove(from, ignored);
  }
  if (!error) return absl::OkStatus();
  return LocalFailure(
      absl::InternalError(StrCat("cannot make '", ForDisplay(to, 400), "': ", error.message())));
}

std::string WithTag(std::string_view path, std::string_view tag) {
  const size_t name = path.find_last_of('/') + 1;  // npos + 1 is 0
  for (const std::string_view suffix : kSuffixes) {
    if (path.size() > name + suffix.size() && path.ends_with(suffix)) {
      return StrCat(path.substr(0, path.size() - suffix.size()), tag, suffix);
    }
  }
  return StrCat(path, tag);
}

std::vector<std::string> TagsFor(std::span<const CaptureView> views) {
  std::set<std::string> ranks;
  std::vector<std::string> tags;
  for (const CaptureView& view : views) {
    const auto& metadata = view.record.target.metadata;
    const auto rank = metadata.find("rank");
    if (rank != metadata.end() && IsNumber(rank->second)) ranks.insert(rank->second);
  }
  const bool by_rank = ranks.size() == views.size();
  for (const CaptureView& view : views) {
    const TargetInfo& target = view.record.target;
    tags.push_back(by_rank ? StrCat("-rank", target.metadata.at("rank")) : StrCat("-", target.pid));
  }
  return tags;
}

absl::StatusOr<int64_t> WriteToFile(
    const std::string& path, OnBytes on_bytes,
    absl::FunctionRef<absl::Status(exporter::ByteSink& sink)> write) {
  ASSIGN_OR_RETURN(const std::unique_ptr<exporter::ByteSink> file, OpenSink(path));
  CountingSink counting(*file, on_bytes);
  RETURN_IF_ERROR(write(counting));
  return counting.bytes();
}

absl::StatusOr<int64_t> ExportToFile(CaptureSource& source, exporter::TraceFormat format,
                                     const std::string& path, OnBytes on_bytes) {
  return WriteToFile(path, on_bytes,
                     [&](exporter::ByteSink& sink) { return source.Export(format, sink); });
}

absl::Status FetchToFile(DaemonClient& daemon, const CaptureView& view, const std::string& path,
                         OnBytes on_bytes) {
  const std::string& id = view.record.id;
  if (IsTerminal(view.record.state) && !view.HasEvents()) {
    const std::string& error = view.record.error_message;
    const std::string why = view.record.deleted ? std::string(WhyEventsAreGone(view.record))
                            : error.empty()     ? "nothing was recorded"
                                                : error;
    return absl::FailedPreconditionError(StrCat("capture ", id, " has no file: ", why));
  }
  // The part is next to the file that it becomes, for a link may lead to another file system.
  ASSIGN_OR_RETURN(const std::string to, PathToWrite(path));
  ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> part,
                   PartFile::Open(StrCat(to, ".", id, ".part")));
  if (part->size() > view.record.file_bytes) RETURN_IF_ERROR(part->Restart());
  const bool resumed = part->size() > 0;
  ASSIGN_OR_RETURN(WholeFile whole, Download(daemon, id, *part, on_bytes));
  // No piece came, because the part has all of the file.
  if (whole.sha256.empty()) whole = {view.record.file_bytes, view.record.file_sha256};
  absl::Status status = Verify(*part, whole);
  if (status.code() == absl::StatusCode::kDataLoss && resumed) {
    // The part was another's, or a machine went down before it was on disk: once more, all.
    RETURN_IF_ERROR(part->Restart());
    ASSIGN_OR_RETURN(whole, Download(daemon, id, *part, on_bytes));
    status = Verify(*part, whole);
  }
  if (status.code() == absl::StatusCode::kDataLoss) part->Remove();
  RETURN_IF_ERROR(status);
  return part->Publish(to);
}

}  // namespace profd::cli
