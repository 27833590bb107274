// Session is one capture as this process sees it, from ARM to RELEASE: the daemon's
// memory, mapped, and the plan of its windows.
//
// Lives in one of a few static slots. HotState.session leads to it from ARM to STOP, so
// that after STOP no thread can come to it. A slot whose writers would not stop is abandoned:
// it stays mapped until each of them has left its write or has ended.
//
// Threads:   Open(), Prefault(), PublishAllNames() and Unmap() on the agent thread.
//            Everything else on threads inside a write (WriteGuard) that found it in
//            HotState.session; after STOP on the agent thread.
// Hot path:  TakeChunk(), CountDrop(), PublishName(): no lock, allocation or system call.
// Ownership: owns the mapping; MADV_DONTFORK, so a child has none.
// Errors:    memory that does not look as it must is refused (Open() says false). What the
//            daemon writes later (the free list) is bounds-checked at each use.
#ifndef PROFD_CLIENT_LIB_CORE_SESSION_H_
#define PROFD_CLIENT_LIB_CORE_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client_lib/core/hot_state.h"
#include "client_lib/core/quiesce.h"
#include "client_lib/core/thread_state.h"
#include "proto/wire/capture_memory.h"
#include "proto/wire/frame.h"
#include "proto/wire/status_page.h"

namespace profd::client {

struct Session {
  uint32_t serial;  // Unique in this process; never 0.
  uint64_t capture_number;

  std::byte* memory;
  wire::CaptureMemoryLayout layout;
  wire::CaptureMemoryHeader* header;
  wire::ChunkControl* chunk_table;
  std::atomic<uint32_t>* name_index;
  uint64_t prefaulted_bytes;
  bool is_abandoned;
  StuckWriters stuck;  // Who may still write, if it is.

  // The plan, written by the agent before `has_plan` (release). From then on the step
  // thread alone moves the windows (steps.cc), until STOP; then the agent again.
  wire::FireBody plan;
  std::atomic<uint32_t> has_plan;
  // The range whose begins are the steps of this capture, instead of the program's marks;
  // kNoNameId: none. With one the flag is on from FIRE to the end of the last window, or
  // those begins would not be seen: what lies outside of windows is warm-up of the next.
  uint32_t step_marker;
  // Or the source whose marks are, whatever the process's own steps are; kNone: those.
  wire::StepSource step_source;
  std::atomic<uint32_t> marker_thread;  // ThreadState.serial of its first thread; 0: none yet.
  std::atomic<uint64_t>
      marker_count;                   // Steps of the capture's own there. That thread alone counts.
  std::atomic<uint64_t> base_step;    // kNextStep until the first mark of the plan.
  bool plan_begun;                    // The step thread has seen that mark.
  bool finished;                      // Ended or missed: marks have nothing more to do.
  bool cycle_open;                    // The flag is on, for cycle `window`.
  bool window_open;                   // windows[window] has begun and not ended.
  uint32_t epoch;                     // The flag's value for the last cycle opened.
  std::atomic<uint64_t> cycle_ticks;  // When that was.
  std::atomic<uint32_t> phase;        // Ours of header->phase.
  // The window (or warm-up) that the flag's current epoch belongs to.
  std::atomic<uint32_t> window;

  // Whether the capture counts steps of its own.
  bool HasOwnSteps() const {
    return step_marker != wire::kNoNameId || step_source != wire::StepSource::kNone;
  }

  // Maps and checks `fd`, which stays the caller's. False: it is not what ARM said.
  bool Open(int fd, const wire::ArmBody& arm);

  // Touches pages of the mapping up to `until_bytes`.
  void Prefault(uint64_t until_bytes);
  // Touches, by reading, what the daemon cleared before it sent ARM: up to `until_bytes`, and the
  // chunks that are taken first (512 KiB). Before Prefault().
  void PrefaultFirst(uint64_t until_bytes);
  // Up to where the daemon has made pages.
  uint64_t FilledBytes() const;

  // Gives every name of the process its bytes here.
  void PublishAllNames();

  // Leaves the mapping to threads that are still inside a write. NewSession() unmaps it later.
  void Abandon(const StuckWriters& writers);

  // Unmaps. Only when no thread is inside a write.
  void Unmap();

  // Makes `id` readable by the daemon. False: no room; events say "(other)" instead.
  bool PublishName(uint32_t id);

  // The id that events may carry for `id`, counting those that become "(other)".
  uint32_t EventNameId(uint32_t id);

  // The calling thread, `thread`, is about to write here for the first time. What it may have of
  // an earlier capture is forgotten.
  void Adopt(ThreadState* thread);

  // Gives `thread` a free chunk in place of its full one, or of none, and moves its open
  // ranges there. False: no chunk is free; a full one was handed over all the same, and
  // the open ranges are on the thread's own stack until it gets another.
  bool TakeChunk(ThreadState* thread);

  // `thread` is done with its chunk; the ranges open in it stay behind.
  void FinishChunk(ThreadState* thread);

  // The chunk of `thread` is the daemon's; its open ranges are the thread's own.
  void HandOverChunk(ThreadState* thread);

  // Counts `count` events that were lost, in or outside a window as things are now.
  void CountDrop(wire::DropCause cause, uint64_t count = 1);

  // The same for events that are written after their window.
  void CountLateDrops(uint64_t count, wire::DropCause cause = wire::kDropNoChunk);

  // Counts the open ranges of `thread` that never had a chunk.
  void CountUnhousedRanges(ThreadState* thread);

  void SetPhase(wire::Phase to);
  // Only `phase`, which says what a drop counts as; the daemon does not see it yet.
  void SetOwnPhase(wire::Phase to);
  // From kArmed to kWaiting; nothing if the phase is another by now.
  void LeaveArmed();
};

// A free slot, or null when stuck writers hold all of them. Unmaps the captures whose writers are
// stuck no longer.
Session* NewSession();

// The child of a fork has none of the mappings.
void ForgetSessions();

// Counts drops for the status page too.
void CountProcessDrops(uint64_t count);
uint64_t ProcessDrops();

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_SESSION_H_
