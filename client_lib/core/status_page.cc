#include "client_lib/core/status_page.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/direct_calls.h"
#include "client_lib/core/name_table.h"
#include "client_lib/core/session.h"

namespace profd::client {
namespace {

// What the page shows, kept so that a new daemon sees it at once.
struct StepHistory {
  std::atomic<uint64_t> mark_count;
  std::atomic<uint64_t> foreign_mark_count;
  std::atomic<uint32_t> thread;
  std::atomic<uint32_t> source;  // wire::StepSource
  std::atomic<uint64_t> source_first_step;
  std::atomic<bool> are_to_be_renumbered;
  std::atomic<uint64_t> batch_count;
  std::atomic<uint64_t> ticks[wire::kStatusPageSteps];
  // Set by the agent when marks came while it mapped a page: write them all again.
  std::atomic<bool> refresh;
};
constinit StepHistory g_history{};

void StoreStep(wire::StatusPage& page, uint64_t step, uint64_t ticks) {
  wire::StatusStep& entry = page.steps[step % wire::kStatusPageSteps];
  entry.step_plus_1.store(0, std::memory_order_relaxed);
  entry.ticks.store(ticks, std::memory_order_release);
  entry.step_plus_1.store(step + 1, std::memory_order_release);
}

void StoreHistory(wire::StatusPage& page, uint64_t mark_count) {
  const uint64_t first =
      mark_count > wire::kStatusPageSteps ? mark_count - wire::kStatusPageSteps : 0;
  for (uint64_t step = first; step < mark_count; ++step) {
    StoreStep(page, step,
              g_history.ticks[step % wire::kStatusPageSteps].load(std::memory_order_relaxed));
  }
  page.step_thread.store(g_history.thread.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  page.foreign_step_mark_count.store(g_history.foreign_mark_count.load(std::memory_order_relaxed),
                                     std::memory_order_relaxed);
  page.step_source.store(g_history.source.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  page.source_first_step.store(g_history.source_first_step.load(std::memory_order_relaxed),
                               std::memory_order_relaxed);
  page.batch_count.store(g_history.batch_count.load(std::memory_order_relaxed),
                         std::memory_order_relaxed);
  page.dropped_event_count.store(ProcessDrops(), std::memory_order_relaxed);
  page.interned_name_count.store(g_names.name_count(), std::memory_order_relaxed);
  page.other_name_count.store(g_names.other_count(), std::memory_order_relaxed);
  page.step_mark_count.store(mark_count, std::memory_order_release);
}

bool IsSealedPage(int fd) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals &&
         lseek(fd, 0, SEEK_END) == static_cast<off_t>(wire::kStatusPageBytes);
}

// Threads that write to the page meanwhile write to the old one or to the new one; the
// kernel sees to that. Not mmap(), which ThreadSanitizer takes for a write of ours.
// The offset is passed on the stack, where only a 64-bit zero is one.
bool ReplacePage(int flags, int fd) {
  return syscall(SYS_mmap, &g_status_page, wire::kStatusPageBytes, PROT_READ | PROT_WRITE,
                 flags | MAP_FIXED, fd, off_t{0}) != -1;
}

}  // namespace

constinit PaddedStatusPage g_status_page{};

void RecordStepMark(uint64_t step, uint64_t ticks, uint32_t os_thread) {
  g_history.ticks[step % wire::kStatusPageSteps].store(ticks, std::memory_order_relaxed);
  if (os_thread != 0) g_history.thread.store(os_thread, std::memory_order_relaxed);
  g_history.mark_count.store(step + 1, std::memory_order_seq_cst);
  if (PROFD_UNLIKELY(os_thread != 0 || g_history.refresh.load(std::memory_order_relaxed))) {
    g_history.refresh.store(false, std::memory_order_relaxed);
    StoreHistory(g_status_page, step + 1);
    return;
  }
  StoreStep(g_status_page, step, ticks);
  g_status_page.step_mark_count.store(step + 1, std::memory_order_release);
}

void RecordForeignStepMark() {
  g_history.foreign_mark_count.fetch_add(1, std::memory_order_relaxed);
  g_status_page.foreign_step_mark_count.fetch_add(1, std::memory_order_relaxed);
}

wire::StepSource CurrentStepSource() {
  return static_cast<wire::StepSource>(g_history.source.load(std::memory_order_relaxed));
}

bool IsStepSource(wire::StepSource source) {
  const wire::StepSource current = CurrentStepSource();
  return current == wire::StepSource::kNone || source <= current;
}

bool TakeStepSource(wire::StepSource source) {
  if (!IsStepSource(source)) return false;
  if (source == CurrentStepSource()) return true;
  const uint64_t first_step = StepMarkCount();
  const auto taken = static_cast<uint32_t>(source);
  g_history.source_first_step.store(first_step, std::memory_order_relaxed);
  g_history.are_to_be_renumbered.store(first_step != 0, std::memory_order_relaxed);
  g_history.source.store(taken, std::memory_order_relaxed);
  g_status_page.source_first_step.store(first_step, std::memory_order_relaxed);
  g_status_page.step_source.store(taken, std::memory_order_relaxed);
  return true;
}

bool AreStepsToBeRenumbered() {
  return g_history.are_to_be_renumbered.load(std::memory_order_relaxed);
}

// Entries of greater numbers stay in the ring; each is written again before the count reaches it.
void RenumberSteps() {
  g_history.are_to_be_renumbered.store(false, std::memory_order_relaxed);
  const uint64_t marks = StepMarkCount();
  const uint64_t shift = g_history.source_first_step.load(std::memory_order_relaxed);
  const uint64_t count = marks - shift;
  uint64_t ticks[wire::kStatusPageSteps];
  for (uint64_t i = 0; i < wire::kStatusPageSteps; ++i) {
    ticks[i] =
        g_history.ticks[(i + shift) % wire::kStatusPageSteps].load(std::memory_order_relaxed);
  }
  for (uint64_t i = 0; i < wire::kStatusPageSteps; ++i) {
    g_history.ticks[i].store(ticks[i], std::memory_order_relaxed);
  }
  g_history.source_first_step.store(0, std::memory_order_relaxed);
  g_history.mark_count.store(count, std::memory_order_seq_cst);
  StoreHistory(g_status_page, count);
}

void RecordBatch() {
  const uint64_t count = g_history.batch_count.fetch_add(1, std::memory_order_relaxed) + 1;
  g_status_page.batch_count.store(count, std::memory_order_relaxed);
}

uint64_t StepMarkCount() { return g_history.mark_count.load(std::memory_order_seq_cst); }

void RecordNameCounts(uint64_t interned, uint64_t other) {
  g_status_page.interned_name_count.store(interned, std::memory_order_relaxed);
  g_status_page.other_name_count.store(other, std::memory_order_relaxed);
}

bool ShareStatusPage(int fd) {
  if (!IsSealedPage(fd)) return false;
  void* mapped = direct::Map(wire::kStatusPageBytes, MAP_SHARED, fd);
  if (mapped == MAP_FAILED) return false;
  auto* page = static_cast<wire::StatusPage*>(mapped);
  const bool good =
      page->magic == wire::kStatusPageMagic && page->version == wire::kStatusPageVersion;
  const uint64_t marks = StepMarkCount();
  if (good) StoreHistory(*page, marks);
  direct::Unmap(mapped, wire::kStatusPageBytes);
  if (!good || !ReplacePage(MAP_SHARED, fd)) return false;
  // A mark between the two went to the page that is gone. It may have renumbered the steps, so that
  // the count is lower now. A count that is not ours is that of a later mark.
  const uint64_t marks_now = StepMarkCount();
  if (marks_now == marks) return true;
  g_history.refresh.store(true, std::memory_order_relaxed);
  uint64_t shown = marks;
  g_status_page.source_first_step.store(g_history.source_first_step.load(std::memory_order_relaxed),
                                        std::memory_order_relaxed);
  g_status_page.step_mark_count.compare_exchange_strong(shown, marks_now);
  return true;
}

void KeepStatusPagePrivate() { ReplacePage(MAP_PRIVATE | MAP_ANONYMOUS, -1); }

void ForgetStepMarks() {
  g_history.mark_count.store(0, std::memory_order_relaxed);
  g_history.foreign_mark_count.store(0, std::memory_order_relaxed);
  g_history.thread.store(0, std::memory_order_relaxed);
  g_history.source.store(0, std::memory_order_relaxed);
  g_history.source_first_step.store(0, std::memory_order_relaxed);
  g_history.are_to_be_renumbered.store(false, std::memory_order_relaxed);
  g_history.batch_count.store(0, std::memory_order_relaxed);
}

}  // namespace profd::client
