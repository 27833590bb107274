// Server: a gRPC server with all the services of profd, for callers of one kind: those of the
// local socket have one, remote ones another. So they share no limit of gRPC's (memory,
// streams, ages of connections): what remote callers use up is not what local ones need.
//
//   connection ──► Server ──► gRPC ──► Admission (who is it?) ──► services ──► work queues
//
// Threads:   Start(), Close() and Shutdown() by the owner. One thread of its own ("profd-grpc"),
//            which moves completions; and gRPC's.
// Ownership: the queues, the watchdog, and what the services refer to, must outlive it.
// Shutdown:  Close() of all servers, then Shutdown(); only then may the queues be stopped.
#ifndef PROFD_DAEMON_RPC_SERVER_SERVER_H_
#define PROFD_DAEMON_RPC_SERVER_SERVER_H_

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "daemon/base/watchdog.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/rpc/server/rpc_service.h"

namespace profd::rpc {

class Server {
 public:
  // Makes the services behind `admission`; called once, within Start().
  using MakeServices =
      std::function<std::vector<std::unique_ptr<RpcService>>(Admission& admission)>;

  Server(Admission::Limits limits, Admission::Identifier identifier, Admission::RulesSource rules,
         AuditLog& audit, WorkQueue& work, worker::ReportPool& reports,
         Watchdog* watchdog = nullptr);
  ~Server();  // Calls Shutdown(0), unless it was called.

  // Completes `builder`, which has its limits and, if it listens by gRPC's means, its
  // credentials, and serves from when it returns.
  absl::Status Start(grpc::ServerBuilder& builder, const MakeServices& make_services);

  grpc::Server& server() { return *server_; }

  // New calls are turned away, and streams that never end by themselves do.
  void Close();
  // Returns when no call is left; those that run after `deadline` (deadline.h) are cancelled.
  void Shutdown(gpr_timespec deadline);

 private:
  void CompletionLoop();
  void WakeCompletionLoop();

  const Admission::Limits limits_;
  const Admission::Identifier identifier_;
  const Admission::RulesSource rules_;
  AuditLog& audit_;
  WorkQueue& work_;
  worker::ReportPool& reports_;
  Watchdog* const watchdog_;  // nullptr: not watched.
  // In the order of their start.
  std::unique_ptr<grpc::ServerCompletionQueue> completions_;
  std::unique_ptr<Admission> admission_;
  std::vector<std::unique_ptr<RpcService>> services_;
  std::unique_ptr<grpc::Server> server_;
  grpc::Alarm question_;               // The watchdog's.
  std::atomic<bool> is_asked_{false};  // Its completion is still to come.
  std::jthread completion_thread_;
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_SERVER_H_
