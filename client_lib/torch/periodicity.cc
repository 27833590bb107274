#include "client_lib/torch/periodicity.h"

#include <time.h>

#include <atomic>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/steps.h"
#include "client_lib/torch/operators.h"
#include "client_lib/torch/period_detector.h"
#include "client_lib/torch/record_function.h"

namespace profd::client::torch {
namespace {

using wire::StepSource;

// Operators that another thread runs while the one that is watched runs none.
constexpr uint32_t kTakesOver = 256;

constinit std::atomic<const TorchLibrary*> g_library{nullptr};
constinit uint64_t g_handle = 0;  // The agent's; 0: not registered.
// Of the capture that is armed; 0: none asks for it.
constinit std::atomic<uint32_t> g_round{0};
constinit uint32_t g_last_round = 0;  // The agent's.

// Whoever makes it true has what follows.
constinit std::atomic<bool> g_is_detecting{false};
constinit PeriodDetector g_detector;
constinit uint32_t g_detector_round = 0;
constinit const void* g_watched = nullptr;  // The address of its t_depth.
constinit uint32_t g_others = 0;            // Operators of other threads since its last one.

// Operators that are open, and the low bits of the round they are counted in. Two bytes each:
// static TLS is scarce, a stack ends before 64 K operators, and a thread is not silent for 64 K
// rounds.
__thread uint16_t t_depth __attribute__((tls_model("initial-exec"))) = 0;
__thread uint16_t t_round __attribute__((tls_model("initial-exec"))) = 0;

bool IsOf(uint32_t round) { return t_round == static_cast<uint16_t>(round); }

uint32_t HashOf(const char* name) {
  uint32_t hash = 0x811c9dc5;  // FNV-1a
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x01000193;
  return hash;
}

int64_t NowNs() {
  if (g_detector.round_length() != 0) return 0;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

// Whether the calling thread is the one that is watched. While g_is_detecting is the caller's.
bool IsWatched(uint32_t round) {
  if (g_detector_round != round) {
    g_detector_round = round;
    g_watched = nullptr;
  }
  if (g_watched == &t_depth) {
    g_others = 0;
    return true;
  }
  if (g_watched != nullptr && ++g_others < kTakesOver) return false;
  g_watched = &t_depth;
  g_others = 0;
  g_detector.StartOver();
  return true;
}

CallbackContext OnBegin(const void* record_function) {
  const uint32_t round = g_round.load(std::memory_order_relaxed);
  if (!IsOf(round)) {
    t_round = static_cast<uint16_t>(round);
    t_depth = 0;
  }
  if (t_depth++ != 0 || round == 0 || g_is_detecting.exchange(true, std::memory_order_acquire)) {
    return {};
  }
  if (IsWatched(round)) {
    const TorchLibrary* library = g_library.load(std::memory_order_relaxed);
    g_detector.OnBegin(HashOf(library->name(record_function)), NowNs());
  }
  g_is_detecting.store(false, std::memory_order_release);
  return {};
}

void OnEnd(const void*, void*) {
  const uint32_t round = g_round.load(std::memory_order_relaxed);
  // An operator of before the capture has no part in it.
  if (t_depth == 0 || !IsOf(round) || --t_depth != 0 || round == 0) return;
  if (g_is_detecting.exchange(true, std::memory_order_acquire)) return;
  const bool is_ours = g_detector_round == round && g_watched == &t_depth;
  const bool begins_step = is_ours && g_detector.OnEnd(NowNs());
  g_is_detecting.store(false, std::memory_order_release);
  if (begins_step) MarkStepOfCapture(StepSource::kPeriodicity);
}

uint32_t Features() { return 0; }

void OnArm(const wire::ArmTorchField& wanted) {
  const TorchLibrary* library = g_library.load(std::memory_order_acquire);
  if (library == nullptr) return;
  if (wanted.step_source != static_cast<uint32_t>(StepSource::kPeriodicity)) return;
  if (g_handle == 0 && AwaitSwitching()) {
    RecordFunctionCallback callback{};
    callback.start = OnBegin;
    callback.end = OnEnd;
    callback.sampling_probability = 1.0;
    AskForOperators(&callback);
    g_handle = library->add_callback(callback);
    EndSwitching();
  }
  g_round.store(++g_last_round, std::memory_order_relaxed);
}

void OnLeave() {
  g_round.store(0, std::memory_order_relaxed);
  if (g_handle == 0 || !AwaitSwitching()) return;
  g_library.load(std::memory_order_relaxed)->remove_callback(g_handle);
  g_handle = 0;
  EndSwitching();
}

// What is registered stays, and does nothing, until a capture of the child's own has ended.
void ResetInChild() {
  g_round.store(0, std::memory_order_relaxed);
  g_is_detecting.store(false, std::memory_order_relaxed);
}

}  // namespace

constinit const TorchSource kPeriodicitySource = {
    .features = Features, .on_arm = OnArm, .on_leave = OnLeave, .reset_in_child = ResetInChild};

void AttachPeriodicity(const TorchLibrary& library) {
  g_library.store(&library, std::memory_order_release);
}

}  // namespace profd::client::torch
