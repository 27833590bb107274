#include "client_lib/torch/torch_part.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client_lib/core/agent.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/torch/collector.h"
#include "client_lib/torch/memory.h"
#include "client_lib/torch/operators.h"
#include "client_lib/torch/periodicity.h"
#include "client_lib/torch/python_stacks.h"
#include "client_lib/torch/steps.h"
#include "client_lib/torch/torch_source.h"

namespace profd::client::torch {
namespace {

using wire::OperatorsMode;

// In this order they are told of a capture, and of a window's begin: what makes steps of operators
// is behind what writes them.
constexpr const TorchSource* kSources[] = {&kMemorySource, &kStackSource, &kOperatorSource,
                                           &kPeriodicitySource, &kStepsSource};

constexpr uint32_t kNameFeatures = wire::kTorchOperators | wire::kTorchScopes |
                                   wire::kTorchSequences | wire::kTorchThreads |
                                   wire::kTorchForwardThreads | wire::kTorchCompile;
constexpr uint32_t kShapeFeatures = wire::kTorchInputs | wire::kTorchShapes | wire::kTorchLists |
                                    wire::kTorchScalars | wire::kTorchStrings;
constexpr uint32_t kMemoryFeatures =
    wire::kTorchCpuMemory | wire::kTorchCudaMemory | wire::kTorchStorages | wire::kTorchBlocks;
// What the collector is for.
constexpr uint32_t kCollected = wire::kTorchBlocks | wire::kTorchCompile | wire::kTorchModulePaths;

constexpr uint32_t kFirstCompilingMajor = 2;
constexpr uint32_t kFeatureCount = 21;
static_assert((1u << kFeatureCount) - 1 == wire::kAllTorchFeatures);
// As people read them, by bit.
constexpr const char* kFeatureNames[kFeatureCount] = {
    "torch",
    "operators",
    "scopes of operators",
    "sequence numbers",
    "torch's thread numbers",
    "forward threads",
    "inputs",
    "shapes",
    "strides",
    "storages",
    "lists of inputs",
    "scalar inputs",
    "string inputs",
    "steps",
    "CPU memory",
    "CUDA memory",
    "owners of memory",
    "notes of torch.compile",
    "Python stacks",
    "modules",
    "paths of modules",
};

constinit std::atomic<bool> g_has_joined{false};
constinit uint32_t g_version_id = wire::kNoNameId;
constinit uint32_t g_version_major = 0;

// Of the capture that is armed; 0: none is, or it wants nothing.
constinit std::atomic<uint32_t> g_wanted{0};
// The agent's.
constinit wire::ArmTorchField g_field{};
constinit bool g_has_armed_collector = false;
constinit bool g_has_asked_collector = false;

// Changes of the flag that no thread has followed yet. The thread that makes it 1 follows the flag
// until it can make it 0 again; other threads only count theirs.
constinit std::atomic<uint32_t> g_changes{0};
constinit bool g_is_recording = false;  // Of the thread that follows.

bool ShouldRecord() {
  const uint32_t flag = g_hot.flag.load(std::memory_order_seq_cst);
  return flag != kFlagOff && flag != kFlagForked && IsWanted();
}

void FollowFlag() {
  const bool on = ShouldRecord();
  if (on == g_is_recording) return;
  g_is_recording = on;
  for (const TorchSource* source : kSources) {
    if (source->set_recording != nullptr) source->set_recording(on);
  }
}

void OnFlag() {
  if (g_changes.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  uint32_t seen = 1;
  do {
    FollowFlag();
  } while (!g_changes.compare_exchange_strong(seen, 0, std::memory_order_acq_rel));
}

void ArmCollector() {
  const uint32_t wanted = g_wanted.load(std::memory_order_relaxed);
  if (g_has_armed_collector || (wanted & kCollected) == 0 || !collector::IsThere()) return;
  g_has_armed_collector = true;
  collector::Arm(wanted);
}

void OnArm(const wire::ArmTorchField& wanted) {
  g_field = wanted;
  const uint32_t features = FeaturesWanted(wanted);
  for (const TorchSource* source : kSources) {
    if (source->on_arm != nullptr) source->on_arm(wanted);
  }
  g_wanted.store(features, std::memory_order_seq_cst);
  ArmCollector();
}

void OnStop() {
  ArmCollector();  // It may have come only now.
  if (!g_has_armed_collector) return;
  g_has_asked_collector = true;
  collector::Collect();
}

bool IsReady() { return !g_has_asked_collector || collector::IsDone(); }

const char* WhyMissing(uint32_t feature) {
  // What keeps us from operators keeps us from these.
  if ((feature & (wire::kTorchPresent | wire::kTorchSteps)) != 0) feature = wire::kTorchOperators;
  for (const TorchSource* source : kSources) {
    const char* why = source->why_missing != nullptr ? source->why_missing(feature) : nullptr;
    if (why != nullptr) return why;
  }
  if ((feature & kCollected) == 0) return "not found in this torch";
  if (!collector::IsThere()) return "the process has no Python package of profd";
  return "Python did not answer in time";
}

void WriteNote(LateWriter* writer, wire::NoteKind kind, const char* subject, const char* text) {
  wire::NoteEvent note{};
  note.header = {sizeof(note), static_cast<uint8_t>(wire::EventKind::kNote), 0, 0};
  note.subject_id = writer->NameFor(InternName(subject, strlen(subject)));
  note.text_id = writer->NameFor(InternName(text, strlen(text)));
  note.kind = static_cast<uint16_t>(kind);
  writer->Write(&note, sizeof(note));
}

void WriteStatus(LateWriter* writer, uint32_t wanted, uint32_t recorded) {
  wire::TorchStatusEvent status{};
  status.header = {sizeof(status), static_cast<uint8_t>(wire::EventKind::kTorchStatus), 0, 0};
  status.version_id = writer->NameFor(g_version_id);
  status.wanted = wanted;
  status.recorded = recorded;
  const bool counts_own = g_field.step_source != static_cast<uint32_t>(wire::StepSource::kNone) &&
                          g_field.step_source <= wire::kMaxStepSource;
  status.step_source =
      counts_own ? g_field.step_source : static_cast<uint32_t>(CurrentStepSource());
  for (const TorchSource* source : kSources) {
    if (source->add_counts != nullptr) source->add_counts(status.counts);
  }
  status.counts[wire::kTorchLostNotes] += collector::lost_count();
  writer->Write(&status, sizeof(status));
}

void WriteBehind(Session* session) {
  LateWriter writer(session);
  const uint32_t wanted = g_wanted.load(std::memory_order_relaxed);
  uint32_t recorded = wanted & Features();
  if (g_has_asked_collector) collector::WriteTo(&writer);
  if (!g_has_asked_collector || !collector::IsDone()) recorded &= ~kCollected;
  for (const TorchSource* source : kSources) {
    if (source->write_behind != nullptr) source->write_behind(&writer);
  }
  for (uint32_t bit = 0; bit < kFeatureCount; ++bit) {
    const uint32_t feature = 1u << bit;
    if ((wanted & ~recorded & feature) == 0) continue;
    WriteNote(&writer, wire::NoteKind::kMissing, kFeatureNames[bit], WhyMissing(feature));
  }
  WriteStatus(&writer, wanted, recorded);
}

// Until no thread looks at the flag any more: who does is done in a moment, if it is let run.
void AwaitFollowers() {
  constexpr int kMostYields = 1000;
  for (int i = 0; i < kMostYields; ++i) {
    if (g_changes.load(std::memory_order_acquire) == 0) return;
    sched_yield();
  }
}

void OnLeave() {
  if (g_has_armed_collector) collector::Leave();
  g_has_armed_collector = false;
  g_has_asked_collector = false;
  g_wanted.store(0, std::memory_order_seq_cst);
  OnFlag();
  AwaitFollowers();
  for (const TorchSource* source : kSources) {
    if (source->on_leave != nullptr) source->on_leave();
  }
}

void ResetInChild() {
  g_wanted.store(0, std::memory_order_relaxed);
  g_changes.store(0, std::memory_order_relaxed);
  g_has_armed_collector = false;
  g_has_asked_collector = false;
  FollowFlag();
  collector::ResetInChild();
  for (const TorchSource* source : kSources) {
    if (source->reset_in_child != nullptr) source->reset_in_child();
  }
}

}  // namespace

void JoinCore(const char* version) {
  if (g_has_joined.load(std::memory_order_acquire)) return;
  g_version_id = InternName(version, strlen(version));
  g_version_major = static_cast<uint32_t>(strtoul(version, nullptr, 10));
  g_has_joined.store(true, std::memory_order_release);
  g_torch_hooks.store(&Hooks(), std::memory_order_release);
  WakeAgentForTorch();
}

const TorchHooks& Hooks() {
  static constexpr TorchHooks kHooks = {OnArm,       OnFlag,  OnStop,          IsReady,
                                        WriteBehind, OnLeave, FollowSwitching, ResetInChild};
  return kHooks;
}

uint32_t Features() {
  if (!g_has_joined.load(std::memory_order_acquire)) return 0;
  uint32_t features = 0;
  for (const TorchSource* source : kSources) features |= source->features();
  if (features == 0) return 0;
  features |= wire::kTorchPresent;
  if (!collector::IsThere()) return features;
  features |= wire::kTorchBlocks | wire::kTorchModulePaths;
  return g_version_major >= kFirstCompilingMajor ? features | wire::kTorchCompile : features;
}

uint32_t FeaturesWanted(const wire::ArmTorchField& wanted) {
  uint32_t features = wire::kTorchPresent | wire::kTorchSteps;
  if (wanted.operators >= static_cast<uint32_t>(OperatorsMode::kNames)) features |= kNameFeatures;
  if (wanted.operators >= static_cast<uint32_t>(OperatorsMode::kShapes)) {
    features |= kShapeFeatures;
    if ((wanted.flags & wire::kArmTorchStrides) != 0) features |= wire::kTorchStrides;
  }
  if (wanted.operators >= static_cast<uint32_t>(OperatorsMode::kNames)) {
    if ((wanted.flags & wire::kArmTorchStacks) != 0) features |= wire::kTorchStacks;
    if ((wanted.flags & wire::kArmTorchModules) != 0)
      features |= wire::kTorchModules | wire::kTorchModulePaths;
  }
  if ((wanted.flags & wire::kArmTorchMemory) != 0) features |= kMemoryFeatures;
  if (g_version_major < kFirstCompilingMajor) features &= ~uint32_t{wire::kTorchCompile};
  if (!HasCudaAllocator()) features &= ~uint32_t{wire::kTorchCudaMemory};
  return features;
}

bool AreOperatorsWanted() {
  return (g_wanted.load(std::memory_order_relaxed) & wire::kTorchOperators) != 0;
}

bool IsWanted() { return g_wanted.load(std::memory_order_seq_cst) != 0; }

}  // namespace profd::client::torch
