#include "daemon/ingest/cpu_watch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/str_cat.h"

namespace profd {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kBusyNs = 20'000'000;

// Of the calling thread: {ran, waited}.
std::pair<int64_t, int64_t> OwnTimes() {
  std::ifstream file("/proc/thread-self/schedstat");
  std::pair<int64_t, int64_t> times = {-1, -1};
  file >> times.first >> times.second;
  return times;
}

bool KernelCountsWaits() { return OwnTimes().second >= 0; }

int64_t ThisThread() { return syscall(SYS_gettid); }

// Runs until it has had `ns` of a CPU.
void RunFor(int64_t ns) {
  const int64_t until_ns = OwnTimes().first + ns;
  while (OwnTimes().first < until_ns) {
  }
}

const ThreadCpuRecord* RecordOf(const CpuRecord& record, int64_t thread) {
  const auto found = std::ranges::find(record.threads, thread, &ThreadCpuRecord::os_thread);
  return found == record.threads.end() ? nullptr : &*found;
}

TEST(CpuWatchTest, CountsWhatRunsInTheWindowsOnly) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  CpuWatch watch(getpid());
  RunFor(kBusyNs);
  for (const int64_t window : {0, 1}) {
    watch.Begin(absl::Seconds(10 * window));
    watch.Begin(absl::Seconds(10 * window + 1));  // Begun already.
    RunFor(kBusyNs);
    watch.End(absl::Seconds(10 * window + 2));
    watch.End(absl::Seconds(10 * window + 3));
  }
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.watched_ns, 4'000'000'000);
  const ThreadCpuRecord* const own = RecordOf(record, ThisThread());
  ASSERT_NE(own, nullptr);
  EXPECT_GE(own->ran_ns, 2 * kBusyNs);
  EXPECT_LE(own->ran_ns, OwnTimes().first - kBusyNs);
  EXPECT_GE(record.ran_ns, own->ran_ns);
  EXPECT_GE(record.waited_ns, own->waited_ns);
}

// Two threads that share one CPU: each waits while the other runs.
TEST(CpuWatchTest, AThreadThatSharesItsCpuWaits) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  std::atomic<bool> runs = false;
  std::atomic<bool> ends = false;
  std::thread other([&] {  // Inherits the CPU.
    while (!ends) runs = true;
  });
  while (!runs) sched_yield();
  CpuWatch watch(getpid());
  const int64_t before_ns = OwnTimes().second;
  watch.Begin(absl::ZeroDuration());
  while (OwnTimes().second - before_ns < kBusyNs) {
  }
  watch.End(absl::Seconds(1));
  ends = true;
  other.join();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  const CpuRecord record = watch.Take();
  const ThreadCpuRecord* const own = RecordOf(record, ThisThread());
  ASSERT_NE(own, nullptr);
  EXPECT_GE(own->waited_ns, kBusyNs);
}

// A child that runs all the time and one that sleeps; both end when this end of the pipe is closed.
class TwoChildren {
 public:
  TwoChildren() {
    EXPECT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
    for (const bool runs : {true, false}) {
      const pid_t child = fork();
      if (child == 0) {
        close(pipe_[1]);
        pollfd end = {.fd = pipe_[0], .events = POLLIN, .revents = 0};
        while (poll(&end, 1, runs ? 0 : -1) == 0) {
        }
        _exit(0);
      }
      children_.push_back(child);
    }
  }
  ~TwoChildren() {
    close(pipe_[1]);
    for (const pid_t child : children_) EXPECT_EQ(waitpid(child, nullptr, 0), child);
    close(pipe_[0]);
  }
  // Returns once the one that is to sleep does.
  void AwaitSleep() const {
    for (;;) {
      std::ifstream stat(StrCat("/proc/", children_.back(), "/stat"));
      std::string text;
      std::getline(stat, text);
      if (text.find(") S ") != std::string::npos) return;
      sched_yield();
    }
  }
  TwoChildren(const TwoChildren&) = delete;
  TwoChildren& operator=(const TwoChildren&) = delete;

 private:
  int pipe_[2];
  std::vector<pid_t> children_;
};

TEST(CpuWatchTest, ChildrenThatRunAreCounted) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  if (access(StrCat("/proc/self/task/", getpid(), "/children").c_str(), F_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/children";
  }
  const TwoChildren children;
  children.AwaitSleep();
  CpuWatch watch(getpid());
  CpuRecord record;
  // Until it has run: other tests may have the CPUs.
  for (int window = 0; record.children_ran_ns < kBusyNs; ++window) {
    watch.Begin(absl::Seconds(window));
    RunFor(kBusyNs);
    watch.End(absl::Seconds(window + 1));
    record = watch.Take();
  }
  EXPECT_EQ(record.child_count, 1);
}

TEST(CpuWatchTest, WithoutAProcessThereIsNothing) {
  for (const int64_t pid : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    CpuWatch watch(pid);
    watch.Begin(absl::ZeroDuration());
    watch.End(absl::Seconds(1));
    EXPECT_EQ(watch.Take().watched_ns, 0);
    EXPECT_THAT(watch.Take().threads, IsEmpty());
  }
}

TEST(CpuWatchTest, AWindowThatHasNotEndedDoesNotCount) {
  CpuWatch watch(getpid());
  watch.Begin(absl::ZeroDuration());
  EXPECT_EQ(watch.Take().watched_ns, 0);
}

}  // namespace
}  // namespace profd
