// CaptureStore is the daemon's durable record of captures: a catalog (catalog.db) with one
// row per capture, and one file per capture with its events. Nothing outside daemon/store
// knows SQL.
//
//   DATA_DIR/             0700; on a local disk; one daemon at a time (profd.lock)
//     catalog.db          what was captured, by whom, how it ended; summaries
//     captures/ID.part    being written, or left by a daemon that died
//     captures/ID.upload  an import on its way, under no capture's id
//     captures/ID.profd   finished; never changed, only removed
//
// When the files take more than max_total_bytes, or the disk has less than min_free_percent
// left, the oldest files go; their rows and summaries stay (CaptureRecord::deleted).
//
// Threads:    any. Calls wait for the disk: keep them off gRPC threads.
// Ownership:  `clock` must outlive the store, the store every file it made.
// Durability: OK means the change survives a crash of the daemon. After a power cut the
//             newest changes may be missing; the older ones are intact.
// Errors:     DATA_LOSS for a damaged file, RESOURCE_EXHAUSTED for a full disk, INTERNAL for
//             any other SQLite result, whose code is in the message.
#ifndef PROFD_DAEMON_STORE_CAPTURE_STORE_H_
#define PROFD_DAEMON_STORE_CAPTURE_STORE_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/capture/ports.h"
#include "daemon/schedule/schedule_store.h"
#include "daemon/store/capture_file_seal.h"
#include "daemon/store/capture_reader.h"
#include "daemon/store/imported_record.h"
#include "daemon/store/incoming_capture.h"

namespace profd::store {

class Catalog;
struct CaptureContents;

// Who opens a store. A tool has it for moments only: others wait for it.
enum class StoreOwner { kDaemon, kTool };

// Every condition that is set must hold.
struct CaptureFilter {
  std::vector<CaptureState> states;                         // Any of these; empty: all.
  std::vector<std::pair<std::string, std::string>> labels;  // All of these.
  std::optional<int64_t> pid;                               // Of the target.
  std::optional<int64_t> owner_uid;                         // Of the target.
  std::string name;                                         // The display name, exactly.
  std::string group_id;
  std::string id_prefix;
  std::optional<absl::Time> since;  // Created then or later.
  std::optional<absl::Time> until;  // Created before.
  bool include_deleted = true;      // Also those whose events are gone.
};

struct CapturePage {
  std::vector<CaptureRecord> captures;  // Newest first.
  std::string next_page_token;          // Empty: there are no more.
};

struct DiskSpace {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // For us.
};

struct StoreUsage {
  int64_t capture_count = 0;  // With events.
  int64_t capture_bytes = 0;  // Of their files, also of those being written.
  int64_t catalog_bytes = 0;
  int64_t max_total_bytes = 0;  // The cap on capture_bytes.
  int64_t min_free_percent = 0;
  DiskSpace disk;
  int64_t evicted_capture_count = 0;  // Whose events had to go for room, ever.
};

// An open capture file; it stays readable when the capture is deleted meanwhile.
struct CaptureDownload {
  UniqueFd file;
  int64_t size_bytes = 0;
  std::string sha256;  // Lower-case hex.
};

struct CaptureSummaries {
  std::vector<OpSummaryRow> ops;  // The largest by time on CPU or GPU, at most kMaxCatalogOps.
  std::vector<StepSummaryRow> steps;
  std::vector<DeviceSummaryRow> devices;  // Of captures that recorded a GPU.
};

// A capture and what is kept of it for good.
struct SummarizedCapture {
  CaptureRecord record;
  CaptureSummaries summaries;
};

// Which summaries are read with a capture; reading fewer is quicker.
struct SummaryParts {
  bool steps = true;
  bool devices = true;
  bool ops = true;  // All.
  // With `ops` false: the one of this name, and the largest, which tells whether any are kept.
  std::string operator_name;
};

// One line of the audit log.
struct AuditEntry {
  absl::Time time;        // When the call came.
  std::string principal;  // PrincipalName() (capture/access.h), "schedule:ID"
  std::string peer;       // "unix:4711", "ipv4:10.0.0.7:41234"; empty: none
  std::string method;     // "CreateCapture"
  std::string resource;   // "captures/01H..."
  std::string outcome;    // "OK", or a status code's name.
  std::string reason;     // Of a refusal, "NOT_ALLOWED"; empty: none.
  absl::Duration duration;
  int64_t bytes = 0;  // Of streams: what the caller was sent, or sent.
};
// Every condition that is set must hold.
struct AuditFilter {
  std::optional<absl::Time> since;
  std::string principal;
  std::string method;
  bool refused_only = false;
};
struct AuditPage {
  std::vector<AuditEntry> entries;  // The newest first.
  int64_t next_before = 0;          // `before` of the next page; 0: there are no more.
};

class CaptureStore final : public StorePort, public ScheduleStore {
 public:
  static constexpr int64_t kMaxPageSize = 1000;
  static constexpr int64_t kMaxCatalogOps = 200;
  // As large as a capture is unless its spec says more.
  static constexpr int64_t kMaxImportBytes = int64_t{2} << 30;

  struct Options {
    std::filesystem::path data_dir;
    int64_t max_total_bytes = int64_t{20} << 30;
    int64_t min_free_percent = 5;  // Of the file system; 0: do not care.
    OpSummarizer summarize_ops;    // See capture_file_seal.h.
    // The same for GPUs. What a crash left unfinished is kept without it.
    DeviceSummarizer summarize_devices;
    StoreOwner owner = StoreOwner::kDaemon;
    // What the file system of a path has; replaced in tests.
    std::function<absl::StatusOr<DiskSpace>(const std::filesystem::path&)> measure_disk;
  };

  // Opens the store, creating or migrating it, and ends what an earlier daemon left: a
  // capture that was running becomes PARTIAL if any of its events can be kept, else FAILED
  // (both ended_by daemon_stop), and files without a catalog row get one.
  // FAILED_PRECONDITION: a newer profd wrote the catalog, another process has the directory, it
  // is somebody else's, or it lies on a network file system. DATA_LOSS: the catalog is damaged.
  static absl::StatusOr<std::unique_ptr<CaptureStore>> Open(Options options, Clock& clock);
  ~CaptureStore() override;

  // ---- StorePort ----
  absl::Status InsertCapture(const CaptureRecord& record) override;
  absl::Status UpdateCapture(const CaptureRecord& record) override;
  absl::StatusOr<std::unique_ptr<CaptureFileSink>> CreateFile(const CaptureRecord& record) override;
  // Removes the oldest files first, if that helps.
  absl::Status CheckRoom() override;
  absl::StatusOr<CaptureRecord> GetCapture(std::string_view id) override;
  absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                         int64_t requested_by_uid) override;
  // Also FAILED_PRECONDITION while the capture runs. OK if the events are gone already.
  absl::Status DeleteCapture(std::string_view id) override;
  absl::Status PutGroup(const GroupRecord& group) override;
  absl::StatusOr<GroupRecord> GetGroup(std::string_view id) override;

  // ---- ScheduleStore (capture_store_schedules.cc) ----
  absl::StatusOr<ScheduleRecord> InsertSchedule(const ScheduleRecord& record) override;
  absl::Status UpdateSchedule(const ScheduleRecord& record) override;
  absl::StatusOr<std::vector<ScheduleRecord>> ListSchedules() override;
  absl::Status RemoveSchedule(std::string_view id) override;
  absl::Status AppendWindows(const ScheduleRecord& record, std::span<const ScheduleWindow> windows,
                             absl::Time now) override;
  absl::Status EndWindow(const ScheduleWindow& window) override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(std::string_view schedule_id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid) override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListRunningWindows() override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListLastWindows(std::string_view schedule_id,
                                                              absl::Time since) override;
  absl::StatusOr<ScheduleUse> GetUse(std::string_view schedule_id, absl::Time now) override;
  absl::StatusOr<ScheduleTotals> GetTotals(std::string_view schedule_id) override;

  // The caps, from now on; what is over them goes when room is next looked for.
  void SetLimits(int64_t max_total_bytes, int64_t min_free_percent);

  // ---- asking ----
  // `page_size` in 1..kMaxPageSize; 0: 100. `page_token` is empty or from a page with the same
  // filter; INVALID_ARGUMENT for any other.
  absl::StatusOr<CapturePage> ListCaptures(const CaptureFilter& filter, int64_t page_size,
                                           std::string_view page_token);
  // The one capture whose id starts so, of those that `is_meant` is true of.
  // NOT_FOUND; INVALID_ARGUMENT: not the start of an id, or of several, naming some.
  absl::StatusOr<CaptureRecord> ResolvePrefix(
      std::string_view id_prefix, absl::FunctionRef<bool(const CaptureRecord&)> is_meant);
  // NOT_FOUND. FAILED_PRECONDITION: there are no events (yet, any more, or ever), saying which.
  absl::StatusOr<std::unique_ptr<CaptureReader>> OpenReader(std::string_view id);
  absl::StatusOr<CaptureDownload> OpenForDownload(std::string_view id);
  // Kept also when the events are gone. NOT_FOUND.
  absl::StatusOr<CaptureSummaries> GetSummaries(std::string_view id);
  // At most `limit`, newest first, with ids below `before_id` (empty: from the newest), also
  // those whose events are gone.
  absl::StatusOr<std::vector<SummarizedCapture>> ListSummaries(const CaptureFilter& filter,
                                                               const SummaryParts& parts,
                                                               int64_t limit,
                                                               std::string_view before_id);
  absl::StatusOr<StoreUsage> Usage();

  // ---- imports (capture_store_imports.cc) ----
  // Makes room known for a capture file that was made elsewhere. RESOURCE_EXHAUSTED: larger than
  // one import, or all captures, may be (TOO_LARGE), or than what is free (DISK_FULL).
  absl::StatusOr<std::unique_ptr<IncomingCapture>> BeginImport(int64_t total_bytes);
  // Checks every row of what came and makes it a capture of the importer's, with summaries and a
  // row in the catalog, under the id that its file says unless that is taken, or of the future. A
  // group that others made is not joined. Takes seconds for a large file; `still_wanted` is asked
  // now and then, and its error returned.
  // INVALID_ARGUMENT (NOT_A_CAPTURE); DATA_LOSS: not all of it came; RESOURCE_EXHAUSTED. After an
  // error nothing of it is kept.
  absl::StatusOr<CaptureRecord> FinishImport(std::unique_ptr<IncomingCapture> incoming,
                                             const Importer& importer,
                                             absl::FunctionRef<absl::Status()> still_wanted);

  // ---- the audit log ----
  absl::Status AppendAudit(const AuditEntry& entry);
  // At most `limit` lines written before that of an earlier page; 0: from the newest.
  absl::StatusOr<AuditPage> ListAudit(const AuditFilter& filter, int64_t limit, int64_t before = 0);

  // ---- captures switched off ----
  // Why captures are forbidden on this node; nullopt: they are not. Kept over restarts.
  absl::StatusOr<std::optional<std::string>> CapturesForbidden();
  // nullopt: allows them.
  absl::Status ForbidCaptures(const std::optional<std::string>& reason);

 private:
  CaptureStore(Options options, Clock& clock, UniqueFd lock, std::unique_ptr<Catalog> catalog);

  absl::Status Evict();
  absl::Status NameImport(const Importer& importer, CaptureRecord& record);
  absl::StatusOr<CaptureRecord> KeepImport(const IncomingCapture& incoming, CaptureRecord record,
                                           const CaptureContents& contents);
  // The file of a capture whose events can be read.
  absl::StatusOr<std::filesystem::path> FindFile(std::string_view id, CaptureRecord& record);
  CapturePaths PathsOf(std::string_view id) const;
  void KeepSummaries(const SealedCapture& sealed);
  std::vector<DeviceSummaryRow> SummarizeDevices(const SealedCapture& sealed) const;

  const Options options_;  // But for the two limits below.
  std::atomic<int64_t> max_total_bytes_;
  std::atomic<int64_t> min_free_percent_;
  Clock& clock_;
  const UniqueFd lock_;
  // Of all imports on their way, what has not come yet.
  std::atomic<int64_t> promised_import_bytes_{0};
  // One import begins, or is kept, at a time. Lock order: before eviction_mu_.
  absl::Mutex import_mu_;
  // One eviction at a time. Lock order: before mu_.
  absl::Mutex eviction_mu_;
  absl::Mutex mu_;
  const std::unique_ptr<Catalog> catalog_ ABSL_PT_GUARDED_BY(mu_);
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_STORE_H_
