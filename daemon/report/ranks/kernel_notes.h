// What the kernels of NCCL say of their collectives: traces of newer releases have the name, size,
// and group of a collective with its kernel. Traces without operators, and those that begin after
// the launch, have them nowhere else.
//
// Threads: one. Memory: 120 bytes per kernel that is asked for. Errors: the reader's.
#ifndef PROFD_DAEMON_REPORT_RANKS_KERNEL_NOTES_H_
#define PROFD_DAEMON_REPORT_RANKS_KERNEL_NOTES_H_

#include <cstdint>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/report/index/collective_names.h"
#include "daemon/report/ranks/collectives.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct KernelNote {
  Communicator communicator;
  int64_t elements = -1;  // Of the first input; -1: not told.
  int64_t bytes = -1;     // Likewise, or of an unknown type.
  CollectiveKind kind = CollectiveKind::kOther;
};

// By the position of the kernel among the capture's GPU rows; those that say nothing are left out.
absl::StatusOr<absl::flat_hash_map<uint32_t, KernelNote>> ReadKernelNotes(
    store::CaptureReader& reader, std::span<const uint32_t> kernels);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_RANKS_KERNEL_NOTES_H_
