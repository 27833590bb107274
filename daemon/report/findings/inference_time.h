// How long the training thread ran operators without gradients: evaluations, and other inference.
//
// PyTorch gives an operator a sequence number if autograd is on, and none below torch.no_grad() and
// torch.inference_mode(). Operators that never have one, such as those that make new tensors, do
// not count, nor do those inside autograd's nodes, optimizers, and other operators.
//
// Threads: one at a time. Errors: the reader's.
// Memory:  per range and operator of the longest stretch.
#ifndef PROFD_DAEMON_REPORT_FINDINGS_INFERENCE_TIME_H_
#define PROFD_DAEMON_REPORT_FINDINGS_INFERENCE_TIME_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/report/findings/scope.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

// Returns it for each of `stretches`. All are 0 if the thread or sequence numbers are not known.
absl::StatusOr<std::vector<int64_t>> InferenceTimes(
    store::CaptureReader& reader, std::span<const FindingScope::Stretch> stretches);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_FINDINGS_INFERENCE_TIME_H_
