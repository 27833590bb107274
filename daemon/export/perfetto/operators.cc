#include "daemon/export/perfetto/operators.h"

#include <array>
#include <utility>

#include "daemon/base/str_cat.h"
#include "daemon/export/trace/layout.h"
#include "daemon/report/index/place_index.h"

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
                                     report::StackTable stacks, const PerfettoPackets& packets)
    : names_(reader.names()),
      stacks_(std::move(stacks)),
      plan_(plan),
      packets_(packets),
      texts_(reader),
      sent_(reader.threads().size()) {}

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
  if (op.stack != 0 && op.stack < stacks_.size()) {
    is_new |= !sent_[thread].stacks.contains(op.stack);
    AddStack(op.stack, thread, event, interned_data);
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
  // All kinds of texts share one table of the sequence.
  const uint64_t iid = uint64_t{index} << 3 | kind;
  argument_.Clear();
  argument_.Varint(annotation::kNameIid, kind).Varint(annotation::kStringValueIid, iid);
  event.Message(event::kDebugAnnotations, argument_);
  if (!sent_[thread].texts.insert(iid).second) return false;
  PerfettoPackets::AddInterned(interned::kAnnotationTexts, iid, text, interned_data);
  return true;
}

// Outermost first.
void PerfettoOperators::AddStack(uint32_t stack, uint32_t thread, ProtoMessage& event,
                                 ProtoMessage& interned_data) {
  event.Varint(event::kCallstackIid, stack);
  if (!sent_[thread].stacks.insert(stack).second) return;
  std::vector<uint32_t> frames;
  for (uint32_t at = stack; at != 0; at = stacks_[at].caller) {
    const uint32_t source = AddSource(at, thread, interned_data);
    if (source != 0) frames.push_back(source);
    frames.push_back(at);
    AddFrame(at, thread, interned_data);
  }
  ProtoMessage callstack;
  callstack.Varint(interned::kIid, stack);
  for (size_t i = frames.size(); i-- > 0;) callstack.Varint(callstack::kFrameIds, frames[i]);
  interned_data.Message(interned::kCallstacks, callstack);
}

uint32_t PerfettoOperators::AddSource(uint32_t stack, uint32_t thread,
                                      ProtoMessage& interned_data) {
  const std::string_view source = stacks_.GeneratedFrom(stacks_[stack]);
  if (source.empty()) return 0;
  const auto number = static_cast<uint32_t>(stacks_.size() + stack);
  if (!sent_[thread].frames.insert(number).second) return number;
  // Names of their own, beyond those of the capture and of modules.
  const uint64_t name = names_.size() + number;
  const report::StackTable::Parts parts = report::StackTable::PartsOf(source);
  PerfettoPackets::AddInterned(interned::kFunctionNames, name, TraceName(parts.function),
                               interned_data);
  ProtoMessage frame;
  frame.Varint(interned::kIid, number).Varint(frame::kFunctionName, name);
  if (!parts.file.empty()) {
    PerfettoPackets::AddInterned(interned::kSourcePaths, name, TraceName(parts.file),
                                 interned_data);
    frame.Varint(frame::kSourcePath, name).Varint(frame::kLine, parts.line);
  }
  frame.Varint(frame::kKind, frame::kInterpreted);
  interned_data.Message(interned::kFrames, frame);
  return number;
}

void PerfettoOperators::AddFrame(uint32_t stack, uint32_t thread, ProtoMessage& interned_data) {
  Sent& sent = sent_[thread];
  if (!sent.frames.insert(stack).second) return;
  const report::StackTable::Stack& row = stacks_[stack];
  // Modules by their place in the model; each has a name of its own, beyond those of the capture.
  const bool is_module = row.module != 0;
  const uint64_t function = is_module ? names_.size() + stack : uint64_t{row.function} + 1;
  if (sent.functions.insert(function).second) {
    const std::string name =
        is_module ? StrCat(report::kModulePrefix, stacks_.NameOf(row)) : names_[row.function];
    PerfettoPackets::AddInterned(interned::kFunctionNames, function, TraceName(name),
                                 interned_data);
  }
  ProtoMessage frame;
  frame.Varint(interned::kIid, stack).Varint(frame::kFunctionName, function);
  if (row.file != 0) {
    if (sent.files.insert(row.file).second) {
      PerfettoPackets::AddInterned(interned::kSourcePaths, row.file, TraceName(names_[row.file]),
                                   interned_data);
    }
    frame.Varint(frame::kSourcePath, row.file);
    if (row.line != 0) frame.Varint(frame::kLine, row.line);
  }
  frame.Varint(frame::kKind, frame::kInterpreted);
  interned_data.Message(interned::kFrames, frame);
}

}  // namespace profd::exporter
