#include "client_lib/torch/steps.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/torch/collector.h"
#include "client_lib/torch/optimizer_counts.h"
#include "client_lib/torch/step_detector.h"
#include "client_lib/torch/torch_part.h"

namespace profd::client::torch {
namespace {

using wire::StepSource;

constexpr char kOptimizer[] = "Optimizer.step#";
constexpr char kDataLoader[] = "enumerate(DataLoader)#";
constexpr char kProfiler[] = "ProfilerStep#";

constinit const TorchLibrary* g_library = nullptr;
constinit std::atomic<bool> g_observes{false};

// The detector belongs to the first thread that trains, or loads. On others, ends of optimizers'
// steps are foreign marks, and batches are batches.
constinit StepDetector g_detector;
constinit OptimizerCounts g_counts;
constinit std::atomic<bool> g_has_owner{false};
enum class Role : uint8_t { kUnknown, kOwner, kOther };
__thread Role t_role __attribute__((tls_model("initial-exec"))) = Role::kUnknown;

// The range at whose begin a window opened, while it is open.
__thread const void* t_first_range __attribute__((tls_model("initial-exec"))) = nullptr;
// The outermost optimizer's range whose end operators.cc tells us of, behind what it writes of it.
__thread const void* t_deferred __attribute__((tls_model("initial-exec"))) = nullptr;

// Nobody else's: NVTX has the first few, operators the last one.
constexpr uint16_t kFirstRangeStack = 65534;
static_assert(kFirstRangeStack != kOperatorStack);

template <size_t kSize>
bool StartsWith(const char* name, const char (&prefix)[kSize]) {
  return strncmp(name, prefix, kSize - 1) == 0;
}

bool OwnsDetector() {
  if (PROFD_UNLIKELY(t_role == Role::kUnknown)) {
    t_role = g_has_owner.exchange(true) ? Role::kOther : Role::kOwner;
  }
  return t_role == Role::kOwner;
}

constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;

uint64_t HashOf(const char* name, uint64_t hash = kFnvBasis) {
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3;
  return hash;
}

void Mark(StepSource source) {
  if (IsStarted() || Start()) MarkStep(source);
}

// A mark at the begin of a range. If it opens a window, the range is its first one; operators.cc
// does not see it: what is called for a range was settled before.
void MarkAt(const void* record_function, const char* name, StepSource source) {
  const bool was_off = g_hot.flag.load(std::memory_order_relaxed) == kFlagOff;
  Mark(source);
  if (PROFD_LIKELY(!was_off || g_hot.flag.load(std::memory_order_relaxed) == kFlagOff)) return;
  if (!AreOperatorsWanted()) return;
  t_first_range = record_function;
  BeginRangeOn(kFirstRangeStack, InternName(name, strlen(name)));
}

uint64_t AutogradNodes() {
  return g_library->autograd_nodes != nullptr ? g_library->autograd_nodes() : 0;
}

void OnBatch(const void* record_function, const char* name) {
  if (!OwnsDetector()) return RecordBatch();
  if (!g_detector.OnBatchBegin(ReadTicks(), AutogradNodes())) return;
  RecordBatch();
  MarkAt(record_function, name, StepSource::kDataLoader);
}

// Whether a step begins. Who asks the detector has its questions answered, a few times ever.
bool BeginsStep(const char* name) {
  const uint64_t hash = HashOf(name);
  const bool begins =
      g_detector.OnOptimizerEnd(hash, ReadTicks(), AutogradNodes(), g_counts.CountOf(hash));
  if (PROFD_UNLIKELY(g_detector.WantsCounts())) {
    g_counts.Clear();
    collector::AskForCounts();
  }
  return begins;
}

void OnOptimizerEnd(const char* name) {
  if (!OwnsDetector() || BeginsStep(name)) Mark(StepSource::kOptimizer);
}

CallbackContext OnBegin(const void* record_function) {
  const char* name = g_library->name(record_function);
  if (StartsWith(name, kOptimizer)) {
    if (OwnsDetector()) g_detector.OnOptimizerBegin(ReadTicks());
  } else if (StartsWith(name, kDataLoader)) {
    OnBatch(record_function, name);
  } else if (StartsWith(name, kProfiler)) {
    MarkAt(record_function, name, StepSource::kProfiler);
  }
  return {};
}

void OnEnd(const void* record_function, void*) {
  if (PROFD_UNLIKELY(t_deferred == record_function)) return;
  const char* name = g_library->name(record_function);
  if (StartsWith(name, kOptimizer)) {
    OnOptimizerEnd(name);
  } else if (StartsWith(name, kDataLoader) && OwnsDetector()) {
    g_detector.OnBatchEnd(ReadTicks());
  }
  if (PROFD_UNLIKELY(t_first_range == record_function)) {
    t_first_range = nullptr;
    EndRangeOn(kFirstRangeStack);
  }
}

uint32_t StepFeatures() {
  return g_observes.load(std::memory_order_relaxed) ? uint32_t{wire::kTorchSteps} : 0;
}

void ResetInChild() {
  g_detector = StepDetector();
  g_counts.Clear();
  g_has_owner.store(false, std::memory_order_relaxed);
  t_role = Role::kUnknown;
  t_first_range = nullptr;
  t_deferred = nullptr;
}

}  // namespace

constinit const TorchSource kStepsSource = {.features = StepFeatures,
                                            .reset_in_child = ResetInChild};

void ObserveSteps(const TorchLibrary& library) {
  g_library = &library;
  RecordFunctionCallback callback{};
  callback.start = OnBegin;
  callback.end = OnEnd;
  callback.sampling_probability = 1.0;
  callback.scopes[static_cast<size_t>(wire::OperatorScope::kUserScope)] = 1;
  library.add_callback(callback);
  g_observes.store(true, std::memory_order_relaxed);
}

void TellOptimizers(const char* class_name, uint32_t count) {
  g_counts.Tell(HashOf(".step", HashOf(class_name, HashOf(kOptimizer))), count);
}

void DeferStepEnd(const void* record_function, const char* name) {
  if (t_deferred == nullptr && StartsWith(name, kOptimizer)) t_deferred = record_function;
}

void EndDeferredStep(const void* record_function) {
  if (PROFD_LIKELY(t_deferred != record_function)) return;
  t_deferred = nullptr;
  OnEnd(record_function, nullptr);
}

}  // namespace profd::client::torch
