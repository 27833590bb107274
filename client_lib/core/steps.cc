#include "client_lib/core/steps.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "client_lib/core/recorder.h"
#include "client_lib/core/session.h"
#include "client_lib/core/status_page.h"
#include "client_lib/core/torch_hooks.h"

namespace profd::client {
namespace {

using wire::Phase;

constexpr uint64_t kMaxActiveSteps = 1'000'000;

constexpr uint32_t kSourceCount = wire::kMaxStepSource + 1;

// The calling thread's in the marks of each source.
enum class StepRole : uint8_t { kUnknown, kStepThread, kForeign };
__thread StepRole t_roles[kSourceCount] __attribute__((tls_model("initial-exec"))) = {};
constinit std::atomic<bool> g_have_step_thread[kSourceCount] = {};
// One step thread at a time, also while a better source, on another thread, takes over.
constinit std::atomic<bool> g_is_marking{false};
constinit std::atomic<bool> g_numbers_are_kept{false};
constinit std::atomic<uint32_t> g_last_epoch{0};

// `new_os_thread`: the calling thread, if it becomes the step thread of `source` by this; else 0.
bool IsStepThread(wire::StepSource source, uint32_t* new_os_thread) {
  const auto index = static_cast<uint32_t>(source);
  StepRole& role = t_roles[index];
  *new_os_thread = 0;
  if (PROFD_LIKELY(role != StepRole::kUnknown)) return role == StepRole::kStepThread;
  const bool first = !g_have_step_thread[index].exchange(true);
  role = first ? StepRole::kStepThread : StepRole::kForeign;
  if (first) *new_os_thread = static_cast<uint32_t>(syscall(SYS_gettid));
  return first;
}

// Where the plan says step `step` lies.
struct Position {
  Phase phase;  // kWaiting, kWarmup, kRecording or kEnded
  uint32_t cycle;
};

Position PositionOf(const wire::FireBody& plan, uint64_t base_step, uint64_t step) {
  if (step < base_step) return {Phase::kWaiting, 0};
  const uint64_t offset = step - base_step;
  const uint64_t cycle_steps = plan.wait_steps + uint64_t{plan.warmup_steps} + plan.active_steps;
  const uint64_t cycle = offset / cycle_steps;
  const uint64_t in_cycle = offset % cycle_steps;
  if (cycle >= plan.repeat) return {Phase::kEnded, plan.repeat - 1};
  const auto index = static_cast<uint32_t>(cycle);
  if (in_cycle < plan.wait_steps) return {Phase::kWaiting, index};
  if (in_cycle < plan.wait_steps + uint64_t{plan.warmup_steps}) return {Phase::kWarmup, index};
  return {Phase::kRecording, index};
}

// Whether the first recorded step has begun before step `next`, which is still to come.
bool IsTooLate(const wire::FireBody& plan, uint64_t base_step, uint64_t next) {
  const uint64_t lead = plan.wait_steps + uint64_t{plan.warmup_steps};
  return base_step < next && next - base_step > lead;
}

void OpenWindow(Session* session, uint64_t first_step, uint64_t ticks) {
  const uint32_t index = session->window.load(std::memory_order_relaxed);
  wire::Window& window = session->header->windows[index];
  window.first_step.store(first_step, std::memory_order_relaxed);
  window.start_ticks.store(ticks, std::memory_order_release);
  session->header->window_count.store(index + 1, std::memory_order_release);
  session->window_open = true;
}

void CloseWindow(Session* session, uint64_t end_step, uint64_t ticks) {
  const uint32_t index = session->window.load(std::memory_order_relaxed);
  wire::Window& window = session->header->windows[index];
  window.end_step.store(end_step, std::memory_order_relaxed);
  window.end_ticks.store(ticks, std::memory_order_release);
  session->window_open = false;
}

// Whether events of `phase` are written. Begins of a step marker must be seen in all of them.
bool Records(const Session* session, Phase phase) {
  return phase == Phase::kWarmup || phase == Phase::kRecording ||
         (phase == Phase::kWaiting && session->step_marker != wire::kNoNameId);
}

// The capture may be stopped at any moment (StopRecording()). The agent takes the session away
// before it clears the flag: so a flag that was set too late finds no session here, and is taken
// back before this write ends, which the agent waits for. Until then, writers find no session,
// either. A mark that was stuck until its capture was given up does not replace the flag of the
// next one.
void OpenCycle(Session* session) {
  session->cycle_open = true;
  session->epoch = NextEpoch();
  session->cycle_ticks.store(ReadTicks(), std::memory_order_relaxed);
  const auto is_current = [&] { return g_hot.session.load(std::memory_order_seq_cst) == session; };
  uint32_t before = g_hot.flag.load(std::memory_order_seq_cst);
  do {
    if (!is_current()) return;
  } while (!g_hot.flag.compare_exchange_strong(before, session->epoch, std::memory_order_seq_cst));
  uint32_t epoch = session->epoch;
  if (!is_current()) g_hot.flag.compare_exchange_strong(epoch, kFlagOff, std::memory_order_seq_cst);
  TellTorchOfFlag();
}

void CloseCycle(Session* session) {
  session->cycle_open = false;
  uint32_t epoch = session->epoch;
  g_hot.flag.compare_exchange_strong(epoch, kFlagOff, std::memory_order_release,
                                     std::memory_order_relaxed);
  TellTorchOfFlag();
}

// Ends what step `step` is no longer part of.
void LeaveCycle(Session* session, ThreadState* thread, const Position& position, uint64_t step,
                uint64_t ticks) {
  if (!session->cycle_open) return;
  const bool same_cycle = position.cycle == session->window.load(std::memory_order_relaxed) &&
                          Records(session, position.phase);
  if (same_cycle) return;
  RecordStep(session, thread, step, ticks);
  if (session->window_open) CloseWindow(session, step, ticks);
  CloseCycle(session);
}

void EnterCycle(Session* session, ThreadState* thread, const Position& position, uint64_t step,
                uint64_t ticks) {
  session->finished = position.phase == Phase::kEnded;
  const bool records = Records(session, position.phase);
  if (records) session->window.store(position.cycle, std::memory_order_relaxed);
  if (position.phase == Phase::kRecording && !session->window_open) {
    OpenWindow(session, step, ticks);
  }
  session->SetPhase(position.phase);
  if (!records) return;
  if (!session->cycle_open) OpenCycle(session);
  RecordStep(session, thread, step, ticks);
}

void CarryOutPlan(Session* session, ThreadState* thread, uint64_t step, uint64_t ticks) {
  const wire::FireBody& plan = session->plan;
  if (plan.active_steps == 0) return RecordStep(session, thread, step, ticks);
  if (!session->plan_begun) {
    session->plan_begun = true;
    if (plan.base_step == wire::kNextStep) {
      session->base_step.store(step, std::memory_order_relaxed);
    }
    if (IsTooLate(plan, session->base_step.load(std::memory_order_relaxed), step)) {
      session->finished = true;
      session->SetPhase(Phase::kMissed);
    }
  }
  if (session->finished) return;
  const Position position =
      PositionOf(plan, session->base_step.load(std::memory_order_relaxed), step);
  LeaveCycle(session, thread, position, step, ticks);
  EnterCycle(session, thread, position, step, ticks);
}

void CountForeignMark(Session* session) {
  session->header->foreign_step_mark_count.fetch_add(1, std::memory_order_relaxed);
}

bool IsArmed() { return g_hot.session.load(std::memory_order_relaxed) != nullptr; }

// A step of the capture's own. Once it has its plan.
void MarkOwnStep(Session* session, ThreadState* thread, uint64_t ticks) {
  uint32_t first = 0;
  if (!session->marker_thread.compare_exchange_strong(first, thread->serial) &&
      first != thread->serial) {
    return CountForeignMark(session);
  }
  const uint64_t step = session->marker_count.fetch_add(1, std::memory_order_relaxed);
  CarryOutPlan(session, thread, step, ticks);
  session->header->current_step.store(step, std::memory_order_release);
}

// A mark of the source whose marks are steps of the capture alone, perhaps.
PROFD_NOINLINE void MarkStepBySource(wire::StepSource source) {
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session == nullptr || session->step_source != source || thread == nullptr ||
      session->has_plan.load(std::memory_order_acquire) == 0) {
    return;
  }
  MarkOwnStep(session, thread, ReadTicks());
}

PROFD_NOINLINE void MarkStepInCapture(uint64_t step, uint64_t ticks) {
  ThreadState* thread = CurrentThreadOrNew();
  WriteGuard guard(thread);
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session == nullptr || session->step_source != wire::StepSource::kNone) return;
  if (session->step_marker != wire::kNoNameId) return CountForeignMark(session);
  if (session->has_plan.load(std::memory_order_acquire) != 0) {
    CarryOutPlan(session, thread, step, ticks);
  }
  session->header->current_step.store(step, std::memory_order_release);
}

// The steps of the capture that have begun.
uint64_t StepsBegun(const Session* session) {
  return session->HasOwnSteps() ? session->marker_count.load(std::memory_order_relaxed)
                                : StepMarkCount();
}

}  // namespace

PROFD_NOINLINE void MarkForeignStep() {
  RecordForeignStepMark();
  WriteGuard guard(CurrentThread());
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session != nullptr) CountForeignMark(session);
}

void MarkStep(wire::StepSource source) {
  if (PROFD_UNLIKELY(IsArmed())) MarkStepBySource(source);
  if (PROFD_UNLIKELY(source != CurrentStepSource()) && !IsStepSource(source)) return;
  uint32_t new_os_thread;
  if (PROFD_UNLIKELY(!IsStepThread(source, &new_os_thread))) return MarkForeignStep();
  if (PROFD_UNLIKELY(g_is_marking.exchange(true, std::memory_order_acquire))) {
    return MarkForeignStep();
  }
  // Again, because a better source may have taken over on another thread: its first step is the
  // number of marks at that time, so that a lesser source's mark must not come after it.
  if (PROFD_UNLIKELY(source != CurrentStepSource()) && !TakeStepSource(source)) {
    g_is_marking.store(false, std::memory_order_release);
    return;
  }
  const uint64_t ticks = ReadTicks();
  if (PROFD_UNLIKELY(AreStepsToBeRenumbered()) && !StepNumbersAreKept()) RenumberSteps();
  const uint64_t step = StepMarkCount();
  RecordStepMark(step, ticks, new_os_thread);
  if (PROFD_UNLIKELY(IsArmed())) MarkStepInCapture(step, ticks);
  g_is_marking.store(false, std::memory_order_release);
}

void MarkStepOfCapture(wire::StepSource source) {
  if (IsArmed()) MarkStepBySource(source);
}

void MarkStepByRange(ThreadState* thread, uint32_t name_id) {
  // What the agent wrote before it set the flag is the marker's thread's from then on.
  if (g_hot.flag.load(std::memory_order_acquire) == kFlagOff || thread == nullptr) return;
  Session* session = g_hot.session.load(std::memory_order_acquire);
  if (session == nullptr || session->step_marker != name_id) return;
  if (IsRangeOpen(thread, name_id)) return;  // It is part of the step that began there.
  MarkOwnStep(session, thread, ReadTicks());
}

void KeepStepNumbers(bool keep) { g_numbers_are_kept.store(keep, std::memory_order_seq_cst); }
bool StepNumbersAreKept() { return g_numbers_are_kept.load(std::memory_order_seq_cst); }

bool IsValidPlan(const wire::FireBody& plan) {
  return plan.repeat >= 1 && plan.repeat <= wire::kMaxWindows &&
         plan.active_steps <= kMaxActiveSteps;
}

void StartPlan(Session* session, const wire::FireBody& plan) {
  session->plan = plan;
  session->base_step.store(plan.base_step, std::memory_order_relaxed);
  if (plan.active_steps == 0) {
    session->window.store(0, std::memory_order_relaxed);
    OpenWindow(session, wire::kNextStep, ReadTicks());
    session->has_plan.store(1, std::memory_order_release);
    // Ours before the flag is on: a drop right after it is one of the window.
    session->SetOwnPhase(Phase::kRecording);
    OpenCycle(session);
    // The daemon's phase comes last: once it reads kRecording, events are in the window.
    session->SetPhase(Phase::kRecording);
    return;
  }
  if (plan.base_step != wire::kNextStep && IsTooLate(plan, plan.base_step, StepsBegun(session))) {
    session->SetPhase(Phase::kMissed);
    return;
  }
  // The plan first: who reads kWaiting may rely on the next mark. A mark that comes between
  // the two has moved the phase on already.
  session->has_plan.store(1, std::memory_order_release);
  session->LeaveArmed();
  // From here on the marker's thread moves the windows, so this comes last.
  if (session->step_marker != wire::kNoNameId) OpenCycle(session);
}

uint64_t StepsUntilRecording(const Session& session) {
  const auto phase = static_cast<Phase>(session.phase.load(std::memory_order_relaxed));
  if (phase == Phase::kEnded || phase == Phase::kMissed) return kNoSteps;
  const wire::FireBody& plan = session.plan;
  if (plan.active_steps == 0) return 0;
  const uint64_t marks = StepsBegun(&session);
  uint64_t base = session.base_step.load(std::memory_order_relaxed);
  if (base == wire::kNextStep) base = marks;
  if (marks == 0) return base + plan.wait_steps + 1;
  const uint64_t step = marks - 1;
  if (step < base) return base + plan.wait_steps - step;
  const Position position = PositionOf(plan, base, step);
  if (position.phase == Phase::kEnded) return kNoSteps;
  if (position.phase != Phase::kWaiting) return 0;
  const uint64_t cycle_steps = plan.wait_steps + uint64_t{plan.warmup_steps} + plan.active_steps;
  return base + position.cycle * cycle_steps + plan.wait_steps - step;
}

void EndPlan(Session* session, uint64_t ticks) {
  if (session->window_open) {
    // Not the process's last mark: marks go on after the recording.
    const bool by_time = session->plan.active_steps == 0;
    const uint64_t step = session->header->current_step.load(std::memory_order_relaxed);
    CloseWindow(session, by_time ? wire::kNextStep : step, ticks);
  }
  session->cycle_open = false;
  const auto phase = static_cast<Phase>(session->phase.load(std::memory_order_relaxed));
  if (phase != Phase::kMissed) session->SetPhase(Phase::kEnded);
}

void ForgetStepThread() {
  for (uint32_t source = 0; source < kSourceCount; ++source) {
    t_roles[source] = StepRole::kUnknown;
    g_have_step_thread[source].store(false, std::memory_order_relaxed);
  }
  g_is_marking.store(false, std::memory_order_relaxed);
}

uint32_t NextEpoch() {
  uint32_t epoch;
  do {
    epoch = g_last_epoch.fetch_add(1, std::memory_order_relaxed) + 1;
  } while (epoch == kFlagOff || epoch == kFlagForked || epoch == kNoEpoch);
  return epoch;
}

}  // namespace profd::client
