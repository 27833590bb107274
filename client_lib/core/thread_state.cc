#include "client_lib/core/thread_state.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/direct_calls.h"
#include "client_lib/core/recorder.h"

namespace profd::client {
namespace {

// States come in slabs, because a program that has called mlockall(MCL_FUTURE) gets all memory that
// it maps at once. A slab is 150 KiB.
constexpr uint32_t kSlabStates = 64;
constinit std::atomic<ThreadState*> g_slabs[kMaxThreads / kSlabStates] = {};
static_assert(kMaxThreads % kSlabStates == 0);
constinit std::atomic<uint32_t> g_high_water{0};
// A stack of states given back: (tag << 32) | (index + 1); low half 0: empty.
constinit std::atomic<uint64_t> g_free{0};
constinit std::atomic<uint32_t> g_last_serial{0};
constinit pthread_key_t g_key{};
constinit bool g_have_key = false;

constexpr size_t kSlabBytes = kSlabStates * sizeof(ThreadState);

bool HasSlab(std::atomic<ThreadState*>& slab) {
  if (slab.load(std::memory_order_acquire) != nullptr) return true;
  void* memory = direct::Map(kSlabBytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (memory == MAP_FAILED) return false;
  ThreadState* none = nullptr;
  if (!slab.compare_exchange_strong(none, static_cast<ThreadState*>(memory))) {
    direct::Unmap(memory, kSlabBytes);
  }
  return true;
}

ThreadState* TakeFree() {
  uint64_t head = g_free.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(head) != 0) {
    ThreadState* state = ThreadPool::At(static_cast<uint32_t>(head) - 1);
    const uint64_t next = state->next_free.load(std::memory_order_relaxed);
    const uint64_t tag = (head >> 32) + 1;
    if (g_free.compare_exchange_weak(head, (tag << 32) | next, std::memory_order_acq_rel)) {
      return state;
    }
  }
  return nullptr;
}

ThreadState* Take() {
  if (ThreadState* state = TakeFree()) return state;
  uint32_t index = g_high_water.load(std::memory_order_relaxed);
  do {  // The slab first: what is below the mark is there.
    if (index >= kMaxThreads || !HasSlab(g_slabs[index / kSlabStates])) return nullptr;
  } while (!g_high_water.compare_exchange_weak(index, index + 1, std::memory_order_acq_rel));
  ThreadState* state = ThreadPool::At(index);
  state->pool_index = index;
  return state;
}

void GiveBack(ThreadState* state) {
  uint64_t head = g_free.load(std::memory_order_relaxed);
  uint64_t tag;
  do {
    state->next_free.store(static_cast<uint32_t>(head), std::memory_order_relaxed);
    tag = (head >> 32) + 1;
  } while (!g_free.compare_exchange_weak(head, (tag << 32) | (state->pool_index + 1),
                                         std::memory_order_acq_rel));
}

void StartState(ThreadState* state) {
  state->ForgetChunk();
  state->epoch = kNoEpoch;
  state->session_serial = 0;
  state->next_sequence = 0;
  state->named_serial = 0;
  state->name_length = 0;
  state->serial = g_last_serial.fetch_add(1, std::memory_order_relaxed) + 1;
  state->os_thread.store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_relaxed);
}

void OnThreadExit(void* value) {
  auto* state = static_cast<ThreadState*>(value);
  if (t_thread != state) return;
  LeaveCapture(state);
  t_thread = nullptr;
  // A thread that was cancelled inside a write never left it.
  state->LeaveWrite();
  GiveBack(state);
}

}  // namespace

__thread ThreadState* t_thread __attribute__((tls_model("initial-exec"))) = nullptr;

void ThreadState::ForgetChunk() {
  chunk = nullptr;
  data = nullptr;
  used_bytes = wire::kChunkDataBytes;
  depth = 0;
  depth_limit = 0;
  stack = fallback_stack;
  open_depth = &fallback_depth;
}

ThreadState* CurrentThreadOrNew() {
  if (t_thread != nullptr) return t_thread;
  ThreadState* state = Take();
  if (state == nullptr) return nullptr;
  StartState(state);
  // Before pthread_setspecific(), which may allocate: an allocator that annotates its
  // calls must not come back here.
  t_thread = state;
  if (g_have_key) pthread_setspecific(g_key, state);
  return state;
}

bool ThreadPool::Init() {
  g_have_key = pthread_key_create(&g_key, OnThreadExit) == 0;
  return g_have_key;
}

void ThreadPool::PrepareThread() {
  if (!g_have_key) return;
  pthread_setspecific(g_key, &g_key);
  pthread_setspecific(g_key, nullptr);
}

uint32_t ThreadPool::high_water() { return g_high_water.load(std::memory_order_acquire); }

ThreadState* ThreadPool::At(uint32_t index) {
  return g_slabs[index / kSlabStates].load(std::memory_order_acquire) + index % kSlabStates;
}

void ThreadPool::ResetInChild() {
  ThreadState* const mine = t_thread;
  char name[sizeof(mine->name)];
  uint32_t name_length = 0;
  if (mine != nullptr) {
    name_length = mine->name_length;
    memcpy(name, mine->name, sizeof(name));
  }
  for (const std::atomic<ThreadState*>& slab : g_slabs) {
    ThreadState* const states = slab.load(std::memory_order_relaxed);
    if (states == nullptr) break;
    madvise(states, kSlabBytes, MADV_DONTNEED);
  }
  g_free.store(0, std::memory_order_relaxed);
  g_high_water.store(0, std::memory_order_relaxed);
  g_last_serial.store(0, std::memory_order_relaxed);
  t_thread = nullptr;
  if (mine == nullptr) return;
  ThreadState* state = CurrentThreadOrNew();
  if (state == nullptr) return;
  state->name_length = name_length;
  memcpy(state->name, name, sizeof(name));
}

}  // namespace profd::client
