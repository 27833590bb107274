// GpuDecoder turns the GPU events of proto/wire/event.h into rows. It is the part of
// EventDecoder for events that come in no order of time and of no thread's order.
//
// What is refused (false, to be counted as invalid): a record too short for its kind; times
// outside [an hour before the epoch, the moment of the copy], also their sums; a name that is
// not there; a device of 65535 or more; byte counts beyond int64. Queue and submit times that
// make no sense are only "not known".
//
// Windows, with [start, end):
//   - an API call belongs to the window it begins in; a launch before the first window that the
//     target marks as one whose work ran in it (kGpuFlagEarlyLaunch) is kept, too;
//   - GPU work, synchronisation and overhead are kept if they overlap a window. GPU work that
//     begins after a window's end is kept if an API call that is kept launched it. (Mode
//     light records no calls: then it is not.)
//   - memory events belong to the window of their time; CUDA events have none and are kept.
//   What is left out is before_window_count or after_window_count, and no loss.
// GPU work whose launch is not in the capture is an orphan. A call may come after what it
// launched, so work waits for it, up to HeldRows::kMaxRows: what has waited after so many
// is decided as if the call never came.
//
// Threads:   one at a time.
// Ownership: borrows all it is given.
#ifndef PROFD_DAEMON_INGEST_DECODE_GPU_DECODER_H_
#define PROFD_DAEMON_INGEST_DECODE_GPU_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/correlation_set.h"
#include "daemon/ingest/decode/decode_context.h"
#include "daemon/ingest/decode/gpu_inventory.h"
#include "daemon/ingest/decode/held_rows.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "proto/wire/event.h"

namespace profd {

class GpuDecoder {
 public:
  // Driver allocations of one capture are sorted at its end, in memory. More are dropped
  // under kGpuRecordCap.
  static constexpr size_t kMaxMemoryRows = 1u << 20;

  // Shared with the EventDecoder it belongs to.
  struct Context {
    const TickLine& line;
    std::span<const WindowTicks> windows;
    NameTable& names;
    ThreadRows& threads;
    RowSink& sink;
    uint64_t earliest_ticks;
  };
  // `mode`: what was asked for; not kAuto.
  GpuDecoder(GpuMode mode, const Context& context);

  static bool IsGpuKind(uint8_t kind) {
    return kind >= static_cast<uint8_t>(wire::EventKind::kApiCall) &&
           kind <= static_cast<uint8_t>(wire::kLastGpuKind);
  }

  // Nothing in the chunk to come happened later.
  void EnterChunk(uint32_t os_thread, uint64_t latest_ticks);
  // A record of IsGpuKind(), of the size its header says. False: it is invalid.
  bool Decode(const wire::EventHeader& header, const std::byte* record);
  // Gives the sink what the chunk had.
  void Flush();
  // No more chunks will come, and every window that began has its end.
  void Finish();

  // After Finish(). Of a capture that asked for no GPU: nothing.
  void Describe(GpuRecord& record, DropCounts& drops) const;

 private:
  // Of a thing's time.
  struct Span {
    uint64_t start = 0;
    uint64_t end = 0;
  };
  enum class Place { kBefore, kInside, kAfter };
  struct Placed {
    Place place = Place::kBefore;
    WindowTicks window;  // kInside.
  };
  struct HeldGpuRow {
    GpuRow row;
    bool inside;  // A window; otherwise after one.
  };
  struct CallRow {
    uint32_t thread;
    ApiRow row;
  };
  struct Allocation {
    MemoryRow row;
    int64_t pool_bytes;
    int64_t pool_used_bytes;
  };

  // Both return false for an invalid event. DecodeEvent() has one specialization for each type that
  // Decode() knows.
  template <typename Event>
  bool DecodeAs(const wire::EventHeader& header, const std::byte* record);
  template <typename Event>
  bool DecodeEvent(const wire::EventHeader& header, const Event& event);

  bool TakeSpan(uint64_t start_ticks, uint64_t duration_ticks, Span& span) const;
  // A row with what all kinds have in common; nullopt: it is invalid.
  template <typename Event>
  std::optional<GpuRow> NewRow(const Event& event, GpuRowKind kind, uint8_t flags,
                               Span& span) const;
  int64_t OptionalNs(uint64_t ticks, uint64_t not_after) const;

  Placed PlaceOf(const Span& span) const;
  // Whether something that only counts by its place is kept.
  bool Keep(const Span& span);
  void Place(GpuRow row, const Span& span, bool unfinished);
  // True: it is decided what becomes of a row whose call has (or `last`: has not) been seen.
  bool DecideLaunch(const HeldGpuRow& held, bool last);
  bool DecideDevice(const SyncRow& row, bool last);

  template <typename Row>
  void Give(std::vector<Row>& rows);
  void GiveGpuRows();
  void GiveCalls();
  void GiveAllocations();

  // `correlation` is the ID of a call, wait, or overhead that began at `start_ticks`.
  void NoteHostTime(uint32_t correlation, uint64_t start_ticks);
  // Whether a call of the windows has this ID. IDs rise with the time of the call.
  bool IsOfWindows(uint32_t correlation) const {
    return first_id_ != 0 && correlation - first_id_ <= last_id_ - first_id_;
  }

  const GpuMode mode_;
  const bool has_calls_;
  const Context context_;

  uint32_t chunk_os_thread_ = 0;
  uint64_t latest_ticks_ = 0;

  GpuInventory inventory_;
  CorrelationSet calls_seen_;
  // Of work that began in the windows; 0: none yet.
  uint32_t first_id_ = 0;
  uint32_t last_id_ = 0;
  HeldRows<HeldGpuRow> held_;
  HeldRows<SyncRow> held_syncs_;
  std::vector<Allocation> allocations_;

  // On their way to the sink; kept for their room.
  std::vector<CallRow> calls_;
  std::vector<ApiRow> call_run_;
  std::vector<GpuRow> rows_;
  std::vector<SyncRow> syncs_;
  std::vector<OverheadRow> overheads_;
  std::vector<CudaEventRow> cuda_events_;

  int64_t before_window_count_ = 0;
  int64_t after_window_count_ = 0;
  int64_t orphan_count_ = 0;
  int64_t straddling_count_ = 0;
  int64_t unfinished_count_ = 0;
  int64_t over_cap_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_GPU_DECODER_H_
