#include "client_lib/python_stack/stacks.h"

#include <stdio.h>
#include <string.h>

#include <new>

#include "client_lib/core/log.h"
#include "client_lib/core/quiesce.h"
#include "client_lib/python_stack/frame_walker.h"
#include "client_lib/python_stack/interpreter_layout.h"
#include "client_lib/python_stack/interpreter_proof.h"
#include "client_lib/python_stack/thread_stacks.h"

namespace profd::client::python_stack {
namespace {

constexpr uint32_t kLeaveTimeoutMs = 100;

// Made by Attach(), in static memory: nothing of the library is destroyed.
alignas(FrameWalker) constinit char g_walker_memory[sizeof(FrameWalker)] = {};
constinit const FrameWalker* g_walker = nullptr;
constinit std::atomic<bool> g_was_tried{false};
constinit std::atomic<uint32_t> g_features{0};
constinit std::atomic<bool> g_has_left{false};
constinit char g_why_no_stacks[256] = "the library was not attached to Python";
constinit char g_why_no_modules[256] = "the library was not attached to Python";

constinit std::atomic<Wanted> g_wanted{Wanted::kNothing};
constinit StackCounts g_counts{};

template <Wanted kWanted>
[[gnu::always_inline]] inline uint32_t IdOfWanted(OperatorBegin* begin) {
  const FrameWalker& walker = *g_walker;
  const uint64_t frame = walker.FirstFrame();
  // A thread without Python, such as those of autograd.
  if (frame == 0) return wire::kNoStackId;
  ThreadStacks* stacks = ThreadStacks::Of(begin->thread);
  if (PROFD_UNLIKELY(stacks == nullptr)) return wire::kNoStackId;
  return stacks->IdOf<kWanted>(walker, frame, begin, &g_counts);
}

}  // namespace

void Attach() {
  if (g_was_tried.exchange(true, std::memory_order_acq_rel)) return;
  InterpreterLayout layout{};
  Proof proof{};
  if (!FindLayout(&layout, g_why_no_stacks, sizeof(g_why_no_stacks)) ||
      !ProveLayout(&layout, &proof, g_why_no_stacks, sizeof(g_why_no_stacks))) {
    memcpy(g_why_no_modules, g_why_no_stacks, sizeof(g_why_no_modules));
    Log(LogLevel::kInfo, "no Python stacks: %s", g_why_no_stacks);
    return;
  }
  uint32_t features = wire::kTorchStacks;
  ModuleCalls calls{};
  if (!proof.has_locals) {
    snprintf(g_why_no_modules, sizeof(g_why_no_modules),
             "no function with arguments has shown where this Python keeps them");
  } else {
    calls = FindModuleCalls(g_why_no_modules, sizeof(g_why_no_modules));
    if (calls.outer != 0) features |= wire::kTorchModules;
  }
  g_walker = new (g_walker_memory) FrameWalker(layout, calls);
  g_features.store(features, std::memory_order_release);
  Log(LogLevel::kInfo, "Python 3.%u: stacks%s", layout.minor, calls.outer != 0 ? ", modules" : "");
}

uint32_t features() { return g_features.load(std::memory_order_acquire); }

const char* why_not(uint32_t feature) {
  if (g_has_left.load(std::memory_order_relaxed)) return "Python is ending";
  return feature == wire::kTorchModules ? g_why_no_modules : g_why_no_stacks;
}

void Want(bool frames, bool modules) {
  g_counts.odd_frames.store(0, std::memory_order_relaxed);
  g_counts.full.store(0, std::memory_order_relaxed);
  const uint32_t works = features();
  frames &= (works & wire::kTorchStacks) != 0;
  modules &= (works & wire::kTorchModules) != 0;
  const auto wanted = static_cast<Wanted>((frames ? static_cast<uint8_t>(Wanted::kFrames) : 0) |
                                          (modules ? static_cast<uint8_t>(Wanted::kModules) : 0));
  g_wanted.store(wanted, std::memory_order_seq_cst);
  // Leave() may have come in between.
  if (g_has_left.load(std::memory_order_seq_cst)) {
    g_wanted.store(Wanted::kNothing, std::memory_order_seq_cst);
  }
}

bool IsWanted() { return g_wanted.load(std::memory_order_relaxed) != Wanted::kNothing; }

uint32_t IdOf(OperatorBegin* begin) {
  switch (g_wanted.load(std::memory_order_relaxed)) {
    case Wanted::kNothing:
      break;
    case Wanted::kFrames:
      return IdOfWanted<Wanted::kFrames>(begin);
    case Wanted::kModules:
      return IdOfWanted<Wanted::kModules>(begin);
    case Wanted::kBoth:
      return IdOfWanted<Wanted::kBoth>(begin);
  }
  return wire::kNoStackId;
}

void SetStart(ThreadState* thread, uint64_t start_ticks, bool may_outlive_call) {
  auto* stacks = static_cast<ThreadStacks*>(thread->python_stacks);
  if (stacks != nullptr) stacks->SetStart(start_ticks, may_outlive_call);
}

uint64_t odd_frame_count() { return g_counts.odd_frames.load(std::memory_order_relaxed); }
uint64_t full_count() { return g_counts.full.load(std::memory_order_relaxed); }

// Python frees its thread states when it ends, also of threads that are in the middle of an
// operator. Walks are inside of writes, so that waiting for writers waits for them.
void Leave() {
  g_has_left.store(true, std::memory_order_seq_cst);
  g_features.store(0, std::memory_order_seq_cst);
  const bool was_wanted =
      g_wanted.exchange(Wanted::kNothing, std::memory_order_seq_cst) != Wanted::kNothing;
  if (was_wanted) AwaitWriters(kLeaveTimeoutMs);
}

}  // namespace profd::client::python_stack
