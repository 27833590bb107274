#include "client_lib/torch/operators.h"

#include <sched.h>
#include <string.h>

#include <atomic>

#include "client_lib/core/foreign_calls.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/recorder.h"
#include "client_lib/python_stack/stacks.h"
#include "client_lib/torch/async_operators.h"
#include "client_lib/torch/collector.h"
#include "client_lib/torch/compilations.h"
#include "client_lib/torch/operator_inputs.h"
#include "client_lib/torch/operator_names.h"
#include "client_lib/torch/steps.h"
#include "proto/wire/clock.h"

namespace profd::client::torch {
namespace {

using wire::OperatorScope;
using wire::OperatorsMode;

// torch numbers its threads from 1: what is larger is no such number.
constexpr uint64_t kMostTorchThreads = 1 << 24;
constexpr uint64_t kMostLeavingNs = 1'000'000'000;

constinit TorchLibrary g_torch{};
constinit RecordFunctionLayout g_layout{};
constinit TensorLayout g_tensors{};
// wire::TorchFeature; a bit is set after what it stands for.
constinit std::atomic<uint32_t> g_features{0};

constinit const char* g_why_none = "nobody has attached to it";
constinit std::atomic<bool> g_is_probed{false};

// What the capture wants. Written while nothing records.
constinit InputOptions g_options{};
constinit OperatorsMode g_mode = OperatorsMode::kOff;

// Registered callbacks of a mode. One for all, where a RecordFunction shows its scope: torch goes
// through those that are registered at every node of a backward pass.
struct Callbacks {
  uint64_t operators;  // 0: not registered.
  uint64_t user;       // Of record_function(); 0: `operators` is for those, too.
};
constinit Callbacks g_name_callbacks{};
constinit Callbacks g_input_callbacks{};
constinit bool g_are_registered = false;  // The agent's.
// What is to be enabled, and what is. The thread that switches makes them one.
constinit std::atomic<const Callbacks*> g_should_be_enabled{nullptr};
constinit std::atomic<const Callbacks*> g_enabled{nullptr};
// A thread calls what takes torch's lock. If a fork could not wait for it, the child must leave
// that alone.
constinit std::atomic<bool> g_is_switching{false};
// torch is not to be called any more, for good.
constinit std::atomic<bool> g_is_over{false};

constinit InputCounts g_input_counts{};

// ---- Callbacks.

template <typename Value>
[[gnu::always_inline]] inline Value FieldAt(const void* object, int32_t offset) {
  Value value;
  memcpy(&value, static_cast<const uint8_t*>(object) + offset, sizeof(Value));
  return value;
}

[[gnu::always_inline]] inline uint32_t Describe(const void* record_function, bool with_inputs,
                                                wire::OperatorEvent* record) {
  record->sequence = g_layout.sequence != kNowhere
                         ? FieldAt<int64_t>(record_function, g_layout.sequence)
                         : wire::kNoSequence;
  record->torch_thread =
      g_layout.thread != kNowhere ? FieldAt<uint32_t>(record_function, g_layout.thread) : 0;
  record->scope =
      g_layout.scope != kNowhere ? FieldAt<uint8_t>(record_function, g_layout.scope) : uint8_t{0};
  record->forward_thread = 0;
  if (record->scope == static_cast<uint8_t>(OperatorScope::kBackwardFunction) &&
      g_layout.forward_thread != kNowhere) {
    const auto thread = FieldAt<uint64_t>(record_function, g_layout.forward_thread);
    if (thread <= kMostTorchThreads) record->forward_thread = thread;
  }
  record->input_count = 0;
  record->described_count = 0;
  if (!with_inputs) return sizeof(*record);
  const auto* inputs =
      reinterpret_cast<const IValue*>(FieldAt<uint64_t>(record_function, g_tensors.inputs));
  const auto count = FieldAt<uint64_t>(record_function, g_tensors.inputs + 8);
  return DescribeInputs(g_tensors, g_options, inputs, count, record, &g_input_counts);
}

// Returns its start; 0: it is not recorded.
[[gnu::always_inline]] inline uint64_t Begin(const void* record_function, bool with_inputs,
                                             wire::RangeCategory category, uint32_t name_id,
                                             uint16_t stack = kOperatorStack) {
  OperatorBegin begin;
  if (PROFD_UNLIKELY(!StartOperator(name_id, &begin))) return 0;
  // First, since it may write to the capture, too.
  const uint32_t stack_id = python_stack::IdOf(&begin);
  const uint32_t bytes = Describe(record_function, with_inputs, begin.record);
  // Also of a torch that does not show it: the daemon keeps what record_function() was given.
  if (category == wire::RangeCategory::kUser) {
    begin.record->scope = static_cast<uint8_t>(OperatorScope::kUserScope);
  }
  begin.record->stack_id = stack_id;
  const uint64_t start_ticks = FinishOperator(&begin, name_id, category, bytes, stack);
  if (stack_id == wire::kNoStackId) return start_ticks;
  python_stack::SetStart(begin.thread, start_ticks,
                         /*may_outlive_call=*/category == wire::RangeCategory::kUser);
  return start_ticks;
}

bool IsOff() { return g_hot.flag.load(std::memory_order_relaxed) == kFlagOff; }

template <bool kWithInputs>
CallbackContext OnBegin(const void* record_function) {
  if (PROFD_UNLIKELY(compilations::IsInside()) &&
      compilations::BeginInside(g_torch.name(record_function))) {
    return {};
  }
  if (PROFD_LIKELY(!IsOff())) {
    Begin(record_function, kWithInputs, wire::RangeCategory::kOperator,
          NameOf(g_torch.name(record_function)));
  }
  return {};
}

void OnEnd(const void*, void*) {
  if (PROFD_UNLIKELY(compilations::IsInside()) && compilations::EndInside()) return;
  EndOperator();
}

bool IsAsync(const void* record_function) {
  return g_torch.is_async != nullptr && g_torch.is_async(record_function);
}

CallbackContext BeginAsync(const void* record_function) {
  if (compilations::IsInside()) {
    compilations::CountAsync();
    return {};
  }
  if (IsOff()) return {};
  const uint64_t span = BeginSpan(NameOf(g_torch.name(record_function)));
  if (span == 0) return {};
  AsyncOperator* carried = AsyncOperator::Take(span);
  if (carried == nullptr) DropSpan();
  return CallbackContext(carried);
}

template <bool kWithInputs>
CallbackContext OnUserBegin(const void* record_function) {
  if (IsAsync(record_function)) return BeginAsync(record_function);
  const char* name = g_torch.name(record_function);
  DeferStepEnd(record_function, name);
  if (compilations::IsInside() && compilations::BeginInside(name)) return {};
  const uint32_t name_id = NameOf(name);
  // A window that begins within a compilation has nothing of it, either.
  if (compilations::IsOne(name)) compilations::Open(name_id);
  if (IsOff()) return {};
  AsyncOperator* carried = AsyncOperator::TakeForRange();
  if (carried == nullptr) {
    DropSpan();
    return {};
  }
  const uint64_t start_ticks =
      Begin(record_function, kWithInputs, wire::RangeCategory::kUser, name_id, kIdentityStack);
  carried->set_range(start_ticks == 0 ? kRangeTooDeep : SpanOf(name_id, start_ticks));
  return CallbackContext(carried);
}

void EndAsync(AsyncOperator& carried) {
  const uint64_t span = carried.TakeSpan();
  if (span != 0 && !EndSpan(span)) KeepOpenSpan(span);  // The window has ended since.
}

// Without a context it began before the window, or inside of a compilation.
void OnUserEnd(const void* record_function, void* context) {
  auto* carried = static_cast<AsyncOperator*>(context);
  if (carried != nullptr && !carried->is_range()) return EndAsync(*carried);
  if (compilations::IsInside() && (carried != nullptr || !IsAsync(record_function))) {
    compilations::EndInside();
  }
  if (carried != nullptr) CloseRange(carried->range());
  EndDeferredStep(record_function);  // May open or end a window.
}

bool IsOfUser(const void* record_function) {
  return FieldAt<uint8_t>(record_function, g_layout.scope) ==
         static_cast<uint8_t>(OperatorScope::kUserScope);
}

template <bool kWithInputs>
CallbackContext OnAnyBegin(const void* record_function) {
  if (PROFD_UNLIKELY(IsOfUser(record_function))) return OnUserBegin<kWithInputs>(record_function);
  return OnBegin<kWithInputs>(record_function);
}

void OnAnyEnd(const void* record_function, void* context) {
  if (PROFD_UNLIKELY(IsOfUser(record_function))) return OnUserEnd(record_function, context);
  OnEnd(record_function, context);
}

// ---- Switching them on and off.

enum class Observed { kOperators, kUser, kBoth };

uint64_t RegisterDisabled(StartCallback start, EndCallback end, Observed observed,
                          bool needs_inputs) {
  RecordFunctionCallback callback{};
  callback.start = start;
  callback.end = end;
  callback.sampling_probability = 1.0;
  if (observed != Observed::kUser) AskForOperators(&callback);
  if (observed != Observed::kOperators) {
    callback.scopes[static_cast<size_t>(OperatorScope::kUserScope)] = 1;
  }
  callback.needs_inputs = needs_inputs;
  const uint64_t handle = g_torch.add_callback(callback);
  g_torch.disable_callback(handle);
  return handle;
}

template <bool kWithInputs>
Callbacks RegisterDisabled() {
  if (g_layout.scope != kNowhere) {
    return {.operators =
                RegisterDisabled(OnAnyBegin<kWithInputs>, OnAnyEnd, Observed::kBoth, kWithInputs),
            .user = 0};
  }
  return {
      .operators = RegisterDisabled(OnBegin<kWithInputs>, OnEnd, Observed::kOperators, kWithInputs),
      .user = RegisterDisabled(OnUserBegin<kWithInputs>, OnUserEnd, Observed::kUser, kWithInputs)};
}

template <typename Function>
void ForEach(const Callbacks& callbacks, Function function) {
  for (const uint64_t handle : {callbacks.operators, callbacks.user}) {
    if (handle != 0) function(handle);
  }
}

const Callbacks* CallbacksWanted() {
  const uint32_t features = g_features.load(std::memory_order_acquire);
  const bool is_on = g_are_registered && g_mode != OperatorsMode::kOff;
  if (!is_on || (features & wire::kTorchOperators) == 0) return nullptr;
  const bool wants_inputs = g_mode == OperatorsMode::kShapes;
  return wants_inputs && (features & wire::kTorchInputs) != 0 ? &g_input_callbacks
                                                              : &g_name_callbacks;
}

// No more than are needed: each costs a backward pass something, also a disabled one. Inputs also
// where this torch has not been proved to show them yet: it may be by the time that the window
// opens.
void Register() {
  if (g_are_registered || g_mode == OperatorsMode::kOff || !AwaitSwitching()) return;
  const bool wants_inputs = g_mode == OperatorsMode::kShapes;
  const bool has_inputs = (g_features.load(std::memory_order_acquire) & wire::kTorchInputs) != 0;
  g_name_callbacks = wants_inputs && has_inputs ? Callbacks{} : RegisterDisabled<false>();
  g_input_callbacks = wants_inputs ? RegisterDisabled<true>() : Callbacks{};
  g_are_registered = true;
  EndSwitching();
}

void Unregister() {
  if (!g_are_registered || !AwaitSwitching()) return;
  // Another thread is late; next time, then.
  if (g_enabled.load(std::memory_order_seq_cst) != nullptr) return EndSwitching();
  for (const Callbacks& callbacks : {g_name_callbacks, g_input_callbacks}) {
    ForEach(callbacks, g_torch.remove_callback);
  }
  g_are_registered = false;
  EndSwitching();
}

uint32_t Features() { return g_features.load(std::memory_order_acquire); }

void OnArm(const wire::ArmTorchField& wanted) {
  const uint32_t features = Features();
  g_mode = wanted.operators <= static_cast<uint32_t>(OperatorsMode::kShapes)
               ? static_cast<OperatorsMode>(wanted.operators)
               : OperatorsMode::kShapes;
  g_options.strides =
      (wanted.flags & wire::kArmTorchStrides) != 0 && (features & wire::kTorchStrides) != 0;
  g_options.storages =
      (wanted.flags & wire::kArmTorchMemory) != 0 && (features & wire::kTorchStorages) != 0;
  g_input_counts.cut.store(0, std::memory_order_relaxed);
  g_input_counts.odd_tensors.store(0, std::memory_order_relaxed);
  compilations::ResetCounts();
  uint64_t of_earlier_captures[kMaxOpenSpans];
  TakeOpenSpans(of_earlier_captures);
  if ((features & wire::kTorchOperators) != 0) Register();
}

// While no other thread does.
void Switch() {
  const Callbacks* wanted = g_should_be_enabled.load(std::memory_order_seq_cst);
  const Callbacks* enabled = g_enabled.load(std::memory_order_seq_cst);
  if (enabled == wanted) return;
  if (enabled != nullptr) ForEach(*enabled, g_torch.disable_callback);
  if (wanted != nullptr) ForEach(*wanted, g_torch.reenable_callback);
  g_enabled.store(wanted, std::memory_order_seq_cst);
}

void LeaveSwitching() {
  g_is_switching.store(false, std::memory_order_seq_cst);
  EndForeignCall();
}

void SetRecording(bool on) {
  if (on) {
    BeginSpans();
  } else {
    EndSpans();
  }
  g_should_be_enabled.store(on ? CallbacksWanted() : nullptr, std::memory_order_seq_cst);
  FollowSwitching();
}

// As ranges that go on beyond the window, which is all that is known of their ends.
void WriteOpenSpans(LateWriter* writer) {
  uint64_t spans[kMaxOpenSpans];
  const OpenSpans open = TakeOpenSpans(spans);
  for (uint32_t i = 0; i < open.count; ++i) writer->WriteOpenSpan(spans[i]);
  writer->CountLostSpans(open.lost);
}

void WriteBehind(LateWriter* writer) {
  WriteOpenSpans(writer);
  compilations::WriteNotes(writer);
}

void AddCounts(uint64_t* counts) {
  counts[wire::kTorchCutInputs] += g_input_counts.cut.load(std::memory_order_relaxed);
  counts[wire::kTorchOddTensors] += g_input_counts.odd_tensors.load(std::memory_order_relaxed);
  counts[wire::kTorchFolded] += compilations::count();
}

const char* WhyMissing(uint32_t feature) {
  constexpr uint32_t kFields =
      wire::kTorchScopes | wire::kTorchSequences | wire::kTorchThreads | wire::kTorchForwardThreads;
  constexpr uint32_t kInputs = wire::kTorchInputs | wire::kTorchShapes | wire::kTorchStrides |
                               wire::kTorchStorages | wire::kTorchLists | wire::kTorchScalars |
                               wire::kTorchStrings;
  const uint32_t features = Features();
  if ((feature & (wire::kTorchOperators | kFields | kInputs)) == 0 || (features & feature) != 0) {
    return nullptr;
  }
  if ((features & wire::kTorchOperators) == 0) return g_why_none;
  if ((feature & kFields) != 0) return "it was not found with certainty in this torch";
  return g_is_probed.load(std::memory_order_acquire)
             ? "it was not found with certainty in this torch's operators"
             : "the process has no Python package of profd that shows where it is";
}

void OnLeave() {
  g_mode = OperatorsMode::kOff;
  Unregister();
}

// fork() waits for a thread that switches, but not for ever. A lock of torch's that such a thread
// held is held for ever here, so that nothing can be switched any more. What is enabled then costs
// the child's operators a look at the flag. What is registered stays for the child's own captures.
void ResetInChild() {
  if (g_is_switching.exchange(false, std::memory_order_seq_cst)) {
    g_is_over.store(true, std::memory_order_seq_cst);
    g_why_none = "this process was forked at the moment when a capture began or ended";
    g_features.store(0, std::memory_order_release);
    return;
  }
  SetRecording(false);
}

}  // namespace

constinit const TorchSource kOperatorSource = {.features = Features,
                                               .on_arm = OnArm,
                                               .set_recording = SetRecording,
                                               .add_counts = AddCounts,
                                               .why_missing = WhyMissing,
                                               .write_behind = WriteBehind,
                                               .on_leave = OnLeave,
                                               .reset_in_child = ResetInChild};

void AttachOperators(const TorchLibrary& library, const RecordFunctionLayout& layout,
                     uint32_t features) {
  g_torch = library;
  g_layout = layout;
  g_features.fetch_or(features, std::memory_order_release);
}

bool BeginSwitching() {
  if (!TryBeginForeignCall()) return false;
  if (!g_is_switching.exchange(true, std::memory_order_seq_cst)) {
    if (!g_is_over.load(std::memory_order_seq_cst)) return true;
    g_is_switching.store(false, std::memory_order_seq_cst);
  }
  EndForeignCall();
  return false;
}

bool AwaitSwitching() {
  while (!BeginSwitching()) {
    if (g_is_over.load(std::memory_order_seq_cst)) return false;
    sched_yield();
  }
  return true;
}

void EndSwitching() {
  LeaveSwitching();
  FollowSwitching();
}

// A thread that cannot switch, because another one does or forks, leaves it to that one, which
// comes here afterwards.
void FollowSwitching() {
  while (g_should_be_enabled.load(std::memory_order_seq_cst) !=
         g_enabled.load(std::memory_order_seq_cst)) {
    if (!BeginSwitching()) return;
    Switch();
    LeaveSwitching();
  }
}

// Bounded, because a handler of a signal may call exit() on the very thread that switches.
void LeaveTorch() {
  python_stack::Leave();
  collector::End();
  g_is_over.store(true, std::memory_order_seq_cst);
  const uint64_t deadline_ns = wire::ReadMonotonicNs() + kMostLeavingNs;
  while (g_is_switching.load(std::memory_order_seq_cst) && wire::ReadMonotonicNs() < deadline_ns) {
    sched_yield();
  }
}

void RefuseOperators(const char* why) { g_why_none = why; }

void AttachInputs(const TensorLayout& layout, uint32_t features) {
  g_is_probed.store(true, std::memory_order_release);
  // A second probe finds nothing new.
  if ((features & wire::kTorchInputs) == 0 || (Features() & wire::kTorchInputs) != 0) return;
  g_tensors = layout;
  g_features.fetch_or(features, std::memory_order_release);
}

}  // namespace profd::client::torch
