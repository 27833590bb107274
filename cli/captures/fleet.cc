#include "cli/captures/fleet.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/base/errors.h"
#include "daemon/base/clock.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// A call, a TLS handshake and what `work` does; thousands of these must fit an address space
// that batch systems bound.
constexpr size_t kStackBytes = size_t{512} << 10;
// Below this many members the usual limit of open files will do.
constexpr size_t kFewMembers = 100;
constexpr rlim_t kFilesPerMember = 4;

// A thread with a small stack; joined when destroyed.
class SmallThread {
 public:
  SmallThread() = default;
  SmallThread(const SmallThread&) = delete;
  SmallThread& operator=(const SmallThread&) = delete;
  ~SmallThread() {
    if (started_) pthread_join(thread_, nullptr);
  }

  // False: the system has no thread for us.
  bool Start(void* (*main)(void*), void* argument) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    started_ = pthread_create(&thread_, &attributes, main, argument) == 0;
    pthread_attr_destroy(&attributes);
    return started_;
  }

 private:
  pthread_t thread_{};
  bool started_ = false;
};

// A connection is a few descriptors, and many users have 1024.
void AllowMoreFiles(size_t member_count) {
  rlimit limit{};
  if (member_count <= kFewMembers || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = 256 + kFilesPerMember * member_count;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Results in the order in which they come.
class ResultQueue {
 public:
  struct Result {
    size_t member;
    absl::Status status;
  };

  void Push(Result result) {
    const absl::MutexLock lock(&mu_);
    results_.push_back(std::move(result));
  }

  Result Pop() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](std::deque<Result>* results) { return !results->empty(); }, &results_));
    Result result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  absl::Mutex mu_;
  std::deque<Result> results_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

class Fleet::Impl {
 public:
  explicit Impl(std::vector<Member> members)
      : members_(std::move(members)), daemons_(members_.size()) {
    AllowMoreFiles(members_.size());
  }

  const std::vector<Member>& members() const { return members_; }

  DaemonClient* connection(size_t member) {
    const absl::MutexLock lock(&mu_);
    return daemons_[member].get();
  }

  void Abort() {
    const absl::MutexLock lock(&mu_);
    aborted_ = true;
    for (const std::shared_ptr<DaemonClient>& daemon : daemons_) {
      if (daemon != nullptr) daemon->Abort();
    }
  }

  // On the thread of that member.
  absl::Status RunOne(size_t member, absl::Time deadline,
                      absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work) {
    absl::Status status = Work(member, deadline, work);
    // What was lost is made anew: a channel in its back-off would fail the next call untried.
    if (ReasonOf(status) == kNoDaemonReason) Forget(member);
    return status;
  }

 private:
  absl::Status Work(size_t member, absl::Time deadline,
                    absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work) {
    std::shared_ptr<DaemonClient> daemon = Kept(member);
    const bool is_new = daemon == nullptr;
    if (is_new) daemon = DaemonClient::Make(members_[member].endpoint);
    daemon->LimitCalls(deadline);
    if (!Keep(member, daemon)) return absl::CancelledError("interrupted");
    if (is_new) {
      if (absl::Status status = daemon->Greet(); !status.ok()) {
        Forget(member);
        return status;
      }
    }
    return work(member, *daemon);
  }

  std::shared_ptr<DaemonClient> Kept(size_t member) {
    const absl::MutexLock lock(&mu_);
    return daemons_[member];
  }

  // From now on Abort() reaches it; false if it came already.
  bool Keep(size_t member, const std::shared_ptr<DaemonClient>& daemon) {
    const absl::MutexLock lock(&mu_);
    if (aborted_) return false;
    daemons_[member] = daemon;
    return true;
  }

  void Forget(size_t member) {
    std::shared_ptr<DaemonClient> last;  // Ends behind the lock.
    const absl::MutexLock lock(&mu_);
    last.swap(daemons_[member]);
  }

  const std::vector<Member> members_;

  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  // shared_ptr: that of a member is used by its thread, and by Abort().
  std::vector<std::shared_ptr<DaemonClient>> daemons_ ABSL_GUARDED_BY(mu_);
};

Fleet::Fleet(std::vector<Member> members) : impl_(std::make_unique<Impl>(std::move(members))) {}
Fleet::~Fleet() = default;
Fleet::Fleet(Fleet&&) noexcept = default;
Fleet& Fleet::operator=(Fleet&&) noexcept = default;

const std::vector<Fleet::Member>& Fleet::members() const { return impl_->members(); }
DaemonClient* Fleet::connection(size_t member) { return impl_->connection(member); }
void Fleet::Abort() { impl_->Abort(); }

void Fleet::Run(absl::Duration deadline,
                absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
                absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done) {
  std::vector<size_t> all(members().size());
  std::iota(all.begin(), all.end(), 0);
  RunOn(all, deadline, work, on_done);
}

void Fleet::RunOn(const std::vector<size_t>& chosen, absl::Duration deadline,
                  absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
                  absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done) {
  const absl::Time until = Clock::Real().Now() + deadline;
  const size_t count = chosen.size();
  ResultQueue results;
  struct Runner {
    Fleet::Impl* impl;
    absl::Time until;
    absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work;
    ResultQueue* results;
    size_t member;
    static void* Main(void* self) {
      const Runner& runner = *static_cast<Runner*>(self);
      runner.results->Push(
          {runner.member, runner.impl->RunOne(runner.member, runner.until, runner.work)});
      return nullptr;
    }
  };
  std::vector<Runner> runners;
  runners.reserve(count);                   // Threads point at them.
  std::vector<SmallThread> threads(count);  // Last: they use all of the above.
  for (size_t i = 0; i < count; ++i) {
    runners.push_back({impl_.get(), until, work, &results, chosen[i]});
    if (!threads[i].Start(&Runner::Main, &runners.back())) {
      results.Push({chosen[i], absl::ResourceExhaustedError(
                                   "this machine has no thread for it; ask fewer nodes at once, or "
                                   "raise the limit of processes (`ulimit -u`)")});
    }
  }
  for (size_t left = count; left > 0; --left) {
    const ResultQueue::Result result = results.Pop();
    on_done(result.member, result.status);
  }
}

}  // namespace profd::cli
