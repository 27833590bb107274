// The services of proto/profd/v1, one file each. What they share stands here.
//
// How do I add an RPC?  The method in the .proto; a line in Serve() of its service's .cc and
// the handler it names, with the verb it needs; its row in tests/rpc/access_test.cc. ServeUnary's
// handler runs on the queue it is given: admission.work() for what waits for the manager or the
// disk, a report on a capture file is a line in report_service.cc and a row of
// report_worker/tables.cc.
#ifndef PROFD_DAEMON_RPC_SERVICES_SERVICES_H_
#define PROFD_DAEMON_RPC_SERVICES_SERVICES_H_

#include <functional>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/capture/capture_manager.h"
#include "daemon/quota/ledger.h"
#include "daemon/rpc/admission/admission.h"
#include "daemon/rpc/server/control_server_options.h"
#include "daemon/rpc/server/rpc_service.h"
#include "daemon/rpc/services/target_events.h"
#include "daemon/store/capture_store.h"
#include "profd/v1/node.pb.h"

namespace profd {
class ScheduleRunner;
}

namespace profd::rpc {

struct ServiceParts {
  Admission& admission;
  CaptureManager& manager;
  TargetPort& targets;
  store::CaptureStore& store;
  ScheduleRunner& schedules;
  TargetEvents& target_events;
  quota::Ledger& ledger;
  Clock& clock;
  const ControlServerOptions& options;
  const std::function<NodeFacts()>& node_facts;
};

// One reading of the node's clocks. In node_service.cc.
void ClockToProto(const ServiceParts& parts, v1::Node::Clock& out);

std::unique_ptr<RpcService> NewTargetService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewCaptureService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewReportService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewExportService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewNodeService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewScheduleService(const ServiceParts& parts);
std::unique_ptr<RpcService> NewHealthService(const ServiceParts& parts);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVICES_SERVICES_H_
