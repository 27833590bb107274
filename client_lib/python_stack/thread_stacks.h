// ThreadStacks is what one thread has shown of its Python stacks: the last one, frame by frame, and
// a table of all, in which a stack is its innermost frame on top of another stack:
//
//   stack 1: main, line 80        stack 3: step, line 31, on 1       stack 4: forward, line 9, on 3
//
// An operator whose stack is the last one costs the comparison; one whose stack differs, a look
// into the table for each frame above what both have in common. What a capture has not been given
// of a stack is written to it before the operator (wire::StackFrameEvent).
//
//   operator begins inside an operator, and no frame has come since:  the same stack, for sure
//   the frames are those of the last operator, in the same calls:     the same stack
//   else:             walk, at most to a call of a module that the last stack is in, intern, write
//
// Threads:   its own.
// Hot path:  no lock, no allocation; a system call at a thread's first stack, which maps it.
// Ownership: mapped once for each ThreadState, and kept with it. A thread that takes over the state
//            of another begins anew.
// Fork:      what other threads had stays mapped in the child, unused.
// Errors:    what has no room, or does not look like a frame, has no stack, and is counted.
#ifndef PROFD_CLIENT_LIB_PYTHON_STACK_THREAD_STACKS_H_
#define PROFD_CLIENT_LIB_PYTHON_STACK_THREAD_STACKS_H_

#include <atomic>
#include <cstdint>

#include "client_lib/core/recorder.h"
#include "client_lib/python_stack/frame_walker.h"
#include "proto/wire/event.h"

namespace profd::client::python_stack {

// Of one capture; reset while no thread records.
struct StackCounts {
  std::atomic<uint64_t> odd_frames;
  std::atomic<uint64_t> full;
};

class ThreadStacks {
 public:
  // The calling thread's, made if need be. Null: no memory.
  static ThreadStacks* Of(ThreadState* thread);

  // The id of the stack from `frame` on, for the operator that `begin` has started; kNoStackId: it
  // has none. `frame` is not 0.
  template <Wanted kWanted>
  [[gnu::always_inline]] uint32_t IdOf(const FrameWalker& walker, uint64_t frame,
                                       OperatorBegin* begin, StackCounts* counts) {
    if (PROFD_LIKELY(last_of_ == KeyOf(*begin->thread))) {
      // Inside an operator the innermost frame waits for a call of C, and so do those below it.
      if (IsInside(*begin->thread) && frame == base_frame_ &&
          walker.InstructionOf(frame) == base_instruction_) {
        return base_id_;
      }
      if (walker.IsSame<kWanted>(frame, frames_, depth_, is_cut_, innermost_call_, innermost_at_)) {
        return Remember(walker, frame, begin, id_);
      }
    }
    return IdOfNew<kWanted>(walker, frame, begin, counts);
  }

  // The operator began at `start_ticks`. `may_outlive_call`: it may stay open when the call that
  // began it returns, as record_function() does.
  [[gnu::always_inline]] void SetStart(uint64_t start_ticks, bool may_outlive_call) {
    if (!is_base_new_) return;
    is_base_new_ = false;
    base_ticks_ = may_outlive_call ? 0 : start_ticks;
  }

  uint32_t node_count() const { return node_count_; }

 private:
  struct Node {
    WalkedFrame frame;
    uint32_t parent;
    uint32_t session_serial;  // Of the capture that has been given it last.
    uint32_t file_id;
    uint32_t name_id;
    uint32_t class_name_id;
    uint32_t line;
    uint32_t first_line;
    uint32_t depth;
  };
  static constexpr uint32_t kSlots = 2 * wire::kMaxStackId;
  // Internal: what lies below the cut of a stack.
  static constexpr uint32_t kBelowCut = UINT32_MAX;

  // A thread in a capture.
  static uint64_t KeyOf(const ThreadState& thread) {
    return uint64_t{thread.serial} << 32 | thread.session_serial;
  }

  bool IsInside(const ThreadState& thread) const {
    return thread.depth > base_depth_ && base_depth_ < wire::kMaxRangeDepth && base_ticks_ != 0 &&
           thread.stack[base_depth_].start_ticks == base_ticks_;
  }

  uint32_t Remember(const FrameWalker& walker, uint64_t frame, const OperatorBegin* begin,
                    uint32_t id) {
    is_base_new_ = true;
    base_ticks_ = 0;
    base_depth_ = begin->thread->depth;
    base_frame_ = frame;
    base_instruction_ = walker.InstructionOf(frame);
    base_id_ = id;
    return id;
  }

  template <Wanted kWanted>
  uint32_t IdOfNew(const FrameWalker& walker, uint64_t frame, OperatorBegin* begin,
                   StackCounts* counts);
  template <Wanted kWanted>
  uint32_t Intern(const FrameWalker& walker, const FrameWalker::Walked& walked,
                  StackCounts* counts);
  uint32_t SetTurns(uint32_t depth, uint32_t below, bool has_turns, uint32_t common);
  uint32_t FindOrAdd(const FrameWalker& walker, const WalkedFrame& frame, uint32_t parent,
                     uint32_t depth);
  void Describe(const FrameWalker& walker, Node* node);
  bool Publish(OperatorBegin* begin);
  bool WriteNode(Session* session, OperatorBegin* begin, uint32_t id);
  // For a thread's first operator of a capture. Begins anew where the table is of another thread,
  // or of a capture that wanted something else, and where this one may not find enough room.
  void Enter(const ThreadState& thread, Wanted wanted);
  void ForgetLast();

  // KeyOf() what has entered; whose ids do not change while it lasts.
  uint64_t entered_;
  // The same, if there is a last stack.
  uint64_t last_of_;
  Wanted wanted_;

  // The last operator that was not proved to be inside another, and its stack.
  bool is_base_new_;
  uint32_t base_depth_;
  uint64_t base_ticks_;  // 0: none
  uint64_t base_frame_;
  uint64_t base_instruction_;
  uint32_t base_id_;

  // The last stack, the outermost frame first.
  uint32_t id_;
  uint32_t depth_;
  bool is_cut_;
  uint32_t innermost_at_;      // Of the innermost call of a module.
  ModuleCall innermost_call_;  // Its version is 0: there is none, or none that can be recognized.
  WalkedFrame frames_[wire::kMaxStackDepth];
  ModuleCall calls_[wire::kMaxStackDepth];
  uint32_t ids_[wire::kMaxStackDepth];

  // What was walked of the next one, the innermost frame first.
  WalkedFrame next_frames_[wire::kMaxStackDepth];
  ModuleCall next_calls_[wire::kMaxStackDepth];

  uint32_t node_count_;
  uint32_t slots_[kSlots];  // Ids, open addressing; 0: empty.
  Node nodes_[wire::kMaxStackId + 1];
};

}  // namespace profd::client::python_stack

#endif  // PROFD_CLIENT_LIB_PYTHON_STACK_THREAD_STACKS_H_
