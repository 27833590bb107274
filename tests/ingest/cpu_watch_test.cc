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
#include <filesystem>
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
  watch.Begin(absl::ZeroDuration());
  // After it: a wait that ends in between is not of the window.
  const int64_t before_ns = OwnTimes().second;
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

TEST(CpuWatchTest, AWindowIsWatchedFromTheLatestExpectation) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  CpuWatch watch(getpid());
  watch.Expect(absl::Seconds(10));
  RunFor(kBusyNs);
  watch.Begin(absl::Seconds(11));
  watch.End(absl::Seconds(12));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.watched_ns, 2'000'000'000);
  EXPECT_GE(record.ran_ns, kBusyNs);
}

// A thread that runs until it has had kBusyNs, and ends when it may.
class BusyThread {
 public:
  BusyThread() : thread_([this] { Run(); }) {
    while (!has_run_) sched_yield();
  }
  ~BusyThread() { End(); }
  void End() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t number() const { return number_; }

 private:
  void Run() {
    number_ = ThisThread();
    RunFor(kBusyNs);
    has_run_ = true;
    while (!ends_) sched_yield();
  }
  std::atomic<int64_t> number_ = 0;
  std::atomic<bool> has_run_ = false;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST(CpuWatchTest, AThreadThatStartsInTheWindowCounts) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  CpuWatch watch(getpid());
  watch.Begin(absl::ZeroDuration());
  const BusyThread other;
  watch.End(absl::Seconds(1));
  const CpuRecord record = watch.Take();
  ASSERT_NE(RecordOf(record, other.number()), nullptr);
  EXPECT_GE(RecordOf(record, other.number())->ran_ns, kBusyNs);
}

TEST(CpuWatchTest, AThreadThatEndsInTheWindowCountsUntilTheLastSample) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  CpuWatch watch(getpid());
  watch.Begin(absl::ZeroDuration());
  BusyThread other;
  watch.Sample(absl::Seconds(1));
  other.End();
  watch.End(absl::Seconds(2));
  const CpuRecord record = watch.Take();
  ASSERT_NE(RecordOf(record, other.number()), nullptr);
  EXPECT_GE(RecordOf(record, other.number())->ran_ns, kBusyNs);
}

// Children that have run for kBusyNs in a second thread, or whose own child has.
TEST(CpuWatchTest, ThreadsOfChildrenAndTheirChildrenCount) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  if (access(StrCat("/proc/self/task/", getpid(), "/children").c_str(), F_OK) != 0) {
    GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/children";
  }
  int ready[2];
  int end[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(end), 0);
  CpuWatch watch(getpid());
  watch.Begin(absl::ZeroDuration());
  const auto run_and_wait = [&] {
    RunFor(kBusyNs);
    close(end[1]);
    char byte = 0;
    EXPECT_EQ(write(ready[1], &byte, 1), 1);
    EXPECT_EQ(read(end[0], &byte, 1), 0);
  };
  const pid_t with_thread = fork();
  if (with_thread == 0) {
    std::thread(run_and_wait).join();
    _exit(0);
  }
  const pid_t with_child = fork();
  if (with_child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      run_and_wait();
      _exit(0);
    }
    close(end[1]);
    waitpid(grandchild, nullptr, 0);
    _exit(0);
  }
  char byte = 0;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  watch.End(absl::Milliseconds(1));
  close(end[1]);
  for (const pid_t child : {with_thread, with_child}) {
    EXPECT_EQ(waitpid(child, nullptr, 0), child);
  }
  for (const int fd : {ready[0], ready[1], end[0]}) close(fd);
  EXPECT_GE(watch.Take().children_ran_ns, 2 * kBusyNs);
}

TEST(CpuWatchTest, SamplesGetFurtherApartInALongWindow) {
  if (!KernelCountsWaits()) GTEST_SKIP() << "this kernel has no /proc/PID/task/TID/schedstat";
  constexpr int kSeconds = 2000;
  CpuWatch watch(getpid());
  watch.Begin(absl::ZeroDuration());
  for (int i = 1; i < kSeconds; ++i) watch.Sample(absl::Seconds(i));
  watch.End(absl::Seconds(kSeconds));
  const CpuRecord record = watch.Take();
  ASSERT_GT(record.samples.size(), kMostCpuSamples / 2);
  ASSERT_LE(record.samples.size(), kMostCpuSamples);
  EXPECT_EQ(record.samples.front().time_ns, 0);
  EXPECT_EQ(record.samples.front().waited_ns, 0);
  EXPECT_EQ(record.samples.back().time_ns, int64_t{kSeconds} * 1'000'000'000);
  EXPECT_EQ(record.samples.back().waited_ns, record.waited_ns);
  for (size_t i = 1; i < record.samples.size(); ++i) {
    const int64_t apart_ns = record.samples[i].time_ns - record.samples[i - 1].time_ns;
    EXPECT_GT(apart_ns, 0);
    EXPECT_LT(apart_ns, int64_t{kSeconds} * 1'000'000'000 / 32);
    EXPECT_GE(record.samples[i].waited_ns, record.samples[i - 1].waited_ns);
  }
}

// A folder like /proc, of processes that exist in the test only. Times: in ns, and less than
// reading takes, as threads that are new cannot have run for longer.
class FakeProcTest : public ::testing::Test {
 protected:
  static constexpr int64_t kTarget = 100;

  ~FakeProcTest() override { std::filesystem::remove_all(root_); }
  std::filesystem::path Task(int64_t process, int64_t thread) const {
    return root_ / StrCat(process) / "task" / StrCat(thread);
  }
  void Thread(int64_t process, int64_t thread, int64_t ran_ns, int64_t waited_ns) {
    std::filesystem::create_directories(Task(process, thread));
    std::ofstream(Task(process, thread) / "schedstat") << ran_ns << " " << waited_ns << " 1\n";
  }
  void Children(int64_t process, int64_t thread, int64_t first, int64_t count) {
    std::ofstream file(Task(process, thread) / "children");
    for (int64_t child = first; child < first + count; ++child) file << child << " ";
  }
  // In its own PID namespace; with so many groups.
  void Status(int64_t thread, int64_t own_number, int groups) {
    std::ofstream file(Task(kTarget, thread) / "status");
    file << "Name:\tpython3\nGroups:\t";
    for (int group = 0; group < groups; ++group) file << 1'000'000 + group << " ";
    file << "\nNSpid:\t" << thread << "\t" << own_number << "\nThreads:\t1\n";
  }
  // Of the target: how long all threads that it has or had ran, in ticks of the kernel.
  void Stat(int64_t user_ticks, int64_t system_ticks, int64_t thread_count) {
    std::ofstream(root_ / StrCat(kTarget) / "stat")
        << kTarget << " (a) b (c) S 1 1 1 0 -1 0 1 2 3 4 " << user_ticks << " " << system_ticks
        << " 5 6 20 0 " << thread_count << " 0 7\n";
  }
  static constexpr int64_t kTickNs = 10'000'000;
  void Remove(int64_t process) { std::filesystem::remove_all(root_ / StrCat(process)); }
  void Name(int64_t thread, std::string_view name) {
    std::ofstream(Task(kTarget, thread) / "comm") << name << "\n";
  }
  CpuWatch Watch() const { return CpuWatch(kTarget, root_.string()); }

  // In memory, if there is room: thousands of files take a minute on some disks.
  static std::filesystem::path Place() {
    constexpr uintmax_t kRoom = 256 << 20;
    std::error_code error;
    const bool has_room = access("/dev/shm", W_OK) == 0 &&
                          std::filesystem::space("/dev/shm", error).available >= kRoom && !error;
    return has_room ? "/dev/shm" : ::testing::TempDir();
  }
  const std::filesystem::path root_ =
      Place() / StrCat("cpu_watch_", getpid(), "_",
                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(FakeProcTest, ThreadsOfTheClientLibraryAreNotTheProgramsOwn) {
  for (int64_t i = 0; i < 4; ++i) Thread(kTarget, kTarget + i, 0, 0);
  Name(kTarget, "profd-like");
  Name(kTarget + 1, "profd");
  Name(kTarget + 2, "profd-helper");
  Name(kTarget + 3, "profd-gpu");
  Stat(0, 0, 4);
  CpuWatch watch = Watch();
  watch.Begin(absl::Seconds(1));
  Thread(kTarget, kTarget, 600 * kTickNs, 4);
  for (int64_t i = 1; i < 4; ++i) Thread(kTarget, kTarget + i, 200 * kTickNs, 50);
  Stat(1200, 0, 4);
  watch.End(absl::Seconds(2));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.thread_count, 1);
  EXPECT_EQ(record.ran_ns, 600 * kTickNs);
  EXPECT_EQ(record.waited_ns, 4);
  EXPECT_EQ(record.samples.back().waited_ns, 4);
  EXPECT_EQ(record.unwatched_ran_ns, 0);
  ASSERT_THAT(record.threads, ::testing::SizeIs(1));
  EXPECT_EQ(record.threads[0].os_thread, kTarget);
}

TEST_F(FakeProcTest, MemoryOfTheCaptureIsNotTheProgramsOwn) {
  const auto statm = [this](int64_t resident, int64_t shared) {
    std::ofstream(root_ / StrCat(kTarget) / "statm")
        << "9000 " << resident << " " << shared << " 1 0 9 0\n";
  };
  Thread(kTarget, kTarget, 0, 0);
  statm(500, 200);
  CpuWatch watch = Watch();
  watch.Begin(absl::Seconds(1));
  statm(1600, 1200);  // A thousand pages of it are the capture's events.
  watch.End(absl::Seconds(2));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.resident_begin_bytes, 300 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(record.resident_end_bytes, 400 * sysconf(_SC_PAGESIZE));
}

TEST_F(FakeProcTest, TimesAreReadOfTheThreadsOfTheRecordLater) {
  for (int64_t i = 0; i < 20; ++i) Thread(kTarget, kTarget + i, 0, 0);
  CpuTimesReader read;
  CpuRecord record;
  {
    CpuWatch watch = Watch();
    EXPECT_FALSE(watch.TimesReader()) << "no window has begun";
    watch.Begin(absl::Seconds(1));
    for (int64_t i = 0; i < 20; ++i) Thread(kTarget, kTarget + i, 100 + i, i);
    watch.End(absl::Seconds(2));
    record = watch.Take();
    read = watch.TimesReader();
  }
  ASSERT_TRUE(read);
  Thread(kTarget, kTarget + 19, 1000, 500);
  std::filesystem::remove_all(Task(kTarget, kTarget + 18));
  const std::vector<CpuTimes> times = read();
  ASSERT_EQ(times.size(), record.threads.size());
  ASSERT_EQ(record.threads[0].os_thread, kTarget + 19);
  EXPECT_EQ(times[0].ran_ns, 1000);
  EXPECT_EQ(times[0].waited_ns, 500);
  ASSERT_EQ(record.threads[1].os_thread, kTarget + 18);
  EXPECT_EQ(times[1].ran_ns, -1);
  EXPECT_EQ(times[2].ran_ns, 117);
}

TEST_F(FakeProcTest, ASampleReadsNoMoreThreadsThanItsLimit) {
  constexpr int64_t kThreads = 1200;
  constexpr int64_t kOfChild = 400;
  static_assert(kThreads > int64_t{CpuWatch::kMostReadThreads} &&
                kOfChild > int64_t{CpuWatch::kMostReadThreads - CpuWatch::kMostThreads});
  for (int64_t i = 0; i < kThreads; ++i) Thread(kTarget, kTarget + i, 1, 1);
  constexpr int64_t kChild = 10'000;
  for (int64_t i = 0; i < kOfChild; ++i) Thread(kChild, kChild + i, 1, 1);
  for (int64_t i = 0; i < kThreads; ++i) Children(kTarget, kTarget + i, kChild, 1);
  Stat(0, 0, kThreads);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  for (int64_t i = 0; i < kThreads; ++i) Thread(kTarget, kTarget + i, 2, 3);
  for (int64_t i = 0; i < kOfChild; ++i) Thread(kChild, kChild + i, 2, 3);
  watch.End(absl::Seconds(1));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.thread_count, int64_t{CpuWatch::kMostThreads});
  EXPECT_EQ(record.waited_ns, 2 * int64_t{CpuWatch::kMostThreads});
  EXPECT_EQ(record.children_waited_ns,
            2 * int64_t{CpuWatch::kMostReadThreads - CpuWatch::kMostThreads});
  EXPECT_EQ(record.unread_thread_count, kThreads - int64_t{CpuWatch::kMostThreads});
  EXPECT_EQ(record.unread_child_count, int64_t{CpuWatch::kMostThreads});  // Each has one.
  EXPECT_TRUE(record.misses_waits());
}

TEST_F(FakeProcTest, ThreadsThatAllAreReadLeaveNothingOut) {
  for (int64_t i = 0; i < int64_t{CpuWatch::kMostThreads}; ++i) Thread(kTarget, kTarget + i, 1, 1);
  Stat(1, 1, int64_t{CpuWatch::kMostThreads});
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  Stat(2, 2, int64_t{CpuWatch::kMostThreads});  // As inexact as ticks are.
  watch.End(absl::Seconds(1));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.unread_thread_count, 0);
  EXPECT_EQ(record.unread_child_count, 0);
  EXPECT_EQ(record.ended_thread_count, 0);
  EXPECT_EQ(record.unwatched_ran_ns, 0);
  EXPECT_FALSE(record.misses_waits());
}

TEST_F(FakeProcTest, WhatThreadsRanThatEndedBetweenSamplesIsNotWatched) {
  constexpr int64_t kChild = 500;
  Thread(kTarget, kTarget, 1, 1);
  Thread(kTarget, kTarget + 1, 1, 1);
  Children(kTarget, kTarget, kChild, 1);
  Thread(kChild, kChild, 1, 1);
  Stat(100, 100, 2);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  std::filesystem::remove_all(Task(kTarget, kTarget + 1));
  Remove(kChild);
  Stat(600, 600, 1);
  watch.End(absl::Seconds(1));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.ended_thread_count, 2);
  // Two ticks are inexact, and the time that readings take.
  EXPECT_LE(record.unwatched_ran_ns, 998 * kTickNs);
  EXPECT_GT(record.unwatched_ran_ns, 900 * kTickNs);
  EXPECT_EQ(record.unread_thread_count, 0);
  EXPECT_TRUE(record.misses_waits());
}

TEST_F(FakeProcTest, WithoutTimesOfTheProcessWhatIsNotWatchedIsUnknown) {
  Thread(kTarget, kTarget, 1, 1);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  watch.End(absl::Seconds(1));
  EXPECT_EQ(watch.Take().unwatched_ran_ns, -1);
}

TEST_F(FakeProcTest, ThousandsOfChildrenAreWatchedUpToTheLimit) {
  constexpr int64_t kFirst = 1000;
  constexpr int64_t kCount = 300;
  static_assert(kCount > int64_t{CpuWatch::kMostChildren});
  Thread(kTarget, kTarget, 1, 1);
  Children(kTarget, kTarget, kFirst, 800);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  for (int64_t i = 0; i < kCount; ++i) Thread(kFirst + i, kFirst + i, 1, 1);
  watch.End(absl::Seconds(1));
  EXPECT_EQ(watch.Take().children_waited_ns, int64_t{CpuWatch::kMostChildren});
  EXPECT_EQ(watch.Take().unread_child_count, 800 - int64_t{CpuWatch::kMostChildren});
}

TEST_F(FakeProcTest, ThousandsOfGroupsHideNoThreadNumber) {
  Thread(kTarget, kTarget, 1, 1);
  Status(kTarget, 7, 65'536);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  watch.End(absl::Seconds(1));
  const CpuRecord record = watch.Take();
  ASSERT_EQ(record.threads.size(), 1U);
  EXPECT_EQ(record.threads.front().os_thread, 7);
}

TEST_F(FakeProcTest, AllOfThousandsOfChildrenAreCounted) {
  Thread(kTarget, kTarget, 1, 1);
  Children(kTarget, kTarget, 1'000'000, 10'000);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  watch.End(absl::Seconds(1));
  EXPECT_EQ(watch.Take().unread_child_count, 10'000 - int64_t{CpuWatch::kMostChildren});
}

TEST_F(FakeProcTest, ManyShortLivedThreadsHaveOneSumTogether) {
  constexpr int64_t kRounds = 12;
  constexpr int64_t kOfRound = 700;
  CpuWatch watch = Watch();
  Thread(kTarget, kTarget, 1, 1);
  watch.Begin(absl::ZeroDuration());
  int64_t next = kTarget + 1;
  for (int64_t round = 1; round <= kRounds; ++round) {
    Remove(kTarget);
    Thread(kTarget, kTarget, 1, 1);
    for (int64_t i = 0; i < kOfRound; ++i) Thread(kTarget, next++, 1, 2);
    watch.Sample(absl::Seconds(100 * round));
  }
  watch.End(absl::Seconds(100 * kRounds));
  const CpuRecord record = watch.Take();
  ASSERT_GT(kRounds * kOfRound, int64_t{CpuWatch::kMostSums});
  EXPECT_EQ(record.waited_ns, 2 * kRounds * kOfRound);
  EXPECT_LE(record.thread_count, int64_t{CpuWatch::kMostSums} + 1);
  for (const ThreadCpuRecord& thread : record.threads) EXPECT_GE(thread.os_thread, kTarget);
}

TEST_F(FakeProcTest, AWindowInWhichTheTargetEndsCountsUpToItsLastSample) {
  Thread(kTarget, kTarget, 1, 1);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  Thread(kTarget, kTarget, 3, 6);
  watch.Sample(absl::Seconds(1));
  Remove(kTarget);
  watch.Sample(absl::Seconds(2));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.watched_ns, absl::ToInt64Nanoseconds(absl::Seconds(1)));
  EXPECT_EQ(record.waited_ns, 5);
}

TEST_F(FakeProcTest, ANumberThatIsUsedAgainIsAnotherThread) {
  constexpr int64_t kChild = 500;
  Thread(kTarget, kTarget, 1, 1);
  Thread(kTarget, kTarget + 1, 1000, 2000);
  Children(kTarget, kTarget, kChild, 1);
  Thread(kChild, kChild, 3000, 4000);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  Thread(kTarget, kTarget + 1, 5, 6);
  Thread(kChild, kChild, 7, 8);
  watch.Sample(absl::Seconds(100));
  Thread(kTarget, kTarget + 1, 6, 7);
  watch.End(absl::Seconds(200));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.ran_ns, 6);
  EXPECT_EQ(record.waited_ns, 7);
  EXPECT_EQ(record.children_ran_ns, 7);
  EXPECT_EQ(record.children_waited_ns, 8);
  for (size_t i = 1; i < record.samples.size(); ++i) {
    EXPECT_GE(record.samples[i].waited_ns, record.samples[i - 1].waited_ns);
    EXPECT_GE(record.samples[i].children_waited_ns, record.samples[i - 1].children_waited_ns);
  }
}

// What is there of a thread or a child that ends between two reads of it.
TEST_F(FakeProcTest, WhatEndsWhileItIsReadCountsAsUntilThen) {
  constexpr int64_t kChild = 500;
  Thread(kTarget, kTarget, 1, 1);
  Thread(kTarget, kTarget + 1, 1, 1);
  Children(kTarget, kTarget, kChild, 2);
  Thread(kChild, kChild, 1, 1);
  Thread(kChild + 1, kChild + 1, 1, 1);
  CpuWatch watch = Watch();
  watch.Begin(absl::ZeroDuration());
  Thread(kTarget, kTarget + 1, 2, 4);
  Thread(kChild, kChild, 2, 5);
  watch.Sample(absl::Seconds(100));
  std::filesystem::remove(Task(kTarget, kTarget + 1) / "schedstat");
  std::ofstream(Task(kChild, kChild) / "schedstat").flush();  // Empty.
  Remove(kChild + 1);
  watch.Sample(absl::Seconds(200));
  Remove(kTarget);  // The target, too.
  watch.End(absl::Seconds(300));
  const CpuRecord record = watch.Take();
  EXPECT_EQ(record.waited_ns, 3);
  EXPECT_EQ(record.children_waited_ns, 4);
  EXPECT_EQ(record.watched_ns, 200'000'000'000);
  EXPECT_EQ(record.samples.back().waited_ns, 3);
  EXPECT_EQ(record.samples.back().children_waited_ns, 4);
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
