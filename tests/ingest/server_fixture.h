// A TargetServer on a temporary socket directory, and what its tests do with it.
#ifndef PROFD_TESTS_INGEST_SERVER_FIXTURE_H_
#define PROFD_TESTS_INGEST_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "daemon/ingest/target_server.h"
#include "tests/fakes/fake_target.h"
#include "tests/fakes/status_matchers.h"
#include "tests/ingest/ingest_testing.h"

namespace profd {

class TargetServerTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.several_per_process_for_testing = true;
    options_.capture.settle = absl::Milliseconds(5);
    SetLogLevel(LogLevel::kError);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  void Start() { StartAt(dir_.path()); }
  void StartAt(const std::filesystem::path& socket_dir) {
    auto server = TargetServer::Create(socket_dir, options_, ledger_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    server_->Start(observer_);
  }

  absl::Status Arm(TargetNumber target, const std::string& id, CaptureSink& sink,
                   int64_t memory_bytes = 4 << 20) {
    return server_->Arm(target,
                        {.capture_id = id,
                         .holder = holder_,
                         .memory_bytes = memory_bytes,
                         .gpu = gpu_,
                         .torch = torch_,
                         .time_left = time_left_},
                        sink);
  }
  // Arms and fires one that answers in the background.
  void ArmAndFire(FakeTarget& target, TargetNumber number, const std::string& id,
                  const FirePlan& plan, int64_t memory_bytes = 4 << 20) {
    ASSERT_THAT(Arm(number, id, sink_, memory_bytes), IsOk());
    observer_.WaitArmed(id);
    server_->Fire(id, plan);
    target.WaitFired();
  }

  // The only target that is registered now.
  TargetInfo OnlyTarget() {
    std::vector<TargetInfo> list;
    EXPECT_TRUE(Eventually([&] {
      list = server_->List();
      return list.size() == 1;
    }));
    return list.at(0);
  }

  TempDir dir_;
  TargetServer::Options options_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), Clock::Real()};
  // What Arm() asks for, and for whom.
  quota::Principal holder_ = quota::LocalPrincipal(1000, 0);
  GpuSpec gpu_;
  TorchSpec torch_ = {.operators = OperatorMode::kOff};
  absl::Duration time_left_ = absl::InfiniteDuration();
  RecordingObserver observer_;
  RecordingSink sink_;
  std::unique_ptr<TargetServer> server_;
};

inline int64_t Drops(const DrainResult& result, DropReason reason) {
  return result.drops[static_cast<size_t>(reason)];
}

}  // namespace profd

#endif  // PROFD_TESTS_INGEST_SERVER_FIXTURE_H_
