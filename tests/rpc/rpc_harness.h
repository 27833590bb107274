// A real ControlServer on a temporary socket, over the real manager and store and a fake
// target port; and callers of it, also ones of other uids.
#ifndef PROFD_TESTS_RPC_RPC_HARNESS_H_
#define PROFD_TESTS_RPC_RPC_HARNESS_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/control_server.h"
#include "daemon/rpc/services/target_events.h"
#include "daemon/schedule/schedule_runner.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/captures.grpc.pb.h"
#include "profd/v1/export.grpc.pb.h"
#include "profd/v1/node.grpc.pb.h"
#include "profd/v1/reports.grpc.pb.h"
#include "profd/v1/schedules.grpc.pb.h"
#include "profd/v1/targets.grpc.pb.h"
#include "tests/fakes/fake_target_port.h"
#include "tests/fakes/skipping_clock.h"

namespace profd::rpc {

inline constexpr uid_t kNobody = 65534;
inline constexpr int64_t kAnotherUser = 54321;

// An empty folder of mode 0755 that goes away with it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// A child process that ran `change` (returning false: it could not), connected to `socket` and
// waits, so that its connection has a living peer. The test talks through the connection.
class ForeignPeer {
 public:
  ForeignPeer(const std::filesystem::path& socket, const std::function<bool()>& change);
  ~ForeignPeer();

  bool connected() const { return connection_.valid(); }
  pid_t pid() const { return pid_; }
  UniqueFd TakeConnection() { return std::move(connection_); }
  // Ends the child; its connection stays.
  void End();

 private:
  pid_t pid_ = -1;
  UniqueFd connection_;
};

// The five services through one connection.
struct Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : targets(v1::TargetService::NewStub(channel)),
        captures(v1::CaptureService::NewStub(channel)),
        reports(v1::ReportService::NewStub(channel)),
        exports(v1::ExportService::NewStub(channel)),
        node(v1::NodeService::NewStub(channel)),
        schedules(v1::ScheduleService::NewStub(channel)) {}

  std::unique_ptr<v1::TargetService::Stub> targets;
  std::unique_ptr<v1::CaptureService::Stub> captures;
  std::unique_ptr<v1::ReportService::Stub> reports;
  std::unique_ptr<v1::ExportService::Stub> exports;
  std::unique_ptr<v1::NodeService::Stub> node;
  std::unique_ptr<v1::ScheduleService::Stub> schedules;
};

// A call's status and its stable reason.
struct Outcome {
  grpc::Status status;
  std::string reason;
};
std::string ReasonOf(const grpc::ClientContext& context);

MATCHER_P(Fails, code, "fails with code " + std::to_string(code)) {
  *result_listener << arg.status.error_code() << " " << arg.reason << ": "
                   << arg.status.error_message();
  return arg.status.error_code() == code;
}
MATCHER_P2(Fails, code, reason, "fails with code " + std::to_string(code) + " and " + reason) {
  *result_listener << arg.status.error_code() << " " << arg.reason << ": "
                   << arg.status.error_message();
  return arg.status.error_code() == code && arg.reason == reason;
}
MATCHER(Succeeds, "succeeds") {
  *result_listener << arg.status.error_code() << " " << arg.reason << ": "
                   << arg.status.error_message();
  return arg.status.ok();
}

class RpcTest : public testing::Test {
 protected:
  RpcTest();
  ~RpcTest() override;

  // Options may be changed before; SetUp() does it with those of the fixture.
  void StartServer();
  void SetUp() override { StartServer(); }
  // The server is gone after this: what fixtures lend it need not outlive them.
  void TearDown() override;
  std::filesystem::path socket_path() const { return folder_.path() / "control.sock"; }

  std::shared_ptr<grpc::Channel> Connect() const;
  static std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd connection);

  // Calls `stub->*method(request)`; `response` is left as the call made it.
  template <typename Stub, typename Request, typename Response>
  static Outcome Do(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    Outcome outcome;
    outcome.status = (stub.*method)(&context, request, response);
    outcome.reason = rpc::ReasonOf(context);
    return outcome;
  }

  TargetInfo MyTarget(int64_t pid) const;  // Of this process's uid, at step 100.
  TargetInfo TargetOf(int64_t pid, int64_t uid) const;

  // A finished capture with events, put into the store directly: `ranges` ranges named "op"
  // that begin in one step, and an allocation. With `gpu` also what a simulated GPU did: a kernel
  // "k" that an "op" launched, a copy of nobody's, and a wait.
  CaptureRecord StoreCapture(int64_t owner_uid, int64_t ranges = 100,
                             const CaptureSpec& spec = {.steps = 1}, bool gpu = false,
                             const std::string& group_id = "");
  // A capture that ended with nothing.
  CaptureRecord StoreFailedCapture(int64_t owner_uid);

  // Waits until the audit log has a call of `method`: the server has ended it by then.
  bool AwaitEndOf(const std::string& method) const;

  // Takes a live capture that was created through the server to COMPLETE, as ingest would.
  void RunToTheEnd(const std::string& capture_id);

  const int64_t uid_;
  const std::filesystem::path report_program_ =
      std::filesystem::path(std::getenv("PROFD_BUILD_DIR")) / "bin/profd-report";
  TempFolder folder_;
  SkippingClock clock_;
  quota::Ledger ledger_{quota::Limits::ForMemory(int64_t{2} << 30), clock_};
  FakeTargetPort targets_;
  std::unique_ptr<store::CaptureStore> store_;
  std::unique_ptr<CaptureManager> manager_;
  std::unique_ptr<ScheduleRunner> schedules_;
  std::unique_ptr<TargetEvents> news_;
  ControlServerOptions options_;
  std::function<std::shared_ptr<const AccessRules>()> access_rules_;  // Unset: owners and root.
  std::string policy_error_;                       // Set it before calls: the server reads it.
  std::vector<store::OpSummaryRow> op_summaries_;  // Of captures stored from now on.
  std::string rank_summary_;                       // Likewise, of those of groups.
  std::unique_ptr<ControlServer> server_;
  std::unique_ptr<Stubs> me_;  // A connection of this process.
};

}  // namespace profd::rpc

#endif  // PROFD_TESTS_RPC_RPC_HARNESS_H_
