// What captures need of the rest of the daemon, as interfaces: targets (implemented by
// daemon/ingest), storage (daemon/store). tests/fakes has fakes of both.
//
// One capture flows through them so:
//
//   CaptureManager ── Arm(sink) ──► TargetPort ──► target
//        ▲                             │ drains capture memory, validates, decodes
//        │ OnArmed, OnProgress, ...    ▼
//        └───────────────────────── CaptureSink (the capture file being written)
#ifndef PROFD_DAEMON_CAPTURE_PORTS_H_
#define PROFD_DAEMON_CAPTURE_PORTS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/group_types.h"
#include "daemon/quota/principal.h"

namespace profd {

// What the end of a recording looked like, in epoch time.
struct RecordedWindow {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // Where it was cut, if `complete` is false.
  int64_t first_step = -1;
  int64_t end_step = -1;
  bool complete = false;  // The target closed it itself.
};

// Rows of one kind, whichever that is, of one thread.
class EventRows {
 public:
  template <typename Row>
  EventRows(uint32_t thread, std::span<const Row> rows)
      : kind_(Row::kKind), thread_(thread), rows_(rows.data()), size_(rows.size()) {}

  RowKind kind() const { return kind_; }
  uint32_t thread() const { return thread_; }  // 0 for kinds without threads.
  size_t size() const { return size_; }
  // Calls fn(std::span<const Row>) with the type of the kind.
  template <typename F>
  void Visit(F&& fn) const {
    EventTypes::Visit(kind_, [this, &fn]<typename Row>() {
      fn(std::span<const Row>(static_cast<const Row*>(rows_), size_));
    });
  }

 private:
  RowKind kind_;
  uint32_t thread_;
  const void* rows_;
  size_t size_;
};

// Where the decoded events of one capture go: the capture file being written.
//
// Threads:   one at a time; ingest's worker until OnDrained, then the manager's.
// Errors:    RESOURCE_EXHAUSTED for a full disk, OUT_OF_RANGE at the byte cap, INTERNAL
//            otherwise; after an error the sink keeps what it has and refuses more.
// Rows of one thread arrive in order of their end (ranges) or time (others). GPU rows and notes
// come in any order. Operators come after the RangeRows they belong to, in their order.
// Driver allocations are memory rows of wire::DeviceType::kCudaDriver.
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;

  // Ids count from 1: at most wire::kMaxNames of the target's names, and as many more as arguments
  // of ranges have texts. `name` is any bytes up to 4 KiB. Before the first row that uses the id.
  virtual absl::Status AddName(uint32_t id, std::string_view name) = 0;
  // Again with the same index: replaces the name.
  virtual absl::Status AddThread(const ThreadRow& thread) = 0;
  // Ids of inputs and of scalars count from 1 each, at most kMaxOperatorInputs, and come before
  // the first row that uses them. `scalars` is a JSON array of strings, one per input, as traces
  // of torch.profiler have it in "Concrete Inputs".
  virtual absl::Status AddInputs(uint32_t id, const OperatorInputs& inputs) = 0;
  virtual absl::Status AddScalars(uint32_t id, std::string_view scalars) = 0;

  // A row or a contiguous range of rows, of a kind with threads (`thread` is the index of one) or
  // without.
  template <typename Rows>
  absl::Status Append(uint32_t thread, const Rows& rows) {
    const auto span = ToSpan(rows);
    static_assert(decltype(span)::value_type::kHasThread);
    return AppendRows(EventRows(thread, span));
  }
  template <typename Rows>
  absl::Status Append(const Rows& rows) {
    const auto span = ToSpan(rows);
    static_assert(!decltype(span)::value_type::kHasThread);
    return AppendRows(EventRows(0, span));
  }
  // What Append() comes to.
  virtual absl::Status AppendRows(const EventRows& rows) = 0;

  // Bytes written so far, approximately (not counting what is still in memory).
  virtual int64_t approx_bytes() const = 0;

 private:
  template <typename Rows>
  static auto ToSpan(const Rows& rows) {
    if constexpr (requires { Rows::kKind; }) {
      return std::span<const Rows>(&rows, 1);
    } else {
      return std::span<const std::ranges::range_value_t<Rows>>(rows);
    }
  }
};

// A capture file being written, as the manager holds it.
class CaptureFileSink : public CaptureSink {
 public:
  // Writes what is buffered, the windows, steps, summaries and `record` itself; checks,
  // hashes, syncs and renames the file. Fills record.file_bytes and record.file_sha256.
  // `record.windows` and step times count from record.start_unix_ns, which lies
  // `start_ns` after the epoch. Call once, last.
  virtual absl::Status Finish(CaptureRecord& record, int64_t start_ns) = 0;
  // Nothing was recorded: removes the file. Call once, last, instead of Finish.
  virtual void Discard() = 0;
};

// The catalog and the capture files, as the manager sees them.
//
// Threads:    any. Calls wait for the disk.
// Durability: OK means the change survives a crash of the daemon.
// Errors:     RESOURCE_EXHAUSTED (disk), INTERNAL otherwise, unless said.
class StorePort {
 public:
  virtual ~StorePort() = default;

  // FAILED_PRECONDITION if the id exists.
  virtual absl::Status InsertCapture(const CaptureRecord& record) = 0;
  virtual absl::Status UpdateCapture(const CaptureRecord& record) = 0;  // NOT_FOUND
  virtual absl::StatusOr<std::unique_ptr<CaptureFileSink>> CreateFile(
      const CaptureRecord& record) = 0;
  // Returns whether there is room for another capture of `principal` (PrincipalName()), or
  // MakeRoom() can make it. Ask last, once nothing else refuses the request. Removes nothing,
  // unless the disk has no space even for an empty file: then for `capture_id`, which may not have
  // a row yet.
  // RESOURCE_EXHAUSTED (DISK_FULL, QUOTA_EXCEEDED) with advice.
  virtual absl::Status CheckRoom(std::string_view principal, std::string_view capture_id) = 0;
  // Called once the target is armed: removes the oldest events that `principal` may displace, if
  // that frees enough. The store keeps that it was for `capture_id`: of several captures that were
  // fired together, the first.
  virtual void MakeRoom(std::string_view principal, std::string_view capture_id) = 0;
  // Returns the captures whose events were removed to make room for capture `id`; IDs of those of
  // `principal` alone. None for an unknown ID.
  virtual absl::StatusOr<EvictedCaptures> ListEvictedFor(std::string_view id,
                                                         std::string_view principal) = 0;

  virtual absl::StatusOr<CaptureRecord> GetCapture(std::string_view id) = 0;  // NOT_FOUND
  // The records whose non-empty request_id and requester match, oldest first: none, one,
  // or all members of a group.
  virtual absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                                 int64_t requested_by_uid) = 0;
  // Removes the events (unlinks the file) and marks the record deleted. NOT_FOUND.
  virtual absl::Status DeleteCapture(std::string_view id) = 0;

  // Adds the group, or replaces what is known of it.
  virtual absl::Status PutGroup(const GroupRecord& group) = 0;
  virtual absl::StatusOr<GroupRecord> GetGroup(std::string_view id) = 0;  // NOT_FOUND
};

// ---- targets ----

struct ArmRequest {
  std::string capture_id;
  quota::Principal holder;  // Whose quota the capture memory counts against.
  int64_t memory_bytes = 0;
  bool allow_less_memory = false;
  GpuSpec gpu;
  TorchSpec torch;
  std::string step_marker;  // Empty: the program marks its steps.
  // Ingest stops it that much later: it waits for no disk.
  absl::Duration time_left = absl::InfiniteDuration();
};

// The plan of a window; see wire::FireBody.
struct FirePlan {
  int64_t base_step = -1;  // -1: the next mark.
  int64_t steps = 0;       // 0: by time
  int64_t wait_steps = 0;
  int64_t warmup_steps = 0;
  int64_t repeat = 1;
  // Ingest ends a window that has lasted for so long: it waits for no disk.
  absl::Duration longest_window = absl::InfiniteDuration();
};

enum class RecordingPhase { kArmed, kWaiting, kWarmup, kRecording, kEnded, kMissed };

struct Progress {
  RecordingPhase phase = RecordingPhase::kArmed;
  int64_t window = 0;  // Windows begun so far, less one; -1 before the first.
  int64_t current_step = -1;
  int64_t stored_bytes = 0;
  absl::Status sink_status;  // The first error the sink gave; the rest was dropped.
};

// How long a thread has run, and waited for a CPU, since it began; -1: it cannot be read.
struct CpuTimes {
  int64_t ran_ns = -1;
  int64_t waited_ns = -1;
};
// Returns the present times of each of the threads of a CpuRecord, in their order. Any thread may
// call it, also when the target has ended. It takes about 10 us for each of them.
using CpuTimesReader = std::function<std::vector<CpuTimes>()>;

// All that ingest knows when it has nothing more to give.
struct DrainResult {
  std::vector<RecordedWindow> windows;
  int64_t epoch_unix_ns = 0;  // Wall time of the capture's epoch.
  DropCounts drops{};
  int64_t event_count = 0;
  int64_t warmup_event_count = 0;
  int64_t open_range_count = 0;
  int64_t truncated_range_count = 0;
  int64_t other_name_event_count = 0;
  int64_t foreign_step_mark_count = 0;
  int64_t clock_error_ns = 0;
  GpuRecord gpu;
  TorchRecord torch;
  CpuRecord cpu;
  CpuTimesReader read_cpu_times;  // Of `cpu`. Empty: there are none.
  bool target_gone = false;       // It ended before it could say it was drained.
  // With target_gone: the connection ended while the process lives (exec, protocol error).
  bool library_gone = false;
  bool target_is_stopped = false;  // By a signal, so that it did not answer.
  // What ingest stopped it for: kDuration (FirePlan::longest_window), kDeadline
  // (ArmRequest::time_left), or kNone: it did not.
  EndedBy ended_by = EndedBy::kNone;
  absl::Status sink_status;
};

struct StepTime {
  int64_t step = 0;
  int64_t duration_ns = 0;
};
// The last steps of a target, as far as it shows them: at most 63, oldest first, all of `source`.
struct RecentSteps {
  StepSource source = StepSource::kNone;
  int64_t current_step = -1;      // In progress; -1: none, or no such target.
  int64_t since_current_ns = -1;  // Since its mark; -1: not known.
  std::vector<StepTime> steps;
};

// The targets of this node.
//
// Threads: any. Commands return at once; what comes of them is told to the observer.
class TargetPort {
 public:
  // Called on ingest's threads; must not block or call back into TargetPort.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnTargetAdded(TargetNumber target) = 0;
    virtual void OnTargetGone(TargetNumber target) = 0;
    // It asks not to be captured, from now on.
    virtual void OnTargetOptedOut(TargetNumber target) = 0;
    virtual void OnArmed(std::string_view capture_id) = 0;
    // Arming takes long; `activity` says what the target is doing, cleaned for display.
    virtual void OnArming(std::string_view capture_id, std::string_view activity) = 0;
    virtual void OnArmFailed(std::string_view capture_id, absl::Status why) = 0;
    // When the phase, window or step changed, or the sink failed; not more often than
    // every 10 ms but at once for a new phase.
    virtual void OnProgress(std::string_view capture_id, const Progress& progress) = 0;
    // Once per armed capture, after Stop or the target's death; the sink is free again.
    virtual void OnDrained(std::string_view capture_id, DrainResult result) = 0;
  };
  virtual ~TargetPort() = default;

  virtual std::vector<TargetInfo> List() const = 0;
  virtual std::optional<TargetInfo> Find(TargetNumber target) const = 0;
  // The median length of the steps in [first_step, end_step) whose both marks are still
  // among the target's last 64, ns; 0: there are none, or no such target.
  virtual int64_t MedianStepNs(TargetNumber target, int64_t first_step, int64_t end_step) const = 0;
  virtual RecentSteps GetRecentSteps(TargetNumber target) const = 0;

  // Makes capture memory and sends ARM; later OnArmed or OnArmFailed. `sink` must live
  // until OnDrained or OnArmFailed. NOT_FOUND: no such target. RESOURCE_EXHAUSTED: the
  // node's capture memory cap. FAILED_PRECONDITION: the target has a live capture.
  virtual absl::Status Arm(TargetNumber target, const ArmRequest& request, CaptureSink& sink) = 0;
  // After OnArmed.
  virtual void Fire(std::string_view capture_id, const FirePlan& plan) = 0;
  // Ends the window (if it has not ended), drains, and releases; later OnDrained. Also
  // before OnArmed: then OnDrained with no windows. Repeating it does nothing.
  virtual void Stop(std::string_view capture_id) = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_PORTS_H_
