#include "daemon/worker/fair_turns.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace profd::worker {

FairTurns::FairTurns(Options options)
    : options_(std::move(options)), lanes_(static_cast<size_t>(options_.lanes)) {}

int FairTurns::FreeLanes() const {
  return static_cast<int>(std::ranges::count(lanes_, LaneState::kFree, &Lane::state));
}

bool FairTurns::idle() const { return waiting_ == 0 && FreeLanes() == options_.lanes; }

FairTurns::Principal& FairTurns::Activate(std::string_view name) {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [other, principal] : principals_) {
    if (principal.active()) least = std::min(least, principal.used);
  }
  auto found = principals_.find(name);
  if (found == principals_.end()) found = principals_.emplace(name, Principal()).first;
  Principal& mine = found->second;
  // A principal that comes back does not get all the time that it did not use meanwhile: it begins
  // level with the one that has used least.
  if (!mine.active() && least != absl::InfiniteDuration()) mine.used = std::max(mine.used, least);
  return mine;
}

bool FairTurns::Add(std::string_view principal, JobId job, absl::Duration now) {
  if (waiting_ >= options_.max_waiting && principal != options_.root_principal) return false;
  Principal& mine = Activate(principal);
  if (std::ssize(mine.waiting) >= options_.max_waiting_per_principal) return false;
  mine.waiting.push_back({.id = job, .since = now});
  ++waiting_;
  return true;
}

bool FairTurns::MayTakeLane(std::string_view name, const Principal& principal) const {
  const int free = FreeLanes();
  if (free == 0) return false;
  if (principal.lanes > 0) return free > 2 * principal.lanes;
  // With a single lane there is nothing to keep.
  if (free > 1 || options_.lanes == 1 || name == options_.root_principal) return true;
  const auto root = principals_.find(options_.root_principal);
  return root != principals_.end() && root->second.lanes > 0;
}

int FairTurns::WantingLane(std::string_view name) const {
  int found = -1;
  for (int i = 0; i < options_.lanes; ++i) {
    const Lane& lane = lanes_[static_cast<size_t>(i)];
    if (lane.state != LaneState::kWants || lane.principal != name) continue;
    if (found < 0 || lane.served < lanes_[static_cast<size_t>(found)].served) found = i;
  }
  return found;
}

std::optional<FairTurns::Turn> FairTurns::Next(absl::Duration now) {
  if (holder_.has_value()) return std::nullopt;
  auto next = principals_.end();
  for (auto it = principals_.begin(); it != principals_.end(); ++it) {
    const Principal& principal = it->second;
    const bool can_begin = !principal.waiting.empty() && MayTakeLane(it->first, principal);
    if (!can_begin && WantingLane(it->first) < 0) continue;
    if (next == principals_.end() || std::tie(principal.used, principal.served) <
                                         std::tie(next->second.used, next->second.served)) {
      next = it;
    }
  }
  if (next == principals_.end()) return std::nullopt;

  Principal& principal = next->second;
  Turn turn;
  // A new report first: it may be a short one.
  if (!principal.waiting.empty() && MayTakeLane(next->first, principal)) {
    const auto free = std::ranges::find(lanes_, LaneState::kFree, &Lane::state);
    turn = {.lane = static_cast<int>(free - lanes_.begin()), .job = principal.waiting.front().id};
    principal.waiting.pop_front();
    --waiting_;
    ++principal.lanes;
    *free = {.principal = next->first, .since = now};
  } else {
    turn.lane = WantingLane(next->first);
  }
  Lane& lane = lanes_[static_cast<size_t>(turn.lane)];
  lane.state = LaneState::kHasTurn;
  lane.served = principal.served = ++turns_;
  holder_ = turn.lane;
  return turn;
}

void FairTurns::Charge(std::string_view name, absl::Duration used) {
  const auto found = principals_.find(name);
  if (found != principals_.end()) found->second.used += used;
}

void FairTurns::Leave(int index, absl::Duration used, Then then) {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  if (holder_ == index) holder_.reset();
  lane.state = then == Then::kWants ? LaneState::kWants : LaneState::kAway;
  Charge(lane.principal, used);
}

void FairTurns::Want(int index) {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  if (lane.state == LaneState::kAway) lane.state = LaneState::kWants;
}

void FairTurns::End(int index, absl::Duration used) {
  Lane& lane = lanes_[static_cast<size_t>(index)];
  if (holder_ == index) holder_.reset();
  Charge(lane.principal, used);
  if (const auto found = principals_.find(lane.principal); found != principals_.end()) {
    --found->second.lanes;
  }
  lane = Lane();
  ForgetIdle();
}

// A principal that has used more than all who are active keeps its figure: it must not get rid of
// it by a short pause.
void FairTurns::ForgetIdle() {
  absl::Duration least = absl::InfiniteDuration();
  for (const auto& [name, principal] : principals_) {
    if (principal.active()) least = std::min(least, principal.used);
  }
  std::erase_if(principals_, [least](const auto& entry) {
    return !entry.second.active() && entry.second.used <= least;
  });
}

bool FairTurns::OthersWant(int index) const {
  return std::ranges::any_of(principals_, [&](const auto& entry) {
    const auto& [name, principal] = entry;
    if (!principal.waiting.empty() && MayTakeLane(name, principal)) return true;
    const int wanting = WantingLane(name);
    return wanting >= 0 && wanting != index;
  });
}

std::optional<int> FairTurns::LaneToEnd(absl::Duration now) const {
  const bool crowded = std::ranges::any_of(principals_, [&](const auto& entry) {
    const Principal& principal = entry.second;
    return principal.lanes == 0 && !principal.waiting.empty() &&
           now - principal.waiting.front().since >= options_.crowded_wait &&
           !MayTakeLane(entry.first, principal);
  });
  if (!crowded) return std::nullopt;
  std::optional<int> longest;
  for (int i = 0; i < options_.lanes; ++i) {
    const Lane& lane = lanes_[static_cast<size_t>(i)];
    if (lane.state == LaneState::kFree || now - lane.since < options_.crowded_hold) continue;
    if (!longest.has_value() || lane.since < lanes_[static_cast<size_t>(*longest)].since) {
      longest = i;
    }
  }
  return longest;
}

}  // namespace profd::worker
