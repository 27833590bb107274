// StatusPage: the one page a target shares with the daemon from registration on.
//
// The daemon makes it (a sealed memfd of kStatusPageBytes) and hands it over in the
// WELCOME frame; the target's step mark writes it; the daemon reads it whenever it
// likes, at no cost to the target. Everything in it is hostile: the daemon copies a
// field out once, checks it, and believes no more than "the target says".
//
//   byte 0     magic, layout version
//        64    the step thread's line: current step, mark counts
//        128   drops since the process began
//        1024  ring of the last 64 step marks, 16 bytes each
//        2048  zero
#ifndef PROFD_PROTO_WIRE_STATUS_PAGE_H_
#define PROFD_PROTO_WIRE_STATUS_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profd::wire {

inline constexpr uint32_t kStatusPageBytes = 4096;
inline constexpr uint32_t kStatusPageMagic = 0x50475450;  // "PTGP"
inline constexpr uint32_t kStatusPageVersion = 1;
inline constexpr uint32_t kStatusPageSteps = 64;

// Where the steps of a process come from. Better sources take over from lesser ones, once and
// for good; their numbers begin anew.
enum class StepSource : uint32_t {
  kNone = 0,        // It has none yet.
  kMarks = 1,       // profd_step(): the program itself. The best there is.
  kOptimizer = 2,   // torch's Optimizer.step().
  kProfiler = 3,    // The program's own torch.profiler: `ProfilerStep#N`.
  kDataLoader = 4,  // torch's DataLoader gives the next batch: inference.
  // The rounds in which a thread repeats torch's operators. Of captures that ask for it alone,
  // since every operator must be watched to tell; never a process's own.
  kPeriodicity = 5,
};
inline constexpr uint32_t kMaxStepSource = 5;

// One step mark, a small seqlock: the writer stores step_plus_1 = 0, ticks, then
// step_plus_1 (release); a reader takes step_plus_1 (acquire) before and after `ticks`
// and drops the entry if it is 0 or they differ.
struct StatusStep {
  std::atomic<uint64_t> step_plus_1;  // 0: never written
  std::atomic<uint64_t> ticks;
};

struct alignas(64) StatusPage {
  // Written once, by the daemon, before the page is shared.
  uint32_t magic;
  uint32_t version;
  uint8_t reserved0[56];

  // Line 1: written by the step thread, at each step mark.
  std::atomic<uint64_t> step_mark_count;          // Of `step_source`; the current step is this - 1.
  std::atomic<uint32_t> step_thread;              // OS thread id; 0 before the first mark.
  std::atomic<uint32_t> step_source;              // StepSource
  std::atomic<uint64_t> foreign_step_mark_count;  // Marks on other threads: moved nothing.
  // Batches taken from torch's DataLoaders, on any thread, as far as the library looked at them:
  // until the first step of an optimizer, and while a capture was armed.
  std::atomic<uint64_t> batch_count;
  // The first step of `step_source`; earlier ones are of a lesser source and took other times.
  std::atomic<uint64_t> source_first_step;
  uint8_t reserved2[24];

  // Line 2: written by any thread of the target, rarely.
  std::atomic<uint64_t> dropped_event_count;  // All captures of this process.
  std::atomic<uint64_t> interned_name_count;
  std::atomic<uint64_t> other_name_count;  // Names beyond the caps: became "(other)".
  uint8_t reserved3[40];

  uint8_t reserved4[1024 - 192];

  StatusStep steps[kStatusPageSteps];  // Step s at [s % 64].
  uint8_t reserved5[4096 - 1024 - 64 * 16];
};
static_assert(sizeof(StatusPage) == kStatusPageBytes);
static_assert(offsetof(StatusPage, step_mark_count) == 64);
static_assert(offsetof(StatusPage, dropped_event_count) == 128);
static_assert(offsetof(StatusPage, steps) == 1024);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace profd::wire

#endif  // PROFD_PROTO_WIRE_STATUS_PAGE_H_
