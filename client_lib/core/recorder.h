// The recording paths: what the exported functions do while a capture runs.
//
// Every function may be called at any time, on any thread, and does nothing while the
// flag is off. An event is lost only where no chunk (or no thread state) was to be had;
// each lost event is counted once.
//
// Ranges survive the flag going on and off between begin and end: an end whose begin was
// before the window finds no open range and is ignored; what was open when a window ended
// stays behind in its chunk.
//
// Hot path: RangeBegin() and RangeEnd() take no lock, allocate nothing and make no system
//           call; a thread's first event of a window, and one in every 2,000, takes a
//           chunk. (tests/bench/hot_path_benchmark.cc)
#ifndef PROFD_CLIENT_LIB_CORE_RECORDER_H_
#define PROFD_CLIENT_LIB_CORE_RECORDER_H_

#include <cstddef>
#include <cstdint>

#include "client_lib/core/thread_state.h"
#include "client_lib/include/profd/profd.h"
#include "proto/wire/event.h"

namespace profd::client {

struct Session;

// Interns, and publishes the name to the capture that runs, if one does.
uint32_t InternName(const char* text, size_t length);

// The id of `name`, interned now if it was not.
uint32_t IdOf(profd_name* name);

// `id` if it is one that InternName() may have returned, else that of "(other)".
uint32_t CheckedId(uint32_t id);

// `name_id` comes from InternName(), IdOf() or CheckedId().
void RangeBegin(uint32_t name_id, wire::RangeCategory category);
void RangeEnd();
void RecordInstant(uint32_t name_id);
void RecordCounter(uint32_t name_id, double value);
void RecordMemory(const profd_memory_event& event, uint8_t flags);

// Writes the mark of `step` to the calling thread's chunk. Within a write in `session`,
// with the flag on.
void RecordStep(Session* session, ThreadState* thread, uint64_t step, uint64_t ticks);

// Remembers what the calling thread is called, and says so in the capture that runs.
void SetThreadName(const char* name);

// The thread of `state` ends.
void LeaveCapture(ThreadState* state);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_RECORDER_H_
