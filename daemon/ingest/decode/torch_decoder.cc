#include "daemon/ingest/decode/torch_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/base/text.h"
#include "daemon/ingest/decode/untrusted_values.h"
#include "proto/wire/event.h"
#include "proto/wire/status_page.h"

namespace profd {
namespace {

constexpr size_t kMaxVersionBytes = 64;
constexpr size_t kMaxFeatureBytes = 64;
constexpr size_t kMaxReasonBytes = 512;
// More than there are features.
constexpr size_t kMaxMissing = 32;

template <typename T>
bool Load(const std::byte* record, uint32_t size, T& value) {
  if (size < sizeof(value)) return false;
  memcpy(&value, record, sizeof(value));
  return true;
}

OperatorMode RecordedMode(uint32_t recorded) {
  if ((recorded & wire::kTorchOperators) == 0) return OperatorMode::kOff;
  return (recorded & wire::kTorchShapes) != 0 ? OperatorMode::kShapes : OperatorMode::kNames;
}

TorchOutcome OutcomeOf(const wire::TorchStatusEvent& status) {
  if ((status.recorded & wire::kTorchPresent) == 0) return TorchOutcome::kNoTorch;
  const bool lacks = (status.wanted & ~status.recorded & wire::kAllTorchFeatures) != 0;
  return lacks ? TorchOutcome::kLimited : TorchOutcome::kRecorded;
}

}  // namespace

TorchDecoder::TorchDecoder(const TorchSpec& spec, const Context& context)
    : is_wanted_(WantsTorch(spec)),
      line_(context.line),
      names_(context.names),
      sink_(context.sink),
      earliest_ticks_(context.earliest_ticks),
      inputs_(spec.strides, context.sink),
      stack_decoder_(context.names, *this) {}

void TorchDecoder::AddStack(uint32_t /*stack*/, const StackNode& node) {
  stacks_.push_back({.caller = node.caller,
                     .file = node.file,
                     .function = node.name,
                     .line = node.line,
                     .first_line = node.first_line,
                     .module = node.module,
                     .class_name = node.class_name,
                     .is_cut = node.is_cut});
}

void TorchDecoder::AddModule(const ModulePath& module) {
  modules_.push_back({.address = module.address,
                      .root = module.root,
                      .path = module.path,
                      .class_name = module.class_name});
}

bool TorchDecoder::FindName(uint32_t wire_id, uint32_t& name) const {
  name = wire_id == wire::kNoNameId ? 0 : names_.Find(wire_id);
  return name != NameTable::kNoName;
}

bool TorchDecoder::DecodeOperator(const std::byte* record, uint32_t size, uint64_t time_ticks,
                                  bool in_window, OpenOperators& open) {
  wire::OperatorEvent event;
  if (!Load(record, size, event) || event.depth >= wire::kMaxRangeDepth) return false;
  const std::optional<uint32_t> stack = stack_decoder_.Find(open.stacks, event.stack_id);
  if (!stack.has_value()) return false;
  if (event.depth >= open.by_depth.size()) {
    const size_t more = event.depth + 1u - open.by_depth.size();
    if (open_places_ + more > kMostOpenPlaces) return false;
    open_places_ += more;
    open.by_depth.resize(event.depth + 1u);
  }
  OpenOperators::Operator& begun = open.by_depth[event.depth];
  // If the rest of the record is invalid, the earlier operator of this depth must not be taken for
  // the one whose range comes next.
  begun.start_ticks = 0;
  const std::span<const std::byte> behind(record + sizeof(event), size - sizeof(event));
  if (!ReadInputs(behind, event.input_count, event.described_count, begun.inputs)) return false;
  begun.start_ticks = event.start_ticks;
  // Scopes to come count as functions.
  const uint8_t scope = event.scope <= wire::kMaxOperatorScope ? event.scope : 0;
  begun.row = {.start_ns = 0,
               .depth = event.depth,
               .scope = scope,
               .sequence = std::max<int64_t>(event.sequence, wire::kNoSequence),
               .forward_thread = event.forward_thread,
               .torch_thread = event.torch_thread,
               .inputs = 0,
               .scalars = 0,
               .stack = *stack};
  if (!in_window) return true;
  for (const InputKeys::Tensor& tensor : begun.inputs.tensors) {
    uses_.push_back({.time_ns = line_.ToNs(time_ticks),
                     .address = tensor.storage_address,
                     .depth = event.depth,
                     .scope = scope,
                     .input = tensor.input});
  }
  return true;
}

void TorchDecoder::KeepOperator(const OpenOperators& open, uint32_t depth, uint64_t start_ticks,
                                int64_t start_ns) {
  if (depth >= open.by_depth.size()) return;
  const OpenOperators::Operator& begun = open.by_depth[depth];
  // An operator and its range are two records. They belong together if they begin at the same tick
  // at the same depth of one thread.
  if (begun.start_ticks != start_ticks || start_ticks == 0) return;
  const InputTable::Ids ids = inputs_.Find(begun.inputs);
  OperatorRow& row = operators_.emplace_back(begun.row);
  row.start_ns = start_ns;
  row.inputs = ids.inputs;
  row.scalars = ids.scalars;
  // Names alone leave inputs out on purpose.
  const bool is_cut = !begun.inputs.empty() && (begun.inputs.is_cut || ids.is_full);
  cut_input_count_ += is_cut;
}

bool TorchDecoder::DecodeNote(const std::byte* record, uint32_t size, uint64_t latest_ticks) {
  wire::NoteEvent event;
  if (!Load(record, size, event)) return false;
  if (event.kind == 0 || event.kind > wire::kMaxNoteKind) {
    ++unknown_kind_count_;
    return true;
  }
  const uint64_t ticks = event.time_ticks;
  const bool has_time = ticks != 0;
  if (has_time && (ticks < earliest_ticks_ || ticks > latest_ticks)) return false;
  uint32_t subject = 0;
  uint32_t text = 0;
  if (!FindName(event.subject_id, subject) || !FindName(event.text_id, text)) return false;
  if (event.kind == static_cast<uint16_t>(wire::NoteKind::kMissing)) AddMissing(event);
  notes_.push_back({.time_ns = has_time ? line_.ToNs(ticks) : kNoNoteTime,
                    .kind = event.kind,
                    .subject = subject,
                    .text = text,
                    .value = event.value});
  return true;
}

void TorchDecoder::AddMissing(const wire::NoteEvent& note) {
  std::string feature;
  std::string reason;
  if (missing_.size() >= kMaxMissing || !names_.reader().ReadName(note.subject_id, feature)) return;
  if (note.text_id != wire::kNoNameId) names_.reader().ReadName(note.text_id, reason);
  missing_.push_back({.feature = ForDisplay(feature, kMaxFeatureBytes),
                      .reason = ForDisplay(reason, kMaxReasonBytes)});
}

bool TorchDecoder::DecodeBlock(const std::byte* record, uint32_t size) {
  wire::BlockEvent event;
  uint32_t name = 0;
  if (!Load(record, size, event) || event.bytes < 0 ||
      event.device_type > static_cast<uint16_t>(wire::DeviceType::kCuda) ||
      event.device_index < 0 || !FindName(event.name_id, name)) {
    return false;
  }
  // Categories to come count as unknown.
  const uint16_t category = event.category <= wire::kMaxMemoryCategory ? event.category : 0;
  blocks_.push_back({.address = event.address,
                     .bytes = event.bytes,
                     .name = name,
                     .category = static_cast<uint8_t>(category),
                     .device_type = static_cast<uint8_t>(event.device_type),
                     .device_index = event.device_index});
  return true;
}

bool TorchDecoder::DecodeStatus(const std::byte* record, uint32_t size) {
  wire::TorchStatusEvent event;
  if (!Load(record, size, event) || event.step_source > wire::kMaxStepSource) return false;
  std::string version;
  if (event.version_id != wire::kNoNameId && !names_.reader().ReadName(event.version_id, version)) {
    return false;
  }
  status_ = event;
  version_ = ForDisplay(version, kMaxVersionBytes);
  return true;
}

void TorchDecoder::Flush(uint32_t sink_thread) {
  // How many of `rows` the sink took.
  const auto give = [this](auto& rows, auto append) {
    if (rows.empty()) return int64_t{0};
    sink_.Do([&](CaptureSink& sink) { return append(sink); });
    const auto count = static_cast<int64_t>(rows.size());
    rows.clear();
    return sink_.status().ok() ? count : 0;
  };
  // Of no thread; operators name them, so they come first.
  stack_count_ += give(stacks_, [&](CaptureSink& sink) { return sink.Append(stacks_); });
  give(modules_, [&](CaptureSink& sink) { return sink.Append(modules_); });
  operator_count_ +=
      give(operators_, [&](CaptureSink& sink) { return sink.Append(sink_thread, operators_); });
  tensor_use_count_ +=
      give(uses_, [&](CaptureSink& sink) { return sink.Append(sink_thread, uses_); });
  const auto told = static_cast<int64_t>(notes_.size() + blocks_.size());
  const int64_t notes =
      give(notes_, [&](CaptureSink& sink) { return sink.Append(sink_thread, notes_); });
  const int64_t blocks = give(blocks_, [&](CaptureSink& sink) { return sink.Append(blocks_); });
  note_count_ += notes;
  block_count_ += blocks;
  lost_note_count_ += told - notes - blocks;
}

void TorchDecoder::Describe(TorchRecord& record) const {
  record.operator_count = operator_count_;
  record.tensor_use_count = tensor_use_count_;
  record.note_count = note_count_;
  record.block_count = block_count_;
  record.cut_input_count = cut_input_count_;
  record.lost_note_count = lost_note_count_;
  record.stack_count = stack_count_;
  record.missing_stack_count = stack_decoder_.full_count();
  if (!is_wanted_) return;
  record.missing = missing_;
  if (!status_.has_value()) {
    // A library that has attached to no torch says nothing.
    record.outcome = TorchOutcome::kNoTorch;
    return;
  }
  const auto count = [this](wire::TorchCount which) {
    return static_cast<int64_t>(std::min(status_->counts[which], kMaxUntrustedCount));
  };
  record.outcome = OutcomeOf(*status_);
  record.operators = RecordedMode(status_->wanted & status_->recorded);
  record.memory =
      (status_->wanted & status_->recorded & (wire::kTorchCpuMemory | wire::kTorchCudaMemory)) != 0;
  record.version = version_;
  record.step_source = static_cast<StepSource>(status_->step_source);
  record.folded_count = count(wire::kTorchFolded);
  record.odd_tensor_count = count(wire::kTorchOddTensors);
  record.lost_note_count += count(wire::kTorchLostNotes);
  record.missed_memory_count = count(wire::kTorchMissedMemory);
  record.missing_stack_count += count(wire::kTorchOddFrames) + count(wire::kTorchFullStacks);
}

}  // namespace profd
