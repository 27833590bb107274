#include "client_lib/torch/steps.h"

#include <string.h>

#include <atomic>

#include "client_lib/core/agent.h"
#include "client_lib/core/hot_state.h"
#include "client_lib/core/lifecycle.h"
#include "client_lib/core/metadata.h"
#include "client_lib/core/recorder.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"
#include "client_lib/torch/collector.h"
#include "client_lib/torch/hooked_optimizers.h"
#include "client_lib/torch/operators.h"
#include "client_lib/torch/optimizer_counts.h"
#include "client_lib/torch/step_detector.h"
#include "client_lib/torch/torch_part.h"

namespace profd::client::torch {
namespace {

using wire::StepSource;

constexpr char kOptimizer[] = "Optimizer.step#";
constexpr char kDataLoader[] = "enumerate(DataLoader)#";
constexpr char kProfiler[] = "ProfilerStep#";

// Metadata for `profctl ps` (cli/render/targets.cc): between captures the observer stays.
constexpr char kObserverKey[] = "torch_observer";
constexpr char kObserverStays[] = "stays";

constinit const TorchLibrary* g_library = nullptr;
constinit std::atomic<bool> g_observes{false};

// What reports the steps of optimizers. The first step decides, once and for all.
enum class Teller : uint8_t { kUndecided, kRanges, kHooks };
constinit std::atomic<Teller> g_teller{Teller::kUndecided};
// The observer's handle; 0: not registered. Changed between BeginSwitching() and EndSwitching().
constinit std::atomic<uint64_t> g_handle{0};
constinit std::atomic<bool> g_is_armed{false};

// The first thread that trains, and the first that loads, have a detector each; one that does both
// has one. On other threads, ends of optimizers' steps are foreign marks, and batches are batches.
// So steps are those of one thread also where another one took batches before it, or steps as
// often.
enum class Detector : uint8_t { kNone, kTrainer, kLoader };
constinit StepDetector g_trainer;
constinit StepDetector g_loader;
constinit OptimizerCounts g_counts;
constinit std::atomic<bool> g_has_trainer{false};
constinit std::atomic<bool> g_has_loader{false};
enum class Role : uint8_t { kUnknown, kOwner, kOther };
struct OfThread {  // Static TLS is scarce: no pointer to the detector.
  Detector detector = Detector::kNone;
  Role trainer = Role::kUnknown;
  Role loader = Role::kUnknown;
  uint8_t observed_depth = 0;  // Open ranges of optimizers whose end the observer will see.
};
__thread OfThread t_own __attribute__((tls_model("initial-exec"))) = {};

// The range at whose begin a window opened, while it is open.
__thread const void* t_first_range __attribute__((tls_model("initial-exec"))) = nullptr;
// The outermost optimizer's range whose end operators.cc tells us of, after what it writes of it.
__thread const void* t_deferred __attribute__((tls_model("initial-exec"))) = nullptr;

// What the hooks reported on the thread that trains.
struct Hooked {
  HookedCall call;
  bool has_begun = false;  // A step(), ever: so torch has hooks.
  // About the innermost range that the observer sees: whether a hook reported the end of a step()
  // in it, and whether that was the outermost one, `outermost`.
  bool has_ended = false;
  bool ends_call = false;
  OptimizerCall outermost{};
};
constinit Hooked g_hooked;

// Nobody else's: NVTX has the first few, operators the last one.
constexpr uint16_t kFirstRangeStack = 65534;
static_assert(kFirstRangeStack != kOperatorStack);

template <size_t kSize>
bool StartsWith(const char* name, const char (&prefix)[kSize]) {
  return strncmp(name, prefix, kSize - 1) == 0;
}

// Whether the calling thread is the first of its kind. It then has a detector.
bool IsFirst(Role* role, std::atomic<bool>* has_first, Detector detector) {
  if (PROFD_UNLIKELY(*role == Role::kUnknown)) {
    *role = has_first->exchange(true) ? Role::kOther : Role::kOwner;
    if (*role == Role::kOwner && t_own.detector == Detector::kNone) t_own.detector = detector;
  }
  return *role == Role::kOwner;
}

bool IsTrainer() { return IsFirst(&t_own.trainer, &g_has_trainer, Detector::kTrainer); }

// Whether its batches are a detector's, its own or that of its training.
bool HasDetectorOfBatches() {
  return IsFirst(&t_own.loader, &g_has_loader, Detector::kLoader) ||
         t_own.detector != Detector::kNone;
}

// That of the calling thread, which has one.
StepDetector* OwnDetector() { return t_own.detector == Detector::kLoader ? &g_loader : &g_trainer; }

constexpr uint64_t kFnvBasis = 0xcbf29ce484222325;

uint64_t HashOf(const char* name, uint64_t hash = kFnvBasis) {
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3;
  return hash;
}

void Mark(StepSource source) {
  if (IsStarted() || Start()) MarkStep(source);
}

// Of a thread that is not the one that trains: never the mark that makes it the step thread.
void MarkForeign() {
  if (IsStarted() || Start()) MarkForeignStep();
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
  if (!HasDetectorOfBatches()) return RecordBatch();
  if (!OwnDetector()->OnBatchBegin(ReadTicks(), AutogradNodes())) return;
  RecordBatch();
  MarkAt(record_function, name, StepSource::kDataLoader);
}

// Whether a step begins. Who asks the detector has its questions answered, a few times ever.
bool BeginsStep(const char* name) {
  const uint64_t hash = HashOf(name);
  const bool begins =
      OwnDetector()->OnOptimizerEnd(hash, ReadTicks(), AutogradNodes(), g_counts.CountOf(hash));
  if (PROFD_UNLIKELY(OwnDetector()->WantsCounts())) {
    g_counts.Clear();
    collector::AskForCounts();
  }
  return begins;
}

void OnCallEnd(const OptimizerCall& call) {
  if (OwnDetector()->OnOptimizerCall(call, AutogradNodes())) Mark(StepSource::kOptimizer);
}

bool Decide(Teller teller) {
  Teller decided = Teller::kUndecided;
  if (!g_teller.compare_exchange_strong(decided, teller)) return decided == teller;
  // Once in the life of a process: the lock and the wake-up are not of the hot path.
  if (teller == Teller::kRanges && SetMetadata(kObserverKey, kObserverStays) == PROFD_OK) {
    WakeAgent();
  }
  return true;
}

// The mark comes after the range has ended, so that the whole range lies in the step before.
void OnOptimizerRangeEnd(const char* name) {
  if (t_own.observed_depth != 0) --t_own.observed_depth;
  if (!IsTrainer()) {
    if (t_own.observed_depth == 0) MarkForeign();  // Not of one that another one wraps.
    return;
  }
  const bool has_ended = g_hooked.has_ended;
  g_hooked.has_ended = false;
  if (g_hooked.has_begun && !has_ended) return;  // It raised: not a step, and it decides nothing.
  if (!Decide(has_ended ? Teller::kHooks : Teller::kRanges)) return;
  if (has_ended) {
    if (g_hooked.ends_call) OnCallEnd(g_hooked.outermost);
  } else if (BeginsStep(name)) {
    Mark(StepSource::kOptimizer);
  }
}

RecordFunctionCallback Observer();

void AddObserver() {
  if (!AwaitSwitching()) return;
  if (g_handle.load(std::memory_order_relaxed) == 0) {
    g_handle.store(g_library->add_callback(Observer()), std::memory_order_relaxed);
  }
  EndSwitching();
}

// Not called from one of torch's callbacks. Ranges that the observer saw begin still report their
// end.
void RemoveObserver() {
  if (PROFD_LIKELY(g_handle.load(std::memory_order_relaxed) == 0)) return;
  if (g_is_armed.load(std::memory_order_seq_cst) || !BeginSwitching()) return;
  if (!g_is_armed.load(std::memory_order_seq_cst)) {
    const uint64_t handle = g_handle.exchange(0, std::memory_order_relaxed);
    if (handle != 0) g_library->remove_callback(handle);
  }
  EndSwitching();
}

CallbackContext OnBegin(const void* record_function) {
  const char* name = g_library->name(record_function);
  if (StartsWith(name, kOptimizer)) {
    ++t_own.observed_depth;
    if (IsTrainer()) {
      g_hooked.has_ended = false;
      OwnDetector()->OnOptimizerBegin(ReadTicks());
    }
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
    OnOptimizerRangeEnd(name);
  } else if (StartsWith(name, kDataLoader) && HasDetectorOfBatches()) {
    OwnDetector()->OnBatchEnd(ReadTicks());
  }
  if (PROFD_UNLIKELY(t_first_range == record_function)) {
    t_first_range = nullptr;
    EndRangeOn(kFirstRangeStack);
  }
}

RecordFunctionCallback Observer() {
  RecordFunctionCallback callback{};
  callback.start = OnBegin;
  callback.end = OnEnd;
  callback.sampling_probability = 1.0;
  callback.scopes[static_cast<size_t>(wire::OperatorScope::kUserScope)] = 1;
  return callback;
}

void OnArm(const wire::ArmTorchField&) {
  if (!g_observes.load(std::memory_order_relaxed)) return;
  g_is_armed.store(true, std::memory_order_seq_cst);
  AddObserver();
}

// The next step of an optimizer removes the observer.
void OnLeave() { g_is_armed.store(false, std::memory_order_seq_cst); }

uint32_t StepFeatures() {
  return g_observes.load(std::memory_order_relaxed) ? uint32_t{wire::kTorchSteps} : 0;
}

void ResetInChild() {
  g_trainer = g_loader = StepDetector();
  g_counts.Clear();
  g_has_trainer.store(false, std::memory_order_relaxed);
  g_has_loader.store(false, std::memory_order_relaxed);
  t_own = {};
  t_first_range = nullptr;
  t_deferred = nullptr;
  g_hooked = Hooked();
  g_is_armed.store(false, std::memory_order_relaxed);
}

}  // namespace

constinit const TorchSource kStepsSource = {
    .features = StepFeatures, .on_arm = OnArm, .on_leave = OnLeave, .reset_in_child = ResetInChild};

void ObserveSteps(const TorchLibrary& library) {
  g_library = &library;
  AddObserver();
  g_observes.store(true, std::memory_order_relaxed);
}

void OnOptimizerHook(uint64_t type, uint64_t optimizer, bool begins) {
  if (!g_observes.load(std::memory_order_acquire)) return;
  const Teller teller = g_teller.load(std::memory_order_relaxed);
  if (teller == Teller::kRanges) return;
  if (begins && teller == Teller::kHooks) RemoveObserver();
  const bool is_observed = t_own.observed_depth != 0;  // The end of the range makes the mark.
  if (!IsTrainer()) {
    if (!begins && !is_observed) MarkForeign();
    return;
  }
  const uint64_t ticks = ReadTicks();
  if (begins) {
    g_hooked.has_begun = true;
    return g_hooked.call.Enter(optimizer, ticks);
  }
  g_hooked.ends_call = g_hooked.call.Leave(optimizer, ticks);
  g_hooked.outermost = {type, optimizer, g_hooked.call.begin_ticks(), ticks};
  g_hooked.has_ended = is_observed;
  if (is_observed || !g_hooked.ends_call || !Decide(Teller::kHooks)) return;
  OnCallEnd(g_hooked.outermost);
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
