// CaptureBuilder makes rows of a capture of the events of a trace, in whatever order they come.
//
// Times: the first event with a time is the capture's epoch. What the trace calls time 0 may be
//        said after all events.
// Threads: one.
// Memory:  names, inputs and threads, as their tables say; 44 bytes per range, 24 more per
//          operator, 64 per event of memory or other instant, step, and recorded CUDA event; 10 per
//          CUDA call, twice that for launches, and 24 more for those with GPU work; of GPU rows
//          RowSpool::kMemoryBytes, and 32 MiB;
//          of arguments that exports need, as KeptArguments says; of stacks,
//          as PythonStacks says.
// Errors:  the sink's; RESOURCE_EXHAUSTED for more than kMaxHeldRows, kMaxCalls, or kMaxStreams.
//          What an event says that cannot be is counted as not understood.
#ifndef PROFD_DAEMON_IMPORT_CAPTURE_BUILDER_H_
#define PROFD_DAEMON_IMPORT_CAPTURE_BUILDER_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/capture/event_kinds.h"
#include "daemon/capture/ports.h"
#include "daemon/import/coverage.h"
#include "daemon/import/kept_arguments.h"
#include "daemon/import/kept_part.h"
#include "daemon/import/loop_steps.h"
#include "daemon/import/names.h"
#include "daemon/import/not_understood.h"
#include "daemon/import/operator_texts.h"
#include "daemon/import/other_events.h"
#include "daemon/import/paired_events.h"
#include "daemon/import/python_stacks.h"
#include "daemon/import/range_nesting.h"
#include "daemon/import/row_spool.h"
#include "daemon/import/trace_event.h"
#include "daemon/import/trace_header.h"
#include "daemon/import/trace_threads.h"
#include "daemon/import/unread_devices.h"

namespace profd::importer {

class CaptureBuilder {
 public:
  // Ranges, steps, and events of memory and other instants, which have to be sorted; recorded CUDA
  // events.
  static constexpr int64_t kMaxHeldRows = 6'000'000;
  static constexpr size_t kMaxCalls = 10'000'000;  // With a correlation of their own.
  static constexpr size_t kMaxStreams = 100'000;
  // Of an event's pid and tid, and of the id and category of b and e, which are kept for each that
  // is distinct.
  static constexpr size_t kMaxIdBytes = 256;

  // Both must outlive it. What does not fit into memory goes to unnamed files in `directory`.
  CaptureBuilder(CaptureSink& sink, NotUnderstood& not_understood, std::filesystem::path directory);

  absl::Status Add(const TraceEvent& event);
  void AddUnknownArgument(const TraceEvent& event, std::string_view key);
  // The trace says that profd wrote it; before its events. `is_continuous`: see SetIsContinuous().
  void SetIsOurs(bool is_continuous) {
    is_ours_ = true;
    is_continuous_ = is_continuous;
  }
  // What the trace says its process groups are called, by torch's name.
  void SetGroupNames(std::map<std::string, std::string> names) { group_names_ = std::move(names); }
  // In which order an export of ours has its threads, so that another has the same.
  void SetThreads(int64_t pid, std::span<const TraceHeader::Thread> threads);
  // What began later or ended before is counted as not understood, and what crosses an edge is cut
  // there; before the first event. `part` must outlive it.
  void SetKeptPart(const KeptPart& part) { kept_part_ = &part; }
  // Times without events were recorded, too.
  void SetIsContinuous() { is_continuous_ = true; }
  // When the trace's time 0 was; before Finish().
  void SetBase(int64_t base_unix_ns) { base_unix_ns_ = base_unix_ns; }

  // Rows of formats that are no Chrome traces, with times since those formats' own time 0, and
  // names as NameId() gives them. Each returns false, and keeps nothing, if the time is too far
  // from that of the first row.
  //
  // A thread, which may be added again; nullopt: there are too many.
  std::optional<uint32_t> AddThread(int64_t pid, int64_t tid);
  void NameThread(int64_t pid, int64_t tid, std::string_view name);
  absl::StatusOr<uint32_t> NameId(std::string_view text) { return names_.IdOf(text); }
  struct RangeEvent {
    uint32_t thread = 0;
    int64_t start_ns = 0;
    int64_t duration_ns = 0;
    std::string_view name;  // "ProfilerStep#N" is step N.
    uint8_t flags = 0;      // kRange*
    // Of operators of torch:
    bool is_operator = false;
    int64_t sequence = -1;
    std::string_view dims;  // A JSON array; empty: not known.
  };
  absl::StatusOr<bool> AddRangeEvent(const RangeEvent& range);
  // A row of the thread on which nothing overlaps the range, with a number as lanes of profd's own
  // captures have; of a thread with too many, the thread itself. Ranges of a thread come by start.
  uint32_t LaneFor(uint32_t thread, int64_t start_ns, int64_t end_ns);
  absl::StatusOr<bool> AddMark(uint32_t thread, int64_t time_ns, std::string_view name);
  absl::StatusOr<bool> AddRow(uint32_t thread, ApiRow row);
  absl::StatusOr<bool> AddRow(uint32_t thread, MemoryRow row);
  absl::StatusOr<bool> AddRow(GpuRow row);
  absl::StatusOr<bool> AddRow(SyncRow row);
  absl::StatusOr<bool> AddRow(OverheadRow row);
  // False: it is there already. It has no time.
  absl::StatusOr<bool> AddRow(const CudaEventRow& row);
  // The end of the last row so far; nullopt: there is none.
  std::optional<int64_t> last_ns() const;

  // What the trace holds, once all its events are there.
  struct Contents {
    int64_t epoch_ns = 0;  // Of the trace's own time.
    int64_t start_ns = 0;  // Of the first event, since the epoch.
    int64_t end_ns = 0;    // Of the last.
    // What was recorded, since the epoch, by start: one time, unless there are holes.
    std::vector<std::pair<int64_t, int64_t>> windows;
    // When the profiler started, of the trace's own time, where it says.
    std::optional<int64_t> profiler_start_ns;
    std::vector<StepRecord> steps;  // Times since `start_ns`.
    int64_t event_count = 0;
    int64_t operator_count = 0;
    int64_t input_count = 0;  // Operators whose inputs are known.
    int64_t memory_count = 0;
    int64_t gpu_count = 0;  // GPU rows and API calls.
    int64_t orphan_count = 0;
    int64_t too_deep_count = 0;
    int64_t thinned_count = 0;  // Operators that the trace lacks, by the numbers of the others.
    int64_t other_name_count = 0;
    int64_t cut_input_count = 0;
    int64_t stack_count = 0;      // Distinct ones, those of callers included.
    int64_t cut_stack_count = 0;  // Of these, those without their outermost frames.
    bool whole_us = true;         // No time has a fraction of a microsecond.
    std::string other_events;     // OtherEvents::Take()
    std::vector<GpuStream> streams;
    TraceThreads::Process process;
    // Processes with API calls, as in the trace. The calls of several have the same numbers.
    std::set<std::string> recorded_pids;
    int64_t launch_count = 0;           // Calls of the runtime that launch kernels or graphs.
    int64_t repeated_launch_count = 0;  // Of those: with the correlation of another one.
    int64_t split_launch_count = 0;     // Kernels of the launch of another one, on another GPU.
  };
  // Gives the sink all that it has not got yet. Call once, last.
  absl::StatusOr<Contents> Finish();

 private:
  struct OperatorInfo {
    int64_t sequence = -1;
    uint64_t forward_thread = 0;
    uint32_t inputs = 0;
    uint32_t scalars = 0;
    uint32_t stack = 0;
    uint8_t scope = 0;
    bool restores_stack = true;  // PythonStacks::Stack::is_restored
  };
  struct ThreadRows {
    std::vector<ImportedRange> ranges;
    std::vector<OperatorInfo> operators;
    std::vector<MemoryRow> memory;
    std::vector<InstantRow> instants;
    std::vector<CounterRow> counters;
    uint32_t call_count = 0;
    SequenceEnd calls;         // Of the runtime.
    SequenceEnd driver_calls;  // Also inside of those.
    // By the order in which the trace has them: where the file has them; kLeftOut: nowhere. Only
    // for traces that have arguments to keep.
    std::vector<uint32_t> range_places;
    std::vector<uint32_t> memory_places;
  };
  static constexpr uint32_t kLeftOut = std::numeric_limits<uint32_t>::max();

  // Where the event is since the epoch; nothing where it says none or one out of reach.
  struct Span {
    int64_t start_ns;
    int64_t duration_ns;
    int64_t end_ns() const { return start_ns + duration_ns; }
  };
  std::optional<Span> SpanOf(const TraceEvent& event, bool needs_duration);
  // The same for times of the trace; nothing where they are out of reach.
  std::optional<Span> Place(int64_t start_ns, int64_t duration_ns);
  // The same for a row with a start and a duration. False: it is out of reach.
  template <typename Row>
  bool PlaceRow(Row* row);
  template <typename Row>
  absl::StatusOr<bool> PlaceAndKeep(Row row);
  void Cover(const Span& span, bool by_gpu = false);
  // The same for one of things that follow one another.
  void Cover(const Span& span, SequenceEnd& sequence, bool by_gpu = false);
  void CountNotUnderstood(const TraceEvent& event, std::string_view why);
  // Of Python's functions a thread has rows of their own. Nothing: there are too many threads.
  std::optional<uint32_t> ThreadOf(const TraceEvent& event, bool is_python = false) {
    return ThreadAt(event, event.tid, is_python);
  }
  // The same of an event that belongs to the thread `tid`.
  std::optional<uint32_t> ThreadAt(const TraceEvent& event, std::string_view tid,
                                   bool is_python = false);
  absl::Status Hold();

  // Says what an event is that is left out; empty: it is not.
  std::string_view WhyNotInKeptPart(const TraceEvent& event) const;
  bool BeganBeforeKeptPart(const TraceEvent& event) const;
  // Where it begins and ends, since the epoch. Needs an event.
  int64_t BeginOfKeptPart() const;
  int64_t EndOfKeptPart() const;
  int64_t SinceEpoch(int64_t trace_ns) const;

  absl::Status AddMetadata(const TraceEvent& event);
  absl::Status AddSlice(const TraceEvent& event);
  absl::Status AddRange(const TraceEvent& event, uint8_t category);
  absl::Status AddStepArguments(const TraceEvent& event);
  absl::Status AddPaired(const TraceEvent& event);
  uint32_t OrderOf(size_t position, int64_t duration_ns, uint8_t category) const;
  bool AddStep(std::string_view name, const Span& span, uint32_t thread);
  absl::StatusOr<uint32_t> AddOperator(const TraceEvent& event, uint32_t thread);
  absl::StatusOr<uint32_t> AddAnnotationInputs(const TraceEvent& event, uint32_t thread);
  absl::Status AddStack(const TraceEvent& event, OperatorInfo& op);
  absl::Status AddCollective(const TraceEvent& event, OperatorInfo& op);
  absl::Status AddApiCall(const TraceEvent& event, bool is_driver);
  uint32_t CorrelationOf(const TraceEvent& event);
  int64_t DeviceOfRow(const TraceEvent& event) const;
  bool IsThereAlready(const GpuRow& row);
  absl::Status AddWork(const TraceEvent& event, GpuRowKind kind);
  absl::Status AddSync(const TraceEvent& event);
  absl::Status AddGpuAnnotation(const TraceEvent& event);
  absl::Status AddOverhead(const TraceEvent& event);
  absl::Status AddCudaEvent(const TraceEvent& event);
  absl::Status AddInstant(const TraceEvent& event);
  absl::Status AddMemory(const TraceEvent& event, const Span& span);
  absl::StatusOr<bool> AddNote(const TraceEvent& event, const Span& span);
  absl::StatusOr<uint32_t> NameOf(const TraceEvent& event, Text text);
  absl::Status AddCounter(const TraceEvent& event);
  // False: it is there already.
  absl::StatusOr<bool> NoteCudaEvent(const CudaEventRow& row);

  // Keep rows whose times are since the epoch.
  absl::Status Keep(uint32_t thread, const Span& span, const ImportedRange& range);
  absl::Status Keep(uint32_t thread, const ApiRow& row);
  absl::Status Keep(uint32_t thread, const MemoryRow& row);
  template <typename Side>
  std::array<Side, 3> SidesOrUnknown(const TraceEvent& event, Text text);
  uint32_t StreamOf(int64_t stream);
  uint32_t StreamOfWork(const TraceEvent& event);
  uint32_t StreamOr(const TraceEvent& event, Number number, uint32_t otherwise);
  absl::Status Keep(const GpuRow& row);
  absl::Status Keep(const SyncRow& row);
  absl::Status Keep(const OverheadRow& row);

  void NoteIds(const TraceEvent& event);
  void CountMissingIds();
  std::set<std::string> RecordedPids() const;
  void FindTorchThreads();
  absl::Status FinishPaired();
  absl::Status FinishRanges(uint32_t thread, ThreadRows& rows);
  absl::Status FinishOperators(uint32_t thread, const ThreadRows& rows);
  absl::Status FinishMemory(uint32_t thread, std::vector<MemoryRow>& rows);
  absl::Status FinishThread(uint32_t thread, ThreadRows& rows);
  absl::Status FinishArguments();
  absl::Status FinishGpu();
  void NoteProfilerEnd(const TraceEvent& event);
  void CoverSteps();
  absl::Status FinishSteps();
  void FinishWindows();

  CaptureSink& sink_;
  NotUnderstood& not_understood_;
  NameTable names_;
  OperatorTexts texts_;
  PythonStacks stacks_;
  TraceThreads threads_;
  KeptArguments arguments_;
  OtherEvents other_events_;
  PairedEvents paired_;
  struct Lane {
    uint32_t thread;
    int64_t end_ns;  // Of the last range on it.
  };
  absl::flat_hash_map<uint32_t, std::vector<Lane>> lanes_;  // By thread.
  int64_t lane_count_ = 0;
  const KeptPart* kept_part_ = nullptr;  // Of a trace that is cut off.
  std::map<std::string, std::string> group_names_;
  bool is_ours_ = false;
  bool is_continuous_ = false;
  bool keeps_arguments_ = false;
  int64_t base_unix_ns_ = 0;

  std::optional<int64_t> epoch_ns_;
  int64_t first_ns_ = std::numeric_limits<int64_t>::max();
  int64_t last_ns_ = std::numeric_limits<int64_t>::min();
  int64_t profiler_end_ns_ = std::numeric_limits<int64_t>::min();  // The least: not known.
  Contents contents_;
  Coverage coverage_;
  Coverage long_ranges_;    // Of the program's own, which count for coverage_ by their ends alone.
  Coverage host_coverage_;  // Of all but GPU work.

  std::vector<ThreadRows> rows_;  // By thread.
  int64_t held_rows_ = 0;
  std::vector<uint32_t> torch_threads_;  // By thread; 0: not known.
  RowSpool<GpuRow> gpu_;
  uint32_t gpu_row_count_ = 0;
  uint32_t sync_count_ = 0;
  int64_t syncs_end_ns_ = std::numeric_limits<int64_t>::min();  // Of the one that ends last.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>> cuda_events_;
  // By device, context, and stream.
  std::map<std::tuple<int64_t, int64_t, int64_t>, SequenceEnd> streams_;
  std::map<std::string, int64_t, std::less<>> named_streams_;  // Numbers for texts.
  absl::flat_hash_map<uint32_t, uint16_t> kernel_devices_;     // By correlation: of the first.
  // By correlation: a hash of the only work with it; 0: there are several.
  absl::flat_hash_map<uint32_t, size_t> only_work_;
  absl::flat_hash_map<int64_t, uint32_t> wide_streams_;  // Which they are, by what they are.
  absl::flat_hash_set<uint32_t> calls_;                  // Their correlations.
  absl::flat_hash_set<uint32_t> launches_;               // Those of launches.
  absl::flat_hash_map<int64_t, LoopStep> steps_;
  UnreadDevices unread_devices_;
  // Of operators and annotations; the second for events that lack the first.
  std::vector<int64_t> external_ids_;
  std::vector<int64_t> event_indices_;
};

}  // namespace profd::importer

#endif  // PROFD_DAEMON_IMPORT_CAPTURE_BUILDER_H_
