#include "daemon/rpc/admission/work_queue.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace profd::rpc {

WorkQueue::WorkQueue(Options options) : options_(std::move(options)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkQueue::~WorkQueue() { Stop(); }

bool WorkQueue::TryPost(std::string_view principal, std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  if (stopped_ || waiting_ >= options_.max_waiting) return false;
  const auto lane = lanes_.find(principal);
  if (lane != lanes_.end() && lane->second.waiting >= options_.max_waiting_per_principal) {
    return false;
  }
  Add(principal, {.work = std::move(work), .counts = true});
  return true;
}

bool WorkQueue::Post(std::string_view principal, std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  if (stopped_) return false;
  Add(principal, {.work = std::move(work)});
  return true;
}

void WorkQueue::Add(std::string_view principal, Item item) {
  const auto it = lanes_.try_emplace(std::string(principal)).first;
  Lane& lane = it->second;
  // A lane is in the queue of turns once, however much it has, so a principal with much work waits
  // as long between two pieces as one with little.
  if (lane.items.empty()) turns_.push_back(it);
  if (item.counts) {
    ++lane.waiting;
    ++waiting_;
  }
  lane.items.push_back(std::move(item));
}

void WorkQueue::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  threads_.clear();
}

bool WorkQueue::MayRun(const Lane& lane) const {
  // What is left once it was stopped runs as fast as it can.
  return stopped_ || options_.threads == 1 || lane.running < options_.threads - 1;
}

bool WorkQueue::HasWorkOrStopped() const {
  return stopped_ ||
         std::ranges::any_of(turns_, [&](Lanes::iterator lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
           return MayRun(lane->second);
         });
}

WorkQueue::Lanes::iterator WorkQueue::Next(Item& item) {
  const auto turn =
      std::ranges::find_if(turns_, [&](Lanes::iterator lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return MayRun(lane->second);
      });
  if (turn == turns_.end()) return lanes_.end();
  const Lanes::iterator it = *turn;
  turns_.erase(turn);
  Lane& lane = it->second;
  item = std::move(lane.items.front());
  lane.items.pop_front();
  if (item.counts) {
    --lane.waiting;
    --waiting_;
  }
  if (!lane.items.empty()) turns_.push_back(it);
  ++lane.running;
  return it;
}

void WorkQueue::Loop() {
  pthread_setname_np(pthread_self(), options_.thread_name.c_str());
  WatchedThread watched(options_.watchdog, options_.thread_name, Watchdog::Work::kDisk,
                        [this] { absl::MutexLock lock(&mu_); });
  while (true) {
    Item item;
    Lanes::iterator lane;
    watched.Waits();
    {
      absl::MutexLock lock(&mu_);
      const auto is_wanted = [this, &watched]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        return HasWorkOrStopped() || watched.asked();
      };
      mu_.Await(absl::Condition(&is_wanted));
      lane = Next(item);
      if (lane == lanes_.end()) {
        if (stopped_) return;
        continue;  // The watchdog asked.
      }
    }
    watched.Works();
    item.work();
    item.work = nullptr;  // What it kept is gone before its principal's turn ends.
    absl::MutexLock lock(&mu_);
    if (--lane->second.running == 0 && lane->second.items.empty()) lanes_.erase(lane);
  }
}

}  // namespace profd::rpc
