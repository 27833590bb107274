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

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"

namespace profd {

// ---- decoded, validated events ----
// Times are ns since the capture's epoch: an instant the daemon picked when arming
// (CaptureSink::Epoch). They may be negative for ranges begun earlier.

inline constexpr uint8_t kRangeOpen = 1 << 0;       // Still open at the window's end.
inline constexpr uint8_t kRangeTruncated = 1 << 1;  // Began before the window.

struct RangeRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  uint32_t name;        // As given to CaptureSink::AddName.
  uint16_t depth;       // < 128
  uint8_t category;     // wire::RangeCategory
  uint8_t flags;        // kRange*
};
struct InstantRow {
  int64_t time_ns;
  uint32_t name;
};
struct CounterRow {
  int64_t time_ns;
  double value;
  uint32_t name;
};
struct MemoryRow {
  int64_t time_ns;
  uint64_t address;
  int64_t bytes;                  // >= 0
  int64_t total_allocated_bytes;  // -1: not known
  int64_t total_reserved_bytes;   // -1: not known
  uint8_t device_type;            // wire::DeviceType
  int16_t device_index;
  uint8_t category;  // wire::MemoryCategory
  bool is_free;
};
struct StepRow {
  int64_t time_ns;
  int64_t step;
};

// ---- GPU rows ----
// In no order of time. Devices, contexts and streams are CUDA's numbers in the target, and
// the numbers of kinds are CUPTI's; readers show those they do not know as numbers.

struct ApiRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  uint32_t name;
  uint32_t correlation;  // 0: none
  uint32_t cbid;
  int32_t result;
  bool is_driver;

  friend bool operator==(const ApiRow&, const ApiRow&) = default;
};

enum class GpuRowKind : uint8_t {  // Kept in files: never change or reuse a number.
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kGraphLaunch = 4,  // A whole graph whose nodes were not recorded.
};

inline constexpr uint8_t kGpuOrphan = 1 << 0;          // Its launch is not in the capture.
inline constexpr uint8_t kGpuStraddlesStart = 1 << 1;  // Began before its window.
inline constexpr uint8_t kGpuStraddlesEnd = 1 << 2;    // Ended after it.
inline constexpr uint8_t kGpuUnfinished = 1 << 3;      // Still running when the capture ended.
inline constexpr uint8_t kGpuAsync = 1 << 4;
inline constexpr uint8_t kGpuDeviceLaunched = 1 << 5;

// Something that ran on a stream. It belongs to the window that it ran in or, after the
// window's end, to that of its launch.
struct GpuRow {
  int64_t start_ns;
  int64_t duration_ns;  // >= 0
  GpuRowKind kind;
  uint8_t flags;  // kGpu*
  uint16_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;  // Of its ApiRow; 0: none.
  uint32_t name;         // Kernels: as recorded, mangled as a rule. Others: 0.
  uint32_t graph_id;     // 0: not of a graph
  uint64_t graph_node_id;
  uint64_t bytes;  // Copies and memsets.
  // Copies: CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind. Memsets: destination only.
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint16_t source_device;  // Copies between devices; kNoGpuDevice otherwise.
  uint16_t destination_device;
  // Kernels.
  int64_t queued_ns;     // kNoGpuTime: not known
  int64_t submitted_ns;  // kNoGpuTime: not known
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  std::array<uint16_t, 3> cluster;  // 0: no clusters
  uint16_t registers_per_thread;
  uint32_t static_shared_bytes;
  uint32_t dynamic_shared_bytes;
  uint32_t local_bytes_per_thread;

  friend bool operator==(const GpuRow&, const GpuRow&) = default;
};
inline constexpr uint16_t kNoGpuDevice = UINT16_MAX;
inline constexpr int64_t kNoGpuTime = INT64_MIN;

struct SyncRow {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t kind;    // CUpti_ActivitySynchronizationType
  uint16_t device;  // kNoGpuDevice: its context was never described.
  uint32_t context;
  uint32_t stream;  // wire::kNoStream: all of the context.
  uint32_t correlation;
  uint32_t event_id;

  friend bool operator==(const SyncRow&, const SyncRow&) = default;
};
struct OverheadRow {
  int64_t start_ns;
  int64_t duration_ns;
  uint32_t kind;       // CUpti_ActivityOverheadKind
  uint32_t os_thread;  // 0: not known
  uint32_t correlation;

  friend bool operator==(const OverheadRow&, const OverheadRow&) = default;
};
struct CudaEventRow {
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event_id;

  friend bool operator==(const CudaEventRow&, const CudaEventRow&) = default;
};

// A thread of the target. `index` counts 0, 1, 2, ... within a capture.
struct ThreadRow {
  uint32_t index;
  int64_t os_thread;  // In the target's namespace.
  std::string name;   // Cleaned UTF-8; empty: not known.
};

// What the end of a recording looked like, in epoch time.
struct RecordedWindow {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // Where it was cut, if `complete` is false.
  int64_t first_step = -1;
  int64_t end_step = -1;
  bool complete = false;  // The target closed it itself.
};

// Where the decoded events of one capture go: the capture file being written.
//
// Threads:   one at a time; ingest's worker until OnDrained, then the manager's.
// Errors:    RESOURCE_EXHAUSTED for a full disk, OUT_OF_RANGE at the byte cap, INTERNAL
//            otherwise; after an error the sink keeps what it has and refuses more.
// Rows of one thread arrive in order of their end (ranges) or time (others).
class CaptureSink {
 public:
  virtual ~CaptureSink() = default;

  // Ids count from 1, at most wire::kMaxNames of them; `name` is any bytes up to 4 KiB.
  // Before the first row that uses the id.
  virtual absl::Status AddName(uint32_t id, std::string_view name) = 0;
  // Again with the same index: replaces the name.
  virtual absl::Status AddThread(const ThreadRow& thread) = 0;
  virtual absl::Status AppendRanges(uint32_t thread, std::span<const RangeRow> rows) = 0;
  virtual absl::Status AppendInstants(uint32_t thread, std::span<const InstantRow> rows) = 0;
  virtual absl::Status AppendCounters(uint32_t thread, std::span<const CounterRow> rows) = 0;
  virtual absl::Status AppendMemory(uint32_t thread, std::span<const MemoryRow> rows) = 0;
  virtual absl::Status AppendSteps(uint32_t thread, std::span<const StepRow> rows) = 0;
  // GPU rows come in any order. API calls of any thread, each by its index; the others are
  // of no thread. Driver allocations are memory rows of wire::DeviceType::kCudaDriver.
  virtual absl::Status AppendApiCalls(uint32_t thread, std::span<const ApiRow> rows) = 0;
  virtual absl::Status AppendGpu(std::span<const GpuRow> rows) = 0;
  virtual absl::Status AppendSyncs(std::span<const SyncRow> rows) = 0;
  virtual absl::Status AppendOverheads(std::span<const OverheadRow> rows) = 0;
  virtual absl::Status AppendCudaEvents(std::span<const CudaEventRow> rows) = 0;

  // Bytes written so far, approximately (not counting what is still in memory).
  virtual int64_t approx_bytes() const = 0;
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
  // Room to begin a capture? RESOURCE_EXHAUSTED with advice if not.
  virtual absl::Status CheckRoom() = 0;

  virtual absl::StatusOr<CaptureRecord> GetCapture(std::string_view id) = 0;  // NOT_FOUND
  // The records whose non-empty request_id and requester match, oldest first: none, one,
  // or all members of a group.
  virtual absl::StatusOr<std::vector<CaptureRecord>> FindRequest(std::string_view request_id,
                                                                 int64_t requested_by_uid) = 0;
  // Removes the events (unlinks the file) and marks the record deleted. NOT_FOUND.
  virtual absl::Status DeleteCapture(std::string_view id) = 0;
};

// ---- targets ----

struct ArmRequest {
  std::string capture_id;
  int64_t memory_bytes = 0;
  bool allow_less_memory = false;
  GpuSpec gpu;
  std::string step_marker;  // Empty: the program marks its steps.
};

// The plan of a window; see wire::FireBody.
struct FirePlan {
  int64_t base_step = -1;  // -1: the next mark.
  int64_t steps = 0;       // 0: by time
  int64_t wait_steps = 0;
  int64_t warmup_steps = 0;
  int64_t repeat = 1;
};

enum class RecordingPhase { kArmed, kWaiting, kWarmup, kRecording, kEnded, kMissed };

struct Progress {
  RecordingPhase phase = RecordingPhase::kArmed;
  int64_t window = 0;  // Windows begun so far, less one; -1 before the first.
  int64_t current_step = -1;
  int64_t stored_bytes = 0;
  absl::Status sink_status;  // The first error the sink gave; the rest was dropped.
};

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
  bool target_gone = false;  // It ended before it could say it was drained.
  // With target_gone: the connection ended while the process lives (exec, protocol error).
  bool library_gone = false;
  absl::Status sink_status;
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
