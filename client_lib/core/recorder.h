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
// Hot path: no lock, no allocation, no system call but at a thread's first event of a
//           capture; one event in some 2,000 takes a chunk.
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

// Interns a name that has no id yet, and gives it its id.
uint32_t InternLiteral(profd_name* name);

inline uint32_t IdOf(profd_name* name) {
  const uint32_t known = __atomic_load_n(&name->id, __ATOMIC_ACQUIRE);
  return known != wire::kNoNameId ? known : InternLiteral(name);
}

// `id` if it is one that InternName() may have returned, else that of "(other)".
uint32_t CheckedId(uint32_t id);

// Whether the flag says that a capture records. A forked child's first call registers it.
bool IsRecording();

enum class Entry {
  kOff,       // Nothing records.
  kNoThread,  // It does, but the thread has no state.
  kReady,     // The thread is set up for the flag's epoch.
};

// First thing inside a write: brings `thread`, which may be null, to the flag's epoch.
Entry EnterEpoch(ThreadState* thread, Session** session);

// `name_id` comes from InternName(), IdOf() or CheckedId(). Ranges are in ranges.cc.
void RecordInstant(uint32_t name_id);
void RecordCounter(uint32_t name_id, double value);
void RecordMemory(const profd_memory_event& event, uint8_t flags);

// Ranges of an interface that has stacks of its own, 1 to 65,535 of them: an end ends the
// innermost open range of that stack on the calling thread, where profd_range_end() ends the
// innermost of all. One that is not the innermost of all is kept as a span; self times of the
// ranges in which it lay are then approximate. (ranges.cc)
void BeginRangeOn(uint16_t stack, uint32_t name_id);
void EndRangeOn(uint16_t stack);

// Ranges that are paired by identity: CloseRange() takes what opened the range, on any thread. The
// calling thread's innermost range nests. One that is further out, or was opened on another thread,
// is kept as a span. The thread that opened it drops it from its stack when it next opens or closes
// a range here, or else its window's end does. One whose thread has ended has ended with it.
// (ranges.cc)
uint64_t OpenRange(uint32_t name_id);  // 0: nothing records.
void CloseRange(uint64_t range);
// Of a range with arguments: `inputs` is what follows the event in proto/wire/range_arguments.h.
uint64_t OpenRangeWith(uint32_t name_id, const void* inputs, uint32_t bytes, uint8_t input_count,
                       uint8_t described_count);
inline constexpr uint16_t kIdentityStack = wire::kPairedByIdentity;
// Of a range that was too deep to be kept; no range has it.
inline constexpr uint64_t kRangeTooDeep = 1;

// Whether a range `name_id` that nests is open on the calling thread, as far as the flag's epoch
// knows: ranges that began before the flag went on, and ranges that are too deep are not known.
// Spans and ranges on kIdentityStack do not nest. Inside a write. (ranges.cc)
bool IsRangeOpen(ThreadState* thread, uint32_t name_id);

// Operators: ranges that a record describes, written when they begin. Three calls:
//
//   if (StartOperator(name_id, &begin)) {
//     ... everything of begin.record but what FinishOperator() says it sets ...
//     FinishOperator(&begin, name_id, category, bytes);
//   }
//   ...
//   EndOperator();
//
// Between the first two the thread is inside a write: nothing else may be recorded, and nothing
// waited for. The operator's time begins with FinishOperator(), so that describing it is not its
// own. An operator is on the stack kOperatorStack; for its end see EndRangeOn(). On kIdentityStack,
// CloseRange(SpanOf(name_id, start_ticks)) ends it. (ranges.cc)
inline constexpr uint16_t kOperatorStack = 65535;

struct OperatorBegin {
  wire::OperatorEvent* record;  // With room for wire::kMaxEventBytes after its start.
  ThreadState* thread;
  Session* session;  // Null: nothing has to be looked up for the name.
  alignas(8) std::byte aside[wire::kMaxEventBytes];  // Where the chunk has less room left.
};

// False: nothing records, or it was counted as dropped.
bool StartOperator(uint32_t name_id, OperatorBegin* begin);
// Writes another event before the operator's record, of which nothing has been written yet.
// False: there was no chunk for it.
bool WriteBeforeOperator(OperatorBegin* begin, const void* event, uint32_t bytes);
// The capture that the operator is written to; null: it has been taken away from the thread.
Session* SessionOf(const OperatorBegin& begin);
// Sets `header`, `start_ticks` and `depth` of the record, whose `bytes` are a multiple of 8.
// Returns `start_ticks`.
uint64_t FinishOperator(OperatorBegin* begin, uint32_t name_id, wire::RangeCategory category,
                        uint32_t bytes, uint16_t stack = kOperatorStack);
inline void EndOperator() { EndRangeOn(kOperatorStack); }

// Spans: ranges that need not nest, nor end on the thread that began them. Each is written
// when it ends, on a lane of the thread that ends it. BeginSpan() returns what EndSpan()
// takes; 0: nothing records. EndSpan() returns false if nothing records any more: the span is
// lost, unless it is given to LateWriter::WriteOpenSpan().
uint64_t BeginSpan(uint32_t name_id);
bool EndSpan(uint64_t span);
// A span as the program carries it: its name and the low bits of its start.
uint64_t SpanOf(uint32_t name_id, uint64_t start_ticks);
uint32_t NameOfSpan(uint64_t span);
// The start exactly, which may be a little after `end_ticks`: clocks of processors differ.
uint64_t StartOfSpan(uint64_t span, uint64_t end_ticks);
// A span without an end: counts it as dropped.
void DropSpan();

// Writes a span of the calling thread, or counts it as dropped. Within a write in `session`,
// at the flag's epoch. `name_id` comes from EventNameId().
void WriteSpan(Session* session, ThreadState* thread, uint32_t name_id, uint64_t start_ticks,
               uint64_t end_ticks);

// Writes the mark of `step` to the calling thread's chunk. Within a write in `session`,
// with the flag on.
void RecordStep(Session* session, ThreadState* thread, uint64_t step, uint64_t ticks);

// Remembers what the calling thread is called, and says so in the capture that runs.
void SetThreadName(const char* name);

// A wire::NoteEvent of this moment. The names as the functions above take them, or kNoNameId.
void RecordNote(wire::NoteKind kind, uint32_t subject_id, uint32_t text_id, int64_t value);

// LateWriter writes events to the calling thread's own chunks of a session that records no more,
// or not yet, and hands them over when it goes. What finds no chunk is counted as dropped.
//
// Threads:   the agent's; one at a time.
// Ownership: borrows the session, which stays mapped.
class LateWriter {
 public:
  explicit LateWriter(Session* session);
  ~LateWriter();
  LateWriter(const LateWriter&) = delete;
  LateWriter& operator=(const LateWriter&) = delete;

  void Write(const void* event, uint32_t bytes);

  // A span that was open when the last window ended: a range without an end, on a lane of its own.
  // At most kMaxLanes of them; more are counted as dropped. One that began before the window did is
  // left out, as EndSpan() does.
  void WriteOpenSpan(uint64_t span);
  void CountLostSpans(uint64_t count);

  // The id that an event may carry for `id`, made readable; kNoNameId stays that.
  uint32_t NameFor(uint32_t id);

 private:
  Session* const session_;
  ThreadState* const thread_;  // Null: nothing can be written.
  WriteGuard guard_;
  uint32_t next_lane_ = 0;
};

// One event.
void WriteBehindWindow(Session* session, const void* event, uint32_t bytes);

// Ends the open ranges of a thread that is about to end, which would seem to run on to the end of
// the window. Inside a write in `session`, at the thread's epoch. (ranges.cc)
void EndRangesWithThread(Session* session, ThreadState* thread);

// A window is over for a thread: takes the ranges that another thread has closed off the stack that
// stays behind in its chunk. Inside a write. (ranges.cc)
void LeaveNoClosedRanges(ThreadState* thread);
// The same for all threads, once none can write to `session` any more. (ranges.cc)
void EndClosedRanges(const Session& session);

// The thread of `state` ends.
void LeaveCapture(ThreadState* state);

}  // namespace profd::client

#endif  // PROFD_CLIENT_LIB_CORE_RECORDER_H_
