// ThreadState is what the library knows about one thread of the program: where its next
// record goes and which ranges it has open. ThreadPool hands them out and takes them back
// when threads end.
//
// Threads:   a state belongs to its thread; `busy`, `os_thread`, `fallback_depth` are also read
//            by the agent.
// Hot path:  CurrentThread() is one load from static TLS. Getting a state is a thread's
//            first event: it may make system calls, once.
// Ownership: the pool maps a slab of states at a time and keeps it; ended threads' states are
//            used again.
// Fork:      ThreadPool::ResetInChild() keeps only the forking thread's state.
#ifndef PROFD_CLIENT_LIB_CORE_THREAD_STATE_H_
#define PROFD_CLIENT_LIB_CORE_THREAD_STATE_H_

#include <atomic>
#include <cstdint>

#include "client_lib/core/hot_state.h"
#include "proto/wire/capture_memory.h"

namespace profd::client {

// Most threads alive at once that can record; further ones count kDropNoThreadState.
inline constexpr uint32_t kMaxThreads = 65536;
inline constexpr uint32_t kMaxThreadNameBytes = 63;
// Most spans that one thread ended and that overlap; more count kDropTooDeep.
inline constexpr uint32_t kMaxLanes = 8;

struct alignas(64) ThreadState {
  std::atomic<uint32_t> busy;  // 1: inside a write.
  uint32_t epoch;              // The flag's value when the fields below were set up.
  uint32_t depth;              // Open ranges; those beyond kMaxRangeDepth are not in `stack`.
  uint32_t used_bytes;         // Of the chunk's data; all of it where there is no chunk.
  wire::OpenRange* stack;      // In the chunk, or `fallback_stack`.
  std::atomic<uint32_t>* open_depth;  // What mirrors `depth`: in the chunk, or fallback_depth.
  wire::ChunkHeader* chunk;           // Null: none.
  std::byte* data;                    // After the chunk's header.
  uint32_t depth_limit;               // kMaxRangeDepth; 0 where there is no chunk.
  uint32_t chunk_index;

  uint32_t session_serial;  // Whose chunk it is; Session.serial.
  uint32_t next_sequence;   // Of the next chunk.
  uint32_t named_serial;    // Session in which this thread's name was written last.
  uint32_t serial;          // ChunkHeader.thread_serial
  std::atomic<uint32_t> os_thread;
  uint32_t pool_index;
  bool is_known_stuck;  // The agent's: a Quiesce() has waited for it in vain.
  std::atomic<uint32_t> next_free;
  uint32_t name_length;
  char name[kMaxThreadNameBytes + 1];  // As the program gave it; else empty.

  // What client_lib/python_stack knows of the thread's Python frames; null: nothing yet. It stays
  // with the state when the thread ends, and `serial` says whose it is.
  void* python_stacks;

  uint64_t lane_ends[kMaxLanes];  // When the last span on each ended, in this epoch; 0: none.

  // Open ranges of a thread that found no chunk. Each is a drop unless it ends in a chunk.
  std::atomic<uint32_t> fallback_depth;
  wire::OpenRange fallback_stack[wire::kMaxRangeDepth];

  // Marks the thread as inside a write. Read the flag or session after it.
  void EnterWrite() {
#if defined(__SANITIZE_THREAD__)
    busy.exchange(1, std::memory_order_seq_cst);
#else
    EnterWriteUnfenced();
    if (PROFD_UNLIKELY(g_hot.detour.load(std::memory_order_relaxed) & kDetourFence)) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
#endif
  }
  // The same where the kernel has membarrier().
  void EnterWriteUnfenced() {
    busy.store(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void LeaveWrite() { busy.store(0, std::memory_order_release); }

  // No chunk, nothing open.
  void ForgetChunk();
};

// The calling thread's state, or null when it has none yet.
// Initial-exec both here and on the definition: with general-dynamic TLS every access
// would be a call.
extern __thread ThreadState* t_thread __attribute__((tls_model("initial-exec")));

inline ThreadState* CurrentThread() { return t_thread; }

// The calling thread's state, made if need be. Null: the pool is empty or not mappable.
ThreadState* CurrentThreadOrNew();

// A write of a thread that may have no state, and may be inside a write already.
class WriteGuard {
 public:
  explicit WriteGuard(ThreadState* thread) : thread_(thread) {
    if (thread_ == nullptr) {
      g_hot.guests.fetch_add(1, std::memory_order_seq_cst);
      return;
    }
    was_busy_ = thread_->busy.load(std::memory_order_relaxed) != 0;
    if (!was_busy_) thread_->EnterWrite();
  }
  ~WriteGuard() {
    if (thread_ == nullptr) {
      g_hot.guests.fetch_sub(1, std::memory_order_seq_cst);
    } else if (!was_busy_) {
      thread_->LeaveWrite();
    }
  }
  // The write goes on after this; LeaveWrite() ends it. For threads that have a state.
  void StayInside() { was_busy_ = true; }
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

 private:
  ThreadState* const thread_;
  bool was_busy_ = false;
};

class ThreadPool {
 public:
  // Makes the key whose destructor returns the states of ended threads. False: the
  // process has no keys left. Once, before the first Take().
  static bool Init();

  // Has the C library allocate what the calling thread's state may need there. For a thread that
  // is about to leave the program's descriptors: the program's allocator may use some.
  static void PrepareThread();

  // States that were ever handed out lie in [0, high_water()).
  static uint32_t high_water();
  static ThreadState* At(uint32_t index);

  // Threads that are gone take nothing with them: only the caller's own state stays.
  static void ResetInChild();
};

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_THREAD_STATE_H_
