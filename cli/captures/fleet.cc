#include "cli/captures/fleet.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
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
// A handshake and its buffers are some 250 KB while they last.
constexpr size_t kMostAtOnce = 256;
// Larger fleets are asked over connections that end with the answer.
constexpr size_t kMostKept = 1024;
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
      : members_(std::move(members)), daemons_(members_.size()), was_let_go_(members_.size()) {
    AllowMoreFiles(members_.size());
  }

  const std::vector<Member>& members() const { return members_; }

  DaemonClient* connection(size_t member) {
    {
      const absl::MutexLock lock(&mu_);
      if (daemons_[member] != nullptr || !was_let_go_[member]) return daemons_[member].get();
    }
    std::shared_ptr<DaemonClient> daemon = DaemonClient::Make(members_[member].endpoint);
    (void)daemon->Greet();  // If it fails, so does the caller's first call, with the reason.
    return Keep(member, daemon) ? daemon.get() : nullptr;
  }

  void Abort() {
    const absl::MutexLock lock(&mu_);
    aborted_ = true;
    for (const std::shared_ptr<DaemonClient>& daemon : daemons_) {
      if (daemon != nullptr) daemon->Abort();
    }
  }

  // On the thread of that member.
  absl::Status RunOne(size_t member, absl::Time deadline, bool may_keep,
                      absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work) {
    absl::Status status = Work(member, deadline, work);
    // What was lost is made anew: a channel in its back-off would fail the next call untried.
    if (ReasonOf(status) == kNoDaemonReason) {
      Forget(member, /*may_return=*/false);
    } else if (!may_keep) {
      Forget(member, /*may_return=*/true);
    }
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
        Forget(member, /*may_return=*/false);
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

  void Forget(size_t member, bool may_return) {
    std::shared_ptr<DaemonClient> last;  // Ends behind the lock.
    const absl::MutexLock lock(&mu_);
    was_let_go_[member] = may_return;
    last.swap(daemons_[member]);
  }

  const std::vector<Member> members_;

  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  // shared_ptr: that of a member is used by its thread, and by Abort().
  std::vector<std::shared_ptr<DaemonClient>> daemons_ ABSL_GUARDED_BY(mu_);
  // Its connection ended with the answer, because there are too many.
  std::vector<bool> was_let_go_ ABSL_GUARDED_BY(mu_);
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
  RunThreads(/*is_one_each=*/chosen.size() <= kMostAtOnce, chosen, deadline, work, on_done);
}

void Fleet::RunTogether(
    const std::vector<size_t>& chosen, absl::Duration deadline,
    absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
    absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done) {
  RunThreads(/*is_one_each=*/true, chosen, deadline, work, on_done);
}

void Fleet::RunThreads(bool is_one_each, const std::vector<size_t>& chosen, absl::Duration deadline,
                       absl::FunctionRef<absl::Status(size_t member, DaemonClient& daemon)> work,
                       absl::FunctionRef<void(size_t member, const absl::Status& status)> on_done) {
  // Shared by all threads: each takes the next member until none is left.
  struct Run {
    Fleet::Impl& impl;
    const std::vector<size_t>& chosen;
    absl::Duration deadline;
    bool may_keep;
    absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work;
    ResultQueue results;
    std::atomic<size_t> next = 0;

    static void* Main(void* self) {
      Run& run = *static_cast<Run*>(self);
      for (size_t i = run.next++; i < run.chosen.size(); i = run.next++) {
        const size_t member = run.chosen[i];
        run.results.Push({member, run.impl.RunOne(member, Clock::Real().Now() + run.deadline,
                                                  run.may_keep, run.work)});
      }
      return nullptr;
    }
  };
  const size_t thread_count = is_one_each ? chosen.size() : kMostAtOnce;
  Run run = {.impl = *impl_,
             .chosen = chosen,
             .deadline = deadline,
             .may_keep = is_one_each || members().size() <= kMostKept,
             .work = work,
             .results = {}};
  std::vector<SmallThread> threads(thread_count);  // Last: they use all of the above.
  size_t started = 0;
  while (started < thread_count && threads[started].Start(&Run::Main, &run)) ++started;
  size_t left = chosen.size();
  // Members that no thread will take.
  if (started < thread_count && (is_one_each || started == 0)) {
    for (size_t i = run.next++; i < chosen.size(); i = run.next++) {
      on_done(chosen[i],
              absl::ResourceExhaustedError(
                  "this machine has no thread for it; ask fewer nodes at once, or raise the limit "
                  "of processes (`ulimit -u`)"));
      --left;
    }
  }
  for (; left > 0; --left) {
    const ResultQueue::Result result = run.results.Pop();
    on_done(result.member, result.status);
  }
}

}  // namespace profd::cli
