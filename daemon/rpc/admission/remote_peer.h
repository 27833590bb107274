// Who a remote caller is: what its certificate says, once TLS has found that an authority of
// ours signed it and that it holds the key.
//
// Threads: any.
#ifndef PROFD_DAEMON_RPC_ADMISSION_REMOTE_PEER_H_
#define PROFD_DAEMON_RPC_ADMISSION_REMOTE_PEER_H_

#include <grpcpp/security/auth_context.h>

#include "daemon/capture/access.h"

namespace profd::rpc {

// The subject's common name, the DNS names and the SPIFFE id of the certificate. Names that
// are empty, too long or not printable are left out, so no rule can match them. Without a
// verified certificate (a plaintext connection) all is empty: the principal "unknown".
Principal RemotePrincipal(const grpc::AuthContext& context);

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_REMOTE_PEER_H_
