#include "daemon/store/store_recovery.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/store/capture_recovery.h"
#include "daemon/store/capture_store.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/files.h"

namespace profd::store {
namespace {

class Recovery {
 public:
  Recovery(Catalog& catalog, const std::filesystem::path& folder, absl::Time now,
           const OpSummarizer& summarize_ops)
      : catalog_(catalog), folder_(folder), now_(now), summarize_ops_(summarize_ops) {}

  absl::Status Run() {
    RETURN_IF_ERROR(RemoveReserves());
    RETURN_IF_ERROR(RemoveUploads());
    ASSIGN_OR_RETURN(const std::vector<std::string> parts, ListIds(folder_, ".part"));
    for (const std::string& id : parts) RETURN_IF_ERROR(RecoverPart(id));
    ASSIGN_OR_RETURN(const std::vector<std::string> files, ListIds(folder_, ".profd"));
    for (const std::string& id : files) RETURN_IF_ERROR(RecoverSealed(id));
    RETURN_IF_ERROR(RemoveJournals());
    RETURN_IF_ERROR(NoteMissingFiles(files));
    return EndUnfinished();
  }

 private:
  absl::StatusOr<std::optional<CaptureRecord>> Find(const std::string& id) {
    std::optional<CaptureRecord> found;
    absl::StatusOr<CaptureRecord> record = catalog_.Get(id);
    if (absl::IsNotFound(record.status())) return found;
    RETURN_IF_ERROR(record.status());
    found = *std::move(record);
    return found;
  }

  absl::Status RemoveReserves() {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(folder_, ".reserve"));
    for (const std::string& id : ids) Remove(CapturePaths(folder_, id).reserve);
    return absl::OkStatus();
  }
  // Whoever sent them was not told that they are kept.
  absl::Status RemoveUploads() {
    for (const std::string& suffix :
         {std::string(kUploadSuffix), StrCat(kUploadSuffix, "-journal")}) {
      ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(folder_, suffix));
      for (const std::string& id : ids) Remove(folder_ / StrCat(id, suffix));
    }
    return absl::OkStatus();
  }
  // Those whose file is gone; the others were used up by opening it.
  absl::Status RemoveJournals() {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(folder_, ".part-journal"));
    for (const std::string& id : ids) {
      const std::filesystem::path part = CapturePaths(folder_, id).part;
      if (!std::filesystem::exists(part)) Remove(part.string() + "-journal");
    }
    return absl::OkStatus();
  }
  static void Remove(const std::filesystem::path& path) {
    if (absl::Status status = RemoveFile(path); !status.ok()) LogWarning(status.ToString());
  }

  absl::Status RecoverPart(const std::string& id) {
    const CapturePaths paths(folder_, id);
    ASSIGN_OR_RETURN(const std::optional<CaptureRecord> known, Find(id));
    if (known.has_value() && known->deleted) {
      Remove(paths.part);
      return absl::OkStatus();
    }
    absl::StatusOr<SealedCapture> sealed = RecoverCaptureFile(paths, known, now_, summarize_ops_);
    if (sealed.ok()) {
      LogWarning(StrCat("capture=", id, " was left unfinished: kept as ",
                        ToString(sealed->record.state), " with ", sealed->record.event_count,
                        " events"));
      RETURN_IF_ERROR(catalog_.InsertOrUpdate(sealed->record));
      return KeepSealed(catalog_, *sealed);
    }
    if (absl::IsNotFound(sealed.status())) {
      LogInfo(StrCat("capture=", id, " was left unfinished and without events: removed"));
      Remove(paths.part);
      return absl::OkStatus();
    }
    if (absl::IsDataLoss(sealed.status())) return SetAside(paths.part, known, sealed.status());
    LogError(StrCat("capture=", id, " is left unfinished in ", paths.part.string(), ": ",
                    sealed.status().ToString()));
    if (!known.has_value() || IsTerminal(known->state)) return absl::OkStatus();
    return Fail(*known, StrCat("its events wait in ", paths.part.string(),
                               " until profd is started with more room: ",
                               FromAbsl(sealed.status().message())));
  }

  absl::Status RecoverSealed(const std::string& id) {
    const CapturePaths paths(folder_, id);
    ASSIGN_OR_RETURN(const std::optional<CaptureRecord> known, Find(id));
    if (known.has_value() && known->deleted) {
      Remove(paths.sealed);
      return absl::OkStatus();
    }
    if (known.has_value() && IsTerminal(known->state) && known->file_bytes > 0) {
      return absl::OkStatus();
    }
    absl::StatusOr<SealedCapture> sealed = Adopt(paths, id);
    if (!sealed.ok()) return SetAside(paths.sealed, known, sealed.status());
    LogInfo(
        StrCat("capture=", id, " taken over from its file as ", ToString(sealed->record.state)));
    RETURN_IF_ERROR(catalog_.InsertOrUpdate(sealed->record));
    return KeepSealed(catalog_, *sealed);
  }

  absl::StatusOr<SealedCapture> Adopt(const CapturePaths& paths, const std::string& id) {
    ASSIGN_OR_RETURN(const auto reader, CaptureReader::Open(paths.sealed));
    SealedCapture sealed;
    sealed.record = reader->record();
    if (sealed.record.id != id || !IsTerminal(sealed.record.state)) {
      return absl::DataLossError("its record is of another capture, or of one that runs");
    }
    ASSIGN_OR_RETURN(sealed.record.file_sha256, Sha256OfFile(paths.sealed));
    ASSIGN_OR_RETURN(sealed.record.file_bytes, FileBytes(paths.sealed));
    sealed.steps = SummarizeStepTimes(reader->steps());
    if (summarize_ops_) {
      absl::StatusOr<std::vector<OpSummaryRow>> ops = summarize_ops_(*reader);
      if (ops.ok()) sealed.ops = *std::move(ops);
    }
    return sealed;
  }

  absl::Status SetAside(const std::filesystem::path& file,
                        const std::optional<CaptureRecord>& known, const absl::Status& why) {
    std::filesystem::path aside = file;
    aside.replace_extension(".damaged");
    LogError(StrCat(file.string(), " cannot be read and is kept as ", aside.string(),
                    " for you to remove: ", why.ToString()));
    std::error_code error;
    std::filesystem::rename(file, aside, error);
    if (error) LogWarning(FileStatus(file, error.value()).ToString());
    if (!known.has_value()) return absl::OkStatus();
    return Fail(*known, StrCat("its file was damaged and is kept as ", aside.string()));
  }

  absl::Status Fail(CaptureRecord record, std::string message) {
    MarkStoppedByDaemon(record, now_);
    record.error_message = std::move(message);
    return catalog_.Update(record);
  }

  absl::Status NoteMissingFiles(const std::vector<std::string>& files) {
    ASSIGN_OR_RETURN(const std::vector<std::string> expected, catalog_.ListIdsWithFile());
    for (const std::string& id : expected) {
      if (std::binary_search(files.begin(), files.end(), id)) continue;
      const std::filesystem::path path = CapturePaths(folder_, id).sealed;
      if (std::filesystem::exists(path)) continue;  // Finished a moment ago.
      LogWarning(StrCat("capture=", id, " has lost its file ", path.string()));
      RETURN_IF_ERROR(catalog_.MarkDeleted(id, /*evicted=*/false));
    }
    return absl::OkStatus();
  }

  absl::Status EndUnfinished() {
    ASSIGN_OR_RETURN(std::vector<CaptureRecord> unfinished, catalog_.ListUnfinished());
    for (CaptureRecord& record : unfinished) {
      LogWarning(StrCat("capture=", record.id, " was ", ToString(record.state),
                        " when profd ended: FAILED, nothing was kept"));
      MarkStoppedByDaemon(record, now_);
      RETURN_IF_ERROR(catalog_.Update(record));
    }
    return absl::OkStatus();
  }

  Catalog& catalog_;
  const std::filesystem::path& folder_;
  const absl::Time now_;
  const OpSummarizer& summarize_ops_;
};

}  // namespace

absl::Status RecoverStore(Catalog& catalog, const std::filesystem::path& folder, absl::Time now,
                          const OpSummarizer& summarize_ops) {
  return Recovery(catalog, folder, now, summarize_ops).Run();
}

absl::Status KeepSealed(Catalog& catalog, const SealedCapture& sealed) {
  const CaptureRecord& record = sealed.record;
  RETURN_IF_ERROR(catalog.SetFile(record.id, record.file_bytes, record.file_sha256));
  std::vector<OpSummaryRow> ops = sealed.ops;
  std::stable_sort(ops.begin(), ops.end(), [](const OpSummaryRow& a, const OpSummaryRow& b) {
    return std::max(a.self_cpu_ns, a.self_device_ns) > std::max(b.self_cpu_ns, b.self_device_ns);
  });
  const auto most = static_cast<size_t>(CaptureStore::kMaxCatalogOps);
  if (ops.size() > most) ops.resize(most);
  return catalog.PutSummaries(record.id, ops, sealed.steps);
}

}  // namespace profd::store
