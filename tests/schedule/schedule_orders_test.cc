// Declared schedules in seeded orders of joining, leaving, applying, deleting, and restarting, each
// node with a catalog on disk: nothing that was deleted comes back. PROFD_LONG_ORDERS=N makes N
// orders for each of the parts; by default there are a few.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/reason.h"
#include "daemon/base/str_cat.h"
#include "daemon/schedule/schedule_runner.h"
#include "daemon/store/capture_store.h"
#include "tests/fakes/callers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_scheduled_captures.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/status_matchers.h"
#include "tests/store/file/capture_file_builder.h"

namespace profd {
namespace {

using ::testing::AnyOf;

constexpr int kParts = 10;
constexpr int kStepsOfOrder = 24;
constexpr size_t kMostNodes = 4;
const std::vector<std::string> kOrderedIds = {
    "01HZZZZZZZZZZZZZZZZZZZZZZA", "01HZZZZZZZZZZZZZZZZZZZZZZB", "01HZZZZZZZZZZZZZZZZZZZZZZC"};

int OrdersOfPart() {
  const char* const orders = std::getenv("PROFD_LONG_ORDERS");
  return orders == nullptr ? 3 : std::max(1, std::atoi(orders));
}

ScheduleDeclaration DeclaredVersion(int64_t version, int64_t hours, const std::string& id) {
  return {.id = id,
          .version = version,
          .spec = {.every = absl::Hours(hours), .align = true, .capture = {.steps = 3}}};
}
ScheduleDeclaration DeclaredDeletion(int64_t version, const std::string& id) {
  return {.id = id, .version = version, .deleted = true};
}

// What a node has of a schedule.
struct NodeCopy {
  int64_t version = 0;
  bool is_deleted = false;
};

// One daemon's schedules, and what it ever had of them.
class OrderedNode {
 public:
  OrderedNode() { Restart(); }

  bool is_up = true;

  // As a daemon that was killed and started again does.
  void Restart() {
    runner_.reset();
    store_.reset();
    store::CaptureStore::Options options;
    options.data_dir = folder_ / "data";
    auto opened = store::CaptureStore::Open(std::move(options), clock_);
    ASSERT_THAT(opened, IsOk());
    store_ = *std::move(opened);
    runner_ = std::make_unique<ScheduleRunner>(ScheduleRunner::Options{.node_name = "node"},
                                               *store_, captures_, targets_, clock_);
    ASSERT_THAT(runner_->Start(), IsOk());
  }
  // So that deleted schedules and their histories are removed, and tombstones remain.
  void OutliveHistory() {
    clock_.Advance(kScheduleHistory + absl::Hours(25));
    runner_->RunTimersForTesting();
  }
  // "created", or the reason of the refusal.
  std::string Apply(const ScheduleDeclaration& declaration) {
    const auto applied = runner_->Apply(kAlice, declaration, /*dry_run=*/false);
    return applied.ok() ? std::string(ToString(applied->change)) : ReasonOf(applied.status());
  }
  // As `profctl schedule delete` does on this node alone.
  void Delete(const std::string& id) {
    const auto deleted = runner_->Delete(kAlice, id);
    EXPECT_TRUE(deleted.ok() || absl::IsNotFound(deleted.status())) << deleted.status();
  }
  // nullopt: nothing, or a tombstone.
  std::optional<NodeCopy> Find(const std::string& id) {
    const auto view = runner_->Get(kAlice, id);
    if (!view.ok()) return std::nullopt;
    return NodeCopy{.version = view->record.version,
                    .is_deleted = view->state == ScheduleState::kDeleted};
  }
  int64_t HighestOf(const std::string& id) { return highest_[id]; }

  void Check() {
    for (const std::string& id : kOrderedIds) {
      const std::optional<NodeCopy> copy = Find(id);
      if (!copy.has_value()) {
        EXPECT_EQ(highest_[id], deleted_[id]) << "a schedule is gone that nobody deleted";
        continue;
      }
      EXPECT_GE(copy->version, highest_[id]) << "an old version came back";
      highest_[id] = copy->version;
      if (copy->is_deleted) {
        deleted_[id] = copy->version;
      } else {
        EXPECT_GT(copy->version, deleted_[id]) << "a deleted schedule came back";
      }
    }
  }

 private:
  FakeClock clock_;
  FakeTargetPort targets_;
  FakeScheduledCaptures captures_{targets_, clock_};
  store::TemporaryFolder folder_;
  std::unique_ptr<store::CaptureStore> store_;
  std::unique_ptr<ScheduleRunner> runner_;
  std::map<std::string, int64_t> highest_;  // The highest version that it had.
  std::map<std::string, int64_t> deleted_;  // The highest that was deleted.
};

// A cluster whose file changes; nodes join, leave, come back, and apply what they have of it.
class OrderedCluster {
 public:
  explicit OrderedCluster(uint64_t seed) : random_(seed) {
    for (const std::string& id : kOrderedIds) file_[id] = DeclaredVersion(1, 30, id);
    for (int i = 0; i < 2; ++i) Join();
  }

  void Step() {
    switch (Below(9)) {
      case 0:
        Join();
        break;
      case 1: {
        OrderedNode& node = Any();
        node.is_up = !node.is_up;  // Leaves, or comes back with what it had.
        break;
      }
      case 2:
      case 3:
        Apply(Any(), file_);
        break;
      case 4:
        if (!old_files_.empty()) Apply(Any(), old_files_[Below(old_files_.size())]);
        break;
      case 5: {
        const std::string& id = AnyId();
        Declare(DeclaredVersion(HighestOf(id) + 1, 10 + static_cast<int64_t>(Below(50)), id));
        break;
      }
      case 6:
        Delete(AnyId());
        break;
      case 7: {
        OrderedNode& node = Any();
        if (node.is_up) node.Delete(AnyId());
        break;
      }
      default: {
        OrderedNode& node = Any();
        if (Below(2) == 0) node.OutliveHistory();
        node.Restart();
        break;
      }
    }
    for (auto& node : nodes_) node->Check();
  }

  // Once every node has the file, each schedule is what the file says, or is still deleted.
  void ApplyEverywhere() {
    for (auto& node : nodes_) {
      node->is_up = true;
      Apply(*node, file_);
      node->Check();
      for (const auto& [id, declared] : file_) {
        const std::optional<NodeCopy> copy = node->Find(id);
        const bool is_active = copy.has_value() && !copy->is_deleted;
        if (is_active) {
          EXPECT_FALSE(declared.deleted);
          EXPECT_EQ(copy->version, declared.version);
        } else if (!declared.deleted) {
          EXPECT_GE(node->HighestOf(id), declared.version) << "a declared schedule is missing";
        }
      }
    }
  }

 private:
  using File = std::map<std::string, ScheduleDeclaration>;

  size_t Below(size_t below) { return static_cast<size_t>(random_() % below); }
  OrderedNode& Any() { return *nodes_[Below(nodes_.size())]; }
  const std::string& AnyId() { return kOrderedIds[Below(kOrderedIds.size())]; }

  void Join() {
    if (nodes_.size() < kMostNodes) nodes_.push_back(std::make_unique<OrderedNode>());
    Apply(*nodes_.back(), file_);
  }
  static void Apply(OrderedNode& node, const File& file) {
    if (!node.is_up) return;
    for (const auto& [id, declaration] : file) {
      EXPECT_THAT(node.Apply(declaration), AnyOf("created", "updated", "deleted", "unchanged",
                                                 "STALE_VERSION", "VERSION_CONFLICT"));
    }
  }
  void Declare(const ScheduleDeclaration& declaration) {
    old_files_.push_back(file_);
    file_[declaration.id] = declaration;
  }
  // As `profctl --nodes ... schedule delete` does on the nodes that are up; then the file says so.
  void Delete(const std::string& id) {
    const ScheduleDeclaration deletion = DeclaredDeletion(HighestOf(id) + 1, id);
    for (auto& node : nodes_) {
      if (!node->is_up) continue;
      EXPECT_EQ(node->Apply(deletion), "deleted");
    }
    Declare(deletion);
  }
  int64_t HighestOf(const std::string& id) {
    int64_t highest = file_[id].version;
    for (auto& node : nodes_) highest = std::max(highest, node->HighestOf(id));
    return highest;
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<OrderedNode>> nodes_;
  File file_;
  std::vector<File> old_files_;
};

class ScheduleOrdersTest : public testing::TestWithParam<int> {};

TEST_P(ScheduleOrdersTest, NothingDeletedComesBackAndTheFileWins) {
  for (int i = 0; i < OrdersOfPart(); ++i) {
    const int seed = GetParam() + kParts * i + 1;
    SCOPED_TRACE(StrCat("seed ", seed));
    OrderedCluster cluster(static_cast<uint64_t>(seed));
    for (int step = 0; step < kStepsOfOrder; ++step) cluster.Step();
    cluster.ApplyEverywhere();
    if (testing::Test::HasFailure()) break;
  }
}
INSTANTIATE_TEST_SUITE_P(Parts, ScheduleOrdersTest, testing::Range(0, kParts));

}  // namespace
}  // namespace profd
