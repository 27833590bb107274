// What stands between gRPC and the services: queues and news.
#include "daemon/rpc/admission/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "daemon/base/str_cat.h"
#include "daemon/rpc/admission/work_queue.h"
#include "daemon/rpc/services/target_events.h"

namespace profd::rpc {
namespace {

using ::testing::ElementsAre;

TEST(WithoutPathTest, TheFolderHasAName) {
  const auto shown = [](std::string_view text) { return WithoutPath(text, "/var/lib/profd"); };
  EXPECT_EQ(shown("/var/lib/profd: No such file or directory"),
            "the data directory: No such file or directory");
  EXPECT_EQ(shown("cannot open /var/lib/profd"), "cannot open the data directory");
  EXPECT_EQ(shown("no room in /var/lib/profd."), "no room in the data directory.");
  EXPECT_EQ(shown("'/var/lib/profd/' and /var/lib/profd/catalog.db"),
            "'the data directory/' and catalog.db");
  EXPECT_EQ(shown("/var/lib/profd/captures/X.profd: Permission denied"),
            "captures/X.profd: Permission denied");
}

TEST(WithoutPathTest, OtherPathsStay) {
  for (const std::string_view text : {"/var/lib/profd-archive/X.profd: full", "/var/lib/profd2",
                                      "/var/lib/profd.old", "/mnt/var/lib/profd: gone"}) {
    EXPECT_EQ(WithoutPath(text, "/var/lib/profd"), text);
  }
}

TEST(WorkQueueTest, RunsInOrderOfArrival) {
  WorkQueue queue({.thread_name = "test"});
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.Post("uid:0", [&done, i] { done.push_back(i); }));
  queue.Stop();
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

// A queue whose one thread is busy until told.
class BusyQueue {
 public:
  explicit BusyQueue(WorkQueue::Options options) : queue(std::move(options)) {
    EXPECT_TRUE(queue.Post("uid:0", [this] {
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
  EXPECT_TRUE(busy.queue.Post("uid:0", [] {})) << "what is owed already always fits";
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

TEST(WorkQueueTest, PrincipalsTakeTurns) {
  BusyQueue busy({.thread_name = "test"});
  std::vector<std::string> done;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(busy.queue.TryPost("uid:1", [&done, i] { done.push_back(StrCat("one", i)); }));
  }
  EXPECT_TRUE(busy.queue.TryPost("uid:2", [&done] { done.emplace_back("two0"); }));
  EXPECT_TRUE(busy.queue.Post("uid:3", [&done] { done.emplace_back("three0"); }));
  busy.release.Notify();
  busy.queue.Stop();
  EXPECT_THAT(done, ElementsAre("one0", "two0", "three0", "one1", "one2"));
}

TEST(WorkQueueTest, OnePrincipalNeverOccupiesTheLastThread) {
  WorkQueue queue({.thread_name = "test", .threads = 3});
  absl::Notification release;
  absl::BlockingCounter begun(2);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(queue.TryPost("uid:1", [&, i] {
      if (i < 2) begun.DecrementCount();
      release.WaitForNotification();
    }));
  }
  begun.Wait();
  absl::Notification ran;
  EXPECT_TRUE(queue.TryPost("uid:2", [&ran] { ran.Notify(); }));
  ran.WaitForNotification();  // Two of uid:1 still run, three wait.
  release.Notify();
}

TEST(WorkQueueTest, CallersWithoutANameAreCountedToo) {
  WorkQueue queue({.thread_name = "test", .max_waiting_per_principal = 2});
  for (int i = 0; i < 10; ++i) {
    absl::Notification ran;
    EXPECT_TRUE(queue.TryPost("", [&ran] { ran.Notify(); })) << i;
    ran.WaitForNotification();
  }
}

TEST(WorkQueueTest, TakesNothingOnceStopped) {
  WorkQueue queue({.thread_name = "test"});
  queue.Stop();
  EXPECT_FALSE(queue.Post("uid:0", [] {}));
  EXPECT_FALSE(queue.TryPost("uid:1", [] {}));
}

class RecordingObserver final : public TargetPort::Observer {
 public:
  void OnTargetAdded(TargetNumber) override { calls.emplace_back("added"); }
  void OnTargetGone(TargetNumber) override { calls.emplace_back("gone"); }
  void OnTargetOptedOut(TargetNumber) override { calls.emplace_back("opted out"); }
  void OnArmed(std::string_view) override { calls.emplace_back("armed"); }
  void OnArming(std::string_view, std::string_view) override { calls.emplace_back("arming"); }
  void OnArmFailed(std::string_view, absl::Status) override { calls.emplace_back("arm failed"); }
  void OnProgress(std::string_view, const Progress&) override { calls.emplace_back("progress"); }
  void OnDrained(std::string_view, DrainResult) override { calls.emplace_back("drained"); }
  std::vector<std::string> calls;
};

TEST(TargetEventsTest, PassesEverythingOnAndTellsOfChanges) {
  RecordingObserver next;
  TargetEvents news(next);
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
  news.OnTargetOptedOut(2);
  EXPECT_EQ(told, 5);
  EXPECT_THAT(next.calls, ElementsAre("added", "arming", "armed", "progress", "drained",
                                      "arm failed", "gone", "added", "opted out"));
}

}  // namespace
}  // namespace profd::rpc
