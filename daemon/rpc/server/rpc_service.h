// RpcService is one service of proto/profd/v1 as a server sees it.
//
// Threads: Serve() by the server's owner, once.
#ifndef PROFD_DAEMON_RPC_SERVER_RPC_SERVICE_H_
#define PROFD_DAEMON_RPC_SERVER_RPC_SERVICE_H_

namespace grpc {
class Service;
}

namespace profd::rpc {

class RpcService {
 public:
  virtual ~RpcService() = default;
  virtual grpc::Service& grpc_service() = 0;  // To be registered with the server.
  virtual void Serve() = 0;                   // Call once, after the server was started.
};

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_SERVER_RPC_SERVICE_H_
