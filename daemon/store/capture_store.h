// CaptureStore is the daemon's durable record of captures: a catalog (catalog.db) with one row per
// capture, and one file per capture with its events. Nothing outside daemon/store knows SQL.
//
//   DATA_DIR/             0700; on a local disk; one daemon at a time (profd.lock)
//     catalog.db          captures, requesters, outcomes; summaries
//     catalog.reserve     1 MiB of reserved space (catalog/reserve.h)
//     captures/ID.part    being written, or left by a daemon that died
//     captures/ID.upload  an arriving import, without a capture's ID
//     captures/ID.profd   finished; never changed, only removed
//
// When the files, also unfinished ones, and the catalog take more than max_total_bytes, or the disk
// has less than min_free_percent free, old files are removed by the rules of eviction.h, if the
// request then fits. Their rows and summaries stay (CaptureRecord::deleted).
//
// On a full disk the catalog still takes writes that free space or stop captures, from a reserve:
// deletions, ends of captures, and the switch that forbids captures.
//
// Threads:    any. Calls wait for the disk: keep them off gRPC threads.
// Ownership:  `clock` must outlive the store, and the store every file it made.
// Durability: OK means the change survives a crash of the daemon. A power failure may lose the
//             newest changes; older ones are intact.
// Errors:     DATA_LOSS for a damaged file, RESOURCE_EXHAUSTED for a full disk, INTERNAL for any
//             other SQLite result, whose code is in the message.
#ifndef PROFD_DAEMON_STORE_CAPTURE_STORE_H_
#define PROFD_DAEMON_STORE_CAPTURE_STORE_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "daemon/base/clock.h"
#include "daemon/base/settled_clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/capture/ports.h"
#include "daemon/quota/ledger.h"
#include "daemon/schedule/schedule_store.h"
#include "daemon/store/catalog/eviction.h"
#include "daemon/store/catalog/reserve.h"
#include "daemon/store/catalog/types.h"
#include "daemon/store/data_dir.h"
#include "daemon/store/file/capture_reader.h"
#include "daemon/store/file/imported_record.h"
#include "daemon/store/file/seal.h"
#include "daemon/store/incoming_capture.h"
#include "daemon/store/unfinished_files.h"

namespace profd::store {

class Catalog;
class StoreRecovery;
struct CaptureContents;
struct StoredRecord;

// The reason of a capture whose file another program removed or moved.
inline constexpr std::string_view kFileMissingReason = "FILE_MISSING";

struct StoreUsage {
  int64_t capture_count = 0;  // With events.
  int64_t capture_bytes = 0;  // Of their files, including those being written.
  int64_t catalog_bytes = 0;
  int64_t max_total_bytes = 0;  // The cap on capture_bytes and the catalog.
  int64_t pinned_bytes = 0;     // Of capture_bytes.
  int64_t min_free_percent = 0;
  DiskSpace disk;
  int64_t evicted_capture_count = 0;  // Captures whose events were ever removed to make room.
  bool is_outdated = false;  // As it was before: the catalog is busy, or the disk does not answer.
};

// An open capture file; it stays readable if the capture is deleted.
struct CaptureDownload {
  UniqueFd file;
  int64_t size_bytes = 0;
  std::string sha256;  // Lower-case hex.
};

struct PurgeResult {
  int64_t capture_count = 0;
  int64_t file_bytes = 0;
};

class CaptureStore final : public StorePort, public ScheduleStore {
 public:
  static constexpr int64_t kMaxPageSize = 1000;
  // The default maximum of a capture.
  static constexpr int64_t kMaxImportBytes = int64_t{2} << 30;
  static constexpr absl::Duration kUsagePatience = absl::Milliseconds(200);

  struct Options {
    std::filesystem::path data_dir;
    int64_t max_total_bytes = int64_t{20} << 30;
    int64_t min_free_percent = 5;  // Of the file system; 0: no minimum.
    // Records, with events and summaries, are removed at this age, and the oldest ones of a
    // principal beyond this number. 0: never.
    absl::Duration keep_records = absl::Hours(24 * 180);
    int64_t max_records = 100'000;
    // Called with every audit entry, before AppendAudit() returns; `written`: it has a row, or
    // counts as a repetition of one. Must not block.
    std::function<void(const AuditEntry&, bool written, bool repeated)> on_audit;
    EventChecker check_events;  // See file/seal.h; nullptr: captures are graded by their records.
    EventSummarizer summarize;  // The same; nullptr: the catalog has no summaries of events.
    // Open() gives interrupted captures their final rows and leaves their files to a thread.
    bool recover_in_background = false;
    // Charges principals for what they store (catalog/holdings.h), and words the store's refusals;
    // must outlive the store. nullptr: no quotas.
    quota::Ledger* ledger = nullptr;
    // Returns the space of a path's file system; replaced in tests.
    std::function<absl::StatusOr<DiskSpace>(const std::filesystem::path&)> measure_disk;
  };

  // Opens, creates, or migrates the store, and ends captures that an earlier daemon left running:
  // PARTIAL if any of its events can be kept, else FAILED (both ended_by daemon_stop). Files
  // without a catalog row get one (store_recovery.h). FAILED_PRECONDITION: a newer profd wrote the
  // catalog, another process uses the directory, it belongs to another user, or it is on a network
  // file system. DATA_LOSS: the catalog is damaged.
  static absl::StatusOr<std::unique_ptr<CaptureStore>> Open(Options options, Clock& clock);
  ~CaptureStore() override;

  // ---- StorePort ----
  absl::Status InsertCapture(const CaptureRecord& record) override;
  absl::Status UpdateCapture(const CaptureRecord& record) override;
  absl::StatusOr<std::unique_ptr<CaptureFileSink>> CreateFile(const CaptureRecord& record) override;
  absl::Status CheckRoom(std::string_view principal, std::string_view capture_id) override;
  void MakeRoom(std::string_view principal, std::string_view capture_id) override;
  absl::StatusOr<EvictedCaptures> ListEvictedFor(std::string_view id,
                                                 std::string_view principal) override;
  absl::StatusOr<CaptureRecord> GetCapture(std::string_view id) override;
  absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                         int64_t requested_by_uid) override;
  // Also FAILED_PRECONDITION while the capture runs. OK if the events are gone already.
  absl::Status DeleteCapture(std::string_view id) override;
  // Pins a capture that is live or has events, or unpins it; idempotent. NOT_FOUND;
  // FAILED_PRECONDITION (CAPTURE_DELETED, NO_EVENTS). RESOURCE_EXHAUSTED (PIN_LIMIT): pinned
  // captures would take more than MaxPinnedBytes(). One that turns out to be beyond it when it is
  // stored is unpinned then.
  absl::Status SetPinned(std::string_view id, bool pinned);
  absl::StatusOr<std::set<std::string>> ListPinned();
  absl::StatusOr<bool> IsPinned(std::string_view id);
  absl::Status PinCapture(std::string_view id) override { return SetPinned(id, true); }
  // What pinned captures of one principal may take: a quarter of the cap, root's half of it, and
  // all together half of it.
  int64_t MaxPinnedBytes(std::string_view principal) const;
  // Removes captures created before `before` that `is_meant` accepts, with their events and
  // summaries, for good. Captures that are live or pinned stay. Takes seconds for thousands.
  absl::StatusOr<PurgeResult> PurgeCaptures(absl::Time before, bool dry_run,
                                            absl::FunctionRef<bool(const CaptureRecord&)> is_meant);
  absl::Status PutGroup(const GroupRecord& group) override;
  absl::StatusOr<GroupRecord> GetGroup(std::string_view id) override;

  // ---- ScheduleStore (capture_store_schedules.cc) ----
  absl::StatusOr<ScheduleRecord> InsertSchedule(const ScheduleRecord& record) override;
  absl::StatusOr<ScheduleRecord> ReplaceSchedule(const ScheduleRecord& record) override;
  absl::StatusOr<ScheduleTombstone> GetTombstone(std::string_view id) override;
  absl::Status UpdateSchedule(const ScheduleRecord& record) override;
  absl::StatusOr<std::vector<ScheduleRecord>> ListSchedules() override;
  absl::StatusOr<std::vector<ScheduleRecord>> ListDeletedSchedules(std::string_view id_prefix,
                                                                   std::string_view after_id,
                                                                   int64_t limit) override;
  absl::Status TrimDeletedSchedules(absl::Time before) override;
  absl::StatusOr<bool> RemoveOldestDeletedSchedule(std::string_view principal) override;
  absl::StatusOr<ScheduleHolding> GetHolding(std::string_view principal) override;
  absl::Status AppendWindows(const ScheduleRecord& record, std::span<const ScheduleWindow> windows,
                             absl::Time age_time) override;
  absl::Status EndWindow(const ScheduleWindow& window) override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListWindows(std::string_view schedule_id,
                                                          int64_t limit, absl::Time time,
                                                          int64_t pid) override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListRunningWindows() override;
  absl::StatusOr<std::vector<ScheduleWindow>> ListLastWindows(std::string_view schedule_id,
                                                              absl::Time since,
                                                              absl::Time until) override;
  absl::StatusOr<ScheduleUse> GetUse(std::string_view schedule_id, absl::Time now) override;
  absl::StatusOr<ScheduleTotals> GetTotals(std::string_view schedule_id) override;

  // Replaces the limits. Captures beyond them are removed when room is needed next, or by
  // TrimSoon().
  void SetLimits(int64_t max_total_bytes, int64_t min_free_percent);
  // Removes captures beyond the first limit, on a thread of the store. The second is kept only when
  // a capture needs room: if other programs fill the disk, every capture would go.
  void TrimSoon();

  // ---- asking ----
  // `page_size` in 1..kMaxPageSize; 0: 100. `page_token` is empty or from a page with the same
  // filter; INVALID_ARGUMENT for any other.
  absl::StatusOr<CapturePage> ListCaptures(const CaptureFilter& filter, int64_t page_size,
                                           std::string_view page_token);
  // The one capture whose id starts so, of those that `is_meant` is true of.
  // NOT_FOUND; INVALID_ARGUMENT: not the start of an id, or of several, naming some.
  absl::StatusOr<CaptureRecord> ResolvePrefix(
      std::string_view id_prefix, absl::FunctionRef<bool(const CaptureRecord&)> is_meant);
  // NOT_FOUND. FAILED_PRECONDITION: there are no events (yet, any more, or ever), saying which; or
  // they are being recovered (RECOVERING). DATA_LOSS: the file is damaged, or missing
  // (FILE_MISSING) though nothing here removed it.
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
  // After kUsagePatience in which the catalog is busy, as while a disk hangs: as it was before.
  absl::StatusOr<StoreUsage> Usage();

  // ---- imports (capture_store_imports.cc) ----
  // Reserves room for a capture file that was made elsewhere. RESOURCE_EXHAUSTED: larger than the
  // limit of an import or of all captures (TOO_LARGE), or than the free space (DISK_FULL).
  absl::StatusOr<std::unique_ptr<IncomingCapture>> BeginImport(int64_t total_bytes);
  // Checks every received row and makes the file a capture of the importer, with summaries and a
  // row in the catalog. It keeps the ID in the file, unless that is taken or in the future. It does
  // not join a group of another principal. Takes seconds for a large file; `still_wanted` is called
  // now and then, and its error is returned. INVALID_ARGUMENT (NOT_A_CAPTURE); DATA_LOSS: bytes are
  // missing; RESOURCE_EXHAUSTED. After an error nothing is kept.
  absl::StatusOr<CaptureRecord> FinishImport(std::unique_ptr<IncomingCapture> incoming,
                                             const Importer& importer,
                                             absl::FunctionRef<absl::Status()> still_wanted);
  // The same for a file that CheckWholeCapture() accepted in another process, with its event count.
  absl::StatusOr<CaptureRecord> FinishCheckedImport(std::unique_ptr<IncomingCapture> incoming,
                                                    const Importer& importer, int64_t event_count);

  // ---- the audit log ----
  // Appends an entry. One that repeats the last entry of its kind and principal, except times,
  // peer, and bytes, is counted there. The oldest entries of the same kind and principal are
  // removed first.
  absl::Status AppendAudit(const AuditEntry& entry);
  // Checks that the next entry can be written, even if the disk becomes full.
  // RESOURCE_EXHAUSTED (AUDIT_UNAVAILABLE) with advice.
  absl::Status CheckAudit();
  // At most `limit` lines written before that of an earlier page; 0: from the newest. Looks at all
  // rows for those that fit, by a connection of its own, so that no call waits for it. An error of
  // `still_wanted`, which is asked again and again, ends it.
  absl::StatusOr<AuditPage> ListAudit(
      const AuditFilter& filter, int64_t limit, int64_t before = 0,
      absl::FunctionRef<absl::Status()> still_wanted = [] { return absl::OkStatus(); });

  // ---- captures switched off ----
  // Returns why captures are forbidden on this node; nullopt: they are allowed. Reads memory; the
  // reason is kept across restarts.
  absl::StatusOr<std::optional<std::string>> CapturesForbidden();
  // Forbids captures; nullopt allows them. Takes effect at once, even if an error is returned: then
  // it could not be written, and a restart reverts it.
  absl::Status ForbidCaptures(const std::optional<std::string>& reason);

 private:
  CaptureStore(Options options, Clock& clock, UniqueFd lock, std::unique_ptr<Catalog> catalog);

  // Tells the ledger what changed, at the end of a scope that holds `mu_`.
  class LedgerUpdate {
   public:
    explicit LedgerUpdate(CaptureStore& store) : store_(store) {}
    LedgerUpdate(const LedgerUpdate&) = delete;
    LedgerUpdate& operator=(const LedgerUpdate&) = delete;
    ~LedgerUpdate() ABSL_NO_THREAD_SAFETY_ANALYSIS { store_.UpdateLedger(); }

   private:
    CaptureStore& store_;
  };
  void UpdateLedger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  absl::Status Recover();
  // The goal of one eviction.
  struct Shortage {
    int64_t over_cap_bytes = 0;    // Beyond max_total_bytes.
    int64_t disk_short_bytes = 0;  // Missing from the free space of the disk.
    int64_t bytes() const { return std::max(over_cap_bytes, disk_short_bytes); }
  };
  // Returns the bytes of the disk that must stay free.
  int64_t KeptFree(const DiskSpace& disk) const;
  absl::Status Settle();
  // Evicts what is beyond the cap, root's captures last. Logs what stays beyond it.
  absl::Status TrimAsOperator();
  void CopyCatalogLog() ABSL_LOCKS_EXCLUDED(mu_);
  void UnpinBeyondLimit(const CaptureRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Shortage> MeasureShortage(bool with_disk);
  // Removes the files that PlanEviction() names, and plans again if one was pinned meanwhile.
  // Returns false if they are not enough; then only files of an earlier plan are removed.
  absl::StatusOr<bool> Evict(EvictionRequest request, std::string_view why);
  void TrimToCap(std::string_view principal, std::string_view capture_id);
  // ---- capture_store_retention.cc ----
  // Removes expired records, and those beyond the catalog's part of the cap: a bounded number. If
  // it is not asked for at once, only now and then, and whenever the catalog is too large. Does
  // nothing while another thread does it.
  void ApplyRetention(bool at_once);
  // Every kRetentionPeriod, and after TrimSoon(), on a thread of its own.
  void KeepApplyingRetention(const std::stop_token& stop);
  absl::Status RemoveExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retention_mu_);
  absl::Status ShrinkCatalog();
  bool IsCatalogOverShare();
  absl::Status RemoveSome(std::string_view why, absl::StatusOr<std::vector<StoredRecord>> found);
  // Removes the events of a finished capture. False: it is pinned, maybe only since the caller
  // chose it. `evicted_for`: to make room for that capture, or for no single one if empty.
  absl::StatusOr<bool> RemoveUnpinned(std::string_view id,
                                      std::optional<std::string_view> evicted_for);
  // Returns those that are removed: all but what was pinned since the caller chose them.
  absl::StatusOr<std::vector<StoredRecord>> RemoveRecords(std::vector<StoredRecord> records);
  absl::Status NoRoomFor(std::string_view principal, const Shortage& shortage);
  absl::StatusOr<StoreUsage> ReadUsage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Runs `write`. If the disk is full, it runs once more with the catalog's reserve freed.
  absl::Status WriteEssential(absl::FunctionRef<absl::Status()> write)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasPinRoom(std::string_view principal, int64_t more_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status NameImport(const Importer& importer, CaptureRecord& record);
  absl::StatusOr<CaptureRecord> KeepImport(const IncomingCapture& incoming, CaptureRecord record,
                                           const CaptureContents& contents);
  // Returns the file of a capture with readable events.
  absl::StatusOr<std::filesystem::path> FindFile(std::string_view id, CaptureRecord& record);
  // Returns why the file that FindFile() found is not there.
  absl::Status WhyFileIsGone(std::string_view id);
  CapturePaths PathsOf(std::string_view id) const;
  // Writes the row and the summaries of a finished file, and evicts others if necessary.
  void KeepFile(SealedCapture& sealed, bool is_urgent);
  // Names in the record what cannot be made. Runs on the thread that finished the file. Returns
  // false if the daemon ends before they are made: the next start makes them.
  bool Summarize(SealedCapture& sealed, bool is_urgent);

  // The catalog's switch that forbids captures.
  static constexpr std::string_view kCapturesForbidden = "captures_forbidden";

  const Options options_;  // But for the two limits below.
  std::atomic<int64_t> max_total_bytes_;
  std::atomic<int64_t> min_free_percent_;
  Clock& clock_;
  const UniqueFd lock_;
  UnfinishedFiles unfinished_;
  // Bytes that all arriving imports still expect.
  std::atomic<int64_t> promised_import_bytes_{0};
  // One import begins, or is kept, at a time. Lock order: before eviction_mu_.
  absl::Mutex import_mu_;
  // Held by the one that applies retention. Lock order: before eviction_mu_ and mu_.
  absl::Mutex retention_mu_;
  int64_t rounds_ ABSL_GUARDED_BY(retention_mu_) = 0;
  SettledClock age_clock_ ABSL_GUARDED_BY(retention_mu_){
      clock_, "no record is removed for its age for an hour"};
  // One eviction at a time. Lock order: before mu_.
  absl::Mutex eviction_mu_;
  absl::Mutex mu_;
  // What must be answered while a disk hangs. Lock order: last.
  absl::Mutex memory_mu_;
  std::optional<std::string> captures_forbidden_ ABSL_GUARDED_BY(memory_mu_);
  StoreUsage last_usage_ ABSL_GUARDED_BY(memory_mu_);
  const std::unique_ptr<Catalog> catalog_ ABSL_PT_GUARDED_BY(mu_);
  CatalogReserve reserve_ ABSL_GUARDED_BY(mu_);
  CatalogReserve audit_reserve_ ABSL_GUARDED_BY(mu_);
  std::optional<AuditEntry> unwritten_audit_ ABSL_GUARDED_BY(mu_);  // The last, if it failed.
  const std::unique_ptr<StoreRecovery> recovery_;
  std::mutex trim_mu_;
  std::condition_variable_any trim_wake_;
  bool trim_is_due_ = false;  // Guarded by trim_mu_.
  // Last: they use all of the above.
  std::jthread recoverer_;
  std::jthread retention_;
};

}  // namespace profd::store

#endif  // PROFD_DAEMON_STORE_CAPTURE_STORE_H_
