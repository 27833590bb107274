// The vocabulary of captures: what is asked for (CaptureSpec), what a capture is
// (CaptureRecord), what a target looks like (TargetInfo), and the drawing of a capture's
// life. Values only; no behaviour beyond names and validation.
//
// How do I add an option of a capture?  A field in CaptureSpec with its range and default, a line
// in ValidateSpec(), a line in capture_fields.h, the field in proto/profd/v1/captures.proto, a line
// in cli/render/capture_json.cc, and a flag in cli/commands/trace.cc.
#ifndef PROFD_DAEMON_CAPTURE_CAPTURE_TYPES_H_
#define PROFD_DAEMON_CAPTURE_CAPTURE_TYPES_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace profd {

// A capture's life:
//
//  PENDING ─► ARMING ─► WAITING_STEP ─► WARMUP ─► RECORDING ─► DRAINING ─► STORING ─► COMPLETE
//     │          │            │            │          │            │           └────► PARTIAL
//     └──────────┴────────────┴────────────┴──────────┴────────────┴─► CANCELLED | FAILED
//
// WAITING_STEP, WARMUP and RECORDING repeat when `repeat` asks for several windows.
// CanAdvance() is this drawing. The numbers are kept in files: never change or reuse one.
enum class CaptureState {
  kPending = 1,
  kArming = 2,
  kWaitingStep = 3,
  kWarmup = 4,
  kRecording = 5,
  kDraining = 6,
  kStoring = 7,
  kComplete = 8,    // Every step (or the time) asked for was covered and stored.
  kPartial = 9,     // Something was kept, not all that was asked; `ended_by` says why.
  kFailed = 10,     // Nothing was recorded; `ended_by` and `error_message` say why.
  kCancelled = 11,  // A caller cancelled; what was recorded by then is kept.
};
bool CanAdvance(CaptureState from, CaptureState to);
bool IsTerminal(CaptureState state);
std::string_view ToString(CaptureState state);  // "RECORDING"
std::optional<CaptureState> CaptureStateFromString(std::string_view text);

// Why a capture ended. Kept in files: never change or reuse a number.
enum class EndedBy {
  kNone = 0,          // It has not.
  kSteps = 1,         // All steps asked for were covered.
  kDuration = 2,      // The time asked for was covered.
  kCancel = 3,        // CancelCapture.
  kTargetExit = 4,    // The target ended.
  kByteCap = 5,       // `max_bytes` was reached.
  kDeadline = 6,      // `timeout` passed.
  kDaemonStop = 7,    // profd was stopped, or died and was started again.
  kDiskFull = 8,      // No room for the capture file.
  kArmFailed = 9,     // The target could not arm.
  kArmTimeout = 10,   // The target did not answer ARM in time.
  kMissedStart = 11,  // The start step had passed when the target heard of it.
  // 12 is free.
  kTargetLost = 13,    // The target's library went away (exec, or a protocol error).
  kStorage = 14,       // The capture file could not be written, for another reason than space.
  kLeaseExpired = 15,  // Prepared, and not committed in time.
  kPreempted = 16,     // A schedule's; a user asked for the target.
  kOptOut = 17,        // Captures of the target, or of the node, were switched off.
  kCuptiTaken = 18,    // Another tool took the target's CUPTI over: the GPU's part is incomplete.
};
std::string_view ToString(EndedBy ended_by);  // "target_exit"
std::optional<EndedBy> EndedByFromString(std::string_view text);

// Why events were not kept. The first five are counted by the target.
enum class DropReason {
  kNoChunk = 0,        // capture memory was full
  kTooDeep = 1,        // nested deeper than 128
  kTooLarge = 2,       // record over 4096 bytes
  kUnbalancedEnd = 3,  // an end with no open range
  kNoThreadState = 4,  // too many live threads
  kInvalidRecord = 5,  // a record that failed validation
  kUnknownKind = 6,    // a kind this daemon does not know
  kByteCap = 7,        // beyond the capture's byte cap
  kDisk = 8,           // could not be written
  kStuckWriter = 9,    // a thread never finished its write
  // GPU records, counted by the target's GPU thread.
  kCuptiDropped = 10,     // CUPTI itself had no room
  kGpuNoBuffer = 11,      // the target's buffers for CUPTI were at their cap
  kGpuLate = 12,          // in buffers that came back after the drain's time was over
  kGpuUntimed = 13,       // CUPTI gave no times
  kGpuCorrupt = 14,       // unreadable
  kGpuRecordCap = 15,     // beyond the cap on records
  kGpuLostBuffer = 16,    // buffers that CUPTI never gave back, each counted as one
  kGpuStillRunning = 17,  // launched in the window, and not begun when the drain's time was over
  kThinned = 18,          // removed from a trace before its import
};
inline constexpr int kDropReasonCount = 19;
std::string_view ToString(DropReason reason);  // "no_chunk"
using DropCounts = std::array<int64_t, kDropReasonCount>;
int64_t TotalDrops(const DropCounts& drops);

// How much of the GPU to record; each includes those before it. Kept in files.
enum class GpuMode {
  kAuto = 0,  // As kDefault if the target uses CUDA; else without, and the result says so.
  kOff = 1,
  kLight = 2,    // Kernels, copies, memsets, also as nodes of graphs.
  kDefault = 3,  // And API calls, synchronization, overhead.
  // And all driver calls, device memory and pools, CUDA events, host functions, decompression.
  kFull = 4,
};
std::string_view ToString(GpuMode mode);  // "default"
std::optional<GpuMode> GpuModeFromString(std::string_view text);

struct GpuSpec {
  GpuMode mode = GpuMode::kAuto;
  int64_t buffer_bytes = 64 << 20;   // Most that CUPTI's buffers take in the target, 4 MiB..1 GiB.
  int64_t max_records = 20'000'000;  // 1,000..100,000,000; recording the GPU stops there.
  bool detach = false;   // Let go of CUPTI afterwards (cuptiFinalize). Default: stay attached.
  bool latency = false;  // Queue and submit times of kernels; costs more per launch.

  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

// How much of PyTorch's operators to record; each includes those before it. Kept in files.
enum class OperatorMode {
  kAuto = 0,  // As kShapes where there is torch; the result says so.
  kOff = 1,
  kNames = 2,   // Names, nesting, forward and backward.
  kShapes = 3,  // And inputs: sizes, types, scalars.
};
std::string_view ToString(OperatorMode mode);  // "shapes"
std::optional<OperatorMode> OperatorModeFromString(std::string_view text);

// Where steps come from; the numbers are wire::StepSource's. Kept in files.
enum class StepSource {
  kNone = 0,        // As a target's: it has no steps. As asked for: the target's own.
  kMarks = 1,       // The program marks them.
  kOptimizer = 2,   // torch's Optimizer.step()
  kProfiler = 3,    // The program's own torch.profiler
  kDataLoader = 4,  // torch's DataLoader gives the next batch
  // The rounds in which a thread repeats torch's operators; of captures that ask for it alone.
  kPeriodicity = 5,
};
std::string_view ToString(StepSource source);  // "optimizer"; kNone: "none"
std::optional<StepSource> StepSourceFromString(std::string_view text);

struct TorchSpec {
  OperatorMode operators = OperatorMode::kAuto;
  bool strides = false;  // Strides of inputs. With kShapes.
  bool memory = false;   // Events of torch's allocators, and whose blocks they are.
  bool stacks = false;   // Python stacks of operators. Not with kOff.
  bool modules = false;  // The torch.nn.Module that operators ran in. Not with kOff.
  // Count these as steps in this capture, whatever the target's own are; kNone: the target's
  // own. With `steps`, without `start_step` and `step_marker`; steps then count from 0.
  StepSource step_source = StepSource::kNone;

  friend bool operator==(const TorchSpec&, const TorchSpec&) = default;
};
// Whether anything of PyTorch is asked for.
bool WantsTorch(const TorchSpec& spec);

inline constexpr int64_t kDefaultCaptureMemoryBytes = 64 << 20;
// The least that a capture of the default size gets if several that were requested together share
// the memory that is left.
inline constexpr int64_t kMinSharedMemoryBytes = 4 << 20;

// What is asked for. Exactly one of `steps` and `duration` is set.
struct CaptureSpec {
  int64_t steps = 0;         // Complete steps per window, 1..1,000,000; 0: by `duration`.
  int64_t warmup_steps = 1;  // Discarded steps before each window, 0..10,000.
  int64_t wait_steps = 0;    // Idle steps before each warm-up, 0..1,000,000.
  int64_t repeat = 1;        // Windows, 1..64. Steps only.
  int64_t start_step = -1;   // First recorded step; -1: the next one possible.
  absl::Duration duration = absl::ZeroDuration();  // (0, 1h]
  absl::Duration timeout = absl::Minutes(5);       // From creation to the window's end; (0, 24h].
  // Capture memory, 1 MiB..4 GiB; rounded up to 64 KiB. With the default, captures that are
  // requested together and do not fit share the memory that is left, kMinSharedMemoryBytes or more.
  int64_t memory_bytes = kDefaultCaptureMemoryBytes;
  bool allow_less_memory = false;        // Shrink instead of refuse when the node is at its cap.
  int64_t max_bytes = int64_t{2} << 30;  // Of the capture file, >= 1 MiB.
  GpuSpec gpu;
  TorchSpec torch;
  // The range whose outermost begins on a thread are steps, for programs that mark none; at most
  // 255 bytes, printable. With `steps` only. Steps then count from 0 at the first begin.
  std::string step_marker;
  std::string display_name;                   // At most 128 bytes, printable UTF-8.
  std::map<std::string, std::string> labels;  // At most 32; see ValidateLabel().

  friend bool operator==(const CaptureSpec&, const CaptureSpec&) = default;
};
// Whether its steps are its own, counted from 0, and not those that the target counts.
bool CountsOwnSteps(const CaptureSpec& spec);
// INVALID_ARGUMENT naming the field, its range and the value.
absl::Status ValidateSpec(const CaptureSpec& spec);
// Keys match [a-z][a-z0-9_.-]{0,62}; values are at most 255 bytes of printable UTF-8.
absl::Status ValidateLabel(std::string_view key, std::string_view value);

// kStopped: by a signal (SIGSTOP), or in a debugger that used one. Only lists of targets say so,
// and only of those without a capture.
enum class TargetState { kRunning = 1, kCapturing = 2, kGone = 3, kStopped = 4 };
std::string_view ToString(TargetState state);  // "RUNNING"

// The daemon's name for one registration of one process; never reused by this daemon.
using TargetNumber = int64_t;

// Which piece of work a target is part of, from its cgroup, which only root can change: good
// for deciding who may. Empty: of none.
struct Workload {
  std::string slurm_job;      // "88123"
  std::string pod_uid;        // "8c2a0e4e-...", Kubernetes'.
  std::string pod_namespace;  // Kubernetes', where the node tells (daemon/ingest/workload.h).
  std::string pod_name;
  std::string container_id;  // 64 hex digits, of the innermost container.

  friend bool operator==(const Workload&, const Workload&) = default;
};

// The thread of the client library in a target, and how many seccomp filters it had when the target
// registered. Known to profd only; not stored.
struct AgentThread {
  int64_t tid = 0;           // In the daemon's pid namespace; 0: not found.
  int64_t filter_count = 0;  // Linux tells since 5.9.
};

// A target as the daemon sees it. pid, uid, gid, start_time and cgroup come from the
// kernel; the rest is hearsay from the target, cleaned for display.
struct TargetInfo {
  TargetNumber number = 0;
  int64_t pid = 0;  // In the daemon's pid namespace.
  int64_t uid = 0;
  int64_t gid = 0;
  int64_t parent_pid = 0;
  int64_t process_start_ticks = 0;  // /proc/PID/stat field 22; with pid, names a process.
  AgentThread agent;
  int64_t namespace_pid = 0;       // The pid inside the target's own pid namespace.
  bool foreign_namespace = false;  // In another pid or user namespace than the daemon.
  std::string command;             // argv, joined by spaces, cut at 4 KiB.
  std::string cgroup;
  std::string library_version;
  int protocol_version = 0;
  std::map<std::string, std::string> metadata;  // "rank", "job", ...
  absl::Time registered_time;
  TargetState state = TargetState::kRunning;
  int64_t step_mark_count = 0;  // 0: never marked a step.
  int64_t current_step = -1;    // step_mark_count - 1
  double steps_per_second = 0;  // Over the last marks; 0: not known.
  int64_t dropped_event_count = 0;
  int64_t foreign_step_mark_count = 0;
  StepSource step_source = StepSource::kNone;
  int64_t batch_count = 0;  // Taken from torch's DataLoaders while the library looked at them.
  // Since the newest step mark, and the median time of the last steps, ns; -1: not known.
  int64_t since_last_step_ns = -1;
  int64_t median_step_ns = -1;
  Workload workload;
  bool opted_out = false;  // It asked not to be captured (PROFD_OPTOUT); no caller may.
};
// The job by which people name it: the Slurm job of its cgroup, else what its environment says
// (metadata "job"), else empty. For choosing and display, never for deciding who may.
std::string JobOf(const TargetInfo& target);
// Whether at least two steps are overdue by the target's own step time: it may hang.
bool MissesSteps(const TargetInfo& target);
// Metadata "rank"; -1: none that is a number.
int64_t RankOf(const TargetInfo& target);

struct StepRecord {
  int64_t index = 0;     // As in ProfilerStep#index.
  int64_t window = 0;    // Which window of the capture, from 0.
  int64_t start_ns = 0;  // Since CaptureRecord::start_time.
  int64_t duration_ns = 0;
};

struct WindowRecord {
  int64_t start_ns = 0;  // Since CaptureRecord::start_time; the first is 0.
  int64_t end_ns = 0;
  int64_t first_step = -1;  // -1: by time
  int64_t end_step = -1;    // One past the last.
};

struct GpuDevice {
  int64_t number = 0;  // CUDA's, in the target.
  std::string name;    // "NVIDIA H200", cleaned for display.
  std::string uuid;    // "GPU-8c2a...", lower-case hex; empty: not known.
  int64_t memory_bytes = 0;
  int64_t compute_major = 0;
  int64_t compute_minor = 0;
  int64_t sm_count = 0;
  int64_t warp_threads = 0;
  int64_t max_threads_per_block = 0;
  int64_t max_threads_per_sm = 0;
  int64_t max_blocks_per_sm = 0;
  int64_t registers_per_block = 0;
  int64_t registers_per_sm = 0;
  int64_t shared_bytes_per_block = 0;
  int64_t shared_bytes_per_sm = 0;
  int64_t shared_bytes_per_block_optin = 0;
};
struct GpuStream {
  int64_t context = 0;
  int64_t stream = 0;
  int64_t device = -1;  // -1: not known
  int64_t priority = 0;
  int64_t flags = 0;  // CUpti_ActivityStreamFlag
};
struct GpuKindFailure {
  std::string kind;    // "overhead"
  std::string result;  // "CUPTI_ERROR_NOT_SUPPORTED (27)"
};

// How recording the GPU went.
enum class GpuOutcome {  // Kept in files.
  kOff = 0,              // Not asked for.
  kNoCuda = 1,           // The target has no CUDA (mode auto).
  kRecorded = 2,         // As asked, as far as `kind_failures` does not say otherwise.
  kBroken = 3,           // Begun, then lost: `problem` says how.
  kUnknown = 4,          // The target never said: it died, or its library is older.
};
std::string_view ToString(GpuOutcome outcome);  // "recorded"
std::optional<GpuOutcome> GpuOutcomeFromString(std::string_view text);

struct GpuRecord {
  GpuOutcome outcome = GpuOutcome::kOff;
  GpuMode mode = GpuMode::kOff;  // What was recorded; never kAuto.
  std::string problem;           // For people; empty: none.
  bool cupti_taken = false;      // By another tool. Not kept in files: `ended_by` says it.
  // In the process after the capture, where each call of CUDA still costs more. Not kept in files:
  // `slowdown` says it.
  bool cupti_stays = false;
  // From the stand-in for CUPTI, not from a GPU: every output says so.
  bool simulated = false;
  int64_t cupti_version = 0;   // 130001
  int64_t driver_version = 0;  // 13000; 0: not known
  int64_t arm_ns = 0;          // Until CUPTI was recording.
  int64_t clock_error_ns = 0;  // Of GPU times, besides the record's.
  int64_t clock_step_count = 0;
  int64_t peak_pool_bytes = 0;
  std::vector<GpuDevice> devices;
  std::vector<GpuStream> streams;
  std::vector<GpuKindFailure> kind_failures;
  // Records by what became of them; losses are in CaptureRecord.drops.
  int64_t record_count = 0;
  int64_t stale_count = 0;          // Of an earlier capture.
  int64_t before_window_count = 0;  // Ended before the window.
  int64_t after_window_count = 0;   // Begun after it, by no launch of it.
  int64_t filtered_api_count = 0;
  int64_t orphan_count = 0;  // Kept; their launch is not in the capture.
  int64_t straddling_count = 0;
  int64_t unfinished_count = 0;
};

// How recording PyTorch went.
enum class TorchOutcome {  // Kept in files.
  kOff = 0,                // Not asked for.
  kNoTorch = 1,            // There is no torch in the target, or none that the library could use.
  kRecorded = 2,           // All that was asked for.
  kLimited = 3,            // Not all: `missing` says what, and why.
  kUnknown = 4,            // The target never said: it died, or its library is older.
};
std::string_view ToString(TorchOutcome outcome);  // "recorded"
std::optional<TorchOutcome> TorchOutcomeFromString(std::string_view text);

struct TorchMissing {
  std::string feature;  // "shapes"
  std::string reason;   // For people, cleaned.
};

struct TorchRecord {
  TorchOutcome outcome = TorchOutcome::kOff;
  OperatorMode operators = OperatorMode::kOff;  // What was recorded; never kAuto.
  bool memory = false;                          // Was recorded.
  std::string version;                          // "2.6.0+cu124", cleaned; empty: not known.
  std::vector<TorchMissing> missing;
  StepSource step_source = StepSource::kNone;  // Whose steps the capture counted.
  int64_t operator_count = 0;                  // Kept.
  int64_t tensor_use_count = 0;
  int64_t note_count = 0;
  int64_t block_count = 0;
  int64_t folded_count = 0;  // Inside of compilations, left out on purpose.
  // Operators whose inputs are not all there, and ranges whose arguments were cut or left out.
  int64_t cut_input_count = 0;
  int64_t odd_tensor_count = 0;     // Inputs that did not look like the tensor they should be.
  int64_t lost_note_count = 0;      // Notes and blocks for which there was no room.
  int64_t missed_memory_count = 0;  // Allocator events while it recorded, or without room.
  int64_t stack_count = 0;          // Distinct Python stacks, those of callers included.
  int64_t missing_stack_count = 0;  // Operators and stacks whose frames are not all there.
};

// How long the threads of the target ran, and were ready to run but waited for a CPU, while its
// windows were recorded, as the kernel counts it; without those of the client library.
struct ThreadCpuRecord {
  int64_t os_thread = 0;  // In the target's namespace.
  int64_t ran_ns = 0;
  int64_t waited_ns = 0;
  // The same after the windows, while nothing was recorded (`after_watched_ns`). Both 0: it did
  // neither, or that is not known.
  int64_t after_ran_ns = 0;
  int64_t after_waited_ns = 0;
};
inline constexpr size_t kMostCpuThreads = 16;
// How long was waited until a moment, since the first of these.
struct CpuSample {
  int64_t time_ns = 0;             // Since the first window began; negative: before.
  int64_t waited_ns = 0;           // By all threads of the target.
  int64_t children_waited_ns = 0;  // By all threads of its children.
};
inline constexpr size_t kMostCpuSamples = 256;
struct CpuRecord {
  int64_t watched_ns = 0;  // How long they were watched; 0: it was not measured.
  // How long `threads` were watched once the target had nothing left to do for the capture; 0: they
  // were not, such as where they hardly waited in the windows.
  int64_t after_watched_ns = 0;
  int64_t thread_count = 0;
  int64_t ran_ns = 0;  // Summed over all threads, as is:
  int64_t waited_ns = 0;
  std::vector<ThreadCpuRecord> threads;  // The kMostCpuThreads that ran or waited longest.
  // The target's children and theirs, such as workers of a DataLoader: how many ran or waited for
  // 1 % of the time or more, and the sums of the threads of all.
  int64_t child_count = 0;
  int64_t children_ran_ns = 0;
  int64_t children_waited_ns = 0;
  // In order of time, at most kMostCpuSamples. Two are further apart the longer the capture is.
  std::vector<CpuSample> samples;
  // What is not in the sums. The largest number in any one sample: threads of the target that were
  // not read, and child processes of which at least one thread was not.
  int64_t unread_thread_count = 0;
  int64_t unread_child_count = 0;
  // In windows, of the target and its children; watched until the last sample before their end.
  int64_t ended_thread_count = 0;
  // How long threads of the target ran that are not in `ran_ns`: those that were not read, and
  // those that ended, after the last sample. A lower bound: 20 ms of each window are not counted,
  // and what a sample's duration can explain. -1: not known.
  int64_t unwatched_ran_ns = -1;
  // Anonymous, of the target: when its first window began, and its last one ended; -1: not known.
  int64_t resident_begin_bytes = -1;
  int64_t resident_end_bytes = -1;

  // So much was not watched that threads of the target may have waited for far longer than the sums
  // say. Threads that did not run did not wait.
  bool misses_waits_of_target() const {
    return unwatched_ran_ns > ran_ns / 20 || (unread_thread_count > 0 && unwatched_ran_ns < 0);
  }
  // The same of the target and its children.
  bool misses_waits() const { return unread_child_count > 0 || misses_waits_of_target(); }
};

// Where a capture comes from that profd did not record: a trace that `profctl import` read. Such a
// capture has no target, and asked for nothing; its windows and steps are those of the trace.
struct ImportRecord {
  std::string source;    // The file's name without its folder, cleaned; empty: recorded by profd.
  std::string producer;  // What wrote it, as far as it tells: "torch.profiler", "profd"; or empty.
  int64_t time_unit_ns = 1;  // How fine its times are: 1, or 1000 for whole microseconds.
  // What was not understood, and so is not in the capture, by kind: "ph:Q", "cat:python_gc",
  // "cpu_op without dur". Kinds are the reader's own words and numbers, at most 64 of them, the
  // rest in "(other)".
  std::map<std::string, int64_t> not_understood;
  // Members of the trace besides its events, as JSON, for exports. At most 64 KiB.
  std::map<std::string, std::string> members;
};

// How much longer steps took in the window than around it, as shares: 0.05 is 5 % longer.
// slowdown.h says how they are compared.
struct SlowdownRecord {
  bool known = false;
  std::string unknown_reason;  // If not known; for people. Empty: not measured.
  double estimate = 0;
  double low = 0;  // The true value lies in [low, high] in 95 % of captures.
  double high = 0;
  // How many steps were compared.
  int64_t before_step_count = 0;
  int64_t during_step_count = 0;
  int64_t after_step_count = 0;
  // CUPTI stays in the process, and slows its steps after the window, too: the others above compare
  // with the steps before it alone.
  bool cupti_stays = false;
  // How much longer steps took after the window than before it, if it stays; as above.
  bool remains_known = false;
  double remains = 0;
  double remains_low = 0;
  double remains_high = 0;

  friend bool operator==(const SlowdownRecord&, const SlowdownRecord&) = default;
};

// One check of a capture's quality (quality.h).
struct QualityCheck {
  std::string name;       // "loss"
  char grade = 'A';       // The best that it allows.
  bool known = true;      // False: the capture does not tell; `value` means nothing.
  bool is_share = false;  // `value` and `bound` are shares, 0..1; else in the unit of the name.
  double value = 0;
  double bound = 0;      // Above it the check fails.
  std::string sentence;  // For people: what was found, in one sentence.

  bool failed() const { return grade != 'A'; }
  friend bool operator==(const QualityCheck&, const QualityCheck&) = default;
};

// The grade and its reasons as the seal stored them; they never change after that.
struct GradeRecord {
  std::string grade;  // "A".."D"; empty: never sealed, or by a profd that stored no grade.
  std::vector<QualityCheck> checks;

  friend bool operator==(const GradeRecord&, const GradeRecord&) = default;
};

// One capture: what was asked, what happened, what was kept.
struct CaptureRecord {
  std::string id;        // ULID
  std::string group_id;  // ULID; empty: none.
  std::string request_id;
  CaptureSpec spec;
  int64_t requested_by_uid = 0;  // -1: not a user of this node.
  std::string requested_by;      // PrincipalName() of who asked (access.h): "uid:1000", "cn:alice".
  // Of captures that a schedule made. The weight is what the window stands for: 1 / the chance
  // with which this target was chosen.
  std::string schedule_id;              // ULID; empty: a user asked.
  int64_t schedule_window_unix_ns = 0;  // Which of its windows.
  double sampling_weight = 1;
  TargetInfo target;  // As it was at creation.
  std::string node;

  CaptureState state = CaptureState::kPending;
  EndedBy ended_by = EndedBy::kNone;
  std::string error_reason;   // Stable, "TARGET_EXITED"; empty unless FAILED.
  std::string error_message;  // For people; says what to do.
  absl::Time create_time;
  absl::Time armed_time;  // InfinitePast: not yet
  absl::Time end_time;    // When it became terminal. InfiniteFuture: not yet.
  // Start of the first window: every time in the capture counts from here.
  int64_t start_unix_ns = 0;  // 0: nothing recorded
  int64_t covered_ns = 0;     // Sum over windows of end - start.
  int64_t covered_steps = 0;
  std::vector<WindowRecord> windows;
  // Live progress while RECORDING.
  int64_t current_window = 0;
  int64_t current_step = -1;

  int64_t event_count = 0;  // Kept: the program's events and all rows of the GPU.
  DropCounts drops{};
  int64_t warmup_event_count = 0;      // Recorded before the window and discarded.
  int64_t open_range_count = 0;        // Still open at the window's end; kept, flagged.
  int64_t truncated_range_count = 0;   // Straddling the window's start; kept, flagged.
  int64_t other_name_event_count = 0;  // Their names became "(other)".
  int64_t foreign_step_mark_count = 0;
  int64_t clock_error_ns = 0;  // Bound on the error of any time in the capture.
  GpuRecord gpu;
  TorchRecord torch;
  CpuRecord cpu;
  ImportRecord imported;
  std::string activity;  // While ARMING: what the target is doing, for people.
  // Step time before, in and after the window, ns; 0: not known.
  int64_t step_before_ns = 0;
  int64_t step_during_ns = 0;
  int64_t step_after_ns = 0;
  // Of the steps around the windows, before and after them, without the program's first ten: how
  // many are known, their mean time, ns, and how many took longer than 1.5 times their median.
  int64_t around_step_count = 0;
  int64_t around_step_mean_ns = 0;
  int64_t around_slow_step_count = 0;
  SlowdownRecord slowdown;
  GradeRecord graded;
  int64_t file_bytes = 0;   // Of the capture file; 0: no file.
  std::string file_sha256;  // Lower-case hex; empty: no file.
  bool deleted = false;     // The events are gone; summaries remain.
  bool evicted = false;     // The store removed them to make room. Then `deleted`, too.
};
// "its events were deleted", "its events were removed to make room for others". Of one whose events
// are gone.
std::string_view WhyEventsAreGone(const CaptureRecord& record);

// The captures whose events were removed to make room for one capture, as far as their records are
// still kept.
struct EvictedCaptures {
  static constexpr int64_t kMostIds = 16;
  std::vector<std::string> ids;  // Of one principal, oldest first, at most kMostIds.
  int64_t count = 0;             // All, also those of other principals.
};

}  // namespace profd

#endif  // PROFD_DAEMON_CAPTURE_CAPTURE_TYPES_H_
