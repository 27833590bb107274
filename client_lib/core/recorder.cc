#include "client_lib/core/recorder.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "client_lib/core/lifecycle.h"
#include "client_lib/core/name_table.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/steps.h"

namespace profd::client {
namespace {

using wire::EventKind;

constexpr wire::EventHeader HeaderOf(EventKind kind, size_t size, uint8_t flags = 0) {
  return {static_cast<uint16_t>(size), static_cast<uint8_t>(kind), flags, 0};
}

// Makes an event after the thread's last record, in its place: fields of a copy that are read
// back as whole words would have to be waited for. False: there was no chunk for it.
template <typename Make>
bool AppendMade(Session* session, ThreadState* thread, const Make& make) {
  using Event = decltype(make(session));
  static_assert(sizeof(Event) % 8 == 0 && alignof(Event) <= 8);
  if (thread->used_bytes + sizeof(Event) > wire::kChunkDataBytes && !session->TakeChunk(thread)) {
    return false;
  }
  new (thread->data + thread->used_bytes) Event(make(session));
  thread->used_bytes += sizeof(Event);
  thread->chunk->published_bytes.store(thread->used_bytes, std::memory_order_release);
  return true;
}

// Copies `event` there.
template <typename Event>
bool Append(Session* session, ThreadState* thread, const Event& event) {
  return AppendMade(session, thread, [&](Session*) { return event; });
}

// A write of one event of any kind but a range. `make` gets the session.
template <typename Make>
void RecordEvent(const Make& make) {
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session;
  switch (EnterEpoch(thread, &session)) {
    case Entry::kOff:
      return;
    case Entry::kNoThread:
      return session->CountDrop(wire::kDropNoThreadState);
    case Entry::kReady:
      if (!AppendMade(session, thread, make)) session->CountDrop(wire::kDropNoChunk);
  }
}

constexpr uint32_t kSpanNameBits = 16;
constexpr uint64_t kSpanNameMask = (uint64_t{1} << kSpanNameBits) - 1;
constexpr uint64_t kSpanTicksMask = ~uint64_t{0} >> kSpanNameBits;  // Of TSC, a day.
constexpr uint64_t kJitterTicks = 10'000;
static_assert(wire::kMaxNames <= kSpanNameMask + 1);

uint32_t LaneNumber(const ThreadState& thread, uint32_t lane) {
  return wire::kFirstLane | (thread.serial * kMaxLanes + lane) % wire::kFirstLane;
}

// The name of a lane, whose `name_id` the caller makes readable.
wire::ThreadNameEvent LaneName(const ThreadState& thread, uint32_t lane) {
  char name[48];
  const int length = snprintf(name, sizeof(name), "overlapping ranges of %u",
                              thread.os_thread.load(std::memory_order_relaxed));
  wire::ThreadNameEvent event{};
  event.header = HeaderOf(EventKind::kThreadName, sizeof(event));
  event.header.thread = LaneNumber(thread, lane);
  event.name_id = InternName(name, static_cast<size_t>(length));
  return event;
}

void NameLane(Session* session, ThreadState* thread, uint32_t lane) {
  wire::ThreadNameEvent event = LaneName(*thread, lane);
  event.name_id = session->EventNameId(event.name_id);
  // The span after it will find no room either, and counts.
  Append(session, thread, event);
}

}  // namespace

uint32_t InternName(const char* text, size_t length) {
  if (text == nullptr) return wire::kOtherNameId;
  const uint64_t names_before = g_names.name_count();
  const uint32_t id = g_names.Intern(text, length);
  if (g_names.name_count() != names_before || id == wire::kOtherNameId) {
    RecordNameCounts(g_names.name_count(), g_names.other_count());
  }
  // Either this sees the capture, or the agent that arms it sees the name.
  if (g_hot.session_for_names.load(std::memory_order_seq_cst) == nullptr) return id;
  WriteGuard guard(CurrentThread());
  Session* session = g_hot.session_for_names.load(std::memory_order_acquire);
  if (session != nullptr) session->PublishName(id);
  return id;
}

uint32_t InternLiteral(profd_name* name) {
  const size_t length = name->length != 0       ? name->length
                        : name->text != nullptr ? strlen(name->text)
                                                : 0;
  const uint32_t id = InternName(name->text, length);
  __atomic_store_n(&name->id, id, __ATOMIC_RELEASE);
  return id;
}

uint32_t CheckedId(uint32_t id) {
  return PROFD_LIKELY(id != wire::kNoNameId && id < g_names.id_limit()) ? id : wire::kOtherNameId;
}

bool IsRecording() {
  const uint32_t flag = g_hot.flag.load(std::memory_order_relaxed);
  if (PROFD_LIKELY(flag != kFlagForked)) return flag != kFlagOff;
  RegisterForkedChild();
  return false;
}

Entry EnterEpoch(ThreadState* thread, Session** session) {
  uint32_t flag;
  do {  // Both of one capture, also for a thread that was stuck between the two.
    flag = g_hot.flag.load(std::memory_order_seq_cst);
    *session = g_hot.session.load(std::memory_order_seq_cst);
  } while (flag != g_hot.flag.load(std::memory_order_seq_cst));
  if (flag == kFlagOff || flag == kFlagForked || *session == nullptr) return Entry::kOff;
  if (thread == nullptr) return Entry::kNoThread;
  if (thread->epoch == flag) return Entry::kReady;
  if (thread->session_serial == (*session)->serial) {
    LeaveNoClosedRanges(thread);
    (*session)->FinishChunk(thread);
  } else {
    (*session)->Adopt(thread);
  }
  thread->ForgetChunk();
  memset(thread->lane_ends, 0, sizeof(thread->lane_ends));
  thread->epoch = flag;
  return Entry::kReady;
}

void RecordInstant(uint32_t name_id) {
  if (!IsRecording()) return;
  RecordEvent([&](Session* session) {
    wire::InstantEvent event{};
    event.header = HeaderOf(EventKind::kInstant, sizeof(event));
    event.time_ticks = ReadTicks();
    event.name_id = session->EventNameId(name_id);
    return event;
  });
}

void RecordCounter(uint32_t name_id, double value) {
  if (!IsRecording()) return;
  RecordEvent([&](Session* session) {
    wire::CounterEvent event{};
    event.header = HeaderOf(EventKind::kCounter, sizeof(event));
    event.time_ticks = ReadTicks();
    event.value = value;
    event.name_id = session->EventNameId(name_id);
    return event;
  });
}

void RecordMemory(const profd_memory_event& memory, uint8_t flags) {
  if (!IsRecording()) return;
  RecordEvent([&](Session*) {
    wire::MemoryEvent event{};
    event.header = HeaderOf(EventKind::kMemory, sizeof(event), flags);
    event.time_ticks = ReadTicks();
    event.address = memory.address;
    event.bytes = memory.bytes;
    event.total_allocated_bytes = memory.total_allocated_bytes;
    event.total_reserved_bytes = memory.total_reserved_bytes;
    event.device_type = memory.device_type;
    event.device_index = memory.device_index;
    event.category = memory.category;
    return event;
  });
}

uint64_t SpanOf(uint32_t name_id, uint64_t start_ticks) {
  return start_ticks << kSpanNameBits | name_id;
}

uint32_t NameOfSpan(uint64_t span) {
  return CheckedId(static_cast<uint32_t>(span & kSpanNameMask));
}

uint64_t StartOfSpan(uint64_t span, uint64_t end_ticks) {
  const uint64_t duration = (end_ticks - (span >> kSpanNameBits)) & kSpanTicksMask;
  // Clocks of two processors may differ by a little: it began after its end. Its start is what it
  // is known by.
  const uint64_t ahead = kSpanTicksMask - duration + 1;
  if (ahead < kJitterTicks) return end_ticks + ahead;
  return duration < end_ticks ? end_ticks - duration : 0;
}

uint64_t BeginSpan(uint32_t name_id) {
  if (!IsRecording()) return 0;
  if ((g_hot.detour.load(std::memory_order_relaxed) & kDetourMarker) != 0) {
    ThreadState* thread = CurrentThreadOrNew();
    WriteGuard guard(thread);
    MarkStepByRange(thread, name_id);
  }
  return SpanOf(name_id, ReadTicks());
}

bool EndSpan(uint64_t span) {
  if (span == 0) return true;
  if (!IsRecording()) return false;
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session;
  const Entry entry = EnterEpoch(thread, &session);
  if (entry == Entry::kOff) return false;
  const uint64_t end_ticks = ReadTicks();
  const uint64_t start_ticks = StartOfSpan(span, end_ticks);
  if (start_ticks < session->cycle_ticks.load(std::memory_order_relaxed)) return true;
  if (entry == Entry::kNoThread) {
    session->CountDrop(wire::kDropNoThreadState);
  } else {
    WriteSpan(session, thread, session->EventNameId(NameOfSpan(span)), start_ticks, end_ticks);
  }
  return true;
}

void DropSpan() {
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session;
  if (EnterEpoch(thread, &session) != Entry::kOff) session->CountDrop(wire::kDropTooDeep);
}

void WriteSpan(Session* session, ThreadState* thread, uint32_t name_id, uint64_t start_ticks,
               uint64_t end_ticks) {
  uint32_t lane = 0;
  while (lane < kMaxLanes && thread->lane_ends[lane] > start_ticks) ++lane;
  if (lane == kMaxLanes) return session->CountDrop(wire::kDropTooDeep);
  if (thread->lane_ends[lane] == 0) NameLane(session, thread, lane);
  wire::RangeEvent event{};
  event.header = HeaderOf(EventKind::kRange, sizeof(event));
  event.header.thread = LaneNumber(*thread, lane);
  event.start_ticks = start_ticks;
  event.duration_ticks = end_ticks > start_ticks ? end_ticks - start_ticks : 0;
  event.name_id = name_id;
  if (!Append(session, thread, event)) return session->CountDrop(wire::kDropNoChunk);
  thread->lane_ends[lane] = end_ticks;
}

void RecordStep(Session* session, ThreadState* thread, uint64_t step, uint64_t ticks) {
  Session* entered;
  const Entry entry = EnterEpoch(thread, &entered);
  if (entry == Entry::kOff || entered != session) return;
  if (entry == Entry::kNoThread) return session->CountDrop(wire::kDropNoThreadState);
  wire::StepEvent event{};
  event.header = HeaderOf(EventKind::kStep, sizeof(event));
  event.time_ticks = ticks;
  event.step = step;
  if (!Append(session, thread, event)) session->CountDrop(wire::kDropNoChunk);
}

void SetThreadName(const char* name) {
  ThreadState* thread = CurrentThreadOrNew();
  if (thread == nullptr || name == nullptr) return;
  const size_t length = strnlen(name, kMaxThreadNameBytes);
  memcpy(thread->name, name, length);
  thread->name_length = static_cast<uint32_t>(length);
  if (!IsRecording()) return;
  const uint32_t name_id = InternName(name, length);
  WriteGuard guard(thread);
  Session* session;
  // A thread that has written nothing yet says its name with its first chunk.
  if (EnterEpoch(thread, &session) != Entry::kReady || thread->named_serial != session->serial) {
    return;
  }
  wire::ThreadNameEvent event{};
  event.header = HeaderOf(EventKind::kThreadName, sizeof(event));
  event.name_id = session->EventNameId(name_id);
  if (!Append(session, thread, event)) session->CountDrop(wire::kDropNoChunk);
}

void RecordNote(wire::NoteKind kind, uint32_t subject_id, uint32_t text_id, int64_t value) {
  if (!IsRecording()) return;
  RecordEvent([&](Session* session) {
    const auto name = [&](uint32_t id) {
      return id == wire::kNoNameId ? id : session->EventNameId(id);
    };
    wire::NoteEvent event{};
    event.header = HeaderOf(EventKind::kNote, sizeof(event));
    event.time_ticks = ReadTicks();
    event.subject_id = name(subject_id);
    event.text_id = name(text_id);
    event.value = value;
    event.kind = static_cast<uint16_t>(kind);
    return event;
  });
}

LateWriter::LateWriter(Session* session)
    : session_(session), thread_(CurrentThreadOrNew()), guard_(thread_) {
  if (thread_ == nullptr) return;
  if (thread_->session_serial == session_->serial) {
    session_->FinishChunk(thread_);
    thread_->ForgetChunk();
  } else {
    session_->Adopt(thread_);
  }
}

LateWriter::~LateWriter() {
  if (thread_ == nullptr) return;
  session_->FinishChunk(thread_);
  thread_->ForgetChunk();
}

void LateWriter::Write(const void* event, uint32_t bytes) {
  const bool has_room =
      thread_ != nullptr &&
      (thread_->used_bytes + bytes <= wire::kChunkDataBytes || session_->TakeChunk(thread_));
  if (!has_room) return session_->CountLateDrops(1);
  memcpy(thread_->data + thread_->used_bytes, event, bytes);
  thread_->used_bytes += bytes;
  thread_->chunk->published_bytes.store(thread_->used_bytes, std::memory_order_release);
}

void LateWriter::WriteOpenSpan(uint64_t span) {
  const uint64_t now = ReadTicks();  // The daemon cuts it at the window's end.
  const uint64_t start_ticks = StartOfSpan(span, now);
  if (start_ticks < session_->cycle_ticks.load(std::memory_order_relaxed)) return;
  if (thread_ == nullptr || next_lane_ == kMaxLanes) return CountLostSpans(1);
  const uint32_t lane = next_lane_++;
  wire::ThreadNameEvent lane_name = LaneName(*thread_, lane);
  lane_name.name_id = NameFor(lane_name.name_id);
  Write(&lane_name, sizeof(lane_name));
  wire::RangeEvent event{};
  event.header = HeaderOf(EventKind::kRange, sizeof(event));
  event.header.thread = lane_name.header.thread;
  event.start_ticks = start_ticks;
  event.duration_ticks = now > start_ticks ? now - start_ticks : 0;
  event.name_id = NameFor(NameOfSpan(span));
  Write(&event, sizeof(event));
}

void LateWriter::CountLostSpans(uint64_t count) {
  if (count != 0) session_->CountLateDrops(count, wire::kDropTooDeep);
}

uint32_t LateWriter::NameFor(uint32_t id) {
  if (id == wire::kNoNameId) return id;
  if (id != wire::kOtherNameId && session_->PublishName(id)) return id;
  session_->header->other_name_event_count.fetch_add(1, std::memory_order_relaxed);
  return wire::kOtherNameId;
}

void WriteBehindWindow(Session* session, const void* event, uint32_t bytes) {
  LateWriter(session).Write(event, bytes);
}

void LeaveCapture(ThreadState* state) {
  // Cancelled inside a write, the thread may have left a range half ended.
  const bool was_writing = state->busy.load(std::memory_order_relaxed) != 0;
  WriteGuard guard(state);
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session != nullptr && session->serial == state->session_serial) {
    const bool in_cycle = g_hot.flag.load(std::memory_order_relaxed) == state->epoch;
    if (in_cycle && !was_writing) EndRangesWithThread(session, state);
    session->FinishChunk(state);
  }
  state->ForgetChunk();
  state->epoch = kNoEpoch;
}

}  // namespace profd::client
