// Shows profd what gRPC receives by TLS: decrypted, and before gRPC sees it. So the limits of
// caller_traffic.h hold for callers with certificates as they do on control.sock. gRPC 1.51 has no
// interface for that, so this file's .cc defines SSL_read(), which gRPC calls for every read, for
// the whole process. It calls OpenSSL's; only sessions that this process serves are looked at.
//
//   recvmsg() ─► OpenSSL ─► SSL_read() here ─► CallerMeter ─► gRPC
//                                                  └─► too much: gRPC gets an error, and closes
//
// The budget belongs to the names in a certificate (its subject and alternative names), whatever
// its key and number, over all connections and ports of this process.
//
// Rejected: to end TLS in a relay of our own. It would cost two more thread switches per message
// and a copy, and gRPC would no longer know who its peer is.
//
// Threads: any. What is kept of a session ends with it.
#ifndef PROFD_DAEMON_RPC_ADMISSION_TLS_RECEIVE_HOOK_H_
#define PROFD_DAEMON_RPC_ADMISSION_TLS_RECEIVE_HOOK_H_

#include <cstdint>

namespace profd::rpc {

// Connections that ended because their callers sent too much.
int64_t TlsConnectionsEnded();

// Whether SSL_read() is this one for other libraries. False: this build of profd is wrong. That
// gRPC calls it, hostile_socket_test.RapidResetOverMutualTlsTest shows.
bool TlsReceiveHookIsInPlace();

}  // namespace profd::rpc

#endif  // PROFD_DAEMON_RPC_ADMISSION_TLS_RECEIVE_HOOK_H_
