#include "daemon/capture/capture_manager.h"

#include <utility>

#include "daemon/base/status_macros.h"
#include "daemon/capture/capture_actor.h"

namespace profd {

CaptureManager::CaptureManager(Options options, TargetPort& targets, StorePort& store, Clock& clock)
    : actor_(std::make_unique<Actor>(std::move(options), targets, store, clock)) {}

CaptureManager::~CaptureManager() { Shutdown(); }

void CaptureManager::Shutdown() { actor_->Stop(); }

absl::StatusOr<CaptureRecord> CaptureManager::Create(const Caller& caller, TargetNumber target,
                                                     const CaptureSpec& spec,
                                                     std::string_view request_id) {
  ASSIGN_OR_RETURN(std::vector<CaptureRecord> records, actor_->Run([&] {
    return actor_->Create(caller, {target}, spec, request_id, /*group=*/false);
  }));
  return std::move(records.front());
}

absl::StatusOr<std::vector<CaptureRecord>> CaptureManager::CreateGroup(
    const Caller& caller, const std::vector<TargetNumber>& targets, const CaptureSpec& spec,
    std::string_view request_id) {
  return actor_->Run(
      [&] { return actor_->Create(caller, targets, spec, request_id, /*group=*/true); });
}

absl::StatusOr<CaptureRecord> CaptureManager::CreateScheduled(const Caller& caller,
                                                              TargetNumber target,
                                                              const CaptureSpec& spec,
                                                              const ScheduledBy& schedule,
                                                              OnChange on_change) {
  return actor_->Run([&] {
    return actor_->CreateScheduled(caller, target, spec, schedule, std::move(on_change));
  });
}

absl::StatusOr<CaptureRecord> CaptureManager::Get(const Caller& caller, std::string_view id) {
  return actor_->Run([&] { return actor_->Get(caller, id); });
}

absl::StatusOr<CaptureRecord> CaptureManager::Cancel(const Caller& caller, std::string_view id) {
  return actor_->RunEnding([&] { return actor_->Cancel(caller, id); },
                           [&] { return actor_->index().ListCancellable(caller, id); });
}

absl::StatusOr<CaptureRecord> CaptureManager::Delete(const Caller& caller, std::string_view id) {
  return actor_->Run([&] { return actor_->Delete(caller, id); });
}

absl::StatusOr<int64_t> CaptureManager::PrepareGroup(const Caller& caller,
                                                     const GroupRequest& request,
                                                     OnPreparation on_change) {
  return actor_->Run([&] { return actor_->PrepareGroup(caller, request, std::move(on_change)); });
}

absl::StatusOr<std::vector<MemberStart>> CaptureManager::CommitGroup(const Caller& caller,
                                                                     std::string_view group_id,
                                                                     const GroupStart& start) {
  return actor_->Run([&] { return actor_->CommitGroup(caller, group_id, start); });
}

absl::Status CaptureManager::AbortGroup(const Caller& caller, std::string_view group_id) {
  return actor_->RunEnding([&] { return actor_->AbortGroup(caller, group_id); },
                           [&] { return actor_->index().ListAbortable(caller, group_id); });
}

absl::Status CaptureManager::CloseGroup(const Caller& caller, std::string_view group_id,
                                        std::vector<GroupMember> members) {
  return actor_->Run([&] { return actor_->CloseGroup(caller, group_id, std::move(members)); });
}

void CaptureManager::ForbidCaptures(std::optional<std::string> reason) {
  const bool ends = reason.has_value();
  (void)actor_->RunEnding(
      [&] {
        actor_->ForbidCaptures(std::move(reason));
        return absl::OkStatus();
      },
      [&] { return ends ? actor_->index().ListAll() : std::vector<std::string>(); });
}

std::vector<CaptureRecord> CaptureManager::Live() {
  auto records = actor_->Run([&] { return actor_->Live(); });
  return records.ok() ? *std::move(records) : std::vector<CaptureRecord>();
}

int64_t CaptureManager::live_count() const { return actor_->index().size(); }

absl::StatusOr<CaptureManager::WatchId> CaptureManager::Watch(const Caller& caller,
                                                              std::string_view id,
                                                              OnChange on_change) {
  return actor_->Run([&] { return actor_->Watch(caller, id, std::move(on_change)); });
}

void CaptureManager::StopWatching(WatchId watch) {
  actor_->queue().Call([&] { actor_->StopWatching(watch); });
}

void CaptureManager::OnTargetAdded(TargetNumber) {}

void CaptureManager::OnTargetGone(TargetNumber target) {
  actor_->queue().Post([this, target] { actor_->TargetGone(target); });
}

void CaptureManager::OnTargetOptedOut(TargetNumber target) {
  actor_->queue().Post([this, target] { actor_->TargetOptedOut(target); });
}

void CaptureManager::OnArmed(std::string_view capture_id) {
  actor_->queue().Post([this, id = std::string(capture_id)] { actor_->Armed(id); });
}

void CaptureManager::OnArming(std::string_view capture_id, std::string_view activity) {
  actor_->queue().Post([this, id = std::string(capture_id), activity = std::string(activity)] {
    actor_->Arming(id, activity);
  });
}

void CaptureManager::OnArmFailed(std::string_view capture_id, absl::Status why) {
  actor_->queue().Post(
      [this, id = std::string(capture_id), why = std::move(why)] { actor_->ArmFailed(id, why); });
}

void CaptureManager::OnProgress(std::string_view capture_id, const Progress& progress) {
  actor_->queue().Post(
      [this, id = std::string(capture_id), progress] { actor_->Progressed(id, progress); });
}

void CaptureManager::OnDrained(std::string_view capture_id, DrainResult result) {
  actor_->queue().Post([this, id = std::string(capture_id), result = std::move(result)] {
    actor_->Drained(id, result);
  });
}

void CaptureManager::DrainForTesting() {
  actor_->queue().Call([] {});
  actor_->store_queue().Call([] {});
  actor_->queue().Call([] {});
}

void CaptureManager::RunTimersForTesting() {
  actor_->queue().Call([this] { actor_->OnTimer(); });
}

}  // namespace profd
