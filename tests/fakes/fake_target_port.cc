#include "tests/fakes/fake_target_port.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "daemon/base/str_cat.h"

namespace profd {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);

// What absl::Condition waits for; it takes a pointer to one.
template <typename Container>
struct AtLeast {
  const Container* calls;
  size_t count;
  bool operator()() const { return calls->size() >= count; }
};

}  // namespace

void FakeTargetPort::SetObserver(TargetPort::Observer* observer) {
  absl::MutexLock lock(&mu_);
  observer_ = observer;
}

TargetPort::Observer* FakeTargetPort::observer() const {
  absl::MutexLock lock(&mu_);
  return observer_;
}

TargetNumber FakeTargetPort::Add(TargetInfo info) {
  {
    absl::MutexLock lock(&mu_);
    if (info.number == 0) info.number = last_number_ + 1;
    last_number_ = std::max(last_number_, info.number);
    targets_[info.number] = info;
  }
  if (auto* o = observer()) o->OnTargetAdded(info.number);
  return info.number;
}

void FakeTargetPort::Change(TargetNumber target, const std::function<void(TargetInfo&)>& change) {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it != targets_.end()) change(it->second);
}

void FakeTargetPort::SetMedianStepNs(TargetNumber target, int64_t median_ns) {
  absl::MutexLock lock(&mu_);
  median_step_ns_[target] = median_ns;
}

void FakeTargetPort::RunSteps(TargetNumber target, int64_t count, int64_t duration_ns) {
  constexpr size_t kShown = 63;
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return;
  std::vector<StepTime>& steps = recent_steps_[target];
  for (int64_t i = 0; i < count; ++i) {
    steps.push_back({.step = it->second.current_step, .duration_ns = duration_ns});
    it->second.step_mark_count = ++it->second.current_step + 1;
  }
  if (steps.size() > kShown) steps.erase(steps.begin(), steps.end() - kShown);
}

void FakeTargetPort::Remove(TargetNumber target) {
  std::string capture_id;
  bool armed = false;
  {
    absl::MutexLock lock(&mu_);
    if (targets_.erase(target) == 0) return;
    for (const auto& [id, live] : live_) {
      if (live.target != target) continue;
      capture_id = id;
      armed = live.armed || live.stop_asked;
    }
  }
  if (!capture_id.empty() && armed) {
    DrainResult result;
    result.target_gone = true;
    Drained(capture_id, std::move(result));
  } else if (!capture_id.empty()) {
    ArmFailed(capture_id, absl::NotFoundError("the target ended"));
  }
  if (auto* o = observer()) o->OnTargetGone(target);
}

void FakeTargetPort::SetState(TargetNumber target, TargetState state) {
  const auto it = targets_.find(target);
  if (it != targets_.end()) it->second.state = state;
}

bool FakeTargetPort::EndLive(std::string_view capture_id) {
  absl::MutexLock lock(&mu_);
  const auto it = live_.find(capture_id);
  if (it == live_.end()) return false;
  SetState(it->second.target, TargetState::kRunning);
  live_.erase(it);
  return true;
}

void FakeTargetPort::Armed(std::string_view capture_id) {
  {
    absl::MutexLock lock(&mu_);
    const auto it = live_.find(capture_id);
    if (it == live_.end()) return;
    it->second.armed = true;
  }
  if (auto* o = observer()) o->OnArmed(capture_id);
}

void FakeTargetPort::Arming(std::string_view capture_id, std::string_view activity) {
  if (auto* o = observer()) o->OnArming(capture_id, activity);
}

void FakeTargetPort::ArmFailed(std::string_view capture_id, absl::Status why) {
  if (!EndLive(capture_id)) return;
  if (auto* o = observer()) o->OnArmFailed(capture_id, std::move(why));
}

void FakeTargetPort::Reached(std::string_view capture_id, const Progress& progress) {
  if (auto* o = observer()) o->OnProgress(capture_id, progress);
}

void FakeTargetPort::Drained(std::string_view capture_id, DrainResult result) {
  if (!EndLive(capture_id)) return;
  if (auto* o = observer()) o->OnDrained(capture_id, std::move(result));
}

void FakeTargetPort::AnswerByItself(DrainResult result) {
  absl::MutexLock lock(&mu_);
  own_answer_ = std::move(result);
}

void FakeTargetPort::RefuseNextArm(absl::Status why) {
  absl::MutexLock lock(&mu_);
  refuse_ = std::move(why);
}

std::vector<FakeTargetPort::ArmCall> FakeTargetPort::arms() const {
  absl::MutexLock lock(&mu_);
  return arms_;
}

std::vector<FakeTargetPort::FireCall> FakeTargetPort::fires() const {
  absl::MutexLock lock(&mu_);
  return fires_;
}

std::vector<std::string> FakeTargetPort::stops() const {
  absl::MutexLock lock(&mu_);
  return stops_;
}

FakeTargetPort::ArmCall FakeTargetPort::LastArm() const {
  absl::MutexLock lock(&mu_);
  return arms_.empty() ? ArmCall{} : arms_.back();
}

bool FakeTargetPort::WaitForArms(size_t count) const {
  absl::MutexLock lock(&mu_);
  AtLeast<std::vector<ArmCall>> reached{&arms_, count};
  return mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience);
}

bool FakeTargetPort::WaitForFires(size_t count) const {
  absl::MutexLock lock(&mu_);
  AtLeast<std::vector<FireCall>> reached{&fires_, count};
  return mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience);
}

bool FakeTargetPort::WaitForStops(size_t count) const {
  absl::MutexLock lock(&mu_);
  AtLeast<std::vector<std::string>> reached{&stops_, count};
  return mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience);
}

std::vector<TargetInfo> FakeTargetPort::List() const {
  absl::MutexLock lock(&mu_);
  std::vector<TargetInfo> all;
  for (const auto& [number, info] : targets_) all.push_back(info);
  return all;
}

std::optional<TargetInfo> FakeTargetPort::Find(TargetNumber target) const {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return std::nullopt;
  return it->second;
}

int64_t FakeTargetPort::MedianStepNs(TargetNumber target, int64_t /*first_step*/,
                                     int64_t /*end_step*/) const {
  absl::MutexLock lock(&mu_);
  const auto it = median_step_ns_.find(target);
  return it == median_step_ns_.end() ? 0 : it->second;
}

RecentSteps FakeTargetPort::GetRecentSteps(TargetNumber target) const {
  absl::MutexLock lock(&mu_);
  const auto it = targets_.find(target);
  if (it == targets_.end()) return {};
  RecentSteps recent = {
      .source = it->second.step_source, .current_step = it->second.current_step, .steps = {}};
  const auto steps = recent_steps_.find(target);
  if (steps != recent_steps_.end()) recent.steps = steps->second;
  return recent;
}

absl::Status FakeTargetPort::Arm(TargetNumber target, const ArmRequest& request,
                                 CaptureSink& sink) {
  bool answer = false;
  {
    absl::MutexLock lock(&mu_);
    if (refuse_.has_value()) return *std::exchange(refuse_, std::nullopt);
    if (!targets_.contains(target)) {
      return absl::NotFoundError(StrCat("target ", target, " is gone"));
    }
    for (const auto& [id, live] : live_) {
      if (live.target == target) {
        return absl::FailedPreconditionError(StrCat("target ", target, " has capture ", id));
      }
    }
    live_[request.capture_id] = Live{.target = target};
    arms_.push_back({.target = target, .request = request, .sink = &sink});
    SetState(target, TargetState::kCapturing);
    answer = own_answer_.has_value();
  }
  if (answer) Armed(request.capture_id);
  return absl::OkStatus();
}

void FakeTargetPort::Fire(std::string_view capture_id, const FirePlan& plan) {
  absl::MutexLock lock(&mu_);
  fires_.push_back({.capture_id = std::string(capture_id), .plan = plan});
}

void FakeTargetPort::Stop(std::string_view capture_id) {
  std::optional<DrainResult> answer;
  {
    absl::MutexLock lock(&mu_);
    stops_.emplace_back(capture_id);
    const auto it = live_.find(capture_id);
    if (it == live_.end() || std::exchange(it->second.stop_asked, true)) return;
    answer = own_answer_;
  }
  if (answer.has_value()) Drained(capture_id, *std::move(answer));
}

}  // namespace profd
