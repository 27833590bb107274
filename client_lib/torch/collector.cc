#include "client_lib/torch/collector.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "client_lib/core/agent.h"
#include "client_lib/core/recorder.h"

namespace profd::client::torch::collector {
namespace {

// A wire::BlockEvent, ModuleEvent or NoteEvent. The header is stored last: 0 is a record that is
// still to come.
struct Record {
  std::atomic<uint64_t> header;
  uint64_t body[4];
};
static_assert(sizeof(Record) == sizeof(wire::BlockEvent));
static_assert(sizeof(Record) == sizeof(wire::NoteEvent));
static_assert(sizeof(Record) == sizeof(wire::ModuleEvent));

// What the collector is asked for: a State in the lower two bits, the capture's number above.
constexpr uint32_t kStateBits = 2;
constexpr uint32_t kStateMask = (1u << kStateBits) - 1;
constexpr uint32_t kNobody = UINT32_MAX;  // No capture is ever asked for so.

State StateOf(uint32_t word) { return static_cast<State>(word & kStateMask); }
uint32_t CaptureOf(uint32_t word) { return word >> kStateBits; }
uint32_t WordOf(uint32_t capture, State state) {
  return capture << kStateBits | static_cast<uint32_t>(state);
}

constinit std::atomic<bool> g_is_there{false};
constinit std::atomic<bool> g_has_ended{false};
constinit std::atomic<uint32_t> g_asked{0};  // The agent's.
constinit std::atomic<bool> g_are_counts_asked{false};
constinit std::atomic<uint32_t> g_news{0};  // A futex: changes of these two.
constinit std::atomic<uint32_t> g_wanted{0};
constinit std::atomic<uint32_t> g_done{kNobody};     // The word that was answered.
constinit std::atomic<uint32_t> g_collect{kNobody};  // The word that records are taken for.
constinit uint32_t g_told = 0;                       // The collector's.

constinit std::atomic<Record*> g_records{nullptr};
constinit std::atomic<uint32_t> g_next{0};
constinit std::atomic<uint64_t> g_lost{0};

void Wake() {
  g_news.fetch_add(1, std::memory_order_seq_cst);
  if (!IsThere()) return;
  syscall(SYS_futex, &g_news, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Ask(uint32_t word) {
  g_asked.store(word, std::memory_order_seq_cst);
  Wake();
}

Task TaskOf(State state) { return static_cast<Task>(state); }

Record* MapRecords() {
  void* mapped = mmap(nullptr, sizeof(Record) * kMaxRecords, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped != MAP_FAILED ? static_cast<Record*>(mapped) : nullptr;
}

// By the collector, when it is told to collect: what the last capture had is gone.
void BeginRecords(uint32_t word) {
  Record* records = g_records.load(std::memory_order_relaxed);
  if (records == nullptr) {
    records = MapRecords();
    g_records.store(records, std::memory_order_release);
  }
  const uint32_t used = g_next.load(std::memory_order_relaxed);
  for (uint32_t i = 0; records != nullptr && i < used && i < kMaxRecords; ++i) {
    records[i].header.store(0, std::memory_order_relaxed);
  }
  g_next.store(0, std::memory_order_relaxed);
  g_lost.store(0, std::memory_order_relaxed);
  g_collect.store(word, std::memory_order_release);
}

void Add(const void* event) {
  if (g_collect.load(std::memory_order_acquire) != g_asked.load(std::memory_order_acquire)) return;
  Record* records = g_records.load(std::memory_order_acquire);
  const uint32_t index =
      records != nullptr ? g_next.fetch_add(1, std::memory_order_relaxed) : kMaxRecords;
  if (index >= kMaxRecords) {
    g_lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  uint64_t header;
  memcpy(&header, event, sizeof(header));
  memcpy(records[index].body, static_cast<const std::byte*>(event) + sizeof(header),
         sizeof(records[index].body));
  records[index].header.store(header, std::memory_order_release);
}

template <typename Event>
Event EventOf(const Record& record, uint64_t header) {
  Event event;
  memcpy(&event, &header, sizeof(header));
  memcpy(reinterpret_cast<std::byte*>(&event) + sizeof(header), record.body, sizeof(record.body));
  return event;
}

void WriteRecord(LateWriter* writer, const Record& record, uint64_t header) {
  const auto kind = EventOf<wire::NoteEvent>(record, header).header.kind;
  if (kind == static_cast<uint8_t>(wire::EventKind::kBlock)) {
    auto block = EventOf<wire::BlockEvent>(record, header);
    block.name_id = writer->NameFor(block.name_id);
    writer->Write(&block, sizeof(block));
    return;
  }
  if (kind == static_cast<uint8_t>(wire::EventKind::kModule)) {
    auto module = EventOf<wire::ModuleEvent>(record, header);
    module.path_id = writer->NameFor(module.path_id);
    module.class_name_id = writer->NameFor(module.class_name_id);
    writer->Write(&module, sizeof(module));
    return;
  }
  auto note = EventOf<wire::NoteEvent>(record, header);
  note.subject_id = writer->NameFor(note.subject_id);
  note.text_id = writer->NameFor(note.text_id);
  writer->Write(&note, sizeof(note));
}

}  // namespace

bool IsThere() { return g_is_there.load(std::memory_order_acquire); }

void Arm(uint32_t wanted) {
  g_wanted.store(wanted, std::memory_order_relaxed);
  g_lost.store(0, std::memory_order_relaxed);
  const uint32_t last = CaptureOf(g_asked.load(std::memory_order_relaxed));
  Ask(WordOf(last + 1, State::kArmed));
}

void Collect() { Ask(WordOf(CaptureOf(g_asked.load(std::memory_order_relaxed)), State::kCollect)); }

bool IsDone() {
  return g_done.load(std::memory_order_acquire) == g_asked.load(std::memory_order_relaxed);
}

void WriteTo(LateWriter* writer) {
  const Record* records = g_records.load(std::memory_order_acquire);
  const bool is_of_this_capture =
      g_collect.load(std::memory_order_acquire) == g_asked.load(std::memory_order_relaxed);
  if (records == nullptr || !is_of_this_capture) return;
  const uint32_t next = g_next.load(std::memory_order_relaxed);
  const uint32_t limit = next < kMaxRecords ? next : kMaxRecords;
  for (uint32_t i = 0; i < limit; ++i) {
    const uint64_t header = records[i].header.load(std::memory_order_acquire);
    if (header == 0) {
      g_lost.fetch_add(1, std::memory_order_relaxed);  // Another thread is just about to write it.
    } else {
      WriteRecord(writer, records[i], header);
    }
  }
}

void Leave() { Ask(WordOf(CaptureOf(g_asked.load(std::memory_order_relaxed)), State::kIdle)); }

void AskForCounts() {
  g_are_counts_asked.store(true, std::memory_order_seq_cst);
  Wake();
}

Task Wait(uint32_t* wanted) {
  g_is_there.store(true, std::memory_order_seq_cst);
  for (;;) {
    // Read before what it announces. After a later change the futex has another value, and the wait
    // returns at once.
    const uint32_t news = g_news.load(std::memory_order_seq_cst);
    if (g_has_ended.load(std::memory_order_seq_cst)) {
      pause();
      continue;
    }
    const uint32_t asked = g_asked.load(std::memory_order_seq_cst);
    if (asked != g_told) {
      const bool was_idle = StateOf(g_told) == State::kIdle;
      // Each capture begins from idle, also if this thread never saw the end of the one before.
      if (!was_idle && CaptureOf(asked) != CaptureOf(g_told)) {
        g_told = WordOf(CaptureOf(asked), State::kIdle);
        return Task::kIdle;
      }
      g_told = asked;
      *wanted = g_wanted.load(std::memory_order_relaxed);
      if (StateOf(asked) == State::kCollect) BeginRecords(asked);
      if (StateOf(asked) != State::kIdle || !was_idle) return TaskOf(StateOf(asked));
      continue;
    }
    if (g_are_counts_asked.exchange(false, std::memory_order_seq_cst)) return Task::kCount;
    syscall(SYS_futex, &g_news, FUTEX_WAIT_PRIVATE, news, nullptr, nullptr, 0);
  }
}

void Done() {
  g_done.store(g_told, std::memory_order_release);
  WakeAgentForTorch();
}

void End() {
  g_has_ended.store(true, std::memory_order_seq_cst);
  Wake();
}

void AddBlock(const wire::BlockEvent& block) { Add(&block); }
void AddNote(const wire::NoteEvent& note) { Add(&note); }
void AddModule(const wire::ModuleEvent& module) { Add(&module); }

uint64_t lost_count() { return g_lost.load(std::memory_order_relaxed); }

void ResetInChild() {
  g_is_there.store(false, std::memory_order_relaxed);
  g_has_ended.store(false, std::memory_order_relaxed);
  g_asked.store(0, std::memory_order_relaxed);
  g_are_counts_asked.store(false, std::memory_order_relaxed);
  g_done.store(kNobody, std::memory_order_relaxed);
  g_collect.store(kNobody, std::memory_order_relaxed);
  g_told = 0;
}

}  // namespace profd::client::torch::collector
