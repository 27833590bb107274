// DaemonClient talks to one profd. It is the only part of profctl that knows gRPC: all
// else sees the values of daemon/capture and daemon/report, online as offline.
//
// Threads:   one caller; Abort() any thread.
// Errors:    the daemon's, with its stable reason (daemon/base/reason.h). Beside them:
//            UNAVAILABLE (NO_DAEMON): none answers, or it went away; DEADLINE_EXCEEDED
//            (NO_ANSWER): it is there and silent; CANCELLED: Abort() was called;
//            FAILED_PRECONDITION (VERSIONS_DIFFER): it is too old for what was asked.
// Deadlines: every call but the streams has one.
#ifndef PROFD_CLI_CLIENT_DAEMON_CLIENT_H_
#define PROFD_CLI_CLIENT_DAEMON_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client/capture_view.h"
#include "cli/client/endpoints.h"
#include "cli/client/schedule_view.h"
#include "daemon/base/table/table.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/group_types.h"
#include "daemon/export/trace_export.h"
#include "daemon/report/ranks/history.h"
#include "daemon/report/reports.h"

namespace profd::cli {

// The API that this profctl needs, and the daemon must at least have.
inline constexpr int kApiVersion = 1;
// Reports run one at a time in the daemon, over captures of up to gigabytes.
inline constexpr std::chrono::seconds kReportDeadline(600);

struct NodeInfo {
  std::string name;
  std::string version;
  int api_version = 0;
  int64_t start_unix_ns = 0;
  int64_t uptime_ns = 0;
  int64_t pid = 0;
  int64_t uid = 0;
  int64_t clock_unix_ns = 0;
  int64_t clock_monotonic_ns = 0;
  std::string event_clock;
  double ticks_per_second = 0;
  int64_t clock_error_ns = -1;  // At most; -1: unknown.
  std::string data_dir;         // Empty: not shown to this caller.
  int64_t capture_count = 0;
  int64_t capture_bytes = 0;
  int64_t catalog_bytes = 0;
  int64_t max_bytes = 0;
  int64_t free_bytes = 0;
  int64_t evicted_count = 0;
  int64_t pinned_bytes = 0;
  bool storage_is_outdated = false;
  int64_t target_count = 0;
  int64_t live_capture_count = 0;
  int64_t capture_memory_bytes = 0;
  int64_t max_capture_memory_bytes = 0;
  int64_t unknown_frame_count = 0;
  int64_t refused_target_count = 0;
  int64_t resident_bytes = 0;
  bool captures_allowed = true;
  std::string captures_forbidden_reason;
  bool policy_stale = false;
  std::string policy_error;  // Empty: not stale, or not shown to this caller.
  std::string caller;        // Who the daemon takes us for: "uid:1000", "cn:alice"
};

// Use and limits of one resource of a daemon, as v1::Quotas.
struct QuotaView {
  enum class Unit { kCount, kBytes, kMilliseconds };
  struct Holding {
    std::string principal;
    int64_t used = 0;
    int64_t share = 0;
    bool active = false;
  };
  std::string name;
  Unit unit = Unit::kCount;
  int64_t used = 0;
  int64_t capacity = 0;
  int64_t reserve = 0;
  int64_t per_principal = 0;
  int64_t refused_count = 0;
  std::vector<Holding> holdings;  // Those that this caller may see; largest first.
};

// One line of a daemon's audit log, as v1::AuditEntry.
struct AuditLine {
  absl::Time time;
  std::string principal;
  std::string peer;
  std::string method;
  std::string resource;
  std::string outcome;
  std::string reason;
  int64_t duration_ns = 0;
  int64_t bytes = 0;
  int64_t repeat_count = 0;  // Equal calls that followed, the last of them at `last_time`.
  absl::Time last_time;
};
struct AuditQuery {
  absl::Time since = absl::InfinitePast();
  std::string principal;  // Empty: all.
  std::string method;
  bool refused_only = false;
};

struct CaptureFilter {
  std::vector<CaptureState> states;
  int64_t pid = 0;  // 0: any
  std::map<std::string, std::string> labels;
  std::string display_name;
  absl::Time since = absl::InfinitePast();    // Created at or after.
  absl::Time until = absl::InfiniteFuture();  // Created before.
  std::string group;                          // id
  std::string schedule;                       // id
  std::string job;                            // As JobOf().
  std::string requested_by;                   // Principal.
  bool include_deleted = false;
};

struct HistoryQuery;       // cli/client/history.h
struct RankSummaries;      // cli/client/history.h
struct RankSummaryLimits;  // cli/client/history.h

// A group as one daemon knows it: all members as far as it was told, and its own captures.
struct GroupView {
  GroupRecord record;
  std::vector<CaptureView> captures;
};

// A piece of a capture file.
struct DownloadPiece {
  std::string_view data;
  int64_t offset = 0;
  int64_t total_bytes = 0;
  std::string sha256;
};

// gRPC's own log lines stay off stderr, unless GRPC_VERBOSITY asks for them: errors of calls say
// what went wrong. Call it before the first connection.
void SilenceGrpc();

class DaemonClient {
 public:
  // The first endpoint whose daemon answers. UNAVAILABLE (NO_DAEMON) names what was tried.
  static absl::StatusOr<std::unique_ptr<DaemonClient>> Connect(
      const std::vector<Endpoint>& endpoints);
  // The daemon at `endpoint`, not asked anything yet, for who may want to Abort() the first call.
  // The first must be Greet().
  static std::unique_ptr<DaemonClient> Make(const Endpoint& endpoint);
  // Asks who answers. UNAVAILABLE (NO_DAEMON) says why none does.
  absl::Status Greet();
  ~DaemonClient();
  DaemonClient(const DaemonClient&) = delete;
  DaemonClient& operator=(const DaemonClient&) = delete;

  const std::string& address() const;
  const NodeInfo& node() const;  // As it was when we connected.

  absl::StatusOr<std::vector<TargetInfo>> ListTargets();
  // `pids` empty and not `all`: the only target.
  absl::StatusOr<std::vector<TargetInfo>> ResolveTargets(const std::vector<int64_t>& pids,
                                                         bool all);

  absl::StatusOr<CaptureView> CreateCapture(TargetNumber target, const CaptureSpec& spec,
                                            const std::string& request_id);
  absl::StatusOr<std::vector<CaptureView>> CreateCaptureGroup(
      const std::vector<TargetNumber>& targets, const CaptureSpec& spec,
      const std::string& request_id);
  // `id` may be a unique prefix.
  absl::StatusOr<CaptureView> GetCapture(const std::string& id);
  absl::StatusOr<GroupView> GetCaptureGroup(const std::string& id);
  // Newest first; `limit` 0: all. Steps are not filled in.
  absl::StatusOr<std::vector<CaptureView>> ListCaptures(const CaptureFilter& filter, int64_t limit);
  // Waits for the end of all of them. `on_change(i, view)` is called for every change of
  // ids[i]; `on_idle()` about every 100 ms. Returns their last views, in order. Should the
  // daemon go away it waits some seconds for the next one, which knows how they ended.
  absl::StatusOr<std::vector<CaptureView>> WatchCaptures(
      const std::vector<std::string>& ids,
      absl::FunctionRef<void(size_t, const CaptureView&)> on_change,
      absl::FunctionRef<void()> on_idle);
  // Newest first, at most `limit`; 0: all.
  absl::StatusOr<std::vector<AuditLine>> ListAudit(const AuditQuery& query, int64_t limit);
  absl::StatusOr<std::vector<QuotaView>> GetQuotas();
  // Captures on the daemon's node; `reason` is for the callers refused.
  absl::Status SetCapturesAllowed(bool allowed, const std::string& reason);

  // Works after Abort() too, and from any thread: it is what an interrupt asks for.
  absl::StatusOr<CaptureView> CancelCapture(const std::string& id);
  absl::StatusOr<CaptureView> DeleteCapture(const std::string& id);
  absl::StatusOr<CaptureView> SetCapturePinned(const std::string& id, bool pinned);
  // How many captures were removed, or would be, and what their files took.
  struct Purged {
    int64_t captures = 0;
    int64_t bytes = 0;
  };
  absl::StatusOr<Purged> PurgeCaptures(absl::Duration older_than, bool dry_run);

  // The daemon's part of a capture on many nodes (group_capture.h). PrepareGroup() waits until
  // the group is settled, or until `keep_waiting`, asked about every 100 ms with what is known so
  // far, says no. With `lease_without_caller` set, `presence` keeps the stream open, which tells
  // the daemon that this process is alive. Destroy it after the commit. It may outlive this client.
  class Presence;
  absl::StatusOr<GroupPreparation> PrepareGroup(
      const GroupRequest& request, absl::FunctionRef<bool(const GroupPreparation&)> keep_waiting,
      std::shared_ptr<Presence>* presence);
  absl::StatusOr<std::vector<MemberStart>> CommitGroup(const std::string& group_id,
                                                       const GroupStart& start);
  // Repeats a commit: the members' lease begins anew. `start` is the one that was committed.
  absl::Status RenewGroup(const std::string& group_id, const GroupStart& start,
                          absl::Duration deadline);
  // As CancelCapture(): after Abort() too, and from any thread.
  absl::Status AbortGroup(const std::string& group_id);
  absl::Status CloseGroup(const std::string& group_id, const std::vector<GroupMember>& members);
  // The node's wall clock, ns.
  absl::StatusOr<int64_t> ReadClock(absl::Duration deadline);

  // Both stream; an error of `on_piece` ends the call and is returned.
  absl::Status DownloadCapture(const std::string& id, int64_t offset,
                               absl::FunctionRef<absl::Status(const DownloadPiece&)> on_piece);
  absl::Status ExportTrace(const std::string& id, exporter::TraceFormat format,
                           absl::FunctionRef<absl::Status(std::string_view)> on_piece);

  // Sends the capture file at `path`; `on_bytes` hears of bytes sent, and in all. In
  // daemon_client_imports.cc.
  absl::StatusOr<CaptureView> ImportCapture(const std::string& path, const std::string& request_id,
                                            absl::FunctionRef<void(int64_t, int64_t)> on_bytes);

  // DATA_LOSS: also a report that does not fit together.
  absl::StatusOr<table::Report> GetReport(const std::string& id,
                                          const report::ReportRequest& wanted);
  // In daemon_client_history.cc.
  absl::StatusOr<report::History> GetHistory(const HistoryQuery& query);
  // At most `most` captures of groups, the newest; of `query` the times, job, and schedule count.
  absl::StatusOr<RankSummaries> ListRankSummaries(const HistoryQuery& query,
                                                  const RankSummaryLimits& limits);

  // Reached over the network, and not through a socket of this machine's.
  bool is_remote() const;
  // No call that begins from now on lasts beyond `deadline` of the monotonic clock; it then ends as
  // NO_ANSWER.
  void LimitCalls(absl::Duration deadline);
  // `id` may be empty in CreateSchedule (a new one), a unique prefix elsewhere.
  absl::StatusOr<ScheduleView> CreateSchedule(const ScheduleSpec& spec, const std::string& id);
  // `dry_run`: only what it would change.
  absl::StatusOr<AppliedView> ApplySchedule(const DeclarationView& declaration, bool dry_run);
  absl::StatusOr<ScheduleView> GetSchedule(const std::string& id);
  absl::StatusOr<std::vector<ScheduleView>> ListSchedules(bool include_deleted);
  absl::StatusOr<ScheduleView> SetSchedulePaused(const std::string& id, bool paused);
  absl::StatusOr<ScheduleView> DeleteSchedule(const std::string& id);
  // Newest first; `limit` 0: all. Windows before `since` may be left out.
  absl::StatusOr<std::vector<WindowView>> ListScheduleWindows(
      const std::string& id, int64_t limit, absl::Time since = absl::InfinitePast());

  // Ends the calls in flight, and all later ones but CancelCapture(), as CANCELLED.
  void Abort();

 private:
  class Impl;
  explicit DaemonClient(std::unique_ptr<Impl> impl);
  const std::shared_ptr<Impl> impl_;  // Also of the Presences that it gave out.
};

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_DAEMON_CLIENT_H_
