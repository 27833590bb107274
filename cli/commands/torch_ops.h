// `profctl ops --torch`: the operator table as torch.profiler prints it.
#ifndef PROFD_CLI_COMMANDS_TORCH_OPS_H_
#define PROFD_CLI_COMMANDS_TORCH_OPS_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/captures/capture_source.h"
#include "cli/client/invocation.h"

namespace profd::cli {

// INVALID_ARGUMENT (USAGE) for a release that is not known and for what torch's table does not
// have.
absl::Status CheckTorchFlags(const Invocation& invocation);
// Of one capture, by --torch, --group-by, --sort, --limit and --json of `invocation`.
absl::StatusOr<int> ShowTorchOps(Invocation& invocation, CaptureSource& source);

// Ours for torch's name of what the operator table sorts by: "device_total" for "cuda_time_total".
// Empty: it is none of torch's.
std::string_view OwnSortKey(std::string_view torch_key);

}  // namespace profd::cli

#endif  // PROFD_CLI_COMMANDS_TORCH_OPS_H_
