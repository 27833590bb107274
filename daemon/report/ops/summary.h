// The operator table by kind, before sorting and limiting: the common part of SummarizeOps() and
// SummarizeOpProfile().
#ifndef PROFD_DAEMON_REPORT_OPS_SUMMARY_H_
#define PROFD_DAEMON_REPORT_OPS_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/capture/capture_types.h"
#include "daemon/report/index/op_kinds.h"
#include "daemon/report/ops/op_table.h"
#include "daemon/store/file/capture_reader.h"

namespace profd::report {

struct OpSummaryTable {
  OpTable table;                // All rows, unordered.
  std::vector<uint32_t> kinds;  // The first kind of each row.
};

// `kinds` must be built from `reader`. Only by_step and step of `options` have an effect.
absl::StatusOr<OpSummaryTable> SummarizeOpsByKind(store::CaptureReader& reader,
                                                  const OpOptions& options, OpKinds& kinds);

}  // namespace profd::report

#endif  // PROFD_DAEMON_REPORT_OPS_SUMMARY_H_
