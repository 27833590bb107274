// Checks the IDs in a daemon's answer before anything else reads them: they become file names,
// arguments of further calls, and candidates of shell completion. A daemon is not trusted with
// any of these: it may be another user's, or taken over.
//
// Every answer passes here (daemon_client_impl.h), and the fields are found by their names, so a
// message or a field that is added is checked, too.
//
// Threads: any. Errors: DATA_LOSS names the message, the field, and the value.
#ifndef PROFD_CLI_CLIENT_ANSWER_CHECK_H_
#define PROFD_CLI_CLIENT_ANSWER_CHECK_H_

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace profd::cli {

// Checks `answer` and all messages in it:
//   captures, groups, schedules   "captures/ULID"; empty where a field may be unset
//   targets                       "targets/NUMBER"; empty for a capture without one
absl::Status CheckAnswer(const google::protobuf::Message& answer);

}  // namespace profd::cli

#endif  // PROFD_CLI_CLIENT_ANSWER_CHECK_H_
