// What stands between gRPC and the services: queues and news.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "daemon/rpc/target_news.h"
#include "daemon/rpc/work_queue.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;

TEST(WorkQueueTest, RunsInOrderOfArrival) {
  WorkQueue queue({.thread_name = "test"});
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Post([&done, i] { done.push_back(i); }));
  queue.Stop();
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

// A queue whose one thread is busy until told.
class BusyQueue {
 public:
  explicit BusyQueue(WorkQueue::Options options) : queue(std::move(options)) {
    EXPECT_TRUE(queue.Post([this] {
      busy.Notify();
      release.WaitForNotification();
    }));
    busy.WaitForNotification();
  }
  absl::Notification busy;
  absl::Notification release;
  WorkQueue queue;
};

TEST(WorkQueueTest, RefusesWhatDoesNotFit) {
  BusyQueue busy({.thread_name = "test", .max_waiting = 2});
  EXPECT_TRUE(busy.queue.TryPost("uid:1", [] {}));
  EXPECT_TRUE(busy.queue.TryPost("uid:2", [] {}));
  EXPECT_FALSE(busy.queue.TryPost("uid:3", [] {}));
  EXPECT_TRUE(busy.queue.Post([] {})) << "what is owed already always fits";
  busy.release.Notify();
}

TEST(WorkQueueTest, OneUidCannotFillIt) {
  BusyQueue busy({.thread_name = "test", .max_waiting = 10, .max_waiting_per_principal = 1});
  EXPECT_TRUE(busy.queue.TryPost("uid:1", [] {}));
  EXPECT_FALSE(busy.queue.TryPost("uid:1", [] {}));
  absl::Notification ran;
  EXPECT_TRUE(busy.queue.TryPost("uid:2", [&ran] { ran.Notify(); }));
  busy.release.Notify();
  ran.WaitForNotification();
  EXPECT_TRUE(busy.queue.TryPost("uid:1", [] {})) << "the first one is not waiting any more";
}

TEST(WorkQueueTest, TakesNothingOnceStopped) {
  WorkQueue queue({.thread_name = "test"});
  queue.Stop();
  EXPECT_FALSE(queue.Post([] {}));
  EXPECT_FALSE(queue.TryPost("uid:1", [] {}));
}

TEST(WorkQueueTest, ABackgroundThreadGivesWay) {
  int nice = 0;
  long io_class = 0;
  std::string name(16, '\0');
  WorkQueue queue({.thread_name = "profd-report", .background = true});
  EXPECT_TRUE(queue.Post([&] {
    nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
    io_class = syscall(SYS_ioprio_get, 1, 0) >> 13;
    pthread_getname_np(pthread_self(), name.data(), name.size());
  }));
  queue.Stop();
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(io_class, 3) << "idle";
  EXPECT_STREQ(name.c_str(), "profd-report");
  EXPECT_LT(getpriority(PRIO_PROCESS, 0), 19) << "the others keep theirs";
}

class RecordingObserver final : public TargetPort::Observer {
 public:
  void OnTargetAdded(TargetNumber) override { calls.emplace_back("added"); }
  void OnTargetGone(TargetNumber) override { calls.emplace_back("gone"); }
  void OnArmed(std::string_view) override { calls.emplace_back("armed"); }
  void OnArming(std::string_view, std::string_view) override { calls.emplace_back("arming"); }
  void OnArmFailed(std::string_view, absl::Status) override { calls.emplace_back("arm failed"); }
  void OnProgress(std::string_view, const Progress&) override { calls.emplace_back("progress"); }
  void OnDrained(std::string_view, DrainResult) override { calls.emplace_back("drained"); }
  std::vector<std::string> calls;
};

TEST(TargetNewsTest, PassesEverythingOnAndTellsOfChanges) {
  RecordingObserver next;
  TargetNews news(next);
  int told = 0;
  const auto id = news.Subscribe([&told] { ++told; });
  news.OnTargetAdded(1);
  news.OnArming("c", "attaching");
  news.OnArmed("c");
  news.OnProgress("c", Progress());
  EXPECT_EQ(told, 2) << "a step is no news of the list";
  news.OnDrained("c", DrainResult());
  news.OnArmFailed("c", absl::AbortedError("x"));
  news.OnTargetGone(1);
  EXPECT_EQ(told, 5);
  news.Unsubscribe(id);
  news.OnTargetAdded(2);
  EXPECT_EQ(told, 5);
  EXPECT_THAT(next.calls, ElementsAre("added", "arming", "armed", "progress", "drained",
                                      "arm failed", "gone", "added"));
}

}  // namespace
}  // namespace profd::rpc
