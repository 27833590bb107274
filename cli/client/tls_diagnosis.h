// Why a daemon could not be reached over TCP. gRPC only says that it could not; this tries again
// by itself, once, and looks where it fails: the name, the connection, our trust in the daemon,
// or the daemon's in us.
#ifndef PROFD_CLI_CLIENT_TLS_DIAGNOSIS_H_
#define PROFD_CLI_CLIENT_TLS_DIAGNOSIS_H_

#include "absl/status/status.h"
#include "cli/client/endpoints.h"

namespace profd::cli {

// UNAVAILABLE (NO_DAEMON): no daemon is there, or nothing was found to be wrong; UNAUTHENTICATED
// (NOT_TRUSTED): one of the two does not trust the other. The message says why and what to do.
// Takes some seconds at most.
absl::Status ExplainNoConnection(const Endpoint& endpoint);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_TLS_DIAGNOSIS_H_
