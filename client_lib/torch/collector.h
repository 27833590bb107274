// The collector: a thread of the program's Python that tells what only Python can see, such as who
// owns which block of memory. It lives in Wait(), without the GIL, and answers what it is asked.
//
//   agent:   Arm() ──────────► Collect() ──────► IsDone()? ──► WriteTo() ──► Leave()
//                │                 │                 ▲                         │
//   Python:      └► kArmed         └► kCollect ── Add*() ── Done()             └► kIdle
//
// Between captures it may be asked, by the training program, how many optimizers there are.
//
// It is told how things are, not what happened: of a capture that came and went while it was busy
// it hears nothing, but it always hears kIdle between two captures.
//
// Threads:  Arm(), Collect(), IsDone(), WriteTo(), Leave(): the agent's. Wait(), Done(): Python's
//           one. AskForCounts() and the Add...() functions: any.
// Fork:     the child has no such thread until it calls Wait().
// Errors:   what finds no room is counted. Who does not answer is not waited for: the agent gives
//           up by its own clock, and what is said later is dropped.
#ifndef PROFD_CLIENT_LIB_TORCH_COLLECTOR_H_
#define PROFD_CLIENT_LIB_TORCH_COLLECTOR_H_

#include <cstdint>

#include "proto/wire/event.h"

namespace profd::client {

class LateWriter;

namespace torch::collector {

enum class State : uint32_t { kIdle = 0, kArmed = 1, kCollect = 2 };

// What it is to do: as for a State, or count optimizers.
enum class Task : uint32_t { kIdle = 0, kArmed = 1, kCollect = 2, kCount = 3 };

// Most blocks, modules and notes of one capture.
inline constexpr uint32_t kMaxRecords = 65536;

// Whether there is one in this process.
bool IsThere();

void Arm(uint32_t wanted);
void Collect();
bool IsDone();
void WriteTo(LateWriter* writer);
void Leave();

// How many optimizers there are is to be told. Any thread; a system call, no lock.
void AskForCounts();

// Sleeps until there is something to tell; `wanted` gets what Arm() was given.
Task Wait(uint32_t* wanted);
void Done();

// The interpreter, or the process, ends: Wait() does not return any more. Any thread.
void End();

// Between kCollect and Done(); else they do nothing. Their names are as InternName() gave them.
void AddBlock(const wire::BlockEvent& block);
void AddNote(const wire::NoteEvent& note);
void AddModule(const wire::ModuleEvent& module);

// Blocks, modules and notes of this capture for which there was no room.
uint64_t lost_count();

void ResetInChild();

}  // namespace torch::collector
}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_TORCH_COLLECTOR_H_
