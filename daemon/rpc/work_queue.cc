#include "daemon/rpc/work_queue.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace profd::rpc {
namespace {

// linux/ioprio.h is not in the C library's headers.
constexpr int kIoprioWhoProcess = 1;
constexpr int kIoprioClassIdle = 3;
constexpr int kIoprioClassShift = 13;
constexpr int kNicest = 19;

// On Linux both take a thread's id. Refusals (a seccomp filter) leave the thread as it is.
void YieldToTraining() {
  const auto tid = static_cast<id_t>(syscall(SYS_gettid));
  setpriority(PRIO_PROCESS, tid, kNicest);
  syscall(SYS_ioprio_set, kIoprioWhoProcess, tid, kIoprioClassIdle << kIoprioClassShift);
}

}  // namespace

WorkQueue::WorkQueue(Options options) : options_(std::move(options)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkQueue::~WorkQueue() { Stop(); }

bool WorkQueue::TryPost(std::string_view principal, std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  if (stopped_ || std::ssize(items_) >= options_.max_waiting) return false;
  int64_t& waiting = waiting_by_principal_[std::string(principal)];
  if (waiting >= options_.max_waiting_per_principal) return false;
  ++waiting;
  items_.push_back({std::string(principal), std::move(work)});
  return true;
}

bool WorkQueue::Post(std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  if (stopped_) return false;
  items_.push_back({{}, std::move(work)});
  return true;
}

void WorkQueue::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopped_ = true;
  }
  threads_.clear();
}

bool WorkQueue::HasWorkOrStopped() const { return stopped_ || !items_.empty(); }

void WorkQueue::Loop() {
  pthread_setname_np(pthread_self(), options_.thread_name.c_str());
  if (options_.background) YieldToTraining();
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &WorkQueue::HasWorkOrStopped));
      if (items_.empty()) return;
      Item& item = items_.front();
      if (const auto waiting = waiting_by_principal_.find(item.principal);
          !item.principal.empty() && --waiting->second == 0) {
        waiting_by_principal_.erase(waiting);
      }
      work = std::move(item.work);
      items_.pop_front();
    }
    work();
  }
}

}  // namespace profd::rpc
