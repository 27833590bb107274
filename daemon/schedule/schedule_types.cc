#include "daemon/schedule/schedule_types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace profd {
namespace {

template <typename T, size_t kCount>
using Names = std::array<std::pair<T, std::string_view>, kCount>;

template <typename T, size_t kCount>
std::string_view NameOf(const Names<T, kCount>& names, T value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "unknown";
}

template <typename T, size_t kCount>
std::optional<T> ValueOf(const Names<T, kCount>& names, std::string_view text) {
  for (const auto& [value, name] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

constexpr Names<SampleUnit, 3> kUnits = {{
    {SampleUnit::kNodes, "nodes"},
    {SampleUnit::kTargets, "targets"},
    {SampleUnit::kJobs, "jobs"},
}};

constexpr Names<ScheduleState, 4> kStates = {{
    {ScheduleState::kActive, "ACTIVE"},
    {ScheduleState::kPaused, "PAUSED"},
    {ScheduleState::kEnded, "ENDED"},
    {ScheduleState::kDeleted, "DELETED"},
}};

constexpr Names<DeclaredChange, 4> kChanges = {{
    {DeclaredChange::kNone, "unchanged"},
    {DeclaredChange::kCreated, "created"},
    {DeclaredChange::kUpdated, "updated"},
    {DeclaredChange::kDeleted, "deleted"},
}};

constexpr Names<WindowOutcome, 11> kOutcomes = {{
    {WindowOutcome::kCaptured, "captured"},
    {WindowOutcome::kNotChosen, "not_chosen"},
    {WindowOutcome::kNoTarget, "no_target"},
    {WindowOutcome::kBusy, "busy"},
    {WindowOutcome::kOverBudget, "over_budget"},
    {WindowOutcome::kBackedOff, "backed_off"},
    {WindowOutcome::kPaused, "paused"},
    {WindowOutcome::kMissed, "missed"},
    {WindowOutcome::kSwitchedOff, "switched_off"},
    {WindowOutcome::kNotAllowed, "not_allowed"},
    {WindowOutcome::kFailed, "failed"},
}};

}  // namespace

std::string_view ToString(SampleUnit unit) { return NameOf(kUnits, unit); }
std::optional<SampleUnit> SampleUnitFromString(std::string_view text) {
  return ValueOf(kUnits, text);
}

std::string_view ToString(DeclaredChange change) { return NameOf(kChanges, change); }
std::string_view ToString(ScheduleState state) { return NameOf(kStates, state); }
std::string_view ToString(WindowOutcome outcome) { return NameOf(kOutcomes, outcome); }
std::optional<WindowOutcome> WindowOutcomeFromString(std::string_view text) {
  return ValueOf(kOutcomes, text);
}

bool Matches(const TargetSelector& selector, const TargetInfo& target) {
  if (!selector.job.empty() && selector.job != JobOf(target)) return false;
  if (!selector.ranks.empty() &&
      std::ranges::find(selector.ranks, RankOf(target)) == selector.ranks.end()) {
    return false;
  }
  if (target.command.find(selector.command) == std::string::npos) return false;
  if (!selector.pod_namespace.empty() && selector.pod_namespace != target.workload.pod_namespace) {
    return false;
  }
  if (selector.uid.has_value() && *selector.uid != target.uid) return false;
  return std::ranges::all_of(selector.metadata, [&target](const auto& wanted) {
    const auto found = target.metadata.find(wanted.first);
    return found != target.metadata.end() && found->second == wanted.second;
  });
}

bool SameButNodes(const ScheduleSpec& a, const ScheduleSpec& b) {
  ScheduleSpec placed = a;
  placed.nodes = b.nodes;
  return placed == b;
}

bool SameSchedule(const ScheduleSpec& a, const ScheduleSpec& b) {
  return NodesDecide(a) ? a == b : SameButNodes(a, b);
}

ScheduleState StateOf(const ScheduleRecord& record, absl::Time now) {
  if (record.delete_time != absl::InfiniteFuture()) return ScheduleState::kDeleted;
  if (now > record.spec.end_time) return ScheduleState::kEnded;
  return record.paused ? ScheduleState::kPaused : ScheduleState::kActive;
}

Ownership OwnerOf(const ScheduleRecord& record) { return {.uid = record.creator.uid}; }

}  // namespace profd
