#include "cli/captures/fleet.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <deque>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "cli/base/errors.h"
#include "daemon/base/clock.h"
#include "daemon/base/cond_var.h"
#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"

namespace profd::cli {
namespace {

// A call, a TLS handshake and what `work` does; thousands of these must fit an address space
// that batch systems bound.
constexpr size_t kStackBytes = size_t{512} << 10;
// A handshake and its buffers are some 250 KB while they last.
constexpr size_t kMostAtOnce = 256;
// Enough while calls are short; each further thread costs CPU time (fleet.h).
constexpr size_t kFirstThreads = 16;
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);
// Further connections end with the answer.
constexpr size_t kMostKept = 1024;
// Open files of the program without its connections, and those of a connection while it is made:
// its socket, and those that look up the name. An open connection uses one file.
constexpr size_t kOtherFiles = 64;
constexpr size_t kFilesToConnect = 4;
// Of each of many connections that are made at once. Measured with 100: 100 files for localhost,
// 142 while a name server was asked for their names.
constexpr size_t kFilesTogether = 2;

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

// Raises the limit of open files as far as the user may, if the fleet needs it: many users have
// 1024. Returns what it is then.
size_t AllowFiles(size_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur < wanted) {
    rlimit raised = limit;
    raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return std::min<rlim_t>(limit.rlim_cur, wanted);
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
    came_.Signal();
  }

  // nullopt: none came within `timeout`.
  std::optional<Result> Pop(absl::Duration timeout) {
    const absl::MutexLock lock(&mu_);
    const auto has_results = [this]()
                                 ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !results_.empty(); };
    if (!came_.AwaitWithTimeout(&mu_, timeout, has_results)) return std::nullopt;
    Result result = std::move(results_.front());
    results_.pop_front();
    return result;
  }

 private:
  absl::Mutex mu_;
  std::deque<Result> results_ ABSL_GUARDED_BY(mu_);
  CondVar came_;
};

absl::Status NoThread() {
  return absl::ResourceExhaustedError(
      "this machine has no thread for it; ask fewer nodes at once, or raise the limit of processes "
      "(`ulimit -u`)");
}

absl::Status NoFiles() {
  return absl::ResourceExhaustedError(
      "the limit of open files is too low to ask so many nodes at once; name fewer nodes, or raise "
      "it (`ulimit -n`)");
}

// Whether this process has used less than half of the machine's cores since the last question.
class CoreUse {
 public:
  bool IsLow() {
    const absl::Duration now = Clock::Real().Monotonic();
    const absl::Duration used = CpuTime();
    const double busy_cores = absl::FDivDuration(used - used_, now - asked_);
    asked_ = now;
    used_ = used;
    return busy_cores < std::max(1U, std::thread::hardware_concurrency()) / 2.0;
  }

 private:
  static absl::Duration CpuTime() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return absl::DurationFromTimespec(time);
  }

  absl::Duration asked_ = Clock::Real().Monotonic();
  absl::Duration used_ = CpuTime();
};

}  // namespace

class Fleet::Impl {
 public:
  // How many connections the limit of open files has room for.
  struct Room {
    size_t together;  // All made at once.
    size_t at_once = kMostAtOnce;
    size_t kept = kMostKept;
  };

  explicit Impl(std::vector<Member> members)
      : members_(std::move(members)),
        room_(RoomFor(members_.size())),
        daemons_(members_.size()),
        was_let_go_(members_.size()) {}

  const std::vector<Member>& members() const { return members_; }
  const Room& room() const { return room_; }

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

  // On any thread. `must_keep`: the connection, also if it is one too many.
  // `deadline`: of the monotonic clock.
  absl::Status RunOne(size_t member, absl::Duration deadline, bool must_keep,
                      absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work) {
    absl::Status status = Work(member, deadline, work);
    // What was lost is made anew: a channel in its back-off would fail the next call untried.
    if (ReasonOf(status) == kNoDaemonReason) {
      Forget(member, /*may_return=*/false);
    } else if (!must_keep && HasTooMany()) {
      Forget(member, /*may_return=*/true);
    }
    return status;
  }

 private:
  static Room RoomFor(size_t member_count) {
    const size_t wanted = kOtherFiles + kFilesToConnect * member_count;
    const size_t files = AllowFiles(wanted);
    const size_t left = files > kOtherFiles ? files - kOtherFiles : 1;
    Room room = {.together = std::max(left / kFilesTogether, size_t{1})};
    if (files == wanted) return room;
    // Half of the files for connections that are being made, half for those that are kept.
    const size_t half = (left + 1) / 2;
    room.at_once = std::clamp(half / kFilesToConnect, size_t{1}, kMostAtOnce);
    room.kept = std::min(half, kMostKept);
    return room;
  }

  absl::Status Work(size_t member, absl::Duration deadline,
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
    if (daemons_[member] == nullptr) ++connection_count_;
    daemons_[member] = daemon;
    return true;
  }

  bool HasTooMany() {
    const absl::MutexLock lock(&mu_);
    return connection_count_ > room_.kept;
  }

  void Forget(size_t member, bool may_return) {
    std::shared_ptr<DaemonClient> last;  // Ends after the lock is released.
    const absl::MutexLock lock(&mu_);
    was_let_go_[member] = may_return;
    if (daemons_[member] != nullptr) --connection_count_;
    last.swap(daemons_[member]);
  }

  const std::vector<Member> members_;
  const Room room_;

  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  // shared_ptr: that of a member is used by its thread, and by Abort().
  std::vector<std::shared_ptr<DaemonClient>> daemons_ ABSL_GUARDED_BY(mu_);
  size_t connection_count_ ABSL_GUARDED_BY(mu_) = 0;  // Those of `daemons_` that are not null.
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
  RunThreads(/*is_one_each=*/false, chosen, deadline, work, on_done);
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
  // Shared by all threads: each takes the next member, until none is left or, of one each, once.
  struct Run {
    Fleet::Impl& impl;
    const std::vector<size_t>& chosen;
    absl::Duration deadline;
    bool is_one_each;  // Of a thread: its connection stays.
    absl::FunctionRef<absl::Status(size_t, DaemonClient&)> work;
    ResultQueue results;
    std::atomic<size_t> next = 0;

    static void* Main(void* self) {
      Run& run = *static_cast<Run*>(self);
      for (size_t i = run.next++; i < run.chosen.size(); i = run.next++) {
        const size_t member = run.chosen[i];
        run.results.Push({member, run.impl.RunOne(member, Clock::Real().Monotonic() + run.deadline,
                                                  run.is_one_each, run.work)});
        if (run.is_one_each) break;
      }
      return nullptr;
    }
  };
  const Impl::Room& room = impl_->room();
  const size_t most = std::min(chosen.size(), is_one_each ? room.together : room.at_once);
  Run run = {.impl = *impl_,
             .chosen = chosen,
             .deadline = deadline,
             .is_one_each = is_one_each,
             .work = work,
             .results = {}};
  std::vector<SmallThread> threads(most);  // Last: they use all of the above.
  size_t started = 0;
  const auto start_threads = [&](size_t count) {
    while (started < count && threads[started].Start(&Run::Main, &run)) ++started;
    return started == count;
  };
  const bool has_threads = start_threads(is_one_each ? most : std::min(most, kFirstThreads));
  size_t left = chosen.size();
  // Members that no thread will take.
  const size_t too_many = is_one_each || started == 0 ? chosen.size() - started : 0;
  for (size_t n = 0; n < too_many; ++n) {
    on_done(chosen[run.next++], has_threads ? NoFiles() : NoThread());
    --left;
  }
  CoreUse core_use;
  absl::Duration next_look = Clock::Real().Monotonic() + kLookInterval;
  bool may_grow = has_threads;
  while (left > 0) {
    may_grow = may_grow && started < most && run.next < chosen.size();
    const absl::Duration patience =
        may_grow ? next_look - Clock::Real().Monotonic() : absl::InfiniteDuration();
    if (const auto result = run.results.Pop(patience)) {
      on_done(result->member, result->status);
      --left;
    }
    if (!may_grow || Clock::Real().Monotonic() < next_look) continue;
    next_look = Clock::Real().Monotonic() + kLookInterval;
    if (core_use.IsLow()) may_grow = start_threads(std::min(most, 2 * started));
  }
}

}  // namespace profd::cli
