// TorchDecoder turns a framework's events (proto/wire/event.h, "Framework events") into rows.
//
// An operator comes in two: an OperatorEvent at its begin, and at its end a RangeEvent of the same
// thread, start and depth. The first waits in the OpenOperators of its thread until EventDecoder
// has kept or cut that range; then it becomes an OperatorRow after it. One whose range was not
// kept (warm-up, or lost) is forgotten when the next one of its depth comes. Its tensors' storages
// are rows of their own at its begin.
//
// Notes and blocks come when the window is over, in no order of time, and are kept whatever their
// time. None of these rows counts as an event.
//
// Refused, as in event_decoder.h: times outside of all time, names that are not there, depths and
// sizes out of range, and inputs that are no list of inputs.
//
// Threads:   one at a time.
// Ownership: borrows all it is given.
#ifndef PROFD_DAEMON_INGEST_DECODE_TORCH_DECODER_H_
#define PROFD_DAEMON_INGEST_DECODE_TORCH_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/capture/ports.h"
#include "daemon/ingest/decode/decode_context.h"
#include "daemon/ingest/decode/operator_inputs.h"
#include "daemon/ingest/decode/stack_decoder.h"
#include "daemon/ingest/decode/tick_clock.h"
#include "proto/wire/event.h"

namespace profd {

// The operators of one thread whose ranges have not ended yet.
struct OpenOperators {
  struct Operator {
    uint64_t start_ticks = 0;  // 0: none
    OperatorRow row{};
    InputKeys inputs;
  };
  std::vector<Operator> by_depth;
  ThreadStackIds stacks;  // That the thread has defined.
};

class TorchDecoder final : private StackSink {
 public:
  struct Context {
    const TickLine& line;
    NameTable& names;
    RowSink& sink;
    uint64_t earliest_ticks;
  };
  TorchDecoder(const TorchSpec& spec, const Context& context);

  static bool IsTorchKind(uint8_t kind) {
    return kind >= static_cast<uint8_t>(wire::EventKind::kOperator) &&
           kind <= static_cast<uint8_t>(wire::EventKind::kModule);
  }
  // Whether the capture asked for anything of this.
  bool is_wanted() const { return is_wanted_; }

  // Each: false for an invalid record. `size`: of the record.
  //
  // `time_ticks`: the operator's start, as a time of its thread; `in_window`: whether it lies in
  // the window.
  bool DecodeOperator(const std::byte* record, uint32_t size, uint64_t time_ticks, bool in_window,
                      OpenOperators& open);
  bool DecodeStackFrame(const std::byte* record, uint32_t size, OpenOperators& open) {
    return stack_decoder_.Decode(record, size, open.stacks);
  }
  bool DecodeModule(const std::byte* record, uint32_t size) {
    return stack_decoder_.DecodeModule(record, size);
  }
  bool DecodeNote(const std::byte* record, uint32_t size, uint64_t latest_ticks);
  bool DecodeBlock(const std::byte* record, uint32_t size);
  bool DecodeStatus(const std::byte* record, uint32_t size);

  // The range of `depth` that began at `start_ticks` was kept, as one that began at `start_ns`.
  void KeepOperator(const OpenOperators& open, uint32_t depth, uint64_t start_ticks,
                    int64_t start_ns);

  // Whether there are rows for a thread on their way.
  bool has_rows() const { return !operators_.empty() || !uses_.empty() || !notes_.empty(); }
  // Gives the sink what there is, after the ranges of that thread.
  void Flush(uint32_t sink_thread);

  int64_t unknown_kind_count() const { return unknown_kind_count_; }
  void Describe(TorchRecord& record) const;

 private:
  // A name, or 0 for none. False: it is not there.
  bool FindName(uint32_t wire_id, uint32_t& name) const;
  void AddMissing(const wire::NoteEvent& note);
  // StackSink
  void AddStack(uint32_t stack, const StackNode& node) override;
  void AddModule(const ModulePath& module) override;

  const bool is_wanted_;
  const TickLine& line_;
  NameTable& names_;
  RowSink& sink_;
  const uint64_t earliest_ticks_;

  InputTable inputs_;
  StackDecoder stack_decoder_;
  std::vector<OperatorRow> operators_;
  std::vector<TensorUseRow> uses_;
  std::vector<NoteRow> notes_;
  std::vector<BlockRow> blocks_;
  std::vector<StackRow> stacks_;
  std::vector<ModuleRow> modules_;

  std::optional<wire::TorchStatusEvent> status_;
  std::string version_;
  std::vector<TorchMissing> missing_;
  int64_t operator_count_ = 0;
  // Of by_depth, over all threads. A record of 48 bytes could claim a new thread at the greatest
  // depth, which is 22 KiB; operators beyond are invalid.
  static constexpr size_t kMostOpenPlaces = 1 << 17;
  size_t open_places_ = 0;
  int64_t cut_input_count_ = 0;
  int64_t tensor_use_count_ = 0;
  int64_t note_count_ = 0;
  int64_t block_count_ = 0;
  int64_t lost_note_count_ = 0;  // That the sink did not take.
  int64_t unknown_kind_count_ = 0;
  int64_t stack_count_ = 0;
};

}  // namespace profd

#endif  // PROFD_DAEMON_INGEST_DECODE_TORCH_DECODER_H_
