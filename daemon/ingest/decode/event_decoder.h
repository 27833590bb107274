// EventDecoder turns copies of chunks into rows. It is where the bytes of a target become
// facts: every size, kind, name id, depth, time and field is checked here, and what does
// not pass is dropped and counted. Pure: no I/O but calls of the sink and the names.
//
// What is refused, each counted once under kInvalidRecord:
//   - a size that is not a multiple of 8 in [8, 4096] or reaches past what was published:
//     the rest of that chunk with it, since nothing says where the next record begins;
//   - a record too short for its kind; a depth, device or byte count out of range;
//   - a name id whose name is not there. (Its name is in memory before an honest event
//     is, so nothing about such an event can be believed.)
//   - times outside [an hour before the epoch, the moment of the copy], and ends that fall
//     back after the thread's last one, or ranges into their last sibling, by 1 us or
//     more. Less is the counter's own jitter, and is clamped.
// Unknown kinds are skipped and counted under kUnknownKind.
//
// Windows: what ended before its window began is a warm-up event: counted, not kept. What
// straddles the start is kept with its true start and kRangeTruncated; what straddles the
// end is cut there and is kRangeOpen, like the ranges still on a thread's stack at the end.
// What begins after the end is no part of the capture.
// At a tick that two events share, a thread's step mark decides: what it wrote before the
// mark was before.
// GPU events have no such order, and rules of their own: gpu_decoder.h. Captures that did not
// ask for the GPU count them under kUnknownKind. So it is with a framework's: torch_decoder.h.
// Arguments of ranges are no events of their own: range_arguments.h.
//
// Threads:   one at a time.
// Ownership: borrows all it is given.
// Errors:    the sink's first error is kept in sink_status(); what it did not take counts
//            as kByteCap (OUT_OF_RANGE) or kDisk.
// Hot path:  no allocation and no virtual call per event: rows go to the sink per chunk.
#ifndef PROFD_DAEMON_INGEST_DECODE_EVENT_DECODER_H_
#define PROFD_DAEMON_INGEST_DECODE_EVENT_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/decode_context.h"
#include "daemon/ingest/decode/gpu_decoder.h"
#include "daemon/ingest/decode/range_arguments.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "daemon/ingest/decode/torch_decoder.h"
#include "proto/wire/capture_memory.h"

namespace profd {

// A private copy of one chunk.
struct ChunkView {
  const std::byte* bytes = nullptr;  // wire::ChunkHeader, then records. 8-byte aligned.
  uint32_t record_bytes = 0;         // At most wire::kChunkDataBytes.
  uint64_t copy_ticks = 0;           // When the copy was complete.
};

class EventDecoder {
 public:
  // The chunks of more are invalid.
  static constexpr uint32_t kMaxThreads = ThreadRows::kMaxThreads;

  // `windows`: as many as the plan has, updated by the caller between calls. `gpu_mode` is
  // not kAuto.
  EventDecoder(const TickLine& line, const NameReader& names, std::span<const WindowTicks> windows,
               CaptureSink& sink, GpuMode gpu_mode = GpuMode::kOff,
               const TorchSpec& torch = {.operators = OperatorMode::kOff});

  // Chunks of one thread come in sequence order.
  void Decode(const ChunkView& chunk);

  // A chunk, or a run of them, is not there or makes no sense: one kInvalidRecord, since
  // nothing is known of what was in it.
  void CountInvalidChunk() { ++counts_.invalid_count; }

  // No more chunks will come, and every window that began has its end: gives the sink the
  // ranges that were open.
  void Finish();

  const DecodeCounts& counts() const { return counts_; }
  const absl::Status& sink_status() const { return out_.status(); }
  // After Finish(): what is known of recording the GPU, and of what it lost.
  void DescribeGpu(GpuRecord& record, DropCounts& drops) const { gpu_.Describe(record, drops); }

  // The same of PyTorch. Says kNoTorch where the target never said how it went.
  void DescribeTorch(TorchRecord& record) const {
    torch_.Describe(record);
    record.cut_input_count += arguments_.cut_count();
  }

  // One past the last step whose end was marked inside `window`; -1: none was.
  int64_t end_step(uint32_t window) const { return end_steps_[window]; }

 private:
  struct Thread {
    uint32_t index = 0;
    uint32_t os_thread = 0;
    uint32_t window = 0;
    uint32_t kept_ranges = 0;
    bool marks_steps = false;
    bool passed_start = false;  // Its step mark that began `window` has come by.
    // The library's own threads are shown if they have rows of their own.
    bool writes_gpu = false;
    bool writes_behind = false;  // Of a framework, when the window is over.
    uint64_t last_end_ticks = 0;
    uint64_t last_kept_ticks = 0;
    uint32_t depth_count = 0;                 // Of last_end_by_depth, at most.
    std::vector<uint64_t> last_end_by_depth;  // Ticks; within `window`.
    std::vector<wire::OpenRange> open;        // On its stack when last seen.
    OpenOperators operators;
  };
  // The last range of a chunk, to know it again on the stack.
  struct LastRange {
    uint64_t start_ticks = 0;
    uint32_t name_id = 0;
    uint32_t depth = UINT32_MAX;
  };
  enum class Place { kWarmup, kInside, kPastEnd };

  // Null: there are too many.
  Thread* ThreadOf(uint64_t key, uint32_t os_thread);
  bool EnterChunk(Thread& thread, uint32_t window, bool is_empty);
  bool SelectThread(Thread* of_chunk, uint32_t os_thread);
  void DecodeRecords(Thread* of_chunk, const std::byte* records, uint32_t bytes);
  // False: the record is invalid.
  bool DecodeRecord(const wire::EventHeader& header, const std::byte* record);
  bool DecodeRange(const std::byte* record, uint8_t flags);
  bool DecodeInstant(const std::byte* record);
  bool DecodeCounter(const std::byte* record);
  bool DecodeMemory(const std::byte* record, uint8_t flags);
  bool DecodeStep(const std::byte* record);
  bool DecodeThreadName(const std::byte* record);
  bool DecodeTorch(const wire::EventHeader& header, const std::byte* record);
  bool DecodeOperator(const std::byte* record, uint32_t size);
  bool DecodeArguments(const std::byte* record, uint32_t size);

  uint32_t NameOf(uint32_t wire_id) { return name_table_.Find(wire_id); }

  // Checks `ticks` as the thread's next end or time, clamping jitter.
  bool AcceptTime(uint64_t& ticks);
  bool AcceptSibling(Thread& thread, uint32_t depth, uint64_t end_ticks, uint64_t& start_ticks);
  // Where a point in time lies; for ranges, their end.
  Place PlaceOf(uint64_t ticks, bool has_length) const;
  // Whether a valid event at `ticks` belongs to the window; counts it if not.
  bool KeepPoint(uint64_t ticks);

  void TakeStack(Thread& thread, const std::byte* chunk);
  void EmitOpen(Thread& thread);
  // For each of `open` that steps push and do not pop: kRangeUnended; for the others, 0.
  std::vector<uint8_t> FindUnended(std::span<const wire::OpenRange> open,
                                   const WindowTicks& window) const;
  // `begin_ticks`: what the range was said to begin at, before any jitter was cut off.
  void AppendRange(uint64_t begin_ticks, uint64_t start_ticks, uint64_t end_ticks, uint32_t name,
                   uint32_t depth, uint16_t category, uint8_t flags);
  void Flush();
  // True: the sink took them.
  template <typename Row>
  bool FlushRows(std::vector<Row>& rows);

  static constexpr uint32_t kNoName = NameTable::kNoName;
  // What a target can make the decoder keep does not grow with threads x depths: both can be
  // claimed by a few bytes. What is beyond is invalid. 1,000 threads of the greatest depth fit.
  static constexpr size_t kMostDepthPlaces = 1 << 17;

  const TickLine line_;
  const NameReader& names_;
  const std::span<const WindowTicks> windows_;
  const bool wants_gpu_;
  const uint64_t jitter_ticks_;
  const uint64_t skew_ticks_;
  const uint64_t earliest_ticks_;

  DecodeCounts counts_;
  RowSink out_;
  NameTable name_table_;
  ThreadRows thread_rows_;
  GpuDecoder gpu_;
  TorchDecoder torch_;
  RangeArguments arguments_;

  std::vector<std::unique_ptr<Thread>> threads_;  // In the order they came.
  absl::flat_hash_map<uint64_t, Thread*> threads_by_key_;
  size_t depth_places_ = 0;  // Of all threads: the sum of depth_count,
  size_t open_places_ = 0;   // and of the sizes of `open`.

  // Of the chunk being decoded.
  Thread* thread_ = nullptr;
  WindowTicks window_;
  uint64_t latest_ticks_ = 0;
  LastRange last_range_;

  // Rows of `thread_` on their way to the sink, which knows it as `sink_thread_`; kept for
  // their room.
  uint32_t sink_thread_ = 0;
  std::vector<RangeRow> ranges_;
  std::vector<InstantRow> instants_;
  std::vector<CounterRow> counters_;
  std::vector<MemoryRow> memory_;
  std::vector<StepRow> steps_;

  int64_t open_in_ranges_ = 0;
  int64_t truncated_in_ranges_ = 0;

  // The latest step marks, ascending; where they are too many, every second one, then every fourth.
  std::vector<uint64_t> step_marks_;
  int64_t last_step_ = -1;
  std::array<int64_t, wire::kMaxWindows> end_steps_;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_EVENT_DECODER_H_
