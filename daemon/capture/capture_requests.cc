#include <algorithm>
#include <set>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/base/reason.h"
#include "daemon/base/status_macros.h"
#include "daemon/base/str_cat.h"
#include "daemon/base/text.h"
#include "daemon/base/ulid.h"
#include "daemon/capture/capture_actor.h"
#include "daemon/capture/capture_outcome.h"

namespace profd {
namespace {

constexpr int64_t kMinMemoryBytes = 1 << 20;     // As ValidateSpec() has it.
constexpr int64_t kMemoryGrainBytes = 64 << 10;  // A chunk of capture memory.

absl::Status NoSuchCapture(std::string_view id) {
  return absl::NotFoundError(
      StrCat("no capture ", ForDisplay(id, 40), "; `profctl captures` lists those there are"));
}

bool SameTarget(const TargetInfo& a, const TargetInfo& b) {
  return a.pid == b.pid && a.process_start_ticks == b.process_start_ticks;
}

absl::Status CheckRequestId(std::string_view request_id) {
  const bool ok = request_id.size() <= 64 &&
                  std::ranges::all_of(request_id, [](char c) { return c > 0x20 && c < 0x7f; });
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError("request_id must be at most 64 printable ASCII characters");
}

// Whether the target says that no optimizer of PyTorch has ended a step. Steps that the program
// marks itself hide its optimizers.
bool LacksOptimizer(const TargetInfo& target) {
  return target.step_source != StepSource::kOptimizer && target.step_source != StepSource::kMarks;
}

absl::Status NoOptimizer(const TargetInfo& target) {
  const std::string_view source = target.step_source == StepSource::kNone
                                      ? "it has no steps"
                                      : "its steps come from another source";
  return WithReason(
      absl::FailedPreconditionError(
          StrCat("no optimizer of PyTorch has ended a step in target ", target.pid, " (", source,
                 "); retry once it trains, or count other steps: --step-source dataloader, "
                 "--step-source periodicity, --step-marker NAME")),
      "NO_STEPS");
}

}  // namespace

// ---- creating ----

absl::StatusOr<TargetInfo> CaptureManager::Actor::Admit(const Caller& caller, TargetNumber number,
                                                        const CaptureSpec& spec,
                                                        const ScheduledBy* schedule) {
  const std::optional<TargetInfo> target = targets_.Find(number);
  if (!target.has_value() || target->state == TargetState::kGone) {
    return WithReason(absl::NotFoundError(
                          StrCat("no target ", number, "; it may have ended since it was listed")),
                      "NO_SUCH_TARGET");
  }
  if (!caller.May(Verb::kCapture, OwnerOf(*target))) {
    if (caller.May(Verb::kList, OwnerOf(*target))) {
      return NotAllowed(caller, Verb::kCapture, StrCat("target ", target->pid));
    }
    return WithReason(
        absl::PermissionDeniedError(StrCat("target ", target->pid, " belongs to uid ", target->uid,
                                           "; only that user or root may capture it")),
        "OTHER_OWNER");
  }
  if (spec.torch.stacks && !caller.May(Verb::kCaptureStacks, OwnerOf(*target))) {
    return NotAllowed(caller, Verb::kCaptureStacks, StrCat("target ", target->pid));
  }
  // After the rights: other callers do not learn why this node is switched off.
  if (forbidden_.has_value()) {
    return WithReason(absl::FailedPreconditionError(
                          StrCat("captures are switched off on this node: ", *forbidden_,
                                 "; `profctl node --allow-captures` allows them")),
                      "CAPTURES_OFF");
  }
  if (target->opted_out) {
    return WithReason(absl::FailedPreconditionError(StrCat(
                          "target ", target->pid,
                          " asked not to be captured (PROFD_OPTOUT in its environment); start it "
                          "without that")),
                      "OPTED_OUT");
  }
  for (const auto& [id, live] : live_) {
    // One that only has to be stored leaves the target free.
    if (live->target != number || live->drained) continue;
    const bool is_scheduled = !live->record.schedule_id.empty();
    // A user's request goes before a schedule's.
    if (schedule == nullptr && is_scheduled) continue;
    // A rank that begins with the others of its job waits for the previous window: its start is
    // ahead.
    const bool may_wait = is_scheduled && schedule->common_start.has_value();
    if (may_wait && !live->waits_for_target) continue;
    return WithReason(absl::FailedPreconditionError(
                          StrCat("target ", target->pid, " has a live capture, ", id,
                                 "; wait for it, or stop it with `profctl cancel ", id, "`")),
                      "TARGET_BUSY");
  }
  if (spec.steps > 0 && !CountsOwnSteps(spec) && target->step_mark_count == 0) {
    return WithReason(
        absl::FailedPreconditionError(StrCat(
            "target ", target->pid,
            " has not marked a step yet, and no optimizer or DataLoader of PyTorch was seen that "
            "would; retry once it trains, call profd.step() (profd_step() in C++) once per "
            "training step, name a range that begins once per step with --step-marker NAME, count "
            "the "
            "rounds of PyTorch's operators with --step-source periodicity, or capture by time with "
            "--duration 2s")),
        "NO_STEPS");
  }
  if (spec.torch.step_source == StepSource::kOptimizer && LacksOptimizer(*target)) {
    return NoOptimizer(*target);
  }
  if (spec.start_step >= 0 && spec.start_step <= target->current_step) {
    return WithReason(
        absl::FailedPreconditionError(StrCat("start step ", spec.start_step, " has passed: target ",
                                             target->pid, " is at step ", target->current_step)),
        "STEP_PASSED");
  }
  return *target;
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureManager::Actor::Replay(
    const Caller& caller, const std::vector<TargetInfo>& targets, const CaptureSpec& spec,
    std::string_view request_id) {
  if (request_id.empty()) return std::vector<CaptureRecord>();
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> records, store_.FindRequest(request_id, caller.uid));
  // Callers who are no users of this node share one uid, and must not see each other's.
  const std::string principal = PrincipalName(caller.principal);
  std::erase_if(records, [&](const CaptureRecord& record) {
    return !record.requested_by.empty() && record.requested_by != principal;
  });
  if (records.empty()) return records;
  bool same = records.size() == targets.size();
  for (CaptureRecord& record : records) {
    same = same && record.spec == spec && std::ranges::any_of(targets, [&](const TargetInfo& t) {
             return SameTarget(t, record.target);
           });
    if (const LiveCapture* live = FindLive(record.id)) record = live->record;
    if (const auto unsaved = unsaved_.find(record.id); unsaved != unsaved_.end()) {
      record = unsaved->second.record;
    }
  }
  if (same) return records;
  return WithReason(absl::AlreadyExistsError(StrCat("request_id ", request_id,
                                                    " was used for another request, capture ",
                                                    records.front().id)),
                    "REQUEST_ID_REUSED");
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureManager::Actor::Create(
    const Caller& caller, const std::vector<TargetNumber>& numbers, const CaptureSpec& spec,
    std::string_view request_id, bool group, const ScheduledBy* schedule) {
  if (stopping_) return absl::UnavailableError("profd is stopping; retry once it is back");
  RETURN_IF_ERROR(ValidateSpec(spec));
  RETURN_IF_ERROR(CheckRequestId(request_id));
  ASSIGN_OR_RETURN(const FirePlan plan, PlanFor(spec));
  if (numbers.empty() || std::set(numbers.begin(), numbers.end()).size() != numbers.size()) {
    return absl::InvalidArgumentError("targets must be named, each once");
  }

  // A repeated request must be recognised even where it would now be refused (the first
  // one made the target busy), so it is looked up with whatever targets still exist.
  std::vector<TargetInfo> known;
  for (const TargetNumber number : numbers) {
    if (auto target = targets_.Find(number)) known.push_back(*std::move(target));
  }
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> replayed, Replay(caller, known, spec, request_id));
  if (!replayed.empty()) return replayed;

  std::vector<TargetInfo> targets;
  for (const TargetNumber number : numbers) {
    ASSIGN_OR_RETURN(TargetInfo target, Admit(caller, number, spec, schedule));
    targets.push_back(std::move(target));
  }
  const quota::Principal holder = QuotaPrincipalOf(caller.principal);
  const int64_t count = std::ssize(numbers);
  // Schedules have a budget of their own.
  if (schedule == nullptr) RETURN_IF_ERROR(CountRequest(holder, count));
  // Together, so that a refusal has the right numbers; then one by one, as they are given back.
  RETURN_IF_ERROR(ReservePlaces(holder, count).status());
  // What is refused below gives them back.
  std::vector<quota::Reservation> places;
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(places.emplace_back(), ReservePlaces(holder, 1));
  }
  const int64_t each_bytes = MemoryOfEach(holder, spec, count);
  if (FittingInMemory(holder, each_bytes, count) < count) {
    return MemoryShortage(holder, each_bytes, count);
  }
  std::vector<std::unique_ptr<LiveCapture>> lives;
  lives.reserve(targets.size());
  for (TargetInfo& target : targets) {
    lives.push_back(NewLive(caller, std::move(target), spec, plan));
  }
  const std::string principal = PrincipalName(caller.principal);
  const std::string first_id = lives.front()->record.id;
  if (absl::Status room = store_.CheckRoom(principal, first_id); !room.ok()) {
    return NameEvicted(std::move(room), first_id, principal);
  }
  const std::string group_id = group ? NewUlid(clock_.Now()) : std::string();
  for (const std::unique_ptr<LiveCapture>& live : lives) {
    live->memory_bytes = each_bytes;
    live->place = std::move(places.back());
    places.pop_back();
    live->record.group_id = group_id;
    live->record.request_id = std::string(request_id);
    if (schedule != nullptr) {
      live->record.schedule_id = schedule->schedule_id;
      live->record.schedule_window_unix_ns = schedule->window_unix_ns;
      live->record.sampling_weight = schedule->sampling_weight;
      if (schedule->common_start.has_value()) HoldForCommonStart(*live, *schedule->common_start);
    }
  }
  absl::StatusOr<std::vector<CaptureRecord>> records = BeginAll(std::move(lives), schedule);
  if (!records.ok()) return NameEvicted(records.status(), first_id, principal);
  if (group) KeepGroup(caller, *records);
  Rearm();
  return records;
}

absl::Status CaptureManager::Actor::NameEvicted(absl::Status status, std::string_view id,
                                                std::string_view principal) {
  const absl::StatusOr<EvictedCaptures> evicted = store_.ListEvictedFor(id, principal);
  if (!evicted.ok()) {
    LogWarning(StrCat("capture=", id, " evicted captures: ", evicted.status().ToString()));
    return status;
  }
  if (evicted->count == 0) return status;
  std::string text =
      StrCat(FromAbsl(status.message()), "; to make room, the events of ", evicted->count,
             evicted->count == 1 ? " older capture" : " older captures");
  const int64_t named = std::ssize(evicted->ids);
  if (named == 0) {
    text += " of other users were removed";
  } else {
    text += " were removed: ";
    for (int64_t i = 0; i < named; ++i) StrAppend(&text, i == 0 ? "" : ", ", evicted->ids[i]);
    if (named < evicted->count) {
      const bool is_cut = named >= EvictedCaptures::kMostIds;
      StrAppend(&text, ", and ", evicted->count - named, is_cut ? " more" : " of other users");
    }
  }
  const std::string reason = ReasonOf(status);
  status = absl::Status(status.code(), text);
  return reason.empty() ? status : WithReason(std::move(status), reason);
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureManager::Actor::BeginAll(
    std::vector<std::unique_ptr<LiveCapture>> lives, const ScheduledBy* schedule) {
  std::vector<CaptureRecord> records;
  records.reserve(lives.size());
  for (std::unique_ptr<LiveCapture>& live : lives) {
    CaptureRecord record = live->record;
    absl::Status started = Begin(std::move(live));
    if (started.ok()) {
      ASSIGN_OR_RETURN(record, FindRecord(record.id));
      // It got its target from a schedule's capture, and could not be armed.
      if (schedule == nullptr && record.state == CaptureState::kFailed) {
        started =
            WithReason(absl::FailedPreconditionError(record.error_message), record.error_reason);
      }
    }
    if (!started.ok()) {
      // All or none: those already arming are ended as if the caller had cancelled.
      for (const CaptureRecord& other : records) {
        if (LiveCapture* member = FindLive(other.id)) End(*member, EndedBy::kCancel);
      }
      return started;
    }
    records.push_back(std::move(record));
  }
  return records;
}

absl::StatusOr<CaptureRecord> CaptureManager::Actor::CreateScheduled(const Caller& caller,
                                                                     TargetNumber target,
                                                                     const CaptureSpec& spec,
                                                                     const ScheduledBy& schedule,
                                                                     OnChange on_change) {
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> records,
                   Create(caller, {target}, spec, "", /*group=*/false, &schedule));
  CaptureRecord& record = records.front();
  if (!IsTerminal(record.state)) {
    watches_.emplace(next_watch_++, Watcher{record.id, std::move(on_change)});
  }
  return std::move(record);
}

// ---- quotas ----

absl::Status CaptureManager::Actor::CountRequest(const quota::Principal& holder, int64_t count) {
  if (options_.ledger == nullptr) return absl::OkStatus();
  return options_.ledger->Reserve(holder, quota::Resource::kCaptureRequests, count).status();
}

absl::StatusOr<quota::Reservation> CaptureManager::Actor::ReservePlaces(
    const quota::Principal& holder, int64_t count) {
  if (options_.ledger == nullptr) return quota::Reservation();
  auto places = options_.ledger->Reserve(holder, quota::Resource::kLiveCaptures, count);
  if (!places.ok()) return WithReason(places.status(), "CAPTURE_LIMIT");
  return places;
}

int64_t CaptureManager::Actor::MemoryOfEach(const quota::Principal& holder, const CaptureSpec& spec,
                                            int64_t count) const {
  const bool is_default = spec.memory_bytes == kDefaultCaptureMemoryBytes;
  if (options_.ledger == nullptr || count < 2 || (!is_default && !spec.allow_less_memory)) {
    return spec.memory_bytes;
  }
  const int64_t left = options_.ledger->Available(holder, quota::Resource::kCaptureMemory);
  // Ingest rounds up to whole chunks: a share that is not whole would not fit for the last one.
  const int64_t share = left / count / kMemoryGrainBytes * kMemoryGrainBytes;
  const int64_t least = spec.allow_less_memory ? kMinMemoryBytes : kMinSharedMemoryBytes;
  return std::clamp(share, std::min(least, spec.memory_bytes), spec.memory_bytes);
}

int64_t CaptureManager::Actor::FittingInMemory(const quota::Principal& holder, int64_t each_bytes,
                                               int64_t count) const {
  // A single capture that does not fit is refused when it is armed, with the same reason.
  if (options_.ledger == nullptr || count < 2) return count;
  const int64_t left = options_.ledger->Available(holder, quota::Resource::kCaptureMemory);
  return std::min(count, left / each_bytes);
}

absl::Status CaptureManager::Actor::MemoryShortage(const quota::Principal& holder,
                                                   int64_t each_bytes, int64_t count) const {
  constexpr auto kMemory = quota::Resource::kCaptureMemory;
  constexpr int64_t kMiB = 1 << 20;
  const int64_t left = options_.ledger->Available(holder, kMemory);
  const int64_t each_mib = left / count / kMiB;
  return WithReason(
      absl::ResourceExhaustedError(StrCat(
          count, " captures of ", quota::FormatAmount(kMemory, each_bytes), " each need ",
          quota::FormatAmount(kMemory, count * each_bytes), " of capture memory; ",
          quota::FormatAmount(kMemory, left), " of this node's ",
          quota::FormatAmount(kMemory, options_.ledger->limit(kMemory).capacity), " are left for ",
          holder.name, "; ",
          each_mib > 0 ? StrCat("ask for at most ", each_mib, " MiB each, capture fewer processes")
                       : std::string("retry later"),
          ", or raise profd's max-capture-memory")),
      "MEMORY_CAP");
}

std::unique_ptr<LiveCapture> CaptureManager::Actor::NewLive(const Caller& caller, TargetInfo target,
                                                            const CaptureSpec& spec,
                                                            const FirePlan& plan) {
  auto live = std::make_unique<LiveCapture>();
  live->target = target.number;
  live->holder = QuotaPrincipalOf(caller.principal);
  live->plan = plan;
  live->memory_bytes = spec.memory_bytes;
  CaptureRecord& record = live->record;
  record.id = NewUlid(clock_.Now());
  record.spec = spec;
  record.requested_by_uid = caller.uid;
  record.requested_by = PrincipalName(caller.principal);
  record.current_step = CountsOwnSteps(spec) ? -1 : target.current_step;
  record.target = std::move(target);
  record.node = options_.node_name;
  record.create_time = clock_.Now();
  record.end_time = absl::InfiniteFuture();
  record.armed_time = absl::InfinitePast();
  live->begun = clock_.Monotonic();
  live->arm_deadline = live->begun + options_.arm_timeout;
  live->deadline = live->begun + spec.timeout;
  return live;
}

absl::Status CaptureManager::Actor::Begin(std::unique_ptr<LiveCapture> live) {
  const TargetNumber target = live->target;
  const bool is_scheduled = !live->record.schedule_id.empty();
  live->waits_for_target = HolderOf(target) != nullptr;
  if (live->waits_for_target) live->arm_deadline = absl::InfiniteDuration();
  RETURN_IF_ERROR(Start(std::move(live)));
  // Only now: a request that could not even begin takes nothing from a schedule.
  if (!is_scheduled) Preempt(target);
  return absl::OkStatus();
}

void CaptureManager::Actor::Preempt(TargetNumber target) {
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) {
    if (live->target != target || live->drained || live->record.schedule_id.empty()) continue;
    // Those that wait end first, so that none of them gets the target.
    ids.insert(live->waits_for_target ? ids.begin() : ids.end(), id);
  }
  for (const std::string& id : ids) {
    if (LiveCapture* const live = FindLive(id)) End(*live, EndedBy::kPreempted);
  }
}

absl::Status CaptureManager::Actor::Start(std::unique_ptr<LiveCapture> live) {
  ASSIGN_OR_RETURN(live->sink, store_.CreateFile(live->record));
  if (absl::Status inserted = store_.InsertCapture(live->record); !inserted.ok()) {
    live->sink->Discard();
    return inserted;
  }
  LiveCapture& started = *live;
  index_.Put(started.record);
  live_.emplace(live->record.id, std::move(live));
  const bool is_far =
      started.common.has_value() && started.common->arm_at != absl::InfiniteDuration();
  return started.waits_for_target || is_far ? absl::OkStatus() : Arm(started);
}

absl::Status CaptureManager::Actor::Arm(LiveCapture& live) {
  const ArmRequest request{.capture_id = live.record.id,
                           .holder = live.holder,
                           .memory_bytes = live.memory_bytes,
                           .allow_less_memory = live.record.spec.allow_less_memory,
                           .gpu = live.record.spec.gpu,
                           .torch = live.record.spec.torch,
                           .step_marker = live.record.spec.step_marker,
                           .time_left = live.deadline - clock_.Monotonic()};
  SetState(live, CaptureState::kArming);
  const auto disturbed = disturbed_.find(live.target);
  if (disturbed != disturbed_.end()) live.steps.SetDisturbed(disturbed->second);
  live.steps.Observe(targets_.GetRecentSteps(live.target));
  absl::Status armed = targets_.Arm(live.target, request, *live.sink);
  if (armed.ok()) return armed;
  // It is on record already: say there what the caller is told.
  live.cause = EndedBy::kArmFailed;
  live.record.error_reason = ReasonOf(armed);
  live.record.error_message = std::string(armed.message());
  live.sink->Discard();
  Conclude(live.cause, live.record);
  Terminate(std::string(live.record.id));
  return armed;
}

LiveCapture* CaptureManager::Actor::HolderOf(TargetNumber target) {
  for (const auto& [id, live] : live_) {
    if (live->target == target && !live->drained && !live->waits_for_target) return live.get();
  }
  return nullptr;
}

// ---- asking ----

const LiveCapture* CaptureManager::Actor::FindLive(std::string_view id) const {
  const auto it = live_.find(id);
  return it == live_.end() ? nullptr : it->second.get();
}
LiveCapture* CaptureManager::Actor::FindLive(std::string_view id) {
  return const_cast<LiveCapture*>(std::as_const(*this).FindLive(id));
}

absl::StatusOr<CaptureRecord> CaptureManager::Actor::FindRecord(std::string_view id) {
  if (const LiveCapture* live = FindLive(id)) return live->record;
  if (const auto unsaved = unsaved_.find(id); unsaved != unsaved_.end()) {
    return unsaved->second.record;
  }
  absl::StatusOr<CaptureRecord> stored = store_.GetCapture(id);
  if (absl::IsNotFound(stored.status())) return NoSuchCapture(id);
  return stored;
}

absl::StatusOr<CaptureRecord> CaptureManager::Actor::Get(const Caller& caller,
                                                         std::string_view id) {
  ASSIGN_OR_RETURN(CaptureRecord record, FindRecord(id));
  // As if it did not exist, because the caller must not learn of it.
  if (!caller.May(Verb::kList, OwnerOf(record))) return NoSuchCapture(id);
  return record;
}

absl::StatusOr<CaptureRecord> CaptureManager::Actor::Cancel(const Caller& caller,
                                                            std::string_view id) {
  ASSIGN_OR_RETURN(CaptureRecord record, Get(caller, id));
  if (!caller.May(Verb::kCapture, OwnerOf(record))) {
    return NotAllowed(caller, Verb::kCapture, StrCat("target of capture ", id));
  }
  LiveCapture* live = FindLive(id);
  if (live == nullptr) return record;
  End(*live, EndedBy::kCancel);
  return Get(caller, id);  // One that waited for its target is over already.
}

absl::StatusOr<CaptureRecord> CaptureManager::Actor::Delete(const Caller& caller,
                                                            std::string_view id) {
  ASSIGN_OR_RETURN(CaptureRecord record, Get(caller, id));
  if (!caller.May(Verb::kDelete, OwnerOf(record))) {
    return NotAllowed(caller, Verb::kDelete, StrCat("capture ", id));
  }
  if (record.deleted) {
    return absl::NotFoundError(StrCat("capture ", id, ": ", WhyEventsAreGone(record),
                                      " already; what `profctl show` prints of it is kept"));
  }
  if (FindLive(id) != nullptr) {
    return WithReason(absl::FailedPreconditionError(
                          StrCat("capture ", id, " is live; `profctl cancel ", id, "` it first")),
                      "CAPTURE_LIVE");
  }
  if (const auto unsaved = unsaved_.find(id); unsaved != unsaved_.end()) {
    RETURN_IF_ERROR(Save(unsaved->second));
    unsaved_.erase(unsaved);
  }
  RETURN_IF_ERROR(store_.DeleteCapture(id));
  LogInfo(StrCat("capture=", id, " deleted by ", PrincipalName(caller.principal)));
  return store_.GetCapture(id);
}

void CaptureManager::Actor::ForbidCaptures(std::optional<std::string> reason) {
  forbidden_ = std::move(reason);
  if (!forbidden_.has_value()) return;
  std::vector<std::string> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const std::string& id : ids) {
    if (LiveCapture* live = FindLive(id)) End(*live, EndedBy::kOptOut);
  }
  Rearm();
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureManager::Actor::Live() {
  std::vector<CaptureRecord> records;
  for (const auto& [id, live] : live_) records.push_back(live->record);
  for (const auto& [id, unsaved] : unsaved_) records.push_back(unsaved.record);
  return records;
}

absl::StatusOr<CaptureManager::WatchId> CaptureManager::Actor::Watch(const Caller& caller,
                                                                     std::string_view id,
                                                                     OnChange on_change) {
  ASSIGN_OR_RETURN(const CaptureRecord record, Get(caller, id));
  const WatchId watch = next_watch_++;
  on_change(record);
  if (!IsTerminal(record.state)) {
    watches_.emplace(watch, Watcher{std::string(id), std::move(on_change)});
  }
  return watch;
}

void CaptureManager::Actor::StopWatching(WatchId watch) {
  if (watches_.erase(watch) > 0) return;
  for (auto& [id, group] : held_) {
    if (group.watch != watch) continue;
    group.on_change = nullptr;
    ShortenLease(group);
  }
}

}  // namespace profd
