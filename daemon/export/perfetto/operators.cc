#include "daemon/export/perfetto/operators.h"

#include <array>

namespace profd::exporter {
namespace {

// Kineto's names of what an operator had. Their places plus one are their ids; the texts' kinds
// are the first ones' ids.
constexpr std::array<std::string_view, 6> kOperatorArguments = {
    "Input Dims",      "Input type",      "Input Strides",
    "Concrete Inputs", "Sequence number", "Fwd thread id"};
constexpr uint64_t kSequenceNumber = 5;
constexpr uint64_t kForwardThread = 6;

}  // namespace

PerfettoOperators::PerfettoOperators(const store::CaptureReader& reader, const OperatorPlan& plan,
                                     const PerfettoPackets& packets)
    : plan_(plan), packets_(packets), texts_(reader), sent_texts_(reader.threads().size()) {}

void PerfettoOperators::AddNames(ProtoMessage& interned_data) const {
  for (size_t i = 0; i < kOperatorArguments.size(); ++i) {
    PerfettoPackets::AddInterned(interned::kAnnotationNames, i + 1, kOperatorArguments[i],
                                 interned_data);
  }
}

bool PerfettoOperators::Describe(const PlannedOperator& op, uint32_t thread, ProtoMessage& event,
                                 ProtoMessage& interned_data) {
  const auto add_number = [&](uint64_t name, uint64_t value) {
    argument_.Clear();
    argument_.Varint(annotation::kNameIid, name).Varint(annotation::kUintValue, value);
    event.Message(event::kDebugAnnotations, argument_);
  };
  bool is_new = false;
  const auto add_text = [&](Text kind, uint32_t index, std::string_view text) {
    if (!text.empty()) is_new |= AddText(kind, index, text, thread, event, interned_data);
  };
  if (const OperatorInputs* const inputs = texts_.InputsAt(op.inputs)) {
    add_text(kDims, op.inputs, inputs->dims);
    add_text(kTypes, op.inputs, inputs->types);
    add_text(kStrides, op.inputs, inputs->strides);
  }
  add_text(kScalars, op.scalars, texts_.ScalarsAt(op.scalars));
  if (op.sequence >= 0) {
    add_number(kSequenceNumber, static_cast<uint64_t>(op.sequence));
    add_number(kForwardThread, op.forward_thread);
  }
  if (op.flow != 0) {
    event.Fixed64(op.ends_flow ? event::kTerminatingFlowIds : event::kFlowIds,
                  packets_.OperatorFlowId(op.flow));
  }
  return is_new;
}

// Returns whether the text is new to the thread's sequence.
bool PerfettoOperators::AddText(Text kind, uint32_t index, std::string_view text, uint32_t thread,
                                ProtoMessage& event, ProtoMessage& interned_data) {
  const uint64_t iid = uint64_t{index} << 3 | kind;
  argument_.Clear();
  argument_.Varint(annotation::kNameIid, kind).Varint(annotation::kStringValueIid, iid);
  event.Message(event::kDebugAnnotations, argument_);
  if (!sent_texts_[thread].insert(iid).second) return false;
  PerfettoPackets::AddInterned(interned::kAnnotationTexts, iid, text, interned_data);
  return true;
}

}  // namespace profd::exporter
